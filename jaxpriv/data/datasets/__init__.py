"""The data of the papers' experiments: the census table, embedded; raw files, fetched or local and checked.

    census()                                  # the joint of Makhdoumi et al., 14 x 55, from 48842 people
    load_adult(fetch_census())                # the records behind it
    load_compas(fetch_compas())               # the 5278 records of Hsu et al.

Raw files are checked against the SHA256 of the originals: most copies in circulation are altered.

The embedded table counts the people of the Adult (Census Income) data by age, income, gender and education.
Source: Becker and Kohavi (1996), Adult, UCI Machine Learning Repository, DOI 10.24432/C5XW20, CC BY 4.0.
"""

import csv
import io
import os
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

import numpy as np

from jaxpriv._runtime.importing import names_of
from jaxpriv.data.datasets._layout import Dataset, Side, counted
from jaxpriv.data.datasets.compas import COMPAS_PRIVATE, COMPAS_USEFUL, compas_arrays, fetch_compas, load_compas
from jaxpriv.data.datasets.originals import Originals
from jaxpriv.errors import InputError

__all__ = [
    "ADULT_COLUMNS",
    "ATTRIBUTION",
    "COMPAS_PRIVATE",
    "COMPAS_USEFUL",
    "Dataset",
    "census",
    "census_csv",
    "census_from_raw",
    "census_small",
    "census_table",
    "compas_arrays",
    "fetch_census",
    "fetch_compas",
    "load_adult",
    "load_compas",
]
__dir__ = names_of(__name__)

ATTRIBUTION = (
    "Barry Becker and Ronny Kohavi (1996), Adult, UCI Machine Learning Repository, DOI 10.24432/C5XW20; "
    "licensed under CC BY 4.0; columns selected, values grouped, people counted by jaxpriv"
)

ADULT_COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
)
_NUMERIC = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")

# The order is the order of the records in `load_adult`.
_ADULT = Originals(
    files={
        "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    },
    url="https://archive.ics.uci.edu/ml/machine-learning-databases/adult/",
    fetcher="fetch_census",
)

# The table's attributes and their values, in the order of the codes. Age: below 20 (the youngest
# person is 17), decades, 70 and over. Education: everything below a high-school degree; the degree;
# college without a bachelor's degree (Some-college, Assoc-voc, Assoc-acdm); a bachelor's degree or
# higher (Bachelors, Masters, Prof-school, Doctorate).
_DECADES = (20, 30, 40, 50, 60, 70)
_ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "age": ("17-19", "20-29", "30-39", "40-49", "50-59", "60-69", "70+"),
    "income": ("<=50K", ">50K"),
    "gender": ("Female", "Male"),
    "education": ("<HS", "HS-grad", "Some-college/Assoc", "Bachelor+"),
}
_EDUCATION = {
    **dict.fromkeys(("Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th"), "<HS"),
    "HS-grad": "HS-grad",
    **dict.fromkeys(("Some-college", "Assoc-voc", "Assoc-acdm"), "Some-college/Assoc"),
    **dict.fromkeys(("Bachelors", "Masters", "Prof-school", "Doctorate"), "Bachelor+"),
}


def census() -> Dataset:
    """S = (age, income), 14 symbols; X = (age, gender, education), 55 of the 56 combinations; 48842 people.

    Age is both private and useful: each x occurs with the two incomes of its own age group only.
    """
    return _joint_of(_embedded_table(), ("age", "income"), ("age", "gender", "education"))


def census_small() -> Dataset:
    """S = income, 2 symbols; X = (gender, education), 8 symbols: the table of `census` summed over age."""
    return _joint_of(_embedded_table(), ("income",), ("gender", "education"))


def census_from_raw(folder: str | os.PathLike[str]) -> Dataset:
    """The dataset of `census()`, counted anew from the original `adult.data` and `adult.test` in `folder`."""
    return _joint_of(census_table(load_adult(folder)), ("age", "income"), ("age", "gender", "education"))


