"""What a report shows: who can learn what, the curve that the design lies on, and bounds for the population."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxpriv.estimation.audit import MechanismAudit, audit_mechanism
from jaxpriv.leakage import by_name
from jaxpriv.mechanism import Evidence, Mechanism
from jaxpriv.problems import DistortionProblem

_POINTS = 41


@dataclass(frozen=True)
class Guess:
    """What a reader of the release can know of one private class, on the records of the design.

    Attributes:
        label: the class.
        share: of the records: the chance that a guess of it is right without the release.
        highest, lowest: the same chance at the outputs that raise and that lower it most.
        mean: the average chance of it among the records that have it.
    """

    label: str
    share: float
    highest: float
    lowest: float
    mean: float


@dataclass(frozen=True)
class Curve:
    """Certified optima for many targets: `lower` and `upper` (B,) hold the optimum at each of `points` (B,)."""

    points: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    chosen: tuple[float, float]
    across: str
    up: str


@dataclass(frozen=True, eq=False)
class Numbers:
    """All that is computed for a page; what needs counts is None without them.

    Attributes:
        right_before, right_after: the chance of the best guess of the private class, without and with the release.
    """

    guesses: tuple[Guess, ...] | None
    right_before: float | None
    right_after: float | None
    curve: Curve | None
    audit: MechanismAudit | None


def numbers(mechanism: Mechanism, evidence: Evidence | None, confidence: float) -> Numbers:
    """The numbers of a report, from the design alone or with its evidence."""
    if evidence is None:
        return Numbers(None, None, None, None, None)
    joint = evidence.counts / evidence.counts.sum()
    kept = joint.any(axis=1)
    outputs = joint[kept] @ mechanism.matrix()
    prior = outputs.sum(axis=1)
    labels = _private_labels(mechanism, evidence)
    audit = None
    if evidence.held_out is not None and evidence.held_out.any():
        audit = audit_mechanism(mechanism.matrix(), counts=evidence.held_out, confidence=confidence, held_out=True)
    return Numbers(
        guesses=_guesses(outputs, [label for label, there in zip(labels, kept, strict=True) if there]),
        right_before=float(prior.max()),
        right_after=float(outputs.max(axis=0).sum()),
        curve=_curve(mechanism, evidence),
        audit=audit,
    )


def _guesses(outputs: np.ndarray, labels: list[str]) -> tuple[Guess, ...]:
    prior, mass = outputs.sum(axis=1), outputs.sum(axis=0)
    used = mass > 0
    posterior = outputs[:, used] / mass[used]
    mean = (outputs[:, used] * posterior).sum(axis=1) / prior
    return tuple(
        Guess(label, float(share), float(row.max()), float(row.min()), float(average))
        for label, share, row, average in zip(labels, prior, posterior, mean, strict=True)
    )


def _private_labels(mechanism: Mechanism, evidence: Evidence) -> list[str]:
    rules = [mechanism.codebook.rules[name] for name in mechanism.codebook.private]
    return [
        ", ".join(rule.labels[code] for rule, code in zip(rules, codes, strict=True))
        for codes in evidence.private.tolist()
    ]


def _curve(mechanism: Mechanism, evidence: Evidence) -> Curve | None:
    """The certified curve of a design with a distortion and mutual information; None for another one."""
    from jaxpriv.solving.frontier import frontier

    asked = mechanism.asked
    if mechanism.distortion is None or asked.leakage["name"] != "mutual-information":
        return None
    seen = evidence.counts.any(axis=0)
    joint = evidence.counts[:, seen] / evidence.counts.sum()
    claims = evidence.claims(mechanism)
    leakage, spent = (float(claims[name].upper or 0) for name in ("leakage", "distortion"))
    measure: Any = by_name("mutual-information")
    problem = DistortionProblem(joint, mechanism.distortion[seen], budget=max(spent, 1e-9), leakage=measure)
    least = float(mechanism.distortion[seen].min(axis=1) @ joint.sum(axis=0))
    points = np.linspace(least, max(2.5 * (spent - least), 0.05) + least, _POINTS)
    found = frontier(problem, budgets=points)
    at = np.unique(np.append(points, spent))
    lower, upper = found.band(at)
    return Curve(at, lower, upper, (spent, leakage), "mean distortion", "leakage I(S;Y), nats")
