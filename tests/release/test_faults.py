"""Faults of the machine while a table is released: a full disk, two processes at once, randomness of a child."""

import json
import os
import subprocess
import sys
import threading

from jaxpriv.errors import InputError, ResourceError
from jaxpriv.release import release
from jaxpriv.verifier import verify
from tests.cases import files_end_at, raised

FORKED = """
import json, os
from jaxpriv.release import table
ahead = table.fresh(4).tolist()
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, repr(table.fresh(4).tolist()).encode()); os._exit(0)
os.wait()
print(json.dumps([ahead, os.read(read, 999).decode() != repr(table.fresh(4).tolist())]))
"""


def output(code, **options):
    line = [sys.executable, "-c", code]
    return subprocess.run(line, capture_output=True, text=True, check=True, **options).stdout.strip()


def test_a_file_that_the_system_does_not_let_grow_leaves_no_file(fitted, table, tmp_path):
    with files_end_at(4096), raised(ResourceError, "File too large; nothing was written"):
        release(table, fitted.mechanism, tmp_path / "out.csv", tmp_path / "receipt.json")
    assert not list(tmp_path.iterdir())


class Meeting(dict):
    """Columns that are read by both of two releases at once."""

    both = threading.Barrier(2)

    def __getitem__(self, name):
        self.both.wait(60)
        return super().__getitem__(name)


def test_of_two_releases_into_the_same_files_one_is_refused(fitted, table, tmp_path):
    """Both have seen that there are none: one draw, and one refusal."""
    results = []

    def run():
        try:
            release(Meeting(table), fitted.mechanism, tmp_path / "out.csv", tmp_path / "receipt.json")
            results.append("released")
        except InputError as error:
            results.append(str(error))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    refusal, done = sorted(results, key=len, reverse=True)
    assert done == "released"
    assert "second draw" in refusal
    verify(tmp_path / "receipt.json", released=tmp_path / "out.csv")


def test_draws_need_no_device_and_differ_between_processes_and_from_those_of_a_child():
    """A child process has no numbers that its parent drew ahead."""
    drawn = [json.loads(output(FORKED, env={**os.environ, "JAX_PLATFORMS": "none"})) for _ in range(2)]
    (first, apart), (second, apart_again) = drawn
    assert len(first) == len(second) == 4
    assert first != second
    assert apart
    assert apart_again
