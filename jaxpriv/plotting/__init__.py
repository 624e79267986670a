"""Figures from results, at the width of one column: curves of certified optima with what is proved between their
points, pictures of mappings P(y|x) and of posteriors P(s|y). They need matplotlib (`pip install 'jaxpriv[plots]'`).

Every function returns a `matplotlib.figure.Figure` in the style of `data/jaxpriv.mplstyle`, made without
pyplot: no window, no global state. `save` writes it, whole or not at all, with equal bytes for equal data. In a block
of `paper` figures have the width of a journal's column, and settings of the user's own. Logarithms are drawn in nats
unless `units="bits"`, and the label of every axis names the unit.
"""

import itertools
import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from jaxpriv._runtime.importing import names_of
from jaxpriv._runtime.types import Arr
from jaxpriv._runtime.validation import mechanism_array, per_nat
from jaxpriv.data.datasets import Dataset
from jaxpriv.errors import InputError, IntegrityError
from jaxpriv.funnels.frontier import FunnelFrontier
from jaxpriv.leakage import MutualInformation
from jaxpriv.leakage.evaluation import table_of
from jaxpriv.plotting.posteriors import plot_posteriors
from jaxpriv.plotting.styles import (
    COLOURS,
    WIDTHS,
    figure_of,
    image_bytes,
    paper,
    require_matplotlib,
    save,
    solver_style,
    style,
)
from jaxpriv.problems import FunnelProblem
from jaxpriv.problems.forms import FORMS
from jaxpriv.program.certificates import average_leakage
from jaxpriv.solving.frontier import Frontier

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "COLOURS",
    "WIDTHS",
    "image_bytes",
    "paper",
    "plot_frontier",
    "plot_mapping",
    "plot_posteriors",
    "require_matplotlib",
    "save",
    "solver_style",
    "style",
]
__dir__ = names_of(__name__)

Units = Literal["nats", "bits"]

# Widths of proofs below this are drawn on the lower edge of their axis.
_NARROWEST = 1e-9
# The mean width of a letter, by the size of its font.
_LETTER = 0.5
# Names of curves of more letters than this stand below each other.
_SHORT = 24
# Places between two neighbouring points at which the band is computed.
_BETWEEN = 25
# Not "C0": axes of the user's own are drawn in the colours of that moment.
_COLOURS = tuple(COLOURS[name] for name in ("blue", "red", "green", "purple", "orange", "sky"))


# The fields of a curve that are numbers, and those that are words.
_NUMBERS = ("x", "y", "width", "grid", "low", "high")
_WORDS = ("unit", "measure", "name", "across")


