"""Pictures of a report as SVG text: the curve with its certified band, and the mapping."""

from collections.abc import Sequence
from html import escape

import numpy as np

from jaxpriv.report.numbers import Curve

_WIDTH, _HEIGHT = 640, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 16, 34, 56
# A mapping of more symbols is no picture any more, and a smaller probability no ink.
_DRAWN, LEAST_DRAWN = 64, 0.005


def curve_picture(curve: Curve) -> str:
    """The curve; the marker with id `point` is moved by the page's script, and stands at the chosen point before."""
    finite = np.isfinite(curve.upper) & np.isfinite(curve.lower)
    x, low, high = curve.points[finite], curve.lower[finite], curve.upper[finite]
    right, top = float(x.max()) or 1.0, float(high.max()) * 1.05 or 1.0

    def across(value: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * value / right

    def up(value: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * value / top

    def path(pairs: Sequence[tuple[float, float]]) -> str:
        return " ".join(f"{across(a):.2f},{up(b):.2f}" for a, b in pairs)

    above = list(zip(x.tolist(), high.tolist(), strict=True))
    below = list(zip(x.tolist(), low.tolist(), strict=True))
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-labelledby="curve-title">'
        '<title id="curve-title">Least leakage for every mean distortion, with the chosen design</title>',
        f'<polygon class="band" points="{path([*above, *reversed(below)])}"/>',
        f'<polyline class="line" points="{path(above)}"/>',
        f'<line class="axis" x1="{_LEFT}" y1="{up(0):.1f}" x2="{_WIDTH - _RIGHT}" y2="{up(0):.1f}"/>',
        f'<line class="axis" x1="{_LEFT}" y1="{_TOP}" x2="{_LEFT}" y2="{up(0):.1f}"/>',
    ]
    parts += [
        f'<text class="tick" x="{across(value):.1f}" y="{up(0) + 18:.1f}" text-anchor="middle">{value:g}</text>'
        for value in _ticks(right)
    ]
    parts += [
        f'<line class="grid" x1="{_LEFT}" y1="{up(value):.1f}" x2="{_WIDTH - _RIGHT}" y2="{up(value):.1f}"/>'
        f'<text class="tick" x="{_LEFT - 8}" y="{up(value) + 4:.1f}" text-anchor="end">{value:g}</text>'
        for value in _ticks(top)
    ]
    parts += [
        f'<text class="label" x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 8}" text-anchor="middle">'
        f"{escape(curve.across)}</text>",
        f'<text class="label" x="4" y="{_TOP - 14}">{escape(curve.up)}</text>',
        f'<circle class="chosen" cx="{across(curve.chosen[0]):.2f}" cy="{up(curve.chosen[1]):.2f}" r="6"/>',
        f'<circle class="point" id="point" cx="{across(curve.chosen[0]):.2f}" cy="{up(curve.chosen[1]):.2f}" r="9" '
        f'data-left="{_LEFT}" data-wide="{_WIDTH - _LEFT - _RIGHT}" data-right="{right!r}" data-zero="{up(0)!r}" '
        f'data-tall="{_HEIGHT - _TOP - _BOTTOM}" data-top="{top!r}"/>',
        "</svg>",
    ]
    return "".join(parts)


def _ticks(largest: float) -> list[float]:
    step = 10.0 ** np.floor(np.log10(largest / 2))
    step *= next(factor for factor in (1, 2, 5, 10) if largest / (factor * step) <= 6)
    return [round(float(k * step), 12) for k in range(1, int(largest / step) + 1)]


def drawn(shape: tuple[int, ...]) -> bool:
    """Whether there is a picture of a mapping of this shape."""
    return max(shape) <= _DRAWN


def mapping_picture(matrix: np.ndarray, useful: Sequence[str], released: Sequence[str]) -> str | None:
    """P(y|x) as squares, darker where larger; None for alphabets that are too large to draw."""
    inputs, outputs = matrix.shape
    if not drawn(matrix.shape):
        return None
    cell = max(8, min(22, 560 // max(inputs, outputs)))
    margin = min(8 + 7 * max(map(len, (*useful, *released))), 220)
    wide, tall = margin + cell * outputs + 4, margin + cell * inputs + 4
    parts = [
        f'<svg viewBox="0 0 {wide} {tall}" role="img" aria-labelledby="mapping-title" style="max-width:{wide}px">'
        '<title id="mapping-title">Probability of each released combination (across) for each original one (down)'
        "</title>",
        f'<rect class="frame" x="{margin}" y="{margin}" width="{cell * outputs}" height="{cell * inputs}"/>',
    ]
    size = min(12, cell)
    for x, label in enumerate(useful):
        parts.append(
            f'<text class="name" font-size="{size}" x="{margin - 6}" y="{margin + cell * (x + 0.75):.1f}" '
            f'text-anchor="end">{escape(label)}</text>'
        )
    for y, label in enumerate(released):
        place = f"translate({margin + cell * (y + 0.75):.1f} {margin - 6}) rotate(-90)"
        parts.append(f'<text class="name" font-size="{size}" transform="{place}">{escape(label)}</text>')
    for x, y in np.argwhere(matrix >= LEAST_DRAWN).tolist():
        chance = float(matrix[x, y])
        parts.append(
            f'<rect class="cell" x="{margin + cell * y}" y="{margin + cell * x}" width="{cell}" height="{cell}" '
            f'fill-opacity="{chance:.3f}"><title>{escape(useful[x])} to {escape(released[y])}: {chance:.3f}'
            "</title></rect>"
        )
    return "".join([*parts, "</svg>"])
