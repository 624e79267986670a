"""Instances of a batch step in groups: each ends where it ends alone, however many steps the others take."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv.solvers import AbstractSolver, Goal, iterate
from jaxpriv.solvers._base import _TOGETHER


class Best(NamedTuple):
    value: jax.Array
    gap: jax.Array


class Halved(NamedTuple):
    best: Best
    count: jax.Array


class Halving(AbstractSolver):
    """Halves a gap, and terminates after so many steps of its first attempt."""

    attempts: int = eqx.field(static=True, default=2)

    def blank(self, program: dict) -> Best:
        return Best(program["value"], jnp.full((), jnp.inf))

    def init(self, program: dict, attempt: jax.Array, best: Best) -> Halved:
        gap = jnp.minimum(best.gap, program["gap"])
        return Halved(Best(program["value"], gap), jnp.array(0))

    def step(self, program: dict, state: Halved) -> Halved:
        best = Best(1.25 * state.best.value, 0.5 * state.best.gap)
        return Halved(best, state.count + 1)

    def terminate(self, program: dict, state: Halved) -> jax.Array:
        return state.count >= program["stall"]


def batch(count: int) -> tuple[dict, Goal]:
    draw = np.random.default_rng(count)
    gaps, stalls = 2.0 ** draw.integers(-2, 40, count), draw.integers(3, 30, count)
    program = {"gap": jnp.asarray(gaps), "stall": jnp.asarray(stalls), "value": jnp.asarray(draw.uniform(1, 2, count))}
    return program, Goal(jnp.asarray(draw.choice([1e-3, 1.0], count)), jnp.zeros(count), jnp.zeros(count))


def alike(found: object, alone: list) -> None:
    jax.tree.map(lambda leaf, *ones: np.testing.assert_array_equal(leaf, np.stack(ones)), found, *alone)


def test_every_instance_ends_where_it_ends_alone():
    for count in (1, _TOGETHER - 1, 5 * _TOGETHER + 3):
        program, goal = batch(count)
        steps = jax.jit(lambda program, goal, most: iterate(Halving(), program, goal, most))
        one = lambda i: jax.tree.map(lambda leaf, i=i: leaf[i], (program, goal))  # noqa: B023, E731
        alike(jax.vmap(steps, (0, 0, None))(program, goal, 37), [steps(*one(i), 37) for i in range(count)])


def test_limits_of_steps_may_differ_and_what_is_shared_needs_no_axis():
    program, _ = batch(3 * _TOGETHER)
    most = jnp.arange(3 * _TOGETHER) % 7
    steps = lambda part, most: iterate(Halving(), part, Goal(1e-3), most)  # noqa: E731
    found, alone = jax.jit(jax.vmap(steps))(program, most), jax.jit(steps)
    alike(found, [alone(jax.tree.map(lambda leaf, i=i: leaf[i], program), most[i]) for i in range(len(most))])


def test_a_batch_of_batches_is_one_after_another():
    program, goal = batch(2 * _TOGETHER)
    two = jax.tree.map(lambda leaf: leaf.reshape(2, -1), (program, goal))
    steps = jax.vmap(lambda program, goal: iterate(Halving(), program, goal, 40))
    found, rows = jax.jit(jax.vmap(steps))(*two), [steps(*jax.tree.map(lambda leaf, i=i: leaf[i], two)) for i in (0, 1)]
    alike(found, rows)
