"""A released file: that it is the one that was written, that it holds only what it may, and that it comes from its
design.

A receipt binds a file to a design by their hashes. It is written last: a file without one is not a finished release. It
holds no hash of the records and no randomness.

Does a release come from the design? A Monte Carlo test of exact level on the pairs (x, y) of its records.

Given how often each x occurs, the pairs of a release are independent draws from the rows of W. The same number of
draws is made `tables` times; on the release and on each of those:

    g          sum N ln(N / n_x W): any departure,
    identity   sum N ln(1 - a + a E/W), E the release of x itself, a = 0.05: a share was released as it is,
    merge      sum N ln(1 - a + a V/W), V the mean of the rows: a share was released independently of x,
    swap       the largest log-likelihood ratio of two rows in each other's place, of the pairs of rows that records
               tell apart best,
    residual   the largest N ln(N / n_x W) - N + n_x W of a pair that occurs: a single pair.

Each score is standardised by its mean and deviation over all tables, the release among them, and a table is as strange
as its largest score. The rank of the release by that is its p-value: under the claim every order of the tables is
equally likely (Besag and Clifford 1989), so Pr[p <= a] <= a. If a first round of few tables gives p > 0.1 that is the
result, otherwise that of a second round with tables of its own: Pr[p <= a] <= a stays true, for a <= 0.1 by the second
round, and above it because p <= a there means that the first one gave at most a. Standard library only.
"""

import csv
import gzip
import io
import math
import random
import re
import unicodedata
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, combinations
from statistics import NormalDist
from typing import Any

from jaxpriv.errors import InputError, IntegrityError, JaxprivError
from jaxpriv.verifier.archive import digest, unsealed
from jaxpriv.verifier.claims import ONE, Matrix
from jaxpriv.verifier.designs import UNSEEN, DesignFile

RECEIPT = "jaxpriv-receipt"
FORMATS = ("csv", "parquet")
# Whether draws were recorded, and how rows are ordered, as receipts state it.
LEDGERS, ORDERS = ("used", "none"), ("permuted", "kept")

# What spreadsheets take for a formula; a number is none.
_FORMULA = re.compile(r"[=+\-@\t\r＝＋－＠]")
_PLAIN_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)


def escaped(text: str) -> str:
    """A text as it stands in a released CSV: with an apostrophe before what spreadsheets would compute."""
    return f"'{text}" if _FORMULA.match(text) and not _PLAIN_NUMBER.fullmatch(text) else text


@dataclass(frozen=True)
class Receipt:
    """What a receipt states; its seal has been checked."""

    record: Mapping[str, Any]

    @property
    def design(self) -> str:
        """SHA-256 of the file of the design."""
        return self.record["design"]

    @property
    def rows(self) -> int:
        """Records in the released file."""
        return self.record["released"]["rows"]

    @property
    def columns(self) -> list[str]:
        """The columns of the file: those released by the design, then those kept as they were."""
        return [*self.record["columns"], *self.record["kept"]]

    @property
    def permuted(self) -> bool:
        """Whether the rows are in a random order; otherwise they are in that of the table."""
        return self.record["order"] == "permuted"

    @property
    def departures(self) -> list[str]:
        """What was done otherwise than `release` does it by default, sentences without a full stop."""
        found = []
        if self.record["ledger"] == "none":
            found.append("no ledger was kept: a second draw for the same records would not be noticed")
        if not self.permuted:
            found.append("rows are in the order of the table: what that order tells about a record was released too")
        return found


def read_receipt(data: bytes, name: str) -> Receipt:
    """The receipt of a file; `IntegrityError` if it is damaged or of another kind."""
    fields = ("tool", "design", "unseen", "columns", "kept", "ledger", "order", "released")
    record = unsealed(data, name, RECEIPT, fields)
    released = record["released"]
    good = isinstance(released, dict) and set(released) == {"sha256", "bytes", "rows", "format"}
    good = good and all(type(released[key]) is int and released[key] >= 0 for key in ("bytes", "rows"))
    good = good and released["format"] in FORMATS and record["unseen"] in UNSEEN
    good = good and record["ledger"] in LEDGERS and record["order"] in ORDERS
    for key in ("columns", "kept"):
        good = good and isinstance(record[key], list) and all(isinstance(one, str) for one in record[key])
    if not good or not record["columns"]:
        raise IntegrityError(f"{name} is not a receipt of a known form")
    return Receipt(record)


