"""What an integer table of a mechanism proves, with and without counts: exact, or enclosed and rounded outwards.

The mechanism is W = T / 2^62, T (X, Y) whole numbers with rows that sum to 2^62. With counts N (S, X) of n records
w = N T is whole too, and every probability below is a ratio of whole numbers. Only logarithms are enclosed. Nothing
here is a statement about a population. Standard library only.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, e, floor, inf, isqrt, log2
from typing import Any, TypeAlias

from jaxpriv.errors import IntegrityError
from jaxpriv.verifier.archive import Json, Table
from jaxpriv.verifier.logarithms import FINE, SCALE, down, exp_between, log, log_of, lower, up, upper


def measure_label(measure: Any) -> str:  # noqa: ANN401 (a `Measure`, or a row of an audit or of a report)
    """The name of a measure with its parameters, as people read it."""
    numbers = ((key, getattr(measure, key, None)) for key in ("order", "gamma"))
    notes = [measure.divergence, *(f"{key} {value:g}" for key, value in numbers if value is not None)]
    name = getattr(measure, "certified_as", measure.name)
    return ", ".join(filter(None, [name, *notes, measure.form if name.startswith("gain-") else None]))


# W = T/2^62: rows of unsigned 64-bit numbers add up without overflow.
BITS = 62
ONE = 2**BITS  # the sum of a row

Matrix = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Claim:
    """One number: it lies in [lower, upper], decimal texts rounded outwards; None where there is no number ("inf")."""

    lower: str | None
    upper: str | None
    unit: str

    @property
    def record(self) -> Json:
        """The claim as JSON."""
        return {"lower": self.lower, "upper": self.upper, "unit": self.unit}

    @property
    def most(self) -> float:
        """The upper end as the nearest number; infinite without one."""
        return float(self.upper or inf)

    def end(self, units: str = "nats", *, down: bool = False, digits: int = 6) -> str:
        """The upper end for a reader, rounded up to so many digits, or with `down` the lower one, rounded down.

        Nats are converted to `units`, "nats" or "bits", which stand behind them; of an absent end "inf (no bound)".
        """
        end = self.lower if down else self.upper
        if end is None:
            return "inf (no bound)"
        of_nats = self.unit == "nats"
        value = Fraction(end) * Fraction(log2(e) if of_nats and units == "bits" else 1)
        return (lower if down else upper)(float(value), digits) + (f" {units}" if of_nats else "")


INFINITE = Claim(None, None, "nats")

# SCALE times the ends of an interval that holds a number.
Ends: TypeAlias = tuple[Fraction | int, Fraction | int]


def _between(ends: Ends, unit: str = "nats") -> Claim:
    """A number >= 0 with SCALE times it between the ends."""
    low, high = (max(Fraction(end), Fraction(0)) / SCALE for end in ends)
    return Claim(down(low), up(high), unit)


def _exactly(value: Fraction) -> Ends:
    return value * SCALE, value * SCALE


def log_total(terms: Iterable[tuple[int, int, int]]) -> tuple[int, int]:
    """SCALE sum weight ln(above/below) of terms (weight, above, below) of whole numbers, rounded down and up."""
    low = high = 0
    for weight, above, below in terms:
        ends = log(above, below)
        low, high = low + weight * ends[0], high + weight * ends[1]
    return low, high


def entropy(masses: Iterable[int], n: int) -> tuple[int, int]:
    """n SCALE H of masses/n, rounded down and up."""
    return log_total((mass, n, mass) for mass in masses if mass)


def matrix(table: Table, name: str) -> list[Sequence[int]]:
    """The rows of a mechanism's integer table; `IntegrityError` for a row that does not sum to 2^62."""
    rows = list(table.rows())
    if not rows or not rows[0]:
        raise IntegrityError(f"{name} is empty")
    for x, row in enumerate(rows):
        if sum(row) != ONE:
            raise IntegrityError(f"{name}: row {x} does not sum to 2^{BITS}")
    return rows


def without_counts(rows: Matrix) -> dict[str, Claim]:
    """What holds for every population and every adversary's knowledge: it needs the table alone.

    `maximal-leakage`: ln sum_y max_x W(y|x), a bound of I(S;Y) and of what a release adds to any guess of anything;
    `ldp`: the largest ln W(y|x)/W(y|x'), infinite where an output is possible for some records only. The rows may have
    any common sum.
    """
    columns = list(zip(*rows, strict=True))
    tops = [max(column) for column in columns]
    by_name = {"maximal-leakage": _between(log_of(Fraction(sum(tops), sum(rows[0]))))}
    bottoms = [min(column) for column, top in zip(columns, tops, strict=True) if top]
    if 0 in bottoms:
        by_name["ldp"] = INFINITE
    else:
        tops = [top for top in tops if top]
        by_name["ldp"] = _between(log_of(max(Fraction(a, b) for a, b in zip(tops, bottoms, strict=True))))
    return by_name


