"""The two-grid method: how a problem on ordered symbols is put on cells, and its solution read on the symbols.

Merge `width` neighbouring symbols into a cell, solve the small problem, and read its solution finely:

* proof: the adversary's rules, interpolated linearly in y. A convex combination of valid rules is valid,
  so one pass min_y over the fine problem is a lower bound of the FINE optimum, whatever the data;
* mechanism: a coset mechanism draws a new cell and keeps the place in it (`channel.ShiftedCoset`,
  `channel.SpreadCoset`). A distance of two symbols then changes as that of their cells does.
  Of piecewise linear measures, whose value a place in the cell would change to first order, it draws a cell and
  releases its middle symbol (`channel.Middles`): a mechanism on cells with the mean costs of their symbols has the same
  leakage and the same distortion.

Where P(s|x) is smooth and d is a distance on the line both errors are O(width^2), so the certified gap
shrinks fourfold with every halving of the cells until it stops (rough data): every gap is proved on
the fine problem. Source: own derivation.
"""

import dataclasses
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, PyTree

from jaxpriv._runtime.types import Arr
from jaxpriv._runtime.validation import COUNT, check_fields
from jaxpriv.data.channel import AbstractChannel, Middles, ShiftedCoset, SpreadCoset
from jaxpriv.data.distortion import AbstractDistortion, AbstractRule, ChangedAttributes, Pairwise
from jaxpriv.data.joints import AbstractJoint, Stored
from jaxpriv.data.streaming import block_size, check_mesh, stream
from jaxpriv.errors import InputError
from jaxpriv.program.streamed import StreamedProgram
from jaxpriv.solvers._base import Measures


class TwoGrid(eqx.Module):
    """The two-grid method (the `two-grid` solver).

    Args:
        cells: cells of the first coarse problem.
        most_cells: cells of the last one.
        refine: the finer grid, in cells of the coarse one, on which a gap is tried before the full one.
        mesh: devices that share the blocks of x.
    """

    cells: int = eqx.field(static=True, default=64)
    most_cells: int = eqx.field(static=True, default=1024)
    refine: int = eqx.field(static=True, default=8)
    mesh: Mesh | None = eqx.field(static=True, default=None)
    measures: ClassVar[Measures] = "average"
    untraceable: ClassVar[str] = "the gaps that it proves decide how many cells come next"

    def __check_init__(self) -> None:
        check_fields(self, COUNT, "cells", "most_cells", "refine")
        check_mesh(self.mesh, "TwoGrid")


class Grid(NamedTuple):
    """Ordered symbols on a line."""

    x: np.ndarray  # (X,) values
    y: np.ndarray  # (Y,) values
    rules: tuple[AbstractRule, ...]  # of the distortions
    shared: bool  # X and Y are one alphabet
    numbered: bool  # only equality counts
    even: bool  # the values are evenly spaced


def grid_of(distortions: tuple[AbstractDistortion, ...]) -> Grid:
    """The line that all distortions measure on; `InputError` says why there is none."""
    lines: list[Pairwise] = []
    for k, d in enumerate(distortions):
        if not isinstance(d, Pairwise) or d.x_features.shape[1] != 1 or not d.standard:
            raise InputError(
                f"distortion[{k}] orders no symbols: two-grid needs absolute, squared or hamming of one number"
            )
        lines.append(d)
        if not (
            np.array_equal(d.x_features, lines[0].x_features) and np.array_equal(d.y_features, lines[0].y_features)
        ):
            raise InputError(f"distortion[{k}] measures other values than distortion[0]; two-grid needs one line")
    x, y = np.asarray(lines[0].x_features)[:, 0], np.asarray(lines[0].y_features)[:, 0]
    if len(np.unique(x)) < len(x) or len(np.unique(y)) < len(y):
        raise InputError("distortion[0] gives several symbols the same value; two-grid needs one order")
    line = np.sort(x)
    steps = np.diff(line)
    return Grid(
        x,
        y,
        tuple(d.rule for d in lines),
        shared=np.array_equal(line, np.sort(y)),
        numbered=all(isinstance(d.rule, ChangedAttributes) for d in lines),
        # Coordinates as users compute them (`linspace`, sums of steps) are rounded: equal to 1e-9 of the largest.
        even=len(steps) == 0 or bool(np.ptp(steps) <= 1e-9 * abs(line).max()),
    )


