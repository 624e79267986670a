"""Instances of a batch step in groups: each ends where it ends alone, however many steps the others take."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv.solvers import AbstractSolver, Goal, iterate

_TOGETHER = 16  # so many step side by side


class Best(NamedTuple):
    value: jax.Array
    gap: jax.Array


class Halved(NamedTuple):
    best: Best
    count: jax.Array


class Halving(AbstractSolver):
    """Halves a gap, and terminates after so many steps of its first attempt."""

    attempts: int = eqx.field(static=True, default=2)

    def blank(self, program):
        return Best(program["value"], jnp.full((), jnp.inf))

    def init(self, program, attempt, best):
        gap = jnp.minimum(best.gap, program["gap"])
        return Halved(Best(program["value"], gap), jnp.array(0))

    def step(self, program, state):
        best = Best(1.25 * state.best.value, 0.5 * state.best.gap)
        return Halved(best, state.count + 1)

    def terminate(self, program, state):
        return state.count >= program["stall"]


def batch(count):
    draw = np.random.default_rng(count)
    gaps, stalls = 2.0 ** draw.integers(-2, 40, count), draw.integers(3, 30, count)
    program = {"gap": jnp.asarray(gaps), "stall": jnp.asarray(stalls), "value": jnp.asarray(draw.uniform(1, 2, count))}
    return program, Goal(jnp.asarray(draw.choice([1e-3, 1.0], count)), jnp.zeros(count), jnp.zeros(count))


def taken(tree, i):
    return jax.tree.map(lambda leaf: leaf[i], tree)


def alike(found, alone):
    jax.tree.map(lambda leaf, *ones: np.testing.assert_array_equal(leaf, np.stack(ones)), found, *alone)


def steps(program, goal, most):
    return iterate(Halving(), program, goal, most)


def test_every_instance_ends_where_it_ends_alone():
    alone = jax.jit(steps)
    for count in (1, _TOGETHER - 1, 5 * _TOGETHER + 3):
        given = batch(count)
        alike(jax.vmap(alone, (0, 0, None))(*given, 37), [alone(*taken(given, i), 37) for i in range(count)])


def test_limits_of_steps_may_differ_and_what_is_shared_needs_no_axis():
    program, _ = batch(3 * _TOGETHER)
    most, alone = jnp.arange(3 * _TOGETHER) % 7, jax.jit(lambda part, most: steps(part, Goal(1e-3), most))
    alike(jax.jit(jax.vmap(alone))(program, most), [alone(taken(program, i), most[i]) for i in range(len(most))])


def test_a_batch_of_batches_is_one_after_another():
    two = jax.tree.map(lambda leaf: leaf.reshape(2, -1), batch(2 * _TOGETHER))
    rows = jax.vmap(lambda program, goal: steps(program, goal, 40))
    alike(jax.jit(jax.vmap(rows))(*two), [rows(*taken(two, i)) for i in (0, 1)])
