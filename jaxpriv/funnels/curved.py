"""The most useful release whose posteriors r_y = P(S|Y=y) all lie in a smooth convex set { r : phi(r) <= eps }.

phi is that of a worst-outcome measure: D(r || P_S) of relative entropy, H(S) - H(r) of maximum information. Its tangent
planes cut off a polytope that holds the set. The vertices of { q : Tq in the polytope } give a linear program, whose
optimum is an upper bound. Each posterior that it uses is mixed with P_X until its r has phi(r) = eps,
q_k' = p + t_k (q_k - p), with the weights m_k/t_k: the mean stays p, and the release keeps the limit. The planes at
these r are the next cuts.

A vertex with m symbols in its support meets m - 1 cuts with equality, those of one face of the polytope. The faces
are those that Qhull finds in float64: the upper bound holds as far as no vertex is lost to rounding there.
"""

import itertools
from dataclasses import dataclass, field

import numpy as np

from jaxpriv._runtime.clock import Clock
from jaxpriv._runtime.numerics import information_below
from jaxpriv.errors import InputError
from jaxpriv.extremal.utility import MaximumUtility, among, mechanism_of
from jaxpriv.funnels.gains import Curved, curved_of
from jaxpriv.leakage import AbstractLeakage
from jaxpriv.leakage.rule_sets import Role
from jaxpriv.program.lower import terms_of

# How far a vertex may lie beyond a cut by rounding; a sum of minors of cuts that meet in no point; systems at once;
# rounds of cuts; bisections of a share.
_ROUNDING, _SINGULAR, _CHUNK, _ROUNDS, _HALVED = 1e-11, 1e-13, 500_000, 40, 60
# The first cuts are at posteriors with this share of P_S.
_MIXED = 0.3


@dataclass(eq=False)
class CurvedSet:
    """The posteriors of `joint` (S, X), whose x have mass, within a limit on `measure`, by the cuts known so far."""

    joint: np.ndarray
    measure: AbstractLeakage
    curved: Curved = field(init=False)
    prior: np.ndarray = field(init=False)
    least: float = field(init=False)  # what the measure adds to phi
    points: np.ndarray = field(init=False)  # where cuts touch, (J, S)

    def __post_init__(self) -> None:
        mass = self.joint.sum(axis=0)
        (term,) = terms_of(self.measure, self.joint, Role.WORST, 0.0)
        curved = curved_of(term, mass)
        if curved is None:
            raise InputError(f"solver: {type(self.measure).__name__} is no smooth limit on every posterior")
        self.curved, self.prior = curved, curved.conditional @ mass
        self.least = float(term.offset[0] / mass[0])
        self.points = np.vstack([self.prior, (1 - _MIXED) * np.eye(len(self.prior)) + _MIXED * self.prior])

    def utility(self, limit: float, tol: float, clock: Clock, enough: float = np.inf) -> MaximumUtility:
        """The most I(X;Y) within `limit` > 0, to `tol`, or as far as to tell whether it is `enough`."""
        source, symbols, level = self.joint.sum(axis=0), self.curved.conditional.T, limit - self.least
        best, mechanism, upper = 0.0, np.ones((len(source), 1)), np.inf
        for _ in range(_ROUNDS):
            cuts = self.curved.slopes(self.points) - level
            faces = _faces(cuts, self.prior)
            lifts, weights, bound, _ = among(_vertices(cuts @ symbols.T, faces), source, tol, clock)
            seen = lifts * source @ symbols
            share = self._share(seen, level)
            drawn = mechanism_of(1.0 + share[:, None] * (lifts - 1.0), weights / share)
            value, upper = information_below(drawn, source), min(upper, bound)
            if value > best:
                best, mechanism = value, drawn
            outside = share < 1.0
            if upper - best <= tol or best >= enough or upper < enough < np.inf or clock.expired() or not outside.any():
                break
            border = self.prior + share[outside, None] * (seen[outside] - self.prior)
            self.points = np.vstack([self.points[np.unique(faces[0])], border])
        leakage = self.curved.at((source[:, None] * mechanism / (source @ mechanism)).T @ symbols).max() + self.least
        status = "optimal" if upper - best <= tol else "best_known"
        return MaximumUtility(best, max(upper, best), mechanism, (float(leakage),), status, "cuts", int(clock.stop))

    def _share(self, seen: np.ndarray, level: float) -> np.ndarray:
        """The largest t of which P_S + t (r - P_S) is within the limit, for the rows r."""
        low, high = np.zeros(len(seen)), np.ones(len(seen))
        within = self.curved.at(seen) <= level
        for _ in range(_HALVED):
            middle = 0.5 * (low + high)
            inside = self.curved.at(self.prior + middle[:, None] * (seen - self.prior)) <= level
            low, high = np.where(inside, middle, low), np.where(inside, high, middle)
        return np.where(within, 1.0, low)


