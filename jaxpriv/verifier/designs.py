"""A design (public) and its audit (private): what the files hold, and everything that they state computed again.

The design holds the integer table, the classes of the columns, the alphabets, what was asked for and the guarantees
that need no data. It holds no count and nothing that was computed from one but the mechanism itself. The audit holds
counts, the adversary's scores and prices; the design names it by a keyed hash, from which nothing can be guessed
without the key, which the audit holds. Standard library only.
"""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from jaxpriv.errors import InputError, IntegrityError
from jaxpriv.verifier.archive import Json, Table, array, canonical, digest, unpack
from jaxpriv.verifier.bounds import Scores, least_linear, least_value
from jaxpriv.verifier.claims import Claim, Counted, Matrix, Measure, as_integers, matrix, number, without_counts
from jaxpriv.verifier.disclosure_bounds import MOST_PAIRS, FunnelPrices, elementary, of_prices, pairs
from jaxpriv.verifier.logarithms import down, up
from jaxpriv.verifier.records import AUDIT, DESIGN, GROUPS, GROUPS_AUDIT, member_record
from jaxpriv.verifier.sequences import (
    Disclosed,
    by_coalition,
    counted_pairs,
    independent,
    joint_rows,
    leakages,
    rounded_rows,
)
from jaxpriv.verifier.worst_outcome_bounds import WORST, least_worst

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
# The member of a design that is made to follow an earlier one, which is at most the eighth in a row.
EARLIER, _CHAIN = "earlier.zip", 8
# Members of files of groups, beside one for each group.
_GROUPS, RECORDS = "groups.json", "records.npy"
# Of a funnel: nu, and (lambda, c) of `FunnelPrices`.
PRICES = {"prices.npy": ("<f8", 1), "line.npy": ("<f8", 1)}


@dataclass(frozen=True)
class DesignFile:
    """The public part, checked: `sha256` is of the whole file, `rows` are the integer table.

    After the design `earlier`, with draws z, the row x Z + z is that of the pair (x, z), and `guarantees` are about all
    draws together.
    """

    record: Mapping[str, Any]
    sha256: str
    rows: Matrix
    useful: Sequence[Sequence[int]]
    released: Sequence[Sequence[int]]
    costs: Table | None
    guarantees: Mapping[str, Claim]
    earlier: "DesignFile | None" = None

    @property
    def absent(self) -> Sequence[int]:
        """Useful symbols that no record of the design has, only ones held out; of a design after another one those of
        that one. The rule `nearest` passes over them.
        """
        return self.record.get("absent", ())  # files of version 1 do not state them

    @property
    def parts(self) -> "tuple[DesignFile, ...]":
        """This design alone, as `GroupsFile.parts` has those of several groups of columns."""
        return (self,)

    @property
    def problem(self) -> str:
        """`budget`, `leakage-budget`, `disclosure` or `watchdog`."""
        return self.record["asked"]["problem"]

    @property
    def target(self) -> float:
        """The number that was asked for."""
        return number(self.record["asked"]["target"], "the target of the design")

    @property
    def measure(self) -> Measure:
        """The leakage that was asked for."""
        return Measure.of(self.record["asked"]["leakage"], "the leakage of the design")

    @cached_property
    def drawn(self) -> Matrix:
        """The draws of the earlier designs and of this one, (X, Z Y): rows with a common sum."""
        return self.rows if self.earlier is None else joint_rows(self.earlier.drawn, self.rows)

    @cached_property
    def alone(self) -> Matrix:
        """P(y|x) in units of 2^-62, whole numbers; of a design after another one rounded."""
        return self.rows if self.earlier is None else rounded_rows(by_coalition(self.drawn, len(self.rows[0]))["alone"])


@dataclass(frozen=True)
class Audit:
    """The private part, checked against its design."""

    record: Mapping[str, Any]
    counts: Table
    held_out: Table | None
    private: Sequence[Sequence[int]]
    duals: Mapping[str, Table]
    claims: Mapping[str, Claim]


@dataclass(frozen=True)
class GroupsFile:
    """The designs of several groups of columns, checked; `guarantees` are those of all releases side by side."""

    record: Mapping[str, Any]
    sha256: str
    parts: tuple[DesignFile, ...]
    guarantees: Mapping[str, Claim]


@dataclass(frozen=True)
class GroupsAudit:
    """The audits of the groups, and (r, k + 3) s, x_1, ..., x_k and how many records are of the design and held out."""

    record: Mapping[str, Any]
    parts: tuple[Audit, ...]
    records: Table


