"""Files that are written whole or not at all, and arrays read from untrusted files."""

import contextlib
import errno
import io
import math
import os
import re
import secrets
import shutil
import stat
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, TypeAlias, TypeVar

from jaxpriv.errors import InputError, IntegrityError, ResourceError

if TYPE_CHECKING:
    import numpy as np


T = TypeVar("T")

# Declared bytes of all arrays of one file: those of a table of 16,384 x 16,384 float64.
MAX_BYTES = 2**31
# Axes of an array: no command reads a file of more (a mechanism has two, several joints have three).
MAX_RANK = 3
# Arrays of one file: a checkpoint, the file with the most, has up to 53 (`solving.streamed_runs`).
MAX_MEMBERS = 64
# Bytes of an .npy header: NumPy writes 128 for so few axes, and a long one costs time to parse.
MAX_HEADER = 4096

_MEMBER = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,63})\.npy")


Content: TypeAlias = bytes | Callable[[BinaryIO], object]
FilePath: TypeAlias = str | os.PathLike[str]


def need_writable(path: FilePath, name: str) -> None:
    """`ResourceError`, which names what asks for it, unless files can be written into the folder of `path`."""
    try:
        with tempfile.TemporaryFile(dir=os.path.dirname(os.path.realpath(path))):
            pass
    except OSError as error:
        raise ResourceError(f"{name}: cannot write into the folder of {path}: {error.strerror}") from error


def same_file(first: FilePath, second: FilePath) -> bool:
    """Whether two names are, or would be, those of one file."""
    if os.path.realpath(first) == os.path.realpath(second):
        return True
    return os.path.exists(first) and os.path.exists(second) and os.path.samefile(first, second)


def atomic_write(path: FilePath, content: Content) -> None:
    """Write `content` (bytes, or a function that writes to a binary file) to `path`, whole or not at all.

    The bytes go to a temporary file in the same folder, reach the disk (fsync), and only then take
    the name `path`: whoever reads `path` gets the old file or the new one. A failure of any kind
    removes the temporary file; only a killed process leaves it behind, as `.NAME.*.tmp`, which nobody
    reads. A symbolic link is followed; anything but a regular file is refused. A file that exists keeps
    its permissions.

    Raises `InputError` if `path` is a folder, a device or a pipe, and `ResourceError` if the system
    refuses (no such folder, no permission, disk full). Exceptions of the function pass through.
    """
    write_together({path: content})


def write_together(
    contents: Mapping[FilePath, Content],
    *,
    private: Collection[FilePath] = (),
    announce: Callable[[], object] | None = None,
) -> None:
    """Write several files, all of them or none: `atomic_write` for each, with their renames at the end.

    All files are staged (written beside their names and flushed), then `announce` is called, then they take
    their names. If anything fails, in `announce` too, what stood under the names before stands there again. New
    files whose names are in `private` can be read and written by their owner only.

    Errors as for `atomic_write`; those of `announce` pass through.
    """
    staged: list[tuple[str, Path, Path]] = []
    old: list[tuple[Path, Path]] = []  # targets that existed, with another name of what stood there
    new: list[tuple[Path, Path]] = []  # targets that did not, and do now if their temporary file is gone
    try:
        for path, content in contents.items():
            if not isinstance(path, (str, os.PathLike)):
                raise InputError(f"a file is named by a text or a path, not by {type(path).__name__}")
            target = Path(os.path.realpath(path))
            if target.exists() and not target.is_file():
                raise InputError(f"{path} exists and is not a regular file; name another output")
            staged.append((str(path), target, _beside(target)))
            with _refusals(str(path)):
                _stage(staged[-1][2], content, target, private=path in private)
        if announce is not None:
            announce()
        for name, target, temporary in staged:
            with _refusals(name):
                if not target.exists():
                    new.append((target, temporary))
                    os.replace(temporary, target)
                    continue
                if len(staged) > 1:
                    old.append((target, _beside(target)))
                    _second_name(*old[-1])
                os.replace(temporary, target)
    except BaseException:
        for target, second_name in old:
            with contextlib.suppress(OSError):  # if this fails too the old file is left under its second name
                os.replace(second_name, target)
                second_name.unlink(missing_ok=True)  # two names of one file: such a rename does nothing
        made = [target for target, temporary in new if not temporary.exists()]
        for path in [*made, *(temporary for _, _, temporary in staged)]:
            with contextlib.suppress(OSError):
                path.unlink()
        raise
    for _, second_name in old:
        with contextlib.suppress(OSError):
            second_name.unlink()
    for name, target, _ in staged:
        try:
            _sync_folder(target.parent)
        except OSError as error:
            raise ResourceError(
                f"{name} is written, but its folder could not be flushed to disk ({_reason(error)}): "
                "the file may be lost if the power fails"
            ) from error


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name[:64]}.{secrets.token_hex(8)}.tmp")


