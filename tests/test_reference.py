"""Independently solved instances: every convex program whose optimum is published beside the repository.

Each value comes with an interval that another solver's dual proved; ours must meet it from both sides.
"""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

import jaxpriv as jp
from tests.funnels.cases import entropy
from tests.information import information

FOLDER = Path(__file__).resolve().parents[1].parent / "shared" / "reference" / "convex" / "public"
PROGRAMS = ("A", "Aprime", "D", "B", "Bouter", "C_infopriv", "C_ldp", "C_dp_neighbour_counts")
AVERAGE = ("A", "Aprime", "D")
# Read while collecting, so that every instance is a test of its own; nothing is collected without the folder.
# The search solves a dozen programs for each; these are of every shape.
SEARCHED = ("c02", "c08", "g03", "g12", "g24", "r01", "r06")
CASES = [
    pytest.param(
        path,
        index,
        id=f"{path.stem}-{result['program']}",
        # Each compiles a program of its own; two instances of every kind are always run.
        marks=[] if result["program"] in AVERAGE or path.stem in ("g03", "r01", "c02") else [pytest.mark.slow],
    )
    for path in sorted(FOLDER.glob("*.json"))
    if not path.stem.startswith("E_")
    for index, result in enumerate(json.loads(path.read_text())["results"])
    if result["program"] in PROGRAMS and (result["program"] != "Bouter" or path.stem in SEARCHED)
]
TOLERANCE = 1e-6
# Of a limit, and of the value of a mechanism by another formula.
ROUNDING = 1e-9


@pytest.fixture(scope="module")
def noise_reference(shared) -> dict:
    return json.loads((shared / "reference" / "convex" / "public" / "E_cyclic_noise.json").read_text())


def measure_of(program, data):
    """The worst-outcome measure of programs B and C; rows of p_sy that stand for many states say so by `m`."""
    measures = jp.leakage
    if program in ("B", "Bouter"):
        if np.all(data["m"] == 1):
            return measures.MaxInformation()
        if "hidden" not in {field.name for field in dataclasses.fields(measures.MaxInformation)}:
            pytest.skip("rows that stand for several private states (`m`) need MaxInformation(hidden=...)")
        return measures.MaxInformation(hidden=np.log(data["m"]))  # pyright: ignore[reportCallIssue]
    if program == "C_infopriv":
        return measures.Lift()
    if program == "C_ldp":
        return measures.LocalDifferentialPrivacy()
    count = len(data["m"])
    return measures.LocalDifferentialPrivacy(np.eye(count, k=1, dtype=bool) | np.eye(count, k=-1, dtype=bool))


def worst_outcome(program, joint, states, w):
    """The leakage of programs B and C by formulas of their own, from the channel and the posteriors."""
    outputs = joint @ w
    used = outputs.sum(axis=0) > 0
    seen = np.flatnonzero(joint.sum(axis=1) > 0)
    outputs, prior, states = outputs[seen][:, used], joint[seen].sum(axis=1), states[seen]
    if program in ("B", "Bouter"):
        conditional = [entropy(q) + q @ np.log(states) for q in (outputs / outputs.sum(axis=0)).T]
        return entropy(prior) + prior @ np.log(states) - min(conditional)
    channel = outputs / prior[:, None]
    if program == "C_infopriv":
        return abs(np.log(channel / outputs.sum(axis=0))).max()
    logs = np.log(channel)
    pairs = logs[:, None] - logs[None]
    if program == "C_ldp":
        return pairs.max()
    near = abs(np.subtract.outer(seen, seen)) == 1
    return pairs[near].max()


def problem_of(data, program, params):
    if program == "D":
        return jp.DistortionProblem(data["p_ksy"], data["d"], budget=params["D"])
    if program == "A":
        return jp.DistortionProblem(data["p_sy"], data["d"], budget=params["D"])
    if program not in AVERAGE:
        form = {"budget": params["D"]} if program == "Bouter" else {"leakage_budget": params["eps"]}
        return jp.DistortionProblem(data["p_sy"], data["d"], leakage=measure_of(program, data), **form)
    pairs = jp.private_pairs(data["p_sy"])
    np.testing.assert_array_equal(pairs, np.stack([params["pairs_s"], params["pairs_y"]], axis=1))
    return jp.with_private_input(data["p_sy"], data["d"], budget=params["D"])


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize(("path", "index"), CASES)
def test_optimum_is_certified_inside_the_reference_interval(path, index):
    result = json.loads(path.read_text())["results"][index]
    with np.load(path.with_suffix(".npz")) as data:
        program, params = result["program"], result["params"]
        problem = problem_of(data, program, params)
        states = data.get("m")
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
    used = np.einsum("kx,mxy,xy->km", problem.joints.sum(axis=1), problem.tables(), w)
    if program in AVERAGE:
        leakages = [information(joint @ w) for joint in problem.joints]
        assert max(leakages) == pytest.approx(solution.value, abs=ROUNDING)
        assert np.all(used <= problem.budget + 1e-12)
        return
    leak = worst_outcome(program, problem.joints[0], states, w)
    assert leak == pytest.approx(solution.leakage, abs=ROUNDING)
    if program == "Bouter":  # the search proves an upper end, which its mechanism may undercut
        assert leak <= solution.value + ROUNDING
        assert np.all(used <= problem.budget + ROUNDING)
    else:
        assert used[0, 0] == pytest.approx(solution.value, abs=ROUNDING)
        assert leak <= params["eps"] + ROUNDING


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
