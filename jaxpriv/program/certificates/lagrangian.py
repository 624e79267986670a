"""Bounds from the Lagrangian of a program: of any measures, and in closed form of mutual information.

At a mechanism W, with rules k_j(y), prices of the limits and prices eta of worst outcomes,

    Lambda = <cost, W> + sum_j price_j ( sum_y phi_j(A_j W_y) - bound_j )
             + sum_y,j eta_yj ( phi_j(A_j W_y) + offset_j . W_y ) + sum_r price_r ( <constraints_r, W> - budgets_r ),

price_j = 1 in role OBJECTIVE. By the envelope theorem (Danskin 1967; Milgrom and Segal 2002, Theorem 5) the derivative
of the least value is that of Lambda at the fixed optimum, where primal and dual optima are unique. A smooth phi is
differentiated itself: where it has one gradient, that is the one of its rule. A piecewise linear one has several where
outputs tie, as at the optimum they do; there the rule of the dual decides, moved into its set as in the certificate.

Of mutual information, for ANY scores g_y(s) of the adversary (how much output y is evidence for s),

    I(S;Y) >= sum_{s,y} P(s, y) g_y(s)   whenever  sum_s p(s) exp g_y(s) <= 1  (Gibbs / Donsker-Varadhan).

No dual feasibility is assumed: scores are first moved into that set, which costs tightness and never validity. So
the laws of additive noise are certified and, from sums over blocks, operators.
"""

import dataclasses
import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import PyTree
from numpy.typing import DTypeLike

from jaxpriv._runtime.resources import need_memory
from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv._runtime.validation import is_traced, mechanism_array
from jaxpriv.data.channel import AbstractChannel, push
from jaxpriv.data.distortion import AbstractDistortion
from jaxpriv.data.joints import in_double
from jaxpriv.data.streaming import all_costs, block_size, cheapest
from jaxpriv.errors import InputError
from jaxpriv.leakage import AbstractLeakage
from jaxpriv.leakage.rule_sets import Role, Term, entropic_rules
from jaxpriv.leakage.shannon import average_leakage
from jaxpriv.problems.distortion import DistortionProblem, NoiseProblem
from jaxpriv.problems.forms import AbstractProblemForm
from jaxpriv.program.certify import Certificate, column_values, into_set, most_excess, nonnegative, shared_prices
from jaxpriv.program.convex import Program, StreamedProgram
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

# The unit of rounding: a correctly rounded operation is off by at most this share.
_UNIT = float(np.finfo(np.float64).eps) / 2


