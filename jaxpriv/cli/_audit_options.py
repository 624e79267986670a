"""The options of `jaxpriv audit`, and which of them go together."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxpriv.cli._options import changed_of, given_of
from jaxpriv.cli._output import only_one, refuse
from jaxpriv.cli._tables import ColumnOptions, is_table
from jaxpriv.errors import InputError

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class BoundOptions:
    """What is bounded of a sample, and how."""

    measures: list[str] | None = None
    order: list[float] | None = None
    bootstrap: int = 200
    confidence: float = 0.95
    seed: int = 0

    @property
    def arguments(self) -> dict[str, Any]:
        """Those of an audit."""
        given = given_of(self)
        return {"orders": given.pop("order", []), **given}


@dataclass(frozen=True)
class SampleOptions:
    """The sample: one of them."""

    counts: Path | None = None
    joint: Path | None = None
    pairs: Path | None = None


@dataclass(frozen=True)
class PairsOptions:
    """What is asked of the records of a black box."""

    subsets: int | None = None
    optimum: float | None = None
    show_values: bool = False
    permutations: int = 9999


@dataclass(frozen=True)
class KnownOptions:
    """What goes with a mechanism that is known: what it released, how good it is, and further draws."""

    releases: Path | None = None
    row_order: Path | None = None
    held_out: bool = False
    solution: Path | None = None
    certificate: Path | None = None
    again: list[Path] | None = None
    objective: str | None = None


def check(
    mechanism: Path | None,
    sample: SampleOptions,
    columns: ColumnOptions,
    released: list[str] | None,
    asked: PairsOptions,
    known: KnownOptions,
    bounds: BoundOptions,
) -> tuple[str, Path]:
    """The name and the file of the sample; an `InputError` names an option that does not go with the others."""
    name = only_one(vars(sample))
    path: Path = getattr(sample, name)
    if (mechanism is None) != (sample.pairs is not None):
        raise InputError("--pairs goes without MECH.npz, --counts and --joint need it")
    estimated = changed_of(bounds, "bootstrap") if bounds.bootstrap else {}  # 0: none, as where there are none
    if asked.subsets is None:
        refuse("is about --subsets", optimum=asked.optimum)
    else:
        refuse("goes without --subsets", **estimated, **changed_of(asked, "permutations", "show_values"))
    if mechanism is None:
        book = {"useful": columns.useful, "shared": columns.shared, "codebook": columns.codebook}
        refuse("is about a mapping, not about --pairs", **book, **vars(known))
        return name, path
    refuse("is about --pairs", **changed_of(asked, "show_values", "permutations"))
    refuse("is about a table in --pairs", subsets=asked.subsets)
    if not is_table(path):
        refuse("is about a table in --counts or --joint", **vars(columns))
    if known.releases is None or not is_table(known.releases):
        refuse("is about --pairs, or about a table in --releases", released=released)
        refuse("is about a table in --releases", row_order=known.row_order)
    elif not is_table(path):
        raise InputError("a table in --releases goes with a table of its records, row for row, in --counts or --joint")
    if known.releases is not None or known.solution is not None or known.certificate is not None:
        refuse("is about a mapping, and goes without --releases, --solution and --certificate", again=known.again)
    if known.solution is None:
        refuse("is about --solution", objective=known.objective)
    design = is_design(mechanism)
    if known.solution is not None or not design:
        refuse("is about a design, DESIGN.zip, and goes without --solution", certificate=known.certificate)
    if name == "joint":
        refuse("is about --counts", held_out=known.held_out, **estimated, **changed_of(bounds, "confidence", "seed"))
    if design and (name == "joint" or not is_table(path)):
        raise InputError("a design is audited on a table of records in --counts")
    if design and (released or [option for option in columns.given if option != "--read"]):
        raise InputError("a design has its own columns and classes: leave out --codebook and the names of columns")
    return name, path


def arrays_of(sample: str, file: Path) -> "dict[str, np.ndarray]":
    """The arrays of the `sample`, counts or a joint; counts of a file whose joint is another one are refused."""
    import numpy as np

    from jaxpriv._runtime.files import load_npz_safely

    data = load_npz_safely(file, [sample], ["possible", "joint"] if sample == "counts" else ())
    if sample == "joint":
        return data
    counts, joint = data["counts"], data.pop("joint", None)
    stated = joint is not None and joint.shape == counts.shape and counts.sum() > 0
    if stated and not np.allclose(joint, counts / counts.sum(), rtol=1e-5, atol=0):  # it may be in float32
        raise InputError(f"--counts: the joint of {file} is not that of its counts: of weighted records give --joint")
    return data


def is_design(path: Path) -> bool:
    """Whether a file is read as a design."""
    return path.suffix.lower() == ".zip"
