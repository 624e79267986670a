"""Dialects of CSV files, rare classes, survey weights: defined results, or errors that name line and row."""

import gzip
import tracemalloc
import unicodedata
import warnings

import numpy as np
import pytest

from jaxpriv.errors import IntegrityError
from jaxpriv.statistics.tables import Categories, Codebook, Quantiles, TableFile, count_table
from jaxpriv.verifier.csv_text import plain_csv
from tests.cases import raised, refused
from tests.statistics.conftest import read

ROWS = [("Köln", "1"), ("Brühl", "2"), ("Köln", "3")]


def text(delimiter=",", header=True):
    lines = [("town", "n")] * header + ROWS
    return "".join(delimiter.join(line) + "\n" for line in lines)


def values(file):
    return [column.values.tolist() for column in read(file, "town", "n").values()]


CASES = {
    "semicolons": ("t.csv", text(";").encode(), {"delimiter": ";"}),
    "tabs by name": ("t.tsv", text("\t").encode(), {}),
    "tabs": ("t.csv", text("\t").encode(), {"delimiter": "\t"}),
    "latin-1": ("t.csv", text().encode("latin-1"), {"encoding": "latin-1"}),
    "utf-16": ("t.csv", text().encode("utf-16"), {"encoding": "utf-16"}),
    "compressed": ("t.csv.gz", gzip.compress(text().encode()), {}),
    "compressed tabs in latin-1": ("T.TSV.GZ", gzip.compress(text("\t").encode("latin-1")), {"encoding": "latin-1"}),
    "no header": ("t.csv", text(header=False).encode(), {"names": ["town", "n"]}),
    "blanks": ("t.csv", text(" , ").replace("town", " town").encode(), {"blanks": True}),
    "blank lines at the end": ("t.csv", (text() + "\n  \n").encode(), {"blanks": True}),
    "marks of numbers": ("t.csv", text().encode(), {"thousands": "'"}),
    "two columns of one name": ("t.csv", "".join(f"{row},{row}\n" for row in text().splitlines()).encode(), {}),
    "composed": ("t.csv", unicodedata.normalize("NFD", text()).encode(), {"nfc": True}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_dialect_is_read_as_the_same_table(case, tmp_path):
    name, content, options = CASES[case]
    (tmp_path / name).write_bytes(content)
    assert values(TableFile(tmp_path / name, **options)) == [list(column) for column in zip(*ROWS, strict=True)]


@pytest.mark.parametrize(
    ("marks", "written", "plain"),
    [
        ({"decimal": ","}, ["1,5", "-,5", "+2,", "1e3", "x", ""], ["1.5", "-.5", "+2.", "1e3", "x", ""]),
        (
            {"decimal": ",", "thousands": "."},
            ["1.234,5", "1.234.567", "12,5", "1.23.4"],
            ["1234.5", "1234567", "12.5", "1.23.4"],
        ),
        ({"thousands": "\u00a0"}, ["1\u00a0234", "12\u00a034", "1234"], ["1234", "12\u00a034", "1234"]),
        ({"thousands": ","}, ["1,234.5", "1,2", "123"], ["1234.5", "1,2", "123"]),
        ({"empty": "NA,-999"}, ["1", "NA", "-999", "NAN", " NA"], ["1", "", "", "NAN", " NA"]),
        ({"empty": "e\u0301", "nfc": True}, ["\u00e9", "e\u0301", "1"], ["\u00e9", "\u00e9", "1"]),
    ],
)
def test_numbers_are_read_in_the_marks_that_are_stated(tmp_path, marks, written, plain):
    """Those of the library and of the verifier, which has a reader of its own; names are no values."""
    path = tmp_path / "t.csv"
    path.write_text("1.234;n\n" + "".join(f"{value};1\n" for value in written))
    stated = {name: tuple(mark.split(",")) if name == "empty" else mark for name, mark in marks.items()}
    found = read(TableFile(path, delimiter=";", **stated), "1.234")["1.234"]
    assert found.values.tolist() == plain
    settings = ["delimiter=;", *(name if mark is True else f"{name}={mark}" for name, mark in marks.items())]
    again = tmp_path / "again.csv"
    again.write_bytes(plain_csv(path.read_bytes(), "t.csv", settings))
    assert read(again, "1.234")["1.234"].values.tolist() == plain


def test_texts_of_an_empty_cell_are_a_sequence(tmp_path):
    with refused("empty must be the texts that stand for an empty cell"):
        TableFile(tmp_path / "t.csv", empty="NA")  # pyright: ignore[reportArgumentType]


def test_a_number_in_other_marks_is_an_error(tmp_path):
    """A point where a comma was stated could be either; the value is not shown."""
    path = tmp_path / "t.csv"
    path.write_text("town;n\nx;1,5\ny;12.5\n")
    for marks in ({"decimal": ","}, {"decimal": ",", "thousands": "."}):
        with refused(r"column 'n', row 1 \(from 0\) is a number in other marks") as caught:
            read(TableFile(path, delimiter=";", **marks), "n")
        assert "12" not in str(caught.value)
    with refused(r"row 0 .* is not a finite decimal number .* --read decimal=,"):
        Quantiles(2).fit(read(TableFile(path, delimiter=";"), "n")["n"])
    for marks in ({"decimal": ";"}, {"decimal": ",", "thousands": ","}, {"thousands": "5"}, {"thousands": ".."}):
        with refused("decimal must be a point or a comma"):
            TableFile(path, **marks)


def test_a_blank_line_between_records_and_a_blank_value_are_no_end(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n\n3,4\n\n")
    with refused(r"line 3, row 1 .*: 0 fields, 2 needed"):
        read(TableFile(path, blanks=True), "a")
    path.write_text('a\n1\n" "\n')  # a value of one column
    assert read(TableFile(path, blanks=True), "a")["a"].values.tolist() == ["1", ""]


def test_what_was_not_said_is_not_done(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("town,n\nx ,1\nx,2\n")
    assert values(path) == [["x ", "x"], ["1", "2"]]
    composed = tmp_path / "nfd.csv"
    composed.write_text(unicodedata.normalize("NFD", text()))
    assert values(composed)[0][0] != "Köln"
    with pytest.warns(UserWarning, match="1 of its 2 classes differ .* only in blanks"):
        assert Categories().fit(read(path, "town")["town"]).values == ("x", "x ")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tidy = TableFile(path, blanks=True)
        assert Categories().fit(read(tidy, "town")["town"]).values == ("x",)


def test_errors_name_the_place(tmp_path):
    path, packed = tmp_path / "t.csv", tmp_path / "t.csv.gz"
    path.write_bytes(text(";").encode())
    with refused(r"has ';': name the delimiter, on the command line --read 'delimiter=;'$"):
        values(path)
    path.write_bytes(text().encode("latin-1"))
    with refused(r"t\.csv, line 2, is not utf-8 text"):
        values(path)
    packed.write_bytes(gzip.compress(text().encode("latin-1")))
    with refused("line 2, is not utf-8 text"):
        values(packed)
    packed.write_bytes(gzip.compress(text().encode())[:-9])
    with raised(IntegrityError, "gzip"):
        values(packed)
    packed.write_bytes(b"town,n\nx,1\n")
    with raised(IntegrityError, "gzip"):
        values(packed)
    path.write_bytes(text(header=False).encode() + b"y,4,5\n")
    with refused(r"line 4, row 3 \(from 0\): 3 fields, 2 needed"):
        values(TableFile(path, names=["town", "n"]))
    (tmp_path / "t.parquet").write_bytes(b"")
    with refused("about CSV files"):
        values(TableFile(tmp_path / "t.parquet", nfc=True))


def test_a_line_without_an_end_is_refused_before_it_is_in_memory(tmp_path):
    packed = tmp_path / "bomb.csv.gz"
    packed.write_bytes(gzip.compress(b"town,n\n" + b"," * 2**26, 1))
    tracemalloc.start()
    with refused("line 2: longer than 16777216 characters"):
        values(packed)
    assert tracemalloc.get_traced_memory()[1] < 2**26
    tracemalloc.stop()


BAD = [
    ("delimiter", "ab"),
    ("delimiter", '"'),
    ("encoding", "klingon"),
    ("names", []),
    ("names", ["a", "a"]),
    ("names", "ab"),
]


@pytest.mark.parametrize(("option", "value"), BAD)
def test_bad_dialects(option, value):
    with refused(option):
        TableFile("t.csv", **{option: value})


def test_rare_classes_are_merged_by_the_stated_rule():
    town = ["a"] * 20 + ["b"] * 10 + ["c"] * 9 + ["d"]
    rows = {"town": town, "income": (["lo", "hi"] * 20)}
    counted = count_table(rows, private="income", useful="town", rules={"town": Categories(least=10)})
    assert counted.codebook.rules["town"].labels == ("a", "b", "other")
    assert counted.dataset.counts.sum(axis=0).tolist() == [20, 10, 10]
    book = Codebook.from_json(counted.codebook.to_json())  # the fitted rule holds classes, no number
    assert book == counted.codebook
    assert "least" not in counted.codebook.to_json()
    assert book.encode_useful({"town": ["d", "z", "b"]}).ravel().tolist() == [2, 2, 1]
    named = Categories(least=10, other="elsewhere").fit(read(rows, "town")["town"])
    assert named.labels == ("a", "b", "elsewhere")
    for bad in ({"least": 0}, {"least": True}, {"least": 2.5}, {"least": 3, "values": ["a"]}):
        with refused("least"):
            Categories(**bad)


def test_survey_weights_are_those_of_the_joint():
    rows = {"s": ["a", "a", "b", "b"] * 5, "x": ["0", "1", "0", "1"] * 5, "w": [1.0, 2.0, 3.0, 4.0] * 5}
    counted = count_table(rows, private="s", useful="x", weights="w")
    np.testing.assert_allclose(counted.dataset.joint, [[0.1, 0.2], [0.3, 0.4]], rtol=1e-15)
    assert counted.dataset.counts.tolist() == [[5, 5], [5, 5]]  # of records: bounds are about these
    for bad, words in (
        ([-1.0, *rows["w"][1:]], r"row 0 .* negative"),
        ([0.0] * 20, "positive"),
        (["x", *["1"] * 19], r"row 0 .* not a finite decimal"),
        ([0.0, 0.0, 1.0, 1.0] * 5, "weight 0"),
    ):
        with refused(words):
            count_table({**rows, "w": bad}, private="s", useful="x", weights="w")
    with refused("private or useful"):
        count_table(rows, private="s", useful="x", weights="x")
