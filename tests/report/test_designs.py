"""`compare_designs`: every number against NumPy on the counts, and the verdict against the gains that prove it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from jaxpriv.release import fit
from jaxpriv.release.report import compare_designs
from jaxpriv.statistics.tables import Edges
from tests.cases import refused
from tests.release.conftest import people

COLUMNS = {"private": "income", "useful": ["age", "town"], "rules": {"age": Edges((0, 30, 60, 90))}}


def made(records=1500, **how):
    fitted = fit(people(records), **{**COLUMNS, **how})
    return fitted.mechanism, fitted.evidence


@pytest.fixture(scope="module")
def designs():
    return {
        "small": made(budget=0.05),
        "large": made(budget=0.3),
        "leakage": made(leakage_budget=0.01, leakage="maximal-leakage"),
        "numbers": made(disclosure=0.8),
    }


def test_numbers_are_those_of_the_counts(designs):
    found = compare_designs(designs)
    counts = designs["small"][1].counts
    joint = counts / counts.sum()
    assert found.records == counts.sum()
    assert_allclose(found.guesses["without"], joint.sum(axis=1).max())
    for name, (mechanism, _) in designs.items():
        design, released = found.designs[name], joint @ mechanism.matrix()
        independent = released.sum(axis=1)[:, None] * released.sum(axis=0)
        information = released[released > 0] @ np.log(
            (released / np.where(independent > 0, independent, 1))[released > 0]
        )
        maximal = np.log((released / released.sum(axis=1)[:, None]).max(axis=0).sum())
        for label, value in {"mutual information I(S;Y)": information, "maximal leakage": maximal}.items():
            claim = design.leakages[label]
            assert float(claim.lower) - 1e-12 <= value <= float(claim.upper) + 1e-12
            assert design.population[label] > value
        assert_allclose(design.correct_guess.most, released.max(axis=0).sum())
        if name == "numbers":
            assert (design.changed, design.unmoved) == ({}, None)
            continue
        kept = changed = 0.0
        for x, codes in enumerate(mechanism.useful):
            for y, others in enumerate(mechanism.released):
                weight = joint[:, x].sum() * mechanism.matrix()[x, y]
                kept += weight * (codes == others).all()
                changed += weight * (codes != others)
        assert_allclose(design.unmoved, kept)
        assert_allclose([design.changed["age"], design.changed["town"]], changed, atol=1e-12)
    # The bounds of all designs hold together: each has its share of the failures.
    two = {name: designs[name] for name in ("small", "large")}
    pair, three = (
        compare_designs(two, confidence=0.95),
        compare_designs({**two, "copy": two["small"]}, confidence=0.925),
    )
    for name in two:
        assert_allclose(*(list(each.designs[name].population.values()) for each in (pair, three)))


def test_the_verdict_is_proved_by_gains(designs):
    found = compare_designs({name: designs[name] for name in ("small", "large", "leakage")})
    joint = designs["small"][1].counts / designs["small"][1].counts.sum()
    verdicts = dict(zip(found.orders, found.verdicts, strict=True))
    assert found.record["orders"][0]["safer"] == "second"
    assert verdicts["small", "large"].startswith("large is safer than small for every average measure, up to")
    for (first, second), order in found.orders.items():
        assert order is not None
        mappings = [designs[name][0].matrix() for name in (first, second)]
        for sign, side in ((1, order.first), (-1, order.second)):
            assert side.gains.min() >= 0
            assert side.gains.max() <= 1
            gains = [(side.gains @ joint @ mapping).max(axis=0).sum() for mapping in mappings]
            assert_allclose(sign * (gains[0] - gains[1]), side.advantage, atol=1e-12)
            assert side.advantage <= side.distance / 2 + 1e-12
    same = compare_designs({"one": designs["small"], "other": designs["small"]})
    assert same.record["orders"][0]["safer"] == "equivalent"
    assert same.verdicts[0].startswith("one and other reveal the same")
    assert found.record["orders"][0]["verdict"] == found.verdicts[0]


def test_a_pair_that_is_too_large_is_named_without_a_verdict(designs, monkeypatch):
    monkeypatch.setattr("jaxpriv.release.report.designs._PAIRS", 1)
    found = compare_designs({name: designs[name] for name in ("small", "large")})
    assert found.orders == {("small", "large"): None}
    (verdict,) = found.verdicts
    assert verdict.startswith("Which of small and large is safer for every average measure was not computed: ")
    order = {"designs": ("small", "large"), "safer": None, "verdict": verdict, "first": None, "second": None}
    assert found.record["orders"] == [order]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"private": "town", "useful": ["age", "income"]}, "other has the private columns town, small has income"),
        ({"useful": ["age"]}, "other has the useful columns age, small has age, town"),
        ({"rules": {"age": Edges((0, 40, 90))}}, "column 'age' has other classes in other than in small"),
        ({"seed": 1}, "other was made on other records than small"),
    ],
)
def test_what_is_not_alike_is_refused_by_name(designs, change, message):
    other = made(budget=0.1, **change)
    with refused(message):
        compare_designs({"small": designs["small"], "other": other})


def test_one_design_and_a_follower_are_refused(designs):
    with refused("two or more"):
        compare_designs({"small": designs["small"]})
    after = fit(people(1500), private="income", after=designs["large"][0], budget=0.1)
    pair = {"small": designs["small"], "next": (after.mechanism, after.evidence)}
    with refused("next looks at the draws of an earlier design"):
        compare_designs(pair)
