"""Bounds on the leakage of the population: with confidence from counts, and without any data.

`leakage_bounds` holds on one event for all mechanisms and measures (`SampleUpperBounds`). `sample_bounds` is for one
mechanism. Beside that event stand arguments that bound one quantity by itself, and tighter: likelihood ratio and exact
binomial tails of pairs, the same for a mechanism that the records did not choose, a divergence ball for every
mechanism. beta is divided among those that the measures named can use, so an audit of few measures has tighter bounds
than one of all.

I(S;Y) of a known mechanism W from records (S, X) that it was not fitted on (`held_out_information`): T = n I(p^ W) is
at least sum_j E[ ln(1 + eta(r-1)) | s_j, x_j ], and Jensen's inequality gives the bounds of `likelihood_ratio`. The
part of W that does not depend on x carries no noise: with W = kappa c + (1-kappa) W', w = kappa c/m, l =
lambda(1-kappa), u = r - 1,

    ln E e^(-lambda T) <= n E_Q H,   H = (1+u-w)((1+eta u)^-l - 1)/(1-kappa) - lambda w ln(1+eta u).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv.leakage import AbstractLeakage
from jaxpriv.leakage.population import Routes, UpperBounds, least
from jaxpriv.statistics.audit import binomial, likelihood_ratio
from jaxpriv.statistics.audit._information import entropy, entropy_change, mutual_information, negative_entropy
from jaxpriv.statistics.audit.ball_information import ball_information
from jaxpriv.statistics.audit.bounds import SampleUpperBounds
from jaxpriv.statistics.audit.likelihood_ratio import KL, NEAR, ROUND, global_bound, of_prior, sides
from jaxpriv.statistics.confidence import Population, mechanism_stack, population, seen_through
from jaxpriv.statistics.confidence.intervals import clopper_pearson_together, relative_entropy_limit
from jaxpriv.statistics.confidence.radii import divergence_radius
from jaxpriv.statistics.confidence.sets import ROUND as ROUND_OUT, chord_sum

NO_BOUND = "no sound bound is known for this measure"


@dataclass(frozen=True, eq=False)
class Bound:
    """An upper bound on one measure for R tables of counts and M mechanisms.

    Attributes:
        upper: (R, M) holds for the population with the confidence of the `Population`; at most `cap`.
        route: (R, M) which argument gave it.
        cap: (M,) holds whatever the population is: it needs the mechanism and the alphabets only.
    """

    upper: np.ndarray
    route: np.ndarray
    cap: np.ndarray


def leakage_bounds(
    known: Population, mechanism: ArrayLike, measures: Sequence[AbstractLeakage]
) -> tuple[Bound | None, ...]:
    """Upper bounds on `measures` for one mechanism (X, Y) or a stack (M, X, Y); None where no sound one is known.

    All hold together with probability 1 - known.beta, for every mechanism there is: a whole sweep may be bounded and
    the best one chosen, and the mechanism may have been fitted on the counts. From a held-out population they hold
    for these mechanisms, which must not depend on the counts.

    Costs O(S X M Y) for each of about twenty-five steps.
    """
    stack = mechanism_stack(mechanism, known.counts.shape[2])
    nothing = population(np.zeros_like(known.counts[0]), known.beta, possible=known.possible)
    # Cached properties, attributes to the protocol.
    both: list[Any] = [SampleUpperBounds(sets, stack) for sets in (known, nothing)]
    return tuple(bound_of(*(routes_of(measure, bounds) for bounds in both)) for measure in measures)


def routes_of(measure: AbstractLeakage, bounds: UpperBounds) -> Routes | None:
    """The bounds on a measure by the names of their arguments, none below 0; None where no sound one is known."""
    routes = measure.upper_bounds(bounds)
    return None if routes is None else {name: np.maximum(value, 0.0) for name, value in routes.items()}


def bound_of(informed: Routes | None, caps: Routes | None) -> Bound | None:
    """The least bound with its argument, and the cap."""
    if informed is None or caps is None:
        return None
    cap = np.minimum.reduce(list(caps.values()))  # (1, M)
    names = np.array(list(informed))
    shape = np.broadcast_shapes(*(value.shape for value in informed.values()))
    values = np.stack([np.broadcast_to(value, shape) for value in informed.values()])
    best, route = values.min(axis=0), names[values.argmin(axis=0)]
    return Bound(np.minimum(best, cap), np.where(cap <= best, "cap", route), cap[0])


def least_utility(known: Population, mechanism: ArrayLike) -> np.ndarray:
    """A lower bound on I(X;Y) of the population, (R, M), on the event on which `leakage_bounds` hold.

    I(X;Y) = H(Y) - sum_x p_x H(W(.|x)): the second term is a linear functional of P_X, the first is at least the
    fitted entropy less its modulus of continuity, and at least the least entropy of a distribution in the
    intervals of P(y), which is bounded by chords.
    """
    stack = mechanism_stack(mechanism, known.counts.shape[2])
    outputs = seen_through(known, stack)
    useful = known.joint.sum(axis=1)
    fitted = entropy(np.einsum("rx,mxy->rmy", useful, stack))
    moved = fitted - entropy_change(known.useful_distance, stack.shape[2])[:, None]
    low, high = outputs.low, outputs.high
    among = -chord_sum(low, high, negative_entropy)
    lost = known.useful.upper(entropy(stack))
    return np.maximum(np.maximum(moved, among) - lost - ROUND_OUT, 0.0)


# The part of beta of `SampleUpperBounds`, where a special argument has 1: if a measure has nothing else, or by kind.
_NEEDED = 2.0


class SampleKind(Enum):
    """What the counts are: of pairs (s, y), or of records (s, x) that may have chosen the mechanism, or have not."""

    PAIRS = "pairs"
    ALL = "all mechanisms"
    HELD_OUT = "this mechanism"


def sample_bounds(
    counts: np.ndarray,
    mechanism: np.ndarray,
    measures: Sequence[AbstractLeakage],
    beta: float,
    *,
    kind: SampleKind,
    possible: np.ndarray | None = None,
) -> tuple[Bound | None, ...]:
    """Upper bounds on `measures` that hold together with probability 1 - beta; None where no sound one is known.

    The arguments are those of `bounds_on_sets`.
    """
    return bounds_on_sets(counts, mechanism, measures, beta, kind=kind, possible=possible)[0]


def bounds_on_sets(
    counts: np.ndarray,
    mechanism: np.ndarray,
    measures: Sequence[AbstractLeakage],
    beta: float,
    *,
    kind: SampleKind,
    possible: np.ndarray | None = None,
) -> tuple[tuple[Bound | None, ...], Population]:
    """`sample_bounds`, and the confidence sets with their part of beta: what these imply holds together with the rest.

    Args:
        counts: (S, X) whole numbers; for pairs X = Y and the mechanism is the identity.
        mechanism: (X, Y).
        measures: those that share beta.
        beta: the probability that any of the bounds fails.
        kind: what the counts are.
        possible: (S, X) pairs that can occur.
    """
    stack = mechanism[None]
    nothing = population(np.zeros_like(counts), beta, possible=possible)
    blind: Any = SampleUpperBounds(nothing, stack)  # its cached properties as attributes
    caps = [routes_of(measure, blind) for measure in measures]
    arguments, used, alone = _ARGUMENTS[kind], dict[str, None](), False
    for measure in measures:
        trial: Any = SampleBounds(blind, {})
        measure.upper_bounds(trial)
        special = [name for name in trial.used if name in arguments]
        used |= dict.fromkeys(special)
        alone = alone or not special
    events = 1 if used and kind is SampleKind.ALL else len(used)  # the ball is one for all its arguments
    weight = (_NEEDED if alone else _BESIDE[kind]) if used else 1.0
    share = beta / (events + weight)
    sample = _Sample(counts, mechanism, counts.size if possible is None else int(np.count_nonzero(possible)))
    values = {name: float(arguments[name](sample, share)) for name in used} if counts.any() else {}
    confidence_sets = population(counts, share * weight, possible=possible, held_out=kind is SampleKind.HELD_OUT)
    bounds: Any = SampleBounds(SampleUpperBounds(confidence_sets, stack), values)
    upper = tuple(bound_of(routes_of(measure, bounds), cap) for measure, cap in zip(measures, caps, strict=True))
    return upper, confidence_sets


# For pairs the special arguments are nearly always the tightest ones; for all mechanisms both are one event.
_BESIDE: Mapping[SampleKind, float] = {SampleKind.PAIRS: 0.125, SampleKind.HELD_OUT: 1.0, SampleKind.ALL: _NEEDED}


@dataclass(frozen=True, eq=False)
class _Sample:
    """Counts (S, X), the mechanism (X, Y), and how many cells of the table are possible."""

    counts: np.ndarray
    mechanism: np.ndarray
    cells: int

    @property
    def fitted(self) -> np.ndarray:
        """P(s, y) of the frequencies."""
        return self.counts / self.counts.sum() @ self.mechanism

    @property
    def guessed(self) -> float:
        """P_c of the frequencies."""
        return min(float(self.fitted.max(axis=0).sum()), 1.0)

    def radius(self, beta: float) -> float:
        """Of the divergence ball."""
        return divergence_radius(self.cells, int(self.counts.sum()), beta)


# The special arguments: what each bounds by itself, from a sample and the probability that it fails.
_ARGUMENTS: Mapping[SampleKind, Mapping[str, Callable[[_Sample, float], float | np.ndarray]]] = {
    SampleKind.PAIRS: {
        "information": lambda of, beta: likelihood_ratio.from_pairs(of.counts, beta),
        "chi_squared": lambda of, beta: likelihood_ratio.from_pairs(of.counts, beta, likelihood_ratio.CHI_SQUARED),
        "correct_guess": lambda of, beta: binomial.correct_guess(of.counts, beta),
        "likeliest": lambda of, beta: binomial.likeliest(of.counts, beta),
        "maximal_leakage": lambda of, beta: binomial.maximal_leakage(of.counts, beta),
        "max_lift": lambda of, beta: binomial.max_lift(of.counts, beta),
    },
    SampleKind.HELD_OUT: {
        "information": lambda of, beta: held_out_information(of.counts, of.mechanism, beta),
        # The share of correct guesses is a mean of n independent probabilities.
        "correct_guess": lambda of, beta: relative_entropy_limit(of.guessed, -np.log(beta) / of.counts.sum()),
        "likeliest": lambda of, beta: binomial.likeliest(of.counts, beta),
    },
    SampleKind.ALL: {
        "information": lambda of, beta: ball_information(of.fitted, of.radius(beta)),
        "correct_guess": lambda of, beta: relative_entropy_limit(of.guessed, of.radius(beta)),
        "likeliest": lambda of, beta: (
            1 - relative_entropy_limit(max(1 - float(of.fitted.sum(axis=1).max()), 0.0), of.radius(beta))
        ),
    },
}


# What a special value is called among the routes to what it bounds; without a name it is the smaller of two bounds.
_ROUTES: Mapping[str, str | None] = {
    "information": "likelihood ratio or ball",
    "correct_guess": "binomial tail",
    "chi_squared": "likelihood ratio",
    "maximal_leakage": None,
    "max_lift": None,
}


class SampleBounds:
    """`SampleUpperBounds` and special values, what measures are bounded by; `used` are the special values asked for."""

    def __init__(self, base: SampleUpperBounds, values: Mapping[str, float]):
        self.base, self._values = base, values
        self.used: list[str] = []

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (a bound, or a function that gives it)
        """What other bounds do not enter: that of the base, and what a special argument bounds."""
        value = getattr(self.base, name)
        if name not in _ROUTES:
            return value
        route, special = _ROUTES[name], self._special(name)
        return np.minimum(value, special) if route is None else {**value, route: special}

    def _special(self, name: str) -> np.ndarray:
        if name not in self.used:
            self.used.append(name)
        return np.full(self.base.batch, self._values.get(name, 0.0 if name == "likeliest" else np.inf))

    @property
    def mutual_information(self) -> np.ndarray:
        return least(self.information)

    @property
    def relative_entropy(self) -> Routes:
        return {**self.base.relative_entropy, "max-lift": self.max_lift}

    @cached_property
    def _likeliest(self) -> np.ndarray:
        return np.maximum(self._special("likeliest"), self.base.likeliest[0])

    @property
    def min_entropy(self) -> Routes:
        guess = np.log(least(self.correct_guess) / self._likeliest)
        return {**self.base.min_entropy, "binomial tail": guess}

    @property
    def total_variation(self) -> Routes:
        return {**self.base.total_variation, "mutual information": np.sqrt(0.5 * self.mutual_information)}

    @property
    def guess_gain(self) -> tuple[Routes, Routes]:
        average, worst = self.base.guess_gain
        return {**average, "binomial tail": least(self.correct_guess) - self._likeliest}, worst

    def sibson_of(self, order: float) -> Routes:
        if order == 1:
            return self.information
        route = "mutual information" if order < 1 else "maximal leakage"
        value = self.mutual_information if order < 1 else self.maximal_leakage
        return {**self.base.sibson_of(order), route: value}

    def arimoto(self, order: float) -> Routes:
        if order == 1:
            return self.information
        return self.min_entropy if np.isinf(order) else self.base.arimoto(order)


def held_out_information(counts: np.ndarray, mechanism: np.ndarray, beta: float) -> float:
    """An upper bound on I(S;Y) from counts (S, X) that the mechanism (X, Y) does not depend on."""
    mechanism = mechanism[:, mechanism.max(axis=0) > 0]
    n = int(counts.sum())
    if n == 0:
        return float(np.log(min(len(counts), mechanism.shape[1])))
    low, high = mechanism.min(axis=0), mechanism.max(axis=0)
    # P(y) given the private symbols is a mean of independent numbers in [low, high] (Chernoff, Hoeffding).
    share = np.clip((counts.sum(axis=0) / n @ mechanism - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)
    output_high = low + (high - low) * relative_entropy_limit(share, np.log(len(low) / (0.05 * beta)) / n)
    return from_fitted_information(
        float(mutual_information(counts / n @ mechanism)) * (1 + 1e-12),
        counts.sum(axis=1),
        mechanism.shape[1],
        beta,
        common=float(low.sum()),
        least=float((low / np.maximum(output_high, 1e-300)).min()),
        least_ratio=float((low / high).min()),
    )


def from_fitted_information(
    information: float,
    by_private: np.ndarray,
    released: float,
    beta: float,
    *,
    common: float,
    least: float,
    least_ratio: float,
) -> float:
    """An upper bound on I(S;Y) from the value on frequencies of (S, X) that W does not depend on, with failure beta.

    Args:
        information: at least I of the frequencies and W.
        by_private: (S,) records.
        released: how many outputs there are.
        common: at most sum_y min_x W(y|x); `least`: at most P(y|s)/P(y), with a failure of 0.05 beta; `least_ratio`: at
            most min_x W(y|x) / max_x W(y|x) for every y.
    """
    private, n = len(by_private), int(by_private.sum())
    cap = float(np.log(min(private, released)))
    if by_private.min() == 0:
        return cap
    frequencies = by_private / n
    total = n * information
    log_beta = -np.log(0.75 * beta)
    prior_low, prior_high = clopper_pearson_together(by_private, n, 0.1 * beta)

    def top(prior: np.ndarray) -> float:
        rarest = float(prior.min())
        return (1 + 1e-12) / (rarest + (1 - rarest) * least_ratio)

    upper = min(
        global_bound(total, n, log_beta, top(frequencies)),
        _contracted(total, n, log_beta, top(frequencies), common, least * (1 - 1e-12)),
    )
    given_s = of_prior(upper, frequencies, prior_low, prior_high, KL)
    joint = cap
    if prior_low.min() > 0:
        joint = global_bound(total + n * divergence_radius(private, n, 0.1 * beta), n, log_beta, top(prior_low))
    threshold = 0.03 + 40 * (private - 1) / n
    return min(cap, min(given_s, threshold) if joint <= threshold else joint)


def _contracted(total: float, n: int, log_beta: float, top: float, common: float, least: float) -> float:
    """The bound on E_Q f(r), f that of I, with the constant part of the mechanism taken out of the noise.

    With K(u, w) = -H - lambda eta u, E_Q u = 0: E_Q K <= (lambda T + ln 1/beta)/n, and K >= a f where that holds at
    both ends of w, as K is linear in w: w_0 and min(1, r).
    """
    if not 0.02 <= common < 1 - 1e-9:
        return np.inf
    best = np.inf
    for lam in np.geomspace(0.05, 400, 40):
        power = lam * (1 - common)
        for eta in (1 / (1 + lam * (1 - least) * (1 - common)), 1 / (1 + lam)):
            ratio = _contracted_ratio(float(lam), min(eta, 0.98), power, 1 - common, least, top)
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
    if above[-1] < top:
        return 0.0
    below = np.concatenate([[min(least, 1 - NEAR)], below[below > least]])
    ratios = [_near_one(lam, eta, power, w) for w in (least, 1.0)]
    for grid, ends in ((below, (least, below)), (above[: np.searchsorted(above, top) + 1], (least, 1.0))):
        if len(grid) < 2:
            continue
        base = 1 + eta * (grid[:-1] - 1)
        f = KL.value(grid) + ROUND * (1 + grid)
        for w in ends:
            # K'' <= 2 lam eta b^-(l+1) for a fixed w, and 2 lam eta/b for w = r.
            follows = not np.isscalar(w)
            bent = 2 * lam * eta * (1 / base if follows else base ** (-power - 1)) * np.diff(grid) ** 2 / 8
            k = value(grid, w) - ROUND * (1 + grid) * (1 + lam / rest)
            ratios.append(float(np.minimum((k[:-1] - bent) / f[:-1], (k[1:] - bent) / f[1:]).min()))
    return min(ratios)


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
