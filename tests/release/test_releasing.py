"""Released files: what they hold, that nothing that was changed is accepted, no second draw, killed at any time."""

import contextlib
import fcntl
import gzip
import json
import os
import random
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from jaxpriv.errors import EntropyError, InputError, IntegrityError, NotCertifiedError, ResourceError
from jaxpriv.release import Mechanism, audit_design, drift, estimate_counts, fit, ledger, release
from jaxpriv.release.report import report
from jaxpriv.statistics.tables import Categories, Edges
from jaxpriv.verifier import verify
from tests.cases import ROOT, files_end_at, raised, refused, run_python, thorough
from tests.release.conftest import COLUMNS, Released, csv_text, resealed, saved, shown, write


@pytest.fixture(scope="module")
def mechanism(fitted) -> Mechanism:
    return fitted.mechanism


@pytest.fixture
def files(tmp_path, table, fitted) -> Released:
    """A finished release of the table, with everything beside it."""
    return Released(tmp_path, table, fitted)


def ledgers(folder: Path) -> list[Path]:
    return [path for path in folder.glob("private-ledger-*") if path.suffix != ".lock"]


def orders(folder: Path) -> list[Path]:
    return list(folder.glob("private-order-*.zip"))


def content(mechanism: Mechanism, outputs: np.ndarray) -> bytes:
    """A released file of these outputs."""
    labels = [map(shown, column) for column in mechanism.labels_of(outputs).values()]
    return csv_text([mechanism.released_columns, *zip(*labels, strict=True)]).encode()


def everything(files):
    return files.verify(private=files.audit, records=files.records, order=files.order)


@pytest.mark.usefixtures("surely")
def test_a_release_is_what_its_receipt_says(files, table, mechanism):
    found = everything(files)
    assert found.rows == len(table["age"])
    assert found.design == mechanism.sha256
    assert found.conformity.p_value > 1e-6
    assert 0 < found.conformity.detectable < 1
    header, *rows = files.rows
    assert header == ["age", "town"]
    assert {row[1] for row in rows} == {"north", "south", "'=west"}
    record = json.loads(files.receipt.read_text())
    assert record["released"]["rows"] == len(rows)
    assert record["kept"] == []


# -- nothing that was changed is accepted ----------------------------------------------------------


def test_what_the_design_never_releases_is_refused(files):
    lines = files.out.read_text().splitlines(keepends=True)
    for content, words in (
        ([*lines[:5], "99,nowhere\n", *lines[6:]], r"row 4 \(from 0\)"),
        (["age,place\n", *lines[1:]], "other columns"),
        ([*lines, "1\n"], "number of fields"),
        (['age,town\n"'], "well-formed"),
        ([], "empty"),
    ):
        files.out.write_text("".join(content))
        with raised(IntegrityError, words):
            verify(files.design, released=files.out)


def test_other_receipts_and_designs_are_refused(files, every, tmp_path):
    every["watchdog"].mechanism.save(tmp_path / "other.zip")
    with raised(IntegrityError, "another design"):
        verify(files.receipt, design=tmp_path / "other.zip")
    with raised(IntegrityError, "another design"):
        verify(tmp_path / "other.zip", private=files.audit)
    receipt = files.receipt.read_bytes()
    for edit, released in (
        ({"columns": []}, {}),
        ({"columns": ["age"]}, {}),
        ({"unseen": "ignore"}, {}),
        ({"extra": 1}, {}),
        ({}, {"rows": -1}),
        ({}, {"rows": 7}),
        ({}, {"format": "xls"}),
    ):
        forged = resealed(receipt, lambda record, e=edit, r=released: (record.update(e), record["released"].update(r)))
        files.receipt.write_bytes(forged)
        with pytest.raises(IntegrityError):
            files.verify()


def test_files_that_do_not_go_together(files):
    for file, others, words in (
        (files.design, {"design": files.design}, "itself"),
        (files.receipt, {"private": files.audit}, "goes with a design"),
        (files.design, {"records": files.records}, "goes with `released`"),
        (files.design, {"released": files.out.with_name("absent.csv")}, "does not exist"),
    ):
        with refused(words):
            verify(file, **others)
    for file, others, words in (
        (files.audit, {}, r"is the audit of a design, and a design \(design.json\) is needed here"),
        (files.design, {"private": files.design}, "is a design, and the audit of a design"),
        (files.receipt, {"design": files.audit}, "is the audit of a design, and a design"),
        (files.out, {"design": files.design}, "is no receipt"),
    ):
        with raised(IntegrityError, words):
            verify(file, **others)


