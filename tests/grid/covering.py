"""Which cells the standard run takes: every pair of values of two axes at least once, with few programs to compile.

Greedy, over cells drawn at random with a fixed seed: next comes the cell with the most pairs not yet covered for its
cost, which is small where its program is compiled already. Pairs that some answered cell holds are covered by answered
cells (first by those that ask for some leakage), the other pairs by refused ones. What the interior-point method
compiles for one kind of measure is limited to a few combinations of form, addition and shape (`_SLOTS`).
"""

import functools
import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from .cells import AXES, Cell, measured, refusal
from .measures import MEASURES

Pair = tuple[int, str, int, str]

_DRAWN = 40_000
_TRIED = 8_000  # of the drawn cells, for the next place
_COMPILED = 0.1  # the cost of a cell whose program is compiled already, of 1


def pairs(cell: Cell) -> list[Pair]:
    """The pairs of values that a cell holds."""
    return [(i, cell[i], j, cell[j]) for i, j in itertools.combinations(range(len(cell)), 2)]


_USUAL = ("dense", "zeros", "zero-mass")  # one shape after jaxpriv's reductions
_SLOTS = (
    ("nothing", _USUAL, ("host", "float32")),
    ("limits", ("less",), ("host",)),
    ("distortions", ("more",), ("host",)),
    ("joints", ("equal",), ("host",)),
    ("private-input", ("diagonal",), ("frontier",)),
)


def _interior() -> Iterator[Cell]:
    """Cells of the interior-point method for measures: of every kind of measure one form in every slot."""
    kinds = sorted({reference.kind for reference in MEASURES.values()})
    for (name, reference), (k, (also, structures, transforms)) in itertools.product(
        MEASURES.items(), enumerate(_SLOTS)
    ):
        if reference.linear and 0 < k < 4:
            continue  # `linear-program` compiles nothing
        turn = (kinds.index(reference.kind) + k) % (2 if reference.worst or reference.logarithm else 3)
        form = "budget" if also == "distortions" else ("budget", "leakage-budget", "multiplier")[turn]
        if also == "joints" and form == "multiplier":
            form = "leakage-budget"
        rest = itertools.product(structures, AXES.level, transforms, ("auto", "interior-point"))
        yield from (
            Cell(solver, form, also, name, structure, level, transform) for structure, level, transform, solver in rest
        )


def _light(cell: Cell) -> bool:
    """Whether anything but `_interior` may take the cell."""
    return cell.solver not in ("auto", "interior-point") or not measured(cell)


def program_of(cell: Cell) -> tuple[str, ...]:
    """Cells of one program share what jaxpriv compiles; of an empty tuple nothing is compiled."""
    if cell.solver == "linear-program" or refusal(cell) is not None:
        return ()
    shape = "usual" if cell.structure in _USUAL else cell.structure
    solver = "interior-point" if cell.solver == "auto" else cell.solver
    transform = "host" if cell.transform == "float32" else cell.transform
    return (MEASURES[cell.measure].kind, str(measured(cell)), cell.form, cell.also, shape, solver, transform)


class _Pool:
    """Cells as arrays: which pairs each holds, and the number of its program."""

    def __init__(self, cells: Sequence[Cell], rng: np.random.Generator):
        self.cells, self.rng = cells, rng
        starts = np.cumsum([0, *map(len, AXES)])
        index = [{value: i for i, value in enumerate(axis)} for axis in AXES]
        values = np.array([[index[k][value] for k, value in enumerate(cell)] for cell in cells]) + starts[:-1]
        firsts, seconds = np.triu_indices(len(AXES), 1)
        self.pairs = values[:, firsts] * starts[-1] + values[:, seconds]
        self.all_pairs = starts[-1] ** 2
        numbers = {(): 0}
        self.programs = np.array([numbers.setdefault(program_of(cell), len(numbers)) for cell in cells])

    def cover(self, covered: np.ndarray) -> list[Cell]:
        """Cells that cover every pair of the pool; `covered` (one entry for each pair) is updated."""
        wanted = np.zeros(self.all_pairs, dtype=bool)
        wanted[self.pairs] = True
        compiled = np.zeros(self.programs.max() + 1, dtype=bool)
        compiled[0] = True
        chosen = []
        while (left := np.flatnonzero(wanted & ~covered)).size:
            tried = (
                self.rng.choice(len(self.cells), min(_TRIED, len(self.cells)), replace=False)
                if left.size > 40
                else np.arange(len(self.cells))
            )
            worth = (~covered[self.pairs[tried]]).sum(axis=1) / np.where(compiled[self.programs[tried]], _COMPILED, 1.0)
            best = tried[worth.argmax()]
            if not covered[self.pairs[best]].all():
                chosen.append(self.cells[best])
                compiled[self.programs[best]] = True
                covered[self.pairs[best]] = True
        return chosen


@functools.cache
def standard() -> tuple[Cell, ...]:
    """The cells of the standard run, those of one program together."""
    rng = np.random.default_rng(17)
    drawn = np.stack([rng.integers(len(axis), size=_DRAWN) for axis in AXES], axis=1)
    cells = sorted({Cell(*(axis[i] for axis, i in zip(AXES, row, strict=True))) for row in drawn})
    information = [
        cell._replace(measure="mutual-information") for cell in cells[:: len(MEASURES) // 2] if cell.also != "limits"
    ]
    answered = [cell for cell in {*cells, *information, *_interior()} if refusal(cell) is None]
    inner = set(_interior())
    answered = sorted(cell for cell in answered if cell in inner or _light(cell))
    parts = (
        [cell for cell in answered if cell.level != "beyond"],
        [cell for cell in answered if cell.level == "beyond"],
        [cell for cell in cells if refusal(cell) is not None],
    )
    covered = np.zeros(sum(map(len, AXES)) ** 2, dtype=bool)
    chosen = [cell for part in parts for cell in _Pool(part, rng).cover(covered)]
    return tuple(sorted(chosen, key=lambda cell: (program_of(cell), cell)))
