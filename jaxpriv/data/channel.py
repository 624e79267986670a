"""A released mechanism P(y|x) as an operator: rows on demand, sampling, and its output joint.

A mechanism on a large alphabet is a compact state plus a rule. `Gibbs` is what mirror-descent
methods produce: W[x, .] = softmax_y( -P(.|x) . A_y - t . d(x, .) ) needs |Y| |S| numbers. `ShiftedCoset`
and `SpreadCoset` move a symbol from its cell to another one and keep its place in it.
`Deterministic` releases one symbol for each x, and `Mixture` tosses a coin between two mechanisms.
All evaluate in float64.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, PyTree
from numpy.typing import DTypeLike

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.importing import names_of
from jaxpriv._runtime.resources import need_memory
from jaxpriv._runtime.types import Arr
from jaxpriv.data.distortion import Distortions
from jaxpriv.data.joints import AbstractJoint
from jaxpriv.data.streaming import all_costs, block, block_size, gibbs_logits, released, stream
from jaxpriv.errors import InputError

__dir__ = names_of(__name__)


class Pushed(NamedTuple):
    """A joint and distortions seen through a mechanism."""

    columns: Arr  # (Y, S) w_y(s) = P(S=s, Y=y)
    distortions: Arr  # (M,) E d_k
    rounding: Arr  # () bound on the relative error of any W[x, y]


class AbstractChannel(eqx.Module):
    """P(y|x) for alphabets of sizes `shape = (|X|, |Y|)`."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(|X|, |Y|)."""

    @abstractmethod
    def weights(self, index: Arr) -> Arr:
        """P(. | x) for an integer array of useful symbols, (len(index), |Y|); for traced code."""

    @abstractmethod
    def push(self, joint: AbstractJoint, distortions: Distortions, mesh: Mesh | None) -> Pushed:
        """The output joint of `joint` and the expected distortions; traced or not."""

    @abstractmethod
    def draw(self, key: Array, index: Arr) -> Arr:
        """One released symbol for every entry of `index`; for traced code."""

    def rows(self, index: Arr) -> np.ndarray:
        """P(. | x) for some useful symbols, float64, shape (len(index), |Y|)."""
        index = _symbols(index, self.shape[0])
        need_memory(8.0 * len(index) * self.shape[1], f"{len(index)} rows of {self.shape[1]} outputs", _FEWER)
        return np.asarray(_in_float64(_weights, self, index))

    def matrix(self) -> np.ndarray:
        """The whole table (X, Y), float64; refused with `ResourceError` where it does not fit into memory."""
        need_memory(16.0 * math.prod(self.shape), f"a table of shape {self.shape}", _FEWER)
        return self.rows(np.arange(self.shape[0]))

    def sample(self, key: Array, index: Arr) -> np.ndarray:
        """Draw y ~ P(. | x) for every useful symbol in `index` (repeats are independent draws).

        For experiments: `key` is a JAX random key, which is not a cryptographic source of randomness.
        """
        index = _symbols(index, self.shape[0])
        size = max(1, _SAMPLED // self.shape[1])
        keys = jax.random.split(key, -(-len(index) // size))
        parts = [index[i : i + size] for i in range(0, len(index), size)]
        drawn = [_in_float64(_draws, self, k, part) for k, part in zip(keys, parts, strict=True)]
        return np.concatenate([np.asarray(d) for d in drawn]) if drawn else np.zeros(0, int)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("a mechanism operator computes its table: it cannot be viewed without a copy")
        return self.matrix().astype(dtype or np.float64)


_T = TypeVar("_T")

_FEWER = "use rows(index) on fewer symbols at a time"
# Numbers that are computed at a time while sampling.
_SAMPLED = 2**24


def _in_float64(function: Callable[..., _T], *args: object) -> _T:
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        return function(*args)


# Functions of the module: a function made in a call would be compiled in each.


@eqx.filter_jit
def _weights(channel: AbstractChannel, index: Arr) -> Arr:
    return channel.weights(index)


@eqx.filter_jit
def _draws(channel: AbstractChannel, key: Array, index: Arr) -> Arr:
    return channel.draw(key, index)


def _symbols(index: Arr, inputs: int) -> np.ndarray:
    array = np.atleast_1d(np.asarray(index))
    array = array.astype(int) if array.size == 0 else array
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError("index must be an integer or a one-dimensional array of integers (useful symbols)")
    bad = (array < 0) | (array >= inputs)
    if bad.any():
        raise InputError(f"index[{int(np.argmax(bad))}] is not one of the {inputs} useful symbols")
    return array


def _draw_from_rows(channel: AbstractChannel, key: Array, index: Arr) -> Arr:
    return jax.random.categorical(key, jnp.log(channel.weights(index)), axis=1)


class Gibbs(AbstractChannel):
    """W[x, .] = softmax_y( -P(.|x) . A_y - sum_k t_k d_k(x, .) )."""

    joint: AbstractJoint
    distortions: Distortions
    prior: Arr  # (S,)
    scores: Arr  # (Y, S): A
    prices: Arr  # (M,): t

    @property
    def shape(self) -> tuple[int, int]:
        return self.distortions[0].shape

    @xp.double_on_host
    def weights(self, index: Arr) -> Arr:
        data = block(self.joint, self.prior, index, jnp.ones(len(index), bool))
        costs = jnp.swapaxes(all_costs(self.distortions, index, self.prior.dtype), 1, 2)
        return jax.nn.softmax(gibbs_logits(self.scores, self.prices, data.conditional, costs), axis=0).T

    def push(self, joint: AbstractJoint, distortions: Distortions, mesh: Mesh | None) -> Pushed:
        inputs, outputs = self.shape

        def on_block(given: tuple[Gibbs, AbstractJoint], index: Arr, valid: Arr) -> tuple[PyTree, PyTree]:
            gibbs, joint = given
            rows = gibbs.weights(index)
            columns = jnp.where(valid[:, None], joint.columns(index).T, 0.0)
            costs = jnp.stack([d.rows(index) for d in distortions])
            used = (rows * costs).sum(axis=2) @ columns.sum(axis=1)
            moved = jnp.matmul(rows.T, columns, precision="highest")
            # A relative error of e^L is the absolute error of L, a sum of S + M products. Those of a rare private
            # symbol are small whatever its score.
            shares = block(gibbs.joint, gibbs.prior, index, valid).conditional
            return (moved, used), shares @ abs(gibbs.scores).max(axis=0) + gibbs.prices @ abs(costs).max(axis=2)

        (columns, used), sizes = stream(on_block, (self, joint), inputs, block_size(outputs, 8), mesh)
        terms = self.scores.shape[1] + len(distortions) + 8
        return Pushed(columns, used, terms * jnp.finfo(sizes.dtype).eps * (1.0 + sizes.max()))

    def draw(self, key: Array, index: Arr) -> Arr:
        return _draw_from_rows(self, key, index)


class Deterministic(AbstractChannel):
    """y = target[x]."""

    target: Arr  # (X,) integers
    outputs: int = eqx.field(static=True)

    @property
    def shape(self) -> tuple[int, int]:
        return self.target.shape[0], self.outputs

    @xp.double_on_host
    def weights(self, index: Arr) -> Arr:
        return jax.nn.one_hot(self.target[index], self.outputs, dtype=jnp.float64)

    def push(self, joint: AbstractJoint, distortions: Distortions, mesh: Mesh | None) -> Pushed:
        columns, used = released(joint, distortions, self.target, mesh=mesh)
        return Pushed(columns, used, jnp.zeros(()))

    def draw(self, key: Array, index: Arr) -> Arr:
        del key
        return self.target[index]


class _AbstractCoset(AbstractChannel):
    """A few symbols that each x may release, with their probabilities."""

    @property
    @abstractmethod
    def reached(self) -> int:
        """Numbers of a row of `_targets`."""

    @abstractmethod
    def _targets(self, index: Arr) -> tuple[Arr, Arr]:
        """(released symbols, probabilities), both (B, `reached`)."""

    @xp.double_on_host
    def weights(self, index: Arr) -> Arr:
        targets, probabilities = self._targets(index)  # targets may coincide
        rows = jnp.arange(len(targets))[:, None]
        return jnp.zeros((len(targets), self.shape[1])).at[rows, targets].add(probabilities)

    def draw(self, key: Array, index: Arr) -> Arr:
        targets, probabilities = self._targets(index)
        cell = jax.random.categorical(key, jnp.log(probabilities), axis=1)
        return jnp.take_along_axis(targets, cell[:, None], axis=1)[:, 0]

    @abstractmethod
    def _columns(self, joint: AbstractJoint, mesh: Mesh | None) -> Arr:
        """The output joint (Y, S)."""

    def push(self, joint: AbstractJoint, distortions: Distortions, mesh: Mesh | None) -> Pushed:
        """E d_k is summed over the few outputs that each x can have."""

        def on_block(joint: AbstractJoint, index: Arr, valid: Arr) -> tuple[PyTree, PyTree]:
            targets, probabilities = self._targets(index)
            mass = jnp.where(valid, joint.columns(index).sum(axis=0), 0.0)
            costs = [(probabilities * d.pairs(index[:, None], targets)).sum(axis=1) for d in distortions]
            return jnp.stack(costs) @ mass, None

        used = stream(on_block, joint, self.shape[0], block_size(self.reached, 8), mesh)[0]
        return Pushed(self._columns(joint, mesh), used, jnp.zeros(()))


class ShiftedCoset(_AbstractCoset):
    """Cells of `width` consecutive symbols: draw a new cell, keep the place in the cell.

    x at position p of its order releases the symbol at position p + width (j - i), i its cell and j ~ moves[i]
    (positions beyond the last symbol release the last one). X and Y share one set of values, in any order.
    """

    moves: Arr  # (m, m) P(cell j | cell i)
    order: Arr  # (X,) the symbol of X at each position
    position: Arr  # (X,) the position of each symbol of X
    released: Arr  # (X,) the symbol of Y at each position
    width: int = eqx.field(static=True)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.order), len(self.order)

    @property
    def reached(self) -> int:
        return len(self.moves)

    def _targets(self, index: Arr) -> tuple[Arr, Arr]:
        """(released symbol for each new cell, probability), both (B, m)."""
        position = self.position[index][:, None]
        cell = position // self.width
        moved = position + self.width * (jnp.arange(len(self.moves)) - cell)
        return self.released[jnp.minimum(moved, len(self.order) - 1)], self.moves[cell[:, 0]]

    def _columns(self, joint: AbstractJoint, mesh: Mesh | None) -> Arr:
        del mesh
        size, cells = len(self.order), len(self.moves)
        sorted_joint = jnp.asarray(joint.columns(self.order)).T  # (X, S)
        private = sorted_joint.shape[1]
        padded = jnp.zeros((cells * self.width, private)).at[:size].set(sorted_joint)
        # Every place k in the cell moves alike: one product over cells for all places and all s.
        moved = jnp.matmul(self.moves.T, padded.reshape(cells, -1), precision="highest").reshape(-1, private)
        beyond = moved[size:].sum(axis=0)
        return jnp.zeros((size, private)).at[self.released].set(moved[:size].at[-1].add(beyond))


class SpreadCoset(_AbstractCoset):
    """`ShiftedCoset` between two alphabets: k symbols of a cell of X are spread, in order, over the l of one of Y.

    The symbol at place r of its cell i stands for the shares from r/k to (r + 1)/k of that cell. It draws j ~ moves[i]
    and releases a symbol of j by how much of that interval is the symbol's own. What is released within j then does not
    depend on i, however the values are spaced (the symbol nearest to the same place would).
    """

    moves: Arr  # (m, n) P(cell j of Y | cell i of X)
    cell: Arr  # (X,) i
    place: Arr  # (X,) r
    size: Arr  # (m,) k
    starts: Arr  # (n + 1,) the first position of each cell of Y
    order: Arr  # (Y,) the symbol at each position
    most: int = eqx.field(static=True)  # symbols of a cell of Y that an interval may meet

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.cell), len(self.order)

    @property
    def reached(self) -> int:
        return self.moves.shape[1] * self.most

    def _targets(self, index: Arr) -> tuple[Arr, Arr]:
        """(released symbol, probability) for each new cell and each symbol met there, both (B, n most)."""
        cell, place = self.cell[index], self.place[index][:, None, None]
        k = self.size[cell][:, None, None]
        first, count = self.starts[:-1, None], jnp.diff(self.starts)[:, None]
        at = (place * count) // k + jnp.arange(self.most)  # (B, n, most) places in the cell of Y; whole numbers, exact
        overlap = jnp.minimum((place + 1) * count, (at + 1) * k) - jnp.maximum(place * count, at * k)
        share = jnp.maximum(overlap, 0) / count
        targets = self.order[jnp.minimum(first + at, self.starts[1:, None] - 1)]
        probabilities = self.moves[cell][:, :, None] * share
        return targets.reshape(len(cell), -1), probabilities.reshape(len(cell), -1)

    def _columns(self, joint: AbstractJoint, mesh: Mesh | None) -> Arr:
        inputs, outputs = self.shape

        def on_block(joint: AbstractJoint, index: Arr, valid: Arr) -> tuple[PyTree, PyTree]:
            targets, probabilities = self._targets(index)
            columns = jnp.where(valid[:, None], joint.columns(index).T, 0.0)
            parts = probabilities[:, :, None] * columns[:, None, :]
            return jnp.zeros((outputs, columns.shape[1])).at[targets].add(parts), None

        return stream(on_block, joint, inputs, block_size(self.reached * joint.shape[0], 8), mesh)[0]


class Middles(_AbstractCoset):
    """x releases the symbol `released[j]` of a cell j ~ moves[cell of x]."""

    moves: Arr  # (m, n) P(cell j of Y | cell i of X)
    cell: Arr  # (X,) i
    released: Arr  # (n,)
    outputs: int = eqx.field(static=True)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.cell), self.outputs

    @property
    def reached(self) -> int:
        return len(self.released)

    def _targets(self, index: Arr) -> tuple[Arr, Arr]:
        probabilities = self.moves[self.cell[index]]
        return jnp.broadcast_to(self.released, probabilities.shape), probabilities

    def _columns(self, joint: AbstractJoint, mesh: Mesh | None) -> Arr:
        def on_block(joint: AbstractJoint, index: Arr, valid: Arr) -> tuple[PyTree, PyTree]:
            columns = jnp.where(valid[:, None], joint.columns(index).T, 0.0)
            return jnp.zeros((len(self.moves), columns.shape[1])).at[self.cell[index]].add(columns), None

        merged = stream(on_block, joint, len(self.cell), block_size(joint.shape[0], 8), mesh)[0]
        moved = jnp.matmul(self.moves.T, merged, precision="highest")
        return jnp.zeros((self.outputs, moved.shape[1])).at[self.released].set(moved)


