"""`jaxpriv fit --group`: designs of groups of columns, released, checked and refused as one."""

import re
import shutil

import numpy as np
import pytest

from jaxpriv.release import FittedGroups, GroupedEvidence, GroupedMechanism, fit_groups
from tests.cli.conftest import answered, mistaken, printed, refused, run, strict_json
from tests.release.conftest import packed, unpacked, write
from tests.report.test_report import Checked

GROUPS = "--group a,b --group c,d"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder of 600 records, in which s depends on a and c, and of a design of two groups; what is printed of it."""
    rng = np.random.default_rng(3)
    a, b, c, d = rng.integers(0, 2, (4, 600))
    s = (rng.random(600) < 0.2 + 0.4 * a + 0.2 * c).astype(int)
    columns = {"s": s, "a": a, "b": b, "c": c, "d": d, "id": range(600)}
    path = write(tmp_path_factory.mktemp("people") / "people.csv", columns)
    files = ("--out", path.with_name("design.zip"), "--private-out", path.with_name("audit.zip"))
    text = printed("fit", path, f"--private s {GROUPS} --budget 0.3 --json", path.with_name("fit.json"), *files)
    return path.parent, text


@pytest.fixture(autouse=True)
def designed(made, tmp_path):
    """The files in the folder of a test: (the record of the design, what is printed of it)."""
    shutil.copytree(made[0], tmp_path, dirs_exist_ok=True)
    return strict_json((tmp_path / "fit.json").read_text()), made[1]


def test_what_is_printed_and_stored_is_what_the_library_finds(designed):
    record, text = designed
    found = fit_groups("people.csv", private="s", groups=[["a", "b"], ["c", "d"]], budget=0.3)
    assert isinstance(found, FittedGroups)
    loaded = GroupedMechanism.load("design.zip")
    for one, other in zip(loaded.parts, found.mechanism.parts, strict=True):
        np.testing.assert_array_equal(one.table, other.table)
    evidence = GroupedEvidence.load("audit.zip", loaded)
    claim, exact = evidence.leakage(loaded)
    assert (claim, exact) == (found.leakage, True)
    assert record["on_the_design"]["leakage"] == claim.record
    assert record["population"] == {"confidence": 0.95, "leakage": pytest.approx(found.population)}
    assert [one["columns"] for one in record["groups"]] == [["a", "b"], ["c", "d"]]
    assert record["design"] == loaded.sha256
    for words in ("budget 0.3 for all groups", "sum of the groups' leakages", "columns leaks", "optimal   a, b"):
        assert words in text
    assert max(map(len, text.splitlines()[:18])) <= 80


@pytest.mark.usefixtures("surely")
def test_one_release_of_all_groups_with_one_ledger(tmp_path):
    out = tmp_path / "out.csv"
    line = "release people.csv --design design.zip --private audit.zip --id id --keep id --ledger ledger"
    record = answered(line, "--out out.csv --receipt receipt.json")
    assert record["receipt"]["columns"] == ["a", "b", "c", "d"]
    assert [len(one["columns"]) for one in record["drift"]] == [3, 3]
    head, *rows = out.read_text().splitlines()
    assert (head, len(rows)) == ("a,b,c,d,id", 600)
    again = run(line, "--out 2.csv --receipt 2.json")
    assert "600 records were in the ledger" in again.stdout
    assert sorted((tmp_path / "2.csv").read_text().splitlines()[1:]) == sorted(rows)
    checked = printed("verify receipt.json --design design.zip --private audit.zip --released out.csv")
    assert "group 2 leakage: [" in checked
    assert "every record is one that the design releases" in checked
    compared = printed("compare people.csv out.csv --design design.zip --id id")
    assert "d: changed in" in compared
    counts = answered("counts out.csv --design design.zip")
    assert list(counts["columns"]) == ["a", "b", "c", "d"]
    line = "verify receipt.json --design design.zip --released out.csv --records people.csv"
    assert "the tests find no departure of its totals" in printed(line)
    assert "the tests find no departure of its pairs" in printed(line, "--id id")
    out.write_text(out.read_text().replace("\n1,", "\n7,", 1))
    refused(run("verify design.zip --released out.csv"), 5, "other columns")


def test_a_page_of_all_groups(designed, tmp_path):
    record, _ = designed
    out = tmp_path / "report.html"
    printed("report design.zip --private audit.zip --out report.html")
    page = Checked(out.read_text())
    assert "The group a, b" in page.text
    assert "to change the useful columns by at most 0.3 on average" in page.text
    most = float(record["on_the_design"]["leakage"]["upper"])
    stated = float(re.search(r"read side by side, reveal at most ([\d.]+) nats", page.text)[1])
    assert most <= stated <= 1.001 * most
    population = float(re.search(r"In the population it is at most ([\d.]+) nats", page.text)[1])
    assert record["population"]["leakage"] <= population <= 1.001 * record["population"]["leakage"]
    assert {"slider-2", "origin-2", "curve-title-2"} <= set(page.identities)
    printed("report design.zip --out report.html")
    public = Checked(out.read_text())
    assert "read side by side" not in public.text
    assert {"origin-1", "origin-2"} <= set(public.identities)


def test_what_needs_one_design_says_how_to_get_it():
    mistaken("plot design.zip --out p.png", "a design for each of 2 groups", "python -m zipfile -e")


def forged(data, change):
    """The file with another record and all hashes made anew."""
    members = unpacked(data)
    change(members)
    return packed(members)


def test_a_file_that_was_changed_is_refused(tmp_path):
    path = tmp_path / "design.zip"
    data = path.read_bytes()
    line = "release people.csv --design design.zip --out out.csv --receipt r.json"

    def swapped(members):
        members["group_1.zip"], members["group_2.zip"] = members["group_2.zip"], members["group_1.zip"]

    def dropped(members):
        del members["group_2.zip"]

    place = data.index(b"table.npy") + 200
    changed = [data[:-1], data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]]
    for content in (*changed, forged(data, swapped), forged(data, dropped)):
        path.write_bytes(content)
        refused(run(line), 5)
        refused(run("verify design.zip"), 5)
    assert not (tmp_path / "out.csv").exists()
    path.write_bytes(data)
    audit = tmp_path / "audit.zip"
    members = unpacked(audit.read_bytes())
    records = bytearray(members["records.npy"])
    records[-8] ^= 1
    audit.write_bytes(forged(audit.read_bytes(), lambda own: own.update({"records.npy": bytes(records)})))
    refused(run("verify design.zip --private audit.zip"), 5, "does not have the hash")


def test_too_many_combinations_name_the_line_that_fits(tmp_path):
    """The line is run as it stands in the message."""
    import shlex

    line = "--private s --useful a --useful b --useful c --useful d"
    text = (tmp_path / "people.csv").read_text().splitlines()
    few = tmp_path / "few people.csv"
    few.write_text("\n".join(text[:120]) + "\n")
    done = run("fit", few, line, "--budget 0.3 --out design.zip")
    refused(done, 2, "fewer than 5 rows each", "--group a,b,c --group d")
    command = done.stderr[done.stderr.index("(jaxpriv fit") + 1 : done.stderr.rindex(")")]
    words = shlex.split(command)
    assert words[2] == str(few)
    printed(words[1:])
    assert len(GroupedMechanism.load("design.zip").parts) == 2
    crowded = run("fit", few, "--private s --group a,b,c,d --budget 0.3 --out design.zip")
    refused(crowded, 2)
    assert "jaxpriv fit" not in crowded.stderr  # it would leave out the other groups
    advised = run("advise", few, line, "--split 0.2")
    refused(advised, 2, "too many for", "--group", "--split 0.2")


def test_options_that_groups_do_not_have():
    line = f"fit people.csv --private s {GROUPS} --out design.zip"
    for option in ("--disclosure 0.1", "--budget 0.1 --leakage maximal-leakage", "--target-leakage 0"):
        mistaken(f"{line} {option}", f"{option.split()[-2]} goes without --group")
    refused(run(line, "--budget 0.1 --group", ["c\nd"]), 2, "--group: ")
    mistaken(f"{line} --budget 0.1 --grouped", "not both")
    mistaken(f"{line} --budget 0.1 --group b", "named once")
    chosen = "fit people.csv --private s --useful a --useful c --grouped"
    assert "leakage-budget 0.02 nats for all" in printed(chosen, "--leakage-budget 0.02 --out chosen.zip --units bits")
    assert GroupedMechanism.load("chosen.zip").released_columns == ("a", "c")
