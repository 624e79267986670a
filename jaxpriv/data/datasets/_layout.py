"""A joint distribution counted from people, whose symbols are combinations of named attributes."""

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from jaxpriv._runtime.module import summary
from jaxpriv._runtime.resources import need_memory
from jaxpriv.errors import InputError, IntegrityError, ResourceError


@dataclass(frozen=True, eq=False)
class Dataset:
    """A joint distribution counted from people, S and X being combinations of named attributes.

    Symbols are sorted by their attribute codes; combinations without records are left out, so both
    marginals are positive. Arrays are read-only host arrays.

    Attributes:
        joint: `(S, X)` float64, `counts / counts.sum()`.
        counts: `(S, X)` int64, people.
        private_names, useful_names: the attributes that make up S and X.
        private_values, useful_values: per attribute, the label of each code.
        private_attributes, useful_attributes: `(S, a)` and `(X, b)` int64, the codes of each symbol.
            The mean number of attributes in which x and y differ is the attribute-wise Hamming
            distortion of `useful_attributes`.
        source: whom to name when the data are used, and the licence.
    """

    joint: np.ndarray
    counts: np.ndarray
    private_names: tuple[str, ...]
    useful_names: tuple[str, ...]
    private_values: tuple[tuple[str, ...], ...] = field(repr=False)
    useful_values: tuple[tuple[str, ...], ...] = field(repr=False)
    private_attributes: np.ndarray
    useful_attributes: np.ndarray
    source: str

    __repr__ = summary

    @property
    def private_labels(self) -> tuple[tuple[str, ...], ...]:
        """Per private symbol, its attribute values as text."""
        return _labels(self.private_attributes, self.private_values)

    @property
    def useful_labels(self) -> tuple[tuple[str, ...], ...]:
        """Per useful symbol, its attribute values as text."""
        return _labels(self.useful_attributes, self.useful_values)


@dataclass(frozen=True)
class Side:
    """S or X before counting: attribute names, the labels of their codes, and the codes `(n, attributes)` of n rows."""

    names: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    codes: np.ndarray


def distinct_rows(codes: np.ndarray, sizes: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """The different rows of `codes` in lexicographic order, and the place of each row among them.

    `codes[:, k]` lies in `0 .. sizes[k] - 1`.
    """
    if math.prod(sizes) < 2**62:  # one number for each row: much faster than comparing rows
        flat, index = np.unique(np.ravel_multi_index(tuple(codes.T), tuple(sizes)), return_inverse=True)
        symbols = np.stack(np.unravel_index(flat, tuple(sizes)), axis=1)
    else:
        symbols, index = np.unique(codes, axis=0, return_inverse=True)
    return symbols.astype(np.int64), index.reshape(-1)


def columns_added(table: np.ndarray, place: np.ndarray) -> np.ndarray:
    """`table` (S, X) with the columns of equal `place` (X,) added up: (S, k) for places in 0 .. k - 1."""
    added = np.zeros((len(table), int(place.max(initial=-1)) + 1), table.dtype)
    np.add.at(added.T, place, table.T)
    return added


def places_of(rows: np.ndarray, listed: np.ndarray) -> np.ndarray:
    """The place (n,) of each row (n, a) among `listed` (k, a), -1 where it is none of them."""
    place = {row: k for k, row in enumerate(map(tuple, listed.tolist()))}
    return np.array([place.get(row, -1) for row in map(tuple, rows.tolist())], dtype=np.int64)


def counted(private: Side, useful: Side, people: np.ndarray, source: str) -> tuple[Dataset, np.ndarray, np.ndarray]:
    """The dataset of rows that stand for `people` (n,) each, and the symbols s (n,) and x (n,) of the rows."""
    (private_codes, s), (useful_codes, x) = (
        distinct_rows(side.codes, [len(labels) for labels in side.values]) for side in (private, useful)
    )
    shape = (len(private_codes), len(useful_codes))
    need_memory(24.0 * shape[0] * shape[1], "the table of counts", "use fewer classes")
    counts = np.zeros(shape, dtype=np.int64)
    np.add.at(counts, (s, x), people)
    joint = counts / counts.sum()
    for array in (joint, counts, private_codes, useful_codes):
        array.setflags(write=False)
    dataset = Dataset(
        joint=joint,
        counts=counts,
        private_names=private.names,
        useful_names=useful.names,
        private_values=private.values,
        useful_values=useful.values,
        private_attributes=private_codes,
        useful_attributes=useful_codes,
        source=source,
    )
    return dataset, s, x


def _labels(codes: np.ndarray, values: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(labels[code] for labels, code in zip(values, row, strict=True)) for row in codes)


# Raw files that are byte for byte those of their publishers: fetched once, checked by SHA256.


@dataclass(frozen=True)
class Originals:
    """File names with the SHA256 of the originals, the address of their folder, and the function that fetches them."""

    files: Mapping[str, str]
    url: str
    fetcher: str

    def fetch(self, cache: str | os.PathLike[str] | None, local: str | os.PathLike[str] | None) -> Path:
        """A folder with the original files: `local` if given, else `cache` (or the user's), downloaded where absent.

        Raises `IntegrityError` if a file is not the original, `InputError` if a local file is missing,
        `ResourceError` if pooch is not installed or the download fails.
        """
        if local is not None:
            for name in self.files:
                self.read(local, name)
            return Path(local)
        try:
            import pooch  # an extra
        except ImportError as error:
            raise ResourceError("downloading needs pooch: pip install 'jaxpriv[data]', or pass local=FOLDER") from error
        folder = Path(cache if cache is not None else pooch.os_cache("jaxpriv"))
        for name, sha256 in self.files.items():
            try:
                pooch.retrieve(self.url + name, known_hash=f"sha256:{sha256}", fname=name, path=folder)
            except ValueError as error:  # pooch deletes the file and says so
                raise IntegrityError(f"the download of {name} is not the original file (SHA256 differs)") from error
            except OSError as error:  # requests' exceptions and a full disk alike
                raise ResourceError(
                    f"cannot fetch {name} into {folder} ({type(error).__name__}); "
                    "offline, pass local=FOLDER with a copy of the original files"
                ) from error
        return folder

    def read(self, folder: str | os.PathLike[str], name: str, *, verify: bool = True) -> bytes:
        """The bytes of one file in `folder`; `IntegrityError` if `verify` and they are not the original's."""
        path = Path(folder) / name
        try:
            content = path.read_bytes()
        except FileNotFoundError as error:
            raise InputError(f"{path} does not exist; jaxpriv.datasets.{self.fetcher}() downloads it") from error
        except OSError as error:
            raise ResourceError(f"cannot read {path}: {error.strerror}") from error
        if verify and hashlib.sha256(content).hexdigest() != self.files[name]:
            raise IntegrityError(
                f"{path} is not the original file (SHA256 differs); many copies in circulation have a header added, "
                f"spaces stripped or line ends changed; jaxpriv.datasets.{self.fetcher}() downloads the original"
            )
        return content