def read_design(data: bytes, name: str, most: int = _CHAIN) -> DesignFile:
    """The design of a file, after at most `most` earlier ones; `IntegrityError` if anything in it is not as it is
    stated there, `InputError` if it holds designs of several groups of columns.
    """
    members = unpack(data, name)
    if _GROUPS in members:
        raise InputError(
            f"{name} holds a design for each of {len(members) - 1} groups of columns, and one design is needed here: "
            f"python -m zipfile -e {name} FOLDER writes those of the groups, group_1.zip and so on"
        )
    record = member_record(members, "design.json", name, DESIGN)
    earlier = _earlier(members, record, name, most)
    tables = _tables(members, record, "design.json", _PUBLIC, [_COSTS], name)
    rows = matrix(tables["table.npy"], f"{name}: table.npy")
    sides = record["codebook"]["useful"], record["released"]
    alphabets = {}
    symbols = len(rows) if earlier is None else len(earlier.useful)
    for member, columns, size in (("useful.npy", sides[0], symbols), ("released.npy", sides[1], len(rows[0]))):
        labels = [column["labels"] for column in columns]
        alphabets[member] = _symbols(tables[member], labels, size, f"{name}: {member}")
    costs = tables.get("distortion.npy")
    if (costs is not None) != (record["asked"]["problem"] in ("budget", "leakage-budget")):
        raise IntegrityError(f"{name}: a distortion goes with a distortion problem, and with nothing else")
    useful, released = alphabets["useful.npy"], alphabets["released.npy"]
    if costs is not None and costs.shape != (len(useful), len(released)):
        raise IntegrityError(f"{name}: distortion.npy has another shape than table.npy")
    design = DesignFile(record, digest(data), rows, useful, released, costs, {}, earlier)
    if list(design.absent) != sorted(set(design.absent) & set(range(len(useful)))) or len(design.absent) == len(useful):
        raise IntegrityError(f"{name}: absent are not the places of some of its useful symbols, in their order")
    if earlier is not None:
        if len(rows) != len(useful) * len(earlier.drawn[0]) or not _alike(design, earlier):
            raise IntegrityError(f"{name}: its table is not one of the symbols and draws of its earlier design")
        if list(design.absent) != list(earlier.absent):
            raise IntegrityError(f"{name}: absent are other symbols than those of its earlier design")
        if costs is None or design.measure.name != "mutual-information":
            raise IntegrityError(f"{name}: another measure or problem than designs after an earlier one have")
    guarantees = without_counts(design.drawn)
    _as_stated(record["guarantees"], guarantees, f"{name}: the stated guarantee", "what the table gives")
    return replace(design, guarantees=guarantees)


def _earlier(members: dict[str, bytes], record: Mapping[str, Any], name: str, most: int) -> DesignFile | None:
    """The design that this one is made to follow, the last member of its file; it is taken from the members."""
    follows = record.get("follows")
    if (follows is not None) != (list(members)[-1] == EARLIER):
        raise IntegrityError(f"{name}: the earlier design of its record is not in the file, or the reverse")
    if follows is None:
        return None
    content = members.pop(EARLIER)
    if follows != digest(content) or not most:
        raise IntegrityError(f"{name}: {EARLIER} is not the design that is stated, or one after too many others")
    return read_design(content, f"{name}: {EARLIER}", most - 1)


def _alike(design: DesignFile, earlier: DesignFile) -> bool:
    """Whether two designs have the same useful columns, classes and symbols."""
    useful = (file.record["codebook"]["useful"] for file in (design, earlier))
    return next(useful) == next(useful) and list(design.useful) == list(earlier.useful)


def disclosed(design: DesignFile, earlier: DesignFile | None, counts: Table | None) -> Disclosed:
    """What receivers of a release by each of two designs have: after its own earlier design, or independently of it.

    `counts` (S, X) are those of the design; None: only what holds for every population. Raises `InputError` for designs
    of other useful symbols, and for another earlier design than that which the design follows.
    """
    before = earlier if design.earlier is None else design.earlier
    if before is None or (earlier is not None and earlier.sha256 != before.sha256):
        raise InputError("the design follows another earlier design than that which is named")
    if not _alike(design, before):
        raise InputError("the earlier design has other useful columns, classes or symbols than the design")
    rows = design.rows if design.earlier is not None else independent(design.rows, len(before.drawn[0]))
    return Disclosed.of(before.drawn, rows, counts, design.measure)


