"""The systems of the outputs and the Schur complement they leave, factored once for several right-hand sides.

Every step of the interior-point method comes down to this. For every output y, with rows A_y = [a; extra_y] (N, X), the
diagonals di_y of X/Z and d_y >= 0, and normals n_y (G, N) along which kappa_y is prescribed,

    d_y kappa_y = A_y dX_y + link_y + (multiples of n_y),     n_y' kappa_y = level_y,
    dX_y = di_y (rho_y - dZ_y),   dZ_y = A_y' kappa_y - e,    sum_y dX_y = row.

Either dX is eliminated first, which leaves matrices of order N (`row_system`), or kappa, which leaves matrices
of order X (`input_system`, where d is 0 by underflow only).
"""

from typing import Any, NamedTuple, TypeAlias

from jaxpriv import _arrays as xp
from jaxpriv._native import with_kernel
from jaxpriv._types import Arr
from jaxpriv.solvers._factors import (
    DenseFactor,
    RowFactor,
    arrow_factor,
    dense_factor,
    forward,
    inverse_factor,
    orthonormal,
    portable_inverse_factor,
)

# Newton systems by matrices of the order of the rows: for few rows, and for diagonal ones.
#
# With G_y = A_y diag(di_y) A_y' + diag(d_y) = (K_y'K_y)^-1, R_y = K_y A_y diag(di_y) and K_y n_y = u_y tri_y the
# equations of the module become
#
#     a_y = (1 - u u')(R rho + K link) + u tri'^-1 level,
#     e = S^-1 ( row - sum_y di_y rho_y + sum_y R_y'a_y ),      S = sum_y [ diag(di_y) - R_y'(1 - u u') R_y ],
#     kappa_y = K_y'( a_y + (1 - u u') R_y e ).
#
# On CPU dense systems take the kernels of `jaxpriv._native`; everything else is JAX and the same.


class RowSystem(NamedTuple):
    """The factored systems."""

    a: Any  # (T, X), or its diagonal (X,); None, as the next two, where only the factors are needed
    extra: Any  # (Y, W, X)
    di: Any  # (Y, X)
    rows: RowFactor
    u: Arr  # (Y, N, G): orthonormal basis of K n
    tri: Arr  # (Y, G, G): K n = u tri
    schur: Arr  # (X, X): S^-1 = schur'schur
    transposable: bool

    def solve(self, rho: Arr, link: Arr, level: Arr, row: Arr) -> tuple[Arr, Arr, Arr, Arr]:
        """(kappa, dX, dZ, e); see `newton_system`."""
        rest = row - (self.di * rho).sum(axis=1)
        if isinstance(self.rows, DenseFactor) and not self.transposable:
            kappa, e = _row_solve(self.rows.k, self.rows.r, self.u, self.tri, self.schur, rho, link, level, rest)
        else:
            kappa, e = self.reduced(rho, link, level, rest)
        dz = self._rmatvec(kappa) - e[:, None, :]
        return kappa, self.di * (rho - dz), dz, e

    def _rmatvec(self, kappa: Arr) -> Arr:
        """A_y' kappa_y of every output and right-hand side."""
        shared = self.a.shape[0]
        top = kappa[..., :shared]
        product = top * self.a if self.a.ndim == 1 else xp.matmul(top, self.a)
        return product + xp.einsum("myw,ywx->myx", kappa[..., shared:], self.extra) if self.extra.shape[1] else product

    def reduced(self, rho: Arr, link: Arr, level: Arr, rest: Arr) -> tuple[Arr, Arr]:
        """(kappa, e) of a stack of right-hand sides; `rest` = row - sum_y di rho."""

        def along(coordinates: Arr) -> Arr:
            return xp.einsum("ytn,myn->myt", self.u, coordinates)

        def project(a: Arr) -> Arr:
            return a - along(xp.einsum("ytn,myt->myn", self.u, a))

        a = project(self.rows.down_each(rho) + self.rows.left(link)) + along(forward(self.tri, level))
        rhs = rest + self.rows.up(a)
        e = xp.matmul(xp.matmul(rhs, self.schur.T), self.schur)
        return self.rows.left_transposed(a + project(self.rows.down(e))), e


def row_system(a: Arr, extra: Arr, di: Arr, d: Arr, normals: Arr, *, diagonal: bool, transposable: bool) -> RowSystem:
    """Factor; the arguments are those of `newton_system`."""
    if diagonal:
        rows, schur = arrow_factor(a, extra, di, d)
        u, tri, schur = _with_normals(rows, schur, normals)
    else:
        k, r, u, tri, schur = _row_columns(a, extra, di, d, normals)
        rows = DenseFactor(k, r)
    return RowSystem(a, extra, di, rows, u, tri, inverse_factor(schur, di.sum(axis=0)), transposable)


