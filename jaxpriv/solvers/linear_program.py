"""Programs of linear terms on the host, by HiGHS: the optimum at a vertex, with its multipliers.

The linear program below as one sparse system. Its multipliers are the rules of the adversary
and the prices, so that the bound of the certificate is the dual optimum:

    sum_x min_y (cost + sum_j k_jy A_j + price . constraints) - price . bounds .

Sparse is the system, not its blocks: T |X| |Y| entries. `first_order_lp` needs products with A_j only.
"""

from typing import TYPE_CHECKING, ClassVar, NamedTuple

import equinox as eqx
import jax
import numpy as np

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.types import Arr
from jaxpriv.leakage.rule_sets import Role
from jaxpriv.program.convex import Candidate, Program
from jaxpriv.solvers._base import Measures
from jaxpriv.solvers.interior_point.candidate import improved, no_candidate
from jaxpriv.solvers.interior_point.system import Data, Point, rearrange

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult
    from scipy.sparse import csr_array


# Any mechanism and any multipliers of a linear program, made into a `Candidate`.
#
# With all terms of kind LINEAR the program is
#
#     minimise  <cost, W> + sum_OBJECTIVE phi_j + peak,    phi_j = sum_y (t_jy + cap_j . v_jy)
#     subject to  A_j W_y <= reference_j t_jy + v_jy       multipliers k_jy >= 0
#                 <constraints_r, W> <= budgets_r + marks_r peak,  phi_j <= bound_j or peak     price >= 0
#
# and weak duality needs no more of k than 0 <= k <= price cap, reference . k = price (0 for WORST).


# Multipliers of a linear program are often exactly zero. A set {reference . k = price} is reached from
# them by scaling, so that all of a row at zero would be 0/0; this much moves no bound.
_NO_LESS = 1e-30


def improved_linear(data: Data, x: Arr, k: Arr, price: Arr, best: Candidate) -> Candidate:
    """`best` with the better of its own and x (Y, X), and of its own and k (Y, T), price (B,)."""
    eta, unused = xp.zeros((x.shape[0], 0), like=x), xp.zeros((), like=x)
    k, price = xp.maximum(k, _NO_LESS), xp.maximum(price, _NO_LESS)
    point = Point(x, unused, k, unused, unused, unused, eta, eta, unused, price, unused, unused)
    return improved(data, point, k, {}, best)


# HiGHS meets its equations to 1e-7 where it is not asked for more; the certificate shows every digit of that.
_TOLERANCE = 1e-10


class Solved(NamedTuple):
    """An optimum: the repaired candidate, and the mechanism (X, Y) as the backend has it, which meets limits to its
    tolerance.
    """

    candidate: Candidate
    vertex: Arr


# Rows of limits from which the interior-point method with crossover takes the place of the dual simplex method. Seconds
# of the two for the least distortion that makes the release independent of S, |S| x |X|: 4 x 64 .08 and .09, 10 x 64
# .33 and .47, 4 x 128 .47 and .89, 10 x 128 1.3 and 4.2, 4 x 200 1.1 and 6.6; 4 x 32 .03 and .02. Local differential
# privacy goes the other way: 8 x 64 .34 and .16. Below it HiGHS's own presolve takes an eighth of the time (8 and 16
# symbols of all three) and finds nothing: what is equal or empty has been put together before.
_MANY_ROWS = 512


class LinearProgram(eqx.Module):
    """The solver `highs` by name: for programs whose terms are all LINEAR, on the host."""

    measures: ClassVar[Measures] = "linear"
    untraceable: ClassVar[str] = "its linear programs are solved by HiGHS, on the host"


class _System(NamedTuple):
    """minimise c.u subject to upper u <= rhs, equal u = mass, u >= lowest; W = u / scale."""

    cost: np.ndarray
    upper: "csr_array"
    rhs: np.ndarray
    equal: "csr_array"
    mass: np.ndarray
    lowest: np.ndarray
    inside: np.ndarray  # (Y X,) which entries of W are variables
    scale: np.ndarray  # (X,)
    size: float  # the costs were divided by it
    row_size: np.ndarray  # the rows of `upper` were divided by these