def check_file(receipt: Receipt, data: bytes, name: str) -> None:
    """`IntegrityError` unless the file is, byte for byte, the one that the receipt is about."""
    stated = receipt.record["released"]
    if len(data) != stated["bytes"] or digest(data) != stated["sha256"]:
        raise IntegrityError(f"{name} is not the file that the receipt is about, or was changed since")


def check_design(receipt: Receipt, design: DesignFile, name: str) -> None:
    """`IntegrityError` unless the receipt is of this design."""
    if receipt.design != design.sha256:
        raise IntegrityError(f"{name} is the receipt of another design")
    if receipt.record["columns"] != [entry["column"] for entry in design.record["released"]]:
        raise IntegrityError(f"{name} names other columns than the design releases")


def outputs_of(design: DesignFile, data: bytes, name: str, kept: Sequence[str] | None) -> list[int]:
    """The released symbol y of every record of a CSV file.

    `kept` are the columns behind the released ones, None if they are not given. Raises `IntegrityError`, naming the
    row, for a combination of labels that the design does not release.
    """
    entries = design.record["released"]
    names = [escaped(entry["column"]) for entry in entries]
    labels = [[escaped(label) for label in entry["labels"]] for entry in entries]
    place = {
        tuple(own[code] for own, code in zip(labels, codes, strict=True)): y for y, codes in enumerate(design.released)
    }
    rows = records_of(data, name)
    header = next(rows)
    wanted = names if kept is None else [*names, *map(escaped, kept)]
    if header[: len(wanted)] != wanted or (kept is not None and len(header) > len(wanted)):
        raise IntegrityError(f"{name} has other columns than the design releases")
    width = len(names)
    outputs = [place.get(tuple(fields[:width]), -1) for fields in rows]
    if -1 in outputs:
        row = outputs.index(-1)
        raise IntegrityError(
            f"{name}, row {row} (from 0): a combination that the design never releases (such rows: {outputs.count(-1)})"
        )
    return outputs


def records_of(data: bytes, name: str, error: type[JaxprivError] = IntegrityError) -> Iterator[list[str]]:
    """The header and the records of a CSV file, all of one length; `error` for anything else."""
    try:
        reader = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
        header = next(reader, None)
        if not header:
            raise error(f"{name} is empty")
        yield header
        for fields in reader:
            if len(fields) != len(header):
                raise error(f"{name}, line {reader.line_num}: another number of fields than the header has")
            yield fields
    except (UnicodeDecodeError, csv.Error):
        raise error(f"{name} is not well-formed CSV in UTF-8") from None


def reading(settings: Sequence[str]) -> dict[str, Any]:
    """The settings of --read: delimiter=C, encoding=NAME, names=A,B, blanks, nfc; `InputError` for others."""
    given: dict[str, Any] = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if name in given:
            raise InputError(f"--read gives {name} twice")
        if name in ("blanks", "nfc") and not equals:
            given[name] = True
        elif name in ("delimiter", "encoding") and value:
            given[name] = "\t" if value in ("tab", "\\t") else value
        elif name == "names" and value:
            given[name] = tuple(value.split(","))
        else:
            raise InputError(f"--read {text!r} is none of delimiter=C, encoding=NAME, names=A,B, blanks and nfc")
    return given


