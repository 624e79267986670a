"""The linear program over the present atoms.

With block masses P(A = a) and weights y of atoms inside each block (sum y = 1 there),

    minimise sum_a P(a) sum_k y_ak cost(q_ak)
    subject to sum_k y_ak q_ak(x)/P(x|a) = 1 for all x in a,  sum_a P(a) sum_k y_ak side(q_ak) <= limit.

A shared attribute costs nothing here: P(a) sum_k y_ak q_ak is all that its outputs need (`column_generation`).
"""

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from jaxpriv._numerics import divergence
from jaxpriv.funnels.pricing import AbstractPricer, Component
from jaxpriv.funnels.pricing.local import LocalPricer

if TYPE_CHECKING:
    from scipy.sparse import csc_matrix

# The forms of the two problems as linear programs over atoms, and what their duals mean.
#
# An atom q has a(q) = D(Tq || P_S) and b(q) = D(q || P_X), both >= 0 and exact near 0 (H(S) - H(Tq) and H(X) - H(q)
# differ from them by terms linear in q, which any measure with mean P_X averages to zero). Every form reads
#
#     minimise sum m cost(q)   subject to   sum m side(q) <= limit,  sum m q = P_X
#
#     funnel      disclosure      cost a         side -b   limit -R        a - mu b - nu.q >= 0
#                 leakage_budget  cost -b        side a    limit D         a - b/mu - (nu/mu).q >= 0
#                 multiplier      cost a - l b
#     bottleneck  disclosure      cost -a        side b    limit R         a - mu b + nu.q <= 0
#                 relevance       cost b         side -a   limit -D        a - b/mu + (nu/mu).q <= 0
#                 multiplier      cost -a + l b
#
# so that the dual (nu, mu) always gives prices and lambda of the one function a - lambda b.


# The slope of either curve is at most one; the funnel is priced below it.
_STEEPEST = 1.0 - 1e-9


