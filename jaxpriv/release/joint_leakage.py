"""I(S; Y_1, ..., Y_k) of several mechanisms that release columns of the same records, enclosed by an interval.

Given the records the draws are independent: P(y_1, ..., y_k | x) = prod_g W_g(y_g | x_g). So n P(s, y_1, ..., y_k) is
the table of counts N(s, x_1, ..., x_k), which has no more entries than there are records, contracted with one W_g after
the other. Where that table has too many entries, the chain rule gives a bound.
"""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from jaxpriv.data.datasets._layout import distinct_rows
from jaxpriv.verifier.claims import BITS, Claim
from jaxpriv.verifier.logarithms import down, up

# Most entries of P(s, y_1, ..., y_k), some seconds of work; those computed at a time; those of any table on the way.
_MOST, _PIECE, _LARGEST = 2**28, 2**22, 2**25
# The least product of probabilities, as a power of two, that float64 holds with room for what it is multiplied by.
_LEAST = -900
# Half a unit in the last place of 1: the relative error of one rounding.
_UNIT = 2.0**-53

Interval: TypeAlias = tuple[float, float]


def joint_leakage(
    private: np.ndarray, symbols: np.ndarray, counts: np.ndarray, tables: Sequence[np.ndarray]
) -> tuple[Claim, bool]:
    """(I(S; Y_1, ..., Y_k) in nats, whether it is computed and not only bounded).

    Args:
        private, symbols, counts: s (r,) and x_1, ..., x_k (r, k) of the different records, and how many (r,) there are.
        tables: T_g (X_g, Y_g) uint64 with W_g = T_g / 2^62.

    As many of the first groups as have a joint table of at most 2^28 entries are computed, in float64 with bounds on
    all rounding errors. By the chain rule each of the others adds I(S; Y_g | Y_<g), where Y_<g is Y_1, ..., Y_{g-1}:

        I(S; Y_g | Y_<g) = I(S, Y_<g; Y_g) - I(Y_<g; Y_g) <= I(S, X_<g; Y_g) - max_{h<g} I(Y_h; Y_g).

    Given (S, X_<g) the draws Y_<g and Y_g are independent, because each depends on its own part of the record alone:
    I(S, Y_<g; Y_g) <= I(S, X_<g, Y_<g; Y_g) = I(S, X_<g; Y_g). And Y_h is a part of Y_<g. The table N(s, x_<g) W_g has
    at most r Y_g entries. Nor is the sum above I(S; X_1, ..., X_k), as S - X - Y is a Markov chain.
    """
    mappings, places = [], []
    for g, table in enumerate(tables):
        seen, place = np.unique(symbols[:, g], return_inverse=True)
        mapping = np.ldexp(table[seen].astype(np.float64), -BITS)
        mappings.append(mapping[:, mapping.any(axis=0)])
        places.append(place.reshape(-1))
    symbols = np.stack(places, axis=1)
    done, interval = 0, (0.0, 0.0)
    for size in range(len(tables), 0, -1):
        computed = _computed(private, symbols[:, :size], counts, mappings[:size])
        if computed is not None:
            done, interval = size, computed
            break
    low, high = interval
    for g in range(done, len(tables)):
        _, before = _distinct(np.column_stack([private, symbols[:, :g]]))
        given = _computed(before, symbols[:, g : g + 1], counts, mappings[g : g + 1])
        between = [_between(symbols[:, [h, g]], counts, mappings[h], mappings[g]) for h in range(g)]
        high += math.inf if given is None else max(given[1] - max(between, default=0.0), 0.0)
    if done < len(tables):
        high = min(high, _of_records(private, _distinct(symbols)[1], counts))
    return Claim(down(Fraction(max(low, 0.0))), up(Fraction(max(high, 0.0))), "nats"), done == len(tables)