def plain_csv(data: bytes, name: str, settings: Sequence[str]) -> bytes:
    """A table in the dialect of `settings` (.gz and .tsv by its name) as CSV in UTF-8 with a header."""
    given, suffixes = reading(settings), name.lower()
    try:
        if suffixes.endswith(".gz"):
            data, suffixes = gzip.decompress(data), suffixes[:-3]
        if not given and not suffixes.endswith(".tsv"):
            return data
        codec = given.get("encoding", "utf-8").replace("utf-8", "utf-8-sig")
        mark = given.get("delimiter", "\t" if suffixes.endswith(".tsv") else ",")
        stream = io.StringIO(newline="")
        writer = csv.writer(stream)
        if "names" in given:
            writer.writerow(given["names"])
        rows = list(csv.reader(io.StringIO(data.decode(codec), newline=""), strict=True, delimiter=mark))
        width = len(given.get("names", rows[0] if rows else ()))
        while "blanks" in given and rows and len(rows[-1]) < width and not "".join(rows[-1]).strip():
            rows.pop()
        for fields in rows:
            texts = [field.strip() for field in fields] if "blanks" in given else fields
            writer.writerow([unicodedata.normalize("NFC", text) for text in texts] if "nfc" in given else texts)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise InputError(f"{name} is not a complete gzip file, or is damaged") from None
    except (LookupError, UnicodeError, TypeError, ValueError, csv.Error):
        raise InputError(f"{name} cannot be read as --read states") from None
    return stream.getvalue().encode()


# The useful symbol of every record of a CSV table, by the classes that a design states.
#
# The rules are those of `jaxpriv.estimation.tables`, written again from what they say. Standard library only.


_NUMBER = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*", re.ASCII)

# Stands for a record that is released independently of what it is.
SUPPRESSED = -1


def symbols_of(design: DesignFile, data: bytes, name: str, unseen: str) -> list[int]:
    """The row x for every record; SUPPRESSED where the rule `unseen` is "suppress" and there is none.

    Raises `InputError` for what is no CSV table in UTF-8, a table without the useful columns, a value without a class,
    or with "refuse" a combination without a symbol, naming the row.
    """
    entries = design.record["codebook"]["useful"]
    rows = records_of(data, name, InputError)
    header = next(rows)
    for entry in entries:
        if header.count(entry["column"]) != 1:
            raise InputError(f"{name} does not have exactly one column {entry['column']!r}")
    places = [header.index(entry["column"]) for entry in entries]
    code_of = [_coder(entry["rule"], entry["labels"]) for entry in entries]
    place: dict[tuple[int, ...], int] = {tuple(codes): x for x, codes in enumerate(design.useful)}
    found = []
    for row, fields in enumerate(rows):
        codes = tuple(code(fields[column]) for code, column in zip(code_of, places, strict=True))
        if -1 in codes:
            raise InputError(f"{name}, row {row} (from 0): a value has no class in the design")
        if codes not in place:
            if unseen == "refuse":
                raise InputError(f"{name}, row {row} (from 0): a combination of classes without a symbol")
            place[codes] = SUPPRESSED if unseen == "suppress" else _nearest(design, codes)
        found.append(place[codes])
    return found


def _nearest(design: DesignFile, codes: tuple[int, ...]) -> int:
    def apart(x: int) -> int:
        return sum(one != other for one, other in zip(design.useful[x], codes, strict=True))

    return min(range(len(design.useful)), key=apart)


def _coder(rule: Mapping[str, Any], labels: list[str]) -> Callable[[str], int]:
    """A text as its code; -1 without one. Classes for other and missing values come last, in that order."""
    extras = [name for name in ("other", "missing") if rule[name] is not None]
    first = len(labels) - len(extras)
    extra = {name: first + place for place, name in enumerate(extras)}
    tokens = set(rule["tokens"])
    if rule["kind"] == "categories":
        known = {value: code for code, value in enumerate(rule["values"])}

        def classed(text: str) -> int:
            return known.get(text, extra.get("other", -1))
    else:
        edges = [float(edge) for edge in rule["edges"]]

        def classed(text: str) -> int:
            if not _NUMBER.fullmatch(text):
                return -1
            value = float(text)
            if not edges[0] <= value <= edges[-1]:
                return extra.get("other", -1)
            return min(bisect_right(edges, value) - 1, len(edges) - 2)

    cache: dict[str, int] = {}

    def code(text: str) -> int:
        if text not in cache:
            cache[text] = extra.get("missing", -1) if text in tokens else classed(text)
        return cache[text]

    return code


