"""`jaxpriv joint`, `fit`, `release`, `report`: from records to a design, what is released by it, and a page of both."""

import math
import os
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxpriv.cli import _output, groups
from jaxpriv.cli._app import working
from jaxpriv.cli._commands import in_groups
from jaxpriv.cli._options import FormOptions, TimeOptions
from jaxpriv.cli._output import Units
from jaxpriv.cli._tables import CostOptions, arrays_of_table, book_file, table_file
from jaxpriv.errors import InputError, NotCertifiedError

if TYPE_CHECKING:
    from jaxpriv.release import Fitted, FittedGroups, TableDrift
    from jaxpriv.statistics.tables import TableFile
    from jaxpriv.verifier.claims import Claim


@dataclass(frozen=True)
class SurveyOptions(CostOptions):
    """Options about records that have weights, too."""

    survey_weight: str | None = None


def joint(
    *,
    table: Path,
    out: Path,
    columns: SurveyOptions,
    codebook_out: Path | None = None,
    json: Path | None = None,
) -> None:
    """Count a table of records: the joint distribution of its private and useful columns, and their distortion.

    S and X are the combinations of classes that occur, in the order of their codes. PROBLEM.npz holds counts of
    people: a new one can be read by its owner only.
    """
    _output.need_ending("--out", out, ".npz")
    arrays, counted = arrays_of_table(table, columns, costs=True)
    states, symbols = arrays["joint"].shape
    record = {
        "records": int(arrays["counts"].sum()),
        "private": {"columns": list(counted.codebook.private), "symbols": states},
        "useful": {"columns": list(counted.codebook.useful), "symbols": symbols},
        "least_private": int(arrays["counts"].sum(axis=1).min()),
        "least_useful": int(arrays["counts"].sum(axis=0).min()),
        "empty_cells": int((arrays["counts"] == 0).sum()),
        "largest_distortion": float(arrays["distortion"].max()),
        "sparse": counted.sparse,
    }
    files = {out: _output.npz_bytes(**arrays), **book_file(codebook_out, counted)}
    text = (
        f"{record['records']} records, |S| = {states}, |X| = {symbols}, at least {record['least_private']} records for "
        f"each s and {record['least_useful']} for each x, {record['empty_cells']} of {states * symbols} cells empty\n"
    )
    _output.deliver(record, json, text, files, private=True, private_files=[out])


class Unseen(StrEnum):
    """What a record comes to whose classes combine as in no record of the fit."""

    refuse = "refuse"
    suppress = "suppress"
    nearest = "nearest"


