"""`jaxpriv release` and `jaxpriv verify`: from a design to a checked file, exit codes, and what verify imports."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from jaxpriv.mechanism import Mechanism
from tests.cli.conftest import refused, strict_json
from tests.cli.test_tables import COLUMNS, table  # noqa: F401 - a fixture

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def designed(table, tmp_path_factory):  # noqa: F811
    """A design and its audit."""
    from typer.testing import CliRunner

    from jaxpriv.cli import app

    folder = tmp_path_factory.mktemp("design")
    line = ["fit", table, *COLUMNS, "--budget", 0.15, "--out", folder / "design.zip"]
    line += ["--private-out", folder / "audit.zip"]
    assert CliRunner().invoke(app, [str(word) for word in line]).exit_code == 0
    return folder / "design.zip", folder / "audit.zip"


def test_released_and_verified(run, table, designed, tmp_path):  # noqa: F811
    design, audit = designed
    out, receipt = tmp_path / "out.csv", tmp_path / "receipt.json"
    line = ("release", table, "--design", design, "--out", out, "--receipt", receipt)
    result = run(*line, "--json", "-")
    assert result.exit_code == 0, result.output
    record = strict_json(result.stdout)
    assert (record["rows"], record["unseen"], record["served"]) == (600, 0, 0)
    refused(run(*line), 2, "second draw")
    files = ("--design", design, "--private", audit, "--released", out, "--records", table)
    result = run("verify", receipt, *files, "--json", "-")
    assert result.exit_code == 0, result.output
    found = strict_json(result.stdout)
    assert found["released_rows"] == 600
    assert found["on_the_design"]["excess"]["upper"] == "0"
    assert 0 < float(found["conformity"]["p_value"]) <= 1
    text = run("verify", design, "--private", audit).stdout
    assert "lower_bound: at least 0.0" in text
    assert "on the records of the design" in text
    out.write_bytes(out.read_bytes() + b"\n")
    refused(run("verify", receipt, *files), 5, "not the file that the receipt is about")
    damaged = tmp_path / "damaged.zip"
    damaged.write_bytes(design.read_bytes()[:-1])
    refused(run("verify", damaged), 5, "damaged")
    refused(run("release", table, "--design", damaged, "--out", tmp_path / "2.csv", "--receipt", tmp_path / "2"), 5)
    refused(run("verify", tmp_path / "absent.zip"), 2, "does not exist")
    assert run("verify", "--unknown").exit_code == 2
    assert "AUDIT.zip" in run("verify", "--help").stdout


def test_a_ledger_and_bad_lines(run, table, designed, problem, tmp_path):  # noqa: F811
    line = ("release", table, "--design", designed[0], "--receipt", tmp_path / "receipt.json", "--out")
    options = ("--ledger", tmp_path / "ledger", "--force")
    assert run(*line, tmp_path / "out.csv", *options).exit_code == 0
    first = (tmp_path / "out.csv").read_bytes()
    result = run(*line, tmp_path / "out.csv", *options)
    assert result.exit_code == 0
    assert "600 records were in the ledger" in result.stdout
    assert (tmp_path / "out.csv").read_bytes() == first
    refused(run(*line, tmp_path / "out.xls"), 2, ".csv and .parquet")
    refused(run(*line, table), 2, "same file")
    refused(run(*line, tmp_path / "absent" / "out.csv"), 6, "cannot write")
    refused(run("release", problem, *line[2:], tmp_path / "2.csv"), 2, "tables are read from")
    new = ("release", table, "--design", designed[0], "--receipt", tmp_path / "2.json", "--out", tmp_path / "2.csv")
    refused(run(*new, "--keep", "income"), 2, "'income' is private")
    refused(run(*new, "--id", "age"), 2, "ledger")
    refused(run(*new, "--keep", "absent"), 2, "no column 'absent'")
    assert not (tmp_path / "2.csv").exists()


def test_verify_imports_the_standard_library_only(designed, tmp_path):
    """As a process: NumPy and JAX could not even be imported."""
    for name in ("numpy", "jax", "typer", "scipy"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('not here')")
    paths = os.pathsep.join((str(tmp_path), str(ROOT)))
    for start in (["jaxpriv", "verify"], ["jaxpriv.verifier"]):
        done = subprocess.run(
            [sys.executable, "-m", *start, designed[0], "--private", designed[1]],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": paths},
        )
        assert done.returncode == 0, done.stderr
        assert "lower_bound" in done.stdout


def test_a_design_is_audited_on_a_table(run, table, designed, save, tmp_path):  # noqa: F811
    design, _ = designed
    result = run("audit", design, "--counts", table, "--json", "-")
    assert result.exit_code == 0, result.output
    found = strict_json(result.stdout)
    assert found["assumptions"]["records"] == 600
    assert found["holds_for"] == "all mechanisms"
    # The same as of the arrays that the table and the design make.
    mechanism = Mechanism.load(design)
    mechanism.codebook.save(tmp_path / "book.json")
    line = ("joint", table, "--codebook", tmp_path / "book.json", "--out", tmp_path / "problem.npz")
    assert run(*line).exit_code == 0
    counts = np.load(tmp_path / "problem.npz")["counts"]
    arrays = save("mechanism.npz", mechanism=mechanism.matrix()), save("counts.npz", counts=counts)
    other = strict_json(run("audit", arrays[0], "--counts", arrays[1], "--json", "-").stdout)
    assert found["measures"] == other["measures"]
    refused(run("audit", design, "--counts", arrays[1]), 2, "audited on a table")
    refused(run("audit", design, "--joint", tmp_path / "problem.npz"), 2, "audited on a table")