# Tables of the first round, the p-value above which it is the last, and tables of the second one: p-values down to
# 0.001.
_FIRST, _LARGE, _TABLES = 99, 0.1, 999
# The level and the power for which `detectable` is stated.
_LEVEL, _POWER = 0.001, 0.9
# The scores of the head of this file, among which the level is divided, and the share a of their alternatives.
_SCORES, _MIXED = 5, 0.05
# Additions for the swaps of one table, at most; the logarithm of a probability of 0 there.
_SWAPS, _NEVER = 4000, math.log(1e-12)


@dataclass(frozen=True)
class ConformityResult:
    """`p_value` of the claim "released by this design", 0 if a pair is impossible (`impossible` rows, from 0).

    `detectable`: the share of records, released as they are, that the identity test finds in nine of ten cases at level
    0.001 with this many records; None where what is released has other columns.
    """

    p_value: float
    tables: int
    impossible: tuple[int, ...]
    detectable: float | None


def conformity(
    rows: Matrix, symbols: Sequence[int], outputs: Sequence[int], identity: Sequence[int] | None, tables: int = _TABLES
) -> ConformityResult:
    """Test pairs (x, y), equally many of each, against the integer table `rows`.

    `identity`: the output that is x itself, for every x (-1 where there is none); None if outputs are of another kind.
    """
    weights = _weights(rows, set(symbols))
    counts = {x: [0] * len(rows[0]) for x in weights}
    impossible = []
    for row, (x, y) in enumerate(zip(symbols, outputs, strict=True)):
        counts[x][y] += 1
        if weights[x][y] == 0.0:
            impossible.append(row)
    own = None if identity is None else {x: -1 if x == SUPPRESSED else identity[x] for x in weights}
    generator = random.Random(random.SystemRandom().getrandbits(256))
    found = conformity_of_counts(weights, counts, own, tables, generator)
    return ConformityResult(found.p_value, found.tables, tuple(impossible[:10]), found.detectable)


def conformity_of_counts(
    weights: Mapping[int, list[float]],
    counts: Mapping[int, list[int]],
    own: Mapping[int, int] | None,
    tables: int,
    generator: random.Random,
) -> ConformityResult:
    """The test of counts: for each x that occurs its row of W, how often each y was released, and the y that is x.

    `impossible` is left empty.
    """
    totals = {x: sum(row) for x, row in counts.items()}
    leak = None if own is None else _detectable(weights, totals, own)
    if any(n and not w for x, row in counts.items() for n, w in zip(row, weights[x], strict=True)):
        return ConformityResult(0.0, 0, (), leak)
    places = dict.fromkeys(weights, -1) if own is None else own
    alternatives = _alternatives(weights, totals)
    draws = _Draws(weights, totals, generator)
    seen = _scores(weights, counts, places, alternatives)
    p, size = _p_value(seen, lambda: _scores(weights, draws.counts(), places, alternatives), tables)
    return ConformityResult(p, size, (), leak)


def conformity_of_totals(
    rows: Matrix, symbols: Sequence[int], outputs: Sequence[int], identity: Sequence[int] | None, tables: int = _TABLES
) -> ConformityResult:
    """The same claim where it is unknown which record a released row is of: only how often each y occurs.

    The totals N have the mean E = sum n_x W. Scores: g = sum N ln(N / E), identity = sum N ln(1 - a + a I/E) where I is
    how many records are y themselves, and residual, of N against E. `impossible` rows are released for no record at
    all. Arguments as for `conformity`.
    """
    weights, totals = _weights(rows, set(symbols)), Counter(symbols)
    size = len(rows[0])
    expected = [math.fsum(n * weights[x][y] for x, n in totals.items()) for y in range(size)]
    own = [0] * size
    for x, n in totals.items():
        if identity is not None and x != SUPPRESSED and identity[x] >= 0:
            own[identity[x]] += n
    impossible = [row for row, y in enumerate(outputs) if not expected[y]]
    if impossible:
        return ConformityResult(0.0, 0, tuple(impossible[:10]), None)

    def scores(counts: Sequence[int]) -> tuple[float, ...]:
        ratios = [(n, n * math.log(n / e), e, i) for n, e, i in zip(counts, expected, own, strict=True) if n]
        return (
            sum(term for _, term, _, _ in ratios),
            sum(n * math.log1p(_MIXED * (i / e - 1.0)) for n, _, e, i in ratios),
            max(term - n + e for n, term, e, _ in ratios),
        )

    draws = _Draws(weights, totals, random.Random(random.SystemRandom().getrandbits(256)))
    seen = Counter(outputs)
    p, made = _p_value(
        scores([seen[y] for y in range(size)]),
        lambda: scores([sum(column) for column in zip(*draws.counts().values(), strict=True)]),
        tables,
    )
    return ConformityResult(p, made, (), None)


