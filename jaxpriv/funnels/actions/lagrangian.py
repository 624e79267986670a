"""The least L - l I(X;Y) of a measure L with a logarithm: outer(T(R)) - l R over the disclosures R, with a proof.

T(R), the least sum over the outputs of a release that discloses R, is convex, and each proof by prices is a line
below it. The logarithm is no part of a linear program. But outer is concave (rate > 0) or convex, so that outer of the
largest line, less l R, has its minimum where two lines meet, at an end, or where a line alone is stationary: finitely
many disclosures. The next program is at the least of them, which raises the lines there, until the best release is no
further above.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from jaxpriv._runtime.divergences import divergence, entropy
from jaxpriv.funnels.bounds import proved_line
from jaxpriv.funnels.gains import SLOPE, Gains, Worth, largest_worth
from jaxpriv.funnels.solution import FunnelGoal, PosteriorMeasure
from jaxpriv.problems.funnel import FunnelProblem

# Programs at most, their part of the tolerance, the first disclosure and the largest one as shares of H(X), and what
# rounding may change of a bound, relative to its terms.
_PROGRAMS, _PART, _BEGIN, _END, _ROUNDED = 60, 0.2, 0.9, 1 - 1e-7, 1e-12


def least_lagrangian(
    problem: FunnelProblem,
    goal: FunnelGoal,
    gains: Gains,
    worth: Worth,
    solve: Callable[[FunnelProblem, FunnelGoal], PosteriorMeasure],
) -> PosteriorMeasure:
    """The best of the releases that `solve` finds at disclosures, and the bound that their proofs give together."""
    source, price = problem.reduction.source, problem.target
    most = entropy(source) * (1 + _ROUNDED)
    lines, best, least, steps = _first_lines(gains, problem), None, np.inf, 0
    bound, at = -np.inf, _BEGIN * most

    def consider(candidate: PosteriorMeasure) -> None:
        nonlocal best, least
        total = worth.base + worth.unit * float(candidate.masses @ worth.cost(candidate.posteriors))
        value = gains.outer(total) - price * float(candidate.masses @ divergence(candidate.posteriors / source, source))
        if value < least:
            best, least = candidate, value

    consider(PosteriorMeasure(source[None], np.ones(1)))
    consider(PosteriorMeasure(np.eye(len(source)), source))
    for _ in range(_PROGRAMS):
        asked = FunnelProblem(problem.joint, leakage=problem.leakage, disclosure=at)
        candidate = solve(asked, replace(goal, tol=_PART * goal.tol))
        steps += candidate.steps
        consider(candidate)
        if candidate.proof is not None:
            lines.append((proved_line(asked, candidate.proof), candidate.proof.multiplier))
        last, (bound, at) = at, _least_over(np.array(lines), gains, price, most)
        at = min(at, _END * most)
        if least - bound <= 0.9 * goal.tol or abs(at - last) <= 1e-9 * most or goal.clock.expired():
            break
    assert best is not None
    return replace(best, proof=None, bound=bound, steps=steps)


def _first_lines(gains: Gains, problem: FunnelProblem) -> list[tuple[float, float]]:
    """(c, lambda) of c + lambda R below T(R): a constant Y leaks least, and the elementary bound."""
    size, whole = gains.rows.shape[1], entropy(problem.reduction.source)
    slope = SLOPE * largest_worth(gains.table(np.flatnonzero(gains.mass > 0)), gains.single) * (1 + _ROUNDED)
    least, most = gains.total(np.ones((size, 1)))[0], gains.total(np.eye(size))[0]
    return [(least, 0.0), (most - slope * whole - _ROUNDED * (abs(most) + slope * whole), slope)]


def _least_over(lines: np.ndarray, gains: Gains, price: float, most: float) -> tuple[float, float]:
    """(the least outer(largest line) - price R over 0 <= R <= most, rounded down, and where)."""
    base, slope = lines.T
    with np.errstate(divide="ignore", invalid="ignore"):
        meet = ((base[:, None] - base) / (slope - slope[:, None])).ravel()
        # outer = ln(|total|)/k has the slope 1/(k total): a line is stationary where its total is slope/(k price).
        rate = float(gains.scale.slope(0.0)) * float(gains.scale.inner(0.0))
        alone = (slope / (rate * price) - gains.shift - base) / slope
    points = np.concatenate([[0.0, most], meet, alone])
    points = points[(points >= 0) & (points <= most)]
    highest = (base[:, None] + slope[:, None] * points).max(axis=0)
    values = np.array([gains.below(total) for total in highest]) - price * points
    where = int(values.argmin())
    return float(values[where]) - _ROUNDED * (1.0 + price * most), float(points[where])
