"""The certificate of mutual information for operators: the numbers of `tables`, from sums over blocks, in float64."""

from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from jaxpriv._types import Arr
from jaxpriv.certificates._base import Certificate, nonnegative
from jaxpriv.certificates.information import valid_scores
from jaxpriv.channel import AbstractChannel, push
from jaxpriv.problems.streamed import StreamedProgram
from jaxpriv.streaming import cheapest, leakage

_leakage = jax.jit(leakage)
_cheapest = jax.jit(cheapest, static_argnames="mesh")
_UNIT = float(np.finfo(np.float64).eps) / 2


def certify_streamed(
    program: StreamedProgram, mechanism: AbstractChannel, scores: Arr, multipliers: Arr, mesh: Mesh | None = None
) -> Certificate:
    """Value and lower bound of `mechanism`, proved by the adversary's `scores`.

        OPT >= sum_x p_x min_y [ sum_s P(s|x) g_y(s) + sum_k l_k d_k(x, y) ] - sum_k l_k D_k

    with l = `multipliers` (the program's own prices in multiplier form, where there is no last term).

    Args:
        program: operators in float64.
        mechanism: evaluated in float64; its output joint is its own sum over x.
        scores: g, shape (Y, S); any numbers.
        multipliers: l, shape (M,); any numbers, taken as 0 where they are not prices. Ignored in
            multiplier form.
        mesh: devices that share the blocks.
    """
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        value, leaked, used, violation = _value(program, mechanism, mesh)
        bound = _bound(program, np.asarray(scores, dtype=np.float64), np.asarray(multipliers, dtype=np.float64), mesh)
    return Certificate(value, bound, np.array([leaked]), used, violation)


def _value(program: StreamedProgram, mechanism: AbstractChannel, mesh: Mesh | None) -> tuple[Any, Any, Any, Any]:
    pushed = push(mechanism, program.joint, program.distortions, mesh)
    columns, used = np.asarray(pushed.columns), np.asarray(pushed.distortions)
    leaked = float(_leakage(columns, columns.sum(axis=0)))
    # As in `tables`, and every W[x, y] may be off by a relative `rounding`: with sum w |ln(w/(p|w|))| <= I + 2/e
    # this moves I by no more than rounding (I + 1), and E d by rounding times itself.
    slop = 4 * (sum(mechanism.shape) + columns.shape[1]) * _UNIT + float(pushed.rounding)
    # Nobody learns more than S has to say, whatever rounding may do.
    prior = columns.sum(axis=0)
    most = -float((prior * np.log(np.where(prior > 0, prior, 1.0))).sum()) * (1 + slop) + slop
    value = min(leaked * (1 + slop) + slop, most)
    if program.prices is not None:
        return value + float(program.prices @ used) * (1 + slop), leaked, used, 0.0
    scale = np.where(abs(program.budgets) + abs(used) > 0, abs(program.budgets) + abs(used), 1.0)
    violation = np.maximum((used - program.budgets) / scale - 4 * slop, 0.0).max()
    return value, leaked, used, float(violation)


def _bound(program: StreamedProgram, scores: np.ndarray, multipliers: np.ndarray, mesh: Mesh | None) -> float:
    prior = np.asarray(program.prior)
    if program.prices is not None:
        prices, spent = np.asarray(program.prices), 0.0
    else:
        prices = nonnegative(np, multipliers)
        spent = float(prices @ program.budgets)
    rule, level = valid_scores(prior, scores)
    total, size = _cheapest(program.joint, program.distortions, prior, rule, prices, mesh=mesh)
    # |fl(sum) - sum| <= n u sum|terms|: chains over s inside a row, then over x. At the cheapest y the price
    # of the distortion is at most |least| plus the largest score.
    chain = 2 * (len(prior) + program.shape[0]) + len(prices) + 8
    size = float(size) + 2 * float(abs(rule).max() + abs(level).max()) + abs(spent)
    bound = float(total) - spent - chain * _UNIT * size
    return max(bound, 0.0)  # d >= 0 and leakage is never negative
