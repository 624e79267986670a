"""Growth exponents: measured from a sweep, and predicted from the operations of one step."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class PowerLaw:
    """value ~ size^exponent over the fitted points; `error` is the exponent's standard error (None from two points)."""

    exponent: float
    error: float | None
    sizes: tuple[float, ...]


def fit(sizes: Sequence[float], values: Sequence[float], upper: int = 3) -> PowerLaw | None:
    """Least squares of log value on log size over the `upper` largest sizes (all their points); None from one size.

    Small sizes are left out because fixed costs flatten the curve there; what is fitted is said in `sizes`.
    """
    fitted = sorted(set(sizes))[-upper:]
    if len(fitted) < 2:
        return None
    points = [(size, value) for size, value in zip(sizes, values, strict=True) if size in fitted]
    x, y = np.log(np.array(points, dtype=np.float64)).T
    spread = ((x - x.mean()) ** 2).sum()
    slope = float(((x - x.mean()) * (y - y.mean())).sum() / spread)
    residual = float(((y - y.mean() - slope * (x - x.mean())) ** 2).sum())
    error = math.sqrt(residual / (len(x) - 2) / spread) if len(x) > 2 else None
    return PowerLaw(slope, error, tuple(fitted))


def local(sizes: Sequence[float], values: Sequence[float]) -> tuple[float, ...]:
    """The exponent between each size and the next, by the median of the values of a size."""
    known = sorted(set(sizes))
    middle = [np.median([value for at, value in zip(sizes, values, strict=True) if at == size]) for size in known]
    return tuple(float(one) for one in np.diff(np.log(middle)) / np.diff(np.log(known)))


def interior_point_step(S: float, X: float, Y: float) -> float:
    """Multiplications of one Newton step: the cheaper of |Y| systems of size |S| or |X|, Schur complement, Cholesky."""
    return Y * (S * X * X / 2 + min(S * S * X + S**3 / 3, X**3 / 2)) + X**3 / 3


def pass_over_joint(S: float, X: float, Y: float) -> float:
    """Operations of one pass of a first-order method: J W and its gradient."""
    return S * X * Y


def factors(S: float, X: float, Y: float) -> float:
    """Numbers that the interior-point method holds: a factor for every output, a few times over."""
    eliminated = S * S * X + S**3 / 3 > X**3 / 2  # the rules rather than the mechanism
    return X * (max(S, X) if eliminated else S) * Y


def mapping(S: float, X: float, Y: float) -> float:
    """Numbers that a dense first-order method holds: the mapping, and the joint of S and Y."""
    return X * Y + S * Y


def rule(S: float, X: float, Y: float) -> float:
    """Numbers that a streaming method holds: the adversary's scores and the joint, a few times over."""
    return S * (X + Y)


Formula = Callable[[float, float, float], float]

# By quantity and solver. Nothing is predicted for the conic solvers (the ordering of their sparse system
# decides), nor for total seconds (the number of steps is no function of the sizes).
PREDICTED: dict[str, dict[str, Formula]] = {
    "seconds per step": {
        "interior-point": interior_point_step,
        "mirror-descent": pass_over_joint,
        "blahut-arimoto": pass_over_joint,
        "accelerated": pass_over_joint,
    },
    "peak memory": {
        "interior-point": factors,
        "mirror-descent": mapping,
        "blahut-arimoto": mapping,
        "accelerated": rule,
    },
}


# Where S = X the interior point's systems are diagonal.
PREDICTED_DIAGONAL: dict[str, dict[str, Formula]] = {
    "seconds per step": {"interior-point": lambda S, X, Y: Y * X * X + X**3},
    "peak memory": {"interior-point": lambda S, X, Y: X * Y},
}


def predicted(
    quantity: str,
    solver: str,
    shapes: Sequence[Mapping[str, int]],
    axis: str,
    upper: int = 3,
    *,
    diagonal: bool = False,
) -> float | None:
    """The slope that the formula has over the same points as the fit of a measurement; None without a formula.

    `diagonal`: whether S = X in every case.
    """
    special = PREDICTED_DIAGONAL.get(quantity, {}).get(solver) if diagonal else None
    formula = special or PREDICTED.get(quantity, {}).get(solver)
    if formula is None:
        return None
    sizes = [shape["X"] if axis == "n" else shape[axis] for shape in shapes]
    law = fit(sizes, [formula(shape["S"], shape["X"], shape["Y"]) for shape in shapes], upper)
    return None if law is None else law.exponent
