"""Raw files that are byte for byte those of their publishers: fetched once, checked by SHA256."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jaxpriv.errors import InputError, IntegrityError, ResourceError


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
