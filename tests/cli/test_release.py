"""`jaxpriv release` and `jaxpriv verify`: from a design to a checked file, exit codes, and what verify imports."""

import json
import os
import shlex
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest

from jaxpriv.release import Mechanism
from tests.cases import ROOT, files_end_at, run_python
from tests.cli.conftest import answered, mistaken, printed, refused, run
from tests.cli.test_tables import COLUMNS
from tests.release.conftest import people, write


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder of records, their design, and its audit in a folder of its own."""
    folder = tmp_path_factory.mktemp("design")
    design, audit = folder / "design.zip", folder / "private" / "audit.zip"
    audit.parent.mkdir()
    table = write(folder / "people.csv", people(600))
    printed("fit", table, f"{COLUMNS} --budget 0.15 --out", design, "--private-out", audit)
    return folder


@pytest.fixture(autouse=True)
def designed(made, tmp_path):
    """The same in the folder of a test."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)


@pytest.mark.usefixtures("surely")
def test_released_and_verified(tmp_path):
    out = tmp_path / "out.csv"
    line = "release people.csv --design design.zip --out out.csv --receipt receipt.json"
    record = answered(line)
    assert (record["rows"], record["unseen"], record["served"]) == (600, 0, 0)
    assert [Path(path).parent for path in (*record["ledgers"], record["order"])] == [tmp_path] * 2
    mistaken(line, "second draw")
    released = "--design design.zip --private private/audit.zip --released out.csv --records people.csv"
    files = (released, "--order", record["order"])
    found = answered("verify receipt.json", *files)
    assert found["released_rows"] == 600
    assert found["on_the_design"]["excess"]["upper"] == "0"
    assert 0 < float(found["conformity"]["p_value"]) <= 1
    text = printed("verify design.zip --private private/audit.zip")
    assert "lower_bound: at least 0.0" in text
    assert "on the records of the design" in text
    out.write_bytes(out.read_bytes() + b"\n")
    refused(run("verify receipt.json", *files), 5, "not the file that the receipt is about")
    damaged = tmp_path / "damaged.zip"
    damaged.write_bytes((tmp_path / "design.zip").read_bytes()[:-1])
    refused(run("verify damaged.zip"), 5, "damaged")
    refused(run("release people.csv --design damaged.zip --out 2.csv --receipt 2"), 5)
    mistaken("verify absent.zip", "does not exist")
    for line in ("verify design.zip --json receipt.json", "counts out.csv --design design.zip --json receipt.json"):
        mistaken(line, "--json: receipt.json exists and is not what --json writes")
    mistaken("verify design.zip --records people.csv", "--records goes with --released:")
    assert run("verify --unknown").exit_code == 2
    assert "AUDIT.zip" in printed("verify --help")


@pytest.mark.usefixtures("surely", "tmp_path")
def test_what_is_for_whom_and_the_line_of_the_receivers():
    fitted = printed(f"fit people.csv {COLUMNS} --budget 0.1 --out d.zip --private-out private/a.zip")
    assert "To publish: d.zip. For the owner alone: private/a.zip and the numbers above.\n" in fitted
    shown = printed("release people.csv --design d.zip --private private/a.zip --receipt r.json --out", ["my out.csv"])
    line = shown.partition("For receivers: my out.csv, r.json and d.zip. They check these by\n")[2].splitlines()[0]
    assert "released file: the one that the receipt is about" in printed(shlex.split(line)[1:])
    other = "--design design.zip --out other.csv --receipt other.json"
    assert "600 records were released by another design before" not in printed(f"release people.csv {other}")
    again = "--design d.zip --out again.csv --receipt again.json"
    assert "600 records were released by another design before" in printed(f"release people.csv {again}")
    assert "state that design and a limit: --after, --limit" in printed(f"release people.csv {again} --force")


