"""The audit object: four numbers that are never mixed, reasons for those that are missing, the assumptions."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from jaxpriv import DistortionProblem, leakage, solve
from jaxpriv.errors import InputError, ResourceError
from jaxpriv.statistics.audit import audit_mechanism, audit_pairs, least_utility
from jaxpriv.statistics.confidence import population
from tests.cases import raised, refused
from tests.information import information
from tests.statistics.conftest import JOINTS, MECHANISM

COUNTS = np.random.default_rng(4).multinomial(5000, JOINTS["strong"].ravel()).reshape(3, 4)


def audit(**options):
    return audit_mechanism(MECHANISM, counts=COUNTS, **options)


@pytest.fixture(scope="module")
def found():
    return audit()


def row(audit, name, **parts):
    (one,) = [r for r in audit.rows if r.name == name and all(getattr(r, k) == v for k, v in parts.items())]
    return one


def test_the_four_numbers(found):
    values = {(r.name, r.form, r.order, r.divergence): r.value for r in leakage.report(COUNTS / 5000, MECHANISM).rows}
    assert len(found.rows) == len(values)
    for one in found.rows:
        assert one.fitted == pytest.approx(values[one.name, one.form, one.order, one.divergence], abs=1e-12)
        assert one.fitted <= one.upper <= one.cap
        assert one.gap is None
        assert "gap" in one.why
        assert one.route
        assert one.lower is None
    assert found.confidence == 0.95
    assert found.holds_for == "all mechanisms"
    assert found.utility.lower < found.utility.fitted


def test_the_utility_holds_together_with_the_upper_bounds(found):
    """The divergence ball has a third of the failure, the confidence sets, which give the utility, the rest."""
    sets = population(COUNTS, 0.05 * 2 / 3)
    assert found.utility.lower == pytest.approx(least_utility(sets, MECHANISM)[0, 0], rel=1e-12)
    assert found.utility.lower < least_utility(population(COUNTS, 0.05), MECHANISM)[0, 0]


def test_the_gap_belongs_to_one_measure(found):
    value = row(found, "mutual-information").fitted
    solved = SimpleNamespace(value=value + 1e-9, leakage=value, gap=np.float64(1e-8))
    audited = audit(solution=solved)
    one = row(audited, "mutual-information")
    assert (one.gap, one.stated_gap) == (None, 1e-8)  # whoever edits a file can state any gap
    assert "not verified" in one.why["gap"]
    assert all(one.stated_gap is None for one in audited.rows if one.name != "mutual-information")
    value = row(found, "sibson", order=2.0).fitted
    solved = SimpleNamespace(value=value, leakage=value, gap=0.0)
    audited = audit(solution=solved, objective=leakage.Sibson(2.0))
    assert row(audited, "sibson", order=2.0).stated_gap == 0


def test_the_gap_is_computed_again_from_the_problem(found):
    """Beside held-out records too; an edited gap changes nothing, another problem or mechanism is refused."""
    problem = DistortionProblem(COUNTS / COUNTS.sum(), 1.0 - np.eye(4), budget=0.3)
    solution = solve(problem, tol=1e-7)
    edited = dataclasses.replace(solution, value=solution.lower_bound)
    held_out = np.random.default_rng(9).multinomial(5000, JOINTS["strong"].ravel()).reshape(3, 4)
    options = {"measures": ["mutual-information"], "bootstrap": 0}
    for counts, apart in ((COUNTS, False), (held_out, True)):
        for one in (solution, edited):
            audited = audit_mechanism(
                one.mechanism, counts=counts, held_out=apart, solution=one, problem=problem, **options
            )
            assert audited.rows[0].gap == pytest.approx(float(solution.gap), abs=1e-12)
            assert audited.rows[0].stated_gap is None
    with refused("another mechanism"):
        audit(solution=solution, problem=problem, **options)
    other = DistortionProblem(COUNTS / COUNTS.sum(), 1.0 - np.eye(4), budget=0.1)
    with refused("does not solve problem"):
        audit_mechanism(solution.mechanism, counts=COUNTS, solution=solution, problem=other, **options)


def test_the_measures_named_share_the_confidence(found):
    for held_out in (False, True):
        whole = found if not held_out else audit(held_out=True, bootstrap=0)
        named = audit_mechanism(
            MECHANISM, counts=COUNTS, held_out=held_out, measures=["mutual-information"], bootstrap=0
        )
        assert [one.name for one in named.rows] == ["mutual-information"]
        assert named.rows[0].fitted == pytest.approx(row(whole, "mutual-information").fitted, abs=1e-12)
        upper = row(whole, "mutual-information").upper
        assert named.rows[0].upper < upper if held_out else named.rows[0].upper <= upper * (1 + 1e-9)
    pairs = [audit_pairs(COUNTS, permutations=9, measures=names, bootstrap=0) for names in (None, ["max-lift"])]
    assert pairs[1].rows[0].upper < row(pairs[0], "max-lift").upper
    for bad in ("mutual-information", [], ["nothing"], ["sibson"], ["sibson:x"], ["sibson:2:3"], [1], np.ones(2)):
        with pytest.raises(InputError):
            audit_pairs(COUNTS, measures=bad)
    for name, bad in (("orders", [[1], [1, 2]]), ("orders", 2.0), ("again", None), ("again", 3)):
        with refused(f"^{name} "):
            audit(**{name: bad})


def test_the_bootstrap_is_an_estimate_apart(found):
    """Of mutual information 2 I - q on tables drawn from the frequencies."""
    drawn = np.random.default_rng(0).multinomial(5000, COUNTS.ravel() / 5000, size=200).reshape(-1, 3, 4) / 5000
    values = [information(one @ MECHANISM) for one in drawn]
    one = row(found, "mutual-information")
    assert one.bootstrap == pytest.approx(2 * one.fitted - np.quantile(values, 0.05), abs=1e-9)
    assert one.fitted < one.bootstrap < one.upper
    none = audit(measures=["lift"], bootstrap=0).rows[0]
    assert none.bootstrap is None
    assert "no resampling" in none.why["bootstrap"]
    for bad in (-1, 1.5, 10**9):
        with refused("bootstrap"):
            audit(measures=["lift"], bootstrap=bad)


def test_a_solution_of_something_else_is_refused(found):
    value = row(found, "mutual-information").fitted
    for parts, words in (
        ({"value": 0.3, "leakage": value, "gap": 0.0}, "something else than the leakage"),
        ({"value": 0.3, "leakage": 0.3, "gap": 0.0}, "another mechanism, joint or measure"),
        ({"value": value, "leakage": value, "gap": np.nan}, "gap"),
        ({"value": value, "leakage": value, "gap": -1.0}, "gap"),
        ({"value": "a", "leakage": value, "gap": 0.0}, "solution.value"),
        ({"value": value, "gap": 0.0}, "solution.leakage"),
    ):
        with refused(words):
            audit(solution=SimpleNamespace(**parts))
    solved = SimpleNamespace(value=value, leakage=value, gap=0.0)
    with refused("not among the measures"):
        audit(solution=solved, objective=leakage.Sibson(3.0))
    with refused("no solution"):
        audit(objective=leakage.Sibson(2.0))


def test_a_joint_without_a_sample_has_no_bound_for_a_population():
    audited = audit_mechanism(MECHANISM, joint=JOINTS["weak"])
    assert (audited.confidence, audited.holds_for) == (None, "no sample")
    assert audited.utility.lower is None
    assert audited.assumptions.records is None
    for one in audited.rows:
        assert one.upper is None
        assert "not counted" in one.why["upper"]
        assert one.fitted <= one.cap


def test_assumptions_are_facts_and_statements(found):
    facts = found.assumptions
    assert (facts.records, facts.private, facts.useful, facts.released) == (5000, 3, 4, 4)
    assert facts.least_private == COUNTS.sum(axis=1).min()
    assert facts.empty_cells == np.sum(COUNTS == 0)
    text = " ".join(facts.statements)
    for word in ("independent draws", "same population", "not chosen on these records", "knows the mechanism"):
        assert word in text
    held_out = audit(held_out=True)
    assert held_out.holds_for == "this mechanism"
    assert "fixed without these records" in " ".join(held_out.assumptions.statements)
    unseen = audit_mechanism(MECHANISM, counts=np.vstack([COUNTS[:2], 0 * COUNTS[:1]]))
    assert unseen.assumptions.unseen_private == (2,)
    assert unseen.assumptions.least_private == 0
    assert row(unseen, "maximal-leakage").upper > row(unseen, "maximal-leakage").fitted


def test_pairs():
    counts = np.random.default_rng(1).multinomial(4000, (JOINTS["strong"] @ MECHANISM).ravel()).reshape(3, 4)
    audited = audit_pairs(counts, permutations=199)
    for one in audited.rows:
        assert one.gap is None
        assert one.cap is None
        assert one.fitted <= one.upper
        assert one.lower is None or 0 <= one.lower <= one.upper
        assert {"gap", "cap"} <= set(one.why)
    assert audited.permutation.p_value == 0.005
    assert audited.estimate.interval is not None
    assert audited.assumptions.useful is None
    sparse = audit_pairs(np.array([[3, 1, 0, 1], [0, 2, 1, 0], [1, 0, 0, 2]]), permutations=99)
    assert sparse.estimate.undersampled
    assert all(one.fitted is None and "undersampled" in one.why["fitted"] for one in sparse.rows)
    assert all(one.upper is not None for one in sparse.rows)  # the bounds hold all the same


def test_more_symbols_than_memory(free_memory):
    """A column of a value for each record: refused before its square is allocated."""
    free_memory(400.0)  # the counts, not the audit
    with raised(ResourceError, "an audit of 4 x 4 symbols"):
        audit_pairs(COUNTS)
    with raised(ResourceError, "an audit of 4 x 4 symbols"):
        audit()


@pytest.mark.parametrize("orders", ["x", 2, [True, False], np.ones((1, 2))])
def test_orders_that_are_no_numbers(orders):
    with refused("orders"):
        audit(orders=orders)
