"""Tables of records in every command that takes a problem: `joint`, `solve`, `funnel`, `leakage`, `audit`, `fit`."""

import csv
import gzip
import os
import stat

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from jaxpriv.release import Evidence, Mechanism
from jaxpriv.statistics.tables import Categories, Codebook
from tests.cli.conftest import answered, mistaken, printed, refused, run
from tests.release.conftest import people, write

COLUMNS = "--private income --useful age --useful town --bins age=quantiles:3"


@pytest.fixture
def table(tmp_path):
    return write(tmp_path / "people.csv", people(600))


def test_a_table_is_the_problem_that_joint_writes(table, tmp_path):
    problem, book = tmp_path / "problem.npz", tmp_path / "book.json"
    record = answered(f"joint people.csv {COLUMNS} --out problem.npz --codebook-out book.json")
    assert (record["records"], record["private"]["symbols"], record["useful"]["symbols"]) == (600, 2, 9)
    assert stat.S_IMODE(os.stat(problem).st_mode) == 0o600
    with np.load("problem.npz") as arrays:
        assert_allclose(arrays["joint"], arrays["counts"] / 600, rtol=1e-15)
        codes = arrays["attributes"]
        assert_array_equal(arrays["distortion"], (codes[:, None] != codes[None]).sum(axis=2))
    mechanisms = []
    sources = (problem,), (table, "--codebook", book), (table, COLUMNS)
    for source in sources:
        printed("solve", *source, "--budget 0.1 --out mechanism.npz")
        with np.load("mechanism.npz") as arrays:
            assert_array_equal(arrays["attributes"], codes)
            mechanisms.append(arrays["mechanism"])
    assert_array_equal(mechanisms[0], mechanisms[1])
    assert_array_equal(mechanisms[0], mechanisms[2])
    # The mapping can be measured and audited on records: it says which classes its symbols are.
    found = [answered("leakage mechanism.npz --joint", *source)["measures"][0]["value"] for source in sources]
    assert found[0] == found[1] == found[2] > 1e-3
    printed("audit mechanism.npz --counts people.csv --codebook book.json")


def test_a_funnel_of_a_table(table):
    assert answered(f"funnel people.csv {COLUMNS} --disclosure 1.5 --out mechanism.npz")["disclosure"] >= 1.5 - 1e-9
    assert set(np.load("mechanism.npz")) == {"mechanism", "attributes", "classes"}


def test_costs_by_column(table, save):
    prices = save("prices.npz", distortion=np.array([[0, 1, 2], [1, 0, 3], [2, 3, 0]]))
    options = ("--distortion age=absolute --distortion", f"town={prices}", "--weight age=0.5")
    printed(f"joint people.csv {COLUMNS}", *options, "--out problem.npz")
    distortion = np.load("problem.npz")["distortion"]
    assert distortion.shape == (9, 9)
    assert distortion.max() > 3


def test_what_columns_need(table, problem, tmp_path):
    mistaken("joint people.csv --out out.npz", "--private and --useful")
    mistaken(f"joint problem.npz --out out.npz {COLUMNS}", "tables are read from")
    mistaken(f"solve problem.npz --budget 1 {COLUMNS}", "--private is for tables")
    mistaken("solve problem.npz --budget 1 --codebook-out book.json", "codebooks are for tables")
    line = f"joint people.csv {COLUMNS} --out out.npz"
    mistaken(f"{line} --distortion age", "--distortion 'age' is not COL=VALUE")
    mistaken(f"{line} --distortion age=far", "column 'age'", "one of")
    mistaken(f"{line} --distortion town=absolute", "column 'town'", "no number")
    mistaken(f"{line} --distortion age=changed --distortion age=changed", "twice")
    mistaken(f"{line} --distortion age=absent.npz", "column 'age'", "does not exist")
    mistaken(f"{line} --weight age=heavy", "not a number")
    mistaken(f"{line} --weight income=2", "not among the useful")
    (tmp_path / "book.json").write_text("{}")
    mistaken(f"{line} --codebook book.json", "leave out --private")
    assert not (tmp_path / "out.npz").exists()


