"""The optimality system of a program with any measures: rows stacked, a point, what depends on it.

Rows of all terms are stacked, T of them. For an output y the variables of the adversary are k (T,):
k = price * g for a smooth term, with g its rule and the price 1 (OBJECTIVE), one number for all outputs
(AVERAGE, PEAK), or one number eta_y for each output (WORST). Then

    Z = cost + k A + sum_j eta_j offset_j + price . columns - nu >= 0

is exactly linear, and for every row i of output y one equation couples X and the rules,

    (A X_y)_i = (normal_i) t + D_i dk_i                       smooth: t times the normal of the set
    (A X_y)_i = reference_i t + v_i - s_i,  s k = mu, v (cap - k) = mu      linear

so that a Newton step always has the same shape: rows with a diagonal D (a block for a user's loss), and one
normalisation for every term (`normal . dk` given). A price eta_y is one more row of that kind: the row is
g_y A + offset, and D = sigma_y / eta_y with sigma_y the slack of the limit.

Where the peak t is the largest ratio of an output, offset becomes offset - t rate: Z has the bilinear term
-t sum_j eta_j rate_j, and the prices satisfy sum_y sum_j eta_jy rate_j . X_y = 1.
"""

from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv.leakage.custom_loss import CENTRED
from jaxpriv.leakage.rule_sets import Boundary, Role, Term
from jaxpriv.program.convex import Layout, Program


class Point(NamedTuple):
    """Primal and dual variables, outputs first."""

    x: Arr  # (Y, X) the mechanism
    z: Arr  # (Y, X) reduced costs
    k: Arr  # (Y, T) rules times prices
    t: Arr  # (Y, J) epigraph variables of the linear terms (one column for every term, unused for others)
    s: Arr  # (Y, T) slacks of linear rows, 1 elsewhere; (Y, 0) without linear rows
    v: Arr  # (Y, T) excesses over capped rows, 0 elsewhere; (Y, 0) without linear rows
    eta: Arr  # (Y, W) prices of the worst-outcome limits of smooth terms
    sigma: Arr  # (Y, W) their slacks
    nu: Arr  # (X,)
    price: Arr  # (B,) of the budgets, then of the limits on sums
    slack: Arr  # (B,)
    peak: Arr  # ()


# The set of a user's loss has kinks where several posteriors have one best announcement. It is smoothed over by what
# is left of the products, divided by the price of the set, and by this share of it: a step that solves for the products
# then treats the kink as it treats a corner of the mechanisms.
_SMOOTHED, _SMOOTHEST = 0.3, 0.3


