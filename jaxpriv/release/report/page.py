"""A design as one page of HTML for people who decide about it: who can learn what, and what is proved.

    page = report(mechanism, evidence)

It needs no network and no other file, is readable on a phone and usable with the keyboard; its content security policy
admits its own style and scripts, by their hashes, and nothing else. `numbers` computes what is shown; the pictures are
SVG text.
"""

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from html import escape
from importlib import resources
from unicodedata import east_asian_width

import numpy as np

from jaxpriv._runtime.counts import failure
from jaxpriv._runtime.validation import instance
from jaxpriv.problems import DistortionProblem
from jaxpriv.release import Evidence, GroupedEvidence, GroupedMechanism, Mechanism
from jaxpriv.release.fitting import audited
from jaxpriv.release.grouped import check_evidence
from jaxpriv.release.grouping import of_population
from jaxpriv.release.mechanism import MADE_BY_FIT, combined, correct_guess
from jaxpriv.release.report.comparison import expected
from jaxpriv.statistics.audit import MechanismAudit
from jaxpriv.verifier.claims import Claim, measure_label
from jaxpriv.verifier.logarithms import lower, percent, upper
from jaxpriv.verifier.releases import Receipt, check_design

# Budgets of the curve: straight lines between them look smooth at the width of the figure.
_POINTS = 41
# Four significant digits, rounded against the design.
_up, _down = partial(upper, digits=4), partial(lower, digits=4)
# A value on records below this is rounding, or as good as nothing: four digits of it would say too much.
_NOTHING = 1e-9
# e^x for an x beyond this is no float64.
_LARGEST_POWER = 709.0


