"""Every command as a script calls it: its exit code, and the keys and types of the JSON that it writes.

Values are not frozen: those of the solves are in `solves.json`.
"""

import atexit
import contextlib
import json
import shlex
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.cli.conftest import run

FILE = Path(__file__).with_suffix(".json")
_COLUMNS = "--private income --useful age --useful job"
_DESIGN = f"fit people.csv {_COLUMNS} --budget 0.15 --out design.zip --private-out private.zip"
_RELEASE = "release people.csv --design design.zip --out out.csv --receipt receipt.json"

# What is called, and before it what makes its files.
LINES: dict[str, tuple[str, ...]] = {
    "solve": ("solve problem.npz --budget 0.2 --out mapping.npz",),
    "solve a table": (f"solve people.csv {_COLUMNS} --budget 0.2",),
    "solve within a leakage": ("solve problem.npz --leakage-budget 0.01 --leakage sibson --order 2",),
    "solve with a limit": ("solve problem.npz --budget 0.2 --limit max-lift=0.5 --units bits",),
    "solve an average": ("solve problem.npz --multiplier 0.5",),
    "solve a worst outcome": ("solve problem.npz --budget 0.2 --leakage ldp",),
    "solve several joints": ("solve several.npz --budget 0.2",),
    "solve the impossible": ("solve problem.npz --budget 0.2 --limit ldp=0 --limit maximal-leakage=0",),
    "solve below the least": ("solve shifted.npz --budget 0.2",),
    "solve in one step": ("solve problem.npz --budget 0.2 --max-steps 1 --solver mirror-descent --tol 1e-9",),
    "solve nothing": ("solve absent.npz --budget 0.2",),
    "solve without a form": ("solve problem.npz",),
    "solve with a negative budget": ("solve problem.npz --budget -1",),
    "frontier": ("frontier problem.npz --count 3 --out curve.csv",),
    "frontier of targets": ("frontier problem.npz --budget 0.1 0.2",),
    "frontier of a funnel": ("frontier problem.npz --disclosure 0.3 0.6",),
    "funnel": ("funnel problem.npz --disclosure 0.7",),
    "funnel of two targets": ("funnel problem.npz --disclosure 0.5 0.7",),
    "funnel within a leakage": ("funnel problem.npz --leakage-budget 0.01",),
    "funnel by merging": ("funnel problem.npz --disclosure 0.7 --method greedy",),
    "funnel of a guess": ("funnel problem.npz --disclosure 0.7 --leakage correct-guess",),
    "funnel beyond": ("funnel problem.npz --disclosure 9",),
    "bottleneck": ("funnel problem.npz --disclosure 0.5 --bottleneck",),
    "leakage": ("solve problem.npz --budget 0.2 --out mapping.npz", "leakage mapping.npz --joint problem.npz"),
    "leakage of other shapes": (
        "solve problem.npz --budget 0.2 --out mapping.npz",
        "leakage mapping.npz --joint shifted.npz",
    ),
    "watchdog": (f"watchdog people.csv {_COLUMNS} --target-leakage 0.5",),
    "watchdog of a joint": ("watchdog problem.npz --epsilon 0.5",),
    "joint": (f"joint people.csv {_COLUMNS} --out counted.npz",),
    "joint of an absent column": ("joint people.csv --private wealth --useful age --out counted.npz",),
    "fit": (_DESIGN,),
    "fit within a leakage": (f"fit people.csv {_COLUMNS} --leakage-budget 0.01 --out design.zip",),
    "fit a funnel": (f"fit people.csv {_COLUMNS} --disclosure 1.0 --out design.zip",),
    "fit with two targets": (f"fit people.csv {_COLUMNS} --budget 0.2 --target-leakage 0 --out design.zip",),
    "release": (_DESIGN, _RELEASE),
    "release twice": (_DESIGN, _RELEASE, _RELEASE),
    "release of a damaged design": ("release people.csv --design damaged.zip --out out.csv --receipt receipt.json",),
    "verify a design": (_DESIGN, "verify design.zip --private private.zip"),
    "verify": (
        _DESIGN,
        _RELEASE,
        "verify receipt.json --design design.zip --private private.zip --released out.csv --records people.csv",
    ),
    "verify what is damaged": ("verify damaged.zip",),
    "report": (_DESIGN, "report design.zip --private private.zip --out report.html"),
    "audit": ("solve problem.npz --budget 0.2 --out mapping.npz", "audit mapping.npz --counts counts.npz"),
    "audit of pairs": ("audit --pairs reported.csv --private income --released reported",),
    "audit of a design": (_DESIGN, "audit design.zip --counts people.csv"),
    "excess": ("excess reported.csv --private income --useful age --released reported",),
    "sweep": ("sweep study.toml --out results",),
    "sweep planned": ("sweep study.toml --out results --dry-run",),
    "cache": ("cache",),
    "info": ("info",),
    "reproduce": ("reproduce --list",),
    "plot": ("solve problem.npz --budget 0.2 --out mapping.npz", "plot mapping.npz --out mapping.png"),
    "demo": ("demo --out demo --points 2",),
    "no command": ("unheard-of",),
}
# Commands without the option.
_NO_JSON = ("plot", "report", "reproduce", "unheard-of")


