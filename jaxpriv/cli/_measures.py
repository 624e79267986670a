"""Leakage measures as the command line asks for them."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from jaxpriv.errors import InputError

FORMS = ("average", "worst")


class Form(StrEnum):
    """How a measure combines the outcomes."""

    average = "average"
    worst = "worst"


LeakageOption = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="The measure: mutual-information, max-information, relative-entropy, correct-guess, min-entropy, "
        "maximal-leakage, sibson, arimoto, f-information, gain-log-loss, gain-zero-one, gain-brier, lift, "
        "max-lift, min-lift, ldp or inferential.",
    ),
]
OrderOption = Annotated[float | None, typer.Option(metavar="A", help="Order of sibson or arimoto, 0 < A <= inf.")]
DivergenceOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Divergence of f-information: kl, reverse-kl, chi-squared, total-variation, squared-hellinger, "
        "jensen-shannon or e-gamma.",
    ),
]
GammaOption = Annotated[float | None, typer.Option(metavar="G", help="Parameter of divergence e-gamma, G >= 1.")]


@dataclass(frozen=True)
class Asked:
    """A measure as the command line asks for it; `value` is its limit."""

    option: str
    name: str
    form: str | None = None
    order: float | None = None
    divergence: str | None = None
    gamma: float | None = None
    value: float = 0.0

    def measure(self, neighbours: Any) -> Any:
        """The measure, or an `InputError` that names the option; `neighbours` is for ldp."""
        from jaxpriv.leakage import by_name

        try:
            return by_name(
                self.name,
                form=self.form,
                order=self.order,
                divergence=self.divergence,
                gamma=self.gamma,
                neighbours=neighbours if self.name == "ldp" else None,
            )
        except InputError as error:
            message = re.sub(r"\b(needs|takes no) (order|divergence|gamma)\b", r"\1 --\2", str(error))
            if self.option != "--leakage":
                message = f"{error} (write NAME:PARAMETER=VALUE, as in sibson:2=0.3)"
            elif "form" in message:
                message = f"--form: {message}"
            raise InputError(f"{self.option} {self.name}: {message}") from error
