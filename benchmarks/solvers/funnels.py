"""Funnel solvers written from their papers: difference of convex functions, Douglas-Rachford splitting.

Both descend I(S;Y) - lam I(X;Y) = (1 - lam) H(Y) - H(Y|S) + lam H(Y|X) from random mechanisms at a grid of prices lam.
In NumPy, all prices and starts in one batch. What they find is points of the plane (I(X;Y), I(S;Y)); the mechanism
handed to the judge is the time sharing of the two that are best at the disclosure asked for, with "nothing" and X
itself among them. Their papers do not share time: here they are given it, because it makes disclosures equal.
"""

import abc
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.cases import Case, Instance
from benchmarks.solvers._base import Accuracy, Run, Solver
from jaxpriv.funnels.hull import Target, crossing_at

_PRICES = np.array([0.003, 0.01, 0.02, 0.04, 0.07, 0.12, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9])
_SHARPNESS = (0.5, 1.0, 2.0, 4.0, 8.0)
# Numbers in one batch: more starts at each price for small alphabets.
_ENTRIES = 100_000
_LEAST_LOG = -200.0


class Data:
    """A joint and the batch of prices that goes with it."""

    def __init__(self, joint: np.ndarray, disclosure: float):
        self.joint, self.disclosure = joint, disclosure
        self.source, self.private = joint.sum(axis=0), joint.sum(axis=1)
        self.given_x, self.given_s = joint / self.source, joint / self.private[:, None]
        size = joint.shape[1]
        starts = int(np.clip(_ENTRIES // (len(_PRICES) * size * (size + 1)), 2, 10))
        self.prices = np.repeat(_PRICES, starts)[:, None, None]

    def starts(self) -> np.ndarray:
        """Logarithms of random mechanisms (B, X, X + 1), from near uniform to near deterministic."""
        size = len(self.source)
        noise = np.random.default_rng(0).gumbel(size=(len(self.prices), size, size + 1))
        return normalised(noise * np.resize(_SHARPNESS, len(noise))[:, None, None])

    def masses(self, mechanisms: np.ndarray) -> np.ndarray:
        """P(y), shape (B, 1, Y)."""
        return np.einsum("x,bxy->by", self.source, mechanisms)[:, None, :]

    def outputs(self, mechanisms: np.ndarray) -> np.ndarray:
        """P(y|s), shape (B, S, Y)."""
        return np.matmul(self.given_s, mechanisms)

    def shared(self, mechanisms: np.ndarray) -> np.ndarray:
        """The best time sharing of two mechanisms at the disclosure."""
        size = len(self.source)
        pool = [np.ones((size, 1)), np.eye(size), *mechanisms]
        points = np.array([self.point(mechanism) for mechanism in pool])
        edge = crossing_at(points[:, 0], points[:, 1], Target("disclosure", self.disclosure))
        return np.hstack([(1 - edge.share) * pool[edge.first], edge.share * pool[edge.second]])

    def point(self, mechanism: np.ndarray) -> tuple[float, float]:
        """(I(X;Y), I(S;Y))."""
        masses = self.source @ mechanism
        kept = mechanism[:, masses > 0]
        log_masses = np.log(masses[masses > 0])
        disclosed = (self.source[:, None] * kept * (logarithm(kept) - log_masses)).sum()
        given = self.given_s @ kept
        return float(disclosed), float((self.private[:, None] * given * (logarithm(given) - log_masses)).sum())


def logarithm(numbers: np.ndarray) -> np.ndarray:
    """ln, with a floor."""
    return np.log(np.maximum(numbers, np.exp(_LEAST_LOG)))


def normalised(logits: np.ndarray) -> np.ndarray:
    """Rows that sum to one, as logarithms with a floor."""
    top = logits - logits.max(axis=-1, keepdims=True)
    return np.maximum(top - np.log(np.exp(top).sum(axis=-1, keepdims=True)), _LEAST_LOG)


class Comparator(Solver):
    """What both have in common."""

    timed = "all prices and starts, and the time sharing of what they found"
    rungs: Sequence[dict[str, int]]

    def supports(self, case: Case) -> bool:
        return "funnel" in case.traits

    def ladder(self, targets: Sequence[float]) -> Sequence[Accuracy]:
        return [Accuracy(f"{rung['rounds']} rounds", rung) for rung in self.rungs]

    def load(self) -> None:
        """Nothing but NumPy."""

    def prepare(self, instance: Instance) -> Any:
        assert instance.disclosure is not None
        kept = instance.joint[:, instance.joint.sum(axis=0) > 0]
        if kept.shape != instance.joint.shape:
            raise ValueError("useful symbols without mass are not part of these comparisons")
        return Data(instance.joint[instance.joint.sum(axis=1) > 0], instance.disclosure)

    def run(self, prepared: Any, accuracy: Accuracy) -> Run:
        begun = time.perf_counter()
        mechanisms = np.exp(self.descend(prepared, **accuracy.settings))
        candidate = prepared.shared(mechanisms)
        return Run(candidate, time.perf_counter() - begun, steps=accuracy.settings["rounds"])

    @abc.abstractmethod
    def descend(self, data: Data, rounds: int) -> np.ndarray:
        """Logarithms of the last mechanisms (B, X, Y)."""


class ConcavePart(Comparator):
    """Difference of convex functions after Huang and El Gamal 2024 (arXiv 2403.04778).

    Convex part -H(Y|S), concave part (1 - lam) H(Y) + lam H(Y|X), whose tangent is taken in every round. The convex
    subproblem is left to a few multiplicative steps. (A closed form of it by a pseudo-inverse of P(S|X) and a
    projection, as we understand the paper's, leaked 0.05 bits at one bit of the heart table where this leaks 0.0005.)
    """

    name = "paper-dca"
    rungs = ({"rounds": 100}, {"rounds": 1000})

    def descend(self, data: Data, rounds: int) -> np.ndarray:
        logs = data.starts()
        for _ in range(rounds):
            tangent = (1 - data.prices) * logarithm(data.masses(np.exp(logs))) + data.prices * logs
            for _ in range(3):
                slope = np.matmul(data.given_x.T, logarithm(data.outputs(np.exp(logs)))) - tangent
                logs = normalised(logs - slope)
        return logs


class DouglasRachford(Comparator):
    """Douglas-Rachford splitting after Huang, El Gamal and El Gamal 2022 (arXiv 2203.07527), relaxation one.

    F(Q) = -H(Y|S) over Q = P(Y|S), G(W) = (1 - lam) H(Y) + lam H(Y|X) over W = P(Y|X), coupled by Q = P(X|S) W with
    multipliers and a penalty; each is lowered by a multiplicative step (gradient steps with a fixed penalty of 1024
    needed tens of thousands of rounds). Penalty 16 was the best of 4, 16 and 64.
    """

    name = "paper-splitting"
    rungs = ({"rounds": 500}, {"rounds": 2000})
    penalty = 16.0

    def descend(self, data: Data, rounds: int) -> np.ndarray:
        logs, length = data.starts(), 1.0 / (1.0 + self.penalty)
        q_logs = logarithm(data.outputs(np.exp(logs)))
        multipliers = np.zeros_like(q_logs)  # for each unit of P(s)
        for _ in range(rounds):
            outputs, q = data.outputs(np.exp(logs)), np.exp(q_logs)
            q_logs = normalised(q_logs - length * (q_logs - multipliers - self.penalty * (outputs - q)))
            mechanisms, q = np.exp(logs), np.exp(q_logs)
            pull = np.matmul(data.given_x.T, multipliers + self.penalty * (outputs - q))
            tangent = (1 - data.prices) * logarithm(data.masses(mechanisms)) + data.prices * logs
            logs = normalised(logs - length * (pull - tangent))
            multipliers = multipliers + self.penalty * (data.outputs(np.exp(logs)) - q)
        return logs
