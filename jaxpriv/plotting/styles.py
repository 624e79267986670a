"""The style of all figures, how they are written, and one colour and marker for every solver."""

import contextlib
import functools
import importlib.util
import io
import os
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING

from jaxpriv._files import atomic_write
from jaxpriv.errors import InputError, ResourceError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Metadata about the moment and the program that made a file, left out so that it is reproducible.
_METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
    "svg": {"Creator": None, "Date": None},
}

# Okabe and Ito's colours, which stay apart for colour-blind readers, without their yellow: it is faint on white.
COLOURS: Mapping[str, str] = MappingProxyType(
    {
        "blue": "#0072B2",
        "red": "#D55E00",
        "green": "#009E73",
        "purple": "#CC79A7",
        "orange": "#E69F00",
        "sky": "#56B4E9",
        "black": "#333333",
        "grey": "#888888",
    }
)

# (colour, marker): a solver looks the same in every figure. Those of this package have filled markers.
_SOLVERS: Mapping[str, tuple[str, str]] = {
    "interior-point": ("blue", "o"),
    "mirror-descent": ("green", "s"),
    "blahut-arimoto": ("purple", "^"),
    "accelerated": ("orange", "D"),
    "two-grid": ("sky", "v"),
    "linear-program": ("black", "P"),
    "hybrid-gradient": ("grey", "X"),
    "column-generation": ("blue", "o"),
    "greedy": ("red", "s"),
    "greedy-ratio": ("orange", "D"),
    "greedy-bottleneck": ("purple", "v"),
    "difference-of-convex": ("green", "^"),
    "alternating": ("sky", "P"),
    "bottleneck-iteration": ("grey", "X"),
    "clarabel": ("red", "o"),
    "ecos": ("purple", "s"),
    "scs": ("grey", "^"),
    "highs": ("black", "v"),
    "highs-ipm": ("sky", "P"),
    "qif": ("green", "X"),
    "dit": ("black", "D"),
    "moreau": ("green", "P"),
    "dnlp-ipopt": ("purple", "v"),
    "qics": ("black", "X"),
}
_OTHERS = frozenset({"clarabel", "ecos", "scs", "highs", "highs-ipm", "qif", "dit", "moreau", "dnlp-ipopt", "qics"})


def solver_style(name: str) -> dict[str, str | float]:
    """Colour and marker of a solver, as keywords of `Axes.plot`; grey points for one that is not listed.

    The solvers of other packages have open markers and dashed lines.
    """
    colour, marker = _SOLVERS.get(name, ("grey", "."))
    own = {"color": COLOURS[colour], "marker": marker, "ms": 3.4}
    return {**own, "mfc": "white", "ls": "--"} if name in _OTHERS else {**own, "ls": "-"}


def require_matplotlib() -> None:
    """Raise `ResourceError` with the remedy if matplotlib is not installed; call it before long work."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ResourceError("figures need matplotlib, which is not installed: pip install 'jaxpriv[plots]'")


@contextlib.contextmanager
def style() -> Iterator[None]:
    """The settings of jaxpriv's figures, for the block only."""
    require_matplotlib()
    import matplotlib

    with (
        resources.as_file(resources.files("jaxpriv").joinpath("data", "jaxpriv.mplstyle")) as path,
        matplotlib.rc_context(fname=path),
    ):
        yield


@functools.cache
def _shown_by_notebooks() -> "type[Figure]":
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        def _repr_png_(self) -> bytes:
            return image_bytes(self)

        # Ticks are made when a figure is drawn, in the style of that moment.
        def savefig(
            self, fname: "str | os.PathLike[str] | IO[bytes]", *, transparent: bool | None = None, **settings: object
        ) -> None:
            with style():
                super().savefig(fname, transparent=transparent, **settings)

    return NotebookFigure


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure of so many inches. A notebook shows it as the value of a cell, also where pyplot, which would
    enable that for every figure, is not imported.
    """
    return _shown_by_notebooks()(figsize=(width, height))


def image_bytes(figure: "Figure", kind: str = "png") -> bytes:
    """The figure as a png, pdf or svg file.

    Raises `InputError` for a `kind` of file other than these.
    """
    if kind not in _METADATA:
        raise InputError(f"figures are written as {', '.join(_METADATA)}, not {kind}")
    stream = io.BytesIO()
    with style():
        figure.savefig(stream, format=kind, metadata=_METADATA[kind])
    return stream.getvalue()


def save(figure: "Figure", path: str | os.PathLike[str]) -> None:
    """Write a figure to a file that ends in .png, .pdf or .svg, whole or not at all."""
    atomic_write(path, image_bytes(figure, Path(path).suffix.lower().removeprefix(".")))
