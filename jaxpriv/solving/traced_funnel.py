"""Funnels and bottlenecks with a multiplier inside of jit, vmap and grad: local steps from many starts, nothing else.

    minimise (bottleneck: maximise)   L(S->Y) - l I(X;Y)   over the mechanism

A round is this: every start descends to a mechanism of its own. Time sharing between the best of them, with the outputs
of each kept apart, is one mechanism with the mean of their values, and its descent moves mass to those posteriors that
are good together: what a linear program over all posteriors would choose, which it also improves. The first round has
random starts; half of those of a later round are near the best mechanism of the rounds before, which takes part in the
time sharing. The search ends after two rounds without progress. Of what was found, X itself and a constant Y the best
is the result.

Nothing is proved about other mechanisms. The bounds are those that need no search: with h = H(X|S)

    L(S->Y) - l I(X;Y)  >=  L(S->constant) - l H(X),          I(S;Y) - l I(X;Y)  <=  max(0, 1 - l) I(S;X),
    I(S;Y) - l I(X;Y)   >=  -l h  where l <= 1, else  I(S;X) - l H(X)                              (`funnels.bounds`).

By the envelope theorem the slope of the value is that of the Lagrangian at the mechanism.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import PyTree

from jaxpriv._runtime.numerics import safe_divide
from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv._runtime.validation import mechanism_array
from jaxpriv.errors import InputError
from jaxpriv.funnels import FunnelGoal, FunnelSolution
from jaxpriv.funnels.balance import channel
from jaxpriv.funnels.local import LIFTS, PATIENCE, SPREADS, AlongTheHull
from jaxpriv.funnels.solve import pick_funnel_solver
from jaxpriv.funnels.starts import blended, random_starts, widened
from jaxpriv.leakage import MutualInformation
from jaxpriv.leakage.evaluation import table_of
from jaxpriv.problems.funnel import FunnelOrBottleneck
from jaxpriv.program.solution import Status
from jaxpriv.solving.traced import in_one_precision, no_tangent

# Steps that every start takes at most, and how many of them then share outputs. With 400 steps the second descents end
# as near to the certified optima, and with 24 starts as with 16; with 8 they missed one of 14 by 1e-3
# (`benchmarks.funnel_prices`). Starts that follow the optimum from a price of 0 end no nearer than random ones.
_SCOUT, _TOGETHER = 100, 16
# Outputs are merged whose posteriors have an affinity sum_x sqrt(q_x r_x) within this of one: their total variation is
# below 5e-4.
_ALIKE = 1e-7


def solve_traced_funnel(
    problem: FunnelOrBottleneck, solver: object, goal: FunnelGoal, start: object = None
) -> FunnelSolution:
    """The best mechanism that is found within one trace, its value, and the bounds that need no search."""
    if problem.form != "multiplier":
        raise InputError(
            f"{problem.form}: outside of jit, vmap and grad only; inside, funnels and bottlenecks have a multiplier"
        )
    funnel = problem.minimises_leakage
    if isinstance(solver, str) and solver == "auto":
        solver = "difference-of-convex" if funnel else "bottleneck-iteration"
    name, method = pick_funnel_solver(solver, problem)
    if not isinstance(method, AlongTheHull):
        raise InputError(
            f"solver: {name} runs outside of jit, vmap and grad; difference-of-convex (funnels) and "
            "bottleneck-iteration run inside"
        )
    method.steps(problem)  # refuses the problems of the other
    if start is not None:
        start = mechanism_array(table_of(start), "start", inputs=problem.joint.shape[1])
    problem, start = in_one_precision((problem, start))
    joint = jnp.asarray(problem.joint)
    price = jnp.asarray(problem.multiplier, joint.dtype)
    valid = (joint >= 0).all() & (price >= 0)  # known on the host only, where other data is an error
    price = jnp.where(valid, price, jnp.nan)
    problem = eqx.tree_at(lambda funnel: (funnel.joint, funnel.multiplier), problem, (joint / joint.sum(), price))
    limit = method.max_steps if goal.max_steps is None else goal.max_steps
    mechanism, residual, steps = _found(problem, start, method, goal.tol, limit)

    source = problem.joint.sum(axis=0)
    disclosure, leakage = _measured(problem, mechanism)
    value = _value(problem, lax.stop_gradient(mechanism))
    # A bound that the mechanism crosses by rounding is the value.
    if funnel:
        lower, upper = jnp.minimum(_lower_bound(problem), value), value
    else:
        lower, upper = value, jnp.maximum(_upper_bound(problem), value)
    code = jnp.where(residual <= goal.tol, Status.STATIONARY.value, Status.BEST_KNOWN.value)
    code = jnp.where(jnp.isnan(value), Status.NOT_CERTIFIED.value, code)
    joint = (source[:, None] * mechanism).T
    masses = joint.sum(axis=1)
    return FunnelSolution(
        value=value,
        lower_bound=lower,
        upper_bound=upper,
        code=jnp.where(upper - lower <= goal.tol, Status.OPTIMAL.value, code),
        mechanism=mechanism,
        disclosure=disclosure,
        leakage=leakage,
        posteriors=jnp.where(masses[:, None] > 0, safe_divide(joint, masses[:, None]), source),
        masses=masses,
        multiplier=jnp.full_like(value, jnp.nan),
        prices=jnp.full_like(source, jnp.nan),
        proof=None,
        solver=name,
        steps=steps,
        seconds=None,
        units=problem.units,
    )


def _found(
    problem: FunnelOrBottleneck, start: Arr | None, method: AlongTheHull, tol: float, limit: ScalarLike
) -> tuple[Arr, Arr, Arr]:
    """`_best`, whose derivatives are not known: NaN in every direction."""
    arrays, rest = eqx.partition((problem, start), eqx.is_inexact_array)

    @jax.custom_jvp
    def best(arrays: PyTree) -> tuple[Arr, Arr, Arr]:
        problem, start = eqx.combine(arrays, rest)
        return _best(problem, start, method, tol, limit)

    @best.defjvp
    def _jvp(primals: PyTree, tangents: PyTree) -> PyTree:
        optimum = best(*primals)
        unknown = jnp.nan * sum(tangent.sum() for tangent in jax.tree.leaves(tangents))
        moved = [unknown * jnp.ones_like(part) for part in optimum[:2]]
        return optimum, (*moved, no_tangent(optimum[2]))

    return best(arrays)


@eqx.filter_jit
def _best(
    problem: FunnelOrBottleneck,
    start: Arr | None,
    method: AlongTheHull,
    tol: ScalarLike,
    limit: ScalarLike,
) -> tuple[Arr, Arr, Arr]:
    """(mechanism (X, Y), residual of the first-order conditions, steps)."""
    given, price, descent = channel(jnp.asarray(problem.joint)), problem.multiplier, method.steps(problem)
    sign, tol = 1.0 if problem.minimises_leakage else -1.0, jnp.asarray(tol, price.dtype)
    symbols = len(given.source)
    outputs = method.outputs or symbols + 1
    if start is not None:
        outputs = max(outputs, start.shape[1])
    count = method.batch(symbols, outputs)
    starts = random_starts(jax.random.key(method.seed), count, symbols, outputs, given.joint.dtype)
    if start is not None:
        starts = starts.at[0].set(blended(widened(start, outputs)))
    key, short = jax.random.key(method.seed), jnp.minimum(limit, _SCOUT)
    together = min(_TOGETHER, count)
    width = max(together * outputs, symbols)

    def of_round(search: _Search) -> _Search:
        best_before, first = search.best, search.rounds == 0
        for_near, for_random = jax.random.split(jax.random.fold_in(key, search.rounds))
        later = random_starts(for_random, count, symbols, outputs, given.joint.dtype)
        near = _near(for_near, best_before.mechanism, given.source, later[count // 2 :])
        later = jnp.concatenate([near, later[: count // 2]])
        descended = descent(given, jnp.full(count, price), jnp.where(first, starts, later), tol, short)
        ranks = _ranks(sign * descended.value)
        last = descended.log_mechanism[jnp.where(first, ranks[together - 1], 0)]
        shared = jnp.concatenate([*descended.log_mechanism[ranks[: together - 1]], last], axis=1)
        again = descent(given, price[None], shared[None], tol, limit)
        ends = [best_before]
        for end, place in ((descended, ranks[0]), (again, 0)):
            mechanism = widened(jnp.exp(end.log_mechanism[place]), width)
            ends.append(_BestEnd(mechanism, end.value[place], end.residual[place]))
        best = _best_of(sign, ends)
        improved = first | (abs(best.value - best_before.value) > tol)
        steps = search.steps + descended.steps.max() + again.steps[0]
        return _Search(best, search.rounds + 1, jnp.where(improved, 0, search.idle + 1), steps)

    plain = jnp.eye(symbols, dtype=price.dtype), jnp.ones((symbols, 1), price.dtype)
    best_plain = _best_of(
        sign,
        [
            _BestEnd(widened(plain_mechanism, width), _value(problem, plain_mechanism), jnp.inf * price)
            for plain_mechanism in plain
        ],
    )
    none = jnp.array(0)
    search = lax.while_loop(
        lambda search: (search.rounds < method.rounds) & (search.idle < PATIENCE),
        of_round,
        _Search(best_plain, none, none, none),
    )
    mechanism = search.best.mechanism
    mechanism = jnp.where(mechanism > jnp.finfo(mechanism.dtype).eps ** 2, mechanism, 0.0)
    source = problem.joint.sum(axis=0)
    mechanism = jnp.where(source[:, None] > 0, mechanism, source @ mechanism)
    return mechanism / mechanism.sum(axis=1, keepdims=True), search.best.residual, search.steps


class _BestEnd(NamedTuple):
    """The best mechanism of the rounds so far."""

    mechanism: Arr  # (X, Y)
    value: Arr
    residual: Arr


class _Search(NamedTuple):
    """The state of the search."""

    best: _BestEnd
    rounds: Arr
    idle: Arr  # rounds since one that improved the value by more than the tolerance
    steps: Arr


def _best_of(sign: float, ends: list[_BestEnd]) -> _BestEnd:
    """The end of the least value, or the largest where `sign` is -1."""
    chosen = _ranks(sign * jnp.stack([end.value for end in ends]))[0]
    return jax.tree.map(lambda *parts: jnp.stack(parts)[chosen], *ends)


def _near(key: Arr, mechanism: Arr, source: Arr, starts: Arr) -> Arr:
    """Starts (B, X, Y) near a mechanism: its heaviest outputs times log-normal numbers, plus some mass anywhere."""
    count, _, outputs = starts.shape
    together = _merged(mechanism, source)
    _, heaviest = lax.top_k(source @ together, outputs)
    narrow = together[:, heaviest]
    factor, other = jax.random.split(key)
    scale, lift = (np.resize(each, count)[:, None, None] for each in (SPREADS, LIFTS))
    noise = jnp.exp(scale * jax.random.normal(factor, starts.shape, starts.dtype))
    near = narrow * noise + lift * jax.random.uniform(other, starts.shape, starts.dtype)
    near = jnp.concatenate([narrow[None], near[1:]]) + jnp.finfo(starts.dtype).tiny
    return jnp.log(near / near.sum(axis=2, keepdims=True))


def _merged(mechanism: Arr, source: Arr) -> Arr:
    """The mechanism with the mass of outputs of nearly one posterior in the first of them."""
    masses = source @ mechanism
    root = jnp.sqrt(source[:, None] * mechanism / jnp.where(masses > 0, masses, 1.0))
    within = max(_ALIKE, 8.0 * float(jnp.finfo(mechanism.dtype).eps))  # float32 has no more digits
    alike = ((root.T @ root > 1.0 - within) & (masses > 0)) | jnp.eye(len(masses), dtype=bool)
    return mechanism @ jax.nn.one_hot(jnp.argmax(alike, axis=1), len(masses), dtype=mechanism.dtype)


def _ranks(values: Arr) -> Arr:
    """Which are the least ones, in order; NaN last."""
    return jnp.argsort(jnp.where(jnp.isnan(values), jnp.inf, values))


def _value(problem: FunnelOrBottleneck, mechanism: Arr) -> Arr:
    disclosure, leakage = _measured(problem, mechanism)
    return leakage - problem.multiplier * disclosure


def _measured(problem: FunnelOrBottleneck, mechanism: Arr) -> tuple[Arr, Arr]:
    """(I(X;Y), L(S->Y)) of a mechanism (X, Y)."""
    return MutualInformation()(jnp.diag(problem.joint.sum(axis=0)), mechanism), problem.leakage(
        problem.joint, mechanism
    )


def _lower_bound(problem: FunnelOrBottleneck) -> Arr:
    """Of a funnel."""
    symbols, price = problem.joint.shape[1], problem.multiplier
    disclosure, leakage = _measured(problem, jnp.eye(symbols, dtype=problem.joint.dtype))
    if isinstance(problem.leakage, MutualInformation):
        return jnp.minimum(price, 1.0) * leakage - price * disclosure
    return _measured(problem, jnp.ones((symbols, 1), problem.joint.dtype))[1] - price * disclosure


def _upper_bound(problem: FunnelOrBottleneck) -> Arr:
    """Of a bottleneck."""
    _, leakage = _measured(problem, jnp.eye(problem.joint.shape[1], dtype=problem.joint.dtype))
    return jnp.maximum(1.0 - problem.multiplier, 0.0) * leakage
