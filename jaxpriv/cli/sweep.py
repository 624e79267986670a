"""`jaxpriv sweep`: a declared study, in chunks that are kept whatever ends the process."""

from collections.abc import Callable
from pathlib import Path

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._output import JsonRecord
from jaxpriv.cli._work import working
from jaxpriv.errors import NotCertifiedError, ResourceError


def sweep(
    study: Path,
    out: Path,
    workers: int = 1,
    part: str | None = None,
    dry_run: bool = False,
    time_limit: float | None = None,
    progress: bool = False,
    json: Path | None = None,
) -> None:
    """Solve every problem of a declared study, each with its certificate, and keep them in a folder chunk by chunk.

    After an interruption run the command again: finished chunks are not computed again. DIR/table.parquet holds all
    rows once the study is complete. Exit code 4: a problem is not certified to its tolerance or was refused, or the
    time limit or Ctrl-C came first. Exit code 6: chunks are missing, because a worker died or the disk is full.
    """
    from jaxpriv._runtime.clock import clock_of, listener
    from jaxpriv.solving.sweeps.running import sweep_within

    clock, listen = clock_of(time_limit, None), listener(progress, "SweepProgress")

    def work(report: Callable[[int, int], None]) -> "jp.sweeps.Sweep":
        def each(record: "jp.sweeps.SweepProgress") -> None:
            report(record.done, record.total)
            if listen is not None:
                listen(record)

        return sweep_within(study, out, clock, each, workers=workers, part=part, dry_run=dry_run)

    done = working("Planning" if dry_run else "Solving", work, clock)
    if dry_run:
        record = _plan_record(done)
        _output.deliver(record, json, _plan_text(record))
        return
    record = done.record
    _output.deliver(record, json, _output.aligned(done.lines))
    if done.failures:
        number, why = next(iter(done.failures.items()))
        raise ResourceError(
            f"{len(done.failures)} of {len(done.plan.chunks)} chunks are missing (chunk {number}: {why}); what is done "
            "is kept: run the command again"
        )
    if done.stopped or (part is None and not done.complete):
        raise NotCertifiedError(
            f"{_output.stopped(done.stopped)}{record['problems'] - record['done']} problems are not done; what is done "
            "is kept: run the command again"
        )
    if record["unproved"] or record["refused"]:
        raise NotCertifiedError(
            f"{record['unproved']} problems are not certified to their tolerances, {record['refused']} were refused; "
            "all rows are written, with their intervals and the reasons (column notes)"
        )


def _plan_record(planned: "jp.sweeps.Sweep") -> dict[str, object]:
    study, plan = planned.study, planned.plan
    groups = [
        {
            **_output.record_of(group, "what", "chunks", "seconds", "bytes"),
            "problems": group.cases,
            "lanes": group.width,
        }
        for group in plan.groups
    ]
    return {
        "name": study.name,
        "study": study.hash,
        "problems": len(study.cases),
        "chunks": len(plan.chunks),
        "missing": planned.missing,
        "groups": groups,
        "refused": plan.refused,
        "predicted": _output.record_of(plan, "seconds", "bytes"),
    }


def _plan_text(record: JsonRecord) -> str:
    rows = [
        f"{group['problems']:>8} {group['chunks']:>7} {group['lanes'] or '-':>6} {group['seconds']:>9.1f}  "
        f"{group['what']}\n"
        for group in record["groups"]
    ]
    head = f"{'problems':>8} {'chunks':>7} {'lanes':>6} {'seconds':>9}\n"
    lines = {
        "problems": f"{record['problems']} in {record['chunks']} chunks, of which {record['missing']} are missing",
        "refused": str(len(record["refused"])),
        "predicted": f"{record['predicted']['seconds']:.0f} s on one core, compiling included",
        "memory": f"{record['predicted']['bytes'] / 2**20:.0f} MiB for each process",
    }
    return head + "".join(rows) + _output.aligned(lines)