@dataclass(frozen=True)
class Counted:
    """Counts N (S, X), and w = N T (S, Y) in units of 1 / (n 2^62); private symbols without a record left out."""

    counts: Matrix
    outputs: Matrix
    records: int

    @classmethod
    def of(cls, counts: Table, rows: Matrix, name: str) -> "Counted":
        """`IntegrityError` for counts of another alphabet than the table's, or without a record."""
        if counts.shape[1] != len(rows) or any(number < 0 for number in counts.numbers):
            raise IntegrityError(f"{name} are no counts of the alphabet of the mechanism")
        present = [row for row in counts.rows() if any(row)]
        if not present:
            raise IntegrityError(f"{name} hold no record")
        columns = list(zip(*rows, strict=True))
        outputs = [[sum(map(int.__mul__, row, column)) for column in columns] for row in present]
        return cls(present, outputs, sum(map(sum, present)))

    @property
    def private(self) -> list[int]:
        """N_s."""
        return [sum(row) for row in self.counts]

    @property
    def useful(self) -> list[int]:
        """N_x."""
        return [sum(column) for column in zip(*self.counts, strict=True)]

    def leakage(self, measure: "Measure | str") -> Claim | None:
        """The measure of W on these counts; None for one that is not `Measure.computed`.

        A name stands for the measure without parameters. All are ratios of whole numbers, or logarithms, powers and
        square roots of such, which are enclosed.
        """
        measure = Measure(measure) if isinstance(measure, str) else measure
        if not measure.computed:
            return None
        kind = measure.kind
        of = _Outputs([column for column in zip(*self.outputs, strict=True) if any(column)], self.private, self.records)
        ends: Ends | None = (0, 0)
        # What is not 0 for an independent output alone is rounded: 0 is stated where it is so.
        if kind in ("mutual-information", "correct-guess") or any(p != q for p, q in of.pairs()):
            ends = _COMPUTED[kind](of, measure)
        return INFINITE if ends is None else _between(ends, _UNITS.get(kind, "nats"))

    def disclosure(self, rows: Matrix) -> Claim:
        """I(X;Y)."""
        columns = list(zip(*rows, strict=True))
        useful = [n for n in self.useful if n]
        weights = [[n * weight for n, weight in zip(self.useful, column, strict=True) if n] for column in columns]
        return _between(_information(_Outputs(weights, useful, self.records)))

    def expectation(self, costs: Matrix, rows: Matrix, unit: Fraction) -> Fraction:
        """E d, exact, of costs that are whole multiples of `unit`."""
        total = sum(
            n * sum(map(int.__mul__, cost, row)) for n, cost, row in zip(self.useful, costs, rows, strict=True) if n
        )
        return total * unit / (self.records * ONE)


@dataclass(frozen=True)
class _Outputs:
    """For every output y the masses w_sy = n 2^62 P(s, y); the N_s = n P(s); and n."""

    columns: Matrix
    prior: Sequence[int]
    records: int

    def cells(self) -> Iterator[tuple[int, int, int]]:
        """(w_sy, N_s, sum_s w_sy) of every pair."""
        return ((w, p, mass) for y in self.columns for mass in [sum(y)] for w, p in zip(y, self.prior, strict=True))

    def pairs(self) -> Iterator[tuple[int, int]]:
        """P(s,y) and P(s) P(y) of every pair, in units of 1/(n^2 2^62)."""
        return ((w * self.records, p * mass) for w, p, mass in self.cells())


def _information(of: _Outputs, _: "Measure | None" = None) -> Ends:
    """sum w ln( w n / (N_s w_y) ) / (n 2^62)."""
    n = of.records
    return _over(log_total((w, w * n, p * mass) for w, p, mass in of.cells() if w), n * ONE)


def _over(ends: Ends, whole: int) -> Ends:
    return Fraction(ends[0], whole), Fraction(ends[1], whole)


# -- measures --------------------------------------------------------------------------------------

