"""The style of all figures, how they are written, and one colour and marker for every solver."""

import contextlib
import functools
import importlib.util
import io
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any

from jaxpriv._runtime.files import FilePath, atomic_write
from jaxpriv._runtime.validation import instance, scalar
from jaxpriv.errors import InputError, ResourceError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Settings of each kind of file: metadata about the moment and the program that made it, left out so that it is
# reproducible.
_KINDS: dict[str, dict[str, Any]] = {
    "png": {"metadata": {"Software": None}},
    "pdf": {"metadata": {"Creator": None, "Producer": None, "CreationDate": None}},
    "svg": {"metadata": {"Creator": None, "Date": None}},
    "pgf": {},
}

# Inches of one column and of the text. What a journal states in its instructions takes precedence.
WIDTHS: Mapping[str, float] = MappingProxyType(
    {
        "ieee": 3.5,
        "ieee-text": 7.16,
        "acm": 3.33,
        "acm-text": 7.0,
        "usenix": 3.33,
        "usenix-text": 7.0,
        "icml": 3.25,
        "icml-text": 6.75,
        "neurips": 5.5,
        "lncs": 4.8,
        "elsevier": 3.54,
        "elsevier-text": 7.48,
    }
)

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
    "augmented-lagrangian": ("red", "d"),
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
    "mpax": ("orange", "s"),
    "dnlp-ipopt": ("purple", "v"),
    "qics": ("black", "X"),
}
_OTHERS = frozenset(
    {"clarabel", "ecos", "scs", "highs", "highs-ipm", "qif", "dit", "moreau", "mpax", "dnlp-ipopt", "qics"}
)


def solver_style(name: str) -> dict[str, str | float]:
    """Colour and marker of a solver, as keywords of `Axes.plot`; grey points for one that is not listed.

    The solvers of other packages have open markers and dashed lines.
    """
    colour, marker = _SOLVERS.get(name, ("grey", "."))
    keywords = {"color": COLOURS[colour], "marker": marker, "ms": 3.4}
    return {**keywords, "mfc": "white", "ls": "--"} if name in _OTHERS else {**keywords, "ls": "-"}


def require_matplotlib() -> None:
    """Raise `ResourceError` with the remedy if matplotlib is not installed; call it before long work."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ResourceError("figures need matplotlib, which is not installed: pip install 'jaxpriv[plots]'")


@dataclass(frozen=True)
class _Paper:
    """What `paper` was given; `width` in inches."""

    width: float | None = None
    height: float | None = None
    styled: bool = True
    settings: dict[Any, Any] = field(default_factory=dict)


_PAPER: ContextVar[_Paper] = ContextVar("paper", default=_Paper())  # noqa: B039 (it is frozen)


@contextlib.contextmanager
def paper(
    width: str | float | None = None,
    height: float | None = None,
    *,
    styled: bool = True,
    settings: Mapping[str, Any] | None = None,
) -> Iterator[None]:
    """Figures that are made in the block have this size and these settings, also where they are saved after it.

    Args:
        width: inches, or a name of `WIDTHS`; None: that of jaxpriv's figures, 3.4.
        height: inches; None: that of each figure.
        styled: False: matplotlib's own settings (`matplotlib.rcParams`, a style of the user's) in place of jaxpriv's.
        settings: of matplotlib, over those: `{"font.family": "serif", "font.size": 8}`.

    Raises:
        InputError: an unknown name, a size that is not positive and finite, an unknown setting.
    """
    require_matplotlib()
    import matplotlib

    inches = WIDTHS.get(width) if isinstance(width, str) else width
    if isinstance(width, str) and inches is None:
        raise InputError(f"width {width!r} is unknown; known: {', '.join(WIDTHS)}, or inches")
    for name, size in (("width", inches), ("height", height)):
        if size is not None and not float(scalar(size, name)) > 0:
            raise InputError(f"{name} must be positive")
    try:
        checked: dict[Any, Any] = dict(matplotlib.RcParams(settings or {}))
    except (KeyError, ValueError) as error:
        raise InputError(f"settings: {' '.join(str(error.args[0]).split())}") from error
    token = _PAPER.set(_Paper(inches, height, styled, checked))
    try:
        yield
    finally:
        _PAPER.reset(token)


@contextlib.contextmanager
def style() -> Iterator[None]:
    """The settings of jaxpriv's figures, or those of `paper` in its block, for the block only."""
    with _style(_PAPER.get()):
        yield


@contextlib.contextmanager
def _style(asked: _Paper) -> Iterator[None]:
    require_matplotlib()
    import matplotlib

    with (
        resources.as_file(resources.files("jaxpriv").joinpath("_assets", "jaxpriv.mplstyle")) as path,
        matplotlib.rc_context(asked.settings, path if asked.styled else None),
    ):
        yield


@functools.cache
def _shown_by_notebooks() -> type[Any]:
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        def __init__(self, asked: _Paper, width: float, height: float) -> None:
            # A style of the user's may have no layout, which legends outside of the axes need.
            super().__init__(figsize=(asked.width or width, asked.height or height), layout="constrained")
            self._asked = asked

        def _repr_png_(self) -> bytes:
            return image_bytes(self)

        # Ticks are made when a figure is drawn, in the style of that moment.
        def savefig(
            self, fname: "FilePath | IO[bytes]", *, transparent: bool | None = None, **settings: object
        ) -> None:
            with _style(self._asked):
                super().savefig(fname, transparent=transparent, **settings)

    return NotebookFigure


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure of so many inches, or of those of `paper`. A notebook shows it as the value of a cell, also where
    pyplot, which would enable that for every figure, is not imported.
    """
    return _shown_by_notebooks()(_PAPER.get(), width, height)


def figure_of(ax: "Axes | None", width: float, height: float) -> "Figure":
    """The figure of the axes to draw into; without them a new one."""
    if ax is None:
        return new_figure(width, height)
    from matplotlib.axes import Axes

    instance(ax, "ax", Axes)
    return ax.figure  # pyright: ignore[reportReturnType]


def image_bytes(figure: "Figure", kind: str = "png") -> bytes:
    """The figure as a png, pdf, svg or pgf file.

    Raises `InputError` for a `kind` of file other than these, `ResourceError` for pgf where LaTeX is not installed: it
    measures the text.
    """
    if kind not in _KINDS:
        raise InputError(f"figures are written as {', '.join(_KINDS)}, not {kind}")
    stream, styled = io.BytesIO(), isinstance(figure, _shown_by_notebooks())
    try:
        with contextlib.nullcontext() if styled else style():
            figure.savefig(stream, format=kind, **_KINDS[kind])
    except RuntimeError as error:
        if kind == "pgf":
            raise ResourceError(f"pgf files need LaTeX (matplotlib's setting pgf.texsystem): {error}") from error
        raise
    return stream.getvalue()


def save(figure: "Figure", path: FilePath) -> None:
    """Write a figure to a file that ends in .png, .pdf, .svg or .pgf, whole or not at all."""
    atomic_write(path, image_bytes(figure, Path(path).suffix.lower().removeprefix(".")))
