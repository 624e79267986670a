"""Results on their way out: strict JSON, numbers rounded against us, files that appear whole or not at all."""

import contextlib
import io
import json
import math
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import jaxpriv as jp
from jaxpriv._runtime.files import need_writable, same_file, write_together
from jaxpriv._runtime.module.shown import aligned as aligned
from jaxpriv.errors import InputError, IntegrityError, JaxprivError, ResourceError
from jaxpriv.verifier.__main__ import check_replaced, emit as emit
from jaxpriv.verifier.claims import measure_label as measure_label
from jaxpriv.verifier.logarithms import lower as lower, percent as percent, upper as upper
from jaxpriv.verifier.records import CODEBOOK

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure
    from rich.table import Table

# A JSON object as a command writes it: numbers, texts, and lists and objects of them (`strict` makes it strict JSON).
JsonRecord: TypeAlias = dict[str, Any]


class Units(StrEnum):
    """Units of logarithms in what people read; JSON is always in nats."""

    nats = "nats"
    bits = "bits"

    @property
    def per_nat(self) -> float:
        return 1.0 if self is Units.nats else 1.0 / math.log(2.0)

    def most(self, nats: float) -> str:
        """At least so many nats, in these units."""
        return f"{upper(nats * self.per_nat)} {self}"

    def least(self, nats: float) -> str:
        """At most so many nats, in these units."""
        return f"{lower(nats * self.per_nat)} {self}"

    def of(self, unit: str) -> tuple[float, str]:
        """Factor and name of numbers in `unit` as they are printed: nats alone are converted."""
        return (self.per_nat, str(self)) if unit == "nats" else (1.0, unit)


@dataclass(frozen=True)
class MappingOptions:
    """Where the mapping that a command designs goes, and what is printed of it."""

    units: Units = Units.nats
    out: Path | None = None
    codebook_out: Path | None = None
    json: Path | None = None

    def check(self) -> None:
        """Refuse a name that ends like no file of mappings."""
        need_ending("--out", self.out, ".npz", ".csv")

    def files(self, made: "Callable[[], np.ndarray]", symbols: "Mapping[str, np.ndarray]") -> dict[Path, bytes]:
        """The mapping (X, Y) that is `made` as the file --out: .csv has a row for each x, .npz also the `symbols`."""
        if self.out is None:
            return {}
        mechanism = made()
        if self.out.suffix.lower() == ".npz":
            return {self.out: npz_bytes(mechanism=mechanism, **symbols)}
        lines = [["x", *(f"y={y}" for y in range(mechanism.shape[1]))]]
        lines += [[str(x), *(repr(float(share)) for share in row)] for x, row in enumerate(mechanism)]
        return {self.out: "".join(",".join(line) + "\n" for line in lines).encode()}


def is_stdout(path: Path | None) -> bool:
    """Whether `--json -` was given: then nothing else goes to stdout."""
    return path is not None and str(path) == "-"


def check_outputs(outputs: Mapping[str, Path], inputs: Mapping[str, Path]) -> None:
    """Refuse, before any work, inputs that are not there, and outputs that could not be written or would destroy one.

    Keys are the names of the options and arguments. An output that exists is replaced; an output
    that is an input (by any name or link), or the same file as another output, is refused. JSON replaces results
    in JSON alone.
    """
    for path in inputs.values():
        if not path.exists():
            raise InputError(f"{path} does not exist")
    seen = dict(inputs)
    for name, path in outputs.items():
        if is_stdout(path):
            continue
        for other, taken in seen.items():
            if same_file(path, taken):
                raise InputError(f"{name} is the same file as {other}; name another one")
        seen[name] = path
        if path.exists() and not path.is_file():
            raise InputError(f"{name}: {path} exists and is not a regular file; name another one")
        if name in ("--json", "--codebook-out"):
            check_replaced(name, path, None if name == "--json" else CODEBOOK)
        need_writable(path, name)


def keep_used(out: Path, private_out: Path | None) -> None:
    """Refuse to replace a file of another kind that `fit` or `release` wrote, and a design that released records: its
    receipts and its ledger are of no use without it.
    """
    from jaxpriv.release.grouped import load_mechanism
    from jaxpriv.release.releasing import ledger_names
    from jaxpriv.verifier.archive import read_file, unpack
    from jaxpriv.verifier.records import FILES

    replaced = {("--out", out): ("design.json", "groups.json"), ("--private-out", private_out): ("audit.json",)}
    for (option, path), wanted in replaced.items():
        if path is not None and path.exists():
            with contextlib.suppress(IntegrityError):  # another file, which the checks of all outputs judge
                kind = next((name for name in unpack(read_file(path), str(path)) if name in FILES), wanted[0])
                if kind not in wanted:
                    raise InputError(f"{option}: {path} is {FILES[kind]}, which would be lost: name another file")
    try:
        mechanism = load_mechanism(out)
    except JaxprivError:
        return
    folders = [Path(os.path.realpath(path)).parent for path in (private_out, out) if path is not None]
    for ledger in ledger_names(mechanism, folders):
        if ledger.exists():
            raise InputError(
                f"--out: records were released by the design in {out.name} (their ledger is {ledger.name}); a new "
                "design in its place would leave their receipts without one: name another file"
            )


