"""`jaxpriv funnel`: the JSON, several targets, exit codes, and refusals before any work."""

import os

import numpy as np
import pytest

import jaxpriv as jp
from tests.cli.conftest import JOINT, answered, mistaken, printed, refused, run, strict_json

FIELDS = [
    "status",
    "value",
    "lower_bound",
    "upper_bound",
    "gap",
    "leakage",
    "disclosure",
    "solver",
    "iterations",
    "seconds",
    "units",
]
WHOLE = float(-(JOINT.sum(axis=0) @ np.log(JOINT.sum(axis=0))))


@pytest.fixture
def problem(save):
    return save(joint=JOINT)


def solved(*args):
    result = run("funnel", *args, "--json -")
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return strict_json(result.stdout)


# -- results ---------------------------------------------------------------------------------------


def best_known(kind=jp.FunnelProblem, method="greedy", joint=JOINT, **target):
    return jp.solve(kind(joint, **target), method)


@pytest.mark.parametrize("method", ["greedy", "greedy-ratio"])
def test_json_has_exactly_the_promised_fields(problem, method):
    record = solved("problem.npz --disclosure 0.7 --method", method, "--out mechanism.npz")
    assert list(record) == FIELDS
    # A local method that was asked for by name has done its work, whatever its gap is.
    assert record["status"] == "best_known"
    assert record["gap"] > 1e-6
    assert record["gap"] == pytest.approx(record["upper_bound"] - record["lower_bound"], abs=1e-15)
    assert record["lower_bound"] <= record["value"] == record["upper_bound"]
    assert record["solver"] == method
    assert record["units"] == "nats"
    assert type(record["iterations"]) is int
    assert list(record["seconds"]) == ["compile", "solve"]
    expected = best_known(method=method, disclosure=0.7)
    mechanism = np.load("mechanism.npz")["mechanism"]
    assert np.array_equal(mechanism, expected.mechanism)
    assert record["disclosure"] == pytest.approx(expected.disclosure, abs=1e-14)
    assert record["leakage"] == pytest.approx(expected.leakage, abs=1e-14)
    assert record["iterations"] == expected.steps
    # Within a limit on the leakage the value is the disclosure.
    record = solved("problem.npz --leakage-budget 0.1 --method", method)
    expected = best_known(method=method, leakage_budget=0.1)
    assert (record["value"], record["upper_bound"]) == (expected.value, expected.upper_bound)
    assert record["leakage"] <= 0.1


def test_the_default_method_proves_its_value_or_says_that_it_did_not(save, tmp_path):
    binary = np.array([[0.20, 0.12, 0.05, 0.03], [0.02, 0.10, 0.18, 0.30]])
    path, out = save(joint=binary), tmp_path / "mechanism.npz"
    record = solved(path, "--disclosure 1.0 --out mechanism.npz")
    assert record["status"] == "optimal"
    assert record["solver"] == "column-generation"
    assert record["gap"] <= 1e-6
    assert record["value"] <= best_known(joint=binary, disclosure=1.0).leakage
    mechanism = np.load("mechanism.npz")["mechanism"]
    measured = jp.leakage.evaluate(jp.leakage.MutualInformation(), binary, mechanism)
    assert record["leakage"] == pytest.approx(measured.value, abs=1e-12)
    # The mechanism and its honest gap are written all the same.
    out.unlink()
    result = run("funnel", path, "--disclosure 1.0 --max-steps 1 --out mechanism.npz --json -")
    assert result.exit_code == 4
    assert "not certified to --tol 1e-06" in result.stderr
    assert result.stderr.count("\n") == 1
    loose = strict_json(result.stdout)
    assert loose["status"] == "best_known"
    assert loose["gap"] > 1e-6
    assert loose["lower_bound"] <= record["upper_bound"] <= loose["upper_bound"] + 1e-6
    assert np.load("mechanism.npz")["mechanism"].shape[0] == 4
    # The other boundary lies above.
    other = solved(path, "--disclosure 1.0 --bottleneck")
    assert other["status"] == "optimal"
    assert other["value"] == other["lower_bound"] > record["value"]