@dataclass(frozen=True, eq=False)
class DrawnCurve:
    """One curve as numbers: what a figure needs, and what a file of a curve holds. Logarithms are in nats.

    Attributes:
        x, y: the points, (B,): distortion or I(X;Y), and leakage.
        width: of what is proved at the points, (B,); NaN where nothing is proved at that place.
        grid, low, high: the band, (G,); NaN where there is none.
        informed: whether x is I(X;Y), not a distortion.
        unit: of the leakage, as `leakage.unit`.
        measure, name, across: the measure, the curve and the x axis in words.
    """

    x: np.ndarray
    y: np.ndarray
    width: np.ndarray
    grid: np.ndarray
    low: np.ndarray
    high: np.ndarray
    informed: bool
    unit: str
    measure: str
    name: str
    across: str

    def in_units(self, units: Units) -> "DrawnCurve":
        """The same with logarithms in `units`."""
        of_nats = per_nat(units)
        across, up = (of_nats if self.informed else 1.0), (of_nats if self.unit == "nats" else 1.0)
        numbers = {name: getattr(self, name) * across for name in ("x", "grid")}
        numbers |= {name: getattr(self, name) * up for name in ("y", "width", "low", "high")}
        return replace(self, **numbers, unit=units if self.unit == "nats" else self.unit)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Those of `arrays`."""
        return *(f"drawn_{name}" for name in _NUMBERS), "drawn_informed", "drawn_words"

    def arrays(self) -> dict[str, np.ndarray]:
        """The curve as arrays of a file; words are bytes, because text is no array that is read safely."""
        words = json.dumps({name: getattr(self, name) for name in _WORDS}).encode()
        numbers = [np.asarray(getattr(self, name)) for name in _NUMBERS]
        held = *numbers, np.array([int(self.informed)]), np.frombuffer(words, dtype=np.uint8)
        return dict(zip(self.names(), held, strict=True))

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "DrawnCurve":
        """The curve that `arrays` stored; `IntegrityError` for arrays that are not those of a curve."""
        numbers: dict[str, Any] = {name: np.asarray(arrays[f"drawn_{name}"], dtype=float) for name in _NUMBERS}
        x, y, width, *band = (array.shape for array in numbers.values())
        try:
            words = json.loads(arrays["drawn_words"].astype(np.uint8).tobytes())
            texts: dict[str, Any] = {name: str(words[name]) for name in _WORDS}
            informed = bool(arrays["drawn_informed"].item())
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise IntegrityError("drawn_words or drawn_informed is not that of a curve") from error
        if not (x == y == width and len(set(band)) == 1 and len(x) == 1 and x[0] > 0):
            raise IntegrityError("the arrays of the curve differ in length")
        if not np.isfinite(numbers["x"]).all():
            raise IntegrityError("drawn_x holds numbers that are not finite")
        return cls(**numbers, informed=informed, **texts)


def plot_frontier(
    *curves: Frontier | FunnelFrontier | DrawnCurve,
    ax: "Axes | None" = None,
    units: Units = "nats",
    labels: Sequence[str] = (),
    tol: float | None = None,
    others: Sequence[tuple[float, float, str]] = (),
    others_label: str = "other mechanisms",
    free: float | None = None,
    title: str = "",
    xlabel: str | None = None,
    ylabel: str | None = None,
    line: bool = False,
) -> "Figure":
    """Curves with what is proved about them, above the width of the proof.

    Above: the certified points, and the band in which each optimal curve lies between them (`Frontier.band`,
    `FunnelFrontier.band`). Below, on a logarithmic axis: the width of that band; at the points themselves it is
    their certified gap.

    Leakage is always the vertical axis. The horizontal one is the distortion where every curve is a `Frontier`: the
    budget, or (curves over leakage budgets or multipliers) the distortion of each mechanism. Where one of them is a
    `FunnelFrontier` it is I(X;Y), also for the mechanisms of a `Frontier`, whose points are then drawn without a
    band: they are optimal at their distortion, not at their I(X;Y).

    Args:
        curves: results of `frontier` over one distortion, of `funnel_frontier`, and `DrawnCurve` objects of files.
        ax: axes to draw the curves into, without the panel of widths; by default a new figure.
        units: of logarithms, `nats` or `bits`. A measure in another unit keeps it.
        labels: one for each curve; by default what is optimised.
        tol: the tolerance of the solve, nats; drawn as a line below.
        others: further mechanisms as (distortion or I(X;Y), leakage, name); I(X;Y) and logarithms in nats.
        others_label: what they are, for the legend.
        free: the least distortion (or the most of I(X;Y)) at which nothing leaks, if known; marked above.
        title, xlabel, ylabel: texts; the unit is appended to `ylabel`, by default the measure in words.
        line: a line in place of the points, for frontiers of many.

    Raises:
        InputError: no curve, a curve over several distortions, curves in different units, a number of labels that is
            not that of the curves, a curve without a point that could be solved.
    """
    if not curves:
        raise InputError("plot_frontier needs a curve: a result of frontier or funnel_frontier")
    for place, curve in enumerate(curves):
        if not isinstance(curve, (Frontier, FunnelFrontier, DrawnCurve)):
            raise InputError(f"curves[{place}] must be a Frontier or a FunnelFrontier, not {type(curve).__name__}")
    informed = any(isinstance(curve, FunnelFrontier) for curve in curves)
    given = [
        curve if isinstance(curve, DrawnCurve) else drawn_curve(curve, f"curves[{place}]", informed)
        for place, curve in enumerate(curves)
    ]
    if labels and len(labels) != len(curves):
        raise InputError(f"labels has {len(labels)} entries for {len(curves)} curves")
    if len({curve.unit for curve in given}) > 1:
        unit_names = " and in ".join(sorted({curve.unit for curve in given}))
        raise InputError(f"curves in {unit_names} have no axis in common; draw one figure for each")
    if len({curve.informed for curve in given}) > 1:
        raise InputError("curves over a distortion and over I(X;Y) have no axis in common; draw one figure for each")
    informed = given[0].informed
    of_nats = per_nat(units)
    across, up = (of_nats if informed else 1.0), (of_nats if given[0].unit == "nats" else 1.0)
    drawn = [curve.in_units(units) for curve in given]
    if line:
        drawn = [
            replace(curve, **{name: getattr(curve, name)[np.argsort(curve.x)] for name in ("x", "y", "width")})
            for curve in drawn
        ]
    unit = drawn[0].unit
    names = list(labels) or [curve.name for curve in given]
    marks = [(spent * across, leaked * up, name) for spent, leaked, name in others]
    measures, axes_names = {curve.measure for curve in given}, {curve.across for curve in given}

    with style():
        figure, above, below = figure_of(ax, 3.4, 3.5), ax, None
        if above is None:
            above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3.2, 1))
        _draw_curves(above, drawn, names, line)
        if marks:
            spent, leaked, _ = zip(*marks, strict=True)
            mark = {"mfc": "white", "mec": COLOURS["red"] if len(drawn) == 1 else "0.2", "ms": 3.2, "mew": 0.8}
            above.plot(spent, leaked, "D", label=others_label, clip_on=False, zorder=4, **mark)
        leaked = ylabel or (measures.pop() if len(measures) == 1 else "leakage of S")
        _label(above, f"{leaked} ({unit})")
        above.set_ylim(bottom=0)
        widest = max([float(curve.x.max()) for curve in drawn] + [spent for spent, _, _ in marks])
        above.set_xlim(0, (1.05 if marks else 1.01) * widest or 1.0)
        _name_others(above, marks)
        if free is not None:
            _mark_free(above, free * across, informed)
        if title:
            above.set_title(title)
        if below is not None and len(drawn) > 1:  # no place inside is free of curves
            columns = 2 if max(map(len, names)) <= _SHORT else 1
            figure.legend(*above.get_legend_handles_labels(), loc="outside upper center", ncols=columns)
        else:
            above.legend(loc="best")
        bottom = above if below is None else below
        across_name = f"I(X;Y) ({units})" if informed else "distortion E d(X,Y)"
        if not informed and len(axes_names) == 1:
            across_name = axes_names.pop()
        bottom.set_xlabel(xlabel or across_name)
        if below is not None:
            _draw_widths(below, drawn, None if tol is None else tol * up, unit, line)
            figure.align_ylabels()
    return figure


def _label(axes: "Axes", text: str) -> None:
    """The label of the vertical axis, in lines that are no longer than the axis."""
    length = 72 * axes.bbox.height / axes.figure.dpi / (_LETTER * float(axes.yaxis.label.get_fontsize()))
    axes.set_ylabel(textwrap.fill(text, max(int(length), 1), break_long_words=False))


def drawn_curve(curve: Frontier | FunnelFrontier, name: str = "curve", informed: bool | None = None) -> DrawnCurve:
    """The numbers of a curve; `informed`: over I(X;Y) also where it is a `Frontier`. `name` is for error messages."""
    informed = isinstance(curve, FunnelFrontier) if informed is None else informed
    if isinstance(curve, Frontier) and np.ndim(curve.targets) == 2:
        raise InputError(f"{name} is over several distortions; take a curve over one budget")
    solved = np.isfinite(np.asarray(curve.value, dtype=float))
    if not solved.any():
        raise InputError(f"{name} has no point that could be solved")
    targets = np.asarray(curve.targets, dtype=float)[solved]
    swept = curve.form == ("disclosure" if isinstance(curve, FunnelFrontier) else "budget")
    # A point is certified at the x that was asked for; elsewhere the proof is about another number than the leakage.
    certified = swept and (isinstance(curve, FunnelFrontier) or not informed)
    y = np.asarray(curve.value if certified else curve.leakage, dtype=float)[solved]
    width = np.asarray(curve.gap, dtype=float)[solved] if certified else np.full(len(y), np.nan)
    banded = True
    if isinstance(curve, FunnelFrontier):
        x = targets if swept else np.asarray(curve.disclosure, dtype=float)[solved]
        banded = isinstance(curve.problem.leakage, MutualInformation)
    elif informed:
        mass = np.asarray(curve.problem.joints).mean(axis=0).sum(axis=0)
        mechanisms = np.asarray(curve.solutions.mechanism)[solved]
        x = np.array([float(average_leakage(np.diag(mass), mechanism)) for mechanism in mechanisms])
        banded = False
    else:
        x = targets if swept else np.asarray(curve.distortion, dtype=float)[solved, 0]
        banded = not FORMS[curve.form].prices_distortion
    points = np.unique(x)
    # The points themselves are on the grid, so that the band narrows to their gaps.
    between = [np.linspace(a, b, _BETWEEN) for a, b in itertools.pairwise(points)]
    grid = np.unique(np.concatenate([points, *between]))
    low = high = np.full(len(grid), np.nan)
    if banded and isinstance(curve, Frontier) and FORMS[curve.form].limits_leakage:
        low, high = _read_across(curve, targets, grid)
    elif banded:
        low, high = curve.band(grid)
    name = f"least {curve.problem.leakage.label}"  # what the curve optimises
    if isinstance(curve, FunnelFrontier):
        name = "privacy funnel" if isinstance(curve.problem, FunnelProblem) else "information bottleneck"
    words = curve.problem.leakage.label, name, "distortion budget" if swept else "distortion E d(X,Y)"
    return DrawnCurve(x, y, width, grid, low, high, informed, curve.problem.leakage.unit, *words)


def _read_across(curve: Frontier, targets: np.ndarray, grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The band of a curve over leakage budgets, which bounds the distortion at a leakage, as bounds on the leakage.

    At distortion x no limit y is met whose least distortion is proved to be above x, and every y is met whose
    attained distortion is at most x.
    """
    y = np.linspace(targets.min(), targets.max(), 40 * _BETWEEN)
    near, far = curve.band(y)
    low = [y[near > at].max(initial=y[0]) for at in grid]
    high = [y[far <= at].min(initial=np.inf) for at in grid]
    return np.array(low), np.array([bound if np.isfinite(bound) else np.nan for bound in high])


