"""A second release of the same records: what each coalition of receivers has is computed, limited, stated, verified."""

import json
import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import jaxpriv as jp
from jaxpriv._runtime.clock import Clock
from jaxpriv.errors import InfeasibleError, InputError, IntegrityError, ResourceError
from jaxpriv.release import Mechanism, fit, release
from jaxpriv.release.following import least_after
from jaxpriv.statistics.tables import Edges
from jaxpriv.verifier import verify
from jaxpriv.verifier.claims import Measure
from jaxpriv.verifier.monte_carlo import conformity
from jaxpriv.verifier.sequences import leakages
from tests.cases import drawn_joint, files_end_at, raised, refused, thorough
from tests.information import information
from tests.release.conftest import COLUMNS, flipped, packed, resealed, saved, unpacked, write
from tests.verifier.conftest import ONE, integers


@pytest.fixture(scope="module")
def other(table):
    """A second design of the same classes."""
    return fit(table, **COLUMNS, budget=0.4)


@pytest.fixture
def people(tmp_path, table):
    return write(tmp_path / "people.csv", {"id": range(1200), **table})


def paths(folder, name):
    return folder / f"{name}.csv", folder / f"{name}.json"


@pytest.fixture
def releasing(tmp_path, people):
    """`releasing(name, fitted)`: the people released by a design into files NAME.*, with one ledger that knows them."""

    def made(name, fitted, records=people, **options):
        options = {"ledger": tmp_path / "shared", "identity": ["id"], **options}
        return release(records, fitted.mechanism, *paths(tmp_path, name), **options)

    return made


def by_force(counts, earlier, rows, seen):
    """I(S; what is seen) in nats, from the joint of every (s, z, y)."""
    counts, earlier = np.array(counts, dtype=float), np.array(earlier, dtype=float) / ONE
    mapping = np.array(rows, dtype=float).reshape(*earlier.shape, -1) / ONE
    joint = np.einsum("sx,xz,xzy->szy", counts / counts.sum(), earlier, mapping)
    hidden = tuple(axis for axis, one in zip((1, 2), seen, strict=True) if not one)
    return information(joint.sum(axis=hidden).reshape(len(counts), -1))


@pytest.mark.parametrize("seed", range(6))
def test_every_coalition_has_what_brute_force_gives(seed):
    rng = np.random.default_rng(seed)
    s, x, z, y = rng.integers(2, 5, 4)
    counts = rng.integers(0, 9, (s, x)).tolist()
    earlier, rows = (
        integers(rng.dirichlet(np.full(outputs, 0.4), inputs)).tolist() for inputs, outputs in ((x, z), (x * z, y))
    )
    found = leakages(counts, earlier, rows, Measure("mutual-information"))
    for name, seen in (("earlier", (True, False)), ("alone", (False, True)), ("together", (True, True))):
        expected = by_force(counts, earlier, rows, seen)
        assert float(found[name].lower) - 1e-12 <= expected <= float(found[name].upper) + 1e-12
        assert float(found[name].upper) - float(found[name].lower) < 1e-10


@pytest.mark.usefixtures("surely")
def test_a_second_release_has_numbers_in_place_of_a_refusal(tmp_path, releasing, fitted, other):
    releasing("first", fitted)
    with refused(r"by another design.*`after`.*`limit`"):
        releasing("second", other)
    after = {"after": fitted.mechanism, "evidence": other.evidence}
    with refused(r"limit: receivers of both would have .* more than 0.01; nothing"):
        releasing("second", other, **after, limit=0.01)
    assert not (tmp_path / "second.csv").exists()
    tried = releasing("tried", other, **after, limit=0.7)
    assert tried.served == 0
    most = max(float(claim.upper) for claim in tried.disclosed.leakage.values())
    done = releasing("second", other, **after, limit=most * (1 + 1e-9))
    stated = json.loads((tmp_path / "second.json").read_text())
    assert stated["version"] == 3
    assert json.loads((tmp_path / "tried.json").read_text())["after"]["limit"] == "0.7"
    assert stated["after"]["design"] == fitted.mechanism.sha256
    counts = other.evidence.counts
    joint = np.einsum("sx,xz,xy->szy", counts / counts.sum(), fitted.mechanism.matrix(), other.mechanism.matrix())
    for name, axes in (("earlier", 2), ("alone", 1), ("together", None)):
        expected = information((joint if axes is None else joint.sum(axis=axes)).reshape(len(counts), -1))
        assert float(done.disclosed.leakage[name].upper) == pytest.approx(expected, abs=1e-12)
        assert expected <= float(stated["after"]["leakage"][name]) <= expected * 1.01
        assert float(stated["after"]["leakage"][name]) <= float(stated["after"]["limit"])
    # Again: both keep their draws, whichever release states the other.
    again = releasing("again", other, **after, limit=0.7)
    assert (again.served, again.elsewhere) == (1200, 0)
    assert (again.outputs == done.outputs).all()
    assert releasing("third", fitted).served == 1200
    assert releasing("fourth", other).served == 1200


