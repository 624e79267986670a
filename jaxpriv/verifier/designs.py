"""A design (public) and its audit (private): what the files hold, and everything that they state computed again.

The design holds the integer table, the classes of the columns, the alphabets, what was asked for and the guarantees
that need no data. It holds no count and nothing that was computed from one but the mechanism itself. The audit holds
counts, the adversary's scores and prices; the design names it by a keyed hash, from which nothing can be guessed
without the key, which the audit holds. Standard library only.
"""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from jaxpriv.errors import IntegrityError
from jaxpriv.verifier.archive import Json, Table, array, canonical, digest, unpack, unsealed
from jaxpriv.verifier.bounds import (
    MOST_PAIRS,
    WORST,
    FunnelPrices,
    Scores,
    elementary,
    least_linear,
    least_value,
    least_worst,
    of_prices,
    pairs,
)
from jaxpriv.verifier.claims import Claim, Counted, Matrix, as_integers, down, matrix, number, up, without_counts

DESIGN, AUDIT = "jaxpriv-design", "jaxpriv-audit"
PROBLEMS = ("budget", "leakage-budget", "disclosure", "watchdog")
UNSEEN = ("refuse", "suppress", "nearest")
# What a measure is, as `jaxpriv.leakage.by_name` takes it.
MEASURE = ("name", "form", "order", "divergence", "gamma")
# Claims that the audit takes from the solver: they are in it, and nothing of them is computed again.
BY_SOLVER = ("solver_bound", "solver_gap")
# Measures that are sums of largest entries: their certificates are checked here too, as those of `WORST`.
LINEAR = ("maximal-leakage", "min-entropy")

# Members of a design and of an audit by name: the type of the numbers in NumPy's notation, and the number of axes.
_PUBLIC = {"table.npy": ("<u8", 2), "useful.npy": ("<i8", 2), "released.npy": ("<i8", 2)}
_COSTS = {"distortion.npy": ("<f8", 2)}  # of a design with a distortion
_PRIVATE = {"private.npy": ("<i8", 2), "counts.npy": ("<i8", 2)}  # of an audit
_HELD_OUT = {"held_out.npy": ("<i8", 2)}  # of an audit for a population
# Of an audit with a certificate of optimality.
DUALS = {"scores.npy": ("<f8", 3), "weights.npy": ("<f8", 2), "multipliers.npy": ("<f8", 1)}
# Of a funnel: nu, and (lambda, c) of `FunnelPrices`.
PRICES = {"prices.npy": ("<f8", 1), "line.npy": ("<f8", 1)}


@dataclass(frozen=True)
class DesignFile:
    """The public part, checked: `sha256` is of the whole file, `rows` are the integer table."""

    record: Mapping[str, Any]
    sha256: str
    rows: Matrix
    useful: Sequence[Sequence[int]]
    released: Sequence[Sequence[int]]
    costs: Table | None
    guarantees: Mapping[str, Claim]

    @property
    def problem(self) -> str:
        """`budget`, `leakage-budget`, `disclosure` or `watchdog`."""
        return self.record["asked"]["problem"]

    @property
    def target(self) -> float:
        """The number that was asked for."""
        return number(self.record["asked"]["target"], "the target of the design")


@dataclass(frozen=True)
class Audit:
    """The private part, checked against its design."""

    record: Mapping[str, Any]
    counts: Table
    held_out: Table | None
    private: Sequence[Sequence[int]]
    duals: Mapping[str, Table]
    claims: Mapping[str, Claim]


def read_design(data: bytes, name: str) -> DesignFile:
    """The design of a file; `IntegrityError` if anything in it is not as it is stated there."""
    members = unpack(data, name)
    fields = ("tool", "asked", "codebook", "released", "unseen", "guarantees", "commitment", "members")
    record = unsealed(members.get("design.json", b""), f"{name}: design.json", DESIGN, fields)
    tables = _tables(members, record, "design.json", _PUBLIC, [_COSTS], name)
    rows = matrix(tables["table.npy"], f"{name}: table.npy")
    _asked(record["asked"], name)
    sides = _columns(record, name)
    alphabets = {}
    for member, labels, size in (("useful.npy", sides[0], len(rows)), ("released.npy", sides[1], len(rows[0]))):
        alphabets[member] = _symbols(tables[member], labels, size, f"{name}: {member}")
    costs = tables.get("distortion.npy")
    if (costs is not None) != (record["asked"]["problem"] in ("budget", "leakage-budget")):
        raise IntegrityError(f"{name}: a distortion goes with a distortion problem, and with nothing else")
    if costs is not None and costs.shape != (len(rows), len(rows[0])):
        raise IntegrityError(f"{name}: distortion.npy has another shape than table.npy")
    guarantees = without_counts(rows)
    if record["guarantees"] != {key: claim.record for key, claim in guarantees.items()}:
        raise IntegrityError(f"{name}: a stated guarantee is not what the table gives")
    if record["unseen"] not in UNSEEN or not _is_hash(record["commitment"]):
        raise IntegrityError(f"{name}: unseen or commitment is not of a known form")
    return DesignFile(record, digest(data), rows, alphabets["useful.npy"], alphabets["released.npy"], costs, guarantees)


