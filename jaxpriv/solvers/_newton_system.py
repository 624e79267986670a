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

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.native import with_kernel
from jaxpriv._runtime.types import Arr

# Batched positive definite systems by inverse factors: G^-1 = K'K with K lower triangular.
#
# Solving with K is a matrix product. On CPU the batched LAPACK kernels behind `cholesky` and `triangular_solve` run one
# small matrix at a time; splitting the matrix in halves leaves them only blocks of `_BASE` rows and turns the rest into
# products that run at full speed on every device.


# Small enough that LAPACK does little, large enough that the recursion adds few operations.
_BASE = 16


def _transpose(a: Arr) -> Arr:
    return xp.swapaxes(a, -1, -2)


def _factor(g: Arr) -> Arr:
    """K with G^-1 = K'K for a stack of positive definite matrices; NaN where one is not."""
    size = g.shape[-1]
    if size <= _BASE:
        return xp.inverse_root(g)
    half = (size + 1) // 2
    upper = _factor(g[..., :half, :half])
    below = xp.matmul(g[..., half:, :half], _transpose(upper))  # the Cholesky factor's lower left block
    lower = _factor(g[..., half:, half:] - xp.matmul(below, _transpose(below)))
    corner = -xp.matmul(xp.matmul(lower, below), upper)
    zero = xp.zeros((*g.shape[:-2], half, size - half), like=g)
    return xp.concatenate([xp.concatenate([upper, zero], axis=-1), xp.concatenate([corner, lower], axis=-1)], axis=-2)


def portable_inverse_factor(g: Arr, scale: Arr) -> Arr:
    """`inverse_factor` in JAX or NumPy, for every device."""
    eye = xp.eye(g.shape[-1], like=g)

    # The diagonal is raised first by about 50 units of rounding of float64, then a hundredfold at a time, to 1e-4 at
    # most. Choices: they change a step, never the certificate. The C kernels have the same.
    def failed(shift: Arr, factor: Arr) -> Arr:
        # A breakdown anywhere spreads to the last row of the factor.
        return ~xp.isfinite(factor[..., -1, :].sum(axis=-1)) & (shift < 1e-4)

    def again(carry: tuple[Arr, Arr]) -> tuple[Arr, Arr]:
        shift, factor = carry
        shift = xp.where(failed(shift, factor), xp.maximum(shift * 100.0, 1e-14), shift)
        return shift, _factor(g + shift[..., None, None] * scale[..., None, :] * eye)

    start = xp.zeros(g.shape[:-2], like=g), _factor(g)
    return xp.while_loop(lambda carry: failed(*carry).any(), again, start)[1]


_inverse_factor = with_kernel("jaxpriv_inverse_factor", lambda g, scale: g.shape, portable_inverse_factor)


def inverse_factor(g: Arr, scale: Arr) -> Arr:
    """K with G^-1 = K'K; where G is not positive definite, its diagonal is raised first.

    The shift is 0, then 1e-14, 1e-12, ... of `scale` (a diagonal, (..., n)): the least that works for each matrix of a
    stack, whatever the others need.
    """
    return _inverse_factor(g, scale)


def small_solve(matrix: Arr, rhs: Arr) -> Arr:
    """matrix^-1 rhs for a system of the size of the number of limits (often one)."""
    return rhs / matrix[0] if matrix.shape[0] == 1 else xp.solve(matrix, rhs)


def matvec(a: Arr, extra: Arr, x: Arr) -> Arr:
    """A_y x_y of every output: x (M, Y, X), the result (M, Y, T + W)."""
    top = x * a if a.ndim == 1 else xp.matmul(x, a.T)
    if not extra.shape[1]:
        return top
    return xp.concatenate([top, xp.einsum("ywx,myx->myw", extra, x)], axis=-1)


def rmatvec(a: Arr, extra: Arr, v: Arr) -> Arr:
    """A_y' v_y of every output: v (M, Y, T + W), the result (M, Y, X)."""
    top = v[..., : a.shape[0]]
    product = top * a if a.ndim == 1 else xp.matmul(top, a)
    return product + xp.einsum("myw,ywx->myx", v[..., a.shape[0] :], extra) if extra.shape[1] else product


