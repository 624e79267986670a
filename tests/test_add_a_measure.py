"""A new measure edits one library file: the two of docs/how-to/own-measure.md work everywhere and are in none.

Le Cam's divergence brings a set of rules of its own (a curve), the additive lift rows of its own.
"""

import ast
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv.statistics.audit import leakage_bounds
from jaxpriv.statistics.confidence import population
from jaxpriv.testing import random_joint, random_mechanisms
from tests.cases import distances, refused, thorough, value_of
from tests.cli.conftest import printed
from tests.pages import code_of, names_of_measures

N = 4
TABLE = distances(N)
JOINT = 0.5 * np.diag([0.4, 0.3, 0.2, 0.1]) + 0.5 * random_joint(7, N, N)


with names_of_measures():  # they are those of one test below
    PAGE = code_of("how-to/own-measure.md")
LeCam, AdditiveLift = PAGE["LeCam"], PAGE["AdditiveLift"]
NEW = {"le-cam": LeCam(), "additive-lift": AdditiveLift()}


@pytest.fixture
def _named():
    """The two names, for one test."""
    with names_of_measures():
        lk.named("le-cam", "average")(LeCam)
        lk.named("additive-lift", "worst")(AdditiveLift)
        yield


def value(measure, mechanism):
    return value_of(measure, JOINT, mechanism)


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

    assert found.budget is not None
    assert found.budget[0] == pytest.approx((least(0.401) - least(0.399)) / 0.002, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["le-cam", *thorough("additive-lift")])
def test_it_compiles(name):
    def least(budget):
        return jp.optimal_value(jp.DistortionProblem(JOINT, TABLE, budget=budget, leakage=NEW[name]))

    with jax.enable_x64(True):
        found = jax.jit(least)(0.4)
    problem = jp.DistortionProblem(JOINT, TABLE, budget=0.4, leakage=NEW[name])
    assert float(found) == pytest.approx(jp.solve(problem, tol=1e-9).value, abs=2e-6)


def test_a_trace_evaluates_it_by_its_rules_alone(monkeypatch):
    """The certificate states its value; what evaluates it again is traced for slopes of `leakage` alone."""
    calls, outcome = [], LeCam.outcome
    monkeypatch.setattr(LeCam, "outcome", lambda self, *args: calls.append(args) or outcome(self, *args))

    def leakage(budget):
        problem = jp.DistortionProblem(JOINT, TABLE, budget=budget, leakage=NEW["le-cam"])
        return jp.solve(problem, "hybrid-gradient").leakage

    with jax.enable_x64(True):
        jax.eval_shape(leakage, 0.4)
    assert len(calls) == 1  # of a release that ignores the data


def test_without_rules_it_is_refused_with_what_is_missing():
    class Bare(lk.AbstractMeanLeakage):
        traits = lk.Traits("dimensionless")

        def outcome(self, w, prior):
            return (lk.posterior_of(w) ** 2).sum()

    with refused(r"Bare, or .* has no decision rules: .*`rules\(view\)` and `Traits\(UNIT, designable=True\)`"):
        jp.solve(jp.DistortionProblem(JOINT, TABLE, budget=0.4, leakage=Bare()))


def test_it_is_audited():
    counts = np.random.default_rng(0).multinomial(5000, JOINT.ravel()).reshape(N, N)
    mechanism = 0.5 * np.eye(N) + 0.125
    bounded, unbounded = leakage_bounds(population(counts, 0.05), mechanism, list(NEW.values()))
    assert bounded is not None
    assert value(NEW["le-cam"], mechanism) <= bounded.upper[0, 0] <= bounded.cap[0]
    assert unbounded is None  # it says nothing of populations


@pytest.mark.usefixtures("_named")
def test_it_has_a_name(tmp_path):
    assert isinstance(lk.by_name("le-cam"), LeCam)
    assert {"le-cam", "additive-lift"} <= {row.name for row in lk.report(JOINT, np.eye(N)).rows}
    file = tmp_path / "p.npz"
    np.savez(file, joint=JOINT, distortion=TABLE)
    for name, measure in NEW.items():
        least = jp.solve(jp.DistortionProblem(JOINT, TABLE, budget=0.4, leakage=measure)).value
        assert f'"value": {least:.6f}'[:-1] in printed("solve", file, "--budget 0.4 --json - --leakage", name)
    assert "additive-lift" in printed("solve --help")


def classes_asked_for(tree):
    """The names of classes in isinstance(...), in patterns and in comparisons of type(...)."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, asked]):
                parts = [asked]
            case ast.MatchClass(cls=asked):
                parts = [asked]
            case ast.Compare(left=ast.Call(func=ast.Name(id="type")), comparators=parts):
                pass
            case _:
                continue
        for one in (one for part in parts for one in ast.walk(part)):
            if isinstance(one, ast.Attribute | ast.Name):
                yield one.attr if isinstance(one, ast.Attribute) else one.id


def test_no_other_part_of_the_library_asks_which_measure_it_has():
    """Mutual information alone has methods of its own; families (average, worst outcome) are no measures."""
    families = (lk.AbstractLeakage, lk.AbstractCost, lk.AbstractDivergence)
    everyone = {name: getattr(lk, name) for name in lk.__all__ if isinstance(getattr(lk, name), type)}
    measures = {name for name, one in everyone.items() if issubclass(one, families) and not name.startswith("Abstract")}
    assert {"Sibson", "LogLoss", "ChiSquared", "MaximalAlphaLeakage"} <= measures
    root = Path(jp.__file__).parent
    found = {
        (file.relative_to(root).as_posix(), name)
        for file in root.rglob("*.py")
        if file.relative_to(root).parts[0] != "leakage"
        for name in classes_asked_for(ast.parse(file.read_text(encoding="utf-8")))
        if name in measures - {"MutualInformation"}
    }
    assert found == set()
