"""How much more somebody else's release leaks than the certified optimum at the same distortion or disclosure.

Counted from triples (s, x, y): what is private, what is useful, and what was released. On the frequencies of these
records the release is the mapping W = P^(y|x); its leakage I(S;Y), distortion E d(X,Y) and disclosure I(X;Y) are exact
for them. The optimum is that of the design problem for the same P^(s,x): least I(S;Y) of any mapping of X with at most
that distortion, or with at least that disclosure. The excess lies between I(S;Y) less the value of the best mapping
that was found and I(S;Y) less the certified lower bound.

All of this is about the sample. A mapping that was fitted on few records looks more informative than it is, to the
release and the optimum alike; `audit_pairs` bounds the population.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._validation import nonnegative, real_array, scalar
from jaxpriv.errors import InputError
from jaxpriv.estimation.audit._information import mutual_information
from jaxpriv.estimation.confidence.means import count_array
from jaxpriv.problems import DistortionProblem, FunnelProblem
from jaxpriv.solving.solve import solve

At = Literal["distortion", "disclosure"]


@dataclass(frozen=True)
class ReleaseExcess:
    """A release beside the optimum, nats, on the frequencies of the records.

    Attributes:
        records: n.
        leakage: I(S;Y) of the pairs.
        direct: I(S;Y|X), the information of Y about S beyond X; 0 for a mapping of X. The leakage of the
            mapping W is at least `leakage - direct`.
        distortion: E d(X,Y); None without a distortion.
        disclosure: I(X;Y).
        at: what the optimum has in common with the release.
        optimum: I(S;Y) of the best mapping that was found.
        lower_bound: certified: no mapping of X has less.
        status: of the optimum: `optimal` if both are within the tolerance.
        least, most: the excess lies between `leakage - optimum` and `leakage - lower_bound`; a negative one is possible
            only where the release used S itself.
    """

    records: int
    leakage: float
    direct: float
    distortion: float | None
    disclosure: float
    at: At
    optimum: float
    lower_bound: float
    status: str
    least: float
    most: float


def excess(
    counts: ArrayLike,
    *,
    distortion: ArrayLike | None = None,
    at: At | None = None,
    tol: float = 1e-6,
    time_limit: float | None = None,
) -> ReleaseExcess:
    """Compare a release with the certified optimum.

    Args:
        counts: (S, X, Y) whole numbers of records with private s, useful x and released y.
        distortion: d (X, Y), prices of releasing y for x; needed for `at="distortion"`.
        at: "distortion" (the default where one is given) or "disclosure".
        tol: the certified gap that counts as optimal, nats.
        time_limit: seconds for the optimum; at its end the interval is wider.

    Raises:
        InputError: bad arrays, a distortion of another shape, an unknown `at`, or `at="distortion"` without one.
    """
    table = count_array(counts, "counts", ndim=3)
    if not table.any():
        raise InputError("counts has no record")
    if at not in (None, "distortion", "disclosure"):
        raise InputError("at must be 'distortion' or 'disclosure'")
    if at == "distortion" and distortion is None:
        raise InputError("at='distortion' needs a distortion")
    tolerance = scalar(tol, "tol", low=0.0)
    table = table[table.any(axis=(1, 2))][:, table.any(axis=(0, 2))] if distortion is None else table
    n = int(table.sum())
    joint, pairs = table.sum(axis=2) / n, table.sum(axis=1) / n
    useful = table.sum(axis=0) / n
    leakage, disclosure = float(mutual_information(pairs)), float(mutual_information(useful))
    direct = sum(
        float(mutual_information(part / n / (part.sum() / n))) * part.sum() / n
        for part in np.moveaxis(table, 1, 0)
        if part.any()
    )
    spent = None
    if distortion is not None:
        prices = nonnegative(real_array(distortion, "distortion", ndim=2), "distortion")
        if prices.shape != useful.shape:
            raise InputError(f"distortion has shape {prices.shape}; the counts have (X, Y) = {useful.shape}")
        spent = float((useful * prices).sum())
    kind: At = at if at is not None else "disclosure" if distortion is None else "distortion"
    if kind == "distortion":
        # The optimum may not be worse for the rounding of a mean.
        problem: object = DistortionProblem(joint, prices, budget=spent * (1 + 1e-12) if spent else 0.0)
    else:
        seen = joint[joint.any(axis=1)][:, joint.any(axis=0)]
        problem = FunnelProblem(seen, disclosure=max(0.0, disclosure * (1 - 1e-9) - 1e-12))
    found = solve(problem, tol=tolerance, time_limit=time_limit)
    value, bound = float(found.value), max(float(found.lower_bound), 0.0)
    return ReleaseExcess(
        records=n,
        leakage=leakage,
        direct=max(direct, 0.0),
        distortion=spent,
        disclosure=disclosure,
        at=kind,
        optimum=value,
        lower_bound=bound,
        status=str(found.status),
        least=leakage - value,
        most=leakage - bound,
    )
