"""The funnel and the bottleneck as linear programs over posteriors, solved by column generation.

A mechanism is a measure over posteriors q with mean P_X; the objective and the constraints are averages over it, so
each problem is a linear program over atoms q with duals (nu, lambda), and the best atom for given duals is a minimum
of psi(q) - nu.q (maximum for the bottleneck). Where that minimum is found and proved, so is the optimum.

A shared attribute A separates the blocks (`shared_attribute`). For R above H(X|A) the funnel leaks R - H(X|S): A itself
is then disclosed with some probability; for R below H(A) the bottleneck discloses A with some probability.

Witsenhausen and Wyner 1975 (envelopes of functions of the posterior); Asoodeh and Calmon 2020.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from jaxpriv._runtime.clock import Clock
from jaxpriv._runtime.divergences import entropy, information_interval
from jaxpriv.column_generation import Objective, Pool, best_plan
from jaxpriv.errors import InputError
from jaxpriv.funnels.atoms.first_atoms import descended_atoms
from jaxpriv.funnels.atoms.generation import Generated, Prices, generate
from jaxpriv.funnels.atoms.parts import Part, first_atoms, parts_of, pool_of
from jaxpriv.funnels.atoms.perfect import Perfect, few_vertices, perfect_release
from jaxpriv.funnels.atoms.shared_attribute import hidden_attribute, revealed_attribute
from jaxpriv.funnels.bounds import proved_value, silent_bound
from jaxpriv.funnels.contraction import contraction_proofs
from jaxpriv.funnels.pricing import Component, blocks_of, connected_pricer, whole_block
from jaxpriv.funnels.pricing.equal_symbols import EqualSymbols
from jaxpriv.funnels.pricing.local import LocalPricer
from jaxpriv.funnels.solution import (
    NOTHING,
    AbstractFunnelSolver,
    FunnelGoal,
    PosteriorMeasure,
    Proof,
    measure_of,
)
from jaxpriv.leakage import MutualInformation
from jaxpriv.problems.funnel import FunnelOrBottleneck, FunnelProblem

_EPS = float(np.finfo(np.float64).eps)
# Tables with no more entries are priced with proof at once: that takes less than many local searches.
_SMALL = 80
# Leakage budgets below this share of I(S;X|A) are nearly none.
_SILENT = 0.02
# Below this one the optimum is next to that without leakage, where a proof takes longest: the first that brings nothing
# is the last.
_TINY = 1e-4
# The share of the bound on what can be disclosed without leakage that tables reached: 0.63 to 0.81 of those tried.
_TOLD = 0.85
# Rounds at most, where the goal has no number.
_ROUNDS = 300
# Of a time limit, what the search for releases without leakage may take.
_FOR_SILENCE = 0.3


@dataclass(frozen=True)
class ColumnGeneration(AbstractFunnelSolver):
    """Global where pricing is proved (`pricing.connected_pricer`): for every table of some thousand entries (funnel)
    or a small S inside every block (bottleneck). Elsewhere, and where a proof is ended early, the best atoms found.
    """

    takes_start: ClassVar[bool] = True
    proves: ClassVar[bool] = True

    def find(self, problem: FunnelOrBottleneck, goal: FunnelGoal) -> PosteriorMeasure:
        return BlockProgram(problem, goal.start).solve(problem, goal)

    def prepare(self, problem: FunnelOrBottleneck) -> Callable[..., PosteriorMeasure]:
        """`find` for other targets of the same problem; atoms found for one of them serve the next."""
        return BlockProgram(problem).solve


class BlockProgram:
    """The blocks of a joint, the atoms known for each and the prices proved: shared by the points of a curve.

    All of it is about the classes of useful symbols with one P(S|x); a release is one of X in the end.
    """

    def __init__(self, problem: FunnelOrBottleneck, start: np.ndarray | None = None):
        if not isinstance(problem.leakage, MutualInformation):
            raise InputError("solver: column generation measures leakage by mutual information only")
        self.funnel = isinstance(problem, FunnelProblem)
        self.equal = EqualSymbols(problem.core)
        self.blocks = blocks_of(self.equal.joint)
        self.parts = tuple(_part(block, self.funnel) for block in self.blocks)
        atoms = [first_atoms(block) for block in self.blocks]
        if start is not None:
            given = self.equal.summed(measure_of(start, problem.reduction.source)[0])
            atoms = [np.vstack([a, g]) for a, g in zip(atoms, parts_of(self.blocks, given), strict=True)]
        self.pools: tuple[Pool, ...] = tuple(pool_of(b, a) for b, a in zip(self.blocks, atoms, strict=True))
        self.masses = np.array([block.mass for block in self.blocks])
        self.attribute = entropy(self.masses) if len(self.masses) > 1 else 0.0
        self.hidden = float(self.masses @ [entropy(block.source) for block in self.blocks])  # H(X|A)
        self.size = problem.core.shape[0] + 4 * problem.core.shape[1]  # terms of the sums that are measured
        self.proved: list[Prices] = []
        self._perfect: tuple[Perfect, ...] | None = None
        self._descended = False
        each = [information_interval(block.joint, np.eye(len(block.source)))[1] for block in self.blocks]
        self.leakable = float(self.masses @ each)  # I(S;X|A)

    def solve(self, problem: FunnelOrBottleneck, goal: FunnelGoal) -> PosteriorMeasure:
        """The release for the target of `problem`, which has the joint that this was made for."""
        candidate, equal = self._solve(problem, goal), self.equal
        posteriors, masses, bound, proof = candidate.posteriors, candidate.masses, candidate.bound, candidate.proof
        if self.funnel:
            posteriors, masses = equal.shown(posteriors, masses)
            bound = None if bound is None else bound + equal.hidden * (1 + len(posteriors) * _EPS)
        else:
            posteriors = equal.shared(posteriors)
        if proof is not None:
            prices = equal.priced(proof.prices, proof.multiplier, funnel=self.funnel)
            slack = equal.slack + 8 * _EPS * float(np.abs(prices).max())
            proof = Proof(prices, proof.multiplier, proof.bound - slack if self.funnel else proof.bound + slack)
        return replace(candidate, posteriors=posteriors, masses=masses, bound=bound, proof=proof)

    def _solve(self, problem: FunnelOrBottleneck, goal: FunnelGoal) -> PosteriorMeasure:
        """The same for the classes of useful symbols."""
        form = "side" if problem.limits_leakage else problem.form
        target = problem.target
        if self.funnel and form == "disclosure":
            target -= self.equal.hidden
            if target <= 0:  # what the classes hide is enough, and is independent of S
                return PosteriorMeasure(self.equal.joint.sum(axis=0)[None], np.ones(1), notes=("perfect privacy",))
        if form != "multiplier":
            most = self.hidden if form == "disclosure" else self.leakable
            if self.funnel and target >= most:
                objective = Objective(True, form, self._inside(form, target, self.attribute + most))
                return self._beyond(objective, (objective.target - most) / (self.attribute or 1.0))
            if not self.funnel:
                if target <= self.attribute:
                    return self._below(self._inside(form, target, self.attribute) / (self.attribute or 1.0))
                target -= self.attribute
            target = self._inside(form, target, most)
            if self.funnel and form == "side" and problem.target <= NOTHING:
                silent = self._silent(None, goal.clock)
                return silent if problem.target == 0 else replace(silent, bound=None)
            wanted = target if form == "disclosure" else np.inf
            if self.funnel and self._perfect is None and self._almost_silent(form, target):
                self.pools = tuple(
                    pool + pool_of(block, perfect.posteriors)
                    for pool, block, perfect in zip(
                        self.pools, self.blocks, self._silence(goal.clock, wanted), strict=True
                    )
                )
            if self.funnel and form == "disclosure" and self._perfect is not None and target <= self._reach(goal.clock):
                return self._silent(target, goal.clock)
        if self.funnel and not self._descended:
            self._descended = True
            self.pools = tuple(
                pool if part.quick is None else pool + pool_of(part.block, descended_atoms(part.block, goal.clock))
                for part, pool in zip(self.parts, self.pools, strict=True)
            )
        objective = Objective(self.funnel, form, target)
        limit = _ROUNDS if goal.max_steps is None else goal.max_steps

        # From the minimised cost to the value of the problem: what a released attribute shows is part of both numbers.
        sign = 1.0 if self.funnel == (form != "side") else -1.0
        shift = self.attribute * (1.0 - problem.target if form == "multiplier" else 1.0)
        if self.funnel:
            shift = self.equal.hidden * {"side": 1.0, "multiplier": -problem.target}.get(form, 0.0)

        def report(rounds: int, value: float, bound: float) -> None:
            goal.clock.report("column-generation", rounds, sign * value + shift, sign * bound + shift)

        bounds = [sign * (proved_value(problem, proof) - shift) for proof in contraction_proofs(problem)]
        run = generate(
            self.parts,
            self.pools,
            objective,
            gap=0.5 * goal.tol,
            rounds=limit,
            clock=goal.clock,
            report=report,
            earlier=self.proved,
            floor=max(bounds, default=-np.inf),
            patient=not (self.funnel and form == "side" and target <= _TINY * self.leakable),
        )
        self.pools = run.pools
        if run.best is not None and not any(prices is run.best for prices in self.proved):
            self.proved.append(run.best)
        if (
            self.funnel
            and form == "side"
            and self._perfect is not None
            and self._reach(goal.clock) > self._left_after_mixing(run, target)
        ):
            # A limit too small to buy anything, or too little time: what rounding costs is more. The bound without
            # leakage is none here.
            return replace(self._silent(None, goal.clock), bound=None, proof=self._proof(run), steps=run.rounds)
        return self._found(run, limit)

    def _inside(self, form: str, target: float, most: float) -> float:
        """Slightly more than was asked for, so that the measured number meets the target with its rounding error."""
        error = 4 * _EPS * self.size * (1.0 + 2.0 * (self.hidden + self.attribute + self.equal.hidden))
        if self.funnel == (form == "disclosure"):
            return min(target + error, most)
        return max(target - error, 0.9 * target)  # of a tiny limit hardly anything depends on the last tenth

    def _almost_silent(self, form: str, target: float) -> bool:
        """Whether releases without leakage may be all or most of the answer, or cost next to nothing to find."""
        if all(few_vertices(block) for block in self.blocks):
            return True
        if form == "side":
            return target <= _SILENT * self.leakable
        return target <= _TOLD * float(self.masses @ [silent_bound(block.joint) for block in self.blocks])

    def _silence(self, clock: Clock, target: float = np.inf) -> tuple[Perfect, ...]:
        """The best releases of every block that are independent of S; with one block no more than `target` is tried."""
        if self._perfect is None:
            enough = target if len(self.blocks) == 1 else np.inf
            with clock.share(_FOR_SILENCE):
                self._perfect = tuple(perfect_release(block, clock, enough) for block in self.blocks)
        return self._perfect

    def _reach(self, clock: Clock) -> float:
        """R0 = max I(X;Y) at I(S;Y) = 0, as far as it is known."""
        return float(self.masses @ [perfect.value for perfect in self._silence(clock)])

    def _left_after_mixing(self, run: Generated, limit: float) -> float:
        """What is left of I(X;Y) once the release is mixed with nothing until it leaks no more than `limit`."""
        each = [weights @ pool.a for pool, weights in zip(run.pools, run.plan.weights, strict=True)]
        leakage = float(self.masses @ each)
        return -run.plan.value * min(1.0, limit / max(leakage, np.finfo(float).tiny))

    def _silent(self, target: float | None, clock: Clock) -> PosteriorMeasure:
        """No leakage: I(X;Y) = `target`, or as much as possible."""
        share = 1.0 if target is None else min(1.0, target / max(self._reach(clock), np.finfo(float).tiny))
        atoms, weights = [], []
        for block, perfect in zip(self.blocks, self._silence(clock), strict=True):
            atoms.append(np.vstack([perfect.posteriors, block.source[None]]))
            weights.append(np.append(share * perfect.weights, 1.0 - share))
        bound = float(self.masses @ [perfect.bound for perfect in self._silence(clock)]) if target is None else None
        return PosteriorMeasure(*hidden_attribute(self.blocks, atoms, weights), bound=bound, notes=("perfect privacy",))

    def _found(self, run: Generated, limit: int) -> PosteriorMeasure:
        used = [weight > 0 for weight in run.plan.weights]
        atoms = [pool.posteriors[use] for pool, use in zip(run.pools, used, strict=True)]
        weights = [weight[use] for weight, use in zip(run.plan.weights, used, strict=True)]
        couple = hidden_attribute if self.funnel else revealed_attribute
        posteriors, masses = couple(self.blocks, atoms, weights)
        exact = all(part.sure is not None for part in self.parts)
        notes = () if exact else ("atoms were priced from many starts: nothing is proved about those not found",)
        if run.idle:
            notes = (*notes, "stopped: for a leakage budget this small a further proof of the bound brought nothing")
        if run.rounds >= limit:
            notes = (*notes, f"stopped after {limit} rounds")
        return PosteriorMeasure(posteriors, masses, self._proof(run), run.rounds, notes=notes)

    def _proof(self, run: Generated) -> Proof | None:
        """One price vector for all blocks: with nu_a raised by m_a + (1 - lambda) ln P(a) the minimum over pi is 0."""
        if run.best is None:
            return None
        lam = run.best.lam
        prices = np.empty(sum(len(block.useful) for block in self.blocks))
        for block, nu, extreme in zip(self.blocks, run.best.prices, run.best.extremes, strict=True):
            prices[block.useful] = nu + extreme + ((1 - lam) * np.log(block.mass) if self.funnel else 0.0)
        slack = 32 * _EPS * (2.0 + float(np.abs(prices).max()) + float(np.abs(run.best.extremes).max()))
        return Proof(prices, lam, -slack if self.funnel else slack)

    def _beyond(self, objective: Objective, share: float) -> PosteriorMeasure:
        """A hidden but everything else disclosed; with probability `share` A too."""
        identity = [np.eye(len(block.useful)) for block in self.blocks]
        hidden, masses = hidden_attribute(self.blocks, identity, [block.source for block in self.blocks])
        source = masses @ hidden
        share = min(max(share, 0.0), 1.0)
        posteriors = np.vstack([hidden, np.eye(len(source))])
        masses = np.concatenate([(1 - share) * masses, share * source])
        if 0 < share < 1:  # as many outputs as a basic solution has, no more
            joint = np.zeros((sum(len(block.private) for block in self.blocks), len(source)))
            for block in self.blocks:
                joint[np.ix_(block.private, block.useful)] = block.mass * block.joint
            pool = pool_of(whole_block(joint), posteriors)
            posteriors = pool.posteriors
            masses = best_plan((pool,), objective).weights[0]
        notes = ("the shared attribute is disclosed only where nothing else is left",)
        return PosteriorMeasure(posteriors[masses > 0], masses[masses > 0], notes=notes)

    def _below(self, share: float) -> PosteriorMeasure:
        """Nothing but A, disclosed with probability `share`."""
        posteriors, masses = revealed_attribute(
            self.blocks, [block.source[None] for block in self.blocks], [np.ones(1) for _ in self.blocks]
        )
        share = min(max(share, 0.0), 1.0)
        source = masses @ posteriors
        posteriors = np.vstack([posteriors, source[None]])
        masses = np.concatenate([share * masses, [1 - share]])
        return PosteriorMeasure(posteriors, masses, notes=("nothing but the shared attribute is disclosed",))


def _part(block: Component, funnel: bool) -> Part:
    sure = connected_pricer(block.joint, funnel=funnel)
    quick = None
    small = len(block.prior) <= 2 or (funnel and block.joint.size <= _SMALL)
    if sure is None or not small:
        quick = LocalPricer(block.conditional, funnel=funnel)
    return Part(block, quick, sure)