def read_audit(data: bytes, design: DesignFile, name: str) -> Audit:
    """The audit of a file, for its design; `IntegrityError` if it belongs to another one or states what is not so."""
    members = unpack(data, name)
    fields = ("tool", "design", "key", "claims", "private_labels", "members")
    record = unsealed(members.get("audit.json", b""), f"{name}: audit.json", AUDIT, fields)
    tables = _tables(members, record, "audit.json", _PRIVATE, [_HELD_OUT, _certificate(design.problem)], name)
    if record["design"] != design.sha256:
        raise IntegrityError(f"{name} belongs to another design")
    labels = _private_labels(record["private_labels"], design, name)
    hashed = commitment(record["key"], record["members"], labels) if _is_hash(record["key"]) else None
    if hashed != design.record["commitment"]:
        raise IntegrityError(f"{name}: its arrays and labels are not those that the design was made with")
    duals = {member: tables[member] for member in _certificate(design.problem) if member in tables}
    audit = Audit(
        record,
        tables["counts.npy"],
        tables.get("held_out.npy"),
        list(tables["private.npy"].rows()),
        duals,
        claims_of(design, tables["counts.npy"], duals, f"{name}: counts.npy"),
    )
    _symbols(tables["private.npy"], labels, audit.counts.shape[0], f"{name}: private.npy")
    held_out = audit.held_out
    if held_out is not None and (held_out.shape != audit.counts.shape or any(count < 0 for count in held_out.numbers)):
        raise IntegrityError(f"{name}: held_out.npy are no counts of the same alphabets")
    if record["claims"] != {key: claim.record for key, claim in audit.claims.items()}:
        raise IntegrityError(f"{name}: a stated number is not what counts and table give")
    return audit


def _certificate(problem: str) -> Mapping[str, tuple[str, int]]:
    """The members that prove a bound: prices of a funnel, scores and prices of another problem."""
    return PRICES if problem == "disclosure" else DUALS


def _private_labels(labels: Json, design: DesignFile, name: str) -> list[list[str]]:
    """The labels of the private columns, one list of different texts for each column of the design."""
    found = labels if isinstance(labels, list) else []
    good = len(found) == len(design.record["codebook"]["private"])
    checked: list[list[str]] = []
    for own in found:
        texts = [label for label in own if isinstance(label, str)] if isinstance(own, list) else []
        good = good and isinstance(own, list) and len(set(texts)) == len(own) > 0
        checked.append(texts)
    if not good:
        raise IntegrityError(f"{name}: private_labels are not different texts for each private column")
    return checked


def commitment(key: str, members: Mapping[str, Json], labels: Sequence[Sequence[str]]) -> str:
    """HMAC-SHA256 of the hashes of the private arrays and of the labels of the private columns."""
    content = {"members": dict(members), "private_labels": [list(own) for own in labels]}
    return hmac.new(bytes.fromhex(key), canonical(content), "sha256").hexdigest()


