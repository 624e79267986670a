"""Leakage in Shannon's sense: average and maximum information leakage, relative-entropy privacy."""

from typing import ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Float

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.numerics import relative_entropy, safe_log, xlogx
from jaxpriv._runtime.types import Arr, Column, PrivateMarginal, Scalar
from jaxpriv._runtime.validation import finite, real_array
from jaxpriv.leakage._base import (
    AbstractMeanLeakage,
    AbstractWorstOutcomeLeakage,
    Traits,
    posterior_of,
    same_symbols,
)
from jaxpriv.leakage.population import LowerBounds, Routes, UpperBounds
from jaxpriv.leakage.registry import named
from jaxpriv.leakage.rule_sets import ENTROPIC, Rules, View

__all__ = [
    "MaxInformation",
    "MutualInformation",
    "RelativeEntropyPrivacy",
]


def average_leakage(joint: np.ndarray, mechanism: np.ndarray) -> float:
    """I(S;Y) = sum_{s,y} w ln( w / (p_s |w_y|) ) of a mechanism (X, Y), w = joint @ mechanism.

    Summed as terms >= 0, so that small values keep their digits.
    """
    w = joint @ mechanism
    prior, masses = w.sum(axis=1, keepdims=True), w.sum(axis=0, keepdims=True)
    product = prior * masses
    present = product > np.finfo(w.dtype).tiny
    ratio = np.where(present, w, 1.0) / np.where(present, product, 1.0)
    # r ln r - r + 1 >= 0 term by term; the extra parts sum to sum(w) - sum(product) = 0.
    terms = np.where(present, product * (xlogx(ratio) - ratio + 1.0), 0.0)
    rare = ~present & (w > 0)  # rare symbols whose product is no float64 of full precision
    terms[rare] = (w * (safe_log(w) - safe_log(prior) - safe_log(masses) - 1.0))[rare]
    return float(terms.sum())


def posterior_entropy_rules(view: View, hidden: Arr | None = None) -> Rules:
    """The rules of H(S) - H(S | Y=y) <= limit, `hidden` (S,) entropies inside the symbols (None: none)."""
    prior = view.prior
    inside = np.zeros(prior.shape[-1]) if hidden is None else hidden
    entropy_of_prior = -(prior * xp.log(xp.where(prior > 0, prior, 1.0))).sum(axis=-1, keepdims=True)
    # Classes beyond e^650 of the scale have no mass that float64 distinguishes from 0.
    reference = xp.exp(xp.clip(inside - entropy_of_prior - (prior * inside).sum(axis=-1, keepdims=True), -650.0, 650.0))
    reference = xp.where(prior > 0, reference, 0.0)
    return Rules(ENTROPIC, view.joint, reference, offset=-view.limit_by(1) * view.mass)


@named("mutual-information", "average")
class MutualInformation(AbstractMeanLeakage):
    """Average information leakage, the mutual information

        I(S;Y) = sum_y |w_y| D(w_y/|w_y| || p) = sum_{s,y} w_y[s] ln( w_y[s] / (p_s |w_y|) ).

    In nats, between 0 and min(H(S), ln |Y|). Its column is sum_s w_s ln(w_s/(p_s |w|)) with gradient
    ln(w_s/(p_s |w|)). A pair (s, y) without mass contributes 0 to the value and -1 to that
    gradient (the limit is -inf).

    Calmon and Fawaz 2012, Definition 3.
    """

    words: ClassVar[str] = "mutual information I(S;Y)"

    traits: ClassVar[Traits] = Traits("nats", designable=True, entropic=True, least=0.0, stacks=True)

    def rules(self, view: View) -> Rules:
        return Rules(ENTROPIC, view.joint, view.prior)

    def upper_bounds(self, bounds: UpperBounds) -> Routes:
        return bounds.information

    def lower_bound(self, bounds: LowerBounds) -> float:
        return bounds.information

    def outcome(self, w: Column, prior: PrivateMarginal) -> Scalar:
        """D(w/|w| || p)."""
        return relative_entropy(posterior_of(w), prior)


@named("relative-entropy", "worst")
class RelativeEntropyPrivacy(AbstractWorstOutcomeLeakage):
    """max_y D( P_{S|Y=y} || P_S ), in nats: the worst output where mutual information averages.

    Differs from `MaxInformation` unless p is uniform. Wu, Xia and He, Proposition 1.
    """

    words: ClassVar[str] = "largest relative entropy of a posterior"

    traits: ClassVar[Traits] = Traits("nats", designable=True, entropic=True, least=0.0, stacks=True)

    def rules(self, view: View) -> Rules:
        return Rules(ENTROPIC, view.joint, view.prior, offset=-view.limit_by(1) * view.mass)

    def upper_bounds(self, bounds: UpperBounds) -> Routes:
        return bounds.relative_entropy

    def lower_bound(self, bounds: LowerBounds) -> float:
        return bounds.information

    def outcome(self, w: Column, prior: PrivateMarginal) -> Scalar:
        """D(w/|w| || p)."""
        return relative_entropy(posterior_of(w), prior)


def _hidden(value: object) -> Arr | None:
    return None if value is None else finite(real_array(value, "hidden", ndim=1), "hidden")


@named("mutual-information", "worst", reported=())
@named("max-information", "worst")
class MaxInformation(AbstractWorstOutcomeLeakage):
    """Maximum information leakage, max_y H(S) - H(S | Y=y), in nats.

    Its column |w| H(S) + sum_s w_s ln(w_s/|w|) is convex; single outputs may be negative, the
    maximum is not. It is the maximum gain of an adversary who pays the log-loss, at most H(S).

    `hidden` (s,), in nats, is for a collapsed S: row s of the joint stands for a class of elementary
    states of entropy hidden[s] inside (ln m for m equally likely ones), of which X and Y see the class
    only. The leakage of the elementary states then is H(S) - H(S|Y=y) with
    H = entropy of the classes + expectation of `hidden`: a database behind a query needs no |S| = 2^n.

    Calmon and Fawaz 2012, Definition 4, Corollary 2. Raises `InputError` if `hidden` is not finite, or is of
    another number of symbols than the joint's.
    """

    words: ClassVar[str] = "maximum information leakage"

    hidden: Float[Arr, " s"] | None = eqx.field(converter=_hidden, default=None)

    by_symbol: ClassVar = {"hidden": (0,)}

    traits: ClassVar[Traits] = Traits("nats", designable=True, entropic=True, least=0.0, stacks=True)

    def rules(self, view: View) -> Rules:
        return posterior_entropy_rules(view, self.hidden)

    def upper_bounds(self, bounds: UpperBounds) -> Routes | None:
        return bounds.posterior_entropy if self.hidden is None else None

    def lower_bound(self, bounds: LowerBounds) -> float | None:
        return bounds.information if self.hidden is None else None

    def outcome(self, w: Column, prior: PrivateMarginal) -> Scalar:
        """H(p) - H(w/|w|), the entropies inside the classes included."""
        posterior = posterior_of(w)
        value = xlogx(posterior).sum() - xlogx(prior).sum()
        if self.hidden is None:
            return value
        same_symbols("hidden", self.hidden, 0, w.shape[0])
        return value + ((prior / prior.sum() - posterior) * xp.asarray(self.hidden, w)).sum()
