"""The two-grid method: a proof about the fine problem whatever the data, tight where the data is smooth."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

import jaxpriv as jp
from jaxpriv.solving import choice
from tests.cases import assert_one_optimum, drawn_joint, refused, thorough

from .conftest import CELLS, DISTORTIONS, line, smooth_joint, smooth_problem

RNG = default_rng(4)
SIZE = 128


def check(problem, solution, exact=None):
    exact = jp.solve(problem, "interior-point", tol=1e-7) if exact is None else exact
    assert_one_optimum(solution, exact)
    if problem.budget is not None:
        assert (solution.distortion <= problem.budget * (1 + 1e-9)).all()
    return exact


SMOOTH = [(kind, SIZE, form) for kind in DISTORTIONS for form in ({"budget": 0.05}, {"multiplier": 1.0})]
SMOOTH += [("absolute", 100, {"budget": 0.05})]  # a size that cells do not divide


@pytest.mark.parametrize(
    ("kind", "size", "form"),
    [
        case
        if case[1] != SIZE or ("multiplier" in case[2] and case[0] != "squared")
        else pytest.param(*case, marks=pytest.mark.thorough)
        for case in SMOOTH
    ],
    ids=str,
)
def test_smooth_ordered_data_is_certified_from_few_cells(kind, size, form):
    problem = smooth_problem(size, 3, kind, **form)
    solution = jp.solve(problem, CELLS, tol=1e-12, rtol=1e-2)
    assert solution.status == "optimal"
    assert solution.solver == "two-grid"
    coset = getattr(solution.mechanism, "first", solution.mechanism)  # a mixture where a budget was repaired
    assert coset.moves.shape[0] <= 64
    check(problem, solution)


@pytest.mark.parametrize("kind", ["absolute", *thorough("squared")])
@pytest.mark.parametrize("y", [np.linspace(0.0, 1.0, 100), *thorough(None)])
def test_uneven_values_and_two_alphabets(y, kind):
    """The proof holds, and finer cells tell more, where no place in a cell can be kept exactly."""
    make = {"absolute": jp.distortion.absolute, "squared": jp.distortion.squared}[kind]
    x = np.sort(RNG.beta(2, 3, SIZE))
    problem = jp.DistortionProblem(smooth_joint(SIZE, 3), make(x, y), multiplier=2.0)
    gaps, exact = [], None
    for cells in (32, 64):
        solution = jp.solve(problem, jp.TwoGrid(cells=cells, most_cells=cells), tol=1e-9)
        exact = check(problem, solution, exact)
        gaps.append(solution.gap)
    assert gaps[1] < 0.85 * gaps[0]


@pytest.mark.thorough
@pytest.mark.parametrize("y", [None, "even", "inside", "beyond"])
def test_values_at_random_places_are_certified_like_even_ones(y):
    """Keeping a DIFFERENCE to the cell's middle would tell how wide the cell is: 15 % above the optimum here."""
    size = 500
    x = np.sort(default_rng(0).uniform(size=size))
    places = default_rng(0).uniform(size=(5, 1))
    joint = np.exp(-((x - places) ** 2) / 0.05) + 0.02
    released = {
        None: None,
        "even": line(size),
        "inside": 0.3 + 0.3 * line(300),
        "beyond": 2 * line(700) - 0.5,
    }[y]
    problem = jp.DistortionProblem(joint / joint.sum(), jp.distortion.absolute(x, released), multiplier=3.0)
    solution = jp.solve(problem, "two-grid", tol=1e-12, rtol=4e-3)
    assert solution.status == "optimal"
    assert_allclose(solution.mechanism.matrix().sum(axis=1), 1.0, atol=1e-12)
    other = jp.solve(problem, "accelerated", tol=1e-12, rtol=1e-3)
    assert_one_optimum(solution, other)


