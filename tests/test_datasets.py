"""`jaxpriv.datasets`: the embedded census table against its reference and its raw files."""

import csv
import functools
import hashlib
import http.server
import threading
from pathlib import Path

import numpy as np
import pytest

from jaxpriv import datasets
from jaxpriv.errors import IntegrityError, ResourceError
from tests.cases import ROOT, raised, raw as raw_file, refused, run_python

RECORD = "39, State-gov, 77516, Bachelors, 13, Never-married, ?, Not-in-family, White, Male, 2174, 0, 40, Cuba, "


@pytest.fixture
def raw(shared) -> Path:
    return raw_file(shared, "adult.data").parent


@pytest.fixture
def small(tmp_path, original) -> Path:
    """A folder with two tiny raw files, declared to be the originals."""
    contents = {
        "adult.data": f"{RECORD}<=50K\n{RECORD}>50K\n\n",
        "adult.test": f"|1x3 Cross validator\n{RECORD.replace('39', '17')}<=50K.\n\n",
    }
    folder = tmp_path / "originals"
    folder.mkdir()
    for name, text in contents.items():
        (folder / name).write_text(text)
    original(
        datasets, "_ADULT", files={name: hashlib.sha256(text.encode()).hexdigest() for name, text in contents.items()}
    )
    return folder


# -- the embedded table ----------------------------------------------------------------------------


def test_census_shape_and_totals():
    data = datasets.census()
    assert data.counts.sum() == 48842
    assert data.counts.shape == data.joint.shape == (14, 55)
    assert data.joint.dtype == np.float64
    assert abs(data.joint.sum() - 1) < 1e-15
    assert (data.counts.sum(axis=0) > 0).all()
    assert (data.counts.sum(axis=1) > 0).all()
    assert (data.counts > 0).sum() == 105
    assert not data.joint.flags.writeable
    assert "10.24432/C5XW20" in data.source
    assert "CC BY 4.0" in data.source


@pytest.mark.parametrize("make", [datasets.census, datasets.census_small])
def test_symbols_are_distinct_sorted_and_labelled(make):
    data = make()
    for codes, names, values, labels in (
        (data.private_attributes, data.private_names, data.private_values, data.private_labels),
        (data.useful_attributes, data.useful_names, data.useful_values, data.useful_labels),
    ):
        assert codes.dtype == np.int64
        assert codes.shape == (len(labels), len(names))
        assert sorted(set(map(tuple, codes))) == list(map(tuple, codes))
        assert len(set(labels)) == len(labels)
        assert all(labels[i][a] == values[a][codes[i, a]] for i in range(len(labels)) for a in range(len(names)))


def test_age_of_s_is_age_of_x():
    data = datasets.census()
    s, x = np.nonzero(data.counts)
    assert (data.private_attributes[s, 0] == data.useful_attributes[x, 0]).all()
    # The one combination of attributes that nobody has.
    every = {(a, g, e) for a in data.useful_values[0] for g in data.useful_values[1] for e in data.useful_values[2]}
    assert every - set(data.useful_labels) == {("17-19", "Male", "Bachelor+")}


def test_small_census_is_the_census_summed_over_age():
    data, small = datasets.census(), datasets.census_small()
    counts = np.zeros((2, 2, 4), dtype=int)
    for s, x in np.argwhere(data.counts):
        gender, education = data.useful_attributes[x, 1:]
        counts[data.private_attributes[s, 1], gender, education] += data.counts[s, x]
    assert np.array_equal(counts.reshape(2, 8), small.counts)
    assert small.counts.sum() == 48842


def test_census_agrees_with_the_reference_count_for_count(shared):
    reference = Path(shared) / "reference" / "census"
    with open(reference / "census_A_joint_counts.csv", newline="") as file:
        rows = [tuple(row.values()) for row in csv.DictReader(file)]
    data = datasets.census()
    ours = [
        (*data.private_labels[s], *data.useful_labels[x], str(data.counts[s, x])) for s, x in np.argwhere(data.counts)
    ]
    assert sorted(ours) == sorted(rows)
    small = np.loadtxt(reference / "census_small8_counts.csv", delimiter=",", dtype=int)
    assert np.array_equal(datasets.census_small().counts, small)


# -- the raw files ---------------------------------------------------------------------------------


def test_census_from_raw_is_the_embedded_census(raw):
    ours, embedded = datasets.census_from_raw(raw), datasets.census()
    assert np.array_equal(ours.counts, embedded.counts)
    assert ours.useful_labels == embedded.useful_labels
    assert ours.private_labels == embedded.private_labels


def test_script_rebuilds_the_shipped_file(raw, tmp_path):
    out = tmp_path / "census.csv"
    run_python("scripts/build_census.py", str(raw), "--out", str(out), PYTHONPATH=str(ROOT))
    assert out.read_bytes() == (ROOT / "jaxpriv" / "_assets" / "census.csv").read_bytes()