def _computed(
    private: np.ndarray, symbols: np.ndarray, counts: np.ndarray, mappings: Sequence[np.ndarray]
) -> Interval | None:
    """I(S; Y_1, ..., Y_k), enclosed; None where a table would be too large or a probability too small.

    The groups are contracted from the last to the first, on the different (s, x_1, ..., x_g) that there are. The
    outputs of the last group go in pieces, which share no (y_1, ..., y_k).
    """
    s = _distinct(private[:, None])[1]
    prior = np.bincount(s, counts)
    rows, index = _distinct(np.column_stack([s, symbols]))
    weights = np.bincount(index, counts)
    levels = []
    for _ in mappings:
        shorter, place = _distinct(rows[:, :-1])
        levels.append((len(shorter), place, rows[:, -1]))
        rows = shorter
    backwards = mappings[::-1]
    entries = [levels[0][0] * len(backwards[0])]
    outputs, each = 1, [levels[0][0]]  # entries for each output of the last group
    for (size, _, _), mapping in zip(levels[1:], backwards[1:], strict=True):
        each.append(size * outputs * max(mapping.shape))
        outputs *= mapping.shape[1]
    most = backwards[0].shape[1]
    least = sum(math.log2(mapping[mapping > 0].min()) for mapping in mappings)
    if len(rows) * outputs * most > _MOST or max(*entries, *each) > _LARGEST or least < _LEAST:
        return None
    step = max(1, _PIECE // max(each))

    def pieces() -> Iterator[np.ndarray]:
        for start in range(0, most, step):
            table = weights[:, None]
            for level, ((size, place, x), mapping) in enumerate(zip(levels, backwards, strict=True)):
                part = mapping if level else mapping[:, start : start + step]
                dense = np.zeros((size, table.shape[1], len(part)))
                dense[place, :, x] = table
                table = (dense.reshape(-1, len(part)) @ part).reshape(size, -1)
            yield table.reshape(len(prior), -1, part.shape[1])

    return _information(pieces(), prior, sum(len(mapping) + 2 for mapping in mappings))


def _between(symbols: np.ndarray, counts: np.ndarray, first: np.ndarray, second: np.ndarray) -> float:
    """A lower bound of I(Y_h; Y_g)."""
    table = np.zeros((len(first), len(second)))
    np.add.at(table, (symbols[:, 0], symbols[:, 1]), counts)
    prior = table.sum(axis=1) @ first
    joint = first.T @ table @ second
    return _information(iter([joint[:, None, :]]), prior, len(first) + len(second) + 4)[0]


def _of_records(private: np.ndarray, x: np.ndarray, counts: np.ndarray) -> float:
    """An upper bound of I(S;X)."""
    n = float(counts.sum())
    pairs, place = _distinct(np.stack([private, x], axis=1))
    each = np.bincount(place, counts)
    products = np.bincount(private, counts)[pairs[:, 0]] * np.bincount(x, counts)[pairs[:, 1]]
    terms = each * np.log(each * n / products)
    return _enclosed(terms.tolist(), np.abs(terms).tolist(), n, 8)[1]


def _information(pieces: Iterator[np.ndarray], prior: np.ndarray, roundings: int) -> Interval:
    """Of n P(s, y) in pieces (S, m, l) of the y and n P(s) (S,), which so many roundings are behind: I(S;Y)."""
    values, sizes, longest = [], [], 0
    n = float(round(prior.sum()))
    for piece in pieces:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = piece * n / (prior[:, None, None] * piece.sum(axis=0))
            terms = np.where(piece > 0, piece * np.log(ratio), 0.0)
        values += terms.sum(axis=2).ravel().tolist()
        sizes += np.abs(terms).sum(axis=2).ravel().tolist()
        longest = max(longest, piece.shape[2])
    return _enclosed(values, sizes, n, roundings + len(prior) + longest + 8)


def _enclosed(terms: list[float], sizes: list[float], n: float, roundings: int) -> Interval:
    """The sum of a ln(a n / (p b)) over n, from computed terms t and |t| or sums of them.

    With u = 2^-53 and e = `roundings` u: if a, b and p have relative errors below e - 8u, the logarithm one of
    3.1 (e - 8u) + 4u and of 4u of itself (four roundings, a library that is right to 4u), and products and partial sums
    of e - 2u. So the terms are off by at most e (1 + e) |t| + 4 e a + e |t| with sum a = n, and quotients by n by u.
    """
    total, slack = math.fsum(terms), 4 * roundings * _UNIT * (math.fsum(sizes) + n)
    return (total - slack) / n, (total + slack) / n


def _distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return distinct_rows(rows, (rows.max(axis=0) + 1).tolist())
