"""What a sample is evidence of: how much a black box leaks at least, whether it leaks at all, whether a release comes
from a mechanism, and from the same population.

Half of the pairs (s, y) choose a guess, an event or a question; the other half, which had no part in the choice,
bounds its probabilities with exact binomial intervals (Clopper and Pearson). Whatever was chosen the bound
holds; a good choice only makes it large. A bound of 0 is trivial.

* A guess g(y): P_c >= Pr[g(Y) = S]; with an upper bound on max_s p_s the min-entropy leakage and the zero-one gain.
* g as post-processing: e^L >= sum_s Pr[g(Y) = s | s] for maximal leakage L.
* An event B of outputs: a ratio P(B|s)/P(B), P(B)/P(B|s) or P(B|s)/P(B|s') lies between the ratios of its
  outputs, so the largest of those is at least as large: max-lift, min-lift, local differential privacy.
* A question (A, B), A private symbols, B outputs: by data processing I(S;Y) and the total variation are at least
  those of the 2 x 2 table with p = P(A), a = P(B|A) > b = P(B|not A). Both increase in a and decrease in b on
  a >= b, and are concave in p: the least value is at the least a, the largest b and an end of p.
* A rule q(s|y): I(S;Y) >= E ln( q(S|Y)/r(S) ) - D(P_S||r) for any q and r, both from the first half; the first term
  is the mean of a bounded function, the second is bounded over the intervals of P_S and of second order.
* From these: relative entropy, max-information, Sibson of order >= 1 are at least I; chi-squared at least e^I - 1;
  max-lift at least maximal leakage, which is at least I; squared Hellinger at least 2(1 - sqrt(1 - TV^2)); Jensen-
  Shannon at least TV^2/2 and reverse KL at least 2 TV^2 (Pinsker).

Seven families of statements share beta (Bonferroni), and the statements inside a family share its part.
"""

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri, rel_entr, xlogy

from jaxpriv._runtime.counts import count_array, failure
from jaxpriv._runtime.validation import mechanism_array, nonnegative, real_array, whole
from jaxpriv.errors import InputError
from jaxpriv.statistics.confidence import clopper_pearson, divergence_tail, l1_radius, mean_interval
from jaxpriv.statistics.confidence.sets import chord_sum, clopper_pearson_together, coins
from jaxpriv.verifier.releases import conformity_of_counts

# The families of statements that share beta, as the head of this file counts them: one each for a guess, guesses as
# post-processing, events (three kinds of ratio), a question and a rule.
_FAMILIES = 7


