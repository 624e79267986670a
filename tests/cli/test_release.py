"""`jaxpriv release` and `jaxpriv verify`: from a design to a checked file, exit codes, and what verify imports."""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from jaxpriv.release import Mechanism
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
    assert [Path(path).parent for path in (*record["ledgers"], record["order"])] == [design.parent] * 2
    refused(run(*line), 2, "second draw")
    files = ("--design", design, "--private", audit, "--released", out, "--records", table, "--order", record["order"])
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


def test_a_release_compares_the_table_with_the_records_of_the_design(run, table, designed, tmp_path):  # noqa: F811
    """A line for each useful column and one for all together; a warning for a table of another population alone."""
    design, audit = (Path(shutil.copy(path, tmp_path)) for path in designed)
    rows = table.read_text().splitlines()
    ages = [row.split(",")[rows[0].split(",").index("age")] for row in rows[1:]]
    older = tmp_path / "older.csv"
    older.write_text("\n".join([rows[0], *(row for row, age in zip(rows[1:], ages, strict=True) if int(age) > 50)]))
    for source, drifted in ((table, False), (older, True)):
        files = ("--out", tmp_path / f"{drifted}.csv", "--receipt", tmp_path / f"{drifted}.json")
        line = ("release", source, "--design", design, *files, "--private", audit)
        result = run(*line)
        assert result.exit_code == 0, result.output
        assert "  all useful columns together: total variation 0." in result.stdout
        assert "I(S;Y) is at most I(X;Y)" in result.stdout
        assert ("warning: a corrected p is below 0.01" in result.stdout) == drifted
        record = strict_json(run(*line, "--force", "--json", "-").stdout)["drift"]
        assert record["unseen"] == 0
        assert (min(one["adjusted"] for one in record["columns"]) < 0.01) == drifted
        assert float(record["information"]["upper"]) > 0


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
    refused(run(*new, "--id", "age"), 2, "--ledger: row", "other values")
    refused(run(*new, "--id", "age", "--no-ledger"), 2, "--no-ledger goes without")
    refused(run(*new, "--keep", "absent"), 2, "no column 'absent'")
    assert not (tmp_path / "2.csv").exists()


@pytest.fixture
def copied(designed, tmp_path):
    """The design in a folder of this test, the audit in another."""
    (tmp_path / "private").mkdir()
    design, audit = tmp_path / "design.zip", tmp_path / "private" / "audit.zip"
    design.write_bytes(designed[0].read_bytes())
    audit.write_bytes(designed[1].read_bytes())
    return design, audit


