"""`jaxpriv compare` and `jaxpriv counts` on a release that the other commands made."""

import numpy as np
import pytest

from tests.cli.conftest import answered, printed, run


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    age, town = rng.integers(0, 3, 600), rng.choice(["north", "south"], 600)
    rich = np.where(rng.random(600) < 0.1 + 0.25 * age, "high", "low")
    table = tmp_path / "people.csv"
    lines = [f"{k},{a},{t},{r}" for k, (a, t, r) in enumerate(zip(age, town, rich, strict=True))]
    table.write_text("\n".join(["id,age,town,income", *lines]) + "\n")
    columns = "--private income --useful age --useful town"
    printed("fit people.csv", columns, "--budget 0.2 --out design.zip")
    made = "--out released.csv --receipt r.json --order-out order.zip"
    printed("release people.csv --design design.zip", made, "--keep id")
    return tmp_path


def test_paired_by_order_and_by_identity(files):
    line = ["compare", files / "people.csv", files / "released.csv", "--design", files / "design.zip"]
    pairings = ["--row-order", files / "order.zip"], ["--id", "id"]
    records = [answered(*line, *pairing, "--target income") for pairing in pairings]
    assert records[0] == records[1]
    assert records[0]["paired"] is True
    assert 0 < sum(one["changed"] for one in records[0]["columns"]) < 0.4
    text = run(*line, "--id id --target income").output
    assert "changed in" in text
    assert "█" in text
    assert "income is predicted rightly" in text
    alone = run(*line).output
    assert "distributions alone" in alone


def test_without_a_design(files):
    line = ("compare", files / "people.csv", files / "people.csv", "--useful age --bins age=edges:0,1,2")
    record = answered(*line, "--same-order")
    (column,) = record["columns"]
    assert column["changed"] == 0
    assert column["labels"] == ["[0, 1)", "[1, 2]"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "--design"),
        ("--useful age --same-order --id id", "give one of"),
        ("--useful agee", "agee"),
    ],
)
def test_bad_lines(files, options, message):
    result = run("compare", files / "people.csv", files / "released.csv", options)
    assert result.exit_code == 2
    assert message in result.output


def test_counts_of_the_original(files):
    line = ["counts", files / "released.csv", "--design", files / "design.zip"]
    record = answered(*line)["columns"]
    lines = (files / "people.csv").read_text().splitlines()[1:]
    for place, name in ((1, "age"), (2, "town")):
        one = record[name]
        for label, count, error, bias in zip(*one.values(), strict=True):
            true = sum(row.split(",")[place] == label for row in lines)
            assert abs(count - true) <= bias + 5 * error + 1e-6
    assert "standard error" in run(*line).output
