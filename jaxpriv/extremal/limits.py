"""Pointwise limits as bounds on the lift t = q/p of every posterior q.

low <= t_s <= high for all s          max-lift (PML), min-lift, lift; asymmetric where both are given
t_s <= ratio * t_s' for all s, s'     local differential (= inferential) privacy
"""

import math
from dataclasses import dataclass

from jaxpriv._validation import scalar
from jaxpriv.errors import InputError
from jaxpriv.leakage.pointwise import AbstractPointwiseLeakage, LiftEnd

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
    if not measure.lift_ends:
        raise InputError(
            f"limit[{number}]: {type(measure).__name__} with a relation of neighbours is not supported; use all pairs"
        )
    return measure.lift_ends
