"""Lines of `jaxpriv fit` that other commands and errors print."""

import itertools
import shlex
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from jaxpriv.cli._options import DesignOptions, FormOptions, TimeOptions
from jaxpriv.cli._tables import CostOptions
from jaxpriv.errors import InputError

if TYPE_CHECKING:
    from jaxpriv.statistics.tables import Rule

# Options that are left out where they have these values.
_USUAL = {option.name: option.default for kind in (FormOptions, DesignOptions, TimeOptions) for option in fields(kind)}
# Options that designs of groups do not have.
_NOT_OF_GROUPS = (
    *("codebook", "disclosure", "target_leakage", "leakage_tolerance", "alone", "marginal", "population", "after"),
    *("leakage", "order", "divergence", "gamma", "form"),
)


def command_line(command: str, table: Path, given: Mapping[str, object]) -> str:
    """The line of a command that takes a file, with these options by their names, as a shell takes it."""
    words = ["jaxpriv", command, str(table)]
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif value is not None and value is not False and value != _USUAL.get(name):
            words += [
                word for entry in (value if isinstance(value, list) else [value]) for word in (option, str(entry))
            ]
    return shlex.join(words)


def in_groups(error: InputError, table: Path, columns: CostOptions, given: Mapping[str, object]) -> InputError:
    """An error about too many combinations with the line that designs groups of columns, where that is possible."""
    from jaxpriv.release.counting import IN_GROUPS, CrowdedError
    from jaxpriv.verifier.csv_text import csv_line

    if not isinstance(error, CrowdedError) or not error.groups or without_groups({**vars(columns), **given}):
        return error
    groups = [csv_line(names).rstrip("\n") for names in error.groups]
    options = {**vars(with_rules(replace(columns, useful=None), error.rules)), "group": groups, **given}
    return InputError(str(error).replace(IN_GROUPS, command_line("fit", table, options)))


def without_groups(given: Mapping[str, object]) -> list[str]:
    """Those of the given options that designs of groups do not have."""
    values = {name: given.get(name) for name in _NOT_OF_GROUPS}
    # An option of 0 is given, and equals False.
    return [n for n, value in values.items() if not (value is None or value is False or value == _USUAL.get(n))]


def settings(column: str, rule: "Rule") -> dict[str, str]:
    """The options of `fit` that give a column a rule, by name: --bins, --missing and --other."""
    from jaxpriv.statistics.tables import Categories, Quantiles

    text: str | None = None  # the categories that a column has without --bins
    if isinstance(rule, Quantiles):
        text = f"quantiles:{rule.count}"
    elif not isinstance(rule, Categories):
        text = "edges:" + ",".join(map(repr, rule.edges))
    elif rule.first is not None:
        text = f"first:{rule.first}" + (f",{rule.least}" if rule.least is not None else "")
    elif rule.least is not None:
        text = f"categories:{rule.least}"
    given = {"bins": text, "missing": rule.missing, "other": getattr(rule, "other", None)}
    return {name: f"{column}={value}" for name, value in given.items() if value is not None}


def words_of(column: str, rule: "Rule") -> list[str]:
    """The same as words of a line."""
    return [word for name, text in settings(column, rule).items() for word in (f"--{name}", text)]


def with_rules(columns: CostOptions, rules: "Mapping[str, Rule]") -> CostOptions:
    """The options with these rules in place of those given for the same columns."""
    texts: dict[str, list[str]] = {}
    for option in ("bins", "missing", "other"):
        others = [text for text in getattr(columns, option) or () if text.rpartition("=")[0] not in rules]
        texts[option] = others + [
            options[option] for options in itertools.starmap(settings, rules.items()) if option in options
        ]
    return replace(columns, **texts)