def chance_of_order(rows: Matrix, symbols: Sequence[int], outputs: Sequence[int]) -> float:
    """A bound on the chance that released rows in a random order agree as well with the records as they stand.

    T = sum a(x, y) over records and the rows in the same place, a = W(y|x) / max_x W(y|x). In a random order it has
    the mean M of all pairs, and Pr[T - M >= t] <= 2 exp(-t^2 / (4 M + 2 t)) (Chatterjee 2007, proposition 1.1).
    """
    weights, pairs = _weights(rows, set(symbols)), Counter(zip(symbols, outputs, strict=True))
    largest = [max(column) for column in zip(*weights.values(), strict=True)]
    records, released = Counter(symbols), Counter(outputs)

    def agreement(x: int, y: int) -> float:
        return weights[x][y] / largest[y] if largest[y] else 0.0

    seen = math.fsum(n * agreement(x, y) for (x, y), n in pairs.items())
    mean = math.fsum(n * m * agreement(x, y) for x, n in records.items() for y, m in released.items()) / len(symbols)
    beyond = seen - mean
    return min(2.0 * math.exp(-(beyond**2) / (4.0 * mean + 2.0 * beyond)), 1.0) if beyond > 0 else 1.0


@dataclass(frozen=True)
class _Draws:
    """Tables of counts drawn under the claim: for each x as many draws from its row of W as the release has."""

    weights: Mapping[int, list[float]]
    totals: Mapping[int, int]
    generator: random.Random

    def counts(self) -> dict[int, list[int]]:
        return {
            x: _multinomial(self.totals[x], row, self._running[x], self.generator) for x, row in self.weights.items()
        }

    @cached_property
    def _running(self) -> dict[int, list[float]]:
        return {x: list(accumulate(row)) for x, row in self.weights.items()}


def _p_value(seen: tuple[float, ...], drawn: Callable[[], tuple[float, ...]], tables: int) -> tuple[float, int]:
    """The rank of the scores `seen` among those `drawn` under the claim, and how many were drawn for it."""
    p = 1.0
    for size in (min(_FIRST, tables), tables):
        scores = [seen, *(drawn() for _ in range(size))]
        strange = [max(row) for row in zip(*map(_standardised, zip(*scores, strict=True)), strict=True)]
        p = sum(one >= strange[0] for one in strange) / len(strange)
        if p > _LARGE:
            return p, size
    return p, tables


def _weights(rows: Matrix, used: set[int]) -> dict[int, list[float]]:
    """W of every x that occurs; of a suppressed record the mean of all rows."""
    weights = {x: [entry / ONE for entry in rows[x]] for x in used if x != SUPPRESSED}
    if SUPPRESSED in used:
        weights[SUPPRESSED] = [sum(column) / (len(rows) * ONE) for column in zip(*rows, strict=True)]
    return weights


@dataclass(frozen=True)
class _Alternatives:
    """ln(1 - a + a V/W) for every x, V the mean row; pairs of rows with the logarithms of their ratios."""

    merge: dict[int, list[float]]
    swaps: list[tuple[int, int, list[float]]]


