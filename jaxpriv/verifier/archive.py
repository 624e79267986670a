"""Containers of designs and audits: an uncompressed zip of fixed form, canonical JSON, and plain .npy arrays.

One sequence of members has exactly one encoding: fixed order, fixed date, no extra fields, no comments. A file is
accepted if encoding what was read from it gives the file again, so a reader needs no rule for duplicate names,
compression, encryption, overlapping members, data behind the end or paths: none of them can be written in this form.
Standard library only.
"""

import gzip
import hashlib
import io
import json
import math
import os
import re
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from jaxpriv.errors import InputError, IntegrityError, ResourceError

# Strict JSON without floats: numbers that matter are decimal texts.
Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | bool | None"

# Of a file, which is read whole: sizes in a zip file without extensions are 32-bit numbers.
MAX_BYTES = 2**31
# Of a compressed file, read together.
_AT_ONCE = 2**20
# Of JSON: no record here is nested deeper than half of it, and Python's parser recurses.
MAX_DEPTH = 16
# Of an archive: that of groups of columns has one for each group.
MAX_MEMBERS = 256

_NAME = re.compile(rb"[a-z][a-z_]{0,31}\.(json|npy)|(?:group_[1-9][0-9]{0,2}|earlier)\.zip")
_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_CENTRAL = struct.Struct("<4sHHHHHHIIIHHHHHII")
_END = struct.Struct("<4sHHHHIIH")
_VERSION, _DATE = 20, 0x21  # 2.0: stored members; 1 January 1980

# A text to its end, or to that of the content, in one step; or a bracket outside of texts.
_STRUCTURE = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(
    rb"\{'descr': '(<[fiu]8)', 'fortran_order': False, 'shape': \((\d{1,12},|\d{1,12}(?:, \d{1,12}){1,2})\), \} *\n"
)
_CODES = {"<f8": "d", "<i8": "q", "<u8": "Q"}


def read_file(path: str | os.PathLike[str], most: int = MAX_BYTES) -> bytes:
    """The bytes of a file; `InputError` if it is absent or no file, `ResourceError` if unreadable or above `most`."""
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(f"a file is named by a text or a path, not by {type(path).__name__}")
    try:
        if not Path(path).exists():
            raise InputError(f"{path} does not exist")
        if not Path(path).is_file():
            raise InputError(f"{path} is not a regular file")
        if Path(path).stat().st_size > most:
            raise ResourceError(f"{path} is larger than {most} bytes")
        return Path(path).read_bytes()
    except OSError as error:
        raise ResourceError(f"cannot read {path}: {error.strerror}") from error


def decompressed(data: bytes, name: str, most: int = MAX_BYTES) -> bytes:
    """What a gzip file holds; `ResourceError` if that is more than `most` bytes, `InputError` if it is damaged."""

    def parts() -> Iterator[bytes]:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            while part := stream.read(_AT_ONCE):
                yield part

    size = 0
    try:
        for part in parts():  # counted before anything is kept: a few bytes may stand for more than there is memory
            size += len(part)
            if size > most:
                raise ResourceError(f"{name} holds more than {most} bytes")
        return b"".join(parts())
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise InputError(f"{name} is not a complete gzip file, or is damaged") from None


def pack(members: Mapping[str, bytes]) -> bytes:
    """The zip file of `members`, in their order."""
    body, directory = bytearray(), bytearray()
    for name, content in members.items():
        label = name.encode("ascii")
        common = (0, 0, 0, _DATE, zlib.crc32(content), len(content), len(content), len(label), 0)
        directory += _CENTRAL.pack(b"PK\x01\x02", _VERSION, _VERSION, *common, 0, 0, 0, 0, len(body)) + label
        body += _LOCAL.pack(b"PK\x03\x04", _VERSION, *common) + label + content
    count = len(members)
    end = _END.pack(b"PK\x05\x06", 0, 0, count, count, len(directory), len(body), 0)
    return bytes(body + directory + end)


