"""A block of useful symbols under a Gibbs mechanism: one softmax of every symbol and its two matrix products.

With logits L[y, x] = - P(.|x) . A_y - sum_k t_k d_k(x, y) and W[., x] = softmax_y L[., x]. On CPU the kernel of
`_native/gibbs.c` does the same without going through the block again for every operation.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from jaxpriv._native import with_kernel
from jaxpriv._types import Arr


class GibbsBlock(NamedTuple):
    """What the mechanism gives for the block: sums over x in `columns`, over y in all others."""

    columns: Arr  # (Y, S) W J
    top: Arr  # (B,) max_y L
    total: Arr  # (B,) sum_y e^(L - top)
    hard: Arr  # (B,) max_y (L + level)
    mean: Arr  # (M, B) sum_y W d_k
    square: Arr  # (M, M, B) sum_y W d_j d_k; (0, 0, B) where not asked for


def gibbs_logits(scores: Arr, prices: Arr, conditional: Arr, costs: Arr) -> Arr:
    """L of a block of x, (Y, B), given costs (M, Y, B)."""
    return -_product(scores, conditional.T) - jnp.tensordot(prices, costs, 1)


def gibbs_block(
    conditional: Arr, joint: Arr, scores: Arr, costs: Arr, prices: Arr, levels: Arr, *, squares: bool
) -> GibbsBlock:
    """The sums of a block: P(s|x) (B, S), J = P(s, x) (B, S), A (Y, S), d_k (M, Y, B), t (M,), levels (Y,)."""
    return GibbsBlock(*_run[squares](conditional, joint, scores, costs, prices, levels))


def portable_block(
    conditional: Arr, joint: Arr, scores: Arr, costs: Arr, prices: Arr, levels: Arr, *, squares: bool
) -> tuple[Arr, ...]:
    """The block in JAX, for every device."""
    logits = gibbs_logits(scores, prices, conditional, costs)
    top = logits.max(axis=0)
    weights = jnp.exp(logits - top)
    total = weights.sum(axis=0)
    columns = _product(weights, joint / total[:, None])
    # One reduction for each number, not one contraction: XLA fuses a reduction with what it reads.
    mean = jnp.stack([(weights * cost).sum(axis=0) / total for cost in costs])
    square = jnp.zeros((0, 0, len(top)), top.dtype)
    if squares:
        pairs = [[(weights * c * d).sum(axis=0) / total for c in costs] for d in costs]
        square = jnp.stack([jnp.stack(row) for row in pairs])
    return columns, top, total, (logits + levels[:, None]).max(axis=0), mean, square


def _product(a: Arr, b: Arr) -> Arr:
    return jnp.matmul(a, b, precision="highest")


def _shapes(squares: bool) -> Callable[..., Any]:
    def shapes(
        conditional: Arr, joint: Arr, scores: Arr, costs: Arr, prices: Arr, levels: Arr
    ) -> tuple[tuple[int, ...], ...]:
        del joint, costs, levels
        (*batch, rows, _), count = conditional.shape, prices.shape[-1]
        pairs = (count, count) if squares else (0, 0)
        ends = (scores.shape[-2:], (rows,), (rows,), (rows,), (count, rows), (*pairs, rows))
        return tuple((*batch, *end) for end in ends)

    return shapes


def _weights(conditional: Arr, joint: Arr, scores: Arr, costs: Arr, prices: Arr, levels: Arr) -> tuple[int, ...]:
    """Room for the weights of one block, in groups of 32 (float64: 16) symbols."""
    del joint, costs, prices, levels
    group = 128 // conditional.dtype.itemsize
    return (-(-conditional.shape[-2] // group), scores.shape[-2], group)


_run = {
    squares: with_kernel(
        "jaxpriv_gibbs",
        _shapes(squares),
        lambda *args, squares=squares: portable_block(*args, squares=squares),
        dtypes=("float32", "float64"),
        scratch=_weights,
    )
    for squares in (False, True)
}