def test_bottleneck_methods_imply_the_bottleneck(problem):
    record = solved("problem.npz --relevance 0.2 --method greedy-bottleneck")
    assert record["value"] == pytest.approx(
        best_known(jp.BottleneckProblem, "greedy-bottleneck", relevance=0.2).disclosure, abs=1e-12
    )
    assert record["value"] == record["upper_bound"]
    record = solved("problem.npz --disclosure 0.7 --method greedy-bottleneck")
    assert record["value"] == record["lower_bound"] <= record["upper_bound"]
    assert record["disclosure"] <= 0.7
    # What can leak at a disclosure, and what must.
    assert record["leakage"] >= solved("problem.npz --disclosure 0.7 --method greedy-ratio")["leakage"]


def test_several_targets_give_lists(problem):
    targets = [0.9, 0.3]
    record = solved("problem.npz --disclosure", *targets, "--method greedy")
    assert sorted(record) == sorted(FIELDS)
    for position, target in enumerate(targets):
        single = solved("problem.npz --disclosure", target, "--method greedy")
        for name in ("status", "value", "lower_bound", "upper_bound", "gap", "leakage", "disclosure", "iterations"):
            assert record[name][position] == single[name]
    again = solved("problem.npz --disclosure=0.9 --disclosure 0.3 --method greedy")
    assert again["value"] == record["value"]
    text = printed("funnel problem.npz --disclosure", *targets, "--method greedy --units bits")
    for words in ("disclosure", "leakage (bits)", "best known", f"{record['disclosure'][0] / np.log(2):.6f}"):
        assert words in text


def test_what_is_left_of_x_is_a_target(problem):
    left = solved("problem.npz --equivocation", WHOLE - 0.7, "--method greedy")
    assert left["value"] == solved("problem.npz --disclosure 0.7 --method greedy")["value"]
    text = printed("funnel problem.npz --equivocation", WHOLE - 0.7, "--method greedy")
    assert f"least leakage  {left['value']:.5f}" in text


def test_text_rounds_the_interval_outwards(problem, tmp_path):
    target = tmp_path / "result.json"
    text = printed("funnel problem.npz --disclosure 0.7 --method greedy --json result.json")
    record = strict_json(target.read_text())
    shown = {line.split("  ")[0]: line.split()[-2] for line in text.splitlines() if line.endswith("nats")}
    assert record["value"] <= float(shown["least leakage"]) <= record["value"] + 1e-5
    assert record["lower_bound"] - 1e-5 <= float(shown["lower bound"]) <= record["lower_bound"]
    assert record["upper_bound"] <= float(shown["upper bound"])
    for options, words in (
        ("--leakage-budget 0.1 --method greedy", "most disclosure"),
        ("--multiplier 0.5 --method greedy", "best objective"),
        ("--relevance 0.1 --method greedy-bottleneck", "least disclosure"),
        ("--disclosure 0.5 --method greedy-bottleneck", "most relevance"),
    ):
        assert words in printed("funnel problem.npz", options)


def test_leakage_in_another_unit_says_so(problem):
    options = "--disclosure 0.7 --method greedy --leakage correct-guess"
    record = solved("problem.npz", options)
    assert list(record) == [*FIELDS, "leakage_units"]
    assert record["leakage_units"] == "probability"
    text = printed("funnel problem.npz", options, "--units bits")
    assert "least leakage  0.520001 probability" in text
    assert record["leakage"] == pytest.approx(0.52)
    assert f"disclosure     {record['disclosure'] / np.log(2):.6g} bits" in text


def test_a_guess_is_proved(problem):
    record = solved("problem.npz --disclosure 0.7 --leakage correct-guess")
    assert record["solver"] == "vertex-generation"
    assert record["status"] == "optimal"
    assert record["value"] <= 0.520001  # of greedy merging
    assert record["value"] - 1e-6 <= record["lower_bound"] <= record["value"]


