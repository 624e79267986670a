"""The upper bounds on each leakage measure, every one with the name of its argument."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.special import rel_entr, xlogy

from jaxpriv import leakage
from jaxpriv.estimation.audit.bounds import UpperBounds
from jaxpriv.estimation.confidence.sets import chord_sum

Routes = Mapping[str, np.ndarray]


def routes(bounds: UpperBounds, measure: Any) -> Routes | None:
    """Bounds (R, M) on `measure` by the name of an argument; None where no sound one is known (a user's divergence).

    Each is a bound by itself, and they hold together: the least is the bound.
    """
    for kind, method in _METHODS:
        if isinstance(measure, kind):
            found = method(bounds, measure)
            return None if found is None else {name: np.maximum(value, 0.0) for name, value in found.items()}
    return None


def _ldp(bounds: UpperBounds, neighbours: Any) -> np.ndarray:
    """max over y and pairs s != s' of ln( high(s,y)/low(s',y) ), (R, M)."""
    low, high = bounds.outputs.given_low, bounds.outputs.given_high
    worst = np.ones((*bounds.batch, bounds.released))
    for s in range(bounds.private):
        asked = np.ones(bounds.private, bool) if neighbours is None else np.asarray(neighbours)[s].copy()
        asked[s] = False
        if asked.any():
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = high[:, :, s] / low[:, :, asked].min(axis=2)
            worst = np.maximum(worst, np.where(high[:, :, s] > 0, ratio, 0.0))
    return np.log(np.where(bounds.occurring, worst, 1.0).max(axis=-1))


def _max_information(bounds: UpperBounds, measure: Any) -> Routes | None:
    if getattr(measure, "hidden", None) is not None:
        return None
    least = _least_entropy(bounds)
    return {
        "posterior entropy": bounds.private_entropy - least,
        "min-lift": (1 - bounds.kept_uncertainty) * bounds.private_entropy,
        "entropy": np.broadcast_to(bounds.private_entropy, bounds.batch),
    }


def _least_entropy(bounds: UpperBounds) -> np.ndarray:
    low, high = (np.moveaxis(side, 2, 3) for side in bounds.posterior)  # (R, M, Y, S)
    largest = chord_sum(low, high, xlogy(low, low), xlogy(high, high))  # of sum q ln q
    return np.maximum(np.where(bounds.occurring, -largest, np.inf).min(axis=-1), 0.0)


def _relative_entropy(bounds: UpperBounds, measure: Any) -> Routes:
    del measure
    # p (t ln t - t + 1) for the lift t: convex in t, so maximal at an end of its interval.
    finite = [np.where(np.isfinite(t), t, 1.0) for t in bounds.lift_interval]
    ends = [xlogy(t, t) - t + 1 for t in finite]
    terms = np.moveaxis(np.maximum(*ends), 2, 3)  # (R, M, Y, S)
    infinite = np.isinf(np.moveaxis(bounds.lift_interval[1], 2, 3))
    by_output = bounds.expected_by_output(np.where(infinite, 0.0, terms), bounds.outputs.private)
    by_output = np.where(infinite.any(axis=-1), np.inf, by_output)
    low, high = (np.moveaxis(side, 2, 3) for side in bounds.posterior)
    prior = bounds.outputs.private_low[:, None, None, :]
    with np.errstate(divide="ignore"):
        cross = np.where(high > 0, -xlogy(high, np.where(high > 0, np.maximum(prior, 1e-300), 1.0)), 0.0).sum(axis=-1)
    negative = chord_sum(low, high, xlogy(low, low), xlogy(high, high))
    by_posterior = np.where(((high > 0) & (prior <= 0)).any(axis=-1), np.inf, cross + negative)
    return {
        "lift of every symbol": np.where(bounds.occurring, by_output, 0.0).max(axis=-1),
        "posterior entropy": np.where(bounds.occurring, by_posterior, 0.0).max(axis=-1),
        "max-lift": bounds.max_lift,
    }


def _correct_guess(bounds: UpperBounds, measure: Any) -> Routes:
    del measure
    return bounds.correct_guess


def _min_entropy(bounds: UpperBounds, measure: Any) -> Routes:
    del measure
    best = np.minimum.reduce(list(bounds.correct_guess.values()))
    return {"correct guess": np.log(best / bounds.likeliest[0]), "maximal leakage": bounds.maximal_leakage}


def _maximal_leakage(bounds: UpperBounds, measure: Any) -> Routes:
    del measure
    return {"largest rows": bounds.maximal_leakage}


def _gain_leakage(bounds: UpperBounds, measure: Any) -> Routes:
    del measure
    return {"maximal leakage": bounds.maximal_leakage}


def _sibson(bounds: UpperBounds, measure: Any) -> Routes:
    order = float(measure.order)
    return (
        bounds.information if order == 1 else bounds.sibson(order, bounds.outputs.private, bounds.prior, own_prior=True)
    )


def _arimoto(bounds: UpperBounds, measure: Any) -> Routes:
    order = float(measure.order)
    if order == 1:
        return bounds.information
    if np.isinf(order):
        return _min_entropy(bounds, measure)
    powers = (bounds.prior / bounds.prior.max(axis=1, keepdims=True)) ** order
    return bounds.sibson(order, bounds.escort(order), powers / powers.sum(axis=-1, keepdims=True), own_prior=False)


def _mutual_information(bounds: UpperBounds, measure: Any) -> Routes:
    del measure
    return bounds.information


def _f_information(bounds: UpperBounds, measure: Any) -> Routes | None:
    divergence = measure.divergence
    variation = np.minimum.reduce(list(bounds.total_variation.values()))
    match divergence:
        case leakage.KullbackLeibler():
            return bounds.information
        case leakage.ReverseKullbackLeibler():
            return {"vertices": bounds.f_information(lambda r, q: np.where(r > 0, rel_entr(q, r), np.inf) + r - q)}
        case leakage.ChiSquared():
            return bounds.chi_squared
        case leakage.TotalVariation():
            return bounds.total_variation
        case leakage.SquaredHellinger():
            return {
                "vertices": bounds.f_information(lambda r, q: (np.sqrt(r) - np.sqrt(q)) ** 2),
                "total variation": 2 * variation,
                "mutual information": bounds.mutual_information,
            }
        case leakage.JensenShannon():
            return {
                "vertices": bounds.f_information(
                    lambda r, q: 0.5 * (rel_entr(r, 0.5 * (r + q)) + rel_entr(q, 0.5 * (r + q)))
                ),
                "total variation": np.log(2) * variation,
            }
        case leakage.EGamma():
            gamma = float(divergence.gamma)
            return {
                "vertices": bounds.f_information(lambda r, q: np.maximum(r - gamma * q, 0.0)),
                "total variation": variation,
                "max-lift": np.maximum(1 - gamma * np.exp(-bounds.max_lift), 0.0),
            }
    return None


def _average_gain(bounds: UpperBounds, measure: Any) -> Routes | None:
    likeliest_low, likeliest_high = bounds.likeliest
    match measure.cost:
        case leakage.LogLoss():
            return bounds.information
        case leakage.ZeroOneLoss():
            guess = np.minimum.reduce(list(bounds.correct_guess.values()))
            return {
                "correct guess": guess - likeliest_low,
                "maximal leakage": likeliest_high * np.expm1(bounds.maximal_leakage),
                "total variation": np.minimum.reduce(list(bounds.total_variation.values())),
                "min-lift": (1 - bounds.kept_uncertainty) * (1 - likeliest_low),
            }
        case leakage.BrierLoss():
            # sum_y q |P(.|y) - p|^2 = sum_s p_s^2 sum_y (r - q)^2/q.
            rows = bounds.vertices(lambda r, q: (r - q) ** 2 / q).sum(axis=-1)
            high = bounds.outputs.private_high[:, None, :]
            return {
                "vertices": bounds.expected(np.where(high > 0, high * rows, 0.0)),
                "chi-squared": likeliest_high * np.minimum.reduce(list(bounds.chi_squared.values())),
                "min-lift": (1 - bounds.kept_uncertainty) * (1 - 1 / bounds.private),
            }
    return None


def _worst_gain(bounds: UpperBounds, measure: Any) -> Routes | None:
    likeliest_low, _ = bounds.likeliest
    low, high = bounds.posterior
    occurring = bounds.occurring
    kept = bounds.kept_uncertainty
    match measure.cost:
        case leakage.LogLoss():
            return _max_information(bounds, measure)
        case leakage.ZeroOneLoss():
            largest = np.where(occurring, high.max(axis=2), 0.0).max(axis=-1)
            return {
                "posterior": largest - likeliest_low,
                "max-lift": 1 - np.exp(-bounds.max_lift),  # P(s|y) - p_s = P(s|y)(1 - 1/lift)
                "min-lift": (1 - kept) * (1 - likeliest_low),
            }
        case leakage.BrierLoss():
            low, high = np.moveaxis(low, 2, 3), np.moveaxis(high, 2, 3)
            squares = np.where(occurring, chord_sum(low, high, low**2, high**2), 0.0).max(axis=-1)
            # |p| >= |p^| - |p - p^|, and the 2-norm of a vector of total zero is at most its 1-norm over sqrt 2.
            fitted = np.linalg.norm(bounds.prior, axis=1)
            norm = np.maximum(fitted - np.sqrt(2) * bounds.known.private_distance, np.sqrt(1 / bounds.private))
            before = norm[:, None] ** 2
            return {"posterior": np.minimum(squares, 1.0) - before, "min-lift": (1 - kept) * (1 - before)}
    return None


_METHODS: tuple[tuple[type, Callable[[UpperBounds, Any], Routes | None]], ...] = (
    (leakage.MutualInformation, _mutual_information),
    (leakage.MaxInformation, _max_information),
    (leakage.RelativeEntropyPrivacy, _relative_entropy),
    (leakage.CorrectGuess, _correct_guess),
    (leakage.MinEntropyLeakage, _min_entropy),
    (leakage.MaximalLeakage, _maximal_leakage),
    (leakage.GainLeakage, _gain_leakage),
    (leakage.Sibson, _sibson),
    (leakage.Arimoto, _arimoto),
    (leakage.FInformation, _f_information),
    (leakage.AverageCostGain, _average_gain),
    (leakage.MaxCostGain, _worst_gain),
    (leakage.Lift, lambda b, _: {"intervals": np.maximum(b.max_lift, b.min_lift)}),
    (leakage.MaxLift, lambda b, _: {"intervals": b.max_lift}),
    (leakage.MinLift, lambda b, _: {"intervals": b.min_lift}),
    (leakage.LocalDifferentialPrivacy, lambda b, m: {"intervals": _ldp(b, m.neighbours)}),
    (leakage.InferentialPrivacy, lambda b, _: {"intervals": _ldp(b, None)}),
)
