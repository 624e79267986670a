"""Sums over blocks of useful symbols: what lets an |X| x |Y| table be used without being stored.

`stream` evaluates a function on one block of x after another and adds up what it returns; with a mesh
every device takes its share of the blocks and the sums are added over the devices. The rest of this
module is what the solvers and the certificates sum: the output joint of a Gibbs mechanism, the
cheapest output of every row, and a survey of the distortions.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec

from jaxpriv.distortion import AbstractDistortion
from jaxpriv.joints import AbstractJoint

# Bytes of one block: on a CPU it should stay in the second-level cache while its rows are normalised;
# an accelerator wants enough work for all its cores.
_CPU_BLOCK, _ACCELERATOR_BLOCK = 2**22, 2**28
_SMALLEST, _LARGEST = 16, 2**13


def block_size(outputs: int, itemsize: int) -> int:
    """How many useful symbols go into one block of rows of `outputs` numbers."""
    goal = _CPU_BLOCK if jax.default_backend() == "cpu" else _ACCELERATOR_BLOCK
    return int(np.clip(2 ** int(np.log2(max(goal // (outputs * itemsize), 1))), _SMALLEST, _LARGEST))


def all_devices() -> Mesh | None:
    """A one-dimensional mesh of the devices of this process; None where there is only one."""
    devices = jax.local_devices()
    return Mesh(np.array(devices), ("x",)) if len(devices) > 1 else None


def stream(
    function: Callable[[Any, Any], tuple[Any, Any]], inputs: int, outputs: int, itemsize: int, mesh: Mesh | None
) -> tuple[Any, Any]:
    """Add up `function(index, valid)[0]` over blocks of useful symbols; stack its `[1]` along axis 0.

    `index` (B,) are useful symbols (clipped to the last one in the last block), `valid` (B,) marks the
    real ones: what is summed must leave the others out. Stacked values have shape (B, ...) a block.
    """
    size = min(block_size(outputs, itemsize), inputs)
    shares = 1 if mesh is None else mesh.size
    blocks = -(-inputs // (size * shares)) * shares
    starts = jnp.arange(blocks) * size

    def local(starts: Any) -> tuple[Any, Any]:
        def once(total: Any, start: Any) -> tuple[Any, Any]:
            index = start + jnp.arange(size)
            part, rows = function(jnp.minimum(index, inputs - 1), index < inputs)
            return jax.tree.map(jnp.add, total, part), rows

        shapes = jax.eval_shape(once_only, starts[0])
        zero = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
        if mesh is not None:
            zero = jax.tree.map(lambda z: lax.pcast(z, "x", to="varying"), zero)
        total, rows = lax.scan(once, zero, starts)
        return total if mesh is None else lax.psum(total, "x"), rows

    def once_only(start: Any) -> Any:
        return function(start + jnp.arange(size), jnp.ones(size, bool))[0]

    if mesh is None:
        total, rows = local(starts)
    else:
        sharded = PartitionSpec("x")
        run = jax.shard_map(local, mesh=mesh, in_specs=sharded, out_specs=(PartitionSpec(), sharded))
        total, rows = run(starts)
    return total, jax.tree.map(lambda r: r.reshape(-1, *r.shape[2:])[:inputs], rows)


class Block(NamedTuple):
    """The data of some useful symbols."""

    joint: Any  # (B, S) P(s, x), 0 where not valid
    mass: Any  # (B,)
    conditional: Any  # (B, S) P(s|x); the prior for a symbol without mass
    costs: Any  # (M, B, Y)


def block(
    joint: AbstractJoint, distortions: tuple[AbstractDistortion, ...], prior: Any, index: Any, valid: Any
) -> Block:
    """The data of the useful symbols `index`, in the precision of `prior`."""
    columns = jnp.where(valid[:, None], joint.columns(index).T.astype(prior.dtype), 0.0)
    mass = columns.sum(axis=1)
    present = mass > 0
    conditional = jnp.where(present[:, None], columns / jnp.where(present, mass, 1.0)[:, None], prior)
    costs = jnp.stack([d.rows(index).astype(prior.dtype) for d in distortions])
    return Block(columns, mass, conditional, costs)


def _product(a: Any, b: Any) -> Any:
    return jnp.matmul(a, b, precision="highest")


class Pass(NamedTuple):
    """What one pass over a Gibbs mechanism gives."""

    columns: Any  # (Y, S)
    distortions: Any  # (M,) E d_k
    spread: Any  # (M, M) sum_x p_x Cov(d_j, d_k | x): minus the slope of E d in the prices
    log_mass: Any  # () sum_x p_x ln sum_y e^logit
    hard: Any  # () sum_x p_x max_y (logit + level)


def gibbs_logits(scores: Any, prices: Any, data: Block) -> Any:
    """-P(.|x) . A_y - sum_k t_k d_k(x, y) for a block of x, (B, Y)."""
    return -_product(data.conditional, scores.T) - jnp.tensordot(prices, data.costs, 1)


def gibbs_pass(
    joint: AbstractJoint,
    distortions: tuple[AbstractDistortion, ...],
    prior: Any,
    scores: Any,
    prices: Any,
    levels: Any,
    *,
    spread: bool,
    mesh: Mesh | None,
) -> Pass:
    """One pass over W[x, .] = softmax_y( -P(.|x) . A_y - sum_k t_k d_k(x, y) ), A = `scores`, t = `prices`.

    The blocks have the precision of `prior`; sums over x that a step test subtracts are in that of
    `scores` (float64). `levels` (Y,) is added to the logits in `hard` alone; `spread` computes the
    covariances too.
    """
    inputs, outputs = distortions[0].shape
    low, high = prior.dtype, scores.dtype
    a, t, lift = scores.astype(low), prices.astype(low), levels.astype(low)

    def on_block(index: Any, valid: Any) -> tuple[Any, Any]:
        data = block(joint, distortions, prior, index, valid)
        logits = gibbs_logits(a, t, data)
        top = logits.max(axis=1)
        weights = jnp.exp(logits - top[:, None])
        total = weights.sum(axis=1)
        columns = _product(weights.T, data.joint / total[:, None])
        mass = data.mass.astype(high)
        # One reduction for each pair, not one contraction: XLA fuses a reduction with what it reads.
        mean = jnp.stack([(weights * cost).sum(axis=1) / total for cost in data.costs])  # (M, B)
        covariance = jnp.zeros((len(mean), len(mean)), high)
        if spread:
            square = [[(weights * c * d).sum(axis=1) / total for c in data.costs] for d in data.costs]
            covariance = (jnp.stack([jnp.stack(row) for row in square]) - mean[:, None] * mean).astype(high) @ mass
        log_mass = mass @ (top.astype(high) + jnp.log(total.astype(high)))
        hard = mass @ (logits + lift).max(axis=1).astype(high)
        return (columns, mean.astype(high) @ mass, covariance, log_mass, hard), None

    columns, mean, covariance, log_mass, hard = stream(on_block, inputs, outputs, np.dtype(low).itemsize, mesh)[0]
    return Pass(columns.astype(high), mean, covariance, log_mass, hard)


def cheapest(
    joint: AbstractJoint,
    distortions: tuple[AbstractDistortion, ...],
    prior: Any,
    scores: Any,
    prices: Any,
    *,
    mesh: Mesh | None,
) -> tuple[Any, Any]:
    """sum_x p_x min_y [ P(.|x) . g_y + sum_k l_k d_k(x, y) ], and the same sum of the absolute minima."""
    inputs, outputs = distortions[0].shape

    def on_block(index: Any, valid: Any) -> tuple[Any, Any]:
        data = block(joint, distortions, prior, index, valid)
        least = (_product(data.conditional, scores.T) + jnp.tensordot(prices, data.costs, 1)).min(axis=1)
        return (data.mass @ least, data.mass @ abs(least)), None

    return stream(on_block, inputs, outputs, np.dtype(prior.dtype).itemsize, mesh)[0]


class Survey(NamedTuple):
    """What is known about the distortions before anything is solved."""

    prior: Any  # (S,) P(s)
    mass: Any  # (X,) P(x)
    nearest: Any  # (X,) the output of least cost under equal weights of the distortions
    columns: Any  # (Y, S) the output joint of releasing that output
    least: Any  # (M,) sum_x p_x min_y d_k
    anchored: Any  # (M,) E d_k of releasing the nearest output
    constant: Any  # (M, Y) E d_k of releasing y whatever x is
    largest: Any  # (M,) max |d_k|
    faults: Any  # (X,) 0: fine, 1: a cost is not finite, 2: negative, 3: P(s, x) is not finite or negative


def survey(
    joint: AbstractJoint, distortions: tuple[AbstractDistortion, ...], scales: Any, *, mesh: Mesh | None
) -> Survey:
    """Read every block once: masses, least and constant distortions, and what is wrong with the operators."""
    inputs, outputs = distortions[0].shape
    private = joint.shape[0]

    def on_block(index: Any, valid: Any) -> tuple[Any, Any]:
        data = block(joint, distortions, jnp.zeros(private), index, valid)
        combined = jnp.tensordot(1.0 / scales, data.costs, 1)
        nearest = combined.argmin(axis=1)
        at = jnp.take_along_axis(data.costs, nearest[None, :, None], axis=2)[:, :, 0]  # (M, B)
        least = data.costs.min(axis=2) @ data.mass
        columns = jnp.zeros((outputs, private)).at[nearest].add(data.joint)
        sums = (data.joint.sum(axis=0), columns, least, at @ data.mass, jnp.einsum("b,mby->my", data.mass, data.costs))
        fault = jnp.where((data.costs < 0).any(axis=(0, 2)), 2, 0)
        fault = jnp.where(jnp.isfinite(data.costs).all(axis=(0, 2)), fault, 1)
        fine = (jnp.isfinite(data.joint) & (data.joint >= 0)).all(axis=1)
        fault = jnp.where(fine, fault, 3)
        return sums, (data.mass, nearest, abs(data.costs).max(axis=2).T, jnp.where(valid, fault, 0))

    sums, rows = stream(on_block, inputs, outputs, 8, mesh)
    prior, columns, least, anchored, constant = sums
    mass, nearest, largest, faults = rows
    return Survey(prior, mass, nearest, columns, least, anchored, constant, largest.max(axis=0), faults)


def posterior_scores(columns: Any, prior: Any) -> Any:
    """g_y(s) = ln P(s|y)/P(s), (Y, S): the adversary's best rule, finite by a tiny floor."""
    tiny = jnp.finfo(columns.dtype).tiny
    mass = jnp.maximum(columns.sum(axis=1, keepdims=True), tiny)
    ratio = jnp.maximum(columns, tiny * 1e8) / mass
    seen = prior > 0
    # An output without mass says nothing: score 0.
    known = mass > 1e10 * tiny
    return jnp.where(seen & known, jnp.log(ratio) - jnp.log(jnp.where(seen, prior, 1.0)), 0.0)


def log_mean_exp(scores: Any, prior: Any) -> Any:
    """ln sum_s p(s) e^{g_y(s)}, (Y,): 0 or less where the scores are valid."""
    seen = prior > 0
    top = jnp.where(seen, scores, -jnp.inf).max(axis=1, keepdims=True)
    return top[:, 0] + jnp.log(jnp.where(seen, prior * jnp.exp(scores - top), 0.0).sum(axis=1))


def leakage(columns: Any, prior: Any) -> Any:
    """I(S;Y) of an output joint (Y, S), as a sum of terms >= 0, so that small values keep their digits."""
    product = columns.sum(axis=1, keepdims=True) * prior
    present = product > jnp.finfo(columns.dtype).tiny
    ratio = jnp.where(present, columns / jnp.where(present, product, 1.0), 1.0)
    log_ratio = jnp.log(jnp.where(ratio > 0, ratio, 1.0))
    return jnp.where(present, product * (ratio * log_ratio - ratio + 1.0), 0.0).sum()
