"""Column generation: solve the program over the present atoms, price new ones at its duals, repeat.

For ANY prices and any lambda the blocks' minima bound the optimum, so every round gives a bound; the best one is
kept. Prices jump from round to round: besides the current ones, those between all atoms (`central_prices`) are
priced, and the atoms that violate either are added.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from jaxpriv._clock import Clock
from jaxpriv.column_generation import MasterSolution, Objective, Pool, best_plan
from jaxpriv.column_generation.prices import central_prices, mended_prices
from jaxpriv.funnels.atoms.parts import Part, first_atoms, pool_of
from jaxpriv.funnels.atoms.stationary import bottleneck_prices, convex, moved, widened
from jaxpriv.funnels.pricing import AbstractPricer, Priced

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
# Atoms of a proof near which quick searches look where they had missed some.
_VIOLATORS = 64
# While a round lowers the value by more than this share of it, all atoms of its plan are also moved together, by so
# many steps.
_FALLING, _MOVES = 0.01, 100
# Before the first search, plans are moved on wider supports: so often, by so many steps, as long as that lowers the
# value by more than this share of it.
_WIDENED, _WIDE_MOVES, _WORTH_WIDENING = 8, 150, 0.1
# What quick searches may leave of that before a proof that is not the last, and its part of a time limit.
_LITTLE, _PROVING = 0.3, 0.5
# No finer proof follows at prices that are presumed to leave more than this share of the gap.
_USELESS = 0.4
# A proof is repeated at mended prices that are presumed to leave no more than this share of the gap: once, and again as
# long as that raises the bound.
_MENDED = 0.1
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
    """What the rounds ended with: atoms, weights, the best bound (of the minimised cost) and its prices."""

    pools: tuple[Pool, ...]
    plan: MasterSolution
    bound: float
    best: Prices | None
    rounds: int
    idle: bool = False  # whether a proof that brought nothing ended them

    @property
    def gap(self) -> float:
        """value - bound."""
        return self.plan.value - self.bound


def generate(
    parts: tuple[Part, ...],
    pools: tuple[Pool, ...],
    objective: Objective,
    *,
    gap: float,
    rounds: int,
    clock: Clock,
    report: Callable[[int, float, float], None],
    known: Sequence[Prices] = (),
    floor: float = -np.inf,
    patient: bool = True,
) -> Generated:
    """Rounds until the proved gap is at most `gap`, nothing new is found, `rounds` are used up, or the clock ends them.

    `known` are prices with what was proved for them, for other targets, and `floor` is a bound on the cost that holds
    in any case. Unless `patient`, the first proof by branch and
    bound that raises no bound is the last: where limits are tiny one takes long, and the next brings no more.
    `report` is called with the round, the value and the bound of the minimised cost.

    Blocks with a quick pricer are searched with it; once little more is found the sure pricers of all blocks
    run, which prove the bound or find what was missed: coarsely first, to the gap in the end.
    """
    unaided, provable = all(part.quick is None for part in parts), all(part.sure for part in parts)
    tried = objective.funnel and provable and patient and max(len(part.block.source) for part in parts) <= _TRIED
    direct = sure = unaided or tried
    bound, presumed, best, centre, done = max(objective.floor, floor), -np.inf, None, None, 0
    lowest = np.zeros(len(parts))
    for one in known:
        proved = objective.bound(one.line, one.lam)
        if proved > bound:
            bound, best = proved, one
    last, still, mends = np.inf, 0, 0
    before, patience = np.inf, 1
    seeds: list[np.ndarray] = [np.empty((0, len(part.block.source))) for part in parts]
    if objective.funnel and not unaided:
        pools = _warmed(parts, pools, objective, clock)
    while True:
        plan = best_plan(pools, objective)
        if clock.expired() or plan.value - bound <= gap:
            return Generated(pools, plan, bound, best, done)
        done += 1
        if objective.funnel:
            for part, pool, weights in zip(parts, pools, plan.weights, strict=True):
                if part.quick is not None:
                    part.quick.keep(pool.posteriors[weights > 0])
        if centre is not None:  # atoms found since may lie below the line at those prices
            lowest, presumed = _presumed(pools, objective, gap, centre, lowest)
        expected = presumed if centre is not None else np.inf  # of a proof at those prices
        falling = objective.funnel and not sure and last - plan.value > _FALLING * abs(plan.value)
        still = still + 1 if last - plan.value < _NEARLY_CLOSED * gap else 0
        last = plan.value
        here = (plan.prices, plan.lam)
        proving = sure and not direct
        # The prices for which local searches find least are those to be proved.
        settled = proving and objective.funnel and centre is not None
        offers = [here]
        if centre is not None and not (proving or unaided):
            offers.append(central_prices(pools, objective, *centre, max(plan.value - presumed, gap)))
        aims = np.zeros(len(parts))
        if settled and centre is not None:
            offers, aims = [centre], np.minimum(0.0, lowest)
        allowed, before_round = _allowed(plan, bound, gap), bound
        fresh: list[list[np.ndarray]] = [[] for _ in parts]
        if not objective.funnel and plan.lam > _FLAT:
            active, close = _active(pools, plan, seeds), _PRECISE * objective.priced(gap, plan.lam)
            prices, better = bottleneck_prices(parts, *active, plan.lam, close, patience, clock)
            # Prices of a convex program are the best ones of their lambda.
            offers = [(prices, plan.lam)] if all(map(convex, parts)) else [(prices, plan.lam), here]
            for found, atom in zip(fresh, better, strict=True):
                found.append(atom)
        if falling and plan.lam > _FLAT:
            together = [
                _moved(*one, plan.lam, clock) for one in zip(parts, pools, plan.weights, plan.prices, strict=True)
            ]
            offers[0] = tuple(prices for prices, _ in together), plan.lam
            for found, (_, atoms) in zip(fresh, together, strict=True):
                found.append(atoms)
        missed = False
        for number, (offered, lam) in enumerate(offers):
            if number and clock.expired():
                break
            prices = _relaxed(pools, offered, objective.sign, objective.priced(gap, lam))
            below = aims + _AIM * objective.sign * objective.priced(allowed, lam)
            with clock.share(_PROVING if proving else 1.0):
                priced = _price(parts, prices, lam, sure, clock, below)
            for found, one in zip(fresh, priced, strict=True):
                found.append(one.posteriors)
            if number == 0:
                seeds = [one.posteriors[:_SEEDS] for one in priced]
            extremes = np.array([one.bound for one in priced])
            if np.isfinite(extremes).all():
                line = _line(pools, prices, extremes)
                if objective.bound(line, lam) > bound:
                    turned = tuple(part.turned(nu, lam) for part, nu in zip(parts, prices, strict=True))
                    bound, best = objective.bound(line, lam), Prices(turned, lam, extremes, line)
            best_found = _extremes(parts, prices, lam, priced)
            missed = bool((best_found < below).any())
            likely = objective.bound(_line(pools, prices, best_found), lam)
            if likely > presumed:
                presumed, centre, lowest = likely, (offered, lam), best_found
        light = sure and all(
            part.quick is None or 0 < one.work <= _LIGHT * one.posteriors.shape[1]
            for part, one in zip(parts, priced, strict=True)
        )
        patience = 1 if plan.value - bound <= 0.5 * before else min(2 * patience, _PATIENCE)
        before = plan.value - bound
        report(done, plan.value, bound)
        if plan.value - bound <= gap or done >= rounds:
            return Generated(pools, plan, bound, best, done)
        if proving and not patient and best is not None and bound <= before_round:
            return Generated(pools, plan, bound, best, done, idle=True)
        larger, grown = _grow(parts, pools, fresh, plan, offers, objective, gap)
        if sure and not grown and bound <= before_round and not settled:
            return Generated(pools, plan, bound, best, done)
        if not (sure or provable) and still >= _STILL:
            return Generated(pools, plan, bound, best, done)
        pools = larger
        if proving and not objective.funnel:
            continue
        coarser, allowed = allowed, _allowed(plan, bound, gap)
        if objective.funnel and provable and patient and sure and light != direct:
            direct, sure, still, presumed, centre = light, light, 0, -np.inf, None
            continue
        useless = plan.value - expected > _USELESS * (plan.value - bound)
        if settled and centre is not None and missed:  # atoms below what is aimed at, which no search had found
            for part, one in zip(parts, priced, strict=True):
                if part.quick is not None:
                    part.quick.keep(one.posteriors[:_VIOLATORS])
            offered, lam = centre
            mended = mended_prices(pools, offered, lam), lam
            least, likely = _presumed(pools, objective, gap, mended, np.zeros(len(parts)))
            if plan.value - likely <= _MENDED * (plan.value - bound) and (bound > before_round or not mends):
                mends += 1
                presumed, centre, lowest = likely, mended, least
                continue
        if proving and (coarser <= gap or bound <= before_round or allowed > 0.5 * coarser or useless):
            sure, still, presumed, centre, mends = not grown, 0, -np.inf, None, 0
            continue
        # Quick searches end where what the atoms found leave to be gained is little of what the next proof allows, at
        # the end as good as nothing. Where nothing proves that, only many searches from new starts that bring nothing
        # are worth anything.
        little = _LOWERED * gap + (_NEARLY_CLOSED if allowed <= gap else _LITTLE) * allowed
        if not direct:
            sure = provable and (still >= _STILL or not grown or plan.value - presumed <= little)
            if sure and not objective.funnel:
                presumed, centre = -np.inf, None


def _allowed(plan: MasterSolution, bound: float, gap: float) -> float:
    """How far below the value the next proof may end: proofs go on from coarse ones, which change the prices."""
    return max(gap, _COARSE * (plan.value - bound if np.isfinite(bound) else abs(plan.value)))


def _line(pools: tuple[Pool, ...], prices: tuple[np.ndarray, ...], extremes: np.ndarray) -> float:
    masses = np.array([pool.mass for pool in pools])
    inner = np.array([float(nu @ pool.source) for nu, pool in zip(prices, pools, strict=True)])
    return float(masses @ (inner + extremes))


def _extremes(parts: tuple[Part, ...], prices, lam: float, priced: list[Priced]) -> np.ndarray:
    """The extremes of a - lambda b - nu.q over the atoms that were found: what exact pricing would prove."""
    found = []
    for part, nu, one in zip(parts, prices, priced, strict=True):
        found.append(float(pool_of(part.block, one.posteriors[:1]).reduced(nu, lam)[0]))
    return np.array(found)


def _active(pools: tuple[Pool, ...], plan: MasterSolution, seeds: list[np.ndarray]):
    """(atoms, weights) of the plan, with a little of every seed."""
    atoms, weights = [], []
    for pool, weight, seed in zip(pools, plan.weights, seeds, strict=True):
        used = weight > 0
        atoms.append(np.vstack([pool.posteriors[used], seed]))
        weights.append(np.concatenate([weight[used], np.full(len(seed), _SEED_MASS)]))
    return tuple(atoms), tuple(weights)


def _relaxed(pools: tuple[Pool, ...], prices: tuple[np.ndarray, ...], sign: float, gap: float):
    """Prices lowered (bottleneck: raised) by what costs no more than a small part of the gap in all.

    The price of a rare symbol is accurate to the program's tolerance divided by the mass only; a bound from it would be
    as wrong as that price times one.
    """
    lowered = []
    for pool, nu in zip(pools, prices, strict=True):
        source = pool.source
        lowered.append(nu - sign * np.minimum(_LOWERED * gap / (len(source) * source), _MOST_LOWERED))
    return tuple(lowered)


def _moved(
    part: Part, pool: Pool, weights: np.ndarray, prices: np.ndarray, lam: float, clock: Clock
) -> tuple[np.ndarray, np.ndarray]:
    """(prices of a - lambda b, atoms) after a joint descent of the plan of a block."""
    used = weights > 0
    if part.quick is None or not used.any():
        return prices, pool.posteriors[used]
    return moved(part.block, pool.posteriors[used], weights[used], lam, _MOVES, clock)


def _warmed(parts: tuple[Part, ...], pools: tuple[Pool, ...], objective: Objective, clock: Clock) -> tuple[Pool, ...]:
    """The pools with atoms of plans that were moved on wider supports, while that lowers the value fast."""
    random, last = np.random.default_rng(0), np.inf
    for _ in range(_WIDENED):
        plan = best_plan(pools, objective)
        if clock.expired() or not plan.lam > _FLAT or not plan.value < last - _WORTH_WIDENING * abs(plan.value):
            break
        last, grown = plan.value, []
        for part, pool, weights in zip(parts, pools, plan.weights, strict=True):
            used = weights > 0
            if part.quick is not None and used.sum() > 1:
                wide = widened(part.block, pool.posteriors[used], weights[used], random)
                pool = pool + pool_of(part.block, moved(part.block, *wide, plan.lam, _WIDE_MOVES, clock)[1])
            grown.append(pool)
        pools = tuple(grown)
    return pools


def _presumed(
    pools: tuple[Pool, ...],
    objective: Objective,
    gap: float,
    offer: tuple[tuple[np.ndarray, ...], float],
    known: np.ndarray,
) -> tuple[np.ndarray, float]:
    """(extremes of the blocks, bound) at the prices of an offer, if they are `known` or those of atoms of the pools."""
    offered, lam = offer
    prices = _relaxed(pools, offered, objective.sign, objective.priced(gap, lam))
    sign, lowest = objective.sign, known.copy()
    for k, (pool, nu) in enumerate(zip(pools, prices, strict=True)):
        found = float((sign * pool.reduced(nu, lam)).min())
        lowest[k] = sign * min(sign * known[k], found)
    return lowest, objective.bound(_line(pools, prices, lowest), lam)


def _price(
    parts: tuple[Part, ...], prices: tuple[np.ndarray, ...], lam: float, sure: bool, clock: Clock, aims: np.ndarray
) -> list[Priced]:
    priced = []
    for part, nu, aim in zip(parts, prices, aims, strict=True):
        pricer = part.sure if part.quick is None or (sure and part.sure is not None) else part.quick
        assert isinstance(pricer, AbstractPricer)
        priced.append(pricer.price(part.turned(nu, lam), lam, 2 * len(nu) + 2, clock, float(aim)))
    return priced


def _grow(
    parts: tuple[Part, ...],
    pools: tuple[Pool, ...],
    fresh: list[list[np.ndarray]],
    plan: MasterSolution,
    offers: list[tuple[tuple[np.ndarray, ...], float]],
    objective: Objective,
    gap: float,
) -> tuple[tuple[Pool, ...], bool]:
    """The pools with the new atoms of negative reduced cost at the prices of the plan or at any of the `offers`, and
    without the worst old ones; whether any was new.
    """
    grown, any_new, sign = [], False, objective.sign
    for k, (part, pool, found, prices, weights) in enumerate(
        zip(parts, pools, fresh, plan.prices, plan.weights, strict=True)
    ):
        new = pool_of(part.block, np.vstack(found))
        better = np.zeros(len(new.a), dtype=bool)
        for offered, lam in [(plan.prices, plan.lam), *offers]:
            gain = sign * new.reduced(offered[k], lam)
            better |= gain < -_WORTH * objective.priced(gap, lam)
        needed = weights > 0
        needed[: len(first_atoms(part.block))] = True  # any target stays reachable
        pool = pool.trimmed(sign * pool.reduced(prices, plan.lam), needed, max(_KEPT * len(prices), _KEPT_LEAST))
        larger = pool + new.take(np.flatnonzero(better))
        any_new |= len(larger.a) > len(pool.a)
        grown.append(larger)
    return tuple(grown), any_new
