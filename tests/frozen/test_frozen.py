"""Files that earlier versions wrote load today, or are refused with a message that names the version."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv.release import Evidence, Mechanism
from tests.cases import refused
from tests.cli.conftest import answered, printed

from . import write

VERSIONS = sorted(path.name for path in Path(__file__).parent.iterdir() if (path / "people.csv").exists())


@pytest.fixture(params=VERSIONS)
def old(request, tmp_path, monkeypatch):
    """A copy of the files of one version, with the rights that git does not keep."""
    folder = shutil.copytree(Path(__file__).parent / request.param, tmp_path / "old")
    monkeypatch.chdir(folder)
    for name in ("ledger", "problem.npz", *(f"{design}-audit.zip" for design in write.DESIGNS)):
        (folder / name).chmod(0o600)
    return folder


@pytest.mark.parametrize("name", write.DESIGNS)
def test_designs_with_their_evidence(old, name):
    mechanism = Mechanism.load(f"{name}.zip")
    evidence = Evidence.load(f"{name}-audit.zip", mechanism)
    assert mechanism.asked.problem == name
    assert mechanism.to_bytes() == (old / f"{name}.zip").read_bytes()
    assert evidence.claims(mechanism)
    assert set(mechanism.apply({"age": ["0", "2"], "town": ["1", "0"]})) == set(mechanism.released_columns)
    printed(f"verify {name}.zip --private {name}-audit.zip")
    printed(f"report {name}.zip --private {name}-audit.zip --out page.html")


def test_a_receipt_and_the_table_that_it_is_of(old):
    line = "verify receipt.json --design budget.zip --released released.csv"
    printed(line)
    printed(line, "--records people.csv")


def test_a_ledger_repeats_its_draws(old):
    line = "release people.csv --design budget.zip --ledger ledger --keep-order"
    printed(line, "--out again.csv --receipt again.json")
    assert (old / "again.csv").read_bytes() == (old / "released.csv").read_bytes()


def test_a_checkpoint_of_another_version_is_refused_by_name(old, request):
    steps = np.arange(12.0)
    joint = np.exp(-(((steps[:, None] - steps) / 3.0) ** 2))
    problem = jp.DistortionProblem(joint / joint.sum(), jp.distortion.absolute(steps, steps), budget=1.0)
    state, before = old / "state.npz", (old / "state.npz").read_bytes()
    version = request.node.callspec.params["old"]
    with refused(re.escape(f"version '{version}' of jaxpriv wrote")):
        jp.solve(problem, solver=jp.AcceleratedMirrorDescent(), tol=1e-9, max_steps=9, checkpoint=state)
    assert state.read_bytes() == before


def test_a_study_is_complete(old):
    before = (old / "study" / "table.parquet").read_bytes()
    printed("sweep study.toml --out study")
    assert (old / "study" / "table.parquet").read_bytes() == before


def test_counts_codebook_and_mapping(old):
    value = json.loads((old / "solution.json").read_text())["value"]
    measured = answered("leakage mapping.npz --joint problem.npz")["measures"]
    measures = {row["name"]: row["value"] for row in measured}
    assert measures["mutual-information"] == pytest.approx(value, abs=1e-9)
    printed("joint people.csv --codebook book.json --out counted.npz")
    with np.load("problem.npz") as before, np.load("counted.npz") as now:
        assert all(np.array_equal(before[name], now[name]) for name in before.files)
