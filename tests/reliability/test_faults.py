"""Bad input and faults, one numbered case each: files (D), the machine (E), interrupted work (F).

What happens is defined, and tested. Most cases have further tests beside the code that they are about; here every
number has one that can fail.
"""

import io
import json
import os
import subprocess
import sys
import threading
import time
import warnings
import zipfile

import jax
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv._runtime import resources
from jaxpriv._runtime.files import load_npz_safely
from jaxpriv.errors import (
    EntropyError,
    InputError,
    IntegrityError,
    JaxprivError,
    ResourceError,
)
from jaxpriv.release import Mechanism, fit
from jaxpriv.release import table as tables
from jaxpriv.verifier import verify
from tests.mechanism.conftest import COLUMNS, people
from tests.reliability.cases import CASES, HAMMING, JOINT, RESPONSE, case, refused, released, value

# -- D. files ------------------------------------------------------------------------------------------------------


def npy(header, raw=False):
    """A .npy file of this header with 64 bytes of numbers; `raw`: the header alone."""
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + (b"" if raw else bytes(64))


@case(34)
def damaged_designs(made, tmp, **_):
    content = made["design"].read_bytes()
    rng = np.random.default_rng(0)
    path = tmp / "design.zip"
    altered = [content[:-1], content[: len(content) // 2], b"", b"PK" + content[2:][::-1], content + b"x"]
    for place in rng.integers(len(content), size=60).tolist():
        one = bytearray(content)
        one[place] ^= 1 << int(rng.integers(8))
        altered.append(bytes(one))
    for one in altered:
        path.write_bytes(one)
        with pytest.raises(JaxprivError):
            Mechanism.load(path)
    objects = io.BytesIO()
    np.save(objects, np.array([{}], dtype=object), allow_pickle=True)
    header = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }"
    negative, huge, unknown = (npy(header % kind) for kind in (("<f8", "(-1,)"), ("<f8", "(2**62,)"), ("|O", "(1,)")))
    members = [("../x.npy", b""), ("x.pkl", b"\x80\x04N."), ("x.npy", objects.getvalue())]
    members += [("x.npy", data) for data in (negative, huge, unknown, b"", npy("[" * 200))]
    for name, data in members:
        with zipfile.ZipFile(tmp / "odd.npz", "w") as file:
            file.writestr(name, data)
        with pytest.raises(JaxprivError):
            load_npz_safely(tmp / "odd.npz", ["x"])
    one = io.BytesIO()
    np.save(one, np.ones(2))
    with zipfile.ZipFile(tmp / "odd.npz", "w") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file.writestr("x.npy", one.getvalue())
        file.writestr("x.npy", one.getvalue())
    with pytest.raises(JaxprivError):
        load_npz_safely(tmp / "odd.npz", ["x"])
    with zipfile.ZipFile(tmp / "odd.npz", "w") as file:
        file.writestr("x.npy", one.getvalue())
    locked = bytearray((tmp / "odd.npz").read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        locked[locked.index(mark) + place] |= 1  # the flag of encryption
    (tmp / "odd.npz").write_bytes(locked)
    with pytest.raises(JaxprivError):
        load_npz_safely(tmp / "odd.npz", ["x"])
    with zipfile.ZipFile(tmp / "odd.npz", "w", zipfile.ZIP_DEFLATED) as file, file.open("x.npy", "w") as member:
        member.write(npy(header % ("<f8", "(2**20, 2**10)"), raw=True))
        for _ in range(64):
            member.write(bytes(2**22))  # a bomb that is shorter than its header says
    with pytest.raises(JaxprivError):
        load_npz_safely(tmp / "odd.npz", ["x"])
    book = made["fitted"].mechanism.codebook.to_json()
    for text in (
        book.replace('"version": 1', '"version": 9'),
        book[:-3],
        book.replace("{", '{"a": NaN,', 1),
        "[" * 10**4,
    ):
        with pytest.raises(IntegrityError):
            type(made["fitted"].mechanism.codebook).from_json(text)


@case(35)
def parts_that_do_not_belong_together(made, tmp, **_):
    other = fit(people(400), **COLUMNS, budget=0.3)
    other.mechanism.save(tmp / "other.zip")
    made["fitted"].evidence.save(tmp / "audit.zip", made["fitted"].mechanism)
    with pytest.raises(IntegrityError):
        verify(tmp / "other.zip", private=tmp / "audit.zip")
    released(made, tmp)
    with pytest.raises(JaxprivError):
        verify(tmp / "receipt.json", design=tmp / "other.zip", released=tmp / "released.csv")
    verify(tmp / "receipt.json", design=made["design"], released=tmp / "released.csv")


@case(36)
def no_counts_in_what_is_published(made, **_):
    """The design of the same records twice over is the same but for the keyed hash; no count is a number in it."""
    with zipfile.ZipFile(made["design"]) as file:
        members = {name: file.read(name) for name in file.namelist()}
    assert not any("count" in name for name in members)
    texts = b"".join(content for name, content in members.items() if name.endswith(".json")).decode()
    counts = made["fitted"].evidence.counts
    assert f'"{int(counts.sum())}"' not in texts
    twice = {name: np.concatenate([part, part]) for name, part in people(400).items()}
    one, two = (fit(records, **COLUMNS, budget=0.15, split=1.0) for records in (people(400), twice))
    np.testing.assert_array_equal(one.mechanism.table, two.mechanism.table)
    assert 2 * one.evidence.counts.sum() == two.evidence.counts.sum()
    records = []
    for found in (one, two):
        with zipfile.ZipFile(io.BytesIO(found.mechanism.to_bytes())) as file:
            records.append({name: file.read(name) for name in file.namelist()})
            record = json.loads(records[-1].pop("design.json"))
            records[-1]["design"] = {k: v for k, v in record.items() if k not in ("commitment", "sha256")}
    assert records[0] == records[1]
    table = made["fitted"].mechanism.table
    frequencies = counts.sum(axis=0) / counts.sum()
    assert not any(np.allclose(row / 2**62, frequencies, atol=1e-6) for row in table.astype(float))


# -- E. the machine ------------------------------------------------------------------------------------------------


@case(37)
def not_enough_memory(tmp, patch, **_):
    patch.setattr(resources, "ALWAYS", 0.0)
    patch.setattr(resources, "free_memory", lambda: 100.0)
    refused(lambda: value(JOINT, RESPONSE), "GiB", error=ResourceError)
    patch.undo()
    limited = (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_AS, (3 * 2**29, 3 * 2**29))\n"
        "from jaxpriv._runtime.files import load_npz_safely\n"
        "import io, numpy as np, zipfile\n"
        "head = io.BytesIO(); np.lib.format.write_array_header_1_0(head, {'descr': '<f8', 'fortran_order': False, "
        "'shape': (2**28, 8)})\n"
        "zipfile.ZipFile('large.npz', 'w').writestr('x.npy', head.getvalue())\n"
        "try:\n    load_npz_safely('large.npz', ['x'])\n"
        "except Exception as error:\n    print(type(error).__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", limited], capture_output=True, text=True, check=False, cwd=tmp)
    assert done.stdout.strip() in ("IntegrityError", "ResourceError", "InputError"), done.stderr


