"""`solve`: optimality conditions, what a status means, arguments, and the same result under JAX's transforms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import jaxpriv as jp
from jaxpriv.program import program_of
from jaxpriv.program.certificates import certify_program
from jaxpriv.testing import DEGENERATE, degenerate, known_problems, random_joint
from tests.cases import assert_one_optimum, distances, drawn_joint, raised, refused, spent, thorough

JOINTS = np.stack([random_joint(seed, 3, 4) for seed in range(4)])
TABLE = distances(4)
KNOWN = {known.name: known for known in known_problems()}
BUDGETS = np.array([0.1, 0.3, 0.5, 0.7])


def problem(joint=JOINTS[0], **form):
    return jp.DistortionProblem(joint, TABLE, **(form or {"budget": 0.3}))


def reduced_costs(solution, program):
    """a(x, y) of the bound, from the solution's own dual object: what each release costs the adversary's way."""
    total = program.cost + np.einsum("r,rxy->xy", solution.multipliers[: len(program.budgets)], program.constraints)
    return total + (solution.scores[0] @ np.concatenate(program.joints)).T


@pytest.mark.parametrize("form", [{"budget": 0.1}, {"multiplier": 0.5}, {"leakage_budget": 0.05}], ids=str)
def test_optimality_conditions(form):
    """Feasible; prices only on limits that are used up; mass only on the cheapest outputs; scores are posteriors."""
    asked = problem(**form)
    program, tol = program_of(asked), 1e-8
    s = jp.solve(asked, tol=tol)
    w = s.mechanism
    assert s.status == "optimal"
    assert w.min() >= 0
    assert_allclose(w.sum(axis=1), 1, atol=1e-14)
    assert s.distortion[0] == pytest.approx(spent(JOINTS[0], TABLE, w), abs=1e-15)
    assert s.leakage == pytest.approx(float(jp.probability.mutual_information(JOINTS[0] @ w)), abs=1e-15)

    prices, weight = s.multipliers, 1.0
    if "leakage_budget" in form:
        prices, weight = s.multipliers[:-1], s.multipliers[-1]
    assert np.all(s.multipliers >= 0)
    # gap = sum of: price x unused budget, mass x excess of its output, leakage minus what the scores see.
    unused = prices @ (program.budgets - np.einsum("rxy,xy->r", program.constraints, w))
    spare = float(weight * (program.limit - s.leakage)) if "leakage_budget" in form else 0.0
    costs = reduced_costs(s, program)
    excess = (w * (costs - costs.min(axis=1, keepdims=True))).sum()
    seen = ((JOINTS[0] @ w).T * s.scores[0]).sum()
    unseen = weight * s.leakage - seen
    for part in (unused, spare, excess, unseen):
        assert -1e-12 <= part <= tol
    assert unused + spare + excess + unseen == pytest.approx(s.gap, abs=1e-11)
    if "budget" in form:
        assert s.multipliers[0] > 0.1  # the budget binds, so the complementarity above says something
    # The scores of outputs that carry mass are the posterior's.
    joint = JOINTS[0] @ w
    posterior = np.log(joint / joint.sum(axis=0) / JOINTS[0].sum(axis=1)[:, None]).T
    used = joint.sum(axis=0) > 1e-3
    assert_allclose(s.scores[0][used] / weight, posterior[used], atol=2e-3)


@pytest.mark.parametrize("name", ["budget", "leakage_budget", "multiplier"])
def test_prices_are_slopes_of_the_optimal_value(name):
    """Finite differences of the optimum; for the multiplier form the slope is the distortion (envelope theorem)."""
    at, h, tol = {"budget": 0.15, "leakage_budget": 0.05, "multiplier": 0.5}[name], 1e-3, 1e-9
    low, here, high = (jp.solve(problem(**{name: at + d}), tol=tol) for d in (-h, 0.0, h))
    slope = (high.value - low.value) / (2 * h)
    expected = {
        "budget": -here.multipliers.sum(),
        "leakage_budget": -here.multipliers.sum(),
        "multiplier": here.distortion[0],
    }
    assert slope == pytest.approx(expected[name], rel=1e-3)


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_families_are_certified(name):
    asked = degenerate(name, 5, seed=1)
    s = jp.solve(asked)
    assert s.status == "optimal"
    assert 0 <= s.gap <= 1e-6
    assert s.distortion[0] <= asked.budget[0] * (1 + 1e-12)
    if name == "independent":
        assert s.value <= 1e-6
    # No shared tolerance: the certificate of the returned objects gives the returned numbers.
    again = certify_program(program_of(asked), s.mechanism, s.scores[0], s.weights, s.multipliers)
    assert (again.value, max(again.lower_bound, 0.0)) == (s.value, s.lower_bound)


# ------------------------------------------------------------------------------- status


def test_one_step_gives_a_wide_interval_and_says_so():
    for solver in ("interior-point", "mirror-descent", "blahut-arimoto"):
        short, full = jp.solve(problem(), solver, max_steps=1), jp.solve(problem())
        assert short.status == "not_certified"
        assert "raise max_steps" in short.message
        assert short.steps == 1
        assert short.gap > 1e-6
        assert_one_optimum(short, full)
        assert short.distortion[0] <= 0.3 + 1e-12
        assert_allclose(short.mechanism.sum(axis=1), 1, atol=1e-12)


def test_orders_far_below_one_need_no_tolerance_beyond_float64():
    """The slope of the value in the total is unbounded there; it was taken where no mechanism leaks as much."""
    joint = drawn_joint(1, 4, 12)
    table = distances(12)
    found = jp.solve(jp.DistortionProblem(joint, table / 12, budget=0.05, leakage=jp.leakage.Sibson(0.05)))
    assert found.status == "optimal"
    assert found.steps < 20  # 200 to a gap of 1e-15


def test_status_and_message():
    s = jp.solve(problem())
    assert (s.status, s.code, s.solver) == ("optimal", jp.Status.OPTIMAL, "interior-point")
    assert s.message == "The certified gap is within the tolerance."
    assert set(s.seconds) == {"compile", "solve"}
    assert isinstance(s.value, np.float64)
    assert isinstance(s.mechanism, np.ndarray)
    none = jp.solve(problem(budget=-1.0), throw=False)
    assert (none.status, none.code) == ("infeasible", jp.Status.INFEASIBLE)
    assert none.gap == np.inf
    assert "No mechanism" in none.message
    labels = ["optimal", "not_certified", "infeasible", "best_known", "stationary"]
    assert [status.label for status in jp.Status] == labels
    assert len({status.message for status in jp.Status}) == 5


def test_a_tolerance_below_resolution_is_not_claimed():
    s = jp.solve(problem(), tol=1e-17)
    assert s.status == "not_certified"
    assert 0 <= s.gap < 1e-9


@pytest.mark.parametrize("tol", [0.0, -1e-6, np.nan, np.inf, True, "1e-6", [1e-6]])
def test_tolerance(tol):
    with refused(r"^tol "):
        jp.solve(problem(), tol=tol)


def test_unknown_solvers_name_the_known_ones():
    with refused(r"^solver 'simplex' is unknown; known: auto, interior-point, mirror"):
        jp.solve(problem(), "simplex")
    with refused(r"^solver must be a name or an object: InteriorPoint\(\), not the class"):
        jp.solve(problem(), jp.InteriorPoint)
    with refused(r"^solver: additive noise has one method"):
        jp.solve(jp.NoiseProblem(np.eye(3) / 3, np.arange(3.0), budget=1.0), "mirror-descent")


def test_memory_is_checked_before_anything_is_built(free_memory):
    """Too large for the interior point: `auto` streams where it can; an explicit request is refused by number."""
    asked = problem()
    free_memory(1.0)
    with raised(jp.ResourceError, r"^interior-point for .* needs 0.0 GiB .*; use solver='accelerated'"):
        jp.solve(asked, "interior-point")
    with raised(jp.ResourceError, r"^mirror-descent for .*use solver='accelerated' or 'two-grid'"):
        jp.solve(asked, "mirror-descent")
    with raised(jp.ResourceError, r"^accelerated for .*merge symbols first"):
        jp.solve(asked)
    free_memory(np.inf)
    assert jp.solve(asked, tol=1e-3).solver == "interior-point"


def test_auto_without_memory_for_factors_takes_mirror_descent_where_nothing_streams(no_tables):
    assert jp.solve(problem(JOINTS[:2], budget=0.3), tol=1e-2).solver == "mirror-descent"
    assert jp.solve(problem(leakage_budget=0.05), tol=1e-2).solver == "mirror-descent"
    assert jp.solve(problem(), tol=1e-2).solver == "accelerated"


# ------------------------------------------------------------------------ JAX transforms


@pytest.fixture(scope="module")
def eager():
    """Certified optima of every budget under the first joint, and of every joint at the first budget."""
    return [jp.solve(problem(budget=b)) for b in BUDGETS], [jp.solve(problem(joint)) for joint in JOINTS]


def assert_alike(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert one.status == "optimal"
        assert 0 <= one.gap <= 1e-6
        assert_one_optimum(one, other)
        assert_allclose(one.mechanism.sum(axis=1), 1, atol=1e-12)


def test_jit_traces_once_and_agrees(eager):
    """Another budget or joint of the same shape is the same compiled program."""
    count = []

    @jax.jit
    def compiled(budget, joint):
        count.append(1)
        return jp.solve(problem(joint, budget=budget))

    assert_alike([compiled(b, JOINTS[0]) for b in BUDGETS], eager[0])
    assert_alike([compiled(BUDGETS[1], joint) for joint in JOINTS], eager[1])
    assert len(count) == compiled._cache_size() == 1


def test_vmap_over_budgets_and_joints(eager):
    budgets = np.concatenate([BUDGETS, np.full(4, 0.3)])
    joints = np.concatenate([np.broadcast_to(JOINTS[0], JOINTS.shape), JOINTS])
    found = jax.jit(jax.vmap(lambda budget, joint: jp.solve(problem(joint, budget=budget))))(budgets, joints)
    assert_alike([found[i] for i in range(8)], eager[0] + eager[1])


@pytest.mark.parametrize("name", ["budget", *thorough("multiplier", "leakage_budget")])
def test_changed_numbers_never_recompile(name, monkeypatch, no_programs):
    monkeypatch.setenv("JAXPRIV_COMPILE", "always")
    assert jp.solve(problem(**{name: 0.07})).seconds["compile"] > 0
    for joint in JOINTS:
        for value in (0.05, np.float32(0.06), 0.08):
            found = jp.solve(problem(joint, **{name: value}), tol=3e-6)
            assert found.seconds["compile"] == 0


def test_a_caller_without_float64_gets_float64_results():
    """Eager solves are certified in float64 and leave the caller's switch where it was."""
    expected = jp.solve(problem())
    with jax.enable_x64(False):
        s = jp.solve(problem())
        curve = jp.frontier(problem(), budgets=BUDGETS).solutions
        assert not jax.config.jax_enable_x64
        assert jnp.zeros(2).dtype == jnp.float32
    assert s.status == "optimal"
    assert (s.value, s.lower_bound) == (expected.value, expected.lower_bound)
    assert s.mechanism.dtype == s.scores.dtype == np.float64
    assert set(curve.status) == {"optimal"}
    assert jax.config.jax_enable_x64


