"""`jaxpriv cache`: the compiled programs that are on disk."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from jaxpriv.cli import _output
from jaxpriv.cli._output import JsonRecord
from jaxpriv.cli._work import working
from jaxpriv.errors import InputError, ResourceError

if TYPE_CHECKING:
    from jaxpriv._runtime.executables import Contents


# Symbols of a shape to compile for: one table of more does not fit.
_MOST_NUMBERS = 2**24


def cache(
    clear: bool = False,
    warm: list[str] | None = None,
    json: Path | None = None,
) -> None:
    """Print where compiled programs are kept on disk and how many; remove them, or make some ahead of time.

    A process that needs one of them loads it in a tenth of a second. Problems of up to about 64 symbols, and
    those that a kernel solves, are not compiled at first. The environment variable JAXPRIV_CACHE=off switches this off;
    an absolute path there, of a new or an empty folder, is used in place of the user's cache folder.
    """
    shapes = [_shape(text) for text in warm or ()]
    record = working("Compiling" if shapes else "Starting JAX", lambda report: _record(clear, shapes, report))
    _output.deliver(record, json, _text(record))


def _shape(text: str) -> tuple[int, int, int]:
    parts = text.split("x")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and int(part) > 0 for part in parts):
        raise InputError(f"--warm {text!r} is not SxXxY, as in 64x100x100")
    private, inputs, outputs = map(int, parts)
    if private * inputs * outputs > _MOST_NUMBERS:
        raise InputError(f"--warm {text!r}: more than {_MOST_NUMBERS} numbers")
    return private, inputs, outputs


def _record(clear: bool, shapes: list[tuple[int, int, int]], report: Callable[[int, int], None]) -> dict[str, object]:
    from jaxpriv._runtime import executables
    from jaxpriv.solving.precompile import precompile

    try:
        folder = str(executables.folder())
    except executables.UnusableError as error:
        if clear or shapes:
            raise ResourceError(f"no executables are kept: {error}") from error
        return {"folder": None, "executables": 0, "bytes": 0, "most_bytes": executables.MOST_BYTES, "note": str(error)}
    removed: dict[str, object] | None = None
    try:
        if clear:
            removed = contents_of(executables.clear) if os.path.lexists(folder) else {"executables": 0}
            if "note" in removed:
                raise ResourceError(f"{folder}: nothing was removed: {removed['note']}")
        if shapes:
            executables.prepare()
    except executables.UnusableError as error:
        raise ResourceError(f"{folder}: nothing was compiled: {error}") from error
    for done, shape in enumerate(shapes):
        report(done, len(shapes))
        precompile(*shape)
    contents = contents_of(executables.contents)
    return {
        "folder": folder,
        **contents,
        "most_bytes": executables.MOST_BYTES,
        **({} if removed is None else {"removed": removed["executables"]}),
    }


def contents_of(of: "Callable[[], Contents]") -> dict[str, object]:
    from jaxpriv._runtime.executables import UnusableError

    try:
        content = of()
    except UnusableError as error:
        return {"executables": 0, "bytes": 0, "note": str(error)}
    return {"executables": content.executables, "bytes": content.size}


def _text(record: JsonRecord) -> str:
    lines = {
        "folder": record["folder"] or "none",
        "executables": str(record["executables"]),
        "size": f"{record['bytes'] / 2**20:.1f} of at most {record['most_bytes'] / 2**20:.0f} MiB",
    }
    if "removed" in record:
        lines["removed"] = str(record["removed"])
    if "note" in record:
        lines["note"] = record["note"]
    return _output.aligned(lines)
