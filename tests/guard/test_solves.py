"""Every convex problem of the guard gives at least what it gave."""

import pytest

from . import solves

_FROZEN = solves.frozen()


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=pytest.mark.guard if solves.takes_seconds(one) else ()) for one in _FROZEN],
)
def test_a_solve_is_no_worse_than_it_was(name):
    assert list(solves.worse(_FROZEN[name], solves.results(name))) == []


def test_the_guard_notices_what_is_worse():
    name = "auto/budget/nothing/mutual-information/dense/inside/host"
    (found,) = solves.results(name)
    assert list(solves.worse(_FROZEN[name], [found])) == []
    for wrong in (
        found._replace(status="not_certified"),
        found._replace(bound=found.bound - 1e-4),
        found._replace(value=found.value + 1e-4, bound=found.bound + 1e-4),
        found._replace(value=float("nan")),
    ):
        assert list(solves.worse(_FROZEN[name], [wrong]))