class Cells(NamedTuple):
    """Intervals of an ordered alphabet."""

    order: np.ndarray  # (X,) the symbol at each position
    position: np.ndarray  # (X,) the position of each symbol
    starts: np.ndarray  # (m + 1,) the first position of each cell
    centres: np.ndarray  # (m,)
    labels: np.ndarray  # (m,) the interval of X that it is, or is part of

    @property
    def cell(self) -> np.ndarray:
        """The cell of each symbol, (X,)."""
        return np.searchsorted(self.starts, self.position, side="right") - 1


def _sorted(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(values, kind="stable")
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    return order, position


def _cells(values: np.ndarray, width: int) -> Cells:
    """`width` consecutive symbols to a cell; a last cell that is not full has the centre that it would have."""
    order, position = _sorted(values)
    line = values[order]
    missing = -len(line) % width
    step = (line[-1] - line[0]) / max(len(line) - 1, 1)
    padded = np.concatenate([line, line[-1] + step * np.arange(1, missing + 1)])
    centres = padded.reshape(-1, width).mean(axis=1)
    starts = np.minimum(np.arange(len(centres) + 1) * width, len(line))
    return Cells(order, position, starts, centres, np.arange(len(centres)))


def _equal_cells(values: np.ndarray, width: int) -> Cells:
    """As many cells, of numbers of symbols that differ by one at most."""
    order, position = _sorted(values)
    count = -(-len(values) // width)
    starts = np.arange(count + 1) * len(values) // count
    return Cells(order, position, starts, _means(values[order], starts), np.arange(count))


def _means(line: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Of line[starts[j] : starts[j + 1]] for each j; from the first number on, so that no digits are lost."""
    sums = np.add.reduceat(line[: starts[-1]] - line[0], starts[:-1])
    return line[0] + sums / np.diff(starts)


def _between(line: np.ndarray) -> np.ndarray:
    """The middles between neighbours on a line, and as far beyond its ends as the next ones are: (X + 1,)."""
    if len(line) == 1:
        return line[0] + np.array([-0.5, 0.5])
    middles = 0.5 * (line[1:] + line[:-1])
    return np.concatenate([[2 * line[0] - middles[0]], middles, [2 * line[-1] - middles[-1]]])


def _cells_like(values: np.ndarray, x: np.ndarray, cells: Cells, width: int) -> Cells:
    """The intervals of X for other symbols of the line, each in parts of at most `width` of them.

    All symbols by themselves if they are few. Symbols beyond all of X are in no cell. Where X goes on beyond
    them, the last symbol is a cell by itself.
    """
    order, position = _sorted(values)
    line, edges = values[order], _between(x[cells.order])[cells.starts]
    interval = np.clip(np.searchsorted(edges, line) - 1, 0, len(edges) - 2)
    if len(values) <= len(cells.centres):
        return Cells(order, position, np.arange(len(line) + 1), line, interval)
    first, last = np.searchsorted(line, edges[[0, -1]])
    if first == last:  # the nearest one of X's neighbours
        first, last = (first, first + 1) if first < len(line) else (first - 1, first)
    _, at, count = np.unique(interval[first:last], return_index=True, return_counts=True)
    parts = -(-count // width)
    part = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    starts = first + np.repeat(at, parts) + part * np.repeat(count, parts) // np.repeat(parts, parts)
    reach = _between(line)[[0, -1]]
    alone = np.array([first + 1, last - 1])[[edges[0] < reach[0], edges[-1] > reach[1]]]
    starts = np.union1d(np.append(starts, last), alone)
    label = interval[starts[:-1]]
    # An interval that is one cell of Y has the centre that it has for X: d = 0 is then where it belongs.
    whole = (np.bincount(label)[label] == 1) & (edges[label] >= reach[0]) & (edges[label + 1] <= reach[1])
    return Cells(order, position, starts, np.where(whole, cells.centres[label], _means(line, starts)), label)


class Coarse(NamedTuple):
    """A problem on cells, and how to read its solution on symbols."""

    program: StreamedProgram
    x: Cells
    y: Cells
    grid: Grid
    width: int  # symbols of X in a cell

    @property
    def middles(self) -> np.ndarray:
        """The symbol of Y in the middle of each cell, (n,)."""
        return self.y.order[(self.y.starts[:-1] + self.y.starts[1:] - 1) // 2]

    def lift(self, moves: Arr) -> AbstractChannel:
        """The mechanism on symbols of a coarse mechanism (m, n)."""
        if not self.program.term.smooth:
            return Middles(np.asarray(moves), self.x.cell, self.middles, len(self.grid.y))
        if self.grid.shared:
            return ShiftedCoset(np.asarray(moves), self.x.order, self.x.position, self.y.order, self.width)
        cell, sizes = self.x.cell, np.diff(self.x.starts)
        most = int(np.diff(self.y.starts).max() // sizes.min()) + 2
        place = self.x.position - self.x.starts[cell]
        return SpreadCoset(np.asarray(moves), cell, place, sizes, self.y.starts, self.y.order, most)

    def rule(self, rules: np.ndarray) -> np.ndarray:
        """Rules (n, T) of the cells, interpolated to the symbols: (Y, T)."""
        if self.grid.shared and (self.grid.even or self.grid.numbered):  # by position, from the first cell's middle
            at, where = np.arange(len(self.y.centres)) * self.width, self.y.position - 0.5 * (self.width - 1)
        else:
            at, where = self.y.centres, self.grid.y
        if len(at) == 1:
            return np.repeat(rules, len(where), axis=0)
        left = np.clip(np.searchsorted(at, where) - 1, 0, len(at) - 2)
        share = np.clip((where - at[left]) / (at[left + 1] - at[left]), 0.0, 1.0)[:, None]
        return (1.0 - share) * rules[left] + share * rules[left + 1]


def coarsen(program: StreamedProgram, width: int, mesh: Mesh | None) -> Coarse:
    """Cells of `width` symbols of X, and for Y the same cells, or parts of them with as many symbols at most."""
    grid = grid_of(program.distortions)
    x = _cells(grid.x, width) if grid.shared else _equal_cells(grid.x, width)
    y = _cells(grid.y, width) if grid.shared else _cells_like(grid.y, grid.x, x, width)
    # Cells that only have to differ are numbered; on a line they stand at their centres.
    xs, ys = (c.labels.astype(float) if grid.numbered else c.centres for c in (x, y))
    distortions = tuple(Pairwise(xs[:, None], ys[:, None], rule) for rule in grid.rules)
    joint = _merged(program.joint, x.cell, cells=len(x.centres), mesh=mesh)
    coarse = dataclasses.replace(program, joint=Stored(np.asarray(joint)), distortions=distortions)
    return Coarse(coarse, x, y, grid, width)


def _sum_cells(joint: AbstractJoint, cell: Arr, cells: int, mesh: Mesh | None) -> Arr:
    """P(s, cell), (S, cells)."""
    private, inputs = joint.shape

    def on_block(joint: AbstractJoint, index: Arr, valid: Arr) -> tuple[Array, None]:
        columns = jnp.where(valid[:, None], joint.columns(index).T, 0.0)
        return jnp.zeros((cells, private)).at[cell[index]].add(columns), None

    return stream(on_block, joint, inputs, block_size(private, 8), mesh)[0].T


_merged = jax.jit(_sum_cells, static_argnames=("cells", "mesh"))


def _sum_costs(
    joint: AbstractJoint,
    distortions: tuple[AbstractDistortion, ...],
    cell: Arr,
    middles: Arr,
    cells: int,
    mesh: Mesh | None,
) -> Arr:
    """sum of p_x d_k(x, y) over the x of a cell, for the middle symbols y, (M, cells, n)."""

    def on_block(parts: tuple[PyTree, PyTree], index: Arr, valid: Arr) -> tuple[Array, None]:
        joint, distortions = parts
        mass = jnp.where(valid, joint.columns(index).sum(axis=0), 0.0)
        costs = jnp.stack([mass[:, None] * d.pairs(index[:, None], middles) for d in distortions])
        return jnp.zeros((len(costs), cells, len(middles))).at[:, cell[index]].add(costs), None

    return stream(on_block, (joint, distortions), joint.shape[1], block_size(len(middles), 8), mesh)[0]


sum_costs = jax.jit(_sum_costs, static_argnames=("cells", "mesh"))
