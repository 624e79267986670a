"""Upper bounds from exact laws of binomial counts of pairs: correct guesses, maximal leakage, max-lift, lift.

Each holds by itself with probability 1 - beta. N (S, Y) are counts of n pairs, n_s and n_y their margins.
"""

import numpy as np

from jaxpriv.statistics.confidence.intervals import MEAN_ROUND, clopper_pearson, clopper_pearson_together

# Multiples of sqrt(8 ln(1/beta)/sum_s 1/n_s), the best lambda in Hoeffding's bound on the same sum, that are tried.
# Each makes a threshold in the observed sum, so the best of them costs no confidence, and more of them no validity.
_LAMBDAS = 0.5 * 32 ** np.linspace(0, 1, 9)


def correct_guess(counts: np.ndarray, beta: float) -> float:
    """P_c <= the exact binomial limit at the observed share of correct guesses, whatever the alphabets.

    The best guess A* of the population is correct on at most sum_y max_s N pairs, and on a binomial number of them.
    """
    return float(clopper_pearson(counts.max(axis=0).sum(), counts.sum(), beta)[1])


def likeliest(counts: np.ndarray, beta: float) -> float:
    """A lower bound on max_s p_s from counts (S,) or (S, Y)."""
    by_private = counts.reshape(len(counts), -1).sum(axis=1)
    limits = clopper_pearson(by_private, by_private.sum(), beta / len(by_private))[0]
    return max(float(limits.max()), 1 / len(by_private))


def maximal_leakage(counts: np.ndarray, beta: float) -> float:
    """An upper bound on ln sum_y max_s P(y|s).

    sum_y max_s N/n_s >= sum_s B_s/n_s, where B_s counts the pairs with s and an output whose P(y|s) is the largest: n_s
    draws of probability q_s, sum_s q_s = theta = e^L. So Pr[sum B_s/n_s <= t] <= e^(lambda t) prod (1 - q_s c_s)^n_s,
    c_s = 1 - e^(-lambda/n_s). The largest exponent over q is bounded by its dual, any nu >= 0:

        sum_s sup_{0 <= q <= 1} ( n_s ln(1 - q c_s) + nu q ) - nu theta,  at q = (1 - n_s c_s/nu)/c_s, clipped.

    A private symbol without a pair may add 1 to theta.
    """
    by_private = counts.sum(axis=1)
    seen = by_private > 0
    symbols, unseen = min(counts.shape), int((~seen).sum())
    n = by_private[seen].astype(float)
    if not seen.any():
        return float(np.log(symbols))
    fitted = float((counts[seen] / n[:, None]).max(axis=0).sum()) * (1 + MEAN_ROUND)
    top = min(int(seen.sum()), counts.shape[1])
    level = -np.log(beta)

    def rejected(theta: float) -> bool:
        for lam in np.sqrt(8 * level / (1 / n).sum()) * _LAMBDAS:
            c = -np.expm1(-lam / n)
            low, high = np.log((n * c).min()) - 20, np.log((n * c / np.maximum(1 - c, 1e-300)).max()) + 1
            for _ in range(40):
                middle = 0.5 * (low + high)
                q = np.clip((1 - n * c * np.exp(-middle)) / c, 0, 1)
                low, high = (middle, high) if q.sum() < theta else (low, middle)
            nu = np.exp(high)
            q = np.clip((1 - n * c / nu) / c, 0, 1)
            with np.errstate(divide="ignore"):
                terms = n * np.log1p(-q * c) + nu * q
            size = abs(lam * fitted) + np.abs(terms).sum() + nu * theta
            if lam * fitted + terms.sum() - nu * theta < -level - MEAN_ROUND * size:
                return True
        return False

    least, most = fitted, float(top)
    if least < most and rejected(most):
        for _ in range(20):
            middle = 0.5 * (least + most)
            least, most = (least, middle) if rejected(middle) else (middle, most)
    return float(np.log(min(most + unseen, symbols)))


def max_lift(counts: np.ndarray, beta: float) -> float:
    """An upper bound on max ln P(s,y)/(p_s P(y)): for each cell the smaller of P(s|y)/p_s and P(y|s)/P(y)."""
    private, released = counts.shape
    n, by_private, by_output = counts.sum(), counts.sum(axis=1), counts.sum(axis=0)
    posterior = clopper_pearson(counts, by_output, 0.45 * beta / counts.size)[1]
    given = clopper_pearson(counts, by_private[:, None], 0.25 * beta / counts.size)[1]
    prior = clopper_pearson(by_private, n, 0.15 * beta / private)[0]
    output = clopper_pearson(by_output, n, 0.15 * beta / released)[0]
    with np.errstate(divide="ignore"):
        ratios = np.minimum(posterior / prior[:, None], given / output)
    return max(0.0, float(np.log(ratios.max() * (1 + MEAN_ROUND))))


def lift(counts: np.ndarray, beta: float) -> float:
    """An upper bound on max |ln P(s|y)/p_s|: intervals of P(s|y) given the y, and of p_s."""
    low, high = clopper_pearson_together(counts, counts.sum(axis=0), 0.7 * beta / counts.shape[1])
    prior_low, prior_high = clopper_pearson_together(counts.sum(axis=1), counts.sum(), 0.3 * beta)
    with np.errstate(divide="ignore", invalid="ignore"):
        most = np.log(high / prior_low[:, None])
        least = np.log(low / prior_high[:, None])
    return float(np.maximum(most, -least).max() * (1 + MEAN_ROUND) + MEAN_ROUND)