@dataclass(frozen=True)
class Guess:
    """What a reader of the release can infer about one private class, on the records of the design.

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
    """Certified optima for many targets: `lower` and `upper` (B,) hold the optimum at each of `points` (B,).

    `right` (B,) is the chance of the best guess of the private class after a release by the mapping that was computed
    for the point, which is the design itself at `chosen`. `whole` is H(S), the leakage of a release that reveals S.
    """

    points: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    right: np.ndarray
    chosen: tuple[float, float]
    whole: float


@dataclass(frozen=True, eq=False)
class Numbers:
    """All that is computed for a page; what needs counts is absent without them.

    Attributes:
        right: the chance of the best guess of the private class, as `Evidence.guesses` has it.
        claims: of the design on its records.
    """

    guesses: tuple[Guess, ...] | None = None
    right: Mapping[str, float] | None = None
    curve: Curve | None = None
    audit: MechanismAudit | None = None
    claims: Mapping[str, Claim] = field(default_factory=dict)


def numbers(mechanism: Mechanism, evidence: Evidence | None, confidence: float) -> Numbers:
    """The numbers of a report, from the design alone or with its evidence."""
    if evidence is None:
        return Numbers()
    joint = evidence.counts / evidence.counts.sum()
    present = joint.any(axis=1)
    outputs = joint[present] @ mechanism.all_drawn()
    labels = combined(evidence.private, evidence.private_labels)
    audit, claims = None, evidence.claims(mechanism)
    if evidence.held_out is not None and evidence.held_out.any():
        audit = audited(mechanism, evidence, confidence)
    return Numbers(
        guesses=_guesses(outputs, [label for label, there in zip(labels, present, strict=True) if there]),
        right=evidence.guesses(mechanism),
        curve=_certified_curve(mechanism, evidence, claims),
        audit=audit,
        claims=claims,
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


def _certified_curve(mechanism: Mechanism, evidence: Evidence, claims: Mapping[str, Claim]) -> Curve | None:
    """The certified curve of a design with a distortion and mutual information; None for another one, and for one that
    looks at earlier draws.
    """
    from jaxpriv.solving.frontier import frontier

    asked = mechanism.asked
    if (
        mechanism.distortion is None
        or asked.measure.certified_as != "mutual-information"
        or mechanism.earlier is not None
    ):
        return None
    seen = evidence.counts.any(axis=0)
    joint = evidence.counts[:, seen] / evidence.counts.sum()
    leakage, spent = (float(claims[name].upper or 0) for name in ("leakage", "distortion"))
    problem = DistortionProblem(joint, mechanism.distortion[seen], budget=max(spent, 1e-9))
    least = float(mechanism.distortion[seen].min(axis=1) @ joint.sum(axis=0))
    points = np.linspace(least, max(2.5 * (spent - least), 0.05) + least, _POINTS)
    curve = frontier(problem, budgets=points)
    at, first = np.unique(np.append(spent, points), return_index=True)
    lower, upper = curve.band(at)
    mappings = [mechanism.matrix()[seen], *np.asarray(curve.solutions.mechanism)]
    right = np.array([correct_guess(joint, mapping) for mapping in mappings])[first]
    prior = joint.sum(axis=1)
    whole = -float(prior[prior > 0] @ np.log(prior[prior > 0]))
    finite = np.isfinite(lower) & np.isfinite(upper) & np.isfinite(right)
    return Curve(at[finite], lower[finite], upper[finite], right[finite], (spent, leakage), whole)


_OWNER = "This page names private classes and their shares: it is for those who may know them."
_ALPHABETS = (
    "Here the classes of private and useful columns are those of all records of the table (quantiles: of those of the "
    "design), unless they were given."
)


def report(
    mechanism: Mechanism | GroupedMechanism,
    evidence: Evidence | GroupedEvidence | None = None,
    *,
    receipt: Receipt | None = None,
    confidence: float = 0.95,
) -> str:
    """The page, HTML text.

    Without evidence it has what holds for every population, and shows the mapping; with it, what a reader of the
    release can learn of each private class, the certified curve, and bounds for the population. A page with evidence
    names private classes and their shares: it is for the owner of the records and those who may know them. With the
    receipt of a release (`jaxpriv.verifier.read_receipt`) it says what was kept of the records and whether a ledger and
    a random order of the rows were used. Of several groups of columns it has what all of them reveal together, and then
    each group by itself.

    Raises `InputError` for a confidence outside of (0, 1), `IntegrityError` for the evidence or the
    receipt of another mechanism.
    """
    instance(mechanism, "mechanism", Mechanism, GroupedMechanism, hint=MADE_BY_FIT)
    if receipt is not None:
        instance(receipt, "receipt", Receipt, hint="; jaxpriv.verifier.read_receipt reads one")
    level = failure(confidence, "confidence")
    counts: Sequence[Evidence | None] = [None] * len(mechanism.parts)
    if evidence is not None:
        check_evidence(evidence, mechanism)
        counts = evidence.parts
    parts = list(zip(mechanism.parts, counts, strict=True))
    every = [numbers(part, evidence, level) for part, evidence in parts]
    shown = [
        [
            _classes(figures_of_part.guesses),
            _curve(figures_of_part, place),
            _mapping(part, evidence, place),
            _lost(part, evidence),
        ]
        for place, ((part, evidence), figures_of_part) in enumerate(zip(parts, every, strict=True), 1)
    ]
    if isinstance(mechanism, GroupedMechanism):
        together = evidence if isinstance(evidence, GroupedEvidence) else None
        learned, bounds, proved = _together(mechanism, together, level), "", ""
        middle = [text for group in zip(mechanism.parts, shown, strict=True) for text in _of_group(*group)]
    else:
        learned, middle = _guess(every[0]), shown[0]
        bounds = _population(every[0], counts[0], measure_label(mechanism.asked.measure))
        proved = _proved(every[0].claims, mechanism.distortion is not None)
    sections = [
        _head(mechanism, counts[0]),
        _learned(mechanism, learned),
        *middle,
        bounds,
        _release(mechanism, receipt),
        _limits(proved, receipt),
    ]
    style, scripts = _data("report.css"), [_data("report-rows.js")]
    scripts += [_data("report-curve.js")] if any(figures_of_part.curve is not None for figures_of_part in every) else []
    script = "".join(f"<script>{text}</script>" for text in scripts)
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {' '.join(map(_hash, scripts))}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Privacy report</title><style>{style}</style></head>\n<body><main>"
        + "\n".join(section for section in sections if section)
        + f"</main>{script}</body></html>\n"
    )


def _data(name: str) -> str:
    """A style sheet or a script of the page."""
    return "\n" + resources.files("jaxpriv").joinpath("_assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """The source of a policy that admits one inline text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _head(mechanism: Mechanism | GroupedMechanism, evidence: Evidence | None) -> str:
    book, every = mechanism.codebook, [part.asked for part in mechanism.parts]
    asked = replace(every[0], target=math.fsum(part.target for part in every))  # groups have budgets, which add up
    same_columns = mechanism.released_columns == book.useful
    factor = _up(math.exp(asked.target) if asked.target < _LARGEST_POWER else math.inf)
    rule = "to release a group of combinations in place of each"
    if same_columns:
        rule = (
            "to release a combination unchanged where it reveals little of the private class, and to hide which of the "
        )
        rule += "others it was"
    target = {
        "budget": f"to change the useful columns by at most {asked.target:g} on average, and to reveal as little as "
        "possible of the private ones",
        "leakage-budget": f"to reveal at most {asked.target:g} nats ({asked.leakage['name']}) of the private columns, "
        "and to change the useful ones as little as possible",
        "disclosure": f"to release at least {asked.target:g} nats of information about the useful columns, and to "
        "reveal as little as possible of the private ones",
        "watchdog": f"{rule}, so that for a reader no private class becomes more than {factor} times more or less "
        "likely (on the records of the design)",
    }[asked.problem]
    records = ""
    if evidence is not None:
        records = f" It was made from {int(evidence.counts.sum())} records. {_OWNER}"
    before = ""
    for part in mechanism.parts:
        if part.earlier is not None:
            before = (
                "<p>The same records are released by an earlier design too, at whose draws this one looks. What is "
                "said here of a reader, and the leakage of the target, are about readers of both. Earlier design "
                f"<code>{part.earlier.sha256}</code></p>"
            )
    return (
        "<h1>What this release reveals</h1>"
        f'<p class="lead">Private: <b>{_list(book.private)}</b>. Useful: <b>{_list(book.useful)}</b>. Released of '
        f"every record: <b>{_list(mechanism.released_columns)}</b>, drawn at random by fixed probabilities that depend "
        f"on its useful columns only.</p><p>Target of the design: {escape(target)}.{records}</p>{before}"
        f'<p class="soft">Design <code>{mechanism.sha256}</code></p>'
    )