def highs(program: Program, seconds: float = float("inf")) -> Solved | None:
    """Solve a program all of whose terms are LINEAR in so many seconds at most, in NumPy: nothing is compiled.

    The mechanism is repaired and the rules are moved into their sets: value and bound hold as they stand. None without
    an optimum: no mechanism meets the limits up to the tolerance, the value has no lower end, or the time has ended.
    """
    if any(term.smooth for term in program.terms):
        raise ValueError("a linear program takes terms of kind LINEAR only")
    with np.errstate(all="ignore"):  # what is not finite is looked for where it matters, as in compiled code
        program = jax.tree.map(_double, program)
        solution = vertex_of(program, seconds)
        if solution is None:
            return None
        vertex, k, price = solution
        data = rearrange(program, dense=True)
        return Solved(improved_linear(data, vertex.T, k, price, no_candidate(program)), vertex)


def vertex_of(program: Program, seconds: float) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """(mechanism (X, Y), k (Y, T), price (B,)) as the backend has them, of a program whose terms are LINEAR and whose
    arrays are NumPy's; None without an optimum. Nothing is compiled, whatever the shapes.
    """
    data = rearrange(program, dense=True)
    system = _assemble(data)
    answer = _solve(system, seconds)
    if answer.status != 0:
        return None
    return _mechanism(data, system, answer.x).T, *_multipliers(data, system, answer.ineqlin.marginals)


def _double(leaf: Arr) -> Arr:
    leaf = np.asarray(leaf)
    return leaf.astype(np.float64) if np.issubdtype(leaf.dtype, np.floating) else leaf


def _assemble(data: Data) -> _System:
    """Variables: W with outputs outermost, t of the normalised terms, v of the capped rows, the peak.

    The joint law is the variable, not W: a symbol of small probability then weighs as little in the
    tolerances of the backend as it does in the objective.
    """
    from scipy.sparse import csr_array

    outputs, inputs = data.cost.shape
    mass = np.asarray(data.program.mass)
    # A scale of 1e-6 of the largest at least: a column divided by less would have entries beyond 1e6 (a choice).
    scale = np.maximum(mass, 1e-6 * mass.max())
    normed = list(data.normed)
    capped = np.flatnonzero(np.asarray(data.capped))
    prices = [j for j, term in enumerate(data.terms) if term.priced]
    marks = np.asarray(data.marks)
    peaked = int(data.program.peaked)
    cap = np.where(np.isfinite(data.cap), data.cap, 0.0)
    objective = np.concatenate([np.full(len(term.reference), term.role is Role.OBJECTIVE) for term in data.terms])

    references = np.zeros((len(cap), len(normed)))
    for column, j in enumerate(normed):
        references[data.layout[j].rows, column] = np.asarray(data.terms[j].reference)
    chosen = np.zeros((len(cap), len(capped)))
    chosen[capped, np.arange(len(capped))] = 1.0
    starts = np.cumsum([0, outputs * inputs, outputs * len(normed), outputs * len(capped)])  # of W, t, v and the peak
    entries = [
        _for_each(block, outputs, start)
        for block, start in zip((np.asarray(data.a) / scale, -references, -chosen), starts[:3], strict=True)
    ]
    budgets = len(data.c)
    if len(marks):
        use = np.concatenate(
            [(np.asarray(data.c) / scale).reshape(budgets, outputs * inputs), np.zeros((len(prices), outputs * inputs))]
        )
        tops, over = np.zeros((len(marks), len(normed))), np.zeros((len(marks), len(capped)))
        for place, j in enumerate(prices, start=budgets):
            tops[place] = [float(j == other) for other in normed]
            rows = data.layout[j].rows
            over[place] = np.where((capped >= rows.start) & (capped < rows.stop), cap[capped], 0.0)
        parts = [use, np.tile(tops, outputs), np.tile(over, outputs), -np.tile(marks[:, None], peaked)]
        shared = np.concatenate(parts, axis=1)
        row, column = np.nonzero(shared)
        entries.append((outputs * len(cap) + row, column, shared[row, column]))
    row, column, value = (np.concatenate(part) for part in zip(*entries, strict=True))
    limits = [float(term.bound) for term in data.terms if term.priced]
    rhs = np.concatenate([np.zeros(outputs * len(cap)), np.asarray(data.program.budgets), np.array(limits)])

    tops = np.array([float(data.terms[j].role is Role.OBJECTIVE) for j in normed])
    cost = np.concatenate(
        [
            (np.asarray(data.cost) / scale).ravel(),
            np.tile(tops, outputs),
            np.tile(cap[capped] * objective[capped], outputs),
            np.ones(peaked),
        ]
    )
    inside = np.asarray(data.support).ravel()
    keep = np.concatenate([inside, np.ones(len(cost) - len(inside), bool)])
    free = np.full(outputs * len(normed), -np.inf)
    lowest = np.concatenate([np.zeros(inside.sum()), free, np.zeros(outputs * len(capped)), np.full(peaked, -np.inf)])
    number, cost = np.cumsum(keep) - 1, cost[keep]  # of the variables that are left
    remaining = keep[column]
    row, column, value = row[remaining], number[column[remaining]], value[remaining]
    row_size = np.zeros(len(rhs))
    np.maximum.at(row_size, row, abs(value))
    row_size = np.where(row_size > 0, row_size, 1.0)
    used = np.flatnonzero(inside)
    size = float(abs(cost).max()) or 1.0
    return _System(
        cost=cost / size,
        upper=csr_array((value / row_size[row], (row, column)), shape=(len(rhs), len(cost))),
        rhs=rhs / row_size,
        equal=csr_array((np.ones(len(used)), (used % inputs, np.arange(len(used)))), shape=(inputs, len(cost))),
        mass=scale,
        lowest=lowest,
        inside=inside,
        scale=scale,
        size=size,
        row_size=row_size,
    )


