"""What frontiers of all problems share: the numbers of their points, and how they are printed and drawn."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxpriv._module import Shown
from jaxpriv._module.shown import nearest, numbers, tally, width
from jaxpriv.verifier.claims import lower, upper

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Points up to which each has a line of its own in print.
_FEW = 8


class AbstractFrontier(Shown):
    """Optimal values of one problem over a swept target, (B,) of each number.

    `form` names the target, `targets` are its values, `problem` is the problem whose target was swept.
    """

    form: str
    targets: np.ndarray
    problem: Any  # of the classes that a frontier is computed of

    @abstractmethod
    def _column(self, name: str) -> np.ndarray:
        """One attribute of every solution."""

    @property
    def value(self) -> np.ndarray:
        """The objective of every solution, (B,); inf where no mechanism meets the target."""
        return self._column("value")

    @property
    def lower_bound(self) -> np.ndarray:
        """(B,)"""
        return self._column("lower_bound")

    @property
    def upper_bound(self) -> np.ndarray:
        """(B,): the values where these are minimised."""
        return self._column("upper_bound")

    @property
    def gap(self) -> np.ndarray:
        """upper_bound - lower_bound, (B,)."""
        return self._column("gap")

    @property
    def leakage(self) -> np.ndarray:
        """The problem's measure at every mechanism, (B,)."""
        return self._column("leakage")

    @property
    def status(self) -> np.ndarray:
        """The status of every solution, (B,)."""
        return self._column("status")

    def _shown(self) -> dict[str, str]:
        measure = self.problem.leakage
        rows = {"problem": type(self.problem).__name__, "leakage": f"{measure.label} ({measure.unit})"}
        name, known = self.form.replace("_", " "), np.isfinite(self.upper_bound)
        if len(self.targets) <= _FEW:
            points = zip(self.targets, self.lower_bound, self.upper_bound, self.status, strict=True)
            for target, low, high, status in points:
                interval = f"{lower(low)} to {upper(high)}, " if np.isfinite(high) else ""
                rows[f"{name} {numbers(target, nearest)}"] = interval + status
        else:
            rows[f"{len(self.targets)} targets"] = f"{name} {numbers(self.targets, nearest)}"
            rows["status"] = tally(self.status)
            if known.any():
                rows["optimum"] = f"{lower(self.lower_bound[known].min())} to {upper(self.upper_bound[known].max())}"
        rows["largest gap"] = width(self.gap[known].max(initial=0.0))
        return rows

    def plot(self, **options: Any) -> "Figure":  # noqa: ANN401 (the options of that function)
        """`jaxpriv.plotting.plot_frontier(self, ...)`: a matplotlib figure of the points and their certified band."""
        from jaxpriv.plotting import plot_frontier  # it needs matplotlib

        return plot_frontier(self, **options)  # pyright: ignore[reportArgumentType] (it is one of the two classes)
