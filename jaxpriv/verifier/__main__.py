"""`jaxpriv verify`, and `python -m jaxpriv.verifier`: the command line of the verifier. Standard library only."""

import argparse
import contextlib
import json
import os
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from jaxpriv.errors import (
    EntropyError,
    InfeasibleError,
    InputError,
    IntegrityError,
    NotCertifiedError,
    ResourceError,
)
from jaxpriv.verifier import verify
from jaxpriv.verifier.csv_text import READ

# The exit codes of `docs/reference/command-line.md`; 2 is also that of usage errors.
_CODES: tuple[tuple[type[Exception], int], ...] = (
    (InputError, 2),
    (InfeasibleError, 3),
    (NotCertifiedError, 4),
    (IntegrityError, 5),
    (ResourceError, 6),
    (EntropyError, 6),
    (MemoryError, 6),
    (OSError, 6),
)
# Everything that was checked is as stated, and something that is claimed was not checked.
_NOT_CHECKED = 7
# A defect of jaxpriv itself.
_UNEXPECTED = 1
DEBUG = "--debug"

# The last lines of the help text: a design that was received, then a released file with its receipt.
EXAMPLE = ("jaxpriv verify design.zip", "jaxpriv verify receipt.json --design design.zip --released released.csv")


DESCRIPTION = """Check a design, its audit, a receipt and a released file, with Python's standard library alone.

Every stated number is computed again, exactly or rounded outwards. Exit codes: 0 all is as stated, 2 bad input, 4 the
design exceeds its target, 5 something is not as stated, 6 a file cannot be read, 7 what was checked is as stated, and a
claim that the first line names was not checked."""

# The argument and the options, each with what stands for its value and what it means.
FILE = ("DESIGN.zip|RECEIPT.json", "What is checked: a design, or a receipt (with --design).")
FILES = {
    "private": ("AUDIT.zip", "Counts and certificate of the design."),
    "design": ("DESIGN.zip", "The design of a receipt."),
    "receipt": ("RECEIPT.json", "The receipt of a released file."),
    "after": ("DESIGN.zip", "The earlier design of a receipt that states what both releases disclose together."),
    "released": ("FILE", "A released file."),
    "records": (
        "TABLE.csv",
        "What it was released from: tests the pairs of both, or without --order and --id the totals of rows in a "
        "random order.",
    ),
    "order": ("ORDER.zip", "Which record each released row is of, as release wrote it."),
}
REPEATED = {
    "id": (
        "COL",
        "A column that identifies a record, as in release; may be repeated. Kept columns pair released rows with "
        "records where there is no --order, and records with one identity, which share a draw, are tested once.",
    ),
    "read": ("SETTING", f"How --records is read: {READ}; may be repeated."),
}
JSON = ("PATH|-", "Write the result as JSON; - is stdout.")


class _Parser(argparse.ArgumentParser):
    """Mistakes of the line are one line, as in the other commands."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"jaxpriv: error: {message}\n")


def run(arguments: Sequence[str], name: str = "jaxpriv verify") -> int:
    """Check what the arguments name; the exit code."""
    parser = _Parser(
        prog=name,
        description=DESCRIPTION,
        epilog="Example:\n\n" + "\n".join(f"  {line}" for line in EXAMPLE),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("file", metavar=FILE[0], type=Path, help=FILE[1])
    for name, (metavar, text) in {**FILES, "json": JSON}.items():
        parser.add_argument(f"--{name}", metavar=metavar, type=str if name == "json" else Path, help=text)
    for name, (metavar, text) in REPEATED.items():
        parser.add_argument(f"--{name}", metavar=metavar, action="append", default=[], help=text)
    parser.add_argument(DEBUG, action="store_true", help="Show the traceback of an error.")
    try:
        given = parser.parse_args(list(arguments))
    except SystemExit as end:  # --help, or a usage error, which argparse has printed
        return end.code if isinstance(end.code, int) else 2
    try:
        if given.json not in (None, "-"):
            check_replaced("--json", Path(given.json))
        files = {name: getattr(given, name) for name in FILES}
        verification = verify(given.file, **files, read=given.read, identity=given.id)
        text = json.dumps(verification.record, indent=2) + "\n"
        emit(text if given.json == "-" else verification.text)
        if given.json not in (None, "-"):
            _write(Path(given.json), text, [path for path in vars(given).values() if isinstance(path, Path)])
    except Exception as error:
        if given.debug:
            traceback.print_exc()
        code, message = explain(error)
        complain(in_options(message, {**{name: f"--{name}" for name in (*FILES, "read")}, "identity": "--id"}))
        return code
    return _NOT_CHECKED if verification.not_checked else 0


def explain(error: Exception) -> tuple[int, str]:
    """The exit code of an error, and what is printed of it."""
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code, str(error) or type(error).__name__
    # The text of a foreign exception may hold data values: name its type only.
    return _UNEXPECTED, f"internal error ({type(error).__name__}); {DEBUG} shows where"


def in_options(message: str, options: Mapping[str, str]) -> str:
    """A message about arguments as one about options: names that are no plain words, the first word, `name` (or
    `name[0]`) in backquotes, and NAME=VALUE where the value is that of an option.
    """
    for argument, option in options.items():
        message = re.sub(rf"(?<!['\w-]){argument}=(?:'([^']*)'|(?=[\d.]))", rf"{option} \1", message)
        message = re.sub(rf"`{argument}(\[\d+\])?`", rf"{option}\1", message)
        start = r"(?<!['\w-])" if "_" in argument else "^"
        message = re.sub(rf"{start}{argument}(?!['\w=-]|[./]\w)", option, message)
    return message


def complain(message: str) -> None:
    """An error in one line on standard error."""
    print(f"jaxpriv: error: {' '.join(message.split())}", file=sys.stderr, flush=True)


def check_replaced(option: str, path: Path, kind: str | None = None) -> None:
    """Refuse to replace by JSON what is none, or a file of another format than `kind`: a design, a table or a receipt
    whose name is typed in its place would be lost.
    """
    if not path.is_file() or not path.stat().st_size:
        return
    try:
        record = json.loads(path.read_bytes())
    except ValueError:
        record = None
    if not isinstance(record, dict) or record.get("format", kind) != kind:
        raise InputError(f"{option}: {path} exists and is not what {option} writes; name another file")


def _write(path: Path, text: str, inputs: list[Path]) -> None:
    """A new file, whole or not at all; it replaces no input."""
    if any(path.resolve() == other.resolve() for other in inputs):
        raise InputError("--json is the same file as an input; name another one")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("x") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ResourceError(f"cannot write {path}: {error.strerror}") from error


# Lines of tables, where the encoding of standard output has none.
_LINES = str.maketrans({"\u2500": "-", "\u2501": "-", "\u2026": "..."})


def emit(text: str) -> None:
    """Write to standard output now; what its encoding does not have is written as `\\u2264`, lines of tables as `-`.

    Raises:
        ResourceError: the reader has closed it, or the disk behind it is full.
    """
    encoding = sys.stdout.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(_LINES).encode(encoding, "backslashreplace").decode(encoding)
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # What is left in the buffer would fail again, with a traceback, when Python exits.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise ResourceError(f"cannot write to standard output: {error.strerror}") from error


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], "python -m jaxpriv.verifier"))