def read_audit(data: bytes, design: DesignFile, name: str) -> Audit:
    """The audit of a file, for its design; `IntegrityError` if it belongs to another one or states what is not so."""
    members = unpack(data, name)
    record = member_record(members, "audit.json", name, AUDIT)
    tables = _tables(members, record, "audit.json", _PRIVATE, [_HELD_OUT, _certificate(design.problem)], name)
    if record["design"] != design.sha256:
        raise IntegrityError(f"{name} belongs to another design")
    labels = record["private_labels"]
    if len(labels) != len(design.record["codebook"]["private"]):
        raise IntegrityError(f"{name}: private_labels are not different texts for each private column")
    if commitment(record["key"], record["members"], labels) != design.record["commitment"]:
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
    if design.record["version"] > 1 and design.earlier is None:
        counted = [any(column) for column in zip(*audit.counts.rows(), strict=True)]
        if [x for x, there in enumerate(counted) if not there] != list(design.absent):
            raise IntegrityError(f"{name}: counts.npy has records of symbols that are absent, or the reverse")
    held_out = audit.held_out
    if held_out is not None and (held_out.shape != audit.counts.shape or any(count < 0 for count in held_out.numbers)):
        raise IntegrityError(f"{name}: held_out.npy are no counts of the same alphabets")
    _as_stated(record["claims"], audit.claims, f"{name}: the stated number", "what counts and table give")
    return audit


def holds_groups(data: bytes, name: str) -> bool:
    """Whether a file is the design of several groups of columns; `IntegrityError` if it is no archive."""
    return _GROUPS in unpack(data, name)


def _as_stated(stated: Mapping[str, Json], claims: Mapping[str, Claim], what: str, wanted: str) -> None:
    for key in dict.fromkeys((*claims, *stated)):
        if stated.get(key) != (claims[key].record if key in claims else None):
            raise IntegrityError(f"{what} {key!r} is not {wanted}")


def read_groups(data: bytes, name: str) -> GroupsFile:
    """The designs of a file of groups; `IntegrityError` if anything in it is not as it is stated there."""
    members = unpack(data, name)
    record = member_record(members, _GROUPS, name, GROUPS)
    del members[_GROUPS]
    _stated_members(members, record, group_names(len(members)), name)
    parts = tuple(read_design(content, f"{name}: {member}") for member, content in members.items())
    private = [column["column"] for column in parts[0].record["codebook"]["private"]]
    named = [entry["column"] for part in parts for entry in part.record["released"]]
    for part, member in zip(parts, members, strict=True):
        columns = [column["column"] for column in part.record["codebook"]["private"]]
        if part.measure.name != "mutual-information" or part.problem != "budget" or part.earlier is not None:
            raise IntegrityError(f"{name}: {member} has another measure or problem than designs of groups have")
        if columns != private or part.record["unseen"] != parts[0].record["unseen"]:
            raise IntegrityError(f"{name}: {member} has other private columns or another rule than the first group")
    if len(set(named)) < len(named):
        raise IntegrityError(f"{name}: two groups release one column")
    guarantees = of_groups([part.guarantees for part in parts])
    _as_stated(record["guarantees"], guarantees, f"{name}: the stated guarantee", "the sum of those of the groups")
    return GroupsFile(record, digest(data), parts, guarantees)


def read_groups_audit(data: bytes, design: GroupsFile, name: str) -> GroupsAudit:
    """The audits of a file of groups and the records of all groups, for their design; otherwise `IntegrityError`."""
    members = unpack(data, name)
    record = member_record(members, "audit.json", name, GROUPS_AUDIT)
    del members["audit.json"]
    _stated_members(members, record, [*group_names(len(design.parts)), RECORDS], name)
    if record["design"] != design.sha256:
        raise IntegrityError(f"{name} belongs to another design")
    if commitment(record["key"], {RECORDS: record["members"][RECORDS]}, []) != design.record["commitment"]:
        raise IntegrityError(f"{name}: its records are not those that the design was made with")
    records = array(members.pop(RECORDS), f"{name}: {RECORDS}", "<i8", 2)
    parts = tuple(
        read_audit(content, part, f"{name}: {member}")
        for (member, content), part in zip(members.items(), design.parts, strict=True)
    )
    for place, part in enumerate(parts, 1):
        if not _has_counts(records, place, len(parts), part):
            raise IntegrityError(f"{name}: {RECORDS} does not hold the counts of group {place}")
    return GroupsAudit(record, parts, records)


