"""Independently solved instances: every convex program whose optimum is published beside the repository.

Each value comes with an interval that another solver's dual proved; ours must meet it from both sides.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import jaxpriv as jp

FOLDER = Path(__file__).resolve().parents[1].parent / "shared" / "reference" / "convex" / "public"
PROGRAMS = ("A", "Aprime", "D")
# Read while collecting, so that every instance is a test of its own; nothing is collected without the folder.
CASES = [
    pytest.param(path, index, id=f"{path.stem}-{result['program']}")
    for path in sorted(FOLDER.glob("*.json"))
    if not path.stem.startswith("E_")
    for index, result in enumerate(json.loads(path.read_text())["results"])
    if result["program"] in PROGRAMS
]
TOLERANCE = 1e-6


@pytest.fixture(scope="module")
def noise_reference(shared) -> dict:
    return json.loads((shared / "reference" / "convex" / "public" / "E_cyclic_noise.json").read_text())


def entropy(mass):
    mass = mass[mass > 0]
    return -(mass * np.log(mass)).sum()


def information(joint):
    """I(A;B) from three entropies: another formula than the library's."""
    return entropy(joint.sum(axis=0)) + entropy(joint.sum(axis=1)) - entropy(joint.ravel())


def problem_of(data, program, params):
    if program == "D":
        return jp.DistortionProblem(data["p_ksy"], data["d"], budget=params["D"])
    if program == "A":
        return jp.DistortionProblem(data["p_sy"], data["d"], budget=params["D"])
    pairs = jp.private_pairs(data["p_sy"])
    np.testing.assert_array_equal(pairs, np.stack([params["pairs_s"], params["pairs_y"]], axis=1))
    return jp.with_private_input(data["p_sy"], data["d"], budget=params["D"])


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize(("path", "index"), CASES)
def test_optimum_is_certified_inside_the_reference_interval(path, index):
    result = json.loads(path.read_text())["results"][index]
    with np.load(path.with_suffix(".npz")) as data:
        problem = problem_of(data, result["program"], result["params"])
    solution = jp.solve(problem, tol=TOLERANCE)

    assert solution.status == "optimal"
    assert 0 <= solution.gap <= TOLERANCE
    # Both intervals hold the optimum, so neither may lie wholly on one side of the other ...
    assert solution.lower_bound <= result["upper"] + 1e-12
    assert solution.value >= result["lower"] - 1e-12
    # ... and the value itself is as good as promised.
    assert result["lower"] - TOLERANCE <= solution.value <= result["upper"] + TOLERANCE

    # The mechanism is what the numbers say: by another formula, and feasible.
    w = solution.mechanism
    np.testing.assert_allclose(w.sum(axis=1), 1, atol=1e-12)
    assert w.min() >= 0
    leakages = [information(joint @ w) for joint in problem.joints]
    assert max(leakages) == pytest.approx(solution.value, abs=1e-9)
    used = np.einsum("kx,mxy,xy->km", problem.joints.sum(axis=1), problem.tables(), w)
    assert np.all(used <= problem.budget + 1e-12)


@pytest.mark.usefixtures("shared")
def test_every_program_of_the_folder_is_covered():
    """The collection above must not have lost instances: each kind of program, and no empty folder."""
    kinds = {case.id.split("-")[1] for case in CASES}
    assert kinds == set(PROGRAMS)
    assert len(CASES) >= len(list(FOLDER.glob("*.npz")))


def test_maximum_entropy_noise_on_the_cyclic_group(noise_reference):
    for result in noise_reference["results"]:
        n, budget = result["n"], result["Delta"]
        z = np.arange(n)
        cost = np.minimum(z, n - z).astype(float)
        found = jp.max_entropy_noise(cost, budget)
        assert found.entropy == pytest.approx(result["value"], abs=1e-9)
        assert found.gap <= 1e-9
        assert found.upper_bound >= result["lower"] - 1e-12
        assert cost @ found.noise <= budget + 1e-12
        assert found.price == pytest.approx(result["beta"], rel=1e-6, abs=1e-6)
        assert np.log(n) - found.entropy == pytest.approx(result["I_uniform_Y"], abs=1e-9)


@pytest.mark.parametrize("name", ["uniform5", "nonuniform5", "binomial10"])
def test_least_leakage_of_additive_noise(noise_reference, name):
    """Corollary 1's second part: maximum entropy is optimal for uniform X and beaten elsewhere."""
    check = next(one for one in noise_reference["corollary1_check"] if one["name"] == name)
    mass = np.array(check["p_y"]) / np.sum(check["p_y"])
    n = len(mass)
    cost = np.minimum(np.arange(n), n - np.arange(n)).astype(float)
    problem = jp.NoiseProblem(np.diag(mass), cost, budget=check["Delta"])
    solution = jp.solve(problem, tol=TOLERANCE)
    assert solution.status == "optimal"
    # The reference solver called its own values inaccurate: they are good to a few 1e-8.
    assert solution.lower_bound - 1e-7 <= check["I_min_additive"] <= solution.value + 1e-7
    entropic = problem.mechanism(jp.max_entropy_noise(cost, check["Delta"]).noise)
    leak = information(mass[:, None] * entropic)
    assert leak == pytest.approx(check["I_maxent_noise"], abs=1e-9)
    if name == "uniform5":
        assert solution.lower_bound <= leak <= solution.value + TOLERANCE
    else:
        assert leak > solution.value + 1e-4
