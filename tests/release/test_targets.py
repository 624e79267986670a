"""Whether a target was met: every measure, an infinite leakage, and what is not computed."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from jaxpriv.errors import InputError, NotCertifiedError
from jaxpriv.leakage import NAMES, MutualInformation, named
from jaxpriv.release import Asked, fit
from jaxpriv.verifier import verify
from jaxpriv.verifier.__main__ import run
from tests.cases import NEEDED, raised
from tests.pages import names_of_measures
from tests.release.conftest import COLUMNS, resealed, saved
from tests.verifier.conftest import ONE

INFINITE = ("ldp", "lift", "min-lift", "inferential", "f-information")
FINITE = tuple(name for name in NAMES if name not in (*INFINITE, "maximal-alpha-leakage"))


def stated(name, **given):
    """The arguments of a measure, with the parameter that it needs."""
    needed = {"divergence": "reverse-kl"} if name == "f-information" else NEEDED.get(name, {})
    return {"name": name} | dict.fromkeys(("form", "order", "divergence", "gamma")) | needed | given


def stated_for(fitted, folder, leakage, target=1e-3, problem="leakage-budget"):
    """The files of the identity, with a target that somebody states."""
    size = len(fitted.mechanism.table)
    evidence = replace(fitted.evidence, duals={})
    counts = evidence.counts.copy()
    counts[0] = 0
    counts[0, :2] = 500  # the first private symbol excludes most outputs
    evidence = replace(evidence, counts=counts)
    costs = fitted.mechanism.distortion if problem in ("budget", "leakage-budget") else None
    mechanism = replace(
        fitted.mechanism,
        table=np.eye(size, dtype=np.uint64) * np.uint64(ONE),
        asked=Asked(problem, target, leakage),
        distortion=costs,
        commitment=evidence.commitment(),
    )
    mechanism.save(folder / "design.zip")
    evidence.save(folder / "audit.zip", mechanism)
    return evidence.claims(mechanism)


def code_of(folder, *more):
    return run([str(folder / "design.zip"), "--private", str(folder / "audit.zip"), *more])


@pytest.mark.parametrize("name", [*INFINITE, "watchdog"])
def test_an_infinite_leakage_is_above_every_target(fitted, tmp_path, capsys, name):
    problem = "watchdog" if name == "watchdog" else "leakage-budget"
    for target in (1e-3, 1e300):
        claims = stated_for(fitted, tmp_path, stated("lift" if name == "watchdog" else name), target, problem)
        assert claims["leakage"].upper is claims["excess"].upper is None
        with raised(NotCertifiedError, "infinite"):
            verify(tmp_path / "design.zip", private=tmp_path / "audit.zip")
        assert code_of(tmp_path) == 4
        assert "exceeds its target" in capsys.readouterr().err


@pytest.mark.parametrize("name", FINITE)
def test_a_finite_leakage_is_compared_with_its_target(fitted, tmp_path, capsys, name):
    value = float(stated_for(fitted, tmp_path, stated(name))["leakage"].upper)
    assert value > 1e-3
    assert code_of(tmp_path) == 4
    stated_for(fitted, tmp_path, stated(name), value * (1 + 1e-9))
    assert code_of(tmp_path) == 0
    assert capsys.readouterr().out.startswith("design ")


def test_a_gap_to_an_infinite_value_is_infinite(excluding):
    """Before, it was stated as 0."""
    mechanism, evidence = excluding
    claims = evidence.claims(mechanism)
    assert claims["excess"].upper == "0"
    assert claims["value"].upper is None
    assert claims["gap"].upper is None


def test_a_limit_that_is_not_computed_is_named_first_and_has_a_code_of_its_own(fitted, tmp_path, capsys):
    stated_for(fitted, tmp_path, stated("maximal-alpha-leakage"))
    assert code_of(tmp_path, "--json", str(tmp_path / "found.json")) == 7
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith("not checked: the target of the design")
    assert last == "everything that was checked is as stated, not all of what is claimed"
    assert "maximal-alpha-leakage" in first
    assert len(json.loads((tmp_path / "found.json").read_text())["not_checked"]) == 1
    # A limit on the distortion is checked whatever is minimised; the ends of the orders are computed.
    stated_for(fitted, tmp_path, stated("maximal-alpha-leakage"), 0.5, "budget")
    assert code_of(tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "everything that was checked is as stated"
    assert lines[2].startswith("    (a guess about a record is right at most e to this number times as often")
    stated_for(fitted, tmp_path, stated("maximal-alpha-leakage", order=math.inf))
    assert code_of(tmp_path) == 4
    capsys.readouterr()
    assert run(["--help"]) == 0
    assert "7 " in capsys.readouterr().out


@pytest.mark.parametrize(
    "leakage",
    [
        {**stated("mutual-information"), "name": "mutual-informations"},
        stated("mutual-information", order=2.0),
        stated("ldp", form="average"),
        {**stated("sibson"), "order": None},
        stated("f-information", divergence="own"),
    ],
    ids=["a name", "a parameter", "a form", "no order", "a divergence"],
)
def test_an_unknown_measure_is_refused(fitted, tmp_path, capsys, leakage):
    for target in ("0.001", "1000.0"):
        asked = Asked("leakage-budget", float(target), leakage).record
        forged = resealed(fitted.mechanism.to_bytes(), lambda record, asked=asked: record.update(asked=asked))
        (tmp_path / "design.zip").write_bytes(forged)
        assert run([str(tmp_path / "design.zip")]) == 5
        assert "asked.leakage" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["sibson", "arimoto", "relative-entropy", "f-information", "gain-brier"])
def test_designs_for_every_measure_meet_their_target_exactly(table, name, tmp_path):
    """Limits on these were left to float64 before: a design could be a rounding above its own."""
    given = stated(name) | ({"divergence": "chi-squared"} if name == "f-information" else {})
    del given["name"]
    found = fit(table, **COLUMNS, leakage_budget=0.01, leakage=name, split=1.0, **given)
    assert found.claims["excess"].upper == "0"
    assert 0.009 < float(found.claims["leakage"].upper) <= 0.01
    saved(found, tmp_path)
    assert code_of(tmp_path) == 0


def test_a_measure_of_a_users_own_has_no_design(table):
    """Nobody could verify one: a file names it, and only the process that entered it knows what it is."""
    with names_of_measures():
        named("own-information", "average")(type("Own", (MutualInformation,), {}))
        with raised(InputError, "leakage"):
            fit(table, **COLUMNS, budget=0.15, leakage="own-information")


@pytest.mark.parametrize("name", ["mutual-information", "max-lift"])
def test_a_leakage_budget_of_zero_has_a_release_that_is_independent(table, name, tmp_path):
    """Mappings other than a constant one leak nothing too (two classes, six symbols), but not once they are rounded."""
    made = fit(table, **COLUMNS, leakage_budget=0.0, leakage=name, split=1.0)
    claims, (first, *rows) = made.claims, made.mechanism.table.tolist()
    assert all(row == first for row in rows)
    assert claims["leakage"].upper == claims["excess"].upper == "0"
    counts, costs = made.evidence.counts, made.mechanism.distortion
    least = (counts.sum(axis=0) @ costs).min() / counts.sum()  # of releases that are independent of X
    assert float(claims["distortion"].upper) == pytest.approx(least, abs=1e-9)
    assert made.status == "not_certified"
    assert float(claims["gap"].upper) > 1e-3
    assert made.statements[0].startswith("Every record is released alike")
    assert verify(saved(made, tmp_path)[0], private=tmp_path / "audit.zip").claims == claims
