"""`jaxpriv plot`: a picture of a mapping, a curve or a design that another command has written."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from jaxpriv.cli import _output
from jaxpriv.cli._output import Units, UnitsOption
from jaxpriv.errors import InputError, IntegrityError

if TYPE_CHECKING:
    from jaxpriv.funnels.solve import FunnelFrontier
    from jaxpriv.plotting.figures import DrawnCurve
    from jaxpriv.solving.frontier import Frontier


# Curves as the arrays of an .npz file, which `jaxpriv plot` draws again.


_NUMBERS = ("x", "y", "width", "grid", "low", "high")
_WORDS = ("unit", "measure", "name", "across")
DRAWN = tuple(f"drawn_{name}" for name in (*_NUMBERS, "informed", "words"))


def arrays_of(curve: "Frontier | FunnelFrontier") -> dict[str, np.ndarray]:
    """The numbers of every point, nats: targets, intervals, leakage, distortion or disclosure, status (text)."""
    from jaxpriv.funnels.solve import FunnelFrontier

    constrained = "disclosure" if isinstance(curve, FunnelFrontier) else "distortion"
    names = ("value", "lower_bound", "upper_bound", "gap", "leakage", constrained)
    found = {name: np.asarray(getattr(curve, name), dtype=float) for name in names}
    if constrained == "distortion" and found[constrained].shape[1] == 1:
        found[constrained] = found[constrained][:, 0]
    return {"target": np.asarray(curve.targets, dtype=float), **found, "status": np.asarray(curve.status)}


def drawing_of(curve: "DrawnCurve") -> dict[str, np.ndarray]:
    """The arrays that draw a curve; words are bytes, because text is no array that is read safely."""
    words = json.dumps({name: getattr(curve, name) for name in _WORDS}).encode()
    arrays = {f"drawn_{name}": np.asarray(getattr(curve, name)) for name in _NUMBERS}
    return {
        **arrays,
        "drawn_informed": np.array([int(curve.informed)]),
        "drawn_words": np.frombuffer(words, dtype=np.uint8),
    }


def curve_of(arrays: Mapping[str, np.ndarray], path: str) -> "DrawnCurve":
    """The curve that `drawing_of` stored."""
    from jaxpriv.plotting.figures import DrawnCurve

    numbers = {name: np.asarray(arrays[f"drawn_{name}"], dtype=float) for name in _NUMBERS}
    points = {numbers[name].shape for name in ("x", "y", "width")}
    band = {numbers[name].shape for name in ("grid", "low", "high")}
    try:
        words = json.loads(arrays["drawn_words"].astype(np.uint8).tobytes())
        texts = {name: str(words[name]) for name in _WORDS}
    except (ValueError, KeyError, TypeError) as error:
        raise IntegrityError(f"{path}: drawn_words does not hold the words of a curve") from error
    if len(points) != 1 or len(band) != 1 or numbers["x"].ndim != 1 or not len(numbers["x"]):
        raise IntegrityError(f"{path}: the arrays of the curve differ in length")
    fields: dict[str, Any] = {**numbers, **texts, "informed": bool(arrays["drawn_informed"][0])}
    return DrawnCurve(**fields)


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
    out: Annotated[Path, typer.Option(metavar="PICTURE.png|pdf|svg", help="File of the picture.", show_default=False)],
    title: Annotated[str, typer.Option(help="A line above the picture.")] = "",
    units: UnitsOption = Units.nats,
) -> None:
    """Draw a mapping P(y|x) as shades, or certified curves with their bands.

    A mapping of |X| symbols is drawn with one row for each; a curve with its points, and with the band in which the
    optimum lies between them.
    """
    from jaxpriv.plotting import image_bytes, plot_frontier, plot_mapping, require_matplotlib

    require_matplotlib()
    kind = picture_kind(out, "--out")
    _output.check_outputs({"--out": out}, {f"RESULT {k + 1}": path for k, path in enumerate(results)})
    found: list[Any] = [_read(path) for path in results]
    curves = [one for one in found if not isinstance(one, tuple)]
    if len(found) > 1 and len(curves) < len(found):
        raise InputError("several results are drawn together if all of them are curves (CURVE.npz of jaxpriv frontier)")
    figure = (
        plot_frontier(*curves, units=units.value, title=title) if curves else plot_mapping(found[0][1], title=title)
    )
    _output.deliver({}, None, f"picture in {out}\n", {out: image_bytes(figure, kind)})


def picture_kind(path: Path, option: str) -> str:
    """The kind of picture that a name asks for; an `InputError` names the option."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in ("png", "pdf", "svg"):
        raise InputError(f"{option}: {path.name} must end in .png, .pdf or .svg")
    return kind


def _read(path: Path) -> "DrawnCurve | tuple[str, object]":
    """A `DrawnCurve`, or ("mapping", P(y|x))."""
    from jaxpriv._files import load_npz_safely
    from jaxpriv.mechanism import Mechanism

    if path.suffix.lower() == ".zip":
        return "mapping", Mechanism.load(path)
    if path.suffix.lower() != ".npz":
        raise InputError(
            f"{path.name}: a picture is drawn from an .npz file (--out CURVE.npz, --out MECH.npz) or a DESIGN.zip"
        )
    arrays = load_npz_safely(path, [], [*DRAWN, "mechanism"])
    if all(name in arrays for name in DRAWN):
        return curve_of(arrays, str(path))
    if "mechanism" not in arrays:
        raise InputError(f"{path} holds neither a mapping (`mechanism`) nor a curve of jaxpriv frontier")
    return "mapping", arrays["mechanism"]
