"""`jaxpriv._runtime.files`: whole files or none, and hostile .npz files."""

import errno
import io
import os
import pickle
import signal
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from jaxpriv._runtime import files
from jaxpriv.errors import IntegrityError, JaxprivError, ResourceError
from tests.cases import raised, refused

ROOT = Path(__file__).resolve().parent.parent
JOINT = np.arange(12.0).reshape(3, 4) / 66
DISTORTION = 1 - np.eye(4)


def npy(array, **options):
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def header(text, data=b"", version=b"\x01\x00"):
    """A .npy file with any header text at all."""
    encoded = text.encode()
    return b"\x93NUMPY" + version + len(encoded).to_bytes(2, "little") + encoded + data


def write_zip(path, members, **options):
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


@pytest.fixture
def problem(tmp_path):
    path = tmp_path / "problem.npz"
    np.savez(path, joint=JOINT, distortion=DISTORTION)
    return path


# -- writing ---------------------------------------------------------------------------------------


def test_writes_bytes_and_streams(tmp_path):
    files.atomic_write(tmp_path / "a", b"text")
    assert (tmp_path / "a").read_bytes() == b"text"
    files.atomic_write(tmp_path / "a", lambda file: np.savez(file, joint=JOINT))
    assert np.array_equal(files.load_npz_safely(tmp_path / "a", ["joint"])["joint"], JOINT)
    assert os.listdir(tmp_path) == ["a"]


def test_permissions_follow_the_umask(tmp_path):
    old = os.umask(0o027)
    try:
        files.atomic_write(tmp_path / "a", b"")
    finally:
        os.umask(old)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("before", [None, b"old"])
def test_failing_writer_leaves_nothing(tmp_path, failure, before):
    path = tmp_path / "a"
    if before is not None:
        path.write_bytes(before)

    def writer(file):
        file.write(b"half a resu")
        file.flush()
        raise failure

    with pytest.raises(ResourceError if isinstance(failure, OSError) else failure):
        files.atomic_write(path, writer)
    assert os.listdir(tmp_path) == ([] if before is None else ["a"])
    assert before is None or path.read_bytes() == before


@pytest.mark.parametrize(("call", "message", "left"), [(1, "Input/output error", []), (2, "is written, but", ["a"])])
def test_a_failed_flush_of_the_file_or_the_folder_is_said(tmp_path, monkeypatch, call, message, left):
    _failing(monkeypatch, "fsync", call, OSError(errno.EIO, "Input/output error"))
    with raised(ResourceError, message):
        files.atomic_write(tmp_path / "a", b"new")
    assert os.listdir(tmp_path) == left


def test_bad_targets(tmp_path):
    with raised(ResourceError, "No such file"):
        files.atomic_write(tmp_path / "absent" / "a", b"")
    with refused("not a regular file"):
        files.atomic_write(tmp_path, b"")
    os.mkfifo(tmp_path / "pipe")
    for special in (tmp_path / "pipe", Path("/dev/null")):
        with refused("not a regular file"):
            files.atomic_write(special, b"")


def test_symbolic_link_is_followed(tmp_path):
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to("target")
    files.atomic_write(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o444])
def test_a_file_keeps_its_permissions(tmp_path, mode):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(mode)
    (tmp_path / "link").symlink_to("a")
    files.atomic_write(tmp_path / "link", b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", mode)


def test_private_files_are_for_their_owner(tmp_path):
    files.write_together({tmp_path / "a": b"", tmp_path / "b": b""}, private=[tmp_path / "b"])
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "a").stat().st_mode & 0o044


def _failing(monkeypatch, name, number, error, module=files.os):
    """Call `number` (from 1) of a function of `os` or another module fails; all of them if it is None."""
    real, calls = getattr(module, name), []

    def function(*arguments, **options):
        calls.append(arguments)
        if number in (None, len(calls)):
            raise error
        return real(*arguments, **options)

    monkeypatch.setattr(module, name, function)