def test_a_design_that_exceeds_its_target_is_not_certified(every, tmp_path):
    """The watchdog of one half, stated for a smaller target than it meets."""
    fitted = every["watchdog"]
    mechanism = replace(fitted.mechanism, asked=replace(fitted.mechanism.asked, target=0.01))
    design, audit = saved(replace(fitted, mechanism=mechanism), tmp_path)
    with raised(NotCertifiedError, "exceeds its target"):
        verify(design, private=audit)


# -- the pairs of a release ------------------------------------------------------------------------


@pytest.mark.usefixtures("surely")
def test_records_are_read_in_the_dialect_that_is_said(files, tmp_path):
    """As fit and release read them: delimiter, encoding, no header, gzip."""
    lines = files.records.read_text().splitlines()
    text = "".join(" " + line.replace(",", "; ") + "\n" for line in lines[1:])
    other, packed = tmp_path / "other.csv", tmp_path / "packed.csv.gz"
    other.write_bytes((text + "\n\n").encode("utf-16"))
    packed.write_bytes(gzip.compress(files.records.read_bytes()))
    settings = ["delimiter=;", "encoding=utf-16", "names=age,town,income", "blanks"]
    expected = files.verify(order=files.order, records=files.records).conformity
    for path, read in ((other, settings), (packed, [])):
        found = files.verify(order=files.order, records=path, read=read).conformity
        assert found.detectable == expected.detectable
    for path, read, words in (
        (other, settings[:1], "cannot be read"),
        (other, [*settings, "encoding=utf-8"], "twice"),
        (other, ["strip"], "none of"),
        (other, ["encoding=nowhere"], "cannot be read"),
        (other, [], "not well-formed CSV in UTF-8"),
    ):
        with refused(words):
            files.verify(order=files.order, records=path, read=read)
    packed.write_bytes(packed.read_bytes()[:-9])
    with refused("complete gzip"):
        files.verify(order=files.order, records=packed)
    for option in ({"read": settings}, {"order": files.order}, {"identity": ["age"]}):
        with refused(r"go(es)? with (records|`records`):"):
            files.verify(**option)


@pytest.mark.usefixtures("surely")
@pytest.mark.parametrize("rule", ["suppress", "nearest"])
def test_records_of_unseen_combinations_are_tested_too(tmp_path, table, rule):
    few = {name: values[(table["town"] != "south") | (table["age"] < 57)] for name, values in table.items()}
    fixed = {**COLUMNS, "rules": {"age": Edges([18, 40, 57, 80])}}
    files = Released(tmp_path, table, fit(few, **fixed, unseen=rule, budget=0.15))
    assert files.done.unseen > 20
    assert files.verify(records=files.records).conformity.p_value > 1e-6
    with refused(r"\(from 0\)"):
        release(files.records, files.mechanism, tmp_path / "2.csv", tmp_path / "2.json", unseen="refuse")
    assert not (tmp_path / "2.csv").exists()


@pytest.mark.usefixtures("surely")
def test_the_first_characters_are_released_and_verified(tmp_path, table):
    days = [f"2026-{1 + age % 3:02d}-{1 + age % 28:02d}" for age in table["age"].tolist()]
    given = table | {"day": np.array(days, dtype=object)}
    asked = {"private": "income", "useful": ["day", "town"], "rules": {"day": Categories(first=7)}}
    files = Released(tmp_path, given, fit(given, **asked, budget=0.15))
    assert {row[0] for row in files.rows[1:]} == {"2026-01", "2026-02", "2026-03"}
    found = files.verify(records=files.records, order=files.order)
    assert min(found.conformity.p_value, found.dependence.p_value) > 1e-6


# -- files -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("surely")
def test_a_second_release_is_refused(files, mechanism):
    def contents():
        return [path.read_bytes() for path in (files.out, files.receipt, files.order)]

    before = contents()
    for out in (files.out, files.out.with_name("new.csv")):
        with refused("second draw"):
            release(files.records, mechanism, out, files.receipt)
    release(files.records, mechanism, files.out, files.receipt, force=True)
    assert before == contents()  # by the ledger the same draws
    again = release(files.records, mechanism, files.out, files.receipt, force=True, no_ledger=True)
    files.order = again.order_file
    assert files.out.read_bytes() != before[0]
    everything(files)


