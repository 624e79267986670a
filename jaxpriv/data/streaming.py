"""Sums over blocks of useful symbols: what lets an |X| x |Y| table be used without being stored.

`stream` evaluates a function on one block of x after another and adds up what it returns; with a mesh every device
takes its share of the blocks and the sums are added over the devices. The rest of this module is what the solvers and
the certificates sum: the output joint of a Gibbs mechanism, the cheapest output of every row, and a survey of the
distortions.

A block of useful symbols under a Gibbs mechanism is one softmax of every symbol and its two matrix products: with
logits L[y, x] = - P(.|x) . A_y - sum_k t_k d_k(x, y), W[., x] = softmax_y L[., x]. On CPU the kernel of
`_runtime/native/gibbs.c` does the same without going through the block again for every operation.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import multihost_utils
from jax.sharding import Mesh, PartitionSpec
from jax.typing import DTypeLike
from jaxtyping import PyTree

from jaxpriv._runtime.compilation import named_mesh, target_platform
from jaxpriv._runtime.native import with_kernel
from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv.data.distortion import Distortions
from jaxpriv.data.joints import AbstractJoint, Sharded
from jaxpriv.errors import InputError


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
    conditional: Arr,
    joint: Arr,
    scores: Arr,
    costs: Arr,
    prices: Arr,
    levels: Arr,
    *,
    squares: bool,
    portable: bool = False,
) -> GibbsBlock:
    """The sums of a block: P(s|x) (B, S), J = P(s, x) (B, S), A (Y, S), d_k (M, Y, B), t (M,), levels (Y,)."""
    run = partial(portable_block, squares=squares) if portable else _run[squares]
    return GibbsBlock(*run(conditional, joint, scores, costs, prices, levels))


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


def _shapes(squares: bool) -> Callable[..., PyTree]:
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


# Bytes of one block: on a CPU it should stay in the second-level cache while its rows are normalised; an accelerator
# needs enough work for all its cores.
_CPU_BLOCK, _ACCELERATOR_BLOCK = 2**22, 2**28
# Products with fewer than 64 rows are slow on a CPU, so that a block has as many while it is no larger than 64 MiB. Of
# short rows there are 8,192 at most.
_FEW_ROWS, _MOST_ROWS, _MOST_BYTES = 64, 2**13, 2**26
# A tile of (x, y) pairs whose rows need not be normalised. With 128 rows XLA gives all of the work to one thread of a
# CPU: 8,192 x 8,192 pairs take .88 s on two cores then, and .45 s with 512.
_TILE_ROWS, _TILE_COLUMNS = 512, 2048


def block_size(outputs: int, itemsize: int) -> int:
    """How many useful symbols go into one block of rows of `outputs` numbers: a power of two."""
    row = outputs * itemsize
    on_cpu = target_platform() == "cpu"
    goal, most = (_CPU_BLOCK, _MOST_BYTES) if on_cpu else (_ACCELERATOR_BLOCK, _ACCELERATOR_BLOCK)
    rows = min(max(goal // row, _FEW_ROWS), max(most // row, 1), _MOST_ROWS)
    return 2 ** (rows.bit_length() - 1)


def all_devices() -> Mesh | None:
    """A one-dimensional mesh of the devices that the caller named, or of those of this process; None where there is
    only one.
    """
    if named_mesh() is not None or jax.config.jax_default_device is not None:
        return named_mesh()
    devices = jax.local_devices()
    return Mesh(np.array(devices), ("x",)) if len(devices) > 1 else None


def shared(mesh: Mesh | None) -> bool:
    """Whether processes share a mesh: all of them then take the same steps, or wait for one another for ever."""
    return mesh is not None and mesh.is_multi_process


def agreed(mesh: Mesh | None, number: float) -> float:
    """The largest of the numbers that the processes of a mesh have; the number itself where there is only one."""
    if not shared(mesh):
        return number
    return float(np.max(multihost_utils.process_allgather(np.asarray(number, dtype=np.float64))))


T = TypeVar("T")
Operators = TypeVar("Operators")


def of_first(mesh: Mesh | None, tree: T) -> T:
    """The arrays of the first process of a mesh, for all of them: processors of other kinds round in other ways."""
    return multihost_utils.broadcast_one_to_all(tree) if shared(mesh) else tree


def check_mesh(mesh: object, name: str) -> None:
    """None, or a mesh of one axis "x"."""
    if mesh is not None and not (isinstance(mesh, Mesh) and mesh.axis_names == ("x",)):
        raise InputError(f"{name}: mesh must be None or a jax.sharding.Mesh of one axis, 'x'")


def check_place(joint: AbstractJoint, mesh: Mesh | None) -> None:
    """A sharded joint lies on the devices of the mesh, in their order; on one device if there is no mesh."""
    if not isinstance(joint, Sharded):
        return
    fits = joint.mesh.size == 1 if mesh is None else np.array_equal(joint.mesh.devices, mesh.devices)
    if not fits:
        raise InputError("joint: its columns lie on other devices than those that solve; leave out device= and mesh=")


def _is_sharded(part: object) -> bool:
    return isinstance(part, Sharded)


def stream(
    function: Callable[[Operators, Arr, Arr], tuple[PyTree, PyTree]],
    operators: Operators,
    inputs: int,
    size: int,
    mesh: Mesh | None,
) -> tuple[PyTree, PyTree]:
    """Add up `function(operators, index, valid)[0]` over blocks of `size` useful symbols; stack its `[1]` along axis 0.

    `index` (B,) are useful symbols (clipped to the last one of the device in its last block), `valid` (B,) marks the
    real ones: what is summed must leave the others out. Stacked values have shape (B, ...) a block. Each device of a
    mesh takes as many consecutive useful symbols, and of a `Sharded` joint in `operators` its own columns alone: what
    reads one, and arrays that are indexed by x, must be there and not in the function's closure. Without a mesh that of
    such a joint is taken.

    Raises:
        InputError: a sharded joint lies on other devices than those of the mesh.
    """
    leaves, structure = jax.tree.flatten(operators, is_leaf=_is_sharded)
    cut = [leaf for leaf in leaves if isinstance(leaf, Sharded)]
    if cut and mesh is None and cut[0].mesh.size > 1:
        mesh = cut[0].mesh
    for joint in cut:
        check_place(joint, mesh)
    shares = 1 if mesh is None else mesh.size
    share = -(-inputs // shares)
    size = min(size, share)
    starts = jnp.arange(-(-share // size)) * size
    # No process can read the rows of another one: where several share the mesh, each gets all.
    whole = shared(mesh)

    def local(first: ScalarLike, local_operators: Operators) -> tuple[PyTree, PyTree]:
        end = jnp.minimum(first + share, inputs)

        def once(total: PyTree, start: ScalarLike) -> tuple[PyTree, PyTree]:
            index = first + start + jnp.arange(size)
            part, rows = function(local_operators, jnp.minimum(index, end - 1), index < end)
            return jax.tree.map(jnp.add, total, part), rows

        shapes = jax.eval_shape(lambda: function(local_operators, jnp.arange(size), jnp.ones(size, bool))[0])
        zero = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
        total, rows = lax.scan(once, zero, starts)
        return total, jax.tree.map(lambda r: r.reshape(-1, *r.shape[2:])[:share], rows)

    def of_device(first: Arr, *arrays: Arr) -> tuple[PyTree, PyTree]:
        device_leaves = [
            leaf.part(array, first[0]) if isinstance(leaf, Sharded) else array
            for leaf, array in zip(leaves, arrays, strict=True)
        ]
        total, rows = local(first[0], jax.tree.unflatten(structure, device_leaves))
        if whole:
            rows = jax.tree.map(lambda part: lax.all_gather(part, "x", tiled=True), rows)
        return lax.psum(total, "x"), rows

    if mesh is None:
        total, rows = local(0, operators)
    else:
        along, columns, everywhere = PartitionSpec("x"), PartitionSpec(None, "x"), PartitionSpec()
        given = along, *(columns if isinstance(leaf, Sharded) else everywhere for leaf in leaves)
        # Unchecked: JAX cannot infer it for the results of a kernel.
        outputs = everywhere, everywhere if whole else along
        run = jax.shard_map(of_device, mesh=mesh, in_specs=given, out_specs=outputs, check_vma=False)
        arrays = [leaf.values if isinstance(leaf, Sharded) else leaf for leaf in leaves]
        total, rows = run(jnp.arange(shares) * share, *arrays)
    return total, jax.tree.map(lambda r: r[:inputs], rows)


class Block(NamedTuple):
    """The data of some useful symbols."""

    joint: Arr  # (B, S) P(s, x), 0 where not valid
    mass: Arr  # (B,)
    conditional: Arr  # (B, S) P(s|x); the prior for a symbol without mass


def block(joint: AbstractJoint, prior: Arr, index: Arr, valid: Arr) -> Block:
    """The data of the useful symbols `index`, in the precision of `prior`."""
    columns = jnp.where(valid[:, None], joint.columns(index).T.astype(prior.dtype), 0.0)
    mass = columns.sum(axis=1)
    present = mass > 0
    conditional = jnp.where(present[:, None], columns / jnp.where(present, mass, 1.0)[:, None], prior)
    return Block(columns, mass, conditional)


def all_costs(distortions: Distortions, index: Arr, dtype: DTypeLike) -> Arr:
    """d_k(x, .) of the useful symbols `index`, (M, B, Y)."""
    return jnp.stack([d.rows(index).astype(dtype) for d in distortions])


def _product(a: Arr, b: Arr) -> Arr:
    return jnp.matmul(a, b, precision="highest")


class Pass(NamedTuple):
    """What one pass over a Gibbs mechanism gives."""

    columns: Arr  # (Y, S)
    distortions: Arr  # (M,) E d_k
    spread: Arr  # (M, M) sum_x p_x Cov(d_j, d_k | x): minus the slope of E d in the prices
    log_mass: Arr  # () sum_x p_x ln sum_y e^logit
    hard: Arr  # () sum_x p_x max_y (logit + level)


def gibbs_pass(
    joint: AbstractJoint,
    distortions: Distortions,
    prior: Arr,
    scores: Arr,
    prices: Arr,
    levels: Arr,
    *,
    spread: bool,
    mesh: Mesh | None,
    portable: bool = False,
) -> Pass:
    """One pass over W[x, .] = softmax_y( -P(.|x) . A_y - sum_k t_k d_k(x, y) ), A = `scores`, t = `prices`.

    The blocks have the precision of `prior`; sums over x that a step test subtracts are in that of
    `scores` (float64). `levels` (Y,) is added to the logits in `hard` alone; `spread` computes the
    covariances too. `portable`: without the kernel of the CPU, in programs that are lowered for several platforms.
    """
    inputs, outputs = distortions[0].shape
    low, high = prior.dtype, scores.dtype
    a, t, lift = scores.astype(low), prices.astype(low), levels.astype(low)

    def on_block(joint: AbstractJoint, index: Arr, valid: Arr) -> tuple[PyTree, PyTree]:
        data = block(joint, prior, index, valid)
        costs = jnp.swapaxes(all_costs(distortions, index, low), 1, 2)
        got = gibbs_block(data.conditional, data.joint, a, costs, t, lift, squares=spread, portable=portable)
        mass, mean = data.mass.astype(high), got.mean
        covariance = jnp.zeros((len(mean), len(mean)), high)
        if spread:
            covariance = (got.square - mean[:, None] * mean).astype(high) @ mass
        log_mass = mass @ (got.top.astype(high) + jnp.log(got.total.astype(high)))
        return (got.columns, mean.astype(high) @ mass, covariance, log_mass, mass @ got.hard.astype(high)), None

    columns, mean, covariance, log_mass, hard = stream(
        on_block, joint, inputs, block_size(outputs, np.dtype(low).itemsize), mesh
    )[0]
    return Pass(columns.astype(high), mean, covariance, log_mass, hard)


def cheapest(
    joint: AbstractJoint,
    distortions: Distortions,
    prior: Arr,
    scores: Arr,
    prices: Arr,
    *,
    mesh: Mesh | None,
) -> tuple[Arr, Arr]:
    """sum_x p_x min_y [ P(.|x) . g_y + sum_k l_k d_k(x, y) ], and the same sum of the absolute minima."""
    inputs, outputs = distortions[0].shape
    width = min(_TILE_COLUMNS, outputs)
    tiles = -(-outputs // width)

    def on_block(joint: AbstractJoint, index: Arr, valid: Arr) -> tuple[PyTree, PyTree]:
        data = block(joint, prior, index, valid)

        def on_tile(least: Arr, number: ScalarLike) -> tuple[Arr, None]:
            start = jnp.minimum(number * width, outputs - width)  # the last tile may overlap the one before
            a = lax.dynamic_slice_in_dim(scores, start, width)
            costs = jnp.stack([d.tile(index, start, width).astype(prior.dtype) for d in distortions])
            value = _product(data.conditional, a.T) + jnp.tensordot(prices, costs, 1)
            return jnp.minimum(least, value.min(axis=1)), None

        least = lax.scan(on_tile, jnp.full_like(data.mass, jnp.inf), jnp.arange(tiles))[0]
        return (data.mass @ least, data.mass @ abs(least)), None

    return stream(on_block, joint, inputs, _TILE_ROWS, mesh)[0]


class Survey(NamedTuple):
    """What is known about the distortions before anything is solved."""

    prior: Arr  # (S,) P(s)
    nearest: Arr  # (X,) the output of least sum_k d_k / scales_k
    faults: Arr  # (X,) 0: fine, 1: a cost is not finite, 2: negative, 3: P(s, x) is not finite or negative
    columns: Arr  # (Y, S) the output joint of releasing the nearest output
    least: Arr  # (M,) sum_x p_x min_y d_k
    ties: Arr  # (M,) useful symbols with mass for which several outputs have that least cost
    at_feasible_point: Arr  # (M,) E d_k of releasing the nearest output
    constant: Arr  # (M, Y) E d_k of releasing y whatever x is


def survey(joint: AbstractJoint, distortions: Distortions, scales: Arr, *, sound: bool, mesh: Mesh | None) -> Survey:
    """Read every block once: masses, least and constant distortions, and what is wrong with the operators.

    `sound` costs are known to be finite and >= 0: they are not looked through for faults.
    """
    inputs, outputs = distortions[0].shape

    def on_block(joint: AbstractJoint, index: Arr, valid: Arr) -> tuple[PyTree, PyTree]:
        data = block(joint, jnp.zeros(joint.shape[0]), index, valid)
        costs = all_costs(distortions, index, jnp.float64)
        nearest = jnp.tensordot(1.0 / scales, costs, 1).argmin(axis=1)
        constant = jnp.einsum("b,mby->my", data.mass, costs, precision="highest")
        fault = jnp.zeros_like(nearest)
        if not sound:
            fault = jnp.where((costs < 0).any(axis=(0, 2)), 2, fault)
            fault = jnp.where(jnp.isfinite(costs).all(axis=(0, 2)), fault, 1)
        fault = jnp.where((jnp.isfinite(data.joint) & (data.joint >= 0)).all(axis=1), fault, 3)
        low = costs.min(axis=2)
        several = (costs <= low[:, :, None] * (1 + 1e-12)).sum(axis=2) > 1
        ties = (several & (data.mass > 0)).sum(axis=1)
        return (low @ data.mass, ties, constant), (nearest, jnp.where(valid, fault, 0))

    (least, ties, constant), (nearest, faults) = stream(on_block, joint, inputs, block_size(outputs, 8), mesh)
    columns, at_feasible_point = released(joint, distortions, nearest, mesh=mesh)
    return Survey(columns.sum(axis=0), nearest, faults, columns, least, ties, at_feasible_point, constant)


def released(joint: AbstractJoint, distortions: Distortions, target: Arr, *, mesh: Mesh | None) -> tuple[Arr, Arr]:
    """(output joint (Y, S), E d_k (M,)) of releasing y = target[x]: |S| |X| work."""
    (inputs, outputs), private = distortions[0].shape, joint.shape[0]

    def on_block(given: tuple[AbstractJoint, Arr], index: Arr, valid: Arr) -> tuple[PyTree, PyTree]:
        joint, target = given
        table = jnp.where(valid[:, None], joint.columns(index).T, 0.0)
        y = target[index]
        columns = jnp.zeros((outputs, private), table.dtype).at[y].add(table)
        return (columns, jnp.stack([d.pairs(index, y) @ table.sum(axis=1) for d in distortions])), None

    # One block a device: what a block adds to is as large as all of them.
    return stream(on_block, (joint, jnp.asarray(target)), inputs, inputs, mesh)[0]


def marginal(joint: AbstractJoint, *, mesh: Mesh | None) -> tuple[Arr, Arr]:
    """P(s), (S,), and the fault of every x as in `Survey`: all that costs known to be sound leave to be asked."""

    def on_block(joint: AbstractJoint, index: Arr, valid: Arr) -> tuple[PyTree, PyTree]:
        columns = jnp.where(valid[:, None], joint.columns(index).T, 0.0)
        fine = (jnp.isfinite(columns) & (columns >= 0)).all(axis=1)
        return columns.sum(axis=0), jnp.where(fine, 0, 3)

    return stream(on_block, joint, joint.shape[1], block_size(joint.shape[0], 8), mesh)