def split(counts: ArrayLike, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two tables with half of the records each (the first the smaller one), drawn without replacement.

    Records are exchangeable, so a table of counts can be split as well as the records themselves: the halves
    are independent samples of the population.
    """
    table = count_array(counts, "counts")
    generator = np.random.default_rng(whole(seed, "seed", low=0.0))
    half = generator.multivariate_hypergeometric(table.ravel(), int(table.sum()) // 2, method="marginals")
    half = half.reshape(table.shape).astype(np.int64)
    return half, table - half


class SampleLowerBounds:
    """Lower bounds from the counts (S, Y) `choosing` and `counting` of two independent samples.

    All hold together with probability 1 - beta.
    """

    def __init__(self, choosing: np.ndarray, counting: np.ndarray, beta: float):
        self._share = failure(beta) / _FAMILIES
        self._choosing, self._counting = choosing, counting
        self._by_private, self._total = counting.sum(axis=1), int(counting.sum())
        self._z = -float(ndtri(self._share))
        self.guess, self.gain, self.min_entropy = self._guess()
        information, self.variation = self._question()
        self.information = max(information, self._rule())
        self.maximal = max(self._post_processing(), self.min_entropy, self.information)
        every, first, second = np.arange(len(choosing)), *np.nonzero(~np.eye(len(choosing), dtype=bool))
        together = np.full_like(every, len(choosing))
        self.max_lift = max(self._event(every, together), self.maximal)
        self.min_lift = self._event(together, every)
        self.ldp = max(self._event(first, second), self.max_lift, self.min_lift)

    def _guess(self) -> tuple[float, float, float]:
        hits = guessed_right(self._choosing, self._counting)
        guess = float(clopper_pearson(hits, self._total, self._share / 2)[0])
        shared = self._share / (2 * self._by_private.size)
        likeliest = float(clopper_pearson(self._by_private, self._total, shared)[1].max())
        gain = max(0.0, guess - likeliest)
        return guess, gain, float(np.log(guess / likeliest)) if gain > 0 else 0.0

    def _post_processing(self) -> float:
        """ln sum_s P(g(Y) = s | s) for the g that guesses by likelihood."""
        likelihood = self._choosing / np.maximum(self._choosing.sum(axis=1, keepdims=True), 1)
        guessed = likelihood.argmax(axis=0)
        hits = np.array([self._counting[s, guessed == s].sum() for s in range(likelihood.shape[0])])
        total = float(clopper_pearson(hits, self._by_private, self._share / self._by_private.size)[0].sum())
        return max(0.0, float(np.log(total))) if total > 0 else 0.0

    def _event(self, likelier: np.ndarray, other: np.ndarray) -> float:
        """ln of the least P(B|s)/P(B|s'), the candidates being the pairs of `likelier` and `other`, S for all s.

        B runs over the sets of outputs with the largest observed ratios, every size; the first half picks pair and
        B by an approximate limit of its own.
        """
        if not likelier.size:
            return 0.0
        before, now = (np.vstack([half, half.sum(axis=0)]) for half in (self._choosing, self._counting))
        more, less = before[likelier], before[other]
        n, m = (np.maximum(part.sum(axis=1, keepdims=True), 1) for part in (more, less))
        order = np.argsort(-((more + 0.5) / n) / ((less + 0.5) / m), axis=1)
        hits, others = (np.cumsum(np.take_along_axis(part, order, axis=1), axis=1) for part in (more, less))
        score = np.log(_wilson_lower(hits, n, self._z)) - np.log(_wilson_upper(others, m, self._z))
        pair, count = (int(i) for i in np.unravel_index(np.argmax(score), score.shape))
        event, rows = order[pair, : count + 1], now[[likelier[pair], other[pair]]]
        low, high = clopper_pearson(rows[:, event].sum(axis=1), rows.sum(axis=1), self._share / 2)
        return max(0.0, float(np.log(low[0] / high[1]))) if low[0] > 0 else 0.0

    def _question(self) -> tuple[float, float]:
        """(I, TV) at least, from the 2 x 2 table that leaks most on the first half."""
        joint = self._choosing / max(int(self._choosing.sum()), 1)
        excess = joint - joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
        leading = np.linalg.svd(excess)[0][:, 0]
        sides = np.unique(np.vstack([np.eye(joint.shape[0], dtype=bool), leading[None] > 0]), axis=0)
        best, chosen = -1.0, None
        for side in sides:
            event = excess[side].sum(axis=0) > 0
            p, q = float(joint[side].sum()), float(joint[side][:, event].sum())
            b = (float(joint[:, event].sum()) - q) / (1 - p) if p < 1 else 0.0
            value = _binary_information(p, q / p, b) if 0 < p < 1 else 0.0
            if value > best:
                best, chosen = value, (side, event)
        assert chosen is not None
        side, event = chosen
        share = self._share / 4
        inside, outside = self._counting[side], self._counting[~side]
        a = float(clopper_pearson(inside[:, event].sum(), inside.sum(), share)[0])
        b = float(clopper_pearson(outside[:, event].sum(), outside.sum(), share)[1])
        if not a > b:
            return 0.0, 0.0
        ends = [float(end) for end in clopper_pearson(inside.sum(), self._total, share)]
        information = min(_binary_information(p, a, b) for p in ends)
        return max(0.0, information * (1 - 1e-12)), min(2 * p * (1 - p) * (a - b) for p in ends)

    def _rule(self) -> float:
        """I at least, from the frequencies of the first half as a rule."""
        seen = self._choosing + 0.5
        prior = seen.sum(axis=1, keepdims=True) / seen.sum()
        # Some of the prior is mixed in, so that the logarithm is bounded: the less, the more records there are.
        mixed = min(0.5, float(seen.sum()) ** (-1 / 3))
        rule = (1 - mixed) * seen / seen.sum(axis=0) + mixed * prior
        gain = np.log(rule / prior)
        # Two of the four statements of an interval are used.
        mean = mean_interval(self._counting.reshape(1, -1), gain.reshape(1, -1), self._share)[0][0, 0]
        shares = clopper_pearson_together(self._by_private, self._total, self._share / 2)
        moved = chord_sum(*shares, lambda share: rel_entr(share, prior[:, 0]))
        return max(0.0, float(mean - moved) - 1e-12)


def guessed_right(choosing: np.ndarray, counting: np.ndarray) -> int:
    """How many pairs of `counting` (S, Y) the likeliest s of each y in `choosing` is right about."""
    best = np.where(choosing.any(axis=0), choosing.argmax(axis=0), choosing.sum(axis=1).argmax())
    return int(counting[best, np.arange(best.size)].sum())


def _wilson_lower(hits: np.ndarray, draws: np.ndarray, z: float) -> np.ndarray:
    """About the lower limit of a probability (Wilson's, for the choice only)."""
    p = hits / draws
    spread = z * np.sqrt(p * (1 - p) / draws + z**2 / (4 * draws**2))
    return np.maximum((p + z**2 / (2 * draws) - spread) / (1 + z**2 / draws), 1e-12)


def _wilson_upper(hits: np.ndarray, draws: np.ndarray, z: float) -> np.ndarray:
    return np.maximum(1 - _wilson_lower(draws - hits, draws, z), 1e-12)


def _binary_information(p: float, a: float, b: float) -> float:
    """I of a 2 x 2 table: P(A) = p, P(B|A) = a, P(B|not A) = b."""
    mixed = p * a + (1 - p) * b
    return float(p * coins(a, mixed) + (1 - p) * coins(b, mixed))


# Is there any leakage? Tests of independence of pairs (s, y), and how several p-values are read together.
#
# A small p-value is evidence of leakage. A large one is NOT evidence of privacy: the upper bound is.


# Expected counts from which the chi-squared approximation of the G statistic is used.
LEAST_EXPECTED = 5
_LARGEST_TABLE = 10**9  # what NumPy's hypergeometric sampler takes
# Cells of the permuted tables that are in memory at once: 32 MiB of int64.
_BLOCK = 2**22


# More permutations would take hours.
_MOST = 10_000_000


@dataclass(frozen=True)
class PermutationTest:
    """p-values by permuting y against s, exact at any sample size.

    Attributes:
        p_value: (1 + #{permuted I >= observed I})/(1 + permutations), never 0.
        by_private: for each s, the same for "this s against the rest", adjusted by Holm's method over the s.
        permutations: how many were drawn.
    """

    p_value: float
    by_private: tuple[float, ...]
    permutations: int


def permuted_tables(counts: np.ndarray, permutations: int, generator: np.random.Generator) -> np.ndarray:
    """Tables with the margins of `counts` (S, Y) as a random pairing of the two columns gives them: (B, S, Y).

    Row after row, cell after cell a hypergeometric draw for all B tables at once: the work does not depend on
    the number of records.
    """
    rows, columns = counts.sum(axis=1), counts.sum(axis=0)
    left = np.broadcast_to(columns, (permutations, columns.size)).copy()
    tables = np.empty((permutations, *counts.shape), np.int64)
    for s in range(rows.size - 1):
        missing = np.full(permutations, rows[s])
        beyond = left.sum(axis=1)
        for y in range(columns.size):
            beyond = beyond - left[:, y]
            tables[:, s, y] = generator.hypergeometric(left[:, y], beyond, missing) if rows[s] else 0
            missing = missing - tables[:, s, y]
        left -= tables[:, s]
    tables[:, -1] = left
    return tables


def permutation_test(counts: ArrayLike, *, permutations: int = 9999, seed: int = 0) -> PermutationTest:
    """Test that S and Y are independent, from the counts (S, Y) of pairs.

    With margins fixed the plug-in information is increasing in sum_sy N ln N, the statistic used. Under
    independence all pairings are equally likely, so the p-value is valid for every sample size and alphabet,
    the observed table counted among the permuted ones (Phipson and Smyth 2010).

    Raises `InputError` for bad counts, fewer than one permutation, a total of 10^9 pairs or more.
    """
    table = count_array(counts)
    repeats, seed = whole(permutations, "permutations", low=1.0), whole(seed, "seed", low=0.0)
    if repeats > _MOST:
        raise InputError(f"permutations is above {_MOST}: the least p-value is then below any use")
    table = table[:, table.any(axis=0)] if table.any() else table[:, :1]
    if not table.sum() < _LARGEST_TABLE:
        raise InputError("counts has a total of 10^9 or more; the permutation test takes fewer")
    observed = _statistics(table[None])
    generator = np.random.default_rng(seed)
    hits, step = np.zeros(1 + table.shape[0], np.int64), max(1, _BLOCK // table.size)
    for start in range(0, repeats, step):
        drawn = _statistics(permuted_tables(table, min(step, repeats - start), generator))
        # Tables that tie in exact arithmetic may differ by rounding: they count against us.
        hits += (drawn >= observed - 1e-9 * (1 + np.abs(observed))).sum(axis=0)
    values = (1 + hits) / (1 + repeats)
    return PermutationTest(float(values[0]), tuple(holm(values[1:]).tolist()), repeats)


def _statistics(tables: np.ndarray) -> np.ndarray:
    """For each table sum N ln N, then for each s the same of "s against the rest": (B, 1 + S)."""
    cells = xlogy(tables, tables)
    rest = tables.sum(axis=1, keepdims=True) - tables
    each = (cells + xlogy(rest, rest)).sum(axis=2)
    return np.concatenate([cells.sum(axis=(1, 2))[:, None], each], axis=1)


def g_test(counts: ArrayLike) -> float | None:
    """The p-value of G = 2 n I against chi-squared; None unless every expected count is at least 5.

    Asymptotic. Symbols that do not occur are left out; on sparse tables the test would reject far too often.
    """
    from scipy.stats import chi2_contingency  # half a second to import

    table = count_array(counts)
    table = table[table.any(axis=1)][:, table.any(axis=0)]
    if not table.size or not table.sum(axis=1).min() * table.sum(axis=0).min() >= LEAST_EXPECTED * table.sum():
        return None
    result: Any = chi2_contingency(table, correction=False, lambda_="log-likelihood")
    return float(result.pvalue)


def holm(p_values: ArrayLike) -> np.ndarray:
    """Adjusted p-values: rejecting those below alpha errs anywhere with probability at most alpha (Holm 1979).

    Raises `InputError` for what is no sequence of numbers from 0 to 1.
    """
    p = nonnegative(real_array(p_values, "p_values", ndim=1), "p_values")
    if not (p <= 1).all():
        raise InputError(f"p_values[{int(np.argmax(p > 1))}] is above 1")
    order = np.argsort(p)
    return np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)))[np.argsort(order)]


# Does a release come from the mechanism that was audited? Tests with p-values that hold at every sample size.
#
# Under the claim the releases y of the records with useful symbol x are n_x independent draws from W(.|x).
#
# Monte Carlo.  The release among simulated ones, ranked by what a share of unchanged records, merged rows, swapped rows
#               or single pairs would do (`jaxpriv.verifier.releases`, as `jaxpriv verify` does): exact level.
# Unchanged.    For a square mechanism an e-value against a share of records released as they are, and the share that it
#               detects.
# Tail.         z = sum_x n_x D( P^(.|x) || W(.|x) ), f the sum over x of |support of W(.|x)| - 1, satisfies
#
#                   Pr[ z >= t ] <= e^-t (e t/f)^f    for t > f:
#
#               the moment generating functions of independent rows multiply (Agrawal 2020, as for one distribution). It
#               is weaker, but needs no simulation and holds at levels below one in the number of tables. The sum tests
#               a defect in all rows, each row by itself a defect in one.
#
# A release that W excludes has p = 0 in both.


# Simulated tables unless the caller says how many: with 999 the least p-value is 0.001. At most a million: 1e-6.
_TABLES, _MOST_TABLES = 999, 1_000_000
# Cells of all simulated tables together: a larger mechanism is tested with fewer tables, but with the 19 that a level
# of 0.05 needs.
_CELLS, _LEAST = 10**7, 19


@dataclass(frozen=True)
class Conformity:
    """Tests of the claim "released by this mechanism".

    Attributes:
        p_value: by simulation; never below 1/(tables + 1), but for impossible pairs, where it is 0. Without tables the
            tail bound.
        tail: the p-value from the tail bound; `by_row` for each x, Holm-adjusted (1 where nothing was released).
        by_row: see `tail`.
        impossible: the (x, y) that were released although W[x, y] = 0.
        tables: simulated tables (0 if none was needed).
        regular: the p-value, by simulation, of counts that are nearer to their expectations than those of draws; 1
            without tables.
        unchanged: the p-value of the test against a share of records that were released as y = x; None for a mechanism
            that is not square.
        detectable: the least share of them that this test detects in nine of ten cases at level 0.001; infinite if it
            does not detect all of them, None where `unchanged` is.
    """

    p_value: float
    tail: float
    by_row: tuple[float, ...]
    impossible: tuple[tuple[int, int], ...]
    tables: int
    regular: float
    unchanged: float | None
    detectable: float | None


def conformity(releases: ArrayLike, mechanism: ArrayLike, *, tables: int | None = None, seed: int = 0) -> Conformity:
    """Test counts (X, Y) of released pairs against the mechanism (X, Y) they should come from.

    Args:
        releases: (X, Y) whole numbers.
        mechanism: P(y|x), rows sum to one.
        tables: how many releases are simulated at most (999, fewer for more than 10,000 pairs); 0: none.
        seed: of the simulation.

    Raises `InputError` for bad counts or a bad mechanism, if their shapes differ, or for a bad number of tables.
    """
    table = count_array(releases, "releases")
    channel = mechanism_array(mechanism)
    for axis, name in enumerate(("rows (axis x)", "outputs (axis y)")):
        if table.shape[axis] != channel.shape[axis]:
            raise InputError(
                f"releases has {table.shape[axis]} {name}, but the mechanism has {channel.shape[axis]}; releases are "
                "counts (X, Y) of useful and released symbols"
            )
    usual = min(_TABLES, max(_CELLS // channel.size, _LEAST))
    count = usual if tables is None else whole(tables, "tables", low=0.0)
    if count > _MOST_TABLES:
        raise InputError(f"tables is above {_MOST_TABLES}")
    n = table.sum(axis=1)
    # Rounding may not make a release look worse.
    rows = n * rel_entr(table / np.maximum(n, 1)[:, None], channel).sum(axis=1) * (1 - 1e-12)
    freedom = np.where(n > 0, (channel > 0).sum(axis=1) - 1, 0)
    together = divergence_tail(int(freedom.sum()), float(rows.sum()))
    by_row = holm(np.array([divergence_tail(int(f), float(z)) for z, f in zip(rows, freedom, strict=True)]))
    impossible = tuple((int(x), int(y)) for x, y in np.argwhere((table > 0) & (channel == 0)))
    tail = float(min(1.0, 2 * min(together, by_row.min())))
    released = np.flatnonzero(n).tolist()
    if not released:
        return Conformity(1.0, tail, tuple(by_row.tolist()), (), 0, 1.0, None, None)
    outcome = conformity_of_counts(
        {x: channel[x].tolist() for x in released},
        {x: table[x].tolist() for x in released},
        {x: x for x in released} if channel.shape[0] == channel.shape[1] else None,
        count,
        random.Random(whole(seed, "seed", low=0.0)),
    )
    p_value = outcome.p_value if impossible or outcome.tables else tail
    return Conformity(
        p_value,
        tail,
        tuple(by_row.tolist()),
        impossible,
        outcome.tables,
        outcome.regular,
        outcome.unchanged,
        outcome.detectable,
    )


# Is a release about the population of the fit?


@dataclass(frozen=True)
class Drift:
    """The L1 distance of two samples' frequencies, what one population would explain, and whether it is exceeded."""

    distance: float
    allowed: float
    exceeded: bool


def drift(fitted: ArrayLike, released: ArrayLike, beta: float = 0.05) -> Drift:
    """Whether the useful symbols at release are from the population of the fit, by their counts (X,) each.

    |P^_fit - P^_release|_1 is at most the sum of the two radii with probability 1 - beta if they are; beyond it
    every guarantee was computed for another population. The test does not depend on P(s|x).

    Raises `InputError` for counts of different lengths and for counts that are all zero.
    """
    fit_counts, release_counts = count_array(fitted, "fitted", ndim=1), count_array(released, "released", ndim=1)
    beta = failure(beta)
    if fit_counts.shape != release_counts.shape:
        raise InputError(f"released has {release_counts.size} symbols, but fitted has {fit_counts.size}")
    for name, counts in (("fitted", fit_counts), ("released", release_counts)):
        if not counts.any():
            raise InputError(f"{name} has no counts")
    distance = float(np.abs(fit_counts / fit_counts.sum() - release_counts / release_counts.sum()).sum())
    allowed = sum(l1_radius(fit_counts.size, int(counts.sum()), beta / 2) for counts in (fit_counts, release_counts))
    return Drift(distance, min(2.0, allowed), distance > allowed)