def _full_disk(file):
    file.write(b"half")
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("step", ["write", "flush", "announce", "interrupt", "rename 2", "rename 3", "link"])
@pytest.mark.parametrize("hard_links", [True, False])
def test_several_files_are_written_all_or_none(tmp_path, monkeypatch, step, hard_links):
    """Whatever fails, an old file is what it was, with its permissions, and a new one is absent."""
    (tmp_path / "first").write_bytes(b"old 1")
    (tmp_path / "real").write_bytes(b"old 3")
    (tmp_path / "first").chmod(0o640)
    (tmp_path / "third").symlink_to("real")
    before = sorted(os.listdir(tmp_path))
    contents = {tmp_path / "first": b"new 1", tmp_path / "second": b"new 2", tmp_path / "third": b"new 3"}
    said = []

    def announce():
        said.append(sorted(name for name in os.listdir(tmp_path) if not name.endswith(".tmp")))
        if step in ("announce", "interrupt"):
            raise ResourceError("closed pipe") if step == "announce" else KeyboardInterrupt

    if not hard_links or step == "link":
        _failing(monkeypatch, "link", None, OSError(errno.EPERM, "no links"))
    if step == "write":
        contents[tmp_path / "third"] = _full_disk
    elif step == "flush":
        _failing(monkeypatch, "fsync", 2, OSError(errno.EIO, "Input/output error"))
    elif step.startswith("rename"):
        _failing(monkeypatch, "replace", int(step[-1]), OSError(errno.EACCES, "Permission denied"))
    elif step == "link":
        _failing(monkeypatch, "copy2", None, OSError(errno.ENOSPC, "No space left on device"), files.shutil)
    with pytest.raises(KeyboardInterrupt if step == "interrupt" else ResourceError):
        files.write_together(contents, announce=announce)
    assert sorted(os.listdir(tmp_path)) == before
    assert (tmp_path / "first").read_bytes() == b"old 1"
    assert (tmp_path / "first").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "third").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"old 3"
    assert said == ([] if step in ("write", "flush") else [before])
    monkeypatch.undo()
    files.write_together(dict.fromkeys(contents, b"new"))
    assert sorted(os.listdir(tmp_path)) == sorted([*before, "second"])
    assert {path.read_bytes() for path in contents} == {b"new"}


@pytest.mark.parametrize("number", [1, 2])
def test_an_interrupt_between_two_renames_leaves_no_new_file(tmp_path, monkeypatch, number):
    """The file that had just taken its name stayed: a receipt without what it is about."""
    real, calls = os.replace, []

    def replace(*names):
        real(*names)
        calls.append(names)
        if len(calls) == number:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(KeyboardInterrupt):
        files.write_together({tmp_path / "first": b"1", tmp_path / "second": b"2"})
    assert list(tmp_path.iterdir()) == []


def test_a_read_only_folder_is_named(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    tmp_path.chmod(0o500)
    try:
        with raised(ResourceError, "Permission denied; nothing was written"):
            files.atomic_write(tmp_path / "a", b"")
    finally:
        tmp_path.chmod(0o700)


def test_killed_writer_leaves_the_old_or_the_new_file(tmp_path):
    path = tmp_path / "a"
    program = (
        "import sys; from jaxpriv._runtime.files import atomic_write\n"
        "letter, size = 0, 1 << 18\n"
        "while True:\n"
        "    atomic_write(sys.argv[1], bytes([letter]) * size)\n"
        "    letter = (letter + 1) % 256\n"
        "    print(flush=True)\n"
    )
    for writes in (1, 7, 20):
        command = [sys.executable, "-c", program, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
            assert process.stdout is not None
            for _ in range(writes):
                assert process.stdout.readline(), "the writer ended by itself"
            process.send_signal(signal.SIGKILL)
        content = path.read_bytes()
        assert len(content) == 1 << 18
        assert len(set(content)) == 1


# -- reading ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<f4", "<f2", "<i8", ">u4", "|u1"])
def test_round_trip(tmp_path, save, dtype):
    joint = np.asfortranarray(np.arange(6).reshape(2, 3).astype(dtype))
    save(tmp_path / "p.npz", joint=joint, distortion=np.ones((2, 3, 3)))
    arrays = files.load_npz_safely(tmp_path / "p.npz", ["joint", "distortion"])
    assert np.array_equal(arrays["joint"], joint)
    assert arrays["joint"].dtype.isnative
    assert arrays["joint"].flags.c_contiguous
    assert arrays["distortion"].shape == (2, 3, 3)


def test_only_named_arrays_are_returned(problem):
    assert set(files.load_npz_safely(problem, ["joint"])) == {"joint"}
    assert set(files.load_npz_safely(problem, ["joint"], ["distortion", "mechanism"])) == {"joint", "distortion"}
    with refused("no array named 'mechanism'"):
        files.load_npz_safely(problem, ["mechanism"])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_every_damaged_byte_is_found_or_harmless(tmp_path, save):
    stream = io.BytesIO()
    save(stream, joint=JOINT, distortion=DISTORTION)
    original, path, messages = stream.getvalue(), tmp_path / "p.npz", []
    for position in range(len(original)):
        damaged = bytearray(original)
        damaged[position] ^= (0x01, 0x80, 0xFF)[position % 3]
        path.write_bytes(damaged)
        try:
            arrays = files.load_npz_safely(path, ["joint", "distortion"])
        except JaxprivError as error:
            messages.append(str(error))
        else:  # the byte is one that carries nothing, such as a time stamp
            assert arrays["joint"].tobytes() == JOINT.tobytes()
            assert arrays["distortion"].tobytes() == DISTORTION.tobytes()
    assert len(messages) > 0.6 * len(original)
    assert all(str(path) in message for message in messages)


def test_every_truncation_is_found(problem):
    content = problem.read_bytes()
    for length in range(len(content)):
        problem.write_bytes(content[:length])
        with pytest.raises(IntegrityError):
            files.load_npz_safely(problem, ["joint", "distortion"])


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (np.array([True]), "b1"),
        (np.array([1j]), "c16"),
        (np.array(["a"]), "U1"),
        (np.array([b"a"]), "S1"),
        (np.array(["2020"], "M8[D]"), "M8"),
    ],
)
def test_arrays_of_other_kinds_are_bad_input(tmp_path, array, dtype):
    """Nothing is damaged: such a file was saved from the wrong array."""
    np.savez(tmp_path / "p.npz", joint=array)
    with refused(rf"'joint' has dtype .*{dtype}.*; save integers or floats"):
        files.load_npz_safely(tmp_path / "p.npz", ["joint"])


