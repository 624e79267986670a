"""What needs no iteration: releases that leak nothing, rules of the prior alone, faces whose mechanisms are finite."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from jaxtyping import PyTree

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.types import Arr
from jaxpriv.errors import NotCertifiedError
from jaxpriv.leakage import AbstractLeakage
from jaxpriv.leakage.rule_sets import Role
from jaxpriv.program import feasibility
from jaxpriv.program.certificates import Certificate, certify_program, violation_of
from jaxpriv.program.convex import Program
from jaxpriv.program.feasibility import Face, face_of, whole_face
from jaxpriv.program.lower import distance_scale, infinite, useless

# Budgets without slack and measures that are infinite where an output excludes a private symbol: where a pair that the
# budgets allow is of no use (`program.lower.useless`), they may allow fewer without it, and so on, until all are of use
# or no mechanism is left.


# The tolerance of the linear program, whose entries are 0, or 1 and more.
_LINEAR = 1e-10
# What the weight of a rule costs that does not cost the entries of a face anything: of several the smallest are taken.
_LEAST_PRICE = 1e-6


def finite_on(program: Program, face: Face, joints: Arr, measures: Sequence[AbstractLeakage]) -> np.ndarray | None:
    """A mechanism on the face under which all measures are finite for all joints (K, S, X), positive wherever one of
    these is; None if there is none. Raises `NotCertifiedError` where no measure says which entries are of no use.
    """
    while any(infinite(joints, measures, face.inside)):
        support = face.support & ~useless(joints, measures, face.inside)
        if (support == face.support).all():
            raise NotCertifiedError(
                "whether any mechanism on the allowed pairs has a finite leakage is not certified: one that uses all "
                "pairs has an infinite one, although no output excludes a private symbol that another one needs"
            )
        narrower = dataclasses.replace(program, support=support)
        if not support.any(axis=1).all() or not (least := feasibility.check(narrower)).feasible:
            return None
        tight = least.boundary and len(program.budgets)
        face = face_of(narrower, least.weights) if tight else whole_face(narrower, least.mechanism)
    return face.inside


# Mixing weights of a release that meets the limits, tried to restore feasibility after rounding.
ROUNDING_SHARES = (1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7)
# The largest one that brings a mechanism within its budgets: what needs more was not solved (a choice).
_MOST_OF_BUDGETS = 1e-3
# Shares of the mass of which outputs are left out.
_RARE = (1e-10, 1e-9, 1e-8, 1e-7, 1e-6)


def closed_form_of(program: Program, excess: Callable[[np.ndarray], float]) -> tuple[PyTree, ...] | None:
    """(mechanism, k, eta, price) where no iteration is needed."""
    valued = [term for term in program.terms if term.role in (Role.OBJECTIVE, Role.PEAK)]
    if valued and not program.cost.any():
        mechanism = feasibility.independent(program)
        return None if mechanism is None else (mechanism, *_proof_of_nothing(program))
    # A term whose rows are 0, of a joint whose useful symbols all have one posterior, adds nothing to any value.
    if any(term.role is Role.PEAK or term.rows.any() for term in valued):
        return None
    costs, (k, eta, price) = program.cost, no_rules(program)
    if program.shares:
        if len(program.budgets) > 1:
            if program.terms or not program.marks.all():
                return None
            size = abs(program.constraints).max() or 1.0
            price, mechanism = feasibility.largest_slack(
                np.asarray(program.constraints / size), np.asarray(program.budgets / size), program.support
            )
            return mechanism, k, eta, price
        costs, price = program.constraints[0], price.copy()
        price[0] = 1.0
    elif len(program.budgets):
        return None
    mechanism = feasibility.cheapest(costs, program.support)
    met = not program.terms or violation_of(program, mechanism) == 0
    return (mechanism, k, eta, price) if met and excess(mechanism) == 0 else None


def _proof_of_nothing(program: Program) -> tuple[Arr, Arr, Arr]:
    """The rules and prices that prove the value of a release that leaks nothing: of several joints the one whose prior
    leaks most has all the weight.
    """
    k, eta, price = no_rules(program)
    peaks, place = [], len(program.budgets)
    for term in program.terms:
        if term.role is Role.PEAK:
            prior = term.rows.sum(axis=1)
            peaks.append((float(term.rule_set.columns(term, prior[:, None])[0] - term.bound), place))
        place += term.priced
    if not peaks:
        return k, eta, price
    price = price.copy()
    price[max(peaks)[1]] = 1.0
    return np.tile(prior_rules(program, np.asarray(price)), (len(k), 1)), eta, price


def cheapest_release(program: Program) -> Arr:
    """For every useful symbol the output with the least sum of the budgets' shares: of one budget it is the least
    distortion.
    """
    shares = (program.constraints / distance_scale(program.constraints)[:, None, None]).sum(axis=0)
    chosen = xp.where(program.support, shares, np.inf).argmin(axis=1)
    return (np.arange(program.cost.shape[1]) == chosen[:, None]).astype(program.cost.dtype)


def independent_release(program: Program) -> Arr:
    """The cheapest release of one and the same symbol: it leaks nothing."""
    if program.shares:
        over = program.constraints.sum(axis=1) - program.budgets[:, None]
        chosen = xp.where(program.marks[:, None] > 0, over, -np.inf).max(axis=0).argmin()
    else:
        chosen = program.cost.sum(axis=0).argmin()
    symbol = (np.arange(program.cost.shape[1]) == chosen).astype(program.cost.dtype)
    return xp.broadcast_to(symbol, program.cost.shape)


def no_rules(program: Program) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(k, eta, price) of an adversary who uses the prior alone, and limits without a price."""
    worst = sum(term.smooth and term.role is Role.WORST for term in program.terms)
    price = np.zeros(len(program.budgets) + sum(term.priced for term in program.terms))
    outputs = program.cost.shape[1]
    return np.tile(prior_rules(program, price), (outputs, 1)), np.zeros((outputs, worst)), price


