"""Designs and audits as files: they come back as they were, and nothing that was changed is accepted."""

import io
import json
import stat
import zipfile
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import jaxpriv as jp
from jaxpriv.errors import InputError, IntegrityError, ResourceError
from jaxpriv.release import Evidence, Mechanism, audit_design, fit
from jaxpriv.release.report import report
from jaxpriv.statistics.tables import Categories
from jaxpriv.verifier import read_audit, read_design, verify
from tests.cases import raised, refused
from tests.release.conftest import COLUMNS, TARGETS, npy, packed, resealed, saved, unpacked


@pytest.mark.parametrize("problem", TARGETS)
def test_what_was_saved_comes_back(every, problem, tmp_path):
    fitted = every[problem]
    mechanism, evidence = fitted.mechanism, fitted.evidence
    design, audit = saved(fitted, tmp_path)
    loaded = Mechanism.load(design)
    assert loaded.to_bytes() == design.read_bytes() == mechanism.to_bytes()
    assert packed(unpacked(design.read_bytes())) == design.read_bytes()
    assert_array_equal(loaded.table, mechanism.table)
    assert loaded.asked == mechanism.asked
    assert loaded.codebook == mechanism.codebook
    proofs = Evidence.load(audit, loaded)
    assert proofs.to_bytes(loaded) == audit.read_bytes()
    assert_array_equal(proofs.counts, evidence.counts)
    assert stat.S_IMODE(audit.stat().st_mode) == 0o600
    # Others read it as what it is: a zip of arrays and JSON.
    with zipfile.ZipFile(design) as opened:
        assert opened.testzip() is None
        assert_array_equal(np.load(io.BytesIO(opened.read("table.npy"))), mechanism.table)
        assert json.loads(opened.read("design.json"))["asked"]["problem"] == problem


def test_the_duals_have_their_former_names(fitted):
    with pytest.warns(DeprecationWarning, match=r"Evidence\.scores is called Evidence\.duals\['scores'\] now"):
        assert fitted.evidence.scores is fitted.evidence.duals["scores"]
    with pytest.warns(DeprecationWarning, match="0.4"):
        assert fitted.evidence.prices is None
    with raised(AttributeError, "no attribute 'score'"):
        _ = fitted.evidence.score


@pytest.mark.parametrize("problem", TARGETS)
def test_the_target_is_met_exactly(every, problem):
    claims = every[problem].claims
    assert claims["excess"].upper == "0"
    target = Fraction(repr(next(iter(TARGETS[problem].values()))))
    if problem == "budget":
        assert Fraction(claims["distortion"].upper) <= target
    elif problem == "disclosure":
        assert Fraction(claims["disclosure"].lower) >= target
    else:
        assert Fraction(claims["leakage"].upper) <= target


@pytest.mark.parametrize("problem", ["budget", "leakage-budget"])
def test_the_bound_is_the_one_of_the_library(every, problem):
    """Whole numbers against float64: the same certificate, to its rounding and that of the table."""
    fitted = every[problem]
    seen = fitted.evidence.counts.any(axis=0)
    joint = fitted.evidence.counts[:, seen] / fitted.evidence.counts.sum()
    limit = {problem.replace("-", "_"): fitted.mechanism.asked.target}
    solution = jp.solve(jp.DistortionProblem(joint, fitted.mechanism.distortion[seen], **limit), tol=1e-6)
    assert float(fitted.claims["lower_bound"].lower) == pytest.approx(float(solution.lower_bound), abs=2e-6)
    assert float(fitted.claims["value"].upper) == pytest.approx(float(solution.value), abs=2e-6)
    assert float(fitted.claims["gap"].upper) <= 2e-6
    assert float(fitted.claims["lower_bound"].lower) <= float(fitted.claims["value"].upper)


