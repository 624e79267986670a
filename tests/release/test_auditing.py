"""Audits on tables: of a design and its releases, and of what a black box released, against counts by hand."""

import numpy as np
import pytest

from jaxpriv.release import audit_design, audit_mapping, count_pairs, fit
from jaxpriv.statistics import audit
from jaxpriv.statistics.tables import Categories, Quantiles, count_table
from tests.cases import raised, refused
from tests.release.conftest import COLUMNS, Released, people

QUICK = {"bootstrap": 0, "measures": ["mutual-information", "maximal-leakage"]}


def counted(mechanism, table):
    """Counts (S, X) of the table, and x of its records."""
    x, s = mechanism.symbols(table), (table["income"] == "low").astype(int)
    counts = np.zeros((2, len(mechanism.useful)), dtype=int)
    np.add.at(counts, (s, x), 1)
    return counts, x


def test_a_design_is_audited_on_its_counts(fitted):
    other = people(500, seed=5)
    mechanism = fitted.mechanism
    found = audit_design(other, mechanism, held_out=True, certificate=fitted.evidence, **QUICK)
    by_hand = audit.audit_mechanism(mechanism.matrix(), counts=counted(mechanism, other)[0], held_out=True, **QUICK)
    gaps = [row.gap for row in found.rows]
    assert [(row.name, row.fitted, row.upper) for row in found.rows] == [
        (row.name, row.fitted, row.upper) for row in by_hand.rows
    ]
    assert gaps[0] == float(fitted.claims["gap"].upper)
    assert found.assumptions.statements[:-1] == by_hand.assumptions.statements
    assert "private alphabet" in found.assumptions.statements[-1]


@pytest.mark.usefixtures("same_draws")
def test_releases_are_tested_whatever_the_order_of_their_rows(tmp_path, fitted, table):
    mechanism = fitted.mechanism
    released = Released(tmp_path, table, fitted)
    pairs = np.zeros(mechanism.matrix().shape, dtype=int)
    np.add.at(pairs, (counted(mechanism, table)[1], released.done.outputs), 1)
    want = audit.conformity(pairs, mechanism.matrix())
    for releases, order in ((released.out, released.done.order), (pairs, None)):
        found = audit_design(table, mechanism, releases=releases, order=order, **QUICK).conformity
        assert (found.p_value, found.tail, found.impossible) == (want.p_value, want.tail, ())
    assert audit_design(table, mechanism, releases=released.out, **QUICK).conformity.p_value < want.p_value


def test_two_draws_are_their_product(fitted, table):
    mechanism = fitted.mechanism
    one, two = (
        {row.name: row.fitted for row in audit_design(table, mechanism, again=again, **QUICK).rows}
        for again in ((), [mechanism])
    )
    matrix = mechanism.matrix()
    product = (matrix[:, :, None] * matrix[:, None, :]).reshape(len(matrix), -1)
    want = audit.audit_mechanism(product, counts=counted(mechanism, table)[0], **QUICK)
    assert two == pytest.approx({row.name: row.fitted for row in want.rows})
    assert one["mutual-information"] < two["mutual-information"]


def test_what_no_audit_of_a_design_takes(fitted, table):
    coarser = fit(table, **{**COLUMNS, "rules": {"age": Quantiles(2)}}, budget=0.15)
    with refused(r"^again\[0\] has other useful columns"):
        audit_design(table, fitted.mechanism, again=[coarser.mechanism], **QUICK)
    costs = fit(table, **COLUMNS, leakage_budget=0.005)
    with refused("^certificate: .* least distortion"):
        audit_design(table, costs.mechanism, certificate=costs.evidence, **QUICK)
    with refused("^again: the gap of a solution is of one draw"):
        audit_design(table, fitted.mechanism, certificate=fitted.evidence, again=[fitted.mechanism], **QUICK)
    with refused("^certificate belongs to another design"):
        audit_design(table, fitted.mechanism, certificate=costs.evidence, **QUICK)
    with raised(TypeError, "objective"):
        audit_design(table, fitted.mechanism, certificate=fitted.evidence, objective=None, **QUICK)


def test_an_order_names_records_of_a_released_table(tmp_path, fitted, table):
    done = Released(tmp_path, table, fitted)
    order = np.asarray(done.done.order)
    for wrong in (order - 1, order + 1, 0 * order, 1.0 * order, order > 0, order[:, None]):
        with refused("^order must name records"):
            audit_design(table, fitted.mechanism, releases=done.out, order=wrong, **QUICK)
    for releases in (None, np.ones(fitted.mechanism.matrix().shape, dtype=int)):
        with refused("^order: it is about a table"):
            audit_design(table, fitted.mechanism, releases=releases, order=order, **QUICK)