def prior_rules(program: Program, price: np.ndarray) -> np.ndarray:
    """The rules k (T,) about an output that is independent of S, at the prices of the limits on sums (B,)."""
    rules = [np.zeros(0)]
    for term, at in zip(program.terms, program.layout, strict=True):
        weight = price[at.limit] if term.priced else float(term.role is Role.OBJECTIVE)
        rules.append(weight * np.asarray(term.prior_rule()) if weight else np.zeros(len(term.rows)))
    return np.concatenate(rules)


def entry_costs(program: Program, k: np.ndarray, eta: np.ndarray) -> np.ndarray:
    """What every entry costs, (X, Y), beside the prices of the budgets."""
    costs = np.array(program.cost, dtype=np.float64)
    for term, at in zip(program.terms, program.layout, strict=True):
        costs += (k[:, at.rows] @ term.rows).T
        if at.worst is not None:
            costs += np.outer(term.offset, eta[:, at.worst])
    return costs


def excluding_rules(program: Program, face: Face, costs: np.ndarray, k: np.ndarray) -> np.ndarray:
    """The rules k (Y, T) with more of those of limits on ratios, until no entry that these exclude from the face is the
    cheapest of its row; `costs` (X, Y): what every entry costs at k.

    No multiple of an entry that is excluded meets the limits A w <= 0 of its output: by Farkas' lemma some rules k >= 0
    have A'k >= 1 there, and A'k >= 0 wherever the output is allowed. A linear program finds those that cost the entries
    of the face least.
    """
    from scipy.linalg import block_diag  # costs a third of a second, as the next one: imported where needed
    from scipy.optimize import linprog

    ratios = [
        (term, np.arange(at.rows.start, at.rows.stop))
        for term, at in zip(program.terms, program.layout, strict=True)
        if not term.smooth and term.role is Role.WORST
    ]
    least = np.where(face.support, costs, np.inf).min(axis=1, keepdims=True)
    short = np.where(program.support & ~face.support, least - costs, 0.0)
    if not ratios or not (short > 0).any():
        return k
    at = np.concatenate([places for _, places in ratios])
    rows = np.concatenate([np.asarray(term.rows) for term, _ in ratios])
    size = abs(rows).max(axis=1)
    size = np.where(size > 0, size, 1.0)
    rows = rows / size[:, None]
    # The weights of a set of rows with a reference are in balance.
    references = block_diag(*(np.asarray(term.reference)[None] for term, _ in ratios)) / size
    k = k.copy()
    for y in np.flatnonzero((short > 0).any(axis=0)):
        used, allowed = face.support[:, y], program.support[:, y]
        result = linprog(
            rows @ used + _LEAST_PRICE,
            -rows[:, allowed].T,
            -np.where(used, 0.0, 1.0)[allowed],
            references,
            np.zeros(len(references)),
            method="highs",
            options={"primal_feasibility_tolerance": _LINEAR, "dual_feasibility_tolerance": _LINEAR},
        )
        if result.status == 0:  # other limits or budgets may exclude the entry
            # A little more than what is short: the linear program holds up to its tolerance.
            k[y, at] += (1 + 1e-6) * short[:, y].max() * result.x / size
    return k