def test_a_design_of_a_table(table, tmp_path):
    design, audit = tmp_path / "design.zip", tmp_path / "audit.zip"
    files = "--out design.zip --private-out audit.zip --codebook-out book.json"
    record = answered(f"fit people.csv {COLUMNS} --budget 0.15", files)
    mechanism = Mechanism.load("design.zip")
    evidence = Evidence.load("audit.zip", mechanism)
    assert record["status"] == "optimal"
    assert record["design"] == mechanism.sha256
    assert record["records"] == {"design": 300, "held_out": 300}
    assert record["on_the_design"] == {name: claim.record for name, claim in evidence.claims(mechanism).items()}
    assert record["population"]["holds_for"] == "this mechanism"
    files = audit, tmp_path / "book.json", design
    modes = [stat.S_IMODE(os.stat(path).st_mode) for path in files]
    assert modes == [0o600, 0o600, 0o644 & ~_umask()]
    text = printed(f"fit people.csv {COLUMNS} --target-leakage 0.3 --split 1 --out design.zip --units bits")
    assert "watchdog 0.3 nats, leakage: lift" in text
    assert "held-out" not in text


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_fit_that_cannot_be(table, problem, tmp_path):
    line = f"fit people.csv {COLUMNS} --out design.zip"
    mistaken(line, "exactly one of --budget")
    mistaken(f"{line} --budget 0.1 --disclosure 1", "exactly one of --budget")
    refused(run(line, "--disclosure 50"), 3)
    mistaken("fit problem.npz --budget 1 --out design.zip", "tables are read from")
    mistaken(f"fit people.csv {COLUMNS} --budget 0.1 --out people.csv", "same file")
    assert sorted(os.listdir(tmp_path)) == ["people.csv", "problem.npz"]
    printed(line, "--budget 0.1 --tol 1e-300", code=4)
    assert Mechanism.load("design.zip").asked.target == 0.1


def test_a_limit_for_the_population(table):
    line = f"fit people.csv {COLUMNS} --out design.zip --population"
    limit = answered(line, "--leakage-budget 0.1")["population_limit"]
    assert limit["upper"] <= limit["limit"] == 0.1
    assert "population, confidence 0.95" in printed(line, "--leakage-budget 0.1")
    refused(run(line, "--leakage-budget 0.01"), 4, "held-out records cannot certify")
    mistaken(f"{line} --budget 0.1", "population is about --leakage-budget")


def test_every_command_reads_every_dialect(table, tmp_path):
    """The same table with semicolons, in latin-1, compressed and without a header is the same table everywhere."""
    other = tmp_path / "people.csv.gz"
    with table.open(newline="") as file:
        header, *records = csv.reader(file)
    content = "".join(";".join(record) + "\n" for record in records)
    other.write_bytes(gzip.compress(content.encode("latin-1")))
    read = f"--read delimiter=; --read encoding=latin-1 --read names={','.join(header)}"
    results = []
    for path, options in ((table, ""), (other, read)):
        design = f"design-{len(results)}.zip"  # what released records is not replaced
        shown = [
            answered("joint", path, COLUMNS, options, "--out problem.npz"),
            answered("solve", path, COLUMNS, options, "--budget 0.1 --out made.npz"),
            answered("leakage made.npz --joint", path, COLUMNS, options),
            answered("watchdog", path, COLUMNS, options, "--target-leakage 0.5"),
            answered("fit", path, COLUMNS, options, "--budget 0.1 --out", design),
            answered("audit", design, "--counts", path, options, "--measures mutual-information --bootstrap 0"),
            answered("audit --pairs", path, options, "--private income --released town --permutations 9 --bootstrap 0"),
        ]
        results.append([{key: one[key] for key in one.keys() - {"seconds", "design"}} for one in shown])
        line = ("release", path, "--design", design, options, "--out", tmp_path / f"{len(results)}.csv")
        assert run(*line).exit_code == 2  # no receipt
        printed(*line, "--receipt", tmp_path / f"{len(results)}.json")
    assert results[0] == results[1]
    for bad in ("delimiter=;;", "delimiter", "comma", "encoding=x", "names=a,a", "names=", "nfc=1"):
        refused(run(f"joint people.csv {COLUMNS} --read", bad, "--out bad.npz"), 2, "--read")
    mistaken(f"joint people.csv {COLUMNS} --read nfc --read nfc --out bad.npz", "twice")


