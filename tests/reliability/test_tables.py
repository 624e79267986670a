"""Bad input and faults, one numbered case each: tables (C).

What happens is defined, and tested. Most cases have further tests beside the code that they are about; here every
number has one that can fail.
"""

import csv
import gzip
import io
import os

import numpy as np
import pytest

from jaxpriv._runtime.files import atomic_write
from jaxpriv.errors import (
    ResourceError,
)
from jaxpriv.statistics.tables import Categories, Edges, count_table
from tests.mechanism.conftest import people
from tests.reliability.cases import CASES, case, refused, released


def csv_of(tmp, text, name="t.csv"):
    path = tmp / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@case(24)
def names_of_columns(tmp, **_):
    path = csv_of(tmp, "age,Age ,income\n1,2,a\n2,1,b\n")
    refused(lambda: count_table(path, private="income", useful="AGE"), "'AGE'", "'age' or 'Age '")
    path = csv_of(tmp, "age,age,income\n1,2,a\n")
    refused(lambda: count_table(path, private="income", useful="age"), "2 columns named 'age'")


@case(25)
def a_private_column_that_would_be_released(made, tmp, **_):
    refused(lambda: count_table(people(50), private="income", useful="income"), "'income' is private and useful")
    refused(lambda: released(made, tmp, keep=["income"]), "'income' is private")


@case(26)
def broken_files(tmp, **_):
    for text, words in (
        (b"s,x\na,1\nb\n", "line 3"),
        (b's,x\na,"1\n', "well-formed"),
        (b"", "is empty"),
        (b"s,x\n", "no rows"),
        ("s,x\nä,1\n".encode("latin-1"), "line 2"),
        (b"s,x\n" + b"y" * 200_000 + b",1\n", "field too long"),
        ("s,x\na,1\n".encode("utf-16"), "utf-8"),
    ):
        refused(lambda text=text: count_table(csv_of(tmp, text), private="s", useful="x", sparse=True), words)
    rows = b"".join(b"%d,%d\n" % (k % 2, k % 3) for k in range(40))
    mixed = b"".join(line + (b"\r\n" if k % 2 else b"\n") for k, line in enumerate(rows.splitlines()))
    texts = (b"s,x\n" + rows, b"\xef\xbb\xbfs,x\r\n" + rows[:-1], b'"s","x"\r\n' + mixed)
    same = [csv_of(tmp, text, f"{k}.csv") for k, text in enumerate(texts)]
    first, *others = (count_table(path, private="s", useful="x").dataset.counts for path in same)
    assert all(np.array_equal(first, other) for other in others)
    null = csv_of(tmp, b"s,x\n" + b"a,1\nb,\x002\n" * 9)
    refused(lambda: count_table(null, private="s", useful="x"), "line 3: a NUL character")
    inside = b"".join(b'%d,"a\nb%d"\n' % (k % 2, k % 3) for k in range(40))  # line breaks inside of fields
    assert count_table(csv_of(tmp, b"s,x\n" + inside), private="s", useful="x").dataset.counts.sum() == 40
    wide = ",".join(["s", "x", *(f"c{k}" for k in range(10**5))]) + "\n"
    wide += "".join(f"{k % 2},{k % 3}{',' * 10**5}\n" for k in range(20))
    assert count_table(csv_of(tmp, wide), private="s", useful="x").dataset.counts.sum() == 20
    with gzip.open(tmp / "bomb.csv.gz", "wb") as file:  # a megabyte that becomes a line of a gigabyte
        file.write(b"s,x\n")
        for _ in range(32):
            file.write(b"a" * 2**25)
    refused(lambda: count_table(tmp / "bomb.csv.gz", private="s", useful="x"), "line 2", "longer than")
    (tmp / "folder.csv").mkdir()
    refused(lambda: count_table(tmp / "folder.csv", private="s", useful="x"), "regular file")
    os.mkfifo(tmp / "pipe.csv")
    refused(lambda: count_table(tmp / "pipe.csv", private="s", useful="x"), "regular file")


@case(27)
def words_that_look_missing(**_):
    words = ["NA", "nan", "None", "null", "1", "1.0", "01"] * 6
    book = count_table({"s": ["a", "b"] * 21, "x": words}, private="s", useful="x").codebook
    assert set(book.rules["x"].labels) == set(words)
    refused(lambda: count_table({"s": ["a", "b"] * 3, "x": ["", "v"] * 3}, private="s", useful="x"), "row 0", "missing")
    with pytest.warns(UserWarning, match="letters are composed"):
        Categories().fit(count_column(["\u00e4", "a\u0308"]))


