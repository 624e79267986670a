"""A release beside the certified optimum: closed forms, the three kinds of release of the examples, bad lines."""

import numpy as np
import pytest

from jaxpriv.errors import InputError
from jaxpriv.release import count_releases
from jaxpriv.statistics.audit import excess
from tests.cases import raised
from tests.cli.conftest import answered, mistaken, printed, refused, run
from tests.funnels.cases import h
from tests.release.conftest import order_file, write


def triples(joint, mapping):
    return np.rint(np.einsum("sx,xy->sxy", joint, mapping) * 4000).astype(np.int64)


def test_randomised_response_of_a_binary_attribute():
    """S = X uniform and Hamming distortion: a symmetric channel is optimal; a skewed one has an excess."""
    flips = np.array([[0.75, 0.25], [0.25, 0.75]])
    found = excess(triples(0.5 * np.eye(2), flips), distortion=1 - np.eye(2))
    assert found.leakage == pytest.approx(np.log(2) - h(0.25))
    assert found.distortion == 0.25
    assert (found.at, found.status, found.direct) == ("distortion", "optimal", 0)
    assert abs(found.least) < 2e-6
    assert -1e-9 < found.most < 2e-6
    skewed = np.array([[1.0, 0.0], [0.5, 0.5]])
    worse = excess(triples(0.5 * np.eye(2), skewed), distortion=1 - np.eye(2))
    assert worse.distortion == 0.25
    assert worse.least == pytest.approx(worse.leakage - found.leakage, abs=2e-6)
    assert worse.least > 0.08


def test_at_the_same_disclosure():
    """X = (S, B): to release S tells as much as to release B, which leaks nothing."""
    joint = np.array([[0.25, 0.25, 0, 0], [0, 0, 0.25, 0.25]])
    private = np.array([[1, 0], [1, 0], [0, 1], [0, 1]])
    found = excess(triples(joint, private))
    assert (found.at, found.distortion) == ("disclosure", None)
    assert found.leakage == pytest.approx(np.log(2))
    assert found.disclosure == pytest.approx(np.log(2))
    assert found.most == pytest.approx(np.log(2), abs=1e-5)
    assert found.least == pytest.approx(np.log(2), abs=1e-5)


def test_what_used_the_private_column_is_said():
    counts = np.zeros((2, 2, 2), int)
    counts[0, :, 0] = counts[1, :, 1] = 100  # Y = S, whatever X is
    assert excess(counts).direct == pytest.approx(np.log(2))


def test_bad_arrays():
    counts = triples(0.5 * np.eye(2), np.eye(2))
    for options, words in (
        ({"at": "distortion"}, "needs a distortion"),
        ({"at": "nothing"}, "at must be"),
        ({"distortion": np.eye(3)}, "shape"),
        ({"distortion": -np.eye(2)}, "negative"),
        ({"tol": np.nan}, "tol"),
    ):
        with raised(InputError, words):
            excess(counts, **options)
    with raised(InputError, "no record"):
        excess(0 * counts)


@pytest.fixture
def tables(tmp_path):
    rng = np.random.default_rng(3)
    age, town = rng.integers(0, 4, 3000), rng.integers(0, 3, 3000)
    income = (rng.random(3000) < 0.2 + 0.15 * age + 0.1 * (town == 1)).astype(int)
    noisy = np.where(rng.random(3000) < 0.6, age, rng.integers(0, 4, 3000))
    people = {"income": income, "age": age, "town": town, "noisy": noisy, "merged": age // 2}
    released = {"age": noisy, "town": town}
    return write(tmp_path / "people.csv", people), write(tmp_path / "released.csv", released)


def test_releases_of_tables(tables):
    path, _ = tables
    line = "excess people.csv --private income --useful age"
    record = answered(line, "--released noisy")
    assert record["at"] == "distortion"
    assert 0.25 < record["distortion"] < 0.35
    assert record["status"] == "optimal"
    assert 0.001 < record["least"] <= record["most"] <= record["least"] + 2e-6
    counts, distortion = count_releases(path, "income", "age", "noisy")
    of_tables = vars(excess(counts, distortion=distortion))
    assert of_tables == {name: record[name] for name in of_tables}
    merged = answered(line, "--released merged --at disclosure")
    assert merged["at"] == "disclosure"
    assert merged["least"] + 1e-6 >= 0
    useful = "--useful town --released-table released.csv"
    shown, record = printed(line, useful, "--units bits"), answered(line, useful)
    least, most = map(float, shown.split("excess over the optimum")[1].split()[0:3:2])
    assert least * np.log(2) <= record["least"] <= record["most"] <= most * np.log(2)
    record = answered(line, useful, "--time-limit 0", code=4)
    assert record["status"] == "best_known"
    mistaken(line, "--released")
    mistaken(f"{line} --released age", "'age' is released as it is")
    mistaken("excess people.csv --released noisy", "--private")
    short = path.with_name("short.csv")
    short.write_text("age\n1\n")
    mistaken(f"{line} --released-table short.csv", "1 rows", "3000")


def test_a_release_of_jaxpriv_has_the_useful_classes(tmp_path):
    """Labels of intervals, and texts with an apostrophe, were taken for other classes: there was no distortion."""
    rng = np.random.default_rng(3)
    age, town = rng.integers(0, 4, 3000), rng.choice(["=a", "b"], 3000)
    income = (rng.random(3000) < 0.2 + 0.15 * age).astype(int)
    write(tmp_path / "people.csv", {"income": income, "age": age, "town": town})
    noisy = np.where(rng.random(3000) < 0.6, age, rng.integers(0, 4, 3000))
    write(tmp_path / "values.csv", {"age": noisy, "town": town})
    labels, marked = np.where(noisy < 2, "[0, 2)", "[2, 4]"), np.where(town == "b", "b", "'=a")
    write(tmp_path / "released.csv", {"age": labels, "town": marked})
    line = "excess people.csv --private income --useful age --useful town --bins age=edges:0,2,4 --released-table"
    expected = answered(line, "values.csv")
    assert expected["at"] == "distortion"
    assert answered(line, "released.csv") == expected


def test_rows_in_a_random_order(tables):
    """By the order file the same numbers as row for row; without it the pairs are others."""
    path, other = tables
    line = "excess people.csv --private income --useful age --useful town"
    expected = answered(line, "--released-table released.csv")
    head, *rows = other.read_text().splitlines(keepends=True)
    place = np.random.default_rng(1).permutation(len(rows))
    other.write_text("".join([head, *(rows[record] for record in place)]))
    columns = ("income", ["age", "town"], ["age", "town"])
    counts, distortion = count_releases(path, *columns, released_table=other, order=place)
    assert float((counts.sum(axis=0) * distortion).sum()) / counts.sum() == pytest.approx(expected["distortion"])
    with raised(InputError, "column 'age' is released as it is"):
        count_releases(path, *columns)
    with raised(InputError, "released_table has 3000 rows, the table of records 5"):
        count_releases(path, *columns, released_table=other, order=place[:5])
    order = path.with_name("order.zip")
    order.write_bytes(order_file(place, other.read_bytes()))
    assert answered(line, "--released-table released.csv --row-order order.zip") == expected
    assert answered(line, "--released-table released.csv")["distortion"] > 2 * expected["distortion"]
    mistaken(f"{line} --released noisy --row-order order.zip", "--row-order is about --released-table")
    other.write_text("".join([head, *rows]))
    refused(run(line, "--released-table released.csv --row-order order.zip"), 5, "order of another released file")
