"""Perfect privacy: how much of X can be disclosed while Y is independent of S.

    R0 = max I(X;Y) subject to I(S;Y) = 0

is a linear program: Y is independent of S where every posterior lies on the fibre { q : Tq = P_S }, D(q || P_X) is
convex, so the vertices of the fibre are enough. With a shared attribute Y is independent of it too, and the blocks
separate. Rassouli and Gunduz 2020.

The duals of that program, priced over all vertices, prove an upper bound. Where the vertices are too many to list, some
are searched for: D(q || P_X) - nu.q is convex, so the vertex that is best for its slope at q is better than q.
"""

import math
from dataclasses import dataclass

import numpy as np

from jaxpriv._runtime.clock import ENDLESS, Clock
from jaxpriv._runtime.divergences import divergence
from jaxpriv.column_generation import MOST, MasterSolution, Pool, cleaned
from jaxpriv.column_generation.rounds import GeneratedColumns, generate_columns
from jaxpriv.funnels.atoms.fibres import AT_ONCE, Vertices, disclosing, vertices_of
from jaxpriv.funnels.bounds import silent_bound
from jaxpriv.funnels.pricing import Component

# Linear programs at most; the prices of any of them give a bound.
_ROUNDS = 100
# Vertices searched for in one round, slopes followed for each, rounds without a gain, rounds in all.
_SEARCHES, _SLOPES, _IDLE, _SEARCHED = 24, 3, 2, 60
# A gain is less than this share of the value; vertices further from the line than this (nats) are left out.
_LITTLE, _NEAR = 2e-6, 0.5
# Decompositions of P_X into vertices to begin with.
_PEELS = 3
# A symbol that a vertex lacks counts as this share of its mass in a slope.
_ABSENT = 1e-3
# Up to here the vertices of a fibre are listed for every problem.
_FEW_SYMBOLS, _FEW_BASES = 1000, 5000