@case(38)
def precision_of_the_caller(**_):
    """Whatever JAX is set to, values and bounds are float64, and the setting stays."""
    expected = value(JOINT, RESPONSE)
    bound = float(jp.solve(jp.DistortionProblem(JOINT, HAMMING, budget=0.2), tol=1e-7).lower_bound)
    before = jax.config.jax_enable_x64
    with jax.enable_x64(False):
        assert value(JOINT, RESPONSE) == expected
        solution = jp.solve(jp.DistortionProblem(JOINT, HAMMING, budget=0.2))
        assert abs(float(jp.certify(jp.DistortionProblem(JOINT, HAMMING, budget=0.2), solution).value) - bound) < 2e-4
    assert jax.config.jax_enable_x64 == before


@case(39)
def processes_of_their_own(**_):
    """No device is needed to draw, and what is drawn is no copy of what another process of the same code draws."""
    code = "from jaxpriv.release import table; print(table.fresh(4).tolist())"
    environment = {**os.environ, "JAX_PLATFORMS": "none"}
    drawn = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment).stdout
        for _ in range(2)
    ]
    assert len(set(drawn)) == 2
    assert all(len(json.loads(one)) == 4 for one in drawn)


@case(40)
def the_verdict_is_that_of_the_host(made, tmp, **_):
    """Exact on every machine: the verifier needs neither NumPy nor JAX."""
    code = (
        "import sys; from jaxpriv.verifier import verify; verify(sys.argv[1]); "
        "print(any(name in sys.modules for name in ('numpy', 'jax')))"
    )
    line = [sys.executable, "-c", code, str(made["design"])]
    assert subprocess.run(line, capture_output=True, text=True, check=True).stdout.strip() == "False"


# -- F. interrupted work -------------------------------------------------------------------------------------------


@case(41)
def killed_writers(tmp, **_):
    """A process that writes one file again and again, killed at several times: the file is one of those written."""
    path = tmp / "file"
    code = (
        "import sys; from jaxpriv._runtime.files import atomic_write\n"
        "for k in range(10**6):\n    atomic_write(sys.argv[1], bytes([k % 7]) * 2**18)\n"
        "    print(k, flush=True)"
    )
    for k in range(3):
        writer = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        for _ in range(3 + k):
            writer.stdout.readline()
        time.sleep(0.003 * k)
        writer.kill()
        writer.wait()
        writer.stdout.close()
        content = path.read_bytes()
        assert len(content) == 2**18
        assert len(set(content)) == 1