def _list(names: Sequence[str]) -> str:
    return ", ".join(escape(name) for name in names)


def _guess(figures_of_part: Numbers) -> str:
    right = figures_of_part.right
    if right is None:
        return ""
    return (
        f"Somebody who makes the best guess of the private class of a person is right in "
        f"<b>{percent(right['without'], places=2)}</b> of the cases without the release, and in at most "
        f"<b>{percent(right['with'], up=True, places=2)}</b> with it. With the useful columns as they are it would be "
        f"{percent(right['unchanged'], places=2)} (on the records of the design)."
    )


def _together(mechanism: GroupedMechanism, evidence: GroupedEvidence | None, confidence: float) -> str:
    """What all groups reveal, read side by side."""
    if evidence is None:
        return ""
    leakage, exact = evidence.leakage(mechanism)
    bound = "" if exact else ", a bound by the chain rule"
    text = (
        f"The releases of all groups, read side by side, reveal at most <b>{_up(leakage.most)}</b> "
        f"nats of the private class (mutual information, on the records of the design{bound})."
    )
    if evidence.records[:, -1].any():
        most = of_population(mechanism, evidence, 1 - confidence)
        text += f" In the population it is at most <b>{_up(most)}</b> nats, with confidence {confidence:g}."
    return text


def _of_group(part: Mechanism, sections: Sequence[str]) -> list[str]:
    """The sections of one group, under a heading of their own."""
    heading = (
        f"<h2>The group {_list(part.codebook.useful)}</h2><p>What its columns reveal by themselves, without those of "
        "the other groups.</p>"
    )
    return [heading, *(re.sub(r"(</?h)([23])>", lambda tag: f"{tag[1]}{int(tag[2]) + 1}>", text) for text in sections)]


def _learned(mechanism: Mechanism | GroupedMechanism, sentence: str) -> str:
    """`known`: what is known on the records of the design, a text that may be empty."""
    cap = mechanism.guarantees["maximal-leakage"]
    factor = math.exp(cap.most)
    parts = ["<h2>How often a guess is right</h2>"]
    here = "Numbers for the records of the design need its audit, which was not given."
    if sentence:
        parts.append(f'<p class="box lead">{sentence}</p>')
        here = "For the private class and the records of the design the numbers above hold."
    parts.append(
        "<p>Worst case over all populations, all prior knowledge of a reader and all questions about a person: a guess "
        f"is right at most <b>{_up(factor)}</b> times as often with the release as without. It is attained, "
        "for example, by a reader who guesses the combination of useful classes and for whom all combinations are "
        f"equally likely without the release. {here}</p>"
    )
    return "".join(parts)


