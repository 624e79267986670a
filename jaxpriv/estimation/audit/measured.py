"""The values of measures on the records themselves, and on resampled ones: no statements about a population."""

from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import numpy as np

from jaxpriv._validation import real_array, scalar, whole
from jaxpriv.errors import InputError
from jaxpriv.leakage import AbstractLeakage, MutualInformation, by_name, evaluate_all, forms_of, parameters_of, report
from jaxpriv.leakage.evaluation import exact_values
from jaxpriv.leakage.registry import Arguments
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.solution import Solution

# Resamples of the bootstrap: its quantiles at 0.95 need a few hundred.
BOOTSTRAP = 200
# More resamples are a mistake: the tables of all of them are in memory at once.
_MOST = 100_000


@dataclass(frozen=True)
class Measured:
    """A measure by its name and parameters, and its value on the records."""

    name: str
    form: str
    order: float | None
    divergence: str | None
    units: str
    value: float
    gamma: float | None = None


def measured(
    joint: np.ndarray, channel: np.ndarray, orders: Sequence[float], measures: Sequence[str] | None
) -> tuple[list[Measured], list[AbstractLeakage]]:
    """The measures of a report or those that are named, further orders, and their values."""
    asked = [float(order) for order in real_array(orders, "orders", ndim=1)] if np.size(orders) else []
    if measures is None:
        rows = [
            Measured(one.name, one.form, one.order, one.divergence, one.units, one.value)
            for one in report(joint, channel).rows
        ]
        named: list[Arguments] = []
    else:
        if isinstance(measures, str) or not measures:
            raise InputError("measures must be a sequence of texts such as 'mutual-information' or 'sibson:2'")
        rows, named = [], [parameters_of(text) for text in measures]
    named += [{"name": name, "order": order} for name in ("sibson", "arimoto") for order in asked]
    values = evaluate_all(tuple(by_name(**one) for one in named), joint, channel) if named else ()
    rows += [
        Measured(
            one["name"],
            one.get("form", forms_of(one["name"])[0]),
            one.get("order"),
            one.get("divergence"),
            found.units,
            found.value,
            one.get("gamma"),
        )
        for one, found in zip(named, values, strict=True)
    ]
    return rows, [
        by_name(row.name, form=row.form, order=row.order, divergence=row.divergence, gamma=row.gamma) for row in rows
    ]


def resampled(
    table: np.ndarray,
    channel: np.ndarray,
    rows: Sequence[Measured],
    measures: Sequence[AbstractLeakage],
    beta: float,
    repeats: int,
    seed: int,
) -> list[float | None]:
    """The bootstrap estimates of the rows; None where a value was not finite."""
    repeats = whole(repeats, "bootstrap", low=0.0)
    if repeats > _MOST:
        raise InputError(f"bootstrap is above {_MOST}")
    if repeats == 0:
        return [None] * len(rows)
    n = int(table.sum())
    generator = np.random.default_rng(whole(seed, "seed", low=0.0))
    drawn = generator.multinomial(n, table.ravel() / n, size=repeats).reshape(-1, *table.shape)
    values = np.array([exact_values(tuple(measures), one / n, channel) for one in drawn])
    found: list[float | None] = []
    for row, column in zip(rows, values.T, strict=True):
        finite = np.isfinite(row.value) and bool(np.isfinite(column).all())
        found.append(max(0.0, 2 * row.value - float(np.quantile(column, beta))) if finite else None)
    return found


# The certified gap of an audited mechanism: computed again where that is possible, and labelled where it is not.


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
