"""Classes: how values become codes, that a codebook is stored exactly, and what is refused."""

import json
import math
import os

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_array_equal

import jaxpriv as jp
from jaxpriv import datasets
from jaxpriv.errors import InputError, IntegrityError
from jaxpriv.statistics.tables import (
    Categories,
    Codebook,
    Edges,
    Quantiles,
    column_distortion,
    count_table,
    fit_codebook,
)
from tests.cases import raised, refused
from tests.statistics.conftest import column

INF = math.inf


# -- rules -----------------------------------------------------------------------------------------


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=60), st.integers(2, 9))
def test_quantile_classes_are_the_quantiles(values, count):
    source, smallest = column(np.array(values)), min(values)
    if values.count(smallest) * count >= (count - 1) * len(values):  # the last quantile is the smallest value
        with refused("smallest value"):
            Quantiles(count).fit(source)
        return
    rule = Quantiles(count).fit(source)
    codes = rule.encode(source)
    assert len(rule.labels) <= count
    assert set(codes.tolist()) == set(range(len(rule.labels)))  # no class is empty
    order = np.argsort(values, kind="stable")
    assert (np.diff(codes[order]) >= 0).all()
    inner = rule.edges[1:-1]
    for edge in inner:
        above = min(value for value in values if value >= edge)  # the quantile that the edge stands for
        share = np.mean(np.array(values) <= above)
        below = np.mean(np.array(values) < above)
        assert any(below < k / count + 1e-12 and k / count - 1e-12 <= share for k in range(1, count))
        assert edge not in values or edge - 1 in values  # nobody's value, where there is another number


@given(st.lists(st.floats(-1e6, 1e6), min_size=8, max_size=60, unique=True), st.integers(2, 5))
def test_edges_of_quantiles_are_nobodys_value(values, count):
    numbers = np.array(values) + 1e-7
    rule = Quantiles(count).fit(column(numbers))
    exact = np.unique(np.quantile(numbers, np.arange(1, count) / count, method="inverted_cdf"))
    exact = exact[exact > numbers.min()]
    # The same rows in the same classes.
    assert_array_equal(rule.encode(column(numbers)), np.searchsorted(exact, numbers, side="right"))
    spread = np.diff(np.sort(numbers))
    if spread.min() > 1e-6:
        assert not set(rule.edges) & set(numbers.tolist())


def test_edges_have_few_digits():
    numbers = np.array([48190.2, 48213.77, 47001.13, 52899.9, 61234.5, 39111.0])
    assert Quantiles(2).fit(column(numbers)).edges[1] in (48000.0, 48200.0)
    assert Quantiles(2).fit(column(np.array([1, 5, 1000, 1001]))).edges[1] == 2.0


def test_quantiles_without_ties_are_equally_many():
    rule = Quantiles(4).fit(column(np.random.default_rng(0).permutation(400)))
    counts = np.bincount(rule.encode(column(np.arange(400))))
    assert counts.sum() == 400
    assert abs(counts - 100).max() <= 1
    # Nobody's extreme value is stored.
    assert rule.edges[0] == -INF
    assert rule.edges[-1] == INF


def test_edges_that_differ_in_the_last_digits_have_labels_of_their_own():
    values = 1.7e12 + np.arange(8) / 4
    rule = Quantiles(4).fit(column(values))
    assert len(set(rule.labels)) == 4
    assert np.bincount(rule.encode(column(values))).tolist() == [1, 2, 2, 3]
    assert Edges((0, 0.1, 1)).labels == ("[0, 0.1)", "[0.1, 1]")


def test_edges_are_closed_below_and_at_the_very_end():
    rule = Edges((0, 1, 2.5))
    assert rule.labels == ("[0, 1)", "[1, 2.5]")
    assert rule.encode(column([0.0, 0.999, 1.0, 2.5])).tolist() == [0, 0, 1, 1]
    assert Edges((-INF, 3, INF)).labels == ("<3", ">=3")
    assert Edges((-INF, INF)).labels == ("any",)
    for value in (-1e-9, 2.5000001):
        with refused(r"row 1 \(from 0\) is outside of the edges"):
            rule.encode(column([0.5, value]))
    assert Edges((0, 1), other="else").encode(column([0.5, -1.0, 1.0, 7.0])).tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("text", ["", "1e999", "nan", "inf", "1_0", "0x10", "secret", "٣", "1,5", "--1"])
