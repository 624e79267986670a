"""A smaller, scaled program with the same optimum, and the way back.

Nothing here is relied on: the certificate is computed on the original program.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxpriv._validation import is_traced
from jaxpriv.leakage.rule_sets import Role
from jaxpriv.problems.measured import MeasuredProgram
from jaxpriv.solvers import Goal
from jaxpriv.solvers.conic.offer import largest_ratio
from jaxpriv.solvers.conic.sets import rule_at
from jaxpriv.solvers.conic.system import rearrange
from jaxpriv.solving.dense import MARGIN

# Symbols of no more mass than this in all are not iterated on; the certificate counts them.
_NEGLIGIBLE = 1e-13


@dataclass(frozen=True)
class Kept:
    """The symbols that are iterated on: the mass of the others would be lost in rounding."""

    inputs: np.ndarray  # (X,) bool
    rows: tuple[np.ndarray, ...]  # (T,) bool for every term

    @staticmethod
    def of(program: MeasuredProgram) -> "Kept":
        """All of them where the masses are traced."""
        if is_traced(program):
            every = [np.ones(len(part), dtype=bool) for part in (program.mass, *(term.rows for term in program.terms))]
            return Kept(every[0], tuple(every[1:]))
        mass = np.asarray(program.mass)
        order = np.argsort(mass)
        inputs = np.ones(len(mass), dtype=bool)
        inputs[order] = np.cumsum(mass[order]) > _NEGLIGIBLE * mass.sum()
        rows = tuple(abs(term.rows[:, inputs]).max(axis=1) > 0 for term in program.terms)
        return Kept(inputs, rows)

    def program(self, program: MeasuredProgram) -> MeasuredProgram:
        """The program of the kept symbols."""
        if self.inputs.all():
            return program
        x = self.inputs
        terms = []
        for term, rows in zip(program.terms, self.rows, strict=True):
            cap = None if term.cap is None else term.cap[rows]
            rate = None if term.rate is None else term.rate[x]
            parts = {"rows": term.rows[rows][:, x], "reference": term.reference[rows], "offset": term.offset[x]}
            terms.append(dataclasses.replace(term, cap=cap, rate=rate, **parts))
        return dataclasses.replace(
            program,
            terms=tuple(terms),
            mass=program.mass[x],
            cost=program.cost[x],
            constraints=program.constraints[:, x],
            support=program.support[x],
            anchor=program.anchor[x],
        )

    def mechanism(self, program: MeasuredProgram, mechanism: Any) -> Any:
        """Rows of the kept symbols; the others release the marginal of Y."""
        mechanism = (jnp if is_traced(mechanism) else np).maximum(mechanism, 0.0)
        mechanism = mechanism / mechanism.sum(axis=1, keepdims=True)
        if self.inputs.all():
            return mechanism
        full = np.empty(program.cost.shape)
        full[self.inputs] = mechanism
        full[~self.inputs] = program.mass[self.inputs] @ mechanism / program.mass[self.inputs].sum()
        return full

    def rules(self, program: MeasuredProgram, k: Any, eta: Any, price: Any) -> Any:
        """Rules on all rows: those that no kept symbol shows get one that costs the set next to nothing."""
        if self.inputs.all():
            return k
        start, parts = 0, []
        for term, rows, weight in zip(program.terms, self.rows, _weights(program, eta, price), strict=True):
            own = np.zeros((len(k), len(rows)))
            if term.smooth:
                own[:] = term.rule_set.unseen(term.reference) * weight[:, None]
            own[:, rows] = k[:, start : start + rows.sum()]
            start += int(rows.sum())
            parts.append(own)
        return np.concatenate(parts, axis=1)


def _weights(program: MeasuredProgram, eta: Any, price: Any) -> list[Any]:
    """What the rules of every term are multiplied by in k, (Y,) each."""
    worst, limit, weights = 0, len(program.budgets), []
    for term in program.terms:
        weight = np.ones(len(eta))
        if term.priced:
            weight, limit = weight * price[limit], limit + 1
        elif term.smooth and term.role is Role.WORST:
            weight, worst = eta[:, worst], worst + 1
        weights.append(weight)
    return weights


@dataclass(frozen=True)
class Reduced:
    """A program to iterate on, and the way back."""

    original: MeasuredProgram
    kept: Kept
    program: MeasuredProgram
    factor: Any
    goal: Goal

    @staticmethod
    def of(program: MeasuredProgram, goal: Goal) -> "Reduced":
        kept = Kept.of(program)
        scaled, factor, shift = _scaled(kept.program(program))
        centred, known = _centred(scaled)
        shift = shift / factor + known
        inner = Goal(MARGIN * goal.tol / factor, np.asarray(MARGIN) * goal.rtol, shift)
        return Reduced(program, kept, centred, factor, inner)

    def expanded(self, best: Any) -> tuple[Any, Any, Any, Any]:
        """(mechanism, k, eta, price) of the original program."""
        xp = jnp if is_traced(best) else np
        mechanism, k, eta, price = (xp.asarray(part) for part in (best.mechanism, best.k, best.eta, best.price))
        whole = _whole_rules(xp, self.program, k, eta, price)
        price = _unscaled_prices(xp, self.kept.program(self.original), price, self.factor)
        eta = eta * self.factor
        k = self.kept.rules(self.original, whole * self.factor, eta, price)
        return self.kept.mechanism(self.original, mechanism), k, eta, price


def _scaled(program: MeasuredProgram) -> tuple[MeasuredProgram, Any, Any]:
    """(program with costs above the cheapest output of each row and of size one, factor, shift).

    The peak of a minimax program is counted in that of its anchor.
    """
    xp = jnp if is_traced(program) else np
    floors = program.constraints.min(axis=2)
    constraints = program.constraints - floors[:, :, None]
    budgets = program.budgets - floors.sum(axis=1)
    lowest = program.cost.min(axis=1, keepdims=True)
    cost = program.cost - lowest
    free = all(term.role in (Role.AVERAGE, Role.WORST) for term in program.terms)
    sizes = constraints.sum(axis=1).max(axis=1, initial=0.0)
    shared = program.marks > 0
    factor = np.float64(1.0)
    if free:
        factor = xp.where(shared, sizes, 0.0).max() if program.shares else cost.sum(axis=0).max()
    terms = program.terms
    if program.minimax:
        factor = largest_ratio(rearrange(program), program.anchor.T)
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
    return scaled, factor, lowest.sum()


def _centred(program: MeasuredProgram) -> tuple[MeasuredProgram, Any]:
    """(program whose smooth terms count their rules from that of the prior, what that takes off the value).

    The rule g0 of the prior w0 claims sum_y <g0, w_y> = phi(w0) whatever is released: what remains of the measure is
    of the size of its limit, however small that is, and so are its rounding errors and the moves of its price.
    """
    terms, known = [], np.float64(0.0)
    for term in program.terms:
        prior = term.rows.sum(axis=1)
        if not term.smooth or not (is_traced(prior) or (prior > 0).all()):
            terms.append(term)
            continue
        centre = rule_at(term, prior)
        centre = centre if is_traced(centre) else np.asarray(centre)
        claim, bound, offset = centre @ prior, term.bound, term.offset
        if term.role is Role.OBJECTIVE:
            known += claim
        elif term.role is Role.WORST:
            offset = offset + centre @ term.rows
        else:
            bound = bound - claim
        terms.append(dataclasses.replace(term, centre=centre, bound=bound, offset=offset))
    return dataclasses.replace(program, terms=tuple(terms)), known


def _whole_rules(xp: Any, program: MeasuredProgram, k: Any, eta: Any, price: Any) -> Any:
    """Rules times prices, counted from zero again."""
    parts = [
        xp.asarray(weight)[:, None] * (np.zeros(len(term.rows)) if term.centre is None else term.centre)
        for term, weight in zip(program.terms, _weights(program, eta, price), strict=True)
    ]
    return k + xp.concatenate(parts, axis=1) if parts else k


def _unscaled_prices(xp: Any, program: MeasuredProgram, price: Any, factor: Any) -> Any:
    """Prices of the unscaled limits."""
    floors = program.constraints.min(axis=2)
    sizes = (program.constraints - floors[:, :, None]).sum(axis=1).max(axis=1, initial=0.0)
    own = xp.where(program.marks > 0, 1.0, factor / xp.where(sizes > 0, sizes, 1.0))
    priced = [1.0 if term.role is Role.PEAK else factor for term in program.terms if term.priced]
    return price * xp.concatenate([own, xp.asarray(priced, dtype=price.dtype)])
