"""Perfect privacy: how much can be told about X while Y is independent of S.

    R0 = max I(X;Y) subject to I(S;Y) = 0

is a linear program: Y is independent of S where every posterior lies on the fibre { q : Tq = P_S }, D(q || P_X) is
convex, so the vertices of the fibre are enough. With a shared attribute Y is independent of it too, and the blocks
separate. Rassouli and Gunduz 2020.

The duals of that program, priced over all vertices, prove an upper bound.
"""

import math
from dataclasses import dataclass

import numpy as np

from jaxpriv._clock import ENDLESS, Clock
from jaxpriv.funnels.atoms.master import best_plan
from jaxpriv.funnels.atoms.objective import Objective
from jaxpriv.funnels.atoms.pool import Part, Pool
from jaxpriv.funnels.atoms.vertices import AbstractVertices, vertices_of
from jaxpriv.funnels.pricing import Block

# Vertices taken into the linear program at once.
_AT_ONCE = 3000
_ROUNDS = 100
# Up to here the vertices of a fibre are listed for every problem.
_FEW_SYMBOLS, _FEW_BASES = 1000, 5000
# Atoms without leakage, so that any limit on it holds: maximise sum m b.
_NO_LEAKAGE = Objective(funnel=True, form="side", target=1.0)


@dataclass(frozen=True, eq=False)
class Perfect:
    """The best release of one block that tells nothing about S.

    Attributes:
        posteriors, weights: its atoms and their masses.
        value: sum of weights b.
        bound: an upper bound on it, rounding included; infinite where vertices were not all listed.
        prices: the duals, (X_a,).
    """

    posteriors: np.ndarray
    weights: np.ndarray
    value: float
    bound: float
    prices: np.ndarray


def few_vertices(block: Block) -> bool:
    """Whether the program over the vertices takes no more than some hundredths of a second."""
    private, useful = block.joint.shape
    return useful <= _FEW_SYMBOLS if private <= 2 else math.comb(useful, min(private, useful)) <= _FEW_BASES


def perfect_release(block: Block, clock: Clock = ENDLESS) -> Perfect:
    """The linear program over the vertices of one block; a worse release and bound where the clock ends it."""
    source = block.source
    vertices = vertices_of(block)
    if vertices is None:
        return Perfect(source[None], np.ones(1), 0.0, np.inf, np.zeros(len(source)))
    chosen = vertices.first(min(_AT_ONCE, 6 * len(source)))
    part = (Part(block, None, None),)
    done = 0
    while True:
        atoms = np.vstack([source[None], vertices.rows(chosen)])  # P_X itself: any mean is reachable
        values = np.concatenate([[0.0], vertices.values[chosen]])
        plan = best_plan(part, (Pool(atoms, np.zeros(len(values)), values),), _NO_LEAKAGE)
        weights, prices = plan.weights[0], -plan.prices[0]
        done += 1
        gain = vertices.values - vertices.scores(prices)
        better = np.flatnonzero(gain > 1e-12 * (1.0 + np.abs(prices).max()))
        if not len(better) or done == _ROUNDS or clock.expired():
            used = weights > 0
            bound = _bound(vertices, prices, source)
            return Perfect(atoms[used], weights[used], float(weights @ values), bound, prices)
        best = better[np.argsort(-gain[better], kind="stable")[:_AT_ONCE]]
        kept = chosen[gain[chosen] > -0.1] if len(chosen) > 4 * _AT_ONCE else chosen
        chosen = np.union1d(kept, best)


def _bound(vertices: AbstractVertices, prices: np.ndarray, source: np.ndarray) -> float:
    if not vertices.sure:
        return np.inf
    # An entry moved by e moves q ln(q/p) by at most e ( ln(1/e) + ln(1/p) + 1 ), and prices.q by e times a price.
    errors = np.maximum(vertices.errors, np.finfo(float).tiny)
    moved = np.log(1.0 / errors) + np.log(1.0 / source.min()) + 1.0 + float(np.abs(prices).max())
    reach = vertices.values - vertices.scores(prices) + vertices.entries * errors * moved
    size = 2.0 * float(np.abs(prices).max()) + float(vertices.values.max()) + 1.0
    return float(prices @ source) + float(reach.max()) + 1e-12 * size
