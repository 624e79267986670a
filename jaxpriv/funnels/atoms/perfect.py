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
from itertools import combinations

import numpy as np

from jaxpriv._runtime.clock import ENDLESS, Clock
from jaxpriv._runtime.numerics import divergence
from jaxpriv.column_generation import MOST, MasterSolution, Pool, cleaned
from jaxpriv.column_generation.rounds import GeneratedColumns, generate_columns
from jaxpriv.funnels.bounds import silent_bound
from jaxpriv.funnels.pricing import Component

# The vertices of a fibre { q >= 0 : Tq = r }: posteriors of X that all show the same posterior r of S.


# Bases that are listed at most; each is a small linear system.
_MOST_BASES = 200_000
# A basis with a smallest singular value below this is singular: its vertices belong to other bases.
_SINGULAR = 1e-13
# A vertex whose entries may be wrong by more than this is not known to enough digits for a proof.
_POOR = 1e-7
# Entries of a vertex above minus this are zero.
_TRACE = 1e-12
# Columns of T and P_S are known to this.
_ROUNDED = 16 * float(np.finfo(np.float64).eps)
# Vertices that agree to this many decimals are one; the difference is part of the errors that the bound has.
_DECIMALS = 11


@dataclass(frozen=True, eq=False)
class Vertices:
    """All vertices of { q : Tq = P_S } of one block.

    Attributes:
        symbols, shares: q is the mixture of these symbols, each shape (N, k); a share may be 0.
        values: b(q) = D(q || P_X), shape (N,).
        errors: what rounding of T and P_S may move an entry of each by, shape (N,).
        sure: whether none can be missing.
        first: the numbers of those that a best release is likely to use.
    """

    symbols: np.ndarray
    shares: np.ndarray
    values: np.ndarray
    errors: np.ndarray
    sure: bool
    first: np.ndarray

    def scores(self, prices: np.ndarray) -> np.ndarray:
        """prices.q of every vertex, shape (N,)."""
        return (self.shares * prices[self.symbols]).sum(axis=1)

    def pool(self, source: np.ndarray, index: np.ndarray) -> Pool:
        """The vertices `index` as columns."""
        posteriors = np.zeros((len(index), len(source)))
        np.add.at(posteriors, (np.arange(len(index))[:, None], self.symbols[index]), self.shares[index])
        return _disclosing(source, posteriors, self.values[index])


