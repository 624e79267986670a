"""`jaxpriv watchdog`: from a joint and from a table, targets, merges, stored classes, bad input."""

import json

import numpy as np
import pytest

from jaxpriv.statistics.tables import Quantiles, count_table
from tests.cli.conftest import JOINT, answered, mistaken, printed, refused, run
from tests.frozen.write import people as written
from tests.release.conftest import write


@pytest.fixture
def people(tmp_path):
    """A table of 600 records: income depends on age and town a little."""
    rng = np.random.default_rng(2)
    age, town = rng.integers(18, 80, 600), rng.choice(["north", "south"], 600)
    income = np.where(rng.random(600) < 0.3 + 0.3 * (age > 50) + 0.1 * (town == "north"), "high", "low")
    return write(tmp_path / "people.csv", {"age": age, "town": town, "income": income})


COLUMNS = "--private income --useful age --useful town"
TABLE = f"{COLUMNS} --bins age=quantiles:2"


@pytest.mark.parametrize("merge", ["marginal", "uniform", "single", "subsets", "randomised-response"])
def test_the_mapping_has_the_leakage_that_is_printed(problem, merge):
    record = answered("watchdog problem.npz --epsilon 0.8 --merge", merge, "--measures --out mechanism.npz")
    mechanism = np.load("mechanism.npz")["mechanism"]
    outputs = JOINT / JOINT.sum() @ mechanism
    used = outputs.sum(axis=0) > 0
    lift = outputs[:, used] / outputs[:, used].sum(axis=0) / outputs.sum(axis=1, keepdims=True)
    assert record["leakage"] == pytest.approx(np.abs(np.log(lift)).max(), abs=1e-11)
    assert record["units"] == "nats"
    assert record["merge"] == merge
    for name, key in (("lift", "leakage"), ("mutual-information", "information")):
        (row,) = (row for row in record["measures"] if row["name"] == name)
        assert row["value"] == pytest.approx(record[key], abs=1e-11)
    assert len(record["scores"]) == len(record["released"]) == 4
    assert (record["bounds"] is None) == (merge in ("subsets", "randomised-response"))


def test_empty_cells_have_the_class_that_was_declared(tmp_path):
    path, book = tmp_path / "gaps.csv", tmp_path / "book.json"
    path.write_text("s,town\n" + "".join(f"{i % 2},{('n', 's', '')[i % 3]}\n" for i in range(60)))
    line = "watchdog gaps.csv --private s --useful town --epsilon 1"
    mistaken(line, "'town'", "missing")
    assert len(answered(line, "--codebook-out book.json --missing", ["town=nobody knows"])["released"]) == 3
    assert json.loads(book.read_text())["columns"]["town"]["missing"] == "nobody knows"
    for text in ("town", "town=", "=label"):
        mistaken(f"{line} --missing {text}", "is not COL=LABEL")
    mistaken(f"{line} --missing town=a --missing town=b", "twice")
    mistaken(f"{line} --missing age=a", "--missing is about column 'age'")
    mistaken(f"{line} --missing town=n", "column 'town'", "repeats an earlier label")
    for label in (" ", "a\nb"):
        refused(run(line, "--missing", [f"town={label}"]), 2, "--missing, column 'town'", "not blank")


def test_infinite_bounds_are_text_with_their_reason(problem):
    record = answered("watchdog problem.npz --epsilon inf")
    assert record["epsilon"] == "inf"
    assert record["bounds"]["gamma"] == "inf"
    assert "complement" in record["bounds"]["explanation"]
    assert record["utility"] == record["entropy"]
    text = printed("watchdog problem.npz --epsilon inf")
    assert "gamma: every symbol with mass is released" in text


def test_targets(problem):
    record = answered("watchdog problem.npz --target-leakage 0.7")
    assert record["leakage"] <= 0.7
    record = answered("watchdog problem.npz --target-utility 0.5")
    assert record["utility"] >= 0.5


def test_bits_are_for_people(problem):
    nats = answered("watchdog problem.npz --epsilon 0.8")
    text = printed("watchdog problem.npz --epsilon 0.8 --units bits")
    line = next(line for line in text.splitlines() if line.startswith("lift leakage, exact"))
    assert line.endswith("bits")
    assert nats["leakage"] / np.log(2) <= float(line.split()[-2]) <= nats["leakage"] / np.log(2) * (1 + 1e-5)