def claims_of(design: DesignFile, counts: Table, duals: Mapping[str, Table], name: str) -> dict[str, Claim]:
    """Every number of the design on its own counts.

    `leakage` (where the measure is one that is computed here) and `disclosure` I(X;Y); `distortion` E d; `value` the
    objective, `excess` over the limit (0 if it is met), and, with a distortion, for mutual information, maximal
    leakage, min-entropy leakage and the measures of `WORST`, `lower_bound` (no mechanism that meets the limit has a
    smaller objective) and `gap`. For mutual information and a target of disclosure these too; where they are the
    elementary bound only (more than two private symbols, or too many useful ones), `solver_bound` and `solver_gap` are
    what the branch and bound of the solver proved in float64, which is not computed again here.
    """
    counted = Counted.of(counts, design.rows, name)
    asked = design.record["asked"]
    measure, problem, target = computed_name(asked["leakage"]), design.problem, Fraction(design.target)
    found: dict[str, Claim] = {"disclosure": counted.disclosure(design.rows)}
    leakage = None if measure is None else counted.leakage(measure)
    if leakage is not None:
        found["leakage"] = leakage
    if problem == "disclosure":
        below = found["disclosure"].lower
        found["excess"] = _excess(target - Fraction(below or 0))
        if measure == "mutual-information" and leakage is not None:
            found |= _least_of_funnel(counted, duals, target, leakage)
    elif problem != "budget" and leakage is not None and leakage.upper is not None:
        found["excess"] = _excess(Fraction(leakage.upper) - target)
    if design.costs is None:
        return found
    costs, unit = as_integers(design.costs)
    spent = counted.expectation(costs, design.rows, unit)
    found["distortion"] = Claim(down(spent), up(spent), "distortion")
    if problem == "budget":
        found["excess"] = _excess(spent - target)
    if not duals or measure is None:
        return found
    scores, weights, prices = (duals[member] for member in DUALS)
    outputs, limits = len(design.rows[0]), 1 if problem == "budget" else 0
    kept = [s for s, row in enumerate(counts.rows()) if any(row)]
    fits = scores.shape[:2] == (1, outputs) and prices.shape[0] >= limits
    price = prices.numbers[0] if limits and fits else 0.0
    given = Scores(Table(scores.shape[1:], scores.numbers), weights.numbers, price)
    bound = None
    if measure == "mutual-information":
        if not fits or scores.shape[2] != counts.shape[0] or weights.shape != (1, 1) or prices.shape != (limits,):
            raise IntegrityError("the scores and prices of the certificate do not fit the problem")
        bound = least_value(counted, kept, costs, unit, given, design.target, problem)
    elif fits and measure in LINEAR and scores.shape[2] == len(kept):
        bound = least_linear(counted, costs, unit, given, design.target, problem, measure)
    elif fits and measure in WORST and weights.shape in ((outputs, 0), (outputs, 1)):
        bound = least_worst(counted, costs, unit, given, design.target, problem, measure)
    if bound is None:
        return found
    value = found["leakage"] if problem == "budget" else found["distortion"]
    return found | {"value": value} | _bounded(value, bound)


def _bounded(value: Claim, bound: Fraction, names: tuple[str, str] = ("lower_bound", "gap")) -> dict[str, Claim]:
    gap = max(Fraction(value.upper or 0) - bound, Fraction(0))
    return {names[0]: Claim(down(bound), None, value.unit), names[1]: Claim("0", up(gap), value.unit)}


def _least_of_funnel(
    counted: Counted, duals: Mapping[str, Table], disclosure: Fraction, leakage: Claim
) -> dict[str, Claim]:
    """`value`, `lower_bound` and `gap` of a funnel; with prices that are not followed here those of the solver too."""
    bound, found = elementary(counted, disclosure), {"value": leakage}
    if not duals:
        return found | _bounded(leakage, bound)
    line = duals["line.npy"].numbers
    if len(line) != 2:
        raise IntegrityError("the line of the certificate is not two numbers")
    prices = FunnelPrices(duals["prices.npy"].numbers, *line)
    if 0 < pairs(counted) <= MOST_PAIRS:
        return found | _bounded(leakage, max(bound, of_prices(counted, prices, disclosure)))
    stated = prices.solver_bound(disclosure)
    return found | _bounded(leakage, bound) | _bounded(leakage, stated, BY_SOLVER)


def computed_name(measure: Mapping[str, Any]) -> str | None:
    """The name under which a measure is computed here; None for one with a parameter of its own."""
    if not measure["order"] is measure["divergence"] is measure["gamma"] is None:
        return None
    in_worst_outcome = measure["name"] == "mutual-information" and measure["form"] == "worst"
    return "max-information" if in_worst_outcome else measure["name"]


def _excess(over: Fraction) -> Claim:
    return Claim("0", up(max(over, Fraction(0))), "excess")


