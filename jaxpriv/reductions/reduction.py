"""A smaller, scaled program with the same optimum, and the way back.

Exact facts, none of which a certificate relies on (it is computed on the original program):

* a symbol without mass changes nothing (nor, beyond any rounding, one of next to none beside the others);
* useful symbols of the same posterior and the same costs are one symbol: by convexity their rows may be averaged;
* private symbols may be numbered in any order: where each has a useful symbol of its own, they take the order of
  these, and the rows are a diagonal matrix (`Program.diagonal`);
* a constant added to a row of a cost shifts its value, because rows of W sum to one.

Private symbols with proportional rows are merged by the sets of rules (`program.lower`).
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType

import jax
import numpy as np
from jax.core import Tracer
from jaxtyping import PyTree

from jaxpriv._runtime import arrays
from jaxpriv._runtime.arrays import of
from jaxpriv._runtime.lanes import LaneArray
from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv.leakage.rule_sets import Role, Term, classes
from jaxpriv.program.convex import Candidate, Goal, Program
from jaxpriv.reductions.faces import Face, off_face

# The device's view of the gap and the certificate differ by rounding; stop a little below.
MARGIN = 0.8
# Symbols of no more mass than this share of all are not iterated on; the certificate counts them.
_NEGLIGIBLE = 1e-13
# The mass of a symbol that has none under one of several joints, beside that of all others: far below the tolerances,
# far above rounding.
_NEXT_TO_NOTHING = 1e-9


@dataclass(frozen=True)
class IteratedSymbols:
    """The symbols that are iterated on: the mass of the others would be lost in rounding."""

    useful: np.ndarray  # (X,) number of the symbol that each is put together with, -1: of none
    rows: tuple[np.ndarray, ...]  # for every term (T,) number of the row that each is put together with, -1: of none

    @staticmethod
    def of(program: Program) -> "IteratedSymbols":
        """All of them where the masses are traced."""
        if program.traced:
            return IteratedSymbols(
                np.arange(len(program.mass)), tuple(np.arange(len(term.rows)) for term in program.terms)
            )
        mass = np.asarray(program.mass)
        order = np.argsort(mass)
        present = np.ones(len(mass), dtype=bool)
        present[order] = np.cumsum(mass[order]) > _NEGLIGIBLE * mass.sum()
        for term in () if present.all() else program.terms:
            present |= _counted(term)
        useful = _useful_classes(program, present)
        rows = tuple(_row_classes(term, present) for term in program.terms)
        if len(rows) == 1 and not program.terms[0].rule_set.coupled:
            rows = (_in_order_of_useful(rows[0], program.terms[0].rows, useful),)
        return IteratedSymbols(useful, rows)

    @property
    def all_inputs(self) -> bool:
        """Whether every useful symbol is iterated on as it is."""
        return bool((self.useful == np.arange(len(self.useful))).all())

    @property
    def all(self) -> bool:
        """Whether nothing is left out, put together or moved."""
        return self.all_inputs and all((rows == np.arange(len(rows))).all() for rows in self.rows)

    def program(self, program: Program) -> Program:
        """The program of these symbols."""
        if program.traced:
            return program
        if self.all:
            return dataclasses.replace(program, diagonal=_diagonal(program.terms))
        terms = []
        sums = partial(_summed, useful=self.useful)

        def mean(part: Arr) -> np.ndarray:
            return sums(program.mass[:, None] * part) / sums(program.mass)[:, None]

        for term, rows in zip(program.terms, self.rows, strict=True):
            cap = None if term.cap is None else _summed(term.cap, rows)  # rows with caps are not put together
            parts = {
                "rows": sums(_summed(term.rows, rows).T).T,
                "reference": _summed(term.reference, rows),
                "offset": sums(term.offset),
            }
            rate, (by_row, by_input) = term.rate, term.rate_axes
            if rate is not None:
                rate = _summed(rate, rows) if by_row else rate
                rate = sums(rate.T).T if by_input else rate
            terms.append(dataclasses.replace(term, cap=cap, rate=rate, **parts))
        _, first = np.unique(self.useful[self.useful >= 0], return_index=True)
        return dataclasses.replace(
            program,
            terms=tuple(terms),
            mass=sums(program.mass),
            cost=sums(program.cost),
            constraints=np.moveaxis(sums(np.moveaxis(np.asarray(program.constraints), 1, 0)), 0, 1),
            support=program.support[np.flatnonzero(self.useful >= 0)[first]],
            # The mean of what meets the limits meets them.
            feasible_point=mean(program.feasible_point),
            start=None if program.start is None else mean(program.start),
            diagonal=_diagonal(terms),
        )

    def mechanism(self, program: Program, mechanism: Arr) -> Arr:
        """Rows of these symbols; the others release the marginal of Y, as far as it is on the support."""
        mechanism = of(mechanism).maximum(mechanism, 0.0)
        mechanism = mechanism / mechanism.sum(axis=1, keepdims=True)
        if self.all_inputs:
            return mechanism
        present = self.useful >= 0
        full = np.empty(program.cost.shape)
        full[present] = mechanism[self.useful[present]]
        full[~present] = program.mass[present] @ full[present] / program.mass[present].sum()
        return _on_support(np.asarray(program.support), full) if program.forbids else full

    def rules(self, program: Program, k: Arr, eta: Arr, price: Arr) -> Arr:
        """Rules on all rows: those that none of these symbols shows get one that costs the set next to nothing."""
        if self.all:
            return k
        start, parts = 0, []
        for term, rows, weight in zip(program.terms, self.rows, _weights(program, eta, price), strict=True):
            term_rules = np.zeros((len(k), len(term.rows)))
            if term.smooth:
                term_rules[:] = term.rule_set.unseen(term.reference) * weight[:, None]
            term_rules[:, rows >= 0] = k[:, start + rows[rows >= 0]]
            start += int(rows.max()) + 1
            parts.append(term_rules)
        return np.concatenate(parts, axis=1)


def _on_support(support: np.ndarray, mechanism: np.ndarray) -> np.ndarray:
    """The mechanism without what is outside of the support, uniform in rows that have nothing else."""
    left = np.where(support, mechanism, 0.0)
    left = np.where(left.any(axis=1, keepdims=True), left, support)
    return left / np.maximum(left.sum(axis=1, keepdims=True), np.finfo(float).tiny)


def _counted(term: Term) -> np.ndarray:
    """(X,) bool: the useful symbols that make up more than a negligible share of a row: of a private symbol that only
    they show, say. Every row of a linear limit on an output is a limit of its own, the others are sums over rows.
    """
    shares = abs(np.asarray(term.rows))
    if term.rate is not None and all(term.rate_axes):
        shares = shares + abs(term.rate)
    sizes = shares.sum(axis=1, keepdims=True)
    if term.smooth or term.role is not Role.WORST:
        sizes = sizes.max(initial=0.0)
    return (shares > _NEGLIGIBLE * sizes).any(axis=0)


def _summed(part: Arr, useful: np.ndarray) -> np.ndarray:
    """Sums along the first axis over the symbols that are put together."""
    count = useful.max() + 1
    if count == (useful >= 0).sum() and (np.diff(useful[useful >= 0]) == 1).all():
        return np.asarray(part[useful >= 0])
    total = np.zeros((count, *part.shape[1:]))
    np.add.at(total, useful[useful >= 0], part[useful >= 0])
    return total


def _useful_classes(program: Program, present: np.ndarray) -> np.ndarray:
    """(X,) numbers of useful symbols of one posterior and one cost, -1 for those that are not `present`."""
    rows = np.flatnonzero(present)
    mass = np.asarray(program.mass)[rows]
    result = np.full(len(present), -1)
    result[rows] = np.arange(len(rows))
    # The first of the keys below, mostly enough.
    first = program.terms[0].rows[0, rows] / mass if program.terms else np.zeros(len(rows))
    if len(np.unique(classes(first[:, None]))) == len(rows):
        return result
    parts = [term.rows.T for term in program.terms]
    parts += [term.offset[:, None] for term in program.terms]
    rates = [term.rate for term in program.terms if term.rate is not None and term.rate_axes[1]]
    parts += [rate.reshape(-1, len(present)).T for rate in rates]
    parts += [part - part.min(axis=1, keepdims=True) for part in (*program.constraints, program.cost)]
    keys = np.concatenate([part[rows] / mass[:, None] for part in parts], axis=1)
    # Costs of very different scale: compare each on its own scale.
    size = abs(keys).max(axis=0)
    keys = keys / np.where(size > 0, size, 1.0)
    result[rows] = classes(np.concatenate([keys, program.support[rows]], axis=1))
    return result


def _row_classes(term: Term, present: np.ndarray) -> np.ndarray:
    """(T,) numbers of rows that are proportional on the symbols that are `present`, -1 for rows of zeros; the first is
    kept where all are zeros (of one private symbol, say): a solver takes no term without rows.
    """
    shown = abs(term.rows[:, present]).max(axis=1) > 0
    if term.rate is not None and all(term.rate_axes):
        shown = shown | (abs(term.rate[:, present]).max(axis=1) > 0)
    seen = np.flatnonzero(shown) if shown.any() else np.zeros(1, dtype=int)
    result = np.full(len(term.rows), -1)
    result[seen] = np.arange(len(seen))
    if not shown.any() or not term.rule_set.additive or term.role is Role.WORST:
        return result
    rows, reference = term.rows[seen], term.reference[seen]
    sizes = rows.sum(axis=1)
    result[seen] = classes(np.column_stack([rows / sizes[:, None], sizes / reference]))
    return result


def _in_order_of_useful(rows: np.ndarray, table: Arr, useful: np.ndarray) -> np.ndarray:
    """The numbers of rows in the order of the useful symbol that each shows, if each shows a single one of its own."""
    count = rows.max() + 1
    if count != useful.max() + 1:
        return rows
    shown = np.zeros((count, count), bool)
    row, symbol = np.nonzero((table != 0) & (rows >= 0)[:, None] & (useful >= 0))
    shown[rows[row], useful[symbol]] = True
    if (shown.sum(axis=1) != 1).any() or (shown.sum(axis=0) != 1).any():
        return rows
    return np.where(rows >= 0, shown.argmax(axis=1)[rows], -1)


def _diagonal(terms: Sequence[Term]) -> bool:
    """Whether there is one term, whose rows are a diagonal matrix."""
    if len(terms) != 1 or terms[0].rule_set.coupled or terms[0].rows.shape[0] != terms[0].rows.shape[1]:
        return False
    if terms[0].rate is not None and not terms[0].smooth:  # its rows at a peak are none
        return False
    rows = terms[0].rows
    return bool(np.count_nonzero(rows) == np.count_nonzero(np.diagonal(rows)))


def _weights(program: Program, eta: Arr, price: Arr) -> list[Arr]:
    """What the rules of every term are multiplied by in k, (Y,) each."""
    ones = np.ones(len(eta), eta.dtype)
    return [
        ones * price[at.limit] if at.limit is not None else ones if at.worst is None else eta[:, at.worst]
        for at in program.layout
    ]


@dataclass(frozen=True)
class Reduced:
    """A program to iterate on, and the way back."""

    original: Program
    face: Face | None  # where its mechanisms live, if its budgets have no slack or pairs are forbidden
    on_face: Program  # the original one without a face
    symbols: IteratedSymbols
    program: Program
    factor: ScalarLike
    units: Arr  # of the budgets: the price of a unit of each in the original program
    goal: Goal

    @staticmethod
    def of(original: Program, goal: Goal, face: Face | None = None) -> "Reduced":
        program = original if face is None else face.filled(face.restricted(original))
        symbols = IteratedSymbols.of(program)
        xp, iterated = program.xp, symbols.program(program)
        if program.forbids and not program.traced:
            iterated = dataclasses.replace(iterated, terms=tuple(_shown(iterated, term) for term in iterated.terms))
        scaled, factor, units, shift = _scaled(xp, iterated)
        centred, claims = _centred(scaled)
        shift = xp.log(factor) if program.logarithmic else (shift + goal.shift) / factor + claims
        size = xp.ones((), program.cost.dtype) if program.logarithmic else factor
        inner = Goal(MARGIN * goal.tol / size, xp.asarray(MARGIN * goal.rtol, program.cost.dtype), shift)
        return Reduced(original, face, program, symbols, centred, factor, units, inner)

    def limit(self, total: ScalarLike) -> ScalarLike:
        """The limit on a worst-outcome measure that a total of a reduced minimax program stands for."""
        return total + self.goal.shift if self.program.logarithmic else total * self.factor

    def expanded(self, best: Candidate) -> tuple[PyTree, PyTree, PyTree, PyTree]:
        """(mechanism, k, eta, price) of the original program."""
        mechanism, k, eta, price = (_on_host(part) for part in (best.mechanism, best.k, best.eta, best.price))
        whole = _whole_rules(self.program, k, eta, price)
        priced = (1.0 if term.role is Role.PEAK else self.factor for term in self.program.terms if term.priced)
        units = [self.units, *(arrays.asarray(unit, price)[None] for unit in priced)]
        price, eta = price * arrays.concatenate(units), eta * self.factor
        k = self.symbols.rules(self.on_face, whole * self.factor, eta, price)
        mechanism = self.symbols.mechanism(self.on_face, mechanism)
        if self.face is None:
            return mechanism, k, eta, price
        program = self.original
        if program.minimax:
            proved = float(self.limit(best.bound))
            program = program.at_peak(math.exp(proved) if program.logarithmic else proved)
        return off_face(program, self.face, *map(np.asarray, (mechanism, k, eta, price)))

    def mechanism(self, best: Candidate) -> np.ndarray:
        """That of the original program alone."""
        mechanism = np.asarray(self.symbols.mechanism(self.on_face, best.mechanism))
        return mechanism if self.face is None else self.face.onto(self.original, self.face.merged(mechanism))


def _shown(program: Program, term: Term) -> Term:
    """The term; where an output has no symbol but those without mass in its rows, with next to none in proportion to
    the prior: what such an output shows would be nothing of nothing, and a limit on it would leave no interior.
    """
    absent = ~(term.rows != 0).any(axis=0)
    if not (program.support & ~absent[:, None]).any(axis=0).all():
        parts = {"rows": term.rows, "offset": term.offset}
        if term.rate is not None and term.rate_axes[1]:
            parts["rate"] = term.rate
        spread = {
            name: part + _NEXT_TO_NOTHING * part.sum(axis=-1, keepdims=True) * absent for name, part in parts.items()
        }
        return dataclasses.replace(term, **spread)
    return term


def _scaled(xp: ModuleType, program: Program) -> tuple[Program, ScalarLike, Arr, ScalarLike]:
    """(program with costs above the cheapest output of each row and of size one, factor, units, shift).

    The peak of a minimax program is counted in that of its feasible point.
    """
    floors = program.constraints.min(axis=2)
    constraints = program.constraints - floors[:, :, None]
    budgets = program.budgets - floors.sum(axis=1)
    lowest = program.cost.min(axis=1, keepdims=True)
    cost = program.cost - lowest
    free = all(term.role in (Role.AVERAGE, Role.WORST) for term in program.terms)
    sizes = constraints.sum(axis=1).max(axis=1, initial=0.0)
    shared = program.marks > 0
    factor = xp.ones((), program.cost.dtype)
    if free:
        factor = xp.where(shared, sizes, 0.0).max() if program.shares else cost.sum(axis=0).max()
    terms = program.terms
    if program.minimax:
        factor = program.largest_ratio(_finite(program))
    factor = xp.where(factor > 0, factor, 1.0)
    if program.minimax:
        terms = tuple(
            term if term.rate is None else dataclasses.replace(term, rate=factor * term.rate) for term in terms
        )
    scale = xp.where(shared, factor, xp.where(sizes > 0, sizes, 1.0))
    scaled = dataclasses.replace(
        program,
        terms=terms,
        cost=cost / factor,
        constraints=constraints / scale[:, None, None],
        budgets=budgets / scale,
    )
    return scaled, factor, factor / scale, lowest.sum()


def _finite(program: Program) -> Arr:
    """The feasible point, (Y, X); of linear limits, whose ratios may be infinite there, its mean with a uniform one."""
    feasible_point = program.feasible_point.T
    if all(term.smooth or term.rate is None for term in program.terms):
        return feasible_point
    uniform = program.support.T.astype(program.cost.dtype)
    return 0.5 * (feasible_point + uniform / uniform.sum(axis=0))


def _centred(program: Program) -> tuple[Program, ScalarLike]:
    """(program whose smooth terms count their rules from that of the prior, what that takes off the value).

    The rule g0 of the prior w0 claims sum_y <g0, w_y> = phi(w0) whatever is released: what remains of the measure is
    of the size of its limit, however small that is, and so are its rounding errors and the moves of its price. Where
    rules may be so small that the difference to g0 has none of their digits, their roots move (`Term.root`), and they
    are counted from zero.
    """
    terms: list[Term] = []
    claims: ScalarLike = 0.0
    for term in program.terms:
        prior = term.rows.sum(axis=1)
        if not term.smooth or not (isinstance(prior, Tracer | LaneArray) or (prior > 0).all()):
            terms.append(term)
            continue
        centre = _on_host(term.rule_at(prior))
        if term.rule_set.proportional and term.by_roots:
            centre = arrays.where(term.root > 1.0, 0.0, centre)
        claim, bound, offset = centre @ prior, term.bound, term.offset
        if term.role is Role.OBJECTIVE:
            claims = claims + claim
        elif term.role is Role.WORST:
            offset = offset + centre @ term.rows
        else:
            bound = bound - claim
        terms.append(dataclasses.replace(term, centre=centre, bound=bound, offset=offset))
    return dataclasses.replace(program, terms=tuple(terms)), claims


def _on_host(part: Arr) -> Arr:
    """An array of NumPy where its numbers are known; a user's function may have given one of JAX."""
    return np.asarray(part) if isinstance(part, jax.Array) and not isinstance(part, Tracer) else part


def _whole_rules(program: Program, k: Arr, eta: Arr, price: Arr) -> Arr:
    """Rules times prices, counted from zero again."""
    parts = [
        weight[:, None] * (np.zeros(len(term.rows), k.dtype) if term.centre is None else term.centre)
        for term, weight in zip(program.terms, _weights(program, eta, price), strict=True)
    ]
    return k + of(*parts).concatenate(parts, axis=1) if parts else k