def _classes(guesses: tuple[Guess, ...] | None) -> str:
    if guesses is None:
        return ""
    rows = "".join(
        f"<tr><td>{escape(guess.label)}</td><td>{_percent(guess.share)}</td><td>{_percent(guess.mean)}</td>"
        f"<td>{percent(guess.highest, up=True, places=1)}</td><td>{percent(guess.lowest, places=1)}</td></tr>"
        for guess in guesses
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


def _curve(figures_of_part: Numbers, number: int) -> str:
    curve = figures_of_part.curve
    if curve is None or figures_of_part.right is None:
        return ""
    before = percent(figures_of_part.right["without"], places=2)
    points = zip(curve.points, curve.lower, curve.upper, curve.right, strict=True)
    data = [
        [
            float(x),
            float(high),
            f"Mean distortion {x:.4g}: the least leakage lies between {_down(max(low, 0.0))} and {_up(high)} nats. "
            "With the mapping computed for it a guess of the private class is right in at most "
            f"{percent(right, up=True, places=2)} of the cases (without the release {before}).",
        ]
        for x, low, high, right in points
    ]
    start = int(np.argmin(abs(curve.points - curve.chosen[0])))
    return (
        "<h2>The choice</h2><p>Less change means more leakage. Across: the mean distortion, the average cost of what "
        "is changed in a record (one for each changed column, unless the design has other costs). Up: the leakage, in "
        f"nats: 0 where the release reveals nothing of the private class, and {_up(curve.whole)} where it reveals all. "
        "The line is what the best possible mapping to the same combinations leaks, the band (often as thin as the "
        "line) what is proved about it; the dot is this design. Each stop of the slider is a mapping that was "
        "computed, on the records of the design.</p>"
        f"{curve_picture(curve, number)}"
        f'<label for="slider-{number}">Move along the line (arrow keys work):</label>'
        f'<input type="range" id="slider-{number}" min="0" max="{len(data) - 1}" value="{start}" step="1">'
        f'<p class="box" id="said-{number}" aria-live="polite"></p>'
        f'<script type="application/json" id="data-{number}">{json.dumps(data)}</script>'
    )


@dataclass(frozen=True, eq=False)
class HeatMap:
    """P(released|original) (A, B) with a name for the picture, and for each row and column."""

    name: str
    matrix: np.ndarray
    useful: list[str]
    released: list[str]


def heat_maps(mechanism: Mechanism, weights: np.ndarray) -> list[HeatMap]:
    """The mapping as one picture where it is small enough, or else one for each useful column.

    Of a column it is P(released class|original class) for records whose combinations have the `weights` (X,). What is
    released by another name than that of the column stands for all released symbols. Consecutive classes share a
    row or a column of the picture where there are too many of them.
    """
    book = mechanism.codebook
    matrix, labels = mechanism.matrix(), [book.rules[name].labels for name in book.useful]
    released = combined(mechanism.released, mechanism.released_labels, " · ")
    if max(matrix.shape) <= _DRAWN:
        return [HeatMap("Picture of the mapping", matrix, combined(mechanism.useful, labels, " · "), released)]
    pictures = []
    for place, name in enumerate(book.useful):
        sources, rows = _grouped(mechanism.useful[:, place], labels[place])
        targets, columns = _grouped(np.arange(len(released)), released)
        if mechanism.released_columns == book.useful:
            targets, columns = _grouped(mechanism.released[:, place], labels[place])
        mass = (sources * weights[:, None]).T @ matrix @ targets
        present = np.asarray(mass.any(axis=1))
        shares = mass[present] / mass[present].sum(axis=1, keepdims=True)
        rows = [f"{name}: {row}" for row, there in zip(rows, present, strict=True) if there]
        pictures.append(HeatMap(f"Picture of the mapping of {name}", shares, rows, columns))
    return pictures


def _grouped(codes: np.ndarray, labels: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    """Which group of consecutive classes each code is in, (n, G) zeros and ones, and a name for each group."""
    there = np.unique(codes)
    group = np.arange(len(there)) * min(_DRAWN, len(there)) // len(there)
    names = []
    for parts in np.split(there, np.flatnonzero(np.diff(group)) + 1):
        ends = [labels[int(code)] for code in (parts[0], parts[-1])]
        names.append(" to ".join(dict.fromkeys(ends)))
    return np.eye(len(names))[group[np.searchsorted(there, codes)]], names


def _mapping(mechanism: Mechanism, evidence: Evidence | None, number: int) -> str:
    """The pictures of the mapping, and a list of their rows in words."""
    size = len(mechanism.useful)
    weights = np.ones(size) if evidence is None else evidence.counts.sum(axis=0)
    maps = heat_maps(mechanism, weights)
    rows = [_in_words(row, mapping.released) for mapping in maps for row in mapping.matrix]
    data = json.dumps(rows).replace("<", "\\u003c")  # no label ends the element
    options = "".join(f"<option>{escape(name)}</option>" for mapping in maps for name in mapping.useful)
    averaged = ""
    if max(size, len(mechanism.released)) > _DRAWN:
        over = f"the records of the design, of {size} combinations"
        if evidence is None:
            over = f"all {size} combinations of useful classes with equal weights, because their counts are not given"
        averaged = f" One picture for each useful column, averaged over {over}."
    pictures = "".join(
        _scrolled(mapping_picture(mapping, f"{number}-{place}"), mapping.name) for place, mapping in enumerate(maps)
    )
    return (
        "<h2>The mapping</h2><p>Down: what a record is. Across: what is released for it, in a stronger colour where it "
        "is more likely."
        f"{averaged}{'' if mechanism.released_columns == mechanism.codebook.useful else _NUMBERED}</p>{pictures}"
        f'<label for="origin-{number}">What is released for a record (arrow keys work):</label> '
        f'<select id="origin-{number}">{options}</select><p class="box" id="words-{number}" aria-live="polite"></p>'
        f'<script type="application/json" id="rows-{number}">{data}</script>'
    )


def _lost(mechanism: Mechanism, evidence: Evidence | None) -> str:
    """What releases of the records of the design lose on average, and without their counts what a release may lose."""
    if mechanism.released_columns != mechanism.codebook.useful:
        return ""
    if evidence is None:
        return _may_be_lost(mechanism)
    change = expected(mechanism, evidence)
    parts = [
        "<h2>What is lost</h2><p>On the records of the design, on average over releases: the share of the records in "
        "each class before and after, and how many of those that are in it keep it.</p>"
    ]
    for column in change.columns:
        longest = max(float(column.before.max()), float(column.after.max()))
        assert column.unmoved is not None
        assert column.changed is not None
        shares = (column.before.tolist(), column.after.tolist(), column.unmoved.tolist())
        rows = "".join(
            f"<tr><td>{escape(label)}</td><td>{_percent(before)}</td><td>{_percent(after)}</td>"
            f"<td>{_percent(unmoved / before) if before else ''}</td>"
            f"<td>{_bar(before / longest)}{_bar(after / longest, later=True)}</td></tr>"
            for label, before, after, unmoved in zip(column.labels, *shares, strict=True)
        )
        parts.append(
            f"<h3>{escape(column.name)}: changed in {_percent(column.changed)} of the records</h3>"
            + _scrolled(
                '<table><thead><tr><th scope="col">class</th><th scope="col">before</th><th scope="col">after</th>'
                '<th scope="col">kept</th><th scope="col" class="left">before, and below it after</th></tr></thead>'
                f"<tbody>{rows}</tbody></table>",
                f"{escape(column.name)} before and after",
            )
        )
    if change.pairs:
        rows = "".join(
            f"<tr><td>{_list(pair.names)}</td><td>{pair.variation:.3f}</td><td>{pair.association_before:.3f}</td>"
            f"<td>{pair.association_after:.3f}</td></tr>"
            for pair in change.pairs
        )
        parts.append(
            "<h3>Pairs of columns</h3><p>The total variation between their joint distributions before and after (0: "
            "the same, 1: nothing in common), and how strongly they depend on each other (Cramer's V, 0 to 1).</p>"
            + _scrolled(
                '<table><thead><tr><th scope="col">columns</th><th scope="col">total variation</th><th scope="col">'
                'Cramer\'s V before</th><th scope="col">after</th></tr></thead>'
                f"<tbody>{rows}</tbody></table>",
                "Pairs of columns before and after",
            )
        )
    return "".join(parts)


def _may_be_lost(mechanism: Mechanism) -> str:
    """How likely a column is changed: by the design alone, which is public."""
    differ = mechanism.useful[:, None] != mechanism.released[None]
    chances = (mechanism.matrix()[:, :, None] * differ).sum(axis=1)
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{percent(low, places=1)}</td><td>{percent(high, up=True, places=1)}</td></tr>"
        for name, low, high in zip(mechanism.codebook.useful, chances.min(axis=0), chances.max(axis=0), strict=True)
    )
    return (
        "<h2>What is lost</h2><p>How likely a column is changed, for the combinations of useful classes that keep and "
        "that lose it most often.</p>"
        + _scrolled(
            '<table><thead><tr><th scope="col">column</th><th scope="col">at least</th><th scope="col">at most</th>'
            f"</tr></thead><tbody>{rows}</tbody></table>",
            "Changes of each column",
        )
        + "<p>Counts of the released table are therefore not those of the original one. <code>jaxpriv counts "
        "RELEASED.csv --design DESIGN.zip</code> estimates these, each with its standard error.</p>"
    )


def _bar(share: float, *, later: bool = False) -> str:
    """A bar; the number stands beside it in words."""
    kind = "after" if later else "cell"
    bar = f'<rect class="{kind}" width="{130 * share:.1f}" height="8"/>'
    return f'<svg width="130" height="9" aria-hidden="true">{bar}</svg>'


def _in_words(row: np.ndarray, released: Sequence[str]) -> list[str]:
    """The likeliest releases of one row, and the probability of all others together."""
    named = [y for y in np.argsort(-row, kind="stable")[:_NAMED] if row[y] >= _INK]
    words, rest = [f"{released[y]} (probability {row[y]:.3f})" for y in named], 1 - float(row[named].sum())
    return [*words, f"others (probability {rest:.3f})"] if rest >= _INK else words


def _scrolled(content: str, name: str) -> str:
    """What may be wider than a phone, in a region that the keyboard reaches and scrolls."""
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(name)}">{content}</div>'