def test_the_ledger_by_default(run, table, copied, tmp_path, monkeypatch):  # noqa: F811
    design, audit = copied

    def line(name, *options):
        files = ("--design", design, "--out", tmp_path / f"{name}.csv", "--receipt", tmp_path / f"{name}.json")
        return run("release", table, *files, *options)

    (tmp_path / "elsewhere").mkdir()
    for folder, options in ((audit.parent, ("--private", audit)), (tmp_path, ())):
        first = line(f"first{folder.name}", *options)
        assert first.exit_code == 0, first.output
        assert "keep their earlier draw" not in first.stdout  # nothing beside the design names the folder of the audit
        (ledger,) = folder.glob("private-ledger-*")
        assert stat.S_IMODE(ledger.stat().st_mode) == 0o600
        assert f"draws are recorded, for the owner alone, in {ledger}" in first.stdout
        for name in ("second", "elsewhere/third"):
            again = line(f"{name}{folder.name}", *options)
            assert "600 records were in the ledger and keep their earlier draw" in again.stdout
            assert "if they are other people" in again.stdout
            released = [(tmp_path / f"{one}{folder.name}.csv").read_bytes() for one in ("first", name)]
            assert released[0] == released[1]
    (audit.parent / ledger.name).unlink()  # beside the audit there is none, beside the design there is
    assert "600 records were in the ledger" in line("moved", "--private", audit).stdout
    assert (tmp_path / "moved.csv").read_bytes() != released[0]  # the same draws by another key: another order
    other = tmp_path / "other.csv"
    other.write_text("\n".join(Path(table).read_text().splitlines()[:-1]) + "\n")
    files = ("--design", design, "--out", tmp_path / "o.csv", "--receipt", tmp_path / "o.json")
    assert "without --id it does not notice" in run("release", other, *files).stdout
    link = tmp_path / "elsewhere" / "link.zip"
    link.symlink_to(design)  # the folder is that of the file, not of the link
    files = ("--design", link, "--out", tmp_path / "l.csv", "--receipt", tmp_path / "l.json")
    assert "600 records were in the ledger" in run("release", table, *files).stdout
    refused(line("4", "--private", design), 5, "audit.json")
    damaged = tmp_path / "damaged.zip"
    damaged.write_bytes(audit.read_bytes()[:-1])
    refused(line("4", "--private", damaged), 5, "damaged")
    refused(line("4", "--no-ledger"), 2, "--no-ledger: 600 of these records")
    refused(line("4", "--no-ledger", "--ledger", tmp_path / "l"), 2, "--no-ledger goes without --ledger and --id")
    made = line("4", "--no-ledger", "--force")
    assert "stated in the receipt: no ledger was kept" in made.stdout

    def no_room(*_, **given):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryFile", no_room)
    refused(line("5"), 6, "cannot write")
    assert not (tmp_path / "5.csv").exists()


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the superuser writes everywhere")
def test_a_folder_that_cannot_be_written_is_an_error(run, table, copied, tmp_path):  # noqa: F811
    design, audit = copied
    (tmp_path / "out").mkdir()
    files = ("--design", design, "--out", tmp_path / "out" / "o.csv", "--receipt", tmp_path / "out" / "r.json")
    audit.parent.chmod(0o500)
    tmp_path.chmod(0o500)
    try:
        for options in ((), ("--private", audit)):
            refused(run("release", table, *files, *options), 6, "--ledger", "cannot write")
        assert run("release", table, *files, "--ledger", tmp_path / "out" / "ledger").exit_code == 0
    finally:
        tmp_path.chmod(0o700)
        audit.parent.chmod(0o700)


