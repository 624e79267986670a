"""`jaxpriv audit` of tables: records by columns in place of a codebook, and a released table row for row with them."""

import csv
import shutil
import subprocess
import sys

import numpy as np
import pytest

from jaxpriv import datasets
from jaxpriv.release import Mechanism
from tests.cases import raw
from tests.cli.conftest import answered, mistaken, printed, refused, run
from tests.information import information
from tests.release.conftest import write

TOWN_AND_AGE = "--private income --useful town --useful age"
COLUMNS = f"{TOWN_AND_AGE} --bins age=edges:0,40,60,inf"
CENSUS = "income", "age", "sex", "--bins age=edges:17,30,40,50,60,inf"
COMPAS = "race", "age_cat", "sex", ""
QUICKLY = "--measures mutual-information --bootstrap 0"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder of records, a design, and the mapping that `jaxpriv solve` makes of them, with its codebook."""
    folder, rng = tmp_path_factory.mktemp("people"), np.random.default_rng(4)
    age, town = rng.integers(18, 80, 900), rng.choice(["n", "s", "=w"], 900)
    income = np.where(rng.random(900) < 0.2 + 0.4 * (age > 50) + 0.1 * (town == "n"), "high", "low")
    table = write(folder / "t.csv", {"age": age, "town": town, "income": income})
    line = (table, f"{COLUMNS} --budget 0.2 --out")
    printed("solve", *line, folder / "m.npz", "--codebook-out", folder / "b.json")
    printed("fit", *line, folder / "d.zip")
    return folder


@pytest.fixture
def people(made, tmp_path):
    """These files in the folder of a test."""
    return shutil.copytree(made, tmp_path, dirs_exist_ok=True)


@pytest.mark.parametrize("option", ["--counts", "--joint"])
def test_columns_in_place_of_the_codebook(people, option):
    line = f"audit m.npz {option} t.csv --bootstrap 0"
    by_book = answered(line, "--codebook b.json")
    assert answered(line, COLUMNS)["measures"] == by_book["measures"]
    has_bound = by_book["measures"][0]["upper"] is not None
    assert has_bound == (option == "--counts")


def test_other_columns_are_not_those_of_the_mapping(people, save):
    line = "audit m.npz --counts t.csv"
    mistaken(line, "--private and --useful", "--codebook")
    mistaken(f"{line} {TOWN_AND_AGE} --bins age=edges:0,30,60,inf", "other useful columns or classes")
    mistaken(f"{line} {COLUMNS} --codebook b.json", "--codebook has its own columns")
    save("c.npz", counts=np.ones((2, 9), dtype=int))
    mistaken(f"audit m.npz --counts c.npz {COLUMNS}", "--private", "a table in --counts")
    save("plain.npz", mechanism=np.eye(9))
    mistaken(f"audit plain.npz --counts t.csv {COLUMNS}", "attributes")
    mistaken(f"audit d.zip --counts t.csv {COLUMNS}", "a design has its own columns")
    mistaken("audit --pairs t.csv --private income --released town --useful age")


def released_by(mapping, path):
    """A table with the released labels for the records: by the design."""
    design = Mechanism.load("d.zip")
    x = design.symbols("t.csv")
    sums, u = np.cumsum(mapping, axis=1), np.random.default_rng(1).random(len(x))
    y = np.minimum((sums[x] < u[:, None]).sum(axis=1), mapping.shape[1] - 1)
    return write(path, {k: v.tolist() for k, v in design.labels_of(y).items()})


@pytest.mark.usefixtures("same_draws")
def test_a_released_table_row_for_row(people, tmp_path):
    design = Mechanism.load("d.zip")
    own, swapped = design.matrix(), design.matrix().copy()
    swapped[[0, 5]] = swapped[[5, 0]]
    for mapping, sound in ((own, True), (swapped, False)):
        path = released_by(mapping, tmp_path / f"r{sound}.csv")
        line = ("audit d.zip --counts t.csv --bootstrap 0 --releases", path)
        found = answered(*line)["conformity"]
        assert (found["p_value"] > 1e-3) == sound
        assert found["detectable"] is not None
    text = " ".join(printed(*line).split())
    assert "test of the claim that they come from this mapping: p = 0" in text
    assert "by a bound that needs no simulation" in text
    # What `release` writes, cells that look like formulas too; the same of the mapping of `solve`, another one.
    out = tmp_path / "out.csv"
    printed("release t.csv --design d.zip --out out.csv --receipt r.json --order-out order.zip")
    assert "'=w" in out.read_text()
    for mapping, columns in (("d.zip", ""), ("m.npz", COLUMNS)):
        line = f"audit {mapping} --counts t.csv {columns} --releases out.csv --row-order order.zip"
        tested = answered(line)["conformity"]
        assert tested["tables"] in (99, 999)
        assert tested["impossible"] == []
        if mapping == "d.zip":
            assert tested["p_value"] > 1e-3


def test_releases_that_do_not_fit(people, tmp_path, save):
    short = write(tmp_path / "short.csv", {"town": ["n"], "age": ["[0, 40)"]})
    line = "audit d.zip --counts t.csv --row-order d.zip"
    mistaken(line, "--row-order is about")
    refused(run(line, "--releases", short), 5, "--row-order: ", "order.json")
    line = "audit d.zip --counts t.csv --releases"
    refused(run(line, short), 2, "has 1 rows, the records 900")
    odd = write(tmp_path / "odd.csv", {"town": ["secret"] * 900, "age": ["[0, 40)"] * 900})
    refused(run(line, odd), 2, "'town', row 0", "no class that the mapping releases", "such rows: 900")
    save("c.npz", counts=np.ones((2, 9), dtype=int))
    mistaken(f"audit m.npz --counts c.npz --releases {short}", "row for row")
    mistaken("audit m.npz --counts c.npz --released town", "--released is about")
    mistaken(
        f"audit m.npz --counts t.csv {COLUMNS} --releases t.csv --released town",
        "names 1 columns, the mapping releases 2",
    )


# -- somebody else's releases of the census and of COMPAS ----------------------------------------------------------


def census(shared):
    columns = datasets.load_adult(raw(shared, "adult.data").parent)
    return {name: columns[name] for name in ("age", "sex", "income")}


def compas(shared):
    with raw(shared, "compas-scores-two-years.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([row[name] for row in rows]) for name in ("age_cat", "sex", "race")}


def others(columns, private, first, second, seed=0):
    """What others would release: randomised response, a merged attribute, records of a synthetic table."""
    rng = np.random.default_rng(seed)
    size = len(columns[private])
    values = {name: np.unique(columns[name]) for name in (first, second)}
    response = {
        f"{name}_rr": np.where(rng.random(size) < 0.7, columns[name], rng.choice(values[name], size))
        for name in (first, second)
    }
    merged = {f"{first}_m": np.where(columns[first] == values[first][0], "a", "b"), f"{second}_m": columns[second]}
    drawn = np.zeros(size, dtype=int)
    for one in np.unique(columns[private]):  # a record of the same private class, drawn anew
        there = np.flatnonzero(columns[private] == one)
        drawn[there] = rng.choice(there, len(there))
    return {**response, **merged, f"{first}_syn": columns[first][drawn], f"{second}_syn": columns[second][drawn]}


@pytest.mark.slow
@pytest.mark.parametrize(("data", "names"), [(census, CENSUS), (compas, COMPAS)], ids=["the census", "COMPAS"])
def test_releases_of_others_on_real_records(shared, tmp_path, data, names):
    columns = data(shared)
    private, first, second, bins = names
    line = f"--private {private} --useful {first} --useful {second}"
    if first == "age":
        ages = np.digitize(columns["age"], [30, 40, 50, 60])
        columns["age"] = np.array([17, 30, 40, 50, 60])[ages]
    table = write(tmp_path / "t.csv", {**columns, **others(columns, private, first, second)})
    printed("solve", table, line, bins, "--budget 0.4 --out m.npz")
    found = {}
    for kind in ("rr", "m", "syn"):
        released = f"--released {first}_{kind} --released {second}_{kind}"
        pairs = ("audit --pairs", table, "--private", private, released, f"--permutations 99 {QUICKLY}")
        audited = answered(*pairs)["measures"][0]
        other = answered("excess", table, line, released)
        assert audited["lower"] <= other["leakage"] <= audited["upper"]
        assert 0 <= other["lower_bound"] <= other["optimum"] <= other["leakage"]
        assert other["least"] <= other["leakage"] - other["optimum"] + 1e-12 <= other["most"] + 2e-12
        found[kind] = other
        if kind == "m":
            continue
        mapping = ("audit m.npz --counts", table, line, bins, QUICKLY)
        tested = answered(*mapping, "--releases", table, released)["conformity"]
        assert tested["p_value"] <= 0.001  # none of them was made by this mapping
        assert 0 < tested["detectable"] < 0.2
    # A merged attribute says nothing of S beyond X; the synthetic record was drawn by S alone.
    assert abs(found["m"]["direct"]) < 1e-12
    assert found["syn"]["direct"] > 0.5 * found["syn"]["leakage"]
    assert found["syn"]["disclosure"] < 0.1 * found["m"]["disclosure"]
    assert found["rr"]["at"] == "distortion"
    assert found["rr"]["optimum"] < 0.5 * found["rr"]["leakage"]


def test_a_full_disk_behind_standard_output_is_named_and_the_old_result_stays(people):
    """Tables are laid out in memory: nothing but the writer of results meets the fault, and says what it is."""
    old = people / "audit.json"
    old.write_text("{}")
    old.chmod(0o640)
    before = sorted(people.iterdir())
    line = [sys.executable, "-m", "jaxpriv", "audit", "m.npz", "--joint", "t.csv", *COLUMNS.split()]
    line += ["--measures", "mutual-information", "--json", "audit.json"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(list(map(str, line)), stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 6
    assert "cannot write to standard output: No space left on device" in done.stderr
    assert (old.read_text(), old.stat().st_mode & 0o777) == ("{}", 0o640)
    assert sorted(people.iterdir()) == before


def test_the_certificate_of_a_target_of_disclosure_gives_a_gap(people):
    """Its objective is the leakage; only a design of least distortion has a gap of something else."""
    printed(f"fit t.csv {COLUMNS} --disclosure 0.5 --out e.zip --private-out a.zip")
    line = "audit e.zip --counts t.csv --bootstrap 0 --certificate a.zip"
    (row,) = [one for one in answered(line)["measures"] if one["name"] == "mutual-information"]
    assert 0 <= row["gap"] <= 1e-4


def test_sets_of_quasi_identifiers(people):
    """The numbers of records counted one by one; the optimum is no more than the guess from the columns themselves."""
    columns = "--private income --released town --released age --bins age=edges:0,40,60,inf"
    line = f"audit --pairs t.csv {columns}"
    rows = answered(line, "--subsets 2 --optimum 5")["rows"]
    assert [row["columns"] for row in rows] == [[], ["town"], ["age"], ["town", "age"]]
    with open("t.csv") as file:
        records = [(row["town"], row["income"]) for row in csv.DictReader(file)]
    best = [max(records.count((town, income)) for income in ("high", "low")) for town in {town for town, _ in records}]
    assert rows[1]["guess"] == pytest.approx(sum(best) / len(records))
    assert all(row["lower"] <= row["guess"] <= row["upper"] for row in rows)
    assert all(row["least"] <= row["optimum"] <= row["guess"] for row in rows)
    assert "optimum >=" in printed(line, "--subsets 1 --optimum 5")
    mistaken(f"{line} --optimum 5", "--optimum is about --subsets")
    mistaken(f"{line} --subsets 1 --measures correct-guess", "--subsets")


def test_two_draws_for_the_same_records(people, save):
    """Together they are the mapping P(y, y' | x) = W(y|x) W'(y'|x), which discloses more than one draw."""
    line = "audit d.zip --counts t.csv --bootstrap 0"
    once, twice = (answered(line, words) for words in ("", "--again d.zip"))
    design = Mechanism.load("d.zip")
    w = design.matrix()
    records = design.codebook.encode("t.csv")
    joint = np.zeros((2, len(w)))
    np.add.at(joint, (records.private[:, 0], design.locate_codes(records.useful)), 1 / len(records.private))
    both = np.einsum("sx,xa,xb->sab", joint, w, w).reshape(2, -1)
    value = {row["name"]: row for row in twice["measures"]}["mutual-information"]
    assert value["fitted"] == pytest.approx(information(both))
    single = {row["name"]: row for row in once["measures"]}["mutual-information"]
    assert single["fitted"] < value["fitted"]
    assert value["fitted"] <= value["upper"] <= value["cap"]
    assert any("2 draws for each record" in one for one in twice["assumptions"]["statements"])
    mistaken(f"{line} --again d.zip --certificate d.zip", "--again is about")
    printed("fit t.csv --private income --useful town --budget 0.2 --out other.zip")
    mistaken(f"{line} --again other.zip", "has other useful columns")
    counts, mechanism = save("c.npz", counts=[[9, 1], [2, 8]]), save("m.npz", mechanism=np.eye(2))
    save("w.npz", mechanism=np.eye(3))
    refused(run("audit", mechanism, "--counts", counts, "--again w.npz"), 2, "--again[0] has 3 rows")