def unpack(data: bytes, name: str) -> dict[str, bytes]:
    """The members of a file that `pack` wrote; `IntegrityError` naming the file `name` for anything else."""
    members: dict[str, bytes] = {}
    place = 0
    while data[place : place + 4] == b"PK\x03\x04" and len(members) < MAX_MEMBERS:
        if len(data) < place + _LOCAL.size:
            break
        fields = _LOCAL.unpack_from(data, place)
        size, length = fields[8], fields[9]
        start = place + _LOCAL.size
        label = data[start : start + length]
        if not _NAME.fullmatch(label) or label.decode() in members:
            break
        place = start + length + size
        members[label.decode()] = data[start + length : place]
    # Sizes are checked by this too: a short last member makes another file.
    if not members or pack(members) != data:
        raise IntegrityError(f"{name} is damaged, incomplete, or not a file of this kind")
    return members


# -- JSON ------------------------------------------------------------------------------------------


def canonical(record: Json) -> bytes:
    """The one encoding of a record: sorted keys, no blanks, ASCII, a final newline."""
    return (json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False) + "\n").encode()


def sealed(record: Mapping[str, Json]) -> bytes:
    """`canonical` of the record with a field `sha256`: the hash of the canonical record without it."""
    return canonical({**record, "sha256": digest(canonical(dict(record)))})


def strict(content: bytes, name: str, *, plain: bool = True) -> Json:
    """JSON without duplicate keys, NaN, deep nesting or half characters; `IntegrityError` otherwise.

    With `plain` it is ASCII, and without floats.
    """

    def unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        if len({key for key, _ in pairs}) < len(pairs):
            raise IntegrityError(f"{name}: a field occurs twice")
        return dict(pairs)

    def refuse(number: str) -> None:
        if plain:  # a number may be a value of the data
            raise IntegrityError(f"{name} holds a number that is not whole")
        raise IntegrityError(f"{name} holds {number}, which strict JSON has not")

    if len(content) > MAX_BYTES or _depth(content) > MAX_DEPTH:
        raise IntegrityError(f"{name} is larger or nested deeper than any file of this kind")
    try:
        record = json.loads(
            content.decode("ascii" if plain else "utf-8"),
            object_pairs_hook=unique,
            parse_constant=refuse,
            parse_float=refuse if plain else None,
        )
        # A surrogate by itself is no character: a text that has one cannot be written to a file.
        json.dumps(record, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise IntegrityError(f"{name} is not complete JSON") from None
    return record


def _depth(content: bytes) -> int:
    """The nesting of the JSON; brackets inside of texts are none of it."""
    deepest = level = 0
    for part in _STRUCTURE.finditer(content):
        if part[0] in (b"[", b"{"):
            level += 1
            deepest = max(deepest, level)
        elif part[0] in (b"]", b"}"):
            level -= 1
    return deepest


def digest(content: bytes) -> str:
    """SHA-256 in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


# -- arrays ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """An array of rank 1 to 3: its shape and its numbers in C order."""

    shape: tuple[int, ...]
    numbers: Sequence[Any]

    def rows(self) -> Iterator[Sequence[Any]]:
        """The rows of a matrix."""
        width = self.shape[1]
        return (self.numbers[start : start + width] for start in range(0, len(self.numbers), width or 1))


def array(content: bytes, name: str, kind: str, rank: int) -> Table:
    """A .npy member of dtype `kind` ("<f8", "<i8", "<u8") and this rank; `IntegrityError` otherwise."""
    header = content[10 : 10 + int.from_bytes(content[8:10], "little")]
    match = _HEADER.fullmatch(header)
    if content[:8] != _MAGIC or not match or (10 + len(header)) % 64:
        raise IntegrityError(f"{name} is not an array as numpy.save writes them")
    shape = tuple(int(size) for size in match[2].decode().rstrip(",").split(","))
    if match[1].decode() != kind or len(shape) != rank:
        raise IntegrityError(f"{name} is not of kind {kind} and rank {rank}")
    data = content[10 + len(header) :]
    if math.prod(shape) * 8 != len(data):
        raise IntegrityError(f"{name} declares a shape that needs another number of bytes")
    numbers = struct.unpack(f"<{math.prod(shape)}{_CODES[kind]}", data)
    if kind == "<f8" and not all(map(math.isfinite, numbers)):
        raise IntegrityError(f"{name} holds numbers that are not finite")
    return Table(shape, numbers)