_NUMBERED = (
    " What is released is a number. It stands for the combinations that are released as it, and has no other meaning."
)
# The measures of the page, in words.
_MEANINGS = {
    "mutual-information": "how much the release reveals of the private class on average; 0 where it reveals nothing",
    "min-entropy": "the logarithm of the factor by which the best guess of the private class is right more often",
    "maximal-leakage": "the logarithm of the factor by which any guess that depends on the person only through the "
    "private class is right more often",
}


def _population(figures_of_part: Numbers, evidence: Evidence | None, measure: str) -> str:
    """`measure`: the label of that of the design, which has a row too."""
    audit = figures_of_part.audit
    if audit is None or audit.confidence is None:
        reason = "No records were held out from the making of the design"
        if evidence is None:
            reason = "The audit of the design, with which bounds are computed, was not given"
        sentence = f"{reason}, so this page has no bounds for people who are not in the table."
        return f"<h2>For the population</h2><p>{sentence}</p>"
    rows = "".join(
        f"<tr><td>{escape(measure_label(row))}</td><td>{_fitted(row.fitted or 0.0)}</td><td>{_up(row.upper)}</td>"
        f"<td>{'' if row.cap is None else _up(row.cap)}</td></tr>"
        for row in audit.rows
        if (row.name in _MEANINGS or measure_label(row) == measure) and row.upper is not None
    )
    statements = (*audit.assumptions.statements, _ALPHABETS)
    sentences = "".join(f"<li>{escape(text)}</li>" for text in statements)
    return (
        f"<h2>For the population</h2><p>From {audit.assumptions.records} records that the design does not depend on; "
        f"all bounds together hold with confidence {audit.confidence:g}. Logarithms in nats.</p>"
        + _scrolled(
            '<table><thead><tr><th scope="col">measure</th><th scope="col">on these records</th>'
            '<th scope="col">population, at most</th><th scope="col">any population, at most</th></tr></thead>'
            f"<tbody>{rows}</tbody></table>",
            "Bounds for the population",
        )
        + f"<ul>{''.join(f'<li>{name}: {text}.</li>' for name, text in _MEANINGS.items())}</ul>"
        + f"<p>These bounds assume:</p><ul>{sentences}</ul>"
    )