def _values(source: np.ndarray, symbols: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """D(q || P_X) of mixtures of symbols, shape (N,)."""
    lifts = shares / source[symbols]
    return np.maximum((shares * np.log(np.where(lifts > 0, lifts, 1.0))).sum(axis=1), 0.0)


def _pairs(block: Component) -> Vertices:
    """Binary S, s the rarer value: a symbol below P(s) mixed with one above it, and the symbols that show P_S alone.

    Symbols that show P_S but for rounding are taken to show it: with others of that kind every mixture of them is
    between them, with a symbol that differs from P_S by d the rounding over d is the share that it may have.

    A release is a transport of p_x |T_x - P(s)| from the symbols below to those above. A flow f between differences
    1/u and 1/v has mass f (u + v) and lowers I(X;Y) by f k(u, v), k = (u + v) ln(u + v) - u ln u - v ln v; since
    d2k/du dv = 1/(u + v) > 0 the best one is monotone: the greatest difference below goes with the least one above.
    """
    source, rarer = block.source, int(block.prior.argmin())
    level = block.prior[rarer]
    apart = block.conditional[rarer] - level
    rounding = _ROUNDED * level
    apart[np.abs(apart) <= rounding] = 0.0
    low, high, alone = np.flatnonzero(apart < 0), np.flatnonzero(apart > 0), np.flatnonzero(apart == 0)
    pairs = np.column_stack([np.repeat(low, len(high)), np.tile(high, len(low))])
    symbols = np.vstack([pairs, np.column_stack([alone, alone])])
    below, above = -apart[symbols[:, 0]], apart[symbols[:, 1]]
    total, nearest = above + below, np.abs(apart[apart != 0]).min(initial=np.inf)
    errors = rounding / np.where(total > 0, total, nearest)
    share = np.where(total > 0, below / np.where(total > 0, total, 1.0), 0.0)
    shares = np.column_stack([1.0 - share, share])
    begin, end = _staircase(-apart[low] * source[low], apart[high] * source[high], apart[low], apart[high])
    first = np.concatenate([begin * len(high) + end, np.arange(len(pairs), len(symbols))])
    sure = bool((errors <= _POOR).all())
    return Vertices(symbols, shares, _values(source, symbols, shares), errors, sure, first)


def _listed(block: Component) -> Vertices:
    """Any S, few symbols: every set of rank(T) independent columns."""
    conditional, prior, useful = block.conditional, block.prior, len(block.source)
    left, sizes, _ = np.linalg.svd(conditional, full_matrices=False)
    rank = int((sizes > _SINGULAR * sizes[0]).sum())
    # The equations in the coordinates of the column space: independent ones only.
    table, right = left[:, :rank].T @ conditional, left[:, :rank].T @ prior
    sets = np.array(list(combinations(range(useful), rank)), dtype=int)
    systems = table[:, sets].transpose(1, 0, 2)
    smallest = np.linalg.svd(systems, compute_uv=False)[:, -1]
    regular = smallest > _SINGULAR
    errors = _ROUNDED * (len(conditional) + rank) / smallest[regular]
    solved = np.linalg.solve(systems[regular], np.broadcast_to(right[:, None], (int(regular.sum()), rank, 1)))[..., 0]
    feasible = solved.min(axis=1) >= -_TRACE - errors
    symbols, shares = sets[regular][feasible], np.where(solved[feasible] > _TRACE, solved[feasible], 0.0)
    whole = np.zeros((len(shares), useful))
    np.put_along_axis(whole, symbols, shares, axis=1)
    _, distinct = np.unique(np.round(whole, _DECIMALS) + 0.0, axis=0, return_index=True)
    distinct = np.sort(distinct)
    symbols, shares = symbols[distinct], shares[distinct] / shares[distinct].sum(axis=1, keepdims=True)
    values = _values(block.source, symbols, shares)
    first = np.argsort(-values, kind="stable")[: min(_AT_ONCE, 6 * useful)]
    moved = errors[feasible][distinct] + 10.0**-_DECIMALS  # of the one that stands for its equals
    return Vertices(symbols, shares, values, moved, bool((errors <= _POOR).all()), first)


def vertices_of(block: Component) -> Vertices | None:
    """All vertices of { q : Tq = P_S }; None where there are too many to list."""
    private, useful = block.joint.shape
    if private == 2:
        return _pairs(block)
    return _listed(block) if math.comb(useful, min(private, useful)) <= _MOST_BASES else None


def _staircase(
    supply: np.ndarray, demand: np.ndarray, of_supply: np.ndarray, of_demand: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(i, j) of the pairs that a transport uses which serves both sides in the order of their keys."""
    rows, columns = np.argsort(of_supply, kind="stable"), np.argsort(of_demand, kind="stable")
    ends = np.cumsum(supply[rows])[:-1], np.cumsum(demand[columns])[:-1]
    # Every end of one side is a step in it: the pair before and the pair behind.
    cuts = np.concatenate([[0.0], np.sort(np.concatenate(ends))])
    return rows[np.searchsorted(ends[0], cuts, side="right")], columns[np.searchsorted(ends[1], cuts, side="right")]


# Vertices taken into the linear program at once.
_AT_ONCE = 3000
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
    start = _disclosing(source, source[None], np.zeros(1)) + vertices.pool(source, vertices.first)

    def listed(plan: MasterSolution, _: Pool) -> tuple[float, Pool]:
        gain = vertices.values - vertices.scores(plan.prices[0])
        return -np.inf, vertices.pool(source, np.argsort(-gain, kind="stable")[:_AT_ONCE])

    generated = generate_columns(
        start,
        MOST,
        (listed,),
        closed=lambda *_: False,
        worth=lambda plan: 1e-12 * (1.0 + np.abs(plan.prices[0]).max()),
        rounds=_ROUNDS,
        clock=clock,
        report=lambda *_: None,
        most=4 * _AT_ONCE,
    )
    return _perfect(generated, _bound(vertices, generated.plan.prices[0], source))


def _disclosing(source: np.ndarray, posteriors: np.ndarray, values: np.ndarray) -> Pool:
    """Columns without leakage: what is maximised is b, here a of the program."""
    return Pool(source, posteriors, values, np.zeros(len(values)))


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
        return -np.inf, _disclosing(source, posteriors, divergence(posteriors / source, source))

    def closed(plan: MasterSolution, _: float) -> bool:
        reached.append(-plan.value)
        idle = len(reached) > _IDLE + 1 and reached[-1] - reached[-1 - _IDLE] <= _LITTLE * reached[-1]
        return reached[-1] >= enough or idle

    generated = generate_columns(
        _disclosing(source, source[None], np.zeros(1)),
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