def _draw_curves(axes: "Axes", drawn: Sequence[DrawnCurve], names: Sequence[str], line: bool) -> None:
    single = len(drawn) == 1
    for curve, name, colour in zip(drawn, names, itertools.cycle(_COLOURS), strict=False):
        point = {"color": colour, "ms": 2.6, "clip_on": False, "zorder": 3}
        axes.plot(curve.x, curve.y, "-" if line else "o", label="certified optimum" if single else name, **point)
        if np.isfinite(curve.high).any():
            band = {"color": COLOURS["sky"] if single else colour, "alpha": 0.7 if single else 0.35, "lw": 0.8}
            finite = np.isfinite(curve.high) & np.isfinite(curve.low)
            low = np.maximum(curve.low[finite], 0.0)
            label = "certified band" if single else None
            axes.fill_between(curve.grid[finite], low, curve.high[finite], label=label, **band)
        elif not line:
            order = np.argsort(curve.x)
            axes.plot(curve.x[order], curve.y[order], color=colour, lw=0.6, ls=":")


def _draw_widths(axes: "Axes", drawn: Sequence[DrawnCurve], tol: float | None, unit: str, line: bool) -> None:
    single = len(drawn) == 1
    for curve, colour in zip(drawn, itertools.cycle(_COLOURS), strict=False):
        if np.isfinite(curve.high).any():
            faint = COLOURS["sky"] if single else colour
            axes.semilogy(
                curve.grid, np.maximum(curve.high - curve.low, _NARROWEST), color=faint, lw=0.8, label="between points"
            )
        if np.isfinite(curve.width).any():
            mark = {"color": colour, "ms": 2.6, "label": "at a point", "clip_on": False}
            axes.semilogy(curve.x, np.maximum(curve.width, _NARROWEST), "-" if line else "o", **mark)
    if tol is not None:
        axes.axhline(tol, color=COLOURS["red"], lw=0.8, ls="--", label="tolerance")
    axes.set_yscale("log")
    axes.set_ylim(_NARROWEST, None)
    ticks = [t for t in (1e-9, 1e-6, 1e-3, 1.0) if t <= axes.get_ylim()[1]]
    texts = {1e-9: "$\\leq$1e-9", 1e-6: "1e-6", 1e-3: "1e-3", 1.0: "1"}
    axes.set_yticks(ticks, [texts[t] for t in ticks])
    _label(axes, f"width of the proof ({unit})")
    if single:
        axes.legend(loc="lower right", ncols=3, bbox_to_anchor=(1.02, 0.96), columnspacing=0.8, handletextpad=0.4)