# What is done with a record that has no symbol, as a receipt names it.
_UNSEEN = {
    "refuse": "would have ended the release",
    "suppress": "is released as one that was drawn evenly, independently of it",
    "nearest": "is released as the combination that differs in the fewest columns",
}


def _release(mechanism: Mechanism | GroupedMechanism, receipt: Receipt | None) -> str:
    """What a receipt states."""
    if receipt is None:
        return (
            "<h2>The released file</h2><p>No receipt was given, so this page does not say whether a ledger was kept, "
            "in which order the rows are, and which other columns were released beside.</p>"
        )
    check_design(receipt, mechanism.verify(), "the receipt")
    facts = [sentence[0].upper() + sentence[1:] for sentence in receipt.departures]
    if receipt.record.get("ledger") == "used":
        facts.append("The draws are recorded in a ledger: a later release with it repeats them")
    if receipt.permuted:
        facts.append("Rows are in a random order")
    if receipt.record["kept"]:
        facts.append(
            f"Released as they are, covered by no audit: {_list(receipt.record['kept'])}. Who knows these values of a "
            "person may find its row in any order"
        )
    facts.append(f"A record with a combination that no record of the fit had {_UNSEEN[receipt.record['unseen']]}")
    items = "".join(f"<li>{fact}.</li>" for fact in facts)
    return (
        f"<h2>The released file</h2><p>{receipt.rows} records.</p><ul>{items}</ul>"
        f'<p class="soft">SHA-256 <code>{receipt.record["released"]["sha256"]}</code></p>'
    )