def test_a_release_compares_the_table_with_the_records_of_the_design(tmp_path):
    """A line for each useful column and one for all together; a warning for a table of another population alone."""
    rows = (tmp_path / "people.csv").read_text().splitlines()
    ages = [row.split(",")[rows[0].split(",").index("age")] for row in rows[1:]]
    older = tmp_path / "older.csv"
    older.write_text("\n".join([rows[0], *(row for row, age in zip(rows[1:], ages, strict=True) if int(age) > 50)]))
    for source, drifted in (("people.csv", False), ("older.csv", True)):
        files = f"--out {drifted}.csv --receipt {drifted}.json"
        line = f"release {source} --design design.zip --private private/audit.zip {files}"
        result = printed(line)
        assert "  all useful columns together: total variation 0." in result
        assert "I(S;Y) is at most I(X;Y)" in result
        assert ("warning: a corrected p is below 0.01" in result) == drifted
        record = answered(line, "--force")["drift"]
        assert record["unseen"] == 0
        assert (min(one["adjusted"] for one in record["columns"]) < 0.01) == drifted
        assert float(record["information"]["upper"]) > 0


def test_a_ledger_and_bad_lines(problem, tmp_path):
    line = "release people.csv --design design.zip --receipt receipt.json --out"
    options = "--ledger ledger --force"
    printed(line, "out.csv", options)
    first = (tmp_path / "out.csv").read_bytes()
    result = printed(line, "out.csv", options)
    assert "600 records were in the ledger" in result
    assert (tmp_path / "out.csv").read_bytes() == first
    mistaken(f"{line} out.xls", ".csv and .parquet")
    mistaken(f"{line} people.csv", "same file")
    refused(run(line, "absent/out.csv"), 6, "cannot write")
    mistaken("release problem.npz --design design.zip --receipt receipt.json --out 2.csv", "tables are read from")
    new = "release people.csv --design design.zip --receipt 2.json --out 2.csv"
    mistaken(f"{new} --keep income", "'income' is private")
    mistaken(f"{new} --id age", "--ledger: row", "other values")
    mistaken(f"{new} --id age --no-ledger", "--no-ledger goes without")
    mistaken(f"{new} --keep absent", "no column 'absent'")
    assert not (tmp_path / "2.csv").exists()


def test_the_ledger_by_default(tmp_path, monkeypatch):

    def line(name, *options):
        return run(f"release people.csv --design design.zip --out {name}.csv --receipt {name}.json", *options)

    (tmp_path / "elsewhere").mkdir()
    private, audit = tmp_path / "private", "--private private/audit.zip"
    for folder, options in ((private, audit), (tmp_path, "")):
        first = line(f"first{folder.name}", options)
        assert first.exit_code == 0, first.output
        assert "keep their earlier draw" not in first.stdout  # nothing beside the design names the folder of the audit
        (ledger,) = folder.glob("private-ledger-*")
        assert stat.S_IMODE(ledger.stat().st_mode) == 0o600
        assert f"draws are recorded, for the owner alone, in {ledger}" in first.stdout
        for name in ("second", "elsewhere/third"):
            again = line(f"{name}{folder.name}", options)
            assert "600 records were in the ledger and keep their earlier draw" in again.stdout
            assert "if they are other people" in again.stdout
            released = [(tmp_path / f"{one}{folder.name}.csv").read_bytes() for one in ("first", name)]
            assert released[0] == released[1]
        held = (tmp_path / "design.zip").read_bytes()  # which a new design would not replace
        written = "--private-out private/a.zip" if folder == private else ""
        fitting = "fit people.csv --private income --useful town --budget 0.1 --out design.zip"
        refused(run(fitting, written), 2, "--out: records were released by the design in design.zip")
        assert (tmp_path / "design.zip").read_bytes() == held
        for files, words in (
            ("--out private/audit.zip", "--out: private/audit.zip is the audit of a design, which would be lost"),
            ("--out new.zip --private-out design.zip", "--private-out: design.zip is a design, which would be lost"),
        ):
            mistaken(fitting.removesuffix("--out design.zip") + files, words)
    (private / ledger.name).unlink()  # beside the audit there is none, beside the design there is
    assert "600 records were in the ledger" in line("moved", audit).stdout
    assert (tmp_path / "moved.csv").read_bytes() != released[0]  # the same draws by another key: another order
    other = tmp_path / "other.csv"
    other.write_text("\n".join((tmp_path / "people.csv").read_text().splitlines()[:-1]) + "\n")
    assert "without --id it does not notice" in printed("release other.csv --design design.zip --out o.csv --receipt o")
    link = tmp_path / "elsewhere" / "link.zip"
    link.symlink_to(tmp_path / "design.zip")  # the folder is that of the file, not of the link
    linked = printed("release people.csv --design elsewhere/link.zip --out l.csv --receipt l.json")
    assert "600 records were in the ledger" in linked
    refused(line("4", "--private design.zip"), 5, "audit.json")
    damaged = tmp_path / "damaged.zip"
    damaged.write_bytes((private / "audit.zip").read_bytes()[:-1])
    refused(line("4", "--private damaged.zip"), 5, "damaged")
    refused(line("4", "--no-ledger"), 2, "--no-ledger: 600 of these records")
    refused(line("4", "--no-ledger --ledger l"), 2, "--no-ledger goes without --ledger and --id")
    made = line("4", "--no-ledger --force")
    assert "stated in the receipt: no ledger was kept" in made.stdout
    with files_end_at(4096):
        refused(line("5"), 6, "cannot write")
    assert not (tmp_path / "5.csv").exists()


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the superuser writes everywhere")
def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "out").mkdir()
    line = "release people.csv --design design.zip --out out/o.csv --receipt out/r.json"
    (tmp_path / "private").chmod(0o500)
    tmp_path.chmod(0o500)
    try:
        for options in ("", "--private private/audit.zip"):
            refused(run(line, options), 6, "--ledger", "cannot write")
        printed(line, "--ledger out/ledger")
    finally:
        tmp_path.chmod(0o700)
        (tmp_path / "private").chmod(0o700)


