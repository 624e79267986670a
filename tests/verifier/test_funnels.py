"""Lower bounds of funnels in exact arithmetic: against the solver, against other mappings, and for any prices."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv.errors import IntegrityError
from jaxpriv.release import Evidence, Mechanism, fit
from jaxpriv.verifier import read_audit, read_design, verify
from jaxpriv.verifier.disclosure_bounds import FunnelPrices, elementary, of_prices, pairs
from tests.cases import raised
from tests.cli.conftest import printed
from tests.funnels.cases import entropy, information
from tests.release.conftest import COLUMNS, people, saved, write
from tests.verifier.conftest import ONE, counted as released


def counted(counts):
    return released(counts, np.eye(np.shape(counts)[1], dtype=int) * ONE)


def drawn(seed, size):
    counts = np.random.default_rng(seed).integers(0, 40, (2, size))
    counts[0, :2], counts[1, 0] = 1, 0  # a symbol that tells S
    return counts


@pytest.mark.parametrize(("size", "share"), [(2, 0.5), (3, 0.95), (6, 0.95), (9, 0.97), (20, 0.97)])
def test_the_bound_of_the_solver_is_proved_again(size, share):
    counts = drawn(size, size)
    joint = counts / counts.sum()
    disclosure = share * entropy(joint.sum(axis=0))
    found = jp.solve(jp.FunnelProblem(joint, disclosure=disclosure), tol=1e-8)
    prices = FunnelPrices(found.prices.tolist(), found.multiplier, 0.0)
    bound = of_prices(counted(counts), prices, Fraction(disclosure))
    assert 0 < found.lower_bound - 1e-10 <= float(bound) <= found.value


@pytest.mark.parametrize("seed", range(12))
def test_whatever_the_prices_are_no_mapping_is_below(seed):
    """FunnelPrices of another disclosure, moved at random: the line stays below every mapping that is tried."""
    rng = np.random.default_rng(seed)
    counts = drawn(seed, 5)
    joint = counts / counts.sum()
    source = joint.sum(axis=0)
    near = jp.solve(jp.FunnelProblem(joint, disclosure=0.9 * entropy(source)))
    nu = np.nan_to_num(near.prices) + rng.normal(size=5) * rng.choice([0, 1e-3, 0.1, 3])
    slope = float(rng.choice([0.0, 0.02, 0.3, 0.9, 1.0]))
    line = float(of_prices(counted(counts), FunnelPrices(nu.tolist(), slope, 0.0), Fraction(10))) - 10 * slope
    special = [near.mechanism, np.eye(5), np.ones((5, 1))]
    width = max(6, *(mapping.shape[1] for mapping in special))
    mappings = [np.pad(mapping, ((0, 0), (0, width - mapping.shape[1]))) for mapping in special]
    mappings += [rng.dirichlet(np.full(width, scale), size=5) for scale in (0.02, 0.1, 0.5, 2) for _ in range(200)]
    for mapping in mappings:
        disclosed = information(source[:, None] * mapping)
        assert information(joint @ mapping) >= line + slope * disclosed - 1e-12


def test_without_prices():
    counts = np.array([[3, 1, 0], [1, 0, 5]])
    joint = counts / 10
    hidden = entropy(joint.ravel()) - entropy(joint.sum(axis=1))
    assert float(elementary(counted(counts), Fraction(0.9))) == pytest.approx(0.9 - hidden, abs=1e-12)
    assert elementary(counted(counts), Fraction(1, 10)) == 0


def test_useful_symbols_without_a_record_and_equal_ones():
    counts = np.array([[3, 0, 6, 1], [1, 0, 2, 5]])
    narrow = np.array([[9, 1], [3, 5]])
    prices, disclosure = FunnelPrices([0.3, 99.0, 0.3, 0.1], 0.2, 0.0), Fraction(1, 2)
    assert pairs(counted(counts)) == pairs(counted(narrow)) == 2
    with pytest.raises(IntegrityError):
        of_prices(counted(narrow), prices, disclosure)
    # H(X) and the price of P_X are of the finer alphabet, the least value is the same.
    fine, coarse = (
        float(of_prices(counted(c), FunnelPrices(p, 0.2, 0.0), Fraction(9)))
        for c, p in ((counts, prices.useful), (narrow, [0.3, 0.1]))
    )
    assert coarse - fine == pytest.approx(0.2 * (entropy(counts.sum(0) / 18) - entropy(narrow.sum(0) / 18)), abs=1e-12)


@pytest.mark.parametrize("multiplier", [-0.1, 1.5])
def test_impossible_prices(multiplier):
    with pytest.raises(IntegrityError):
        FunnelPrices([0.0, 0.0], multiplier, 0.0)


# -- designs -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two():
    return fit(people(), **COLUMNS, disclosure=2.0, resolution=40)


@pytest.fixture(scope="module")
def three():
    """Three private classes."""
    table = people()
    rng = np.random.default_rng(0)
    table["income"] = np.where(rng.random(1200) < 0.2, "none", table["income"]).astype(object)
    return fit(table, **COLUMNS, disclosure=2.0)


def files(fitted, tmp_path):
    design, audit = saved(fitted, tmp_path)
    return verify(design, private=audit)


def test_two_private_symbols_from_the_files_alone(two, tmp_path):
    found = files(two, tmp_path)
    assert found.claims == two.claims
    assert two.status == "optimal"
    assert 0 < float(found.claims["lower_bound"].lower) <= float(found.claims["value"].upper)
    assert float(found.claims["gap"].upper) <= 1.1e-6
    assert not {"solver_bound", "solver_gap"} & set(found.claims)
    loaded = Evidence.load(tmp_path / "audit.zip", Mechanism.load(tmp_path / "design.zip"))
    np.testing.assert_array_equal(loaded.duals["prices"], two.evidence.duals["prices"])
    np.testing.assert_array_equal(loaded.duals["line"], two.evidence.duals["line"])


def test_more_private_symbols_say_what_is_not_proved_there(three, tmp_path):
    found = files(three, tmp_path)
    assert float(found.claims["solver_gap"].upper) <= 1.1e-6
    exact, stated = (float(found.claims[name].lower) for name in ("lower_bound", "solver_bound"))
    assert 0 <= exact < stated <= float(found.claims["value"].upper)
    assert found.guarantees["ldp"].upper is None  # a funnel's mapping has zeros
    assert "\n  ldp: inf whatever the population is\n    (some release is possible for one record and im" in found.text
    assert "solver_bound: at least" in found.text
    assert "which is not repeated here" in found.text
    assert "except solver_bound and solver_gap" in found.text
    assert any("branch and bound in float64" in sentence for sentence in three.statements)


def test_too_many_pairs(two, monkeypatch):
    monkeypatch.setattr("jaxpriv.verifier.designs.MOST_PAIRS", 3)
    claims = two.evidence.claims(two.mechanism)
    assert float(claims["solver_bound"].lower) == pytest.approx(float(two.claims["lower_bound"].lower), abs=1e-9)
    assert float(claims["lower_bound"].lower) < float(claims["solver_bound"].lower)


@pytest.mark.parametrize("field", ["prices", "line"])
def test_altered_prices_are_another_audit(two, field, tmp_path):
    """The commitment names the arrays: also ones with hashes and claims that are right again are refused."""
    values = two.evidence.duals[field].copy()
    values[0] += 0.01
    other = replace(two.evidence, duals=two.evidence.duals | {field: values})
    design = read_design(two.mechanism.to_bytes(), "d")
    with raised(IntegrityError, "not those"):
        read_audit(other.to_bytes(two.mechanism), design, "a")


def test_scores_are_no_part_of_a_funnel(two):
    scores = {"scores": np.zeros((1, 1, 1)), "weights": np.ones((1, 1)), "multipliers": np.ones(1)}
    other = replace(two.evidence, duals=two.evidence.duals | scores)
    with raised(IntegrityError, "members"):
        read_audit(other.to_bytes(two.mechanism), read_design(two.mechanism.to_bytes(), "d"), "a")


def test_the_command_prints_the_bound(tmp_path):
    table = write(tmp_path / "t.csv", people())
    columns = "--private income --useful age --useful town --bins age=quantiles:3"
    text = printed("fit", table, columns, "--disclosure 2.0 --out", tmp_path / "d.zip", "--json", tmp_path / "d.json")
    claims = json.loads((tmp_path / "d.json").read_text())["on_the_design"]
    assert "no mapping has less leakage than  " in text
    assert f"{float(claims['lower_bound']['lower']):.4g}"[:5] in text
    # Utility is rounded down in print.
    shown = next(row for row in text.splitlines() if "utility I(X;Y)  " in row).split()[-2]
    assert Fraction(shown) <= Fraction(claims["disclosure"]["lower"])
