"""A user's convex f: the divergence, its curve, and what can be checked of any function of a user.

That is: finite, convex, differentiated rightly. Values at some points are compared with the tangents at the others. A
function that is convex there may still fail between them: what a certificate assumes is that it does not.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.lanes import LaneArray, with_lanes
from jaxpriv._runtime.numerics import positive
from jaxpriv._runtime.types import Arr, BoolLike, ScalarLike
from jaxpriv._runtime.validation import is_traced, scalar
from jaxpriv.errors import InputError
from jaxpriv.leakage._base import Scale, Traits
from jaxpriv.leakage.f_rules import AbstractCurve, AbstractDivergence, f_rules
from jaxpriv.leakage.rule_sets import Rules, View
from jaxpriv.leakage.user_functions import TANGENT_ROUNDING, call

__all__ = [
    "UserDivergence",
]


# Why a program under a trace cannot depend on a user's function.
OWN_FUNCTION = (
    "a function f or loss of your own is solved for outside of jit, vmap and grad only; call solve "
    "there, and sensitivity(problem, solution) for derivatives"
)


def in_units(size: float) -> Scale:
    """Of a total that is counted in units of `size`."""
    return Scale(lambda total: size * total, lambda value: value / size, lambda _: 1.0 / size)


# Ratios and announcements at which a user's function is compared with its tangents. Choices: more find more mistakes.
_RATIOS, _ANNOUNCEMENTS = 200, 40


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
        output = jax.eval_shape(function, jax.ShapeDtypeStruct(shape, jnp.float64))
    except jax.errors.JAXTypeError as error:
        raise InputError(f"{name} is not a JAX function (jnp in place of np, jnp.where in place of if)") from error
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} fails for {what}: {error}") from error
    if not isinstance(output, jax.ShapeDtypeStruct) or not jnp.issubdtype(output.dtype, jnp.floating):
        raise InputError(f"{name} returns no array of floating-point numbers for {what}")
    if output.shape != shape:
        raise InputError(f"{name} returns shape {output.shape} for {what}; shape {shape} is needed")


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
    return ~(start + rises <= values + TANGENT_ROUNDING * size)


# Ratios t beyond these change no value in float64, and polynomials in them stay finite.
LOWEST, HIGHEST = 1e-50, 1e50
# Halvings of a bracket of 100 decades in ln t: to the last bit of ln t they take 60; twice that.
_MOST_HALVINGS = 120
# The least curvature: a quartic has none at 1, where every search starts.
_FLATTEST = 1e-6
# The bracket of ln t, of width 460, is halved so often that the ratio is known to rounding.
_HALVINGS = 62
# Ratios of a call on the host are filled up to this number, times a power of 4.
_LEAST_RATIOS = 64
# What a value of f may be off by, relative to the numbers that it was made of.
_ROUNDING = 8 * float(np.finfo(np.float64).eps)


# ln t, the ends of its bracket, the last move and their number.
_Bracket: TypeAlias = tuple[Array, Array, Array, Array, ScalarLike]


class UserDivergence(AbstractDivergence):
    """A user's f: convex on (0, inf), f(1) = 0, an elementwise JAX function of an array t > 0.

    `at_zero` is the limit f(0+), `inf` included; f itself is never called at 0, so it may be
    `lambda t: t * jnp.log(t)`. The gradient at t = 0 is 0. Raises `InputError` if f(1) is not 0 or
    `at_zero` is NaN or -inf. Without convexity data processing fails; evaluation does not check it.

    As an objective or a limit f is refused (`InputError`, naming the ratio t) where it is NaN, where a tangent lies
    above it at one of some hundred points from 0 to 1e9, or where f(1) is not 0 but for rounding. The proof of a
    solution is that a convex f lies above its tangents, f(t) >= f(r) + f'(r)(t - r) for any r (Csiszár 1967): it
    assumes convexity between those points too, and that `jax.jvp` of f is a slope (any one-sided mixture at a kink). f
    may be inf at 0 and above some t > 1. Kinks and pieces where f is linear leave the interval of a solution open, with
    the status `not_certified`.
    """

    f: Callable[[Array], Array]
    at_zero: float = eqx.field(static=True)

    def __init__(self, f: Callable[[Array], Array], at_zero: float):
        if not callable(f):
            raise InputError("f must be a function of an array of ratios")
        self.f = f
        self.at_zero = scalar(at_zero, "at_zero", low=-np.finfo(np.float64).max, infinite=True)

    def __check_init__(self) -> None:
        at_one = self.f(jnp.ones(()))
        if not (is_traced(at_one) or abs(float(at_one)) <= 1e-6):
            raise InputError("f must satisfy f(1) = 0")

    traits: ClassVar[Traits] = Traits("dimensionless", designable=True)

    def rules(self, view: View) -> Rules:
        return f_rules(UserCurve.of(self), view)

    def scale_for(self, symbols: int) -> Scale:
        del symbols
        return in_units(UserCurve.of(self).size)

    def check(self, form: str, symbols: int) -> None:
        del symbols
        with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
            _check_shape(f"{form}: f", self.f, (3, 2), "ratios t of shape (3, 2)")
        curve = UserCurve.of(self)
        check_convex(form, curve.value, curve.slope, curve.tilt)
        at_one = float(curve.value(np.ones(1))[0])
        if not abs(at_one) <= TANGENT_ROUNDING:  # of a bound of 0 too, which no mechanism may undercut
            raise InputError(f"{form}: f is {curve.size * at_one:.3g} at t = 1: subtract that, from at_zero too")

    @property
    def untraceable(self) -> str | None:
        return OWN_FUNCTION

    def __call__(self, t: Float[Arr, "..."]) -> Float[Arr, "..."]:
        if xp.of(t) is np:
            curve = UserCurve(self)
            return with_lanes(curve.value(t.lanes)) if isinstance(t, LaneArray) else curve.value(t)
        present = positive(t)
        return jnp.where(present, self.f(jnp.where(present, t, 1.0)), self.at_zero)


@dataclass(frozen=True, eq=False)
class UserCurve(AbstractCurve):
    """f in units of its own: (f(t) - f'(1) (t - 1)) / size, which every f-divergence takes for f / size.

    `size` is 1 for the Kullback-Leibler f: half of f'(2) - f'(1/2) over ln 2. Slopes lie in (`lowest`, `highest`).
    Equal where the user's function is the same object: compiled programs are kept by it.
    """

    users: ClassVar[bool] = True

    f: UserDivergence
    tilt: float = 0.0
    size: float = 1.0
    lowest: float = -np.inf
    highest: float = np.inf

    @staticmethod
    def of(f: UserDivergence) -> "UserCurve":
        """The curve of `f`, in float64."""
        lowest, half, tilt, double, highest = UserCurve(f).slope(np.array([LOWEST, 0.5, 1.0, 2.0, HIGHEST]))
        size = (double - half) / np.log(4.0)
        size = float(size) if 0 < size < np.inf else 1.0
        return UserCurve(f, float(tilt), size, float(lowest - tilt) / size, float(highest - tilt) / size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UserCurve) and other.f.f is self.f.f and other.f.at_zero == self.f.at_zero

    def __hash__(self) -> int:
        return hash((id(self.f.f), self.f.at_zero))

    @property
    def slopes(self) -> tuple[float, float]:
        return self.lowest, self.highest

    def value(self, t: Arr) -> Arr:
        """f(t), t >= 0, elementwise: the limit at 0, inf outside of its domain."""
        return (self._own(_values_and_derivatives, t)[0] - self.tilt * (t - 1.0)) / self.size

    def slope(self, t: Arr) -> Arr:
        """f'(t), t > 0; -inf below and inf above the interval around 1 on which f is finite."""
        return self.slope_and_curvature(t)[0]

    def slope_and_curvature(self, t: Arr) -> tuple[Arr, Arr]:
        """(f'(t), f''(t)), t > 0."""
        value, slope, curvature = self._own(_values_and_derivatives, t)[1:]
        inside = xp.isfinite(value) & ~xp.isnan(slope)
        slope = xp.where(inside, slope - self.tilt, xp.where(t > 1.0, np.inf, -np.inf))
        return slope / self.size, curvature / self.size

    def _own(self, function: Callable[["UserCurve", Array], PyTree], t: Arr) -> PyTree:
        """An elementwise function of the user's function itself, in JAX, for numbers of any shape."""
        if xp.of(t) is jnp:
            return function(self, jnp.asarray(t))
        t = np.asarray(t)
        results = call(function, self, t.reshape(-1), least_rows=_LEAST_RATIOS)
        return jax.tree.map(lambda part: part.reshape(t.shape), results)

    def _finite(self, u: Arr) -> Arr:
        """The slope of the user's function itself: an infinite one is that of no ratio at which f is finite."""
        most = float(np.finfo(np.float64).max)
        return xp.clip(self.tilt + self.size * u, -most, most)

    def conjugate(self, u: Arr) -> tuple[Arr, Arr, Arr]:
        """By inverting the slope: f*(u) = u t - f(t) where f'(t) = u. A certificate takes `lines` instead."""
        t = self._own(_ratios_at, self._finite(u))
        _, curvature = self.slope_and_curvature(t)
        return u * t - self.value(t), t, 1.0 / xp.maximum(curvature, _FLATTEST)

    def conjugate_at(self, t: Arr, u: Arr) -> Arr:
        value = self.value(t)
        finite = xp.isfinite(value)  # elsewhere u is infinite, too: f has no tangent
        return xp.where(finite, xp.where(finite, u, 0.0) * t - xp.where(finite, value, 0.0), np.inf)

    def lines(self, u: Arr) -> tuple[Arr, Arr]:
        """A line u t - c lies below a convex f where u = f'(r) and c = r f'(r) - f(r), for whatever ratio r: no
        conjugate in closed form is needed and none is relied on.

        The proof assumes what `UserDivergence` demands of f, that it is convex with f(1) = 0, and that JAX
        differentiates it to a slope (at a kink any number between the two one-sided ones).
        """
        r = self._own(_ratios_between, self._finite(u))
        slope, value = self.slope(r), self.value(r)
        rounding = _ROUNDING * (abs(r * slope) + abs(value) + abs(self.tilt) * (r + 1.0) / self.size)
        return slope, r * slope - value + rounding


def _values_and_derivatives(curve: UserCurve, t: Array) -> tuple[Arr, Array, Array, Array]:
    """f(t) with its limit at 0, and (f, f', f'') of the user's function itself."""
    return curve.f(t), *_derivatives(curve.f.f, t)


def _ratios_at(curve: UserCurve, u: Array) -> Array:
    """The ratio t in [LOWEST, HIGHEST] with the slope u of the user's function itself.

    Newton's method in ln t inside a bracket, halved where Newton's step leaves it or does not halve the last one.
    """
    untilted = UserCurve(curve.f)

    def go_on(state: _Bracket) -> BoolLike:
        _, _, _, last, count = state
        return (abs(last) > 0).any() & (count < _MOST_HALVINGS)

    def narrow(state: _Bracket) -> _Bracket:
        z, low, high, last, count = state
        t = jnp.exp(z)
        slope, curvature = untilted.slope_and_curvature(t)
        below = slope < u
        low, high = jnp.where(below, z, low), jnp.where(below, high, z)
        newton = (u - slope) / (t * curvature)
        fits = (z + newton > low) & (z + newton < high) & (abs(newton) < 0.5 * abs(last))
        step = jnp.where(fits, newton, 0.5 * (low + high) - z)
        least = jnp.finfo(z.dtype).eps * (1.0 + abs(z))
        done = (last == 0) | (slope == u) | (abs(newton) <= least) | (high - low <= least)
        step = jnp.where(done, 0.0, step)
        return z + step, low, high, step, count + 1

    low, high = _ends(u)
    start = (jnp.zeros_like(u), low, high, high - low, jnp.array(0))
    return _inside(jax.lax.while_loop(go_on, narrow, start)[0])


def _ratios_between(curve: UserCurve, u: Array) -> Array:
    """The same by halving: the end of the bracket on the side of 1 has a finite slope wherever one of the two has."""
    untilted = UserCurve(curve.f)

    def halve(_: ScalarLike, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        rising = untilted.slope(jnp.exp(middle)) < u
        return jnp.where(rising, middle, low), jnp.where(rising, high, middle)

    low, high = jax.lax.fori_loop(0, _HALVINGS, halve, _ends(u))
    return _inside(jnp.where(low > 0, low, high))


def _inside(z: Array) -> Array:
    """The ratio e^z, moved towards 1 by what z is known to: at an end of the ratios where f is finite it is one."""
    return jnp.exp(z - jnp.sign(z) * (4 * jnp.finfo(z.dtype).eps) * (1.0 + abs(z)))


def _ends(u: Array) -> tuple[Array, Array]:
    """The bracket of ln t."""
    return jnp.full_like(u, np.log(LOWEST)), jnp.full_like(u, np.log(HIGHEST))


def _derivatives(f: Callable[[Array], Array], t: Arr) -> tuple[Array, Array, Array]:
    """(f, f', f'') of an elementwise function."""
    ones = jnp.ones_like(t)

    def first(t: Array) -> tuple[Array, Array]:
        return jax.jvp(f, (t,), (ones,))

    (value, slope), (_, curvature) = jax.jvp(first, (t,), (ones,))
    return value, slope, curvature