@pytest.mark.usefixtures("same_draws")
def test_rows_and_their_order(tmp_path):
    head, *rows = (tmp_path / "people.csv").read_text().splitlines()
    rows = [f"p{k},{row}" for k, row in enumerate(rows)]
    (tmp_path / "people.csv").write_text("\n".join([f"id,{head}", *rows]) + "\n")
    page = tmp_path / "page.html"
    line = "release people.csv --design design.zip --out out.csv --receipt r.json"
    made = printed(line, "--keep id --id id --order-out order.zip")
    assert "rows are in a random order, for the owner alone in order.zip" in made
    assert "kept columns single out 600 of 600 rows" in made
    ids = [line.rsplit(",", 1)[1] for line in (tmp_path / "out.csv").read_text().splitlines()[1:]]
    assert sorted(ids) == sorted(f"p{k}" for k in range(600))
    assert ids != [f"p{k}" for k in range(600)]
    assert "id" not in json.loads((tmp_path / "r.json").read_text())["columns"]
    given = "verify r.json --design design.zip --released out.csv --records people.csv"
    for options, paired in (
        ("--order order.zip", "order"),
        ("--id id", "id"),
        ("--id id --order order.zip", "order"),
        ("", None),
    ):
        assert answered(given, options)["paired"] == paired
        text = printed(given, options)
        assert ("only how often each combination was released is compared" in text) == (paired is None)
    mistaken(f"{given} --id town --order order.zip", "identify no record")
    mistaken(f"{given} --id town", "was not kept")
    refused(run(given, "--order design.zip"), 5, "order.json")
    audit = "audit design.zip --counts people.csv --bootstrap 0 --releases out.csv"
    assert answered(audit, "--row-order order.zip")["conformity"]["p_value"] > 1e-2
    assert answered(audit)["conformity"]["p_value"] <= 1e-3  # row for row they are not pairs
    printed("report design.zip --receipt r.json --out page.html")
    assert "Rows are in a random order" in page.read_text()
    assert "Released as they are, covered by no audit: id." in page.read_text()
    made = printed(line, "--force --keep-order --no-ledger")
    assert "stated in the receipt: rows are in the order of the table" in made
    text = printed(given)
    assert "receipt: rows are in the order of the table" in text
    assert "receipt: no ledger was kept" in text
    assert "only how often" not in text
    printed("report design.zip --receipt r.json --out page.html")
    assert "No ledger was kept" in page.read_text()
    assert "Rows are in the order of the table" in page.read_text()
    printed("report design.zip --out page.html")
    assert "does not say whether a ledger was kept" in page.read_text()
    refused(run("report design.zip --receipt design.zip --out page.html"), 5, "JSON")
    help_text = " ".join(printed("release --help").split())
    for words in ("private-ledger-", "It does not see releases from another folder", "for the owner: do not publish"):
        assert words in help_text