def test_the_public_part_is_the_same_for_twice_the_records(table):
    """Nothing in it depends on how many records there are, but the keyed hash."""
    twice = {name: np.concatenate([values, values]) for name, values in table.items()}
    fits = [fit(one, **COLUMNS, budget=0.15, split=1.0) for one in (table, twice)]
    designs = [one.mechanism for one in fits]
    counts = fits[0].evidence.counts
    assert 2 * counts.sum() == fits[1].evidence.counts.sum()
    assert not np.isclose(designs[0].matrix(), counts.sum(axis=0) / counts.sum(), atol=1e-6).all(axis=1).any()
    assert designs[0].commitment != designs[1].commitment
    parts = [unpacked(design.to_bytes()) for design in designs]
    for part in parts:
        record = json.loads(part.pop("design.json"))
        part["record"] = {key: record[key] for key in record.keys() - {"commitment", "sha256"}}
    assert parts[0] == parts[1]


def test_the_public_part_names_no_private_value(table):
    """One record more, of a class of its own, has no name in the design; the owner's parts name it."""
    rare = {name: np.append(values, values[:1]) for name, values in table.items()}
    rare["income"] = np.append(table["income"].astype(object), "unheard")
    found = fit(rare, **COLUMNS, budget=0.15, split=1.0)
    design = found.mechanism.to_bytes()
    for value in {*map(str, table["income"]), "unheard"}:
        assert f'"{value}"'.encode() not in design
    assert b'"labels":[]' in design
    audit = found.evidence.to_bytes(found.mechanism)
    assert b"unheard" in audit
    assert "unheard" in found.codebook.rules["income"].labels
    known = read_design(design, "design")
    assert read_audit(audit, known, "audit").record["private_labels"] == [list(found.codebook.rules["income"].labels)]
    # Of records, and of their classes alone: the audit of a table takes the classes that occur.
    records = found.mechanism.codebook.encode(rare)
    assert records.codebook == found.codebook
    assert_array_equal(records.private, found.codebook.encode(rare).private)


def test_other_names_of_the_private_classes_are_refused(fitted):
    """The labels are part of what the keyed hash of the design commits to."""
    design = fitted.mechanism.to_bytes()
    labels = [list(reversed(own)) for own in fitted.evidence.private_labels]
    swapped = replace(fitted.evidence, private_labels=labels).to_bytes(fitted.mechanism)
    with raised(IntegrityError, "not those that the design was made with"):
        read_audit(swapped, read_design(design, "design"), "audit")
    for broken in ([], [[]], [["a", "a"]], [[1, 2]], [["a"], ["b"]], "ab"):
        damaged = resealed(fitted.evidence.to_bytes(fitted.mechanism), _edit("private_labels", broken))
        with raised(IntegrityError, "private_labels are not different texts"):
            read_audit(damaged, read_design(design, "design"), "audit")


def test_the_hash_of_the_counts_is_not_guessed_without_the_key(fitted):
    assert len(fitted.evidence.key) == 64
    again = Evidence(**{**vars(fitted.evidence), "key": "0" * 64})
    assert again.commitment() != fitted.evidence.commitment() == fitted.mechanism.commitment


# -- damage ----------------------------------------------------------------------------------------


def _edit(path, value):
    """Another value at a path of the record."""
    *path, last = (int(key) if key.isdigit() else key for key in path.split("."))

    def change(record):
        for key in path:
            record = record[key]
        record[last] = value

    return change


