"""A limit on maximal (alpha, beta)-leakage, the largest over all priors of S."""

from collections.abc import Sequence
from typing import Unpack

import numpy as np

from jaxpriv._runtime.types import ArrayInput, ScalarLike
from jaxpriv._runtime.validation import is_traced, scalar
from jaxpriv.data.distortion import AbstractDistortion
from jaxpriv.errors import InputError
from jaxpriv.leakage import MaximalAlphaLeakage
from jaxpriv.leakage.renyi_divergence import maximal_alpha_limits
from jaxpriv.problems.distortion import DistortionForm, DistortionProblem


def with_maximal_alpha(
    joint: ArrayInput,
    distortion: ArrayInput | AbstractDistortion | Sequence[ArrayInput | AbstractDistortion],
    measure: MaximalAlphaLeakage,
    limit: ScalarLike,
    **form: Unpack[DistortionForm],
) -> DistortionProblem:
    """A problem with the further limit measure <= limit on maximal (alpha, beta)-leakage.

    * beta 1, maximal alpha-leakage: the capacity of order a of S -> Y, min over Q of max_s D_a(P_{Y|s} || Q). It is at
      most the limit if and only if some law Q of Y has D_a(P_{Y|s} || Q) <= limit for every s. Q is the row of one more
      useful symbol, without mass, and each of these limits is convex in both rows.
    * beta at least the order: a limit on D_beta(P_{Y|s} || P_{Y|s'}) for each pair; beta inf: on the log-ratios.

    For 1 < beta < order the limit is not stated: one with beta = order is stronger.

    Args:
        joint: P(S,X), shape (S, X), or P(X). Private symbols without mass are left out.
        distortion: as of `DistortionProblem`.
        measure: `MaximalAlphaLeakage(order, beta=beta)`.
        limit: e >= 0 in nats.
        form: as of `DistortionProblem`. `leakage_budget=inf` minimises E d under the limit alone.

    The mechanism is `solution.mechanism[:X]`.

    Raises `InputError` for other measures, more than one joint, bad arrays, and inside of jit, vmap and grad.
    """
    if is_traced((joint, distortion, measure, limit)):
        raise InputError("with_maximal_alpha: call it outside of jit, vmap and grad")
    plain = DistortionProblem(joint, distortion, **form)
    if plain.sizes[0] > 1:
        raise InputError("joint must be one joint (S,X) where maximal alpha-leakage is limited")
    symbols = np.flatnonzero(plain.joints[0].sum(axis=1) > 0).tolist()
    further = maximal_alpha_limits(measure, scalar(limit, "limit", low=0.0), symbols)
    tables = [np.concatenate([table, np.zeros((1, table.shape[1]))]) for table in plain.entries()]
    return DistortionProblem(
        np.pad(plain.joints[0], ((0, 0), (0, 1))), tables, **form | {"limits": [*plain.limits, *further]}
    )