def test_parquet(tmp_path, table, mechanism):
    polars = pytest.importorskip("polars")
    out, proof = tmp_path / "out.parquet", tmp_path / "receipt.json"
    release(table, mechanism, out, proof)
    frame = polars.read_parquet(out)
    assert frame.columns == ["age", "town"]
    assert len(frame) == len(table["age"])
    assert set(frame["town"].to_list()) == {"north", "south", "=west"}
    found = verify(proof, released=out)
    assert found.rows == len(frame)
    assert "Parquet; its columns and records are not read here" in found.text
    out.write_bytes(out.read_bytes()[:-1] + b"\0")
    with pytest.raises(IntegrityError):
        verify(proof, released=out)


def test_kept_columns_are_named_and_private_ones_are_not_kept(tmp_path, table, fitted):
    more = {**table, "visits": np.arange(len(table["age"])), "note": np.array(["+1", "-2", "@x", "ok"] * 300, object)}
    for names, words in ((["income"], "private"), (["age"], "another form"), (["note", "note"], "twice")):
        with refused(words):
            Released(tmp_path, more, fitted, keep=names)
    files = Released(tmp_path, more, fitted, keep=["visits", "note"])
    found, (header, *rows) = files.done, files.rows
    assert header == ["age", "town", "visits", "note"]
    assert [row[2] for row in rows] == [str(n) for n in found.order]
    assert sorted(found.order) == list(range(1200)) != found.order.tolist()
    assert [row[3] for row in rows] == [("+1", "-2", "'@x", "ok")[n % 4] for n in found.order]
    assert found.singled_out == 1200  # by the number of visits
    assert found.escaped == 300 + sum(row[1] == "'=west" for row in rows)
    assert files.verify().rows == 1200
    assert json.loads(files.receipt.read_text())["kept"] == ["visits", "note"]


def no_entropy(count: int) -> bytes:
    raise OSError("no entropy")


FAULTS = {
    "no randomness": no_entropy,
    "too little": lambda count: b"\0" * (count - 1),
    "self-test": lambda count: b"\x01" * count,
}


@pytest.mark.parametrize("words", FAULTS)
def test_without_randomness_nothing_is_released(tmp_path, table, mechanism, random_bytes, words):
    random_bytes(FAULTS[words])
    with raised(EntropyError, words):
        release(table, mechanism, tmp_path / "out.csv", tmp_path / "receipt.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "out", "options", "error"),
    [
        ({}, "absent/out.csv", {}, ResourceError),
        ({}, "out.xls", {}, InputError),
        ({}, "out.csv", {"unseen": "guess"}, InputError),
        ({"age": None}, "out.csv", {}, InputError),
        (
            {"town": np.array([*["north"] * 700, "elsewhere", *["south"] * 499], dtype=object)},
            "out.csv",
            {},
            InputError,
        ),
    ],
    ids=["folder", "kind", "rule", "column", "value"],
)
def test_what_fails_releases_nothing(tmp_path, table, mechanism, change, out, options, error):
    records = {name: values for name, values in (table | change).items() if values is not None}
    with pytest.raises(error) as caught:
        release(records, mechanism, tmp_path / out, tmp_path / "receipt.json", **options)
    assert "elsewhere" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_design_is_named(tmp_path, table, mechanism, fitted):
    for call in (
        lambda: release(mechanism, table, tmp_path / "a.csv", tmp_path / "a.json"),
        lambda: release(table, fitted, tmp_path / "a.csv", tmp_path / "a.json"),
        lambda: drift(fitted, fitted.evidence, table),
        lambda: estimate_counts(fitted, table),
        lambda: audit_design(table, fitted),
        lambda: report(fitted),
    ):
        with refused(r"^(mechanism|design) must be of type Mechanism.* not \w+; fit\(...\).mechanism is one"):
            call()
    with refused("^evidence must be of type Evidence or GroupedEvidence, not Mechanism"):
        drift(mechanism, mechanism, table)
    with refused("^frame must be a table, not a path"):
        mechanism.apply("people.csv")
    with refused("^names of columns are texts; one is of type int"):
        fit(table, private=0, useful=["age"], budget=0.1)  # pyright: ignore[reportArgumentType]