class Mixture(AbstractChannel):
    """`first` with probability 1 - share, `second` with probability `share`; which one is not released."""

    first: AbstractChannel
    second: AbstractChannel
    share: Arr  # ()

    @property
    def shape(self) -> tuple[int, int]:
        return self.first.shape

    @xp.double_on_host
    def weights(self, index: Arr) -> Arr:
        return (1.0 - self.share) * self.first.weights(index) + self.share * self.second.weights(index)

    def push(self, joint: AbstractJoint, distortions: Distortions, mesh: Mesh | None) -> Pushed:
        first, second = (push(part, joint, distortions, mesh) for part in (self.first, self.second))
        mix = lambda a, b: (1.0 - self.share) * a + self.share * b  # noqa: E731
        rounding = jnp.maximum(first.rounding, second.rounding) + 4 * jnp.finfo(jnp.float64).eps
        return Pushed(mix(first.columns, second.columns), mix(first.distortions, second.distortions), rounding)

    def draw(self, key: Array, index: Arr) -> Arr:
        coin, left, right = jax.random.split(key, 3)
        second = jax.random.bernoulli(coin, self.share, index.shape)
        return jnp.where(second, self.second.draw(right, index), self.first.draw(left, index))


def push(channel: AbstractChannel, joint: AbstractJoint, distortions: Distortions, mesh: Mesh | None) -> Pushed:
    """`channel.push`, compiled, in the precision of the arrays; the parts of a mixture one by one, so that each is
    compiled once.
    """
    if isinstance(channel, Mixture):
        return _in_float64(channel.push, joint, distortions, mesh)
    return _in_float64(partial(_push, mesh=mesh), channel, joint, distortions)


@partial(jax.jit, static_argnames="mesh")
def _push(channel: AbstractChannel, joint: AbstractJoint, distortions: Distortions, mesh: Mesh | None) -> Pushed:
    return channel.push(joint, distortions, mesh)
