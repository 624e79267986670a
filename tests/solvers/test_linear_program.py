"""Linear programs: the vertex of HiGHS, the interior-point method and the first-order method agree."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpriv._runtime.clock import ENDLESS
from jaxpriv.leakage.rule_sets import ENTROPIC, Role
from jaxpriv.program.candidate import Goal
from jaxpriv.solvers._base import iterate
from jaxpriv.solvers.first_order_lp import (
    Dual,
    Primal,
    RestartedHalpern,
    backward,
    forward,
    onto_simplices,
    saddle,
    spectral_norm,
)
from jaxpriv.solvers.interior_point import InteriorPoint
from jaxpriv.solvers.interior_point.candidate import repaired
from jaxpriv.solvers.interior_point.system import rearrange
from jaxpriv.solvers.linear_program import highs
from jaxpriv.solving import loops
from tests.cases import further

from . import linear_cases as cases

LAW, OTHER = cases.joint(0, 4, 6), cases.joint(1, 3, 6)
PROGRAMS = {
    "max-lift": lambda: cases.max_lift(LAW, 0.3),
    "more outputs": lambda: cases.max_lift(LAW, 0.3, 9),
    "lift": lambda: cases.lift(LAW, 0.3),
    "local privacy": lambda: cases.local_privacy(LAW, 0.5),
    "maximal leakage": lambda: cases.leakage_at_budget(LAW, 0.1),
    "limit on maximal leakage": lambda: cases.distortion_at_leakage(LAW, 1.3),
    "guessing": lambda: cases.guessing(LAW, 0.1),
    "total variation": lambda: cases.variation(LAW, 0.1),
    "limit on total variation": lambda: cases.distortion_at_variation(LAW, 0.05),
    "two joints": lambda: cases.two_joints(LAW, OTHER, 0.1),
}
each_program = pytest.mark.parametrize("name", PROGRAMS)


@functools.cache
def vertex(name):
    return highs(PROGRAMS[name]()).candidate


def run(solver, program, tol=1e-8, steps=1000):
    if solver.uncompiled(program):
        return loops.iterate_uncompiled(ENDLESS, solver, program, Goal(tol), steps, lambda *_: None)[0]
    with jax.numpy_rank_promotion("allow"):
        return compiled(solver, tol, steps)(program).best


@functools.cache
def compiled(solver, tol, steps):
    """The loop, traced once for all programs of one structure."""
    return jax.jit(lambda program: iterate(solver, program, Goal(tol), steps))


def check_limits(program, w, atol=1e-12):
    """Worst-outcome rows, budgets and limits on sums, in NumPy."""
    w = np.asarray(w)
    assert (w >= 0).all()
    np.testing.assert_allclose(w.sum(axis=1), 1.0, atol=1e-12)
    for constraint, budget in zip(program.constraints, program.budgets, strict=True):
        assert (np.asarray(constraint) * w).sum() <= budget + atol
    for term in program.terms:
        seen, reference = np.asarray(term.rows) @ w, np.asarray(term.reference)
        if term.role is Role.WORST and term.normalised:
            lowest = (seen[reference > 0] / reference[reference > 0, None]).max(axis=0)
            highest = (seen[reference < 0] / reference[reference < 0, None]).min(axis=0)
            assert (lowest <= highest + atol).all()
        elif term.role is Role.WORST:
            assert (seen <= atol).all()
        elif term.role is Role.AVERAGE:
            phi = np.maximum(seen, 0).sum(axis=0) if term.cap is not None else (seen / reference[:, None]).max(axis=0)
            assert phi.sum() <= term.bound + atol


@each_program
def test_highs_closes_the_gap(name):
    program, candidate = PROGRAMS[name](), vertex(name)
    assert -1e-12 < candidate.gap < 1e-9
    check_limits(program, candidate.mechanism)


# A program of every role, as each takes seconds to compile. Local privacy: of a uniform symbol, below.
ALWAYS = ("max-lift", "maximal leakage", "limit on total variation", "two joints")


@pytest.mark.parametrize(
    ("name", "solver"),
    [
        *(pytest.param(name, InteriorPoint(), id=f"{name}-interior") for name in PROGRAMS),
        *(
            pytest.param(
                name,
                RestartedHalpern(),
                id=f"{name}-first-order",
                marks=() if name in ALWAYS else pytest.mark.thorough,
            )
            for name in PROGRAMS
        ),
    ],
)
def test_iterative_solvers_bracket_the_vertex(name, solver):
    program, exact = PROGRAMS[name](), vertex(name)
    best = run(solver, program)
    assert best.gap <= 1e-8
    assert best.bound <= exact.value + 1e-12
    assert best.value >= exact.bound - 1e-12
    check_limits(program, best.mechanism)


@pytest.mark.parametrize(("n", "ceiling"), [(3, 1.0), (3, 1.5), (5, 2.5), (5, 4.5), (8, 1.0), (8, 3.25), (8, 7.5)])
def test_maximal_leakage_against_hamming_distortion(n, ceiling):
    """S = X: with p sorted and G = e^L, 1 - sum_{i <= floor G} p_i - (G - floor G) p_{floor G + 1}."""
    p = np.sort(np.random.default_rng(n).dirichlet(np.ones(n)))[::-1]
    whole = int(ceiling)
    known = 1.0 - p[:whole].sum() - (ceiling - whole) * p[whole]
    candidate = highs(cases.distortion_at_leakage(np.diag(p), ceiling, 1.0 - np.eye(n))).candidate
    assert candidate.value == pytest.approx(known, abs=1e-9)
    assert candidate.bound == pytest.approx(known, abs=1e-9)


@pytest.mark.parametrize("eps", [0.1, 1.0, 4.0])
def test_local_privacy_of_a_uniform_symbol_is_randomised_response(eps):
    n = 5
    program = cases.local_privacy(np.eye(n) / n, eps, 1.0 - np.eye(n))
    known = (n - 1) / (np.exp(eps) + n - 1)
    candidate = highs(program).candidate
    assert candidate.value == pytest.approx(known, abs=1e-9)
    assert candidate.bound == pytest.approx(known, abs=1e-9)
    best = run(RestartedHalpern(), program)
    assert best.value == pytest.approx(known, abs=1e-8)


def test_entries_outside_the_support_stay_zero():
    program = cases.max_lift(LAW, 2.0)
    near = abs(np.subtract.outer(np.arange(6), np.arange(6))) <= 3
    program = eqx.tree_at(lambda p: p.support, program, jnp.asarray(near))
    feasible_point = np.zeros((6, 6))
    feasible_point[:, 2:4] = 0.5  # within reach of every input
    program = eqx.tree_at(lambda p: p.feasible_point, program, jnp.asarray(feasible_point))
    exact = highs(program).candidate
    best = run(RestartedHalpern(), program)
    assert -1e-12 < exact.gap < 1e-9
    assert best.value == pytest.approx(float(exact.value), abs=1e-8)
    for mechanism in (exact.mechanism, best.mechanism):
        assert not np.asarray(mechanism)[~near].any()


@pytest.mark.parametrize(
    "program",
    [
        cases.leakage_at_budget(LAW, -0.1),
        cases.distortion_at_leakage(LAW, 0.9),
        cases.distortion_at_variation(LAW, -0.05),
    ],
    ids=["budget", "leakage", "variation"],
)
def test_infeasible_programs_have_no_optimum(program):
    assert highs(program) is None


def test_unbounded_programs_have_no_optimum():
    term = cases.linear(LAW, Role.OBJECTIVE, -LAW.sum(axis=1))
    assert highs(cases.program([term], LAW)) is None


def test_what_rounding_exceeds_of_a_limit_without_slack_is_not_mixed_away():
    """A release without slack holds the limit by less than its rounding: a mixture with it would be that release."""
    law, step = np.diag([0.5, 0.25, 0.25]), 2.0**-50
    guessed = cases.linear(law, Role.AVERAGE, np.ones(3), bound=0.5 + step / 4)
    data = rearrange(cases.program([guessed], law, 1.0 - np.eye(3)), dense=True)
    x = np.full((3, 3), [[0.5], [0.25], [0.25]])
    x[0, 0] += step  # max_s P(s, y) sums to 0.5 + step / 2
    with jax.numpy_rank_promotion("allow"):
        np.testing.assert_array_equal(repaired(data, jnp.asarray(x)), x)
        x[0, 0] += 1e-6
        np.testing.assert_allclose(repaired(data, jnp.asarray(x)), data.program.feasible_point.T, atol=1e-6)


def test_smooth_terms_are_refused():
    program = cases.max_lift(LAW, 0.3)
    smooth = dataclasses.replace(program.terms[0], rule_set=ENTROPIC)
    with pytest.raises(ValueError, match="LINEAR"):
        highs(dataclasses.replace(program, terms=(smooth,)))


def test_single_precision():
    program = jax.tree.map(
        lambda leaf: leaf.astype(jnp.float32) if leaf.dtype == jnp.float64 else leaf, PROGRAMS["max-lift"]()
    )
    best = run(RestartedHalpern(), program, tol=1e-5)
    assert best.mechanism.dtype == jnp.float32
    assert best.value == pytest.approx(float(vertex("max-lift").value), abs=2e-5)
    assert best.gap <= 1e-5


def test_a_batch_is_solved_as_each_of_its_members():
    limits = [0.1, 0.3, 1.0]
    members = [cases.max_lift(LAW, eps) for eps in limits]
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)
    with jax.numpy_rank_promotion("allow"):
        best = jax.jit(jax.vmap(lambda one: iterate(RestartedHalpern(), one, Goal(1e-8), 1000)))(batch).best
    for i, member in enumerate(members):
        exact = highs(member).candidate
        assert best.gap[i] <= 1e-8
        assert best.value[i] == pytest.approx(float(exact.value), abs=1e-8)


@pytest.mark.parametrize(
    "name",
    further(PROGRAMS, (*ALWAYS, "local privacy")),
)
def test_the_scaled_map_has_a_transpose_and_norm_at_most_one(name):
    def squares(vector, scale):
        return sum((a * a / f).sum() for a, f in zip(vector, scale, strict=True))

    def inner(one, other):
        return sum((a * b).sum() for a, b in zip(one, other, strict=True))

    @jax.jit
    def measured(program, u, k, price):
        s = saddle(rearrange(program))
        image, back = forward(s, u), backward(s, Dual(k, price))
        shrunk = inner(image, jax.tree.map(jnp.multiply, image, s.scales.phi)) / squares(u, s.scales.theta)
        return inner(image, (k, price)), inner(u, back), spectral_norm(s), shrunk

    program, rng = PROGRAMS[name](), np.random.default_rng(0)
    outputs, inputs = program.cost.shape[1], program.cost.shape[0]
    rows = sum(len(term.rows) for term in program.terms)
    limits = len(program.budgets) + sum(term.priced for term in program.terms)
    shapes = [(outputs, inputs), (outputs, len(program.terms)), (outputs, rows), ()]
    u = Primal(*(jnp.asarray(rng.normal(size=shape)) for shape in shapes))
    k, price = jnp.asarray(rng.normal(size=(outputs, rows))), jnp.asarray(rng.normal(size=limits))
    with jax.numpy_rank_promotion("allow"):
        one, other, norm, shrunk = measured(program, u, k, price)
    assert one == pytest.approx(float(other), rel=1e-10)
    assert 0.0 < norm <= 1.0
    assert shrunk <= 1.0


def test_projection_onto_simplices():
    rng = np.random.default_rng(3)
    points, support = 3.0 * rng.normal(size=(7, 40)), rng.random((7, 40)) < 0.8
    support[0] = True
    for guess in (np.full(40, np.inf), rng.normal(size=40), np.full(40, -50.0)):
        with jax.numpy_rank_promotion("allow"):
            w, level = onto_simplices(jnp.asarray(points), jnp.asarray(support), jnp.asarray(guess))
        np.testing.assert_allclose(w.sum(axis=0), 1.0, atol=1e-14)
        np.testing.assert_allclose(w, np.where(support, np.maximum(points - np.asarray(level), 0.0), 0.0), atol=1e-13)