@dataclass(frozen=True)
class Objective:
    """Attributes:
    funnel: which of the two problems.
    form: `disclosure`, `side` (leakage_budget or relevance), or `multiplier`.
    target: R, D, or l.
    """

    funnel: bool
    form: str
    target: float

    @property
    def sign(self) -> float:
        """+1 where a - lambda b is minimised (funnel), -1 where it is maximised."""
        return 1.0 if self.funnel else -1.0

    @property
    def limit(self) -> float | None:
        """The right-hand side of the one constraint beside the mean."""
        if self.form == "multiplier":
            return None
        return -self.sign * self.target if self.form == "disclosure" else self.sign * self.target

    @property
    def floor(self) -> float:
        """No plan costs less, whatever the atoms: a leakage is never negative."""
        return 0.0 if self.funnel and self.form == "disclosure" else -np.inf

    def cost(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """What is minimised."""
        if self.form == "multiplier":
            return self.sign * (a - self.target * b)
        return self.sign * a if self.form == "disclosure" else -self.sign * b

    def side(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """What is limited."""
        return -self.sign * b if self.form == "disclosure" else self.sign * a

    def duals(self, nu: np.ndarray, mu: float) -> tuple[np.ndarray, float]:
        """(prices, lambda) of a - lambda b from the duals of the program; lambda is cut to [0, 1)."""
        if self.form == "multiplier":
            return self.sign * nu, min(self.target, _STEEPEST)
        if self.form == "disclosure":
            return self.sign * nu, min(max(mu, 0.0), _STEEPEST)
        if not mu > 1.0:
            return self.sign * nu / max(mu, 1.0), _STEEPEST
        return self.sign * nu / mu, 1.0 / mu

    def priced(self, gap: float, lam: float) -> float:
        """What a gap of the cost is in a - lambda b."""
        return gap * lam if self.form == "side" else gap

    def bound(self, line: float, lam: float) -> float:
        """A bound on the least cost, if a - lambda b is at least (bottleneck: at most) `line`."""
        if self.form == "disclosure":
            return self.sign * (line + lam * self.target)
        if self.form == "multiplier":
            return self.sign * line if lam == self.target else -np.inf
        return -self.sign * (self.target - line) / lam if lam > 0 else -np.inf


# Atoms of one value of the shared attribute: their posteriors and what they cost.


# Entries below this fraction of P_X(x) are zero: they come from searches in logarithms.
_TRACE = 1e-12
# Atoms that agree to this many decimals are one: their values differ by less than the square of that.
_DECIMALS = 9


@dataclass(frozen=True, eq=False)
class Part:
    """A block, how it is priced, and a change of prices: a - lambda b = psi - (turn_s - lambda turn_x).q.

    Attributes:
        block: the joint of this value of the attribute.
        quick: a pricer that finds atoms, proving nothing; None where `sure` is quick enough.
        sure: a pricer that proves its bound; None where there is none.
    """

    block: Component
    quick: LocalPricer | None
    sure: AbstractPricer | None

    def turned(self, prices: np.ndarray, lam: float) -> np.ndarray:
        """Prices of psi = -H(Tq) + lambda H(q) from prices of a - lambda b."""
        block = self.block
        return prices + np.log(block.prior) @ block.conditional - lam * np.log(block.source)


@dataclass(frozen=True, eq=False)
class Pool:
    """Posteriors (K, X_a) with a(q) = D(Tq || P_S) and b(q) = D(q || P_X), shape (K,)."""

    posteriors: np.ndarray
    a: np.ndarray
    b: np.ndarray

    def take(self, index: np.ndarray) -> "Pool":
        return Pool(self.posteriors[index], self.a[index], self.b[index])

    def __add__(self, other: "Pool") -> "Pool":
        """Both, without those of `other` that are here already."""
        seen = {row.tobytes() for row in _keys(self.posteriors)}
        fresh = [k for k, row in enumerate(_keys(other.posteriors)) if row.tobytes() not in seen]
        new = other.take(np.array(fresh, dtype=int))
        return Pool(
            np.vstack([self.posteriors, new.posteriors]),
            np.concatenate([self.a, new.a]),
            np.concatenate([self.b, new.b]),
        )


def pool_of(block: Component, posteriors: np.ndarray) -> Pool:
    """The atoms `posteriors` (K, X_a), cleaned of traces and of duplicates."""
    clean = np.where(posteriors > _TRACE * block.source, posteriors, 0.0)
    clean /= clean.sum(axis=1, keepdims=True)
    if len(clean) > 1:
        _, first = np.unique(_keys(clean), axis=0, return_index=True)
        clean = clean[np.sort(first)]
    seen = (clean @ block.conditional.T) / block.prior
    return Pool(clean, divergence(seen, block.prior), divergence(clean / block.source, block.source))


def first_atoms(block: Component) -> np.ndarray:
    """Every symbol alone, and P_X itself: any mean and any target is reachable from them."""
    size = len(block.source)
    return np.vstack([np.eye(size), block.source[None]]) if size > 1 else np.eye(1)


def parts_of(blocks: tuple[Component, ...], posteriors: np.ndarray) -> list[np.ndarray]:
    """The conditionals of `posteriors` (K, X) inside every block, where they have mass."""
    found = []
    for block in blocks:
        inside = posteriors[:, block.useful]
        mass = inside.sum(axis=1)
        found.append(inside[mass > 1e-9] / mass[mass > 1e-9, None])
    return found


def _keys(posteriors: np.ndarray) -> np.ndarray:
    return np.round(posteriors, _DECIMALS) + 0.0  # + 0.0: no negative zeros


# Weights below this are the backend's tolerance.
_WEIGHT = 1e-11
# Limits below this are scaled up to it: the backend's tolerances are absolute.
_SMALL = 1e-3
# The largest error of the equations that `funnels.release` repairs.
_ERROR = 1e-7
# The options of the backend, in order: the next ones where it fails. There is little to presolve, and postsolve may
# fail at tight tolerances.
_ATTEMPTS = (("highs-ds", 1e-10, False), ("highs-ds", 1e-9, True), ("highs-ipm", 1e-9, True), ("highs-ds", 1e-7, False))


@dataclass(frozen=True, eq=False)
class MasterSolution:
    """A solution of the program over some atoms.

    Attributes:
        weights: y of every block's atoms.
        value: sum of P(a) y cost.
        prices: of a - lambda b, for every block (X_a,).
        lam: lambda.
    """

    weights: tuple[np.ndarray, ...]
    value: float
    prices: tuple[np.ndarray, ...]
    lam: float


def best_plan(parts: tuple[Part, ...], pools: tuple[Pool, ...], objective: Objective) -> MasterSolution:
    """The best weights on the atoms of `pools`, a basic solution.

    Raises ArithmeticError if the backend fails (the target is to be reachable on these atoms).
    """
    from scipy.optimize import linprog  # costs a third of a second: imported where needed
    from scipy.sparse import csr_matrix

    lifts = [pool.posteriors / part.block.source for part, pool in zip(parts, pools, strict=True)]
    size = np.concatenate([lift.max(axis=1) for lift in lifts])  # of a column: rare symbols have large lifts
    mass = np.concatenate([np.full(len(p.a), part.block.mass) for part, p in zip(parts, pools, strict=True)])
    a, b = np.concatenate([pool.a for pool in pools]), np.concatenate([pool.b for pool in pools])
    rows = _table(lifts, size)
    cost = mass * objective.cost(a, b) / size
    limit = objective.limit
    side = None if limit is None else mass * objective.side(a, b) / size
    scale = float(np.abs(cost).max()) or 1.0
    # A small limit is resolved relative to itself, or as it is where the backend cannot.
    units = [1.0] if limit is None or not 0 < abs(limit) < _SMALL else [abs(limit) / _SMALL, 1.0]
    for unit, (method, tolerance, presolve) in itertools.product(units, _ATTEMPTS):
        options = {
            "primal_feasibility_tolerance": tolerance,
            "dual_feasibility_tolerance": tolerance,
            "presolve": presolve,
        }
        result = linprog(
            cost / scale,
            A_ub=None if side is None else csr_matrix(side[None] / unit),
            b_ub=None if limit is None else [limit / unit],
            A_eq=rows,
            b_eq=np.ones(sum(lift.shape[1] for lift in lifts)),
            bounds=(0, None),
            method=method,
            options=options,
        )
        if result.status == 0:
            weights, error = _polished(np.asarray(result.x), rows, side, limit, 1e-8 * unit)
            if error <= _ERROR:
                break
    else:
        raise ArithmeticError(f"the linear program over atoms failed: {result.message}")
    weights = weights / size
    mu = 0.0 if limit is None else -scale / unit * float(result.ineqlin.marginals[0])
    ends = np.cumsum([len(pool.a) for pool in pools])[:-1]
    duals = np.split(scale * result.eqlin.marginals, np.cumsum([len(part.block.source) for part in parts])[:-1])
    nus = [dual / (part.block.mass * part.block.source) for dual, part in zip(duals, parts, strict=True)]
    prices = tuple(objective.duals(nu, mu)[0] for nu in nus)
    _, lam = objective.duals(nus[0], mu)
    return MasterSolution(tuple(np.split(weights, ends)), float(cost @ (weights * size)), prices, lam)


def _table(lifts: list[np.ndarray], size: np.ndarray) -> "csc_matrix":
    """The equations for the mean, (all symbols, all atoms): blocks of lifts (K, X_a), each atom divided by its size."""
    from scipy.sparse import csc_matrix

    places = [np.nonzero(lift) for lift in lifts]
    before = np.cumsum([0, *(lift.shape[1] for lift in lifts)])
    counts = np.concatenate([np.bincount(at[0], minlength=len(lift)) for at, lift in zip(places, lifts, strict=True)])
    symbols = np.concatenate([at[1] + shift for at, shift in zip(places, before[:-1], strict=True)])
    entries = np.concatenate([lift[at] for at, lift in zip(places, lifts, strict=True)]) / np.repeat(size, counts)
    return csc_matrix((entries, symbols, np.append(0, np.cumsum(counts))), shape=(int(before[-1]), len(size)))


# Central prices: the share of value - bound that the logarithms of the slacks may cost the dual value; steps of
# Newton's method at most, and the decrement at which they end. A step is no longer than this share of the way to the
# nearest slack of 0, nor than this many times what is safe in theory, 1/(1 + decrement).
_BARRIER, _STEPS, _CENTRED, _TO_END, _LONG = 0.3, 40, 0.3, 0.9, 4.0
# Slacks that the prices to begin with leave at least, as a share of value - bound; added to a diagonal scaled to 1.
_INSIDE, _RIDGE = 1e-3, 1e-13


def central_prices(
    parts: tuple[Part, ...], pools: tuple[Pool, ...], objective: Objective, prices: tuple, lam: float, gap: float
) -> tuple[tuple[np.ndarray, ...], float]:
    """(prices, lambda) inside of the dual of the program over `pools`, where value - bound is about `gap`.

    The maximum of (dual value) + t sum of the logarithms of the slacks over all atoms, with t the share `_BARRIER` of
    `gap` for each. The prices of a basic solution are a corner that changes with every atom, and these are between
    all atoms that are nearly good enough (Gondzio, Gonzalez-Brevis and Munari 2013). Newton's method, from `prices` and
    `lam` lowered until no atom violates them.
    """
    from scipy.sparse import block_diag, csr_matrix, hstack

    # Slacks cost + mu side - nu.q, with mu lambda or 1/lambda; a program without a limit has no mu.
    a, b = np.concatenate([pool.a for pool in pools]), np.concatenate([pool.b for pool in pools])
    mu, limit = max(lam, _INSIDE * gap), objective.limit
    if objective.form == "side":
        mu = 1.0 / mu
    scale = objective.sign * (mu if objective.form == "side" else 1.0)
    rows = block_diag([csr_matrix(pool.posteriors) for pool in pools], format="csr")
    aim = np.concatenate([part.block.mass * part.block.source for part in parts])
    point = np.concatenate([scale * nu for nu in prices])
    cost, ends = objective.cost(a, b), np.cumsum([len(nu) for nu in prices])
    if limit is not None:
        rows = hstack([rows, csr_matrix(-objective.side(a, b)[:, None])], format="csr")
        aim, point = np.append(aim, -limit), np.append(point, mu)
    slacks = np.split(cost - rows @ point, np.cumsum([len(pool.a) for pool in pools])[:-1])
    for end, nu, slack in zip(ends, prices, slacks, strict=True):
        point[end - len(nu) : end] -= max(0.0, -float(slack.min())) + _INSIDE * gap
    mass = np.concatenate([np.full(len(pool.a), part.block.mass) for part, pool in zip(parts, pools, strict=True)])
    weight = _BARRIER * gap * mass / mass.sum()
    for _ in range(_STEPS):
        slack = cost - rows @ point
        force = weight / slack
        slope = aim - rows.T @ force
        matrix = (rows.multiply((force / slack)[:, None]).T @ rows).toarray()
        if limit is not None:  # mu > 0, too
            slope[-1] += weight.mean() / point[-1]
            matrix[-1, -1] += weight.mean() / point[-1] ** 2
        size = np.sqrt(matrix.diagonal())
        matrix /= size[:, None] * size
        matrix[np.diag_indices_from(matrix)] += _RIDGE
        step = np.linalg.solve(matrix, slope / size) / size
        decrement = float(np.sqrt(max(slope @ step, 0.0) / weight.mean()))
        nearest = float((rows @ step / slack).max())
        if limit is not None:
            nearest = max(nearest, -float(step[-1] / point[-1]))
        point = point + min(1.0, _TO_END / max(nearest, _TO_END), _LONG / (1.0 + decrement)) * step
        if decrement < _CENTRED:
            break
    if limit is not None:
        mu = float(point[-1])
    priced = [objective.duals(nu, mu) for nu in np.split(point[: ends[-1]], ends[:-1])]
    return tuple(nu for nu, _ in priced), priced[0][1]


def mended_prices(parts: tuple[Part, ...], pools: tuple[Pool, ...], prices: tuple, lam: float) -> tuple:
    """Prices nu of a funnel, lowered from `prices` so that the bound over the atoms of `pools` is best.

    The maximum of P_X.nu + (the least of 0 and of all a - lambda b - nu.q) over lower prices. No a - lambda b - nu.q
    falls, since q >= 0: what was no violation stays none. An atom below the line by v costs at most v times the least
    p_x/q_x of its symbols, where it would lower the bound by v.
    """
    from scipy.optimize import linprog  # costs a third of a second: imported where needed

    mended = []
    for part, pool, nu in zip(parts, pools, prices, strict=True):
        slack = pool.a - lam * pool.b - pool.posteriors @ nu
        violated = np.flatnonzero(slack < 0)
        lowered = np.zeros(len(nu))
        if len(violated):
            # In units of the largest violation: the backend's tolerances are absolute.
            unit, atoms = -float(slack.min()), pool.posteriors[violated]
            cost = np.append(part.block.source, 1.0)
            table = np.hstack([-atoms, -np.ones((len(violated), 1))])
            result = linprog(cost, A_ub=table, b_ub=slack[violated] / unit, bounds=(0, None), method="highs-ds")
            if result.status == 0:
                lowered = unit * np.maximum(result.x[:-1], 0.0)
        mended.append(nu - lowered)
    return tuple(mended)


def _polished(
    weights: np.ndarray, rows, side: np.ndarray | None, limit: float | None, near: float
) -> tuple[np.ndarray, float]:
    """(weights, error). The backend meets its equations to a tolerance: the active columns are solved once more.

    With a limit that is met up to `near` as one of the equations.
    """
    from scipy.optimize import nnls

    basic = np.flatnonzero(weights > _WEIGHT)
    active, right = rows[:, basic].toarray(), np.ones(rows.shape[0])
    if side is not None and limit is not None and abs(float(side @ weights) - limit) <= near:
        heft = 1e-8 / near  # as heavy as in the program
        active, right = np.vstack([active, heft * side[basic]]), np.append(right, heft * limit)
    solved = np.linalg.lstsq(active, right, rcond=None)[0]
    if solved.min(initial=0.0) < -1e-13 or np.abs(active @ solved - right).max() > 1e-12:
        try:  # nearly parallel columns
            solved = nnls(active, right)[0]
        except RuntimeError:  # out of iterations: the backend's own weights, whose error is reported
            solved = weights[basic]
    polished = np.zeros(len(weights))
    polished[basic] = np.maximum(solved, 0.0)
    error = float(np.abs(rows @ polished - 1.0).max())
    if side is not None and limit is not None:
        error = max(error, float(side @ polished) - limit)
    return polished, error
