"""The most informative mechanism about a database within a limit on what it discloses of each record."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.clock import ProgressLike, clock_of
from jaxpriv._runtime.divergences import entropy
from jaxpriv._runtime.validation import scalar
from jaxpriv.extremal.repair import mechanism_of
from jaxpriv.extremal.utility import MaximumUtility, among, result_of
from jaxpriv.extremal.vertices import posteriors
from jaxpriv.models.databases import information_privacy, sequences
from jaxpriv.models.databases.universe import prior_over, record_limits, universe_sizes

_EPS = float(np.finfo(np.float64).eps)


def record_utility(
    prior: ArrayLike,
    sizes: int | Sequence[int],
    leakage: ArrayLike,
    *,
    tol: float = 1e-6,
    time_limit: float | None = None,
    progress: ProgressLike = None,
) -> MaximumUtility:
    """max I(X;Y) over mechanisms with I_inf(X_i;Y) <= eps_i for every record i of X, under one prior, in nats.

    The limits say of every posterior q of X that q(x_i = a) <= e^eps_i P(x_i = a) for all i and a, a polytope, on which
    I(X;Y) is the mean of a convex function: its vertices, which are listed, are enough (up to four binary records).
    Nothing is limited of several records together: where n fair bits are independent, the optimum is

        n ln 2 - h( max(1 - e^eps/2, 0) ),   eps = min_i eps_i,  h the binary entropy,

    all of X but a part of one bit, since the differences of the bits disclose nothing of any of them.

    Args:
        prior: P (N,) over the sequences of `sizes`.
        sizes: the universes of the records.
        leakage: eps_i > 0 in nats, one number or one for each record.
        tol: the largest upper_bound - value that counts as `optimal`, nats.
        time_limit, progress: as for `jaxpriv.maximum_utility`.

    `leakage` of the result has a value for each record. Raises `InputError` for an argument that is wrong, by name, and
    `ResourceError` for too many vertices.

    Wu, Xia and He, section 3.2 (the third utility) and Definition 5.
    """
    sizes = universe_sizes(sizes)
    whole = prior_over(prior, sizes)
    limits = record_limits(leakage, sizes)
    tol = scalar(tol, "tol", low=0.0, open_low=True)
    used = np.flatnonzero(whole > 0)
    source, table = whole[used], sequences(sizes)[used]
    lifts, caps, most = [], [], 1
    for record, limit in zip(table.T, limits, strict=True):
        masses = np.bincount(record, weights=source)
        seen = np.flatnonzero(masses)
        bound = seen[masses[seen] < np.exp(-limit)]  # the others limit nothing
        lifts += [(record == a) / masses[a] for a in bound]
        caps += [limit] * len(bound)
        most += min(len(bound), len(seen) - 1)
    relative, cap = np.reshape(lifts, (-1, len(used))), np.exp(caps)
    with clock_of(time_limit, progress) as clock:
        vertices = posteriors(relative * source / cap[:, None], source, 0.0, 1.0, clock=clock, most=most)
        best = among(vertices, source, tol, clock)
    mechanism = mechanism_of(best.lifts, best.weights)
    masses = source @ mechanism
    lift = relative @ (source[:, None] * mechanism) / masses
    over = lift - cap[:, None] * (1.0 - 16 * _EPS)
    # Of a release that discloses nothing: all of it where the limit is next to 0.
    share = float((over / np.where(over > 0, np.maximum(lift - 1.0, over), 1.0)).max(initial=0.0))
    mechanism = (1.0 - share) * mechanism + share * masses
    upper = min(best.upper_bound, entropy(source) * (1 + 1e-14))
    result = result_of(whole, mechanism, (), upper, best.method, tol, clock)
    return replace(result, leakage=tuple(information_privacy(result.mechanism, whole, sizes).per_record.tolist()))
