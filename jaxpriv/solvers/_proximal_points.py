"""What the Newton steps to proximal points share, of piecewise linear and of smooth measures."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from jaxpriv._runtime.types import Arr

# What sigma is beyond rho omega. Of linear programs 3 takes 15 % more products (84 instances of 16 symbols), 10 takes
# 3 % more (48 of 64 symbols), and with 1e4 some stall. Of mutual information 3 and 300 are as good (15 of 64 symbols).
DUAL_LENGTH = 30.0
# The residual at which conjugate gradients end, relative to the first. Of .03, .1 and .3 the one with the fewest
# products.
_SOLVED = 0.1
# What rho is multiplied by after a centre that was reached, and divided by otherwise; of 2, 3 and 4 the best.
_GROWTH = 2.0
# rho stays between these. A choice.
_SHORTEST, _LONGEST = 1e-3, 1e9
# The share of the way to the balanced omega, on a logarithmic scale, and the most that a centre moves its logarithm by.
# With .5, or without the second, some of 48 instances of 64 symbols stall.
_GAIN, _SWING = 0.25, 0.5
# The most products of a system, and halvings of a step.
_PRODUCTS, _HALVINGS = 100, 40

T = TypeVar("T")
Level = TypeVar("Level")


class Lengths(NamedTuple):
    """tau = rho / omega, sigma = `DUAL_LENGTH` rho omega."""

    rho: Arr
    omega: Arr

    @property
    def tau(self) -> Arr:
        return self.rho / self.omega

    @property
    def sigma(self) -> Arr:
        return DUAL_LENGTH * self.rho * self.omega

    def after(self, reached: Arr, way: Arr, dual_way: Arr) -> "Lengths":
        """Those of the next centre: `reached`, whether this one was, and the ways of both sides to it."""
        balanced = reached & (way > 0) & (dual_way > 0)
        error = jnp.log(jnp.where(balanced, dual_way / jnp.where(balanced, way * self.omega, 1.0), 1.0))
        rho = jnp.clip(jnp.where(reached, self.rho * _GROWTH, self.rho / _GROWTH), _SHORTEST, _LONGEST)
        return Lengths(rho, self.omega * jnp.exp(jnp.clip(_GAIN * error, -_SWING, _SWING)))


def dot(a: T, b: T) -> Arr:
    return jnp.stack(jax.tree.leaves(jax.tree.map(lambda left, right: (left * right).sum(), a, b))).sum()


def along(start: T, length: Arr, change: T) -> T:
    return jax.tree.map(lambda a, b: a + length * b, start, change)


def conjugate_gradients(
    matrix: Callable[[T], T], inverse: Callable[[T], T], right: T, size: Callable[[T, T], Arr]
) -> tuple[T, Arr]:
    """The solution of matrix d = right, and how many products it took.

    Args:
        matrix: symmetric and positive.
        inverse: about its inverse.
        right: the right-hand side.
        size: of a residual r, from r and inverse(r).
    """

    def improve(carry: tuple[T, T, T, Arr, Arr, Arr]) -> tuple[T, T, T, Arr, Arr, Arr]:
        d, rest, direction, square, _, count = carry
        image = matrix(direction)
        length = square / dot(direction, image)
        d, rest = along(d, length, direction), along(rest, -length, image)
        z = inverse(rest)
        new = dot(rest, z)
        return d, rest, along(z, new / square, direction), new, size(rest, z), count + 1

    z = inverse(right)
    first = size(right, z)
    start = (jax.tree.map(jnp.zeros_like, right), right, z, dot(right, z), first, jnp.array(0))
    go_on = lambda carry: (carry[5] < _PRODUCTS) & (carry[4] > _SOLVED * first)  # noqa: E731
    d, *_, count = lax.while_loop(go_on, improve, start)
    return d, count


def step_length(
    rise: Callable[[Arr, Level], tuple[Arr, Level]], first: Arr, longest: Arr, level: Level
) -> tuple[Arr, Level]:
    """A length, at most `longest`, at which the slope along a step is at most half of the `first` one, by bisection.

    Args:
        rise: the slope at a length, and what it has found, from what it found last: `level` to begin with.
        first: the slope at 0.
        longest: the longest step.
        level: returned as `rise` had it last.
    """

    def halve(carry: tuple[Arr, Arr, Arr, Arr, Level, Arr]) -> tuple[Arr, Arr, Arr, Arr, Level, Arr]:
        low, high, length, slope, level, halvings = carry
        falls = slope <= 0  # not where it is no number
        low, high = jnp.where(falls, length, low), jnp.where(falls, high, length)
        middle = 0.5 * (low + high)
        slope, level = rise(middle, level)
        return low, high, middle, slope, level, halvings + 1

    def too_long(carry: tuple[Arr, Arr, Arr, Arr, Level, Arr]) -> Arr:
        _, _, length, slope, _, halvings = carry
        near = abs(slope) <= 0.5 * abs(first)
        return ~near & ((length < longest) | ~(slope <= 0)) & (halvings < _HALVINGS)

    start = (jnp.zeros_like(longest), longest, longest, *rise(longest, level), jnp.array(0))
    _, _, length, _, level, _ = lax.while_loop(too_long, halve, start)
    return length, level
