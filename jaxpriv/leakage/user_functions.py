"""What can be checked of a user's f or loss before anything is proved with it: finite, convex, differentiated rightly.

Both checks compare values at some points with the tangents at the others. A function that is convex there may
still fail between them: what a certificate assumes is that it does not.
"""

from collections.abc import Callable, Hashable
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from jaxpriv._types import Arr
from jaxpriv.errors import InputError

# A user's JAX function called with NumPy arrays: compiled for a few numbers of rows, for all numbers of rows.
#
# One call runs in tens of microseconds. Operation by operation, JAX would compile every operation for every shape.


# Numbers of rows are rounded up to the least one times a power of the growth: three programs serve 16 to 256 rows.
_GROWTH = 4
# The programs used last are kept; each holds its user's function.
_MOST_PROGRAMS = 48


def call(function: Callable[..., object], owner: Hashable, *arrays: Arr, least_rows: int = 16) -> PyTree:
    """function(owner, *arrays) as NumPy arrays, in the arrays' own precision.

    `function` maps rows (the first axis, of equal length) to rows, each by itself; it stands in a module, and owners
    that are equal give equal results: the pair is what a compiled program is kept by.
    """
    rows, size = len(arrays[0]), least_rows
    while size < rows:
        size *= _GROWTH
    filled = [_filled(np.asarray(array), size) for array in arrays]
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        program = _compiled(function, owner, tuple((array.shape, array.dtype) for array in filled))
        found = program(*filled)
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:rows], found)


def _filled(array: np.ndarray, size: int) -> np.ndarray:
    """More rows, equal to the first one (ones where there is none), which whatever is done to the first can take."""
    missing = size - len(array)
    if missing == 0:
        return array
    row = array[:1] if len(array) else np.ones((1, *array.shape[1:]), array.dtype)
    return np.concatenate([array, np.repeat(row, missing, axis=0)])


@lru_cache(maxsize=_MOST_PROGRAMS)
def _compiled(function: Callable[..., Arr], owner: Hashable, shapes: tuple[Arr, ...]) -> Callable[..., Arr]:
    arguments = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes]
    return jax.jit(lambda *arrays: function(owner, *arrays)).lower(*arguments).compile()


# Tangents may lie above the values by rounding of the user's function, relative to the numbers compared.
_ROUNDING = 1e-9
# Ratios and announcements at which a user's function is compared with its tangents. Choices: more find more mistakes.
_RATIOS, _ANNOUNCEMENTS = 200, 40


def check_elementwise(form: str, f: Callable[[Array], Array]) -> None:
    """Refuse an f, of the argument `form`, that is no elementwise JAX function: before anything is computed with it."""
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        _check_shape(f"{form}: f", f, (3, 2), "ratios t of shape (3, 2)")


def check_convex(form: str, value: Callable[[Arr], Arr], slope: Callable[[Arr], Arr], tilt: float) -> None:
    """Refuse an f that is not convex. `value` and `slope` are f and f' in units of their own, with the limit at 0, less
    `tilt` (t - 1).
    """
    # f at 0 and from 1e-9 to 1e9, most densely near 1.
    t = np.unique(np.concatenate([np.geomspace(1e-9, 1e9, 2 * _RATIOS), np.geomspace(0.1, 10.0, _RATIOS)]))
    values, slopes = np.asarray(value(t)), np.asarray(slope(t))
    if np.isnan(values).any():
        raise InputError(f"{form}: f is NaN at t = {t[np.isnan(values)][0]:.4g}")
    if not np.isfinite(tilt):
        raise InputError(f"{form}: f has no finite slope at t = 1")
    inside = np.isfinite(slopes)
    all_t, all_values = np.append(0.0, t), np.append(value(np.zeros(1)), values)
    bad = _above(values[inside], slopes[inside] * (all_t[:, None] - t[inside]), all_values[:, None])
    if bad.any():
        pairs = np.argwhere(bad)
        # The nearest pair says where f bends the wrong way; at_zero is blamed only if nothing else can be.
        apart = np.where(all_t[pairs[:, 0]] > 0, abs(all_t[pairs[:, 0]] - t[inside][pairs[:, 1]]), np.inf)
        there, here = pairs[apart.argmin()]
        zero = " (at_zero)" if there == 0 else ""
        raise InputError(
            f"{form}: f is not convex: its tangent at t = {t[inside][here]:.4g} lies above f at "
            f"t = {all_t[there]:.4g}{zero}"
        )