def census_table(columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """Count people by age, income, gender and education, from the columns of `load_adult`.

    Returns the int64 contingency table `(age, income, gender, education)` of shape (7, 2, 2, 4).
    Raises `InputError` naming column and record for a value outside the groups.
    """
    lowest = np.flatnonzero(~(columns["age"] >= 17))
    if lowest.size:
        raise InputError(f"column 'age', record {lowest[0]} is below 17, the youngest age group")
    codes = (
        np.searchsorted(_DECADES, columns["age"], side="right"),
        _coded(columns["income"], "income", {value: value for value in _ATTRIBUTES["income"]}, "income"),
        _coded(columns["sex"], "sex", {value: value for value in _ATTRIBUTES["gender"]}, "gender"),
        _coded(columns["education"], "education", _EDUCATION, "education"),
    )
    table = np.zeros(_table_shape(), dtype=np.int64)
    np.add.at(table, codes, 1)
    return table


def census_csv(table: np.ndarray) -> bytes:
    """The embedded form of a `census_table`: a header, then one line per combination that occurs."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*_ATTRIBUTES, "count"])
    for cell in np.argwhere(table):
        labels = [values[code] for values, code in zip(_ATTRIBUTES.values(), cell, strict=True)]
        writer.writerow([*labels, int(table[tuple(cell)])])
    return text.getvalue().encode("ascii")


def fetch_census(*, cache: str | os.PathLike[str] | None = None, local: str | os.PathLike[str] | None = None) -> Path:
    """A folder with the original `adult.data` and `adult.test`, their SHA256 checked.

    With `local`, that folder is checked and returned. Otherwise the files are downloaded once from
    the UCI repository into `cache` (default: the user's cache folder for jaxpriv).

    Raises `IntegrityError` if a file is not the original, `InputError` if a local file is missing,
    `ResourceError` if pooch is not installed or the download fails.
    """
    return _ADULT.fetch(cache, local)


def load_adult(folder: str | os.PathLike[str], *, verify: bool = True) -> dict[str, np.ndarray]:
    """The 48842 records of `adult.data` and `adult.test` in `folder`, column by column (`ADULT_COLUMNS`).

    Numeric columns are int64, the others text; an unknown value stays the text `?`. Spaces around
    values, the full stop after the income in `adult.test`, and its first line (which starts with
    `|`) are removed. `verify=False` accepts files that are not the originals.

    Raises `InputError` naming file and line for a missing file or a malformed record, and
    `IntegrityError` if `verify` and a file is not the original.
    """
    rows: list[list[str]] = []
    for name in _ADULT.files:
        rows += _parse_adult(_ADULT.read(folder, name, verify=verify), Path(folder) / name)
    columns = dict(zip(ADULT_COLUMNS, zip(*rows, strict=True), strict=True))
    return {
        name: np.array([int(value) for value in values], dtype=np.int64) if name in _NUMERIC else np.array(values)
        for name, values in columns.items()
    }


def _parse_adult(content: bytes, path: Path) -> list[list[str]]:
    """The records of one raw file, every field stripped and every number seen to be one."""
    rows = []
    try:
        lines = content.decode("ascii").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not plain ASCII text (byte {error.start})") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("|"):
            continue
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != len(ADULT_COLUMNS):
            raise InputError(f"{path}, line {number}: {len(fields)} fields, {len(ADULT_COLUMNS)} needed")
        fields[-1] = fields[-1].removesuffix(".")
        for name, field in zip(ADULT_COLUMNS, fields, strict=True):
            # At most 18 digits fit int64. isdigit alone would let superscripts pass, but the text is ASCII.
            if name in _NUMERIC and not (field.isdigit() and len(field) <= 18):
                raise InputError(f"{path}, line {number}: column {name!r} is not a whole number")
        rows.append(fields)
    if not rows:
        raise InputError(f"{path} holds no records")
    return rows


def _coded(values: np.ndarray, column: str, groups: Mapping[str, str], attribute: str) -> np.ndarray:
    """The code, within `attribute`, of each value's group."""
    present, inverse = np.unique(values, return_inverse=True)
    order = _ATTRIBUTES[attribute]
    codes = np.array([order.index(groups[str(value)]) if str(value) in groups else -1 for value in present])[inverse]
    unknown = np.flatnonzero(codes < 0)
    if unknown.size:
        raise InputError(f"column {column!r}, record {unknown[0]} has a value outside the groups of {attribute}")
    return codes


def _table_shape() -> tuple[int, ...]:
    return tuple(len(values) for values in _ATTRIBUTES.values())


def _embedded_table() -> np.ndarray:
    """The shipped counts as `census_table` returns them."""
    text = resources.files("jaxpriv").joinpath("_assets", "census.csv").read_text(encoding="ascii")
    table = np.zeros(_table_shape(), dtype=np.int64)
    for row in csv.DictReader(io.StringIO(text)):
        cell = tuple(values.index(row[name]) for name, values in _ATTRIBUTES.items())
        table[cell] = int(row["count"])
    return table


def _joint_of(table: np.ndarray, private: Sequence[str], useful: Sequence[str]) -> Dataset:
    """The joint of two (possibly overlapping) sets of attributes of a contingency table."""
    names = tuple(_ATTRIBUTES)
    cells = np.argwhere(table)
    private_side, useful_side = (
        Side(
            names=tuple(chosen),
            values=tuple(_ATTRIBUTES[name] for name in chosen),
            codes=cells[:, [names.index(name) for name in chosen]],
        )
        for chosen in (private, useful)
    )
    return counted(private_side, useful_side, table[tuple(cells.T)], ATTRIBUTION)[0]
