"""Any mechanism and any multipliers of a linear program, made into a `Candidate`.

With all terms of kind LINEAR the program is

    minimise  <cost, W> + sum_OBJECTIVE phi_j + peak,    phi_j = sum_y (t_jy + cap_j . v_jy)
    subject to  A_j W_y <= reference_j t_jy + v_jy       multipliers k_jy >= 0
                <constraints_r, W> <= budgets_r + marks_r peak,  phi_j <= bound_j or peak     price >= 0

and weak duality needs no more of k than 0 <= k <= price cap, reference . k = price (0 for WORST).
"""

import jax.numpy as jnp

from jaxpriv._types import Arr
from jaxpriv.solvers._base import Candidate
from jaxpriv.solvers.conic.candidate import improved
from jaxpriv.solvers.conic.system import Data, Point

# Multipliers of a linear program are often exactly zero. A set {reference . k = price} is reached from
# them by scaling, so that all of a row at zero would be 0/0; this much moves no bound.
_NO_LESS = 1e-30


def improved_linear(data: Data, x: Arr, k: Arr, price: Arr, best: Candidate) -> Candidate:
    """`best` with the better of its own and x (Y, X), and of its own and k (Y, T), price (B,)."""
    eta = jnp.zeros((x.shape[0], 0), x.dtype)
    k, price = jnp.maximum(k, _NO_LESS), jnp.maximum(price, _NO_LESS)
    unused = jnp.zeros((), x.dtype)
    point = Point(x, unused, k, unused, unused, unused, eta, eta, unused, price, unused, unused)
    return improved(data, point, (), best)