EDITS = {
    "a smaller cap": _edit("guarantees.maximal-leakage.upper", "0.1"),
    "a finite ldp": _edit("guarantees.ldp", {"lower": "0", "upper": "1", "unit": "nats"}),
    "an unknown field": _edit("extra", 1),
    "a later version": _edit("version", 2),
    "another kind": _edit("format", "jaxpriv-audit"),
    "a rule that is none": _edit("unseen", "ignore"),
    "no labels": _edit("released", []),
    "a label twice": _edit("released.1.labels", ["a", "a", "b"]),
    "a target that is no number": _edit("asked.target", "many"),
    "a target in other digits": _edit("asked.target", "0.150"),
    "a problem that is none": _edit("asked.problem", "other"),
    "a measure without a name": _edit("asked.leakage", {}),
    "a commitment that is none": _edit("commitment", "0"),
}
# The verifier of the standard library compares labels with rules too; before, only the reader of the mechanism did.
LABELS = {
    "labels of another rule": _edit("codebook.useful.1.labels", ["a", "b", "c"]),
    "a rule of other labels": _edit("codebook.useful.1.rule.values", ["a", "b", "c"]),
    "two labels exchanged": lambda record: record["codebook"]["useful"][1]["labels"].reverse(),
    "a label of another interval": _edit("codebook.useful.0.labels.0", "<99"),
    "an edge less": lambda record: record["codebook"]["useful"][0]["rule"]["edges"].pop(),
    "another rest": _edit("codebook.useful.1.rule.other", "x"),
}


@pytest.mark.parametrize("edit", [*EDITS, *LABELS])
def test_no_edited_statement_is_accepted(fitted, edit):
    forged = resealed(fitted.mechanism.to_bytes(), (EDITS | LABELS)[edit])
    with pytest.raises(IntegrityError):
        Mechanism.from_bytes(forged)
    with raised(IntegrityError, "other labels than its rules" if edit in LABELS else None):
        read_design(forged, "design")


FORGED = {
    "a cost that is no number": ("distortion", lambda one: one.distortion * np.nan, "not finite"),
    "costs of fewer outputs": ("distortion", lambda one: one.distortion[:, 1:], "another shape"),
    "one symbol twice": ("useful", lambda one: 0 * one.useful, "different symbols"),
    "a code beyond the labels": ("released", lambda one: one.released + 99, "code without a label"),
}


@pytest.mark.parametrize("case", FORGED)
def test_arrays_that_belong_to_no_design_are_refused(fitted, case):
    member, made, words = FORGED[case]
    forged = resealed(fitted.mechanism.to_bytes(), **{member: npy(np.ascontiguousarray(made(fitted.mechanism)))})
    with raised(IntegrityError, words):
        read_design(forged, "design")


def _withheld(record):
    for entry in record["codebook"]["useful"]:
        if entry["rule"]["kind"] == "categories":
            entry["rule"]["values"], entry["labels"] = None, []


@pytest.mark.parametrize(
    "rule",
    [
        Categories(least=200),
        Categories(least=200, other="rest", missing="none"),
        Categories(("low", "high"), other="rest"),
        Categories(missing="none"),
    ],
    ids=lambda rule: f"least={rule.least},other={rule.other},missing={rule.missing}",
)
def test_the_rest_of_a_private_column_has_a_label_and_its_values_none(table, rule, tmp_path):
    """A published design withholds the values of private columns, not the labels of what is not among them."""
    made = fit(table, **{**COLUMNS, "rules": {**COLUMNS["rules"], "income": rule}}, budget=0.15)
    record = read_design(made.mechanism.to_bytes(), "design").record
    (entry,) = record["codebook"]["private"]
    assert entry["rule"]["values"] is None
    rest = made.mechanism.codebook.rules["income"].other
    assert entry["labels"] == [label for label in (rest, rule.missing) if label]
    made.mechanism.save(tmp_path / "design.zip")
    assert Mechanism.load(tmp_path / "design.zip").to_bytes() == made.mechanism.to_bytes()
    with pytest.raises(IntegrityError):
        read_design(resealed(made.mechanism.to_bytes(), _withheld), "design")


@pytest.mark.parametrize("claim", ["lower_bound", "gap", "value", "leakage", "disclosure", "distortion", "excess"])
def test_no_edited_number_of_the_audit_is_accepted(fitted, claim):
    design = read_design(fitted.mechanism.to_bytes(), "design")
    data = fitted.evidence.to_bytes(fitted.mechanism)
    assert read_audit(resealed(data), design, "audit").claims
    for end in ("lower", "upper"):
        forged = resealed(data, _edit(f"claims.{claim}.{end}", "0.000001"))
        with raised(IntegrityError, "stated number"):
            read_audit(forged, design, "audit")