class Data(NamedTuple):
    """A program rearranged. `linear`, `capped` (T,) bool and `layout` are static in effect."""

    program: Program
    a: Arr  # (T, X), or its diagonal (X,)
    rows: int  # T
    diagonal: bool
    cap: Arr  # (T,) inf where none
    linear: Arr  # (T,) 1.0 on rows of linear terms
    capped: Arr  # (T,)
    row_weight: Arr  # (T,) weights of the central path
    cost: Arr  # (Y, X)
    c: Arr  # (R, Y, X)
    support: Arr  # (Y, X)
    whole: bool  # whether the support is known to be every entry
    h: Arr  # (Y, X)
    marks: Arr  # (B,)
    pairs: Arr
    layout: tuple[Layout, ...]
    normed: tuple[int, ...]  # terms with a normalisation
    priced: np.ndarray  # (T,) int: the column of [price, eta, 1] that is the price of the row's set
    shared: np.ndarray  # (T,) bool: rows of the smooth terms that share the peak
    coupled: tuple[slice, ...]  # rows of the terms whose curvature is no diagonal
    sums: tuple[Arr, ...]  # of the rows of every term, (X,)
    equal: Arr | None  # (B,) bool: limits that are equations, without slack, or None
    rates: Any  # (W, X) of the worst-outcome limits, or None where the peak is no ratio
    rises: Any  # (T, X) what the peak takes off the linear rows, or None where it takes off none
    turns: Any  # (T,) what it adds to their references, or None
    stated: tuple[Program, Arr]  # `program` and `a` where the peak is 0

    def open(self, values: Arr, blank: ScalarLike) -> Arr:
        """Numbers of the limits that are inequalities, (B,); `blank` in the place of equations."""
        return values if self.equal is None else xp.where(self.equal, blank, values)

    def on_support(self, values: Arr, blank: ScalarLike) -> Arr:
        """Numbers of the entries, (Y, X); `blank` outside of the support."""
        return values if self.whole else xp.where(self.support, values, blank)

    def use(self, x: Arr) -> Arr:
        """What a mechanism (Y, X) uses of every budget, (R,)."""
        return (self.c * x).sum(axis=(1, 2))

    def matvec(self, x: Arr) -> Arr:
        """A x of every output: (Y, X) -> (Y, T)."""
        return x * self.a if self.diagonal else xp.matmul(x, self.a.T)

    def rmatvec(self, k: Arr) -> Arr:
        """A' k of every output: (Y, T) -> (Y, X)."""
        return k * self.a if self.diagonal else xp.matmul(k, self.a)

    def matvec_of(self, term: Term, x: Arr) -> Arr:
        """The same for the rows of one term."""
        return self.matvec(x) if self.diagonal else xp.matmul(x, term.rows.T)

    def rmatvec_of(self, term: Term, g: Arr) -> Arr:
        """The same for the rows of one term."""
        return self.rmatvec(g) if self.diagonal else xp.matmul(g, term.rows)

    def scale(self, j: int, x: Arr, edge: Boundary) -> Arr:
        """t of every output: as many normals of the set of term j as the sum of A_j x over its rows, (Y,)."""
        return x @ self.sums[j] / edge.size

    @property
    def any_linear(self) -> bool:
        """Whether there are linear rows: what belongs to them is left out of the computation where there are none."""
        return not all(term.smooth for term in self.program.terms)

    @property
    def linear_at_peak(self) -> bool:
        """Whether a minimax program has linear rows that depend on its peak."""
        return self.rises is not None or self.turns is not None

    def at(self, peak: ScalarLike) -> "Data":
        """The same with the linear rows and references of a minimax program as they are at the peak."""
        if not self.linear_at_peak:
            return self
        program, a = self.stated
        terms = tuple(
            term if term.smooth or term.rate is None else replace(term.at_peak(peak), rate=term.rate)
            for term in program.terms
        )
        a = a if self.rises is None else a - peak * self.rises
        return self._replace(program=replace(program, terms=terms), a=a)

    def fall(self, k: Arr, eta: Arr) -> Arr:
        """What a unit of the peak of a minimax program takes off the reduced costs, (Y, X)."""
        parts = [(eta, self.rates), (k, self.rises)]
        # No product over an axis of length 0: see `ArrowFactor`.
        products = [xp.matmul(prices, rates) for prices, rates in parts if rates is not None and len(rates)]
        return sum(products[1:], start=products[0]) if products else xp.zeros_like(self.cost)

    def held(self, x: Arr, t: Arr) -> Arr:
        """What a unit of the peak allows of the rows and of the limits, (Y, T + W)."""
        rows = xp.zeros((*x.shape[:-1], self.rows), like=x)
        if self.rises is not None:
            rows = rows + xp.matmul(x, self.rises.T)
        if self.turns is not None:
            rows = rows + self.of_rows(t) * self.turns
        return xp.concatenate([rows, xp.matmul(x, self.rates.T)], axis=-1) if len(self.rates) else rows

    def share(self, point: "Point", move: "Point") -> Arr:
        """sum_y of what the peak allows at the prices of one point and a mechanism of another: 1 at the solution."""
        return (xp.concatenate([point.k, point.eta], axis=-1) * self.held(move.x, move.t)).sum()

    def turned(self, k: Arr) -> Arr:
        """What a unit of the peak adds to the normalisations of rules, (Y, N)."""
        return xp.stack([(k * self.turns)[:, self.layout[j].rows].sum(axis=1) for j in self.normed], axis=1)

    def of_rows(self, t: Arr) -> Arr:
        """t (..., Y, J) of the term of every row: (..., Y, T)."""
        return t[..., np.repeat(np.arange(len(self.layout)), [at.rows.stop - at.rows.start for at in self.layout])]

    def cap_slack(self, k: Arr, prices: Arr) -> Arr:
        """cap price - k of capped rows, 1 elsewhere: (Y, T)."""
        return xp.where(self.capped > 0, self.cap * prices - k, 1.0)

    @property
    def terms(self) -> tuple[Term, ...]:
        return self.program.terms


