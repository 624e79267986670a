"""The forms of a `DistortionProblem`: what is minimised, what is limited, and by which numbers.

    Budget          minimise L                          subject to E d_k <= D_k for every k
    LeastLimit      the same of a measure L of the worst outcome: the least limit on it that the budgets allow
    Multiplier      minimise L + sum_k l_k E d_k
    LeakageBudget   minimise E d                        subject to L <= e

A form is an object that holds its target. What differs between forms is an attribute of their classes: the rest of the
library asks the form of a problem, and names no keyword.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import jax.numpy as jnp
import numpy as np
from equinox import AbstractVar

from jaxpriv._runtime.module import Module
from jaxpriv._runtime.types import Arr, ArrayInput
from jaxpriv._runtime.validation import finite, is_traced, real_array, scalar
from jaxpriv.errors import InputError


class AbstractProblemForm(Module):
    """A form with its target, a pytree of one leaf.

    Attributes:
        target: the number or numbers that the keyword gives; of a stack of problems with a leading axis.
        name: the keyword that states the form.
        sums_leakage: whether the leakage is part of the objective, as a sum over the outputs.
        limits_leakage: whether the target limits the leakage, and the distortion is minimised.
        limits_distortion: whether the target limits the distortions, and the leakage alone is minimised.
        prices_distortion: whether the target is a price of every distortion.
        minimax: whether the least limit on a measure of the worst outcome is asked for.
    """

    target: AbstractVar[Any]
    name: ClassVar[str]
    sums_leakage: ClassVar[bool] = False
    limits_leakage: ClassVar[bool] = False
    limits_distortion: ClassVar[bool] = False
    prices_distortion: ClassVar[bool] = False
    minimax: ClassVar[bool] = False

    @classmethod
    def of(cls, value: Any, joints: int, distortions: int) -> Self:  # noqa: ANN401 (a number or an array, refused here)
        """The form of a problem with so many joints and distortions; refuses what is no target of it."""
        del joints
        return cls(_per_distortion(value, cls.name, distortions))

    @classmethod
    def points(cls, values: object) -> np.ndarray:
        """The targets of a frontier, (B, M); (B,) of limits on the leakage."""
        points = finite(real_array(values, f"{cls.name}s", ndim=(1, 2)), f"{cls.name}s")
        return points[:, None] if points.ndim == 1 else points


class Budget(AbstractProblemForm):
    """The least average leakage within budgets (M,) of the distortions."""

    target: Any
    name = "budget"
    sums_leakage = limits_distortion = True


class LeastLimit(AbstractProblemForm):
    """The least limit on a measure of the worst outcome that budgets (M,) of the distortions allow."""

    target: Any
    name = "budget"
    limits_distortion = minimax = True


class Multiplier(AbstractProblemForm):
    """The least sum of the average leakage and the priced distortions; prices (M,)."""

    target: Any
    name = "multiplier"
    sums_leakage = prices_distortion = True

    @classmethod
    def of(cls, value: Any, joints: int, distortions: int) -> Self:  # noqa: ANN401
        if joints > 1:
            raise InputError(
                "multiplier: a set of joints takes a `budget`; a price under every joint is a sum of joints"
            )
        prices = _per_distortion(value, cls.name, distortions)
        if not is_traced(prices) and not np.all(prices >= 0):
            raise InputError(f"multiplier[{int(np.argmax(~(prices >= 0)))}] is negative")
        return cls(prices)


class LeakageBudget(AbstractProblemForm):
    """The least distortion under a limit () on the leakage."""

    target: Any
    name = "leakage_budget"
    limits_leakage = True

    @classmethod
    def of(cls, value: Any, joints: int, distortions: int) -> Self:  # noqa: ANN401
        del joints
        if distortions > 1:
            raise InputError(
                "leakage_budget minimises one distortion, and several were given; use `budget` or `multiplier`, or "
                "pass their weighted sum as one distortion"
            )
        return cls(scalar(value, cls.name, infinite=True))

    @classmethod
    def points(cls, values: object) -> np.ndarray:
        points = real_array(values, "leakage_budgets", ndim=1)
        if np.isinf(points).any():
            raise InputError(
                "leakage_budgets must be finite; for a point without limit call solve with leakage_budget=inf"
            )
        return finite(points, "leakage_budgets")


# The forms by the keywords that state them.
FORMS: dict[str, type[AbstractProblemForm]] = {form.name: form for form in (Budget, Multiplier, LeakageBudget)}


def form_of(given: Mapping[str, object], worst_outcome: bool, joints: int, distortions: int) -> AbstractProblemForm:
    """The form that the one keyword states which is not None."""
    chosen = [name for name in FORMS if given[name] is not None]
    if len(chosen) != 1:
        stated = " and ".join(f"`{name}`" for name in chosen) or "none"
        raise InputError(f"give exactly one of `budget`, `multiplier` and `leakage_budget` ({stated} given)")
    (name,) = chosen
    form = LeastLimit if worst_outcome and FORMS[name].limits_distortion else FORMS[name]
    return form.of(given[name], joints, distortions)


def _per_distortion(value: ArrayInput, name: str, count: int) -> Arr:
    if count == 1 and isinstance(value, float) and math.isfinite(value):  # what it mostly is
        return np.array([value], dtype=np.float64)
    array = real_array(value, name, ndim=(0, 1)) if not isinstance(value, (bool, np.bool_)) else None
    if array is None:
        raise InputError(f"{name} must be a number, not a bool")
    finite(array, name)
    xp = jnp if is_traced(array) else np
    array = xp.reshape(array, (-1,))
    if array.shape[0] != count:
        raise InputError(f"{name} has {array.shape[0]} entries for {count} distortion(s); one each is needed")
    return array
