"""The hyper-distribution of a mechanism as a picture: what its outputs say about S, and how often."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv.leakage import hyper_distribution
from jaxpriv.plotting.styles import figure_of, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Private symbols up to which the legend names each.
_NAMED = 12


def plot_posteriors(joint: ArrayLike, mechanism: object, *, ax: "Axes | None" = None, title: str = "") -> "Figure":
    """One bar for each distinct posterior P(S|y), as wide as its mass and cut into P(s|y); dotted: the prior.

    All widths add up to 1, and the area of a private symbol s is P(s): without leakage there is one bar, cut at the
    dotted lines. The bars are those of `jaxpriv.leakage.hyper_distribution`, the most probable first.

    `joint`, `mechanism`: as for `jaxpriv.leakage.evaluate`. `ax`: axes to draw into, in place of a new figure.
    """
    hyper = hyper_distribution(joint, mechanism)
    prior = hyper.masses @ hyper.posteriors
    seen = np.flatnonzero(prior > 0)
    with style():
        from matplotlib import colormaps

        figure = figure_of(ax, 3.4, 2.4)
        axes = figure.subplots() if ax is None else ax
        left, tops = np.cumsum(hyper.masses) - hyper.masses, np.cumsum(hyper.posteriors, axis=1)
        shades = colormaps["viridis"](np.linspace(0.1, 0.95, len(seen)))
        for s, shade in zip(seen, shades, strict=True):
            part = hyper.posteriors[:, s]
            axes.bar(
                left, part, hyper.masses, tops[:, s] - part, align="edge", color=shade, ec="w", lw=0.5, label=f"s = {s}"
            )
        for share in np.cumsum(prior[seen])[:-1]:
            axes.axhline(share, color="k", ls=":", lw=0.8)
        axes.grid(visible=False)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        axes.set_xlabel("mass of the outputs y with one posterior")
        axes.set_ylabel("posterior P(s|y); dotted: prior")
        if len(seen) <= _NAMED:
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), reverse=True)
        if title:
            axes.set_title(title)
    return figure
