"""Options about the columns of a table of records, the same in every command that reads one."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxpriv._runtime.near import near
from jaxpriv.cli._options import FormOptions
from jaxpriv.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from jaxpriv.statistics.tables import CountedTable, Rule, TableFile
    from jaxpriv.statistics.tables.rules import Prices


# What --bins takes.
_BINS = "COL=quantiles:N, COL=edges:A,B,..., COL=categories[:N] or COL=first:K[,N]"
SYMBOLS = ("attributes", "classes")


def is_table(path: Path) -> bool:
    """Whether a file is read as a table of records."""
    from jaxpriv.statistics.tables import TableFile

    return TableFile(path).kind is not None


def table_file(path: Path, settings: Sequence[str] | None) -> "TableFile":
    """The file of a table, read as --read states."""
    from jaxpriv.statistics.tables import TableFile
    from jaxpriv.statistics.tables.readers import NO_TABLE
    from jaxpriv.verifier.csv_text import reading

    given = reading(settings or ())
    if not is_table(path):
        raise InputError(f"{path}: {NO_TABLE}")
    try:
        return TableFile(path, **given)
    except InputError as error:
        raise InputError(f"--read: {error}") from None


@dataclass(frozen=True)
class RecordOptions:
    """Options about the columns of a table of records, and how its file is read."""

    private: list[str] | None = None
    useful: list[str] | None = None
    bins: list[str] | None = None
    other: list[str] | None = None
    missing: list[str] | None = None
    read: list[str] | None = None

    @property
    def given(self) -> list[str]:
        """The options that were given."""
        return [f"--{name.replace('_', '-')}" for name, value in vars(self).items() if value]

    def rules(self, columns: Sequence[str]) -> "dict[str, Rule]":
        """The rule of each column that --bins, --other or --missing name; they must be among `columns`."""
        from jaxpriv.statistics.tables import Categories, Quantiles

        rules: dict[str, Rule] = {}
        for name, text in _pairs(self.bins, "--bins", _BINS).items():
            rules[name] = _rule(name, text)
            _known("--bins", name, columns)
        for field in ("other", "missing"):
            for name, label in _pairs(getattr(self, field), f"--{field}", "COL=LABEL").items():
                _known(f"--{field}", name, columns)
                rule = rules.get(name, Categories())
                if field == "other" and isinstance(rule, Quantiles):
                    raise InputError(f"--other, column {name!r}: quantiles hold every number")
                try:
                    rules[name] = replace(rule, **{field: label})
                except InputError as error:
                    raise InputError(f"--{field}, column {name!r}: {error}") from None
        return rules


@dataclass(frozen=True)
class ColumnOptions(RecordOptions):
    """The same, and columns that are stored or on both sides."""

    shared: list[str] | None = None
    codebook: Path | None = None
    # Options of some commands, below.
    sparse = False
    distortion = weight = survey_weight = None

    def of_records(self, file: "TableFile") -> dict[str, Any]:
        """Columns and rules as `count_table` and `fit` take them; an `InputError` names what is missing.

        The header of a CSV is read too: a mistake costs no import of JAX.
        """
        from jaxpriv.statistics.tables import Codebook
        from jaxpriv.statistics.tables.readers import check_header
        from jaxpriv.statistics.tables.rules import need_useful

        about = ("--private", "--useful", "--shared", "--bins", "--other", "--missing")
        refused = [name for name in self.given if name in about]
        if self.codebook is not None:
            if refused:
                raise InputError(f"--codebook has its own columns and classes: leave out {', '.join(refused)}")
            book = Codebook.load(self.codebook)
            check_header(file, book.columns)
            return {"codebook": book}
        if not self.private or not self.useful:
            raise InputError(
                f"{file.path} is a table: name its columns with --private and --useful, or give a --codebook"
            )
        rules = self.rules([*self.private, *self.useful])
        need_useful(_pairs(self.distortion, "--distortion"), _pairs(self.weight, "--weight"), self.useful)
        check_header(file, [*self.private, *self.useful])
        return {"private": self.private, "useful": self.useful, "rules": rules, "shared": self.shared or ()}

    def check(self, path: Path) -> None:
        """The errors of `of_records`, where the path is a table."""
        if is_table(path):
            self.of_records(table_file(path, self.read))

    def count(self, path: Path, *, sparse: bool) -> "CountedTable":
        """The joint of a table of records."""
        file = table_file(path, self.read)
        given = self.of_records(file)  # without JAX, which counting imports
        from jaxpriv.statistics.tables import count_table

        return count_table(file, **given, sparse=sparse, weights=self.survey_weight)

    def costs(self) -> "dict[str, Prices]":
        """`kinds` and `weights` of `column_distortion`."""
        kinds, weights = _pairs(self.distortion, "--distortion"), _pairs(self.weight, "--weight")
        return {
            "kinds": {column: _prices(kind, column) for column, kind in kinds.items()},
            "weights": {column: _weight(text, column) for column, text in weights.items()},
        }


@dataclass(frozen=True)
class CountOptions(ColumnOptions):
    """Options about a table whose joint is that of a problem."""

    sparse: bool = False


@dataclass(frozen=True)
class CostOptions(CountOptions):
    """The same, and the distortion between its useful symbols."""

    distortion: list[str] | None = None
    weight: list[str] | None = None


def problem_of(
    path: Path, columns: ColumnOptions, required: Collection[str], optional: Collection[str] = ()
) -> "tuple[dict[str, np.ndarray], CountedTable | None]":
    """The arrays of PROBLEM.npz, or those that a table of records makes; and that table.

    Of a table: `joint` (S, X), `counts` (S, X), `attributes` (X, b) with the codes of each useful symbol, `classes`
    (the fingerprint of the codebook), and `distortion` (X, X) if it is required. A file may have attributes and
    classes too.
    """
    if not is_table(path):
        from jaxpriv._runtime.files import load_npz_safely

        if columns.given:
            raise InputError(f"{columns.given[0]} is for tables; {path} is read as an .npz of arrays")
        return load_npz_safely(path, required, [*optional, *SYMBOLS]), None
    return arrays_of_table(path, columns, costs="distortion" in required)


def arrays_of_table(path: Path, columns: ColumnOptions, *, costs: bool) -> "tuple[dict[str, np.ndarray], CountedTable]":
    """The same of a table of records."""
    if not costs and (columns.distortion or columns.weight):
        raise InputError("--distortion and --weight are about problems with a distortion")
    table = columns.count(path, sparse=columns.sparse)
    data, book = table.dataset, table.codebook
    arrays = {"joint": data.joint, "counts": data.counts, "attributes": data.useful_attributes}
    arrays["classes"] = book.fingerprint
    if costs:
        from jaxpriv.statistics.tables import column_distortion

        arrays["distortion"] = column_distortion(book, data.useful_attributes, **columns.costs())
    return arrays, table


def symbols_of(arrays: "Mapping[str, np.ndarray]") -> "dict[str, np.ndarray]":
    """What a mapping keeps of its problem, so that it can be audited on a table: which classes each x is."""
    return {name: arrays[name] for name in SYMBOLS if name in arrays}


def book_file(path: Path | None, table: "CountedTable | None") -> dict[Path, bytes]:
    """The file that --codebook-out names; an `InputError` if there was no table."""
    if path is None:
        return {}
    if table is None:
        raise InputError("--codebook-out: codebooks are for tables; an .npz was given")
    return {path: table.codebook.to_json().encode()}


def _known(option: str, name: str, columns: Sequence[str]) -> None:
    if name not in columns:
        raise InputError(f"{option} is about column {name!r}, which no other option names{near(name, columns)}")


def counted_like(path: Path, columns: ColumnOptions, mapping: "Mapping[str, np.ndarray]") -> "CountedTable":
    """The joint of a table, with the columns and classes of a mapping, which `symbols_of` stored with it."""
    import numpy as np

    if not mapping.keys() >= {*SYMBOLS}:
        raise InputError(
            "MECH.npz does not say which classes of a table its symbols are, as a mapping does that was made from one "
            f"(`attributes`): in place of {path} give an .npz of arrays, X in the order of its rows"
        )
    table = columns.count(path, sparse=True)
    if not np.array_equal(mapping["classes"], table.codebook.fingerprint):
        named = "--useful and --bins name" if columns.codebook is None else f"--codebook: {columns.codebook} has"
        raise InputError(f"{named} other useful columns or classes than MECH.npz was made with")
    return table


def _rule(name: str, text: str) -> "Rule":
    """quantiles:N, edges:A,B,..., categories, categories:N, first:K or first:K,N."""
    from jaxpriv.statistics.tables import Categories, Edges, Quantiles
    from jaxpriv.verifier.records import edge_of

    option = f"--bins {f'{name}={text}'!r}"
    kind, _, parameter = text.partition(":")
    try:
        if kind == "categories":
            return Categories(least=int(parameter)) if parameter else Categories()
        if kind == "first":
            first, comma, least = parameter.partition(",")
            return Categories(first=int(first), least=int(least) if comma else None)
        if kind == "quantiles":
            return Quantiles(int(parameter))
        if kind == "edges":
            return Edges([edge_of(edge) for edge in parameter.split(",")])
        raise ValueError
    except InputError as error:
        raise InputError(f"{option}: {error}") from error
    except ValueError:
        raise InputError(
            f"{option} is not {_BINS}{near(kind, ('quantiles', 'edges', 'categories', 'first'))}"
        ) from None


def _pairs(texts: Sequence[str] | None, option: str, form: str = "COL=VALUE") -> dict[str, str]:
    """The column and the value of every text `COL=VALUE`; a name may hold "="."""
    by_name: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.rpartition("=")
        if not (equals and name and value):
            raise InputError(f"{option} {text!r} is not {form}")
        if name in by_name:
            raise InputError(f"{option} gives column {name!r} twice")
        by_name[name] = value
    return by_name


def _prices(kind: str, column: str) -> "str | np.ndarray":
    """The kind, or the table of a file."""
    if not kind.lower().endswith(".npz"):
        return kind
    from jaxpriv._runtime.files import load_npz_safely

    try:
        return load_npz_safely(kind, ["distortion"])["distortion"]
    except InputError as error:
        raise InputError(f"--distortion, column {column!r}: {error}") from None


def _weight(text: str, column: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--weight, column {column!r}: {text!r} is not a number") from None


def records_and_measure(table: Path, columns: CostOptions, measure: FormOptions) -> "tuple[TableFile, dict[str, Any]]":
    """The table, and the arguments of `fit` and `advise` about its columns and the measure."""
    measure.option.check_stated()
    costs, source = columns.costs(), table_file(table, columns.read)
    return source, {
        **columns.of_records(source),
        **vars(measure),
        "distortion": costs["kinds"] or None,
        "weights": costs["weights"] or None,
        "sparse": columns.sparse,
    }
