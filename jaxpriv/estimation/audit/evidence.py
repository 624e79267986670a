"""Lower bounds on the leakage of a black box: how much it leaks at least, with confidence.

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

from jaxpriv._validation import whole
from jaxpriv.estimation.confidence import clopper_pearson, mean_interval
from jaxpriv.estimation.confidence.means import count_array, failure
from jaxpriv.estimation.confidence.sets import chord_sum

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
        self.max_lift = max(self._event(*self._lift_pairs(raised=True)), self.maximal)
        self.min_lift = self._event(*self._lift_pairs(raised=False))
        self.ldp = max(self._event(*self._private_pairs()), self.max_lift, self.min_lift)

    def _guess(self) -> tuple[float, float, float]:
        best = self._choosing.argmax(axis=0)
        unseen = ~self._choosing.any(axis=0)
        best = np.where(unseen, self._choosing.sum(axis=1).argmax(), best)
        hits = int(self._counting[best, np.arange(best.size)].sum())
        guess = float(_least(hits, self._total, self._share / 2))
        shared = self._share / (2 * self._by_private.size)
        likeliest = float(_most(self._by_private, self._total, shared).max())
        gain = max(0.0, guess - likeliest)
        return guess, gain, float(np.log(guess / likeliest)) if gain > 0 else 0.0

    def _post_processing(self) -> float:
        """ln sum_s P(g(Y) = s | s) for the g that guesses by likelihood."""
        likelihood = self._choosing / np.maximum(self._choosing.sum(axis=1, keepdims=True), 1)
        guessed = likelihood.argmax(axis=0)
        hits = np.array([self._counting[s, guessed == s].sum() for s in range(likelihood.shape[0])])
        total = float(_least(hits, self._by_private, self._share / self._by_private.size).sum())
        return max(0.0, float(np.log(total))) if total > 0 else 0.0

    def _lift_pairs(self, *, raised: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        everyone = np.broadcast_to(self._choosing.sum(axis=0), self._choosing.shape)
        counted = np.broadcast_to(self._counting.sum(axis=0), self._counting.shape)
        if raised:
            return self._choosing, everyone, self._counting, counted
        return everyone, self._choosing, counted, self._counting

    def _private_pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        one, other = np.nonzero(~np.eye(self._choosing.shape[0], dtype=bool))
        return self._choosing[one], self._choosing[other], self._counting[one], self._counting[other]

    def _event(self, more: np.ndarray, less: np.ndarray, more_now: np.ndarray, less_now: np.ndarray) -> float:
        """ln of the least P(B)/P'(B), the candidates being the rows of `more` over those of `less` (first half).

        B runs over the sets of outputs with the largest observed ratios, every size; the first half picks pair and
        B by an approximate limit of its own.
        """
        if more.shape[0] == 0:
            return 0.0
        n, m = (np.maximum(part.sum(axis=1, keepdims=True), 1) for part in (more, less))
        order = np.argsort(-((more + 0.5) / n) / ((less + 0.5) / m), axis=1)
        hits, others = (np.cumsum(np.take_along_axis(part, order, axis=1), axis=1) for part in (more, less))
        score = np.log(_below(hits, n, self._z)) - np.log(_above(others, m, self._z))
        pair, count = (int(i) for i in np.unravel_index(np.argmax(score), score.shape))
        event = order[pair, : count + 1]
        low = float(_least(more_now[pair, event].sum(), more_now[pair].sum(), self._share / 2))
        high = float(_most(less_now[pair, event].sum(), less_now[pair].sum(), self._share / 2))
        return max(0.0, float(np.log(low / high))) if low > 0 else 0.0

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
        a = float(_least(inside[:, event].sum(), inside.sum(), share))
        b = float(_most(outside[:, event].sum(), outside.sum(), share))
        if not a > b:
            return 0.0, 0.0
        ends = [float(limit(inside.sum(), self._total, share)) for limit in (_least, _most)]
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
        least, most = clopper_pearson(self._by_private, self._total, self._share / 2 / (2 * prior.size))
        moved = chord_sum(least, most, rel_entr(least, prior[:, 0]), rel_entr(most, prior[:, 0]))
        return max(0.0, float(mean - moved) - 1e-12)


def _least(hits: ArrayLike, draws: ArrayLike, beta: float) -> np.ndarray:
    return clopper_pearson(hits, draws, beta)[0]


def _most(hits: ArrayLike, draws: ArrayLike, beta: float) -> np.ndarray:
    return clopper_pearson(hits, draws, beta)[1]


def _below(hits: np.ndarray, draws: np.ndarray, z: float) -> np.ndarray:
    """About the lower limit of a probability (Wilson's, for the choice only)."""
    p = hits / draws
    spread = z * np.sqrt(p * (1 - p) / draws + z**2 / (4 * draws**2))
    return np.maximum((p + z**2 / (2 * draws) - spread) / (1 + z**2 / draws), 1e-12)


def _above(hits: np.ndarray, draws: np.ndarray, z: float) -> np.ndarray:
    return np.maximum(1 - _below(draws - hits, draws, z), 1e-12)


def _binary_information(p: float, a: float, b: float) -> float:
    """I of a 2 x 2 table: P(A) = p, P(B|A) = a, P(B|not A) = b."""
    mixed = p * a + (1 - p) * b
    divergence = lambda r: float(rel_entr(r, mixed) + rel_entr(1 - r, 1 - mixed))  # noqa: E731
    return p * divergence(a) + (1 - p) * divergence(b)