def _proved(claims: Mapping[str, Claim], same: bool) -> str:
    """`same`: whether the bound is about mappings to the same combinations, and not to any outputs."""
    proved, outputs = "", " to the same combinations" if same else ""
    if "gap" in claims and "lower_bound" in claims:
        proved = f"<p>No other mapping{outputs} does better than this one by more than {_claim(claims['gap'])}: "
        proved += "the bound was computed again with whole numbers.</p>"
        if "solver_gap" in claims:
            proved += (
                f"<p>The solver proved in floating-point numbers that it is not more than "
                f"{_claim(claims['solver_gap'])}; that was not computed again.</p>"
            )
    return proved


def _limits(proved: str, receipt: Receipt | None) -> str:
    files = "DESIGN.zip" if receipt is None else "RECEIPT.json --design DESIGN.zip --released RELEASED"
    return (
        "<h2>What it does not protect against</h2><ul>"
        "<li>A second release of the same people that no ledger repeats, or by another design: two draws reveal more "
        "than one.</li><li>The order of the rows, where they are in that of the table.</li>"
        "<li>Somebody who knows all records of the design but one: making the design again for every possible last "
        "record and comparing can show which it was.</li>"
        "<li>Columns that are released beside it as they are, and anything else that is known of a person.</li>"
        "<li>Inference about a group: that two things go together stays visible; the release is for that.</li>"
        "<li>A population other than that of the records, for every number not stated for “any” population.</li>"
        f"</ul>{proved}"
        f'<p class="soft">How to check: <code>jaxpriv verify {files}</code>; whoever has the audit adds '
        "<code>--private AUDIT.zip</code></p>"
    )


def _claim(claim: Claim) -> str:
    return f"{_up(claim.most)} {escape(claim.unit)}"


def _fitted(value: float) -> str:
    """A value on records; what rounding may have made of 0 is no number to show."""
    return _up(value) if value >= _NOTHING else f"below {_NOTHING:g}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


# What it looks like: the pictures of a certified curve and of a mapping, styles and scripts.


# The figure in CSS pixels, which a browser scales to the column of text.
_WIDTH, _HEIGHT = 640, 360
# Margins of the figure, for numbers and labels of the axes.
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 16, 34, 56
# More rows or columns than this are no picture any more, a smaller probability no ink, and more names no sentence.
_DRAWN, _INK, _NAMED = 64, 0.005, 10


