"""The certificate of a program that is made from tracers, and its slope, for any measure.

No program is compiled: `jax.jvp` hands tracers to a function and runs it operation by operation.
"""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv.program.certificates import certify_program, lagrangian
from jaxpriv.program.lower import measured_program
from jaxpriv.testing import random_mechanisms
from tests.cases import further

from .measured_cases import DISTORTION, JOINT, MEASURES

# One of every kind of rules and of roles; the others of a kind are the same code.
ALWAYS_TERMS = (
    "kl", "sibson-2", "sibson-0.5", "arimoto-3", "maximal-leakage", "gain", "chi-squared", "total-variation",
    "gain-losses", "max-information", "max-gain-brier", "lift", "ldp-chain",
)  # fmt: skip
NAMES = further(sorted(MEASURES), ALWAYS_TERMS)
LEVEL = 0.6  # of limits: above what an independent release has
SEEN, SHAPE = [0, 1, 2, 4], (5, 5)  # symbols with mass


@pytest.fixture(autouse=True)
def _ranks():
    """What `solve` and `optimal_value` allow for themselves."""
    with jax.numpy_rank_promotion("allow"):
        yield


def with_empty_symbols():
    """The joint with one symbol of S and of X that has no mass."""
    padded = np.zeros(SHAPE)
    padded[np.ix_(SEEN, SEEN)] = JOINT
    return padded


def measure_of(name):
    """The measure for the five symbols of the padded joint: tables have a row for the new one."""
    measure: Any = MEASURES[name]
    if isinstance(measure, lk.GainLeakage):
        return lk.GainLeakage(np.insert(measure.gains, 3, 9.0, axis=1))
    if isinstance(getattr(measure, "cost", None), lk.LossMatrix):
        return type(measure)(lk.LossMatrix(np.insert(measure.cost.losses, 3, -9.0, axis=0)))
    if getattr(measure, "neighbours", None) is not None:
        wide = np.ones(SHAPE, dtype=bool)
        wide[np.ix_(SEEN, SEEN)] = measure.neighbours
        return lk.LocalDifferentialPrivacy(wide)
    return measure


def traced(function, at):
    """function(at), computed on tracers."""
    return jax.jvp(function, (at,), (np.ones_like(at),))[0]


def stated(name, joint, form, whole=True):
    """A program of the measure beside a budget, or with a limit on it, and further limits; `whole`: with every row."""
    problem = jp.DistortionProblem(joint, np.pad(DISTORTION, (0, 1)), leakage=measure_of(name), **form)
    limits = ((lk.Sibson(2.0), 0.4), (lk.Lift(), LEVEL))
    limits = ((problem.leakage, LEVEL), *limits) if "leakage_budget" in form else limits
    return measured_program(problem, limits, whole)


def forms_of(name):
    limit = {"leakage_budget": LEVEL}
    return (limit,) if MEASURES[name].worst_outcome else ({"budget": 0.3}, limit)


def objects_of(program):
    """A mechanism, rules that include absurd ones, and prices."""
    rng = np.random.default_rng(2)
    rows = sum(len(term.rows) for term in program.terms)
    k = rng.normal(size=(5, rows)) * 10.0 ** rng.integers(-2, 2, (5, rows))
    k[0, 0], k[1, -1] = np.nan, -np.inf
    return 0.9 * random_mechanisms(2, 1, 5, 5)[0] + 0.02, k, rng.uniform(0, 1, (5, 3)), rng.uniform(0, 1, 4)


@pytest.mark.parametrize("name", NAMES)
def test_the_certificate_of_tracers_is_that_of_numpy(name):
    joint = with_empty_symbols()
    for form in forms_of(name):
        program, reduced = stated(name, joint, form), stated(name, joint, form, whole=False)
        mechanism, *duals = objects_of(program)
        host, fewer = certify_program(program, mechanism, *duals), certify_program(reduced, *objects_of(reduced))
        assert np.isfinite(host.lower_bound)
        found = traced(lambda joint, form=form: certify_program(stated(name, joint, form), mechanism, *duals), joint)  # noqa: B023
        for one, other in zip(dataclasses.astuple(host), dataclasses.astuple(found), strict=True):
            assert_allclose(one, other, rtol=1e-12, atol=1e-13)
        # Rows that are left out or merged count nothing.
        for part in ("value", "leakages", "violation"):
            assert_allclose(getattr(fewer, part), getattr(host, part), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", [name for name in ALWAYS_TERMS if not MEASURES[name].linear])
def test_the_lagrangian_of_a_moving_joint_has_the_slope_of_differences(name):
    """At any rules and prices (of a piecewise linear measure only where they are optimal)."""
    joint, rng = with_empty_symbols(), np.random.default_rng(4)
    move = rng.normal(size=SHAPE) * joint
    move -= joint * move.sum()
    mechanism, k, eta, price = objects_of(stated(name, joint, forms_of(name)[0]))
    at = (mechanism, np.nan_to_num(abs(k), posinf=1.0), eta, price)

    def value(h):
        return lagrangian.lagrangian(stated(name, joint + h * move, forms_of(name)[0]), *at)

    step = 1e-6
    differences = float(value(step) - value(-step)) / (2 * step)
    assert float(jax.jvp(value, (0.0,), (1.0,))[1]) == pytest.approx(differences, rel=1e-6, abs=1e-7)