def test_a_third_design_is_refused_that_the_release_does_not_state(tmp_path, releasing, every, fitted, other):
    after = {"after": fitted.mechanism, "evidence": other.evidence, "limit": 0.7}
    releasing("1", fitted)
    releasing("2", other, **after)
    third = every["leakage-budget"]
    with refused("by another design"):
        releasing("3", third, **(after | {"evidence": third.evidence}))


@pytest.fixture
def files(tmp_path, people, fitted, other):
    fitted.mechanism.save(tmp_path / "earlier.zip")
    saved(other, tmp_path)
    release(
        people,
        other.mechanism,
        *paths(tmp_path, "out"),
        after=fitted.mechanism,
        evidence=other.evidence,
        limit=0.7,
        order_out=tmp_path / "order.zip",
    )
    return tmp_path


@pytest.mark.usefixtures("surely")
def test_the_verifier_computes_the_statement_again(files, people, every):
    given = {"design": files / "design.zip", "released": files / "out.csv"}
    public = verify(files / "out.json", after=files / "earlier.zip", **given)
    assert not public.not_checked
    assert any("together agrees with both designs" in sentence for sentence in public.checked)
    owner = verify(
        files / "out.json",
        after=files / "earlier.zip",
        private=files / "audit.zip",
        records=people,
        order=files / "order.zip",
        **given,
    )
    assert float(owner.claims["leakage_together"].upper) > float(owner.claims["leakage_alone"].upper)
    assert "leakage_together" in owner.text
    alone = verify(files / "out.json", **given)
    assert alone.not_checked[0].startswith("what the receivers of two releases have together")
    every["leakage-budget"].mechanism.save(files / "third.zip")
    with raised(IntegrityError, "after another design"):
        verify(files / "out.json", after=files / "third.zip", **given)
    with refused("after goes with the receipt"):
        verify(files / "design.zip", after=files / "earlier.zip")


@pytest.mark.parametrize("place", ["leakage", "guarantees", "limit", "design"])
def test_a_statement_that_was_changed_is_refused(files, place):
    edits = {
        "leakage": lambda after: after["leakage"].update(together="0.0001"),
        "guarantees": lambda after: after["guarantees"]["together"]["maximal-leakage"].update(upper="0.1"),
        "limit": lambda after: after.update(limit="0.001"),
        "design": lambda after: after.update(design="0" * 64),
    }
    receipt = (files / "out.json").read_bytes()
    (files / "out.json").write_bytes(resealed(receipt, lambda record: edits[place](record["after"])))
    with raised(IntegrityError, r"out\.json"):
        verify(
            files / "out.json",
            design=files / "design.zip",
            after=files / "earlier.zip",
            private=files / "audit.zip",
        )


def test_what_does_not_go_together_is_refused(tmp_path, table, people, every, fitted, other):
    given = {"after": fitted.mechanism, "evidence": other.evidence, "limit": 0.7}
    coarse = fit(table, private="income", useful=["town"], budget=0.1)
    for edit, words in (
        ({"limit": None}, "after needs a `limit`"),
        ({"evidence": None}, "after needs a `limit` and the evidence"),
        ({"limit": -1.0}, "limit"),
        ({"evidence": fitted.evidence}, "another mechanism"),
        ({"evidence": 3}, "evidence must be of type"),
        ({"after": 3}, "after must be of type"),
        ({"after": other.mechanism}, "the design itself"),
        ({"after": coarse.mechanism}, "other useful columns"),
        ({"after": every["disclosure"].mechanism, "limit": 0.0}, "limit: receivers of both"),
        ({"after": None}, "go with `after`"),
    ):
        with raised((InputError, IntegrityError), words):
            release(people, other.mechanism, *paths(tmp_path, "out"), **(given | edit))
    assert not list(tmp_path.glob("*.json"))
    assert not list(tmp_path.glob("private-*"))


