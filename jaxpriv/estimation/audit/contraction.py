"""Upper bounds on I(S;Y) of a known mechanism from records that it was not fitted on: likelihood ratios, contracted.

Counts (S, X) and a mechanism W: T = n I(p^ W) is at least sum_j E[ ln(1 + eta(r-1)) | s_j, x_j ], and Jensen's
inequality gives the bounds of `likelihood_ratio`. The part of W that does not depend on x carries no noise: with
W = kappa c + (1-kappa) W', w = kappa c/m, l = lambda(1-kappa), u = r - 1,

    ln E e^(-lambda T) <= n E_Q H,   H = (1+u-w)((1+eta u)^-l - 1)/(1-kappa) - lambda w ln(1+eta u).
"""

import numpy as np

from jaxpriv.estimation.audit._information import mutual_information
from jaxpriv.estimation.audit.likelihood_ratio import KL, NEAR, ROUND, global_bound, of_prior, sides
from jaxpriv.estimation.confidence.means import clopper_pearson, relative_entropy_limit
from jaxpriv.estimation.confidence.sets import divergence_radius


def held_out_information(counts: np.ndarray, mechanism: np.ndarray, beta: float) -> float:
    """An upper bound on I(S;Y) from counts (S, X) that the mechanism (X, Y) does not depend on."""
    private = len(counts)
    mechanism = mechanism[:, mechanism.max(axis=0) > 0]
    n, by_private = int(counts.sum()), counts.sum(axis=1)
    cap = float(np.log(min(private, mechanism.shape[1])))
    if n == 0 or by_private.min() == 0:
        return cap
    frequencies = by_private / n
    total = n * float(mutual_information(counts / n @ mechanism)) * (1 + 1e-12)
    low, high = mechanism.min(axis=0), mechanism.max(axis=0)
    log_beta = -np.log(0.75 * beta)
    prior_low, prior_high = clopper_pearson(by_private, n, 0.1 * beta / (2 * private))

    def top(prior: np.ndarray) -> float:
        ratios = high / (prior[:, None] * high + (1 - prior[:, None]) * low)
        return min(1 / float(prior.min()), float(ratios.max())) * (1 + 1e-12)

    # P(y) given the private symbols is a mean of independent numbers in [low, high] (Chernoff, Hoeffding).
    share = np.clip((counts.sum(axis=0) / n @ mechanism - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)
    output_high = low + (high - low) * relative_entropy_limit(share, np.log(len(low) / (0.05 * beta)) / n)
    upper = min(
        global_bound(total, n, log_beta, top(frequencies)),
        _contracted(total, n, log_beta, top(frequencies), low, output_high),
    )
    given_s = of_prior(upper, frequencies, prior_low, prior_high, KL)
    joint = cap
    if prior_low.min() > 0:
        joint = global_bound(total + n * divergence_radius(private, n, 0.1 * beta), n, log_beta, top(prior_low))
    threshold = 0.03 + 40 * (private - 1) / n
    return min(cap, min(given_s, threshold) if joint <= threshold else joint)


def _contracted(total: float, n: int, log_beta: float, top: float, low: np.ndarray, output_high: np.ndarray) -> float:
    """The bound on E_Q f(r), f that of I, with the constant part of the mechanism taken out of the noise.

    With K(u, w) = -H - lambda eta u, E_Q u = 0: E_Q K <= (lambda T + ln 1/beta)/n, and K >= a f where that holds at
    both ends of w, as K is linear in w: w_0 and min(1, r).
    """
    kept = float(low.sum())
    if not 0.02 <= kept < 1 - 1e-9:
        return np.inf
    least = float((low / np.maximum(output_high, 1e-300)).min()) * (1 - 1e-12)
    best = np.inf
    for lam in np.geomspace(0.05, 400, 40):
        power = lam * (1 - kept)
        for eta in (1 / (1 + lam * (1 - least) * (1 - kept)), 1 / (1 + lam)):
            ratio = _contracted_ratio(float(lam), min(eta, 0.98), power, 1 - kept, least, top)
            if ratio > 0:
                best = min(best, (lam * total + log_beta) / n / ratio)
    return best * (1 + 1e-12)


def _contracted_ratio(lam: float, eta: float, power: float, rest: float, least: float, top: float) -> float:
    """A lower bound of inf K/f over least <= r <= top and both ends of w."""

    def value(r: np.ndarray, w: np.ndarray | float) -> np.ndarray:
        u = r - 1
        logs = np.log1p(eta * u)
        return -(r - w) * np.expm1(-power * logs) / rest + lam * w * logs - lam * eta * u

    below, above = sides()
    inside = below[below > least]
    halves = [np.concatenate([[min(least, 1 - NEAR)], inside]), above[: np.searchsorted(above, top) + 1]]
    if above[-1] < top:
        return 0.0
    found = [_near_one(lam, eta, power, w) for w in (least, 1.0)]
    for grid, ends in ((halves[0], (least, halves[0])), (halves[1], (least, 1.0))):
        if len(grid) < 2:
            continue
        base = 1 + eta * (grid[:-1] - 1)
        f = KL.value(grid) + ROUND * (1 + grid)
        for w in ends:
            # K'' <= 2 lam eta b^-(l+1) for a fixed w, and 2 lam eta/b for w = r.
            follows = not np.isscalar(w)
            bent = 2 * lam * eta * (1 / base if follows else base ** (-power - 1)) * np.diff(grid) ** 2 / 8
            k = value(grid, w) - ROUND * (1 + grid) * (1 + lam / rest)
            found.append(float(np.minimum((k[:-1] - bent) / f[:-1], (k[1:] - bent) / f[1:]).min()))
    return min(found)


def _near_one(lam: float, eta: float, power: float, w: float) -> float:
    """A lower bound of K''/f'' within NEAR of 1.

    K'' = lam eta ( b^-(l+2) (2b - (l+1) eta (r-w)) - w eta/b^2 ), for w = r below 1 it is lam eta (2/b - r eta/b^2):
    each factor at the end that makes it least.
    """
    small, large = 1 - eta * NEAR, 1 + eta * NEAR
    fixed = 2 * large ** (-power - 1) - (power + 1) * eta * max(1 + NEAR - w, 0.0) * small ** (-power - 2)
    fixed -= w * eta * small**-2
    follows = 2 / large - eta / small**2
    return lam * eta * min(fixed, follows if w == 1.0 else fixed) * (1 - NEAR)
