"""`jaxpriv audit`: the four numbers, black boxes, files, and what is refused."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.cli.conftest import JOINT, answered, mistaken, printed, refused, run
from tests.release.conftest import write

MECHANISM = 0.7 * np.eye(4) + 0.3 / 4
COUNTS = np.rint(JOINT * 4000).astype(int)


@pytest.fixture
def files(save):
    return save("mechanism.npz", mechanism=MECHANISM), save("counts.npz", counts=COUNTS)


def measure(record, name):
    return next(one for one in record["measures"] if one["name"] == name)


def test_a_mechanism(files, save):
    record = answered("audit mechanism.npz --counts counts.npz --order 3 --bootstrap 9")
    assert record["confidence"] == 0.95
    assert record["units"] == "nats"
    one = measure(record, "mutual-information")
    assert one["fitted"] < one["upper"] < one["cap"]
    assert one["gap"] is None
    assert one["why"]["gap"]
    assert [row["order"] for row in record["measures"] if row["name"] == "sibson"] == [0.5, 2.0, 10.0, 3.0]
    assert record["assumptions"]["records"] == 4000
    line = "audit mechanism.npz --counts counts.npz --units bits --confidence 0.999 --bootstrap 9"
    text = printed(line)
    assert "population: the whole column holds with confidence 0.999, for all mechanisms" in " ".join(text.split())
    assert "assumptions (4000 records" in text
    assert "independent draws" in text
    line = next(line for line in text.splitlines() if "mutual-information" in line)
    assert float(line.split()[1]) == pytest.approx(one["fitted"] / np.log(2), rel=1e-3)
    assert len(line.split()) == 6  # no column for a gap that nobody has certified


def test_what_an_adversary_gains_stands_first(files, problem):
    """In words, and as what the counts say by NumPy; bounds are those of the rows."""
    line = "audit mechanism.npz --counts counts.npz --bootstrap 0"
    record, text = answered(line), " ".join(printed(line).split())
    joint = COUNTS / COUNTS.sum()
    released = joint @ MECHANISM
    lift = (released / released.sum(axis=0) / released.sum(axis=1)[:, None]).max()
    guess, worst = measure(record, "correct-guess")["upper"], measure(record, "max-lift")["upper"]
    shares = [100 * joint.sum(axis=1).max(), 100 * released.max(axis=0).sum(), 100 * guess, 95]
    pattern = r"right in (\S+) % of .* without .* at most (\S+) % with .* at most (\S+) %, with confidence 0.(\d+) "
    (first,) = re.findall(pattern, text)
    assert_allclose([float(number) for number in first], shares, rtol=1e-3)
    (second,) = re.findall(r"at most (\S+) times as likely .* at most (\S+) times", text)
    assert_allclose([float(number) for number in second], np.exp([np.log(lift), worst]), rtol=1e-3)
    assert float(first[0]) <= shares[0]
    assert float(first[1]) >= shares[1]
    assert "On this sample" not in printed(line, "--measures mutual-information")
    with_joint = " ".join(printed("audit mechanism.npz --joint problem.npz").split())
    assert with_joint.startswith("Under this joint the best guess")
    assert "% with it (row correct-guess" in with_joint
    assert "nats on the joint" in with_joint
    assert "(2 to the number of bits in row max-lift)" in " ".join(printed(line, "--units bits").split())


def test_a_release_without_use_for_a_guess_says_so(save):
    save("pairs.npz", counts=np.array([[60, 40], [25, 25]]))
    text = " ".join(printed("audit --pairs pairs.npz --permutations 9 --bootstrap 0").split())
    assert "is right in 66.66 % of the cases without the release, and no more often with it; in the population" in text
    assert "%, each with confidence 0.95 (row correct-guess" in text
    save("one.npz", counts=np.array([[60, 30, 10]]))
    save("mapping.npz", mechanism=np.full((3, 2), 0.5))
    text = " ".join(printed("audit mapping.npz --counts one.npz --bootstrap 0").split())
    assert "in the population this is at most 100 %, with" in text  # by rounding it was 100.1 %


def test_the_result_is_for_its_owner(files, tmp_path):
    printed("audit mechanism.npz --counts counts.npz --order 3 --bootstrap 0 --json audit.json")
    assert (tmp_path / "audit.json").stat().st_mode & 0o777 == 0o600


def test_the_gap_of_a_solve(problem, save, tmp_path):
    solved = tmp_path / "solved.json"
    printed("solve problem.npz --budget 0.2 --out mechanism.npz --json solved.json")
    line = "audit mechanism.npz --joint problem.npz --solution solved.json"
    record = answered(line)
    one = measure(record, "mutual-information")
    assert one["gap"] is None
    assert 0 <= one["stated_gap"] <= 1e-6
    assert "gap as stated" in printed(line)
    assert "not verified" in printed(line)
    assert one["upper"] is None
    assert record["holds_for"] == "no sample"
    mistaken(f"{line} --objective lift", "another mechanism, joint or measure")
    mistaken(f"{line} --objective sibson:x", "--objective")
    mistaken(f"{line} --objective nothing", "--objective", "unknown")
    solved.write_text('{"value": NaN}')
    refused(run(line), 5, "solved.json", "strict JSON")
    solved.write_text('{"value": "inf"}')
    mistaken(line, "solved.json")


def test_pairs_of_a_table(save, tmp_path):
    generator, path = np.random.default_rng(0), tmp_path / "people.csv"
    s = generator.integers(3, size=600)
    x = np.where(generator.random(600) < 0.5, s, generator.integers(4, size=600))
    wage = generator.normal(size=600)
    path.write_text("s,y,wage\n" + "".join(f"a{a},b{b},{c:.4f}\n" for a, b, c in zip(s, x, wage, strict=True)))
    line = "audit --pairs people.csv --private s --released y --permutations 99 --bootstrap 9"
    record = answered(line)
    assert "labels" not in record  # they are values of the table
    shown = answered(line, "--show-values")
    assert shown.pop("labels")["private"] == [["a0"], ["a1"], ["a2"]]
    assert shown == record
    assert record["permutation"]["p_value"] == 0.01
    one = measure(record, "correct-guess")
    assert 1 / 3 < one["lower"] < one["fitted"] < one["upper"]
    text = printed(line)
    assert "a large p is no evidence of privacy" in " ".join(text.split())
    assert "Miller-Madow" in text
    assert "NOT so here" not in text
    quick = "--permutations 9 --bootstrap 0"
    wages = "audit --pairs people.csv --private s --released wage --bins wage=quantiles:4"
    binned = printed(wages, quick)
    # What the bounds assume does not hold of classes that the command itself chose on the records.
    assert "NOT so here: the classes of 'wage' were chosen on these records" in " ".join(binned.split())
    mistaken("audit --pairs people.csv --private s --released s", "'s' is in --private and in --rel")
    save("pairs.npz", counts=np.array([[3, 1, 0, 1], [1, 3, 2, 0], [0, 0, 1, 1]]))
    assert "refused, undersampled" in printed("audit --pairs pairs.npz", quick)
    mistaken("audit --pairs people.csv --private s", "--released")
    mistaken("audit --pairs people.csv --private s --released z", "'z'")
    mistaken("audit --pairs pairs.npz --private s", ".npz")
    mistaken(f"{line} --bins wage", "--bins")
    mistaken(f"{line} --permutations 0", "permutations")
    mistaken(f"{line} --permutations {10**11}", "permutations is above")
    mistaken(f"{line} --bins z=categories", "--bins is about column 'z'")


def test_counts_of_a_table(save, tmp_path):
    """The records of a table, sorted into the classes that the mapping was made with."""
    generator = np.random.default_rng(1)
    s, age = generator.choice(["yes", "no"], size=400), generator.integers(18, 80, size=400)
    town = generator.choice(["n", "s", ""], size=400)
    write(tmp_path / "people.csv", {"s": s, "age": age, "town": town})
    line = "watchdog people.csv --private s --bins age=quantiles:3 --epsilon 0.05 --out mechanism.npz --codebook-out"
    columns = "--useful age --useful town"
    mistaken(f"{line} book.json {columns}", "'town'", "is missing")
    printed(line, "book.json", columns, "--missing town=none")
    # The same table in another order, half of it, has other symbols first; they are found by their attributes.
    half = write(tmp_path / "half.csv", {"town": town[200:], "age": age[200:], "s": s[200:]})
    audit = "audit mechanism.npz --codebook book.json --counts"
    record = answered(audit, "half.csv --bootstrap 0")
    attributes = np.load("mechanism.npz")["attributes"]
    cuts = np.quantile(age, [1 / 3, 2 / 3], method="inverted_cdf")
    codes = np.stack([np.searchsorted(cuts, age, side="right"), [["n", "s", ""].index(c) for c in town]], axis=1)
    x = np.array([np.flatnonzero((attributes == code).all(axis=1))[0] for code in codes])
    counts = np.zeros((2, len(attributes)), dtype=int)
    np.add.at(counts, ((s == "yes").astype(int)[200:], x[200:]), 1)
    other = answered("audit mechanism.npz --counts", save("half.npz", counts=counts), "--bootstrap 0")
    assert record["measures"] == other["measures"]
    half.write_text("town,age,s\nsecret,30,yes\n")
    mistaken(f"{audit} half.csv", "'town'", "row 0")
    stored = dict(np.load("mechanism.npz"))
    save("few.npz", **stored | {"mechanism": np.eye(len(attributes) - 1), "attributes": attributes[1:]})
    few = run("audit few.npz --counts people.csv --codebook book.json")
    refused(few, 2, "--counts: row", "no symbol of the mapping")
    # Another book: the same columns in another order, with as many classes, would count something else.
    printed(line, "swapped.json --useful town --useful age --missing town=none")
    printed(line, "book.json", columns, "--missing town=none")
    other = run("audit mechanism.npz --counts people.csv --codebook swapped.json")
    refused(other, 2, "--codebook", "other useful columns")
    mistaken("audit mechanism.npz --counts people.csv", "--codebook")
    refused(run(audit, save("c.npz", counts=COUNTS)), 2, "--codebook")
    save("plain.npz", mechanism=np.eye(4))
    for asked in ("audit plain.npz --counts", "leakage plain.npz --joint"):
        mistaken(f"{asked} people.csv --codebook book.json", "does not say which classes")


def test_releases(files, save):
    sound = save("sound.npz", counts=np.rint(MECHANISM * 400).astype(int))
    broken = save("broken.npz", counts=np.rint(np.roll(MECHANISM, 1, axis=0) * 400).astype(int))
    quick = "--bootstrap 0 --measures mutual-information"
    line = f"audit mechanism.npz --counts counts.npz {quick} --releases"
    values = [answered(line, path)["conformity"] for path in (sound, broken)]
    assert values[0]["p_value"] > 0.1
    assert values[0]["tail"] == 1
    assert values[1]["p_value"] == 1 / 1000
    assert values[1]["tail"] < 1e-12
    assert values[1]["tables"] == 999
    save("swapped.npz", counts=COUNTS)
    mistaken(f"{line} swapped.npz", "releases has 3 rows (axis x), but the mechanism has 4")
    assert "p = 0.001" in printed(line, "broken.npz")


def test_bad_lines(files, save, problem, tmp_path):
    mistaken("audit mechanism.npz", "--counts, --joint and --pairs")
    mistaken("audit mechanism.npz --counts counts.npz --joint problem.npz", "one of")
    mistaken("audit --counts counts.npz", "MECH.npz")
    mistaken("audit mechanism.npz --pairs counts.npz", "--pairs")
    mistaken("audit mechanism.npz --counts counts.npz --private s", "--private")
    mistaken("audit mechanism.npz --joint problem.npz --held-out", "--held-out")
    mistaken("audit mechanism.npz --counts counts.npz --objective lift", "--objective is about --solution")
    mistaken("audit --pairs counts.npz --releases counts.npz", "--releases")
    mistaken("audit mechanism.npz --counts absent.npz", "absent.npz")
    refused(run("audit mechanism.npz --counts", save("f.npz", counts=COUNTS / 2)), 2, "integers")
    refused(run("audit mechanism.npz --counts", save("n.npz", counts=-COUNTS)), 2, "counts[0, 0]", "negative")
    mistaken("audit mechanism.npz --counts counts.npz --confidence 95", "confidence")
    mistaken("audit mechanism.npz --counts counts.npz --json counts.npz", "--json", "--counts")
    refused(run("audit mechanism.npz --counts", save("t.npz", counts=COUNTS.T)), 2, "mechanism")
    assert not (tmp_path / "report.json").exists()
    mistaken("audit mechanism.npz --counts counts.npz --permutations 10", "--permutations is about --pairs")
    mistaken("audit mechanism.npz --joint problem.npz --bootstrap 9", "--bootstrap is about --counts")
    mistaken("audit mechanism.npz --counts counts.npz --measures sibson", "--measures: sibson needs order")
    mistaken("audit --pairs counts.npz --show-values", "--show-values is about tables")
    mistaken("audit --pairs counts.npz --subsets 1 --permutations 9", "--permutations goes without --subsets")


def test_a_measure_that_is_named_twice_is_one(files):
    """The confidence is divided among different measures."""
    once = answered("audit mechanism.npz --counts counts.npz --measures lift --order 3")
    assert answered("audit mechanism.npz --counts counts.npz --measures lift --measures lift --order 3 3") == once
