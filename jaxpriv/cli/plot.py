"""`jaxpriv plot`: a picture of a mapping, a curve or a design that another command has written."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jaxpriv.cli import _output
from jaxpriv.cli._curves import DRAWN, curve_of
from jaxpriv.cli._output import Units, UnitsOption
from jaxpriv.errors import InputError

if TYPE_CHECKING:
    from jaxpriv.plotting.frontiers import DrawnCurve


def plot(
    results: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULT ...",
            help="MECH.npz of `solve`, `funnel` or `watchdog`; DESIGN.zip of `fit`; CURVE.npz of `frontier`, and "
            "further curves that are drawn on the same axes.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path, typer.Option(metavar="PICTURE.png|pdf|svg", help="Where the picture goes.", show_default=False)
    ],
    title: Annotated[str, typer.Option(help="A line above the picture.")] = "",
    units: UnitsOption = Units.nats,
) -> None:
    """Draw a mapping P(y|x) as shades, or certified curves with their bands.

    A mapping of |X| symbols is drawn with one row for each; a curve with its points, and with the band in which the
    optimum lies between them.
    """
    from jaxpriv.plotting import image_bytes, plot_mapping, require_matplotlib
    from jaxpriv.plotting.frontiers import plot_curves

    require_matplotlib()
    if out.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise InputError(f"--out: {out.name} must end in .png, .pdf or .svg")
    _output.check_outputs({"--out": out}, {f"RESULT {k + 1}": path for k, path in enumerate(results)})
    found: list[Any] = [_read(path) for path in results]
    curves = [one for one in found if not isinstance(one, tuple)]
    if len(found) > 1 and len(curves) < len(found):
        raise InputError("several results are drawn together if all of them are curves (CURVE.npz of jaxpriv frontier)")
    figure = plot_curves(curves, units=units.value, title=title) if curves else plot_mapping(found[0][1], title=title)
    _output.deliver({}, None, f"picture in {out}\n", {out: image_bytes(figure, out.suffix.lower()[1:])})


def _read(path: Path) -> "DrawnCurve | tuple[str, Any]":
    """A `DrawnCurve`, or ("mapping", P(y|x))."""
    from jaxpriv._files import load_npz_safely
    from jaxpriv.mechanism import Mechanism

    if path.suffix.lower() == ".zip":
        return "mapping", Mechanism.load(path)
    arrays = load_npz_safely(path, [], [*DRAWN, "mechanism"])
    if all(name in arrays for name in DRAWN):
        return curve_of(arrays, str(path))
    if "mechanism" not in arrays:
        raise InputError(f"{path} holds neither a mapping (`mechanism`) nor a curve of jaxpriv frontier")
    return "mapping", arrays["mechanism"]
