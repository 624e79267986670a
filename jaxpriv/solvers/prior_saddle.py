"""A mechanism and the priors of an L1 ball that are worst for it, together: an interior-point method.

Write G = P(x|s), p for the centre of the ball, r for its radius, V = G W, and let the adversary hold one measure
pi_j = l_j (a prior of the ball) for the leakage (j = 0, l_0 = 1) and one for every budget (l_j >= 0 its multiplier):

    minimise over W >= 0, sum_y W = 1   maximise over pi_j, l_j
        F = sum_s pi_0(s) D(V_s || q) + sum_j (sum_s pi_j(s) E[d_j | s] - l_j D_j),      q = pi_0 V .

The ball is pi = kept + gained: a_j = (kept, gained, l) with t_j = R a_j >= 0 and sum pi_j = l_j, where t_j stands for
kept, gained, l p - kept and l r/2 - sum gained. F is convex in W and concave in a, so that the conditions

    dF/dW - nu = Z,   W Z = mu h,    dF/da_j + R' y_j = kappa_j e,   t_j y_j = mu h

are a monotone problem, solved by Newton steps (`_primal_dual`). With b = sqrt(W/Z) the system of
an output y is 1 + C'C in the unknown dW/b, where C = (1 - v v') diag(sqrt(pi_0/V)) G diag(b) and v = sqrt(pi_0 V/q):
one Cholesky factor of order |S|. What is left has the row sums and the adversary's few unknowns.
Cost of a step: |Y| |S| (|S|^2 + M^2 |S| |X| + |X|^2) + (|X| + M |S|)^3.

Nothing here proves anything: `robust` proves the value at the mechanism and the bound at the priors.
"""

import numpy as np

from jaxpriv._runtime.clock import Clock
from jaxpriv._runtime.resources import need_memory
from jaxpriv.solvers._primal_dual import PrimalDualPoint, followed_path


class _Game:
    """The data: costs within [0, 1], the slacks R, and the weights h of the central path."""

    def __init__(self, given: np.ndarray, centre: np.ndarray, radius: float, tables: np.ndarray, budget: np.ndarray):
        n, (inputs, outputs) = len(centre), tables[0].shape
        low, span = tables.min(axis=(1, 2)), np.ptp(tables, axis=(1, 2))
        span = np.where(span > 0, span, 1.0)
        self.given, self.centre = given, centre
        self.costs = np.moveaxis((tables - low[:, None, None]) / span[:, None, None], 2, 1)
        self.budget = np.minimum((budget - low) / span, 2.0)  # a budget of 1 allows everything
        self.moved = 0.5 * radius
        identity, none = np.eye(n), np.zeros((n, n))
        self.measure = np.hstack([identity, identity, np.zeros((n, 1))])  # pi = measure a
        self.excess = np.append(np.ones(2 * n), -1.0)  # sum pi - l = excess . a
        self.slacks = np.vstack(
            [
                np.hstack([identity, none, np.zeros((n, 1))]),
                np.hstack([none, identity, np.zeros((n, 1))]),
                np.hstack([-identity, none, centre[:, None]]),
                np.concatenate([np.zeros(n), -np.ones(n), [self.moved]])[None],
            ]
        )
        self.path = np.broadcast_to(0.5 * (centre @ given + 1.0 / inputs) / outputs, (outputs, inputs))
        half = 0.5 * self.moved
        self.slack_path = np.concatenate([(1 - half) * centre, np.full(n, half / n), half * centre, [half]])
        # The leakage's own l is one: no unknown.
        self.free = np.delete(np.arange((1 + len(tables)) * (2 * n + 1)), 2 * n)
        self.lift = np.kron(np.eye(1 + len(tables)), self.measure)[:, self.free]  # all pi = lift (unknowns)

    def start(self) -> PrimalDualPoint:
        """The independent release, and a prior in the middle of the ball."""
        n, groups = len(self.centre), 1 + len(self.costs)
        w = np.full(self.path.shape, 1.0 / len(self.path))
        a = np.concatenate([(1 - 0.5 * self.moved) * self.centre, np.full(n, 0.5 * self.moved / n), [1.0]])
        t = np.tile(self.slack_path, (groups, 1))
        return PrimalDualPoint(
            w, self.path / w, np.tile(a, (groups, 1)), t, t / t, np.zeros(self.given.shape[1]), np.zeros(groups)
        )

    def conditions(self, point: PrimalDualPoint) -> "_GameConditions":
        return _GameConditions(self, point)