def rearrange(program: Program, *, dense: bool = False) -> Data:
    """The program in the form that the solvers work on; `dense`: the rows as a matrix even where they are diagonal.

    Of a program of NumPy arrays it is made once, and kept with the program.
    """
    if program.xp is not np:
        return _rearranged(program, dense)
    cache: dict[bool, Data] = vars(program).setdefault("rearranged", {})
    if dense not in cache:
        cache[dense] = _rearranged(program, dense)
    return cache[dense]


def _rearranged(program: Program, dense: bool) -> Data:
    diagonal = program.diagonal and not dense
    layout = program.layout
    worst = sum(at.worst is not None for at in layout)
    limit = program.budgets.shape[0] + sum(at.limit is not None for at in layout)
    sizes = [term.rows.shape[0] for term in program.terms]
    a = xp.diagonal(program.terms[0].rows) if diagonal else xp.concatenate([term.rows for term in program.terms])
    support = program.support.T
    inputs, outputs = program.cost.shape
    h = xp.where(support, 0.5 * program.mass + 0.5 / inputs, 0.0)
    full = lambda value, term: xp.full(term.rows.shape[0], value, like=program.cost)  # noqa: E731
    linear = xp.concatenate([full(float(not term.smooth), term) for term in program.terms])
    cap = [full(xp.inf, term) if term.cap is None else term.cap for term in program.terms]
    capped = xp.concatenate([full(float(term.cap is not None), term) for term in program.terms])
    row_weight = xp.concatenate([full(1.0 / term.rows.shape[0], term) for term in program.terms])
    peaks = [xp.full(1, float(term.role is Role.PEAK), like=program.cost) for term in program.terms if term.priced]
    marks = xp.concatenate([program.marks, *peaks])
    pairs = h.sum() + limit + outputs * worst + outputs * (row_weight * (linear + capped)).sum()
    equal = program.equal
    if equal is not None:
        pairs = pairs - equal.sum(dtype=h.dtype)
        equal = xp.concatenate([equal, np.zeros(limit - equal.shape[0], bool)])
    return Data(
        program=program,
        a=a,
        rows=sum(sizes),
        diagonal=diagonal,
        cap=xp.concatenate(cap),
        linear=linear,
        capped=capped,
        row_weight=row_weight,
        cost=program.cost.T,
        c=xp.swapaxes(program.constraints, 1, 2),
        support=support,
        whole=isinstance(support, np.ndarray) and bool(support.all()),
        h=h,
        marks=marks,
        pairs=pairs,
        layout=layout,
        normed=tuple(j for j, term in enumerate(program.terms) if term.smooth or term.normalised),
        sums=(xp.diagonal(program.terms[0].rows),)
        if diagonal
        else tuple(term.rows.sum(axis=0) for term in program.terms),
        priced=_priced(program.terms, layout, limit, worst),
        shared=np.repeat(np.array([term.smooth and term.role is Role.PEAK for term in program.terms], bool), sizes),
        coupled=tuple(at.rows for term, at in zip(program.terms, layout, strict=True) if term.rule_set.coupled),
        equal=equal,
        rates=_rates(program),
        rises=_of_linear(program, normalised=False),
        turns=_of_linear(program, normalised=True),
        stated=(program, a),
    )


def _of_linear(program: Program, *, normalised: bool) -> Arr | None:
    """The rates of linear rows that have a normalisation, or of those that have none; 0 for the other rows."""
    mine = [not term.smooth and term.rate is not None and term.normalised == normalised for term in program.terms]
    if not any(mine):
        return None
    parts = [
        term.rate if included else xp.zeros_like(term.reference if normalised else term.rows)
        for term, included in zip(program.terms, mine, strict=True)
    ]
    return xp.concatenate(parts)


def _rates(program: Program) -> Arr | None:
    if not program.minimax:
        return None
    worst = [term for term in program.terms if term.smooth and term.role is Role.WORST]
    if not worst:
        return xp.zeros((0, len(program.mass)), like=program.cost)
    return xp.stack([xp.zeros_like(program.mass) if term.rate is None else term.rate for term in worst])