class DenseFactor(NamedTuple):
    """K_y, and what R_y = K_y A_y diag(X/Z) consists of: it is |X| / |S| times as large as K_y, and multiplying by its
    three factors reads less memory. The arguments of the methods are stacks: M right-hand sides.
    """

    k: Arr  # (Y, T + W, T + W)
    a: Arr  # (T, X)
    extra: Arr  # (Y, W, X)
    di: Arr  # (Y, X)

    def left(self, v: Arr) -> Arr:
        """K v."""
        return xp.einsum("ytu,myu->myt", self.k, v)

    def left_transposed(self, v: Arr) -> Arr:
        """K' v."""
        return xp.einsum("yut,myu->myt", self.k, v)

    def down(self, e: Arr) -> Arr:
        """R e."""
        return self.left(matvec(self.a, self.extra, self.di * e[:, None]))

    def both(self, rho: Arr, link: Arr) -> Arr:
        """R_y rho_y + K_y link_y of every output, rho (M, Y, X)."""
        return self.left(matvec(self.a, self.extra, self.di * rho) + link)

    def up(self, v: Arr) -> Arr:
        """sum_y R_y' v_y."""
        return (self.di * rmatvec(self.a, self.extra, self.left_transposed(v))).sum(axis=1)


class ArrowFactor(NamedTuple):
    """The same where the rows of the terms are diagonal: K_y = [diag(root), 0; tail', corner]."""

    root: Arr  # (Y, X)
    tail: Arr  # (Y, W, X), W is 0 or 1
    corner: Arr  # (Y, W)
    r_root: Arr  # (Y, X): the diagonal of R
    r_tail: Arr  # (Y, W, X): its last row

    # Sums over the last row are left out where there is none (W = 0): with a product over an axis of length 0, XLA
    # (jaxlib 0.10.2) rejects every custom call of the program, its own LAPACK calls included.

    def left(self, v: Arr) -> Arr:
        top, low = v[..., : self.root.shape[1]], v[..., self.root.shape[1] :]
        tail = xp.einsum("ywx,myx->myw", self.tail, top)
        return xp.concatenate([self.root * top, tail + self.corner * low], axis=-1)

    def left_transposed(self, v: Arr) -> Arr:
        top, low = v[..., : self.root.shape[1]], v[..., self.root.shape[1] :]
        head = self.root * top
        if not self.tail.shape[1]:
            return head
        return xp.concatenate([head + xp.einsum("ywx,myw->myx", self.tail, low), self.corner * low], axis=-1)

    def down(self, e: Arr) -> Arr:
        tail = xp.einsum("ywx,mx->myw", self.r_tail, e)
        return xp.concatenate([self.r_root * e[:, None], tail], axis=-1)

    def both(self, rho: Arr, link: Arr) -> Arr:
        down = xp.concatenate([self.r_root * rho, xp.einsum("ywx,myx->myw", self.r_tail, rho)], axis=-1)
        return down + self.left(link)

    def up(self, v: Arr) -> Arr:
        top, low = v[..., : self.root.shape[1]], v[..., self.root.shape[1] :]
        head = (self.r_root * top).sum(axis=1)
        return head + xp.einsum("myw,ywx->mx", low, self.r_tail) if self.tail.shape[1] else head

    def projected(self, u: Arr) -> Arr:
        size = self.root.shape[1]
        rows = u[:, :size] * self.r_root[:, :, None]
        if self.tail.shape[1]:
            rows = rows + xp.einsum("ywn,ywx->yxn", u[:, size:], self.r_tail)
        return xp.swapaxes(rows, 1, 2).reshape(-1, size)


RowFactor: TypeAlias = DenseFactor | ArrowFactor


def dense_factor(a: Arr, extra: Arr, di: Arr, d: Arr) -> tuple[DenseFactor, Arr, Arr]:
    """The factor, R (Y, T + W, X) and sum_y [ di - R'R ], (X, X), for shared rows `a` (T, X) and `extra` (Y, W, X)."""
    scaled = a[None] * di[:, None, :]
    g = xp.einsum("ytx,ux->ytu", scaled, a)
    scale = xp.matmul(di, (a**2).T)
    if extra.shape[1]:
        lines = extra * di[:, None, :]
        across = xp.einsum("ywx,tx->ytw", lines, a)
        corner = xp.einsum("ywx,yvx->ywv", lines, extra)
        g = xp.concatenate(
            [xp.concatenate([g, across], axis=2), xp.concatenate([xp.swapaxes(across, 1, 2), corner], axis=2)],
            axis=1,
        )
        scaled = xp.concatenate([scaled, lines], axis=1)
        scale = xp.concatenate([scale, xp.diagonal(corner, axis1=1, axis2=2)], axis=1)
    index = np.arange(g.shape[1])
    k = portable_inverse_factor(xp.add_at(g, np.s_[:, index, index], d), scale + d)
    big = xp.matmul(k, scaled)
    flat = big.reshape(-1, di.shape[1])
    stored = xp.stored(flat.T)  # a product of a stored transpose runs a third faster on CPU
    return DenseFactor(k, a, extra, di), big, xp.diag(di.sum(axis=0)) - xp.matmul(stored, flat)


