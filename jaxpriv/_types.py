"""Names for array shapes. Axes: `s` private, `x` useful, `y` released (MATH notation: S - X - Y)."""

from typing import TypeAlias

import numpy as np
from jaxtyping import Array, Float

# A host array, a device array or a tracer: whatever the caller holds.
Arr: TypeAlias = Array | np.ndarray

Joint = Float[Arr, "s x"]  # joint[s, x] = P(S=s, X=x)
Mechanism = Float[Arr, "x y"]  # mechanism[x, y] = P(Y=y | X=x); rows sum to one
PrivateMarginal = Float[Arr, " s"]
UsefulMarginal = Float[Arr, " x"]
OutputJoint = Float[Arr, "s y"]  # w[s, y] = P(S=s, Y=y) = (joint @ mechanism)[s, y]
Column = Float[Arr, " s"]  # one column of OutputJoint
Scalar = Float[Arr, ""]