def _priced(terms: tuple[Term, ...], layout: tuple[Layout, ...], limits: int, worst: int) -> np.ndarray:
    columns = [np.zeros(0, int)]
    for term, place in zip(terms, layout, strict=True):
        at = limits + worst
        if place.limit is not None:
            at = place.limit
        elif place.worst is not None:
            at = limits + place.worst
        columns.append(np.full(term.rows.shape[0], at))
    return np.concatenate(columns)


def row_prices(data: Data, price: Arr, eta: Arr) -> Arr:
    """The price of the set of every row, (Y, T): k = price g; for linear terms the normalisation."""
    outputs = data.cost.shape[0]
    if (data.priced == price.shape[0] + eta.shape[1]).all():
        return xp.ones((outputs, data.rows), like=data.cost)
    ones = xp.ones((outputs, 1), like=data.cost)
    return xp.concatenate([xp.broadcast_to(price, (outputs, price.shape[0])), eta, ones], axis=1)[:, data.priced]


def rules(data: Data, k: Arr, prices: Arr) -> Arr:
    """g = k / price on smooth rows, 0 on linear ones, (Y, T); `prices` of the rows."""
    g = k / prices
    return xp.where(data.linear > 0, 0.0, g) if data.any_linear else g


# What no output shows of a private symbol counts as this share of what it shows of another: a normal number of float32.
_LEAST_SHARE = 1e-30
# Rules that are powers of a ratio count it as this at least: proofs lose to rounding what larger rules would gain.
_LEAST_RATIO = 1e-13


def least_shares(term: Term, least: ScalarLike) -> Arr | ScalarLike:
    """The least shares of an output's mass that rules of a smooth term are taken at, `least` but for powers."""
    return xp.maximum(_LEAST_RATIO * term.reference, least) if term.rule_set.powers else least


def average_rules(data: Data, ax: Arr, least: float = _LEAST_SHARE) -> Arr:
    """The rules (Y, T) of smooth terms at `ax` = A x of a mechanism, (Y, T), whose rows count as `least` of the largest
    one at least.
    """
    parts, tiny = [], np.finfo(ax.dtype).tiny
    for term, place in zip(data.terms, data.layout, strict=True):
        w = ax[:, place.rows]
        # A rule is the same for all multiples of w.
        shares = w / xp.maximum(w.max(axis=1, keepdims=True), tiny)
        parts.append(term.rule_at(xp.maximum(shares, least_shares(term, least))))
    return xp.concatenate(parts, axis=1)


def leaks_of(data: Data, rules: Arr, ax: Arr) -> Arr:
    """sum_y phi - bound of every term (J,) by these rules."""
    used = rules * ax
    return xp.stack([used[:, at.rows].sum() - term.bound for term, at in zip(data.terms, data.layout, strict=True)])


def reduced_costs(data: Data, k: Arr, eta: Arr, nu: Arr, price: Arr, peak: ScalarLike = 0.0) -> Arr:
    """Z, (Y, X): exactly linear in its arguments at a fixed peak, which counts in minimax programs alone."""
    data = data.at(peak)
    limits = data.c.shape[0]
    z = data.cost + data.rmatvec(k) - nu
    for term, place in zip(data.terms, data.layout, strict=True):
        if place.worst is not None:
            z = z + eta[:, place.worst, None] * term.offset_at(peak)
    return z + xp.weigh(price[:limits], data.c) if limits else z


# The boundaries of the sets of the smooth terms, by the number of the term.
Edges: TypeAlias = dict[int, Boundary]


class Residual(NamedTuple):
    """What depends on the point alone."""

    rules: Arr  # (Y, T)
    edges: Edges  # `edges_of` the rules
    prices: Arr  # (Y, T)
    d: Arr  # (Y, T + W) diagonal of the rows, 1 on coupled ones
    blocks: tuple[Arr, ...]  # (Y, t, t) for the t rows of every coupled term, instead of the diagonal
    link: Arr  # (Y, T + W) what the equations of the rows miss
    normals: Arr  # (Y, T + W, N) normalisations
    level: Arr  # (Y, N) what the normalisations miss
    extra: Arr  # (Y, W, X) rows of the worst-outcome prices
    columns: Arr  # (B, Y, X) d Z / d price, behind them that of the peak of a minimax program
    lines: Arr  # (B, Y, X) d use / d X at fixed rules
    responses: Arr  # (B, Y, N) d level wanted / d price, and so on
    cap_response: Arr  # (B, Y, T + W) d link / d price, and so on
    use: Arr  # (B,)
    bounds: Arr  # (B,)
    row: Arr  # (X,)
    excess: Arr  # (Y, W) use of the worst-outcome limits
    mu: Arr