@pytest.mark.parametrize("looks", [False, True])
def test_a_second_release_that_finds_a_full_disk_goes_on_with_its_draws(
    tmp_path, table, releasing, fitted, other, following, looks
):
    """The released file is larger than what is left after the ledger, by a column that is kept."""
    second = following if looks else other
    people = {"id": np.arange(1200), "note": np.full(1200, "x" * 200, object), **table}
    asked = {"records": people, "keep": ["note"], "evidence": second.evidence}
    asked |= {} if looks else {"after": fitted.mechanism, "limit": 0.7}
    releasing("first", fitted, people)
    with files_end_at(200_000), raised(ResourceError, "too large"):
        releasing("second", second, **asked)
    assert not (tmp_path / "second.csv").exists()
    drawn = (tmp_path / "shared").read_bytes()
    assert releasing("second", second, **asked).served == 1200
    assert (tmp_path / "shared").read_bytes() == drawn


# -- designs that look at the earlier draws ---------------------------------------------------------


@pytest.fixture(scope="module")
def following(table, fitted):
    return fit(table, private="income", after=fitted.mechanism, leakage_budget=0.03)


@pytest.mark.parametrize("target", [{"leakage_budget": 0.03}, {"budget": 0.3}])
def test_a_design_after_an_earlier_one_is_certified(tmp_path, table, fitted, other, following, target):
    found = following if "leakage_budget" in target else fit(table, private="income", after=fitted.mechanism, **target)
    assert found.status == "optimal"
    counts, earlier = found.evidence.counts, fitted.mechanism.table.tolist()
    for name, seen in (("leakage_earlier", (True, False)), ("leakage_alone", (False, True)), ("leakage", (True, True))):
        expected = by_force(counts.tolist(), earlier, found.mechanism.table.tolist(), seen)
        assert float(found.claims[name].upper) == pytest.approx(expected, abs=1e-12)
    assert found.claims["excess"].upper == "0"
    assert float(found.claims["gap"].upper) < 2e-6
    # The optimum of the problem in float64, by the same program without rounding, lies in the interval.
    joint, costs = counts / counts.sum(), found.mechanism.distortion
    problem = jp.sequential_release(joint, fitted.mechanism.matrix(), costs, **target)
    best = float(jp.solve(problem).value)
    assert float(found.claims["lower_bound"].lower) - 1e-6 <= best <= float(found.claims["value"].upper) + 1e-6
    if "budget" in target:  # an independent release of no less distortion discloses more
        more = joint @ np.einsum("xz,xy->xzy", fitted.mechanism.matrix(), other.mechanism.matrix()).reshape(
            len(costs), -1
        )
        assert float(found.claims["leakage"].upper) < information(more)
    design, audit = saved(found, tmp_path)
    again = Mechanism.load(design)
    assert again.to_bytes() == found.mechanism.to_bytes()
    assert again.earlier.sha256 == fitted.mechanism.sha256
    assert verify(design, private=audit).claims == found.claims
    assert np.allclose(again.matrix().sum(axis=1), 1.0)


