"""Two objectives in an order: the least leakage within a budget, and of what leaks as little the least distortion."""

from typing import Any

from jaxpriv._runtime.module import Module, Shown
from jaxpriv._runtime.module.shown import nearest, numbers
from jaxpriv._runtime.types import ScalarLike
from jaxpriv._runtime.validation import scalar
from jaxpriv.errors import InputError
from jaxpriv.problems.distortion import DistortionProblem, replace_form


class LexicographicProblem(Module, Shown):
    """Of all mechanisms within a tolerance of the least leakage, the one of least distortion.

    With L* the least leakage that the budget of `least_leakage` allows, and t the tolerance:

        minimise E d(X,Y)   subject to L <= L* + t

    Where several mechanisms leak L* (a budget with slack; a measure of the worst outcome; private symbols that no
    useful one tells apart) the budget form returns any of them, which may change the data for nothing. `solve` takes
    two steps: the interval of L*, then the least distortion with a leakage of at most t above the upper end of that.

    Args:
        least_leakage: a `DistortionProblem` with a `budget` and one distortion, of any measure that takes both
            `budget` and `leakage_budget`, and any `limits`, which hold in both steps.
        tolerance: t >= 0, in the unit of the measure.

    Raises:
        InputError: naming the argument.
    """

    least_leakage: DistortionProblem
    tolerance: Any

    def __init__(self, least_leakage: DistortionProblem, *, tolerance: ScalarLike):
        if not isinstance(least_leakage, DistortionProblem) or not least_leakage.form.limits_distortion:
            raise InputError(
                "least_leakage must be a DistortionProblem with a budget, within which some leakage is the least"
            )
        if len(least_leakage.distortions) > 1:
            raise InputError("least_leakage has several distortions; pass one, which is then minimised")
        self.least_leakage = least_leakage
        self.tolerance = scalar(tolerance, "tolerance", low=0.0)

    def least_distortion(self, least: ScalarLike) -> DistortionProblem:
        """The problem of the second step, `least` being the least leakage, or more where its interval ends higher."""
        return replace_form(self.least_leakage, leakage_budget=least + self.tolerance)

    def _shown(self) -> dict[str, str]:
        return {**self.least_leakage._shown(), "tolerance": numbers(self.tolerance, nearest)}
