"""`jaxpriv utility` and `envelope`: what the library finds, within limits that are measured again from the file."""

import numpy as np
import pytest

import jaxpriv as jp
from tests.cases import spent
from tests.cli.conftest import DISTORTION, JOINT, answered, mistaken, printed, run


def released(name: str = "m.npz") -> np.ndarray:
    return np.load(name)["mechanism"]


def test_the_most_useful_mapping_of_a_joint(problem):
    record = answered("utility problem.npz --limit max-lift=0.5 --limit min-lift=0.9 --out m.npz")
    assert record["status"] == "optimal"
    assert 0 <= record["upper_bound"] - record["value"] == record["gap"] <= 1e-6
    outputs = JOINT @ released()
    lift = np.log(outputs / np.outer(outputs.sum(axis=1), outputs.sum(axis=0)))
    assert record["leakage"] == pytest.approx([lift.max(), -lift.min()], abs=1e-9)
    assert (lift.max(), -lift.min()) <= (0.5 + 1e-9, 0.9 + 1e-9)
    mass = JOINT.sum(axis=0)
    disclosed = float(jp.leakage.evaluate(jp.leakage.MutualInformation(), np.diag(mass), released()).value)
    assert record["value"] == pytest.approx(disclosed, abs=1e-9)
    shown = printed("utility problem.npz --limit max-lift=0.5 --limit min-lift=0.9 --units bits")
    assert float(next(line for line in shown.splitlines() if line.startswith("max-lift")).split()[1]) == pytest.approx(
        0.5 / np.log(2), rel=1e-5
    )


@pytest.mark.parametrize("shape", ["of X itself", "of S and X"])
def test_the_limit_holds_for_the_population_behind_counts(save, shape):
    """At the ends of the confidence set that are farthest from the sample, and at no cost where there are no counts."""
    of_x = np.array([4000, 3000, 2000, 1000])
    counts = of_x if shape == "of X itself" else (10_000 * JOINT).round().astype(int)
    save("sample.npz", counts=counts, joint=counts / counts.sum())
    limit = "--limit max-lift=0.5 --out m.npz"
    record = answered("utility sample.npz --confidence 0.95", limit)
    assert record["confidence"] == 0.95
    assert record["leakage"][0] <= 0.5 + 1e-9
    best = jp.maximum_utility(counts, (jp.leakage.MaxLift(), 0.5), confidence=0.95)
    assert record["value"] == best.value
    moved = counts / counts.sum() + (0.01 * (np.arange(4) == 0) - 0.01 * (np.arange(4) == 3)) * (counts.ndim == 1)
    of_population = np.diag(moved) if counts.ndim == 1 else moved
    outputs = of_population @ released()
    assert np.log(outputs / np.outer(outputs.sum(axis=1), outputs.sum(axis=0))).max() <= 0.5
    assert "max-lift, population, confidence 0.95" in printed("utility sample.npz --confidence 0.95", limit)
    assert record["value"] < answered("utility sample.npz", limit)["value"]


def test_the_least_distortion_within_an_envelope(problem):
    record = answered("envelope problem.npz --delta 0.2 --leakage-budget 0.5 --tol 0.1 --out m.npz")
    assert record["status"] == "optimal"
    assert 0 <= record["value"] - record["lower_bound"] == record["gap"] <= 0.1
    assert record["value"] == pytest.approx(spent(JOINT, DISTORTION, released()))
    outputs = JOINT @ released()
    masses, shares = outputs.sum(axis=0), outputs / outputs.sum(axis=1, keepdims=True)
    for share in shares:  # the outcomes that say most of s, as many as have the probability .2 together
        order = np.argsort(-share / np.where(masses > 0, masses, 1.0))
        taken = np.diff(np.minimum(np.cumsum(masses[order]), 0.2), prepend=0.0)
        inside = taken > 0
        assert np.log((taken[inside] * share[order][inside] / masses[order][inside]).sum() / 0.2) <= 0.5 + 1e-9
    found = run("envelope problem.npz --delta 0.2 --leakage-budget 0.5 --tol 1e-9 --max-steps 1")
    assert found.exit_code == 4
    assert "best known" in found.stdout


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("utility problem.npz --limit maximal-leakage=1", "--limit[0] must be on lift, max-lift"),
        ("utility problem.npz", "--limit"),
        ("utility problem.npz --limit lift=1 --confidence 0.9", "'counts'"),
        ("envelope problem.npz --delta 1.5 --leakage-budget 1", "--delta must be"),
        ("utility joints.npz --limit lift=1", "error: joint has 3 dimension"),
        ("envelope problem.npz --delta 0.1 --leakage-budget inf", "finite --leakage-budget"),
    ],
)
def test_what_is_refused(problem, save, line, shown):
    save("joints.npz", joint=np.stack([JOINT, JOINT]) / 2)
    mistaken(line, shown)