def test_a_limit_for_the_new_receivers_alone_is_met_too(table, fitted, following):
    """Its bound is stated of all mechanisms, and its own interval in words; a budget of both that is no limit here."""
    found = fit(table, private="income", after=fitted.mechanism, leakage_budget=0.03, alone=0.005, tol=1e-3)
    counts, earlier, rows = found.evidence.counts.tolist(), fitted.mechanism.table.tolist(), found.mechanism.table
    assert by_force(counts, earlier, rows.tolist(), (False, True)) <= 0.005 + 1e-12
    assert by_force(counts, earlier, rows.tolist(), (True, True)) <= 0.03 + 1e-12
    assert found.status == "optimal"
    value, least = float(found.claims["distortion"].upper), float(following.claims["distortion"].upper)
    assert value > least + 1e-3
    low, high = map(
        float, re.search(r"alone the best has a mean distortion between (\S+) and (\S+),", found.statements[0]).groups()
    )
    assert low - 1e-3 <= value <= high + 1e-6
    for wrong in ({"budget": 0.3}, {"leakage_budget": 0.03, "after": None, **COLUMNS}):
        with refused("alone goes with `after` and `leakage_budget`"):
            fit(table, **{"private": "income", "after": fitted.mechanism, "alone": 0.01, **wrong})


@pytest.mark.usefixtures("surely")
def test_the_new_draw_is_from_the_row_of_a_record_and_its_earlier_draw(tmp_path, people, releasing, fitted, following):
    first = releasing("first", fitted)
    made = {"order_out": tmp_path / "order.zip", "evidence": following.evidence}
    done = releasing("second", following, **made)
    assert (done.fresh, done.served) == (0, 0)
    x = fitted.mechanism.symbols(people)
    pairs = x * len(fitted.mechanism.released) + first.outputs
    tested = conformity(following.mechanism.table.tolist(), pairs.tolist(), done.outputs.tolist(), None, tables=999)
    assert tested.p_value > 1e-6
    assert not tested.impossible
    wrong = conformity(
        following.mechanism.table.tolist(), pairs[::-1].tolist(), done.outputs.tolist(), None, tables=999
    )
    assert wrong.p_value < 0.01  # the test sees the earlier draws
    again = releasing("again", following)
    assert (again.served, again.elsewhere) == (1200, 0)
    assert (again.outputs == done.outputs).all()
    assert releasing("repeated", fitted).served == 1200
    design, audit = saved(following, tmp_path)
    checked = verify(
        tmp_path / "second.json",
        design=design,
        private=audit,
        released=tmp_path / "second.csv",
        records=people,
        order=tmp_path / "order.zip",
    )
    assert not checked.not_checked
    assert checked.conformity.p_value > 1e-6
    assert checked.claims == following.claims  # one number, the leakage of both releases, has one name


def test_records_without_an_earlier_draw_get_one_that_is_kept(tmp_path, table, releasing, fitted, following):
    identified = {"id": np.arange(1200).astype(str).astype(object), **table}
    some = {name: values[:1000] for name, values in identified.items()}
    with refused("no ledger has a draw of these records"):
        releasing("no", following, some)
    assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]
    first = releasing("first", fitted, some)
    done = releasing("second", following, identified)
    assert done.fresh == 200
    later = releasing("later", fitted, identified)
    assert later.served == 1200
    assert (later.outputs[:1000] == first.outputs).all()
    pairs = fitted.mechanism.symbols(identified) * len(fitted.mechanism.released) + later.outputs
    assert (following.mechanism.table[pairs, done.outputs] > 0).all()
    with refused("no_ledger: the design looks at"):
        release(identified, following.mechanism, *paths(tmp_path, "no"), no_ledger=True)


