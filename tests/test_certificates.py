"""The certificate: a bound that holds whatever it is given, tight where it should be, and a value that is the value."""

import ast
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.random import default_rng
from numpy.testing import assert_allclose

import jaxpriv as jp
from jaxpriv.program import Form, program_of
from jaxpriv.program.certificates import certify_noise, certify_program
from jaxpriv.testing import binary_entropy, known_problems, random_joint, random_mechanisms
from tests.cases import distances
from tests.information import certify, duals, information, program_on

SEEDS = st.integers(0, 2**32 - 1)
KNOWN = {known.name: known for known in known_problems()}
# One instance of each form, with the adversary's rule that proves its optimum.
FORMS = {
    "budget": "uniform source, Hamming, D = 0.2",
    "multiplier": "uniform source, Hamming, multiplier 0.5",
    "channel": "binary symmetric channel 0.1, D = 0.1",
    "worst": "two binary symmetric channels",
    "limit": "binary symmetric channel 0.1, leakage 0.05",
}


def symmetric(n, hit, miss):
    """`hit` on the diagonal, `miss` elsewhere."""
    return np.where(np.eye(n, dtype=bool), hit, miss)


def closed_form(form):
    """(program, optimum, mechanism, k, eta, price): all optimal, none from a solver."""
    known = KNOWN[FORMS[form]]
    program, m = program_of(known.problem), 5
    weights = np.ones(len(program.joints))
    if form in ("budget", "multiplier"):
        d = 0.2 if form == "budget" else (m - 1) / (m - 1 + np.exp(0.5))
        mechanism = symmetric(m, 1 - d, d / (m - 1))
        scores = np.log(m * mechanism)[None]
        price = np.log((1 - d) * (m - 1) / d)
        return program, known.lower, mechanism, *duals(program, scores, weights, np.full(len(program.budgets), price))
    delta = 0.1
    d = known.lower if form == "limit" else 0.1
    q = d * (1 - delta) + delta * (1 - d)
    mechanism, price = symmetric(2, 1 - d, d), np.log((1 - q) / q) * (1 - 2 * delta)
    scores = np.log(2 * symmetric(2, 1 - q, q))
    if form == "channel":
        return program, known.lower, mechanism, *duals(program, scores[None], weights, [price])
    if form == "limit":
        return program, known.lower, mechanism, *duals(program, scores[None], [1 / price], [])
    # The cleaner of the two channels carries all the weight; the other's scores do not matter.
    return program, known.lower, mechanism, *duals(program, [scores, 0 * scores], [1.0, 0.0], [price, 0.0])


OPTIMA = {form: closed_form(form) for form in FORMS}


def slow_bound(program, scores, weights, multipliers):
    """The bound of the module's docstring, one output at a time; the arguments must be proper."""
    total = -(multipliers @ program.budgets) - weights.sum() * program.limit
    rules = []
    for joint, rule in zip(program.joints, scores, strict=True):
        prior = joint.sum(axis=1)
        seen = prior > 0
        rules.append([np.where(seen, g - np.log(prior[seen] @ np.exp(g[seen])), 0.0) for g in rule])
    for x in range(program.cost.shape[0]):
        costs = []
        for y in range(program.cost.shape[1]):
            cost = program.cost[x, y] + multipliers @ program.constraints[:, x, y]
            for k, joint in enumerate(program.joints):
                cost += weights[k] * (joint[:, x] @ rules[k][y])
            costs.append(cost)
        total += min(costs)
    return total


@pytest.mark.parametrize("form", FORMS)
def test_tight_at_closed_form_optima(form):
    program, optimum, mechanism, *dual = OPTIMA[form]
    certificate = certify_program(program, mechanism, *dual)
    assert certificate.violation == 0
    # Rounded outwards, by no more than rounding. 2e-16 is that of the closed form itself.
    assert certificate.lower_bound <= optimum + 2e-16 <= certificate.value + 4e-16
    assert certificate.gap <= 2e-13


# What a broken solver may hand over, from a proper dual object.
GARBAGE = {
    "noise": lambda rng, a: a + rng.normal(size=a.shape),
    "small noise": lambda rng, a: a + 1e-3 * rng.normal(size=a.shape),
    "tiny noise": lambda rng, a: a * (1 + 1e-9 * rng.normal(size=a.shape)),
    "large": lambda rng, a: 1e3 * rng.normal(size=a.shape),
    "huge": lambda rng, a: 1e300 * rng.normal(size=a.shape),
    "largest": lambda rng, a: np.finfo(float).max * rng.choice([-1.0, 1.0], size=a.shape),
    "offset": lambda rng, a: a + rng.uniform(-650, 650),
    "negated": lambda rng, a: -a,
    "zero": lambda rng, a: 0.0 * a,
    "shuffled": lambda rng, a: rng.permutation(a.ravel()).reshape(a.shape),
    "nan": lambda rng, a: np.where(rng.random(a.shape) < 0.3, np.nan, a),
    "all nan": lambda rng, a: np.full_like(a, np.nan),
    "inf": lambda rng, a: np.where(rng.random(a.shape) < 0.3, np.inf, a),
    "all inf": lambda rng, a: np.full_like(a, np.inf),
    "-inf": lambda rng, a: np.where(rng.random(a.shape) < 0.3, -np.inf, a),
    "all -inf": lambda rng, a: np.full_like(a, -np.inf),
    "mixed": lambda rng, a: rng.choice([np.nan, np.inf, -np.inf, 0.0, 1e308, -1e308, 1e-320, 1.0], size=a.shape),
}