def test_a_table_is_the_joint_of_its_records(people, save, tmp_path):
    book = tmp_path / "book.json"
    line = "--target-leakage 0.2 --out mechanism.npz --codebook-out book.json"
    record = answered(f"watchdog people.csv {TABLE}", line)
    assert record["rows"] == 600
    assert not record["sparse"]
    table = count_table(people, private="income", useful=["age", "town"], rules={"age": Quantiles(2)})
    assert np.array_equal(np.load("mechanism.npz")["attributes"], table.dataset.useful_attributes)
    assert table.codebook.to_json() == book.read_text()
    # The same from the joint, and from the stored classes.
    save(joint=table.dataset.joint)
    again = answered("watchdog problem.npz --target-leakage 0.2")
    stored = answered("watchdog people.csv --codebook book.json --target-leakage 0.2")
    for name in ("epsilon", "leakage", "utility", "released", "scores"):
        assert record[name] == again[name] == stored[name]
    # Neither values nor counts of people are in what can be given away.
    content = json.dumps(json.loads(book.read_text())["columns"]["age"])
    assert str(int(table.dataset.counts.max())) not in content
    assert set(np.load("mechanism.npz").files) == {"mechanism", "attributes", "classes"}
    text = printed(f"watchdog people.csv {TABLE} --epsilon 0.3")
    assert "600 records" in text


def test_bad_options(problem, people, tmp_path):
    mistaken("watchdog problem.npz", "exactly one of --epsilon")
    mistaken("watchdog problem.npz --epsilon 0.5 --target-leakage 1", "exactly one of --epsilon")
    mistaken("watchdog problem.npz --epsilon nan", "--epsilon must be")
    mistaken("watchdog problem.npz --target-leakage -1", "--target-leakage must be")
    mistaken("watchdog problem.npz --epsilon 0.5 --merge secretly", "--merge")
    mistaken("watchdog problem.npz --epsilon 0.5 --out problem.npz", "--out is the same file")
    mistaken(f"watchdog absent.csv {TABLE} --epsilon 0.5", "does not exist")
    refused(run("watchdog people.csv --codebook problem.npz --epsilon 0.5"), 5, "not a codebook")
    mistaken(f"watchdog people.csv {TABLE} --useful income --epsilon 0.5", "'income' is private and useful", "shared")
    mistaken("watchdog people.csv --private income --useful Town --epsilon 0.5", "no column 'Town'", "'town'")
    few = tmp_path / "few.csv"
    few.write_text("income,town\nlow,a\nhigh,b\nlow,c\n")
    mistaken("watchdog few.csv --private income --useful town --epsilon 0.5", "3 rows make 3", "sparse")
    assert "too few" in printed("watchdog few.csv --private income --useful town --sparse --epsilon 0.5")


@pytest.mark.parametrize(
    "rule", ["age", "=quantiles:2", "age=quantiles", "age=quantiles:x", "age=edges:", "age=trees:3"]
)
def test_bad_rules(people, rule):
    refused(run(f"watchdog people.csv {COLUMNS} --epsilon 1 --bins", rule), 2, "--bins", "COL=quantiles:N")


def test_rules_that_cannot_be(people):
    line = f"watchdog people.csv {COLUMNS} --epsilon 1 --bins"
    mistaken(f"{line} age=edges:5,1", "--bins", "rising")
    mistaken(f"{line} age=edges:20,50", "column 'age', row", "outside of the edges")
    mistaken(f"{line} age=quantiles:2 --bins age=categories", "twice")
    mistaken(f"{line} home=categories", "column 'home'")
    printed(line, "age=edges:0,30,60,inf")


def test_nothing_is_written_where_something_is_wrong(people, tmp_path):
    out, book = tmp_path / "mechanism.npz", tmp_path / "book.json"
    line = "--target-utility 50 --out mechanism.npz --codebook-out book.json"
    refused(run(f"watchdog people.csv {TABLE}", line), 3, "H(X)")
    assert not out.exists()
    assert not book.exists()


def test_what_is_withheld_has_a_reason(tmp_path):
    """Eight private classes, one with a single record: without a word everything would be hidden."""
    path = tmp_path / "people.csv"
    rows = [f"{i % 7},{i % 3}" for i in range(420)]
    path.write_text("\n".join(["s,town", *rows, "7,0"]))
    line = "watchdog people.csv --private s --useful town --epsilon 0.5"
    (sentence,) = (one for one in printed(line).splitlines() if one.startswith("withheld"))
    assert "3 symbols, 100.00% of the mass, because of private symbol 7 (from 0), which has 1 record; 2 of" in sentence
    assert "Without that private symbol 100.00% of the mass would be released" in sentence
    (cause,) = answered(line)["withheld"]
    assert (cause["private"], cause["excluded"]) == (7, 2)


def test_one_symbol_is_one(tmp_path):
    (tmp_path / "people.csv").write_text(written(600))
    assert "withheld: 1 symbol, " in printed(f"watchdog people.csv {COLUMNS} --target-leakage 0.5")
