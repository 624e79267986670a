"""Figures from results, at the width of one column. They need matplotlib (`pip install 'jaxpriv[plots]'`).

Every function returns a `matplotlib.figure.Figure` in the style of `data/jaxpriv.mplstyle`, made without
pyplot: no window, no global state. `save` writes it, whole or not at all, with equal bytes for equal data.
Logarithms are drawn in nats unless `units="bits"`, and the label of every axis names the unit.
"""

from jaxpriv.plotting.figures import plot_frontier, plot_mapping
from jaxpriv.plotting.styles import COLOURS, image_bytes, require_matplotlib, save, solver_style, style

__all__ = [
    "COLOURS",
    "image_bytes",
    "plot_frontier",
    "plot_mapping",
    "require_matplotlib",
    "save",
    "solver_style",
    "style",
]