@pytest.mark.parametrize(
    ("x", "y", "price"),
    [
        ([0.5], np.arange(60) / 60, 100.0),
        *thorough((default_rng(1).uniform(size=60), np.arange(600) / 600, 8.0)),
        *thorough((np.arange(8) / 8, np.arange(200) / 200, 8.0)),
        *thorough((1.7e9 + np.arange(128.0), 1.7e9 + 0.3 + np.arange(512) / 4, 0.02)),
    ],
    ids=["one", "random", "few", "times"],
)
def test_an_alphabet_finer_than_the_data_is_refined_to_its_symbols(x, y, price):
    """A cell of Y holds no more symbols than one of X, so that nothing is spread in the end."""
    x = np.asarray(x)
    middles = np.linspace(x.min(), x.max(), 4)[:, None]
    joint = np.exp(-((x - middles) ** 2) / (0.1 + np.ptp(x) ** 2 / 20)) + 0.02
    problem = jp.DistortionProblem(joint / joint.sum(), jp.distortion.absolute(x, y), multiplier=price)
    solution = jp.solve(problem, "two-grid", tol=1e-9, rtol=2e-3)
    assert solution.status == "optimal"
    check(problem, solution)


def test_the_order_of_the_symbols_does_not_matter():
    """Symbols are ordered by their values, not by their numbers: those of X, and those of Y apart from them."""
    joint, shuffle = smooth_joint(SIZE, 3), RNG.permutation(SIZE)
    solver = jp.TwoGrid(cells=32, most_cells=32)
    one = jp.solve(jp.DistortionProblem(joint, jp.distortion.absolute(line(SIZE)), multiplier=1.0), solver)
    two = jp.solve(
        jp.DistortionProblem(joint[:, shuffle], jp.distortion.absolute(line(SIZE)[shuffle]), multiplier=1.0), solver
    )
    assert_allclose(two.value, one.value, rtol=1e-9)
    assert_allclose(two.lower_bound, one.lower_bound, rtol=1e-9)
    assert_allclose(two.mechanism.matrix(), one.mechanism.matrix()[shuffle][:, shuffle], atol=1e-9)
    moved = jp.distortion.absolute(line(SIZE), line(SIZE)[shuffle])
    two = jp.solve(jp.DistortionProblem(joint, moved, multiplier=1.0), solver)
    assert_allclose([two.value, two.lower_bound], [one.value, one.lower_bound], rtol=1e-9)
    assert_allclose(two.mechanism.matrix(), one.mechanism.matrix()[:, shuffle], atol=1e-9)


def test_halving_the_cells_quarters_the_gap_on_smooth_data():
    problem = smooth_problem(SIZE, 3, multiplier=1.0)
    gaps = [jp.solve(problem, jp.TwoGrid(cells=c, most_cells=c), tol=1e-6).gap for c in (32, 64)]
    assert 3.0 < gaps[0] / gaps[1] < 5.5


@pytest.fixture
def rough():
    joint = drawn_joint(RNG, 3, SIZE, 0.5)
    return jp.DistortionProblem(joint, jp.distortion.absolute(line(SIZE)), budget=0.02)


def test_rough_data_keeps_a_valid_interval(rough):
    """Roughness within the cells shows as a gap that stops falling; the interval stays valid."""
    solution = jp.solve(rough, CELLS, tol=1e-4)
    assert solution.status == "not_certified"
    check(rough, solution)


def test_auto_falls_back_and_says_so(rough, no_tables, few_cells):
    solution = jp.solve(rough, tol=1e-4)
    assert solution.status == "optimal"
    assert solution.notes[0].startswith("auto: two-grid first")
    assert any("auto: accelerated next" in note for note in solution.notes)
    check(rough, solution)


