"""Executables kept on disk, so that the next process loads in a tenth of a second what took seconds to compile.

A kept executable is machine code in a pickle: whoever can write one runs code as whoever loads it. So only what this
library wrote itself, as this user, into this folder is loaded:

* the folder and its files belong to the user, and nobody else may read or write them (0700, 0600; no symbolic links);
* every file begins with a code (HMAC-SHA256) of its name and content under a secret that is made with the folder and
  never leaves it. It is verified before anything of the content is read: a damaged file, one under another name, and
  one that was made elsewhere are ignored with one line of the logger, removed, and compiled again.

What is trusted is the user's own account: who can write as the user needs no cache to run code as the user.

Files are written under other names and renamed, so that processes which write the same one do not disturb each other.
Beyond `MOST_BYTES` the least recently used ones are removed.

Executables of accelerators are kept by JAX's own compilation cache, which knows what they depend on (drivers, tuning),
in a folder inside of ours.

A folder that JAXPRIV_CACHE names may be a user's: it is used if it was empty at first, and has a mark since. Without
the mark nothing in it is touched, and with it only files with names of ours.
"""

import functools
import hashlib
import hmac
import logging
import os
import pickle
import re
import secrets
import stat
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import jax
from jax.experimental import serialize_executable
from jax.experimental.compilation_cache import compilation_cache
from jaxtyping import PyTree

_LOGGER = logging.getLogger("jaxpriv")

SWITCH = "JAXPRIV_CACHE"
# Bytes on the disk of all kept executables together, and of one that is read. A choice.
MOST_BYTES = 256 * 2**20
# The file with the key of the HMAC-SHA256 of every executable; the key is as long as the hash (RFC 2104, section 3).
_SECRET, _SECRET_BYTES = "secret", 32
_SUFFIX, _TEMPORARY = ".executable", ".tmp"
# Names of executables (a key of `compilation.key_of`) and of files that are being written.
_OURS = re.compile(rf"[0-9a-f]{{64}}{re.escape(_SUFFIX)}|[0-9a-f]{{16}}{re.escape(_TEMPORARY)}")
# An empty file in every folder of ours.
_MARK = ".jaxpriv-executables"
# The folder of JAX's own cache, and the names of its executables.
_FOLDER_OF_JAX, _OF_JAX = "jax", re.compile(r".+-cache")
# Loaded by JAX, with the functions that it calls by address, when it first lowers a program that has any of them.
_LAPACK = "scipy.linalg.cython_lapack"
# A temporary file that is older was left behind by a process that was killed.
_ABANDONED = 3600.0


class UnusableError(Exception):
    """Why nothing can be kept; `unsafe` where the reason is a risk to the user, which is reported."""

    def __init__(self, reason: str, unsafe: bool = False):
        super().__init__(reason)
        self.unsafe = unsafe


class _File(NamedTuple):
    """A file that is kept: when it was used last, its bytes, and its path in our folder."""

    used: float
    size: int
    name: str


class Contents(NamedTuple):
    """What is kept: how many executables, and their bytes on disk."""

    executables: int
    size: int


def folder() -> Path:
    """Where executables are kept: the folder that JAXPRIV_CACHE names, else one in the user's cache folder.

    Raises:
        UnusableError: they are not kept, and why.
    """
    chosen = os.environ.get(SWITCH, "")
    if chosen.lower() == "off":
        raise UnusableError(f"switched off by {SWITCH}")
    if jax.config.jax_enable_compilation_cache and jax.config.jax_compilation_cache_dir:
        # An executable that JAX took from its own cache cannot be written again: XLA leaves out its functions.
        raise UnusableError("JAX keeps them itself, in its own compilation cache")
    if not hasattr(os, "geteuid"):
        raise UnusableError("this system has no owners of files that could be checked")
    if chosen:
        if not os.path.isabs(chosen):
            raise UnusableError(f"{SWITCH} is neither 'off' nor an absolute path")
        return Path(chosen)
    above = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(above):  # the standard says that others are to be ignored
        above = os.path.join(os.path.expanduser("~"), ".cache")
    if not os.path.isabs(above):
        raise UnusableError("the user has no home folder")
    return Path(above) / "jaxpriv" / "executables"


def enabled() -> bool:
    """Whether there is a place for executables."""
    try:
        folder()
    except UnusableError:
        return False
    return True


def prepare() -> None:
    """Make the folder if there is none.

    Raises:
        UnusableError: as `folder`; or the folder cannot be made, or others may enter it.
    """
    try:
        with _opened(create=True):
            pass
    except OSError as error:
        raise UnusableError(f"the folder cannot be made: {error.strerror}") from error


def contents() -> Contents:
    """What is kept now; raises `UnusableError` as `folder`."""
    with _opened(create=False) as place:
        sizes = [size for _, size, _ in (*_files(place), *_kept_by_jax(place))]
    return Contents(len(sizes), sum(sizes))