# Every measure of `jaxpriv.leakage.by_name`: its forms, the default first, and the parameter that it needs.
MEASURES: Mapping[str, tuple[tuple[str, ...], str | None]] = {
    "mutual-information": (("average", "worst"), None),
    "relative-entropy": (("worst",), None),
    "max-information": (("worst",), None),
    "correct-guess": (("average",), None),
    "min-entropy": (("average",), None),
    "sibson": (("average",), "order"),
    "arimoto": (("average",), "order"),
    "maximal-leakage": (("average",), None),
    "maximal-alpha-leakage": (("average",), "order"),
    "f-information": (("average",), "divergence"),
    "gain-log-loss": (("average", "worst"), None),
    "gain-zero-one": (("average", "worst"), None),
    "gain-brier": (("average", "worst"), None),
    "lift": (("worst",), None),
    "max-lift": (("worst",), None),
    "min-lift": (("worst",), None),
    "ldp": (("worst",), None),
    "inferential": (("worst",), None),
}
DIVERGENCES = (
    "kl",
    "reverse-kl",
    "chi-squared",
    "total-variation",
    "squared-hellinger",
    "jensen-shannon",
    "e-gamma",
)
# Measures that are another one at an end of their parameter, or by another name.
_ALSO = {
    ("mutual-information", "worst"): "max-information",
    ("gain-log-loss", "average"): "mutual-information",
    ("gain-log-loss", "worst"): "max-information",
    ("sibson", 1.0): "mutual-information",
    ("sibson", inf): "maximal-leakage",
    ("arimoto", 1.0): "mutual-information",
    ("arimoto", inf): "min-entropy",
    ("maximal-alpha-leakage", 1.0): "mutual-information",
    ("maximal-alpha-leakage", inf): "maximal-leakage",
    ("f-information", "kl"): "mutual-information",
}
# The units of what is not in nats.
_UNITS = {
    "correct-guess": "probability",
    "gain-zero-one": "probability",
    "gain-zero-one worst": "probability",
    "gain-brier": "dimensionless",
    "gain-brier worst": "dimensionless",
    "total-variation": "probability",
    "e-gamma": "probability",
    "chi-squared": "dimensionless",
    "squared-hellinger": "dimensionless",
}


@dataclass(frozen=True)
class Measure:
    """A leakage measure with its parameters, as `jaxpriv.leakage.by_name` takes them; None: the default, or none.

    `fault` says what is wrong with them.
    """

    name: str
    form: str | None = None
    order: float | None = None
    divergence: str | None = None
    gamma: float | None = None

    @classmethod
    def of(cls, record: Json, place: str) -> "Measure":
        """The measure that a file states, numbers as the texts of floats; `IntegrityError` naming `place`."""
        if not isinstance(record, dict) or set(record) != {"name", "form", "order", "divergence", "gamma"}:
            raise IntegrityError(f"{place} is not name, form, order, divergence and gamma of a measure")
        given: dict[str, Any] = dict(record)
        for key in ("name", "form", "divergence"):
            if not isinstance(given[key], str) and (key == "name" or given[key] is not None):
                raise IntegrityError(f"{place}.{key} is not a text")
        for key in ("order", "gamma"):
            if given[key] is not None:
                given[key] = inf if given[key] == "inf" else number(given[key], f"{place}.{key}")
        measure = cls(**given)
        if measure.fault is not None:
            raise IntegrityError(f"{place} {measure.fault}")
        return measure

    @property
    def fault(self) -> str | None:
        """Why it is no measure; None if it is one."""
        forms, needed = MEASURES.get(self.name, ((), None))
        if not forms:
            return "names no measure of the library"
        if self.form is not None and self.form not in forms:
            return "names a form that the measure does not have"
        wanted = {needed} | ({"gamma"} if self.divergence == "e-gamma" else set())
        if any((getattr(self, key) is not None) != (key in wanted) for key in ("order", "divergence", "gamma")):
            return "has not the parameters that the measure takes"
        least = 1.0 if self.name == "maximal-alpha-leakage" else 0.0
        if self.order is not None and not (self.order >= least and self.order > 0):
            return "has an order that the measure does not take"
        if self.divergence is not None and self.divergence not in DIVERGENCES:
            return "names no divergence of the library"
        if self.gamma is not None and not 1 <= self.gamma < inf:
            return "has a gamma that is not a finite number >= 1"
        return None

    @property
    def certified_as(self) -> str:
        """The name by which certificates are read: those of one measure are not those of another of equal value."""
        return "max-information" if (self.name, self.form) == ("mutual-information", "worst") else self.name

    @property
    def kind(self) -> str:
        """What is computed: a name without parameters, a divergence, or sibson and arimoto of an order."""
        form = self.form or MEASURES[self.name][0][0]
        for key in (form, self.order, self.divergence):
            if (self.name, key) in _ALSO:
                return _ALSO[self.name, key]
        if self.divergence is not None:
            return self.divergence
        return f"{self.name} worst" if self.name.startswith("gain-") and form == "worst" else self.name

    @property
    def computed(self) -> bool:
        """Whether it is computed here. A largest value over priors is not: maximal alpha-leakage between its ends."""
        return self.kind != "maximal-alpha-leakage"


