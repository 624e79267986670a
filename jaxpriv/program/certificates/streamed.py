"""The certificate for operators: the numbers of `program.certify` from sums over blocks, float64."""

import jax
import numpy as np
from jax.sharding import Mesh

from jaxpriv._runtime.types import Arr
from jaxpriv.data.channel import AbstractChannel, push
from jaxpriv.data.streaming import cheapest
from jaxpriv.program.certificates.noise import UNIT
from jaxpriv.program.certify import Certificate, column_values, nonnegative
from jaxpriv.program.streamed import StreamedProgram

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
    slop = 4 * (sum(mechanism.shape) + columns.shape[1]) * UNIT + float(pushed.rounding)
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
    bound = float(total) - spent - chain * UNIT * size
    # Distortions are nonnegative, and no release leaks less than one that ignores the data.
    return max(bound if np.isfinite(bound) else -np.inf, float(program.least))