def count_column(values):
    from jaxpriv.statistics.tables.readers import read_columns

    return read_columns({"a": values}, ["a"])["a"]


@case(28)
def unseen_classes(made, tmp, **_):
    table = {**made["table"], "town": np.where(np.arange(400) == 7, "secret", made["table"]["town"]).astype(object)}
    refused(lambda: released(made, tmp, table=table), "'town'", "row 7", "such rows: 1")
    assert not list(tmp.iterdir())


@case(29)
def values_that_are_no_classes(**_):
    number = np.arange(60.0) + 0.5
    refused(lambda: count_table({"s": ["a", "b"] * 30, "x": number}, private="s", useful="x"), "real numbers")
    many = np.arange(60)
    refused(lambda: count_table({"s": ["a", "b"] * 30, "x": many}, private="s", useful="x"), "fewer than 5")
    edges = {"x": Edges([0.0, 30.0, 50.0])}
    refused(lambda: count_table({"s": ["a", "b"] * 30, "x": many}, private="s", useful="x", rules=edges), "outside")


@case(30)
def formulas_for_spreadsheets(made, tmp, **_):
    table = {**made["table"], "note": np.array(["=1+1", "@x", "-3.2", "plain"] * 100, dtype=object)}
    found = released(made, tmp, table=table, keep=["note"])
    rows = list(csv.reader(io.StringIO((tmp / "released.csv").read_text())))
    note = rows[0].index("note")
    assert {row[note] for row in rows[1:]} == {"'=1+1", "'@x", "-3.2", "plain"}
    assert found.escaped >= 200  # and the town "=west"
    assert not any(cell.startswith("=") for row in rows for cell in row)
    # A header too, full-width signs, control characters; a number keeps its sign.
    table = {**made["table"], "=sum": np.array(["\uff1d1", "\t1", "+1e3", "-x"] * 100, dtype=object)}
    released(made, tmp, table=table, keep=["=sum"], force=True)
    rows = list(csv.reader(io.StringIO((tmp / "released.csv").read_text())))
    assert rows[0][-1] == "'=sum"
    assert {row[-1] for row in rows[1:]} == {"'\uff1d1", "'\t1", "+1e3", "'-x"}


@case(31)
def where_results_go(made, tmp, patch, **_):
    from typer.testing import CliRunner

    from jaxpriv.cli import app
    from tests.cli.conftest import refused as line_refused

    (tmp / "released.csv").write_text("old")
    refused(lambda: released(made, tmp), "exists")
    assert (tmp / "released.csv").read_text() == "old"
    table = csv_of(tmp, "age,town,income\n")
    words = ["release", table, "--design", made["design"], "--out", table, "--receipt", tmp / "r.json"]
    line_refused(CliRunner().invoke(app, [str(word) for word in words]), 2, "--out")
    link = tmp / "link.bin"
    link.symlink_to(tmp / "target.bin")
    atomic_write(link, b"x")
    assert link.is_symlink()
    assert (tmp / "target.bin").read_bytes() == b"x"
    with pytest.raises(ResourceError):
        atomic_write(tmp / "absent" / "file", b"x")


@case(32)
def columns_that_no_audit_covers(made, tmp, **_):
    table = {**made["table"], "note": np.full(400, "n", dtype=object)}
    released(made, tmp, table=table)
    assert "note" not in (tmp / "released.csv").read_text().splitlines()[0]  # only what is named is kept
    other = tmp / "kept"
    other.mkdir()
    found = released(made, other, table=table, keep=["note"])
    assert found.receipt["kept"] == ["note"]
    for name in ("income", "age"):
        refused(lambda name=name: released(made, other, table=table, keep=[name], force=True), f"'{name}'")


@case(33)
def the_same_records_twice(made, tmp, **_):
    book = tmp / "ledger"
    first = released(made, tmp, ledger=book)
    content = (tmp / "released.csv").read_bytes()
    refused(lambda: released(made, tmp), "second draw")
    again = released(made, tmp, ledger=book, force=True)
    assert again.served == 400
    assert (tmp / "released.csv").read_bytes() == content
    np.testing.assert_array_equal(first.outputs, again.outputs)
    copies = {name: np.concatenate([part, part]) for name, part in made["table"].items()}
    copies["id"] = np.tile(np.arange(400), 2)
    twice = released(made, tmp, table=copies, ledger=tmp / "other", identity=["id"], force=True)
    np.testing.assert_array_equal(twice.outputs[:400], twice.outputs[400:])  # one person, one draw


@pytest.mark.parametrize("number", range(24, 34))
def test_case(number, made, tmp_path, monkeypatch):
    CASES[number](made=made, tmp=tmp_path, patch=monkeypatch)
