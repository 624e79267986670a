"""`compare`: what a release lost, against counts by hand, and on average what the owner's report states."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from jaxpriv.release import fit, release
from jaxpriv.release.report import compare
from jaxpriv.release.report.comparison import expected
from jaxpriv.statistics.tables import Categories, Edges
from tests.cases import refused
from tests.release.conftest import people

AGES = Edges((0, 30, 60, 90))


@pytest.fixture(scope="module")
def table():
    return {"id": np.arange(1500), **people(1500)}


@pytest.fixture(scope="module")
def fitted(table):
    return fit(table, private="income", useful=["age", "town"], rules={"age": AGES}, budget=0.2)


def test_numbers_are_those_counted_by_hand():
    original = {"a": np.array(["x", "x", "y", "y"], dtype=object), "b": np.array(["u", "v", "u", "v"], dtype=object)}
    released = {"a": np.array(["x", "y", "y", "y"], dtype=object), "b": np.array(["v", "v", "u", "u"], dtype=object)}
    found = compare(original, released, useful=["a", "b"], order=np.arange(4))
    one, other = found.columns
    assert (one.changed, other.changed) == (0.25, 0.5)
    assert_allclose(one.before, [0.5, 0.5])
    assert_allclose(one.unmoved, [0.25, 0.5])
    assert_allclose(other.unmoved, [0.25, 0.25])
    assert_allclose(one.after, [0.25, 0.75])
    assert (one.variation, other.variation) == (0.25, 0.0)
    (pair,) = found.pairs
    # Before: a quarter each; after: (x, v) 1/4, (y, v) 1/4, (y, u) 1/2.
    assert pair.variation == pytest.approx(0.25)
    assert pair.association_before == pytest.approx(0.0)
    assert pair.association_after == pytest.approx(np.sqrt(1 / 3))  # phi of the 2 x 2 table
    reordered = {name: values[::-1] for name, values in released.items()}
    again = compare(original, reordered, useful=["a", "b"], order=np.arange(4)[::-1])
    assert [column.changed for column in again.columns] == [0.25, 0.5]
    alone = compare(original, reordered, useful=["a", "b"])
    assert not alone.paired
    assert [(column.changed, column.unmoved) for column in alone.columns] == [(None, None)] * 2
    assert alone.pairs == found.pairs


def test_a_table_compared_with_itself_lost_nothing(table, fitted):
    released = fitted.mechanism.labels_of(fitted.mechanism.symbols(table))
    found = compare(table, released, mechanism=fitted.mechanism, order=np.arange(1500), target="income")
    assert [one.changed for one in found.columns] == [0.0, 0.0]
    assert all(one.variation == 0 for one in found.columns)
    assert found.prediction.before == found.prediction.after > found.prediction.constant


def test_releases_lose_on_average_what_the_report_states(table, fitted):
    mechanism = fitted.mechanism
    # The evidence has one half of the records: compare releases of a table that has the same shares.
    x = np.repeat(np.arange(len(mechanism.table)), fitted.evidence.counts.sum(axis=0))
    labels = [mechanism.codebook.rules[name].labels for name in mechanism.codebook.useful]
    stated = expected(mechanism, fitted.evidence)
    found = []
    for _ in range(100):
        released = mechanism.labels_of(mechanism.sample(x))
        before = {
            name: np.array(own, dtype=object)[mechanism.useful[x, c]]
            for c, (name, own) in enumerate(zip(mechanism.codebook.useful, labels, strict=True))
        }
        found.append(compare(before, released, useful=list(before), order=np.arange(len(x))))
    for place, one in enumerate(stated.columns):
        changed = [each.columns[place].changed for each in found]
        assert np.mean(changed) == pytest.approx(one.changed, abs=6 * np.std(changed) / np.sqrt(100) + 1e-12)
        after = np.array([[each.columns[place].after, each.columns[place].unmoved] for each in found])
        assert_allclose(after.mean(axis=0), [one.after, one.unmoved], atol=0.02)
        assert one.changed == pytest.approx(1 - one.unmoved.sum(), abs=1e-12)
    assert sum(one.changed for one in stated.columns) == pytest.approx(
        float(fitted.claims["distortion"].upper), abs=1e-9
    )


def test_rows_are_paired_by_a_column(table, fitted):
    outputs = fitted.mechanism.apply({name: table[name] for name in ("age", "town")})
    order = np.random.default_rng(1).permutation(1500)
    shuffled = {name: values[order] for name, values in {**outputs, "id": table["id"]}.items()}
    gaps = {**table, "id": table["id"].astype(float)}  # as pandas holds whole numbers with gaps
    by_id = compare(gaps, shuffled, mechanism=fitted.mechanism, identity="id", target="income")
    by_order = compare(table, shuffled, mechanism=fitted.mechanism, order=order, target="income")
    assert [one.changed for one in by_id.columns] == [one.changed for one in by_order.columns]
    assert by_id.prediction == by_order.prediction
    assert by_id.prediction.after <= by_id.prediction.before


def test_rows_are_paired_by_a_column_that_got_apostrophes(tmp_path, table, fitted):
    names = np.array([f"@user{n}" for n in range(1500)], dtype=object)
    people, files = {**table, "id": names}, (tmp_path / "out.csv", tmp_path / "receipt.json")
    done = release(people, fitted.mechanism, *files, keep="id")
    by_id, by_order = (
        compare(people, files[0], mechanism=fitted.mechanism, **pairing)
        for pairing in ({"identity": "id"}, {"order": done.order})
    )
    assert [one.changed for one in by_id.columns] == [one.changed for one in by_order.columns]


def test_released_values_are_of_the_classes_that_hold_them(table):
    found = compare(table, table, useful=["age", "town"], rules={"age": AGES}, order=np.arange(1500))
    assert [one.changed for one in found.columns] == [0.0, 0.0]
    assert found.columns[0].labels == AGES.labels
    # Rare towns, as another tool releases them, are of the class of other values.
    towns = Categories(("north", "south"), other="elsewhere")
    found = compare(table, table, useful="town", rules={"town": towns}, order=np.arange(1500))
    assert found.columns[0].changed == 0.0
    with refused("column 'town', row"):
        compare(table, table, useful="town", rules={"town": Categories(("north", "south"))}, order=np.arange(1500))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": np.arange(3)}, "order must name each"),
        ({"order": np.zeros(1500, dtype=int)}, "order must name each"),
        ({"order": np.arange(1500.0)}, "order must name each"),
        ({"mechanism": 3}, "mechanism must be of type"),
        ({"order": np.arange(1500), "identity": "id"}, "not both"),
        ({"identity": "town"}, "useful one"),
        ({"identity": "income"}, "earlier row"),
        ({"target": "income"}, "paired rows"),
        ({"useful": ["age"]}, "own columns"),
    ],
)
def test_bad_input(table, fitted, change, message):
    with refused(message):
        compare(table, table, **{"mechanism": fitted.mechanism, **change})


def test_nothing_named_and_numbers_released(table):
    with refused("name the useful columns"):
        compare(table, table)
    funnel = fit(table, private="income", useful=["age", "town"], rules={"age": AGES}, disclosure=0.5)
    with refused("numbered symbols"):
        compare(table, table, mechanism=funnel.mechanism)
