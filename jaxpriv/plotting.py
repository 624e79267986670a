"""Figures from results, at the width of one column. They need matplotlib (`pip install 'jaxpriv[plots]'`).

Every function returns a `matplotlib.figure.Figure` in the style of `data/jaxpriv.mplstyle`, made without
pyplot: no window, no global state. `save` writes it, whole or not at all, with equal bytes for equal data.
"""

import contextlib
import importlib.util
import io
import itertools
import os
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from jaxpriv._files import atomic_write
from jaxpriv._validation import mechanism_array, scalar
from jaxpriv.datasets import Dataset
from jaxpriv.errors import InputError, ResourceError
from jaxpriv.solving.frontier import Frontier
from jaxpriv.solving.funnel_frontier import FunnelFrontier

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# What a file says of the moment and the program that made it, left out so that it is reproducible.
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
    "svg": {"Creator": None, "Date": None},
}

# Probabilities below this are drawn as zero.
_FAINTEST = 1e-3
# Widths of proofs below this are drawn on the lower edge of their axis.
_NARROWEST = 1e-9


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


def image_bytes(figure: "Figure", kind: str = "png") -> bytes:
    """The figure as a png, pdf or svg file."""
    if kind not in _METADATA:
        raise InputError(f"figures are written as {', '.join(_METADATA)}, not {kind}")
    stream = io.BytesIO()
    with style():
        figure.savefig(stream, format=kind, metadata=_METADATA[kind])
    return stream.getvalue()


def save(figure: "Figure", path: str | os.PathLike[str]) -> None:
    """Write a figure to a file that ends in .png, .pdf or .svg, whole or not at all."""
    atomic_write(path, image_bytes(figure, Path(path).suffix.lower().removeprefix(".")))


def plot_frontier(
    curve: Frontier | FunnelFrontier,
    *,
    units: Literal["nats", "bits"] = "bits",
    tol: float | None = None,
    others: Sequence[tuple[float, float, str]] = (),
    others_label: str = "other mechanisms",
    free: float | None = None,
    xlabel: str | None = None,
    ylabel: str = "leakage of S",
) -> "Figure":
    """The curve with what is proved about it, above the width of the proof.

    Above: the certified points, and the band in which the optimal curve lies between them (the
    leakage is convex in the budget: below a chord, above every tangent). Below, on a logarithmic
    axis: the width of that band; at the points themselves it is their certified gap.

    Args:
        curve: over one budget (`frontier(..., budgets=...)`), or a boundary of I(S;Y) over I(X;Y)
            (`funnel_frontier(..., disclosures=...)`, of a funnel or a bottleneck; chords are then on its other side).
        units: of the leakage axis.
        tol: the tolerance of the solve, nats; drawn as a line below.
        others: further mechanisms as (distortion or I(X;Y), leakage in nats, name).
        others_label: what they are, for the legend.
        free: the least distortion at which nothing leaks, if known; marked above.
        xlabel, ylabel: what the budget and the leakage are; units are appended to the latter.
    """
    funnel = isinstance(curve, FunnelFrontier)
    parameter = curve.form if funnel else curve.parameter
    if parameter != ("disclosure" if funnel else "budget"):
        wanted = "disclosures" if funnel else "budgets"
        raise InputError(f"plot_frontier needs a curve over {wanted}, not over {parameter}s")
    if units not in ("nats", "bits"):
        raise InputError("units must be 'nats' or 'bits'")
    scale = 1.0 if units == "nats" else 1.0 / np.log(2.0)
    if funnel:
        points, value, width = curve.targets, curve.value * scale, curve.gap * scale
        xlabel = "I(X;Y) (nats)" if xlabel is None else xlabel
    else:
        solved = np.isfinite(np.asarray(curve.solution.value))
        points = np.asarray(curve.points).reshape(-1)[solved]
        value, bound = (np.asarray(end)[solved] * scale for end in (curve.solution.value, curve.solution.lower_bound))
        width = value - bound
        xlabel = "distortion budget" if xlabel is None else xlabel
    if not len(points):
        raise InputError("curve has no point that could be solved")
    x = np.sort(points)
    # The points themselves are on the grid, so that the band narrows to their gaps.
    grid = np.unique(np.concatenate([x, *(np.linspace(a, b, 25) for a, b in itertools.pairwise(x))]))
    low, high = (bound * scale for bound in curve.band(grid))

    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.4, 3.5))
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3.2, 1))
        above.plot(points, value, "o", color="C0", ms=2.6, label="certified optimum", clip_on=False, zorder=3)
        above.fill_between(grid, np.maximum(low, 0.0), high, color="C5", alpha=0.7, lw=0.8, label="certified band")
        if others:
            spent, leaked, _ = zip(*others, strict=True)
            marks = {"mfc": "white", "mec": "C1", "ms": 3.2, "mew": 0.8, "clip_on": False, "zorder": 4}
            above.plot(spent, np.multiply(leaked, scale), "D", label=others_label, **marks)
        above.set_ylabel(f"{ylabel} ({units})")
        above.set_ylim(bottom=0)
        above.set_xlim(0, 1.01 * x[-1])
        _name_others(above, [(spent, leaked * scale, name) for spent, leaked, name in others])
        if free is not None:
            above.annotate(
                f"nothing leaks\nfrom {free:.3f} on",
                (free, 0.0),
                xytext=(26, 44),
                textcoords="offset points",
                ha="center",
                fontsize=6.5,
                arrowprops={"arrowstyle": "-|>", "color": "0.2", "lw": 0.6, "shrinkA": 1, "shrinkB": 3},
            )
        above.legend(loc="center right", bbox_to_anchor=(1.0, 0.62))

        below.semilogy(grid, _above_floor(high - low), color="C5", lw=0.8, label="between points")
        below.semilogy(points, _above_floor(width), "o", color="C0", ms=2.6, label="at a point", clip_on=False)
        if tol is not None:
            below.axhline(tol * scale, color="C1", lw=0.8, ls="--", label="tolerance")
        below.set_ylim(_NARROWEST, None)
        ticks = [t for t in (1e-9, 1e-6, 1e-3, 1.0) if t <= below.get_ylim()[1]]
        names = {1e-9: "$\\leq$1e-9", 1e-6: "1e-6", 1e-3: "1e-3", 1.0: "1"}
        below.set_yticks(ticks, [names[t] for t in ticks])
        below.set_ylabel(f"width of the\nproof ({units})")
        below.set_xlabel(xlabel)
        below.legend(loc="lower right", ncols=3, bbox_to_anchor=(1.02, 0.96), columnspacing=0.8, handletextpad=0.4)
        figure.align_ylabels()
    return figure