def _for_each(block: np.ndarray, outputs: int, start: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(rows, columns, values) of a block for every output, from the column `start` on."""
    row, column = np.nonzero(block)
    output = np.arange(outputs)[:, None]
    rows, columns = output * block.shape[0] + row, start + output * block.shape[1] + column
    return rows.ravel(), columns.ravel(), np.tile(block[row, column], outputs)


def _solve(system: _System, seconds: float) -> "OptimizeResult":
    from scipy.optimize import linprog  # costs a third of a second: imported where needed

    many = len(system.rhs) >= _MANY_ROWS
    options = {"primal_feasibility_tolerance": _TOLERANCE, "dual_feasibility_tolerance": _TOLERANCE, "presolve": many}
    if seconds < float("inf"):
        options["time_limit"] = seconds
    bounds = np.stack([system.lowest, np.full(len(system.cost), np.inf)], axis=1)
    return linprog(
        system.cost,
        A_ub=system.upper,
        b_ub=system.rhs,
        A_eq=system.equal,
        b_eq=system.mass,
        bounds=bounds,
        method="highs-ipm" if many else "highs-ds",
        options=options,
    )


def _mechanism(data: Data, system: _System, u: np.ndarray) -> np.ndarray:
    """W, (Y, X), with rows that sum to one."""
    x = np.zeros(len(system.inside))
    x[system.inside] = np.maximum(u[: system.inside.sum()], 0.0)
    x, inside = x.reshape(data.cost.shape), system.inside.reshape(data.cost.shape)
    x = np.where(x.sum(axis=0) > 0, x, inside)  # the backend may give a symbol of less mass than its tolerance nothing
    return x / x.sum(axis=0)


def _multipliers(data: Data, system: _System, marginals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(k (Y, T), price (B,)): the backend's are those of rows and costs that were scaled, and negative."""
    full = np.maximum(-marginals * system.size / system.row_size, 0.0)
    split = data.cost.shape[0] * data.a.shape[0]
    return full[:split].reshape(-1, data.a.shape[0]), full[split:]
