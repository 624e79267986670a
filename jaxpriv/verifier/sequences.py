"""What a release and earlier ones of the same records disclose, to each coalition of their receivers.

The earlier releases Z have P(z|x) = R/K, R (X, Z) whole numbers, K = 2^62 for each design that was drawn from. The
release Y is drawn from T(y | x, z)/2^62, whose row x Z + z is that of the pair (x, z). With counts N (S, X) of n
records the pairs have the whole counts N R (S, X Z) of n K records, and T is their table: what `claims` computes of
counts and a table it computes of the pairs, with the outputs (z, y), y or z. Standard library only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from jaxpriv.errors import InputError, IntegrityError
from jaxpriv.verifier.archive import Json, Table
from jaxpriv.verifier.claims import ONE, Claim, Counted, Matrix, Measure, without_counts
from jaxpriv.verifier.logarithms import up

# The receivers of the earlier releases, those of the new one, and both.
COALITIONS: tuple[str, ...] = ("earlier", "alone", "together")
# A receipt is public: more digits would tell more about the counts. The limit has as many, so that no rounded leakage
# is above it.
_DIGITS = 3


def joint_rows(earlier: Matrix, rows: Matrix) -> list[list[int]]:
    """P(z, y | x) (X, Z Y) in units of 1/(K 2^62)."""
    size = len(earlier[0])
    return [[r * t for z, r in enumerate(row) for t in rows[x * size + z]] for x, row in enumerate(earlier)]


def by_coalition(joint: Matrix, size: int) -> dict[str, Matrix]:
    """Rows over (z, y) (.., Z Y) with `size` symbols y, summed to what each coalition sees."""
    earlier = [[sum(row[place : place + size]) for place in range(0, len(row), size)] for row in joint]
    alone = [[sum(row[y::size]) for y in range(size)] for row in joint]
    return dict(zip(COALITIONS, (earlier, alone, joint), strict=True))


def counted_pairs(counts: Matrix, earlier: Matrix, rows: Matrix) -> Counted:
    """The pairs (x, z) as records, and their outputs (z, y); private symbols without a record left out."""
    size = len(earlier[0])
    private = [
        [n * r for n, row_of_x in zip(row, earlier, strict=True) for r in row_of_x] for row in counts if any(row)
    ]
    outputs = []
    for row in private:
        every = [[0] * len(rows[0]) for _ in range(size)]
        for pair, n in enumerate(row):
            if n:
                seen = every[pair % size]
                every[pair % size] = [w + n * t for w, t in zip(seen, rows[pair], strict=True)]
        outputs.append([w for seen in every for w in seen])
    return Counted(private, outputs, sum(map(sum, counts)) * sum(earlier[0]))


def leakages(counts: Matrix, earlier: Matrix, rows: Matrix, measure: Measure | str) -> dict[str, Claim | None]:
    """The leakage to each coalition; None of a measure that is not computed."""
    counted = counted_pairs(counts, earlier, rows)
    return {
        name: replace(counted, outputs=outputs).leakage(measure)
        for name, outputs in by_coalition(counted.outputs, len(rows[0])).items()
    }


def _decimal(limit: float) -> Fraction:
    """A limit as it was written: 9/10, and not the float64 beside it."""
    return Fraction(repr(float(limit)))


@dataclass(frozen=True)
class Disclosed:
    """What each coalition has: `guarantees` for every population, and `leakage` on the records of the design, of its
    measure; none without counts.
    """

    guarantees: Mapping[str, Mapping[str, Claim]]
    leakage: Mapping[str, Claim]

    @classmethod
    def of(cls, earlier: Matrix, rows: Matrix, counts: Table | None, measure: Measure) -> "Disclosed":
        """From R (X, Z), T (X Z, Y) and counts (S, X); `InputError` for a measure that is not computed here."""
        tables = by_coalition(joint_rows(earlier, rows), len(rows[0]))
        guarantees = {name: without_counts(table) for name, table in tables.items()}
        if counts is None:
            return cls(guarantees, {})
        by_name = leakages(list(counts.rows()), earlier, rows, measure)
        computed = {name: claim for name, claim in by_name.items() if claim is not None}
        if not computed:
            raise InputError("what receivers have together is not computed for maximal alpha-leakage of such an order")
        return cls(guarantees, computed)

    @property
    def upper(self) -> dict[str, str | None]:
        """The leakage that each coalition has at most, with few digits; None: infinite."""
        return {
            name: None if claim.upper is None else up(Fraction(claim.upper), _DIGITS)
            for name, claim in self.leakage.items()
        }

    def above(self, limit: float) -> str | None:
        """The coalition that has most, if that is more than `limit`."""
        for name in reversed(COALITIONS):
            claim = self.leakage.get(name)
            if claim is not None and (claim.upper is None or Fraction(claim.upper) > _decimal(limit)):
                return name
        return None

    def record(self, earlier: str, limit: float | None) -> dict[str, Json]:
        """As a receipt states it, with the hash of the earlier design."""
        every: dict[str, Json] = {
            name: {key: claim.record for key, claim in claims.items()} for name, claims in self.guarantees.items()
        }
        return {
            "design": earlier,
            "limit": None if limit is None else repr(float(up(_decimal(limit), _DIGITS))),
            "guarantees": every,
            "leakage": {**self.upper} or None,
        }


def rounded_rows(rows: Matrix) -> list[list[int]]:
    """Rows with a common sum as rows that sum to 2^62, by less than 2^-62 each entry but the largest."""
    scaled = [[entry * ONE // whole for entry in row] for row in rows for whole in [sum(row)]]
    for row in scaled:
        row[row.index(max(row))] += ONE - sum(row)
    return scaled


def independent(rows: Matrix, outputs: int) -> list[Sequence[int]]:
    """The rows of the pairs (x, z) of a design that does not look at z, which has so many values."""
    return [row for row in rows for _ in range(outputs)]


def check_stated(stated: Mapping[str, Json], disclosed: Disclosed, earlier: str, name: str) -> None:
    """`IntegrityError` unless a receipt states what was computed; of the leakage only where there are counts."""
    if stated["design"] != earlier:
        raise IntegrityError(f"{name} is of a release after another design")
    limit = stated["limit"]
    # Receipts of earlier versions state all digits of the limit.
    expected = {**disclosed.record(earlier, None), "limit": limit}
    if not disclosed.leakage or stated["leakage"] is None:
        expected["leakage"] = stated["leakage"]
    if stated != expected:
        raise IntegrityError(f"{name}: what it states of the receivers together is not what the designs give")
    if limit is not None and disclosed.above(float(str(limit))):
        raise IntegrityError(f"{name}: what receivers have together is above the limit that it states")
