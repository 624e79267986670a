"""Limits on a leakage measure, for the judge and for those who state problems: formulas of their own, NumPy alone.

Every one is a limit on columns w_y = J W[:, y] with phi positively homogeneous and convex:

    worst outcome   phi(w_y) <= 0 for every y          (phi depends on the limit)
    average         sum_y phi(w_y) <= bound

so that a release that ignores the data has phi(a_y p) = -a_y margin with one margin > 0.
"""

import abc
import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np


@dataclass(frozen=True)
class Limit(abc.ABC):
    """`measure <= value` (nats) under the joint P(S,X), shape (S, X)."""

    joint: np.ndarray = field(repr=False)
    value: float
    name: ClassVar[str]

    @property
    def prior(self) -> np.ndarray:
        """P(s)."""
        return self.joint.sum(axis=1)

    @property
    def seen(self) -> np.ndarray:
        """The private symbols that have mass."""
        return self.prior > 0

    @property
    def rows(self) -> np.ndarray:
        """P(x|s) of the symbols with mass, so that rows @ W is P(y|s)."""
        return self.joint[self.seen] / self.prior[self.seen, None]

    @abc.abstractmethod
    def repaired(self, mechanism: np.ndarray, cheapest: int) -> tuple[np.ndarray, float]:
        """The mechanism mixed with the least share of a release without information that meets the limit; the share.

        `cheapest`: the output that such a release shows where the limit leaves the choice.
        """

    @abc.abstractmethod
    def leaked(self, mechanism: np.ndarray) -> float:
        """The measure's value."""


class WorstOutcome(Limit):
    """A limit on every output."""

    @abc.abstractmethod
    def excess(self, mechanism: np.ndarray) -> np.ndarray:
        """phi(w_y), shape (Y,): what is above zero is in excess."""

    @property
    @abc.abstractmethod
    def margin(self) -> float:
        """-phi(p): what an output of a release without information leaves, for each unit of its mass."""

    def repaired(self, mechanism: np.ndarray, cheapest: int) -> tuple[np.ndarray, float]:
        """A release without information that shows every output as often as its excess needs: phi of a mixture is
        at most the mixture of phi, so output y with excess e needs a_y margin c = (1 - c) e.
        """
        need = np.maximum(self.excess(mechanism), 0.0) / self.margin
        total = float(need.sum())
        if not total > 0:
            return mechanism, 0.0
        share = total / (1.0 + total)
        return (1.0 - share) * mechanism + share * (need / total), share


class MaxInformation(WorstOutcome):
    """Maximum information leakage: H(S) - H(S|Y=y) for every y (Calmon-Fawaz Theorem 2)."""

    name = "max-information"

    @property
    def spare(self) -> float:
        """value - H(S): sum_s w_s ln(w_s/|w|) <= spare |w|."""
        p = self.prior[self.seen]
        return self.value + float((p * np.log(p)).sum())

    def excess(self, mechanism: np.ndarray) -> np.ndarray:
        # Against the prior, where every term of small leakage is small: sum w ln(w/(p |w|)) + sum (w - p|w|) ln p.
        w = self.joint[self.seen] @ mechanism
        p, mass = self.prior[self.seen, None], w.sum(axis=0)
        ratio = w / np.where(mass > 0, p * mass, 1.0)
        terms = p * mass * (np.where(ratio > 0, ratio * np.log(np.where(ratio > 0, ratio, 1.0)), 0.0) - ratio + 1.0)
        return terms.sum(axis=0) + ((w - p * mass) * np.log(p)).sum(axis=0) - self.value * mass

    @property
    def margin(self) -> float:
        return self.value

    def leaked(self, mechanism: np.ndarray) -> float:
        mass = self.joint.sum(axis=0) @ mechanism
        gained = self.excess(mechanism) + self.value * mass
        return float((gained[mass > 0] / mass[mass > 0]).max())


class MaxLift(WorstOutcome):
    """max_s P(s|y)/P(s) <= e^value (max-lift, pointwise maximal leakage)."""

    name = "max-lift"

    def excess(self, mechanism: np.ndarray) -> np.ndarray:
        return (self.rows @ mechanism).max(axis=0) - math.exp(self.value) * (self.joint.sum(axis=0) @ mechanism)

    @property
    def margin(self) -> float:
        return math.expm1(self.value)

    def leaked(self, mechanism: np.ndarray) -> float:
        mass = self.joint.sum(axis=0) @ mechanism
        return float(np.log(((self.rows @ mechanism)[:, mass > 0] / mass[mass > 0]).max()))


class LocalDifferentialPrivacy(WorstOutcome):
    """max_s P(y|s) <= e^value min_s P(y|s), of S -> Y."""

    name = "local-dp"

    def excess(self, mechanism: np.ndarray) -> np.ndarray:
        lift = self.rows @ mechanism
        return lift.max(axis=0) - math.exp(self.value) * lift.min(axis=0)

    @property
    def margin(self) -> float:
        return math.expm1(self.value)

    def leaked(self, mechanism: np.ndarray) -> float:
        lift = self.rows @ mechanism
        used = lift.max(axis=0) > 0
        with np.errstate(divide="ignore"):
            return float(np.log(lift.max(axis=0)[used] / lift.min(axis=0)[used]).max())


class MaximalLeakage(Limit):
    """ln sum_y max_s P(y|s) <= value: an average over the outputs."""

    name = "maximal-leakage"

    def repaired(self, mechanism: np.ndarray, cheapest: int) -> tuple[np.ndarray, float]:
        total, bound = math.exp(self.leaked(mechanism)), math.exp(self.value)
        if total <= bound:
            return mechanism, 0.0
        share = (total - bound) / (total - 1.0)
        constant = np.eye(mechanism.shape[1])[cheapest]
        return (1.0 - share) * mechanism + share * constant, share

    def leaked(self, mechanism: np.ndarray) -> float:
        return float(np.log((self.rows @ mechanism).max(axis=0).sum()))


LIMITS: dict[str, type[Limit]] = {
    kind.name: kind for kind in (MaxInformation, MaxLift, LocalDifferentialPrivacy, MaximalLeakage)
}