# -- the ledger ------------------------------------------------------------------------------------


@pytest.fixture
def releasing(tmp_path, table, mechanism, monkeypatch):
    """`releasing(name, **options)`: the table, with a column that identifies its rows, released into files NAME.*."""
    people = {**table, "id": np.arange(1200)}
    monkeypatch.chdir(tmp_path)

    def made(name: str, records: dict[str, np.ndarray] = people, by: Mechanism = mechanism, **options):
        Path(name).parent.mkdir(exist_ok=True)
        return release(records, by, f"{name}.csv", f"{name}.json", **{"private_folder": tmp_path, **options})

    return made


def test_a_ledger_gives_the_same_draw_again(tmp_path, table, releasing):
    people = {**table, "id": np.arange(1200)}
    (tmp_path / "own").mkdir()  # where no other ledger is
    anonymous = partial(releasing, ledger="ledger", private_folder=tmp_path / "own")
    released = partial(anonymous, identity="id")
    first = released("first")
    assert stat.S_IMODE(os.stat("ledger").st_mode) == 0o600
    assert first.served == 0
    order = np.random.default_rng(0).permutation(1200)[:800]
    part = {name: values[order] for name, values in people.items()}
    part["id"] = np.concatenate([part["id"][:-100], np.arange(5000, 5100)])  # a hundred others
    second = released("second", part)
    assert second.served == 700
    assert_array_equal(second.outputs[:-100], first.outputs[order[:-100]])
    # A column of whole numbers is one of floats where a table had a gap; the ledger has both spellings.
    for name, ids, known in (
        ("floats", people["id"].astype(float), True),
        ("texts", np.char.add(people["id"].astype(str), ".0"), True),
        ("zero-padded", np.char.zfill(people["id"].astype(str), 9), False),
    ):
        order = np.random.default_rng(len(name)).permutation(1200)
        found = released(name, {key: values[order] for key, values in {**people, "id": ids}.items()})
        assert found.served == 1200 * known
        if known:
            assert_array_equal(found.outputs, first.outputs[order])
        assert any("none of these" in sentence for sentence in found.sentences) != known
    changed = {**people, "town": np.roll(people["town"], 1)}
    with refused("other values or by another design"):
        released("third", changed)
    twice = {name: np.concatenate([values[:5], values[:5]]) for name, values in people.items()}
    twice["id"] = twice["id"] + 9000
    found = released("fourth", twice).outputs
    assert_array_equal(found[:5], found[5:])
    twice["town"] = np.where(np.arange(10) == 7, "south", np.where(np.arange(10) == 2, "north", twice["town"]))
    twice["id"] = twice["id"] + 90
    with refused("row 7"):
        released("fifth", {**twice, "town": twice["town"].astype(object)})
    # Without columns that say who a record is: the table itself.
    again = [anonymous(name, table).outputs for name in ("sixth", "seventh")]
    assert_array_equal(*again)
    assert anonymous("eighth", {name: values[1:] for name, values in table.items()}).served == 0


def test_two_names_of_one_file_and_arguments_of_another_kind_are_refused(tmp_path, table, mechanism):
    """The receipt took the place of the released file, and the released file that of the order of its rows."""
    people = write(tmp_path / "people.csv", table)
    (tmp_path / "link.csv").symlink_to(people)
    names = {"out": tmp_path / "out.csv", "receipt": tmp_path / "receipt.json"}
    for change, message in (
        ({"receipt": tmp_path / "out.csv"}, "^receipt is the same file as out"),
        ({"receipt": tmp_path / "absent" / ".." / "out.csv"}, "^receipt is the same file as out"),
        ({"order_out": tmp_path / "out.csv"}, "^order_out is the same file as out"),
        ({"ledger": tmp_path / "receipt.json"}, "^ledger is the same file as receipt"),
        ({"out": people, "force": True}, "^out is the same file as source"),
        ({"receipt": tmp_path / "link.csv", "force": True}, "^receipt is the same file as source"),
        ({"ledger": "."}, "^ledger: . is a folder"),
        ({"ledger": 3}, "^ledger must be of type str or PathLike"),
        ({"out": None}, "^out must be of type"),
        ({"private_folder": []}, "^private_folder must be one or more folders"),
        ({"private_folder": [3]}, "^private_folder must be of type"),
        ({"private_folder": 3}, "^private_folder must be a sequence"),
        ({"keep": 3}, "^keep must be a sequence of texts"),
        ({"identity": None}, "^identity must be a sequence of texts"),
        ({"keep_order": "no"}, "^keep_order must be True or False"),
        ({"no_ledger": 1}, "^no_ledger must be True or False"),
        ({"force": "x"}, "^force must be True or False"),
    ):
        with refused(message):
            release(people, mechanism, **{**names, **change})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.csv", "people.csv"]