def mixtures(program: Program, mechanism: np.ndarray, feasible_point: np.ndarray) -> Iterator[np.ndarray]:
    """The mechanism, then mixtures with releases that have more slack in the limits, at growing shares.

    A release of which half leaks nothing repairs limits on leakage; where budgets are next to the least distortion, a
    share of what leaks nothing costs more than the budget, and the feasible point alone repairs them. Where pairs are
    forbidden an output may owe its ratio to what it lost there: then those of next to no mass are left out.
    """
    yield mechanism
    if program.forbids:
        for left in without_rare(program, mechanism):
            total = left.sum(axis=1, keepdims=True)
            yield np.where(total > 0, left / np.where(total > 0, total, 1.0), mechanism)
    marginal = np.broadcast_to(program.mass @ mechanism / program.mass.sum(), mechanism.shape)
    for share in (*ROUNDING_SHARES, *_share_of_budgets(program, mechanism, feasible_point)):
        for safe in (0.5 * (marginal + feasible_point), feasible_point):
            yield (1.0 - share) * mechanism + share * safe


def _share_of_budgets(program: Program, mechanism: np.ndarray, feasible_point: np.ndarray) -> list[float]:
    """The share of the feasible point with which the budgets are met, where it is larger than what rounding asks for.

    Symbols of next to no mass, which are not iterated on, may use more than a budget that is as small.
    """
    if program.shares:
        return []
    used, least = ((program.constraints * table).sum(axis=(1, 2)) for table in (mechanism, feasible_point))
    over = (used > program.budgets) & (used > least)
    share = (1.0 + 1e-6) * float(((used - program.budgets)[over] / (used - least)[over]).max(initial=0.0))
    return [share] if ROUNDING_SHARES[-1] < share <= _MOST_OF_BUDGETS else []


def without_rare(program: Program, mechanism: np.ndarray) -> Iterator[np.ndarray]:
    """What is left of a mechanism without the outputs of less mass than growing shares."""
    mass = program.mass @ mechanism / program.mass.sum()
    return (np.where(mass > share, mechanism, 0.0) for share in _RARE)


def best_mixture(
    program: Program, excess: Callable[[np.ndarray], float], mechanism: np.ndarray, *duals: np.ndarray
) -> tuple[np.ndarray, Certificate, float]:
    """(mechanism, certificate, excess): the mechanism, or the least of a few mixtures with releases that leak
    nothing and with the feasible point; what the solver and the certificate compute of a limit differs by
    rounding.
    """
    tried = mixtures(program, mechanism, np.asarray(program.feasible_point))
    examined = ((mixture, certify_program(program, mixture, *duals), excess(mixture)) for mixture in tried)
    unmixed = next(examined)
    return next(
        (trial for trial in itertools.chain([unmixed], examined) if trial[1].violation == 0 and trial[2] == 0), unmixed
    )