def test_altered_raw_file_is_refused(raw, tmp_path):
    for name in ("adult.data", "adult.test"):
        (tmp_path / name).write_bytes((raw / name).read_bytes())
    assert datasets.fetch_census(local=tmp_path) == tmp_path
    altered = bytearray((tmp_path / "adult.test").read_bytes())
    altered[1000] ^= 1
    (tmp_path / "adult.test").write_bytes(altered)
    for function in (lambda: datasets.fetch_census(local=tmp_path), lambda: datasets.census_from_raw(tmp_path)):
        with raised(IntegrityError, r"adult\.test is not the original"):
            function()


def test_parsing(small):
    columns = datasets.load_adult(small)
    assert list(columns) == list(datasets.ADULT_COLUMNS)
    assert columns["age"].tolist() == [39, 39, 17]
    assert columns["age"].dtype == np.int64
    assert columns["occupation"].tolist() == ["?"] * 3
    assert columns["income"].tolist() == ["<=50K", ">50K", "<=50K"]
    table = datasets.census_table(columns)
    assert table.shape == (7, 2, 2, 4)
    assert [table[2, 0, 1, 3], table[2, 1, 1, 3], table[0, 0, 1, 3], table.sum()] == [1, 1, 1, 3]
    assert datasets.census_csv(table).splitlines()[1] == b"17-19,<=50K,Male,Bachelor+,1"


@pytest.mark.parametrize("ending", ["", "\n", "\r\n", "\n\n \n"])
@pytest.mark.parametrize("age", ["39", "  39"])
def test_altered_layout_parses_unverified(small, ending, age):
    (small / "adult.data").write_text((RECORD + "<=50K").replace("39", age, 1) + ending)
    assert datasets.load_adult(small, verify=False)["age"].tolist() == [39, 17]
    with pytest.raises(IntegrityError):
        datasets.load_adult(small)


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (RECORD.encode() + b"<=50K\n1, secret\n", "line 2: 2 fields, 15 needed"),
        (RECORD.replace("39", "secret").encode() + b"<=50K\n", "line 1: column 'age' is not a whole number"),
        (RECORD.replace("39", "").encode() + b"<=50K\n", "line 1: column 'age' is not a whole number"),
        (RECORD.replace("39", "9" * 19).encode() + b"<=50K\n", "line 1: column 'age' is not a whole number"),
        (RECORD.encode() + b"secret\xff\n", "not plain ASCII"),
        (b"\n|secret\n", "holds no records"),
        (b"", "holds no records"),
    ],
)
def test_malformed_files_are_named_without_their_values(small, content, rule):
    (small / "adult.data").write_bytes(content)
    with refused(r"adult\.data.*" + rule) as caught:
        datasets.load_adult(small, verify=False)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "column"),
    [
        ("39", "16", "age"),
        ("Male", "secret", "sex"),
        ("Bachelors", "secret", "education"),
        ("<=50K", "secret", "income"),
    ],
)
def test_values_outside_the_groups_are_refused_without_showing_them(small, old, new, column):
    (small / "adult.data").write_text(f"{RECORD}>50K\n" + f"{RECORD}<=50K\n".replace(old, new))
    columns = datasets.load_adult(small, verify=False)
    with refused(f"'{column}', record 1") as caught:
        datasets.census_table(columns)
    assert new not in str(caught.value).replace("groups of", "").replace("17", "")


def test_missing_file_says_how_to_get_it(tmp_path):
    with refused(r"adult\.data does not exist.*fetch_census"):
        datasets.census_from_raw(tmp_path)
    with refused(r"adult\.data does not exist"):
        datasets.fetch_census(local=tmp_path)


# -- downloading -----------------------------------------------------------------------------------


@pytest.fixture
def server(small, original, monkeypatch):
    """The tiny originals behind HTTP on this machine; yields the folder that is served."""
    pytest.importorskip("pooch", reason="downloading needs the extra `data`")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format, *args):
            pass

    handler = functools.partial(Quiet, directory=str(small))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url = f"http://127.0.0.1:{running.server_port}/"
        original(datasets, "_ADULT", url=url)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        try:
            yield small
        finally:
            running.shutdown()
            thread.join()


def test_download_is_checked_and_cached(server, tmp_path):
    cache = tmp_path / "cache"
    assert datasets.fetch_census(cache=cache) == cache
    assert datasets.load_adult(cache)["age"].tolist() == [39, 39, 17]
    for path in server.iterdir():
        path.unlink()
    assert datasets.fetch_census(cache=cache) == cache  # nothing is asked for a second time
    (cache / "adult.data").write_text("altered")
    with raised(ResourceError, r"cannot fetch adult\.data"):  # so a new download is tried
        datasets.fetch_census(cache=cache)


def test_wrong_download_is_refused(server, tmp_path):
    (server / "adult.data").write_text("something else")
    with raised(IntegrityError, r"adult\.data is not the original"):
        datasets.fetch_census(cache=tmp_path / "cache")
    assert not (tmp_path / "cache" / "adult.data").exists()


def test_offline_says_what_to_do(server, tmp_path, original):
    original(datasets, "_ADULT", url="http://127.0.0.1:1/")
    with raised(ResourceError, "local=FOLDER"):
        datasets.fetch_census(cache=tmp_path / "cache")


def test_without_pooch(tmp_path, absent):
    absent("pooch")
    with raised(ResourceError, r"jaxpriv\[data\]"):
        datasets.fetch_census(cache=tmp_path)