def test_text_that_is_no_decimal_number(text):
    rule = Edges((0, 100), tokens=())
    assert rule.encode(column([" 1.5 ", "2e1", ".5", "+3."])).tolist() == [0] * 4
    with refused(r"column 'a', row 1 \(from 0\) is not a finite decimal number") as caught:
        rule.encode(column(["1", text]))
    assert "secret" not in str(caught.value)


def test_categories_keep_texts_apart_and_order_numbers_by_size():
    assert Categories().fit(column(["10", "9", "1"])).labels == ("1", "9", "10")
    assert Categories().fit(column(["1.0", "1", "01", "x"])).labels == ("01", "1", "1.0", "x")
    with pytest.warns(UserWarning, match="letters are composed"):  # they look alike and stay apart
        assert len(Categories().fit(column(["ä", "a\u0308"])).labels) == 2
    with pytest.warns(UserWarning, match="capital letters"):
        assert len(Categories().fit(column(["a", "A"])).labels) == 2
    rule = Categories(("b", "a"))
    assert rule.encode(column(["a", "b", "a"])).tolist() == [1, 0, 1]
    with refused(r"column 'a', row 1 \(from 0\) is not among the categories \(such rows: 2\)") as caught:
        rule.encode(column(["a", "secret", "secret"]))
    assert "secret" not in str(caught.value)
    open_rule = Categories(("b", "a"), other="else", missing="none", tokens=("?", ""))
    assert open_rule.labels == ("b", "a", "else", "none")
    assert open_rule.encode(column(["a", "zz", "?", ""])).tolist() == [1, 2, 3, 3]


def test_whole_numbers_in_floats_are_whole_numbers():
    assert Categories().fit(column([2.0, 10.0, 2.0])).labels == ("2", "10")
    with refused(r"row 1 \(from 0\) is not a whole number"):
        Categories().fit(column([2.0, 2.5]))


BAD_RULES = {
    "one edge": lambda: Edges((1,)),
    "falling": lambda: Edges((1, 0)),
    "equal": lambda: Edges((1, 1)),
    "nan": lambda: Edges((0, math.nan, 1)),
    "infinite inside": lambda: Edges((0, INF, INF)),
    "text": lambda: Edges(("0", "1")),
    "names": lambda: Edges((0, 1, 2), names=("x",)),
    "repeated names": lambda: Edges((0, 1, 2), names=("x", "x")),
    "repeated categories": lambda: Categories(("x", "x")),
    "other is a category": lambda: Categories(("x",), other="x"),
    "one text": lambda: Categories(values="xy"),
    "no category": lambda: Categories(()),
    "numbers as categories": lambda: Categories((1, 2)),
    "one quantile": lambda: Quantiles(1),
    "logical": lambda: Quantiles(True),
    "logical edge": lambda: Edges((0, True, 2)),
    "edge beyond all numbers": lambda: Edges((0, 10**400)),
    "other is no text": lambda: Categories(other=3),
    "missing is no text": lambda: Quantiles(2, missing=3),
}


@pytest.mark.parametrize("case", BAD_RULES)
def test_bad_rules(case):
    with pytest.raises(InputError):
        BAD_RULES[case]()


# -- codebooks -------------------------------------------------------------------------------------

TABLE = {
    "income": ["low", "high"] * 40,
    "age": [20, 30, 40, 50] * 20,
    "town": ["a", "b", "b", "a", "c"] * 16,
    "weight": np.linspace(50, 90, 80),
}
RULES = {"weight": Quantiles(2, missing="unknown"), "age": Edges((18, 35, INF), names=("young", "old"), other="minor")}


@pytest.fixture(scope="module")
def table():
    return count_table(
        TABLE, private=["income", "age"], useful=["age", "town"], shared="age", rules={"age": RULES["age"]}
    )


