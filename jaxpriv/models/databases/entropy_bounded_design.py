"""The best mechanism against adversaries with H(P) >= b: least distortion at a leakage, and the reverse, certified.

For a prior P, a record i, a symbol a and an output r the limit on the log-lift is linear in the mechanism:

    ln P(r|x_i = a)/P(r) <= L   if and only if   sum_x g(x) M(r|x) <= 0,   g(x) = P(x) [ 1{x_i = a}/P(x_i = a) - e^L ].

The mechanisms whose leakage is at most L for all P with H(P) >= b are therefore a convex set, and the least mean
distortion in it is a linear program with infinitely many rows. Priors are added as they are found (`LeastPrior`).

* **Bound.** With multipliers y >= 0 of any finite number of rows every such mechanism has

      E d >= sum_x min_r [ P0(x) d(x, r) + sum_k y_k g_k(x) 1{r_k = r} ].

* **Mechanism.** A solution M of finitely many rows leaks a little too much, u > L say. With probability s release a
  value drawn from q(r) = max_x M(r|x)/c, c = sum_r max_x M(r|x), instead: if A and B are P(r|x_i = a) and P(r) for M,
  then A <= e^u B and B <= c q(r), so that (1-s) A + s q <= e^L ((1-s) B + s q) for

      s/(1-s) >= c (e^u - e^L)/(e^L - 1).

Each record may have a limit L_i of its own (Wu, Xia and He, Definition 5); s is then the largest that one needs. The
least distortion falls with L; so bisection over L solves the reverse problem, least leakage at a distortion.

Wu, Zhang, Qi, Wang, Wang and He 2026, arXiv 2602.00689, pose both problems and solve them locally.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from jaxpriv._runtime.validation import host_only, index, nonnegative, real_array, scalar
from jaxpriv.errors import InputError
from jaxpriv.models.databases.entropy_bounded import entropy_bounded_privacy
from jaxpriv.models.databases.least_prior import LeastPrior, entropy_bound, with_entropy
from jaxpriv.models.databases.universe import prior_over, record_limits, universe_sizes

_EPS = float(np.finfo(np.float64).eps)
# Log-odds of the posteriors at which worst priors are looked for, beside that of the worst prior of all.
_LOG_ODDS = (-12.0, -6.0, -3.0, -1.5, -0.5, 0.5, 1.5, 3.0, 6.0, 12.0)
# Rows added for each record, symbol and output in a round, and by how much they are violated at least.
_EACH, _VIOLATED = 3, 1e-9
# Probability of a symbol that the adversary may rule out: of priors that stand for the limit.
_RULED_OUT = 1e-9
# The share of the tolerance, relative to the largest cost, that the search for the worst prior may leave, in nats of
# leakage; of the tolerance of a leakage where that is what is bisected.
_SHARP, _SHARPER = 0.1, 0.02
# Leakages tried at most; where one is not decided, the next ones are this share of the tolerance below and above it.
_TRIALS, _ASIDE = 60, 0.3
# A mechanism that exceeds the limit by more nats is repaired by a constant release alone: its own share would be below
# the rounding of the mixture.
_CONSTANT = 40.0
# Above this leakage (nats) e^-L is next to the rounding of a linear program: larger ones are not tried.
_LARGEST = 20.0


@dataclass(frozen=True)
class EntropyBoundedMechanism:
    """A mechanism and what no other one does better.

    Attributes:
        mechanism: M(r|x), (N, r).
        distortion: E d under P0, in units of d.
        leakage: in nats; proved, no prior with H(P) >= b has a larger log-lift of a record. The limits (n,) where each
            record has its own.
        lower_bound: of the distortion where the leakage is limited, of the leakage where the distortion is: no
            mechanism within the limit has less.
        minimised: "distortion" or "leakage".
        rounds: linear programs solved.
    """

    mechanism: np.ndarray
    distortion: float
    leakage: float | np.ndarray
    lower_bound: float
    minimised: str
    rounds: int

    @property
    def gap(self) -> float:
        """What is minimised less `lower_bound`."""
        return float(self.distortion if self.minimised == "distortion" else self.leakage) - self.lower_bound


@host_only
def entropy_bounded_mechanism(
    distortion: ArrayLike,
    sizes: int | Sequence[int],
    entropy: float,
    *,
    leakage: ArrayLike | None = None,
    budget: float | None = None,
    prior: ArrayLike | None = None,
    tol: float = 1e-3,
    max_rounds: int = 60,
) -> EntropyBoundedMechanism:
    """The mechanism of least mean distortion whose per-record leakage is at most `leakage`, or the reverse.

        min E d(x, r)   subject to   ln P(r|x_i)/P(r) <= L for all i, x_i, r and all P with H(P) >= b = `entropy` nats
        min L           subject to   E d(x, r) <= `budget`

    `distortion` is d(x, r) >= 0, shape (N, r), over the sequences of `sizes`; its mean is taken with `prior` (N,),
    uniform by default. Exactly one of `leakage` (nats, > 0; one number, or one for each record, (n,)) and `budget` is
    given. The search ends at a gap of `tol` (units of d, or nats) or after `max_rounds` linear programs for one
    leakage; `lower_bound` holds in any case.

    Where no mechanism within the budget was found to have a finite leakage the result has leakage infinity. Raises
    `InputError` for arguments that do not fit and for a budget below the mean of min_r d(x, r).
    """
    sizes = universe_sizes(sizes)
    costs = nonnegative(real_array(distortion, "distortion", ndim=2), "distortion")
    total = math.prod(sizes)
    if costs.shape[0] != total:
        raise InputError(f"distortion has {costs.shape[0]} rows, but the sizes have {total} sequences (axis x)")
    weights = np.full(total, 1.0 / total) if prior is None else prior_over(prior, sizes)
    bound = entropy_bound(entropy, total)
    tol = float(scalar(tol, "tol", low=0.0, open_low=True))
    max_rounds = index(max_rounds, "max_rounds", low=1)
    if (leakage is None) == (budget is None):
        raise InputError("give exactly one of leakage and budget")
    design = _Design(costs, sizes, bound, weights)
    if leakage is not None:
        limits = record_limits(leakage, sizes)
        solution = design.least_distortion(limits, tol, max_rounds, _SHARP * tol / (costs.max() or 1.0))
        return solution if np.ndim(leakage) else replace(solution, leakage=float(limits[0]))
    limit = float(scalar(budget, "budget", low=0.0))
    least = float(weights @ costs.min(axis=1))
    if limit < least * (1.0 - total * _EPS):
        raise InputError(f"budget is below {least:.6g}, the mean of the least distortion of every sequence")
    return _least_leakage(design, max(limit, least), tol, max_rounds)


class _Row(NamedTuple):
    """The limit on one log-lift under one prior."""

    prior: np.ndarray
    group: np.ndarray  # the set x_i = a
    mass: float  # P(x_i = a)
    output: int
    record: int

    def slope(self, limits: np.ndarray) -> np.ndarray:
        """g times e^-L, which overflows at no L."""
        return self.prior * (math.exp(-limits[self.record]) * self.group / self.mass - 1.0)


class _Design:
    """The programs of one distortion and one b: priors found for one leakage serve the next."""

    def __init__(self, costs: np.ndarray, sizes: tuple[int, ...], entropy: float, weights: np.ndarray):
        self.costs, self.sizes, self.entropy, self.weights = costs, sizes, entropy, weights
        symbols = np.unravel_index(np.arange(len(costs)), sizes)
        self._groups = [(i, symbols[i] == a) for i, size in enumerate(sizes) for a in range(size) if size > 1]
        self._rows: list[_Row] = []
        uniform = np.full(len(costs), 1.0 / len(costs))
        for record, group in self._groups:
            for output in range(costs.shape[1]):
                self._rows.append(_Row(uniform, group, float(uniform[group].sum()), output, record))

    def constant(self) -> np.ndarray:
        """The best mechanism that reveals nothing: always the output of least mean distortion."""
        chosen = np.zeros_like(self.costs)
        chosen[:, np.argmin(self.weights @ self.costs)] = 1.0
        return chosen

    def mean(self, mechanism: np.ndarray) -> float:
        """E d."""
        return float(self.weights @ (self.costs * mechanism).sum(axis=1))

    def least_distortion(
        self, limits: np.ndarray, tol: float, max_rounds: int, sharp: float, decide: float | None = None
    ) -> EntropyBoundedMechanism:
        """The least mean distortion at leakages of `limits` (n,); ends, too, once it is surely above or below `decide`.

        The leakage of a mechanism is computed to `sharp`.
        """
        best, least = self.constant(), self.mean(self.constant())
        lower, rounds = 0.0, 0
        while rounds < max_rounds:
            rounds += 1
            mechanism, proved = self._solved(limits)
            lower = max(lower, proved)
            share, worst = 0.0, []
            for limit in np.unique(limits).tolist():  # the records with this limit together
                privacy = entropy_bounded_privacy(
                    mechanism,
                    self.sizes,
                    self.entropy,
                    records=np.flatnonzero(limits == limit).tolist(),
                    tol=min(sharp, _SHARP * limit),
                )
                worst.append(privacy.prior)
                share = max(share, _share(mechanism, privacy.upper, limit))
            most = mechanism.max(axis=0)
            repaired = (1.0 - share) * mechanism + share * most / most.sum()
            if self.mean(repaired) < least:
                best, least = repaired, self.mean(repaired)
            decided = decide is not None and (lower > decide or least <= decide)
            if least - lower <= tol or decided:
                break
            if not self._add(mechanism, limits, worst):
                break
        return EntropyBoundedMechanism(best, least, limits, min(lower, least), "distortion", rounds)

    def _solved(self, limits: np.ndarray) -> tuple[np.ndarray, float]:
        """(a mechanism that meets the rows so far, a bound on the distortion of all that meet the limits)."""
        from scipy.optimize import linprog  # costs a third of a second: imported where needed
        from scipy.sparse import csr_matrix, identity, kron

        inputs, outputs = self.costs.shape
        cost = self.weights[:, None] * self.costs
        slopes = np.array([row.slope(limits) for row in self._rows]).reshape(-1, inputs)
        scale, unit = np.abs(slopes).max(axis=1), cost.max() or 1.0  # the tolerances of the backend are absolute
        place = np.array([row.output for row in self._rows])
        columns = (np.arange(inputs) * outputs + place[:, None]).ravel()
        rows = csr_matrix(
            ((slopes / scale[:, None]).ravel(), columns, np.arange(0, slopes.size + 1, inputs)),
            shape=(len(slopes), inputs * outputs),
        )
        result = linprog(
            cost.ravel() / unit,
            A_ub=rows,
            b_ub=np.zeros(len(slopes)),
            A_eq=kron(identity(inputs), np.ones((1, outputs)), format="csr"),
            b_eq=np.ones(inputs),
            bounds=(0, None),
            method="highs",
        )
        if result.status != 0:
            raise ArithmeticError(f"the linear program over mechanisms failed: {result.message}")
        mechanism = np.maximum(result.x.reshape(inputs, outputs), 0.0)
        duals = np.maximum(-result.ineqlin.marginals, 0.0) * unit / scale
        priced, size = cost.copy(), cost.copy()
        for dual, slope, output in zip(duals, slopes, place, strict=True):
            priced[:, output] += dual * slope
            size[:, output] += dual * np.abs(slope)
        rounding = 4.0 * (len(slopes) + inputs + 8) * _EPS * float(size.max(axis=1).sum())
        return mechanism / mechanism.sum(axis=1, keepdims=True), float(priced.min(axis=1).sum()) - rounding

    def _add(self, mechanism: np.ndarray, limits: np.ndarray, worst: list[np.ndarray]) -> bool:
        """Rows that `mechanism` violates, of the worst priors known and of others; whether there are any."""
        before = len(self._rows)
        for record, group in self._groups:
            for output in range(mechanism.shape[1]):
                column = mechanism[:, output]
                if not column[group].max() > 0:
                    continue
                case = LeastPrior(column, group, self.entropy)
                priors = [*worst, *(case.solve(float(expit(odds)))[1] for odds in _LOG_ODDS)]
                if case.unbounded:
                    priors.append(case.ruling_out(_RULED_OUT))
                offered = []
                for prior in map(self._certain, priors):
                    mass = float(prior[group].sum())
                    if not mass > 0:
                        continue
                    row = _Row(prior, group, mass, output, record)
                    # Relative to P(r): e^l - 1, where the log-lift is above the limit by l.
                    amount = float(row.slope(limits) @ column) / max(float(prior @ column), 1e-300)
                    if amount > _VIOLATED:
                        offered.append((amount, row))
                offered.sort(key=lambda pair: -pair[0])
                self._rows += [row for _, row in offered[:_EACH]]
        return len(self._rows) > before

    def _certain(self, prior: np.ndarray) -> np.ndarray:
        """`prior`, with as much of the uniform one as makes sure, rounding included, that its entropy is at least b."""
        return with_entropy(prior, self.entropy + 8 * _EPS * (1.0 + len(prior) * self.entropy))


def _share(mechanism: np.ndarray, leakage: float, limit: float) -> float:
    """Of a constant release, with which `mechanism`, that leaks at most `leakage`, leaks at most `limit`."""
    if leakage <= limit:
        return 0.0
    if leakage - limit > _CONSTANT:
        return 1.0
    odds = float(mechanism.max(axis=0).sum()) * math.expm1(leakage - limit) / -math.expm1(-limit)
    return min(1.0, odds / (1.0 + odds) * (1.0 + 64 * _EPS) + 64 * _EPS)


def _least_leakage(design: _Design, budget: float, tol: float, max_rounds: int) -> EntropyBoundedMechanism:
    """Bisection over the leakage: too small where the distortion is proved to be above the budget."""
    constant = design.constant()
    if design.mean(constant) <= budget:
        return EntropyBoundedMechanism(constant, design.mean(constant), 0.0, 0.0, "leakage", 0)
    low, high, best, rounds = 0.0, math.inf, None, 0
    trials = [1.0]
    for _ in range(_TRIALS):
        trial = trials.pop() if trials else 0.5 * (low + high) if math.isfinite(high) else 2.0 * low
        if trial > _LARGEST:
            break
        if not low < trial < high:
            continue
        solution = design.least_distortion(
            np.full(len(design.sizes), trial), 0.0, max_rounds, _SHARPER * tol, decide=budget
        )
        rounds += solution.rounds
        if solution.distortion <= budget:
            high, best = trial, solution
        elif solution.lower_bound > budget:
            low = trial
        elif trials:  # not decided on this side either
            break
        else:
            trials = [trial + _ASIDE * tol, max(trial - _ASIDE * tol, 0.5 * trial)]
        if high - low <= tol:
            break
    if best is None:
        nearest = design.costs.argmin(axis=1)
        exact = np.eye(design.costs.shape[1])[nearest]
        return EntropyBoundedMechanism(exact, design.mean(exact), math.inf, low, "leakage", rounds)
    return EntropyBoundedMechanism(best.mechanism, best.distortion, high, low, "leakage", rounds)
