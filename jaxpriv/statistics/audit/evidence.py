"""How much a black box leaks at least: lower bounds for the population from pairs (s, y).

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

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri, rel_entr

from jaxpriv._runtime.counts import count_array, failure
from jaxpriv._runtime.validation import whole
from jaxpriv.statistics.confidence import clopper_pearson, mean_interval
from jaxpriv.statistics.confidence.intervals import clopper_pearson_together, coins
from jaxpriv.statistics.confidence.sets import chord_sum

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
