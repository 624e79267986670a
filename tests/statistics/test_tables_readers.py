"""Tables come in: the same columns from every kind of source, and what is refused, without showing a value."""

import csv
import gzip
import os

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from jaxpriv.errors import InputError, IntegrityError, ResourceError
from jaxpriv.statistics.tables import Categories, Edges, Quantiles, count_table, fit_codebook
from tests.cases import raised
from tests.statistics.conftest import column, read

# Whole numbers, real numbers, text, a logical, each with no gap; every (income, age) occurs.
RNG = np.random.default_rng(5)
ROWS = {
    "age": RNG.integers(18, 80, 400).tolist(),
    "weight": (50 + 50 * RNG.random(400)).round(3).tolist(),
    "town": RNG.choice(["NA", "None", "b ", "a", "Ä"], 400).tolist(),
    "member": RNG.choice([True, False], 400).tolist(),
    "income": RNG.choice(["low", "high"], 400).tolist(),
}
RULES = {"age": Edges((18, 40, 60, 80)), "weight": Quantiles(3)}
WANTED = {"private": "income", "useful": ["age", "weight", "town", "member"], "rules": RULES, "sparse": True}


def texts(source):
    """The values of the only column that is asked for."""
    return read(source, "a")["a"].values.tolist()


def refused(source, words, error=InputError):
    """The error, which shows no value."""
    with raised(error, words) as caught:
        read(source, "a")
    assert "secret" not in str(caught.value)
    return caught.value


def as_csv(rows, path, **options):
    pl.DataFrame(rows).write_csv(path, **options)
    return path


def as_parquet(rows, path):
    pl.DataFrame(rows).write_parquet(path)
    return path


SOURCES = {
    "columns": lambda rows, _: rows,
    "arrays": lambda rows, _: {name: np.array(values) for name, values in rows.items()},
    "pandas": lambda rows, _: pd.DataFrame(rows),
    "objects": lambda rows, _: {name: np.array(values, dtype=object) for name, values in rows.items()},
    "pandas of objects": lambda rows, _: pd.DataFrame(rows, dtype=object),
    "pandas nullable": lambda rows, _: pd.DataFrame(rows).convert_dtypes(),
    "pandas categories": lambda rows, _: pd.DataFrame(rows).astype({"town": "category", "income": "category"}),
    "polars": lambda rows, _: pl.DataFrame(rows),
    "polars categories": lambda rows, _: pl.DataFrame(rows).with_columns(pl.col("town").cast(pl.Categorical)),
    "arrow": lambda rows, _: pa.table(rows),
    "csv": lambda rows, folder: as_csv(rows, folder / "table.csv"),
    "csv with a byte order mark": lambda rows, folder: as_csv(rows, folder / "t.CSV", include_bom=True),
    "csv, quoted": lambda rows, folder: as_csv(rows, folder / "t.csv", quote_style="always", line_terminator="\r\n"),
    "parquet": lambda rows, folder: as_parquet(rows, folder / "table.parquet"),
}


@pytest.fixture(scope="module")
def expected():
    return count_table(ROWS, **WANTED)


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_gives_the_same_joint(kind, expected, tmp_path):
    found = count_table(SOURCES[kind](ROWS, tmp_path), **WANTED)
    assert np.array_equal(found.dataset.counts, expected.dataset.counts)
    assert found.dataset.useful_labels == expected.dataset.useful_labels
    assert np.array_equal(found.useful_symbols, expected.useful_symbols)
    assert found.codebook == expected.codebook


def test_words_that_look_missing_are_text(expected):
    assert expected.codebook.rules["town"].labels == ("NA", "None", "a", "b ", "Ä")


GAPS = {"n": [1, None, 3, 1], "r": [0.5, None, 1.5, 0.5], "t": ["x", None, "y", ""], "b": [True, None, False, True]}
GAP_SOURCES = {
    "columns": {name: np.array(values, dtype=object) for name, values in GAPS.items() if name in "tb"},
    "masked": {
        "n": np.ma.MaskedArray([1, -9, 3, 1], mask=[0, 1, 0, 0]),
        "r": np.ma.MaskedArray([0.5, np.nan, 1.5, 0.5], mask=[0, 1, 0, 0]),
    },
    "pandas": pd.DataFrame(GAPS),
    "polars": pl.DataFrame(GAPS),
    "arrow": pa.table(GAPS),
}


