"""The certified gap of an audited mechanism: computed again where that is possible, and labelled where it is not."""

from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import numpy as np

from jaxpriv._validation import real_array, scalar
from jaxpriv.errors import InputError
from jaxpriv.estimation.audit.measured import Measured
from jaxpriv.leakage import AbstractLeakage, MutualInformation
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.solution import Solution

# A solution belongs to the audit if its leakage is the fitted value to this accuracy.
_SAME = 1e-6


@dataclass(frozen=True)
class CertifiedGap:
    """The gap of one row, and whether it was computed again."""

    row: Measured
    gap: float
    verified: bool


def certified_gap(
    solution: Solution | None,
    problem: DistortionProblem | None,
    gap: float | None,
    objective: AbstractLeakage | None,
    channel: np.ndarray,
    rows: Sequence[Measured],
    measures: Sequence[AbstractLeakage],
    *,
    held_out: bool,
) -> CertifiedGap | None:
    """The gap and the row it belongs to, after a check that the solution is about this mechanism and joint."""
    if solution is None and gap is None:
        if objective is not None or problem is not None:
            raise InputError("objective and problem are those of a solution; no solution was given")
        return None
    if solution is not None and gap is not None:
        raise InputError("give either a solution or a gap that was computed again")
    wanted = MutualInformation() if objective is None else objective
    named = [row for row, measure in zip(rows, measures, strict=True) if bool(eqx.tree_equal(measure, wanted))]
    if not named:
        raise InputError("objective is not among the measures of the audit (name its order in orders)")
    row = named[0]
    if solution is None:
        return CertifiedGap(row, scalar(gap, "gap", low=0.0), verified=True)
    if problem is not None:
        return CertifiedGap(row, _verified(solution, problem, wanted, channel), verified=True)
    value, leakage, stated = (
        float(real_array(getattr(solution, part), f"solution.{part}", ndim=0)) for part in ("value", "leakage", "gap")
    )
    near = lambda one, other: abs(one - other) <= _SAME * (1 + abs(other))  # noqa: E731
    if not near(value, leakage):
        raise InputError("solution minimised something else than the leakage: its gap is not about a measure")
    if not held_out and not near(leakage, row.value):  # its records are other ones then
        raise InputError("solution is about another mechanism, joint or measure: its leakage is not the value here")
    if not (np.isfinite(stated) and stated >= 0):
        raise InputError("solution.gap must be a finite number >= 0")
    return CertifiedGap(row, stated, verified=False)


def _verified(solution: Solution, problem: DistortionProblem, wanted: AbstractLeakage, channel: np.ndarray) -> float:
    """The gap of a solution computed again from its problem, mechanism and duals."""
    from jaxpriv.certificates.verification import certify  # most audits have no problem to check

    if not isinstance(problem, DistortionProblem):
        raise InputError("problem must be the DistortionProblem of the solution")
    checked = certify(problem, solution)
    if problem.leakage_budget is not None or problem.multiplier is not None:
        raise InputError("problem minimises something else than the leakage: its gap is not about a measure")
    if not bool(eqx.tree_equal(problem.leakage, wanted)):
        raise InputError("problem is about another measure: name it in objective")
    if not checked.valid:
        raise InputError(f"solution does not solve problem: {checked.message}")
    own = np.asarray(solution.mechanism)
    if own.shape != channel.shape or not np.allclose(own, channel, rtol=0, atol=1e-12):
        raise InputError("solution is about another mechanism")
    return float(checked.gap)
