"""Linear programs over the rules found so far, for programs of smooth measures on which Newton's method stalls.

phi_j(w) is the largest of <g, w> over the rules g of its set. Over finitely many of them it is piecewise linear and
the program linear; its optimum is below the true one, and its multipliers are mixtures of rules, which prove that.
Rules about the outputs of its solution are added until value and bound meet. For small tables: the number of rounds
grows with the number of symbols, while sets with very uneven curvature, such as those of high orders, cost nothing
more.

Kelley 1960, "The cutting-plane method for solving convex programs".
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from jaxpriv._runtime.clock import Clock
from jaxpriv._runtime.types import Arr
from jaxpriv.leakage.rule_sets import LINEAR, Role, Term
from jaxpriv.program.convex import Duals, Program
from jaxpriv.solvers import (
    Candidate,
    no_candidate,
)
from jaxpriv.solvers.interior_point.candidate import with_mechanism
from jaxpriv.solvers.linear_program import vertex_of

# Most rounds, and rules of one term; those of no weight for the longest time are left out beyond that.
_ROUNDS, _RULES = 150, 160
# What no output shows of a private symbol counts as this share of what it shows of another.
_LEAST_SHARE = 1e-9
# Rules with entries that agree to so many decimals are one.
_DECIMALS = 12
# The share of the tolerance at which the rounds end: the certificate counts rounding.
_CLOSE = 0.5

Bound = Callable[[np.ndarray, np.ndarray, np.ndarray], float]


@dataclasses.dataclass
class _Pool:
    """Rules of a term, (R, T), and the round in which each last had weight."""

    term: Term
    rules: np.ndarray
    used: np.ndarray

    def add(self, seen: Arr, number: int) -> None:
        """The rules about `seen` (n, T): what outputs show."""
        top = seen.max(axis=1, keepdims=True)
        seen = seen[top[:, 0] > 0] / top[top[:, 0] > 0]
        if not len(seen):
            return
        rules = np.asarray(self.term.rule_set.gradient(self.term, np.maximum(seen, _LEAST_SHARE)), dtype=np.float64)
        self.take(rules, number)

    def take(self, rules: np.ndarray, number: int) -> None:
        """`rules` (n, T), moved into the set."""
        rules = np.asarray(self.term.rule_set.moved_in(self.term, rules), dtype=np.float64)
        rules = rules[np.isfinite(rules).all(axis=1)]
        every = np.concatenate([self.rules, rules])
        _, first = np.unique(np.round(every, _DECIMALS), axis=0, return_index=True)
        remaining = np.sort(first)
        used = np.concatenate([self.used, np.full(len(rules), number)])
        if len(remaining) > _RULES:
            remaining = np.sort(remaining[np.argsort(-used[remaining], kind="stable")[:_RULES]])
        self.rules, self.used = every[remaining], used[remaining]

    def linear(self) -> Term:
        """The term over these rules alone."""
        rows, worst = self.rules @ self.term.rows, self.term.role is Role.WORST
        return dataclasses.replace(
            self.term,
            rows=rows + self.term.offset if worst else rows,
            reference=np.zeros(len(rows)) if worst else np.ones(len(rows)),
            cap=None,
            offset=np.zeros_like(self.term.offset),
            rule_set=LINEAR,
            normalised=not worst,
        )


def cut(
    program: Program, mechanism: np.ndarray, duals: Duals, proved: Bound, tol: float, most: int | None, clock: Clock
) -> tuple[Candidate, int]:
    """(the best mechanism and duals, rounds) from those that are known, to a gap of `tol` of the total; at most `most`
    rounds. `proved`: the bound that rules and prices prove.
    """
    most = _ROUNDS if most is None else min(_ROUNDS, most)
    best = with_mechanism(program, no_candidate(program), mechanism)
    best = best.with_dual(*duals, proved(*duals))
    pools = [_pool(term, mechanism) if term.smooth else None for term in program.terms]
    for number in range(1, most + 1):
        if best.gap <= _CLOSE * tol or clock.expired():
            return best, number - 1
        parts = tuple(t if p is None else p.linear() for t, p in zip(program.terms, pools, strict=True))
        solved = vertex_of(dataclasses.replace(program, terms=parts, diagonal=False), clock.left)
        if solved is None:
            return best, number
        vertex, k, price = solved
        duals_of_rules = _mixed(program, pools, k, price, number)
        best = best.with_dual(*duals_of_rules, proved(*duals_of_rules))
        best = with_mechanism(program, best, vertex)
        # About the vertex itself, and about what lies between it and the best mechanism: rules about a vertex alone,
        # which moves far in the first rounds, come nearer slowly.
        middle = 0.5 * (vertex + np.asarray(best.mechanism))
        best = with_mechanism(program, best, middle)
        for pool in pools:
            if pool is not None:
                pool.add((pool.term.rows @ vertex).T, number)
                pool.add((pool.term.rows @ middle).T, number)
    return best, most


def _pool(term: Term, mechanism: np.ndarray) -> _Pool:
    """The rules about the prior, every useful symbol, and the outputs of a mechanism."""
    pool = _Pool(term, np.zeros((0, len(term.rows))), np.zeros(0))
    pool.add(term.rows.sum(axis=1)[None], 0)
    pool.add(term.rows.T, 0)
    pool.add((term.rows @ mechanism).T, 0)
    return pool


def _mixed(program: Program, pools: list[_Pool | None], k: np.ndarray, price: np.ndarray, number: int) -> Duals:
    """Rules and prices of the program itself from the weights k (Y, R) of the rules in the pools."""
    start, rules, etas = 0, [np.zeros((len(k), 0))], [np.zeros((len(k), 0))]
    for term, pool in zip(program.terms, pools, strict=True):
        size = len(term.rows) if pool is None else len(pool.rules)
        weights = k[:, start : start + size]
        start += size
        if pool is None:
            rules.append(weights)
            continue
        # Weights below this are those of rules that the master problem does not use (its tolerance is 1e-10).
        pool.used = np.where((weights > 1e-9 * weights.max()).any(axis=0), number, pool.used)
        rules.append(weights @ pool.rules)
        if term.role is Role.WORST:
            etas.append(weights.sum(axis=1, keepdims=True))
    return np.concatenate(rules, axis=1), np.concatenate(etas, axis=1), price