def test_verify_imports_the_standard_library_only(made, tmp_path):
    """As a process: NumPy and JAX could not even be imported."""
    for name in ("numpy", "jax", "typer", "scipy"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('not here')")
    paths = os.pathsep.join((str(tmp_path), str(ROOT)))
    for start in (["jaxpriv", "verify"], ["jaxpriv.verifier"]):
        files = map(str, (made / "design.zip", "--private", made / "private" / "audit.zip"))
        assert "lower_bound" in run_python("-m", *start, *files, PYTHONPATH=paths)


def test_a_design_is_audited_on_a_table(save, tmp_path):
    found = answered("audit design.zip --counts people.csv")
    assert found["assumptions"]["records"] == 600
    assert found["holds_for"] == "all mechanisms"
    # The same as of the arrays that the table and the design make.
    mechanism = Mechanism.load("design.zip")
    mechanism.codebook.save(tmp_path / "book.json")
    printed("joint people.csv --codebook book.json --out problem.npz")
    counts = np.load("problem.npz")["counts"]
    arrays = save("mechanism.npz", mechanism=mechanism.matrix()), save("counts.npz", counts=counts)
    other = answered("audit", arrays[0], "--counts", arrays[1])
    assert found["measures"] == other["measures"]
    refused(run("audit design.zip --counts", arrays[1]), 2, "audited on a table")
    mistaken("audit design.zip --joint problem.npz", "audited on a table")


@pytest.mark.usefixtures("same_draws")
def test_a_second_release_of_the_same_records():
    def line(name, design, options=""):
        return f"release people.csv --design {design} --out {name}.csv --receipt {name}.json {options}"

    fit = "fit people.csv --private income --after design.zip --out finer.zip --private-out private/finer.zip"
    assert "leakage, both releases together" in printed(fit, "--budget 0.1")
    mistaken(f"{fit} --budget 0.1 --useful age", "--after goes without --useful")
    mistaken(f"{fit} --disclosure 0.1", "--after goes with --budget or --leakage-budget")
    mistaken(f"{fit} --budget 0.1 --bins age=quantiles:2", "--after")
    private = "--private private/finer.zip"
    refused(run(line("2", "finer.zip", private)), 2, "--ledger: no ledger has a draw")
    refused(run(line("2", "design.zip", "--limit 1")), 2, "go with --after")
    printed(line("1", "design.zip", "--private private/audit.zip"))
    second = printed(line("2", "finer.zip", private))
    assert "receivers of both have at most" in second
    leakage = json.loads(Path("2.json").read_text())["after"]["leakage"]
    stated = "receivers of the earlier one have at most {earlier}, of this release alone {alone}, of both {together}"
    assert stated.format(**leakage) in second
    stated = "verify 2.json --design finer.zip --released 2.csv"
    printed(stated, private)
    assert "together agrees with both designs" in printed(stated, "--after design.zip")
    mistaken(f"{stated} --after finer.zip", "follows another earlier design")
    printed("report finer.zip --receipt 2.json --out page.html", private)
    page = Path("page.html").read_text()
    assert "are about readers of both" in page
    assert "With the earlier release" in page
    measured = "audit --bootstrap 0 --measures mutual-information --counts people.csv"
    both = answered(measured, "finer.zip")
    assert "those of the earlier designs" in both["assumptions"]["statements"][-1]
    mistaken(f"{measured} design.zip --again finer.zip", "--again[0] looks at earlier draws")
    own = "--private private/audit.zip --after design.zip --limit 1"
    refused(run(line("3", "design.zip", own)), 2, "the design itself")
    refused(run(line("3", "design.zip", "--after finer.zip")), 2, "--after needs")
    third = line("3", "finer.zip", f"{private} --after design.zip --limit")
    mistaken(f"{third} 0.0001", "--limit: receivers of both would have")
    assert "600 records were in the ledger" in printed(third, "1")
    disclosed = answered(third.replace("3.", "4."), "1")["disclosed"]
    assert float(disclosed["together"]["upper"]) >= float(disclosed["alone"]["upper"])