def _faces(cuts: np.ndarray, prior: np.ndarray) -> list[np.ndarray]:
    """The sets of 1, 2, ... cuts of the faces of { r : cuts r <= 0 }; r = `prior` is inside."""
    private = len(prior)
    if private == 2:
        return [np.arange(len(cuts))[:, None]]
    from scipy.spatial import HalfspaceIntersection

    basis = np.linalg.svd(np.ones((1, private)))[2][1:].T
    every = np.vstack([cuts, -np.eye(private)])
    corners = HalfspaceIntersection(np.column_stack([every @ basis, every @ prior]), np.zeros(private - 1)).dual_facets
    # That r >= 0 is no cut: q >= 0 has it.
    met = [sorted(number for number in corner if number < len(cuts)) for corner in corners]
    return [
        np.array(sorted({one for corner in met for one in itertools.combinations(corner, size)}), dtype=int).reshape(
            -1, size
        )
        for size in range(1, private)
    ]


def _vertices(cuts: np.ndarray, faces: list[np.ndarray]) -> np.ndarray:
    """The vertices (n, X) of { q : `cuts` q <= 0 }, and possibly some other points of it."""
    cuts = cuts / np.abs(cuts).max(axis=1, keepdims=True)
    useful = cuts.shape[1]
    found = [np.eye(useful)[(cuts <= _ROUNDING).all(axis=0)]]
    for face in faces[: useful - 1]:
        supports = np.array(list(itertools.combinations(range(useful), face.shape[1] + 1)))
        values = cuts[:, supports]
        crossed = (values.min(axis=2) <= _ROUNDING) & (values.max(axis=2) >= -_ROUNDING)
        for part in np.array_split(face, max(1, len(face) * len(supports) // _CHUNK)):
            one, chosen = np.nonzero(crossed[part].all(axis=1))
            on = supports[chosen]
            q = _orthogonal([[cuts[cut, x] for x in on.T] for cut in part[one].T])
            total = q.sum(axis=1, keepdims=True)
            with np.errstate(divide="ignore", invalid="ignore"):
                q = np.where(np.abs(total) > _SINGULAR, q / total, -1.0)
            inside = (q >= -_ROUNDING).all(axis=1)
            whole = np.zeros((int(inside.sum()), useful))
            np.put_along_axis(whole, on[inside], np.maximum(q[inside], 0.0), axis=1)
            found.append(whole[(whole @ cuts.T <= _ROUNDING).all(axis=1)])
    every = np.vstack(found)
    return every / every.sum(axis=1, keepdims=True)


def _orthogonal(rows: list[list[np.ndarray]]) -> np.ndarray:
    """The vectors (N, k + 1) orthogonal to k rows of k + 1 entries (N,): their signed minors."""
    signs = itertools.cycle((1.0, -1.0))
    columns = range(len(rows) + 1)
    return np.stack([next(signs) * _determinant([[*row[:j], *row[j + 1 :]] for row in rows]) for j in columns], axis=1)


def _determinant(rows: list[list[np.ndarray]]) -> np.ndarray:
    if len(rows) == 1:
        return rows[0][0]
    first, *rest = rows
    minors = [entry * _determinant([[*row[:j], *row[j + 1 :]] for row in rest]) for j, entry in enumerate(first)]
    return np.sum(minors[::2], axis=0) - np.sum(minors[1::2], axis=0)
