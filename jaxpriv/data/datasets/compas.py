"""ProPublica's COMPAS records, from a file that is fetched or local.

The file holds names and birth dates and has no licence, so it is never part of jaxpriv; only the six columns of
the experiment of Hsu, Asoodeh and Calmon are kept from it. S is the race (African-American, Caucasian), X are gender,
age, number of prior crimes, length of stay in jail and the score of recidivism (decile, 1 to 10). ProPublica's two-year
file keeps too many people who were arrested again (Barenstein 2019); for race as S this does not matter.
Source: Angwin, Larson, Mattu and Kirchner, Machine Bias, ProPublica 2016, and its repository compas-analysis.
"""

import csv
import io
import os
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import numpy as np

from jaxpriv.data.datasets.originals import Originals
from jaxpriv.errors import InputError

COMPAS_PRIVATE = ("race",)
COMPAS_USEFUL = ("gender", "age", "prior_count", "length_of_stay", "recidivism_score")

# In the order of the codes of `compas_arrays`: s = 0 and 1 as in Hsu et al.
_RACES = ("African-American", "Caucasian")
_GENDERS = ("Female", "Male")

_COMPAS_FILE = "compas-scores-two-years.csv"
_COMPAS = Originals(
    files={_COMPAS_FILE: "c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d"},
    # The commit, not the branch: the file has not changed since 2016, and cannot there.
    url="https://raw.githubusercontent.com/propublica/compas-analysis/bafff5da3f2e45eca6c2d5055faad269defd135a/",
    fetcher="fetch_compas",
)

# What is read; the header repeats two names (decile_score, priors_count), whose columns are equal.
_COMPAS_NEEDED = (
    "race",
    "sex",
    "age",
    "priors_count",
    "decile_score",
    "days_b_screening_arrest",
    "is_recid",
    "c_charge_degree",
    "score_text",
    "c_jail_in",
    "c_jail_out",
)
_WHOLE = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_TIME = "%Y-%m-%d %H:%M:%S"


def fetch_compas(*, cache: str | os.PathLike[str] | None = None, local: str | os.PathLike[str] | None = None) -> Path:
    """A folder with the original `compas-scores-two-years.csv`, its SHA256 checked.

    With `local`, that folder is checked and returned. Otherwise the file is downloaded once from
    ProPublica's repository into `cache` (default: the user's cache folder for jaxpriv). It holds
    names and birth dates of real people: keep it to yourself.

    Raises `IntegrityError` if the file is not the original, `InputError` if a local file is missing,
    `ResourceError` if pooch is not installed or the download fails.
    """
    return _COMPAS.fetch(cache, local)


def load_compas(folder: str | os.PathLike[str], *, verify: bool = True) -> dict[str, np.ndarray]:
    """The records of Hsu et al., column by column: `COMPAS_PRIVATE` and `COMPAS_USEFUL`; 5278 in the original file.

    Kept are the records that pass ProPublica's five filters (the screening at most 30 days after or
    before the arrest, a recidivism flag, no ordinary traffic offence, a score), of the two races.
    `race` and `gender` are text, the others int64. `length_of_stay` is the absolute value of the
    elapsed days between `c_jail_in` and `c_jail_out`, rounded down before the sign is dropped.

    Raises `InputError` naming file, line and column for a missing file or a malformed record that
    is kept, and `IntegrityError` if `verify` and the file is not the original.
    """
    path = Path(folder) / _COMPAS_FILE
    rows = _compas_records(_COMPAS.read(folder, _COMPAS_FILE, verify=verify), path)
    columns: dict[str, list] = {name: [] for name in (*COMPAS_PRIVATE, *COMPAS_USEFUL)}
    for line, row in rows:
        if not _passes_filters(row):
            continue
        where = f"{path}, line {line}"
        if row["sex"] not in _GENDERS:
            raise InputError(f"{where}: column 'sex' is neither of the two values of the original file")
        columns["race"].append(row["race"])
        columns["gender"].append(row["sex"])
        columns["age"].append(_whole(row, "age", where))
        columns["prior_count"].append(_whole(row, "priors_count", where))
        columns["length_of_stay"].append(_stay(row, where))
        columns["recidivism_score"].append(_whole(row, "decile_score", where))
    if not columns["race"]:
        raise InputError(f"{path} holds no record that passes the filters")
    return {
        name: np.array(values) if name in ("race", "gender") else np.array(values, dtype=np.int64)
        for name, values in columns.items()
    }


def compas_arrays(columns: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Records as numbers for estimators: s `(n,)` int64 and x `(n, 5)` float64, the columns of `COMPAS_USEFUL`.

    s = 0 is African-American and 1 Caucasian, gender is 0 for Female and 1 for Male; nothing is scaled.
    Raises `InputError` naming column and record for any other value.
    """
    numbers = [columns[name].astype(np.float64) for name in COMPAS_USEFUL[1:]]
    gender = _coded_pair(columns, "gender", _GENDERS).astype(np.float64)
    return _coded_pair(columns, "race", _RACES), np.stack([gender, *numbers], axis=1)


def _coded_pair(columns: Mapping[str, np.ndarray], name: str, values: tuple[str, ...]) -> np.ndarray:
    matches = columns[name][:, None] == np.array(values)
    unknown = np.flatnonzero(~matches.any(axis=1))
    if unknown.size:
        raise InputError(f"column {name!r}, record {unknown[0]} is neither of the two values of `load_compas`")
    return matches.argmax(axis=1).astype(np.int64)


def _compas_records(content: bytes, path: Path) -> list[tuple[int, dict[str, str]]]:
    """Line number and needed fields of every record."""
    try:
        reader = csv.reader(io.StringIO(content.decode("utf-8"), newline=""), strict=True)
        header = next(reader, [])
        places = {name: header.index(name) for name in _COMPAS_NEEDED if name in header}
        if len(places) < len(_COMPAS_NEEDED):
            absent = next(name for name in _COMPAS_NEEDED if name not in places)
            raise InputError(f"{path} has no column {absent!r}")
        rows = []
        for fields in reader:
            if len(fields) != len(header):
                raise InputError(f"{path}, line {reader.line_num}: {len(fields)} fields, {len(header)} needed")
            rows.append((reader.line_num, {name: fields[place] for name, place in places.items()}))
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text (byte {error.start})") from error
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: not well-formed CSV") from error
    return rows


def _passes_filters(row: dict[str, str]) -> bool:
    days = row["days_b_screening_arrest"]
    return (
        _WHOLE.fullmatch(days) is not None
        and abs(int(days)) <= 30
        and row["is_recid"] != "-1"
        and row["c_charge_degree"] != "O"
        and row["score_text"] != "N/A"
        and row["race"] in _RACES
    )


def _whole(row: dict[str, str], name: str, where: str) -> int:
    if not _WHOLE.fullmatch(row[name]):
        raise InputError(f"{where}: column {name!r} is not a whole number")
    return int(row[name])


def _stay(row: dict[str, str], where: str) -> int:
    moments = []
    for name in ("c_jail_in", "c_jail_out"):
        try:
            moments.append(datetime.strptime(row[name], _TIME))
        except ValueError:
            # `from None`: the message of strptime shows the value.
            raise InputError(f"{where}: column {name!r} is not a moment in the form of the original file") from None
    # timedelta.days rounds down; 160 of the stays end before they begin.
    return abs((moments[1] - moments[0]).days)
