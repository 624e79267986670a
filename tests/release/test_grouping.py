"""`fit_groups`: ordinary designs, the leakage of all of them, and what the grouping costs."""

import json

import numpy as np
import pytest

from jaxpriv.errors import IntegrityError, NotCertifiedError, ResourceError
from jaxpriv.release import GroupedEvidence, GroupedMechanism, Mechanism, fit, fit_groups, release
from jaxpriv.verifier import verify
from tests.cases import raised, refused
from tests.information import information
from tests.release.conftest import Released, csv_text, digest, packed, saved, sealed, unpacked

NAMES = ["a", "b", "c", "d"]


def people(records: int = 4000, seed: int = 5) -> dict[str, np.ndarray]:
    """S depends on a, on b a little, and on the parity of c and d."""
    rng = np.random.default_rng(seed)
    a, b, c, d = rng.integers(0, [[3], [2], [2], [2]], (4, records))
    chance = 0.2 + 0.25 * (a == 2) + 0.1 * b + 0.3 * (c == d)
    return {"a": a, "b": b, "c": c, "d": d, "s": (rng.random(records) < chance).astype(np.int64)}


@pytest.fixture(scope="module")
def table():
    return people()


@pytest.fixture(scope="module")
def apart(table):
    return fit_groups(table, private="s", groups=[["a", "b"], ["c"], ["d"]], budget=0.4)


@pytest.fixture(scope="module")
def chosen(table):
    return fit_groups(table, private="s", useful=NAMES, budget=0.4)


@pytest.fixture(scope="module")
def limited(table):
    return fit_groups(table, private="s", groups=[["a", "b"], ["c", "d"]], leakage_budget=0.01)


def of_all(found, counts) -> np.ndarray:
    """P(s, y) of the releases side by side for P(s, x) of all columns, x in lexicographic order of the classes."""
    sizes = [3, 2, 2, 2]
    codes = np.stack(np.unravel_index(np.arange(24), sizes), axis=1)
    mapping = np.ones((24, 1))
    for names, one in zip(found.groups, found.fitted, strict=True):
        x = one.mechanism.locate_codes(codes[:, [NAMES.index(name) for name in names]])
        mapping = (mapping[:, :, None] * one.mechanism.matrix()[x][:, None, :]).reshape(24, -1)
    return counts @ mapping / counts.sum()


def counted(table, rows) -> np.ndarray:
    counts = np.zeros((2, 24))
    x = np.ravel_multi_index([table[name][rows] for name in NAMES], (3, 2, 2, 2))
    np.add.at(counts, (table["s"][rows], x), 1)
    return counts