@pytest.mark.parametrize("kind", GARBAGE)
@pytest.mark.parametrize("form", FORMS)
def test_no_dual_object_proves_too_much(form, kind):
    """Whatever the scores, weights and multipliers are, singly or together: a number, and never above the optimum."""
    program, optimum, mechanism, *dual = OPTIMA[form]
    rng, value = default_rng(1), certify_program(program, mechanism, *dual).value
    for which in [(0,), (1,), (2,), (0, 1, 2)]:
        for _ in range(4):
            broken = [GARBAGE[kind](rng, a) if i in which else a for i, a in enumerate(dual)]
            certificate = certify_program(program, mechanism, *broken)
            assert certificate.lower_bound <= optimum + 2e-16, which
            assert certificate.value == value


@pytest.mark.parametrize("kind", GARBAGE)
def test_no_dual_object_proves_too_much_for_noise(kind):
    known = KNOWN["cyclic noise, uniform X, Hamming"]
    noise = np.array([0.8, 0.05, 0.05, 0.05, 0.05])
    scores, price = np.log(5 * symmetric(5, 0.8, 0.05))[None], np.array(np.log(0.8 / 0.05))
    exact = certify_noise(known.problem, noise, scores, price)
    assert exact.lower_bound <= known.lower + 2e-16
    assert exact.gap <= 1e-13
    assert exact.violation == 0
    rng = default_rng(2)
    for _ in range(20):
        broken = GARBAGE[kind](rng, scores), GARBAGE[kind](rng, price)
        for pair in ((broken[0], price), (scores, broken[1]), broken):
            assert certify_noise(known.problem, noise, *pair).lower_bound <= known.lower + 2e-16


@given(SEEDS)
def test_value_and_bound_equal_their_definitions(seed):
    """Random programs of every form, joints with zeros of every kind; the bound is the definition, rounded down."""
    rng = default_rng(seed)
    form = list(Form)[seed % 3]
    groups = 2 if form is Form.WORST else 1
    joints = np.stack([random_joint(rng, 3, 4, zeros=0.5) for _ in range(groups)])
    if seed % 2:  # a private symbol without mass
        joints = np.concatenate([joints, np.zeros((groups, 1, 4))], axis=1)
    limits = int(rng.integers(0, 3))
    cost, constraints, budgets = rng.normal(size=(4, 5)), rng.normal(size=(limits, 4, 5)), rng.normal(size=limits)
    program = program_on(joints, cost, constraints, budgets, form, float(rng.random()) if form is Form.LIMIT else 0.0)
    mechanism = random_mechanisms(rng, 4, 4, 5)[seed % 4]
    scores = rng.normal(size=(groups, 5, joints.shape[1]))
    weights = {Form.OBJECTIVE: np.ones(1), Form.LIMIT: rng.random(1), Form.WORST: rng.dirichlet(np.ones(2))}[form]
    multipliers = rng.random(limits)
    found = certify(program, mechanism, scores, weights, multipliers)

    expected = slow_bound(program, scores, weights, multipliers)
    floor = program.cost.min(axis=1).sum()  # leakage is never negative
    assert found.lower_bound == pytest.approx(max(expected, floor), abs=1e-12)
    assert found.lower_bound <= max(expected, floor)
    leakages = [information(joint @ mechanism) for joint in joints]
    assert_allclose(found.leakages, leakages, atol=1e-13)
    linear = (program.cost * mechanism).sum()
    assert found.value == pytest.approx(linear + (0 if form is Form.LIMIT else max(leakages)), abs=1e-12)
    used = np.array([(c * mechanism).sum() for c in program.constraints])
    assert_allclose(found.constraint_values, used, atol=1e-13)
    over = np.any(used > program.budgets) or (form is Form.LIMIT and leakages[0] > program.limit)
    assert (found.violation > 0) == over


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_steep_prices_of_leakage_magnify_no_rounding(seed):
    """Near leakage 0 scores of order 1/price are multiplied by the price: rounding in e^g must not show."""
    joint = random_joint(seed, 3, 4, zeros=0.3)
    problem = jp.DistortionProblem(joint, distances(4), leakage_budget=0.0)
    program, solution = program_of(problem), jp.solve(problem)
    mechanism, k = solution.mechanism, solution.scores[0]
    least = (program.cost * mechanism).sum()
    independent = np.outer(joint.sum(axis=1), joint.sum(axis=0) @ mechanism)
    assert_allclose(joint @ mechanism, independent, atol=1e-15)
    bounds = []
    for price in 10.0 ** np.arange(3, 15):
        found = certify_program(program, mechanism, k, solution.weights, np.array([price]))
        assert found.lower_bound <= least + 1e-12
        bounds.append(found.lower_bound)
    assert least - max(bounds) < 1e-8