def test_stored_codebooks_are_the_same(tmp_path):
    book = fit_codebook(TABLE, private="income", useful=["age", "town", "weight"], rules=RULES)
    book.save(tmp_path / "book.json")
    loaded = Codebook.load(tmp_path / "book.json")
    assert loaded == book
    assert loaded.to_json() == book.to_json()
    again, first = loaded.encode(TABLE), book.encode(TABLE)
    assert np.array_equal(again.useful, first.useful)
    # No count and no record: only labels and edges.
    record = json.loads(book.to_json())
    assert set(record) == {"format", "version", "private", "useful", "columns"}
    assert set(record["columns"]["age"]) == {"kind", "edges", "names", "other", "missing", "tokens"}
    assert record["columns"]["age"]["edges"] == [18.0, 35.0, "inf"]


def test_every_damaged_codebook_is_refused(tmp_path):
    book = fit_codebook(TABLE, private="income", useful=["age", "town"], rules={"age": RULES["age"]})
    text = book.to_json()
    columns = json.loads(text)["columns"]
    ages = columns["age"]

    def changed(path, *value):
        """Without what is at the path, or with another value there."""
        copy = place = json.loads(text)
        *path, last = path.split(".")
        for key in path:
            place = place[key]
        place.pop(last, None)
        place.update((last, one) for one in value)
        return json.dumps(copy)

    others = {
        "format": ["other"],
        "version": [2],
        "extra": [1],
        "private": [["income", "income"], [], "income"],
        "columns.extra": [ages],
        "columns.age": [3],
        "columns.age.extra": [1],
        "columns.age.kind": ["pickle", ["edges"]],
        "columns.age.edges": [[2, 1], [1, True], ["nan", 1], [1, 10**400], 7],
        "columns.age.other": [7],
        "columns.age.tokens": ["x"],
        "columns.town.values": [[], ["a", "a"], [1]],
    }
    damaged = [
        *(changed(path) for path in json.loads(text)),
        *(changed(f"columns.{name}") for name in columns),
        *(changed(f"columns.age.{field}") for field in ages),
        *(changed(path, value) for path, values in others.items() for value in values),
        text.replace('"version": 1,', '"version": 1, "version": 1,'),
        text.replace("18.0", "NaN"),
        text.replace("18.0", "Infinity"),
        text[:-20],
        "",
        "[" * 100_000,
        "[]",
    ]
    for content in damaged:
        (tmp_path / "book.json").write_text(content)
        with raised(IntegrityError, "is not a codebook"):
            Codebook.load(tmp_path / "book.json")
    (tmp_path / "book.json").write_bytes(b"\xff\xfe")
    with raised(IntegrityError, "UTF-8"):
        Codebook.load(tmp_path / "book.json")
    with refused("does not exist"):
        Codebook.load(tmp_path / "absent.json")
    os.mkfifo(tmp_path / "pipe.json")
    with refused("not a regular file"):  # to open it would wait for ever
        Codebook.load(tmp_path / "pipe.json")


