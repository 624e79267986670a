"""Names for array shapes. Axes: `s` private, `x` useful, `y` released (MATH notation: S - X - Y)."""

import sys
from types import EllipsisType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from jaxpriv._runtime.lanes import LaneArray

# A host array, a device array or a tracer: whatever the caller holds. Where a module runs on both libraries NumPy's
# scalars count as arrays without axes: its reductions return them.
# So does an array of a batch in NumPy, `LaneArray`: code that is written for one problem takes it for one of NumPy's,
# and so do a static checker and the signatures that a user reads. Checks at run time, by jaxtyping's hook, must accept
# it.
if not TYPE_CHECKING and any(type(finder).__module__ == "jaxtyping._import_hook" for finder in sys.meta_path):
    Arr: TypeAlias = Array | np.ndarray | LaneArray
else:
    Arr: TypeAlias = Array | np.ndarray
# A number or an array of a result: NumPy's on the host, JAX's in a trace. For a static checker it is anything: a union
# would have to be narrowed wherever a caller computes with it.
if TYPE_CHECKING:
    Result: TypeAlias = Any
else:
    Result: TypeAlias = float | np.ndarray | Array
# One number or truth value: an array without axes, NumPy's scalar (what its reductions return) or Python's.
ScalarLike: TypeAlias = Arr | np.floating | np.integer | float | int
BoolLike: TypeAlias = Arr | np.bool_ | bool
# An array, or a number that is broadcast to one.
ArrLike: TypeAlias = ScalarLike
# What a caller may give as an array: one of either library, a tracer, or nested lists of numbers.
ArrayInput: TypeAlias = Array | ArrayLike
# What selects entries along one axis (numbers, a slice, truth values), and along several.
AxisIndex: TypeAlias = Arr | np.integer | int | slice | EllipsisType | None
Index: TypeAlias = AxisIndex | tuple[AxisIndex, ...]

Joint = Float[Arr, "s x"]  # joint[s, x] = P(S=s, X=x)
Mechanism = Float[Arr, "x y"]  # mechanism[x, y] = P(Y=y | X=x); rows sum to one
PrivateMarginal = Float[Arr, " s"]
OutputJoint = Float[Arr, "s y"]  # w[s, y] = P(S=s, Y=y) = (joint @ mechanism)[s, y]
Column = Float[Arr, " s"]  # one column of OutputJoint
if TYPE_CHECKING:
    Scalar: TypeAlias = Float[Arr, ""]
else:
    Scalar: TypeAlias = Float[Arr, ""] | np.floating  # what NumPy's reductions return