def valid_scores(prior: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores moved into G = { g : sum_s p(s) e^{g(s)} <= 1 } by subtracting their log-mean-exp, and that level.

    `prior` (S,), `scores` (Y, S), the level (Y,) is <= 0 (above the largest score). Symbols without
    mass are irrelevant and get score 0. The level is accurate RELATIVE to itself: a steep price of
    leakage (a limit near 0) multiplies scores close to 0, and an error of rounding in e^g would show.
    """
    rule = np.asarray(entropic_rules(prior, np.where(np.isnan(scores), 0.0, scores)))
    return rule, -np.where(prior > 0, rule, -np.inf).max(axis=1)


def certify_noise(problem: NoiseProblem, noise: Arr, scores: Arr, multiplier: ScalarLike) -> Certificate:
    """The certificate of additive noise, where all rows share one law: the minimum is over z, not over W.

        OPT >= min_z [ sum_{y,s} P(S=s, X+z=y) g_y(s) + lambda d(z) ] - lambda D

    `noise` (Z,), `scores` (1, Y, S), `multiplier` (): any numbers.
    """
    mechanism = problem.mechanism(np.asarray(noise, dtype=np.float64))
    leakage = average_leakage(problem.joint, mechanism)
    used = float(problem.distortion @ noise)
    slop = 4 * (sum(mechanism.shape) + problem.joint.shape[0]) * _UNIT
    scale = abs(problem.budget) + float(abs(problem.distortion) @ noise)
    violation = max((used - problem.budget) / (scale or 1.0) - 0.5 * most_excess(np.float64), 0.0)

    rule, level = valid_scores(problem.joint.sum(axis=1), np.asarray(scores, dtype=np.float64)[0])
    price = nonnegative(np, np.asarray(multiplier, dtype=np.float64))
    columns = problem.columns()
    gain = np.einsum("ysz,ys->z", columns, rule)
    excess = problem.distortion - problem.distortion.min()
    slack = problem.budget - float(problem.distortion.min())
    chain = mechanism.size + problem.joint.shape[0] + 8
    size = np.einsum("ysz,ys->z", columns, abs(rule)).max() + abs(level).max()
    size = size + price * (excess.max() + abs(slack))
    bound = (gain + price * excess).min() - price * slack - chain * _UNIT * size
    value = leakage * (1 + slop) + slop
    return Certificate(value, max(bound, 0.0), np.array([leakage]), np.array([used]), violation)


# The certificate for operators: the numbers of `program.certify` from sums over blocks, float64.


_cheapest = jax.jit(cheapest, static_argnames="mesh")


def certify_streamed(
    program: StreamedProgram, mechanism: AbstractChannel, rules: Arr, multipliers: Arr, mesh: Mesh | None = None
) -> Certificate:
    """Value and lower bound of `mechanism`, proved by the adversary's `rules`, as totals of the program.

        OPT >= sum_x p_x min_y [ sum_s P(s|x) (B' g_y)(s) + sum_k l_k d_k(x, y) ] - sum_k l_k D_k

    with l = `multipliers` (the program's own prices in multiplier form, where there is no last term).

    Args:
        program: operators in float64.
        mechanism: evaluated in float64; its output joint is its own sum over x.
        rules: g, shape (Y, T); any numbers.
        multipliers: l, shape (M,); any numbers, taken as 0 where they are not prices. Ignored in
            multiplier form.
        mesh: devices that share the blocks.
    """
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"), np.errstate(over="ignore", invalid="ignore"):
        value, leaked, used, violation = _value(program, mechanism, mesh)
        bound = _bound(program, np.asarray(rules, dtype=np.float64), np.asarray(multipliers, dtype=np.float64), mesh)
    return Certificate(value, bound, np.array([leaked]), used, violation)


def _value(
    program: StreamedProgram, mechanism: AbstractChannel, mesh: Mesh | None
) -> tuple[Arr, float, np.ndarray, float]:
    pushed = push(mechanism, program.joint, program.distortions, mesh)
    columns, used = np.asarray(pushed.columns), np.asarray(pushed.distortions)
    rows = program.rows(columns)
    each = column_values(program.term, rows.T)
    leaked = float(each.sum())
    # As `program.certify`, and every W[x, y] may be off by a relative `rounding`. This moves E d by rounding times
    # itself, and phi(w) = <g, w> by rounding times sum |g w|: of mutual information at most I + 2/e.
    slop = 4 * (sum(mechanism.shape) + columns.shape[1]) * _UNIT + float(pushed.rounding)
    moved = float(abs(program.rules(columns) * rows).sum())
    value = leaked + slop * max(float(abs(each).sum() + abs(rows).sum()), moved)
    if program.prices is not None:
        return value + float(program.prices @ used) * (1 + slop), leaked, used, 0.0
    scale = np.where(abs(program.budgets) + abs(used) > 0, abs(program.budgets) + abs(used), 1.0)
    violation = np.maximum((used - program.budgets) / scale - 4 * slop, 0.0).max()
    return value, leaked, used, float(violation)


def _bound(program: StreamedProgram, rules: np.ndarray, multipliers: np.ndarray, mesh: Mesh | None) -> float:
    if program.prices is not None:
        prices, spent = np.asarray(program.prices), 0.0
    else:
        prices = nonnegative(np, multipliers)
        spent = float(prices @ program.budgets)
    valid = program.term.rule_set.moved_in(program.term, np.where(np.isfinite(rules), rules, 0.0))
    scores = program.scores(valid)
    largest = abs(scores if program.transfer is None else abs(valid) @ abs(program.transfer)).max()
    total, size = _cheapest(program.joint, program.distortions, program.prior, scores, prices, mesh=mesh)
    # |fl(sum) - sum| <= n u sum|terms|: chains over s inside a row, then over x. At the cheapest y the price
    # of the distortion is at most |least| plus the largest score.
    chain = 2 * (len(program.prior) + program.shape[0]) + len(prices) + 8
    size = float(size) + 4 * float(largest) + abs(spent)
    bound = float(total) - spent - chain * _UNIT * size
    # Distortions are nonnegative, and no release leaks less than one that ignores the data.
    return max(bound if np.isfinite(bound) else -np.inf, float(program.least))


def lagrangian(program: Program, mechanism: Arr, k: Arr, eta: Arr, price: Arr) -> Arr:
    """The Lagrangian Lambda of the program; its gradient in the arrays of `program` is the slope of the optimum."""
    xp = jnp if is_traced(program, mechanism, k, eta, price) else np
    limits = len(program.budgets)
    eta, price = nonnegative(xp, xp.asarray(eta)), nonnegative(xp, xp.asarray(price))
    if program.peaked:
        price = shared_prices(xp, program, price)
    used = (program.constraints * mechanism).sum(axis=(1, 2))
    total = (program.cost * mechanism).sum() + price[:limits] @ (used - program.budgets)
    for term, at in zip(program.terms, program.layout, strict=True):
        weight = xp.ones_like(k[:, 0])
        if term.priced:
            weight = price[at.limit] * weight
            total = total - price[at.limit] * term.bound
        elif at.worst is not None:
            weight = eta[:, at.worst]
            total = total + weight @ (term.offset @ mechanism)
        w = jnp.matmul(term.rows, mechanism, precision="highest") if xp is jnp else term.rows @ mechanism
        claimed = column_values(term, w) * weight if term.smooth else into_set(xp, term, k[:, at.rows], weight) * w.T
        total = total + claimed.sum()
    return total


def along(program: Program, change: Program, *at: Arr) -> Arr:
    """The derivative of the Lagrangian as the arrays of the program change, at a fixed (mechanism, k, eta, price)."""
    return jax.jvp(lambda parts: lagrangian(_with_parts(program, parts), *at), (_parts(program),), (_parts(change),))[1]


def _parts(program: Program) -> PyTree:
    """The arrays that the Lagrangian depends on."""
    terms = [(term.rows, term.reference, term.cap, term.offset, term.bound) for term in program.terms]
    return terms, program.cost, program.constraints, program.budgets


def _with_parts(program: Program, parts: PyTree) -> Program:
    terms, cost, constraints, budgets = parts
    names = ("rows", "reference", "cap", "offset", "bound")
    changed = [
        dataclasses.replace(term, **dict(zip(names, numbers, strict=True)))
        for term, numbers in zip(program.terms, terms, strict=True)
    ]
    return dataclasses.replace(program, terms=tuple(changed), cost=cost, constraints=constraints, budgets=budgets)


# Slopes of the optimal value with any measures, from a mechanism and the rules and prices that prove its bound.
#
# They are those of the Lagrangian (`lagrangian`) at the fixed optimum, through the steps that make the program from the
# data: the program with all its rows, on which the rules of a solution that merged some are put back. With V =
# outer(total + shift) (`scale_and_shift`) the slopes of V are those of total and shift times outer'.
#
# The least worst-outcome leakage is the root e of `distance(data, e) = 0`, so its slopes are those of the distance's
# Lagrangian over minus the one in e (implicit function theorem).


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