@pytest.mark.parametrize("kind", GAP_SOURCES)
def test_missing_values_are_found_whatever_the_source(kind):
    source = GAP_SOURCES[kind]
    present = source if kind in ("columns", "masked") else GAPS
    names = [name for name in GAPS if name in present]
    columns = read(source, *names)
    for name in names:
        assert columns[name].missing.tolist() == [False, True, False, False]
        encoded = {
            "n": lambda c: Categories(("1", "3"), missing="?").encode(c),
            "r": lambda c: Edges((0.0, 1.0, 2.0), missing="?").encode(c),
            "t": lambda c: Categories(("x", "y"), missing="?").encode(c),
            "b": lambda c: Categories(("true", "false"), missing="?").encode(c),
        }[name](columns[name])
        # The empty text is missing too, by the default tokens.
        assert encoded.tolist() == [0, 2, 1, 2 if name == "t" else 0]
        with raised(InputError, rf"column '{name}', row 1 \(from 0\) is missing"):
            (Edges((0, 9)) if name == "r" else Categories()).fit(columns[name]).encode(columns[name])


# -- booleans --------------------------------------------------------------------------------------

FLAGS = {"flag": [True, False, True, True, False] * 20, "s": ["a", "b", "a"] * 33 + ["b"]}


def spelled(spelling, folder):
    path = folder / f"{spelling(True)}.csv"
    path.write_text("flag,s\n" + "".join(f"{spelling(x)},{s}\n" for x, s in zip(*FLAGS.values(), strict=True)))
    return path


BOOLEANS = {
    "True": lambda folder: spelled(str, folder),
    "TRUE": lambda folder: spelled(lambda x: str(x).upper(), folder),
    "true": lambda folder: spelled(lambda x: str(x).lower(), folder),
    "pandas of True": lambda folder: pd.read_csv(spelled(str, folder)),
    "pandas of TRUE": lambda folder: pd.read_csv(spelled(lambda x: str(x).upper(), folder)),
    "pandas, text": lambda _: pd.DataFrame(FLAGS).astype({"flag": str}),
    "pandas, nullable": lambda _: pd.DataFrame(FLAGS).astype({"flag": "boolean"}),
    "polars": lambda _: pl.DataFrame(FLAGS),
    "polars of True": lambda folder: pl.read_csv(spelled(str, folder)),
    "arrow": lambda _: pa.table(FLAGS),
    "parquet": lambda folder: as_parquet(FLAGS, folder / "t.parquet"),
    "arrays": lambda _: {name: np.array(values) for name, values in FLAGS.items()},
    "lists": lambda _: FLAGS,
    "series": lambda _: {name: pd.Series(values) for name, values in FLAGS.items()},
}


@pytest.mark.parametrize("kind", BOOLEANS)
def test_a_boolean_is_one_value_in_every_reader(kind, tmp_path):
    """A design fitted to any of these is applied to any other: it has the same labels."""
    book = fit_codebook(BOOLEANS[kind](tmp_path), private="s", useful="flag")
    assert book.rules["flag"].labels == ("false", "true")
    kinds = list(BOOLEANS)
    for other in kinds if kind == kinds[0] else (kind, kinds[0]):
        assert book.encode_useful(BOOLEANS[other](tmp_path)).ravel().tolist() == list(map(int, FLAGS["flag"]))


