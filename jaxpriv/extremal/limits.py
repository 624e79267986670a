"""Pointwise limits are bounds on the lift t = q/p of every posterior q:

low <= t_s <= high for all s        max-lift (PML), min-lift, lift; asymmetric where both ends are given
t_s <= ratio * t_s' for all s, s'   local differential (= inferential) privacy
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from jaxpriv._runtime.validation import scalar
from jaxpriv.errors import InputError
from jaxpriv.leakage import AbstractPointwiseLeakage
from jaxpriv.leakage.pointwise import LiftEnd

# e^300 and its square root of the reciprocal are normal numbers; a tighter limit than asked for is still met.
_LARGEST = 300.0

Pair = tuple[AbstractPointwiseLeakage, float]


@dataclass(frozen=True)
class Limits:
    """The limits as given, and the smallest eps for each kind of bound (inf: no such bound).

    Attributes:
        pairs: (measure, eps) as given.
        raised: ln of the largest lift allowed.
        lowered: minus ln of the smallest lift allowed.
        spread: ln of the largest ratio of two lifts allowed.
    """

    pairs: tuple[Pair, ...]
    raised: float
    lowered: float
    spread: float

    def inequalities(self) -> np.ndarray | None:
        """Those of limits on populations, (K, X + 2); None of limits on the distribution that is given.

        Raises `InputError` where both kinds are given.
        """
        each = [measure.inequalities(eps) for measure, eps in self.pairs]
        tables = [table for table in each if table is not None]
        if tables and len(tables) < len(each):
            raise InputError("limit: measures of a population and of what is given do not combine; give one kind")
        return np.vstack(tables) if tables else None

    def among(self, prior: np.ndarray, seen: np.ndarray) -> "Limits":
        """The limits on the private symbols `seen`."""
        measures = [measure.among(prior, seen) for measure, _ in self.pairs]
        assert all(isinstance(measure, AbstractPointwiseLeakage) for measure in measures)
        return replace(
            self, pairs=tuple((measure, eps) for measure, (_, eps) in zip(measures, self.pairs, strict=True))
        )

    @property
    def independent(self) -> bool:
        """Whether only releases independent of S are allowed: the lift averages to one under p."""
        return min(self.raised, self.lowered, self.spread) == 0.0

    def is_void(self, rarest: float) -> bool:
        """Whether no posterior breaks a limit, `rarest` being the smallest positive probability of S."""
        return min(self.lowered, self.spread) == math.inf and self.raised >= -math.log(rarest)

    def box(self, rarest: float) -> tuple[float, float]:
        """(low, high) of the lift; without an upper limit the largest possible lift 1/rarest."""
        highest = -math.log(rarest)
        low = math.exp(-min(self.lowered, _LARGEST)) if self.lowered < math.inf else 0.0
        return low, math.exp(min(self.raised, highest, _LARGEST))

    @property
    def eps(self) -> float:
        """ln of the ratio limit, cut where e^eps would overflow."""
        return min(self.spread, _LARGEST)


def parse_limits(limit: object) -> Limits:
    """`limit` = (measure, eps), or a sequence of such pairs that hold together.

    Raises `InputError` for a measure that is not pointwise, for eps negative or NaN, for a relation of
    neighbours, and for LDP together with lift bounds (the vertices of the intersection are others).
    """
    if not isinstance(limit, (tuple, list)) or not limit:
        raise InputError("limit must be a pair (measure, eps) or a sequence of such pairs")
    given = [limit] if isinstance(limit[0], AbstractPointwiseLeakage) else list(limit)
    pairs, bounds = [], {"raised": math.inf, "lowered": math.inf, "spread": math.inf}
    for number, pair in enumerate(given):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise InputError(f"limit[{number}] must be a pair (measure, eps)")
        measure, eps = pair[0], float(scalar(pair[1], f"eps of limit[{number}]", low=0.0, infinite=True))
        for kind in _kinds(measure, number):
            bounds[kind] = min(bounds[kind], eps)
        pairs.append((measure, eps))
    if bounds["spread"] < math.inf and min(bounds["raised"], bounds["lowered"]) < math.inf:
        raise InputError("limit: LDP or inferential privacy together with lift bounds is not supported; give one kind")
    return Limits(tuple(pairs), **bounds)


def _kinds(measure: object, number: int) -> tuple[LiftEnd, ...]:
    if not isinstance(measure, AbstractPointwiseLeakage):
        raise InputError(
            f"limit[{number}] must be on lift, max-lift, min-lift, LDP or inferential privacy, "
            f"not {type(measure).__name__}"
        )
    if not measure.lift_ends and measure.inequalities(0.0) is None:
        raise InputError(
            f"limit[{number}]: {type(measure).__name__} with limits of its own for symbols or pairs "
            "(neighbours, scales) is not supported"
        )
    return measure.lift_ends
