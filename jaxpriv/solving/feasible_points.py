"""Mechanisms that meet limits, budgets and forbidden pairs together: one that the iteration begins inside of.

Budgets alone are a linear program (`closed_forms.check`). Where there are limits on leakage too, the question is how
near to the budgets a mechanism comes under the limits, which is a convex program of its own (`Stages.nearest`). Where
pairs are forbidden, or budgets have no slack, the mechanism lies on a face (`reductions.faces`), and its leakage has to
be finite. Where there is none the error has the numbers that prove it.
"""

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxpriv._runtime.clock import Stop
from jaxpriv.errors import InfeasibleError, NotCertifiedError
from jaxpriv.leakage.released_marginal import ReleasedMarginal
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.program.certify import most_excess, violation_of
from jaxpriv.program.convex import CertifiedCandidate, Program
from jaxpriv.program.lower import (
    as_budgets,
    distance_program,
    distance_scale,
    finite_limits,
    limit_terms,
    without_budgets,
)
from jaxpriv.reductions.closed_forms import ROUNDING_SHARES, Feasibility, constant_releases, independent_release
from jaxpriv.reductions.faces import Face, face_of, finite_on, moved_onto, whole_face
from jaxpriv.solvers.linear_program import LinearProgram
from jaxpriv.solving.tight_limits import independent_vertex

if TYPE_CHECKING:
    from jaxpriv.solving.stages import Stages

# Shares of a mechanism that uses every allowed pair, mixed with one that leaks nothing to meet limits with slack.
_SHARES = (1.0, 0.5, 0.1, 1e-2, 1e-3, 1e-4, 0.0)
# By what shares limits are lowered where a mechanism that meets them has to lose what it has on forbidden pairs.
_LOWERED = (0.0, 1e-2, 1e-4, 1e-6)


def feasible_with_limits(
    stages: "Stages", program: Program, within: Program, least: Feasibility
) -> tuple[np.ndarray, Face | None]:
    """(a mechanism that meets every limit, the face of the budgets if they have no slack, or of the pairs that are
    allowed if some are forbidden). The methods for linear programs need no interior, so no face of budgets.

    `within`: the program with the budgets that are limits; `least`: how these stand to what is attainable.
    """
    problem, limits = stages.problem, stages.further
    if not least.feasible:
        fewer = program.forbids and (program.support != problem.costs()[1]).any()
        kind, proof = " with a finite leakage" if fewer else "", _proof_of(problem, least)
        bound, allowed, weights = f"{proof['bound']:.12g}", f"{proof['allowed']:.12g}", proof["multipliers"]
        raise InfeasibleError(
            f"budget {allowed} is below {bound}, the least distortion of any mechanism{kind}"
            if len(weights) == 1
            else f"budget: no mechanism{kind} meets all {len(weights)} limits on mean distortions. Their sum with the "
            f"weights {np.round(weights, 6).tolist()} is at least {bound}, and the budgets allow {allowed}",
            proof,
        )
    interior = problem.form.minimax or program.forbids or not isinstance(stages.solver, LinearProgram)
    face = face_of(program, least.weights) if least.boundary and interior else None
    if face is not None:
        finite = finite_on(program, face, problem.joints, (problem.leakage,))
        if finite is None and least.equal:
            raise InfeasibleError(
                "budget: it has no slack (up to rounding it is the least distortion), and every mechanism that "
                f"meets it has an infinite {type(problem.leakage).__name__}. Use a larger budget, or a "
                "measure that is finite where an output excludes a private symbol",
                _proof_of(problem, least),
            )
        # Budgets with next to no slack may be met by mechanisms off the face whose leakage is finite.
        face = None if finite is None else dataclasses.replace(face, inside=finite)
    if program.forbids:
        return _of_allowed(stages, program, within, least.mechanism, face)
    # Limits on leakage and budgets together: how near to the budgets can one come under the limits?
    away = distance_program(problem, limits) if limits else None
    if away is None or not away.terms:  # limits that limit nothing
        return least.mechanism if face is None else face.inside, face
    closest = stages.nearest(dataclasses.replace(away, feasible_point=independent_release(away)), limits)
    if face is not None and closest.bound <= 0:
        nearest = face.onto(program, closest.mechanism)
        if stages.excess(nearest) == 0:
            return nearest, face
    # Next to no slack a constant output may meet all limits exactly, and where time ended the search a mixture does.
    if face is None and closest.bound <= 0 < closest.value:
        for mechanism in (*constant_releases(program), *_between(program, closest.mechanism, least.mechanism)):
            if violation_of(program, mechanism) == 0 and stages.excess(mechanism) == 0:
                return mechanism, None
    return _met(stages, closest).mechanism, face


def _between(program: Program, beyond: np.ndarray, within: np.ndarray) -> list[np.ndarray]:
    """The mixture with the least share of a mechanism within the budgets that meets them, and one with a little more
    for rounding. The limits hold at `beyond` and are convex in the share: if one is exceeded here, then by more too.
    """
    spent = [(np.asarray(program.constraints) * mechanism).sum(axis=(1, 2)) for mechanism in (beyond, within)]
    over, saved = spent[0] - np.asarray(program.budgets), spent[0] - spent[1]
    exceeded = over > 0
    if not (saved > over)[exceeded].all():
        return []
    share = (over[exceeded] / saved[exceeded]).max(initial=0.0)
    shares = (share, share + ROUNDING_SHARES[0] * (1.0 - share))
    return [(1.0 - s) * beyond + s * within for s in shares]