def test_auto_ends_with_the_interior_point_where_it_fits(no_tables, monkeypatch):
    monkeypatch.setitem(choice.SOLVERS, "accelerated", jp.AcceleratedMirrorDescent(single=True, patience=3))
    joint, table = drawn_joint(RNG, 4, 20, 0.5), RNG.uniform(size=(20, 20))
    solution = jp.solve(jp.DistortionProblem(joint, table, budget=0.2), tol=1e-7)
    assert solution.status == "optimal"
    assert solution.solver == "interior-point"
    assert solution.notes[0] == "auto: accelerated, because distortion[0] orders no symbols: " + (
        "two-grid needs absolute, squared or hamming of one number"
    )
    assert solution.notes[-1].startswith("auto: interior-point last")


def test_auto_goes_to_tables_where_streaming_does_not_suit(few_cells):
    """Negative costs, budgets that no single release meets, a choice between cheapest symbols."""
    joint, a = drawn_joint(RNG, 3, 8, 0.5), RNG.uniform(size=(8, 8))
    tied = np.ones((8, 6))
    tied[np.arange(8), np.arange(8) % 6] = tied[np.arange(8), (np.arange(8) + 1) % 6] = 0.0
    for costs, budget in ((a - 0.5, 0.0), ([a, 1 - a], [0.5, 0.51]), (tied, 0.0)):
        problem = jp.DistortionProblem(joint, costs, budget=budget)
        solution = jp.solve(problem, rtol=1e-3)
        assert solution.status == "optimal"
        assert solution.notes[-1].startswith("auto: interior-point, because ")
        with pytest.raises(jp.InputError):
            jp.solve(problem, "accelerated", rtol=1e-3)


def test_a_frontier_by_auto_stays_on_tables(few_cells):
    problem = smooth_problem(12, 3, budget=0.1)
    curve = jp.frontier(problem, budgets=[0.05, 0.1], rtol=1e-2)
    assert curve.solutions.solver == "interior-point"
    assert (curve.solutions.status == "optimal").all()


def test_a_checkpoint_skips_the_grids_that_are_complete(tmp_path, often):
    asked = smooth_problem(SIZE, 3, budget=0.1)
    path, steps = tmp_path / "state.npz", []
    whole = jp.solve(asked, CELLS, tol=1e-4)
    early = jp.solve(asked, CELLS, tol=1e-4, checkpoint=path, max_steps=int(whole.steps) - 2)
    assert (early.status, early.steps) == ("not_certified", whole.steps - 2)
    again = jp.solve(asked, CELLS, tol=1e-4, checkpoint=path, progress=lambda record: steps.append(record.step))
    assert again.status == whole.status
    assert (again.value, again.lower_bound, again.steps) == (whole.value, whole.lower_bound, whole.steps)
    assert len(steps) <= 2  # the complete runs are not repeated


def test_auto_takes_the_quick_way_for_loose_relative_tolerances(few_cells):
    problem = smooth_problem(SIZE, 3, budget=0.05)
    assert jp.solve(problem, rtol=1e-2).solver == "two-grid"
    assert jp.solve(problem, rtol=1e-5).solver == "interior-point"


@pytest.mark.parametrize(
    ("distortion", "message"),
    [
        (lambda: RNG.uniform(size=(8, 8)), r"^distortion\[0\] orders no symbols: two-grid needs"),
        (lambda: jp.distortion.changed_attributes(np.eye(8)[:, :2]), r"^distortion\[0\] orders no symbols"),
        (lambda: jp.distortion.from_function(lambda a, b: abs(a[0] - b[0]), line(8)), "orders no symbols"),
        (
            lambda: jp.distortion.absolute(np.repeat(line(4), 2)),
            r"^distortion\[0\] gives several symbols the same value",
        ),
        (
            lambda: [jp.distortion.absolute(line(8)), jp.distortion.squared(2 * line(8))],
            r"^distortion\[1\] measures other values than distortion\[0\]",
        ),
    ],
)
def test_unordered_data_is_refused(distortion, message):
    given = distortion()
    price = [1.0, 1.0] if isinstance(given, list) else 1.0
    problem = jp.DistortionProblem(smooth_joint(8, 2), given, multiplier=price)
    with refused(message):
        jp.solve(problem, "two-grid")
