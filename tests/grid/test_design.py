"""The standard run holds every pair of values; the checker rejects what is wrong."""

import itertools

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv.leakage import exact_values
from tests.cases import drawn_joint

from .cells import AXES, Cell, data_of, refusal
from .covering import class_of, covering, pairs
from .judge import ALTERNATIVE, Found, judge, run
from .measures import MEASURES

DENSE = Cell("auto", "leakage-budget", "nothing", "mutual-information", "dense", "inside", "host")


def _by_class(cells):
    """The pairs of values that the cells hold, measures by their class."""
    return {pair for cell in cells for pair in pairs(cell._replace(measure=class_of(cell.measure)))}


def test_every_pair_of_values_is_in_the_standard_run():
    cells = covering()
    axes = list(enumerate(AXES._replace(measure=sorted({class_of(name) for name in MEASURES}))))
    every = {(i, a, j, b) for (i, first), (j, second) in itertools.combinations(axes, 2) for a in first for b in second}
    assert every == _by_class(cells)
    answered = [cell for cell in cells if refusal(cell) is None]
    for measure in MEASURES:  # a measure that is refused everywhere would be covered by refusals
        own = [cell for cell in answered if cell.measure == measure]
        assert {cell.level for cell in own} == set(AXES.level)
        assert {"dense", "zeros", "zero-mass"} <= {cell.structure for cell in own}


@pytest.mark.parametrize("name", MEASURES)
def test_a_tangent_lies_below_its_column_and_touches_it(name):
    reference = MEASURES[name]
    rng = np.random.default_rng(0)
    prior = rng.dirichlet(np.full(4, 5.0))
    columns = rng.dirichlet(np.full(4, 0.7), 50) * rng.random((50, 1)) + 1e-6
    for at in rng.dirichlet(np.full(4, 2.0), 20) + 1e-3:
        if reference.cone is not None:
            eps = reference.column(at, prior) / at.sum()
            assert (reference.cone(eps + 1e-9, prior) @ at).max() <= 0
            assert (reference.cone(eps - 1e-6, prior) @ at).max() > 0
            continue
        pool = reference.facets(prior) if reference.tangent is None else reference.tangent(at, prior)[None]
        assert (pool @ at).max() == pytest.approx(reference.column(at, prior), rel=1e-12)
        for w in columns:
            assert (pool @ w).max() <= reference.column(w, prior) + 1e-12


@pytest.mark.parametrize("name", MEASURES)
def test_two_definitions_of_a_measure_agree(name):
    """The checker's formula and the library's own."""
    rng = np.random.default_rng(1)
    joint = np.pad(drawn_joint(rng, 3, 4), ((0, 1), (0, 0)))
    mechanism = rng.dirichlet(np.ones(5), 4)
    (value,) = exact_values((MEASURES[name].asked(joint.sum(axis=1)),), joint, mechanism)
    if name == "sampled":  # P(x|s) of a symbol that no sample showed is not known
        assert value == np.inf
        joint = joint[:3]
        (value,) = exact_values((MEASURES[name].asked(joint.sum(axis=1)),), joint, mechanism)
    assert MEASURES[name].of(joint, mechanism) == pytest.approx(value, rel=1e-9, abs=1e-12)


def _wrong_solutions(found: Found) -> dict[str, Found]:
    flat = np.full_like(found.mechanism, 1.0 / found.mechanism.shape[1])
    tilted = found.mechanism.copy()
    tilted[0] = np.roll(tilted[0], 1)
    return {
        "a bound above the optimum": found._replace(bound=found.value + 1e-4, value=found.value + 1e-4),
        "a value below the mechanism's": found._replace(value=found.value - 1e-4, bound=found.bound - 1e-4),
        "a mechanism that is not optimal": found._replace(
            mechanism=0.5 * (flat + found.mechanism),
            value=found.value + 10.0,
            bound=found.value + 10.0 - 1e-7,
        ),
        "a mechanism beyond the limit": found._replace(mechanism=np.eye(4)),
        "another mechanism": found._replace(mechanism=tilted),
        "rows that do not sum to one": found._replace(mechanism=0.99 * found.mechanism),
        "NaN": found._replace(mechanism=np.full_like(flat, np.nan)),
        "a gap above the tolerance": found._replace(bound=found.bound - 1e-3),
        "an unknown status": found._replace(status="best_known"),
    }


@pytest.mark.parametrize("form", AXES.form)
@pytest.mark.parametrize("measure", ["mutual-information", "max-information", "chi-squared", "lift"])
def test_the_checker_rejects_what_is_wrong(form, measure):
    cell = DENSE._replace(form=form, measure=measure)
    if refusal(cell) is not None:
        pytest.skip("the form is refused")
    ((data, found),) = run(cell)
    assert data is data_of(*cell[1:6])
    assert judge(cell, data, found) == []
    for name, wrong in _wrong_solutions(found).items():
        assert judge(cell, data, wrong), name


@pytest.mark.parametrize("form", [{"budget": 0.3}, {"multiplier": 1.0}, {"leakage_budget": 0.3}], ids=str)
@pytest.mark.parametrize("measure", [lk.LeakageEnvelope(0.1), lk.MaximalAlphaLeakage(2.0, 3.0)], ids=str)
def test_what_is_measured_and_never_designed_for_is_refused_with_another_way(measure, form):
    joint = np.full((2, 3), 1.0 / 6.0)
    with pytest.raises(jp.InputError, match=ALTERNATIVE):
        jp.solve(jp.DistortionProblem(joint, 1.0 - np.eye(3), leakage=measure, **form))
