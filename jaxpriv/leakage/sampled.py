"""Pointwise measures of a population that is known from samples: the largest over all populations in a confidence set.

The released symbol y has W(y|x) with the largest and the smallest entry M and m. For P(x|s) within L1 distance 2 r_s of
frequencies, and P(x) within 2 r of others,

    P(y|s)  in  [ f_s.W_y - r_s (M - m),  f_s.W_y + r_s (M - m) ] ,
    P(y)    in  [ f.W_y - r (M - m),  f.W_y + r (M - m) ] ,

and these are the ends where no frequency is below its radius. Where X itself is private, P(y|s) is W(y|s), in [m, M].
That a ratio of two ends is at most e^eps is convex in W: a linear inequality for every pair of symbols in the places of
M and m.
"""

from typing import ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.counts import count_array, failure, l1_radius
from jaxpriv._runtime.types import Arr, PrivateMarginal
from jaxpriv._runtime.validation import is_traced
from jaxpriv.errors import InputError
from jaxpriv.leakage._base import Traits, same_symbols
from jaxpriv.leakage.pointwise import AbstractPointwiseLeakage, HostColumn, LiftEnd, LogLift, Pair, Scores, Support
from jaxpriv.leakage.rule_sets import View

__all__ = ["SampledLift", "from_samples"]

# How far the prior of a joint may be from the frequencies, in any entry.
_ROUNDING = 1e-9


