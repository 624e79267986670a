"""`jaxpriv compare` and `jaxpriv counts` on a release that the other commands made."""

import re

import numpy as np
import pytest

from tests.cli.conftest import answered, mistaken, printed
from tests.release.conftest import write


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    age, town = rng.integers(0, 3, 600), rng.choice(["north", "south"], 600)
    rich = np.where(rng.random(600) < 0.1 + 0.25 * age, "high", "low")
    write(tmp_path / "people.csv", {"id": range(600), "age": age, "town": town, "income": rich})
    printed("fit people.csv --private income --useful age --useful town --budget 0.2 --out design.zip")
    made = "--out released.csv --receipt r.json --order-out order.zip"
    printed("release people.csv --design design.zip --keep id", made)
    return tmp_path


def test_paired_by_order_and_by_identity(files):
    line = "compare people.csv released.csv --design design.zip"
    records = [answered(line, pairing, "--target income") for pairing in ("--row-order order.zip", "--id id")]
    assert records[0] == records[1]
    assert records[0]["paired"] is True
    assert 0 < sum(one["changed"] for one in records[0]["columns"]) < 0.4
    text = printed(line, "--id id --target income")
    assert "changed in" in text
    assert "█" in text
    assert "income is predicted rightly" in text
    assert "distributions alone" in printed(line)


def test_without_a_design(files):
    line = "compare people.csv people.csv --useful age --bins age=edges:0,1,2"
    (column,) = answered(line, "--same-order")["columns"]
    assert column["changed"] == 0
    assert column["labels"] == ["[0, 1)", "[1, 2]"]


def test_two_designs(files):
    columns = "--private income --useful age --useful town"
    for name, budget in (("one", 0.05), ("other", 0.3)):
        printed(f"fit people.csv {columns} --budget {budget} --out {name}.zip --private-out {name}-audit.zip")
    line = "compare one.zip other.zip --private one-audit.zip --private other-audit.zip"
    record, text = answered(line), printed(line)
    assert [design["asked"]["target"] for design in record["designs"].values()] == [0.05, 0.3]
    right = [100 * float(design["correct_guess"]["upper"]) for design in record["designs"].values()]
    (shown,) = re.findall(r"best guess right at most +([\d.]+) % +([\d.]+) %", text)
    assert all(0 <= float(rounded) - exact < 0.01 for rounded, exact in zip(shown, right, strict=True))
    assert "other.zip is safer than one.zip for every average measure" in " ".join(text.split())
    mistaken("compare one.zip other.zip --private one-audit.zip", "--private: give the file of each design")
    mistaken(f"{line} --target income", "--target is about two tables")
    mistaken("compare people.csv released.csv --useful age --private one-audit.zip", "--private is about designs")
    mistaken("compare people.csv released.csv released.csv --useful age", "give one RELEASED table")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "--design"),
        ("--useful age --same-order --id id", "give one of"),
        ("--useful agee", "agee"),
    ],
)
def test_bad_lines(files, options, message):
    mistaken(f"compare people.csv released.csv {options}", message)


@pytest.mark.usefixtures("same_draws")
def test_counts_of_the_original(files):
    line = "counts released.csv --design design.zip"
    assert "warning" not in printed(line)
    # A table that was not released: the design changes half of these records.
    write(files / "another.csv", {"age": [2] * 600, "town": ["north"] * 600})
    assert "warning: a class has far fewer than no records" in printed("counts another.csv --design design.zip")
    record = answered(line)["columns"]
    lines = (files / "people.csv").read_text().splitlines()[1:]
    for place, name in ((1, "age"), (2, "town")):
        one = record[name]
        for label, count, error, bias, low, high in zip(*one.values(), strict=True):
            true = sum(row.split(",")[place] == label for row in lines)
            assert abs(count - true) <= bias + 5 * error + 1e-6
            assert max(0, count - bias - 2.01 * error - 1) <= low <= high <= min(600, count + bias + 2.01 * error + 1)
    assert re.search(r"age +records +from +to +standard error +largest bias", printed(line))