def _correct_guess(of: _Outputs, _: Measure) -> Ends:
    return _exactly(Fraction(sum(map(max, of.columns)), of.records * ONE))


def _largest_divergence(of: _Outputs, measure: Measure) -> Ends:
    """max_y D(P(S|y) || P_S), or for max-information max_y H(S) - H(S|Y=y)."""
    n, about_prior = of.records, measure.kind == "relative-entropy"
    ratios = []
    for y in of.columns:
        mass = sum(y)
        logs = ((w, w * n, mass * p) if about_prior else (w, w, mass) for w, p in zip(y, of.prior, strict=True) if w)
        ratios.append(_over(log_total(logs), mass))
    before = (0, 0) if about_prior else _over(entropy(of.prior, n), n)
    low, high = (max(ratio[side] for ratio in ratios) + before[side] for side in (0, 1))
    return low, high


def _maximal_leakage(of: _Outputs, _: Measure) -> Ends:
    largest = (max(Fraction(w, p * ONE) for w, p in zip(y, of.prior, strict=True)) for y in of.columns)
    return log_of(sum(largest, Fraction(0)))


def _min_entropy(of: _Outputs, _: Measure) -> Ends:
    return log_of(Fraction(sum(map(max, of.columns)), max(of.prior) * ONE))


def _of_ratios(of: _Outputs, measure: Measure) -> Ends | None:
    """The largest logarithm of a ratio of P(s|y)/P(s) to 1, of 1 to it, or of two of them for one y."""
    kind = measure.kind
    ratios = [[Fraction(w * of.records, sum(y) * p) for w, p in zip(y, of.prior, strict=True)] for y in of.columns]
    most, least = max(map(max, ratios)), min(map(min, ratios))
    if kind == "max-lift":
        return log_of(most)
    if least == 0:
        return None
    if kind in ("ldp", "inferential"):
        return log_of(max(max(y) / min(y) for y in ratios))
    return log_of(1 / least if kind == "min-lift" else max(most, 1 / least))