def design_rows(table) -> np.ndarray:
    """Those that `fit` designs on, by its seed."""
    total = len(table["s"])
    return np.random.default_rng(0).permutation(total)[: total // 2]


def test_the_leakage_is_that_of_the_releases_side_by_side(table, apart):
    value = information(of_all(apart, counted(table, design_rows(table))))
    assert apart.exact
    assert float(apart.leakage.lower) - 1e-12 <= value <= float(apart.leakage.upper) + 1e-12
    assert value > 1e-3 + sum(float(claim.upper) for claim in apart.apart)  # c and d tell together what neither does


def test_released_columns_have_the_joint_distribution(table, apart):
    rows = design_rows(table)
    given = {name: np.tile(table[name][rows], 50) for name in NAMES}
    found = apart.mechanism.apply(given)
    assert list(found) == NAMES
    y = np.ravel_multi_index([found[name].astype(int) for name in NAMES], (3, 2, 2, 2))
    s = np.tile(table["s"][rows], 50)
    empirical = np.zeros((2, 24))
    np.add.at(empirical, (s, y), 1 / len(s))
    names = [name for group in apart.groups for name in group]
    assert names == NAMES  # so that the outputs are in the order of the classes
    exact = of_all(apart, counted(table, rows))
    assert exact.shape == empirical.shape
    assert np.abs(empirical - exact).sum() < 5 * np.sqrt(48 / len(s))


def test_no_grouping_beats_one_mechanism_for_all(apart, chosen):
    for found in (apart, chosen):
        low, high = found.cost.optimum
        assert low <= high <= low + 1e-6
        assert found.cost.joint >= low
        assert found.cost.apart == pytest.approx(sum(float(claim.upper) for claim in found.apart))
    one = chosen.groups
    assert one == (tuple(NAMES),)  # 24 combinations
    assert chosen.cost.joint <= chosen.cost.optimum[0] + 2e-6
    assert apart.cost.joint > chosen.cost.joint + 1e-3


def test_groups_release_combinations_that_no_record_has():
    """Constant groups make 111, one column away from each record: a bound for all columns is not above that."""
    rows = np.repeat([[1, 1, 0], [1, 0, 1], [0, 1, 1]], 40, axis=0)
    table = {"s": np.repeat([0, 1, 2], 40), **dict(zip("abc", rows.T, strict=True))}
    found = fit_groups(table, private="s", groups=[["a"], ["b"], ["c"]], budget=1.0, split=1.0)
    assert found.cost.optimum[0] <= found.cost.joint < 1e-6
    assert found.cost.optimum[1] < 1e-6


def test_the_budget_is_split_at_one_price(table, apart):
    assert 0.4 - 1e-4 <= float(apart.distortion.upper) <= 0.4
    assert sum(one.mechanism.asked.target for one in apart.fitted) <= 0.4
    # No other split of the budget among these groups leaks less, as far as the groups' own leakages count.
    for other in ([0.3, 0.05, 0.05], [0.2, 0.1, 0.1]):
        leaks = [
            float(fit(table, private="s", useful=list(names), budget=own).claims["lower_bound"].lower)
            for names, own in zip(apart.groups, other, strict=True)
        ]
        assert apart.cost.apart <= sum(leaks) + 1e-4


def test_a_group_that_is_released_as_it_is_says_so_of_its_own_columns_alone(apart):
    assert [group.unchanged for group in apart.fitted] == [False, True, True]
    for names, group in zip(apart.groups, apart.fitted, strict=True):
        said = [sentence for sentence in group.statements if sentence.startswith("Every record is released")]
        assert said == [f"Every record is released with its own {names[0]}."] * group.unchanged


def test_the_population_leaks_no_more_than_its_bound(apart):
    """Its joint distribution is that of which `people` draws."""
    x = np.stack(np.unravel_index(np.arange(24), (3, 2, 2, 2)), axis=1)
    chance = 0.2 + 0.25 * (x[:, 0] == 2) + 0.1 * x[:, 1] + 0.3 * (x[:, 2] == x[:, 3])
    value = information(of_all(apart, np.stack([1 - chance, chance]) / 24))
    assert value < apart.population < value + 0.06
    assert apart.population < np.log(2)
    loose = fit_groups(people(300), private="s", groups=[["a"], ["c", "d"]], budget=0.4, confidence=0.9)
    assert loose.population > apart.population


def test_the_file_of_all_groups_gives_the_same_mechanisms_and_releases_all_columns(table, apart, tmp_path):
    design, audit = saved(apart, tmp_path)
    loaded = GroupedMechanism.load(design)
    assert loaded.to_bytes() == design.read_bytes()
    evidence = GroupedEvidence.load(audit, loaded)
    assert evidence.leakage(loaded) == (apart.leakage, apart.exact)
    caps = [float(one.guarantees["maximal-leakage"].upper) for one in loaded.parts]
    assert sum(caps) <= float(loaded.guarantees["maximal-leakage"].upper) <= sum(caps) + 1e-9
    with refused("one design is needed"):
        Mechanism.load(design)
    found = release(table, loaded, tmp_path / "out.csv", tmp_path / "receipt.json", keep_order=True)
    assert found.outputs.shape == (4000, 3)
    assert release(table, loaded, tmp_path / "2.csv", tmp_path / "2.json", keep_order=True).served == 4000
    assert (tmp_path / "2.csv").read_bytes() == (tmp_path / "out.csv").read_bytes()


def test_the_draws_of_two_groups_are_independent(table, tmp_path):
    """Of one column and its copy: equal records and mechanisms."""
    twice = {"s": table["s"], "a": table["a"], "copy": table["a"]}
    found = fit_groups(twice, private="s", groups=[["a"], ["copy"]], budget=0.4).mechanism
    many = {name: np.tile(values, 10) for name, values in twice.items()}
    one, other = release(many, found, tmp_path / "out.csv", tmp_path / "r.json", no_ledger=True).outputs.T
    x = found.parts[0].locate_codes(found.parts[0].codebook.encode_useful(many))
    equal = (found.parts[0].matrix() * found.parts[1].matrix()).sum(axis=1)[x]
    deviation = np.sqrt((equal * (1 - equal)).sum())
    assert deviation > 50
    assert abs((one == other).sum() - equal.sum()) < 6 * deviation


@pytest.mark.usefixtures("surely")
def test_the_pairs_of_every_group_are_tested_and_its_draws_against_those_of_the_others(table, limited, tmp_path):
    files = Released(tmp_path, table, limited)
    paired = files.verify(records=files.records, order=files.order)
    assert paired.paired == "order"
    assert 0 < paired.conformity.detectable < 1
    assert files.verify(records=files.records).paired is None


@pytest.mark.usefixtures("surely")
@pytest.mark.parametrize(("kind", "words"), [("unchanged", "come from the design"), ("together", "draw of group 1")])
def test_what_one_group_releases_otherwise_is_found(table, limited, tmp_path, kind, words):
    """The last group, released as it is; and with its draws given out by those of the first group."""
    files = Released(tmp_path, table, limited, keep_order=True)
    assert files.verify(records=files.records).paired == "table"
    labels = {}

    def put(values, places, others):
        values = values.copy()
        values[places] = others
        return values

    for one, y in zip(limited.mechanism.parts, files.done.outputs.T, strict=True):
        labels |= one.labels_of(y)
    if kind == "unchanged":
        labels |= {"c": table["c"], "d": table["d"]}
    else:
        for x in range(4):
            rows = np.flatnonzero(2 * table["c"] + table["d"] == x)
            given, sorted_ = (rows[np.lexsort([labels[name][rows] for name in names])] for names in ("ab", "cd"))
            labels |= {name: put(labels[name], given, labels[name][sorted_]) for name in "cd"}
    rows = zip(*(map(str, own) for own in labels.values()), strict=True)
    files.forge(csv_text([list(labels), *rows]).encode())
    with raised(IntegrityError, words):
        files.verify(records=files.records)


def test_a_column_that_is_private_too_is_in_one_group(table):
    found = fit_groups(table, private=["s", "d"], groups=[["c"], ["d"]], shared="d", budget=0.3)
    assert found.codebook.useful == ("c", "d")
    assert found.mechanism.codebook.rules["d"].labels == ("0", "1")


def test_one_ledger_knows_a_person_in_a_release_of_groups_and_in_one_of_a_design(table, apart, tmp_path):
    given = {**table, "who": np.arange(4000)}
    options = {"ledger": tmp_path / "ledger", "identity": ["who"]}
    release(given, apart.mechanism, tmp_path / "1.csv", tmp_path / "1.json", **options)
    with refused("by another design"):
        release(given, apart.fitted[0].mechanism, tmp_path / "2.csv", tmp_path / "2.json", **options)


@pytest.mark.parametrize("seed", range(3))
def test_columns_that_matter_in_combination_are_put_together(seed):
    """Of 34 records a group has at most six combinations; S is nearly always the parity of c and d."""
    rng = np.random.default_rng(seed)
    few = dict(zip(NAMES, rng.integers(0, [[3], [2], [2], [2]], (4, 34)), strict=True))
    few["s"] = ((few["c"] == few["d"]) ^ (rng.random(34) < 0.05)).astype(int)
    found = fit_groups(few, private="s", useful=NAMES, budget=0.4, split=1.0)
    assert found.groups == (("a", "b"), ("c", "d"))


def test_all_groups_together_meet_a_leakage_budget(limited):
    assert 0.009 <= float(limited.leakage.upper) <= 0.01


def test_groups_that_reveal_nothing_by_themselves_are_mixed_with_constants(tmp_path):
    c, d = np.repeat([[0, 0, 1, 1], [0, 1, 0, 1]], 50, axis=1)
    parity = {"c": c, "d": d, "s": c ^ d}
    found = fit_groups(parity, private="s", groups=[["c"], ["d"]], leakage_budget=0.1, split=1.0)
    assert all(float(claim.upper) < 1e-12 for claim in found.apart)
    assert 0.099 < float(found.leakage.upper) <= 0.1
    for one in found.fitted:
        assert one.status == "feasible"
        assert not any("released" in sentence and "own" in sentence for sentence in one.statements)
        assert one.claims["excess"].upper == "0"
        one.mechanism.save(tmp_path / "design.zip")
        assert Mechanism.load(tmp_path / "design.zip").asked == one.mechanism.asked
    together = fit_groups(parity, private="s", useful=["c", "d"], leakage_budget=0.1, split=1.0)
    assert together.groups == (("c", "d"),)
    assert float(together.distortion.upper) < float(found.distortion.upper)
    with raised(NotCertifiedError, "float64"):
        fit_groups(parity, private="s", groups=[["c"], ["d"]], leakage_budget=0.0, split=1.0)


def test_each_design_is_released_and_verified_as_any_other(table, apart, tmp_path):
    for place, one in enumerate(apart.fitted):
        folder = tmp_path / str(place)
        folder.mkdir()
        files = Released(folder, table, one, keep_order=True)
        assert len(files.rows) == 4001
        assert verify(files.design, private=files.audit).claims


def test_a_table_that_is_too_large_for_fit_is_designed_in_groups():
    rng = np.random.default_rng(1)
    s = rng.integers(0, 2, 6000)
    columns = {f"c{k}": np.where(rng.random(6000) < 0.3, s, rng.integers(0, 3, 6000)) for k in range(9)}
    given = {"s": s, **columns}
    with raised(ResourceError, "fit_groups"):
        fit(given, private="s", useful=list(columns), budget=0.5, sparse=True)
    groups = [[f"c{k}" for k in range(j, j + 3)] for j in (0, 3, 6)]
    found = fit_groups(given, private="s", groups=groups, budget=0.5)
    assert found.exact
    assert found.cost.optimum is None
    assert 0 < float(found.leakage.lower) <= float(found.leakage.upper) < np.log(2)
    assert "leakage together" in str(found)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"useful": NAMES}, "exactly one of budget"),
        ({"useful": NAMES, "groups": [NAMES], "budget": 0.1}, "exactly one of useful"),
        ({"groups": [["a", "b"], ["b"]], "budget": 0.1}, "named once"),
        ({"groups": [["a"], []], "budget": 0.1}, "a column each"),
        ({"useful": NAMES, "budget": 0.1, "weights": {"age": 2.0}}, "'age'"),
        ({"useful": NAMES, "budget": -0.1}, "budget"),
    ],
)
def test_what_is_wrong_is_named(table, arguments, message):
    with refused(message):
        fit_groups(table, private="s", **arguments)