def test_spellings_of_a_boolean_among_other_texts(tmp_path):
    """They keep their text as a label; a batch that is all boolean, which pandas would convert, is still of these."""
    rows = {"flag": ["True", "False", "unknown", "True"] * 10, "s": ["a", "b"] * 20}
    book = fit_codebook(rows, private="s", useful="flag")
    assert book.rules["flag"].labels == ("False", "True", "unknown")
    for batch in ([True, False], np.array([True, False]), ["TRUE", "FALSE"], ["true", "False"]):
        assert book.encode_useful({"flag": batch}).ravel().tolist() == [1, 0]
    # Several spellings as classes of their own: what is none of them exactly has no class.
    several = Categories(("True", "TRUE", "no"))
    assert several.encode(column(["TRUE", "True"])).tolist() == [1, 0]
    with raised(InputError, "row 0"):
        several.encode(column([True]))
    # Different spellings in a column of booleans are the same value, and count together.
    mixed = Categories(least=3).fit(column(["true", "True", "TRUE", "false"]))
    assert mixed.labels == ("true", "other")


@pytest.mark.parametrize("kind", ["text", "integer", "number"])
def test_tokens_mean_missing_in_every_reader(kind):
    values = {"text": ["-9", "1", "2"], "integer": np.array([-9, 1, 2]), "number": np.array([-9.0, 1.0, 2.0])}[kind]
    source = column(values)
    for rule in (Categories(tokens=("-9", ""), missing="?"), Edges((0, 2, 9), tokens=("-9",), missing="?")):
        assert rule.fit(source).encode(source).tolist() == [2, 0, 1]


def test_objects_of_one_kind_are_that_kind():
    """As a frame without types gives them, and a list with gaps."""
    found = {
        "whole": ([1, None, 2**60 + 1], "integer", [1, 0, 2**60 + 1]),
        "real": (np.array([1, 2.5, None], dtype=object), "number", [1.0, 2.5, 0.0]),
        "nullable": (pd.Series([2**53 + 1, None], dtype="Int64"), "integer", [2**53 + 1, 0]),
        "unsigned": (np.array([1, 255], dtype=np.uint8), "integer", [1, 255]),
    }
    for values, kind, wanted in found.values():
        one = column(values)
        assert (one.kind, one.values.tolist()) == (kind, wanted)
    assert column(found["real"][0]).missing.tolist() == [False, False, True]


def test_decimals_that_floats_would_round_are_refused():
    large = pl.DataFrame({"a": ["1", "9007199254740993"]}).cast({"a": pl.Decimal(38, 0)})
    refused(large, "floats would round")
    assert read(large.head(1), "a")["a"].values.tolist() == [1.0]


def test_only_the_columns_asked_for_are_looked_at(tmp_path):
    source = {"a": [1, 2], "bad": [[1], [2]], "worse": [np.nan, np.inf]}
    assert list(read(source, "a")) == ["a"]
    pl.DataFrame({"a": [1, 2], "list": [[1], [2]]}).write_parquet(tmp_path / "t.parquet")
    assert texts(tmp_path / "t.parquet") == [1, 2]


BAD_COLUMNS = {
    "not a number": (pl.DataFrame({"a": [1.5, float("nan")]}), r"column 'a', row 1 \(from 0\) is NaN"),
    "nan in an array": ({"a": np.array([np.nan, 1.5])}, r"column 'a', row 0 \(from 0\) is NaN"),
    "infinite": (pd.DataFrame({"a": [1.5, -np.inf]}), r"column 'a', row 1 \(from 0\) is infinite"),
    "times of day": (pl.DataFrame({"a": [1]}).cast({"a": pl.Time}), "neither numbers, text, dates"),
    "lists": (pl.DataFrame({"a": [[1]]}), "neither numbers, text, dates"),
    "complex": ({"a": np.array([1j])}, "neither numbers, text, dates"),
    "mixed": ({"a": np.array(["secret", 1], dtype=object)}, "several kinds"),
    "beyond 64 bits": ({"a": np.array([2**63], dtype=np.uint64)}, "beyond 64 bits"),
    "128 bits": (pl.DataFrame({"a": pl.Series([2**100, 1], dtype=pl.Int128)}), "beyond 64 bits"),
    "two dimensions": ({"a": np.ones((2, 2))}, "2 dimensions"),
    "no rows": (pl.DataFrame({"a": []}, schema={"a": pl.Int64}), "no rows"),
    "absent": ({"b": [1]}, "no column 'a' among its 1$"),
    "nearly": (pl.DataFrame({" A": [1], "secret": [2]}), "no column 'a' among its 2; did you mean ' A'"),
    "nearly both": (pl.DataFrame({" A": [1], "a ": [2]}), "' A' or 'a '"),
    "twice": (pd.DataFrame([[1, 2]], columns=["a", "a"]), "same name"),
    "lazy": (pl.LazyFrame({"a": [1]}), "eager"),
    "no table": ([1, 2], "eager"),
}


