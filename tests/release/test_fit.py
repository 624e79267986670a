"""From a table to a mechanism: what is counted where, what is refused, and costs by column."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from jaxpriv.errors import InfeasibleError, IntegrityError, NotCertifiedError
from jaxpriv.leakage import MutualInformation
from jaxpriv.release import Evidence, Mechanism, fit
from jaxpriv.release.grouped_symbols import certified_groups
from jaxpriv.statistics.tables import Categories, Edges, Quantiles, column_distortion, count_table
from jaxpriv.verifier import verify
from jaxpriv.verifier.designs import read_audit, read_design
from tests.cases import raised, refused, value_of
from tests.release.conftest import COLUMNS, resealed, saved


def test_design_and_audit_share_no_record(table, fitted):
    evidence = fitted.evidence
    assert evidence.counts.sum() == evidence.held_out.sum() == len(table["age"]) / 2
    whole = count_table(table, codebook=fitted.mechanism.codebook).dataset
    assert_array_equal(evidence.counts + evidence.held_out, whole.counts)
    assert fitted.audit.holds_for == "this mechanism"
    assert fitted.audit.assumptions.records == len(table["age"]) / 2


def test_another_seed_is_another_split_and_the_same_one_is_the_same(table, fitted):
    again = fit(table, **COLUMNS, budget=0.15)
    assert_array_equal(again.evidence.counts, fitted.evidence.counts)
    largest = [fit(table, **COLUMNS, budget=0.15, seed=2**53 - 1).evidence.counts for _ in range(2)]
    assert_array_equal(*largest)
    other = fit(table, **COLUMNS, budget=0.15, seed=1)
    assert (other.evidence.counts.sum(axis=0) != fitted.evidence.counts.sum(axis=0)).any()


def test_without_a_split_there_is_no_audit(table):
    found = fit(table, **COLUMNS, target_leakage=0.3, split=1.0)
    assert found.audit is None
    assert found.evidence.held_out is None
    assert found.evidence.counts.sum() == len(table["age"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"budget": None}, "exactly one"),
        ({"disclosure": 0.3}, "exactly one"),
        ({"budget": -1.0}, "budget"),
        ({"budget": float("nan")}, "budget"),
        ({"split": 0.0}, "split"),
        ({"split": 1.5}, "split"),
        ({"unseen": "drop"}, "unseen"),
        *(({"resolution": bad}, "resolution") for bad in (7, 63, 32.0, True)),
        ({"leakage": "none"}, "unknown|known"),
        ({"private": "income", "useful": ["income", "age"]}, "private and useful"),
        ({"useful": ["age", "absent"]}, "absent"),
        ({"rules": {}}, "fewer than 5"),
        ({"distortion": {"income": "changed"}}, "not among the useful"),
        ({"distortion": {"town": "absolute"}}, "no number"),
        ({"distortion": {"town": "far"}}, "must be one of"),
        ({"weights": {"town": -1.0}}, "weight of column 'town'"),
        ({"confidence": float("nan")}, "confidence"),
        *(({"tol": bad}, "tol") for bad in (0.0, -1.0, float("nan"), "small")),
        *(({"budget": None, "disclosure": 0.1, "resolution": bad}, "resolution") for bad in (7, "32", 32.0, True)),
        ({"after": 3}, "after must be of type Mechanism"),
        *(({"seed": bad}, "seed") for bad in (-1, 0.5, None, True, "1", float("nan"))),
        *(
            ({name: bad}, f"{name} must be a mapping")
            for name in ("rules", "distortion", "weights")
            for bad in ("age", ["age"], 3)
        ),
        *(({name: bad}, f"{name} must be True or False") for name in ("sparse", "population") for bad in ("no", 1)),
        *(({"leakage": bad}, "leakage measure") for bad in (["lift"], None, 3)),
        *(({"unseen": bad}, "unseen must be one of") for bad in (["refuse"], None, 3)),
        *(({"leakage_tolerance": bad}, "leakage_tolerance") for bad in ({}, "", "0.1", -1.0)),
        *(({"seed": large}, r"seed.*below 2\^53") for large in (2**53, 2**64 + 1, 1e300)),
    ],
)
def test_bad_input_is_refused(table, change, words):
    with refused(words):
        fit(table, **{**COLUMNS, "budget": 0.4, **change})


def test_what_cannot_be_met_is_infeasible(table):
    with pytest.raises(InfeasibleError):
        fit(table, **COLUMNS, disclosure=50.0)


def test_costs_of_columns_add_up():
    data = {
        "age": np.arange(60) % 6 * 10.0,
        "size": np.arange(60) % 3,
        "town": np.array(["n", "s"], dtype=object)[np.arange(60) % 2],
        "s": np.arange(60) // 30,
    }
    rules = {"age": Edges([-np.inf, 10, 30, np.inf], other=None)}
    book = count_table(data, private="s", useful=["age", "size", "town"], rules=rules, sparse=True).codebook
    codes = np.array([[a, b, c] for a in range(3) for b in range(3) for c in range(2)])
    town = np.array([[0.0, 5.0], [7.0, 0.0]])
    d = column_distortion(
        book, codes, kinds={"age": "absolute", "size": "squared", "town": town}, weights={"age": 0.5, "size": 2.0}
    )
    ages, sizes = np.array([10.0, 20.0, 30.0]), np.arange(3.0)
    for i, (a, b, c) in enumerate(codes):
        for j, (p, q, r) in enumerate(codes):
            expected = 0.5 * abs(ages[a] - ages[p]) + 2 * (sizes[b] - sizes[q]) ** 2 + town[c, r]
            assert d[i, j] == pytest.approx(expected)
    changed = column_distortion(book, codes)
    assert_array_equal(changed, (codes[:, None] != codes[None]).sum(axis=2))


def test_classes_without_a_value_are_as_far_as_can_be():
    data = {"n": np.array(["1", "4", "9", ""] * 9, dtype=object), "s": np.arange(36) % 2}
    book = count_table(data, private="s", useful="n", rules={"n": Categories(missing="none")}).codebook
    d = column_distortion(book, np.arange(4)[:, None], kinds={"n": "absolute"})
    assert_array_equal(d, [[0, 3, 8, 8], [3, 0, 5, 8], [8, 5, 0, 8], [8, 8, 8, 0]])


def test_measures_other_than_information(table):
    found = fit(table, **COLUMNS, leakage="maximal-leakage", budget=0.3)
    assert found.claims["excess"].upper == "0"
    proved, leaked = float(found.claims["lower_bound"].lower), float(found.claims["leakage"].upper)
    assert leaked - 1e-6 <= proved <= leaked
    assert found.evidence.duals["scores"].ndim == 3
    for name, form in (("max-lift", None), ("ldp", None), ("mutual-information", "worst")):
        found = fit(table, **COLUMNS, leakage=name, form=form, budget=0.3)
        value, proved = float(found.claims["value"].upper), float(found.claims["lower_bound"].lower)
        assert value - 2e-6 <= proved <= value
        assert value > 0.001
    limited = fit(table, **COLUMNS, leakage="max-lift", leakage_budget=0.05)
    assert limited.claims["excess"].upper == "0"
    assert float(limited.claims["gap"].upper) <= 2e-6 < float(limited.claims["lower_bound"].lower)
    other = fit(table, **COLUMNS, leakage="sibson", order=2.0, budget=0.3)
    assert "lower_bound" not in other.claims  # the verifier proves none for this measure


# -- limits for the population ---------------------------------------------------------------------

POPULATION = np.array([[0.22, 0.13, 0.10, 0.05], [0.05, 0.10, 0.15, 0.20]])


def sample(records: int, seed: int) -> dict[str, np.ndarray]:
    cells = np.random.default_rng(seed).choice(8, size=records, p=POPULATION.ravel())
    return {"s": cells // 4, "x": cells % 4}


def test_a_limit_holds_for_the_population():
    """Of 12 samples hardly any may choose a mapping that leaks more than the limit: each with probability 0.05."""
    leaks, over = [], 0
    for seed in range(12):
        found = fit(sample(4000, seed), private="s", useful="x", leakage_budget=0.08, population=True, seed=seed)
        w = found.mechanism.matrix()
        leaks.append(value_of(MutualInformation(), POPULATION, w))
        assert found.limit.upper <= found.limit.limit == 0.08
        assert "0.08 nats holds for the population" in found.lines("bits")["target"]
        assert found.mechanism.asked.target == pytest.approx(0.08 * found.limit.rung / 12)
        assert found.audit is None
        assert found.evidence.held_out is None
        over += leaks[-1] > 0.08
    assert over <= 6  # chance below 1e-6 at a failure probability of 0.05
    assert np.median(leaks) > 0.01  # and not by releasing nothing


def test_what_cannot_be_certified_for_the_population():
    few = sample(200, 0)
    with raised(NotCertifiedError, "cannot certify any mapping"):
        fit(few, private="s", useful="x", leakage_budget=0.01, population=True)
    for change, words in (
        ({"budget": 0.1}, "leakage_budget"),
        ({"leakage_budget": 0.1, "split": 1.0}, "held-out"),
        ({"leakage_budget": 0.1, "confidence": 1.0}, "confidence"),
    ):
        with refused(words):
            fit(few, private="s", useful="x", population=True, **change)


def test_only_a_fit_that_held_records_out_says_that_it_did(table):
    for options, said in (({}, True), ({"split": 1.0}, False)):
        found = fit(table, **COLUMNS, budget=0.15, **options)
        assert any("held out" in sentence for sentence in found.statements) == said
    given = fit(table, codebook=found.codebook, budget=0.15)
    assert not any("classes were taken" in sentence for sentence in given.statements)


def test_the_mapping_is_a_function_of_the_records_of_the_design(table):
    """Other held-out records, with a combination that the design has not: the same rows, the same outputs."""
    first = fit(table, **COLUMNS, budget=0.15)
    order = np.random.default_rng(0).permutation(len(table["age"]))[len(table["age"]) // 2 :]
    changed = {name: values.copy() for name, values in table.items()}
    changed["income"][order] = "low"
    second = fit(changed, **COLUMNS, budget=0.15)
    assert_array_equal(first.mechanism.table, second.mechanism.table)
    assert_array_equal(first.mechanism.released, second.mechanism.released)


def grouped_population(private):
    rng = np.random.default_rng(2)
    tilt = np.exp(0.7 * rng.normal(size=(private, 40)))
    return rng.dirichlet(np.full(40, 2.0)) * tilt / tilt.sum(axis=0)


@pytest.mark.parametrize(("records", "private", "least"), [(2000, 2, 2), (20_000, 2, 6), (20_000, 3, 2)])
def test_groups_of_the_watchdog_hold_their_limit_in_the_population(records, private, least):
    """40 samples: the lift of the population is above the limit in few of them, and the groups tell something."""
    joint, limit = grouped_population(private), 0.4
    rng, above, outputs = np.random.default_rng(0), 0, []
    for _ in range(40):
        halves = rng.multinomial(records // 2, joint.ravel(), size=2).reshape(2, *joint.shape)
        found = certified_groups(*halves, limit, 0.05)
        merged = np.zeros((private, int(found.group.max()) + 1))
        np.add.at(merged, (slice(None), found.group), joint)
        lift = np.abs(np.log(merged / merged.sum(axis=0) / joint.sum(axis=1, keepdims=True))).max()
        above += lift > limit
        assert found.upper <= limit
        outputs.append(len(merged[0]))
    assert above <= 8  # at 0.05 that many of 40 have probability 3e-4 at the limit
    assert np.median(outputs) >= least


def test_a_watchdog_for_the_population_is_a_design(table, tmp_path):
    found = fit(table, **COLUMNS, target_leakage=0.9, population=True)
    assert found.limit.upper <= 0.9
    assert found.audit is None
    assert set(np.unique(found.mechanism.table)) == {0, 2**62}  # the group of a record, no draw
    assert float(found.claims["leakage"].upper) <= 0.9
    design, audit = saved(found, tmp_path)
    verify(design, private=audit)
    with raised(NotCertifiedError, "held-out records cannot certify a lift"):
        fit(table, **COLUMNS, target_leakage=0.01, population=True)
    with refused("split below 1"):
        fit(table, **COLUMNS, target_leakage=0.9, population=True, split=1.0)


def test_a_broken_number_is_named_by_its_row_of_the_table_whatever_the_split():
    ages = [str(20 + i % 50) for i in range(40)]
    ages[29] = "SECRET"
    records = {"income": ["low", "high"] * 20, "age": ages}
    for seed in range(3):
        with refused(r"column 'age', row 29 \(from 0\)") as caught:
            fit(records, private=["income"], useful=["age"], rules={"age": Quantiles(4)}, budget=0.2, seed=seed)
        assert "SECRET" not in str(caught.value)


def test_progress_names_the_stages_and_a_limit_of_time_ends_the_search(table):
    """A design in time meets its target; for the population the sequence ends early, and what it has is certified."""
    records = []
    with pytest.warns(UserWarning, match="Every record is released as it is"):  # what needs no iteration
        late = fit(table, **COLUMNS, budget=0.15, time_limit=0, progress=records.append)
    assert [record.solver for record in records if not record.step and not np.isfinite(record.gap)] == [
        "reading the records",
        "designing",
        "computing every number again",
    ]
    assert late.status == "best_known"
    assert float(late.claims["distortion"].upper) <= 0.15
    assert late.unchanged
    limited = fit(table, **COLUMNS, leakage_budget=0.05, population=True, time_limit=0)
    assert limited.limit.rung == 1
    assert limited.limit.upper <= 0.05
    with refused("time_limit"):
        fit(table, **COLUMNS, budget=0.15, time_limit=-1)


@pytest.mark.parametrize("target", [{"budget": 0.0}, {"leakage_budget": 5.0}, {"target_leakage": 9.0}])
def test_where_x_itself_meets_the_target_a_warning_says_so(table, target):
    with pytest.warns(UserWarning, match="Every record is released as it is"):
        found = fit(table, **COLUMNS, **target)
    assert found.unchanged
    assert found.statements[0].startswith("Every record is released as it is")


def scattered(most: int) -> dict[str, np.ndarray]:
    """Records of two columns of so many values, of which one is 0 for a private class."""
    rng = np.random.default_rng(3)
    s = rng.integers(0, 2, 400)
    return {"s": s, "a": np.where(s == 0, 0, rng.integers(0, most, 400)), "b": rng.integers(0, most, 400)}


def test_a_combination_without_a_record_of_the_design_is_suppressed_as_later_ones_are():
    """Else the audit would bound another mapping than that of later records: the row of a combination would depend on
    whether a record held out has it.
    """
    data = scattered(9)
    asked = {"private": "s", "useful": ["a", "b"], "sparse": True}
    for target in (
        {"budget": 0.05},
        {"leakage_budget": 0.6, "population": True},
        {"target_leakage": 2.0, "population": True},
    ):
        found = fit(data, **asked, **target, unseen="suppress")
        seen = found.evidence.counts.any(axis=0)
        assert not seen.all()
        matrix = found.mechanism.matrix()
        assert_allclose(matrix[~seen], np.tile(matrix[seen].mean(axis=0), ((~seen).sum(), 1)), rtol=0, atol=1e-15)
        assert_allclose(matrix.mean(axis=0), matrix[seen].mean(axis=0), rtol=0, atol=1e-15)
        assert any("is released as one that is drawn evenly" in text for text in found.statements)


def test_what_a_later_record_is_released_as_depends_on_no_record_held_out(tmp_path):
    """The nearest symbol was searched among those too that only records held out have."""
    rng = np.random.default_rng(3)
    data = {"s": rng.integers(0, 2, 300), **{name: rng.integers(0, 6, 300) for name in "abc"}}
    order = np.random.default_rng(0).permutation(300)  # the split of seed 0
    same = {name: values.copy() for name, values in data.items()}
    for values in same.values():
        values[order[150:]] = values[order[:150]]
    later = dict(zip("abc", np.indices((6, 6, 6)).reshape(3, -1), strict=True))
    asked = {"private": "s", "useful": list("abc"), "sparse": True, "unseen": "nearest", "budget": 0.05}
    found = [fit(table, **asked) for table in (data, same)]
    first, second = (each.mechanism for each in found)
    assert first.unknown(first.codebook.encode_useful(later)).sum() > 10
    assert_array_equal(first.absent, np.flatnonzero(~found[0].evidence.counts.any(axis=0)))
    assert len(first.absent) > 5
    assert second.absent == ()
    assert_array_equal(*(each.matrix()[each.symbols(later)] for each in (first, second)))
    design, audit = saved(found[0], tmp_path)
    read = Mechanism.load(design)
    assert_array_equal(read.symbols(later), first.symbols(later))
    assert read.to_bytes() == first.to_bytes()
    Evidence.load(audit, read)
    for absent, held in (
        ([*first.absent[1:], first.absent[0]], "absent are not the places"),
        ([*first.absent, 10**6], "absent are not the places"),
        (list(range(len(first.useful))), "absent are not the places"),
        (list(first.absent[1:]), None),
    ):
        forged = resealed(design.read_bytes(), lambda record, absent=absent: record.update(absent=absent))
        if held is None:
            other = read_design(forged, "the design")
            content = resealed(audit.read_bytes(), lambda record, other=other: record.update(design=other.sha256))
            with raised(IntegrityError, "records of symbols that are absent"):
                read_audit(content, other, "the audit")
        else:
            with raised(IntegrityError, held):
                read_design(forged, "the design")


@pytest.mark.parametrize("sides", [("day", "town"), ("income", "day")], ids=["private", "useful"])
def test_a_class_of_most_records_is_named(table, sides):
    """Where rare values are merged the numbers are about one class, and a small leakage says little."""
    private, useful = sides
    days = np.where(np.arange(1200) < 150, "first", np.char.add("d", (np.arange(1200) % 500).astype(str)))
    given = table | {"day": days.astype(object)}
    found = fit(given, private=private, useful=useful, rules={"day": Categories(least=100)}, budget=0.05)
    (said,) = [sentence for sentence in found.statements if "merges" in sentence]
    counted = found.evidence.counts.sum(axis=int(private == "day"))
    assert said.endswith(
        "% of the records of the design are of the class 'other' of column 'day', which merges its "
        "other values: the numbers say little about these."
    )
    assert float(said.split()[0]) == pytest.approx(100 * max(counted) / 600, abs=0.1)
    half = Categories(other="rest", values=[f"d{day}" for day in range(500)])
    assert not any(
        "merges" in one
        for one in fit(given, private=private, useful=useful, rules={"day": half}, budget=0.05, sparse=True).statements
    )
    alike = Categories(other="rest", values=["first", "First"])
    found = fit(given, private=private, useful=useful, rules={"day": alike}, budget=0.05, sparse=True)
    assert any(sentence.startswith("Column 'day': 1 of its 3 classes differ") for sentence in found.statements)


def test_after_an_earlier_design_the_mean_is_that_of_the_symbols_which_its_draw_leaves():
    """What `release` gives a record that it suppresses: the row of a symbol from the posterior of an even one."""
    data = scattered(5)
    earlier = fit(data, private="s", useful=["a", "b"], sparse=True, budget=0.1, unseen="suppress").mechanism
    mechanism = (found := fit(data, private="s", after=earlier, budget=0.05, unseen="suppress")).mechanism
    seen = found.evidence.counts.any(axis=0)
    assert not seen.all()
    drawn = np.array(earlier.drawn, dtype=float)
    rows = (mechanism.table / 2.0**62).reshape(*drawn.shape, -1)
    possible = drawn[seen].any(axis=0)
    mean = np.einsum("xz,xzy->zy", drawn[seen], rows[seen])[possible] / drawn[seen].sum(axis=0)[possible, None]
    for row in rows[~seen]:
        assert_allclose(row[possible], mean, rtol=0, atol=1e-14)


@pytest.mark.parametrize("within", [0.0, 0.01])
def test_a_release_may_keep_the_marginal(table, fitted, within):
    """From the integer table: what is expected of it is as near to the records of the design as asked for."""
    found = fit(table, **COLUMNS, budget=0.15, marginal=within)
    counts = found.evidence.counts.sum(axis=0)
    moved = np.maximum(counts @ found.mechanism.matrix() - counts, 0.0).sum() / counts.sum()
    assert moved <= max(within, 1e-9)
    assert found.status == "optimal"
    assert found.claims["excess"].upper == "0"
    low, high = map(
        float, re.search(r"the best has a leakage between (\S+) and (\S+) nats,", found.statements[0]).groups()
    )
    assert float(found.claims["lower_bound"].lower) <= low <= float(found.claims["leakage"].upper) <= high + 1e-6
    assert float(found.claims["leakage"].upper) > float(fitted.claims["leakage"].upper) + 1e-6
    with refused("marginal goes with `budget`"):
        fit(table, **COLUMNS, leakage_budget=0.1, marginal=within)
