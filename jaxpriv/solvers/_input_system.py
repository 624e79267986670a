"""Newton systems by matrices of the order of the inputs: no difference of large numbers late in a solve.

With the roots s = di^1/2 and h = d^-1/2 of the diagonals, h n = u tri (orthonormal columns, upper triangular) and

    B_y = (1 - u u') h A_y s  (N, X),     1 + B_y'B_y = (K_y'K_y)^-1,    K_y lower triangular,

the equations of `_newton_system` become, for v_y = dX_y / s,

    b_y = (1 - u u') h link + u tri'^-1 level,       v_y = K'K s ( rho + e - A'h b_y ),
    S e = row - sum_y s K'K s (rho - A'h b_y),       S = sum_y s K'K s,
    kappa_y = h ( (1 - u u') h A dX_y + b_y ).

1 + B'B is never singular and S is a sum of squares, while with matrices of the rows (`_row_system`) both S and dX are
differences: of di, up to 1/mu, and of what is nearly as large. In turn a row loses what d is below 1e-16 of its square
A_t di A_t', which the other form keeps. On the central path the square is at most about d/mu; beyond it d is raised to
`_LEAST` times the square, so that a rule whose posterior mass has underflown moves less than Newton's method would.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from jaxpriv._native import with_kernel
from jaxpriv.solvers._factors import dot, forward, orthonormal
from jaxpriv.solvers._linear_algebra import inverse_factor, portable_inverse_factor

_LEAST = 1e-16


class InputSystem(eqx.Module):
    """The factored systems."""

    a: Any  # (T, X)
    extra: Any  # (Y, W, X)
    s: Any  # (Y, X)
    h: Any  # (Y, N)
    k: Any  # (Y, X, X)
    u: Any  # (Y, N, G)
    tri: Any  # (Y, G, G)
    schur: Any  # (X, X): S^-1 = schur'schur
    transposable: bool = eqx.field(static=True)

    def solve(self, rho: Any, link: Any, level: Any, row: Any) -> tuple[Any, Any, Any, Any]:
        """(kappa, dX, dZ, e); see `newton_system`."""
        if self.transposable:
            return jax.vmap(self._solve_one)(rho, link, level, row)
        parts = self.a, self.extra, self.s, self.h, self.k, self.u, self.tri, self.schur
        return _solve(*parts, rho, link, level, row)

    def _solve_one(self, rho: Any, link: Any, level: Any, row: Any) -> tuple[Any, Any, Any, Any]:
        shared = self.a.shape[0]

        def told(v: Any) -> Any:
            """A_y' v_y."""
            return jnp.matmul(v[:, :shared], self.a, precision="highest") + dot("ywx,yw->yx", self.extra, v[:, shared:])

        def seen(x: Any) -> Any:
            """A_y x_y."""
            top = jnp.matmul(x, self.a.T, precision="highest")
            return jnp.concatenate([top, dot("ywx,yx->yw", self.extra, x)], axis=1)

        def along(coordinates: Any) -> Any:
            return dot("ytn,yn->yt", self.u, coordinates)

        def project(v: Any) -> Any:
            return v - along(dot("ytn,yt->yn", self.u, v))

        def inverse(v: Any) -> Any:
            """K'K v."""
            return dot("yzx,yz->yx", self.k, dot("yzx,yx->yz", self.k, v))

        b = project(self.h * link) + along(forward(self.tri, level))
        fixed = inverse(self.s * (rho - told(self.h * b)))
        short = row - (self.s * fixed).sum(axis=0)
        e = jnp.matmul(jnp.matmul(self.schur, short, precision="highest"), self.schur, precision="highest")
        dx = self.s * (fixed + inverse(self.s * e))
        kappa = self.h * (project(self.h * seen(dx)) + b)
        return kappa, dx, told(kappa) - e, e


def input_system(a: Any, extra: Any, di: Any, d: Any, normals: Any, *, transposable: bool) -> InputSystem:
    """Factor; the arguments are those of `newton_system`."""
    s, h, k, u, tri, schur = _columns(a, extra, di, d, normals)
    return InputSystem(a, extra, s, h, k, u, tri, inverse_factor(schur, di.sum(axis=0)), transposable)


def portable_columns(a: Any, extra: Any, di: Any, d: Any, normals: Any) -> tuple[Any, ...]:
    """s, h, K, u, tri and S in JAX, for every device."""
    rows = jnp.concatenate([jnp.broadcast_to(a, (di.shape[0], *a.shape)), extra], axis=1)
    d = jnp.maximum(d, _LEAST * dot("ytx,yx->yt", rows**2, di))
    s, h = jnp.sqrt(di), jnp.where(d == 0, 0.0, 1.0 / jnp.sqrt(jnp.where(d == 0, 1.0, d)))
    u, tri = orthonormal(jnp.swapaxes(h[:, None] * normals, 1, 2))
    b = h[:, :, None] * rows * s[:, None, :]
    b = b - dot("ytn,ynx->ytx", u, dot("ytn,ytx->ynx", u, b))
    matrix = dot("ytx,ytz->yxz", b, b) + jnp.eye(di.shape[1], dtype=di.dtype)
    k = portable_inverse_factor(matrix, jnp.diagonal(matrix, axis1=1, axis2=2))
    flat = (k * s[:, None, :]).reshape(-1, di.shape[1])
    return s, h, k, u, tri, jnp.matmul(flat.T, flat, precision="highest")


def portable_solve(*args: Any) -> tuple[Any, Any, Any, Any]:
    """`InputSystem.solve` in JAX, for every device."""
    return InputSystem(*args[:8], transposable=True).solve(*args[8:])


def _column_shapes(a: Any, extra: Any, di: Any, d: Any, normals: Any) -> tuple[tuple[int, ...], ...]:
    inputs, levels = di.shape[1], normals.shape[1]
    return di.shape, d.shape, (*di.shape, inputs), (*d.shape, levels), (di.shape[0], levels, levels), (inputs, inputs)


def _solve_shapes(*args: Any) -> tuple[tuple[int, ...], ...]:
    rho, link, _, row = args[8:]
    return link.shape, rho.shape, rho.shape, row.shape


_columns = with_kernel("jaxpriv_inputs_factor", _column_shapes, portable_columns)
_solve = with_kernel("jaxpriv_inputs_solve", _solve_shapes, portable_solve)
