"""Funnels and bottlenecks with a multiplier inside of jit, vmap and grad: local steps from many starts, nothing else.

    minimise (bottleneck: maximise)   L(S->Y) - l I(X;Y)   over the mechanism

A mechanism is a measure over posteriors q of X with mean p. The leakage is outer( sum_y P(y) phi(q_y) ), and with its
slope a the value is to first order the mean of psi(q) = a phi(q) - l D(q || p). In a round many posteriors, random ones
and some near those of the best mechanism, descend to local minima of psi(q) - nu . q, with the prices nu and the slope
of the round before. (In the first round there are none, and nothing descends.) A linear program chooses among them and
the posteriors of the best mechanism, and the mechanism that it chooses descends as a whole. Where phi has kinks it is
smoothed for the descents of posteriors alone, by a temperature that falls while they move: the minima are where several
actions are equally good. The search ends after some rounds without progress. Of what was found, X itself and a constant
Y the best is the result.

Nothing is proved about other mechanisms. The bounds are those that need no search: with h = H(X|S)

    L(S->Y) - l I(X;Y)  >=  L(S->constant) - l H(X),          I(S;Y) - l I(X;Y)  <=  max(0, 1 - l) I(S;X),
    I(S;Y) - l I(X;Y)   >=  -l h  where l <= 1, else  I(S;X) - l H(X)                              (`funnels.bounds`).

By the envelope theorem the slope of the value is that of the Lagrangian at the mechanism.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import xlogy
from jaxtyping import PyTree

from jaxpriv._runtime.numerics import safe_divide
from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv._runtime.validation import mechanism_array
from jaxpriv.errors import InputError
from jaxpriv.funnels import FunnelGoal, FunnelSolution
from jaxpriv.funnels.balance import Channel, channel
from jaxpriv.funnels.local import LIFTS, SPREADS, AlongTheHull
from jaxpriv.funnels.local_steps import descend_posteriors
from jaxpriv.funnels.solve import pick_funnel_solver
from jaxpriv.funnels.starts import random_starts, widened
from jaxpriv.funnels.traced_linear_program import masses_and_prices
from jaxpriv.leakage import MutualInformation
from jaxpriv.leakage.evaluation import table_of
from jaxpriv.leakage.rule_sets import LINEAR, Role
from jaxpriv.problems.funnel import FunnelOrBottleneck
from jaxpriv.program.lower import shift_of, terms_of
from jaxpriv.program.solution import Status
from jaxpriv.solving.traced import in_one_precision, no_tangent

# Temperatures of one search, in units of what X itself leaks more than a constant Y (as sums over outputs), and the
# steps that every posterior takes at most at each of them. In every second round they are multiplied by `_COLDER`:
# total variation needs the low ones, maximal leakage the others (`benchmarks.funnel_prices`).
_TEMPERATURES, _SCOUT, _COLDER = (0.03, 0.01, 0.003, 1e-3, 1e-4, 1e-5), 50, 0.1
# Rounds without progress after which the search ends: two at either temperature.
_PATIENCE = 4
# Outputs of the mechanism that a round ends with, as a multiple of those of a start. A linear program has an optimum of
# as many as there are symbols; posteriors on the way to one of its own are not merged.
_WIDTH = 2
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
    """`_best`, whose derivatives are not known: they are NaN in every direction."""
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
    symbols, key = len(given.source), jax.random.key(method.seed)
    outputs = method.outputs or symbols + 1
    count, width = method.batch(symbols, outputs), max(_WIDTH * outputs, 0 if start is None else start.shape[1])
    phi, soft, outer = _leakage_of_posteriors(problem, given)
    anyway = jnp.vstack([jnp.eye(symbols, dtype=price.dtype), given.source])
    of_symbols = jax.vmap(phi)(anyway)
    span = given.source @ of_symbols[:-1] - of_symbols[-1]
    schedule = jnp.asarray(_TEMPERATURES, price.dtype) * jnp.maximum(span, jnp.finfo(price.dtype).tiny)

    def of_round(search: _Search) -> _Search:
        best_before, first = search.best, search.rounds == 0
        for_near, for_random = jax.random.split(jax.random.fold_in(key, search.rounds))
        logs = random_starts(for_random, count, symbols, outputs, price.dtype) + jnp.log(given.source)[:, None]
        random = logs.swapaxes(1, 2).reshape(-1, symbols)
        atoms = _posteriors(best_before.mechanism, given.source)
        half = len(random) // 2
        near = jnp.where(first, random[half:], _near(for_near, atoms[:symbols], random[half:]))
        starts = jnp.concatenate([near, random[:half]])

        def once(logs: Arr, temperature: ScalarLike) -> tuple[Arr, Arr]:
            def cost(q: Arr) -> Arr:
                return search.slope * soft(q, temperature) + (price * jnp.log(given.source) - sign * search.prices) @ q

            most = jnp.where(first, 0, jnp.minimum(limit, _SCOUT))
            ends = descend_posteriors(cost, price, logs, tol, most, bottleneck=sign < 0)
            return ends.log_mechanism[:, 0], ends.steps.max()

        logs, steps = lax.scan(once, starts, schedule * jnp.where(search.rounds % 2 == 0, 1.0, _COLDER))
        pool = jnp.concatenate([atoms, jnp.exp(logs), anyway])
        leaks = jax.vmap(phi)(pool)
        pool = jnp.where(jnp.isfinite(leaks)[:, None], pool, given.source)  # a posterior may leak without limit
        leaks = jnp.where(jnp.isfinite(leaks), leaks, of_symbols[-1])
        costs = search.slope * leaks - price * xlogy(pool, pool / given.source).sum(axis=1)
        masses, prices = masses_and_prices(sign * costs, pool, given.source)
        mechanism = _narrow((pool * masses[:, None]).T / given.source[:, None], given.source, width)
        end = descent(given, price[None], jnp.log(mechanism)[None], tol, limit)
        best = _best_of(sign, [best_before, _BestEnd(jnp.exp(end.log_mechanism[0]), end.value[0], end.residual[0])])
        improved = first | (abs(best.value - best_before.value) > tol)
        return _Search(
            best,
            prices,
            jax.grad(outer)(masses @ leaks),
            search.rounds + 1,
            jnp.where(improved, 0, search.idle + 1),
            search.steps + steps.sum() + end.steps[0],
        )

    plain = [jnp.eye(symbols, dtype=price.dtype), jnp.ones((symbols, 1), price.dtype)]
    best_plain = _best_of(
        sign,
        [
            _BestEnd(widened(plain_mechanism, width), _value(problem, plain_mechanism), jnp.inf * price)
            for plain_mechanism in plain + ([] if start is None else [jnp.asarray(start)])
        ],
    )
    none = jnp.array(0)
    search = lax.while_loop(
        lambda search: (search.rounds < 2 * method.rounds) & (search.idle < _PATIENCE),
        of_round,
        _Search(best_plain, jnp.zeros_like(given.source), jax.grad(outer)(of_symbols[-1]), none, none, none),
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
    prices: Arr  # (X,): of the last linear program
    slope: Arr  # of the value in the sum over the outputs
    rounds: Arr
    idle: Arr  # rounds since one that improved the value by more than the tolerance
    steps: Arr


def _leakage_of_posteriors(
    problem: FunnelOrBottleneck, given: Channel
) -> tuple[Callable[[Arr], Arr], Callable[[Arr, ScalarLike], Arr], Callable[[Arr], Arr]]:
    """phi of a posterior (X,), phi smoothed by a temperature, and the function of its mean that the leakage is."""
    measure = problem.leakage
    if not measure.linear:
        conditional = given.joint / given.source

        def column(q: Arr) -> Arr:
            return measure.column(conditional @ q, given.private)

        return column, lambda q, _: column(q), measure.outer
    (term,) = terms_of(measure, given.joint, Role.OBJECTIVE, whole=True)  # of `LINEAR`
    rows, scale = term.rows / given.source, measure.scale_for(len(given.joint))
    shift = shift_of(measure, given.joint, whole=True)
    return (
        lambda q: LINEAR.columns(term, (rows @ q)[:, None])[0],
        lambda q, temperature: LINEAR.softened(term, rows @ q, temperature),
        lambda total: jnp.asarray(scale.outer(total + shift)),
    )


def _best_of(sign: float, ends: list[_BestEnd]) -> _BestEnd:
    """The end of the least value, or the largest where `sign` is -1."""
    chosen = jnp.nanargmin(sign * jnp.stack([end.value for end in ends]))
    return jax.tree.map(lambda *parts: jnp.stack(parts)[chosen], *ends)


def _posteriors(mechanism: Arr, source: Arr) -> Arr:
    """The posteriors (Y, X) of a mechanism (X, Y); an output without mass has the prior."""
    joint = (source[:, None] * mechanism).T
    masses = joint.sum(axis=1, keepdims=True)
    return jnp.where(masses > 0, safe_divide(joint, masses), source)


def _near(key: Arr, atoms: Arr, like: Arr) -> Arr:
    """Logarithms of posteriors (B, X): the atoms in turn are multiplied by log-normal numbers, and mass is added."""
    near = jnp.resize(atoms, like.shape)
    factor, other = jax.random.split(key)
    scale, lift = (np.resize(np.repeat(each, len(atoms)), len(like))[:, None] for each in (SPREADS, LIFTS))
    noise = jnp.exp(scale * jax.random.normal(factor, like.shape, like.dtype))
    near = near * noise + lift * jax.random.uniform(other, like.shape, like.dtype)
    return jnp.log(near + jnp.finfo(like.dtype).tiny)


def _narrow(mechanism: Arr, source: Arr, outputs: int) -> Arr:
    """Outputs of nearly one posterior are merged in the first of them, and the heaviest are what is left."""
    masses = source @ mechanism
    root = jnp.sqrt(source[:, None] * mechanism / jnp.where(masses > 0, masses, 1.0))
    within = max(_ALIKE, 8.0 * float(jnp.finfo(mechanism.dtype).eps))  # float32 has no more digits
    alike = ((root.T @ root > 1.0 - within) & (masses > 0)) | jnp.eye(len(masses), dtype=bool)
    merged = mechanism @ jax.nn.one_hot(jnp.argmax(alike, axis=1), len(masses), dtype=mechanism.dtype)
    narrow = merged[:, lax.top_k(source @ merged, outputs)[1]]
    return narrow / narrow.sum(axis=1, keepdims=True)


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