def _with_normals(rows: RowFactor, schur: Arr, normals: Arr) -> tuple[Arr, Arr, Arr]:
    """(u, tri, Schur complement on the directions that keep the level), given the one without normals."""
    if normals.shape[1] == 0:
        return *orthonormal(xp.swapaxes(normals, 1, 2)), schur
    u, tri = orthonormal(xp.moveaxis(rows.left(xp.swapaxes(normals, 0, 1)), 0, 2))
    projected = rows.projected(u)
    return u, tri, schur + xp.matmul(projected.T, projected)


def portable_row_columns(a: Arr, extra: Arr, di: Arr, d: Arr, normals: Arr) -> tuple[Arr, Arr, Arr, Arr, Arr]:
    """K, R, u, tri and the Schur complement in JAX or NumPy, for every device."""
    rows, schur = dense_factor(a, extra, di, d)
    return rows.k, rows.r, *_with_normals(rows, schur, normals)


def portable_row_solve(k: Arr, r: Arr, u: Arr, tri: Arr, schur: Arr, *sides: Arr) -> tuple[Arr, Arr]:
    """`RowSystem.reduced` for several right-hand sides in JAX or NumPy, for every device."""
    system = RowSystem(None, None, None, DenseFactor(k, r), u, tri, schur, transposable=True)
    return system.reduced(*sides)


def _row_column_shapes(a: Arr, extra: Arr, di: Arr, d: Arr, normals: Arr) -> tuple[tuple[int, ...], ...]:
    (outputs, rows), inputs, levels = d.shape, a.shape[1], normals.shape[1]
    system = (outputs, rows, rows), (outputs, rows, inputs)
    return *system, (outputs, rows, levels), (outputs, levels, levels), (inputs, inputs)


_row_columns = with_kernel("jaxpriv_rows_factor", _row_column_shapes, portable_row_columns)
_row_solve = with_kernel("jaxpriv_rows_solve", lambda *args: (args[6].shape, args[8].shape), portable_row_solve)


# Newton systems by matrices of the order of the inputs: no difference of large numbers late in a solve.
#
# With the roots s = di^1/2 and h = d^-1/2 of the diagonals, h n = u tri (orthonormal columns, upper triangular) and
#
#     B_y = (1 - u u') h A_y s  (N, X),     1 + B_y'B_y = (K_y'K_y)^-1,    K_y lower triangular,
#
# the equations of the module become, for v_y = dX_y / s,
#
#     b_y = (1 - u u') h link + u tri'^-1 level,       v_y = K'K s ( rho + e - A'h b_y ),
#     S e = row - sum_y s K'K s (rho - A'h b_y),       S = sum_y s K'K s,
#     kappa_y = h ( (1 - u u') h A dX_y + b_y ).
#
# 1 + B'B is never singular and S is a sum of squares, while with matrices of the rows (`row_system`) both S and dX are
# differences: of di, up to 1/mu, and of what is nearly as large. In turn a row loses what d is below 1e-16 of its
# square A_t di A_t', which the other form keeps. On the central path the square is at most about d/mu; beyond it d is
# raised to `_LEAST` times the square, so that a rule whose posterior mass has underflown moves less than Newton's
# method would.

# Least ratio of d to the row's square A_t di A_t': the rounding error of the square in float64 is about 1e-16 of it.
_LEAST = 1e-16