def test_rare_classes_and_survey_weights(tmp_path):
    path = tmp_path / "t.csv"
    rows = (
        [("lo", "a", 1), ("hi", "a", 3)] * 20 + [("lo", "b", 2), ("hi", "b", 2)] * 10 + [("lo", "c", 1), ("hi", "d", 1)]
    )
    path.write_text("income,town,w\n" + "".join(f"{s},{x},{w}\n" for s, x, w in rows))
    line = "joint t.csv --private income --useful town --out joint.npz --bins"
    printed(line, "town=categories:5")
    with np.load("joint.npz") as arrays:
        assert arrays["counts"].tolist() == [[20, 10, 1], [20, 10, 1]]  # hi, lo; a, b and other
    printed(line, "town=first:1,5 --codebook-out first.json")
    assert Codebook.load("first.json").rules["town"] == Categories(("a", "b"), other="other", first=1)
    mistaken(f"{line} town=first:0", "--bins", "first must be a whole number >= 1")
    mistaken(f"{line} town=first", "--bins", "first:K[,N]")
    printed(line, "town=categories:5 --survey-weight w")
    with np.load("joint.npz") as arrays:
        assert_allclose(arrays["joint"] * 122, [[60, 20, 1], [20, 20, 1]], rtol=1e-12)
    np.savez("mechanism.npz", mechanism=np.full((3, 2), 0.5))
    mistaken("audit mechanism.npz --counts joint.npz", "--counts: the joint of joint.npz is not that of its counts")
    printed("audit mechanism.npz --joint joint.npz --bootstrap 0")
    mistaken(f"{line} town=categories:x", "--bins")
    mistaken(f"{line} town=categories:5 --survey-weight town", "--survey-weight: column 'town'")


def test_a_value_called_other_and_names_for_the_rest(tmp_path):
    """Frequent values called like the classes of the rest and of empty cells, in every command that counts a table."""
    path = tmp_path / "t.csv"
    jobs = ["other"] * 60 + ["clerk"] * 60 + [""] * 20 + ["judge", "poet", "smith", "mayor"] * 2
    rows = [(("lo", "hi")[(k * 7 + len(job)) % 3 == 0], job) for k, job in enumerate(jobs)]
    path.write_text("income,job\n" + "".join(f"{s},{x}\n" for s, x in rows))
    private_and_useful = "--private income --useful job"
    columns = f"{private_and_useful} --bins job=categories:10"
    for options, labels in (
        ("--missing job=none", ["clerk", "other", "other_2", "none"]),
        ("--missing job=none --other job=other", ["clerk", "other", "other_2", "none"]),
        ("--missing job=other_2", ["clerk", "other", "other_3", "other_2"]),
        ("--missing job=none --other job=rest", ["clerk", "other", "rest", "none"]),
    ):
        line = ("t.csv", columns, options)
        printed("joint", *line, "--out joint.npz --codebook-out book.json")
        printed("solve", *line, "--budget 0.1")
        printed("frontier", *line, "--budget 0.1 0.2")
        printed("fit", *line, "--budget 0.1 --out d.zip")
        assert Codebook.load("book.json").rules["job"].labels == tuple(labels)
        assert list(Mechanism.load("d.zip").released_labels[0]) == labels
    joint = "joint t.csv --out joint.npz"
    mistaken(f"{joint} {columns} --missing job=other", "'job'", "--missing COL=LABEL")
    mistaken(f"{joint} {columns} {options} --other income=x --other income=y", "--other", "twice")
    mistaken(f"{joint} {columns} --missing job=x --other job=x", "different labels")
    mistaken(f"{joint} {private_and_useful} --other age=x", "--other", "'age'")
    mistaken(f"{joint} {private_and_useful} --bins job=quantiles:3 --other job=x", "--other")