@pytest.mark.usefixtures("surely")
def test_suppressed_records_have_a_mixture_of_the_rows_of_both_releases(tmp_path, table):
    """A symbol drawn evenly that did not depend on the earlier draw would give pairs that no row of the table has."""
    few = {name: values[(table["town"] != "south") | (table["age"] < 57)] for name, values in table.items()}
    rules = {"age": Edges([18, 40, 57, 80])}
    first, independent = (
        fit(few, **(COLUMNS | {"rules": rules}), unseen="suppress", budget=budget) for budget in (0.02, 0.01)
    )
    second = fit(few, private="income", after=first.mechanism, unseen="suppress", budget=0.01)
    people = write(tmp_path / "people.csv", table)
    z = release(people, first.mechanism, *paths(tmp_path, "first")).outputs
    order = tmp_path / "order.zip"
    done = release(people, second.mechanism, *paths(tmp_path, "second"), order_out=order)
    assert done.unseen > 100
    assert done.fresh == 0
    # In the rows of the table both draws are nearly always of the same combination.
    unseen = first.mechanism.unknown(first.mechanism.codebook.encode_useful(table))
    same = (first.mechanism.released[z] == second.mechanism.released[done.outputs]).all(axis=1)
    assert same[unseen].mean() > 0.8
    design, audit = saved(second, tmp_path)
    files = {"design": design, "private": audit, "released": tmp_path / "second.csv"}
    checked = verify(tmp_path / "second.json", records=people, order=order, **files)
    assert checked.conformity.p_value > 1e-6
    after = {"after": first.mechanism, "evidence": independent.evidence, "limit": 1.0}
    with refused(r"unseen: .*would learn more than is stated"):
        release(people, independent.mechanism, *paths(tmp_path, "third"), **after)
    assert not (tmp_path / "third.csv").exists()
    with refused(r"unseen: .*the earlier release has 'suppress' for such records"):
        release(people, independent.mechanism, *paths(tmp_path, "fourth"), unseen="nearest", **after)
    other = tmp_path / "other"
    other.mkdir()
    release(people, first.mechanism, *paths(other, "first"), unseen="nearest")
    with refused(r"unseen: .*the earlier release has 'nearest' for such records"):
        release(people, second.mechanism, *paths(other, "second"))
    release(people, independent.mechanism, *paths(other, "third"), unseen="nearest", **after)
    # The ledger that both designs share has the rule too, where that of the earlier design is not at hand.
    shared, away = {"ledger": tmp_path / "shared", "unseen": "nearest"}, tmp_path / "away"
    away.mkdir()
    with raised(InputError, r"unseen: .*the ledger of the earlier release"):
        release(people, independent.mechanism, *paths(away, "fifth"), **after, **shared)
    release(people, first.mechanism, *paths(other, "sixth"), **shared)
    release(people, independent.mechanism, *paths(away, "fifth"), **after, **shared)


def test_records_whose_nearest_symbol_another_design_has_elsewhere_are_refused(tmp_path):
    """Pairs of draws from two symbols are none that what is stated of both receivers covers."""
    rng = np.random.default_rng(3)
    data = {"s": rng.integers(0, 2, 32), **{name: rng.integers(0, 4, 32) for name in "ab"}}
    asked = {"private": "s", "sparse": True, "budget": 0.05, "unseen": "nearest"}
    first, second = (fit(data, **asked, useful=list("ab"), seed=seed) for seed in (0, 1))
    later = dict(zip("ab", np.indices((4, 4)).reshape(2, -1), strict=True))
    assert first.mechanism.absent != second.mechanism.absent
    after = {"after": first.mechanism, "evidence": second.evidence, "limit": 10.0}
    release(later, first.mechanism, *paths(tmp_path, "first"))
    with refused("takes another one for the nearest"):
        release(later, second.mechanism, *paths(tmp_path, "second"), **after)
    # A design that looks at the first draws has its symbols for such records.
    third = fit(data, private="s", after=first.mechanism, budget=0.04, seed=1, unseen="nearest", sparse=True).mechanism
    assert third.absent == first.mechanism.absent
    assert_array_equal(third.symbols(later), first.mechanism.symbols(later))
    release(later, third, *paths(tmp_path, "third"))


def test_the_ledger_of_the_earlier_design_may_be_named(tmp_path, table, fitted, following):
    release(table, fitted.mechanism, *paths(tmp_path, "first"))
    (own,) = (path for path in tmp_path.glob("private-ledger-*") if path.suffix != ".lock")
    done = release(table, following.mechanism, *paths(tmp_path, "second"), ledger=own)
    assert done.fresh == 0
    assert release(table, following.mechanism, *paths(tmp_path, "third")).served == 1200


def test_a_third_design_follows_both(tmp_path, table, people, fitted, following):
    third = fit(table, private="income", after=following.mechanism, leakage_budget=0.04)
    assert third.status == "optimal"
    assert third.claims["leakage_earlier"] == following.claims["leakage"]
    design, audit = saved(third, tmp_path)
    assert verify(design, private=audit).claims == third.claims
    with refused("no ledger has a draw"):
        release(people, third.mechanism, *paths(tmp_path, "third"))
    for name, one in (("first", fitted), ("second", following), ("third", third)):
        done = release(people, one.mechanism, *paths(tmp_path, name))
        assert done.served == 0
    assert (tmp_path / "third.csv").exists()


