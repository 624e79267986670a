"""Column generation: solve the program over the present atoms, price new ones at its duals, repeat.

For ANY prices and any lambda the blocks' minima bound the optimum, so every round gives a bound; the best one is
kept. Prices jump from round to round: besides the current ones, their mean with the best ones so far is priced, and the
atoms that violate either are added.
"""

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from jaxpriv._runtime.clock import Clock
from jaxpriv.column_generation import MasterSolution, Objective, Pool, best_plan
from jaxpriv.funnels.atoms.bottleneck_prices import bottleneck_prices, convex
from jaxpriv.funnels.atoms.parts import Part, first_atoms, pool_of
from jaxpriv.funnels.atoms.stationary import moved, widened
from jaxpriv.funnels.pricing import Priced

# Atoms kept per useful symbol of a block, and in any case; the rest are those of largest reduced cost.
_KEPT, _KEPT_LEAST = 16, 120
# A reduced cost above minus this fraction of the gap aimed at is not worth an atom.
_WORTH = 1e-3
# Prices of a convex program are as close to the best ones as this share of the gap.
_PRECISE = 1e-3
# Below this lambda the self-consistent equations of the bottleneck only sort symbols.
_FLAT = 1e-6
# Prices are lowered by no more than this, and by what costs no more than this fraction of the gap in all.
_MOST_LOWERED, _LOWERED = 100.0, 0.125
# Quick searches end, where others can prove the bound, once the bound that would hold if their best atoms were the best
# ones is this fraction of the gap below the value; what lowering the prices costs comes on top of it.
_NEARLY_CLOSED = 0.02
# A search for a proof allows this share of what is not yet proved, and of that this share below zero. Most boxes of a
# proof are divided before it is near: of COMPAS at .8 H(X) a tolerance of 4e-5 takes 36,000 boxes, one of 4e-7 42,000.
_COARSE, _AIM = 1e-4, -0.8
# Before the first search, plans are moved on wider supports: so often, by so many steps, as long as that lowers the
# value by more than this share of it.
_WIDENED, _WIDE_MOVES, _WORTH_WIDENING = 8, 150, 0.1
# What quick searches may leave of that before a proof that is not the last, and its part of a time limit.
_LITTLE, _PROVING = 0.3, 0.5
# No finer proof follows at prices that are presumed to leave more than this share of the gap.
_USELESS = 0.4
# Proofs take the place of quick searches while one computes with no more entries of T than this for each useful
# symbol: it then takes no longer (about 15 ns an entry against 2 ms a symbol, one core).
_LIGHT = 15_000
# Funnels of at most so many useful symbols begin with a proof: where it is light, quick searches are never compiled. In
# larger ones it takes longer than a round of quick searches.
_TRIED = 128
# In any case where the value has moved by less than that fraction for so many rounds.
_STILL = 10
# Where lambda is near a critical value the self-consistent iteration crawls: a round that does not halve the gap
# doubles its steps, at most so often.
_PATIENCE = 16
# Of the atoms that violate those prices most, this many of a block join the next iteration, with this mass each.
_SEEDS, _SEED_MASS = 2, 0.02


@dataclass(frozen=True, eq=False)
class Prices:
    """Prices of every block (X_a,) for psi_a, lambda, and the proved minima (bottleneck: maxima) of the blocks.

    `line`: what a - lambda b is at least (bottleneck: at most) in the average of every release.
    """

    prices: tuple[np.ndarray, ...]
    lam: float
    extremes: np.ndarray
    line: float


@dataclass(frozen=True, eq=False)
class Generated:
    """What the rounds ended with: atoms, weights, and the prices of the best bound."""

    pools: tuple[Pool, ...]
    plan: MasterSolution
    best: Prices | None
    rounds: int
    idle: bool  # whether a proof that brought nothing ended them