class SampledLift(AbstractPointwiseLeakage):
    """The largest lift, max-lift, min-lift or LDP of all populations in L1 balls around frequencies, in nats.

    `from_samples` makes it from counts. It is used with P(X), the frequencies `source`
    (x,) themselves (S = X); or with any joint that has them as the prior of S, where P(x|s) is known and the prior is
    from samples.

    Attributes:
        source: f (x,), with mass r = `source_radius` that may move.
        source_radius: half the radius of the ball in L1.
        given: f_s (s, x) of another private attribute, with `given_radius` (s,); None: X itself is private.
        given_radius: half the radii.
        ends: what is bounded: "raised" (max-lift), "lowered" (min-lift), "spread" (LDP).
        complete: whether no symbol was left out for a count of 0.

    Infinite where a population in the set may have P(y) or P(y|s) of 0. A symbol s that no sample showed may have mass:
    if S = X its row of the mechanism counts too; the value of other joints, where P(x|s) is not known, is infinite.
    Raises `InputError` for a joint of another prior than `source`, and in a problem with distortion where its value
    would be infinite or the samples show a single symbol.
    """

    source: Float[Arr, " x"]
    source_radius: float = eqx.field(static=True)
    given: Float[Arr, "s x"] | None
    given_radius: Float[Arr, " s"] | None
    ends: tuple[LiftEnd, ...] = eqx.field(static=True)
    complete: bool = eqx.field(static=True, default=True)

    words: ClassVar[str] = "pointwise leakage of the population"

    traits: ClassVar[Traits] = Traits("nats", designable=True, linear=True, least=0.0)

    unseen: ClassVar[bool] = True

    @property
    def untraceable(self) -> str | None:
        return "its frequencies are traced; pass NumPy arrays" if is_traced(self) else None

    def row_count(self, symbols: int) -> int:
        return len(self._ratios[0]) * symbols * (symbols - 1)

    def among(self, prior: PrivateMarginal, seen: np.ndarray) -> "SampledLift":
        same_symbols("source", self.source, 0, len(seen))
        if is_traced(prior):
            raise InputError("the prior of the joint, the frequencies of the samples, is traced; pass NumPy arrays")
        if np.max(abs(np.asarray(prior) - self.source)) > _ROUNDING:
            raise InputError("the prior of the joint must be the frequencies of the samples: pass P(X), shape (X,)")
        given = None if self.given is None else self.given[:, seen]
        return SampledLift(self.source[seen], self.source_radius, given, self.given_radius, self.ends, bool(seen.all()))

    @property
    def _ratios(self) -> tuple[np.ndarray, np.ndarray]:
        """(a, b) of the ratios that are bounded, (K, X + 2) each: weights of W_y, of M and of -m."""
        size = len(self.source)

        def ends(centre: np.ndarray, radius: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            """(upper, lower)."""
            both = np.repeat(radius[:, None], 2, axis=1)
            return np.hstack([centre, both]), np.hstack([centre, -both])

        high, low = ends(np.asarray(self.source)[None], np.array([self.source_radius]))
        if self.given is None or self.given_radius is None:
            above, below = np.eye(size + 2)[size : size + 1], -np.eye(size + 2)[size + 1 :]
        else:
            above, below = ends(np.asarray(self.given), np.asarray(self.given_radius))
        # P(y|s)/P(y|s) is 1; where X itself is private the ratio is that of M and m.
        first, second = np.argwhere(~np.eye(len(above), dtype=bool)).T if len(above) > 1 else ([0], [0])
        parts: dict[LiftEnd, tuple[np.ndarray, np.ndarray]] = {
            "raised": (above, np.repeat(low, len(above), axis=0)),
            "lowered": (np.repeat(high, len(below), axis=0), below),
            "spread": (above[first], below[second]),
        }
        upper, lower = zip(*(parts[end] for end in self.ends), strict=True)
        return np.vstack(upper), np.vstack(lower)

    def inequalities(self, limit: float) -> np.ndarray:
        a, b = self._ratios
        return np.exp(-limit) * a - b

    def ratios(self, given: Arr, view: View) -> tuple[Arr, Arr, Arr | float]:
        if not self.complete:
            if max((given > 0).sum(axis=axis).max() for axis in (0, 1)) > 1:  # S is not X
                raise InputError("the joint gives a symbol no mass that no sample showed: its P(x|s) is not known")
            if len(given) == 1:
                raise InputError("the samples show a single symbol: no distortion can be limited on them")
        first, second = np.argwhere(~np.eye(len(given), dtype=bool)).T
        numerator, denominator = (
            part[:, None, :-2] @ given + part[:, None, -2:-1] * given[first] - part[:, None, -1:] * given[second]
            for part in self._ratios
        )
        size = (-1, given.shape[1])
        return numerator.reshape(size), denominator.reshape(size), 1.0

    def score(self, log_lift: LogLift, support: Support) -> Scores:
        same_symbols("source", self.source, 0, log_lift.shape[-1])
        lift = xp.where(support, xp.exp(xp.where(support, log_lift, 0.0)), 0.0)
        most, least = lift.max(axis=-1, keepdims=True), xp.where(support, lift, np.inf).min(axis=-1, keepdims=True)
        extended = xp.concatenate([lift, most, -least], axis=-1)
        above, below = (xp.matmul(extended, xp.asarray(part.T, extended)) for part in self._ratios)
        ratio = above / xp.where(below > 0, below, 1.0)
        values = xp.log(xp.where(below > 0, ratio, np.inf)).max(axis=-1)
        return xp.where(support.all(axis=-1), values, np.inf)

    def attained(self, log_lift: HostColumn) -> Pair:
        return int(np.nanargmax(log_lift)), int(np.nanargmin(log_lift))


def from_samples(measure: AbstractPointwiseLeakage, counts: ArrayLike, confidence: float = 0.95) -> SampledLift:
    """A pointwise measure of the population behind counts: with probability `confidence` at least that, for all
    mechanisms at once, also for one that was designed on these counts.

        jp.DistortionProblem(f, d, leakage=from_samples(MaxLift(), counts), leakage_budget=eps)
        jp.maximum_utility(counts, (MaxLift(), eps), confidence=0.95)        f (X,): the frequencies of X

    For counts (X,) X itself is private, and P(X) is in an L1 ball; for counts (S, X) so are P(X) and P(X|s) of every s,
    the probability of error shared equally.

    Args:
        measure: `MaxLift` (pointwise maximal leakage), `MinLift`, `Lift` or `LocalDifferentialPrivacy` of all pairs.
        counts: whole numbers (X,) or (S, X), not all of them 0.
        confidence: in (0, 1).

    Raises `InputError` for other measures, counts, or a confidence outside (0, 1).
    """
    if not isinstance(measure, AbstractPointwiseLeakage) or not measure.lift_ends:
        raise InputError("measure must be MaxLift, MinLift, Lift, or LocalDifferentialPrivacy of all pairs")
    table = count_array(counts, "counts", ndim=(1, 2))
    total = int(table.sum())
    if total == 0:
        raise InputError("counts must not all be 0")
    beta, cells = 1.0 - failure(confidence, "confidence"), table.shape[-1]
    useful = table.reshape(-1, cells).sum(axis=0)
    share = beta if table.ndim == 1 else beta / (len(table) + 1)
    radii = lambda draws: 0.5 * l1_radius(cells, int(draws), share)  # noqa: E731
    given = None if table.ndim == 1 else np.where(table.sum(axis=1, keepdims=True) > 0, table, useful)
    given = None if given is None else given / given.sum(axis=1, keepdims=True)
    each = None if table.ndim == 1 else np.array([radii(row.sum()) for row in table])
    return SampledLift(useful / total, radii(total), given, each, measure.lift_ends)