def _has_counts(records: Table, place: int, groups: int, part: Audit) -> bool:
    """Whether the records, by the symbols of one group alone, are its counts and those held out."""
    private, useful = part.counts.shape
    if records.shape[1] != groups + 3:
        return False
    counts = [0] * (private * useful), [0] * (private * useful)
    for row in records.rows():
        s, x, designed, held_out = row[0], row[place], *row[-2:]
        if not (0 <= s < private and 0 <= x < useful and min(designed, held_out) >= 0):
            return False
        counts[0][s * useful + x] += designed
        counts[1][s * useful + x] += held_out
    others = [0] * (private * useful) if part.held_out is None else part.held_out.numbers
    return counts[0] == list(part.counts.numbers) and counts[1] == list(others)


def group_names(count: int) -> list[str]:
    """The members of a file of so many groups."""
    return [f"group_{place}.zip" for place in range(1, count + 1)]


def of_groups(guarantees: Sequence[Mapping[str, Claim]]) -> dict[str, Claim]:
    """What holds for every population of the releases of several groups side by side: at most the sums.

    Given the record the groups are released independently, so W is the product of the W_g, and both
    sum_y max_x W(y|x) and W(y|x)/W(y|x') are at most the products of those of the groups.
    """
    uppers = {name: [part[name].upper for part in guarantees] for name in guarantees[0]}
    return {
        name: _at_most(None if None in ends else sum((Fraction(end) for end in ends if end), Fraction(0)), "nats")
        for name, ends in uppers.items()
    }


def _stated_members(members: Mapping[str, bytes], record: Mapping[str, Any], names: Sequence[str], name: str) -> None:
    if not members or list(members) != list(names):
        raise IntegrityError(f"{name} does not have the members of such a file, in their order")
    if record["members"] != {member: digest(content) for member, content in members.items()}:
        raise IntegrityError(f"{name}: a member does not have the hash that is stated")


def _certificate(problem: str) -> Mapping[str, tuple[str, int]]:
    """The members that prove a bound: prices of a funnel, scores and prices of another problem."""
    return PRICES if problem == "disclosure" else DUALS


def commitment(key: str, members: Mapping[str, Json], labels: Sequence[Sequence[str]]) -> str:
    """HMAC-SHA256 of the hashes of the private arrays and of the labels of the private columns."""
    content = {"members": dict(members), "private_labels": [list(column) for column in labels]}
    return hmac.new(bytes.fromhex(key), canonical(content), "sha256").hexdigest()


def claims_of(design: DesignFile, counts: Table, duals: Mapping[str, Table], name: str) -> dict[str, Claim]:
    """Every number of the design on its own counts; after an earlier design the leakage is that of all draws together,
    and `leakage_earlier` and `leakage_alone` are those of the others.

    `leakage` (where the measure is one that is computed here) and `disclosure` I(X;Y); `distortion` E d; `value` the
    objective, `excess` over the limit (0 if it is met; no number if it is infinite; absent for a limit on a measure
    that is not computed here), and, with a distortion, for mutual information, maximal leakage, min-entropy leakage and
    the measures of `WORST`, `lower_bound` (no mechanism that meets the limit has a smaller objective) and `gap`. For
    mutual information and a target of disclosure these too; where they are the elementary bound only (more than two
    private symbols, or too many useful ones), `solver_bound` and `solver_gap` are what the branch and bound of the
    solver proved in float64, which is not computed again here.
    """
    counted, claims = Counted.of(counts, design.alone, name), {}
    if design.earlier is None:
        claims["disclosure"] = counted.disclosure(design.rows)
    else:
        before = design.earlier.drawn
        each = [[n if x == place else 0 for x in range(len(before))] for place, n in enumerate(counted.useful)]
        utility = leakages(each, before, design.rows, "mutual-information")["alone"]
        assert utility is not None
        claims["disclosure"] = utility
        counted = counted_pairs(list(counts.rows()), before, design.rows)
        for coalition, outputs in by_coalition(counted.outputs, len(design.rows[0])).items():
            claim = replace(counted, outputs=outputs).leakage(design.measure)
            if claim is not None and coalition != "together":
                claims[f"leakage_{coalition}"] = claim
    measure, problem, target = design.measure.certified_as, design.problem, Fraction(design.target)
    leakage = counted.leakage(design.measure)
    if leakage is not None:
        claims["leakage"] = leakage
    if problem == "disclosure":
        below = claims["disclosure"].lower
        claims["excess"] = _excess(target - Fraction(below or 0))
        if measure == "mutual-information" and leakage is not None:
            claims |= _least_of_funnel(counted, duals, target, leakage)
    elif problem != "budget" and leakage is not None:
        claims["excess"] = _excess(None if leakage.upper is None else Fraction(leakage.upper) - target)
    if design.costs is None:
        return claims
    costs, unit = as_integers(design.costs)
    draws = len(design.rows) // len(costs)  # of the earlier designs
    costs = independent(costs, draws)
    spent = counted.expectation(costs, design.rows, unit)
    claims["distortion"] = Claim(down(spent), up(spent), "distortion")
    if problem == "budget":
        claims["excess"] = _excess(spent - target)
    if not duals:
        return claims
    scores, weights, prices = (duals[member] for member in DUALS)
    outputs, limits = len(design.rows[0]) * draws, 1 if problem == "budget" else 0
    present = [s for s, row in enumerate(counts.rows()) if any(row)]
    fits = scores.shape[:2] == (1, outputs) and prices.shape[0] >= limits
    price = prices.numbers[0] if limits and fits else 0.0
    given = Scores(Table(scores.shape[1:], scores.numbers), weights.numbers, price)
    bound = None
    if measure == "mutual-information":
        if not fits or scores.shape[2] != counts.shape[0] or weights.shape != (1, 1) or prices.shape != (limits,):
            raise IntegrityError("the scores and prices of the certificate do not fit the problem")
        bound = least_value(counted, present, costs, unit, given, design.target, problem, draws)
    elif fits and measure in LINEAR and scores.shape[2] == len(present):
        bound = least_linear(counted, costs, unit, given, design.target, problem, measure)
    elif fits and measure in WORST and weights.shape in ((outputs, 0), (outputs, 1)):
        bound = least_worst(counted, costs, unit, given, design.target, problem, measure)
    if bound is None:
        return claims
    value = claims["leakage"] if problem == "budget" else claims["distortion"]
    return claims | {"value": value} | _bounded(value, bound)