@pytest.mark.parametrize("case", BAD_COLUMNS)
def test_bad_columns_are_refused(case):
    source, message = BAD_COLUMNS[case]
    refused(source, message)


@pytest.mark.parametrize("values", [["secret", float("nan")], ["secret", 1], [["secret"], ["x", "y"]]])
def test_lists_of_several_kinds_are_not_made_text(values):
    """NumPy would: NaN, which is missing, would become the class "nan"."""
    refused({"a": values}, "several")


def test_texts_come_in_whole(tmp_path):
    """Not through an array of fixed width: one long field would widen every row, and NULs at ends would be dropped."""
    (tmp_path / "t.csv").write_bytes(b"a,b\nx \x01,1\nx,2\n")
    for source in (tmp_path / "t.csv", {"a": ["x \x01", "x"]}):
        assert texts(source) == ["x \x01", "x"]


def test_one_long_field_does_not_widen_every_row(tmp_path):
    import tracemalloc

    (tmp_path / "t.csv").write_bytes(b"a,b\n" + b"x" * 100_000 + b",1\n" + b"y,2\n" * 2000)
    tracemalloc.start()
    read(tmp_path / "t.csv", "a")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6  # 800 MB if every row had the width of the longest


def test_series_that_pandas_would_match_by_their_index_are_refused():
    """By their places a private value would stand beside the useful values of another record."""
    frame = pd.DataFrame({"a": list("xyz"), "b": [1, 2, 3]})
    shuffled = frame["b"].sample(frac=1.0, random_state=1)
    with raised(InputError, "columns 'a' and 'b' are series with different indices"):
        read({"a": frame["a"], "b": shuffled}, "a", "b")
    for given in (shuffled.reset_index(drop=True), shuffled.to_numpy()):
        moved = read({"a": frame["a"], "b": given}, "a", "b")
        assert moved["b"].values.tolist() == shuffled.tolist()


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
@pytest.mark.parametrize("kind", [object, None])
def test_times_of_a_zone_are_in_utc_and_no_time_is_missing(zone, kind):
    """A name with an underscore was no time zone, and NaT among things was the text of a class."""
    times = [pd.Timestamp("2026-01-31T23:30", tz="UTC").tz_convert(zone), pd.NaT]
    got = read({"a": np.array(times, dtype=object) if kind else pd.Series(times)}, "a")["a"]
    assert (got.texts[0], got.missing.tolist()) == ("2026-01-31T23:30", [False, True])


def test_columns_of_different_lengths():
    with raised(InputError, "'b' has 2 rows, column 'a' has 1"):
        read({"a": [1], "b": [1, 2]}, "a", "b")