def clear() -> Contents:
    """Remove all executables on disk, with the secret that signs them and the mark of the folder, and count them.

    Raises `UnusableError` as `folder`, and for a folder that is not ours.
    """
    with _opened(create=False, safe=False) as place:
        files = [*_kept_by_jax(place), *_files(place)]
        for name in [*(name for _, _, name in files), _SECRET, _MARK]:
            _remove(place, name)
        with suppress(OSError):  # there is none, or it has files of others
            os.rmdir(_FOLDER_OF_JAX, dir_fd=place)
    return Contents(len(files), sum(size for _, size, _ in files))


def has(key: str) -> bool:
    """Whether there is a file of this name. What it holds is not read."""
    try:
        with _opened(create=False) as place:
            os.stat(key + _SUFFIX, dir_fd=place, follow_symlinks=False)
    except (UnusableError, OSError):  # `load` logs what is unsafe, once it is needed
        return False
    return True


def load(key: str, args: tuple[PyTree, ...]) -> Callable[..., PyTree] | None:
    """The executable of this name, ready to be called with arguments like `args`; None if there is none to be used."""
    try:
        with _opened(create=False) as place:
            name = key + _SUFFIX
            secret = _secret(place, create=False)
            content = _read(place, name)
            if secret is None or content is None:
                return None
            code, packed = content[: hashlib.sha256().digest_size], content[hashlib.sha256().digest_size :]
            if not hmac.compare_digest(code, _code(secret, key, packed)):
                _say("a kept executable is damaged or was not made here: it is ignored and compiled again")
                _remove(place, name)
                return None
            try:
                payload, like, lapack = pickle.loads(zlib.decompress(packed))
                if lapack:
                    _find_lapack()
                structures = jax.tree.structure((args, {})), jax.tree.structure(like)
                device = jax.local_devices()[0]
                run = serialize_executable.deserialize_and_load(payload, *structures, execution_devices=[device])
            except Exception as error:  # by JAX, XLA, zlib or pickle, each with errors of its own
                _say(f"a kept executable does not load ({type(error).__name__}): it is ignored and compiled again")
                _remove(place, name)
                return None
            os.utime(name, dir_fd=place, follow_symlinks=False)  # it was used now
            return run
    except (UnusableError, OSError) as error:
        _say_unsafe(error)
        return None


def keep(key: str, executable: jax.stages.Compiled) -> None:
    """Write a compiled program under this name. What cannot be written is not kept, which changes no result."""
    try:
        payload, _, structure = serialize_executable.serialize(executable)
        like = jax.tree.unflatten(structure, range(structure.num_leaves))  # its structure does not pickle itself
        packed = zlib.compress(pickle.dumps((payload, like, _LAPACK in sys.modules)), 1)
    except Exception as error:  # of a kind that this JAX does not write, or whose results have a class without a name
        _LOGGER.debug("an executable is not kept: %s", error)
        return
    try:
        with _opened(create=True) as place:
            secret = _secret(place, create=True)
            if secret is not None:
                _write(place, key + _SUFFIX, _code(secret, key, packed) + packed)
                _evict(place, _files(place))
    except (UnusableError, OSError) as error:
        _say_unsafe(error)


_BY_JAX = threading.Lock()  # of the number below, and of JAX's settings while it changes
_inside = 0


@contextmanager
def by_jax() -> Iterator[None]:
    """What is compiled inside is kept by JAX's own compilation cache, and found there by the next process.

    JAX's setting is put back. It stays as it is where the caller has switched that cache on, or nothing can be kept.
    """
    try:
        place = folder() / _FOLDER_OF_JAX
        prepare()
        place.mkdir(mode=0o700, exist_ok=True)
    except (UnusableError, OSError) as error:
        _say_unsafe(error)
        place = None
    if place is None:
        yield
        return
    _count_inside(1, str(place))
    try:
        yield
    finally:
        _count_inside(-1, None)
        with suppress(UnusableError), _opened(create=False) as ours:
            _evict(ours, _kept_by_jax(ours))


def _count_inside(change: int, place: str | None) -> None:
    """The first thread in sets the folder of JAX's cache, the last one out puts None back. JAX reads it once."""
    global _inside
    with _BY_JAX:
        if _inside == max(0, -change):
            jax.config.update("jax_compilation_cache_dir", place)
            compilation_cache.reset_cache()
        _inside += change


def _kept_by_jax(place: int) -> list[_File]:
    """The files of JAX's folder inside of ours; none where there is no such folder."""
    return _files(place, _FOLDER_OF_JAX, _OF_JAX)


def discard(key: str, reason: str) -> None:
    """Remove the executable of this name, which does not run, and say so."""
    try:
        with _opened(create=False) as place:
            _say(f"a kept executable {reason}: it is ignored and compiled again")
            _remove(place, key + _SUFFIX)
    except (UnusableError, OSError) as error:
        _say_unsafe(error)


