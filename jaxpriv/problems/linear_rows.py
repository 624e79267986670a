"""The rows of piecewise linear measures: what they take the largest of, as functions of the data.

One set of formulas for the program (columns of the joint) and for derivatives of its value (columns of the outputs,
traced): `w` is P(S=s, .) by column, `prior` P(s) and `mass` the sum of every column. A symbol without mass may be
among the rows: what its row says, the others imply.
"""

from typing import Any

import numpy as np

from jaxpriv import leakage as measures


def average_rows(xp: Any, measure: Any, w: Any, prior: Any, mass: Any) -> tuple[Any, Any, Any]:
    """(rows, reference, cap) of an average: the column function is the largest of rows / reference, or the sum of
    cap times the positive parts of the rows where there is a cap. A symbol without mass is referred to 1: its row is 0.
    """
    ones = np.ones(len(prior))
    if isinstance(measure, (measures.Sibson, measures.MaximalLeakage)):
        return w, xp.where(prior > 0, prior, 1.0), None
    if isinstance(measure, (measures.Arimoto, measures.MinEntropyLeakage)):
        return w / prior.max(), ones, None
    if isinstance(measure, measures.GainLeakage):
        gains = xp.asarray(measure.gains)
        best = xp.maximum((gains @ prior).max(), 1e-300)
        return gains @ w / best, np.ones(len(gains)), None
    if isinstance(measure, measures.FInformation):
        divergence: Any = measure.divergence
        factor = 1.0 if isinstance(divergence, measures.TotalVariation) else divergence.gamma
        return w - factor * prior[:, None] * mass, np.zeros(len(prior)), ones
    if isinstance(measure, measures.AverageCostGain) and isinstance(measure.cost, measures.LossMatrix):
        rows = -xp.asarray(measure.cost.losses).T @ w
        return rows, np.ones(len(rows)), None
    return w, ones, None  # a guess is right: CorrectGuess, and the gain of the 0-1 loss


def without_output(measure: Any, prior: Any) -> Any:
    """What is added to the sum of the columns of a piecewise linear average: the cost of the best blind guess."""
    if not isinstance(measure, measures.AverageCostGain):
        return 0.0
    cost: Any = measure.cost
    if isinstance(cost, measures.ZeroOneLoss):
        return -prior.max()
    return (prior @ cost.losses).min()


def all_rows(measure: Any, symbols: int) -> Any:
    """The numbers of all rows, or all pairs of neighbours, whatever the data: what `kept_rows` chooses from."""
    if isinstance(measure, measures.LocalDifferentialPrivacy) and measure.neighbours is not None:
        pairs = np.argwhere(np.asarray(measure.neighbours))
        return pairs[pairs[:, 0] != pairs[:, 1]]
    if isinstance(measure, measures.MaxCostGain) and isinstance(measure.cost, measures.LossMatrix):
        return np.arange(measure.cost.losses.shape[1])
    return np.arange(symbols)


def kept_rows(measure: Any, joint: np.ndarray, prior: np.ndarray, classes: Any) -> Any:
    """Which rows say something of their own whatever the limit: indices, or pairs of neighbours of different rows.

    `classes` numbers equal rows. Rows are compared before the limit enters, so that their number is the same for
    every limit (rules of one point of a sweep fit the others).
    """
    given = joint / prior[:, None]
    if isinstance(measure, measures.MaxCostGain):
        given = joint
        if isinstance(measure.cost, measures.LossMatrix):
            given = np.asarray(measure.cost.losses).T @ joint
    numbers = classes(given)
    _, first = np.unique(numbers, return_index=True)
    if not (isinstance(measure, measures.LocalDifferentialPrivacy) and measure.neighbours is not None):
        return first
    pairs = numbers[np.argwhere(np.asarray(measure.neighbours))]
    return first[np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)]


def worst_rows(xp: Any, measure: Any, w: Any, prior: Any, mass: Any, eps: Any, kept: Any) -> tuple[Any, Any]:
    """(rows, reference) of `measure <= eps`: rows <= 0, or rows <= t reference for some t where it is not 0.

    P(.|s) of a symbol without mass counts as P(.): its lift of 1 lies between those of the others, whose mean is 1.
    """
    if isinstance(measure, measures.MaxCostGain):
        cost: Any = measure.cost
        if isinstance(cost, measures.ZeroOneLoss):
            gains, least = w, -prior.max()
        else:
            losses = xp.asarray(cost.losses)
            gains, least = -losses.T @ w, (prior @ losses).min()
        rows = gains[kept] + (least - eps) * mass
        return rows, np.zeros(len(kept))
    seen = prior > 0
    given = xp.where(seen[:, None], w / xp.where(seen, prior, 1.0)[:, None], mass)
    if isinstance(measure, measures.LocalDifferentialPrivacy) and measure.neighbours is not None:
        first, second = kept[:, 0], kept[:, 1]
        both = (seen[first] & seen[second])[:, None]
        rows = xp.where(both, given[first], mass) - xp.exp(eps) * xp.where(both, given[second], mass)
        return rows, np.zeros(len(kept))
    lift = given[kept]
    if isinstance(measure, (measures.LocalDifferentialPrivacy, measures.InferentialPrivacy)):
        one = np.ones(len(kept))
        return xp.concatenate([lift, -lift]), xp.concatenate([xp.exp(0.5 * eps) * one, -xp.exp(-0.5 * eps) * one])
    sides = []
    if isinstance(measure, (measures.Lift, measures.MaxLift)):
        sides.append(xp.exp(-eps) * lift - mass)
    if isinstance(measure, (measures.Lift, measures.MinLift)):
        sides.append(xp.exp(-eps) * mass - lift)
    rows = xp.concatenate(sides)
    return rows, np.zeros(rows.shape[0])