def smoothing_of(prices: Arr, mu: ScalarLike) -> Arr:
    """How smooth the sets of users' losses are at prices of their own, where the mean product is mu."""
    return xp.clip(_SMOOTHED * mu / prices, CENTRED, _SMOOTHEST)


def edges_of(data: Data, g: Arr, prices: Arr, mu: ScalarLike) -> Edges:
    """The boundary of every smooth term at rules g and prices (Y, T)."""
    return {
        j: term.boundary(g[:, at.rows], smoothing_of(prices[:, at.rows.start], mu))
        for j, (term, at) in enumerate(zip(data.terms, data.layout, strict=True))
        if term.smooth
    }


def measure_use(data: Data, x: Arr, t: Arr, v: Arr, g: Arr, edges: Edges, peak: ScalarLike) -> tuple[Arr, Arr]:
    """(limits on sums (B,), worst-outcome limits (Y, W)) by the rules; `edges` of the rules."""
    sums: list[Any] = []  # arrays, and the number 0 of a term that uses nothing
    worst: list[Arr] = []
    for j, (term, place) in enumerate(zip(data.terms, data.layout, strict=True)):
        if not term.smooth:
            if term.priced:
                over = 0.0 if term.cap is None else (term.cap * v[:, place.rows]).sum()
                sums.append((t[:, j].sum() if term.normalised else 0.0) + over)
            continue
        if place.limit is None and place.worst is None:
            continue
        rule, edge = g[:, place.rows], edges[j]
        scale = data.scale(j, x, edge)
        value = (rule * data.matvec_of(term, x)).sum(axis=1) - scale * edge.level
        if place.limit is not None:
            sums.append(value.sum())
        else:
            worst.append(value + x @ term.offset_at(peak))
    used = data.use(x)
    sums_array = xp.concatenate([used, xp.stack(sums)]) if sums else used
    shape = (x.shape[0], 0)
    return sums_array, xp.stack(worst, axis=1) if worst else xp.zeros(shape, like=x)