def _bounded(value: Claim, bound: Fraction, names: tuple[str, str] = ("lower_bound", "gap")) -> dict[str, Claim]:
    gap = None if value.upper is None else max(Fraction(value.upper) - bound, Fraction(0))
    return {names[0]: Claim(down(bound), None, value.unit), names[1]: _at_most(gap, value.unit)}


def _least_of_funnel(
    counted: Counted, duals: Mapping[str, Table], disclosure: Fraction, leakage: Claim
) -> dict[str, Claim]:
    """`value`, `lower_bound` and `gap` of a funnel; with prices that are not followed here those of the solver too."""
    bound, claims = elementary(counted, disclosure), {"value": leakage}
    if not duals:
        return claims | _bounded(leakage, bound)
    line = duals["line.npy"].numbers
    if len(line) != 2:
        raise IntegrityError("the line of the certificate is not two numbers")
    prices = FunnelPrices(duals["prices.npy"].numbers, *line)
    if 0 < pairs(counted) <= MOST_PAIRS:
        return claims | _bounded(leakage, max(bound, of_prices(counted, prices, disclosure)))
    stated = prices.solver_bound(disclosure)
    return claims | _bounded(leakage, bound) | _bounded(leakage, stated, BY_SOLVER)


def _excess(over: Fraction | None) -> Claim:
    return _at_most(None if over is None else max(over, Fraction(0)), "excess")


def _at_most(most: Fraction | None, unit: str) -> Claim:
    """From 0 to `most`; None: infinite."""
    return Claim(None, None, unit) if most is None else Claim("0", up(most), unit)


def _tables(
    members: Mapping[str, bytes],
    record: Mapping[str, Any],
    first: str,
    needed: Mapping[str, tuple[str, int]],
    optional: Sequence[Mapping[str, tuple[str, int]]],
    name: str,
) -> dict[str, Table]:
    """The arrays of a file, all of those in `needed` and all or none of each group, with the hashes that are stated."""
    kinds = dict(needed)
    for group in optional:
        if any(member in members for member in group):
            kinds |= group
    if list(members) != [first, *kinds]:
        raise IntegrityError(f"{name} does not have the members of such a file, in their order")
    if record["members"] != {member: digest(members[member]) for member in kinds}:
        raise IntegrityError(f"{name}: a member does not have the hash that {first} states")
    return {member: array(members[member], f"{name}: {member}", *kind) for member, kind in kinds.items()}


def _symbols(codes: Table, labels: Sequence[Sequence[str]], size: int, name: str) -> list[Sequence[int]]:
    """The attribute codes of an alphabet: `size` different rows, one code for each column."""
    rows = list(codes.rows())
    if codes.shape != (size, len(labels)) or len(set(rows)) < len(rows):
        raise IntegrityError(f"{name} does not hold {size} different symbols of {len(labels)} columns")
    if not all(0 <= code < len(of_column) for row in rows for code, of_column in zip(row, labels, strict=True)):
        raise IntegrityError(f"{name} holds a code without a label")
    return rows