@pytest.mark.parametrize(
    ("solver", "measure"),
    [
        ("mirror-descent", jp.leakage.MutualInformation()),
        *thorough(
            ("mirror-descent", jp.leakage.AverageCostGain(jp.leakage.BrierLoss())),
            ("hybrid-gradient", jp.leakage.Sibson(0.5)),
            ("auto", jp.leakage.FInformation(jp.leakage.ReverseKullbackLeibler())),
            ("accelerated", jp.leakage.Sibson(10.0)),
        ),
    ],
)
def test_bounds_in_single_precision_are_below_the_optimum(solver, measure):
    """Every third joint is independent but for rounding: there a prior whose rounded total is below 1 proved 4e-8."""
    rng = np.random.default_rng(1)
    joints = np.stack([random_joint(rng, 3, 5) for _ in range(48)])
    joints[::3] = joints[::3].sum(axis=2)[:, :, None] * joints[::3].sum(axis=1)[:, None]
    joints, costs = joints.astype(np.float32), distances(5).astype(np.float32)
    exact = joints / joints.sum(axis=(1, 2), keepdims=True, dtype=float)
    budgets = ((exact.sum(axis=1) @ costs).min(axis=1) * rng.uniform(0.5, 0.98, 48)).astype(np.float32)

    def solved(joint, budget):
        return jp.solve(jp.DistortionProblem(joint, costs, budget=budget, leakage=measure), solver, max_steps=60)

    with jax.enable_x64(False):
        found = jax.device_get(jax.jit(jax.vmap(solved))(joints, budgets))
    assert found.value.dtype == np.float32
    assert (found.value - found.lower_bound).mean() < 1e-3
    for k, (joint, budget) in enumerate(zip(exact, budgets, strict=True)):
        optimum = jp.solve(jp.DistortionProblem(joint, costs, budget=float(budget), leakage=measure), tol=1e-9)
        assert float(found.lower_bound[k]) <= optimum.value


