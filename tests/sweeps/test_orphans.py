"""Worker processes of a sweep whose parent was killed."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

fcntl = pytest.importorskip("fcntl")


def hold(lock):
    """Lock a file, kill the parent, and wait."""
    file = os.open(lock, os.O_CREAT | os.O_RDWR)
    fcntl.flock(file, fcntl.LOCK_EX)
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(120)


def test_workers_end_with_a_killed_parent(tmp_path):
    path = tmp_path / "lock"
    script = f"""
        from jaxpriv.solving.sweeps import running
        from tests.sweeps.test_orphans import hold
        with running._pool(1) as pool:
            pool.submit(hold, {str(path)!r}).result()
    """
    parent = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], stderr=subprocess.DEVNULL, check=False)
    assert parent.returncode == -signal.SIGKILL
    with path.open("rb") as file:
        for _ in range(600):  # the system takes the lock back when the worker ends
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.05)
            else:
                return
    pytest.fail("the worker did not end with its parent")
