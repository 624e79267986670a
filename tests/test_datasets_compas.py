"""`jaxpriv.datasets`: the COMPAS records of Hsu et al. from the raw file, which is not part of the repository."""

import csv
import hashlib
import io
import math
from pathlib import Path

import numpy as np
import pytest

from jaxpriv import datasets, watchdog
from jaxpriv.data.datasets import compas
from jaxpriv.errors import IntegrityError
from jaxpriv.statistics.tables import Edges, Quantiles, count_table
from tests.cases import raised, raw as raw_file, refused

GOOD = {
    "name": "somebody secret",
    "race": "Caucasian",
    "sex": "Male",
    "age": "34",
    "priors_count": "2",
    "decile_score": "7",
    "days_b_screening_arrest": "-1",
    "is_recid": "0",
    "c_charge_degree": "F",
    "score_text": "Medium",
    "c_jail_in": "2013-01-26 03:45:27",
    "c_jail_out": "2013-02-05 05:36:53",
}


@pytest.fixture(scope="module")
def raw(shared) -> Path:
    return raw_file(shared, "compas-scores-two-years.csv").parent


@pytest.fixture(scope="module")
def records(raw):
    return datasets.load_compas(raw)


@pytest.fixture
def written(tmp_path, original):
    """`written(row, ...)` is a folder whose file has these rows, and is taken for the original."""

    def write(*rows: dict[str, str]) -> Path:
        stream = io.StringIO()
        writer = csv.DictWriter(stream, [*GOOD], lineterminator="\n")
        writer.writeheader()
        writer.writerows([{**GOOD, **row} for row in rows])
        content = stream.getvalue().encode()
        (tmp_path / compas._COMPAS_FILE).write_bytes(content)
        original(compas, "_COMPAS", files={compas._COMPAS_FILE: hashlib.sha256(content).hexdigest()})
        return tmp_path

    return write


# -- the original file -----------------------------------------------------------------------------


def test_the_five_filters_and_two_races_leave_the_records_of_the_paper(records):
    assert list(records) == [*datasets.COMPAS_PRIVATE, *datasets.COMPAS_USEFUL]
    assert all(len(column) == 5278 for column in records.values())
    assert (records["race"] == "African-American").sum() == 3175
    assert (records["race"] == "Caucasian").sum() == 2103
    assert set(records["gender"].tolist()) == {"Female", "Male"}
    assert records["recidivism_score"].min() == 1
    assert records["recidivism_score"].max() == 10
    assert records["length_of_stay"].min() == 0
    assert records["prior_count"].min() == 0
    assert records["age"].min() == 18


def test_no_column_names_anybody(records):
    assert not {"name", "first", "last", "dob", "id"} & set(records)


def test_arrays_for_estimators(records):
    s, x = datasets.compas_arrays(records)
    assert (s == (records["race"] == "Caucasian")).all()
    assert x.shape == (5278, 5)
    # Most records are like no other: the plug-in estimate on them means nothing.
    assert len(np.unique(x, axis=0)) == 4121
    assert (x[:, 1] == records["age"]).all()
    assert (x[:, 0] == (records["gender"] == "Male")).all()


def test_log_lifts_stay_below_the_ceilings_of_the_two_classes(records):
    """i(s,x) <= ln(1/P(s)): 0.508 and 0.920 nats, whatever the classes of X are."""
    table = count_table(
        records,
        private=list(datasets.COMPAS_PRIVATE),
        useful=list(datasets.COMPAS_USEFUL),
        rules={
            "age": Quantiles(3),
            "prior_count": Edges((0, 1, 4, math.inf)),
            "length_of_stay": Edges((0, 2, math.inf)),
            "recidivism_score": Edges((1, 5, 10)),
        },
    )
    found = watchdog.log_lift(table.dataset.joint)
    assert table.dataset.private_labels == (("African-American",), ("Caucasian",))
    assert math.log(5278 / 3175) == pytest.approx(0.508, abs=5e-4)
    assert math.log(5278 / 2103) == pytest.approx(0.920, abs=5e-4)
    assert (found.max(axis=1) <= np.log([5278 / 3175, 5278 / 2103])).all()
    dog = watchdog.watchdog(table.dataset.joint, target_leakage=0.3)
    assert 0 < dog.released.sum() < len(dog.released)
    assert dog.leakage <= 0.3