def test_other_counts_scores_and_designs_are_refused(every, fitted):
    data, design = fitted.evidence.to_bytes(fitted.mechanism), read_design(fitted.mechanism.to_bytes(), "design")
    counts = fitted.evidence.counts.copy()
    counts[0, 0] += 1
    for arrays in ({"counts": npy(counts)}, {"scores": npy(fitted.evidence.duals["scores"] + 1)}):
        with raised(IntegrityError, "not those that the design was made with"):
            read_audit(resealed(data, **arrays), design, "audit")
    other = read_design(every["watchdog"].mechanism.to_bytes(), "design")
    with raised(IntegrityError, "another design"):
        read_audit(data, other, "audit")


@pytest.mark.parametrize(
    "values",
    [
        np.array([[1, 2], [3, 4]], dtype=object),
        np.ones((2, 2)),
        np.ones((2, 2), dtype=np.uint64),
        np.asfortranarray(np.ones((4, 6), dtype=np.uint64)),
        np.ones((0, 6), dtype=np.uint64),
        np.ones((2, 2, 2), dtype=np.uint64),
        np.ones((2, 2), dtype=">u8"),
    ],
)
def test_other_arrays_are_refused_and_nothing_is_unpickled(fitted, values):
    stream = io.BytesIO()
    np.save(stream, values, allow_pickle=True)
    with pytest.raises(IntegrityError):
        Mechanism.from_bytes(resealed(fitted.mechanism.to_bytes(), table=stream.getvalue()))


def test_swapped_rows_and_symbols_are_another_design(fitted):
    """Consistent in themselves: they are refused by whoever has the audit, or the hash."""
    mechanism = fitted.mechanism
    order = np.roll(np.arange(len(mechanism.table)), 1)
    forged = resealed(mechanism.to_bytes(), table=npy(mechanism.table[order]))
    accepted = read_design(forged, "design")
    assert accepted.sha256 != mechanism.sha256
    with raised(IntegrityError, "another design"):
        read_audit(fitted.evidence.to_bytes(mechanism), accepted, "audit")


def test_members_twice_in_another_order_or_compressed(fitted):
    members = unpacked(fitted.mechanism.to_bytes())
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archived:
        for name, content in members.items():
            archived.writestr(name, content)
    for data in (stream.getvalue(), packed(dict(reversed(members.items()))), packed({})):
        with pytest.raises(IntegrityError):
            Mechanism.from_bytes(data)
    nested = b"[" * 100_000 + b"]" * 100_000
    for content in (nested, b'{"a":1,"a":1}', b"NaN", b"1.5", b"\xff", b"{", members["design.json"][:-1]):
        with pytest.raises(IntegrityError):
            Mechanism.from_bytes(packed({**members, "design.json": content}))


def test_files_that_are_none(tmp_path):
    with refused("does not exist"):
        Mechanism.load(tmp_path / "absent.zip")
    with refused("not a regular file"):
        Mechanism.load(tmp_path)
    with pytest.raises((ResourceError, InputError)):
        Mechanism.load("/dev/stdin")


# -- records ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dict", "pandas", "polars", "pyarrow"])
def test_records_are_released_as_the_frame_that_they_came_in(every, table, kind):
    mechanism = every["watchdog"].mechanism
    source = table if kind == "dict" else _frame(kind, table)
    released = mechanism.apply(source)
    assert type(released) is (dict if kind == "dict" else type(source))
    columns = {name: np.asarray(released[name]).tolist() for name in ("age", "town")}
    assert [len(values) for values in columns.values()] == [len(table["age"])] * 2
    labels = mechanism.codebook.rules["town"].labels
    assert set(columns["town"]) <= set(labels)
    # What the watchdog leaves as it is stays so.
    symbols = mechanism.symbols(table)
    kept = mechanism.table.max(axis=1)[symbols] == 2**62
    assert kept.any()
    assert_array_equal(np.array(columns["town"])[kept], table["town"][kept])