def test_other_designs_are_not_served_from_a_ledger(tmp_path, releasing, every):
    releasing("a", ledger="ledger")
    with refused("another design"):
        releasing("b", by=every["watchdog"].mechanism, ledger="ledger")
    assert not (tmp_path / "b.csv").exists()


def test_records_of_another_designs_ledger_are_counted(tmp_path, table, releasing, every):
    """They are released all the same; with the classes of the whole table, or with a column that says who they are."""
    other = every["watchdog"].mechanism
    assert releasing("a", identity="id").elsewhere == 0
    found = releasing("b", by=other)
    assert found.elsewhere == 1200
    assert any("1200 records were released by another design before" in sentence for sentence in found.sentences)
    part = {name: values[::3] for name, values in {**table, "id": np.arange(1200)}.items()}
    part["id"] = np.append(part["id"][:-100], np.arange(5000, 5100))
    assert releasing("c", part, other, identity="id").elsewhere == 300
    assert releasing("d", part, other).elsewhere == 0  # another table, without a column
    (tmp_path / "elsewhere").mkdir()
    assert releasing("e", by=other, private_folder=tmp_path / "elsewhere").elsewhere == 0
    unread = tmp_path / f"private-ledger-{16 * '0'}"
    unread.write_text("no ledger")
    with pytest.warns(UserWarning, match=f"{unread} could not be read") as warned:
        again = releasing("f")
    assert len(warned) == 1
    assert (again.elsewhere, again.unread) == (1200, (unread,))
    assert [str(unread) in sentence for sentence in again.sentences].count(True) == 1


def test_a_ledger_under_the_name_of_another_ones_is_refused(tmp_path, releasing, every):
    """It has none of the draws: a release with it would be a second draw for the same records."""
    releasing("a")
    (own,) = ledgers(tmp_path)
    content = own.read_bytes()
    (tmp_path / "elsewhere").mkdir()
    releasing("elsewhere/b", by=every["watchdog"].mechanism, private_folder=tmp_path / "elsewhere")
    (other,) = ledgers(tmp_path / "elsewhere")
    own.write_bytes(other.read_bytes())
    with raised(IntegrityError, "is the ledger of another design"):
        releasing("c")
    own.write_bytes(content)
    first, again = releasing("c"), releasing("d")
    assert first.served == again.served == len(first.outputs)


def test_a_damaged_or_busy_ledger_is_refused(tmp_path, table, releasing):
    ledger = tmp_path / "ledger"
    releasing("first", ledger=ledger)
    data = ledger.read_bytes()
    ledger.write_bytes(data[:-1])
    with pytest.raises(IntegrityError):
        releasing("first", ledger=ledger, force=True)
    ledger.write_bytes(data)
    with ledger.with_name("ledger.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with raised(ResourceError, "in use"):
            releasing("first", ledger=ledger, force=True)
    # Neither the records nor who they are can be read in it.
    people = {**table, "name": np.array([f"Person {n}" for n in range(1200)], dtype=object)}
    releasing("second", people, ledger="other", identity=["name"])
    content = (tmp_path / "other").read_bytes()
    assert all(word not in content for word in (b"Person", b"north", b"south", b"high"))


# -- no second draw, whatever the files are called ----------------------------------------------------


ROUTES = {
    "other names": ({}, {}),
    "a folder of their own": ({}, {"name": "elsewhere/out"}),
    "a ledger elsewhere, first": ({"ledger": "other/ledger"}, {}),
    "a ledger elsewhere, afterwards": ({}, {"ledger": "other/ledger"}),
    "two ledgers": ({"ledger": "other/ledger"}, {"ledger": "other/second"}),
    "identified, first": ({"identity": ["id"]}, {}),
    "identified, afterwards": ({}, {"identity": ["id"]}),
    "identified in a ledger elsewhere, first": ({"identity": ["id"], "ledger": "other/ledger"}, {}),
    "another rule": ({}, {"unseen": "suppress"}),
    "the order kept": ({}, {"keep_order": True}),
    "a kept column": ({}, {"keep": ["id"]}),
    "a kept identity": ({"identity": ["id"]}, {"identity": ["id"], "keep": ["id"]}),
    "replaced": ({}, {"name": "first", "force": True}),
}


@pytest.mark.parametrize("route", ROUTES)
def test_a_second_draw_is_not_made(tmp_path, releasing, route):
    (tmp_path / "other").mkdir()
    first, second = ROUTES[route]
    done = releasing("first", **first)
    again = releasing(**{"name": "second", **second})
    assert again.served == 1200
    assert_array_equal(done.outputs, again.outputs)
    (own,) = ledgers(tmp_path)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in (own, *orders(tmp_path), *done.ledgers))
    assert own in done.ledgers