class _GameConditions:
    """The conditions at a point, and the factors of their linearisation."""

    def __init__(self, game: _Game, point: PrimalDualPoint):
        self.game, self.point = game, point
        given, costs = game.given, game.costs
        pi = point.a @ game.measure.T
        channel = point.w @ given.T  # V, outputs first
        mass = channel @ pi[0]
        scores = np.log(channel / mass[:, None])
        means = np.einsum("myx,sx,yx->ms", costs, given, point.w, optimize=True)
        self.dw = (scores * pi[0]) @ given + np.einsum("myx,mx->yx", costs, pi[1:] @ given) - point.nu - point.z
        gains = np.vstack([(channel * (scores - 1.0)).sum(axis=0), means])
        self.da = gains @ game.measure + point.y @ game.slacks - point.kappa[:, None] * game.excess
        self.da[1:, -1] -= game.budget
        self.da[0, -1] = 0.0
        self.rows, self.sums = 1.0 - point.w.sum(axis=0), -(point.a @ game.excess)
        # What the residuals may be worth: to W as it is (the direction of a column without mass settles late, and
        # means nothing), to any measure of the adversary.
        self.error = max(
            float(np.abs(self.dw * point.w).sum()),
            float((np.abs(self.da).max(axis=1) * np.maximum(point.a[:, -1], 1.0)).max()),
            float(np.abs(self.rows).max()),
            float(np.abs(self.sums).max()),
        )
        # What dF/dW gains with pi, for every output: shape (Y, X, J S).
        mixed = given.T * scores[:, None, :] - (pi[0] @ given)[:, None] * (channel / mass[:, None])[:, None, :]
        mixed = np.concatenate([mixed[:, :, None], np.einsum("myx,sx->yxms", costs, given)], axis=2)
        self.scale = np.sqrt(point.w / point.z)
        self.cross = mixed.reshape(*mixed.shape[:2], -1) * self.scale[:, :, None]
        self._factorise(pi[0], channel, mass)

    def _factorise(self, prior: np.ndarray, channel: np.ndarray, mass: np.ndarray) -> None:
        game, point = self.game, self.point
        unit = np.sqrt(prior * channel / mass[:, None])
        curved = np.sqrt(prior / channel)[:, :, None] * game.given * self.scale[:, None, :]
        curved -= unit[:, :, None] * (unit[:, None, :] @ curved)
        root = np.linalg.cholesky(np.eye(len(prior)) + curved @ np.swapaxes(curved, 1, 2))
        self.half = np.linalg.solve(root, curved)  # (1 + C'C)^-1 = 1 - half'half
        self.solved = self._apply(self.cross)
        inputs, size, groups = self.scale.shape[1], len(game.excess), len(point.a)
        rows = (self.half * self.scale[:, None, :]).reshape(-1, inputs)
        curvature = np.zeros((groups, size, groups, size))
        for j, ratio in enumerate(point.y / point.t):
            curvature[j, :, j] = game.slacks.T @ (ratio[:, None] * game.slacks)
        curvature[0, :, 0] += game.measure.T @ (channel.T / mass @ channel) @ game.measure
        curvature = curvature.reshape(groups * size, -1)[np.ix_(game.free, game.free)]
        unknowns = inputs + len(game.free)
        system = np.zeros((unknowns + groups, unknowns + groups))
        system[:inputs, :inputs] = rows.T @ rows - np.diag((self.scale**2).sum(axis=0))
        system[:inputs, inputs:unknowns] = np.einsum("yx,yxp->xp", self.scale, self.solved) @ game.lift
        system[inputs:unknowns, :inputs] = system[:inputs, inputs:unknowns].T
        inner = np.tensordot(self.cross, self.solved, axes=((0, 1), (0, 1)))
        system[inputs:unknowns, inputs:unknowns] = -game.lift.T @ inner @ game.lift - curvature
        sums = -np.kron(np.eye(groups), game.excess)[:, game.free]
        system[unknowns:, inputs:unknowns], system[inputs:unknowns, unknowns:] = sums, sums.T
        units = 1.0 / np.sqrt(np.abs(np.diag(system)[:unknowns]))
        units = np.append(units, 1.0 / np.linalg.norm(sums * units[inputs:], axis=1))
        self.units, self.system = units, units[:, None] * system * units

    def _apply(self, right: np.ndarray) -> np.ndarray:
        return right - np.swapaxes(self.half, 1, 2) @ (self.half @ right)

    def move(self, products: np.ndarray | float, slack_products: np.ndarray | float) -> PrimalDualPoint:
        """The step after which W Z and t y would be these, to first order."""
        game, point = self.game, self.point
        drop, rise = products / point.w - point.z, slack_products / point.t - point.y
        inputs = self.scale.shape[1]
        unknowns = inputs + len(game.free)
        right = ((drop - self.dw) * self.scale)[:, :, None]
        rows = self.rows - (self.scale * self._apply(right)[:, :, 0]).sum(axis=0)
        free_rows = (self.da + rise @ game.slacks).ravel()[game.free]
        free_rows += np.tensordot(self.solved, right[:, :, 0], axes=((0, 1), (0, 1))) @ game.lift
        solution = self.units * np.linalg.solve(self.system, -self.units * np.concatenate([rows, free_rows, self.sums]))
        dnu, dfree = solution[:inputs], solution[inputs:unknowns]
        right += (self.scale * dnu)[:, :, None] - (self.cross @ (game.lift @ dfree))[:, :, None]
        dw = self.scale * self._apply(right)[:, :, 0]
        da = np.zeros(point.a.size)
        da[game.free] = dfree
        da = da.reshape(point.a.shape)
        dt = da @ game.slacks.T
        dz, dy = drop - point.z / point.w * dw, rise - point.y / point.t * dt
        return PrimalDualPoint(dw, dz, da, dt, dy, dnu, solution[unknowns:])


def saddle_point(
    given: np.ndarray,
    centre: np.ndarray,
    radius: float,
    tables: np.ndarray,
    budget: np.ndarray,
    tol: float,
    clock: Clock,
) -> tuple[np.ndarray, np.ndarray]:
    """(mechanism (X, Y), priors (1 + M, S)): W, the worst prior for the leakage and one for every budget.

    Near the saddle point to a gap of `tol` if the method gets there (it may not where the budgets leave no
    interior, or where the clock ends it); otherwise the last point, whose mechanism may break the budgets. Sums are
    one up to rounding.
    """
    groups, (inputs, outputs) = 1 + len(tables), tables[0].shape
    numbers = outputs * len(centre) * (5.0 * groups * inputs + 2.0 * len(centre))
    need_memory(8.0 * numbers, "the search for the worst prior", "merge symbols first")
    game = _Game(given, centre, radius, tables, budget)
    point, _ = followed_path(game, tol, clock)
    pi = point.a @ game.measure.T
    return (point.w / point.w.sum(axis=0)).T, pi / pi.sum(axis=1, keepdims=True)