def test_groups_of_too_many_combinations_are_refused_before_any_is_designed(table):
    few, seen = {name: values[:100] for name, values in table.items()}, []
    with refused("50 rows for the design make"):
        fit_groups(few, private="s", groups=[["d"], ["a", "b", "c"]], budget=0.1, progress=seen.append)
    a, b = np.divmod(np.arange(5000), 70)
    wide = {"a": a, "b": b, "d": b % 2, "s": a % 2}
    options = {"budget": 0.1, "sparse": True, "split": 1.0, "progress": seen.append}
    with raised(ResourceError, "5000 useful symbols make a table"):
        fit_groups(wide, private="s", groups=[["d"], ["a", "b"]], **options)
    assert {one.solver for one in seen} <= {"reading the records"}


def test_more_groups_than_a_file_holds_are_refused(tmp_path):
    names = [f"x{i}" for i in range(255)]
    path = tmp_path / "wide.csv"
    path.write_text("\n".join(",".join(row) for row in (["s", *names], *(["0"] * 256, ["1"] * 256) * 10)) + "\n")
    with refused("groups: a design has at most 254"):
        fit_groups(path, private="s", groups=[[name] for name in names], budget=0.1)


def regrouped(found, *parts, **stated) -> bytes:
    """The file of these designs in place of the groups, with hashes that are right."""
    own = "groups.json"
    record = json.loads(unpacked(found.mechanism.to_bytes())[own])
    del record["sha256"]
    members = {f"group_{place}.zip": part.mechanism.to_bytes() for place, part in enumerate(parts, 1)}
    record |= {"members": {name: digest(content) for name, content in members.items()}, **stated}
    return packed({own: sealed(record), **members})


def test_designs_that_are_no_groups_of_one_table_are_refused(table, apart):
    first, second, third = apart.fitted
    other = {
        name: fit(table, private="s", useful=["d"], **asked)
        for name, asked in {
            "form": {"leakage_budget": 1e-4},
            "measure": {"budget": 0.1, "leakage": "maximal-leakage"},
            "rule": {"budget": 0.1, "unseen": "suppress"},
        }.items()
    }
    for parts, words in (
        ((first, second, second), "release one column"),
        ((first, second, other["form"]), "another measure or problem"),
        ((first, second, other["measure"]), "another measure or problem"),
        ((first, second, other["rule"]), "other private columns or another rule"),
        ((second, third), "not the sum"),
    ):
        with raised(IntegrityError, words):
            GroupedMechanism.from_bytes(regrouped(apart, *parts))