BAD_TABLES = {
    "released": ({"useful": ["income", "age"]}, "'income' is private and useful.*shared"),
    "not shared": ({"shared": ["age"]}, "shared column 'age' is not among both"),
    "twice": ({"useful": ["age", "age"]}, "useful names column 'age' twice"),
    "none": ({"private": []}, "private must be one or more"),
    "no names": ({"useful": [3]}, "useful must be one or more"),
    "rule": ({"rules": {"x": Quantiles(2)}}, "rules has column 'x'"),
    "rules": ({"rules": ["age"]}, "rules must be a mapping"),
    "no rule": ({"rules": {"age": "quantiles"}}, r"rules\['age'\] must be"),
    "real": ({"useful": "weight"}, "'weight' holds real numbers: give it a rule"),
    "absent": ({"useful": "gone"}, "no column 'gone'"),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_bad_choices_of_columns(case):
    options, message = BAD_TABLES[case]
    with refused(message):
        fit_codebook(TABLE, **{"private": "income", "useful": "age", **options})


def test_constant_columns_and_single_classes():
    source = {**TABLE, "one": ["secret"] * 80}
    with refused("column 'one': it is constant") as caught:
        fit_codebook(source, private="income", useful=["age", "one"])
    assert "secret" not in str(caught.value)
    with refused("column 'one': all rows are of one class"):
        fit_codebook(source, private="one", useful="age")
    for rules in ({"age": Edges((0, 100))}, {"age": Categories(least=79)}):
        with refused("column 'age': its rule has all rows in one class; give it another rule"):
            fit_codebook(TABLE, private="income", useful="age", rules=rules)


def test_too_few_rows_for_the_symbols():
    with refused("80 rows make 24 useful symbols"):
        count_table(TABLE, private="income", useful=["age", "town", "weight"], rules=RULES | {"age": Categories()})
    rules = RULES | {"age": Categories()}
    found = count_table(TABLE, private="income", useful=["age", "town", "weight"], rules=rules, sparse=True)
    assert found.sparse
    assert not count_table(TABLE, private="income", useful="town", sparse=True).sparse


def test_a_codebook_or_columns():
    book = fit_codebook(TABLE, private="income", useful="town")
    assert np.array_equal(
        count_table(TABLE, codebook=book).dataset.counts,
        count_table(TABLE, private="income", useful="town").dataset.counts,
    )
    with refused("either a codebook or columns"):
        count_table(TABLE, codebook=book, useful="town")
    with refused(r"row 1 \(from 0\) is not among the categories"):
        count_table({"income": ["low", "low"], "town": ["a", "z"]}, codebook=book)


# -- counts ----------------------------------------------------------------------------------------


def test_counts_and_symbols_belong_together(table):
    data = table.dataset
    recounted = np.zeros_like(data.counts)
    np.add.at(recounted, (table.private_symbols, table.useful_symbols), 1)
    assert np.array_equal(recounted, data.counts)
    assert data.counts.sum() == 80
    assert np.array_equal(data.joint, data.counts / 80)
    assert (data.counts.sum(axis=0) > 0).all()
    for row in range(80):
        young = "young" if TABLE["age"][row] < 35 else "old"
        assert data.private_labels[table.private_symbols[row]] == (TABLE["income"][row], young)
        assert data.useful_labels[table.useful_symbols[row]] == (young, TABLE["town"][row])


def test_new_rows_have_symbols_without_their_private_columns(table):
    new = {"age": [19, 36], "town": ["c", "a"]}
    symbols = table.symbols_of(new)
    assert [table.dataset.useful_labels[x] for x in symbols] == [("young", "c"), ("old", "a")]
    assert np.array_equal(table.symbols_of(TABLE), table.useful_symbols)
    with refused(r"row 1 \(from 0\) combines the classes of 'age', 'town'"):
        table.symbols_of({"age": [19, 3], "town": ["c", "a"]})


def test_attributes_make_a_distortion(table):
    cost = jp.distortion.dense(jp.distortion.changed_attributes(table.dataset.useful_attributes))
    labels = table.dataset.useful_labels
    wanted = [[sum(a != b for a, b in zip(x, y, strict=True)) for y in labels] for x in labels]
    assert np.array_equal(cost, wanted)


def test_rows_in_another_order_and_rows_twice(table):
    order = np.random.default_rng(3).permutation(80)
    shuffled = {name: np.asarray(values)[order] for name, values in TABLE.items()}
    again = count_table(shuffled, codebook=table.codebook)
    assert np.array_equal(again.dataset.counts, table.dataset.counts)
    doubled = {name: np.concatenate([values, values]) for name, values in TABLE.items()}
    assert np.array_equal(count_table(doubled, codebook=table.codebook).dataset.joint, table.dataset.joint)


def test_the_census_through_tables_is_the_census(shared):
    """From the raw columns and stated classes to the embedded joint, count for count."""
    groups = datasets._EDUCATION
    raw = datasets.load_adult(shared / "data")
    columns = {
        "age": raw["age"],
        "income": raw["income"],
        "gender": raw["sex"],
        "education": np.array([groups[value] for value in raw["education"].tolist()]),
    }
    census = datasets.census()
    found = count_table(
        columns,
        private=["age", "income"],
        useful=["age", "gender", "education"],
        shared=["age"],
        rules={
            "age": Edges((17, 20, 30, 40, 50, 60, 70, INF), names=census.useful_values[0]),
            "education": Categories(census.useful_values[2]),
        },
    ).dataset
    assert np.array_equal(found.counts, census.counts)
    assert found.useful_labels == census.useful_labels
    assert found.private_labels == census.private_labels


# -- whole numbers that float64 would round ----------------------------------------------------------


def prices(kind, rule):
    """The costs between the classes of a column with this rule."""
    book = Codebook(("s",), ("a",), {"s": Categories(("x", "y")), "a": rule})
    return column_distortion(book, np.arange(len(rule.labels))[:, None], kinds={"a": kind})


LARGE = {
    "beside 2^53": [2**53 + k for k in (0, 1, 2, 3)],
    "nanoseconds": [1_700_000_000_000_000_000 + 60 * k for k in range(4)],
    "31 digits": [10**30 + 7 * k for k in range(4)],
    "negative": [-(2**60) - k for k in (3, 2, 1, 0)],
}


@pytest.mark.parametrize("case", LARGE)
@pytest.mark.parametrize("as_text", [False, True])
def test_large_whole_numbers_are_exact(case, as_text):
    """Distances of classes and of intervals, edges and quantiles: a float would make two neighbours one."""
    numbers = LARGE[case]
    if case == "31 digits" and not as_text:
        with refused("beyond 64 bits"):
            column(numbers)
        return
    source = column([str(number) for number in numbers] if as_text else np.array(numbers))
    step = numbers[1] - numbers[0]
    rule = Categories().fit(source)
    apart = np.array([[abs(a - b) for b in numbers] for a in numbers], dtype=float)
    assert set(rule.labels) == set(map(str, numbers))
    order = [rule.labels.index(str(number)) for number in numbers]
    for kind, wanted in (("absolute", apart), ("squared", apart**2)):
        found = prices(kind, rule)[np.ix_(order, order)]
        assert_array_equal(found, wanted)
    edges = Edges(numbers)
    assert edges.encode(source).tolist() == [0, 1, 2, 2]
    assert_array_equal(prices("absolute", edges), apart[:3, :3])
    with refused(r"row 0 \(from 0\) is outside of the edges"):
        Edges(numbers[1:]).encode(source)
    fitted = Quantiles(2).fit(source)
    assert fitted.encode(source).tolist() == [0, 1, 1, 1]
    assert numbers[0] < fitted.edges[1] <= numbers[0] + step
    book = Codebook(("s",), ("a", "b"), {"s": Categories(("x", "y")), "a": edges, "b": fitted})
    assert Codebook.from_json(book.to_json()) == book


def test_distances_that_no_float_is_are_refused_with_the_reason():
    for values, kind, words in (
        (["1e400", "2"], "absolute", "beyond the floating-point numbers"),
        (["1e-400", "2"], "absolute", "beyond the floating-point numbers"),
        (["1e200", "3"], "squared", "nearer to or farther from"),
        (["1e-200", "3e-200"], "squared", "nearer to or farther from"),
        (["1_000", "2"], "absolute", "no number"),
    ):
        with refused(words):
            prices(kind, Categories().fit(column(values)))
    same = prices("absolute", Categories(("01", "1", "1.0", "0e9999999999")))
    assert same.tolist() == [[0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 1], [1, 1, 1, 0]]


def test_floats_that_may_be_rounded_whole_numbers_are_no_categories():
    for value in (2.0**53, 1e30):
        with refused(r"row 1 \(from 0\) is beyond 2\^53 and a float"):
            Categories().fit(column([1.0, value]))
    with refused("floats would round"):
        column([2**60 + 1, 2.5])
    with refused("beyond 64 bits"):
        column([2**63, -1])  # NumPy makes floats of these
    assert column([2**62 + 1, None]).values.tolist() == [2**62 + 1, 0]


def test_stored_edges_of_other_texts_are_refused():
    book = Codebook(("s",), ("a",), {"s": Categories(("x", "y")), "a": Edges((0, 2**53 + 1))})
    text = book.to_json()
    assert '"9007199254740993"' in text  # no JSON number: older versions would round it
    for bad in ('"1.5"', '"nan"', f'"{"9" * 310}"', '"0x1"'):
        with raised(IntegrityError, r"edges|beyond"):
            Codebook.from_json(text.replace('"9007199254740993"', bad))


# -- labels of the rest ------------------------------------------------------------------------------


def test_the_rest_has_a_label_that_is_no_class():
    values = ["other"] * 9 + ["a"] * 9 + ["b", "c"]
    rule = Categories(least=5).fit(column(values))
    assert rule.labels == ("a", "other", "other_2")
    assert np.bincount(rule.encode(column(values))).tolist() == [9, 9, 2]
    assert Categories(least=5, missing="other").fit(column(["a"] * 9 + ["b", ""])).labels == ("a", "other_2", "other")
    # A rare value of that name is one of the rest.
    rare = Categories(least=5).fit(column(["a"] * 9 + ["b"] * 9 + ["other"]))
    assert rare.labels == ("a", "b", "other")
    # A name that was chosen is not changed.
    for bad in ({"other": "a"}, {"missing": "other"}):
        with refused(r"column 'a': .* repeats an earlier label; other=LABEL"):
            Categories(least=5, **bad).fit(column(values))
    with refused("different labels"):
        Categories(other="x", missing="x")


@pytest.mark.parametrize("values", [[None, None], ["", ""], pl.Series([None, None], dtype=pl.Float64)])
def test_a_column_without_a_value_is_no_column(values):
    with refused("column 'x' has no value: every cell is missing; leave it out"):
        fit_codebook(pl.DataFrame({"s": ["0", "1"], "x": values}), private="s", useful="x")


# -- first characters --------------------------------------------------------------------------------


def test_first_characters_are_the_classes():
    days = column(["2026-01-31", "2026-01-01T10:00", "", "2025-12-31", "2026"])
    rule = Categories(first=7, missing="unknown").fit(days)
    assert rule.labels == ("2026", "2025-12", "2026-01", "unknown")
    assert rule.encode(days).tolist() == [2, 2, 3, 1, 0]
    assert Categories(first=4, least=2, missing="unknown").fit(days).labels == ("2026", "other", "unknown")
    whole = Categories(first=2).fit(column([2101, 2102, 3333]))
    assert whole.encode(column([3399, 2100])).tolist() == [1, 0]
    with refused("numbers of several lengths"):  # a code 02139 that was read as a number
        whole.encode(column([2139, 12139]))
    for values in ([-12, 123], ["-12", "123"]):
        with refused("negative numbers, whose sign would count"):
            Categories(first=1).fit(column(values))
    assert Categories(first=1).fit(column(["-12", "a"])).labels == ("-", "a")
    for bad in ({"first": 0}, {"first": True}, {"first": 1.5}, {"values": ("abc",), "first": 2}):
        with refused("first"):
            Categories(**bad)


def test_a_codebook_of_first_characters_is_read_back_and_others_are_written_as_they_were():
    rows = {"s": ["0", "1", "1"] * 7, "x": ["2026-01-31", "2026-02-01", "2025-12-31"] * 7}
    book = fit_codebook(rows, private="s", useful="x", rules={"x": Categories(first=4)})
    stored = json.loads(book.to_json())
    assert stored["columns"]["x"]["first"] == 4
    assert "first" not in stored["columns"]["s"]
    assert Codebook.from_json(book.to_json()).rules == book.rules
    for first in (0, 3, True, None, "4"):
        stored["columns"]["x"]["first"] = first
        with raised(IntegrityError, "column|codebook"):
            Codebook.from_json(json.dumps(stored))


def test_a_published_codebook_does_not_say_that_a_private_value_is_called_other():
    rows = {"s": ["other"] * 10 + ["a"] * 10 + ["b"], "x": ["0", "1", "1"] * 7}
    book = fit_codebook(rows, private="s", useful="x", rules={"s": Categories(least=5)})
    assert book.rules["s"].other == "other_2"
    public = book.without_private_values()
    assert "other_2" not in public.to_json()
    assert len(set(public.encode(rows).private.ravel().tolist())) == 3
    assert json.loads(public.to_json())["columns"]["s"]["other"] == "other"


# -- too few rows ------------------------------------------------------------------------------------


def test_too_few_rows_for_the_private_symbols():
    rows = {"s": [f"{k}.25" for k in range(40)], "job": [f"j{k}" for k in range(40)], "x": ["0", "1"] * 20}
    for name, repair in (("s", "quantiles:4"), ("job", "categories:10")):
        with refused(rf"40 private symbols, fewer than 5 .* --bins {name}={repair}.*leave it out if it id"):
            count_table(rows, private=name, useful="x")
        assert count_table(rows, private=name, useful="x", sparse=True).sparse
    assert not count_table(rows, private="s", useful="x", rules={"s": Quantiles(4)}).sparse