@pytest.mark.parametrize("x64", [False, *thorough(True)])
def test_single_precision_under_jit_is_sane_and_its_proof_holds(x64):
    """In float32 the claim is modest; the same mechanism and scores, certified on the host, are an interval."""
    known = KNOWN["binary symmetric channel 0.1, D = 0.1"]
    given = known.problem.joints[0], known.problem.tables()[0], 0.1

    @jax.jit
    def run(joint, table, budget):
        return jp.solve(jp.DistortionProblem(joint, table, budget=budget))

    with jax.enable_x64(x64):
        s = run(*(jnp.asarray(part, jnp.float32) for part in given))
        assert s.value.dtype == jnp.float32
    assert s.status == "optimal"
    assert s.gap <= 1e-4
    assert "float32, where the default tolerance is 0.0001" in s.message
    assert float(s.value) == pytest.approx(known.lower, abs=1e-3)
    mechanism = np.asarray(s.mechanism, dtype=np.float64)
    mechanism /= mechanism.sum(axis=1, keepdims=True)
    proof = certify_program(program_of(known.problem), mechanism, s.scores[0], s.weights, s.multipliers)
    assert proof.lower_bound <= known.lower + 1e-15
    assert proof.violation < 1e-6
    assert known.lower - 1e-6 <= proof.value <= known.lower + 1e-3
    assert proof.lower_bound > known.lower - 1e-3
    exact = jp.solve(known.problem)
    assert exact.gap <= 1e-6
    assert "float32" not in exact.message
