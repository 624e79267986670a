"""Marginals, posteriors and entropies of finite distributions, in nats.

Notation: S private, X useful, Y released, S - X - Y a Markov chain; `joint[s, x] = P(S=s, X=x)`,
`mechanism[x, y] = P(Y=y | X=x)`. Zero masses follow the limits (0 ln 0 = 0).

Arrays of NumPy, and lists of numbers, give float64 arrays of NumPy, whatever precision JAX is set to; arrays of JAX
give arrays of JAX in their own precision.
"""

import numpy as np
from jaxtyping import Float

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.importing import names_of
from jaxpriv._runtime.numerics import kl_excess, safe_divide, xlogx
from jaxpriv._runtime.types import Arr, ArrayInput, Joint, Mechanism, Scalar
from jaxpriv._runtime.validation import before_computing, joint_array, nonnegative, real_array

__dir__ = names_of(__name__)


def from_counts(counts: ArrayInput) -> Arr:
    """The empirical joint `counts / counts.sum()` of a contingency table `(s, x)` of counts >= 0.

    Raises `InputError` naming the entry if one is negative, NaN or infinite, or if all are zero.

    Example:
        >>> print(from_counts([[3, 1], [0, 4]]))
        [[0.375 0.125]
         [0.    0.5  ]]
    """
    table = nonnegative(real_array(counts, "counts", ndim=2), "counts")
    return joint_array(table, "counts", normalise=True)


def private_marginal(joint: Joint) -> Float[Arr, " s"]:
    """P_S(s) = sum_x joint[s, x]."""
    (joint,) = xp.arguments(joint)
    return joint.sum(axis=1)


def useful_marginal(joint: Joint) -> Float[Arr, " x"]:
    """P_X(x) = sum_s joint[s, x]."""
    (joint,) = xp.arguments(joint)
    return joint.sum(axis=0)


def output_joint(joint: Joint, mechanism: Mechanism) -> Float[Arr, "s y"]:
    """w[s, y] = P(S=s, Y=y) = sum_x joint[s, x] mechanism[x, y]."""
    sizes = float(np.size(joint)), float(np.size(mechanism)), float(np.shape(joint)[0]) * np.shape(mechanism)[-1]
    before_computing(f"P(s,y) of arrays of {sizes[0]:g} and {sizes[1]:g} numbers", sum(sizes), joint, mechanism)
    return xp.matmul(*xp.arguments(joint, mechanism))


def posterior(joint: Float[Arr, "a b"]) -> Float[Arr, "a b"]:
    """P(a | b) = joint[a, b] / sum_a joint[a, b]; a column without mass gives a column of zeros."""
    before_computing(f"posteriors of shape {np.shape(joint)}", 2.0 * np.size(joint), joint)
    (joint,) = xp.arguments(joint)
    return safe_divide(joint, joint.sum(axis=0, keepdims=True))


def entropy(distribution: Float[Arr, "..."], axis: int | None = None) -> Float[Arr, "..."] | np.floating:
    """H(p) = -sum p ln p in nats, over `axis` (all axes if None)."""
    (distribution,) = xp.arguments(distribution)
    return 0.0 - xlogx(distribution).sum(axis=axis)  # of a certain symbol 0, not -0


def mutual_information(joint: Float[Arr, "a b"]) -> Scalar:
    """I(A;B) of a joint distribution `(a, b)`, in nats; never negative."""
    before_computing(f"mutual information of shape {np.shape(joint)}", 3.0 * np.size(joint), joint)
    (joint,) = xp.arguments(joint)
    product = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    # sum (a ln(a/b) - a + b) has no negative term and keeps its accuracy when I is tiny; three
    # entropies would cancel. The extra parts cancel in exact arithmetic.
    return (kl_excess(safe_divide(joint, product)) * product).sum()
