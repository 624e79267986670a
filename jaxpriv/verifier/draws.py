"""Do the draws of a release depend on anything but x, and its order on anything? Tests against every column.

Under the claim each y_t is drawn from row x_t of W, independently of all columns of the records and of the draws before
it. A test gives every record a context c_t: x_t together with a value v that is known before y_t is drawn, such as the
value of a column or the draw before. Against W it sets a mechanism that learns the outputs of each context,

    q_t(y) = (k W(x_t, y) + N(c_t, y)) / (k + n(c_t)),        N(c, y) and n(c) the counts of the draws before t.

Since q_t sums to 1 over y, the product of all q_t(y_t)/W(x_t, y_t) has expectation 1 under the claim, whatever the
number of records: it is an e-value. So is the product over the contexts of one x or of one v, and every mean of such
products. By Markov's inequality Pr[mean >= 1/a] <= a, without simulation or approximation. The order of the draws of a
context does not matter, so each product is computed from the counts after the last draw:

    prod_c  Gamma(k)/Gamma(k + n_c)  prod_y  Gamma(k W + N_cy) / (Gamma(k W) W^N_cy).

Standard library only.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

# The values of k: a context of about k records tells as much about its outputs as W does.
_STRENGTHS = tuple(4.0**power for power in range(8))
# Groups of about equally many records, of a column with more values and of the places in the table; and intervals of
# the numbers below 1 from which the draw before may have come.
_GROUPS = 8

# A value v for every record, a number from 0; and how many values there can be.
_Values = tuple[Sequence[int], int]


@dataclass(frozen=True)
class DependenceResult:
    """`p_value` of the claim that draws depend on x alone: the reciprocal of a mean of e-values.

    `strongest`: what draws depend on most, as far as the e-values tell.
    """

    p_value: float
    strongest: str


def dependence(
    weights: Mapping[int, Sequence[float]],
    symbols: Sequence[int],
    outputs: Sequence[int],
    columns: Mapping[str, Sequence[str]],
    private: Sequence[str],
    drawn: Mapping[str, Sequence[int]],
) -> DependenceResult:
    """Test whether the `outputs` of records depend on anything but their `symbols`.

    Args:
        weights: the row of W of every symbol that occurs.
        symbols, outputs: of every record, in the order in which they were drawn.
        columns: the texts of every column of the records.
        private: the columns that have one half of the weight in the mean; those that are not in `columns` are left out.
        drawn: other draws for every record, made before, by what they are.
    """
    secret, others = _ways(columns, private)
    others["the draw before for the same useful symbol"] = [_draws_before(symbols, outputs, len(weights[symbols[0]]))]
    others["the draw for the record before"] = [_neighbours(weights, symbols, outputs)]
    others["the place in the table"] = [_places(range(len(symbols)))]
    others |= {name: [_numbered(values)] for name, values in drawn.items()}
    return _mean_of_halves(secret, others, lambda way: _log_evidence(weights, symbols, outputs, *way))


def order_dependence(
    rows: Sequence[int], columns: Mapping[str, Sequence[str]], private: Sequence[str]
) -> DependenceResult:
    """Test whether the order of released rows depends on anything; `rows` has the released row of every record.

    In a random order all arrangements of the values of a column are equally likely. With contexts that are groups of
    places, and W the shares of the values, q of the head of this file is a probability of arrangements: its product
    times the number of arrangements has expectation at most 1. `columns` and `private` as for `dependence`.
    """
    places, size = _places(rows)
    records = len(rows)

    def log_evidence(way: _Values) -> float:
        values, kinds = way
        counts = Counter(values)
        shares = {0: [counts[value] / records for value in range(kinds)]}
        most_likely = math.lgamma(records + 1) + math.fsum(
            n * math.log(n / records) - math.lgamma(n + 1) for n in counts.values()
        )
        return _log_evidence(shares, [0] * records, values, places, size) + most_likely

    secret_ways, others = _ways(columns, private)
    others["the place in the table"] = [_places(range(records))]
    return _mean_of_halves(secret_ways, others, log_evidence)


def _ways(
    columns: Mapping[str, Sequence[str]], private: Sequence[str]
) -> tuple[dict[str, list[_Values]], dict[str, list[_Values]]]:
    """The values of private columns, and of the others, in one or two ways each."""
    secret = [name for name in private if name in columns]
    secret_ways = {f"column {name!r}": _of_column(columns[name]) for name in secret}
    if len(secret) > 1:
        secret_ways["the private columns together"] = [_numbered(zip(*(columns[name] for name in secret), strict=True))]
    return secret_ways, {f"column {name!r}": _of_column(texts) for name, texts in columns.items() if name not in secret}


def _mean_of_halves(
    secret: Mapping[str, Sequence[_Values]],
    others: Mapping[str, Sequence[_Values]],
    log_evidence: Callable[[_Values], float],
) -> DependenceResult:
    """By the mean of e-values, of which the private columns have one half of the weight."""
    parts = [part for part in (secret, others) if part]
    evidence = {}
    for part in parts:
        for name, ways in part.items():
            evidence[name] = _log_mean([log_evidence(way) for way in ways], len(ways)) - math.log(
                len(part) * len(parts)
            )
    total = _log_sum(list(evidence.values()))
    return DependenceResult(math.exp(-max(total, 0.0)), max(evidence, key=evidence.__getitem__))


def _log_evidence(
    weights: Mapping[int, Sequence[float]],
    symbols: Sequence[int],
    outputs: Sequence[int],
    values: Sequence[int],
    size: int,
) -> float:
    """The logarithm of the mean e-value over k, of all contexts together, of those of one x, and of those of one v."""
    # The product of a context of one record is 1.
    totals = {context: n for context, n in Counter(zip(symbols, values, strict=True)).items() if n > 1}
    seen = Counter(zip(symbols, values, outputs, strict=True))
    counts = [(x, v, weights[x][y], n) for (x, v, y), n in seen.items() if (x, v) in totals]
    logs = []
    for k in _STRENGTHS:
        of_x: dict[int, float] = defaultdict(float)
        of_v: dict[int, float] = defaultdict(float)
        for (x, v), n in totals.items():
            term = math.lgamma(k) - math.lgamma(k + n)
            of_x[x] += term
            of_v[v] += term
        for x, v, weight, n in counts:
            term = math.lgamma(k * weight + n) - math.lgamma(k * weight) - n * math.log(weight)
            of_x[x] += term
            of_v[v] += term
        logs.append(math.fsum(of_x.values()))
        logs += [_log_mean(list(of_x.values()), len(weights)), _log_mean(list(of_v.values()), size)]
    return _log_mean(logs, len(logs))


def _log_sum(logs: Sequence[float]) -> float:
    top = max(logs)
    return top + math.log(math.fsum(math.exp(log - top) for log in logs))


def _log_mean(logs: Sequence[float], count: int) -> float:
    """The logarithm of the mean of `count` numbers, from the logarithms of those that are not 1."""
    ones = [math.log(count - len(logs))] if count > len(logs) else []
    return _log_sum([*logs, *ones]) - math.log(count)


def _numbered(values: Iterable[Hashable]) -> _Values:
    """Each value as the place of its first occurrence among the different ones."""
    place: dict[Hashable, int] = {}
    numbers = [place.setdefault(value, len(place)) for value in values]
    return numbers, len(place)


def _of_column(texts: Sequence[str]) -> list[_Values]:
    """The values themselves, where they repeat; and groups of neighbouring values, where there are many."""
    values, size = _numbered(texts)
    ways = [(values, size)] if size <= max(_GROUPS, len(texts) // 4) else []
    if size > _GROUPS:
        records = Counter(texts)
        order = sorted(records, key=_order)
        below = accumulate((records[text] for text in order), initial=0)
        group = {text: _GROUPS * start // len(texts) for text, start in zip(order, below, strict=False)}
        ways.append(([group[text] for text in texts], _GROUPS))
    return ways


def _order(text: str) -> tuple[float, str]:
    """Numbers by size, before everything else."""
    try:
        number = float(text)
    except ValueError:
        number = math.inf
    return math.inf if math.isnan(number) else number, text


def _places(rows: Sequence[int]) -> _Values:
    return [_GROUPS * row // len(rows) for row in rows], _GROUPS


def _draws_before(symbols: Sequence[int], outputs: Sequence[int], size: int) -> _Values:
    """The draw before for the same x; `size` where there is none."""
    last: dict[int, int] = {}
    before = []
    for x, y in zip(symbols, outputs, strict=True):
        before.append(last.get(x, size))
        last[x] = y
    return before, size + 1


def _neighbours(weights: Mapping[int, Sequence[float]], symbols: Sequence[int], outputs: Sequence[int]) -> _Values:
    """Where the numbers below 1 lie that give the draw of the record before, whatever its x is."""
    middles = {}
    for x, row in weights.items():
        ends = zip(accumulate(row), row, strict=True)
        middles[x] = [min(int(_GROUPS * (end - weight / 2)), _GROUPS - 1) for end, weight in ends]
    before = [middles[x][y] for x, y in zip(symbols[:-1], outputs[:-1], strict=True)]
    return [_GROUPS, *before], _GROUPS + 1
