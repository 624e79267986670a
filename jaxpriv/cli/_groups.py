"""`jaxpriv fit --group`: the groups that the options name, and what is printed of their designs."""

import csv
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._fit_line import without_groups
from jaxpriv.cli._options import TargetOptions
from jaxpriv.cli._output import Units
from jaxpriv.cli._tables import CostOptions
from jaxpriv.errors import InputError


def of_groups(
    columns: CostOptions, group: list[str] | None, grouped: bool, given: Mapping[str, object]
) -> tuple[CostOptions, dict[str, Any]]:
    """The options with all useful columns, and `groups` or `useful` of `fit_groups`; `given`: further options."""
    for name in without_groups({**vars(columns), **given}):
        raise InputError(
            f"--{name.replace('_', '-')} goes without --group and --grouped, whose designs are for mutual "
            "information and a --budget or --leakage-budget"
        )
    if group and grouped:
        raise InputError("give --group or --grouped, not both")
    if not group:
        return columns, {"useful": columns.useful or ()}
    try:
        named = [next(csv.reader([text])) for text in group]
    except csv.Error as error:
        raise InputError(f"--group: {error}") from None
    inside = {name for names in named for name in names}
    groups = [*named, *([name] for name in columns.useful or () if name not in inside)]
    return replace(columns, useful=[name for names in groups for name in names]), {"groups": groups, "useful": ()}


def text(fit: "jp.release.FittedGroups", target: TargetOptions, units: Units) -> str:
    """The numbers of all groups together, then a line for each group."""
    asked = fit.fitted[0].evidence
    ((goal, value),) = ((name, value) for name, value in vars(target).items() if value is not None)
    cost, most = fit.cost, units.most
    lines = {
        "target": f"{goal.replace('_', '-')} {value:g}{'' if goal == 'budget' else ' nats'} for all groups",
        "alphabets": f"|S| = {len(asked.counts)}, {len(fit.groups)} groups of useful columns",
        f"on the {int(asked.counts.sum())} records of the design": "",
        "  leakage of all groups together": most(cost.joint) + ("" if fit.exact else ", by the chain rule"),
        "  sum of the groups' leakages": f"{most(cost.apart)} (no bound on all)",
        "  mean distortion": fit.distortion.end(),
    }
    joint_leakage = "not computed: more than 256^2 pairs of combinations"
    if cost.optimum is not None:
        joint_leakage = f"at least {units.least(cost.optimum[0])}"
    lines["  one mechanism for all columns leaks"] = joint_leakage
    lines["whatever the population is"] = ""
    lines["  maximal leakage, at least I(S;Y)"] = fit.mechanism.guarantees["maximal-leakage"].end(units)
    if fit.population is not None:
        held_out = int(fit.evidence.records[:, -1].sum())
        lines[f"population, from {held_out} held-out records"] = f"confidence {fit.confidence:g}"
        lines["  leakage of all groups at most"] = most(fit.population)
    headings = ["|X|", "distortion", "leakage", "at least", *(["population"] if fit.population is not None else [])]
    rows = (
        (*_numbers(group, units), group.status.replace("_", " "), ", ".join(names))
        for names, group in zip(fit.groups, fit.fitted, strict=True)
    )
    table = _output.table_of(rows, headings, after=("status", "columns"))
    statements = dict.fromkeys(sentence for group in fit.fitted for sentence in group.statements)
    return (
        _output.aligned(lines)
        + f"\nEach group, in {units} (`at least`: any mapping of its budget to its combinations)\n"
        + _output.rendered(table)
        + "".join(f"{sentence}\n" for sentence in statements)
    )


def _numbers(group: "jp.release.Fitted", units: Units) -> list[str]:
    bound = group.claims.get("lower_bound")
    cells = [
        str(len(group.mechanism.table)),
        group.claims["distortion"].end(),
        _output.upper(group.claims["leakage"].most * units.per_nat),
        "-" if bound is None else _output.lower(float(bound.lower or 0) * units.per_nat),
    ]
    if group.audit is not None:
        bounds = [row.upper for row in group.audit.rows if row.name == "mutual-information" and row.upper is not None]
        cells += [_output.upper(bounds[0] * units.per_nat)]
    return cells