def test_without_a_ledger(tmp_path, releasing, files):
    """It is stated, and refused for records that the ledger has."""
    releasing = partial(releasing, private_folder=tmp_path / "own")
    (tmp_path / "own").mkdir()
    fresh = releasing("first", no_ledger=True)
    assert not ledgers(tmp_path / "own")
    assert fresh.receipt["ledger"] == "none"
    assert fresh.ledgers == ()
    checked = verify("first.json", released="first.csv").checked
    assert any("no ledger was kept" in sentence for sentence in checked)
    assert not any("ledger" in sentence for sentence in verify(files.receipt).checked)
    releasing("second")
    with refused("no_ledger: 1200 of these records"):
        releasing("third", no_ledger=True)
    assert not (tmp_path / "third.csv").exists()
    for options in ({"ledger": "l"}, {"identity": ["id"]}):
        with refused("no_ledger goes without"):
            releasing("third", no_ledger=True, **options)
    assert releasing("third", no_ledger=True, force=True).served == 0


def test_a_folder_without_room_for_the_ledger_is_an_error(tmp_path, table, releasing):
    absent = tmp_path / "absent"
    before = set(tmp_path.iterdir())
    with raised(ResourceError, "cannot write"):
        releasing("first", private_folder=absent)
    assert set(tmp_path.iterdir()) == before
    # A ledger that is named is enough; the order of the rows goes beside it.
    (tmp_path / "own").mkdir()
    found = releasing("first", private_folder=absent, ledger=tmp_path / "own" / "ledger")
    assert found.ledgers == (tmp_path / "own" / "ledger",)
    assert found.order_file.parent == tmp_path / "own"
    # What fails after the draw leaves the draw in the ledger, and the files are those of the next run.
    note = {**table, "note": np.full(1200, "x" * 200, object)}
    with files_end_at(200_000), raised(ResourceError, "too large"):
        releasing("second", note, keep=["note"])
    assert not (tmp_path / "second.csv").exists()
    drawn = ledgers(tmp_path)[0].read_bytes()
    again = releasing("second", note, keep=["note"])
    assert again.served == 1200
    assert ledgers(tmp_path)[0].read_bytes() == drawn


def test_without_the_locks_of_unix(tmp_path, releasing, monkeypatch):
    """A lock file that is created exclusively takes the place of `flock` (Windows)."""
    monkeypatch.setattr(ledger, "fcntl", None)
    releasing("first")
    assert not list(tmp_path.glob("*.lock"))
    (own,) = ledgers(tmp_path)
    for busy in (own, tmp_path / "second.csv", tmp_path / "second.json"):
        left = busy.with_name(busy.name + ".lock")
        left.touch()
        with raised(ResourceError, r"in use by another release.*remove .*\.lock"):
            releasing("second")
        left.unlink()
        assert not (tmp_path / "second.csv").exists()
    assert releasing("second").served == 1200
    code = "import sys; sys.modules['fcntl'] = None; import jaxpriv.release.ledger as one; print(one.fcntl)"
    assert run_python("-c", code) == "None\n"