def test_above_the_entropy_is_infeasible(problem, tmp_path):
    result = run("funnel problem.npz --disclosure 2 --out m.npz --json -")
    assert result.exit_code == 3
    assert "--disclosure 2 is above H(X) = " in result.stderr
    assert result.stderr.count("\n") == 1
    record = strict_json(result.stdout)
    assert list(record) == [*FIELDS[:-1], "proof", "units"]
    assert (record["status"], record["value"], record["gap"]) == ("infeasible", "inf", None)
    assert record["proof"]["largest"] == pytest.approx(WHOLE)
    assert os.listdir(tmp_path) == [problem.name]
    # One of several: the others are delivered.
    result = run("funnel problem.npz --disclosure 0.7 2 --method greedy --json -")
    assert result.exit_code == 3
    assert "--disclosure 2 is above" in result.stderr
    assert strict_json(result.stdout)["status"] == ["best_known", "infeasible"]
    assert answered("funnel problem.npz --relevance 2", code=3)["value"] == "inf"
    assert printed("funnel problem.npz --relevance 2", code=3) == ""


# -- bad input -------------------------------------------------------------------------------------

OPTIONS = {
    "--tol 1e-6": ["exactly one of --disclosure", "none given"],
    "--disclosure 0.1 --leakage-budget 0.1": ["exactly one", "several given"],
    "--disclosure nan": ["--disclosure must be"],
    "--disclosure 0.1 inf": ["--disclosure[1] must be"],
    "--multiplier 0.1 -1": ["--multiplier[1] must be"],
    "--disclosure much": ["--disclosure"],
    "--disclosure 0.1 --method guess": ["--method", "greedy-ratio"],
    "--disclosure 0.1 --tol 0": ["--tol"],
    "--disclosure 0.1 --max-steps 0": ["--max-steps"],
    "--disclosure 0.1 --leakage gossip": ["--leakage gossip: unknown"],
    "--disclosure 0.1 --leakage sibson": ["--leakage sibson", "--order"],
    "--multiplier 0.1 --leakage max-information": ["multiplier", "average"],
    "--leakage-budget 0.1 --bottleneck": ["--leakage-budget", "--bottleneck"],
    "--equivocation 0.1 --bottleneck": ["--equivocation", "--bottleneck"],
    "--disclosure 0.1 --method greedy-bottleneck --leakage maximal-leakage": ["--leakage", "greedy-bottleneck"],
    "--relevance 0.1 --method greedy": ["greedy", "funnel"],
    "--disclosure 0.1 0.2 --out {}/m.npz": ["--out", "one target"],
}


@pytest.mark.parametrize("options", OPTIONS)
def test_bad_options(problem, tmp_path, options):
    refused(run("funnel problem.npz", options.format(tmp_path)), 2, *OPTIONS[options])
    assert os.listdir(tmp_path) == [problem.name]


ARRAYS = {
    "set of joints": ({"joint": JOINT[None]}, ["joint", "3 dimension"]),
    "no joint": ({"distortion": JOINT}, ["no array named 'joint'"]),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_bad_arrays(save, tmp_path, case):
    arrays, words = ARRAYS[case]
    path = save(**arrays)
    mistaken("funnel problem.npz --disclosure 0.1 --out m.npz", *words)
    assert os.listdir(tmp_path) == [path.name]


def test_files(problem, tmp_path):
    asked = "funnel problem.npz --disclosure 0.7 --method greedy"
    mistaken("funnel absent.npz --disclosure 0.1", "absent.npz", "does not exist")
    mistaken(f"{asked} --out problem.npz", "--out", "PROBLEM.npz")
    refused(run(asked, "--out absent/m.npz"), 6, "--out", "No such file")
    assert os.listdir(tmp_path) == [problem.name]