@functools.cache
def _find_lapack() -> None:
    """Have JAX look up the addresses of LAPACK's functions. An executable that is loaded calls them as they are, and
    ends the process where nothing has been lowered that needed them."""
    jax.jit(jax.lax.linalg.cholesky).lower(jax.ShapeDtypeStruct((1, 1), "float32"))


def _code(secret: bytes, key: str, packed: bytes) -> bytes:
    return hmac.digest(secret, key.encode() + packed, "sha256")


@contextmanager
def _opened(*, create: bool, safe: bool = True) -> Iterator[int]:
    """A descriptor of the folder, once it has been seen that nobody else may write there (unless not `safe`)."""
    path = folder()
    if create:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.mkdir(exist_ok=True, mode=0o700)
    try:
        place = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise UnusableError("nothing has been kept yet") from error
    except OSError as error:
        raise UnusableError(f"the folder cannot be opened: {error.strerror}") from error
    try:
        if not _private(os.fstat(place), owner_only=safe):
            raise UnusableError(
                "the folder of kept executables can be entered by others than its owner, or is not yours: it is not "
                "used (`jaxpriv cache` prints its name; remove it, or take the rights of others away)",
                unsafe=True,
            )
        _claim(place, create)
        yield place
    finally:
        os.close(place)


def _claim(place: int, create: bool) -> None:
    """See that the folder is ours; with `create` an empty one, and that in the user's cache folder, becomes so.

    Raises:
        UnusableError: it is not.
    """
    if _marked(place):
        return
    # The mark is the first file of a folder of ours: if there is none after the others were seen, they are not ours.
    if os.environ.get(SWITCH) and os.listdir(place) and not _marked(place):
        raise UnusableError(
            f"the folder that {SWITCH} names has files in it and was not made by jaxpriv: nothing there is used or "
            "removed; name a new or an empty folder",
            unsafe=True,
        )
    if create:
        with suppress(FileExistsError):  # another process was first
            os.close(os.open(_MARK, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=place))


def _marked(place: int) -> bool:
    try:
        os.stat(_MARK, dir_fd=place, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _private(status: os.stat_result, owner_only: bool = True) -> bool:
    """Whether a file or folder is this user's, and (`owner_only`) nobody else has any rights to it."""
    return status.st_uid == os.geteuid() and not (owner_only and stat.S_IMODE(status.st_mode) & 0o077)


def _read(place: int, name: str) -> bytes | None:
    """The content of a file in the folder, None if there is none or it is not to be trusted."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=place)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not (stat.S_ISREG(status.st_mode) and _private(status) and status.st_size <= MOST_BYTES):
            _say("a kept executable could have been written by others: it is ignored")
            return None
        return file.read()


def _write(place: int, name: str, content: bytes, replace: bool = True) -> None:
    """Whole or not at all; without `replace` a file that exists stays."""
    temporary = f"{secrets.token_hex(8)}{_TEMPORARY}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=place)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
        if replace:
            os.replace(temporary, name, src_dir_fd=place, dst_dir_fd=place)
        else:
            os.link(temporary, name, src_dir_fd=place, dst_dir_fd=place)
    except FileExistsError:
        pass
    finally:
        _remove(place, temporary)


def _secret(place: int, *, create: bool) -> bytes | None:
    """The folder's secret; None if there is none. One that is damaged is replaced, with which all files lose theirs."""
    secret = _read(place, _SECRET)
    if secret is not None and len(secret) == _SECRET_BYTES:
        return secret
    if not create:
        return None
    if secret is not None:
        _remove(place, _SECRET)
    _write(place, _SECRET, secrets.token_bytes(_SECRET_BYTES), replace=False)
    return _read(place, _SECRET)  # another process's, if that was first


def _files(place: int, inner: str = ".", names: re.Pattern[str] = _OURS) -> list[_File]:
    """The files with such names in our folder, or in one inside of it; none where it is no folder."""
    try:
        inside = os.open(inner, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
    except OSError:
        return []
    files = []
    try:
        for name in filter(names.fullmatch, os.listdir(inside)):
            with suppress(FileNotFoundError):  # another process removed it
                status = os.stat(name, dir_fd=inside, follow_symlinks=False)
                files.append(_File(status.st_mtime, status.st_size, os.path.join(inner, name)))
    finally:
        os.close(inside)
    return files


def _evict(place: int, files: list[_File]) -> None:
    """Remove the least recently used executables beyond the limit, and what killed processes have left behind."""
    size = 0
    for used, length, name in sorted(files, reverse=True):
        if name.endswith(_TEMPORARY):
            goes = time.time() - used > _ABANDONED
        else:
            size += length
            goes = size > MOST_BYTES
        if goes:
            _remove(place, name)


def _remove(place: int, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=place)


def _say_unsafe(error: Exception) -> None:
    if isinstance(error, UnusableError) and error.unsafe:
        _say(str(error))
    else:
        _LOGGER.debug("executables are not kept: %s", error)


@functools.cache
def _say(line: str) -> None:
    """Once in a process."""
    _LOGGER.warning("%s (%s=off: nothing is kept)", line, SWITCH)