def residuals(data: Data, point: Point) -> Residual:
    data = data.at(point.peak)
    outputs, rows = point.k.shape
    count, limits = len(data.normed), point.price.shape[0]
    wide = point.eta.shape[1]
    prices = row_prices(data, point.price, point.eta)
    g = rules(data, point.k, prices)
    ax = data.matvec(point.x)
    pairs = data.on_support(point.x * point.z, 0.0).sum()
    pairs = pairs + (point.slack * point.price).sum() + (point.eta * point.sigma).sum()
    cap_slack = d_linear = xp.zeros_like(point.s)
    if data.any_linear:
        cap_slack = data.cap_slack(point.k, prices)
        d_linear = point.s / point.k + xp.where(data.capped > 0, point.v / cap_slack, 0.0)
        pairs = pairs + (data.linear * point.k * point.s + data.capped * cap_slack * point.v).sum()
    mu = pairs / data.pairs
    edges = edges_of(data, g, prices, mu)
    d, blocks, link, levels = [], [], [], []
    normals = xp.zeros((outputs, rows + wide, count), like=point.x)
    columns, lines, moving = [*data.c], [*data.c], limits + data.program.minimax
    responses = xp.zeros((moving, outputs, count), like=point.x)
    caps = xp.zeros((moving, outputs, rows + wide), like=point.x)
    extra, extra_d, extra_link = [], [], []
    sums, worst = measure_use(data, point.x, point.t, point.v, g, edges, point.peak)
    for j, (term, place) in enumerate(zip(data.terms, data.layout, strict=True)):
        at = place.rows
        if term.smooth:
            edge = edges[j]
            t = data.scale(j, point.x, edge)
            w = t[:, None] * edge.normal
            normals = xp.put(normals, np.s_[:, at, len(levels)], w)
            if term.rule_set.coupled:
                blocks.append((t / prices[:, at.start])[:, None, None] * edge.curvature)
                d.append(xp.ones_like(w))
            else:
                # A row without reference is 0 and has no curvature: 1 keeps its rule where it is.
                d.append(xp.where(term.reference > 0, t[:, None] * edge.curvature / prices[:, at], 1.0))
            link.append(ax[:, at] - w)
            # normal . dg = -level, in k at a fixed price: w . dk = -price t level
            levels.append(-t * edge.level * prices[:, at.start])
            if place.limit is not None:
                columns.append(data.rmatvec_of(term, g[:, at]))
                lines.append(columns[-1] - (edge.level / edge.size)[:, None] * data.sums[j])
            if place.worst is not None:
                line = data.rmatvec_of(term, g[:, at]) + term.offset_at(point.peak)
                extra.append(line)
                eta, sigma = point.eta[:, place.worst], point.sigma[:, place.worst]
                extra_d.append(sigma / eta)
                extra_link.append(sigma + worst[:, place.worst])
            continue
        d.append(d_linear[:, at])
        link.append((ax + point.s - point.v)[:, at] - term.reference * point.t[:, j, None])
        if term.normalised:
            normals = xp.put(normals, np.s_[:, at, len(levels)], term.reference)
            wanted = 0.0 if term.role is Role.WORST else prices[:, at.start]
            if term.priced:
                responses = xp.put(responses, np.s_[place.limit, :, len(levels)], 1.0)
            levels.append(wanted - point.k[:, at] @ term.reference)
        if place.limit is not None:
            columns.append(xp.zeros_like(point.x))
            lines.append(columns[-1])
            if term.cap is not None:
                caps = xp.put(caps, np.s_[place.limit, :, at], point.v[:, at] * term.cap / cap_slack[:, at])
    if data.program.minimax:
        columns.append(-data.fall(point.k, point.eta))
        caps = xp.put(caps, np.s_[limits], -data.held(point.x, point.t))
        if data.turns is not None:
            responses = xp.put(responses, np.s_[limits], -data.turned(point.k))
    bounds = [data.program.budgets, *(term.bound[None] for term in data.terms if term.priced)]
    return Residual(
        rules=g,
        edges=edges,
        prices=prices,
        d=xp.concatenate(d + [column[:, None] for column in extra_d], axis=1),
        blocks=tuple(blocks),
        link=xp.concatenate(link + [column[:, None] for column in extra_link], axis=1),
        normals=normals,
        level=xp.stack(levels, axis=1) if levels else xp.zeros((outputs, 0), like=point.x),
        extra=xp.stack(extra, axis=1) if extra else xp.zeros((outputs, 0, point.x.shape[1]), like=point.x),
        columns=xp.stack(columns) if columns else xp.zeros((0, *point.x.shape), like=point.x),
        lines=xp.stack(lines) if lines else xp.zeros((0, *point.x.shape), like=point.x),
        responses=responses,
        cap_response=caps,
        use=sums,
        bounds=xp.concatenate(bounds) + data.marks * point.peak,
        row=1.0 - point.x.sum(axis=0),
        excess=worst,
        mu=mu,
    )


def use_rates(data: Data, point: Point, r: Residual, moves: Point) -> Arr:
    """Changes of the use of every limit on a sum along a stack of directions, (M, B)."""
    rates = xp.einsum("byx,myx->mb", r.lines, moves.x)
    if any(term.priced and term.smooth for term in data.terms):
        nothing = xp.zeros_like(moves.price[:, :1])
        by_row = xp.concatenate([moves.price, nothing], axis=1)[:, np.minimum(data.priced, point.price.shape[0])]
        turned = (r.link[:, : data.rows] * (moves.k - r.rules * by_row[:, None]) / r.prices).sum(axis=1)
    for j, (term, place) in enumerate(zip(data.terms, data.layout, strict=True)):
        if place.limit is None:
            continue
        if term.smooth:
            rate = turned[:, place.rows].sum(axis=1)
        else:
            rate = moves.t[..., j].sum(axis=1)
            if term.cap is not None:
                rate = rate + (term.cap * moves.v[..., place.rows]).sum(axis=(1, 2))
        rates = xp.add_at(rates, np.s_[:, place.limit], rate)
    return rates