def arrow_factor(a: Arr, extra: Arr, di: Arr, d: Arr) -> tuple[ArrowFactor, Arr]:
    """The same for diagonal rows, `a` (X,) their diagonal. Differences are taken in closed form."""
    size = a.shape[0]
    top, low = d[:, :size], d[:, size:]
    total = a * a * di + top
    left = di * top / total  # di - a^2 di^2 / total
    root = total**-0.5
    schur = xp.diag(left.sum(axis=0))
    if extra.shape[1] == 0:
        none = xp.zeros((di.shape[0], 0, size), like=di)
        return ArrowFactor(root, none, low, root * a * di, none), schur
    line = extra[:, 0]
    corner = ((line * line * left).sum(axis=1) + low[:, 0]) ** -0.5
    tail = -corner[:, None] * a * di * line / total
    r_tail = corner[:, None] * line * left
    schur = schur - xp.matmul(r_tail.T, r_tail)
    return ArrowFactor(root, tail[:, None], corner[:, None], root * a * di, r_tail[:, None]), schur


def orthonormal(v: Arr) -> tuple[Arr, Arr]:
    """Gram-Schmidt over the few columns of v (Y, T, N): v = u tri with tri (Y, N, N) upper triangular."""
    count = v.shape[-1]
    if count == 0:
        return v, xp.zeros((v.shape[0], 0, 0), like=v)
    basis: list[Arr] = []
    tri = xp.zeros((v.shape[0], count, count), like=v)
    for n in range(count):
        column = v[..., n]
        for i, b in enumerate(basis):
            part = (b * column).sum(axis=1)
            tri = xp.put(tri, np.s_[:, i, n], part)
            column = column - part[:, None] * b
        norm = xp.sqrt((column**2).sum(axis=1))
        tri = xp.put(tri, np.s_[:, n, n], norm)
        basis.append(column / norm[:, None])
    return xp.stack(basis, axis=-1), tri


def forward(tri: Arr, b: Arr) -> Arr:
    """tri' a = b for each output: tri (Y, N, N) upper triangular, b (M, Y, N)."""
    parts: list[Arr] = []
    for n in range(tri.shape[-1]):
        substituted = sum((tri[:, i, n] * parts[i] for i in range(n)), start=xp.zeros_like(b[..., n]))
        parts.append((b[..., n] - substituted) / tri[:, n, n])
    return xp.stack(parts, axis=-1) if parts else b


# Newton systems by matrices of the order of the rows: for few rows, and for diagonal ones.
#
# With G_y = A_y diag(di_y) A_y' + diag(d_y) = (K_y'K_y)^-1, R_y = K_y A_y diag(di_y) and K_y n_y = u_y tri_y the
# equations of the module become
#
#     a_y = (1 - u u')(R rho + K link) + u tri'^-1 level,
#     e = S^-1 ( row - sum_y di_y rho_y + sum_y R_y'a_y ),      S = sum_y [ diag(di_y) - R_y'(1 - u u') R_y ],
#     kappa_y = K_y'( a_y + (1 - u u') R_y e ).
#
# On CPU dense systems take the kernels of `jaxpriv._runtime.native`; everything else is JAX and the same.


class RowSystem(NamedTuple):
    """The factored systems."""

    a: Arr  # (T, X), or its diagonal (X,)
    extra: Arr  # (Y, W, X)
    di: Arr  # (Y, X)
    rows: RowFactor
    u: Arr  # (Y, N, G): orthonormal basis of K n
    tri: Arr  # (Y, G, G): K n = u tri
    schur: Arr  # (X, X): S^-1 = schur'schur
    transposable: bool

    def solve(self, rho: Arr, link: Arr, level: Arr, row: Arr) -> tuple[Arr, Arr, Arr, Arr]:
        """(kappa, dX, dZ, e); see `newton_system`."""
        rest = row - (self.di * rho).sum(axis=1)
        if isinstance(self.rows, DenseFactor) and not self.transposable:
            factors = self.rows.k, self.u, self.tri, self.schur, self.a, self.extra, self.di
            kappa, e = _row_solve(*factors, rho, link, level, rest)
        else:
            kappa, e = self.reduced(rho, link, level, rest)
        dz = rmatvec(self.a, self.extra, kappa) - e[:, None, :]
        return kappa, self.di * (rho - dz), dz, e

    def reduced(self, rho: Arr, link: Arr, level: Arr, rest: Arr) -> tuple[Arr, Arr]:
        """(kappa, e) of a stack of right-hand sides; `rest` = row - sum_y di rho."""

        def along(coordinates: Arr) -> Arr:
            return xp.einsum("ytn,myn->myt", self.u, coordinates)

        def project(a: Arr) -> Arr:
            return a - along(xp.einsum("ytn,myt->myn", self.u, a))

        a = project(self.rows.both(rho, link)) + along(forward(self.tri, level))
        rhs = rest + self.rows.up(a)
        e = xp.matmul(xp.matmul(rhs, self.schur.T), self.schur)
        return self.rows.left_transposed(a + project(self.rows.down(e))), e


