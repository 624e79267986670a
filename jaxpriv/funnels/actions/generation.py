"""The funnel of a piecewise linear measure as a linear program over vertices, solved by column generation.

The program over the posteriors found so far has duals (nu, lambda); the vertices next to those that it uses are tried
at these prices, and where none of them helps `search` proves that no posterior does, or finds one that does.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from jaxpriv._runtime.clock import Clock
from jaxpriv._runtime.divergences import divergence, entropy
from jaxpriv._runtime.validation import COUNT, check_fields
from jaxpriv.column_generation import MasterSolution, Objective, Pool, cleaned
from jaxpriv.column_generation.rounds import GeneratedColumns, generate_columns
from jaxpriv.errors import InputError
from jaxpriv.funnels.actions.lagrangian import least_lagrangian
from jaxpriv.funnels.actions.search import ActionSearch, Searched
from jaxpriv.funnels.actions.vertices import neighbours, rounded
from jaxpriv.funnels.atoms.column_generation import ColumnGeneration
from jaxpriv.funnels.atoms.parts import first_atoms
from jaxpriv.funnels.bounds import elementary_bound, proved_value
from jaxpriv.funnels.gains import Gains, Worth, gains_of, worth_of
from jaxpriv.funnels.local import least_information
from jaxpriv.funnels.pricing import whole_block
from jaxpriv.funnels.pricing.boxes import BoxFunnelPricer, descended
from jaxpriv.funnels.pricing.shapes import Lagrangian
from jaxpriv.funnels.solution import AbstractFunnelSolver, FunnelGoal, PosteriorMeasure, Proof, measure_of
from jaxpriv.problems.funnel import FunnelOrBottleneck, FunnelProblem

_EPS = float(np.finfo(np.float64).eps)
# Rounds at most, where the goal has no number.
_ROUNDS = 300
# A reduced cost counts below this share of the gap that is aimed at.
_WORTH = 0.25
# Vertices added in a round, and kept in all, for each useful symbol; at least so many.
_ADDED, _KEPT, _FEWEST = 30, 60, 2000
# What a proof that is repeated aims at below 0: at 0 itself, rounding would keep it going.
_AIMED = 1e-10
# Where a proof does not end, one at prices of this many times the lambda may: posteriors have fewer symbols there.
# Of a time limit the proof at the target's own prices has this share first.
_STEEPER, _FIRST = (1.5, 2.25), 0.6
# Searches do not aim at less than this: rounding is not much less.
_FINEST = 1e-12
# Entries of the table, times cells, that one proof computes with.
_BUDGET = 20_000_000
# Of smooth measures: the largest slope of the leakage in units of `Worth`, starts of the descents of a round beside the
# known posteriors, what a start keeps of every symbol, and the disclosures, as shares of H(X), of the releases of least
# mutual information to begin with where the target is none.
_STEEPEST, _STARTS, _BLURRED, _SHARES = 1e6, 100, 1e-3, (0.5, 0.7, 0.85, 0.95)
NAME = "vertex-generation"


class End(enum.Enum):
    """How the rounds for one target ended: with a proof to the tolerance, with a weaker one, or early."""

    CLOSED = enum.auto()
    OPEN = enum.auto()
    CUT = enum.auto()


@dataclass(frozen=True, eq=False)
class VertexGeneration(AbstractFunnelSolver):
    """Column generation over vertices, for measures of finitely many actions: the guessing probability and its
    logarithm, g-leakage, maximal leakage, the gains of finitely many losses, total variation. Over posteriors that
    descents and the search over boxes find, for smooth measures: f-informations, Sibson's and Arimoto's informations
    and the Brier gain, from the releases of least mutual information.

    Args:
        budget: cells that a proof examines, times the entries of the table of gains.
    """

    takes_start: ClassVar[bool] = True
    proves: ClassVar[bool] = True
    budget: int = field(default=_BUDGET, kw_only=True)

    def __post_init__(self) -> None:
        check_fields(self, COUNT, "budget")

    def find(self, problem: FunnelOrBottleneck, goal: FunnelGoal) -> PosteriorMeasure:
        return self._program(problem, goal.start).solve_form(problem, goal)

    def prepare(self, problem: FunnelOrBottleneck) -> Callable[..., PosteriorMeasure]:
        """`find` for other targets of the same problem; vertices found for one of them serve the next."""
        return self._program(problem).solve_form

    def _program(self, problem: FunnelOrBottleneck, start: np.ndarray | None = None) -> "VertexProgram":
        gains = gains_of(problem)
        if gains is None:
            raise InputError(f"solver: {type(problem.leakage).__name__} has neither finitely many actions nor a shape")
        return VertexProgram(problem, gains, self.budget, start)


class VertexProgram:
    """The vertices known for a joint: shared by the points of a curve."""

    def __init__(self, problem: FunnelOrBottleneck, gains: Gains, budget: int, start: np.ndarray | None = None):
        source = problem.reduction.source
        self.gains, self.worth = gains, worth_of(gains, problem.useful, source)
        self.source, self.budget = source, max(1000, budget // max(1, self.worth.table.size))
        self._first = first_atoms(whole_block(problem.core))
        if start is not None:
            self._first = np.vstack([self._first, measure_of(start, source)[0]])
        self.pool = self._pool(self._first)
        self._random = np.random.default_rng(0)
        self._left = 0  # rounds
        self._informed: set[float] = set()  # disclosures whose releases of least mutual information are in the pool

    def solve_form(self, problem: FunnelOrBottleneck, goal: FunnelGoal) -> PosteriorMeasure:
        """The release for any target: for the multiplier of a logarithm by programs at disclosures."""
        assert isinstance(problem, FunnelProblem)
        if self.gains.strict and problem.limits_leakage and problem.target == 0:  # Y is independent of S
            return ColumnGeneration().find(FunnelProblem(problem.joint, leakage_budget=0.0), goal)
        if self.worth.curved is not None:
            self._inform(problem, goal)
        if problem.form != "multiplier" or self.gains.scale.proportional:
            return self.solve(problem, goal)
        return least_lagrangian(problem, goal, self.gains, self.worth, self.solve)

    def solve(self, problem: FunnelOrBottleneck, goal: FunnelGoal) -> PosteriorMeasure:
        """The release for the target of `problem`, which has the joint and the measure that this was made for."""
        objective = self._objective(problem)
        self._left = _ROUNDS if goal.max_steps is None else goal.max_steps
        rounds = self._left

        def shown(done: int, value: float, proof: Proof | None) -> None:
            if goal.clock.reports:
                bound = elementary_bound(problem) if proof is None else proved_value(problem, proof)
                goal.clock.report(NAME, rounds - self._left + done, self._value(problem, value), bound)

        with goal.clock.share(_FIRST):
            generated, proof, end = self._run(problem, objective, goal, None, shown)
        first, value = end, generated.plan.value
        for factor in _STEEPER:
            if end is End.CLOSED or self._left <= 0 or goal.clock.expired():
                break
            steeper = Objective(True, "multiplier", min(1.0, factor * generated.plan.lam))
            _, proof, end = self._run(problem, steeper, goal, proof, lambda done, _, proof: shown(done, value, proof))
        if first is End.CUT and not goal.clock.expired():
            generated, proof, _ = self._run(problem, objective, goal, proof, shown)
        pool, weights = generated.used
        return PosteriorMeasure(pool.posteriors, weights, proof, rounds - self._left)

    def _run(
        self,
        problem: FunnelOrBottleneck,
        objective: Objective,
        goal: FunnelGoal,
        proof: Proof | None,
        shown: Callable[[int, float, Proof | None], None],
    ) -> tuple[GeneratedColumns, Proof | None, End]:
        """(the columns and their weights, the best proof for `problem`, how it ended)."""
        size, worth, complete = len(self.source), self.worth, False

        def constant(plan: MasterSolution, _: float) -> bool:
            """Whether a constant Y leaks hardly less, or the proof is close enough."""
            if worth.curved is not None and proof is not None:
                value = self._value(problem, plan.value)
                if abs(value - proved_value(problem, proof)) <= 0.9 * goal.tol:
                    return True
            return objective.form == "disclosure" and plan.value <= self._gap(problem, plan.value, goal.tol)

        def aim(plan: MasterSolution) -> float:
            return max(objective.priced(self._gap(problem, plan.value, goal.tol), plan.lam), _FINEST)

        def next_to(plan: MasterSolution, pool: Pool) -> tuple[float, Pool]:
            new = self._pool(neighbours(worth, pool.posteriors[plan.weights[0] > 0], self._random))
            order = np.argsort(new.reduced(plan.prices[0], plan.lam), kind="stable")
            return -np.inf, new.take(order[: max(_ADDED * size, _FEWEST)])

        def searched(plan: MasterSolution, _: Pool) -> tuple[float, Pool]:
            nonlocal proof, complete
            prices = self._prices(plan)
            search = _searched(worth, prices, plan.lam, -aim(plan), self.budget, goal.clock)
            proof = _better(problem, proof, self._proof(plan, search.bound))
            complete, points = search.closed, search.points
            if worth.curved is None:
                points = np.array([rounded(worth, prices, plan.lam, point) for point in points])
            return -np.inf, self._pool(points.reshape(-1, size))

        def below(plan: MasterSolution, pool: Pool) -> tuple[float, Pool]:
            random = [self._random.dirichlet(np.full(size, shape), _STARTS) for shape in (0.1, 0.4)]
            starts = (1 - _BLURRED) * np.vstack([pool.posteriors[plan.weights[0] > 0], *random]) + _BLURRED / size
            return -np.inf, self._pool(descended(_on_shape(worth, self._prices(plan), plan.lam), starts))

        generated = generate_columns(
            self.pool,
            objective,
            (next_to if worth.curved is None else below, searched),
            closed=constant,
            worth=lambda plan: _WORTH * aim(plan),
            rounds=self._left,
            clock=goal.clock,
            report=lambda done, value, _: shown(done, value, proof),
            always=len(self._first),
            most=max(_KEPT * size, 2 * _FEWEST),
        )
        self.pool, self._left = generated.pool, self._left - generated.rounds
        if not generated.ended or goal.clock.expired():
            return generated, proof, End.CUT
        return generated, proof, End.CLOSED if complete or constant(generated.plan, generated.bound) else End.OPEN

    def _objective(self, problem: FunnelOrBottleneck) -> Objective:
        """The program of a target, slightly beyond it: the measured number meets the target with its rounding error."""
        gains, worth, target = self.gains, self.worth, problem.target
        most = entropy(self.source)
        error = 4 * _EPS * (len(worth.table) + 4 * len(self.source)) * (1.0 + 2.0 * most)
        steepest = {} if worth.curved is None else {"steepest": _STEEPEST}
        if problem.form == "disclosure":
            return Objective(True, "disclosure", min(target + error, most), **steepest)
        if problem.limits_leakage:
            constant = float(worth.cost(self.source[None])[0])  # 0 but for rounding
            limit = max((gains.inner(target) - worth.base) / worth.unit - error, constant)
            return Objective(True, "side", limit, **steepest)
        return Objective(True, "multiplier", target / (worth.unit * gains.rate), **steepest)

    def _gap(self, problem: FunnelOrBottleneck, value: float, tol: float) -> float:
        """Half of what the value may miss the optimum by, in units of the program at its target."""
        if problem.limits_leakage:
            return 0.5 * tol
        if problem.form == "multiplier":
            return 0.5 * tol / (self.worth.unit * self.gains.rate)
        total = self.gains.outer(self.worth.base + self.worth.unit * max(value, 0.0))
        return 0.5 * tol * float(self.gains.scale.slope(total)) / self.worth.unit

    def _value(self, problem: FunnelOrBottleneck, value: float) -> float:
        """The objective of `problem` that a plan has."""
        if problem.limits_leakage:
            return -value
        return self.gains.outer(self.worth.base + self.worth.unit * value)

    def _prices(self, plan: MasterSolution) -> np.ndarray:
        """nu of a(q) + lambda H(q) - nu.q, with the entropy in place of the divergence b(q)."""
        return plan.prices[0] - plan.lam * np.log(self.source)

    def _proof(self, plan: MasterSolution, bound: float) -> Proof:
        """Prices of phi(q) + lambda H(q) in the units of the measure, for which the least value is 0."""
        worth, prices = self.worth, self._prices(plan)
        nu = worth.unit * (prices + bound) + worth.first
        return Proof(nu, worth.unit * plan.lam, -_rounding(worth, prices, bound))

    def _inform(self, problem: FunnelProblem, goal: FunnelGoal) -> None:
        """Put the releases of least mutual information for the target, or spread out, into the pool."""
        most = entropy(self.source)
        targets = [problem.target] if problem.form == "disclosure" else [share * most for share in _SHARES]
        fresh = [target for target in targets if target not in self._informed]
        if fresh:
            mechanism_at = least_information(problem, goal)
            mechanisms = [mechanism_at(target) for target in fresh]
            self.pool += self._pool(np.vstack([measure_of(mechanism, self.source)[0] for mechanism in mechanisms]))
            self._informed.update(fresh)

    def _pool(self, posteriors: np.ndarray) -> Pool:
        clean = cleaned(posteriors, self.source)
        return Pool(self.source, clean, self.worth.cost(clean), divergence(clean / self.source, self.source))


def _on_shape(worth: Worth, prices: np.ndarray, lam: float) -> Lagrangian:
    """What the search over boxes takes, from prices and lambda in units of `worth`."""
    curved = worth.curved
    assert curved is not None
    scaled_prices = (worth.unit * prices + worth.first) / curved.size + curved.tilt @ curved.conditional
    return Lagrangian(
        curved.shape, np.ascontiguousarray(curved.conditional.T), scaled_prices, lam * worth.unit / curved.size
    )


def _searched(worth: Worth, prices: np.ndarray, lam: float, level: float, budget: int, clock: Clock) -> Searched:
    """A search for a(q) + lambda H(q) - nu.q below `level`, in units of `worth`."""
    if worth.curved is None:
        return ActionSearch(worth.table, worth.single, prices, lam, level).go(budget, clock)
    shape, symbols, scaled_prices, slope = _on_shape(worth, prices, lam)
    factor = worth.unit / worth.curved.size
    pricer = BoxFunnelPricer(symbols.T, shape=shape)
    priced = pricer.price(scaled_prices, slope, 2 * len(scaled_prices) + 2, clock, level * factor)
    return Searched(priced.bound / factor, priced.exact, priced.posteriors, priced.work)


def _rounding(worth: Worth, prices: np.ndarray, bound: float) -> float:
    """What rounding may change between a search in units of `worth` and the measure."""
    gains = 1.0 if worth.curved else float(np.abs(worth.table).sum(axis=0).max())
    size = worth.unit * (gains + float(np.abs(prices).max()) + abs(bound) + 1.0) + float(np.abs(worth.first).max())
    return 16 * _EPS * size


def proved_again(problem: FunnelOrBottleneck, gains: Gains, prices: np.ndarray, lam: float, clock: Clock) -> Proof:
    """The proof that these prices give by a new search; solutions hold prices for which the least value is 0."""
    worth = worth_of(gains, problem.useful, problem.reduction.source)
    scaled_prices = (prices - worth.first) / worth.unit
    level = -_AIMED * min(1.0, lam / worth.unit) - _FINEST
    search = _searched(
        worth, scaled_prices, lam / worth.unit, level, max(1000, _BUDGET // max(1, worth.table.size)), clock
    )
    return Proof(prices, lam, worth.unit * search.bound - _rounding(worth, scaled_prices, 0.0))


def _better(problem: FunnelOrBottleneck, earlier: Proof | None, new: Proof) -> Proof:
    if earlier is None:
        return new
    sign = -1.0 if problem.limits_leakage else 1.0
    return new if sign * proved_value(problem, new) > sign * proved_value(problem, earlier) else earlier