def _above_floor(width: np.ndarray) -> np.ndarray:
    """Widths for the logarithmic axis: what is narrower than its lowest tick is drawn there."""
    return np.maximum(width, _NARROWEST)


def _name_others(axes: "Axes", others: Sequence[tuple[float, float, str]]) -> None:
    """Names of mechanisms: below their marks, above where there is no room, right of one on the left edge."""
    below = {"xytext": (0, -4), "ha": "center", "va": "top"}
    above = {"xytext": (0, 4), "ha": "center", "va": "bottom"}
    right = {"xytext": (5, 0), "ha": "left", "va": "center"}
    for distortion, leakage, name in others:
        place = right if distortion == 0 else below if leakage > 0.25 * axes.get_ylim()[1] else above
        axes.annotate(name, (distortion, leakage), textcoords="offset points", fontsize=6, linespacing=0.95, **place)


def plot_mapping(mechanism: Any, data: Dataset | None = None, *, title: str = "") -> "Figure":
    """One mapping P(y|x) as a table of shades, each row the release of one data symbol.

    With `data` (whose useful alphabet is that of x and of y) the symbols are grouped by their first
    attribute and named, and a second panel tells how often each attribute is changed. Otherwise
    symbols are numbered. Probabilities below 0.001 are drawn as zero.
    """
    table = mechanism_array(mechanism)
    if data is not None and table.shape != 2 * (len(data.useful_attributes),):
        raise InputError(
            f"mechanism has shape {table.shape}; the data has {len(data.useful_attributes)} useful symbols"
        )
    with style():
        from matplotlib.colors import LogNorm
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.4, 3.9 if data is not None else 3.1))
        if data is None:
            axes = figure.subplots()
        else:
            axes, bars = figure.subplots(2, 1, height_ratios=(5.2, 1))
            _draw_changes(bars, table, data)
        image = axes.imshow(
            np.where(table >= _FAINTEST, table, np.nan),
            norm=LogNorm(_FAINTEST, 1.0),
            cmap="viridis_r",
            interpolation="none",
            aspect="equal",
        )
        axes.grid(visible=False)
        for spine in axes.spines.values():
            spine.set_visible(True)
        bar = figure.colorbar(image, cax=axes.inset_axes((1.03, 0.0, 0.045, 1.0)), ticks=[1e-3, 1e-2, 1e-1, 1.0])
        bar.ax.minorticks_off()
        bar.ax.set_yticklabels(["0.001", "0.01", "0.1", "1"])
        bar.outline.set_linewidth(0.6)  # pyright: ignore[reportCallIssue]
        bar.set_label("P(released | true); white: below 0.001")
        axes.set_xlabel("released symbol y")
        axes.set_ylabel("true symbol x")
        if title:
            axes.set_title(title)
        if data is not None:
            _name_symbols(axes, data)
    return figure


def _name_symbols(axes: "Axes", data: Dataset) -> None:
    """Blocks of the first attribute, named on both axes; finer attributes only in the order of the rows."""
    codes = data.useful_attributes[:, 0]
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    edges = np.append(starts, len(codes))
    names = [data.useful_values[0][codes[start]] for start in starts]
    for edge in edges[1:-1]:
        axes.axhline(edge - 0.5, color="0.75", lw=0.4)
        axes.axvline(edge - 0.5, color="0.75", lw=0.4)
    centres = (edges[:-1] + edges[1:] - 1) / 2
    axes.set_xticks(centres, names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(centres, names)
    axes.tick_params(length=0)
    first, *finer = data.useful_names
    inside = f" (inside a block: {', then '.join(finer)})" if finer else ""
    axes.set_xlabel(f"released {first}{inside}")
    axes.set_ylabel(f"true {first}")


def _draw_changes(axes: "Axes", table: np.ndarray, data: Dataset) -> None:
    """How often each attribute of the released symbol differs from the true one."""
    codes, mass = data.useful_attributes, data.joint.sum(axis=0)
    changed = np.einsum("x,xy,xya->a", mass, table, (codes[:, None, :] != codes[None, :, :]).astype(float))
    places = np.arange(len(changed))[::-1]
    axes.barh(places, 100 * changed, height=0.62, color="C0")
    for place, share in zip(places, changed, strict=True):
        axes.annotate(
            f"{100 * share:.1f} %",
            (100 * share, place),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=6.5,
        )
    axes.set_yticks(places, data.useful_names)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, 100 * scalar(max(changed.max(), 0.01), "changed") * 1.18)
    axes.set_xlabel("people whose attribute is changed (%)")