def _mark_free(axes: "Axes", free: float, informed: bool) -> None:
    # Rounded to the side on which it holds, but for what is the rounding of a decimal number.
    number = math.floor(1000 * free + 1e-6) / 1000 if informed else math.ceil(1000 * free - 1e-6) / 1000
    text = f"nothing leaks\n{'up to' if informed else 'from'} {number:.3f}{'' if informed else ' on'}"
    arrow = {"arrowstyle": "-|>", "color": "0.2", "lw": 0.6, "shrinkA": 1, "shrinkB": 3}
    aside = -26 if free > 0.8 * axes.get_xlim()[1] else 26
    place = {"xytext": (aside, 44), "textcoords": "offset points", "ha": "center", "fontsize": 6.5}
    axes.annotate(text, (free, 0.0), arrowprops=arrow, **place)


def _name_others(axes: "Axes", others: Sequence[tuple[float, float, str]]) -> None:
    """Write the names of mechanisms below their marks, above a mark near the axis, and right of one on the left edge.

    Of two marks close to each other the name of the upper one is written above it.
    """
    below = {"xytext": (0, -4), "ha": "center", "va": "top"}
    above = {"xytext": (0, 4), "ha": "center", "va": "bottom"}
    right = {"xytext": (5, 0), "ha": "left", "va": "center"}
    wide, tall = axes.get_xlim()[1], axes.get_ylim()[1]
    for distortion, leakage, name in others:
        crowded = any(
            (lower, spent) < (leakage, distortion)
            and abs(distortion - spent) < 0.2 * wide
            and leakage - lower < 0.1 * tall
            for spent, lower, _ in others
        )
        place = right if distortion == 0 else above if crowded or leakage <= 0.25 * tall else below
        axes.annotate(name, (distortion, leakage), textcoords="offset points", fontsize=6, linespacing=0.95, **place)


