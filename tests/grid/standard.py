"""The standard run as parameters of tests."""

from .cells import Cell
from .covering import standard

PARTS = 2


def part(number: int) -> tuple[Cell, ...]:
    """The cells of one file."""
    return standard()[number - 1 :: PARTS]