class InputSystem(NamedTuple):
    """The factored systems."""

    a: Arr  # (T, X)
    extra: Arr  # (Y, W, X)
    s: Arr  # (Y, X)
    h: Arr  # (Y, N)
    k: Arr  # (Y, X, X)
    u: Arr  # (Y, N, G)
    tri: Arr  # (Y, G, G)
    schur: Arr  # (X, X): S^-1 = schur'schur
    transposable: bool

    def solve(self, rho: Arr, link: Arr, level: Arr, row: Arr) -> tuple[Arr, Arr, Arr, Arr]:
        """(kappa, dX, dZ, e); see `newton_system`."""
        if self.transposable:
            return self._solved(rho, link, level, row)
        parts = self.a, self.extra, self.s, self.h, self.k, self.u, self.tri, self.schur
        return _input_solve(*parts, rho, link, level, row)

    def _solved(self, rho: Arr, link: Arr, level: Arr, row: Arr) -> tuple[Arr, Arr, Arr, Arr]:
        shared, limited = self.a.shape[0], self.extra.shape[1] > 0

        def rmatvec(v: Arr) -> Arr:
            """A_y' v_y."""
            if not limited:
                return xp.matmul(v, self.a)
            return xp.matmul(v[..., :shared], self.a) + xp.einsum("ywx,myw->myx", self.extra, v[..., shared:])

        def matvec(x: Arr) -> Arr:
            """A_y x_y."""
            top = xp.matmul(x, self.a.T)
            if not limited:
                return top
            return xp.concatenate([top, xp.einsum("ywx,myx->myw", self.extra, x)], axis=-1)

        def along(coordinates: Arr) -> Arr:
            return xp.einsum("ytn,myn->myt", self.u, coordinates)

        def project(v: Arr) -> Arr:
            return v - along(xp.einsum("ytn,myt->myn", self.u, v))

        def down(v: Arr) -> Arr:
            """K v."""
            return xp.einsum("yzx,myx->myz", self.k, v)

        def up(v: Arr) -> Arr:
            """K'v."""
            return xp.einsum("yzx,myz->myx", self.k, v)

        b = project(self.h * link) + along(forward(self.tri, level))
        half = down(self.s * (rho - rmatvec(self.h * b)))
        short = row - (self.s * up(half)).sum(axis=1)
        e = xp.matmul(xp.matmul(short, self.schur.T), self.schur)
        # The two parts nearly cancel. Added before the product with K', their rounding is as small along the rows as
        # K is there; added behind it, h would make up to 1e10 of it.
        dx = self.s * up(half + down(self.s * e[:, None]))
        kappa = self.h * (project(self.h * matvec(dx)) + b)
        return kappa, dx, rmatvec(kappa) - e[:, None], e


def input_system(a: Arr, extra: Arr, di: Arr, d: Arr, normals: Arr, *, transposable: bool) -> InputSystem:
    """Factor; the arguments are those of `newton_system`."""
    s, h, k, u, tri, schur = _input_columns(a, extra, di, d, normals)
    return InputSystem(a, extra, s, h, k, u, tri, inverse_factor(schur, di.sum(axis=0)), transposable)


def portable_input_columns(a: Arr, extra: Arr, di: Arr, d: Arr, normals: Arr) -> tuple[Arr, ...]:
    """s, h, K, u, tri and S in JAX or NumPy, for every device."""
    rows = xp.concatenate([xp.broadcast_to(a, (di.shape[0], *a.shape)), extra], axis=1)
    d = xp.maximum(d, _LEAST * xp.matmul(rows**2, di[..., None])[..., 0])
    s, h = xp.sqrt(di), xp.where(d == 0, 0.0, 1.0 / xp.sqrt(xp.where(d == 0, 1.0, d)))
    u, tri = orthonormal(xp.swapaxes(h[:, None] * normals, 1, 2))
    b = h[:, :, None] * rows * s[:, None, :]
    b = b - xp.einsum("ytn,ynx->ytx", u, xp.einsum("ytn,ytx->ynx", u, b))
    matrix = xp.einsum("ytx,ytz->yxz", b, b) + xp.eye(di.shape[1], like=di)
    k = portable_inverse_factor(matrix, xp.diagonal(matrix, axis1=1, axis2=2))
    flat = (k * s[:, None, :]).reshape(-1, di.shape[1])
    return s, h, k, u, tri, xp.matmul(flat.T, flat)


def portable_input_solve(*args: Arr) -> tuple[Arr, Arr, Arr, Arr]:
    """`InputSystem.solve` in JAX or NumPy, for every device."""
    return InputSystem(*args[:8], transposable=True).solve(*args[8:])


def _input_column_shapes(a: Arr, extra: Arr, di: Arr, d: Arr, normals: Arr) -> tuple[tuple[int, ...], ...]:
    inputs, levels = di.shape[1], normals.shape[1]
    return di.shape, d.shape, (*di.shape, inputs), (*d.shape, levels), (di.shape[0], levels, levels), (inputs, inputs)


def _input_solve_shapes(*args: Arr) -> tuple[tuple[int, ...], ...]:
    rho, link, _, row = args[8:]
    return link.shape, rho.shape, rho.shape, row.shape


_input_columns = with_kernel("jaxpriv_inputs_factor", _input_column_shapes, portable_input_columns)
_input_solve = with_kernel("jaxpriv_inputs_solve", _input_solve_shapes, portable_input_solve)


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