def curve_picture(curve: Curve, number: int) -> str:
    """The curve; its marker is moved by the page's script, and stands at the chosen point before.

    `number` tells the curves of one page apart.
    """
    x, low, high = curve.points, curve.lower, curve.upper
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
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-labelledby="curve-title-{number}" '
        f'aria-describedby="curve-desc-{number}"><title id="curve-title-{number}">Least leakage for every mean '
        "distortion, with the chosen design</title>"
        f'<desc id="curve-desc-{number}">The least leakage falls from at most {_up(high[0])} nats at a mean distortion '
        f"of {x[0]:.4g} to at most {_up(high[-1])} nats at {x[-1]:.4g}. This design has a mean distortion of "
        f"{curve.chosen[0]:.4g} and leaks at most {_up(curve.chosen[1])} nats.</desc>",
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
        "mean distortion</text>",
        f'<text class="label" x="4" y="{_TOP - 14}">leakage I(S;Y), nats</text>',
        f'<circle class="chosen" cx="{across(curve.chosen[0]):.2f}" cy="{up(curve.chosen[1]):.2f}" r="6"/>',
        f'<circle class="point" id="point-{number}" cx="{across(curve.chosen[0]):.2f}" cy="{up(curve.chosen[1]):.2f}" '
        f'r="9" data-left="{_LEFT}" data-wide="{_WIDTH - _LEFT - _RIGHT}" data-right="{right!r}" data-zero="{up(0)!r}" '
        f'data-tall="{_HEIGHT - _TOP - _BOTTOM}" data-top="{top!r}"/>',
        "</svg>",
    ]
    return "".join(parts)


def _ticks(largest: float) -> list[float]:
    step = 10.0 ** np.floor(np.log10(largest / 2))
    step *= next(factor for factor in (1, 2, 5, 10) if largest / (factor * step) <= 6)
    return [round(float(k * step), 12) for k in range(1, int(largest / step) + 1)]


def _shortened(label: str) -> str:
    """At most 30 characters of a label: its start and its end, where combinations of classes differ."""
    return label if len(label) <= 30 else f"{label[:14]}…{label[-15:]}"


def _columns_of(text: str) -> int:
    """How many Latin letters are as wide as a text."""
    return sum(1 + (east_asian_width(character) in "WF") for character in text)


def mapping_picture(drawn: HeatMap, number: str) -> str:
    """P(y|x) as squares, darker where larger; `number` tells the pictures of one page apart."""
    matrix, useful, released = drawn.matrix, drawn.useful, drawn.released
    inputs, outputs = matrix.shape
    cell = max(8, min(22, 560 // max(inputs, outputs)))
    size = min(12, cell)
    rows, columns = ([_shortened(label) for label in labels] for labels in (useful, released))
    left, top = (8 + round(0.65 * size * max(map(_columns_of, labels))) for labels in (rows, columns))
    wide, tall = left + cell * outputs + 4, top + cell * inputs + 4
    title, description = f"mapping-title-{number}", f"mapping-desc-{number}"
    surest = matrix.max(axis=1)
    high, low = int(surest.argmax()), int(surest.argmin())
    parts = [
        f'<svg viewBox="0 0 {wide} {tall}" width="{wide}" role="img" aria-labelledby="{title}" '
        f'aria-describedby="{description}"><title id="{title}">{escape(drawn.name)}: probability of each of {outputs} '
        f"released (across) for each of {inputs} original ones (down)</title>"
        f'<desc id="{description}">The likeliest release has a probability between {surest[low]:.3f} (of '
        f"{escape(useful[low])}, released as {escape(released[int(matrix[low].argmax())])}) and {surest[high]:.3f} (of "
        f"{escape(useful[high])}, released as {escape(released[int(matrix[high].argmax())])}). Below it, a list says "
        "what is released for each.</desc>",
        f'<rect class="frame" x="{left}" y="{top}" width="{cell * outputs}" height="{cell * inputs}"/>',
    ]
    for x, label in enumerate(rows):
        parts.append(
            f'<text class="name" font-size="{size}" x="{left - 6}" y="{top + cell * (x + 0.75):.1f}" '
            f'text-anchor="end">{escape(label)}</text>'
        )
    for y, label in enumerate(columns):
        place = f"translate({left + cell * (y + 0.75):.1f} {top - 6}) rotate(-90)"
        parts.append(f'<text class="name" font-size="{size}" transform="{place}">{escape(label)}</text>')
    for x, y in np.argwhere(matrix >= _INK).tolist():
        chance = float(matrix[x, y])
        parts.append(
            f'<rect class="cell" x="{left + cell * y}" y="{top + cell * x}" width="{cell}" height="{cell}" '
            f'fill-opacity="{chance:.3f}"><title>{escape(useful[x])} to {escape(released[y])}: {chance:.3f}'
            "</title></rect>"
        )
    return "".join([*parts, "</svg>"])
