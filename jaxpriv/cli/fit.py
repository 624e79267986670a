"""`jaxpriv fit`: from records to a design, which can be published."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jaxpriv as jp
from jaxpriv.cli import _groups, _output
from jaxpriv.cli._fit_line import command_line, in_groups
from jaxpriv.cli._options import DesignOptions, FormOptions, TargetOptions, TimeOptions, request_of
from jaxpriv.cli._output import Units
from jaxpriv.cli._tables import CostOptions, records_and_measure
from jaxpriv.cli._work import working
from jaxpriv.errors import InputError, NotCertifiedError


def fit(
    *,
    table: Path,
    out: Path,
    columns: CostOptions,
    target: TargetOptions,
    group: list[str] | None = None,
    grouped: bool = False,
    measure: FormOptions,
    design: DesignOptions,
    unchanged: bool = False,
    after: Path | None = None,
    run: TimeOptions,
    private_out: Path | None = None,
    codebook_out: Path | None = None,
    units: Units = Units.nats,
    json: Path | None = None,
) -> None:
    """Design on one part of the records, audit on the other, and write what can be published.

    The design is a table of whole numbers: what is certified is what `jaxpriv release` draws from. Every number printed
    on the records of the design was computed again from that table, exactly or rounded outwards. Exit code 3: no
    mapping meets the target. Exit code 4: the gap is above --tol (or the time limit or Ctrl-C came first); design and
    interval are valid and written all the same.
    """
    _output.need_ending("--out", out, ".zip")
    _output.need_ending("--private-out", private_out, ".zip")
    _output.only_one(vars(target))
    design.check_split()
    given = {**vars(measure), **vars(target), **vars(design)}
    in_one = not (group or grouped)
    of_groups: dict[str, Any] = {}
    if not in_one:
        columns, of_groups = _groups.of_groups(columns, group, grouped, given)
    if after is not None:
        if columns.useful or columns.codebook or not in_one:
            raise InputError("--after goes without --useful, --codebook and groups: it has the columns of EARLIER.zip")
        given["after"] = jp.release.Mechanism.load(after)
        columns = replace(columns, useful=list(given["after"].codebook.useful))
    source, of_records = records_and_measure(table, columns, measure)
    of_records |= {} if after is None else {"useful": ()}
    run.check()
    _output.keep_used(out, private_out)
    clock = run.clock()
    asked = {**given, **of_records, **of_groups, "tol": run.tol}
    from jaxpriv.release.fitting import fit_within
    from jaxpriv.release.grouping import fit_groups_within

    def work(_: object) -> "jp.release.Fitted | jp.release.FittedGroups":
        if in_one:
            return fit_within(source, request_of(jp.release.FitRequest, asked), clock)
        return fit_groups_within(source, request_of(jp.release.GroupsRequest, asked), clock)

    try:
        fitted = working("Fitting", work, clock)
    except InputError as error:
        given |= {"tol": run.tol, "time_limit": run.time_limit, "out": out, "private_out": private_out}
        raise in_groups(error, table, columns, given) if in_one else error from None
    if fitted.unchanged and not unchanged:
        raise InputError(
            f"{_output.stopped(clock.stop)}every record would be released as it is, which meets the target. No design "
            f"was written: {'allow more --time-limit' if clock.stop else 'choose another target'}, or --unchanged if "
            "this is meant"
        )
    files = {out: fitted.mechanism.to_bytes()}
    if private_out is not None:
        files[private_out] = fitted.evidence.to_bytes(fitted.mechanism)  # pyright: ignore[reportArgumentType]
    if codebook_out is not None:
        files[codebook_out] = fitted.codebook.to_json().encode()
    secret = [path for path in (private_out, codebook_out) if path is not None]
    if isinstance(fitted, jp.release.FittedGroups):
        parts, text = fitted.fitted, _groups.text(fitted, target, units)
    else:
        parts, text = (fitted,), _output.aligned(fitted.lines(units))
        text += "".join(f"{sentence}\n" for sentence in fitted.statements)
    owned = " and ".join([*map(str, secret), "the numbers above"])
    text += f"To publish: {out}. For the owner alone: {owned}.\n"
    following = {"design": out, "private": private_out, "read": columns.read, "out": "released.csv"}
    line = command_line("release", table, {**following, "receipt": "receipt.json"})
    text += f"To release the records (with --id COL, if a column identifies them):\n  {line}\n"
    _output.deliver(fitted.record, json, text, files, private=True, private_files=secret)
    if any(design.status in ("not_certified", "best_known") for design in parts):
        raise NotCertifiedError(
            f"{_output.stopped(clock.stop)}not certified to --tol {run.tol:g}. The design and what is printed of it "
            f"are valid. {'Let it run longer' if clock.stop else 'Raise --tol'}"
        )