def _alternatives(weights: Mapping[int, list[float]], totals: Mapping[int, int]) -> _Alternatives:
    records = sum(totals.values())
    size = len(next(iter(weights.values())))
    mean = [sum(totals[x] * row[y] for x, row in weights.items()) / max(records, 1) for y in range(size)]
    merge = {
        x: [math.log1p(_MIXED * (v / w - 1.0)) if w else 0.0 for v, w in zip(mean, row, strict=True)]
        for x, row in weights.items()
    }
    logs = {x: [math.log(w) if w else _NEVER for w in row] for x, row in weights.items()}
    used = sorted(weights, key=lambda x: -totals[x])[: int(math.sqrt(2 * _SWAPS)) + 1]

    def separation(pair: tuple[int, int]) -> float:
        one, other = (weights[x] for x in pair)
        apart = sum((a - b) ** 2 / (a + b) for a, b in zip(one, other, strict=True) if a + b)
        return apart * min(totals[pair[0]], totals[pair[1]])

    pairs = sorted(combinations(used, 2), key=separation, reverse=True)[: max(1, _SWAPS // size)]
    swaps = [(a, b, [v - u for u, v in zip(logs[a], logs[b], strict=True)]) for a, b in pairs]
    return _Alternatives(merge, swaps)


def _scores(
    weights: Mapping[int, list[float]],
    counts: Mapping[int, list[int]],
    own: Mapping[int, int],
    alternatives: _Alternatives,
) -> tuple[float, ...]:
    g = identity = residual = merge = 0.0
    for x, row in counts.items():
        total, mass = sum(row), weights[x]
        for seen, weight in zip(row, mass, strict=True):
            if seen:
                expected = total * weight
                g += seen * math.log(seen / expected)
                residual = max(residual, seen * math.log(seen / expected) - seen + expected)
        if own[x] >= 0 and mass[own[x]]:
            identity += row[own[x]] * math.log1p(_MIXED / (1 - _MIXED) / mass[own[x]])
        merge += sum(map(float.__mul__, alternatives.merge[x], map(float, row)))
    swap = max(
        (
            sum((one - other) * ratio for one, other, ratio in zip(counts[a], counts[b], ratios, strict=True))
            for a, b, ratios in alternatives.swaps
        ),
        default=0.0,
    )
    return g, identity, merge, swap, residual


def _standardised(values: Sequence[float]) -> list[float]:
    """Less the mean, over the deviation; equal values are 0. Rounded, so that ties stay ties."""
    mean = math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    return [round((value - mean) / deviation, 9) if deviation > 0 else 0.0 for value in values]


def _detectable(weights: Mapping[int, list[float]], totals: Mapping[int, int], own: Mapping[int, int]) -> float | None:
    information = sum(totals[x] * (1 / mass[own[x]] - 1) for x, mass in weights.items() if own[x] >= 0 and mass[own[x]])
    if not information:
        return None
    normal = NormalDist()
    return min((normal.inv_cdf(1 - _LEVEL / _SCORES) + normal.inv_cdf(_POWER)) / math.sqrt(information), 1.0)


def _multinomial(count: int, weights: list[float], running: list[float], generator: random.Random) -> list[int]:
    seen = [0] * len(weights)
    if count < 20 * len(weights):
        for y in generator.choices(range(len(weights)), cum_weights=running, k=count):
            seen[y] += 1
        return seen
    left, mass = count, 1.0
    for y, weight in enumerate(weights):
        if not left:
            break
        if weight:
            seen[y] = left if weight >= mass else _binomial(left, weight / mass, generator)
        left, mass = left - seen[y], mass - weight
    if left:  # the rest of a mass that rounding left over
        seen[max(range(len(weights)), key=weights.__getitem__)] += left
    return seen


def _binomial(count: int, chance: float, generator: random.Random) -> int:
    """By order statistics: a beta variable splits the count in halves (Devroye 1986, section X.4.4)."""
    found = 0
    while count > 32:
        half = (count + 1) // 2
        split = generator.betavariate(half, count + 1 - half)
        if split <= chance:
            found += half
            count -= half
            chance = (chance - split) / (1.0 - split)
        else:
            count = half - 1
            chance /= split
    return found + sum(generator.random() < chance for _ in range(count))
