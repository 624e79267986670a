"""What an adversary with finitely many actions does after each output, and what that gains it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.module import Shown
from jaxpriv._runtime.module.shown import numbers
from jaxpriv.errors import InputError
from jaxpriv.leakage._base import AbstractLeakage, same_symbols
from jaxpriv.leakage.cost import LossMatrix, ZeroOneLoss
from jaxpriv.leakage.evaluation import OutputColumns, checked_pair
from jaxpriv.leakage.renyi import CorrectGuess, GainLeakage, MinEntropyLeakage
from jaxpriv.verifier.logarithms import upper


@dataclass(frozen=True, eq=False)
class Adversary(Shown):
    """The best actions of an adversary on the given joint; no statement about a population.

    The gain of action a is g(a, s) when the secret is s: 1 for a guess that is right and 0 for another one, an entry of
    the gains, or minus one of the losses. Of actions that gain as much the first is named.

    Attributes:
        actions: `(y,)` int, the best action after each output: a row of the gains, a column of the losses[s, a], or
            the symbol s that is guessed. After an output that never occurs, `prior_action`.
        gains: `(y,)` max_a sum_s P(s|y) g(a, s).
        masses: `(y,)` P(y).
        prior_action: the best action without an output.
        prior_vulnerability: max_a sum_s P(s) g(a, s).
        posterior_vulnerability: sum_y P(y) gains[y]. What it exceeds the prior's by is `AverageCostGain`, the
            difference of logarithms `GainLeakage` (of guesses `MinEntropyLeakage`); of guesses it is `CorrectGuess`.
    """

    actions: np.ndarray
    gains: np.ndarray
    masses: np.ndarray
    prior_action: int
    prior_vulnerability: float
    posterior_vulnerability: float

    def _shown(self) -> dict[str, str]:
        return {
            "prior vulnerability": upper(self.prior_vulnerability),
            "posterior vulnerability": upper(self.posterior_vulnerability),
            "action without an output": str(self.prior_action),
            "actions after outputs": ", ".join(map(str, np.unique(self.actions).tolist())),
            "gains after outputs": numbers(self.gains),
        }


def adversary(measure: AbstractLeakage, joint: ArrayLike, mechanism: object) -> Adversary:
    """The best action after each output, for a measure of finitely many actions, in float64.

    `measure` is `CorrectGuess`, `MinEntropyLeakage`, `GainLeakage`, or `AverageCostGain` or `MaxCostGain` of
    `ZeroOneLoss` or a `LossMatrix`; `joint` (s, x) and `mechanism` (x, y) are as for `evaluate`.

    Raises `InputError` for another measure, a table for another number of private symbols, and where `evaluate` does.

    Example:
        >>> from jaxpriv.leakage import CorrectGuess
        >>> found = adversary(CorrectGuess(), [[0.6, 0.0], [0.0, 0.4]], [[0.75, 0.25], [0.25, 0.75]])
        >>> found.actions.tolist(), round(found.posterior_vulnerability, 6)
        ([0, 1], 0.75)
    """
    joint, mechanism = checked_pair(joint, mechanism)
    table = _gains_of(measure, len(joint))
    same_symbols("gains" if isinstance(measure, GainLeakage) else "losses", table, 1, len(joint))
    seen = OutputColumns.of(joint[None], mechanism, mean=True)
    columns, masses, prior = seen.columns[0], seen.masses[0], joint.sum(axis=1)
    totals = columns.sum(axis=0)
    occurs = totals > 0
    posteriors = np.where(occurs, columns / np.where(occurs, totals, 1.0), prior[:, None])
    worth, before = table @ posteriors, table @ prior
    gains = worth.max(axis=0)
    return Adversary(
        actions=worth.argmax(axis=0),
        gains=gains,
        masses=masses,
        prior_action=int(before.argmax()),
        prior_vulnerability=float(before.max()),
        posterior_vulnerability=max(float(masses @ gains), float(before.max())),
    )


def _gains_of(measure: AbstractLeakage, symbols: int) -> np.ndarray:
    """g(a, s)."""
    cost = getattr(measure, "cost", None)
    if isinstance(measure, GainLeakage):
        return np.asarray(measure.gains)
    if isinstance(cost, LossMatrix):
        return -np.asarray(cost.losses).T
    if isinstance(measure, (CorrectGuess, MinEntropyLeakage)) or isinstance(cost, ZeroOneLoss):
        return np.eye(symbols)
    raise InputError(
        f"measure {type(measure).__name__} is not one of finitely many actions; known: CorrectGuess, "
        "MinEntropyLeakage, GainLeakage, AverageCostGain and MaxCostGain of ZeroOneLoss or LossMatrix"
    )