def fit(
    *,
    table: Path,
    out: Path,
    columns: CostOptions,
    budget: float | None = None,
    leakage_budget: float | None = None,
    leakage_tolerance: float | None = None,
    disclosure: float | None = None,
    target_leakage: float | None = None,
    group: list[str] | None = None,
    grouped: bool = False,
    measure: FormOptions,
    split: float = 0.5,
    seed: int = 0,
    confidence: float = 0.95,
    population: bool = False,
    unseen: Unseen = Unseen.refuse,
    resolution: int = 32,
    unchanged: bool = False,
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
    from jaxpriv import release

    _output.need_ending("--out", out, ".zip")
    _output.need_ending("--private-out", private_out, ".zip")
    budgets: dict[str, Any] = {"budget": budget, "leakage_budget": leakage_budget}
    targets: dict[str, Any] = {**budgets, "disclosure": disclosure, "target_leakage": target_leakage}
    _output.only_one(targets)
    further = {"leakage_tolerance": leakage_tolerance, "population": population}
    given = {**vars(measure), **targets, **further}
    alike = {"split": split, "seed": seed, "confidence": confidence, "unseen": str(unseen), "resolution": resolution}
    in_one = not (group or grouped)
    if not in_one:
        columns, of_groups = groups.of_groups(columns, group, grouped, given)
    source, of_records = records_and_measure(table, columns, measure)
    run.check()
    clock = run.clock()
    asked: dict[str, Any] = {**of_records, **alike, "tol": run.tol, "clock": clock}

    def work(_: object) -> "Fitted | FittedGroups":
        if in_one:
            return release.fit(source, release.FitRequest(**asked, **targets, **further))
        own = {name: value for name, value in asked.items() if name not in ("useful", *vars(measure))}
        return release.fit_groups(source, release.GroupsRequest(**own, **of_groups, **budgets))

    try:
        found = working("Fitting", work, clock)
    except InputError as error:
        further = {"tol": run.tol, "time_limit": run.time_limit, "out": out, "private_out": private_out}
        raise in_groups(error, table, columns, {**given, **alike, **further}) if in_one else error from None
    if found.unchanged and not unchanged:
        raise InputError(
            f"{_output.stopped(clock.stop)}every record would be released as it is, which meets the target. No design "
            f"was written: {'allow more --time-limit' if clock.stop else 'choose another target'}, or --unchanged if "
            "this is meant"
        )
    files = {out: found.mechanism.to_bytes()}
    if private_out is not None:
        files[private_out] = found.evidence.to_bytes(found.mechanism)  # pyright: ignore[reportArgumentType]
    if codebook_out is not None:
        files[codebook_out] = found.codebook.to_json().encode()
    secret = [] if private_out is None else [private_out]
    if isinstance(found, release.FittedGroups):
        parts, target = (
            found.fitted,
            next(f"{name.replace('_', '-')} {value:g}" for name, value in budgets.items() if value is not None),
        )
        record, text = groups.record(found, map(_record, parts)), groups.text(found, target, units)
    else:
        parts = (found,)
        record, text = _record(found), _text(found, units)
    _output.deliver(record, json, text, files, private=True, private_files=secret)
    if any(one.status in ("not_certified", "best_known") for one in parts):
        raise NotCertifiedError(
            f"{_output.stopped(clock.stop)}not certified to --tol {run.tol:g}. The design and what is printed of it "
            f"are valid. {'Let it run longer' if clock.stop else 'Raise --tol'}"
        )


def records_and_measure(table: Path, columns: CostOptions, measure: FormOptions) -> "tuple[TableFile, dict[str, Any]]":
    """The table, and the arguments of `fit` and `advise` about its columns and the measure."""
    measure.option.check_stated()
    costs, source = columns.costs(), table_file(table, columns.read)
    return source, {
        **columns.of_records(source),
        **vars(measure),
        "form": None if measure.form is None else str(measure.form),
        "distortion": costs["kinds"] or None,
        "weights": costs["weights"] or None,
        "sparse": columns.sparse,
    }


def _record(found: "Fitted") -> dict[str, object]:
    from jaxpriv.verifier.archive import digest

    audit = found.audit
    return {
        "status": found.status,
        "design": digest(found.mechanism.to_bytes()),
        "asked": found.mechanism.asked.record,
        "records": {
            "design": int(found.evidence.counts.sum()),
            "held_out": None if found.evidence.held_out is None else int(found.evidence.held_out.sum()),
        },
        "alphabets": {
            "private": len(found.evidence.counts),
            "useful": len(found.mechanism.table),
            "released": len(found.mechanism.released),
        },
        "on_the_design": {name: claim.record for name, claim in found.claims.items()},
        "without_data": {name: claim.record for name, claim in found.mechanism.guarantees.items()},
        "population_limit": None if found.limit is None else asdict(found.limit),
        "population": None
        if audit is None
        else {
            "confidence": audit.confidence,
            "holds_for": audit.holds_for,
            "measures": [{"name": row.name, "upper": row.upper, "units": row.units} for row in audit.rows],
            "utility_lower": audit.utility.lower,
            "assumptions": list(audit.assumptions.statements),
        },
        "statements": list(found.statements),
        "units": "nats",
    }


_NAMES = {
    "leakage": "leakage",
    "distortion": "mean distortion",
    "disclosure": "utility I(X;Y)",
    "gap": "certified gap",
    "excess": "excess over the target",
}
# Significant digits, where six would differ between machines.
_DIGITS = {"gap": 2}
_BY_SOLVER = {"lower_bound": "solver_bound", "gap": "solver_gap"}
_CAPS = {"maximal-leakage": "maximal leakage of X, at least I(S;Y)", "ldp": "largest ln P(y|x)/P(y|x')"}


def _text(found: "Fitted", units: Units) -> str:
    release = found.mechanism
    asked, audit = release.asked, found.audit
    measure = asked.leakage["name"]
    lines = {
        "status": found.status.replace("_", " "),
        "target": f"{asked.problem} {asked.target:g}, leakage: {measure}",
        "alphabets": f"|S| = {len(found.evidence.counts)}, |X| = {len(release.table)}, |Y| = {len(release.released)}",
    }
    records = int(found.evidence.counts.sum())
    lines[f"on the {records} records of the design"] = ""
    objective = "distortion" if asked.problem == "leakage-budget" else "leakage"
    names = {**_NAMES, "lower_bound": f"no mapping has less {objective} than"}
    for name, claim in found.claims.items():
        # Of a funnel with more than two private symbols what the solver proved; the statements say so.
        best = found.claims.get(_BY_SOLVER.get(name, name), claim)
        if name in names:
            lines[f"  {names[name]}"] = _claim(
                best, units, down=name in ("disclosure", "lower_bound"), digits=_DIGITS.get(name, 6)
            )
    lines["whatever the population is"] = ""
    lines |= {f"  {_CAPS[name]}": _claim(claim, units) for name, claim in release.guarantees.items()}
    limit = found.limit
    if limit is not None:
        lines[f"population, confidence {limit.confidence:g}"] = f"design {limit.rung} of {limit.rungs}"
        lines["target"] += f", so that {limit.limit:g} holds for the population"
        lines[f"  {measure} at most"] = f"{_output.upper(limit.upper)} in the units of the target"
    if audit is not None and audit.assumptions.records is not None:
        lines[f"population, from {audit.assumptions.records} held-out records"] = f"confidence {audit.confidence:g}"
        for row in audit.rows:
            if row.upper is not None and row.name in (measure, "mutual-information", "maximal-leakage"):
                lines[f"  {row.name} at most"] = _upper(row.upper, row.units, units)
        if audit.utility.lower is not None:
            lines["  utility I(X;Y) at least"] = f"{_output.lower(audit.utility.lower * units.per_nat)} {units}"
    return _output.aligned(lines) + "".join(f"{sentence}\n" for sentence in found.statements)


def _upper(value: float, unit: str, units: Units) -> str:
    if math.isinf(value):
        return "inf (no bound)"
    scale, name = units.of(unit)
    return f"{_output.upper(value * scale)} {name}"


def _claim(claim: "Claim", units: Units, *, down: bool = False, digits: int = 6) -> str:
    """The end of the interval that is against us: the lower one with `down`, the upper one otherwise."""
    end = claim.lower if down else claim.upper
    if end is None:
        return "inf (no bound)"
    scale, unit = (units.per_nat, str(units)) if claim.unit == "nats" else (1.0, "")
    value = Fraction(end) * Fraction(scale)
    rounded = (_output.lower if down else _output.upper)(float(value), digits)
    return f"{rounded} {unit}".rstrip()


def release(
    table: Path,
    design: Path,
    out: Path,
    receipt: Path,
    read: list[str] | None = None,
    unseen: Unseen | None = None,
    private: Path | None = None,
    ledger: Path | None = None,
    no_ledger: bool = False,
    identity: list[str] | None = None,
    keep: list[str] | None = None,
    keep_order: bool = False,
    order_out: Path | None = None,
    force: bool = False,
    json: Path | None = None,
) -> None:
    """Release every record by one draw from the design, with random numbers of the operating system.

    All or nothing: if a record cannot be released, none is. The receipt is written last. A second draw for the same
    records would reveal more about them: the ledger, private-ledger-... in the folder of AUDIT.zip or else of
    DESIGN.zip, records every draw and repeats it, under other names of files too. It does not see releases from
    another folder (a copy of the design), with --no-ledger, or by other tools, nor without --id a table with other
    rows. Rows are released in a random order. Ledger and order are for the owner: do not publish them.
    """
    from jaxpriv import release
    from jaxpriv.release.grouped import load_evidence, load_mechanism
    from jaxpriv.statistics.tables.readers import read_columns
    from jaxpriv.verifier.releases import Receipt

    _output.need_ending("--order-out", order_out, ".zip")
    folders = [Path(os.path.realpath(path)).parent for path in (private, design) if path is not None]
    if ledger is None and not no_ledger:  # its name ends with what only the design tells
        _output.check_outputs({"--ledger": folders[0] / "private-ledger"}, {})
    source = table_file(table, read)

    def work(_: object) -> "tuple[release.Released, list[TableDrift]]":
        loaded, drifts = load_mechanism(design), []
        columns = read_columns(source, list(dict.fromkeys((*loaded.codebook.useful, *(identity or ()), *(keep or ())))))
        if private is not None:
            for part, evidence in zip(loaded.parts, load_evidence(private, loaded).parts, strict=True):
                by_rule = part if unseen is None else replace(part, unseen=str(unseen))
                drifts.append(release.drift(by_rule, evidence, columns))
        done = release.release(
            columns,
            loaded,
            out,
            receipt,
            unseen=None if unseen is None else str(unseen),
            ledger=ledger,
            no_ledger=no_ledger,
            private_folder=folders,
            identity=identity or (),
            keep=keep or (),
            keep_order=keep_order,
            order_out=order_out,
            force=force,
        )
        return done, drifts

    found, drifts = working("Releasing", work)
    record = {
        "receipt": dict(found.receipt),
        "rows": len(found.outputs),
        "unseen": found.unseen,
        "served": found.served,
        "escaped": found.escaped,
        "singled_out": found.singled_out,
        "ledgers": [str(path) for path in found.ledgers],
        "order": None if found.order_file is None else str(found.order_file),
        "drift": None if not drifts else asdict(drifts[0]) if len(drifts) == 1 else list(map(asdict, drifts)),
    }
    rows = len(found.outputs)
    lines = [f"{rows} records released; receipt in {receipt}"]
    if found.order_file is not None:
        lines.append(f"rows are in a random order, for the owner alone in {found.order_file}")
    lines += [f"draws are recorded, for the owner alone, in {path}" for path in found.ledgers]
    lines += [f"stated in the receipt: {sentence}" for sentence in Receipt(found.receipt).departures]
    if found.served:
        lines.append(f"{found.served} records were in the ledger and keep their earlier draw")
    if not identity and found.served:
        lines.append(
            "they are the same rows of an equal table; if they are other people, name a column that says so: --id"
        )
    elif not identity and found.earlier:
        lines.append(
            "the ledger has releases of other tables; without --id it does not notice a person who is in several"
        )
    if found.unseen:
        lines.append(f"{found.unseen} records combine classes as none of the fit did: {found.receipt['unseen']}")
    if found.escaped:
        lines.append(f"{found.escaped} cells got an apostrophe: spreadsheets would have taken them for formulas")
    if keep:
        lines.append(f"not covered by any audit: {', '.join(keep)}")
    if found.singled_out:
        lines.append(
            f"kept columns single out {found.singled_out} of {rows} rows: who knows them for a record finds its row in "
            "any order"
        )
    for place, drift in enumerate(drifts, 1):
        lines += [f"group {place}:"] if len(drifts) > 1 else []
        lines += _differences(drift)
    _output.deliver(record, json, "".join(f"{line}\n" for line in lines), private=True)


def _differences(drift: "TableDrift") -> list[str]:
    """How a table differs from the records of its design, in words."""
    lines = [f"compared with the {drift.design} records of the design:"]
    lines += [
        f"  {one.column or 'all useful columns together'}: total variation {one.variation:.3f}, p = {one.p_value:.2g} "
        f"(corrected {one.adjusted:.2g})"
        for one in drift.columns
    ]
    if drift.information is not None:
        lines.append(f"of these records I(S;Y) is at most I(X;Y), at most {_claim(drift.information, Units.nats)}")
    if drift.drifted:
        lines.append(
            "warning: a corrected p is below 0.01, which is evidence that these records come from another population "
            "than those of the design: its bounds for the population may not hold for them; those for every "
            "population do"
        )
    return lines


def report(
    design: Path,
    out: Path,
    private: Path | None = None,
    receipt: Path | None = None,
    confidence: float = 0.95,
) -> None:
    """Write a page about a release: what it reveals about each private class, what is proved, what is not covered."""
    _output.need_ending("--out", out, ".html", ".htm")
    from jaxpriv.release.grouped import load_evidence, load_mechanism
    from jaxpriv.release.report import report as page
    from jaxpriv.verifier.archive import read_file
    from jaxpriv.verifier.releases import read_receipt

    release = load_mechanism(design)
    evidence = None if private is None else load_evidence(private, release)
    stated = None if receipt is None else read_receipt(read_file(receipt), str(receipt))
    text = working("Reporting", lambda _: page(release, evidence, receipt=stated, confidence=confidence))
    secret = [] if evidence is None else [out]
    _output.deliver({}, None, f"report in {out}\n", {out: text.encode()}, private_files=secret)