@dataclass(frozen=True, eq=False)
class Perfect:
    """The best release of one block that is independent of S.

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


def few_vertices(block: Component) -> bool:
    """Whether the program over the vertices takes no more than some hundredths of a second."""
    private, useful = block.joint.shape
    return useful <= _FEW_SYMBOLS if private <= 2 else math.comb(useful, min(private, useful)) <= _FEW_BASES


def perfect_release(block: Component, clock: Clock = ENDLESS, enough: float = np.inf) -> Perfect:
    """The linear program over the vertices of one block; a worse release and bound where the clock ends it.

    A search for vertices ends, too, where `enough` nats of X are disclosed.
    """
    source = block.source
    vertices = vertices_of(block)
    if vertices is None:
        return _searched(block, clock, enough)
    # P_X itself is always there: any mean is reachable.
    start = disclosing(source, source[None], np.zeros(1)) + vertices.pool(source, vertices.first)

    def listed(plan: MasterSolution, _: Pool) -> tuple[float, Pool]:
        gain = vertices.values - vertices.scores(plan.prices[0])
        return -np.inf, vertices.pool(source, np.argsort(-gain, kind="stable")[:AT_ONCE])

    generated = generate_columns(
        start,
        MOST,
        (listed,),
        closed=lambda *_: False,
        worth=lambda plan: 1e-12 * (1.0 + np.abs(plan.prices[0]).max()),
        rounds=_ROUNDS,
        clock=clock,
        report=lambda *_: None,
        most=4 * AT_ONCE,
    )
    return _perfect(generated, _bound(vertices, generated.plan.prices[0], source))


def _perfect(generated: GeneratedColumns, bound: float) -> Perfect:
    pool, weights = generated.used
    return Perfect(pool.posteriors, weights, -generated.plan.value, bound, generated.plan.prices[0])


def _bound(vertices: Vertices, prices: np.ndarray, source: np.ndarray) -> float:
    if not vertices.sure:
        return np.inf
    # An entry moved by e moves q ln(q/p) by at most e ( ln(1/e) + ln(1/p) + 1 ), and prices.q by e times a price.
    errors = np.maximum(vertices.errors, np.finfo(float).tiny)
    moved = np.log(1.0 / errors) + np.log(1.0 / source.min()) + 1.0 + float(np.abs(prices).max())
    reach = vertices.values - vertices.scores(prices) + vertices.symbols.shape[1] * errors * moved
    size = 2.0 * float(np.abs(prices).max()) + float(vertices.values.max()) + 1.0
    return float(prices @ source) + float(reach.max()) + 1e-12 * size


def _searched(block: Component, clock: Clock, enough: float) -> Perfect:
    """The program over vertices that are found for its prices; the bound is that without prices."""
    source, conditional, prior = block.source, block.conditional, block.prior
    random, reached = np.random.default_rng(0), []

    def searched(plan: MasterSolution, pool: Pool) -> tuple[float, Pool]:
        prices, atoms, begun = plan.prices[0], pool.posteriors, len(reached) > 1
        vertices = [] if begun else [vertex for _ in range(_PEELS) for vertex in _peeled(block, random)]
        for number in range(_SEARCHES):
            slope = np.log(random.dirichlet(np.full(len(source), 0.5)) + 1e-9) - np.log(source)
            if begun and number < len(atoms) and number % 2:
                slope = np.log(np.maximum(atoms[-number] / source, _ABSENT)) + random.normal(size=len(source))
            best, merit = None, -np.inf
            for _ in range(_SLOPES):
                vertex = _best_vertex(conditional, prior, slope - prices)
                if vertex is None:
                    break
                gain = float(divergence(vertex[None] / source, source)[0] - prices @ vertex)
                if gain <= merit:
                    break
                best, merit = vertex, gain
                slope = np.log(np.maximum(vertex / source, _ABSENT))
            if best is not None:
                vertices.append(best)
            if clock.expired():
                break
        posteriors = cleaned(np.array(vertices).reshape(-1, len(source)), source)
        return -np.inf, disclosing(source, posteriors, divergence(posteriors / source, source))

    def closed(plan: MasterSolution, _: float) -> bool:
        reached.append(-plan.value)
        idle = len(reached) > _IDLE + 1 and reached[-1] - reached[-1 - _IDLE] <= _LITTLE * reached[-1]
        return reached[-1] >= enough or idle

    generated = generate_columns(
        disclosing(source, source[None], np.zeros(1)),
        MOST,
        (searched,),
        closed=closed,
        worth=lambda _: -_NEAR,
        rounds=_SEARCHED,
        clock=clock,
        report=lambda *_: None,
    )
    return _perfect(generated, silent_bound(block.joint))


def _peeled(block: Component, random: np.random.Generator) -> list[np.ndarray]:
    """Vertices whose mixture is P_X: one after the other is taken off until a symbol is used up."""
    rest, vertices = block.source.copy(), []
    for _ in range(len(rest)):
        left = np.flatnonzero(rest > 1e-12)
        if not len(left):
            break
        shown = block.conditional[:, left] @ rest[left] / rest[left].sum()
        if np.abs(shown - block.prior).max() > 1e-9:  # rounding has grown
            break
        vertex = _best_vertex(block.conditional[:, left], block.prior, random.exponential(size=len(left)))
        if vertex is None:
            break
        whole = np.zeros(len(rest))
        whole[left] = vertex
        vertices.append(whole)
        used = whole > 0
        rest = np.where(used, rest - (rest[used] / whole[used]).min() * whole, rest)
        rest[rest <= 1e-12] = 0.0
    return vertices


def _best_vertex(conditional: np.ndarray, prior: np.ndarray, slope: np.ndarray) -> np.ndarray | None:
    """The vertex of { q >= 0 : Tq = P_S } with the greatest slope.q, by its support; None without one."""
    from scipy.optimize import linprog  # costs a third of a second: imported where needed

    result = linprog(-slope, A_eq=conditional, b_eq=prior, bounds=(0, None), method="highs-ds")
    if result.status != 0:
        return None
    support = np.flatnonzero(result.x > 1e-9)
    q = np.zeros(len(slope))
    q[support] = np.linalg.lstsq(conditional[:, support], prior, rcond=None)[0]
    if not (q.min() >= 0 and np.abs(conditional @ q - prior).max() <= 1e-13):
        return None
    return q / q.sum()
