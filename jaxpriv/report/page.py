"""A design as one page for people: no network, no other file, readable on a phone, usable with the keyboard.

`numbers` computes what is shown; the pictures are SVG text.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape

import numpy as np

from jaxpriv._validation import scalar
from jaxpriv.estimation.audit import MechanismAudit, audit_mechanism
from jaxpriv.leakage import by_name
from jaxpriv.mechanism import Evidence, Mechanism
from jaxpriv.problems import DistortionProblem
from jaxpriv.verifier.claims import Claim

# Budgets of the curve: straight lines between them look smooth at the width of the figure.
_POINTS = 41


@dataclass(frozen=True)
class Guess:
    """What a reader of the release can know of one private class, on the records of the design.

    Attributes:
        label: the class.
        share: of the records: the chance that a guess of it is right without the release.
        highest, lowest: the same chance at the outputs that raise and that lower it most.
        mean: the average chance of it among the records that have it.
    """

    label: str
    share: float
    highest: float
    lowest: float
    mean: float


@dataclass(frozen=True)
class Curve:
    """Certified optima for many targets: `lower` and `upper` (B,) hold the optimum at each of `points` (B,)."""

    points: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    chosen: tuple[float, float]
    across: str
    up: str


@dataclass(frozen=True, eq=False)
class Numbers:
    """All that is computed for a page; what needs counts is None without them.

    Attributes:
        right_before, right_after: the chance of the best guess of the private class, without and with the release.
    """

    guesses: tuple[Guess, ...] | None
    right_before: float | None
    right_after: float | None
    curve: Curve | None
    audit: MechanismAudit | None


def numbers(mechanism: Mechanism, evidence: Evidence | None, confidence: float) -> Numbers:
    """The numbers of a report, from the design alone or with its evidence."""
    if evidence is None:
        return Numbers(None, None, None, None, None)
    joint = evidence.counts / evidence.counts.sum()
    kept = joint.any(axis=1)
    outputs = joint[kept] @ mechanism.matrix()
    prior = outputs.sum(axis=1)
    named = evidence.private_labels
    labels = [", ".join(own[code] for own, code in zip(named, row, strict=True)) for row in evidence.private.tolist()]
    audit = None
    if evidence.held_out is not None and evidence.held_out.any():
        audit = audit_mechanism(mechanism.matrix(), counts=evidence.held_out, confidence=confidence, held_out=True)
    return Numbers(
        guesses=_guesses(outputs, [label for label, there in zip(labels, kept, strict=True) if there]),
        right_before=float(prior.max()),
        right_after=float(outputs.max(axis=0).sum()),
        curve=_certified_curve(mechanism, evidence),
        audit=audit,
    )


def _guesses(outputs: np.ndarray, labels: list[str]) -> tuple[Guess, ...]:
    prior, mass = outputs.sum(axis=1), outputs.sum(axis=0)
    used = mass > 0
    posterior = outputs[:, used] / mass[used]
    mean = (outputs[:, used] * posterior).sum(axis=1) / prior
    return tuple(
        Guess(label, float(share), float(row.max()), float(row.min()), float(average))
        for label, share, row, average in zip(labels, prior, posterior, mean, strict=True)
    )


def _certified_curve(mechanism: Mechanism, evidence: Evidence) -> Curve | None:
    """The certified curve of a design with a distortion and mutual information; None for another one."""
    from jaxpriv.solving.frontier import frontier

    asked = mechanism.asked
    if mechanism.distortion is None or asked.leakage["name"] != "mutual-information":
        return None
    seen = evidence.counts.any(axis=0)
    joint = evidence.counts[:, seen] / evidence.counts.sum()
    claims = evidence.claims(mechanism)
    leakage, spent = (float(claims[name].upper or 0) for name in ("leakage", "distortion"))
    measure: object = by_name("mutual-information")
    problem = DistortionProblem(joint, mechanism.distortion[seen], budget=max(spent, 1e-9), leakage=measure)
    least = float(mechanism.distortion[seen].min(axis=1) @ joint.sum(axis=0))
    points = np.linspace(least, max(2.5 * (spent - least), 0.05) + least, _POINTS)
    found = frontier(problem, budgets=points)
    at = np.unique(np.append(points, spent))
    lower, upper = found.band(at)
    return Curve(at, lower, upper, (spent, leakage), "mean distortion", "leakage I(S;Y), nats")


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


_STYLE = """
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
_ROWS_SCRIPT = """
(function(){var rows=JSON.parse(document.getElementById('rows').textContent);
var origin=document.getElementById('origin'),words=document.getElementById('words');
function show(){words.textContent='Released as '+rows[origin.selectedIndex].join('; ')+'.';}
origin.addEventListener('input',show);show();})();
"""