def generate(
    parts: tuple[Part, ...],
    pools: tuple[Pool, ...],
    objective: Objective,
    *,
    gap: float,
    rounds: int,
    clock: Clock,
    report: Callable[[int, float, float], None],
    earlier: Sequence[Prices] = (),
    floor: float = -np.inf,
    patient: bool = True,
) -> Generated:
    """Rounds until the proved gap is at most `gap`, nothing new is found, `rounds` are used up, or the clock ends them.

    `earlier` are prices with what was proved for them, for other targets, and `floor` is a bound on the cost that holds
    in any case. Unless `patient`, the first proof by branch and
    bound that raises no bound is the last: where limits are tiny one takes long, and the next brings no more.
    `report` is called with the round, the value and the bound of the minimised cost.

    Blocks with a quick pricer are searched with it; once little more is found the sure pricers of all blocks
    run, which prove the bound or find what was missed: coarsely first, to the gap in the end. They run in the last of
    the `rounds` in any case: searches alone leave the bound of the first rounds, whose prices were poor.
    """
    run = _Rounds(parts, pools, objective, gap, clock, patient, bound=max(objective.floor, floor))
    for prices in earlier:
        run.prove(prices)
    if objective.funnel and not run.unaided:
        run.warm()
    done, idle = 0, False
    while True:
        plan = best_plan(run.pools, objective)
        if done >= rounds or clock.expired() or plan.value - run.bound <= gap:
            break
        done += 1
        if done == rounds and run.provable and run.mode is Mode.SEARCH:
            run.mode = Mode.PROOF
        now = run.begun(plan)
        fresh = run.searched(now)
        report(done, plan.value, run.bound)
        if plan.value - run.bound <= gap:
            break
        # A proof that brings nothing, where one takes long.
        idle = now.proving and not patient and run.best is not None and run.bound <= now.bound
        if idle or not run.grown(now, fresh):
            break
    return Generated(run.pools, plan, run.best, done, idle)


Offer: TypeAlias = tuple[tuple[np.ndarray, ...], float]


class Mode(enum.Enum):
    """How a round prices: by quick searches, by a proof once these find little more, or by proofs in their place."""

    SEARCH = enum.auto()
    PROOF = enum.auto()
    DIRECT = enum.auto()


@dataclass(eq=False)
class _Round:
    """One round.

    Attributes:
        plan: of the linear program.
        bound: the best one before the round.
        proving: whether it is a proof that follows searches.
        settled: whether that is at the prices for which searches found least.
        expected: the bound that a proof at those prices is presumed to give.
        allowed: how far below the value a proof may end.
        aims: the extremes that are aimed at, of every block, but for what is allowed.
        offers: prices that are searched at.
        priced: what was found at the last of them.
    """

    plan: MasterSolution
    bound: float
    proving: bool
    settled: bool
    expected: float
    allowed: float
    aims: np.ndarray
    offers: list[Offer]
    priced: list[Priced] = field(default_factory=list)


