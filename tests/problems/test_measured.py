"""Problems with any measures: terms against measures, weak duality, optimality, consistency, refusals.

One joint, one distortion: a program of another structure costs seconds to compile, another limit nothing.
"""

import functools
import math

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv.certificates.measured import certify_measured, column_values
from jaxpriv.leakage import evaluate, evaluate_all
from jaxpriv.problems.measured import MeasuredProgram, Role
from jaxpriv.problems.terms import scale_of, shift_of, supported, terms_of
from jaxpriv.testing import random_joint, random_mechanisms

INF = math.inf
N = 4
DISTORTION = abs(np.subtract.outer(np.arange(float(N)), np.arange(float(N))))
JOINT = 0.5 * np.diag([0.4, 0.3, 0.2, 0.1]) + 0.5 * random_joint(7, N, N)
BUDGET = 0.35

CHAIN = np.eye(N, k=1, dtype=bool) | np.eye(N, k=-1, dtype=bool)
LOSSES = np.random.default_rng(5).uniform(-0.5, 0.5, (N, 3))
GAINS = np.random.default_rng(6).random((3, N))

AVERAGE = {
    "kl": lk.FInformation(lk.KullbackLeibler()),
    "gain-log-loss": lk.AverageCostGain(lk.LogLoss()),
    "sibson-0.5": lk.Sibson(0.5),
    "sibson-1": lk.Sibson(1.0),
    "sibson-2": lk.Sibson(2.0),
    "sibson-inf": lk.Sibson(INF),
    "arimoto-0.3": lk.Arimoto(0.3),
    "arimoto-3": lk.Arimoto(3.0),
    "arimoto-inf": lk.Arimoto(INF),
    "maximal-leakage": lk.MaximalLeakage(),
    "min-entropy": lk.MinEntropyLeakage(),
    "correct-guess": lk.CorrectGuess(),
    "gain": lk.GainLeakage(GAINS),
    "chi-squared": lk.FInformation(lk.ChiSquared()),
    "reverse-kl": lk.FInformation(lk.ReverseKullbackLeibler()),
    "hellinger": lk.FInformation(lk.SquaredHellinger()),
    "jensen-shannon": lk.FInformation(lk.JensenShannon()),
    "total-variation": lk.FInformation(lk.TotalVariation()),
    "e-gamma": lk.FInformation(lk.EGamma(1.2)),
    "gain-zero-one": lk.AverageCostGain(lk.ZeroOneLoss()),
    "gain-brier": lk.AverageCostGain(lk.BrierLoss()),
    "gain-losses": lk.AverageCostGain(lk.LossMatrix(LOSSES)),
}
WORST = {
    "max-information": lk.MaxInformation(),
    "max-gain-log-loss": lk.MaxCostGain(lk.LogLoss()),
    "relative-entropy": lk.RelativeEntropyPrivacy(),
    "max-gain-zero-one": lk.MaxCostGain(lk.ZeroOneLoss()),
    "max-gain-brier": lk.MaxCostGain(lk.BrierLoss()),
    "max-gain-losses": lk.MaxCostGain(lk.LossMatrix(LOSSES)),
    "lift": lk.Lift(),
    "max-lift": lk.MaxLift(),
    "min-lift": lk.MinLift(),
    "ldp": lk.LocalDifferentialPrivacy(),
    "ldp-chain": lk.LocalDifferentialPrivacy(CHAIN),
    "inferential": lk.InferentialPrivacy(),
}
MEASURES = {"mutual-information": lk.MutualInformation()} | AVERAGE | WORST


def smaller(joint):
    """A joint (4, 4) without mass at its last s and its last x."""
    table = np.zeros((N, N))
    table[:3, :3] = joint
    return table


def rare(seed, mass):
    """Two private symbols of about this mass, with laws P(x|s) of their own."""
    table = random_joint(seed, N, N)
    table[2:] *= mass
    return table / table.sum()


JOINTS = {
    "dense": JOINT,
    "zeros": random_joint(1, N, N, zeros=0.4),
    "no mass": smaller(random_joint(2, 3, 3, zeros=0.2)),
    "rare": rare(3, 1e-7),
    "very rare": rare(3, 1e-16),
    "independent": np.outer([0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]),
}


def value_of(name, joint, mechanism):
    return evaluate(MEASURES[name], joint, mechanism).value


def program_of(terms, joint, *, cost=None, constraints=None, budgets=None):
    shape = (joint.shape[1], N)
    rows = np.zeros((0, *shape)) if constraints is None else constraints
    return MeasuredProgram(
        terms=tuple(terms),
        mass=joint.sum(axis=0),
        cost=np.zeros(shape) if cost is None else cost,
        constraints=rows,
        budgets=np.zeros(len(rows)) if budgets is None else budgets,
        marks=np.zeros(len(rows)),
        support=np.ones(shape, dtype=bool),
        anchor=np.zeros(shape),
    )


# -- terms say what the measures say ---------------------------------------------------------------


