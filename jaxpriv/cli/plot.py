"""`jaxpriv plot`: pictures of mappings and of certified curves."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxpriv.cli import _output
from jaxpriv.cli._output import Units
from jaxpriv.errors import InputError, IntegrityError

if TYPE_CHECKING:
    import numpy as np

    from jaxpriv.plotting import DrawnCurve


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
    from jaxpriv.plotting import image_bytes, plot_frontier, plot_mapping, require_matplotlib

    require_matplotlib()
    kind = _output.picture_kind(out, "--out")
    found: list[Any] = [_read(path) for path in results]
    curves = [one for one in found if not isinstance(one, tuple)]
    if len(found) > 1 and len(curves) < len(found):
        raise InputError("several results are drawn together if all of them are curves (CURVE.npz of jaxpriv frontier)")
    if line and not curves:
        raise InputError("--line is about curves (CURVE.npz of jaxpriv frontier)")
    figure = (
        plot_frontier(*curves, units=units.value, title=title, line=line)
        if curves
        else plot_mapping(found[0][1], title=title)
    )
    _output.deliver({}, None, f"picture in {out}\n", {out: image_bytes(figure, kind)})


def _read(path: Path) -> "DrawnCurve | tuple[str, object]":
    """A `DrawnCurve`, or ("mapping", P(y|x))."""
    from jaxpriv._runtime.files import load_npz_safely
    from jaxpriv.release import Mechanism

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


# Curves as the arrays of an .npz file, which `jaxpriv plot` draws again.
_NUMBERS = ("x", "y", "width", "grid", "low", "high")
_WORDS = ("unit", "measure", "name", "across")
DRAWN = tuple(f"drawn_{name}" for name in (*_NUMBERS, "informed", "words"))


def drawing_of(curve: "DrawnCurve") -> "dict[str, np.ndarray]":
    """The arrays that draw a curve; words are bytes, because text is no array that is read safely."""
    import numpy as np

    words = json.dumps({name: getattr(curve, name) for name in _WORDS}).encode()
    arrays = {f"drawn_{name}": np.asarray(getattr(curve, name)) for name in _NUMBERS}
    return {
        **arrays,
        "drawn_informed": np.array([int(curve.informed)]),
        "drawn_words": np.frombuffer(words, dtype=np.uint8),
    }


def curve_of(arrays: "Mapping[str, np.ndarray]", path: str) -> "DrawnCurve":
    """The curve that `drawing_of` stored."""
    import numpy as np

    from jaxpriv.plotting import DrawnCurve

    numbers = {name: np.asarray(arrays[f"drawn_{name}"], dtype=float) for name in _NUMBERS}
    points = {numbers[name].shape for name in ("x", "y", "width")}
    band = {numbers[name].shape for name in ("grid", "low", "high")}
    try:
        words = json.loads(arrays["drawn_words"].astype(np.uint8).tobytes())
        texts = {name: str(words[name]) for name in _WORDS}
        informed = bool(arrays["drawn_informed"].item())
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise IntegrityError(f"{path}: drawn_words or drawn_informed is not that of a curve") from error
    if len(points) != 1 or len(band) != 1 or numbers["x"].ndim != 1 or not len(numbers["x"]):
        raise IntegrityError(f"{path}: the arrays of the curve differ in length")
    if not np.isfinite(numbers["x"]).all():
        raise IntegrityError(f"{path}: drawn_x holds numbers that are not finite")
    fields: dict[str, Any] = {**numbers, **texts, "informed": informed}
    return DrawnCurve(**fields)