@contextlib.contextmanager
def _refusals(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ResourceError(f"cannot write {name}: {_reason(error)}; nothing was written there") from error


def _stage(temporary: Path, content: Content, target: Path, *, private: bool) -> None:
    """Write and flush the temporary file, with the permissions that the target has or shall have."""
    permissions = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(temporary, flags, 0o666 if permissions is None and not private else 0o600)
    with os.fdopen(descriptor, "wb") as file:
        if isinstance(content, bytes):
            file.write(content)
        else:
            content(file)
        file.flush()
        if permissions is not None and hasattr(os, "fchmod"):
            os.fchmod(file.fileno(), permissions)
        os.fsync(file.fileno())


def _second_name(target: Path, name: Path) -> None:
    """Give the file another name that outlives a rename; a copy on file systems without hard links."""
    try:
        os.link(target, name)
    except OSError:
        shutil.copy2(target, name)


def load_npz_safely(
    path: FilePath,
    required: Collection[str],
    optional: Collection[str] = (),
    *,
    max_bytes: int = MAX_BYTES,
) -> "dict[str, np.ndarray]":
    """The arrays `required` and, where present, `optional` of an .npz file that may be hostile.

    Nothing is unpickled. Every member, wanted or not, must be a .npy array of integers or floats of
    at most 8 bytes with a plain name, and must declare exactly the bytes that its shape needs; all
    of this is checked before an array is allocated. The checksum of each returned array is checked.

    Raises `InputError` if the file or a required member is missing, or an array is of another kind (truth values,
    text, complex numbers, dates), `ResourceError` if it cannot be
    read or is larger than `max_bytes`, `IntegrityError` (file, member, rule) for everything else.
    """
    name = str(path)
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for ever
            raise InputError(f"{name} is not a regular file")
        if status.st_size > max_bytes:
            raise ResourceError(f"{name} has {status.st_size} bytes, over the limit of {max_bytes}")
        file = open(path, "rb")  # noqa: SIM115 - closed below; only the opening belongs in this try
    except FileNotFoundError as error:
        raise InputError(f"{name} does not exist") from error
    except OSError as error:
        raise ResourceError(f"cannot read {name}: {_reason(error)}") from error
    with file:
        try:
            archive = zipfile.ZipFile(file)
        except Exception as error:  # as in _guarded
            raise IntegrityError(f"{name} is not a complete .npz file (a zip of .npy arrays)") from error
        with archive:
            members = _members(name, archive, max_bytes)
            missing = sorted(set(required) - set(members))
            if missing:
                raise InputError(f"{name} has no array named {missing[0]!r}; it needs {', '.join(sorted(required))}")
            wanted = {*required, *optional}
            arrays = {}
            for member, info in members.items():
                array = _guarded(name, member, _read_member, archive, info, member in wanted)
                if array is not None:
                    arrays[member] = array
            return arrays


def _members(name: str, archive: zipfile.ZipFile, max_bytes: int) -> dict[str, zipfile.ZipInfo]:
    """The zip's directory, checked: names, count, compression, declared sizes. Nothing is decompressed."""
    infos = archive.infolist()
    if len(infos) > MAX_MEMBERS:
        raise IntegrityError(f"{name} has {len(infos)} members; at most {MAX_MEMBERS} are allowed")
    members: dict[str, zipfile.ZipInfo] = {}
    for position, info in enumerate(infos):
        match = _MEMBER.fullmatch(info.orig_filename)
        if not match:  # the name itself may be hostile: give its position only
            raise IntegrityError(f"{name}: member {position} does not have a plain name that ends in .npy")
        if match[1] in members:
            raise IntegrityError(f"{name}: member {match[1]!r} occurs twice")
        if info.flag_bits & 0x1:
            raise IntegrityError(f"{name}: member {match[1]!r} is encrypted")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise IntegrityError(f"{name}: member {match[1]!r} uses a compression other than deflate")
        members[match[1]] = info
    total = sum(info.file_size for info in infos)
    if total > max_bytes:
        raise IntegrityError(f"{name} declares {total} bytes of arrays, over the limit of {max_bytes}")
    return members


def _guarded(name: str, member: str, function: Callable[..., T], *arguments: object) -> T:
    """`function(*arguments)`, with any sign of damage turned into an `IntegrityError`."""
    try:
        return function(*arguments)
    except (InputError, IntegrityError) as error:
        raise type(error)(f"{name}: member {member!r} {error}") from None
    except MemoryError as error:
        raise ResourceError(f"{name}: not enough memory for member {member!r}") from error
    except Exception as error:
        # zipfile, zlib, tokenize and ast raise a dozen unrelated types on damaged bytes, none of them
        # documented; a list of them would let the next one through as a traceback.
        raise IntegrityError(f"{name}: member {member!r} is damaged or truncated") from error


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, wanted: bool) -> "np.ndarray | None":
    """Check one member's header against its declared size; read and return the array if it is wanted."""
    import numpy as np

    with archive.open(info) as stream:
        shape, fortran, dtype = _read_header(stream)
        if dtype.hasobject or dtype.names is not None:  # pickles, records
            raise IntegrityError(f"has dtype {dtype.str}; integers and floats of at most 8 bytes are allowed")
        if dtype.kind not in "iuf" or dtype.itemsize > 8:  # bool, complex, text, dates
            raise InputError(f"has dtype {dtype.str}; save integers or floats of at most 8 bytes")
        if len(shape) > MAX_RANK:
            raise IntegrityError(f"has {len(shape)} axes; at most {MAX_RANK} are allowed")
        if any(isinstance(size, bool) or size < 0 for size in shape):
            raise IntegrityError("has a shape that is not made of sizes")
        size = math.prod(shape) * dtype.itemsize  # Python integers: no overflow
        if stream.tell() + size != info.file_size:
            raise IntegrityError(f"declares a shape that needs {size} bytes, but holds another number of bytes")
        if not wanted:
            return None
        data = stream.read(size)
        # Reading past the end is what makes zipfile compare the checksum.
        if len(data) != size or stream.read(1):
            raise IntegrityError("is truncated")
    array = np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if fortran else "C")
    return array.astype(dtype.newbyteorder("="), order="C")


def _read_header(stream: IO[bytes] | io.BufferedIOBase) -> "tuple[tuple[int, ...], bool, np.dtype]":
    # The stream has the type that zipfile declares, and the one that it returns.
    import numpy as np

    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise IntegrityError("has an unknown .npy version; write it with numpy.save")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # numpy warns of headers that it had to repair: refuse those
        try:
            return readers[version](stream, max_header_size=MAX_HEADER)
        except Warning as warning:
            raise IntegrityError("has a header that numpy did not write") from warning


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # a folder cannot be opened there, and os.replace writes through
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some file systems do not support fsync on folders; they have nothing to flush.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__