_SCRIPT = """
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


_OWNER = "This page names private classes and their shares: it is for those who may know them."
_ALPHABETS = (
    "Here the classes of private and useful columns are those of all records of the table (quantiles: of those of the "
    "design)."
)


def report(mechanism: Mechanism, evidence: Evidence | None = None, *, confidence: float = 0.95) -> str:
    """The page, HTML text.

    Without evidence it says what holds for every population, and shows the mapping; with it, what a reader of the
    release can learn of each private class, the certified curve, and bounds for the population. A page with evidence
    names private classes and their shares: it is for the owner of the records and those who may know them.

    Raises `InputError` for a confidence outside of (0, 1).
    """
    level = scalar(confidence, "confidence", low=0.0, high=1.0, open_low=True)
    found = numbers(mechanism, evidence, level)
    sections = [
        _head(mechanism, evidence),
        _learned(mechanism, found),
        _classes(found.guesses),
        _curve(found.curve),
        _mapping(mechanism),
        _population(found),
        _limits(mechanism, evidence),
    ]
    scripts = [_SCRIPT] if found.curve is not None else []
    scripts += [_ROWS_SCRIPT] if drawn(mechanism.table.shape) else []
    script = "".join(f"<script>{text}</script>" for text in scripts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Privacy report</title><style>{_STYLE}</style></head>\n<body><main>"
        + "\n".join(section for section in sections if section)
        + f"</main>{script}</body></html>\n"
    )


def _head(mechanism: Mechanism, evidence: Evidence | None) -> str:
    book, asked = mechanism.codebook, mechanism.asked
    target = {
        "budget": f"to change the useful columns by at most {asked.target:g} on average, and to leak as little as "
        "possible",
        "leakage-budget": f"to leak at most {asked.target:g} nats, and to change the useful columns as little as "
        "possible",
        "disclosure": f"to release at least {asked.target:g} nats of information about the useful columns, and to "
        "leak as little as possible",
        "watchdog": "to release symbols with small log-lift unchanged, and to merge the others, with no posterior "
        f"more than a factor {math.exp(asked.target):.3g} from the prior",
    }[asked.problem]
    records = ""
    if evidence is not None:
        records = f" It was made from {int(evidence.counts.sum())} records. {_OWNER}"
    return (
        "<h1>What this release reveals</h1>"
        f'<p class="lead">Private: <b>{_list(book.private)}</b>. Useful: <b>{_list(book.useful)}</b>. Every record is '
        f"released in a changed form: <b>{_list(mechanism.released_columns)}</b>, drawn at random by fixed "
        f"probabilities.</p><p>Target of the design: {escape(target)}.{records}</p>"
        f'<p class="soft">Design <code>{mechanism.sha256}</code></p>'
    )


def _list(names: Sequence[str]) -> str:
    return ", ".join(escape(name) for name in names)


def _learned(mechanism: Mechanism, found: Numbers) -> str:
    cap = mechanism.guarantees["maximal-leakage"]
    factor = math.exp(float(cap.upper or math.inf))
    parts = ["<h2>What the release reveals</h2>"]
    if found.right_before is not None and found.right_after is not None:
        parts.append(
            f'<p class="box lead">Somebody who guesses the private class of a person is right in '
            f"<b>{_percent_down(found.right_before)}</b> of the cases without the release, and in at most "
            f"<b>{_percent_up(found.right_after)}</b> with it (on the records of the design).</p>"
        )
    bound = "the chance of any guess, of anything about a person, grows at most by a factor of "
    parts.append(f"<p>For every population and every prior knowledge of the reader: {bound}<b>{_up(factor)}</b>.</p>")
    return "".join(parts)


def _classes(guesses: tuple[Guess, ...] | None) -> str:
    if guesses is None:
        return ""
    rows = "".join(
        f"<tr><td>{escape(one.label)}</td><td>{_percent(one.share)}</td><td>{_percent(one.mean)}</td>"
        f"<td>{_percent_up(one.highest)}</td><td>{_percent_down(one.lowest)}</td></tr>"
        for one in guesses
    )
    return (
        "<h2>For each private class</h2><p>How likely the class is for a reader: before the release, on average after "
        "it for those who have it, and after the output that raises and the one that lowers it most.</p>"
        + _scrolled(
            '<table><thead><tr><th scope="col">class</th><th scope="col">before</th><th scope="col">after, on average'
            '</th><th scope="col">at most</th><th scope="col">at least</th></tr></thead>'
            f"<tbody>{rows}</tbody></table>",
            "Private classes",
        )
    )


def _curve(curve: Curve | None) -> str:
    if curve is None:
        return ""
    known = np.isfinite(curve.upper) & np.isfinite(curve.lower)
    points = zip(curve.points[known], curve.lower[known], curve.upper[known], strict=True)
    data = [[float(x), float(low), float(high), f"{x:.4g}", _down(max(low, 0.0)), _up(high)] for x, low, high in points]
    start = int(np.argmin(abs(curve.points[known] - curve.chosen[0])))
    return (
        "<h2>The choice</h2><p>Less change means more leakage. The line is what the best possible mapping leaks, the "
        "band what is proved about it; the dot is this design.</p>"
        f"{curve_picture(curve)}"
        '<label for="slider">Move along the line (arrow keys work):</label>'
        f'<input type="range" id="slider" min="0" max="{len(data) - 1}" value="{start}" step="1">'
        '<p class="box" id="said" aria-live="polite"></p>'
        f'<script type="application/json" id="data">{json.dumps(data)}</script>'
    )


def _mapping(mechanism: Mechanism) -> str:
    useful = _names(mechanism.useful, [mechanism.codebook.rules[name].labels for name in mechanism.codebook.useful])
    released = _names(mechanism.released, mechanism.released_labels)
    picture = mapping_picture(mechanism.matrix(), useful, released)
    if picture is None:
        text = f"<p>{len(useful)} original and {len(released)} released combinations: too many to draw.</p>"
        return f"<h2>The mapping</h2>{text}"
    options = "".join(f"<option>{escape(name)}</option>" for name in useful)
    rows = [
        [f"{released[y]}: {row[y]:.3f}" for y in np.argsort(-row, kind="stable") if row[y] >= LEAST_DRAWN]
        for row in mechanism.matrix()
    ]
    data = json.dumps(rows).replace("<", "\\u003c")  # no label ends the element
    return (
        "<h2>The mapping</h2><p>Down: what a record is. Across: what is released for it; darker is more likely.</p>"
        f"{_scrolled(picture, 'Picture of the mapping')}"
        '<label for="origin">What is released for a record (arrow keys work):</label> '
        f'<select id="origin">{options}</select><p class="box" id="words" aria-live="polite"></p>'
        f'<script type="application/json" id="rows">{data}</script>'
    )


def _scrolled(content: str, name: str) -> str:
    """What may be wider than a phone, in a region that the keyboard reaches and scrolls."""
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{name}">{content}</div>'


def _names(codes: np.ndarray, labels: Sequence[tuple[str, ...]]) -> list[str]:
    return [" · ".join(own[code] for own, code in zip(labels, row, strict=True)) for row in codes.tolist()]


def _population(found: Numbers) -> str:
    audit = found.audit
    if audit is None or audit.confidence is None:
        return (
            "<h2>For the population</h2><p>No records were held out, so this page has no bounds for people who are not "
            "in the table.</p>"
        )
    wanted = ("mutual-information", "maximal-leakage", "min-entropy")
    rows = "".join(
        f"<tr><td>{escape(row.name)}</td><td>{_up(row.fitted or 0.0)}</td><td>{_up(row.upper)}</td>"
        f"<td>{'' if row.cap is None else _up(row.cap)}</td></tr>"
        for row in audit.rows
        if row.name in wanted and row.upper is not None and row.units == "nats"
    )
    statements = (*audit.assumptions.statements, _ALPHABETS)
    sentences = "".join(f"<li>{escape(text)}</li>" for text in statements)
    return (
        f"<h2>For the population</h2><p>From {audit.assumptions.records} records that the design does not depend on; "
        f"all bounds together hold with confidence {audit.confidence:g}. Nats.</p>"
        + _scrolled(
            '<table><thead><tr><th scope="col">measure</th><th scope="col">on these records</th>'
            '<th scope="col">population, at most</th><th scope="col">any population, at most</th></tr></thead>'
            f"<tbody>{rows}</tbody></table>",
            "Bounds for the population",
        )
        + f"<p>This stands on:</p><ul>{sentences}</ul>"
    )


def _limits(mechanism: Mechanism, evidence: Evidence | None) -> str:
    claims = {} if evidence is None else evidence.claims(mechanism)
    proved = ""
    if "gap" in claims and "lower_bound" in claims:
        proved = (
            "<p>No other mapping does better than this one by more than "
            f"{_claim(claims['gap'])}: the bound was computed again with whole numbers.</p>"
        )
    return (
        "<h2>What it does not protect against</h2><ul>"
        "<li>A second release of the same people, by this or another design: two draws reveal more than one.</li>"
        "<li>Somebody who knows all records of the design but one: making the design again for every possible last "
        "record and comparing can show which it was.</li>"
        "<li>Columns that are released beside it as they are, and anything else that is known of a person.</li>"
        "<li>Inference about a group: that two things go together stays visible; the release is for that.</li>"
        "<li>A population other than that of the records, for every number not stated for “any” population.</li>"
        f"</ul>{proved}"
        '<p class="soft">How to check: <code>jaxpriv verify DESIGN.zip --private AUDIT.zip</code></p>'
    )


def _claim(claim: Claim) -> str:
    return f"{_up(float(Fraction(claim.upper or '0')))} {escape(claim.unit)}"


def _up(value: float) -> str:
    return _digits(value, math.ceil)


def _down(value: float) -> str:
    return _digits(value, math.floor)


def _digits(value: float, rounding: Callable[[float], int]) -> str:
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    step = 10.0 ** (math.floor(math.log10(abs(value))) - 3)
    return f"{rounding(value / step) * step:.4g}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _percent_up(share: float) -> str:
    return f"{min(math.ceil(1000 * share), 1000) / 10:.1f} %"


def _percent_down(share: float) -> str:
    return f"{math.floor(1000 * share) / 10:.1f} %"
