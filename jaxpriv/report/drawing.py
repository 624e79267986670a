"""What a report looks like: the pictures of a certified curve and of a mapping, SVG text, styles and scripts."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np


@dataclass(frozen=True)
class Curve:
    """Certified optima for many targets: `lower` and `upper` (B,) hold the optimum at each of `points` (B,).

    `whole` is H(S), the leakage of a release that reveals S.
    """

    points: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    chosen: tuple[float, float]
    whole: float
    across: str
    up: str


# The figure in CSS pixels, which a browser scales to the column of text.
_WIDTH, _HEIGHT = 640, 360
# Margins of the figure, for numbers and labels of the axes.
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
    left, top = (min(8 + 7 * max(map(len, labels)), 220) for labels in (useful, released))
    wide, tall = left + cell * outputs + 4, top + cell * inputs + 4
    parts = [
        f'<svg viewBox="0 0 {wide} {tall}" role="img" aria-labelledby="mapping-title" style="max-width:{wide}px">'
        '<title id="mapping-title">Probability of each released combination (across) for each original one (down)'
        "</title>",
        f'<rect class="frame" x="{left}" y="{top}" width="{cell * outputs}" height="{cell * inputs}"/>',
    ]
    size = min(12, cell)
    for x, label in enumerate(useful):
        parts.append(
            f'<text class="name" font-size="{size}" x="{left - 6}" y="{top + cell * (x + 0.75):.1f}" '
            f'text-anchor="end">{escape(label)}</text>'
        )
    for y, label in enumerate(released):
        place = f"translate({left + cell * (y + 0.75):.1f} {top - 6}) rotate(-90)"
        parts.append(f'<text class="name" font-size="{size}" transform="{place}">{escape(label)}</text>')
    for x, y in np.argwhere(matrix >= LEAST_DRAWN).tolist():
        chance = float(matrix[x, y])
        parts.append(
            f'<rect class="cell" x="{left + cell * y}" y="{top + cell * x}" width="{cell}" height="{cell}" '
            f'fill-opacity="{chance:.3f}"><title>{escape(useful[x])} to {escape(released[y])}: {chance:.3f}'
            "</title></rect>"
        )
    return "".join([*parts, "</svg>"])


STYLE = """
:root{color-scheme:light dark;--ink:#1b2733;--soft:#5b6b7a;--paper:#fff;--tint:#eef3f8;--blue:#1f5fa8;--warm:#b4540a}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9fb0c0;--paper:#12181f;--tint:#1c2630;--blue:#7ab3f0;
--warm:#f0a35e}}
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,sans-serif}
main{max-width:46rem;margin:0 auto;padding:1.2rem 1rem 4rem}h1{font-size:1.7rem;line-height:1.2;margin:.6rem 0}
h2{font-size:1.2rem;margin:2.2rem 0 .6rem}p,ul,table{margin:.6rem 0}.lead{font-size:1.1rem}.soft{color:var(--soft)}
.box{background:var(--tint);border-radius:.6rem;padding:.8rem 1rem}.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%}th,td{text-align:right;padding:.35rem .5rem;border-bottom:1px solid
var(--tint)}
th:first-child,td:first-child{text-align:left}svg{width:100%;height:auto;display:block}input[type=range]{width:100%}
select{max-width:100%;font:inherit}
code{overflow-wrap:anywhere;font-size:.85em}.band{fill:var(--blue);opacity:.25}
.line{fill:none;stroke:var(--blue);stroke-width:2}
.axis{stroke:var(--soft)}.grid{stroke:var(--soft);opacity:.25}.tick,.label,.name{fill:var(--ink)}.tick{font-size:12px}
.label{font-size:13px}.chosen{fill:var(--warm)}.point{fill:none;stroke:var(--warm);stroke-width:2.5}
.cell{fill:var(--blue)}.frame{fill:none;stroke:var(--soft)}td{white-space:nowrap}
@media(max-width:32rem){.tick,.label{font-size:19px}th,td{padding:.35rem .2rem;font-size:.8rem}
td:first-child{white-space:normal}}
"""

# One row of the mapping as text: the picture shows it only under a pointer.
ROWS_SCRIPT = """
(function(){var rows=JSON.parse(document.getElementById('rows').textContent);
var origin=document.getElementById('origin'),words=document.getElementById('words');
function show(){words.textContent='Released as '+rows[origin.selectedIndex].join('; ')+'.';}
origin.addEventListener('input',show);show();})();
"""

SCRIPT = """
(function(){var data=JSON.parse(document.getElementById('data').textContent);
var slider=document.getElementById('slider'),said=document.getElementById('said');
var point=document.getElementById('point');function number(name){return parseFloat(point.dataset[name]);}
function show(){var one=data[slider.value];
point.setAttribute('cx',number('left')+number('wide')*one[0]/number('right'));
point.setAttribute('cy',number('zero')-number('tall')*one[2]/number('top'));
said.textContent='Mean distortion '+one[3]+': the least leakage lies between '+one[4]+' and '+one[5]+' nats.';
slider.setAttribute('aria-valuetext',said.textContent);}
slider.addEventListener('input',show);show();})();
"""
