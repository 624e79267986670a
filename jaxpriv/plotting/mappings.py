"""Pictures of mappings P(y|x)."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import PyTree

from jaxpriv._types import Arr
from jaxpriv._validation import mechanism_array
from jaxpriv.datasets import Dataset
from jaxpriv.errors import InputError
from jaxpriv.mechanism import Mechanism
from jaxpriv.plotting.styles import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure

# Probabilities below this are drawn as zero.
_FAINTEST = 1e-3


def plot_mapping(
    mechanism: object, data: Dataset | None = None, *, ax: "Axes | None" = None, title: str = ""
) -> "Figure":
    """One mapping P(y|x) as a table of shades, each row the release of one data symbol.

    `mechanism`: an array (X, Y), or what holds one: a `Solution`, a `FunnelSolution`, a `RobustSolution`, a
    `MaximumUtility` or a `Mechanism`. `ax`: axes to draw the table into, in place of a new figure.

    With `data` (whose useful alphabet is that of x and of y) the symbols are grouped by their first
    attribute and named, and a second panel shows how often each attribute is changed. Otherwise
    symbols are numbered. Probabilities below 0.001 are drawn as zero.
    """
    table = np.asarray(mechanism_array(_table_of(mechanism)))
    if data is not None and table.shape != 2 * (len(data.useful_attributes),):
        raise InputError(
            f"mechanism has shape {table.shape}; the data has {len(data.useful_attributes)} useful symbols"
        )
    with style():
        from matplotlib.colors import LogNorm
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.4, 3.9 if data is not None else 3.1)) if ax is None else ax.figure
        if ax is not None:
            axes = ax
        elif data is None:
            axes = figure.subplots()
        else:
            axes, bars = figure.subplots(2, 1, height_ratios=(5.2, 1))
            _draw_changes(bars, table, data)
        image = axes.imshow(
            np.where(table >= _FAINTEST, table, np.nan),
            norm=LogNorm(_FAINTEST, 1.0),
            cmap=_shades(),
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
    return figure  # pyright: ignore[reportReturnType]


def _shades() -> "ListedColormap":
    """From a light green that is seen on white to dark blue."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    return ListedColormap(colormaps["viridis_r"](np.linspace(0.18, 1.0, 256)))


def _table_of(mechanism: object) -> PyTree:
    """The array of what holds a mapping; a batch of mappings is refused by its shape later."""
    if isinstance(mechanism, Mechanism):
        return mechanism.matrix()
    return getattr(mechanism, "mechanism", mechanism)


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


def _draw_changes(axes: "Axes", table: Arr, data: Dataset) -> None:
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
    axes.set_xlim(0, 118 * max(float(changed.max()), 0.01))
    axes.set_xlabel("people whose attribute is changed (%)")