def names() -> list[str]:
    """All of them."""
    return list(LINES)


def _files() -> None:
    """What the lines name, in the folder of the process."""
    joint = np.array([[0.3, 0.15, 0.05], [0.05, 0.15, 0.3]])
    np.savez("problem.npz", joint=joint, distortion=1 - np.eye(3))
    np.savez("shifted.npz", joint=joint[:, :2] / joint[:, :2].sum(), distortion=2 - np.eye(2))
    np.savez("several.npz", joint=np.stack([joint, joint[::-1]]), distortion=1 - np.eye(3))
    np.savez("counts.npz", counts=np.rint(200 * joint).astype(int))
    rows = [f"{'high' if i % 7 < 2 + i % 2 else 'low'},{20 + 10 * (i % 4)},{'abc'[i % 3]}" for i in range(600)]
    Path("people.csv").write_text("income,age,job\n" + "\n".join(rows) + "\n")
    reports = [f"{i % 2},{i % 3 + i % 2},{i % 3 + i % 2 if i % 5 else i % 4}" for i in range(600)]
    Path("reported.csv").write_text("income,age,reported\n" + "\n".join(reports) + "\n")
    Path("damaged.zip").write_bytes(b"PK\x03\x04 no archive")
    Path("study.toml").write_text('name = "two"\n[[grid]]\njoint = "problem.npz"\nbudget_share = [0.2, 0.4]\n')


def shape_of(record: Any) -> Any:
    """The keys of a record with the types of their values; of a list the shape of its first entry."""
    if isinstance(record, dict):
        return {key: shape_of(one) for key, one in record.items()}
    if isinstance(record, list):
        return [shape_of(record[0])] if record else []
    if isinstance(record, bool) or record is None:
        return type(record).__name__
    return "number" if isinstance(record, int | float) else "text"


@cache
def _after(lines: tuple[str, ...]) -> tuple[Path, list[int]]:
    """The folder as these lines leave it, and their exit codes; several names begin with the same ones."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    if not lines:
        with contextlib.chdir(folder):
            _files()
        return folder, []
    before, codes = _after(lines[:-1])
    shutil.copytree(before, folder, dirs_exist_ok=True)
    with contextlib.chdir(folder):
        return folder, [*codes, run(shlex.split(lines[-1])).exit_code]


def result(name: str) -> dict[str, Any]:
    """The exit codes of the lines, and the shape of the last one's record, None where it has none."""
    last = LINES[name][-1]
    writes = last if shlex.split(last)[0] not in _NO_JSON else None
    folder, codes = _after(tuple(f"{line} --json record.json" if line == writes else line for line in LINES[name]))
    record = folder / "record.json"
    return {"codes": codes, "record": shape_of(json.loads(record.read_text())) if record.exists() else None}


def frozen() -> dict[str, dict[str, Any]]:
    """Every name and what it gave."""
    return json.loads(FILE.read_text())


def missing(before: Any, now: Any, path: str = "") -> list[str]:
    """The keys that are gone and the values whose type has changed; keys may be added."""
    if isinstance(before, dict) and isinstance(now, dict):
        gone = [f"{path}/{key} is gone" for key in before if key not in now]
        return gone + [one for key in before if key in now for one in missing(before[key], now[key], f"{path}/{key}")]
    if isinstance(before, list) and isinstance(now, list):
        return missing(before[0], now[0], f"{path}[]") if before and now else []
    return [] if before == now else [f"{path} is {now}, was {before}"]