def test_every_measure_is_supported_but_a_users_own_function():
    assert all(supported(measure) for measure in MEASURES.values())
    assert {type(m).__name__ for m in MEASURES.values()} >= {
        type(lk.by_name(name, order=2.0 if name in ("sibson", "arimoto") else None,
                        divergence="kl" if name == "f-information" else None)).__name__
        for name in lk.NAMES
    }  # fmt: skip
    assert not supported(lk.FInformation(lk.UserDivergence(lambda t: (t - 1) ** 2, 1.0)))
    assert not supported(lk.AverageCostGain(lk.CustomLoss(lambda q: (1 - q) ** 2)))
    assert not supported(lk.MaxCostGain(lk.CustomLoss(lambda q: (1 - q) ** 2)))


@pytest.mark.parametrize("which", JOINTS)
def test_terms_of_an_average_measure_add_up_to_its_value(which):
    joint = JOINTS[which]
    for mechanism in random_mechanisms(3, 8, N, N):
        values = evaluate_all(tuple(AVERAGE.values()), joint, mechanism)
        for (name, measure), found in zip(AVERAGE.items(), values, strict=True):
            (term,) = terms_of(measure, joint, Role.OBJECTIVE)
            total = column_values(term, term.rows @ mechanism).sum() + shift_of(measure, joint)
            assert scale_of(measure).outer(total) == pytest.approx(found.value, rel=1e-9, abs=2e-11), name
            if found.value < INF:  # the same number as a limit: the bound is where the sum stands
                (limit,) = terms_of(measure, joint, Role.AVERAGE, found.value)
                assert float(limit.bound) == pytest.approx(total - shift_of(measure, joint), rel=1e-9, abs=2e-11), name


def holds(measure, joint, mechanism, eps):
    terms = terms_of(measure, joint, Role.WORST, eps)
    rows = sum(len(term.rows) for term in terms)
    proof = certify_measured(
        program_of(terms, joint), mechanism, np.zeros((N, rows)), np.zeros((N, len(terms))), np.zeros(0)
    )
    return proof.violation == 0


@pytest.mark.parametrize("which", JOINTS)
def test_terms_of_a_worst_outcome_measure_hold_exactly_up_to_its_value(which):
    joint = JOINTS[which]
    for mechanism in random_mechanisms(4, 8, N, N):
        values = evaluate_all(tuple(WORST.values()), joint, mechanism)
        for (name, measure), found in zip(WORST.items(), values, strict=True):
            if found.value == INF:
                assert not holds(measure, joint, mechanism, 25.0), name
                continue
            assert holds(measure, joint, mechanism, found.value * (1 + 1e-6) + 1e-10), name
            # Terms see e^-eps: a part in 10^6 of it is rounding far beyond 15 nats. `solve` asks the measure itself.
            if 1e-9 < found.value < 15:
                assert not holds(measure, joint, mechanism, found.value * (1 - 1e-6)), name


def test_symbols_that_say_the_same_are_merged_and_others_are_not():
    joint = np.array([[0.1, 0.1, 0.0, 0.0], [0.2, 0.2, 0.0, 0.0], [0.0, 0.0, 0.3, 0.0], [0.0, 0.0, 0.0, 0.1]])
    for name, rows in [("kl", 3), ("sibson-2", 3), ("maximal-leakage", 3), ("correct-guess", 4), ("hellinger", 4)]:
        (term,) = terms_of(MEASURES[name], joint, Role.OBJECTIVE)
        assert len(term.rows) == rows, name
    twins = np.array([[0.5, 0.5], [1e-17, 0.0], [0.0, 1e-17]])
    (term,) = terms_of(lk.MaximalLeakage(), twins, Role.OBJECTIVE)
    assert len(term.rows) == 3


# -- weak duality: no rule and no price proves too much --------------------------------------------

WILD = st.one_of(
    st.floats(-3, 3), st.sampled_from([0.0, 1e-300, 1e300, -1e300, 50.0, -50.0, math.nan, INF, -INF])
)  # fmt: skip
DUAL_CASES = [
    *((name, Role.OBJECTIVE) for name in ("kl", "sibson-0.5", "sibson-2", "maximal-leakage", "chi-squared", "reverse-kl",
                                          "hellinger", "jensen-shannon", "total-variation", "gain-losses")),
    *((name, Role.AVERAGE) for name in ("kl", "arimoto-0.3", "arimoto-3", "sibson-inf", "chi-squared", "reverse-kl",
                                        "hellinger", "jensen-shannon", "e-gamma", "gain-brier")),
    *((name, Role.WORST) for name in ("max-information", "relative-entropy", "max-gain-brier", "max-gain-zero-one",
                                      "lift", "ldp", "ldp-chain")),
]  # fmt: skip


def _instance(name, role, seed):
    """A program, and a mechanism that meets its limits exactly."""
    measure = MEASURES[name]
    joint = random_joint(seed, N, N)
    mechanism = random_mechanisms(seed, 4, N, N)[seed % 2]
    mechanism = 0.9 * mechanism + 0.1 / N
    eps = 0.0 if role is Role.OBJECTIVE else evaluate(measure, joint, mechanism).value * (1 + 1e-9) + 1e-12
    terms = terms_of(measure, joint, role, eps)
    weighted = joint.sum(axis=0)[:, None] * DISTORTION
    budgets = np.array([(weighted * mechanism).sum() * (1 + 1e-12)])
    return program_of(terms, joint, cost=weighted, constraints=weighted[None], budgets=budgets), mechanism