@case(42)
def resumed_studies(tmp, **_):
    study = {
        "name": "small",
        "grid": [
            {
                "joint": [{"family": "correlated", "private": 2, "useful": 2, "seed": [0, 1], "correlation": 0.4}],
                "distortion": "hamming",
                "budget_share": [0.2, 0.5],
            }
        ],
    }
    whole = jp.sweep(study, tmp / "whole").table
    part = jp.sweep(study, tmp / "part").table
    files = sorted(path for path in (tmp / "part").rglob("*") if path.is_file() and path.suffix != ".lock")
    torn = max(files, key=lambda path: path.stat().st_size)
    torn.write_bytes(torn.read_bytes()[:-7])
    again = jp.sweep(study, tmp / "part").table
    assert again["value"].to_list() == part["value"].to_list()
    assert whole["value"].to_list() == pytest.approx(part["value"].to_list(), abs=1e-9)
    other = {**study, "grid": [{**study["grid"][0], "budget_share": [0.3]}]}
    with pytest.raises(JaxprivError):
        jp.sweep(other, tmp / "whole")


@case(43)
def a_full_disk(made, tmp, patch, **_):
    def full(*_):
        raise OSError(28, "No space left on device")

    patch.setattr(os, "fsync", full)
    refused(lambda: released(made, tmp), error=ResourceError)
    patch.undo()
    patch.setattr(os, "replace", full)
    refused(lambda: released(made, tmp), error=ResourceError)
    patch.undo()
    # A limit of the system itself: files of at most 4 KiB, a release of more.
    (tmp / "t.csv").write_text("age,town,income\n" + "".join(f"{20 + k % 50},north,low\n" for k in range(4000)))
    limited = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "from jaxpriv.errors import ResourceError\nfrom jaxpriv.release import Mechanism, release\n"
        "try:\n    release('t.csv', Mechanism.load(sys.argv[1]), 'o.csv', 'r.json', ledger='l', unseen='nearest')\n"
        "except ResourceError as error:\n    print(error)\n"
    )
    line = [sys.executable, "-c", limited, str(made["design"])]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=tmp)
    assert "File too large; nothing was written" in done.stdout, done.stderr
    (tmp / "t.csv").unlink()
    assert not [path for path in tmp.iterdir() if not path.name.endswith(".lock")]


@case(44)
def two_at_once(made, tmp, patch, **_):
    from jaxpriv.release.releasing import locked

    with locked(tmp / "ledger"):
        refused(lambda: released(made, tmp, ledger=tmp / "ledger"), "in use", error=ResourceError)
    assert not (tmp / "released.csv").exists()
    # Two releases into the same files, which have both seen that there are none: one draw, and one refusal.
    both, results = threading.Barrier(2), []
    patch.setattr(tables, "self_test", lambda *_: both.wait(60))

    def run():
        try:
            results.append(released(made, tmp).receipt)
        except InputError as error:
            results.append(str(error))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    patch.undo()
    refusals = [one for one in results if isinstance(one, str)]
    assert len(results) == 2
    assert len(refusals) == 1
    assert "second draw" in refusals[0]
    verify(tmp / "receipt.json", design=made["design"], released=tmp / "released.csv")
    released(made, tmp, ledger=tmp / "ledger", force=True)


@case(45)
def a_release_that_was_interrupted(made, tmp, patch, **_):
    from jaxpriv.release import releasing

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    patch.setattr(releasing, "write_together", interrupted)
    with pytest.raises(KeyboardInterrupt):
        released(made, tmp)
    patch.undo()
    assert not list(tmp.iterdir())  # nothing was published: fresh randomness is right
    released(made, tmp)
    refused(lambda: released(made, tmp), "exists")  # with a receipt there is no second draw


@case(46)
def no_randomness(made, tmp, patch, **_):
    def broken(count):
        raise OSError("no entropy")

    for fault in (broken, lambda count: b"\0" * (count // 2)):
        patch.setattr(tables, "_random_bytes", fault)
        refused(lambda: released(made, tmp), "randomness", error=EntropyError)
        assert not list(tmp.iterdir())
    patch.undo()
    # A child process has no numbers that its parent drew ahead.
    code = (
        "import os\nfrom jaxpriv.release import table\ntable.fresh(1)\nread, write = os.pipe()\n"
        "if os.fork() == 0:\n    os.write(write, repr(table.fresh(4).tolist()).encode()); os._exit(0)\n"
        "os.wait()\nprint(os.read(read, 999).decode() != repr(table.fresh(4).tolist()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
    # A source that repeats itself does not pass the test before a release.
    patch.setattr(tables, "_random_bytes", lambda count: b"\x01" * count)
    with pytest.raises(EntropyError):
        released(made, tmp)


@pytest.mark.parametrize("number", range(34, 47))
def test_case(number, made, tmp_path, monkeypatch):
    CASES[number](made=made, tmp=tmp_path, patch=monkeypatch)
