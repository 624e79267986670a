"""Costs in any unit: c d at c D is the same problem, whatever c is."""

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import leakage

from .measured_cases import DISTORTION as TABLE

OTHER = np.random.default_rng(0).random((4, 4))
# Certified minimal distortion is asked for in its own unit; a larger unit needs a larger tolerance. Where that unit is
# below one the tolerance counts relative to the largest cost, which is 3 units.
TOL = 1e-6
WIDEST = 3 * TOL

BUDGETS = {"budget": ([TABLE], [0.3]), "least": ([TABLE // 2], [0.0]), "mixed": ([TABLE, OTHER], [0.5, 0.45])}


def stated(joint, form, c, measure):
    """The problem in the unit c, and the unit of its objective."""
    if form in BUDGETS:
        tables, budgets = BUDGETS[form]
        scale = np.array([c, 1.0])[: len(tables)]
        tables = scale[:, None, None] * np.array(tables)
        return jp.DistortionProblem(joint, tables, budget=scale * budgets, leakage=measure), 1.0
    if form == "multiplier":
        return jp.DistortionProblem(joint, c * TABLE, multiplier=0.2 / c, leakage=measure), 1.0
    limit = {"leakage budget": 0.05, "no leakage": 0.0}[form]
    return jp.DistortionProblem(joint, c * TABLE, leakage_budget=limit, leakage=measure), c


@pytest.mark.parametrize(
    ("measure", "form"),
    [(None, form) for form in (*BUDGETS, "multiplier", "leakage budget", "no leakage")]
    + [(leakage.Sibson(2.0), form) for form in ("budget", "leakage budget", "no leakage")]
    + [
        (leakage.MaxInformation(), "budget"),
        (leakage.MaxInformation(), "no leakage"),
        (leakage.MaximalLeakage(), "no leakage"),
    ],
    ids=str,
)
@pytest.mark.parametrize("c", [1e-12, 1e12])
def test_the_unit_of_the_distortion_changes_nothing(joint_of, measure, form, c):
    (one, _), (other, unit) = (stated(joint_of(4), form, scale, measure) for scale in (1.0, c))
    first, second = jp.solve(one, tol=TOL), jp.solve(other, tol=TOL * max(unit, 1.0))
    assert first.status == second.status == "optimal"
    assert first.lower_bound - 1e-12 <= second.value / unit <= first.value + WIDEST
    assert second.lower_bound / unit <= first.value + 1e-12
    assert second.gap <= WIDEST * unit
    # Prices are per unit of the distortion; at the least distortion any that is large enough will do.
    if unit == 1.0 and form != "least" and not other.leakage.worst_outcome:
        prices = first.multipliers[:1] / c
        exact = (measure, form) == (None, "budget")
        np.testing.assert_allclose(
            second.multipliers[:1], prices, rtol=1e-6 if exact else 2e-2, atol=0.0 if exact else 1e-6 / c
        )


def test_an_absolute_tolerance_does_not_hide_tiny_costs(joint_of):
    """Every mechanism costs less than 1e-6 here, and few of them are optimal."""
    joint = joint_of(4)
    solution = jp.solve(jp.DistortionProblem(joint, 1e-9 * TABLE, leakage_budget=0.05))
    plain = jp.solve(jp.DistortionProblem(joint, TABLE, leakage_budget=0.05))
    assert solution.gap <= 3e-15
    assert solution.value == pytest.approx(1e-9 * plain.value, abs=4e-15)
    curve = jp.frontier(jp.DistortionProblem(joint, 1e-9 * TABLE, leakage_budget=0.05), leakage_budgets=[0.02, 0.05])
    assert curve.solutions.gap.max() <= 3e-15