@pytest.mark.parametrize(("name", "role"), DUAL_CASES)
@given(data=st.data())
def test_no_rule_proves_more_than_a_feasible_mechanism(name, role, data):
    program, mechanism = _instance(name, role, data.draw(st.integers(0, 7)))
    rows = sum(len(term.rows) for term in program.terms)
    wild = data.draw(st.lists(WILD, min_size=N * rows, max_size=N * rows))
    prices = data.draw(st.lists(WILD, min_size=N + 2, max_size=N + 2))
    eta = np.array(prices[:N])[:, None]
    limits = 1 + sum(term.priced for term in program.terms)
    proof = certify_measured(program, mechanism, np.array(wild).reshape(N, rows), eta, np.array(prices[N:][:limits]))
    assert proof.violation == 0
    assert not proof.lower_bound > proof.value
    assert not math.isnan(proof.lower_bound)


# -- solutions -------------------------------------------------------------------------------------


@functools.cache
def least(name):
    """Least leakage within the budget."""
    return jp.solve(jp.DistortionProblem(JOINT, DISTORTION, budget=BUDGET, leakage=MEASURES[name]), tol=1e-7)


@functools.cache
def cheapest(name, eps):
    """Least distortion within a limit; mutual information through `limits`, so by the same method."""
    if name == "mutual-information":
        form = {"leakage": MEASURES["kl"], "leakage_budget": INF, "limits": [(MEASURES[name], eps)]}
    else:
        form = {"leakage": MEASURES[name], "leakage_budget": eps}
    return jp.solve(jp.DistortionProblem(JOINT, DISTORTION, **form), tol=1e-7)


def cost_of(mechanism, joint=JOINT):
    return np.einsum("sx,xy,...xy->...", joint, DISTORTION, mechanism)


@functools.cache
def _measure_all():
    def every(mechanisms):
        return {name: jax.vmap(lambda w, m=m: m(JOINT, w))(mechanisms) for name, m in MEASURES.items()}

    return jax.jit(every)


def around(mechanism):
    """2000 mechanisms: at random, and close to one."""
    rng = np.random.default_rng(0)
    other = random_mechanisms(1, 2000, N, N)
    # A third tends to the data, a third to a release of one symbol: cheaper, or telling less.
    other[::3] = 0.5 * other[::3] + 0.5 * np.eye(N)
    other[1::3] = 0.2 * other[1::3] + 0.8 * np.eye(N)[1]
    share = np.where(rng.random(2000) < 0.2, 1.0, 10.0 ** rng.uniform(-5, 0, 2000))[:, None, None]
    return (1 - share) * mechanism + share * other


@pytest.mark.slow
@pytest.mark.parametrize("name", [*AVERAGE, *WORST])
def test_least_leakage_within_a_budget(name):
    solution = least(name)
    assert solution.status == "optimal", solution.message
    assert 0 <= solution.gap <= 1e-7
    w = solution.mechanism
    np.testing.assert_allclose(w.sum(axis=1), 1, atol=1e-12)
    assert w.min() >= 0
    assert cost_of(w) <= BUDGET + 1e-9
    assert solution.distortion[0] == pytest.approx(cost_of(w), abs=1e-12)
    assert value_of(name, JOINT, w) <= solution.value + 1e-10
    assert solution.leakage == pytest.approx(value_of(name, JOINT, w), abs=1e-12)
    mechanisms = around(w)
    # All within the budget: those beyond it take a share of the data itself, which costs nothing.
    share = np.minimum(1, BUDGET / cost_of(mechanisms))[:, None, None]
    mechanisms = share * mechanisms + (1 - share) * np.eye(N)
    leaks = np.asarray(_measure_all()(mechanisms)[name])
    assert leaks.min() >= solution.lower_bound - 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("name", [*AVERAGE, *WORST])
def test_least_distortion_within_a_limit(name):
    eps = float(least(name).value)
    solution = cheapest(name, eps)
    assert solution.status == "optimal", solution.message
    assert 0 <= solution.gap <= 1e-7
    w = solution.mechanism
    np.testing.assert_allclose(w.sum(axis=1), 1, atol=1e-12)
    assert w.min() >= 0
    assert value_of(name, JOINT, w) <= eps + 1e-9
    assert solution.value == pytest.approx(cost_of(w), abs=1e-12)
    # The budget form found a mechanism of this leakage at this distortion: so the two optima are one.
    assert solution.value == pytest.approx(BUDGET, abs=1e-5)
    mechanisms = around(w)
    leaks = np.asarray(_measure_all()(mechanisms)[name])
    within = leaks <= eps
    assert within.sum() > 100
    assert cost_of(mechanisms)[within].min() >= solution.lower_bound - 1e-12
