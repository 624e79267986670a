"""`jaxpriv demo`: the table, the figures, and arrays that the other commands read."""

import os
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import datasets
from jaxpriv.data.distortion import changed_attributes
from tests.cases import spent, value_of
from tests.cli.conftest import examples, mistaken, printed, refused, run, strict_json
from tests.guard import commands


@pytest.mark.slow
def test_demo(tmp_path, monkeypatch):
    """The example of the help text, which `test_examples_work` leaves to this test."""
    monkeypatch.chdir(tmp_path)
    _, (line,) = examples("demo")
    folder, target = Path("demo"), Path("demo.json")
    shown = printed(shlex.split(line)[1:], "--json", target)
    assert sorted(os.listdir(folder)) == ["census.npz", "frontier.png", "funnel.png", "mapping.npz", "mapping.png"]
    for name in ("frontier.png", "funnel.png", "mapping.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    record = strict_json(target.read_text())
    assert commands.missing(commands.frozen()["demo"]["record"], commands.shape_of(record)) == []
    assert record["status"] == ["optimal"] * 6
    assert max(record["gap"]) <= 1e-6
    assert np.all(np.diff(record["value"]) <= 1e-6)
    assert np.all(np.array(record["distortion"]) <= np.array(record["budget"]) + 1e-9)
    # Beyond the least distortion without leakage nothing leaks, and before it something does.
    free = record["least_distortion_without_leakage"]
    beyond = np.array(record["budget"]) > free["value"]
    assert np.all(np.array(record["value"])[beyond] <= 1e-6)
    assert np.all(np.array(record["lower_bound"])[np.array(record["budget"]) < free["lower_bound"] - 0.1] > 0)
    funnel = record["funnel"]
    assert funnel["status"] == ["optimal"] * 4
    assert max(funnel["gap"]) <= 1e-6
    assert np.all(np.diff(funnel["value"]) >= -1e-6)
    assert np.all(np.array(funnel["greedy"]) >= np.array(funnel["lower_bound"]))
    assert np.all(np.array(funnel["greedy_ratio"]) >= np.array(funnel["lower_bound"]))
    for words in (
        "leakage (nats)",
        "to compile",
        "nothing leaks",
        "privacy funnel",
        "age and gender",
        "frontier.png",
    ):
        assert words in shown
    with np.load(folder / "census.npz") as arrays:
        joint, distortion = arrays["joint"], arrays["distortion"]
    assert np.array_equal(joint, datasets.census().joint)
    with np.load(folder / "mapping.npz") as arrays:
        used = spent(joint, distortion, arrays["mechanism"])
    assert used == pytest.approx(record["distortion"][record["budget"].index(record["drawn_budget"])])


def test_the_guesses_that_the_readme_states():
    readme = Path(__file__).parents[2] / "README.md"
    if not readme.is_file():
        pytest.skip("README.md is part of a checkout only")
    (stated,) = re.findall(r"\*\*In guesses\.\*\*(.+?)\n\n", readme.read_text(), re.DOTALL)
    data = datasets.census()
    problem = jp.DistortionProblem(data.joint, changed_attributes(data.useful_attributes), budget=0.5)
    optimal = jp.solve(problem).mechanism
    releases = [np.eye(55), optimal, np.ones((55, 1))]
    right = [value_of(jp.leakage.by_name("correct-guess"), data.joint, w) for w in releases]
    assert [f"{100 * one:.0f}" for one in right] == re.findall(r"(\d+) %", stated)


def test_demo_refuses_before_the_work(tmp_path, absent):
    (tmp_path / "file").write_text("")
    mistaken("demo --out file", "not a folder")
    refused(run("demo --out file/below"), 6, "--out")
    refused(run("demo --out", tmp_path, "--points 1"), 2, "--points")
    absent("matplotlib")
    refused(run("demo --out new"), 6, "matplotlib")
    assert os.listdir(tmp_path) == ["file"]