class Trap:
    """Unpickling one of these ends the test run."""

    def __reduce__(self):
        return os._exit, (99,)


def numbers(shape, data=b"\0" * 32, **options):
    """A .npy file of float64 with any text as its shape."""
    return header(f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n", data, **options)


GOOD, OBJECTS = npy(JOINT), npy(np.array([Trap()], dtype=object), allow_pickle=True)
NAMES = ["../joint.npy", "/joint.npy", "a/joint.npy", "a\\joint.npy", "joint.npy/", "joint.pkl", "joint", "é.npy"]
SHAPES = [
    "(1000000000, 1000000000)", "(10**9,)", "(-1,)", "(-2, -2)", "(True,)", "(2.0,)", "3", "(4611686018427387905, 4)",
]  # fmt: skip
HEADERS = [
    numbers("(1,)", b"\0" * 8, version=b"\x04\x00"),
    numbers("(1L,)", b"\0" * 8),
    numbers("(1,)", b"\0" * 9),
    header("{'descr': '<f8', 'shape': (1,), }\n", b"\0" * 8),
    header("[" * 3000),
    header(" " * 60000),
    header("__import__('os')._exit(99)"),
    header("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n", pickle.dumps(Trap())),
]
# The members of an archive, and what is said of them.
HOSTILE = {
    **{f"name {name}": ([("joint.npy", GOOD), (name, GOOD)], "member 1 does not have a plain name") for name in NAMES},
    **{f"shape {shape}": ([("joint.npy", numbers(shape))], "'joint'") for shape in SHAPES},
    **{f"header {i}": ([("joint.npy", content)], "'joint'") for i, content in enumerate(HEADERS)},
    "records": ([("joint.npy", npy(np.zeros(2, [("a", "<f8")])))], "'joint' has dtype .*V8|'joint' is damaged"),
    "twice": ([("joint.npy", GOOD), ("joint.npy", npy(2 * JOINT))], "'joint' occurs twice"),
    "many": ([(f"a{i}.npy", GOOD) for i in range(65)], "65 members"),
    "objects": ([("joint.npy", OBJECTS)], "has dtype"),
    "unwanted objects": ([("joint.npy", GOOD), ("other.npy", OBJECTS)], "'other' has dtype"),
    "a pickle": ([("joint.npy", pickle.dumps(Trap()))], "damaged"),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_archives_are_refused_before_anything_is_allocated_or_unpickled(tmp_path, case):
    members, message = HOSTILE[case]
    path = write_zip(tmp_path / "p.npz", members)
    tracemalloc.start()
    try:
        with raised(IntegrityError, message):
            files.load_npz_safely(path, ["joint"])
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("content", [pickle.dumps(Trap()), OBJECTS, GOOD, b"", b"joint"])
def test_what_is_no_archive_is_refused(tmp_path, content):
    (tmp_path / "p.npz").write_bytes(content)
    with raised(IntegrityError, "not a complete"):
        files.load_npz_safely(tmp_path / "p.npz", ["joint"])


def test_odd_compression_is_refused(tmp_path):
    path = write_zip(tmp_path / "p.npz", [("joint.npy", GOOD)], compression=zipfile.ZIP_LZMA)
    with raised(IntegrityError, "compression"):
        files.load_npz_safely(path, ["joint"])


def test_encrypted_members_are_refused(problem):
    content = bytearray(problem.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + offset] |= 1
    problem.write_bytes(content)
    with raised(IntegrityError, "encrypted"):
        files.load_npz_safely(problem, ["joint"])


def test_limits_on_bytes_and_rank(tmp_path):
    path = tmp_path / "p.npz"
    np.savez_compressed(path, joint=np.zeros((100, 100)))
    with raised(IntegrityError, "declares 80128 bytes"):  # small on disk, large in memory
        files.load_npz_safely(path, ["joint"], max_bytes=10_000)
    np.savez(path, joint=np.zeros((100, 100)))
    with raised(ResourceError, "over the limit"):
        files.load_npz_safely(path, ["joint"], max_bytes=10_000)
    np.savez(path, joint=np.zeros((1, 1, 1, 1)))
    with raised(IntegrityError, "4 axes"):
        files.load_npz_safely(path, ["joint"])


def test_files_that_cannot_be_read(tmp_path):
    with refused("does not exist"):
        files.load_npz_safely(tmp_path / "absent.npz", ["joint"])
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with refused("not a regular file"):
            files.load_npz_safely(path, ["joint"])
