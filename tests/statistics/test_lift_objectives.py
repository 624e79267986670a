"""The forms: their maximiser is the log-lift and their maximum the divergence, exactly, on a finite alphabet."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import minimize

from jaxpriv import leakage
from jaxpriv.statistics.lift import (
    AbstractLiftEstimator,
    ChiSquaredForm,
    DonskerVaradhan,
    JensenShannonForm,
    LogLift,
    PlugIn,
    ReverseKullbackLeiblerForm,
    SquaredHellingerForm,
    Trimmed,
    f_divergence,
    from_symbols,
)
from jaxpriv.statistics.lift.estimating import EstimateWarning, estimate
from jaxpriv.statistics.lift.log_lift import project
from tests.cases import drawn_joint, value_of
from tests.information import information

JOINT = np.array([[0.30, 0.05, 0.10, 0.02], [0.05, 0.20, 0.05, 0.03], [0.02, 0.03, 0.05, 0.10]])
PRIOR, MASS = JOINT.sum(axis=1), JOINT.sum(axis=0)
LIFT = np.log(JOINT / PRIOR[:, None] / MASS).T  # (X, S)
# Every pair (x, s) as a row with its mass.
ROWS, CODES = (part.ravel() for part in np.meshgrid(np.arange(4), np.arange(3), indexing="ij"))
WEIGHTS = JOINT.T.ravel()

DIVERGENCES = {
    ReverseKullbackLeiblerForm(): leakage.ReverseKullbackLeibler(),
    ChiSquaredForm(): leakage.ChiSquared(),
    JensenShannonForm(): leakage.JensenShannon(),
    SquaredHellingerForm(): leakage.SquaredHellinger(),
}
FORMS = list(DIVERGENCES)
EVERY = [DonskerVaradhan(), DonskerVaradhan(normalise=False), *FORMS]


def name(objective):
    return f"{type(objective).__name__}{getattr(objective, 'normalise', '')}"


@functools.cache
def compiled(objective):
    def value(scores):
        log_prior, codes, weights = map(jnp.asarray, (np.log(PRIOR), CODES, WEIGHTS))
        return objective.value(scores[ROWS], codes, log_prior, weights)

    return jax.jit(value)


def population(objective, scores):
    """J of scores (X, S), exactly."""
    return compiled(objective)(jnp.asarray(scores))


def optimum(objective):
    """(scores, value) of a full table of critic values, optimised from a start far away."""
    log_prior = jnp.log(jnp.asarray(PRIOR))

    @jax.jit
    def loss(flat):
        return -population(objective, objective.scores(flat.reshape(4, 3), log_prior))

    climb = jax.jit(jax.value_and_grad(loss))
    start = np.random.default_rng(0).normal(size=12)
    found = minimize(
        lambda flat: tuple(np.asarray(part, dtype=float) for part in climb(jnp.asarray(flat))),
        start,
        jac=True,
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000},
    )
    return np.asarray(objective.scores(jnp.asarray(found.x.reshape(4, 3)), log_prior)), -found.fun


@pytest.mark.parametrize("objective", EVERY, ids=name)
def test_the_maximiser_is_the_log_lift(objective):
    scores, value = optimum(objective)
    assert project(scores, PRIOR) == pytest.approx(LIFT, abs=1e-5)
    assert value == pytest.approx(float(population(objective, LIFT)), abs=1e-10)


def test_the_trimmed_maximiser_is_the_trimmed_log_lift():
    limit = 0.5
    scores, _ = optimum(Trimmed(limit))
    assert np.any(np.abs(LIFT) > limit)
    assert scores == pytest.approx(np.clip(LIFT, -limit, limit), abs=1e-4)


@pytest.mark.parametrize("form", EVERY, ids=name)
def test_the_maximum_is_the_divergence(form):
    truth = information(JOINT)
    if form in DIVERGENCES:
        truth = value_of(leakage.FInformation(DIVERGENCES[form]), JOINT, np.eye(4))
    assert float(population(form, LIFT)) == pytest.approx(truth, abs=1e-14)


@given(st.integers(0, 10**6), st.floats(0.1, 20.0))
def test_projection(seed, scale):
    """It normalises, obeys the ceilings, leaves log-lifts alone, ignores constants, and lowers no DV value."""
    critic = scale * np.random.default_rng(seed).normal(size=(4, 3))
    lift = project(critic, PRIOR)
    assert np.exp(lift) @ PRIOR == pytest.approx(1.0, abs=1e-12)
    assert np.all(lift <= -np.log(PRIOR) + 1e-12)
    assert project(lift, PRIOR) == pytest.approx(lift, abs=1e-10)
    assert project(critic + np.arange(4.0)[:, None], PRIOR) == pytest.approx(lift, abs=1e-10)
    raw = float(population(DonskerVaradhan(normalise=False), critic))
    assert float(population(DonskerVaradhan(normalise=False), lift)) >= raw - 1e-12
    assert float(population(DonskerVaradhan(), lift)) == pytest.approx(
        float(population(DonskerVaradhan(normalise=False), lift)), abs=1e-10
    )


# -- estimates that contradict themselves ----------------------------------------------------------


class Opposite(AbstractLiftEstimator):
    """Scores of the wrong sign in the second split."""

    @property
    def name(self):
        return "opposite"

    def fit_rows(self, keys, samples, train, validation, prior):
        lifts = PlugIn().fit_rows(keys, samples, train, validation, prior)
        wrong = LogLift(lambda useful: -lifts[1].scorer(useful), samples.rows, prior, np.inf, self.name)
        return (lifts[0], wrong, *lifts[2:])


def test_estimate_warns_and_keeps_the_doubts():
    rng = np.random.default_rng(0)
    private = rng.integers(2, size=2000)
    samples = from_symbols(private, np.where(rng.random(2000) < 0.8, private, 1 - private), useful_size=2)
    with pytest.warns(EstimateWarning, match="split 1 is more than 5 standard errors"):
        report = estimate(Opposite(), jax.random.key(0), samples, splits=6)
    assert len(report.doubts) == 1
    assert estimate(PlugIn(), jax.random.key(0), samples, splits=3).doubts == ()


@pytest.mark.slow
def test_the_reverse_divergence_is_learnt_from_a_channel_with_rare_pairs():
    """Without a floor h falls without end where a pair is not among the rows: splits were down to -2.7."""
    joint = drawn_joint(0, 4, 6, 0.5)
    cells = np.random.default_rng(1).choice(24, size=2000, p=joint.ravel())
    truth = information(joint)
    estimator = f_divergence(ReverseKullbackLeiblerForm())
    report = estimate(estimator, jax.random.key(0), from_symbols(cells // 6, cells % 6, useful_size=6), splits=4)
    assert report.doubts == ()
    assert np.all(np.abs(report.per_split - truth) < 3 * report.information.standard_error)
    assert report.information.agrees(truth)
