"""Leakage measures by the names of the command line: every measure enters its own, beside its class."""

from collections.abc import Callable, KeysView, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from numpy.typing import ArrayLike

from jaxpriv._runtime.near import near
from jaxpriv._runtime.types import ScalarLike
from jaxpriv._runtime.validation import instance
from jaxpriv.errors import InputError
from jaxpriv.leakage._base import AbstractLeakage

if TYPE_CHECKING:  # that module enters its measures here
    from jaxpriv.leakage.f_rules import AbstractDivergence

_Maker = TypeVar("_Maker", bound=Callable[..., AbstractLeakage])
_PARAMETERS = ("order", "beta", "divergence", "gamma", "neighbours")


@dataclass
class _Entry:
    """`forms` maps a form to its constructor, the default form first; `needs` are required parameters."""

    needs: tuple[str, ...]
    takes: tuple[str, ...]
    forms: dict[str, Callable[..., AbstractLeakage]] = field(default_factory=dict)
    reported: list[Mapping[str, object]] = field(default_factory=list)


# Keyword arguments of `by_name`: their types differ, and the registry passes them on without a look.
Arguments: TypeAlias = dict[str, Any]

_ENTRIES: dict[str, _Entry] = {}
# The names, in the order in which they were entered; a view, which later entries show up in.
NAMES: KeysView[str] = _ENTRIES.keys()


def named(
    name: str,
    form: str,
    *,
    needs: tuple[str, ...] = (),
    takes: tuple[str, ...] = (),
    reported: tuple[Mapping[str, object], ...] = ({},),
) -> Callable[[_Maker], _Maker]:
    """A decorator that enters a measure, or a function that makes one, under a name of the command line.

    Args:
        name: lower case, words joined by hyphens. One name may have an average and a worst form.
        form: 'average' or 'worst'; the first one entered is the default.
        needs: parameters without which there is no measure, of order, beta, divergence, gamma and neighbours.
        takes: parameters that it may be given.
        reported: the parameters of each of its rows in `report`, none of them: ().

    Raises `InputError` for a form that the name has already, and for a parameter of another name.
    """
    unknown = [key for key in (*needs, *takes) if key not in _PARAMETERS]
    if form not in ("average", "worst") or unknown:
        raise InputError(f"{name}: a form is 'average' or 'worst', parameters are {', '.join(_PARAMETERS)}")
    if name in _ENTRIES and form in _ENTRIES[name].forms:
        raise InputError(f"name {name!r} has a measure of form {form!r} already")

    def enter(maker: _Maker) -> _Maker:
        entry = _ENTRIES.setdefault(name, _Entry(needs, takes))
        given = {"form": form} if entry.forms else {}
        entry.forms[form] = maker
        entry.reported += [{**given, **parameters} for parameters in reported]
        return maker

    return enter


def forms_of(name: str) -> tuple[str, ...]:
    """The forms of a measure, the default first: ('average',), ('worst',) or both.

    Raises `InputError` for an unknown name; the message lists the known ones.
    """
    if not isinstance(name, str) or name not in _ENTRIES:
        raise InputError(f"unknown leakage measure; known: {', '.join(NAMES)}{near(str(name), NAMES)}")
    return tuple(_ENTRIES[name].forms)


def names_of_classes() -> dict[str, str]:
    """The name of each measure by that of its class."""
    return {
        maker.__name__: name
        for name, entry in _ENTRIES.items()
        for maker in entry.forms.values()
        if isinstance(maker, type)
    }


def names_with(parameter: str) -> tuple[str, ...]:
    """The names of the measures that take a parameter."""
    return tuple(name for name, entry in _ENTRIES.items() if parameter in entry.needs + entry.takes)


def reported_rows() -> tuple[Arguments, ...]:
    """The arguments of `by_name` for every row of a report."""
    return tuple({"name": name, **row} for name, entry in _ENTRIES.items() for row in entry.reported)


def by_name(
    name: str,
    *,
    form: str | None = None,
    order: ScalarLike | None = None,
    beta: ScalarLike | None = None,
    divergence: "str | AbstractDivergence | None" = None,
    gamma: ScalarLike | None = None,
    neighbours: ArrayLike | None = None,
) -> AbstractLeakage:
    """The measure with a command-line name; `NAMES` lists them.

    `form` is 'average' or 'worst' (None: the measure's own); "mutual-information" in its worst form
    is "max-information". `order` belongs to the measures of Renyi's order, `beta` to
    maximal-alpha-leakage, `divergence` (a name of `DIVERGENCES` or an `AbstractDivergence`) to f-information, `gamma`
    to divergence 'e-gamma', `neighbours` to ldp. Raises `InputError` for an unknown name (listing the known ones), a
    form that the measure does not have, and a parameter that it lacks or does not take.
    """
    forms = forms_of(name)
    entry = _ENTRIES[name]
    chosen = forms[0] if form is None else form
    if not isinstance(chosen, str) or chosen not in forms:
        raise InputError(f"{name} has no form {chosen!r}; it has: {', '.join(forms)}")
    given = dict(zip(_PARAMETERS, (order, beta, divergence, gamma, neighbours), strict=True))
    parameters = {key: value for key, value in given.items() if value is not None}
    for key in entry.needs:
        if key not in parameters:
            raise InputError(f"{name} needs {key}")
    for key in parameters:
        if key not in entry.needs + entry.takes:
            raise InputError(f"{name} takes no {key}")
    return entry.forms[chosen](**parameters)


def parameters_of(text: str) -> Arguments:
    """The arguments of `by_name` in a text NAME[:PARAMETER...]: "sibson:2", "gain-brier:worst", "f-information:kl".

    A parameter is a form, a divergence or a number: the order, then the beta of maximal-alpha-leakage, or gamma of
    f-information. Raises `InputError` for any other text, and for a name or parameters that `by_name` does not take.
    """
    from jaxpriv.leakage import DIVERGENCES  # it imports the measures, which import this module

    instance(text, "text", str)
    name, *parameters = text.split(":")
    arguments: Arguments = {"name": name}
    for parameter in parameters:
        if parameter in ("average", "worst"):
            key: str = "form"
        elif parameter in DIVERGENCES:
            key = "divergence"
        else:
            second = "order" in arguments and name in names_with("beta")
            key = "gamma" if name == "f-information" else "beta" if second else "order"
        if key in arguments:
            raise InputError(f"{text!r} gives {key} twice")
        try:
            arguments[key] = parameter if key in ("form", "divergence") else float(parameter)
        except ValueError as error:
            raise InputError(f"{text!r}: {parameter!r} is no form, divergence or number") from error
    by_name(**arguments)
    return arguments
