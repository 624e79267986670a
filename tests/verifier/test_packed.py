"""Compressed tables that hold more than there is memory for."""

import gzip
import tracemalloc

import pytest

from jaxpriv.errors import ResourceError
from jaxpriv.statistics.tables import TableFile
from jaxpriv.verifier import archive, csv_text
from tests.cases import raised, refused
from tests.statistics.conftest import read


@pytest.fixture
def bomb() -> bytes:
    """64 MiB of records in 64 KiB."""
    return gzip.compress(b"a,b\n" * 2**24, 9)


def test_a_compressed_table_is_counted_before_it_is_kept(bomb):
    most = 2**24
    assert len(bomb) < 2**17
    tracemalloc.start()
    with raised(ResourceError, r"table\.csv\.gz holds more than"):
        archive.decompressed(bomb, "table.csv.gz", most)
    assert tracemalloc.get_traced_memory()[1] < most
    tracemalloc.stop()
    content = b"a,b\n" * 1000
    for parts in (gzip.compress(content), gzip.compress(content[:400]) + gzip.compress(content[400:])):
        assert archive.decompressed(parts, "table.csv.gz", len(content)) == content


@pytest.mark.parametrize("settings", [[], ["blanks"]])
def test_the_records_of_a_release_are_read_with_that_limit(bomb, settings, monkeypatch):
    asked = []

    def limited(data, name):
        asked.append(name)
        return archive.decompressed(data, name, 2**20)

    monkeypatch.setattr(csv_text, "decompressed", limited)
    for name in ("records.csv.gz", "records.TSV.GZ"):
        with raised(ResourceError, "holds more"):
            csv_text.plain_csv(bomb, name, settings)
    assert len(asked) == 2
    assert archive.MAX_BYTES <= 2**31


def test_a_damaged_one_is_bad_input(bomb):
    for data in (bomb[:-9], bomb[:3], b"", b"a,b\n", bomb[:100] + b"\0" * 50 + bomb[150:]):
        if data:
            with refused("not a complete gzip file"):
                archive.decompressed(data, "records.csv.gz")


def test_long_records_of_another_width_are_not_gathered(tmp_path):
    """Each of 100 lines has a million fields: the first is refused, before the next one is read."""
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n" + (b"," * 2**20 + b"\n") * 100, 9))
    tracemalloc.start()
    with refused(r"line 3, row 1 .*needed"):
        read(TableFile(path), "a")
    assert tracemalloc.get_traced_memory()[1] < 2**26
    tracemalloc.stop()


def test_blank_lines_at_the_end_are_not_gathered(tmp_path):
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n" + b"\n" * 2**17, 9))
    tracemalloc.start()
    found = read(TableFile(path, blanks=True), "a")
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()
    assert found["a"].values.tolist() == ["1"]