@pytest.mark.parametrize("form", FORMS)
def test_every_entry_of_the_mechanism_counts(form):
    """Mutation: moving mass between any two outputs of any row shows in the value or in the violation."""
    program, _, mechanism, *dual = OPTIMA[form]
    before = certify_program(program, mechanism, *dual)
    inputs, outputs = mechanism.shape
    for x in range(inputs):
        for y in range(outputs):
            for other in set(range(outputs)) - {y}:
                mutant = mechanism.copy()
                mutant[x, y] -= 1e-3
                mutant[x, other] += 1e-3
                after = certify_program(program, mutant, *dual)
                assert after.violation > 0 or after.value > before.value + 1e-9
                assert after.lower_bound == before.lower_bound


def test_violation_is_measured_and_rounding_is_not():
    program, _, mechanism, *dual = OPTIMA["budget"]
    for used, expected in ((0.2, 0.0), (0.2 + 1e-17, 0.0), (0.19, 0.0), (0.2 + 1e-9, 1e-9), (0.3, 0.1)):
        worse = symmetric(5, 1 - used, used / 4)
        # Relative to the size of the constraint: budget + what is used.
        scaled = expected / (0.2 + used)
        assert certify_program(program, worse, *dual).violation == pytest.approx(scaled, rel=1e-3, abs=0)
    program, optimum, mechanism, *dual = OPTIMA["limit"]
    assert certify_program(program, mechanism, *dual).violation == 0
    leaky = symmetric(2, 1 - optimum + 0.01, optimum - 0.01)
    q = (optimum - 0.01) * 0.9 + 0.1 * (1 - optimum + 0.01)
    over = np.log(2) - binary_entropy(q) - 0.05
    # Relative to the limit and to the sizes of what is summed up: the leakage, and P(S,Y).
    assert certify_program(program, leaky, *dual).violation == pytest.approx(over / (over + 1.1), rel=1e-9)
    program, _, mechanism, *dual = OPTIMA["worst"]
    assert certify_program(program, symmetric(2, 0.8, 0.2), *dual).violation > 0.1
    # A mechanism that is no mechanism is no result.
    assert np.isnan(certify_program(program, np.full((2, 2), np.nan), *dual).violation)


# A limit on the leakage, and two joints; the other forms are parts of these.
@pytest.mark.parametrize("form", ["limit", "worst"])
def test_traced_path_equals_the_host_path(form):
    program, _, mechanism, *dual = OPTIMA[form]
    rng = default_rng(4)
    dual[0] = dual[0] + rng.normal(size=dual[0].shape)
    mechanism = 0.9 * mechanism + 0.1 / mechanism.shape[1]
    host = certify_program(program, mechanism, *dual)
    device = jax.jit(certify_program)(program, mechanism, *dual)
    for name in ("value", "lower_bound", "leakages", "constraint_values", "violation"):
        assert_allclose(getattr(device, name), getattr(host, name), rtol=1e-13, atol=1e-14)
    assert float(device.gap) == pytest.approx(host.gap, abs=1e-13)


@pytest.mark.parametrize("form", ["limit", "worst"])
def test_single_precision_rounds_outwards_by_its_own_measure(form):
    """In float32 the interval is wider, and still holds the optimum of float64."""
    program, optimum, mechanism, *dual = OPTIMA[form]
    narrow = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32) if a.dtype == np.float64 else a, program)
    found = jax.jit(certify_program)(narrow, *(jnp.asarray(a, jnp.float32) for a in (mechanism, *dual)))
    assert found.lower_bound.dtype == jnp.float32
    assert float(found.lower_bound) <= optimum <= float(found.value)
    assert float(found.gap) < 1e-4


def test_the_certificate_knows_no_solver():
    """Neither the module nor what it imports may reach into the solvers whose work it judges."""
    rooms = [Path(jp.__file__).parent / name for name in ("data", "leakage", "problems", "program")]
    paths = [path for room in rooms for path in room.rglob("*.py")]
    assert {path.name for path in paths} >= {"certify.py", "lagrangian.py", "verification.py", "channel.py"}
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not any(name.startswith(("jaxpriv.solvers", "jaxpriv.solving")) for name in names), path
