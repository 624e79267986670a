"""A user's loss as part of a program, and the announcement that answers given scores."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpriv.leakage import AbstractCost, CustomLoss
from jaxpriv.leakage._base import Unit

_MOST_STEPS = 60
# The mean complementarity product at the end. A posterior is no function of scores that several of them give
# (an announcement on a face of the simplex): so many digits are smoothed over.
_CENTRED = 1e-11


class Loss(AbstractCost):
    """C(s, q) / scale for the private symbols that have mass, q a distribution over all `size` of them.

    `scale` is the size of the slopes at the uniform q; `without_output` is what the adversary pays who sees nothing,
    rounded down by `slack`. Equal where the user's function is the same object: compiled programs are kept by it.
    """

    cost: CustomLoss
    seen: tuple[int, ...]
    size: int
    scale: float
    without_output: float = 0.0
    slack: float = 0.0

    @property
    def unit(self) -> Unit:
        return self.cost.unit

    @staticmethod
    def of(cost: CustomLoss, prior: np.ndarray) -> "Loss":
        """The loss on the symbols that have mass."""
        kept = np.flatnonzero(prior > 0)
        parts = cost, tuple(kept.tolist()), len(prior), scale_of_loss(cost, len(prior))
        (below,), (above,) = Loss(*parts).interval(prior[None, kept])
        return Loss(*parts, float(below), float(above - below))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Loss) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return id(self.cost.loss), self.cost.proper, self.cost.steps, self.seen, self.size

    def costs(self, q: Any) -> Any:
        """C(s, q) of the symbols with mass."""
        return self.cost.loss(q)[jnp.array(self.seen)] / self.scale

    def least(self, w: Any) -> Any:
        """min_q sum_s w_s C(s, q) for a column on the symbols with mass."""
        return self.cost.least(self._everywhere(w)) / self.scale

    def accuracy(self, w: Any) -> Any:
        """What `least` may be too large by, if the loss is convex."""
        return self.cost.accuracy(self._everywhere(w)) / self.scale

    def answered(self, w: Any) -> Any:
        """C(., q) of the symbols with mass for the announcement q that answers w > 0."""
        return self.costs(self.cost.announcement(self._everywhere(w)))

    def interval(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """min_q sum_s w_s C(s, q) of every row of w (Y, S), from below and from above."""
        with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
            above, accuracy = (np.asarray(part) for part in _compiled(self).least(w))
        return above - accuracy, above

    def announcements(self, g: np.ndarray) -> np.ndarray:
        """The q that answers every row of scores g (Y, S): near a distribution, wherever the iteration ended."""
        with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
            return np.asarray(_compiled(self).answer(g))

    def costs_of(self, q: np.ndarray) -> np.ndarray:
        """C(., q) of every row of q (Y, S)."""
        with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
            return np.asarray(_compiled(self).costs(q))

    def _everywhere(self, w: Any) -> Any:
        return jnp.zeros(self.size, w.dtype).at[jnp.array(self.seen)].set(w)


def scale_of_loss(cost: CustomLoss, symbols: int) -> float:
    """The size of the slopes of C at the uniform announcement."""
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        slopes = np.asarray(jax.jacfwd(cost.loss)(jnp.full(symbols, 1.0 / symbols)))
    scale = float(abs(slopes - slopes.mean(axis=1, keepdims=True)).max()) / symbols
    return scale if 0 < scale < np.inf else 1.0


class _Compiled(NamedTuple):
    """What the host asks of a loss, for the rows of an array."""

    least: Callable[[Any], Any]  # min_q <w, C(., q)> and its accuracy
    answer: Callable[[Any], Any]
    costs: Callable[[Any], Any]


@lru_cache(maxsize=8)
def _compiled(loss: Loss) -> _Compiled:
    """JAX's caches hold a program as long as its function lives: the latest losses alone are kept."""
    return _Compiled(
        jax.jit(jax.vmap(lambda w: (loss.least(w), loss.accuracy(w)))),
        jax.jit(jax.vmap(lambda g: answer(loss, g).announcement)),
        jax.jit(jax.vmap(lambda q: loss.costs(q))),
    )


class Answer(NamedTuple):
    """What answers scores g: the announcement q and the posterior v that share h(g), and how v moves with g."""

    announcement: Any  # (S,)
    posterior: Any  # v, of the symbols with mass: the gradient of h
    level: Any  # h(g)
    response: Any  # the Hessian of h


class _State(NamedTuple):
    q: Any
    v: Any
    s: Any  # slacks of the scores
    z: Any  # multipliers of q >= 0
    top: Any  # the level sought
    row: Any  # the multiplier of sum q = 1
    mu: Any
    count: Any


def answer(loss: Loss, g: Any) -> Answer:
    """h(g) = min_q max_s ( g_s + C(s, q) ) over distributions q: a primal-dual interior-point method.

    h is convex with h(g + c) = h(g) + c, and -min_q sum_s w_s C(s, q) = sup { <g, w> : h(g) <= 0 } for w >= 0.
    """
    n, m = loss.size, len(loss.seen)
    q, v = jnp.full(n, 1.0 / n, g.dtype), jnp.full(m, 1.0 / m, g.dtype)
    scores = g + loss.costs(q)
    top = scores.max() + 1.0
    s = top - scores
    mu = s.mean() / m
    start = _State(q, v, s, mu / q, top, jnp.zeros_like(mu), mu, jnp.array(0))

    def go_on(state: _State) -> Any:
        return (state.mu > _CENTRED) & (state.count < _MOST_STEPS)

    def step(state: _State) -> _State:
        q, v, s, z = state.q, state.v, state.s, state.z
        slopes, matrix = _system(loss, state)
        aim = 0.1 * state.mu
        dual = -(v @ slopes - z - state.row) + aim / q - z
        primal = -(g + loss.costs(q) + s - state.top) - aim / v + s
        sides = jnp.concatenate([dual, primal, jnp.stack([v.sum() - 1.0, 1.0 - q.sum()])])
        move = jnp.linalg.solve(matrix, sides)
        dq, dv, dtop, drow = move[:n], move[n : n + m], move[-2], move[-1]
        dz, ds = (aim - z * q - z * dq) / q, (aim - s * v - s * dv) / v
        falls = jnp.concatenate([-dq / q, -dv / v, -dz / z, -ds / s])
        a = 0.95 / jnp.maximum(falls.max(), 0.95)
        new = _State(
            q + a * dq, v + a * dv, s + a * ds, z + a * dz, state.top + a * dtop, state.row + a * drow, aim, aim
        )
        mu = (new.s @ new.v + new.z @ new.q) / (m + n)
        usable = jnp.isfinite(move).all() & jnp.isfinite(loss.costs(new.q)).all()
        kept = jax.tree.map(lambda after, before: jnp.where(usable, after, before), new, state)
        return kept._replace(mu=jnp.where(usable, mu, 0.0), count=state.count + 1)

    end = lax.while_loop(go_on, step, start)
    _, matrix = _system(loss, end)
    scores = jnp.concatenate([jnp.zeros((n, m)), -jnp.eye(m), jnp.zeros((2, m))])
    response = jnp.linalg.solve(matrix, scores)[n : n + m]
    share = end.v / end.v.sum()
    return Answer(end.q, share, share @ (g + loss.costs(end.q)), 0.5 * (response + response.T))


def _system(loss: Loss, state: _State) -> tuple[Any, Any]:
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