def test_rows_and_their_order(run, table, copied, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr("jaxpriv.release.table._random_bytes", np.random.default_rng(0).bytes)  # the same draws
    design, _ = copied
    lines = Path(table).read_text().splitlines()
    people = tmp_path / "people.csv"
    head, *rows = lines
    people.write_text("\n".join([f"id,{head}", *(f"p{k},{row}" for k, row in enumerate(rows))]) + "\n")
    order, receipt, page = tmp_path / "order.zip", tmp_path / "r.json", tmp_path / "page.html"
    out = tmp_path / "out.csv"
    files = ("--design", design, "--out", out, "--receipt", receipt)
    made = run("release", people, *files, "--keep", "id", "--id", "id", "--order-out", order)
    assert made.exit_code == 0, made.output
    assert f"rows are in a random order, for the owner alone in {order}" in made.stdout
    assert "kept columns single out 600 of 600 rows" in made.stdout
    ids = [line.rsplit(",", 1)[1] for line in out.read_text().splitlines()[1:]]
    assert sorted(ids) == sorted(f"p{k}" for k in range(600))
    assert ids != [f"p{k}" for k in range(600)]
    assert "id" not in json.loads(receipt.read_text())["columns"]
    given = ("verify", receipt, "--design", design, "--released", out, "--records", people)
    for options, paired in (
        (("--order", order), "order"),
        (("--id", "id"), "id"),
        (("--id", "id", "--order", order), "order"),
        ((), None),
    ):
        found = run(*given, *options, "--json", "-")
        assert found.exit_code == 0, found.output
        assert strict_json(found.stdout)["paired"] == paired
        text = run(*given, *options).stdout
        assert ("only how often each combination was released is compared" in text) == (paired is None)
    refused(run(*given, "--id", "town", "--order", order), 2, "identify no record")
    refused(run(*given, "--id", "town"), 2, "was not kept")
    refused(run(*given, "--order", design), 5, "order.json")
    line = ("audit", design, "--counts", people, "--bootstrap", 0, "--releases", out, "--json", "-")
    assert strict_json(run(*line, "--row-order", order).stdout)["conformity"]["p_value"] > 1e-2
    assert strict_json(run(*line).stdout)["conformity"]["p_value"] <= 1e-3  # row for row they are not pairs
    assert run("report", design, "--receipt", receipt, "--out", page).exit_code == 0
    assert "Rows are in a random order" in page.read_text()
    assert "Released as they are, covered by no audit: id." in page.read_text()
    made = run("release", people, *files, "--force", "--keep-order", "--no-ledger")
    assert "stated in the receipt: rows are in the order of the table" in made.stdout
    text = run(*given).stdout
    assert "receipt: rows are in the order of the table" in text
    assert "receipt: no ledger was kept" in text
    assert "only how often" not in text
    assert run("report", design, "--receipt", receipt, "--out", page).exit_code == 0
    assert "No ledger was kept" in page.read_text()
    assert "Rows are in the order of the table" in page.read_text()
    assert run("report", design, "--out", page).exit_code == 0
    assert "does not say whether a ledger was kept" in page.read_text()
    refused(run("report", design, "--receipt", design, "--out", page), 5, "JSON")
    help_text = " ".join(run("release", "--help").stdout.split())
    for words in ("private-ledger-", "It does not see releases from another folder", "for the owner: do not publish"):
        assert words in help_text


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


def test_a_second_release_of_the_same_records(run, table, copied, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr("jaxpriv.release.table._random_bytes", np.random.default_rng(0).bytes)
    design, audit = copied
    finer, private, page = tmp_path / "finer.zip", tmp_path / "private" / "finer.zip", tmp_path / "page.html"

    def line(name, one, *options):
        files = ("--design", one, "--out", tmp_path / f"{name}.csv", "--receipt", tmp_path / f"{name}.json")
        return run("release", table, *files, *options)

    fit = ("fit", table, "--private", "income", "--after", design, "--out", finer, "--private-out", private)
    made = run(*fit, "--budget", 0.1)
    assert made.exit_code == 0, made.output
    assert "leakage, both releases together" in made.stdout
    refused(run(*fit, "--budget", 0.1, "--useful", "age"), 2, "--after goes without --useful")
    refused(run(*fit, "--disclosure", 0.1), 2, "--after goes with --budget or --leakage-budget")
    refused(run(*fit, "--budget", 0.1, "--bins", "age=quantiles:2"), 2, "--after")
    refused(line("2", finer, "--private", private), 2, "--ledger: no ledger has a draw")
    refused(line("2", design, "--limit", 1), 2, "go with --after")
    assert line("1", design, "--private", audit).exit_code == 0
    second = line("2", finer, "--private", private)
    assert second.exit_code == 0, second.output
    assert "receivers of both have at most" in second.stdout
    assert "stated in the receipt: with the earlier release: on records of the design" in second.stdout
    stated = ("verify", tmp_path / "2.json", "--design", finer, "--released", tmp_path / "2.csv")
    assert run(*stated, "--private", private).exit_code == 0
    assert "together agrees with both designs" in run(*stated, "--after", design).stdout
    refused(run(*stated, "--after", finer), 2, "follows another earlier design")
    assert run("report", finer, "--private", private, "--receipt", tmp_path / "2.json", "--out", page).exit_code == 0
    assert "are about readers of both" in page.read_text()
    assert "With the earlier release" in page.read_text()
    measured = ("audit", "--counts", table, "--bootstrap", 0, "--measures", "mutual-information", "--json", "-")
    both = strict_json(run(*measured, finer).stdout)
    assert "those of the earlier designs" in both["assumptions"]["statements"][-1]
    refused(run(*measured, design, "--again", finer), 2, "--again: ", "looks at earlier draws")
    # The reverse, without a look: the limit is what is stated.
    options = ("--private", private, "--after", design, "--limit")
    refused(line("3", design, "--private", audit, "--after", design, "--limit", 1), 2, "the design itself")
    refused(line("3", design, "--after", finer), 2, "--after needs")
    refused(line("3", finer, *options, 0.0001), 2, "--limit: receivers of both would have")
    again = line("3", finer, *options, 1)
    assert "600 records were in the ledger" in again.stdout
    record = strict_json(line("4", finer, *options, 1, "--json", "-").stdout)
    assert float(record["disclosed"]["together"]["upper"]) >= float(record["disclosed"]["alone"]["upper"])
