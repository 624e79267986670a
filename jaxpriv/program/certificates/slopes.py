"""Slopes of the optimal value with any measures, from a mechanism and the rules and prices that prove its bound.

They are those of the Lagrangian (`lagrangian`) at the fixed optimum, through the steps that make the program from the
data: the program with all its rows, on which the rules of a solution that merged some are put back. With V =
outer(total + shift) (`scale_and_shift`) the slopes of V are those of total and shift times outer'.

The least worst-outcome leakage is the root e of `distance(data, e) = 0`, so its slopes are those of the distance's
Lagrangian over minus the one in e (implicit function theorem).
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from jaxpriv._runtime.resources import need_memory
from jaxpriv._runtime.types import Arr
from jaxpriv._runtime.validation import mechanism_array
from jaxpriv.data.channel import AbstractChannel, push
from jaxpriv.data.distortion import AbstractDistortion
from jaxpriv.data.joints import in_double
from jaxpriv.data.streaming import all_costs, block_size
from jaxpriv.errors import InputError
from jaxpriv.leakage import AbstractLeakage
from jaxpriv.leakage.rule_sets import Role, Term
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.problems.forms import AbstractProblemForm
from jaxpriv.program.certificates.lagrangian import lagrangian
from jaxpriv.program.lower import (
    Limits,
    distance_program,
    finite_limits,
    limits_of,
    measured_program,
    proved_program,
    scale_and_shift,
    streamed_program,
    terms_of,
)
from jaxpriv.program.solution import Solution


@dataclass(frozen=True, eq=False)
class Slopes:
    """Derivatives of the optimal value: in the joints (not centred), the tables, the target and further limits."""

    joint: np.ndarray  # (K, S, X)
    distortion: "np.ndarray | DistortionSlopes"  # (M, X, Y)
    target: np.ndarray  # (M,), or () of a limit on the leakage
    limits: np.ndarray


def slopes(problem: DistortionProblem, solution: Solution) -> Slopes:
    """The slopes of a solution of a problem with any measures; raises InputError where it holds no prices."""
    if problem.of_information and isinstance(solution.mechanism, AbstractChannel):
        return _slopes_by_blocks(problem, solution.mechanism, np.asarray(solution.multipliers))
    mechanism, value = mechanism_array(solution.mechanism, "solution.mechanism"), float(solution.value)
    limits = limits_of(problem)
    asked = ((problem.leakage, value), *limits) if problem.form.minimax else limits
    _, whole = proved_program(problem, solution.scores, value)
    k = np.asarray(solution.scores)[0]
    duals = np.asarray(solution.weights), np.asarray(solution.multipliers)
    k = k if whole else _on_every_row(problem, asked, k)

    at = {
        "joints": problem.joints,
        "tables": problem.tables(),
        "target": np.asarray(problem.form.target, dtype=np.float64),
        "limits": [np.float64(value) for _, value in finite_limits(asked)],
    }
    stated = tuple((measure, bool(np.isfinite(limit))) for measure, limit in asked)
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        gradient = _gradient(problem.leakage, type(problem.form), stated, at, (mechanism, k, *duals))
    by_name = jax.tree.map(np.asarray, gradient)
    each = iter(by_name["limits"])
    by_limit = np.array([0.0 if np.isinf(value) else float(next(each)) for _, value in asked])
    target = by_name["target"]
    if problem.form.minimax:
        factor = 0.0 if value == 0 else _inverse(-by_limit[0])
        by_limit = by_limit[1:]
    else:
        factor = 1.0 / scale_and_shift(problem)[0].slope(value)
    if problem.form.limits_leakage:
        target, by_limit = by_limit[0], by_limit[1:]
    each_slope = by_name["joints"], by_name["tables"], target, by_limit
    return Slopes(*(np.asarray(factor * slope) for slope in each_slope))


def _inverse(rate: float) -> float:
    if not rate > 0:
        raise InputError(
            "solution: its rules prove no lower bound above 0, so they hold no slopes; solve to a certified gap"
        )
    return 1.0 / rate


@partial(jax.jit, static_argnums=(0, 1, 2))
def _gradient(
    leakage: AbstractLeakage,
    form: type[AbstractProblemForm],
    stated: tuple[tuple[AbstractLeakage, bool], ...],
    at: dict[str, Arr],
    optimum: tuple[Arr, ...],
) -> dict[str, Arr]:
    """The slopes of the Lagrangian of the problem of a measure, in joints, tables, target and finite limits, at
    (mechanism, k, eta, price). `stated`: the measures that are limited, and whether each limit is finite.
    """

    def total(at: dict[str, Arr]) -> Arr:
        asked: dict[str, Any] = {form.name: at["target"]}
        problem = DistortionProblem(at["joints"], at["tables"], leakage=leakage, **asked)
        values = iter(at["limits"])
        under = tuple((measure, next(values) if finite else np.inf) for measure, finite in stated)
        if form.minimax:
            return lagrangian(distance_program(problem, under, True), *optimum)
        return lagrangian(measured_program(problem, under, True), *optimum) + scale_and_shift(problem)[1]

    return jax.grad(total)(at)


def _on_every_row(problem: DistortionProblem, asked: Limits, k: np.ndarray) -> np.ndarray:
    """Rules on the rows of a host program, on those of the whole one: where its Lagrangian reads them."""
    parts: list[np.ndarray] = [np.zeros((len(k), 0))]
    start = 0
    for measure, role, value in _stated(problem, asked):
        for joint in problem.joints:
            merged = terms_of(measure, joint, role, value)
            for every in terms_of(measure, joint, role, value, whole=True):
                spread = np.zeros((len(k), len(every.rows)))
                for term in merged:  # none of a relation without neighbours that differ
                    if not term.smooth:
                        spread[:, _places(term, every)] = k[:, start : start + len(term.rows)]
                    start += len(term.rows)
                parts.append(spread)
    return np.concatenate(parts, axis=1)


def _stated(problem: DistortionProblem, asked: Limits) -> list[tuple[AbstractLeakage, Role, float]]:
    """(measure, role, limit) of the terms of a program, in its order."""
    limits = [
        (limited, Role.WORST if limited.worst_outcome else Role.AVERAGE, value)
        for limited, value in finite_limits(asked)
    ]
    return [(problem.leakage, Role.OBJECTIVE, 0.0), *limits] if problem.form.sums_leakage else limits


def _places(merged: Term, every: Term) -> np.ndarray:
    """Which of all linear rows those that were kept are: each one is a copy, up to rounding."""
    of_merged, of_every = (np.column_stack([term.rows, term.reference]) for term in (merged, every))
    return abs(of_merged[:, None] - of_every).max(axis=2).argmin(axis=1)


# The same for mutual information and a mechanism that is an operator: one pass over blocks of useful symbols, in which
# nothing is differentiated. Memory is that of a pass of the solver, beside the result in the joint, (S, X).


class DistortionSlopes(eqx.Module):
    """dV/dd_m(x, y) = lambda_m P(x) W(x, y), (M, X, Y), a few useful symbols at a time.

    Attributes:
        channel: W.
        marginal: (X,): P(x).
        prices: (M,): lambda, the prices of the budgets or the multipliers of the problem.
    """

    channel: AbstractChannel
    marginal: np.ndarray
    prices: np.ndarray

    @property
    def shape(self) -> tuple[int, int, int]:
        """(M, |X|, |Y|)."""
        return len(self.prices), *self.channel.shape

    def rows(self, index: Arr) -> np.ndarray:
        """The slopes in d_m(x, .) for some useful symbols, float64, shape (M, len(index), Y)."""
        rows = self.channel.rows(index)
        return self.prices[:, None, None] * (self.marginal[np.atleast_1d(index)][:, None] * rows)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("slopes that are an operator compute their table: it cannot be viewed without a copy")
        need_memory(16.0 * math.prod(self.shape), f"a table of shape {self.shape}", "use rows(index) on fewer symbols")
        return self.rows(np.arange(self.shape[1])).astype(dtype or np.float64)


def _slopes_by_blocks(problem: DistortionProblem, channel: AbstractChannel, multipliers: np.ndarray) -> Slopes:
    """With g_y(s) = ln P(s|y)/P(s): sum_y W(x, y) g_y(s) + sum_m,y lambda_m d_m(x, y) W(x, y), and E d_m."""
    joint, distortions = problem.operators()
    joint = in_double(joint)
    priced = problem.form.prices_distortion
    prices = np.asarray(problem.form.target, dtype=np.float64) if priced else multipliers
    table = problem.joints
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        pushed = push(channel, joint, distortions, None)
        program, _, _ = streamed_program(problem, joint, distortions, table[0].sum(axis=1))
        scores = jnp.asarray(program.rules(np.asarray(pushed.columns)))
        inputs, outputs = problem.shape
        size = min(block_size(outputs, 8), inputs)
        parts = []
        for start in range(0, inputs, size):
            index = np.arange(start, start + size) % inputs
            block = _slopes_of_block(channel, distortions, scores, jnp.asarray(prices), index)
            parts.append(np.asarray(block)[:, : inputs - start])
    target = np.asarray(pushed.distortions) if priced else -prices
    by_distortion = DistortionSlopes(channel, np.asarray(table[0].sum(axis=0)), prices)
    return Slopes(np.concatenate(parts, axis=1)[None], by_distortion, target, np.zeros(0))


@eqx.filter_jit
def _slopes_of_block(
    channel: AbstractChannel, distortions: tuple[AbstractDistortion, ...], scores: Arr, prices: Arr, index: Arr
) -> Arr:
    """Slopes in P(., x) of some useful symbols, (S, B)."""
    rows = channel.weights(index)
    used = (all_costs(distortions, index, rows.dtype) * rows).sum(axis=2)
    return jnp.matmul(rows, scores, precision="highest").T + prices @ used