def need_ending(option: str, path: Path | None, *endings: str) -> None:
    """Refuse a file whose name ends like one of another kind."""
    if path is not None and path.suffix.lower() not in endings:
        raise InputError(f"{option} must end in {' or '.join(endings)}, not {path.name}")


def only_one(options: Mapping[str, object]) -> str:
    """The name of the only option that is given: a number, or a list that is not empty."""
    given = [name for name, value in options.items() if value is not None and value != []]
    if len(given) != 1:
        *names, last = (f"--{name.replace('_', '-')}" for name in options)
        count = "several" if given else "none"
        raise InputError(f"give exactly one of {', '.join(names)} and {last} ({count} given)")
    return given[0]


def refuse(reason: str, **options: object) -> None:
    """Refuse the first of these options that is given: `reason` stands after its name."""
    for name, value in options.items():
        if value is not None and value is not False and value != []:  # 0 is given, and equals False
            raise InputError(f"--{name.replace('_', '-')} {reason}")


def make_folder(folder: Path) -> None:
    """The folder that --out names, with its parents."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out: {folder} exists and is not a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ResourceError(f"--out: cannot make the folder {folder}: {error.strerror}") from error


def strict(value: object) -> object:
    """`value` in terms of strict JSON: a dataclass by its fields, infinities as "inf" and "-inf", NaN as null."""
    if is_dataclass(value):
        value = record_of(value)
    if isinstance(value, Mapping):
        return {str(key): strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict(item) for item in value]
    import numpy as np

    if isinstance(value, (np.ndarray, np.generic)):
        return strict(value.tolist())
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


def record_of(result: Any, *names: str) -> JsonRecord:  # noqa: ANN401 (a result of any kind)
    """The attributes of a result by their names: all fields of a dataclass where none is named."""
    return {name: getattr(result, name) for name in names or [attribute.name for attribute in fields(result)]}


def json_text(record: Mapping[str, object]) -> str:
    """One JSON object, indented, with a final newline."""
    return json.dumps(strict(record), indent=2, allow_nan=False) + "\n"


def npz_bytes(**arrays: "np.ndarray") -> bytes:
    """An .npz file; equal arrays give equal bytes."""
    import numpy as np

    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    return stream.getvalue()


def deliver(
    record: Mapping[str, object],
    json: Path | None,
    text: str,
    files: Mapping[Path, bytes] | None = None,
    *,
    private: bool = False,
    private_files: Collection[Path] = (),
) -> None:
    """Stage the files and the JSON, write stdout (`text`, or the JSON if that is where it goes), name the files.

    If one of the steps fails, what stood under the names before stands there again. With `private` a new JSON
    file is for its owner only, and so are new files among `private_files`.
    """
    contents: dict[Any, bytes] = dict(files or {})
    if json is not None and not is_stdout(json):
        contents[json] = json_text(record).encode()
    write_together(
        contents,
        private=[*private_files, *([json] if private and json is not None else [])],
        announce=lambda: emit(json_text(record) if is_stdout(json) else text),
    )


def table_of(
    rows: Iterable[Sequence[str]],
    numbers: Sequence[str],
    *,
    before: Sequence[str] = (),
    after: Sequence[str] = ("status",),
    title: str | None = None,
) -> "Table":
    """A table of texts: columns of numbers, on the right, between columns of words."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for heading in before:
        table.add_column(heading, no_wrap=True)
    for heading in numbers:
        table.add_column(heading, justify="right")
    for heading in after:
        table.add_column(heading)
    for row in rows:
        table.add_row(*row)
    return table


# Columns of a table at most: more than any has.
_WIDEST = 400


def rendered(*parts: object) -> str:
    """Rich tables and text as they should appear on this stdout; tables in full width, no number is cut."""
    from rich.console import Console

    terminal, stream = sys.stdout.isatty(), io.StringIO()  # only `emit` writes to stdout, and says so where it fails
    console = Console(file=stream, force_terminal=terminal, highlight=False, width=None if terminal else 100)
    wide = Console(file=stream, force_terminal=terminal, highlight=False, width=_WIDEST)
    for part in parts:
        (console if isinstance(part, str) else wide).print(part)
    return stream.getvalue()


def stopped(reason: int) -> str:
    """How an error begins where a solve ended before its goal; empty where it did not."""
    from jaxpriv._runtime.clock import Stop

    return {Stop.NONE: "", Stop.TIME_LIMIT: "time limit: ", Stop.INTERRUPTED: "interrupted: "}[Stop(int(reason))]


def upper_fixed(value: float, places: int = 6) -> str:
    """At least `value`, to `places` decimals: for columns."""
    return str(Decimal(float(value)).quantize(Decimal(1).scaleb(-places), ROUND_CEILING))


def lower_fixed(value: float, places: int = 6) -> str:
    """At most `value`, to `places` decimals."""
    return str(Decimal(float(value)).quantize(Decimal(1).scaleb(-places), ROUND_FLOOR))


def need_picture(option: str, path: Path | None) -> None:
    """Refuse, before any work, a picture of no known kind, or without matplotlib."""
    if path is not None:
        need_ending(option, path, ".png", ".pdf", ".svg")
        jp.plotting.require_matplotlib()


def picture(path: Path | None, draw: "Callable[[], Figure]") -> dict[Path, bytes]:
    """The file of what is drawn, of the kind that its name asks for; none without a name."""
    return {} if path is None else {path: jp.plotting.image_bytes(draw(), path.suffix.lower().removeprefix("."))}
