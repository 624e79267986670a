"""A user's convex f as part of a program: a static, hashable thing that knows its slopes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv.leakage import UserDivergence

# Ratios t beyond these say nothing more in float64, and polynomials in them stay finite.
LOWEST, HIGHEST = 1e-50, 1e50


@dataclass(frozen=True, eq=False)
class Generator:
    """f in units of its own: (f(t) - f'(1) (t - 1)) / size, which every f-divergence takes for f / size.

    `size` is 1 for the Kullback-Leibler f: half of f'(2) - f'(1/2) over ln 2. Slopes lie in (`lowest`, `highest`).
    Equal where the user's function is the same object: compiled programs are kept by it.
    """

    f: UserDivergence
    tilt: float
    size: float
    lowest: float
    highest: float

    @staticmethod
    def of(f: UserDivergence) -> "Generator":
        """The generator of `f`, in float64."""
        with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
            raw = Generator(f, 0.0, 1.0, -np.inf, np.inf)
            lowest, half, tilt, double, highest = np.asarray(raw.slope(jnp.array([LOWEST, 0.5, 1.0, 2.0, HIGHEST])))
        size = (double - half) / np.log(4.0)
        size = float(size) if 0 < size < np.inf else 1.0
        return Generator(f, float(tilt), size, float(lowest - tilt) / size, float(highest - tilt) / size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Generator) and other.f.f is self.f.f and other.f.at_zero == self.f.at_zero

    def __hash__(self) -> int:
        return hash((id(self.f.f), self.f.at_zero))

    def value(self, t: Any) -> Any:
        """f(t), t >= 0, elementwise; inf outside of its domain."""
        return (self.f(jnp.asarray(t)) - self.tilt * (t - 1.0)) / self.size

    def slope(self, t: Any) -> Any:
        """f'(t), t > 0; -inf below and inf above the interval around 1 on which f is finite."""
        return self.slope_and_curvature(t)[0]

    def slope_and_curvature(self, t: Any) -> tuple[Any, Any]:
        """(f'(t), f''(t)), t > 0."""
        value, slope, curvature = _derivatives(self.f.f, t)
        inside = jnp.isfinite(value) & ~jnp.isnan(slope)
        slope = jnp.where(inside, slope - self.tilt, jnp.where(t > 1.0, jnp.inf, -jnp.inf))
        return slope / self.size, curvature / self.size


def _derivatives(f: Callable[[Any], Any], t: Any) -> tuple[Any, Any, Any]:
    """(f, f', f'') of an elementwise function."""
    one = jnp.ones_like(t)

    def first(t: Any) -> tuple[Any, Any]:
        return jax.jvp(f, (t,), (one,))

    (value, slope), (_, curvature) = jax.jvp(first, (t,), (one,))
    return value, slope, curvature
