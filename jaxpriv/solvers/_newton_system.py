"""The systems of the outputs and the Schur complement they leave, factored once for several right-hand sides.

Every step of the interior-point method comes down to this. For every output y, with rows A_y = [a; extra_y] (N, X), the
diagonals di_y of X/Z and d_y >= 0, and normals n_y (G, N) along which kappa_y is prescribed,

    d_y kappa_y = A_y dX_y + link_y + (multiples of n_y),     n_y' kappa_y = level_y,
    dX_y = di_y (rho_y - dZ_y),   dZ_y = A_y' kappa_y - e,    sum_y dX_y = row.

Either dX is eliminated first, which leaves matrices of order N (`row_system`), or kappa, which leaves matrices
of order X (`input_system`, where d is 0 by underflow only).

A_y holds the rows of all terms (the joint, for mutual information) and, below them, those of the prices of
worst-outcome limits, W of them. In general G_y = A_y diag(di_y) A_y' + diag(d_y) is a batch of dense matrices; where
every row of the terms depends on one symbol x of its own (S = X, a database behind its query) G_y is diagonal with an
arrow, and |Y| |X| numbers are all there is.
"""

from typing import TypeAlias

from jaxpriv._runtime.types import Arr
from jaxpriv.solvers._input_system import InputSystem, input_system
from jaxpriv.solvers._row_system import RowSystem, row_system

NewtonSystem: TypeAlias = InputSystem | RowSystem


def newton_system(
    a: Arr,
    extra: Arr,
    di: Arr,
    d: Arr,
    normals: Arr,
    *,
    diagonal: bool = False,
    flat: bool = False,
    transposable: bool = False,
) -> NewtonSystem:
    """Factor for shared rows `a` (T, X), rows `extra` (Y, W, X) of each output, `normals` (Y, G, T + W).

    `diagonal`: a (X,) is the diagonal of the shared rows. `flat`: d may be zero where a normal is not.
    `transposable`: the solutions will be transposed by JAX, which it can do for its own operations only.

    Both systems have `solve(rho (M, Y, X), link (M, Y, N), level (M, Y, G), row (M, X))` for M right-hand sides at
    once, which gives (kappa (M, Y, N), dX (M, Y, X), dZ (M, Y, X), e (M, X)).
    """
    if not (diagonal or flat) and inputs_are_cheaper(d.shape[1], di.shape[1]):
        return input_system(a, extra, di, d, normals, transposable=transposable)
    return row_system(a, extra, di, d, normals, diagonal=diagonal, transposable=transposable)


def inputs_are_cheaper(rows: int, inputs: int) -> bool:
    """Whether N rows take more operations than X inputs: N^2 X + N^3/3 + N X^2/2 against N X^2/2 + X^3/2."""
    return rows**2 * inputs + rows**3 / 3 > inputs**3 / 2
