"""Records of a table as counts, in two parts: those that a design is made from, and those held out for its audit."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from jaxpriv._runtime.validation import scalar, whole
from jaxpriv.data.datasets._layout import distinct_rows
from jaxpriv.errors import InputError, ResourceError
from jaxpriv.release.mechanism import Mechanism
from jaxpriv.release.requests import TableRequest
from jaxpriv.release.table import mean_row
from jaxpriv.statistics.tables import ROWS_PER_SYMBOL, Codebook, Quantiles, Rule, Source, enough_rows, fit_codebook
from jaxpriv.statistics.tables.readers import Column, read_columns
from jaxpriv.statistics.tables.rules import FittedRule
from jaxpriv.verifier.csv_text import column_names

# A table of this number squared is a file of 128 MiB, and the verifier goes through it entry by entry.
MOST_SYMBOLS = 2**12
# Combinations of a group that is chosen, so many that its design takes seconds.
MOST_IN_GROUP = 128


# How groups are designed, in a message.
IN_GROUPS = "`fit_groups`"


class CrowdedError(InputError, ResourceError):
    """More useful combinations than one design takes; those of each of the `groups` of columns are few enough.

    There are no groups where a column by itself has too many classes. `rules` are those of columns without classes of
    their own.
    """

    def __init__(self, message: str, classes: Mapping[str, int], most: int, rules: Mapping[str, Rule] | None = None):
        """`classes` of each useful column; `most` combinations for the records that there are."""
        groups: list[list[str]] = [[]]
        for name, size in classes.items():
            if groups[-1] and math.prod(classes[other] for other in groups[-1]) * size > min(most, MOST_IN_GROUP):
                groups.append([])
            groups[-1].append(name)
        small = max(classes.values()) <= min(most, MOST_IN_GROUP)
        self.groups = groups if small and len(groups) > 1 else []
        self.rules = rules or {}
        super().__init__(f"{message}, or design groups of columns ({IN_GROUPS})" if self.groups else message)


@dataclass(frozen=True, eq=False)
class CountedParts:
    """The records of a table as counts (S, X): those of the design, and those held out; codes (S, a) and (X, b)."""

    codebook: Codebook
    private: np.ndarray
    useful: np.ndarray
    design: np.ndarray
    held_out: np.ndarray | None

    @property
    def seen(self) -> np.ndarray:
        """The useful symbols that a record of the design has, (X,) truth values."""
        return np.asarray(self.design.any(axis=0))

    def nearest(self) -> np.ndarray:
        """For every symbol the place among those seen of the nearest one, (X,): itself where it was seen."""
        seen = self.seen
        place = np.cumsum(seen) - 1
        for x in np.flatnonzero(~seen):
            place[x] = int((self.useful[seen] != self.useful[x]).sum(axis=1).argmin())
        return place

    def of_all(self, table: np.ndarray, unseen: str, earlier: Sequence[Sequence[int]] | None = None) -> np.ndarray:
        """The rows of all symbols, (X, Y) whole numbers, from those of the symbols seen: of the nearest one, or with
        `suppress` their mean. With the draws (X, Z) of an `earlier` mechanism there is a row for each (x, z), and the
        mean is that of the symbols which z leaves possible.

        A combination that the design does not have is then suppressed whether a record held out has it or none, and
        what is released of a record does not depend on those held out.
        """
        weights = [[1]] * int(self.seen.sum()) if earlier is None else earlier
        rows = table.reshape(len(weights), len(weights[0]), -1)
        every = rows[self.nearest()]
        if unseen == "suppress" and not self.seen.all():
            for z, shares in enumerate(zip(*weights, strict=True)):
                if any(shares):
                    every[~self.seen, z] = mean_row(rows[:, z].tolist(), shares)
        return every.reshape(-1, table.shape[1])


@dataclass(frozen=True, eq=False)
class Parts:
    """The columns that a request names, and which rows of the table (n,) are for the design.

    The useful columns, classes and symbols are those of the mechanism `after`, where there is one.
    """

    request: TableRequest
    columns: Mapping[str, Column]
    first: np.ndarray
    after: Mechanism | None

    def fitted(self, name: str, rule: Rule) -> FittedRule:
        """A rule with the classes of a column: quantiles are those of the design, categories those of all records."""
        column = self.columns[name]
        return rule.fit(column.part(self.first) if isinstance(rule, Quantiles) else column)

    def counted(self) -> CountedParts:
        """The counts of both parts over the combinations of classes that occur in either."""
        asked, first = self.request, self.first
        codebook = asked.codebook
        if codebook is None:
            rules = {
                name: self.fitted(name, rule) if isinstance(rule, Quantiles) and name in self.columns else rule
                for name, rule in (asked.rules or {}).items()
            }
            useful = asked.useful
            if self.after is not None:
                useful = self.after.codebook.useful
                rules |= {name: self.after.codebook.rules[name] for name in useful}
            codebook = fit_codebook(
                self.columns, private=asked.private, useful=useful, rules=rules, shared=asked.shared
            )
        codes = codebook.encode(self.columns)
        codebook = codes.codebook
        (private_codes, s), (useful_codes, x) = (
            distinct_rows(attributes, [len(codebook.rules[name].labels) for name in names])
            for names, attributes in ((codebook.private, codes.private), (codebook.useful, codes.useful))
        )
        if self.after is not None:
            useful_codes, x = self.after.useful, self.after.locate_codes(codes.useful, "refuse")
        check_records(int(first.sum()), codebook, len(useful_codes), len(private_codes), asked.sparse)
        counts = np.zeros((2, len(private_codes), len(useful_codes)), dtype=np.int64)
        np.add.at(counts, ((~first).astype(int), s, x), 1)
        return CountedParts(codebook, private_codes, useful_codes, counts[0], None if first.all() else counts[1])


def read_parts(source: Source, asked: TableRequest, after: Mechanism | None = None) -> Parts:
    """The columns that a codebook or the request names; a share of the rows, drawn by its seed, for the design."""
    share = scalar(asked.split, "split", low=0.0, high=1.0, open_low=True)
    seed = whole(asked.seed, "seed", low=0.0)
    earlier_useful = () if after is None else after.codebook.useful
    if earlier_useful and (asked.useful or asked.codebook or any(name in earlier_useful for name in asked.rules or ())):
        raise InputError("after: it has the useful columns and their classes; leave out `useful` and rules of them")
    if asked.codebook is not None:
        if asked.private or asked.useful or asked.rules or asked.shared:
            raise InputError("a codebook has its own columns and rules: give either a codebook or columns")
        columns = read_columns(source, asked.codebook.columns)
    else:
        names = [*column_names(asked.private), *(earlier_useful or column_names(asked.useful))]
        if not names:
            raise InputError("name the private and the useful columns, or give a codebook")
        columns = read_columns(source, list(dict.fromkeys(names)))
    total = len(next(iter(columns.values())).values)
    first = np.ones(total, dtype=bool)
    if share < 1.0:
        order = np.random.default_rng(seed).permutation(total)
        first[order[max(1, round(share * total)) :]] = False
        if first.all():
            raise InputError(f"split: too few records ({total}) for two parts; 1 takes all for the design")
    return Parts(asked, columns, first, after)


def check_records(rows: int, codebook: Codebook, useful: int, private: int, sparse: bool) -> None:
    """`InputError` for fewer than five records of the design for each symbol, a `CrowdedError` where groups help."""
    try:
        enough_rows(rows, "rows for the design", codebook, {"useful": useful, "private": private}, sparse=sparse)
    except InputError as error:
        if rows >= ROWS_PER_SYMBOL * useful:
            raise
        raise CrowdedError(str(error), classes_of(codebook), rows // ROWS_PER_SYMBOL) from None


def check_symbols(codebook: Codebook, useful: int, rows: int) -> None:
    """`CrowdedError` for a table of probabilities that is too large; `rows` are all records."""
    if useful > MOST_SYMBOLS:
        raise CrowdedError(
            f"{useful} useful symbols make a table of {useful}^2 probabilities: use fewer classes or columns",
            classes_of(codebook),
            rows,
        )


def classes_of(codebook: Codebook) -> dict[str, int]:
    """How many classes each useful column has."""
    return {name: len(codebook.rules[name].labels) for name in codebook.useful}