def _frame(kind, table):
    module = pytest.importorskip(kind)
    if kind == "pyarrow":
        return module.table({name: values.tolist() for name, values in table.items()})
    return module.DataFrame({name: values.tolist() for name, values in table.items()})


def test_combinations_that_have_no_symbol(table):
    few = {name: values[table["town"] != "=west"][:400] for name, values in table.items()}
    mask = (few["age"] < 50) | (few["town"] == "north")
    few = {name: values[mask] for name, values in few.items()}
    mechanism = fit(few, **{**COLUMNS, "rules": {}}, budget=0.15, sparse=True).mechanism
    records = {"age": np.array([few["age"][0], 30, few["age"].max()]), "town": np.array(["north"] * 3, dtype=object)}
    codes = mechanism.codebook.encode_useful(records)
    known = set(map(tuple, mechanism.useful.tolist()))
    codes[1] = next(
        [a, t] for a in range(len(mechanism.codebook.rules["age"].labels)) for t in range(2) if (a, t) not in known
    )
    with refused(r"row 1 \(from 0\).*such rows: 1"):
        mechanism.locate_codes(codes)
    nearest = mechanism.locate_codes(codes, "nearest")
    apart = (mechanism.useful != codes[1]).sum(axis=1)
    assert nearest[1] == apart.argmin()
    assert apart[nearest[1]] == 1
    drawn = {int(mechanism.locate_codes(codes, "suppress")[1]) for _ in range(200)}
    assert len(drawn) > 5
    with refused("unseen must be"):
        mechanism.locate_codes(codes, "guess")
    assert mechanism.locate_codes(codes.tolist(), "nearest").tolist() == nearest.tolist()
    for bad in (codes[:, :1], codes[0], codes + 99, codes - 1, codes.astype(float), None, "a"):
        with refused("codes must be whole numbers"):
            mechanism.unknown(bad)


def test_files_and_parts_of_another_kind_are_refused(fitted, tmp_path, table):
    named = "a file is named by a text or a path"
    for refusal, function, *arguments in (
        (named, Mechanism.load, 3),
        (named, fitted.mechanism.save, None),
        (named, verify, 3),
        ("mechanism must be of type Mechanism", fitted.evidence.save, tmp_path / "audit.zip", 3),
        ("receipt must be of type Receipt", partial(report, receipt=3), fitted.mechanism),
        ("certificate must be of type Evidence", partial(audit_design, certificate=3), table, fitted.mechanism),
    ):
        with refused(refusal):
            function(*arguments)
    assert list(tmp_path.iterdir()) == []


def test_samples_need_symbols(fitted):
    size = len(fitted.mechanism.table)
    assert fitted.mechanism.sample([]).shape == (0,)
    assert fitted.mechanism.sample(0).shape == (1,)
    for bad in ([size], [-1], [0.5], [[0]], [True]):
        with refused("symbols"):
            fitted.mechanism.sample(bad)


def test_a_stored_design_keeps_its_labels_of_booleans_and_takes_their_other_spellings(tmp_path):
    """Designs that were made when a CSV of True and False had these classes."""
    rows = {"flag": ["True", "False", "False"] * 40, "s": ["a", "b"] * 60}
    made = fit(rows, private="s", useful="flag", rules={"flag": Categories(("False", "True"))}, budget=0.1)
    made.mechanism.save(tmp_path / "design.zip")
    loaded = Mechanism.load(tmp_path / "design.zip")
    assert loaded.released_labels == (("False", "True"),)
    for batch in (np.array([True, False]), ["TRUE", "FALSE"], ["true", "false"], ["True", "False"]):
        assert loaded.symbols({"flag": batch}).tolist() == [1, 0]