def test_a_mapping_is_audited_on_the_records_of_a_table(tmp_path, fitted, table):
    """The mapping of a design with its attributes is that design."""
    mechanism, released = fitted.mechanism, Released(tmp_path, table, fitted)
    counted_table = count_table(table, codebook=fitted.codebook, sparse=True)
    asked = {"releases": released.out, "order": released.done.order}
    (tmp_path / "stated.json").write_text('{"value": 0.25, "leakage": 0.25, "gap": 1e-7}')
    want = audit_design(table, mechanism, **asked, **QUICK)
    found = audit_mapping(mechanism.matrix(), mechanism.useful, counts=counted_table, **asked, **QUICK)
    assert found == want
    of_joint = audit_mapping(mechanism.matrix(), mechanism.useful, joint=counted_table, **QUICK)
    assert [row.fitted for row in of_joint.rows] == pytest.approx([row.fitted for row in want.rows])
    assert of_joint.confidence is None
    stated = {"solution": tmp_path / "stated.json", "objective": "maximal-leakage", "held_out": True}
    rows = audit_mapping(mechanism.matrix(), mechanism.useful, counts=counted_table, **stated, **QUICK).rows
    assert [row.stated_gap for row in rows] == [None, 1e-7]
    for given, reason in (
        ({"counts": counted_table, "joint": counted_table}, "^give either counts or joint"),
        ({"counts": counted_table, "order": released.done.order}, "^order: it is about a table"),
        ({"counts": counted_table, "released": ["town"]}, "^released: it is about a table"),
        ({"counts": counted_table, "objective": "sibson:2"}, "^objective and problem are those of a solution"),
        ({"counts": counted_table, **stated, "objective": "sibson:x"}, "^objective: 'sibson:x'"),
    ):
        with refused(reason):
            audit_mapping(mechanism.matrix(), mechanism.useful, **given, **QUICK)


def test_the_joint_of_weighted_records_is_what_is_audited(table):
    weighted = {**table, "weight": np.where(table["income"] == "low", 9.0, 1.0)}
    counts = count_table(weighted, private="income", useful="town", weights="weight")
    mapping, attributes = 0.1 + 0.7 * np.eye(3), counts.dataset.useful_attributes
    found = audit_mapping(mapping, attributes, joint=counts, **QUICK).rows[0].fitted
    assert found == audit.audit_mechanism(mapping, joint=counts.dataset.joint, **QUICK).rows[0].fitted
    with refused("^counts: the records are weighted"):
        audit_mapping(mapping, attributes, counts=counts, **QUICK)


@pytest.mark.usefixtures("same_draws")
def test_suppressed_records_do_not_make_a_release_suspect(tmp_path, table):
    """Their symbols were drawn for the release alone: those of an audit are other ones."""
    old = (table["age"] > 50) & (table["town"] == "north")
    younger = {name: values[~old] for name, values in table.items()}
    fitted = fit(younger, **COLUMNS, budget=0.15, unseen="suppress")
    released = Released(tmp_path, table, fitted, keep_order=True)
    assert released.done.unseen > 100
    found = audit_design(table, fitted.mechanism, releases=released.out, **QUICK)
    assert found.assumptions.records == len(old)
    assert found.conformity.p_value > 0.01
    assert found.conformity.tail > 0.01


def test_draws_of_suppressed_records_are_not_audited_together(table):
    """Each design draws a symbol of its own for them: pairs that no symbol has tell that a record was suppressed."""
    old = (table["age"] > 50) & (table["town"] == "north")
    younger = {name: values[~old] for name, values in table.items()}
    kinds = {rule: fit(younger, **COLUMNS, budget=0.15, unseen=rule).mechanism for rule in ("suppress", "nearest")}
    for first, second in (("suppress", "nearest"), ("nearest", "suppress"), ("suppress", "suppress")):
        with refused("^again: row"):
            audit_design(table, kinds[first], again=[kinds[second]], **QUICK)
    assert audit_design(table, kinds["nearest"], again=[kinds["nearest"]], **QUICK).assumptions.records == len(old)
    audited = audit_design(younger, kinds["suppress"], again=[kinds["nearest"]], **QUICK)
    assert audited.rows[0].fitted > audit_design(younger, kinds["suppress"], **QUICK).rows[0].fitted
    with refused(r"^again\[0\] must be of type Mechanism"):
        audit_design(table, kinds["nearest"], again=[3], **QUICK)


def test_the_records_of_a_black_box(table):
    rules = {"age": Quantiles(3)}
    data, chosen = count_pairs(table, ["income"], ["town"])
    assert (count_pairs(table, "income", "town")[0].counts == data.counts).all()
    high, west = table["income"] == "high", table["town"] == "=west"
    s, y = data.private_labels.index(("high",)), data.useful_labels.index(("=west",))
    assert data.counts[s, y] == (high & west).sum()
    assert len(chosen) == 1
    assert "'age' were chosen on these records" in count_pairs(table, ["income"], ["age", "town"], rules)[1][1]
    found = audit.audit_pairs(data.counts, permutations=9, statements=chosen, **QUICK)
    assert found.assumptions.statements[-1] == chosen[0]
    merged = count_pairs(table, "income", "town", {"town": Categories(least=390)})[1]
    assert "'town' were chosen on these records" in merged[1]
    with refused("'town' is in `private` and in `released`"):
        count_pairs(table, ["income", "town"], ["town"])
