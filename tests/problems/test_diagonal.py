"""S = X, and X = f(S) after merging: the interior point takes the joint for the diagonal matrix that it is."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import jaxpriv as jp
from jaxpriv.program import program_of
from jaxpriv.reductions import reduction
from jaxpriv.solvers import Goal
from jaxpriv.solving.choice import newton_bytes, pick_solver
from tests.cases import distances, thorough

N = 6
TABLE = distances(N)
FORMS = {
    "two budgets": {"budget": [0.6, 0.3]},
    "multiplier": {"multiplier": 0.8},
    "leakage budget": {"leakage_budget": 0.4},
}


def _problem(joint, form):
    distortions = [TABLE, (TABLE > 0).astype(float)] if form == "two budgets" else TABLE
    return jp.DistortionProblem(joint, distortions, **FORMS[form])


def reduced(problem):
    return reduction.Reduced.of(program_of(problem), Goal(1.0)).program


@pytest.fixture(scope="module")
def mass():
    return np.random.default_rng(11).dirichlet(np.ones(N))


@pytest.fixture(scope="module")
def query(mass):
    """A private symbol shows one x; several show the same, in no order, and the last has no mass."""
    rng = np.random.default_rng(12)
    label = rng.permutation(np.repeat(np.arange(N), 3))
    joint = np.zeros((3 * N + 1, N))
    for x in range(N):
        joint[np.flatnonzero(label == x), x] = mass[x] * rng.dirichlet(np.ones(3))
    return joint


def test_functions_of_the_private_data_reduce_to_the_diagonal(mass, query):
    program = reduced(_problem(query, "multiplier"))
    assert program.diagonal
    assert_allclose(program.joints[0], np.diag(mass), rtol=1e-14, atol=0)


def test_nothing_else_is_called_diagonal(mass):
    nearly = np.diag(mass)
    nearly[0, 1] = 1e-9
    wide = np.vstack([np.diag(mass), 0.1 * mass])
    for joint in (nearly, wide / wide.sum()):
        assert not reduced(_problem(joint / joint.sum(), "multiplier")).diagonal
    two = np.stack([np.diag(mass), np.diag(mass[::-1])])
    assert not reduced(jp.DistortionProblem(two, TABLE, budget=0.6)).diagonal


@pytest.mark.parametrize("form", ["two budgets", "leakage budget"])  # the multiplier form is the first without any
def test_the_same_answer_as_from_dense_factors(mass, query, form):
    """Same certificate and duals; a private symbol inherits the score of the x that it shows."""
    nearly = np.diag(mass)
    nearly[0, 1] = 1e-13
    joints = np.diag(mass), query, nearly / nearly.sum()
    assert not reduced(_problem(joints[2], form)).diagonal
    diagonal, merged, dense = (jp.solve(_problem(joint, form), "interior-point") for joint in joints)
    shows = query.argmax(axis=1)[:-1]
    assert_allclose(merged.scores[0][:, :-1], diagonal.scores[0][:, shows], rtol=1e-6, atol=1e-9)
    for found in (diagonal, merged):
        assert found.status == dense.status == "optimal"
        assert found.value == pytest.approx(dense.value, abs=1e-10)
        assert found.lower_bound == pytest.approx(dense.lower_bound, abs=1e-10)
        assert_allclose(found.mechanism, dense.mechanism, atol=1e-8)
        assert_allclose(found.multipliers, dense.multipliers, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_masses_of_any_size(seed):
    """A diagonal system needs no differences: masses down to 1e-12 and budgets near both ends are certified."""
    rng = np.random.default_rng(seed)
    mass = 10.0 ** -rng.uniform(0, 12, N)
    mass /= mass.sum()
    idle = (mass @ TABLE).min()
    for share in (1e-4, 0.5, 0.999):
        solution = jp.solve(jp.DistortionProblem(np.diag(mass), TABLE, budget=share * idle))
        assert solution.status == "optimal", share


def test_large_sources_need_no_dense_factors():
    """What the interior-point method would hold, and how long it would take, decide whether `auto` takes it."""
    size = 1000
    mass = np.full(size, 1 / size)
    x = np.arange(size)
    table = jp.distortion.absolute(x, x)
    source = jp.DistortionProblem(np.diag(mass), table, multiplier=1.0)
    other = jp.DistortionProblem(np.diag(mass) * 0.5 + 0.5 * np.outer(mass, mass), table, multiplier=1.0)
    assert newton_bytes(source) < 2**27 < 2**32 < newton_bytes(other)
    loose = Goal(1e-12, 1e-2)
    assert pick_solver("auto", source, loose)[0] == "interior-point"
    assert pick_solver("auto", other, loose)[0] == "two-grid"


@pytest.mark.parametrize("name", ["maximal leakage", *thorough("sibson-2")])
def test_other_measures_of_a_diagonal_joint_have_their_closed_form(monkeypatch, name):
    """Uniform X, Hamming distortion D: by symmetry W is 1 - D on the diagonal and even beside it, so that maximal
    leakage is ln n(1-D) and Sibson's of order 2 is ln n((1-D)^2 + D^2/(n-1))."""
    monkeypatch.setenv("JAXPRIV_COMPILE", "always")  # NumPy takes no kernels
    spent = 0.3
    measure = jp.leakage.MaximalLeakage() if name == "maximal leakage" else jp.leakage.Sibson(2.0)
    inside = 1 - spent if name == "maximal leakage" else (1 - spent) ** 2 + spent**2 / (N - 1)
    found = jp.solve(jp.DistortionProblem(np.eye(N) / N, jp.distortion.hamming(N), budget=spent, leakage=measure))
    assert found.status == "optimal"
    assert found.lower_bound <= np.log(N * inside) <= found.value


@pytest.mark.parametrize("form", FORMS)
def test_a_prior_alone_is_the_diagonal_joint(mass, form):
    one, other = _problem(mass, form), _problem(np.diag(mass), form)
    assert_array_equal(one.joints, other.joints)
    traced = jax.jit(lambda p: _problem(p, form).joints)(mass)
    assert_allclose(traced, other.joints, rtol=1e-6)


def test_a_prior_alone_in_funnels_and_noise(mass):
    for kind, target in ((jp.FunnelProblem, {"disclosure": 0.3}), (jp.BottleneckProblem, {"relevance": 0.3})):
        assert_array_equal(kind(mass, **target).joint, kind(np.diag(mass), **target).joint)
    assert_array_equal(
        jp.NoiseProblem(mass, TABLE[0], budget=1.0).joint, jp.NoiseProblem(np.diag(mass), TABLE[0], budget=1.0).joint
    )


def test_closed_form_of_hamming_distortion():
    """R(D) = ln n - h(D) - D ln(n - 1) nats for n equally likely symbols (Cover and Thomas, problem 10.5)."""
    hamming = (TABLE > 0).astype(float)
    for budget in (0.01, 0.3, 0.7):
        solution = jp.solve(jp.rate_distortion(np.full(N, 1 / N), hamming, budget=budget), tol=1e-9)
        rate = np.log(N) + budget * np.log(budget) + (1 - budget) * np.log1p(-budget) - budget * np.log(N - 1)
        assert solution.lower_bound <= rate + 1e-12
        assert rate <= solution.value + 1e-12
        assert solution.gap <= 1e-9
