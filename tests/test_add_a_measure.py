"""A new measure edits one library file: two that are defined here, in no file of the library, work everywhere.

Le Cam's divergence brings a set of rules of its own (a curve), the additive lift rows of its own.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import _arrays as xp
from jaxpriv import leakage as lk
from jaxpriv._numerics import expectation
from jaxpriv.cli import app
from jaxpriv.estimation.audit.populations import leakage_bounds
from jaxpriv.estimation.confidence import population
from jaxpriv.leakage import registry
from jaxpriv.leakage._base import lift_of, posterior_of
from jaxpriv.leakage.f_rules import AbstractCurve, f_rules
from jaxpriv.leakage.rule_sets import LINEAR, Rules
from jaxpriv.testing import random_joint, random_mechanisms

N = 4
TABLE = abs(np.subtract.outer(np.arange(float(N)), np.arange(float(N))))
JOINT = 0.5 * np.diag([0.4, 0.3, 0.2, 0.1]) + 0.5 * random_joint(7, N, N)


@dataclass(frozen=True)
class LeCamCurve(AbstractCurve):
    """f(t) = (t - 1)^2/(t + 1); with s = sqrt(1 - u) the ratio is t = 2/s - 1 and f*(u) = (1 - s)(3 - s)."""

    @property
    def slopes(self) -> tuple[float, float]:
        return -3.0, 1.0

    def value(self, t: Any) -> Any:
        return (t - 1.0) ** 2 / (t + 1.0)

    def slope(self, t: Any) -> Any:
        return 1.0 - 4.0 / (t + 1.0) ** 2

    def conjugate(self, u: Any) -> tuple[Any, Any, Any]:
        s = xp.sqrt(1.0 - u)
        return (1.0 - s) * (3.0 - s), 2.0 / s - 1.0, s**-3.0

    def exact(self, t: Any) -> Any:
        return self.value(t)

    def lines(self, u: Any) -> tuple[Any, Any]:
        u = xp.clip(u, -3.0, 1.0 - 1e-12)
        s = xp.sqrt(1.0 - u)
        return u, (1.0 - s) * (3.0 - s)


class LeCam(lk.AbstractMeanLeakage):
    """Le Cam's divergence of P(s, y) from P(s) P(y)."""

    @property
    def unit(self):
        return "dimensionless"

    @property
    def designable(self):
        return True

    def rules(self, view):
        return f_rules(LeCamCurve(), view)

    def outcome(self, w, prior):
        return expectation(prior, LeCamCurve().value(lift_of(w, prior)))

    def upper_bounds(self, bounds):
        return {"vertices": bounds.f_information(lambda r, q: (r - q) ** 2 / (r + q))}


class AdditiveLift(lk.AbstractWorstOutcomeLeakage):
    """max over y and s of P(s|y) - P(s)."""

    @property
    def unit(self):
        return "probability"

    @property
    def designable(self):
        return True

    @property
    def linear(self):
        return True

    def rules(self, view):
        rows = view.joint - (view.prior[:, None] + view.limit) * view.mass
        return Rules(LINEAR, rows, np.zeros(len(rows)))

    def outcome(self, w, prior):
        return jnp.max(posterior_of(w) - prior)


NEW = {"le-cam": LeCam(), "additive-lift": AdditiveLift()}


@pytest.fixture
def _named():
    """The two names, for one test."""
    lk.named("le-cam", "average")(LeCam)
    lk.named("additive-lift", "worst")(AdditiveLift)
    yield
    for name in NEW:
        del registry._ENTRIES[name]


def value(measure, mechanism):
    return lk.evaluate(measure, JOINT, mechanism).value


