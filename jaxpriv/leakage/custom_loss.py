"""A user's loss: the cost, what programs and proofs are made of, and the announcement that answers given scores."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.lanes import LaneArray, with_lanes
from jaxpriv._runtime.numerics import positive
from jaxpriv._runtime.simplex_minimum import least_on_simplex, simplex_gap
from jaxpriv._runtime.types import Arr, Column, PrivateMarginal, Scalar, ScalarLike
from jaxpriv._runtime.validation import flag, is_traced, whole
from jaxpriv.errors import InputError
from jaxpriv.leakage._base import Scale, Traits, posterior_of
from jaxpriv.leakage.cost import AbstractCost
from jaxpriv.leakage.rule_sets import UNSEEN, AbstractRuleSet, Boundary, Rules, Term, View
from jaxpriv.leakage.user_divergence import OWN_FUNCTION, check_loss, costs_and_slopes, in_units
from jaxpriv.leakage.user_functions import call, of_rows

__all__ = [
    "CustomLoss",
]

# Interior-point steps at most; each aims at a tenth of the products and goes 95 % of the way to the boundary.
# Choices: the announcement found is a proof however near the best one it is.
_MOST_STEPS, _AIM, _BOUNDARY = 60, 0.1, 0.95
# The least complementarity product. A posterior is no function of scores that several of them give
# (an announcement on a face of the simplex): so many digits are smoothed over.
CENTRED = 1e-11
# A point is on the central path when no entry moves by more than this share of itself, or after so many steps there.
_SETTLED, _MOST_SETTLING = 1e-9, 6


class CustomLoss(AbstractCost):
    """A user's cost: `loss(q)` is the vector C(., q), of shape (s,), for an announced distribution q.

    `loss` is a JAX function on the simplex, convex and twice differentiable in q for every s. It
    may be infinite where q(s) = 0. For a loss with kinks list its actions in a `LossMatrix`.

    If the loss is a proper scoring rule pass `proper=True`: announcing the posterior is optimal
    and nothing is minimised. Otherwise the minimum is found by a fixed number (`steps`) of
    interior-point steps (Newton's method on sum_s w_s C(s, q) - mu sum_s ln q(s), mu shrinking with
    the gap), deterministic and the same under `jit` and `vmap`. The Frank-Wolfe gap
    `g.q - min_s g(s)`, g the gradient at the point found, bounds the error whatever the steps did:
    `accuracy(w)` returns it. In float64, for up to 50 symbols and masses down to 1e-20, the bound
    was below 1e-9 of the cost and the error below 1e-12. One step takes a Hessian of `loss`.

    The gradient is the envelope theorem's, C(., q*) at the minimiser; a symbol with w_s = 0 has
    gradient 0. Second derivatives are not available.

    As an objective or a limit the loss is refused (`InputError`, naming the symbol s) where it or its slope is not
    finite inside the simplex, has another shape than (s,), is not above its tangents at some dozens of
    announcements, or is declared proper and is not. Any announcement q is then a proof, min_q' sum_s w_s C(s, q')
    <= sum_s w_s C(s, q) for every w (Calmon and Fawaz 2012, eq. 1-4); convexity is assumed for `accuracy` alone.
    """

    loss: Callable[[Array], Array]
    proper: bool = eqx.field(static=True, default=False, converter=partial(flag, name="proper"))
    steps: int = eqx.field(static=True, default=80, converter=partial(whole, name="steps", low=1))

    traits: ClassVar[Traits] = Traits("cost", designable=True, own_rules=True)

    def __check_init__(self) -> None:
        if not callable(self.loss):
            raise InputError("loss must be a function of an announcement")

    @property
    def untraceable(self) -> str | None:
        return OWN_FUNCTION

    def among(self, prior: PrivateMarginal, seen: np.ndarray) -> "Loss":
        return Loss.of(self, prior, seen)

    def scale_for(self, symbols: int) -> Scale:
        return in_units(scale_of_loss(self, symbols))

    def check(self, form: str, symbols: int) -> None:
        check_loss(form, self.loss, self.proper, symbols)

    def least(self, w: Column) -> Scalar:
        if xp.of(w) is np:
            least_costs = _least_costs(self, w.lanes if isinstance(w, LaneArray) else w[None])
            return with_lanes(least_costs) if isinstance(w, LaneArray) else least_costs[0]
        costs = self.loss(jax.lax.stop_gradient(jnp.asarray(self.announcement(w))))
        return jnp.sum(w * jnp.where(positive(w), costs, 0.0))

    def announcement(self, w: Column) -> Column:
        """The minimiser q* in the simplex: what the adversary announces."""
        (w,) = xp.arguments(w)
        if xp.of(w) is np:
            return xp.in_double(self.announcement, w)
        posterior = posterior_of(w)
        if self.proper:
            return posterior
        # Half the posterior keeps a proper loss near its solution, half uniform keeps q interior.
        start = jax.lax.stop_gradient(0.5 * posterior + 0.5 / posterior.size)
        return least_on_simplex(self._expected(posterior), jnp.asarray(start / jnp.sum(start)), self.steps)

    def accuracy(self, w: Column) -> Scalar:
        """An upper bound on the error of `least(w)`, from convexity alone (0 if `proper`)."""
        (w,) = xp.arguments(w)
        if xp.of(w) is np:
            return xp.in_double(self.accuracy, w)
        if self.proper:
            return jnp.zeros_like(jnp.sum(w))
        announced = self.announcement(w)
        return jnp.sum(w) * simplex_gap(jax.grad(self._expected(posterior_of(w)))(announced), announced)

    def _expected(self, posterior: Column) -> Callable[[Array], Array]:
        weights = jax.lax.stop_gradient(posterior)
        return lambda q: jnp.sum(jnp.where(positive(weights), weights * self.loss(q), 0.0))


class Loss(AbstractCost):
    """C(s, q) / scale for the private symbols that have mass, q a distribution over all `size` of them.

    `scale` is the size of the slopes at the uniform q; `without_output` is the cost of an adversary without an output,
    rounded down by `slack`. Equal where the user's function is the same object: compiled programs are kept by it.
    """

    cost: CustomLoss
    seen: tuple[int, ...]
    size: int
    scale: float
    without_output: float = 0.0
    slack: float = 0.0

    @property
    def traits(self) -> Traits:
        return Traits(self.cost.unit, designable=True)

    @staticmethod
    def of(cost: CustomLoss, prior: PrivateMarginal, seen: np.ndarray) -> "Loss":
        """The loss on the symbols `seen`, (S,) bool, which all that have mass are among."""
        symbols = np.flatnonzero(seen)
        parts = cost, tuple(symbols.tolist()), len(prior), scale_of_loss(cost, len(prior))
        if is_traced(prior):
            return Loss(*parts)
        (below,), (above,) = Loss(*parts).interval(prior[None, symbols])
        return Loss(*parts, float(below), float(above - below))

    def rules(self, view: View) -> Rules:
        return Rules(Announced(self), view.joint, view.ones)

    def shift(self, prior: PrivateMarginal) -> ScalarLike:
        """The cost of an adversary without an output: `without_output`, or a function of the prior that is traced."""
        return self.least(prior) if is_traced(prior) else self.without_output

    def scale_for(self, symbols: int) -> Scale:
        del symbols
        return in_units(self.scale)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Loss) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return id(self.cost.loss), self.cost.proper, self.cost.steps, self.seen, self.size

    def costs(self, q: Float[Arr, " all"]) -> Column:
        """C(s, q) of the symbols with mass."""
        return self.cost.loss(jnp.asarray(q))[jnp.array(self.seen)] / self.scale

    def least(self, w: Column) -> Scalar:
        """min_q sum_s w_s C(s, q) for a column on the symbols with mass."""
        return self.cost.least(self._everywhere(w)) / self.scale

    def accuracy(self, w: Column) -> Scalar:
        """What `least` may be too large by, if the loss is convex."""
        return self.cost.accuracy(self._everywhere(w)) / self.scale

    @of_rows
    def leasts(self, w: Column) -> tuple[Scalar, Scalar, Column]:
        """`least` of every row of w (Y, S), its `accuracy`, and C(., q) of the symbols with mass for the announcement q
        that answers w > 0: all follow from one q, whose search is most of what is compiled."""
        return self.least(w), self.accuracy(w), self.costs(self.cost.announcement(self._everywhere(w)))

    @of_rows
    def answers(self, g: Column, least: Scalar) -> "ConjugatePoint":
        """`answer` to every row of scores g (Y, S) on the central path of `least` (Y,)."""
        return answer(self, g, least)

    @of_rows
    def costs_of(self, q: Column) -> Column:
        """C(., q) of every row of q (Y, S)."""
        return self.costs(q)

    def interval(self, w: Arr) -> tuple[np.ndarray, np.ndarray]:
        """min_q sum_s w_s C(s, q) of every row of w (Y, S), from below and from above."""
        above, accuracy, _ = self.leasts(w)
        return above - accuracy, above

    def announcements(self, g: Arr) -> np.ndarray:
        """The q that answers every row of scores g (Y, S): near a distribution, wherever the iteration ended."""
        return self.answers(g, np.full(len(g), CENTRED)).announcement

    def _everywhere(self, w: Column) -> Float[Arr, " all"]:
        return jnp.zeros(self.size, w.dtype).at[jnp.array(self.seen)].set(w)


@dataclass(frozen=True)
class Announced(AbstractRuleSet):
    """{ g : some announcement q has g <= -C(., q) }: phi(w) = -min_q sum_s w_s C(s, q)."""

    loss: Loss
    coupled: ClassVar[bool] = True
    users: ClassVar[bool] = True

    def boundary(self, term: Term, g: Arr, smoothing: ScalarLike) -> Boundary:
        del term
        spread = xp.full(len(g), smoothing, like=g)
        answers = self.loss.answers(g, spread)
        v = answers.posterior
        bent = answers.response + v[:, :, None] * v[:, None, :]
        return Boundary(answers.level, v, v.sum(axis=1), bent, answers.posterior_drift, answers.level_drift)

    def gradient(self, term: Term, w: Arr) -> Arr:
        del term
        return -self.loss.leasts(w.reshape(-1, w.shape[-1]))[2].reshape(w.shape)

    def normalised(self, term: Term, g: Arr, level: Arr) -> Arr:
        del term
        return g - level[:, None]

    def merged(self, rows: Arr, reference: Arr, cap: Arr | None) -> tuple[Arr, Arr, Arr | None]:
        """No two symbols are alike to an unknown loss."""
        return rows, reference, cap

    def unseen(self, reference: Arr) -> Arr:
        return np.full(len(reference), UNSEEN)

    def columns(self, term: Term, w: Arr) -> Arr:
        """-min_q sum_s w_s C(s, q) of every output, w (S, Y), rounded up by what the minimum may be missed by.

        The cost without an output was rounded down by `Loss.slack`: the outputs share that too.
        """
        del term
        w = xp.maximum(w, 0.0)
        if xp.of(w) is jnp:
            return -self.loss.leasts(w.T)[0]
        below, _ = self.loss.interval(w.T)
        return self.loss.slack * w.sum(axis=0) - below

    def moved_in(self, term: Term, g: Arr) -> Arr:
        """-C(., q) for a distribution q near the scores g, (Y, S): a rule whatever q is."""
        del term
        q = np.clip(np.nan_to_num(self.loss.announcements(g), nan=1.0), 0.0, 1.0)
        costs = self.loss.costs_of(q / np.maximum(q.sum(axis=1, keepdims=True), 1e-300))
        return -np.where(np.isfinite(costs) & (q.sum(axis=1, keepdims=True) > 0), costs, np.inf)


def scale_of_loss(cost: CustomLoss, symbols: int) -> float:
    """The size of the slopes of C at the uniform announcement."""
    slopes = call(costs_and_slopes, cost.loss, np.full((1, symbols), 1.0 / symbols))[1][0]
    scale = float(abs(slopes - slopes.mean(axis=1, keepdims=True)).max()) / symbols
    return scale if 0 < scale < np.inf else 1.0


@of_rows
def _least_costs(cost: CustomLoss, w: Column) -> Scalar:
    """`CustomLoss.least` of every row of w."""
    return cost.least(w)


class ConjugatePoint(NamedTuple):
    """What answers scores g: the announcement q and the posterior v that share h(g), and how v moves with g and mu."""

    announcement: Arr  # (S,)
    posterior: Arr  # v, of the symbols with mass: the gradient of h
    level: Arr  # h(g)
    response: Arr  # the Hessian of h
    posterior_drift: Arr  # dv/dmu
    level_drift: Arr  # dh/dmu


class _ConjugateState(NamedTuple):
    q: Arr
    v: Arr
    s: Arr  # slacks of the scores
    z: Arr  # multipliers of q >= 0
    top: Arr  # the level sought
    row: Arr  # the multiplier of sum q = 1
    mu: Arr
    count: Arr
    settling: Arr  # steps since mu is what it is to be
    change: Arr  # the largest relative change of q and v in the last step


def answer(loss: Loss, g: Arr, least: ScalarLike = CENTRED) -> ConjugatePoint:
    """h(g) = min_q max_s ( g_s + C(s, q) ) over distributions q: a primal-dual interior-point method.

    h is convex with h(g + c) = h(g) + c, and -min_q sum_s w_s C(s, q) = sup { <g, w> : h(g) <= 0 } for w >= 0.
    The method ends on its central path, at products mu = `least`: h is then, up to a constant that keeps it near, the
    minimum of top - mu sum_s ln(top - g_s - C(s, q)) - mu sum_j ln q_j, which is smooth where h has kinks.
    """
    n, m = loss.size, len(loss.seen)
    q, v = jnp.full(n, 1.0 / n, g.dtype), jnp.full(m, 1.0 / m, g.dtype)
    scores = g + loss.costs(q)
    top = scores.max() + 1.0
    s = top - scores
    mu = s.mean() / m
    least = jnp.asarray(least, g.dtype)
    start = _ConjugateState(q, v, s, mu / q, top, jnp.zeros_like(mu), mu, jnp.array(0), jnp.array(0), jnp.ones_like(mu))

    def go_on(state: _ConjugateState) -> Arr:
        settled = (state.settling > 0) & ((state.change < _SETTLED) | (state.settling >= _MOST_SETTLING))
        return ~settled & (state.count < _MOST_STEPS)

    def step(state: _ConjugateState) -> _ConjugateState:
        q, v, s, z = state.q, state.v, state.s, state.z
        slopes, matrix = _system(loss, state)
        aim = jnp.maximum(_AIM * state.mu, least)
        dual = -(v @ slopes - z - state.row) + aim / q - z
        primal = -(g + loss.costs(q) + s - state.top) - aim / v + s
        sides = jnp.concatenate([dual, primal, jnp.stack([v.sum() - 1.0, 1.0 - q.sum()])])
        move = jnp.linalg.solve(matrix, sides)
        dq, dv, dtop, drow = move[:n], move[n : n + m], move[-2], move[-1]
        dz, ds = (aim - z * q - z * dq) / q, (aim - s * v - s * dv) / v
        falls = jnp.concatenate([-dq / q, -dv / v, -dz / z, -ds / s])
        a = _BOUNDARY / jnp.maximum(falls.max(), _BOUNDARY)
        change = jnp.maximum(abs(dq / q).max(), abs(dv / v).max())
        new = state._replace(
            q=q + a * dq, v=v + a * dv, s=s + a * ds, z=z + a * dz, top=state.top + a * dtop, row=state.row + a * drow
        )
        mu = (new.s @ new.v + new.z @ new.q) / (m + n)
        usable = jnp.isfinite(move).all() & jnp.isfinite(loss.costs(new.q)).all()
        accepted = jax.tree.map(lambda after, before: jnp.where(usable, after, before), new, state)
        settling = jnp.where(mu <= 2.0 * least, state.settling + 1, state.settling)
        settling = jnp.where(usable, settling, _MOST_SETTLING)
        mu = jnp.where(usable, mu, state.mu)
        return accepted._replace(mu=mu, count=state.count + 1, settling=settling, change=change)

    end = lax.while_loop(go_on, step, start)
    _, matrix = _system(loss, end)
    scores = jnp.concatenate([jnp.zeros((n, m)), -jnp.eye(m), jnp.zeros((2, m))])
    barrier = jnp.concatenate([1.0 / end.q, -1.0 / end.v, jnp.zeros(2)])[:, None]
    moves = jnp.linalg.solve(matrix, jnp.concatenate([scores, barrier], axis=1))[n : n + m]
    response, posterior_drift = moves[:, :-1], moves[:, -1]
    share = end.v / end.v.sum()
    level_drift = jnp.log(share).sum() - jnp.log(end.q).sum()
    level = share @ (g + loss.costs(end.q)) + end.mu * level_drift
    return ConjugatePoint(end.q, share, level, 0.5 * (response + response.T), posterior_drift, level_drift)


def _system(loss: Loss, state: _ConjugateState) -> tuple[Arr, Arr]:
    """(slopes of the costs, matrix of the Newton step in q, v, the level and the multiplier of the sum)."""
    q, v = state.q, state.v
    n, m = q.size, v.size
    slopes = jax.jacfwd(loss.costs)(q)
    bent = jax.hessian(lambda q: v @ loss.costs(q))(q) + jnp.diag(state.z / q)
    ones_q, ones_v, zero = jnp.ones((n, 1)), jnp.ones((m, 1)), jnp.zeros
    matrix = jnp.block(
        [
            [bent, slopes.T, zero((n, 1)), -ones_q],
            [slopes, -jnp.diag(state.s / v), -ones_v, zero((m, 1))],
            [zero((1, n)), -ones_v.T, zero((1, 1)), zero((1, 1))],
            [ones_q.T, zero((1, m)), zero((1, 1)), zero((1, 1))],
        ]
    )
    return slopes, matrix
