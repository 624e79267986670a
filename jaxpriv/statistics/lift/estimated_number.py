"""A number estimated from samples. It is no bound and no certificate: its type is different."""

import math
from dataclasses import dataclass

from jaxpriv.errors import InputError


@dataclass(frozen=True)
class Estimate:
    """An estimate with its standard error; never placed in a field of a certified number.

    Attributes:
        value: in `unit`.
        standard_error: of `value`, from the rows it was computed on, given what was learnt from the others. It does
            not cover what a fitted log-lift misses (its mean is below I(S;X) by the mean relative entropy between the
            true and the fitted P(s|x)).
        n: rows of one test set.
        method: the estimator, in words.
        quantity: what is estimated.
        unit: "nats", unless stated.
        splits: how many splits `value` is the mean of.
        spread: standard deviation of the splits' values (NaN for one split). Splits share rows: this is not the
            standard error of their mean.
    """

    value: float
    standard_error: float
    n: int
    method: str
    quantity: str
    unit: str = "nats"
    splits: int = 1
    spread: float = math.nan

    def __post_init__(self) -> None:
        if not (math.isfinite(self.value) and math.isfinite(self.standard_error)):
            raise InputError(
                f"the estimate of {self.quantity} by {self.method} is not finite: scores are infinite or NaN"
            )

    def agrees(self, truth: float, errors: float = 2.0) -> bool:
        """Whether `truth` lies within `errors` standard errors."""
        return bool(abs(self.value - truth) <= errors * self.standard_error)

    def __str__(self) -> str:
        return (
            f"{self.quantity} = {self.value:.4f} +- {self.standard_error:.4f} {self.unit} ({self.method}, n = {self.n})"
        )