@pytest.mark.parametrize("error", [KeyboardInterrupt, PermissionError])
def test_a_lock_whose_file_is_not_removed_ends(tmp_path, monkeypatch, error):
    """Its descriptor stayed open: in the same process the next release waited without end."""

    def unlink(path, missing_ok=False):
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", unlink)
        with contextlib.suppress(KeyboardInterrupt), ledger.locked(tmp_path / "ledger"):
            pass
    with ledger.locked(tmp_path / "ledger"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_is_released_is_taken_by_one_process(tmp_path):
    """The file of a lock is removed at its end: who has waited for the old file does not hold the new one."""
    path, inside, most = tmp_path / "ledger", [], []

    def work():
        for _ in range(30):
            with ledger.locked(path, wait=True):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(most) == 120
    assert max(most) == 1
    assert list(tmp_path.iterdir()) == []


# -- the order of the rows -----------------------------------------------------------------------------


@pytest.fixture
def in_order(tmp_path, table, fitted):
    """`in_order(**options)`: a release of a table that is in the order of its private column."""
    order = np.argsort(table["income"], kind="stable")
    records = {name: values[order] for name, values in table.items()}
    records["id"] = np.array([f"=p{row}" for row in range(1200)], dtype=object)
    return lambda **options: Released(tmp_path, records, fitted, **options)


def another(files, **options):
    """A second release of the same records, into files of its own."""
    folder = files.out.parent
    return release(files.records, files.mechanism, folder / "2.csv", folder / "2.json", **options)


@pytest.mark.usefixtures("surely")
def test_rows_are_in_a_random_order(in_order, mechanism):
    files = in_order()
    found = files.done
    assert sorted(found.order) == list(range(1200))
    # The sum of the places of the second half of the table: 7 deviations of a random order.
    assert abs(np.flatnonzero(found.order >= 600).sum() - 600 * 599.5) < 7 * np.sqrt(600 * 600 * 1201 / 12)
    labels = mechanism.labels_of(found.outputs[found.order])
    assert [row[1] for row in files.rows[1:]] == list(map(shown, labels["town"]))
    assert found.receipt["order"] == "permuted"
    assert set(json.loads(files.receipt.read_text())) == {
        *("format", "version", "tool", "design", "unseen", "columns", "kept", "ledger", "order", "released", "sha256")
    }
    paired = files.verify(records=files.records, order=files.order)
    assert paired.paired == "order"
    assert paired.conformity.detectable is not None
    alone = files.verify(records=files.records)
    assert alone.paired is None
    assert alone.record["paired"] is None
    assert alone.conformity.detectable is None
    assert "rows are not paired with records" in alone.text
    assert "rows are not paired with records" not in paired.text
    # Another order is that of another file, or none.
    other = another(files, keep=["id"])
    with raised(IntegrityError, "order of another released file"):
        files.verify(records=files.records, order=other.order_file)


@pytest.mark.usefixtures("surely")
def test_the_order_of_the_table_is_kept_where_it_is_asked_for(in_order, mechanism, tmp_path):
    with refused("order_out goes without"):
        in_order(keep_order=True, order_out=tmp_path / "order.zip")
    files = in_order(keep_order=True)
    found = files.done
    assert found.order is None
    assert found.order_file is None
    assert not orders(tmp_path)
    labels = mechanism.labels_of(found.outputs)
    assert [row[1] for row in files.rows[1:]] == list(map(shown, labels["town"]))
    assert found.receipt["order"] == "kept"
    known = files.verify(records=files.records)
    assert known.paired == "table"
    assert any("order of the table" in sentence for sentence in known.checked)
    with refused("order is about rows in a random order"):
        files.verify(records=files.records, order=another(files).order_file)
    # The same file with a receipt that says otherwise.
    files.forge(files.out.read_bytes(), order="permuted")
    with raised(IntegrityError, "a random order and follow those"):
        files.verify(records=files.records)


@pytest.mark.usefixtures("surely")
def test_rows_are_paired_by_a_column(in_order, tmp_path):
    order = tmp_path / "order.zip"
    files = in_order(keep="id", order_out=order)  # one name is a column, not its letters
    assert files.order == order
    assert stat.S_IMODE(order.stat().st_mode) == 0o600
    for options, how in (
        ({"identity": ["id"]}, "id"),
        ({"identity": "id", "read": "nfc"}, "id"),
        ({"order": order}, "order"),
        ({"order": order, "identity": ["id"]}, "order"),
    ):
        paired = files.verify(records=files.records, **options)
        assert paired.paired == how
        assert paired.conformity.p_value > 1e-6
    for options, words in (
        ({"identity": ["absent"]}, "no column 'absent'"),
        ({"identity": ["town"]}, "'town' was not kept"),
        ({"identity": ["town"], "order": order}, "identify no record"),
    ):
        with refused(words):
            files.verify(records=files.records, **options)
    with refused(r"order\.zip exists"):
        another(files, order_out=order)
    # Two values exchanged: a file with a receipt of its own.
    lines = files.out.read_text().splitlines()
    first, other = lines[1].rsplit(",", 1), lines[2].rsplit(",", 1)
    lines[1:3] = [f"{first[0]},{first[1]}", f"{other[0]},{first[1]}"]
    files.forge(("\n".join(lines) + "\n").encode())
    with raised(IntegrityError, "'id' is not that of the records"):
        files.verify(records=files.records, identity=["id"])


def test_a_forged_release_in_a_random_order_is_found_by_its_totals(in_order, mechanism):
    """Constant outputs: no pair is needed to see that they do not come from the design."""
    files = in_order()
    symbols = mechanism.symbols(files.records)
    constant = np.full(len(symbols), int(mechanism.table[symbols].min(axis=0).argmax()))
    files.forge(content(mechanism, constant))
    with raised(IntegrityError, "does not come from the design: p"):
        files.verify(records=files.records)


def test_two_releases_have_unrelated_orders(releasing):
    """Unless the second one repeats the first: then it is the same file."""
    first, again = releasing("first"), releasing("second")
    assert_array_equal(first.order, again.order)
    kept, other = releasing("third", keep=["id"]), releasing("fourth", no_ledger=True, force=True)
    for one in (kept, other):
        assert (one.order != first.order).mean() > 0.9


# -- killed ----------------------------------------------------------------------------------------

# A process that has imported everything, and for every delay that it reads a child that is killed after it.
RELEASING = """
import os, signal, sys, time
from pathlib import Path
import scipy.stats, jaxpriv.statistics.audit
from jaxpriv.release import Mechanism, release
folder = Path(sys.argv[1])
mechanism = Mechanism.load(folder / "design.zip")
for line in sys.stdin:
    child = os.fork()
    if not child:
        files = (folder / "out.csv", folder / "receipt.json")
        release(folder / "records.csv", mechanism, *files)
        os._exit(0)
    time.sleep(float(line))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print(flush=True)
"""


# Released file and receipt, in the order in which they are written.
ENDS = ((False, False), (True, False), (True, True))


@pytest.mark.parametrize("kills", [20, *thorough(200)])
def test_killed_at_any_time_nothing_is_half_written_and_nobody_is_drawn_twice(tmp_path, table, mechanism, kills):
    mechanism.save(tmp_path / "design.zip")
    write(tmp_path / "records.csv", table)
    out, proof = tmp_path / "out.csv", tmp_path / "receipt.json"
    generator, drawn, states, written = random.Random(4), None, set(), set()
    with subprocess.Popen(
        [sys.executable, "-c", RELEASING, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    ) as process:
        for _ in range(kills):
            print(generator.uniform(0.0, 0.15), file=process.stdin, flush=True)
            assert process.stdout.readline() == "\n"
            ledger, order = ledgers(tmp_path), orders(tmp_path)
            states.add((len(ledger), len(order), out.exists(), proof.exists()))
            if proof.exists():
                assert verify(proof, design=tmp_path / "design.zip", released=out).rows == len(table["age"])
            if out.exists():
                assert verify(tmp_path / "design.zip", released=out).rows == len(table["age"])
                written.add(out.read_bytes())
            if ledger:
                assert drawn in (None, ledger[0].read_bytes())
                drawn = ledger[0].read_bytes()
            for path in (out, proof, *order):  # as if they had not been published
                path.unlink(missing_ok=True)
        process.stdin.close()
    assert states <= {(0, 0, False, False), (1, 0, False, False), *((1, 1, *end) for end in ENDS)}
    found = release(tmp_path / "records.csv", mechanism, out, proof)
    assert found.served == (0 if drawn is None else len(table["age"]))
    assert drawn in (None, ledgers(tmp_path)[0].read_bytes())
    assert len({*written, out.read_bytes()}) == 1  # every run wrote the same file
