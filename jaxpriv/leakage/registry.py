"""Leakage measures by the names of the command line."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jaxpriv.errors import InputError
from jaxpriv.leakage._base import AbstractLeakage
from jaxpriv.leakage.cost import AbstractCost, AverageCostGain, BrierLoss, LogLoss, MaxCostGain, ZeroOneLoss
from jaxpriv.leakage.f_information import (
    AbstractDivergence,
    ChiSquared,
    EGamma,
    FInformation,
    JensenShannon,
    KullbackLeibler,
    ReverseKullbackLeibler,
    SquaredHellinger,
    TotalVariation,
)
from jaxpriv.leakage.guessing import CorrectGuess, MinEntropyLeakage
from jaxpriv.leakage.pointwise import InferentialPrivacy, Lift, LocalDifferentialPrivacy, MaxLift, MinLift
from jaxpriv.leakage.renyi import Arimoto, MaximalLeakage, Sibson
from jaxpriv.leakage.shannon import MaxInformation, MutualInformation, RelativeEntropyPrivacy

_DIVERGENCES: Mapping[str, Callable[[], AbstractDivergence]] = {
    "kl": KullbackLeibler,
    "reverse-kl": ReverseKullbackLeibler,
    "chi-squared": ChiSquared,
    "total-variation": TotalVariation,
    "squared-hellinger": SquaredHellinger,
    "jensen-shannon": JensenShannon,
}


@dataclass(frozen=True)
class _Entry:
    """`forms` maps a form to its constructor, the default form first; `needs` are required parameters."""

    forms: Mapping[str, Callable[..., AbstractLeakage]]
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


def _gain(cost: type[AbstractCost]) -> _Entry:
    return _Entry({"average": lambda: AverageCostGain(cost()), "worst": lambda: MaxCostGain(cost())})


def _f_information(divergence: Any, gamma: Any = None) -> FInformation:
    if isinstance(divergence, str) and divergence == "e-gamma":
        if gamma is None:
            raise InputError("divergence 'e-gamma' needs gamma")
        return FInformation(EGamma(gamma))
    if gamma is not None:
        raise InputError("only divergence 'e-gamma' takes gamma")
    if isinstance(divergence, AbstractDivergence):
        return FInformation(divergence)
    if divergence not in _DIVERGENCES:
        raise InputError(f"unknown divergence; known: {', '.join((*_DIVERGENCES, 'e-gamma'))}")
    return FInformation(_DIVERGENCES[divergence]())


_ENTRIES: Mapping[str, _Entry] = {
    "mutual-information": _Entry({"average": MutualInformation, "worst": MaxInformation}),
    "max-information": _Entry({"worst": MaxInformation}),
    "relative-entropy": _Entry({"worst": RelativeEntropyPrivacy}),
    "correct-guess": _Entry({"average": CorrectGuess}),
    "min-entropy": _Entry({"average": MinEntropyLeakage}),
    "maximal-leakage": _Entry({"average": MaximalLeakage}),
    "sibson": _Entry({"average": Sibson}, needs=("order",)),
    "arimoto": _Entry({"average": Arimoto}, needs=("order",)),
    "f-information": _Entry({"average": _f_information}, needs=("divergence",), takes=("gamma",)),
    "gain-log-loss": _gain(LogLoss),
    "gain-zero-one": _gain(ZeroOneLoss),
    "gain-brier": _gain(BrierLoss),
    "lift": _Entry({"worst": Lift}),
    "max-lift": _Entry({"worst": MaxLift}),
    "min-lift": _Entry({"worst": MinLift}),
    "ldp": _Entry({"worst": LocalDifferentialPrivacy}, takes=("neighbours",)),
    "inferential": _Entry({"worst": InferentialPrivacy}),
}

NAMES = tuple(_ENTRIES)
DIVERGENCES = (*_DIVERGENCES, "e-gamma")


def forms_of(name: str) -> tuple[str, ...]:
    """The forms of a measure, the default first: ('average',), ('worst',) or both."""
    if name not in _ENTRIES:
        raise InputError(f"unknown leakage measure; known: {', '.join(NAMES)}")
    return tuple(_ENTRIES[name].forms)


def by_name(
    name: str,
    *,
    form: str | None = None,
    order: Any = None,
    divergence: Any = None,
    gamma: Any = None,
    neighbours: Any = None,
) -> AbstractLeakage:
    """The measure with a command-line name; `NAMES` lists them.

    `form` is 'average' or 'worst' (None: the measure's own); "mutual-information" in its worst form
    is "max-information". `order` belongs to sibson and arimoto, `divergence` (a name of
    `DIVERGENCES` or an `AbstractDivergence`) to f-information, `gamma` to divergence 'e-gamma',
    `neighbours` to ldp. Raises `InputError` for an unknown name (listing the known ones), a form
    that the measure does not have, and a parameter that it lacks or does not take.
    """
    forms = forms_of(name)
    entry = _ENTRIES[name]
    chosen = forms[0] if form is None else form
    if chosen not in forms:
        raise InputError(f"{name} has no form {chosen!r}; it has: {', '.join(forms)}")
    given = {"order": order, "divergence": divergence, "gamma": gamma, "neighbours": neighbours}
    parameters = {key: value for key, value in given.items() if value is not None}
    for key in entry.needs:
        if key not in parameters:
            raise InputError(f"{name} needs {key}")
    for key in parameters:
        if key not in entry.needs + entry.takes:
            raise InputError(f"{name} takes no {key}")
    return entry.forms[chosen](**parameters)
