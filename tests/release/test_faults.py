"""Faults of the machine while a table is released: a full disk, two processes at once, randomness of a child."""

import json
import os
import subprocess
import sys
import threading

import numpy as np

from jaxpriv.errors import InputError
from jaxpriv.release import release
from jaxpriv.release import table as tables
from jaxpriv.verifier import verify
from tests.release.conftest import saved, write

# Files of at most 4 KiB, a release of more.
LIMITED = """
import resource, signal, sys
sys.dont_write_bytecode = True  # Python itself would leave what the limit cuts off
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
from jaxpriv.errors import ResourceError
from jaxpriv.release import Mechanism, release
try:
    release("t.csv", Mechanism.load("design.zip"), "o.csv", "r.json", ledger="l", unseen="nearest")
except ResourceError as error:
    print(error)
"""
FORKED = """
import os
from jaxpriv.release import table
table.fresh(1)
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, repr(table.fresh(4).tolist()).encode()); os._exit(0)
os.wait()
print(os.read(read, 999).decode() != repr(table.fresh(4).tolist()))
"""


def output(code, **options):
    line = [sys.executable, "-c", code]
    return subprocess.run(line, capture_output=True, text=True, check=True, **options).stdout.strip()


def test_a_file_that_the_system_does_not_let_grow_leaves_no_file(fitted, tmp_path):
    saved(fitted, tmp_path)
    write(tmp_path / "t.csv", {"age": 20 + np.arange(4000) % 50, "town": ["north"] * 4000, "income": ["low"] * 4000})
    before = set(tmp_path.iterdir())
    assert "File too large; nothing was written" in output(LIMITED, cwd=tmp_path)
    assert {path for path in tmp_path.iterdir() if path.suffix != ".lock"} == before


def test_of_two_releases_into_the_same_files_one_is_refused(fitted, table, tmp_path, monkeypatch):
    """Both have seen that there are none: one draw, and one refusal."""
    both, results = threading.Barrier(2), []
    monkeypatch.setattr(tables, "self_test", lambda *_: both.wait(60))

    def run():
        try:
            release(table, fitted.mechanism, tmp_path / "out.csv", tmp_path / "receipt.json")
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


def test_a_child_process_has_no_numbers_that_its_parent_drew_ahead():
    assert output(FORKED) == "True"


def test_draws_need_no_device_and_differ_between_processes():
    code = "from jaxpriv.release import table; print(table.fresh(4).tolist())"
    drawn = [output(code, env={**os.environ, "JAX_PLATFORMS": "none"}) for _ in range(2)]
    assert len(set(drawn)) == 2
    assert all(len(json.loads(one)) == 4 for one in drawn)
