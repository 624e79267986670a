"""Batched positive definite systems by inverse factors: G^-1 = K'K with K lower triangular.

Solving with K is a matrix product. On CPU the batched LAPACK kernels behind `cholesky` and `triangular_solve` run one
small matrix at a time; splitting the matrix in halves leaves them only blocks of `_BASE` rows and turns the rest into
products that run at full speed on every device.
"""

from typing import NamedTuple, TypeAlias

import numpy as np

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.native import with_kernel
from jaxpriv._runtime.types import Arr

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