def test_too_many_private_classes_are_refused_before_the_work(tmp_path):
    """Incomes with cents are text in a CSV, a class each: a solve of that many private symbols takes minutes."""
    path, rng = tmp_path / "t.csv", np.random.default_rng(0)
    incomes = rng.lognormal(10, 0.5, 2000)
    path.write_text("income,town\n" + "".join(f"{income:.2f},{'abc'[k % 3]}\n" for k, income in enumerate(incomes)))
    columns = "--private income --useful town"
    for line in (
        ("fit", path, columns, "--budget 0.1 --out", tmp_path / "d.zip"),
        ("joint", path, columns, "--out", tmp_path / "j.npz"),
        ("solve", path, columns, "--budget 0.1"),
        ("watchdog", path, columns, "--target-leakage 0.5"),
    ):
        refused(run(*line), 2, "private symbols", "'income'", "--bins income=quantiles:4", "--sparse")
        printed(*line, "--bins income=quantiles:4")


@pytest.mark.usefixtures("surely")
def test_a_release_and_its_records_by_other_writers_of_booleans(tmp_path):
    """A design of a CSV as one tool writes booleans is applied to, audited and verified on that of another tool."""
    rng = np.random.default_rng(0)
    flags = rng.random(400) < 0.4
    private = np.where(rng.random(400) < 0.2 + 0.5 * flags, "a", "b")
    paths = []
    for spelling in (str, lambda flag: str(flag).upper(), lambda flag: str(flag).lower()):
        paths.append(tmp_path / f"{spelling(True)}.csv")
        lines = [f"{spelling(bool(flag))},{s}\n" for flag, s in zip(flags, private, strict=True)]
        paths[-1].write_text("flag,s\n" + "".join(lines))
    printed("fit", paths[0], "--private s --useful flag --budget 0.1 --out d.zip")
    for k, path in enumerate(paths):
        released, receipt = tmp_path / f"released{k}.csv", tmp_path / f"receipt{k}.json"
        printed("release", path, "--design d.zip --out", released, "--receipt", receipt)
        printed("verify", receipt, "--design d.zip --released", released, "--records", path)
        for records, releases in ((paths[0], released), (path, paths[0])):
            audit = ("audit d.zip --counts", records, "--measures mutual-information --bootstrap 0")
            printed(*audit, "--releases", releases)


@pytest.mark.usefixtures("surely")
def test_large_whole_numbers_from_fit_to_verify(tmp_path):
    """Nanoseconds 60 apart, which float64 merges: their classes, distances and edges are exact in every command."""
    path = tmp_path / "t.csv"
    times = [1_700_000_000_000_000_000 + 60 * (k % 4) for k in range(400)]
    rows = [("lo" if (k * k + k % 4) % 5 < 3 else "hi", time) for k, time in enumerate(times)]
    path.write_text("income,time\n" + "".join(f"{s},{x}\n" for s, x in rows))
    middle = f"edges:{times[0]},{times[1]},{times[2]},{times[3]}"
    for rule, size in (("categories", 4), ("quantiles:4", 3), (middle, 3)):
        folder = tmp_path / rule.partition(":")[0]
        folder.mkdir()
        design, released, receipt = folder / "d.zip", folder / "released.csv", folder / "receipt.json"
        line = ("t.csv --private income --useful time --bins", f"time={rule}")
        record = answered("fit", *line, "--distortion time=absolute --budget 20 --out", design)
        assert len(Mechanism.load(design).released) == size
        assert float(record["on_the_design"]["distortion"]["upper"]) <= 20
        assert float(record["on_the_design"]["leakage"]["lower"]) > 0
        printed("release t.csv --design", design, "--out", released, "--receipt", receipt)
        printed("verify", receipt, "--design", design, "--released", released, "--records t.csv")