# Probabilities below this are drawn as zero.
_FAINTEST = 1e-3
# A table longer than this many times its width is drawn with oblong cells: with square ones it would be a thin
# strip, and its colour bar a line.
_OBLONG = 2


def plot_mapping(
    mechanism: object, data: Dataset | None = None, *, ax: "Axes | None" = None, title: str = ""
) -> "Figure":
    """One mapping P(y|x) as a table of shades, each row the release of one data symbol.

    `mechanism`: an array (X, Y), or what holds one: a `Solution`, a `FunnelSolution`, a `RobustSolution`, a
    `MaximumUtility` or a `Mechanism`. `ax`: axes to draw the table into, in place of a new figure.

    With `data` (whose useful alphabet is that of x and of y) the symbols are grouped by their first
    attribute and named, and a second panel shows how often each attribute is changed. Otherwise
    symbols are numbered. Probabilities below 0.001 are drawn as zero.

    Raises `InputError` if the mechanism is not square with one row for each useful symbol of `data`.
    """
    table = np.asarray(mechanism_array(table_of(mechanism)))
    if data is not None and table.shape != 2 * (len(data.useful_attributes),):
        raise InputError(
            f"mechanism has shape {table.shape}; the data has {len(data.useful_attributes)} useful symbols"
        )
    with style():
        from matplotlib import colormaps
        from matplotlib.colors import ListedColormap, LogNorm
        from matplotlib.ticker import MaxNLocator

        figure = figure_of(ax, 3.4, 3.9 if data is not None else 3.1)
        if ax is not None:
            axes = ax
        elif data is None:
            axes = figure.subplots()
        else:
            axes, bars = figure.subplots(2, 1, height_ratios=(5.2, 1))
            _draw_changes(bars, table, data)
        # From a light green that is seen on white to dark blue.
        shades = ListedColormap(colormaps["viridis_r"](np.linspace(0.18, 1.0, 256)))
        image = axes.imshow(
            np.where(table >= _FAINTEST, table, np.nan),
            norm=LogNorm(_FAINTEST, 1.0),
            cmap=shades,
            interpolation="none",
            aspect="equal" if max(table.shape) <= _OBLONG * min(table.shape) else "auto",
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
        else:
            for axis in (axes.xaxis, axes.yaxis):  # symbols have whole numbers
                axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
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


def _draw_changes(axes: "Axes", table: Arr, data: Dataset) -> None:
    """How often each attribute of the released symbol differs from the true one."""
    codes, mass = data.useful_attributes, data.joint.sum(axis=0)
    changed = np.einsum("x,xy,xya->a", mass, table, (codes[:, None, :] != codes[None, :, :]).astype(float))
    places = np.arange(len(changed))[::-1]
    axes.barh(places, 100 * changed, height=0.62, color=COLOURS["blue"])
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