def _total(terms: Iterable[tuple[int, int]]) -> Ends:
    """The sum of ratios above/below, each rounded down and up."""
    ends = [(above * SCALE // below, -(-above * SCALE // below)) for above, below in terms]
    return sum(low for low, _ in ends), sum(high for _, high in ends)


def _chi_squared(of: _Outputs, _: Measure) -> Ends:
    whole = of.records**2 * ONE
    return _total(((p - q) ** 2, q * whole) for p, q in of.pairs())


def _hockey_stick(of: _Outputs, measure: Measure) -> Ends:
    """sum max( P - gamma Q, 0 ); gamma = 1 is total variation."""
    gamma = Fraction(measure.gamma or 1.0)
    over = sum(max(p * gamma.denominator - q * gamma.numerator, 0) for p, q in of.pairs())
    return _exactly(Fraction(over, gamma.denominator * of.records**2 * ONE))


def _squared_hellinger(of: _Outputs, _: Measure) -> Ends:
    """sum (sqrt P - sqrt Q)^2 = 2 - 2 sum sqrt(PQ)."""
    roots = [isqrt(p * q * SCALE**2) for p, q in of.pairs()]
    whole, total = of.records**2 * ONE, sum(roots)
    low, high = (2 * SCALE - Fraction(2 * root, whole) for root in (total + len(roots), total))
    return low, high


def _jensen_shannon(of: _Outputs, _: Measure) -> Ends:
    """( D(P || M) + D(Q || M) )/2, M = (P + Q)/2."""
    logs = log_total((count, 2 * count, sum(pair)) for pair in of.pairs() for count in pair if count)
    return _over(logs, 2 * of.records**2 * ONE)


def _reverse_information(of: _Outputs, _: Measure) -> Ends | None:
    """D(Q || P)."""
    if any(not p for p, _ in of.pairs()):
        return None
    return _over(log_total((q, q, p) for p, q in of.pairs()), of.records**2 * ONE)


def _guess_gain(of: _Outputs, _: Measure) -> Ends:
    n = of.records
    return _exactly(Fraction(sum(map(max, of.columns)), n * ONE) - Fraction(max(of.prior), n))


def _largest_guess_gain(of: _Outputs, _: Measure) -> Ends:
    return _exactly(max(Fraction(max(y), sum(y)) for y in of.columns) - Fraction(max(of.prior), of.records))


def _brier_gain(of: _Outputs, _: Measure) -> Ends:
    """sum_y P(y) sum_s P(s|y)^2 - sum_s p_s^2, as a sum of squares: sum_sy P(y) ( P(s|y) - p_s )^2."""
    n = of.records
    return _total(((w * n - p * mass) ** 2, mass * n**3 * ONE) for w, p, mass in of.cells())


def _largest_brier_gain(of: _Outputs, _: Measure) -> Ends:
    most = max(Fraction(sum(w * w for w in y), sum(y) ** 2) for y in of.columns)
    return _exactly(most - Fraction(sum(p * p for p in of.prior), of.records**2))


def _of_order(of: _Outputs, measure: Measure) -> Ends:
    """a/(a-1) ln sum_y P(y) A_y^{1/a} with A_y = sum_s p_s ( P(s|y)/p_s )^a, or for Arimoto sum_s P(s|y)^a/sum_s p_s^a.

    Each sum is bounded from below and from above with its largest term divided out: neither overflows at any order.
    """
    assert measure.order is not None
    order, sibson, n = Fraction(measure.order), measure.name == "sibson", of.records

    def power(above: int, below: int, side: int) -> int:
        return _towards(order * log(above, below)[side], side)

    ends = []
    for side in (0, 1):
        whole = 0 if sibson else _log_sum([(1, power(p, n, 1 - side)) for p in of.prior], 1, 1 - side)
        roots = []
        for y in of.columns:
            mass, seen = sum(y), [(w, p) for w, p in zip(y, of.prior, strict=True) if w]
            if sibson:
                inner = _log_sum([(p, power(w * n, mass * p, side)) for w, p in seen], n, side)
            else:
                inner = _log_sum([(1, power(w, mass, side)) for w, _ in seen], 1, side) - whole
            roots.append((mass, _towards(inner / order, side)))
        ends.append(_log_sum(roots, n * ONE, side) * order / (order - 1))
    low, high = sorted(ends)
    return low, high


def _log_sum(terms: Sequence[tuple[int, int]], whole: int, side: int) -> int:
    """SCALE ln( sum weight e^(power/SCALE) / whole ) of terms (weight, power): rounded down for side 0, up for 1."""
    top = max(power for _, power in terms)
    total = sum(weight * exp_between(power - top)[side] for weight, power in terms)
    return top + log(total, whole * FINE)[side]


def _towards(value: Fraction, side: int) -> int:
    return ceil(value) if side else floor(value)


# What is computed of every `Measure.kind`.
_COMPUTED: Mapping[str, Callable[[_Outputs, Measure], Ends | None]] = {
    "mutual-information": _information,
    "correct-guess": _correct_guess,
    "max-information": _largest_divergence,
    "relative-entropy": _largest_divergence,
    "maximal-leakage": _maximal_leakage,
    "min-entropy": _min_entropy,
    **dict.fromkeys(("lift", "max-lift", "min-lift", "ldp", "inferential"), _of_ratios),
    "sibson": _of_order,
    "arimoto": _of_order,
    "reverse-kl": _reverse_information,
    "chi-squared": _chi_squared,
    "total-variation": _hockey_stick,
    "squared-hellinger": _squared_hellinger,
    "jensen-shannon": _jensen_shannon,
    "e-gamma": _hockey_stick,
    "gain-zero-one": _guess_gain,
    "gain-zero-one worst": _largest_guess_gain,
    "gain-brier": _brier_gain,
    "gain-brier worst": _largest_brier_gain,
}


def as_integers(costs: Table) -> tuple[Matrix, Fraction]:
    """A table of floats (X, Y) as whole multiples of one power of two, exactly."""
    ratios = [value.as_integer_ratio() for value in costs.numbers]
    whole = max(below for _, below in ratios)
    numbers = [above * (whole // below) for above, below in ratios]
    return list(Table(costs.shape, numbers).rows()), Fraction(1, whole)


def number(text: Json, name: str) -> float:
    """A finite number >= 0 that was stored as the text `repr(float)`."""
    try:
        value = float(text) if isinstance(text, str) else -1.0
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf") or repr(value) != text:
        raise IntegrityError(f"{name} is not the text of a number")
    return value