BAD_FILES = {
    "short": (b"a,b\n1,2\nsecret\n", r"line 3, row 1 \(from 0\): 1 fields, 2 needed"),
    "long": (b"a,b\n1,2,secret\n", r"line 2, row 0 \(from 0\): 3 fields, 2 needed"),
    "blank": (
        b"a,b\n1,2\n\n",
        r"line 3, row 1 \(from 0\): 0 fields, 2 needed \(the line is blank: .* --read blanks does",
    ),
    "quote": (b'a,b\n1,"secret\n2,3\n', "not well-formed"),
    "twice": (b"a,b,a\n1,2,1\n1,2,2\n", "2 columns named 'a', which differ"),
    "empty": (b"", "is empty"),
    "header only": (b"a,b\n", "no rows"),
    "utf-16": ("a,b\n1,2\n".encode("utf-16"), "not utf-8"),
    "headless": (b"secret,7\n1,2\n", "no column 'a' among its 2; for a file without a header .* --read names=A,B$"),
    "long field": (b"a,b\n1," + b"x" * 2**17 + b"x\n", "field too long"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_malformed_csv_is_refused_with_its_line(case, tmp_path):
    content, message = BAD_FILES[case]
    (tmp_path / "t.csv").write_bytes(content)
    assert refused(tmp_path / "t.csv", message).__cause__ is None


def test_a_file_without_final_newline_and_with_newlines_in_fields(tmp_path):
    (tmp_path / "t.csv").write_bytes(b'a,b\r\n"x\r\ny",1\r\n,2')
    assert texts(tmp_path / "t.csv") == ["x\r\ny", ""]


def test_a_table_of_many_columns_and_two_kinds_of_line_ends(tmp_path):
    names = [f"c{k}" for k in range(10**5)]
    (tmp_path / "t.csv").write_bytes(f"a,{','.join(names)}\r\nx{',' * 10**5}\ny{',' * 10**5}\r\n".encode())
    assert texts(tmp_path / "t.csv") == ["x", "y"]


def test_bad_files(tmp_path):
    refused(tmp_path / "absent.csv", "does not exist")
    refused(tmp_path / "t.xlsx", r"\.csv, \.tsv \(also \.gz\) and \.parquet")
    (tmp_path / "folder.csv").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    for name in ("folder.csv", "pipe.csv"):
        refused(tmp_path / name, "regular file")
    (tmp_path / "t.parquet").write_bytes(b"PAR1 secret")
    refused(str(tmp_path / "t.parquet"), "not a complete Parquet", IntegrityError)


def _damaged(content, kind):
    """Bytes on which the decoder returns an error, panics, and ends its process for want of 2^61 bytes."""
    return {
        "empty": b"",
        "half": content[: len(content) // 2],
        "no footer": content[:-9],
        "zeros": content[:4] + bytes(len(content) - 200) + content[-196:],
        "ones": content[:8] + b"\xff" * 40 + content[48:],
        "pages": content[:4] + bytes(byte ^ 0x55 for byte in content[4:150]) + content[150:],
    }[kind]


@pytest.mark.parametrize("kind", ["empty", "half", "no footer", "zeros", "ones", "pages"])
def test_a_damaged_parquet_file_is_one_error_and_prints_nothing(kind, tmp_path, capfd):
    whole = as_parquet({"a": list(range(50)), "b": [f"secret{i % 7}" for i in range(50)]}, tmp_path / "t.parquet")
    (tmp_path / "t.parquet").write_bytes(_damaged((tmp_path / "t.parquet").read_bytes(), kind))
    with raised(IntegrityError, "not a complete Parquet file, or is damaged"):
        read(tmp_path / "t.parquet", "a", "b")
    assert capfd.readouterr() == ("", "")
    del whole


def test_a_decoder_that_the_system_ends_is_no_damage(tmp_path, in_children):
    as_parquet({"a": [1]}, tmp_path / "t.parquet")
    in_children("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    refused(tmp_path / "t.parquet", "the system ended the process", ResourceError)
    with raised(ResourceError, "the system ended the process"):
        read(str(tmp_path / "t.parquet"), "absent")


def test_rows_count_from_zero_in_every_message(tmp_path):
    """The same place has the same number in an array, a frame, a CSV file with a line break in a field, and Parquet."""
    values = ["1", "2\n", "x"]
    (tmp_path / "t.csv").write_text('a,b\n1,1\n"2\n",1\nx,1\n')
    as_parquet({"a": values}, tmp_path / "t.parquet")
    for source in ({"a": values}, pd.DataFrame({"a": values}), tmp_path / "t.csv", tmp_path / "t.parquet"):
        with raised(InputError, r"column 'a', row 2 \(from 0\) is not a finite"):
            fit_codebook(source, private=["a"], useful=["a"], shared=["a"], rules={"a": Edges([0.0, 5.0])})
    (tmp_path / "t.csv").write_text('a,b\n1,1\n"2\n",1\nx\n')
    refused(tmp_path / "t.csv", r"line 5, row 2 \(from 0\): 1 fields, 2 needed")


@pytest.mark.parametrize(("package", "name"), [("narwhals", "frame"), ("polars", "t.parquet")])
def test_without_the_extra(package, name, tmp_path, absent):
    source = pd.DataFrame({"a": [1]}) if name == "frame" else as_parquet({"a": [1]}, tmp_path / name)
    absent(package)
    refused(source, r"jaxpriv\[tables\]", ResourceError)


def test_a_long_file_is_read_in_portions_as_if_it_were_one(tmp_path):
    """More records than are looked at together, with line breaks inside of fields, and a fault far behind."""
    path = tmp_path / "long.csv"
    rows = [(str(n % 7), "a\nb" if n % 1000 == 0 else f"t{n % 3}") for n in range(70_000)]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["n", "t"])
        writer.writerows(rows)
    columns = read(path, "t", "n")
    assert columns["n"].values.tolist() == [one for one, _ in rows]
    assert columns["t"].values.tolist() == [other for _, other in rows]
    distinct, place = columns["t"].factors
    assert len(distinct) == 4
    assert (distinct[place] == columns["t"].values).all()
    part = columns["t"].part(np.arange(70_000) % 2 == 1)
    assert part.mapped(len, int).tolist() == [len(other) for _, other in rows[1::2]]
    with path.open("a", newline="") as file:
        file.write("1\n")
    with raised(InputError, r"line 70072, row 70000 \(from 0\): 1 fields, 2 needed"):
        read(path, "n")


# -- texts that no file can hold -------------------------------------------------------------------

HALF = "\ud800"  # one half of a character


@pytest.mark.parametrize("suffix", ["csv", "tsv", "csv.gz"])
def test_a_nul_character_in_a_file_is_refused_with_its_line(suffix, tmp_path):
    path = tmp_path / f"t.{suffix}"
    for content, line in (
        ("a,b\n1,x\n2,y\0\n", 3),
        ("a,b\0\n1,x\n", 1),
        ("a,b\n1,x\n2,\0\n", 3),
        ('a,b\n1,"x\n\0"\n', 3),
    ):
        data = content.replace(",", "\t" if "tsv" in suffix else ",").encode()
        path.write_bytes(gzip.compress(data) if suffix.endswith("gz") else data)
        for name in ("a", "b"):
            with raised(InputError, f"line {line}: a NUL character"):
                read(path, name)
    # The usual cause: a file of another encoding.
    path.write_bytes(
        gzip.compress("a\n1\n".encode("utf-16-le")) if suffix.endswith("gz") else "a\n1\n".encode("utf-16-le")
    )
    refused(path, "another encoding than utf-8")


@pytest.mark.parametrize("text", ["x\0", "\0", "x\0y", HALF, f"x{HALF}"])
@pytest.mark.parametrize("kind", ["columns", "objects", "pandas of objects", "polars", "parquet", "arrow"])
def test_a_text_that_no_file_can_hold_is_refused_with_its_row(text, kind, tmp_path):
    values = ["x", text, "y"]
    if kind in ("polars", "parquet", "arrow") and HALF in text:
        pytest.skip("such a frame cannot be made")
    refused(SOURCES[kind]({"a": values}, tmp_path), r"column 'a', row 1 \(from 0\) holds a NUL character")


@pytest.mark.parametrize("text", ["x\0", HALF])
def test_classes_and_names_of_columns_hold_no_such_text(text):
    for make in (
        lambda: Categories(["a", text]),
        lambda: Categories(["a", "b"], tokens=["", text]),
        lambda: Edges([0, 1, 2], names=["a", text]),
    ):
        with raised(InputError, r"\[1\] holds a NUL character"):
            make()
    with raised(InputError, "the name of column"):
        read({text: ["a"]}, text)
