"""Problems of equal sizes stacked along a leading axis: stated as one program, which has that axis too."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jaxpriv.leakage import AbstractLeakage, MutualInformation
from jaxpriv.problems.distortion import DistortionProblem


@dataclass(frozen=True, eq=False)
class ProblemStack:
    """What the statement of a `DistortionProblem` reads, for N problems with one measure, an average, and no limits.

    All have as many joints and distortions, of equal sizes, and the same form, `budget` or `multiplier`.
    """

    joints: np.ndarray  # (N, K, S, X)
    distortions: np.ndarray  # (N, M, X, Y)
    leakage: AbstractLeakage
    budget: np.ndarray | None = None  # (N, M)
    multiplier: np.ndarray | None = None  # (N, M)

    @staticmethod
    def of(problems: Sequence[DistortionProblem]) -> "ProblemStack":
        """The problems along a leading axis; the measure is that of the first."""
        first = problems[0]
        joints = np.stack([problem.joints for problem in problems])
        tables = np.stack([problem.tables() for problem in problems])
        if first.budget is not None:
            budgets = np.stack([problem.budget for problem in problems])
            return ProblemStack(joints, tables, first.leakage, budget=budgets)
        prices = np.stack([problem.multiplier for problem in problems])
        return ProblemStack(joints, tables, first.leakage, multiplier=prices)

    @property
    def leakage_budget(self) -> None:
        """Of no problem here."""

    @property
    def limits(self) -> tuple[()]:
        """None."""
        return ()

    @property
    def of_information(self) -> bool:
        """As of one problem."""
        return isinstance(self.leakage, MutualInformation)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (X, Y) of a mechanism."""
        inputs, outputs = self.distortions.shape[-2:]
        return inputs, outputs

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """(K, |S|, |X|, |Y|)."""
        groups, private, inputs = self.joints.shape[-3:]
        return groups, private, inputs, self.shape[1]

    def tables(self) -> np.ndarray:
        """The distortions, shape (N, M, X, Y)."""
        return self.distortions
