"""Limits on X itself: the plan over types, the rotation back to symbols, and the polish."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from jaxpriv._clock import ENDLESS, Clock
from jaxpriv._divergence import divergence
from jaxpriv._resources import need_memory
from jaxpriv.extremal.master import AbstractPosteriorSet, Columns, PosteriorPlan, best_plan, generate_columns
from jaxpriv.extremal.ratio_pricing import RatioPricer
from jaxpriv.extremal.search import AbstractSearch, polish
from jaxpriv.extremal.symbols import Split, combinations_of, split_at
from jaxpriv.extremal.unroll import Recipe, unroll

# Up to here all columns go into one linear program; beyond, they are priced.
_LISTED = 2048
# Pricing looks at every pattern of the heavy types, some 20 million numbers a second.
_PATTERNS = 2**16
# How many types are kept apart from the pool, one attempt after the other.
_LEVELS = (0, 4, 8, 12, 16)
# Alphabets whose symbols are worth a linear program of their own.
_POLISHED = 400

Maker = Callable[[Split], AbstractPosteriorSet]


@dataclass(frozen=True)
class Design:
    """Posteriors of symbols with their weights, the value, a proved bound, and how they were found."""

    lifts: np.ndarray
    weights: np.ndarray
    value: float
    upper_bound: float
    method: str


def design(search: AbstractSearch, make: Maker, tol: float, clock: Clock) -> Design:
    """The best measure over posteriors of `search.source` for the limits that `make` prices and `search` explores.

    Raises `ResourceError` if the mechanism would not fit into memory.
    """
    source = search.source
    whole = split_at(source, _PATTERNS)
    if not len(whole.light):
        return attempt(whole, make, tol, clock)
    best, upper, pool = None, np.inf, []
    for level in _LEVELS:
        split = split_at(source, _PATTERNS, level)
        found = attempt(split, make, tol, clock)
        upper = min(upper, found.upper_bound)
        pool.append(found.lifts)
        if best is None or found.value > best.value:
            best = found
        if upper - best.value <= tol or len(split.members) < level or clock.expired():
            break
    assert best is not None
    if upper - best.value <= tol or len(source) > _POLISHED or clock.expired():
        return replace(best, upper_bound=upper)
    lifts, weights, value, upper = polish(np.vstack(pool), search, upper, tol, clock)
    return Design(lifts, weights, value, upper, f"{best.method}, then exchanges and branch and bound")


def attempt(split: Split, make: Maker, tol: float, clock: Clock = ENDLESS) -> Design:
    pricer = make(split)
    exact = not len(split.light)
    few = exact and combinations_of(split) <= _LISTED
    start = _independent(split)
    if few and isinstance(pricer, RatioPricer):
        start = start + pricer.all_columns()
    plan = generate_columns(start, split.mass, pricer, gap=tol * 1e-3, clock=clock)
    lifts, weights = _unrolled(plan, split)
    if len(weights) > len(split.source) and len(split.source) <= _POLISHED:
        columns = Columns(lifts, divergence(lifts, split.source), (None,) * len(lifts))
        weights, _, _ = best_plan(columns, split.source)
        lifts, weights = lifts[weights > 0], weights[weights > 0]
    value = float(weights @ divergence(lifts, split.source))
    heavy = len(split.members)
    method = "all vertices" if few else "column generation" if exact else f"{heavy} types exact, the rest pooled"
    return Design(lifts, weights, value, plan.upper_bound, method)


def _independent(split: Split) -> Columns:
    """The posterior p itself: within every limit, and a start from which the program is feasible."""
    groups = len(split.mass)
    nothing = Recipe(low=1.0, high=1.0, counts=np.zeros(len(split.members), dtype=np.int64))
    return Columns(np.ones((1, groups)), np.zeros(1), (nothing,))


def _unrolled(plan: PosteriorPlan, split: Split) -> tuple[np.ndarray, np.ndarray]:
    symbols = len(split.source)
    turning = any(len(group) > 1 for group in split.members) or len(split.light) > 0
    size = 8.0 * symbols * len(plan.weights) * (6 * symbols if turning else 1)
    need_memory(size, "the mechanism", "merge symbols, or raise tol")
    parts = [unroll(recipe, split) for recipe in plan.columns.keys]
    rows = np.vstack([lifts for lifts, _ in parts])
    weights = np.concatenate([mass * arcs for mass, (_, arcs) in zip(plan.weights, parts, strict=True)])
    return rows, weights