@dataclass(eq=False)
class _Rounds:
    """The problem, and what one round leaves to the next.

    Attributes:
        pools: the atoms.
        bound, best: the best bound, and its prices.
        centre: the prices at which searches found least.
        presumed: the bound that they would have if no atom were below those that were found; `lowest`: the extremes
            of the blocks then.
        value, still: the last value, and how many rounds in a row have hardly moved it.
        left, patience: the last gap; how many times as many steps the self-consistent equations take.
        mode: how the next round prices.
        seeds: of every block the atoms that violated the last prices most.
    """

    parts: tuple[Part, ...]
    pools: tuple[Pool, ...]
    objective: Objective
    gap: float
    clock: Clock
    patient: bool
    bound: float
    best: Prices | None = None
    centre: Offer | None = None
    presumed: float = -np.inf
    value: float = np.inf
    still: int = 0
    left: float = np.inf
    patience: int = 1

    def __post_init__(self) -> None:
        self.unaided = all(part.quick is None for part in self.parts)
        self.provable = all(part.sure for part in self.parts)
        # Whether proofs may take the place of searches.
        self.light_proofs = self.objective.funnel and self.provable and self.patient
        few = max(len(part.block.source) for part in self.parts) <= _TRIED
        self.mode = Mode.DIRECT if self.unaided or (self.light_proofs and few) else Mode.SEARCH
        self.lowest = np.zeros(len(self.parts))
        self.seeds = [np.empty((0, len(part.block.source))) for part in self.parts]

    def prove(self, prices: Prices) -> None:
        """Keep the prices if their bound is the best one."""
        proved = self.objective.bound(prices.line, prices.lam)
        if proved > self.bound:
            self.bound, self.best = proved, prices

    def begun(self, plan: MasterSolution) -> _Round:
        """A round, with its offers of prices."""
        gap, funnel = self.gap, self.objective.funnel
        if funnel:
            for part, pool, weights in zip(self.parts, self.pools, plan.weights, strict=True):
                if part.quick is not None:  # later searches begin near the atoms of the plan, too
                    part.quick.keep(pool.posteriors[weights > 0])
        if self.centre is not None:  # atoms found since may lie below the line at those prices
            self.lowest, self.presumed = self._presumed(self.centre, self.lowest)
        expected = self.presumed if self.centre is not None else np.inf
        self.still = self.still + 1 if self.value - plan.value < _NEARLY_CLOSED * gap else 0
        self.value = plan.value
        proving, settled = self.mode is Mode.PROOF, False
        offers, aims = [(plan.prices, plan.lam)], np.zeros(len(self.parts))
        if self.centre is not None and funnel and proving:
            # The prices for which local searches find least are those to be proved.
            settled, offers, aims = True, [self.centre], np.minimum(0.0, self.lowest)
        elif self.centre is not None and not (proving or self.unaided):
            best, lam = self.centre
            mean = tuple(0.5 * (nu + best_nu) for nu, best_nu in zip(plan.prices, best, strict=True))
            offers.append((mean, 0.5 * (plan.lam + lam)))
        return _Round(plan, self.bound, proving, settled, expected, self._allowed(), aims, offers)

    def searched(self, now: _Round) -> list[list[np.ndarray]]:
        """The atoms found for every block at all offers; what they say about prices and bound is kept."""
        parts, objective, clock = self.parts, self.objective, self.clock
        plan, lam = now.plan, now.plan.lam
        fresh: list[list[np.ndarray]] = [[] for _ in parts]
        if lam > _FLAT and not objective.funnel:
            blocks = zip(parts, self.pools, plan.weights, self.seeds, strict=True)
            together = [self._together(*block, lam) for block in blocks]
            prices = tuple(nu for nu, _ in together), lam
            # Prices of a convex program are the best ones of their lambda.
            now.offers = [prices] if all(map(convex, parts)) else [prices, (plan.prices, lam)]
            for block_atoms, (_, atoms) in zip(fresh, together, strict=True):
                block_atoms.append(atoms)
        for number, offer in enumerate(now.offers):
            if number and clock.expired():
                break
            self._price(now, offer)
            for block_atoms, priced in zip(fresh, now.priced, strict=True):
                block_atoms.append(priced.posteriors)
            if number == 0:
                self.seeds = [priced.posteriors[:_SEEDS] for priced in now.priced]
        self.patience = 1 if plan.value - self.bound <= 0.5 * self.left else min(2 * self.patience, _PATIENCE)
        self.left = plan.value - self.bound
        return fresh

    def _price(self, now: _Round, offer: Offer) -> None:
        """Search at one offer of prices."""
        parts, objective, (_, lam) = self.parts, self.objective, offer
        prices = self._relaxed(offer)
        below = now.aims + _AIM * objective.sign * objective.priced(now.allowed, lam)
        turned = tuple(part.turned(nu, lam) for part, nu in zip(parts, prices, strict=True))
        now.priced = []
        with self.clock.share(_PROVING if now.proving else 1.0):
            for part, nu, aim in zip(parts, turned, below, strict=True):
                proof = part.quick is None or (self.mode is not Mode.SEARCH and part.sure is not None)
                pricer = part.sure if proof else part.quick
                assert pricer is not None
                now.priced.append(pricer.price(nu, lam, 2 * len(nu) + 2, self.clock, float(aim)))
        extremes = np.array([priced.bound for priced in now.priced])
        if np.isfinite(extremes).all():
            self.prove(Prices(turned, lam, extremes, self._line(prices, extremes)))
        # The extremes of a - lambda b - nu.q over the atoms that were found: what exact pricing would prove.
        pools = (pool_of(part.block, priced.posteriors[:1]) for part, priced in zip(parts, now.priced, strict=True))
        best_found = np.array([float(pool.reduced(nu, lam)[0]) for pool, nu in zip(pools, prices, strict=True)])
        likely = objective.bound(self._line(prices, best_found), lam)
        if likely > self.presumed:
            self.presumed, self.centre, self.lowest = likely, offer, best_found

    def grown(self, now: _Round, fresh: list[list[np.ndarray]]) -> bool:
        """Whether the rounds go on, with the atoms found and the mode of the next one."""
        plan, funnel = now.plan, self.objective.funnel
        larger, any_new = self._with(fresh, now)
        raised = self.bound > now.bound
        if self.mode is not Mode.SEARCH and not (any_new or raised or now.settled):
            return False
        if self.mode is Mode.SEARCH and not self.provable and self.still >= _STILL:
            return False
        self.pools = larger
        if now.proving and not funnel:
            return True
        light = self._light(now)
        if self.light_proofs and self.mode is not Mode.SEARCH and light != (self.mode is Mode.DIRECT):
            self._anew(Mode.DIRECT if light else Mode.SEARCH)
            return True
        allowed = self._allowed()
        useless = plan.value - now.expected > _USELESS * (plan.value - self.bound)
        if now.proving and (now.allowed <= self.gap or not raised or allowed > 0.5 * now.allowed or useless):
            self._anew(Mode.SEARCH if any_new else Mode.PROOF)
        elif self.mode is not Mode.DIRECT:
            self._after_search(any_new, allowed)
        return True

    def _after_search(self, any_new: bool, allowed: float) -> None:
        """A proof is next, or another search.

        Quick searches end where what the atoms found leave to be gained is little of what the next proof allows, at
        the end as good as nothing. Where nothing proves that, only many searches from new starts that bring nothing
        are worth anything.
        """
        little = _LOWERED * self.gap + (_NEARLY_CLOSED if allowed <= self.gap else _LITTLE) * allowed
        ready = self.still >= _STILL or not any_new or self.value - self.presumed <= little
        self.mode = Mode.PROOF if self.provable and ready else Mode.SEARCH
        if self.mode is Mode.PROOF and not self.objective.funnel:
            self.presumed, self.centre = -np.inf, None

    def _light(self, now: _Round) -> bool:
        """Whether the proofs of the round took no longer than searches."""
        return self.mode is not Mode.SEARCH and all(
            part.quick is None or 0 < priced.work <= _LIGHT * priced.posteriors.shape[1]
            for part, priced in zip(self.parts, now.priced, strict=True)
        )

    def _anew(self, mode: Mode) -> None:
        """The next rounds are in this mode, and know of no good prices."""
        self.mode, self.still, self.presumed, self.centre = mode, 0, -np.inf, None

    def _allowed(self) -> float:
        """How far below the value the next proof may end: proofs go on from coarse ones, which change the prices."""
        left = self.value - self.bound if np.isfinite(self.bound) else abs(self.value)
        return max(self.gap, _COARSE * left)

    def _line(self, prices: tuple[np.ndarray, ...], extremes: np.ndarray) -> float:
        """What a - lambda b is at least (bottleneck: at most) in the average of every release."""
        masses = np.array([pool.mass for pool in self.pools])
        inner = np.array([float(nu @ pool.source) for nu, pool in zip(prices, self.pools, strict=True)])
        return float(masses @ (inner + extremes))

    def _relaxed(self, offer: Offer) -> tuple[np.ndarray, ...]:
        """Prices lowered (bottleneck: raised) by what costs no more than a small part of the gap in all.

        The price of a rare symbol is accurate to the program's tolerance divided by the mass only; a bound from it
        would be as wrong as that price times one.
        """
        prices, lam = offer
        spent, sign = _LOWERED * self.objective.priced(self.gap, lam), self.objective.sign
        return tuple(
            nu - sign * np.minimum(spent / (len(nu) * pool.source), _MOST_LOWERED)
            for nu, pool in zip(prices, self.pools, strict=True)
        )

    def _presumed(self, offer: Offer, extremes: np.ndarray) -> tuple[np.ndarray, float]:
        """(extremes of the blocks, bound) at the prices of an offer, if they are `extremes` or those of known atoms."""
        prices, (_, lam), sign = self._relaxed(offer), offer, self.objective.sign
        least = [(sign * pool.reduced(nu, lam)).min() for pool, nu in zip(self.pools, prices, strict=True)]
        lowest = sign * np.minimum(sign * extremes, least)
        return lowest, self.objective.bound(self._line(prices, lowest), lam)

    def _together(
        self, part: Part, pool: Pool, weights: np.ndarray, seed: np.ndarray, lam: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """(prices of a - lambda b, atoms) of a block from all atoms of the plan, with a little of every seed."""
        used, close = weights > 0, _PRECISE * self.objective.priced(self.gap, lam)
        atoms = np.vstack([pool.posteriors[used], seed])
        weights = np.append(weights[used], np.full(len(seed), _SEED_MASS))
        return bottleneck_prices(part, atoms, weights, lam, close, self.patience, self.clock)

    def warm(self) -> None:
        """Add atoms of plans that are moved on wider supports, while that lowers the value fast."""
        random, last = np.random.default_rng(0), np.inf
        for _ in range(_WIDENED):
            plan = best_plan(self.pools, self.objective)
            little = not plan.value < last - _WORTH_WIDENING * abs(plan.value)
            if self.clock.expired() or not plan.lam > _FLAT or little:
                break
            last, grown = plan.value, []
            for part, pool, weights in zip(self.parts, self.pools, plan.weights, strict=True):
                used = weights > 0
                if part.quick is not None and used.sum() > 1:
                    wide = widened(part.block, pool.posteriors[used], weights[used], random)
                    pool = pool + pool_of(part.block, moved(part.block, *wide, plan.lam, _WIDE_MOVES, self.clock))
                grown.append(pool)
            self.pools = tuple(grown)

    def _with(self, fresh: list[list[np.ndarray]], now: _Round) -> tuple[tuple[Pool, ...], bool]:
        """The pools with the new atoms of negative reduced cost at the prices of the plan or at any of the offers, and
        without the worst old ones; whether any was new.
        """
        grown, any_new, plan, sign = [], False, now.plan, self.objective.sign
        for k, (part, pool) in enumerate(zip(self.parts, self.pools, strict=True)):
            new, prices = pool_of(part.block, np.vstack(fresh[k])), plan.prices[k]
            better = np.zeros(len(new.a), dtype=bool)
            for offered, lam in [(plan.prices, plan.lam), *now.offers]:
                better |= sign * new.reduced(offered[k], lam) < -_WORTH * self.objective.priced(self.gap, lam)
            needed = plan.weights[k] > 0
            needed[: len(first_atoms(part.block))] = True  # any target stays reachable
            pool = pool.trimmed(sign * pool.reduced(prices, plan.lam), needed, max(_KEPT * len(prices), _KEPT_LEAST))
            larger = pool + new.take(np.flatnonzero(better))
            any_new |= len(larger.a) > len(pool.a)
            grown.append(larger)
        return tuple(grown), any_new