@pytest.mark.parametrize("name", NEW)
def test_it_is_designed_for_and_certified_in_every_form(name):
    measure = NEW[name]
    budget = jp.DistortionProblem(JOINT, TABLE, budget=0.4, leakage=measure)
    least = jp.solve(budget)
    assert least.status == "optimal"
    assert least.value == pytest.approx(value(measure, least.mechanism), abs=1e-9)
    assert jp.certify(budget, least).lower_bound == pytest.approx(least.lower_bound, abs=1e-9)

    dual = jp.DistortionProblem(JOINT, TABLE, leakage_budget=float(least.value), leakage=measure)
    cheapest = jp.solve(dual)
    assert cheapest.value == pytest.approx(0.4, abs=1e-4)
    assert value(measure, cheapest.mechanism) <= float(least.value) + 1e-9
    assert jp.certify(dual, cheapest).lower_bound == pytest.approx(cheapest.lower_bound, abs=1e-9)

    limited = jp.DistortionProblem(JOINT, TABLE, budget=0.5, limits=[(measure, 1.01 * float(least.value))])
    both = jp.solve(limited)
    assert both.status == "optimal"
    assert value(measure, both.mechanism) <= 1.01 * float(least.value) + 1e-9
    assert both.value >= jp.solve(jp.DistortionProblem(JOINT, TABLE, budget=0.5)).lower_bound
    mass = JOINT.sum(axis=0)
    for mechanism in random_mechanisms(1, 200, N, N):  # no mechanism within the budget has less
        mixed = 0.4 * mechanism + 0.6 * np.eye(N)
        if (mass[:, None] * TABLE * mixed).sum() <= 0.4:
            assert value(measure, mixed) >= least.lower_bound


@pytest.mark.parametrize("name", NEW)
def test_its_optimum_has_slopes(name):
    problem = jp.DistortionProblem(JOINT, TABLE, budget=0.4, leakage=NEW[name])
    found = jp.sensitivity(problem, jp.solve(problem, tol=1e-9))

    def least(budget):
        return jp.solve(jp.DistortionProblem(JOINT, TABLE, budget=budget, leakage=NEW[name]), tol=1e-9).value

    assert found.budget[0] == pytest.approx((least(0.401) - least(0.399)) / 0.002, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", NEW)
def test_it_compiles(name):
    def least(budget):
        return jp.optimal_value(jp.DistortionProblem(JOINT, TABLE, budget=budget, leakage=NEW[name]))

    with jax.enable_x64(True):
        found, slope = jax.jit(jax.value_and_grad(least))(0.4)
    problem = jp.DistortionProblem(JOINT, TABLE, budget=0.4, leakage=NEW[name])
    solution = jp.solve(problem, tol=1e-9)
    assert float(found) == pytest.approx(solution.value, abs=2e-6)
    assert float(slope) == pytest.approx(jp.sensitivity(problem, solution).budget[0], rel=1e-3)


def test_it_is_audited():
    counts = np.random.default_rng(0).multinomial(5000, JOINT.ravel()).reshape(N, N)
    mechanism = 0.5 * np.eye(N) + 0.125
    bounded, unbounded = leakage_bounds(population(counts, 0.05), mechanism, list(NEW.values()))
    assert bounded is not None
    assert value(NEW["le-cam"], mechanism) <= bounded.upper[0, 0] <= bounded.cap[0]
    assert unbounded is None  # it says nothing of populations


@pytest.mark.usefixtures("_named")
def test_it_has_a_name(tmp_path, capsys):
    assert isinstance(lk.by_name("le-cam"), LeCam)
    assert {"le-cam", "additive-lift"} <= {row["name"] for row in registry.reported_rows()}
    file = tmp_path / "p.npz"
    np.savez(file, joint=JOINT, distortion=TABLE)
    for name, measure in NEW.items():
        line = ["solve", str(file), "--budget", "0.4", "--leakage", name, "--json", "-"]
        app(line, standalone_mode=False)
        least = jp.solve(jp.DistortionProblem(JOINT, TABLE, budget=0.4, leakage=measure)).value
        assert f'"value": {least:.6f}'[:-1] in capsys.readouterr().out
    app(["solve", "--help"], standalone_mode=False)
    assert "additive-lift" in capsys.readouterr().out
