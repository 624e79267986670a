"""Bounds on the leakage of the population: with confidence from counts, and without any data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy

from jaxpriv.errors import InputError
from jaxpriv.estimation.audit._information import entropy, entropy_change
from jaxpriv.estimation.audit.bounds import SampleUpperBounds
from jaxpriv.estimation.confidence import Population, population, seen_through
from jaxpriv.estimation.confidence.population import mechanism_stack
from jaxpriv.estimation.confidence.sets import ROUND, chord_sum
from jaxpriv.leakage import AbstractLeakage
from jaxpriv.leakage.population import Routes
from jaxpriv.leakage.population import UpperBounds as Bounds

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
    informed = SampleUpperBounds(known, seen_through(known, stack), stack)
    blind = SampleUpperBounds(nothing, seen_through(nothing, stack), stack)
    both: tuple[Any, ...] = (informed, blind)  # cached properties, attributes to the protocol
    return tuple(bound_of(*(routes_of(measure, bounds) for bounds in both)) for measure in measures)


def routes_of(measure: AbstractLeakage, bounds: Bounds) -> Routes | None:
    """The bounds on a measure by the names of their arguments, none below 0; None where no sound one is known."""
    found = measure.upper_bounds(bounds)
    return None if found is None else {name: np.maximum(value, 0.0) for name, value in found.items()}


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
    among = -chord_sum(low, high, xlogy(low, low), xlogy(high, high))
    lost = known.useful.upper(entropy(stack))
    return np.maximum(np.maximum(moved, among) - lost - ROUND, 0.0)


def drift(fitted: ArrayLike, released: ArrayLike, beta: float = 0.05) -> "Drift":
    """Whether the useful symbols at release are from the population of the fit, by their counts (X,) each.

    |P^_fit - P^_release|_1 is at most the sum of the two radii with probability 1 - beta if they are; beyond it
    every guarantee was computed for another population. The test does not depend on P(s|x).

    Raises `InputError` for counts of different lengths and for counts that are all zero.
    """
    from jaxpriv.estimation.confidence import l1_radius
    from jaxpriv.estimation.confidence.means import count_array, failure

    one, other = count_array(fitted, "fitted", ndim=1), count_array(released, "released", ndim=1)
    beta = failure(beta)
    if one.shape != other.shape:
        raise InputError(f"released has {other.size} symbols, but fitted has {one.size}")
    for name, counts in (("fitted", one), ("released", other)):
        if not counts.any():
            raise InputError(f"{name} has no counts")
    distance = float(np.abs(one / one.sum() - other / other.sum()).sum())
    allowed = sum(l1_radius(one.size, int(counts.sum()), beta / 2) for counts in (one, other))
    return Drift(distance, min(2.0, allowed), distance > allowed)


@dataclass(frozen=True)
class Drift:
    """The L1 distance of two samples' frequencies, what one population would explain, and whether it is exceeded."""

    distance: float
    allowed: float
    exceeded: bool