def test_what_a_following_design_does_not_take(table, fitted, following):
    for given, words in (
        ({"useful": ["age"], "budget": 0.2}, "leave out `useful`"),
        ({"rules": {"age": Edges([18, 80])}, "budget": 0.2}, "leave out `useful`"),
        ({"disclosure": 0.5}, "after goes with `budget`"),
        ({"budget": 0.2, "leakage": "maximal-leakage"}, "after goes with `budget`"),
        ({"budget": 0.2, "leakage_tolerance": 0.1}, "after goes with `budget`"),
    ):
        with refused(words):
            fit(table, private="income", after=fitted.mechanism, **given)
    with pytest.raises(InfeasibleError):  # below what the earlier release discloses
        fit(table, private="income", after=fitted.mechanism, leakage_budget=0.001)
    with refused("looks at earlier draws"):
        following.mechanism.apply({"age": [20], "town": ["north"]})


def test_no_changed_byte_of_a_following_design_is_accepted(following):
    data = following.mechanism.to_bytes()
    members = unpacked(data)
    del members["earlier.zip"]
    older = resealed(data, lambda record: record.update(version=1))
    for changed in (*flipped(data, 60), packed(members), older):
        with pytest.raises(IntegrityError):
            Mechanism.from_bytes(changed)


@pytest.mark.parametrize("mass", [0.3, 1.0])
def test_an_earlier_draw_that_tells_the_best_output_is_certified(mass):
    """Given z no distortion is saved by looking at x: the price of it began next to infinity."""
    joint = np.array([[0.1, 0.2, 0.05, 0.15], [0.3, 0.05, 0.1, 0.05]])
    earlier = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    costs = mass * np.array([[0.0, 1.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
    for budget in (0.0, 0.1, 0.7):
        found = least_after(joint, earlier, costs, "budget", budget, 1e-6, Clock())
        assert found.status == "optimal"
    # One output is the best one of every record.
    found = least_after(joint, np.ones((4, 1)), np.outer(np.ones(4), [1.0, 0.25]), "budget", 0.3, 1e-6, Clock())
    assert found.status == "optimal"
    assert found.mechanism[:, :, 1].min() > 0.9


@pytest.mark.parametrize("seed", [0, 1, 4, 7, *thorough(2, 3, 5, 6)])
def test_problems_of_single_draws_have_the_optimum_of_all_together(seed):
    rng = np.random.default_rng(seed)
    s, x, z = rng.integers(2, 5, 3)
    joint = drawn_joint(rng, s, x)
    earlier = rng.dirichlet(np.full(z, 0.3), x) * rng.integers(0, 2, (x, z))
    earlier[:, 0] += 1.0 - earlier.sum(axis=1)
    costs = np.abs(np.subtract.outer(np.arange(x), np.arange(x))) * 10.0 ** rng.integers(-2, 3)
    least, most = 0.0, float((joint.sum(axis=0) @ costs).min())
    for share in (0.05, 0.4, 0.9, 1.5):
        budget = least + share * (most - least)
        problem = jp.sequential_release(joint, earlier, costs, budget=budget)
        best = jp.solve(problem, tol=1e-7)
        limit = float(best.value) + 1e-9
        other = jp.solve(jp.sequential_release(joint, earlier, costs, leakage_budget=limit), tol=1e-7)
        for form, target, whole in (("budget", budget, best), ("leakage-budget", limit, other)):
            found = least_after(joint, earlier, costs, form, target, 1e-6, Clock())
            seen = np.einsum("sx,xz,xzy->szy", joint, earlier, found.mechanism).reshape(s, -1)
            leakage = information(seen)
            spent = np.einsum("sx,xz,xzy,xy->", joint, earlier, found.mechanism, costs)
            reached, used = (leakage, spent) if form == "budget" else (spent, leakage)
            assert found.status == "optimal"
            assert used <= target * (1 + 1e-12) + 1e-15
            assert float(whole.lower_bound) - 1e-9 <= reached <= float(whole.value) + 1e-6