def _tables(
    members: Mapping[str, bytes],
    record: Mapping[str, Any],
    own: str,
    needed: Mapping[str, tuple[str, int]],
    optional: Sequence[Mapping[str, tuple[str, int]]],
    name: str,
) -> dict[str, Table]:
    """The arrays of a file, all of those in `needed` and all or none of each group, with the hashes that are stated."""
    kinds = dict(needed)
    for group in optional:
        if any(member in members for member in group):
            kinds |= group
    if list(members) != [own, *kinds]:
        raise IntegrityError(f"{name} does not have the members of such a file, in their order")
    if record["members"] != {member: digest(members[member]) for member in kinds}:
        raise IntegrityError(f"{name}: a member does not have the hash that {own} states")
    return {member: array(members[member], f"{name}: {member}", *kind) for member, kind in kinds.items()}


def _asked(asked: Mapping[str, Any], name: str) -> None:
    good = isinstance(asked, dict) and set(asked) == {"problem", "leakage", "target"}
    good = good and asked["problem"] in PROBLEMS and isinstance(asked["leakage"], dict)
    good = good and set(asked["leakage"]) == set(MEASURE) and isinstance(asked["leakage"]["name"], str)
    if not good:
        raise IntegrityError(f"{name}: what was asked for is not of a known form")
    number(asked["target"], f"{name}: the target")


def _columns(record: Mapping[str, Any], name: str) -> tuple[list[list[str]], list[list[str]]]:
    """The labels of the useful and of the released columns."""
    book, released = record["codebook"], record["released"]
    if not isinstance(book, dict) or set(book) != {"private", "useful"}:
        raise IntegrityError(f"{name}: the codebook has other parts than private and useful")
    for entries in (book["private"], book["useful"], released):
        if not isinstance(entries, list) or not entries:
            raise IntegrityError(f"{name}: columns are missing")
        for entry in entries:
            wanted = {"column", "labels"} if entries is released else {"column", "labels", "rule"}
            if not isinstance(entry, dict) or set(entry) != wanted or not isinstance(entry["column"], str):
                raise IntegrityError(f"{name}: a column is not of a known form")
            labels = entry["labels"]
            texts = isinstance(labels, list) and all(isinstance(label, str) for label in labels)
            texts = texts and (labels or entries is book["private"])  # the values of private columns are private
            if not texts or len(set(labels)) < len(labels):
                raise IntegrityError(f"{name}: the labels of a column are not different texts")
            if entries is not released and not _labels_of_rule(entry["rule"], labels, entries is book["private"]):
                raise IntegrityError(f"{name}: the codebook states other labels than its rules give")
        if len({entry["column"] for entry in entries}) < len(entries):
            raise IntegrityError(f"{name}: a column occurs twice")
    return [entry["labels"] for entry in book["useful"]], [entry["labels"] for entry in released]


def _labels_of_rule(rule: Json, labels: Sequence[str], withheld: bool) -> bool:
    """Whether the labels are those of a rule: its values, or one for each interval; then its classes for the rest.

    `withheld`: the values may be null (a private column's), and count as none. The texts of intervals are not written
    again here.
    """
    if not isinstance(rule, dict) or not {"kind", "other", "missing"} <= set(rule):
        return False
    classes = rule.get("values") if rule["kind"] == "categories" else rule.get("edges")
    if withheld and classes is None and rule["kind"] == "categories":
        classes = []
    if not isinstance(classes, list):
        return False
    extras = [rule[name] for name in ("other", "missing") if rule[name] is not None]
    first = len(labels) - len(extras)
    if list(labels[first:]) != extras:
        return False
    return list(labels[:first]) == classes if rule["kind"] == "categories" else first == len(classes) - 1


def _symbols(codes: Table, labels: Sequence[Sequence[str]], size: int, name: str) -> list[Sequence[int]]:
    """The attribute codes of an alphabet: `size` different rows, one code for each column."""
    rows = list(codes.rows())
    if codes.shape != (size, len(labels)) or len(set(rows)) < len(rows):
        raise IntegrityError(f"{name} does not hold {size} different symbols of {len(labels)} columns")
    if not all(0 <= code < len(own) for row in rows for code, own in zip(row, labels, strict=True)):
        raise IntegrityError(f"{name} holds a code without a label")
    return rows


def _is_hash(text: object) -> bool:
    return isinstance(text, str) and len(text) == 64 and set(text) <= set("0123456789abcdef")
