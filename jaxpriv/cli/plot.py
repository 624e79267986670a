"""`jaxpriv plot`: pictures of mappings and of certified curves."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._output import Units
from jaxpriv.errors import InputError, IntegrityError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot(
    results: list[Path],
    out: Path,
    title: str = "",
    line: bool = False,
    units: Units = Units.nats,
) -> None:
    """Draw a mapping P(y|x) as shades, or certified curves with their bands.

    A mapping of |X| symbols is drawn with one row for each; a curve with its points, and with the band in which the
    optimum lies between them.
    """
    _output.need_picture("--out", out)
    drawable: list[Any] = [_read(path) for path in results]
    curves = [result for result in drawable if not isinstance(result, tuple)]
    if len(drawable) > 1 and len(curves) < len(drawable):
        raise InputError("several results are drawn together if all of them are curves (CURVE.npz of jaxpriv frontier)")
    if not curves:
        about = {"line": line, "units": units is not Units.nats}
        _output.refuse("is about curves (CURVE.npz of jaxpriv frontier)", **about)

    def drawn() -> "Figure":
        if curves:
            return jp.plotting.plot_frontier(*curves, units=units.value, title=title, line=line)
        return jp.plotting.plot_mapping(drawable[0][1], title=title)

    _output.deliver({}, None, f"picture in {out}\n", _output.picture(out, drawn))


def _read(path: Path) -> "jp.plotting.DrawnCurve | tuple[str, object]":
    """A `DrawnCurve`, or ("mapping", P(y|x))."""
    from jaxpriv._runtime.files import load_npz_safely

    if path.suffix.lower() == ".zip":
        return "mapping", jp.Mechanism.load(path)
    if path.suffix.lower() != ".npz":
        raise InputError(
            f"{path.name}: a picture is drawn from an .npz file (--out CURVE.npz, --out MECH.npz) or a DESIGN.zip"
        )
    drawn = jp.plotting.DrawnCurve
    arrays = load_npz_safely(path, [], [*drawn.names(), "mechanism"])
    if all(name in arrays for name in drawn.names()):
        try:
            return drawn.of_arrays(arrays)
        except IntegrityError as error:
            raise IntegrityError(f"{path}: {error}") from error
    if "mechanism" not in arrays:
        raise InputError(f"{path} holds neither a mapping (`mechanism`) nor a curve of jaxpriv frontier")
    return "mapping", arrays["mechanism"]
