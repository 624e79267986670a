"""Curves as the arrays of an .npz file, which `jaxpriv plot` draws again."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxpriv.errors import IntegrityError

if TYPE_CHECKING:
    from jaxpriv.plotting.frontiers import DrawnCurve
    from jaxpriv.solving.frontier import Frontier
    from jaxpriv.solving.funnel_frontier import FunnelFrontier

_NUMBERS = ("x", "y", "width", "grid", "low", "high")
_WORDS = ("unit", "measure", "name", "across")
DRAWN = tuple(f"drawn_{name}" for name in (*_NUMBERS, "informed", "words"))


def arrays_of(curve: "Frontier | FunnelFrontier") -> dict[str, np.ndarray]:
    """The numbers of every point, nats: targets, intervals, leakage, distortion or disclosure, status (text)."""
    from jaxpriv.solving.funnel_frontier import FunnelFrontier

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
    from jaxpriv.plotting.frontiers import DrawnCurve

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