def check_loss(form: str, loss: Callable[[Array], Array], proper: bool, symbols: int) -> None:
    """Refuse a loss, of the argument `form`, that is no function of announcements over so many symbols, not convex,
    or declared proper and not.
    """
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        _check_shape(f"{form}: loss", loss, (symbols,), f"announcements over {symbols} symbols")
    _check_announcements(form, loss, proper, symbols)


def costs_and_slopes(loss: Callable[[Array], Array], q: Array) -> tuple[Array, Array]:
    """C(s, q) and its derivatives by q(j), of every row of q."""
    return jax.vmap(loss)(q), jax.vmap(jax.jacfwd(loss))(q)


def _check_shape(name: str, function: Callable[[Array], Array], shape: tuple[int, ...], what: str) -> None:
    try:
        found = jax.eval_shape(function, jax.ShapeDtypeStruct(shape, jnp.float64))
    except jax.errors.JAXTypeError as error:
        raise InputError(f"{name} is not a JAX function (jnp in place of np, jnp.where in place of if)") from error
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} fails for {what}: {error}") from error
    if not isinstance(found, jax.ShapeDtypeStruct) or not jnp.issubdtype(found.dtype, jnp.floating):
        raise InputError(f"{name} returns no array of floating-point numbers for {what}")
    if found.shape != shape:
        raise InputError(f"{name} returns shape {found.shape} for {what}; shape {shape} is needed")


def _check_announcements(form: str, loss: Callable[[Array], Array], proper: bool, symbols: int) -> None:
    """The loss at announcements inside the simplex and near its faces."""
    rng = np.random.default_rng(0)
    q = np.vstack([rng.dirichlet(np.full(symbols, share), _ANNOUNCEMENTS // 2) for share in (0.3, 3.0)])
    # A thousandth of the uniform announcement: inside the simplex, where the loss and its slopes are finite.
    q = 0.999 * np.vstack([np.full(symbols, 1.0 / symbols), q]) + 0.001 / symbols
    costs, slopes = call(costs_and_slopes, loss, q)
    finite = np.isfinite(costs).all(axis=0) & np.isfinite(slopes).all(axis=(0, 2))
    if not finite.all():
        raise InputError(
            f"{form}: loss[{int(np.argmin(finite))}] or its slope is not finite at an announcement without zeros"
        )
    rises = np.einsum("asj,abj->bas", slopes, q[None] - q[:, None])
    bad = _above(costs[None], rises, costs[:, None]).any(axis=(0, 1))
    if bad.any():
        raise InputError(
            f"{form}: loss[{int(np.argmax(bad))}] is not convex in the announcement: a tangent lies above it"
        )
    if proper:
        _check_proper(form, loss, q)


def _check_proper(form: str, loss: Callable[[Array], Array], q: np.ndarray) -> None:
    slopes = np.einsum("as,asj->aj", q, call(costs_and_slopes, loss, q)[1])
    gap = (slopes * q).sum(axis=1) - slopes.min(axis=1)
    # 1e-6 is a choice: a loss that is this nearly proper is taken as proper.
    if not (gap <= 1e-6 * (1.0 + abs(slopes).max(axis=1))).all():
        raise InputError(f"{form}: loss is not proper: announcing the posterior is not the best announcement")


def _above(start: np.ndarray, rises: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Where start + rises exceeds `values` beyond rounding."""
    size = abs(start) + abs(rises) + np.where(np.isfinite(values), abs(values), 0.0)
    return ~(start + rises <= values + _ROUNDING * size)