def row_system(a: Arr, extra: Arr, di: Arr, d: Arr, normals: Arr, *, diagonal: bool, transposable: bool) -> RowSystem:
    """Factor; the arguments are those of `newton_system`."""
    if diagonal:
        rows, schur = arrow_factor(a, extra, di, d)
        u, tri, schur = _with_normals(rows, rows.projected, schur, normals)
    else:
        k, u, tri, schur = _row_columns(a, extra, di, d, normals)
        rows = DenseFactor(k, a, extra, di)
    return RowSystem(a, extra, di, rows, u, tri, inverse_factor(schur, di.sum(axis=0)), transposable)


def _with_normals(rows: RowFactor, projected: Callable[[Arr], Arr], schur: Arr, normals: Arr) -> tuple[Arr, Arr, Arr]:
    """(u, tri, Schur complement on the directions that keep the level), given the one without normals.

    `projected`: the rows R_y' u_y, (Y N, X), for every column of u (Y, T + W, N).
    """
    if normals.shape[1] == 0:
        return *orthonormal(xp.swapaxes(normals, 1, 2)), schur
    u, tri = orthonormal(xp.moveaxis(rows.left(xp.swapaxes(normals, 0, 1)), 0, 2))
    rows_of_u = projected(u)
    return u, tri, schur + xp.matmul(rows_of_u.T, rows_of_u)


def portable_row_columns(a: Arr, extra: Arr, di: Arr, d: Arr, normals: Arr) -> tuple[Arr, Arr, Arr, Arr]:
    """K, u, tri and the Schur complement in JAX or NumPy, for every device."""
    rows, big, schur = dense_factor(a, extra, di, d)

    def projected(u: Arr) -> Arr:
        return xp.einsum("ytn,ytx->ynx", u, big).reshape(-1, big.shape[2])

    return rows.k, *_with_normals(rows, projected, schur, normals)


def portable_row_solve(
    k: Arr, u: Arr, tri: Arr, schur: Arr, a: Arr, extra: Arr, di: Arr, *sides: Arr
) -> tuple[Arr, Arr]:
    """`RowSystem.reduced` for several right-hand sides in JAX or NumPy, for every device."""
    return RowSystem(a, extra, di, DenseFactor(k, a, extra, di), u, tri, schur, transposable=True).reduced(*sides)


def _row_column_shapes(a: Arr, extra: Arr, di: Arr, d: Arr, normals: Arr) -> tuple[tuple[int, ...], ...]:
    (outputs, rows), inputs, levels = d.shape, a.shape[1], normals.shape[1]
    return (outputs, rows, rows), (outputs, rows, levels), (outputs, levels, levels), (inputs, inputs)


_row_columns = with_kernel("jaxpriv_rows_factor", _row_column_shapes, portable_row_columns)
_row_solve = with_kernel("jaxpriv_rows_solve", lambda *args: (args[8].shape, args[10].shape), portable_row_solve)


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
        half = down(self.s * (rho - rmatvec(self.a, self.extra, self.h * b)))
        short = row - (self.s * up(half)).sum(axis=1)
        e = xp.matmul(xp.matmul(short, self.schur.T), self.schur)
        # The two parts nearly cancel. Added before the product with K', their rounding is as small along the rows as
        # K is there; added behind it, h would make up to 1e10 of it.
        dx = self.s * up(half + down(self.s * e[:, None]))
        kappa = self.h * (project(self.h * matvec(self.a, self.extra, dx)) + b)
        return kappa, dx, rmatvec(self.a, self.extra, kappa) - e[:, None], e


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
