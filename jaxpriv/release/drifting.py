"""A table of a later time against the records of the design: how far its useful columns differ, and what still holds.

What is known of a table depends on it in three ways. What holds for every population (`Mechanism.guarantees`) holds for
it. Numbers on the records of the design (leakage, distortion, certified gap) are about those records and do not
transfer. Bounds for the population hold as far as the table comes from it, which the p-values here test.
"""

from dataclasses import dataclass

import numpy as np

from jaxpriv._runtime.validation import instance
from jaxpriv.release.grouped import check_evidence
from jaxpriv.release.mechanism import MADE_BY_FIT, Evidence, Mechanism
from jaxpriv.statistics import audit
from jaxpriv.statistics.tables import Source
from jaxpriv.verifier.archive import Table
from jaxpriv.verifier.claims import Claim, Counted

# A corrected p-value below this is a drift: at most one in a hundred tables of the same population has one.
LEVEL = 0.01
# Permutations where the chi-squared approximation is not valid: at least these, and for each test as many more as a
# corrected p-value of half the level needs.
_PERMUTATIONS, _FOR_EACH = 999, 200


@dataclass(frozen=True)
class ColumnDrift:
    """One column, or all useful columns together (`column` None), of two tables.

    Attributes:
        variation: the total variation between the two shares of classes, (1/2) sum |p - q|.
        p_value: of the hypothesis that both tables are samples of one population: chi-squared (`audit.g_test`) where
            every expected count is at least 5, by permutation (`audit.permutation_test`) otherwise.
        adjusted: the same, corrected by Holm's method for the number of columns and the comparison of all together.
    """

    column: str | None
    variation: float
    p_value: float
    adjusted: float


@dataclass(frozen=True)
class TableDrift:
    """What differs between the records of a design and a table, and what it does to the guarantees.

    Attributes:
        columns: one for each useful column, and at the end the combinations of all of them.
        design, records: how many records the design has and the table has.
        unseen: records of the table whose combination has no symbol in the mechanism.
        information: I(X;Y) of the mechanism, X the symbol by which a record of this table is released: exact, rounded
            outwards. I(S;Y) is at most that for any S of these records. None where `refuse` releases nothing of them.
    """

    columns: tuple[ColumnDrift, ...]
    design: int
    records: int
    unseen: int
    information: Claim | None

    @property
    def drifted(self) -> bool:
        """Whether a corrected p-value is below 0.01. If none is, P(S|X) may still be another one."""
        return any(column.adjusted < LEVEL for column in self.columns)

    @property
    def sentences(self) -> list[str]:
        """What it says in words: how each column differs, what I(S;Y) is at most (nats), and a warning if it drifted.

        Without a full stop, the first one a heading of the others.
        """
        lines = [f"compared with the {self.design} records of the design:"]
        lines += [
            f"  {column.column or 'all useful columns together'}: total variation {column.variation:.3f}, p = "
            f"{column.p_value:.2g} (corrected {column.adjusted:.2g})"
            for column in self.columns
        ]
        if self.information is not None:
            lines.append(
                "whatever the private values of these records are, I(S;Y) is at most I(X;Y), which is at most "
                f"{self.information.end()}"
            )
        if self.drifted:
            lines.append(
                f"warning: a corrected p is below {LEVEL:g}, which is evidence that these records come from another "
                "population than those of the design: its bounds for the population may not hold for them; those for "
                "every population do"
            )
        return lines


def drift(mechanism: Mechanism, evidence: Evidence, source: Source) -> TableDrift:
    """Compare the useful columns of a table with the records that the mechanism was designed on.

    The test assumes that records are independent, one for each person. Where the table holds records of the design too
    the p-values are too large. Private columns are not read.

    Raises `InputError` for a table that the codebook cannot encode, `IntegrityError` for the evidence of another
    mechanism.
    """
    instance(mechanism, "mechanism", Mechanism, hint=MADE_BY_FIT)
    check_evidence(evidence, mechanism)
    codes, useful = mechanism.codebook.encode_useful(source), mechanism.codebook.useful
    counts, unknown = evidence.counts.sum(axis=0), mechanism.unknown(codes)
    seen = np.bincount(mechanism.locate_codes(codes[~unknown], "refuse"), minlength=len(counts))
    # Each combination without a symbol is a cell of its own: merged, they would look new in every table.
    others = np.unique(codes[unknown], axis=0, return_counts=True)[1]
    pairs = [_marginals(mechanism.useful[:, place], counts, codes[:, place]) for place in range(len(useful))]
    pairs.append(np.array([np.append(counts, np.zeros_like(others)), np.append(seen, others)]))
    permutations = max(_PERMUTATIONS, _FOR_EACH * len(pairs))
    p_values = np.array([audit.g_test(pair) for pair in pairs], dtype=float)
    for place in np.flatnonzero(np.isnan(p_values)):
        table = pairs[place][:, pairs[place].any(axis=0)]
        p_values[place] = audit.permutation_test(table, permutations=permutations).p_value
    rows = zip((*useful, None), pairs, p_values.tolist(), audit.holm(p_values).tolist(), strict=True)
    return TableDrift(
        tuple(ColumnDrift(name, audit.drift(*pair).distance / 2, p, adjusted) for name, pair, p, adjusted in rows),
        int(counts.sum()),
        len(codes),
        int(unknown.sum()),
        _information(mechanism, seen, codes[unknown]),
    )


def _marginals(symbols: np.ndarray, counts: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """The counts of each class of one column, of the design and of the table: (2, K)."""
    size = 1 + max(int(symbols.max()), int(codes.max()))
    return np.array([np.bincount(symbols, counts, size), np.bincount(codes, minlength=size)], dtype=np.int64)


def _information(mechanism: Mechanism, seen: np.ndarray, unknown: np.ndarray) -> Claim | None:
    """I(X;Y), X distributed as `seen` (X,) and what the rule of the mechanism makes of codes without a symbol."""
    if len(unknown) and mechanism.unseen == "refuse":
        return None
    if mechanism.unseen == "suppress":  # a symbol drawn uniformly; in units of 1/X, whole numbers
        used = len(seen) * seen + len(unknown)
    else:
        used = seen + np.bincount(mechanism.locate_codes(unknown, "nearest"), minlength=len(seen))
    rows = mechanism.alone.table.tolist()
    return Counted.of(Table((1, len(rows)), used.tolist()), rows, "records").disclosure(rows)
