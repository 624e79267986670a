"""Files that earlier versions wrote load today, or are refused with a message that names the version."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import jaxpriv as jp
from jaxpriv.cli import app
from jaxpriv.release import Evidence, Mechanism

from . import write

VERSIONS = sorted(path.name for path in Path(__file__).parent.iterdir() if (path / "people.csv").exists())


@pytest.fixture(params=VERSIONS)
def old(request, tmp_path):
    """A copy of the files of one version, with the rights that git does not keep."""
    folder = shutil.copytree(Path(__file__).parent / request.param, tmp_path / "old")
    for name in ("ledger", "problem.npz", *(f"{design}-audit.zip" for design in write.DESIGNS)):
        (folder / name).chmod(0o600)
    return folder


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize("name", write.DESIGNS)
def test_designs_with_their_evidence(old, name):
    mechanism = Mechanism.load(old / f"{name}.zip")
    evidence = Evidence.load(old / f"{name}-audit.zip", mechanism)
    assert mechanism.asked.problem == name
    assert mechanism.to_bytes() == (old / f"{name}.zip").read_bytes()
    assert evidence.claims(mechanism)
    assert set(mechanism.apply({"age": ["0", "2"], "town": ["1", "0"]})) == set(mechanism.released_columns)
    checked = run("verify", old / f"{name}.zip", "--private", old / f"{name}-audit.zip")
    assert checked.exit_code == 0, checked.output
    page = run("report", old / f"{name}.zip", "--private", old / f"{name}-audit.zip", "--out", old / "page.html")
    assert page.exit_code == 0, page.output


def test_a_receipt_and_the_table_that_it_is_of(old):
    design, released = old / "budget.zip", old / "released.csv"
    found = run("verify", old / "receipt.json", "--design", design, "--released", released)
    assert found.exit_code == 0, found.output
    paired = run(
        "verify", old / "receipt.json", "--design", design, "--released", released, "--records", old / "people.csv"
    )
    assert paired.exit_code == 0, paired.output


def test_a_ledger_repeats_its_draws(old):
    again = run(
        *("release", old / "people.csv", "--design", old / "budget.zip", "--ledger", old / "ledger", "--keep-order"),
        *("--out", old / "again.csv", "--receipt", old / "again.json"),
    )
    assert again.exit_code == 0, again.output
    assert (old / "again.csv").read_bytes() == (old / "released.csv").read_bytes()


def test_a_checkpoint_of_another_version_is_refused_by_name(old, request):
    steps = np.arange(12.0)
    joint = np.exp(-(((steps[:, None] - steps) / 3.0) ** 2))
    problem = jp.DistortionProblem(joint / joint.sum(), jp.distortion.absolute(steps, steps), budget=1.0)
    state, before = old / "state.npz", (old / "state.npz").read_bytes()
    version = request.node.callspec.params["old"]
    with pytest.raises(jp.InputError, match=re.escape(f"version '{version}' of jaxpriv wrote")):
        jp.solve(problem, solver=jp.AcceleratedMirrorDescent(), tol=1e-9, max_steps=9, checkpoint=state)
    assert state.read_bytes() == before


def test_a_study_is_complete(old):
    before = (old / "study" / "table.parquet").read_bytes()
    found = run("sweep", old / "study.toml", "--out", old / "study", "--json", "-")
    assert found.exit_code == 0, found.output
    assert (old / "study" / "table.parquet").read_bytes() == before


def test_counts_codebook_and_mapping(old):
    problem = old / "problem.npz"
    measured = run("leakage", old / "mapping.npz", "--joint", problem, "--json", "-")
    assert measured.exit_code == 0, measured.output
    value = json.loads((old / "solution.json").read_text())["value"]
    measures = {row["name"]: row["value"] for row in json.loads(measured.stdout)["measures"]}
    assert measures["mutual-information"] == pytest.approx(value, abs=1e-9)
    again = run("joint", old / "people.csv", "--codebook", old / "book.json", "--out", old / "counted.npz")
    assert again.exit_code == 0, again.output
    with np.load(problem) as before, np.load(old / "counted.npz") as now:
        assert all(np.array_equal(before[name], now[name]) for name in before.files)
