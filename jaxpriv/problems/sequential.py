"""One more release of the same records, to receivers who may put together all that they have."""

from collections.abc import Sequence
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.types import ArrayInput
from jaxpriv._runtime.validation import is_traced, joint_array, mechanism_array
from jaxpriv.data import distortion as distortions
from jaxpriv.data.distortion import AbstractDistortion
from jaxpriv.errors import InputError
from jaxpriv.problems.distortion import DistortionForm, DistortionProblem, as_distortions


def sequential_release(
    joint: ArrayInput,
    earlier: ArrayLike,
    distortion: ArrayInput | AbstractDistortion | Sequence[ArrayInput | AbstractDistortion],
    **form: Unpack[DistortionForm],
) -> DistortionProblem:
    """The next release Y, drawn from P(y | x, z), where receivers have Z already: the leakage is that of (Z, Y).

    Z stands for all earlier releases Y_1, ..., Y_{k-1} together, drawn from `earlier`. It is part of the data symbol,
    the pair (x, z), and of the output (z, y): a mechanism from pairs to outputs of the same z is a P(y | x, z). So the
    least I(S; Z, Y) with E d(X,Y) <= D is one convex program, and every measure and form has its certificate.

    The coalition of all receivers learns most: what a smaller one has is a function of (Z, Y), so its leakage is no
    larger, of every measure. If only some of the earlier receivers may collude with the new one, Z is what those have:
    P(y | x, z) may be averaged over the releases of the others, which changes neither the leakage nor E d.

    Args:
        joint: P(S,X), shape (S, X).
        earlier: P(z | x), shape (X, Z). Of two releases that were drawn independently given x, A and B, it is
            `np.einsum("xa,xb->xab", A, B).reshape(len(A), -1)`.
        distortion: d(x, y), as of `DistortionProblem`.
        form: `budget=`, `multiplier=` or `leakage_budget=`, `leakage=` and `limits=`, as of `DistortionProblem`.

    A mechanism W of the problem has shape (X Z, Z Y). The table P(y | x, z) is `W.reshape(X, Z, Z, Y).sum(axis=2)`, and
    what all have afterwards, the `earlier` of the release after it, is
    `np.einsum("xz,xzo->xo", earlier, W.reshape(X, Z, Z * Y))`.

    Raises `InputError` for bad arrays, naming the argument and the position, and inside of jit and vmap.
    """
    if is_traced((joint, earlier, distortion)):
        raise InputError("sequential_release: what a pair forbids must be known; call it outside of jit and vmap")
    joint = joint_array(joint)
    private, inputs = joint.shape
    released = mechanism_array(earlier, "earlier", inputs=inputs)
    same = np.eye(released.shape[1], dtype=bool)[:, :, None]
    tables = []
    for part in as_distortions(distortion, inputs, private):
        costs = np.where(same, np.asarray(distortions.dense(part))[:, None, None, :], np.inf)
        tables.append(distortions.Matrix(costs.reshape(released.size, -1)))
    return DistortionProblem((joint[:, :, None] * released).reshape(private, -1), tables, **form)