def test_arrays_of_other_values_are_refused():
    columns = {name: np.array([1]) for name in datasets.COMPAS_USEFUL} | {
        "race": np.array(["secret"]),
        "gender": np.array(["Male"]),
    }
    with refused("column 'race', record 0") as caught:
        datasets.compas_arrays(columns)
    assert "secret" not in str(caught.value)


def test_stays_that_end_before_they_begin_are_rounded_down_before_the_sign_is_dropped(raw, records):
    with open(raw / "compas-scores-two-years.csv", newline="") as file:
        rows = [
            row for _, row in compas._compas_records(file.read().encode(), Path("raw")) if compas._passes_filters(row)
        ]
    begin, end = (np.array([row[name] for row in rows], dtype="datetime64[s]") for name in ("c_jail_in", "c_jail_out"))
    seconds = (end - begin).astype(int)
    assert (seconds < 0).sum() == 160
    assert np.array_equal(records["length_of_stay"], abs(seconds // 86400))


def test_local_originals_are_checked(raw, tmp_path):
    assert datasets.fetch_compas(local=raw) == raw
    content = bytearray((raw / "compas-scores-two-years.csv").read_bytes())
    content[5000] ^= 1
    (tmp_path / "compas-scores-two-years.csv").write_bytes(content)
    for function in (lambda: datasets.fetch_compas(local=tmp_path), lambda: datasets.load_compas(tmp_path)):
        with raised(IntegrityError, r"compas.*fetch_compas"):
            function()


# -- made-up files ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"days_b_screening_arrest": "31"},
        {"days_b_screening_arrest": "-31"},
        {"days_b_screening_arrest": ""},
        {"is_recid": "-1"},
        {"c_charge_degree": "O"},
        {"score_text": "N/A"},
        {"race": "Other"},
    ],
)
def test_each_filter_removes_its_records(written, change):
    columns = datasets.load_compas(written({"age": "50"}, change, {"days_b_screening_arrest": "30"}))
    assert columns["age"].tolist() == [50, 34]
    with refused("no record that passes"):
        datasets.load_compas(written(change))


def test_length_of_stay(written):
    stays = [
        ("2013-01-26 03:45:27", "2013-02-05 05:36:53", 10),
        ("2013-01-26 03:45:27", "2013-01-27 03:45:26", 0),
        ("2013-01-26 03:45:27", "2013-01-26 03:45:26", 1),  # one second backwards: floor is -1
        ("2013-01-28 00:00:00", "2013-01-26 00:00:00", 2),
    ]
    columns = datasets.load_compas(written(*({"c_jail_in": a, "c_jail_out": b} for a, b, _ in stays)))
    assert columns["length_of_stay"].tolist() == [days for *_, days in stays]


@pytest.mark.parametrize(
    ("change", "column"),
    [
        ({"sex": "secret"}, "sex"),
        ({"age": "secret"}, "age"),
        ({"age": ""}, "age"),
        ({"priors_count": "1.5secret"}, "priors_count"),
        ({"decile_score": "٣secret"}, "decile_score"),
        ({"c_jail_out": ""}, "c_jail_out"),
        ({"c_jail_in": "secret"}, "c_jail_in"),
    ],
)
def test_malformed_records_are_named_by_line_and_column_without_their_values(written, change, column):
    with refused(rf"line 3: column '{column}'") as caught:
        datasets.load_compas(written({}, change))
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"race,sex\n", "no column 'age'"),
        (b"", "no column 'race'"),
        (",".join(GOOD).encode() + b"\nsecret,secret\n", "line 2: 2 fields, 12 needed"),
        (",".join(GOOD).encode() + b'\n"secret\n', "not well-formed CSV"),
        (",".join(GOOD).encode() + b"\nsecret\xff\n", "not UTF-8"),
    ],
)
def test_malformed_files(tmp_path, content, rule):
    (tmp_path / compas._COMPAS_FILE).write_bytes(content)
    with refused(rule) as caught:
        datasets.load_compas(tmp_path, verify=False)
    assert "secret" not in str(caught.value)


def test_missing_file_says_how_to_get_it(tmp_path):
    with refused(r"does not exist.*fetch_compas"):
        datasets.load_compas(tmp_path)