def _proof_of(problem: DistortionProblem, least: Feasibility) -> dict[str, Any]:
    """The numbers of an error about budgets, in their own units: those of a search for the least limit are shares
    of their ranges (`distance_program`).
    """
    weights = least.weights
    if problem.form.minimax:
        masses = problem.joints.sum(axis=1)[:, None, :, None]
        weights = weights / distance_scale((masses * problem.tables()).reshape(-1, *problem.shape))
    total = float(weights.sum())
    return {
        "bound": least.bound / total,
        "allowed": least.allowed / total,
        "multipliers": (weights / total).tolist(),
    }


def _met(stages: "Stages", nearest: CertifiedCandidate) -> CertifiedCandidate:
    """What was found at no distance to the budgets; raises where it is at some, or may be."""
    early = "" if stages.clock.stop is Stop.NONE else "stopped too early: "
    if nearest.bound > 0:
        raise InfeasibleError(
            "limits and `budget` contradict each other: under the limits the budgets are exceeded by at least "
            f"{nearest.bound!r} of their range",
            {"bound": nearest.bound, "allowed": 0.0, "multipliers": nearest.duals[2].tolist()},
        )
    if nearest.value > most_excess(np.float64):
        raise NotCertifiedError(
            f"{early}limits and budget: whether they can be met together is not certified; the distance to the "
            f"budgets lies in [{nearest.bound!r}, {nearest.value!r}] of their range"
        )
    return nearest


def _of_allowed(
    stages: "Stages", program: Program, within: Program, mechanism: np.ndarray, tight: Face | None
) -> tuple[np.ndarray, Face]:
    """`feasible_point` where pairs are forbidden, from a mechanism on the others that meets the budgets.

    `within`: the program with the budgets that are limits; `tight`: their face if they have no slack.
    """
    problem, limits, face = stages.problem, stages.further, tight
    objective = () if problem.form.limits_leakage else (problem.leakage,)
    measures = (*objective, *(measure for measure, _ in finite_limits(limits)))  # they have to be finite
    if face is None:
        face = whole_face(within, mechanism)
        if finite_on(within, face, problem.joints, measures) is None:
            raise InfeasibleError(
                "distortion: it forbids so many pairs that the leakage of every mechanism is infinite. Use a "
                "measure that is finite where an output excludes a private symbol",
                {"bound": math.inf, "allowed": 0.0, "multipliers": []},
            )
        face = whole_face(program, face.inside)
    start = _under_limits(stages, program, face)
    if within is not program or not limit_terms(problem.joints, limits):
        return start, face
    if tight is not None:
        moved = face.onto(program, start)
        if stages.excess(moved) > 0:
            raise NotCertifiedError("limits and budget: whether they can be met together is not certified")
        return moved, face
    away = dataclasses.replace(distance_program(problem, limits), feasible_point=start)
    closest = _met(stages, stages.nearest(away, limits, whole_face(away, start))).mechanism
    # One that leaves out pairs may exclude symbols.
    for share in reversed(_LOWERED):
        mixed = (1.0 - share) * closest + share * face.inside
        met = violation_of(as_budgets(away), mixed) == 0 and stages.excess(mixed) == 0
        if met and math.isfinite(max(stages.leaks(measures, mixed))):
            return mixed, face
    raise NotCertifiedError("limits and budget: whether a mechanism with a finite leakage meets them is not certified")


def _under_limits(stages: "Stages", program: Program, face: Face) -> np.ndarray:
    """A mechanism on the support of the face that meets the limits, whatever the budgets.

    Releases that ignore the private symbols are tried first. Where there are none on the support, it is the release
    with the least mass outside of it, of all that meet the limits: next to none, which is left out.
    """
    problem, limits, (inputs, outputs) = stages.problem, stages.further, stages.problem.shape
    terms = tuple(limit_terms(problem.joints, limits))
    if not terms:
        return face.inside
    bare = dataclasses.replace(without_budgets(program), support=face.support, terms=terms, feasible_point=face.inside)
    even = face.support / face.support.sum(axis=1, keepdims=True)
    # Those whose marginal is the target of a limit.
    targets = [measure.target for measure, _ in limits if isinstance(measure, ReleasedMarginal)]
    alone = [np.concatenate([np.tile(target, (inputs - outputs, 1)), np.eye(outputs)]) for target in targets]
    offered = [independent_vertex(bare, problem), *(w for w in alone if not w[~face.support].any())]
    for independent, share in itertools.product(offered, _SHARES):
        if independent is not None:
            mixed = share * even + (1.0 - share) * independent
            if stages.excess(mixed) == 0:
                return mixed
    outside = dataclasses.replace(
        bare,
        cost=np.where(face.support, 0.0, program.mass[:, None]),
        support=np.ones_like(face.support),
        forbids=False,
    )
    outside = dataclasses.replace(outside, feasible_point=independent_release(outside))
    lowest, highest = 0.0, 1.0
    for share in _LOWERED:
        lowered = tuple((measure, value - share * value) for measure, value in limits)
        terms = tuple(limit_terms(problem.joints, lowered))
        try:
            nearest = stages.nearest(dataclasses.replace(outside, terms=terms), lowered)
        except InfeasibleError:  # below what a release that ignores the data leaks
            continue
        if share == 0:
            lowest, highest = nearest.bound, nearest.value
        if lowest > 0:
            raise InfeasibleError(
                "limits and distortion contradict each other: under the limits at least a share of "
                f"{lowest!r} of the data is released as a symbol that is forbidden for it",
                {"bound": lowest, "allowed": 0.0, "multipliers": nearest.duals[2].tolist()},
            )
        for allowed in moved_onto(face, program, nearest.mechanism):
            if stages.excess(allowed) == 0:
                return allowed
    raise NotCertifiedError(
        "limits and distortion: whether they can be met together is not certified; the share of the data that is "
        f"released as a forbidden symbol lies in [{lowest!r}, {highest!r}]"
    )
