"""The leakage measures by their definitions, in NumPy: column functions, their tangents, and polyhedral cones.

Of a column w (mass P(s, y) of one released symbol) and a prior p without zeros. An average measure is
outer(sum_y column(w_y)), column convex and of degree 1; a worst-outcome measure the largest column(w_y)/|w_y|.
A tangent at w is a g with g.v <= column(v) for every v >= 0 and g.w = column(w).
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxpriv import leakage as lk

INF = math.inf

# Of a prior: rows of numbers, or a number for each symbol; of the number of symbols: a table.
Rows = Callable[[np.ndarray], np.ndarray]
Table = Callable[[int], np.ndarray]


def independent(p: np.ndarray) -> np.ndarray:
    """Rows h with h.w = 0 for every column of outputs that are independent of S."""
    return np.eye(len(p)) - np.outer(p, np.ones(len(p)))


@dataclass(frozen=True)
class Reference:
    """One measure: what jaxpriv is asked for, and its definition.

    `measure`: itself, or a function of a prior, which may have zeros. `kind` says which measures are one kind of
    program (they share what jaxpriv compiles). `column(w, p)` and `tangent(w, p)` as above. `facets(p)`: all tangents
    of a piecewise linear column. `cone(eps, p)`: rows h of the inequalities h.w <= 0 that a limit eps on a log-ratio
    is. `apart`: its least value needs all rows h.w = 0; None where linear programs meet that value themselves.
    """

    kind: str
    measure: Any
    column: Callable[[np.ndarray, np.ndarray], float]
    tangent: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    facets: Rows | None = None
    cone: Callable[[float, np.ndarray], np.ndarray] | None = None
    worst: bool = False
    outer: Callable[[float], float] = float
    inner: Callable[[float], float] = float
    apart: Rows | None = independent
    logarithm: bool = False
    singular: bool = False  # infinite where a symbol is excluded

    @property
    def linear(self) -> bool:
        return self.facets is not None or self.cone is not None

    def asked(self, prior: np.ndarray) -> Any:
        """What jaxpriv is asked for under a prior."""
        of_prior = callable(self.measure) and not isinstance(self.measure, lk.AbstractLeakage)
        return self.measure(prior) if of_prior else self.measure

    def of(self, joint: np.ndarray, mechanism: np.ndarray) -> float:
        """The measure of S and Y."""
        joint = joint[joint.sum(axis=1) > 0]
        prior, columns = joint.sum(axis=1), (joint @ mechanism).T
        columns = [w for w in columns if w.sum() > 0]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            values = [self.column(w, prior) for w in columns]
        if self.worst:
            return max(value / w.sum() for value, w in zip(values, columns, strict=True))
        return self.outer(math.fsum(values)) if all(map(math.isfinite, values)) else INF


def _entropy(q: np.ndarray) -> float:
    return -float((q[q > 0] * np.log(q[q > 0])).sum())


def _xlogy(w: np.ndarray, ratio: np.ndarray) -> float:
    return float((w[w > 0] * np.log(ratio[w > 0])).sum())


# -- averages ----------------------------------------------------------------------------------------


def _information(kind: str, measure: Any, worst: bool = False) -> Reference:
    return Reference(
        kind,
        measure,
        lambda w, p: _xlogy(w, w / (p * w.sum())),
        lambda w, p: np.log(w / (p * w.sum())),
        worst=worst,
    )


def _renyi(measure: Any, order: float, sibson: bool) -> Reference:
    """(sum_s r_s w_s^a)^(1/a), r = p^(1-a) (Sibson) or 1, divided by its value at p (Arimoto)."""
    sign, rate = math.copysign(1.0, order - 1.0), 1.0 - 1.0 / order

    def norm(w: np.ndarray, p: np.ndarray) -> float:
        r = p ** (1.0 - order) if sibson else 1.0
        return float((r * w**order).sum() ** (1.0 / order))

    def size(p: np.ndarray) -> float:
        return 1.0 if sibson else norm(p, p)

    def tangent(w: np.ndarray, p: np.ndarray) -> np.ndarray:
        r = p ** (1.0 - order) if sibson else 1.0
        return sign * norm(w, p) ** (1.0 - order) * r * w ** (order - 1.0) / size(p)

    return Reference(
        "power" if order > 1 else "power-below-1",
        measure,
        lambda w, p: sign * norm(w, p) / size(p),
        tangent,
        outer=lambda total: math.log(sign * total) / rate,
        inner=lambda value: sign * math.exp(rate * value),
        logarithm=True,
    )


def _renyi_of_pair(order: float) -> Reference:
    """Q(y) r^b, r = P(y)/Q(y), of P = P(y|s) and Q = P(y|s') of the first two symbols."""

    def tangent(w: np.ndarray, p: np.ndarray) -> np.ndarray:
        shares = w[:2] / p[:2]
        ratio = shares[0] / shares[1]
        slopes = np.array([order * ratio ** (order - 1.0), (1.0 - order) * ratio**order]) / p[:2]
        return np.pad(slopes, (0, len(p) - 2))

    return Reference(
        "renyi-of-pair",
        lk.RenyiDivergence(0, 1, order),
        lambda w, p: float(w[0] / p[0] * (w[0] / p[0] / (w[1] / p[1])) ** (order - 1.0)) if w[0] > 0 else 0.0,
        tangent,
        apart=lambda p: (np.eye(len(p)) / p[:, None])[:1] - (np.eye(len(p)) / p[:, None])[1:2],
        outer=lambda total: math.log(total) / (order - 1.0),
        inner=lambda value: math.exp((order - 1.0) * value),
        logarithm=True,
        singular=True,
    )


def _polyhedral(
    kind: str,
    measure: Any,
    facets: Rows,
    log: bool = False,
    worst: bool = False,
) -> Reference:
    scales = {"outer": math.log, "inner": math.exp} if log else {}
    return Reference(
        kind,
        measure,
        lambda w, p: float((facets(p) @ w).max()),
        facets=facets,
        worst=worst,
        apart=None,
        logarithm=log,
        **scales,
    )


def _subsets(gamma: float) -> Rows:
    """sum_s max(w_s - gamma p_s |w|, 0): the largest of the sums over subsets."""

    def facets(p: np.ndarray) -> np.ndarray:
        chosen = np.array(list(itertools.product((0.0, 1.0), repeat=len(p))))
        return chosen - gamma * (chosen @ p)[:, None]

    return facets


def _divergence(
    kind: str,
    measure: Any,
    f: Rows,
    slope: Rows,
    singular: bool = False,
) -> Reference:
    def column(w: np.ndarray, p: np.ndarray) -> float:
        return float(w.sum() * (p * f(w / (p * w.sum()))).sum())

    def tangent(w: np.ndarray, p: np.ndarray) -> np.ndarray:
        t = w / (p * w.sum())
        return slope(t) + float((p * (f(t) - t * slope(t))).sum())

    return Reference(kind, lk.FInformation(measure), column, tangent, singular=singular)


def _cost(kind: str, measure: Any, costs: Rows, worst: bool) -> Reference:
    """c0 |w| - sum_s w_s C(s, q), C(., q) = costs(posterior) of the best announcement."""

    def tangent(w: np.ndarray, p: np.ndarray) -> np.ndarray:
        return float(p @ costs(p)) - costs(w / w.sum())

    return Reference(kind, measure, lambda w, p: float(w @ tangent(w, p)), tangent, worst=worst)


def _brier(q: np.ndarray) -> np.ndarray:
    return (q * q).sum() + 1.0 - 2.0 * q


def _cubic(posterior: np.ndarray) -> np.ndarray:
    """(1 - q)^3 at the announcement that is best for a posterior: posterior_s (1 - q_s)^2 = level wherever q_s > 0."""
    low, high = 0.0, 1.0
    for _ in range(200):
        level = 0.5 * (low + high)
        with np.errstate(divide="ignore"):
            q = np.maximum(1.0 - np.sqrt(level / posterior), 0.0)
        low, high = (level, high) if q.sum() > 1.0 else (low, level)
    return (1.0 - q / q.sum()) ** 3


# -- worst outcomes ----------------------------------------------------------------------------------


def _largest_information(measure: Any, hidden: Table | None = None) -> Reference:
    """H(S) - H(S|Y=y), where symbol s stands for a class of entropy hidden[s]."""

    def inside(p: np.ndarray) -> np.ndarray:
        return np.zeros(len(p)) if hidden is None else hidden(len(p))

    return Reference(
        "worst-entropic",
        measure,
        lambda w, p: w.sum() * (_entropy(p) + p @ inside(p)) + _xlogy(w, w / w.sum()) - w @ inside(p),
        lambda w, p: _entropy(p) + p @ inside(p) + np.log(w / w.sum()) - inside(p),
        worst=True,
    )


def _ratio(
    kind: str,
    measure: Any,
    raised: bool,
    lowered: bool,
    pairs: Table | None = None,
) -> Reference:
    """ln of the largest ratio of two lifts: of a raised to a lowered symbol, 1 in place of a missing one."""

    def column(w: np.ndarray, p: np.ndarray) -> float:
        lift = np.log(w / (p * w.sum()))
        if pairs is not None:
            apart = lift[:, None] - lift[None, :]  # NaN of a pair without mass, which is skipped
            return float(w.sum() * apart[pairs(len(p)) & ~np.isnan(apart)].max(initial=0.0))
        sides = [lift.max()] * raised + [-lift.min()] * lowered
        return float(w.sum() * max(sides))

    def cone(eps: float, p: np.ndarray) -> np.ndarray:
        identity, ones = np.eye(len(p)), np.ones(len(p))
        if pairs is not None:
            chosen = np.argwhere(pairs(len(p)) & ~np.eye(len(p), dtype=bool))
            return np.array([identity[a] / p[a] - math.exp(eps) * identity[b] / p[b] for a, b in chosen])
        rows = [identity - math.exp(eps) * np.outer(p, ones)] * raised + [
            math.exp(-eps) * np.outer(p, ones) - identity
        ] * lowered
        return np.concatenate(rows)

    return Reference(kind, measure, column, cone=cone, worst=True, apart=None, singular=lowered)


def _scaled(kind: str, measure: Any, scales: Table, pairs: bool) -> Reference:
    """The largest quotient of a log-ratio, of a symbol to another one (to all, without `pairs`), and its scale."""

    def apart(w: np.ndarray, p: np.ndarray) -> np.ndarray:
        lift = np.log(w / (p * w.sum()))
        return (lift[:, None] - lift[None, :] if pairs else lift) / scales(len(p))

    def cone(eps: float, p: np.ndarray) -> np.ndarray:
        shares, scale = np.eye(len(p)) / p[:, None], scales(len(p))
        if not pairs:
            return shares - np.exp(eps * scale)[:, None]
        return np.array([shares[a] - math.exp(eps * scale[a, b]) * shares[b] for a, b in np.argwhere(scale < INF)])

    return Reference(
        kind,
        lambda p: measure(scales(len(p))),
        lambda w, p: float(w.sum() * np.nanmax(apart(w, p), initial=0.0)),
        cone=cone,
        worst=True,
        apart=None,
        singular=pairs,
    )


def _sampled(p: np.ndarray) -> lk.SampledLift:
    return lk.SampledLift(p, _RADIUS, None, None, ("raised", "lowered"))


def _sampled_lift(w: np.ndarray, p: np.ndarray) -> float:
    """Of all priors within 2 r of p in L1: ln of the largest of P(y|s)/P(y) and P(y)/P(y|s)."""
    shares = w / p
    moved = _RADIUS * (shares.max() - shares.min())
    low = w.sum() - moved
    return float(w.sum() * np.log(max(shares.max() / low if low > 0 else INF, (w.sum() + moved) / shares.min())))


def _sampled_cone(eps: float, p: np.ndarray) -> np.ndarray:
    """For any pair in the places of the largest and the smallest share."""
    shares, total = np.eye(len(p)) / p[:, None], np.ones(len(p))
    one, other = np.nonzero(~np.eye(len(p), dtype=bool))
    moved = _RADIUS * (shares[one] - shares[other])
    raised, lowered = shares[one] - math.exp(eps) * (total - moved), total + moved - math.exp(eps) * shares[other]
    return np.concatenate([raised, lowered])


def _by_symbol(symbols: int) -> np.ndarray:
    return 1.0 + 0.3 * np.arange(symbols)


def _line(symbols: int) -> np.ndarray:
    """|s - s'|/2, of no pair with the last symbol beyond the third; the diagonal is not compared."""
    table = 0.5 * abs(np.subtract.outer(np.arange(symbols), np.arange(symbols, dtype=float)))
    table[np.eye(symbols, dtype=bool)] = INF
    table[3:, :2] = INF
    return table


def _all(symbols: int) -> np.ndarray:
    return np.ones((symbols, symbols), dtype=bool)


def _chain(symbols: int) -> np.ndarray:
    return np.eye(symbols, k=1, dtype=bool) | np.eye(symbols, k=-1, dtype=bool)


def _gains(symbols: int) -> np.ndarray:
    return (np.eye(3, 8) + 0.1 * np.random.default_rng(6).random((3, 8)))[:, :symbols]


def _losses(symbols: int) -> np.ndarray:
    return (0.2 - np.eye(8, 3) + 0.1 * np.random.default_rng(5).random((8, 3)))[:symbols]


def _loss_facets(p: np.ndarray) -> np.ndarray:
    return (p @ _losses(len(p))).min() - _losses(len(p)).T


def _guess_facets(p: np.ndarray) -> np.ndarray:
    return np.eye(len(p)) - p.max()


def _hidden(symbols: int) -> np.ndarray:
    return np.log(1.0 + np.arange(symbols))


_RADIUS = 0.03  # half of how far the population may be from the frequencies

# One object each: a fresh function would be compiled again.
_LE_CAM = lk.UserDivergence(lambda t: (t - 1.0) ** 2 / (t + 1.0), at_zero=1.0)
_USER_BRIER = lk.CustomLoss(lambda q: jnp.sum(q * q) + 1.0 - 2.0 * q)
_USER_CUBIC = lk.CustomLoss(lambda q: (1.0 - q) ** 3)
_BOTH = {"raised": True, "lowered": True}


def _total_variation(released: np.ndarray, q: np.ndarray) -> tuple[float, np.ndarray]:
    return float(np.maximum(released - q, 0.0).sum()), (released > q) * 1.0


def _transport(released: np.ndarray, q: np.ndarray) -> tuple[float, np.ndarray]:
    """On the line 0, 1, ...: the sum of |P(Y <= i) - Q(i)|."""
    apart = np.cumsum(released - q)[:-1]
    sides = np.append(np.sign(apart), 0.0)
    return float(abs(apart).sum()), np.cumsum(sides[::-1])[::-1]


def _chi_squared(released: np.ndarray, q: np.ndarray) -> tuple[float, np.ndarray]:
    return float(((released - q) ** 2 / q).sum()), 2.0 * (released - q) / q


# The distance of the released marginal from q, and its slope.
MARGINALS = {"total-variation": _total_variation, "transport": _transport, "divergence": _chi_squared}

MEASURES = {
    "mutual-information": _information("information", lk.MutualInformation()),
    "kl": _information("entropic", lk.FInformation(lk.KullbackLeibler())),
    "gain-log-loss": _information("entropic", lk.AverageCostGain(lk.LogLoss())),
    "sibson-1": _information("entropic", lk.Sibson(1.0)),
    "arimoto-1": _information("entropic", lk.Arimoto(1.0)),
    "sibson-0.5": _renyi(lk.Sibson(0.5), 0.5, True),
    "sibson-2": _renyi(lk.Sibson(2.0), 2.0, True),
    "sibson-20": _renyi(lk.Sibson(20.0), 20.0, True),
    "sibson-inf": _polyhedral("gain", lk.Sibson(INF), lambda p: np.diag(1.0 / p), log=True),
    "arimoto-0.5": _renyi(lk.Arimoto(0.5), 0.5, False),
    "arimoto-3": _renyi(lk.Arimoto(3.0), 3.0, False),
    "arimoto-inf": _polyhedral("gain", lk.Arimoto(INF), lambda p: np.eye(len(p)) / p.max(), log=True),
    "maximal-leakage": _polyhedral("gain", lk.MaximalLeakage(), lambda p: np.diag(1.0 / p), log=True),
    "min-entropy": _polyhedral("gain", lk.MinEntropyLeakage(), lambda p: np.eye(len(p)) / p.max(), log=True),
    "correct-guess": _polyhedral("gain", lk.CorrectGuess(), lambda p: np.eye(len(p))),
    "gain": _polyhedral(
        "gain",
        lambda p: lk.GainLeakage(_gains(len(p))),
        lambda p: _gains(len(p)) / (_gains(len(p)) @ p).max(),
        log=True,
    ),
    "chi-squared": _divergence("chi-squared", lk.ChiSquared(), lambda t: (t - 1.0) ** 2, lambda t: 2.0 * (t - 1.0)),
    "reverse-kl": _divergence(
        "reverse-kl", lk.ReverseKullbackLeibler(), lambda t: t - 1.0 - np.log(t), lambda t: 1.0 - 1.0 / t, singular=True
    ),
    "hellinger": _divergence(
        "hellinger", lk.SquaredHellinger(), lambda t: (np.sqrt(t) - 1.0) ** 2, lambda t: 1.0 - 1.0 / np.sqrt(t)
    ),
    "jensen-shannon": _divergence(
        "jensen-shannon",
        lk.JensenShannon(),
        lambda t: 0.5 * (np.where(t > 0, t * np.log(np.where(t > 0, t, 1.0)), 0.0) - (1 + t) * np.log(0.5 * (1 + t))),
        lambda t: 0.5 * (np.log(t) - np.log(0.5 * (1 + t))),
    ),
    "total-variation": _polyhedral("box", lk.FInformation(lk.TotalVariation()), _subsets(1.0)),
    "e-gamma": _polyhedral("box", lk.FInformation(lk.EGamma(1.2)), _subsets(1.2)),
    "hockey-stick": _polyhedral(
        "box", lk.HockeyStick(0, 1.2), lambda p: np.stack([0.0 * p, np.eye(len(p))[0] / p[0] - 1.2])
    ),
    "user-f": _divergence(
        "user-f", _LE_CAM, lambda t: (t - 1.0) ** 2 / (t + 1.0), lambda t: (t - 1.0) * (t + 3.0) / (t + 1.0) ** 2
    ),
    "gain-zero-one": _polyhedral("gain", lk.AverageCostGain(lk.ZeroOneLoss()), _guess_facets),
    "gain-brier": _cost("brier", lk.AverageCostGain(lk.BrierLoss()), _brier, False),
    "gain-losses": _polyhedral("gain", lambda p: lk.AverageCostGain(lk.LossMatrix(_losses(len(p)))), _loss_facets),
    "user-loss": _cost("user-loss", lk.AverageCostGain(_USER_BRIER), _brier, False),
    "user-cubic": _cost("user-cubic", lk.AverageCostGain(_USER_CUBIC), _cubic, False),
    "renyi-of-pair": _renyi_of_pair(2.0),
    "max-information": _largest_information(lk.MaxInformation()),
    "max-information-hidden": _largest_information(lambda p: lk.MaxInformation(_hidden(len(p))), _hidden),
    "max-gain-log-loss": _largest_information(lk.MaxCostGain(lk.LogLoss())),
    "relative-entropy": _information("worst-entropic", lk.RelativeEntropyPrivacy(), worst=True),
    "max-gain-zero-one": _polyhedral("ratio", lk.MaxCostGain(lk.ZeroOneLoss()), _guess_facets, worst=True),
    "max-gain-brier": _cost("worst-brier", lk.MaxCostGain(lk.BrierLoss()), _brier, True),
    "max-gain-losses": _polyhedral(
        "ratio", lambda p: lk.MaxCostGain(lk.LossMatrix(_losses(len(p)))), _loss_facets, worst=True
    ),
    "max-user-loss": _cost("worst-user-loss", lk.MaxCostGain(_USER_BRIER), _brier, True),
    "lift": _ratio("lift", lk.Lift(), **_BOTH),
    "max-lift": _ratio("ratio", lk.MaxLift(), raised=True, lowered=False),
    "min-lift": _ratio("ratio", lk.MinLift(), raised=False, lowered=True),
    "ldp": _ratio("ldp", lk.LocalDifferentialPrivacy(), **_BOTH, pairs=_all),
    "ldp-chain": _ratio("ldp-chain", lambda p: lk.LocalDifferentialPrivacy(_chain(len(p))), **_BOTH, pairs=_chain),
    "max-lift-by-symbol": _scaled("scaled", lk.SymbolMaxLift, _by_symbol, False),
    "metric": _scaled("scaled-pairs", lk.MetricPrivacy, _line, True),
    "sampled": Reference(
        "sampled", _sampled, _sampled_lift, cone=_sampled_cone, worst=True, apart=None, singular=True
    ),
    "inferential": _ratio("ldp", lk.InferentialPrivacy(), **_BOTH, pairs=_all),
}  # fmt: skip
