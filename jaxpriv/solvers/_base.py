"""What a solver is: data (its hyper-parameters) with `init`, `step` and `terminate`; one loop runs them all.

Below the loop stand the pieces that several solvers compute: mirror steps within budgets, precision.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal, NamedTuple, TypeAlias, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap
from jaxtyping import Array, PyTree
from numpy.typing import DTypeLike

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.compilation import target_platform
from jaxpriv._runtime.lanes import LaneArray
from jaxpriv._runtime.module import Module
from jaxpriv._runtime.native import asked_to_stop
from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv.errors import InputError
from jaxpriv.program.convex import Goal
from jaxpriv.solvers._inverse_factors import small_solve

# Float32 passes before float64 ones end at this gap, relative to the value, and, where a method has patience, after so
# many steps without progress: rounding dominates the tests of steps sooner.
SINGLE_ACCURACY, _SINGLE_PATIENCE = 1e-5, 25
# How many instances of a batch step side by side on a CPU, whose caches hold their arrays then. Measured at 8 symbols.
_TOGETHER = 16

# Mutual information alone; averages whose rules have a gradient; averages; piecewise linear ones; these, and smooth
# averages of one joint with budgets or multipliers; every convex measure.
Measures: TypeAlias = Literal["information", "smooth", "average", "linear", "separate", "convex"]


class AbstractSolver(Module):
    """An iterative solver. Subclasses are final and hold hyper-parameters only.

    `state.best` has a `value` and a `gap`.
    """

    attempts: eqx.AbstractVar[int]  # how many different starts `init` has
    measures: ClassVar[Measures] = "information"  # which problems `solve` gives to it
    single: ClassVar[bool | None] = False  # passes in float32: True alone, None before those in float64
    takes_start: ClassVar[bool] = False  # whether `init` begins near the `start` of a program that has one

    def uncompiled(self, program: PyTree) -> bool:
        """Whether `init` and `step` of this program run on NumPy arrays too, without compiling."""
        del program
        return False

    @abstractmethod
    def blank(self, program: PyTree) -> PyTree:
        """The candidate before anything is known."""

    @abstractmethod
    def init(self, program: PyTree, attempt: ScalarLike, best: PyTree) -> PyTree:
        """The state from which attempt number `attempt` (0, 1, ...) starts."""

    @abstractmethod
    def step(self, program: PyTree, state: PyTree) -> PyTree:
        """One iteration."""

    def terminate(self, program: PyTree, state: PyTree) -> Arr:
        """Whether further steps from this state are useless, so that the next start begins, if there is one. Never,
        unless a solver says otherwise: the loop also ends at its goal and after its most steps.
        """
        del program, state
        return np.array(False)

    def moved(self, program: PyTree, first: PyTree, last: PyTree) -> PyTree:
        """The `first` state of a program, begun where the `last` one of another, near it and of the same shapes, ended.
        It stays as it is, unless a solver says otherwise.
        """
        del program, last
        return first

    def candidate(self, program: PyTree, state: PyTree) -> PyTree:
        """The best of a state, as a candidate for the program."""
        del program
        return state.best


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Run:
    """What the loop returns."""

    best: PyTree
    steps: ScalarLike


def advance(
    solver: AbstractSolver,
    program: PyTree,
    state: PyTree,
    goal: Goal,
    used: ScalarLike,
    max_steps: ScalarLike,
    stop: Arr | None = None,
) -> tuple[PyTree, ScalarLike]:
    """Step until the goal is met, the solver terminates, or `max_steps` are used: the state and the steps used.

    `stop`: see `resume`.
    """

    def go_on(carry: tuple[PyTree, ScalarLike]) -> Arr:
        state, used = carry
        left = ~goal.met(state.best) & ~solver.terminate(program, state) & (used < max_steps)
        return left if stop is None else left & ~asked_to_stop(stop, jnp.asarray(used))

    def once(carry: tuple[PyTree, ScalarLike]) -> tuple[PyTree, ScalarLike]:
        state, used = carry
        return solver.step(program, state), used + 1

    return lax.while_loop(go_on, once, (state, used))


class Course(NamedTuple):
    """Where a run from one start after another stands: `resume` goes on from here."""

    attempt: Array  # the number of the present start
    fresh: Array  # whether its state is still to be made
    state: PyTree
    steps: Array  # used so far, by all starts

    @property
    def best(self) -> PyTree:
        return self.state.best


def begin(solver: AbstractSolver, program: PyTree) -> Course:
    """The course before the first start."""
    start = solver.blank(program)
    # A fresh state is made before anything reads it: these zeros have its shapes.
    shapes = jax.eval_shape(solver.init, program, jnp.array(0), start)
    blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    blank = eqx.tree_at(lambda state: state.best, blank, start)
    return Course(jnp.array(0), jnp.array(True), blank, jnp.array(0))


def begin_again(solver: AbstractSolver, program: PyTree, last: PyTree) -> Course:
    """The course that begins where another one ended (`AbstractSolver.moved`), unless numbers had left their range."""
    first = solver.init(program, jnp.array(0), solver.blank(program))
    moved = solver.moved(program, first, last)
    usable = ~jnp.stack([jnp.isnan(leaf).any() for leaf in jax.tree.leaves(moved)]).any()
    state = lax.cond(usable, lambda: moved, lambda: first)
    return Course(jnp.array(0), jnp.array(False), state, jnp.array(0))


def resume(
    solver: AbstractSolver, program: PyTree, goal: Goal, course: Course, until: ScalarLike, stop: Arr | None = None
) -> Course:
    """Run from one start after another until the goal is met, no start is left, or `until` steps are used.

    Under vmap an instance that is done keeps its state while the others go on. `stop`: the address of a number of the
    host, which ends the run before the next step once it is set (`asked_to_stop`); None: nothing does.
    """

    def go_on(course: Course) -> Array:
        left = (course.attempt < solver.attempts) & ~goal.met(course.best) & (course.steps < until)
        return left if stop is None else left & ~asked_to_stop(stop, course.steps)

    def attempt(course: Course) -> Course:
        number, fresh, state, steps = course
        state = lax.cond(fresh, lambda: solver.init(program, number, state.best), lambda: state)
        state, steps = advance(solver, program, state, goal, steps, until, stop)
        ended = jnp.asarray(solver.terminate(program, state))
        return Course(jnp.where(ended, number + 1, number), ended, state, steps)

    return lax.while_loop(go_on, attempt, course)


def iterate(solver: AbstractSolver, program: PyTree, goal: Goal, max_steps: ScalarLike) -> Run:
    """Run `solver` from one start after another until the goal is met or `max_steps` are used."""
    state, steps = last_state(solver, program, goal, max_steps)
    return Run(state.best, steps)


def last_state(solver: AbstractSolver, program: PyTree, goal: Goal, max_steps: ScalarLike) -> tuple[PyTree, ScalarLike]:
    """The loop of `iterate`: the state in which it ended, with everything that the solver keeps, and the steps.

    Under vmap as `_of_a_batch`.
    """

    @custom_vmap
    def run(program: PyTree, goal: Goal, max_steps: ScalarLike) -> tuple[PyTree, ScalarLike]:
        if solver.attempts == 1:  # one loop: two, one in the other, take longer to compile
            first = solver.init(program, jnp.array(0), solver.blank(program))
            return advance(solver, program, first, goal, jnp.array(0), max_steps)
        course = resume(solver, program, goal, begin(solver, program), max_steps)
        return course.state, course.steps

    @run.def_vmap
    def _together(count: int, batched: list[PyTree], *args: PyTree) -> tuple[PyTree, PyTree]:
        def along(leaf: Array, is_batched: bool) -> Array:
            return leaf if is_batched else jnp.broadcast_to(leaf, (count, *jnp.shape(leaf)))

        results = _of_a_batch(solver, count, *jax.tree.map(along, args, tuple(batched)))
        return results, jax.tree.map(lambda _: True, results)

    return run(program, goal, max_steps)


def _of_a_batch(
    solver: AbstractSolver, count: int, program: PyTree, goal: Goal, max_steps: Array
) -> tuple[PyTree, Array]:
    """`last_state` of `count` instances along a leading axis.

    On a CPU so many as `_TOGETHER` step side by side, on other devices all of them. When a quarter of these are done,
    others take their places: an instance of many steps holds up the last ones alone.
    """
    width = min(count, _TOGETHER) if target_platform() == "cpu" else count

    def goes_on(goal: Goal, most: Array, course: Course) -> Array:
        met = jax.vmap(Goal.met)(goal, course.best)
        return (course.attempt < solver.attempts) & ~met & (course.steps < most)

    def left(course: Course) -> Array:
        """Which instances have a state to go on from."""
        return goes_on(goal, max_steps, course) & ~course.fresh

    def start(course: Course) -> Course:
        """A state for each instance that needs one for its next attempt."""

        def first_state(program: PyTree, course: Course) -> PyTree:
            return solver.init(program, course.attempt, course.best)

        mine = goes_on(goal, max_steps, course) & course.fresh
        state = _chosen(mine, jax.vmap(first_state)(program, course), course.state)
        return course._replace(state=state, fresh=course.fresh & ~mine)

    def some(course: Course) -> Course:
        """Steps of the first instances that are not done, until few of them go on."""
        waiting = left(course)
        places = jnp.argsort(~waiting, stable=True)[:width]
        active_program, active_goal, most, active_course = jax.tree.map(
            lambda leaf: leaf[places], (program, goal, max_steps, course)
        )
        least = jnp.where(waiting.sum() > width, width - width // 4, 0)

        def running(course: Course) -> Array:
            return goes_on(active_goal, most, course) & ~course.fresh

        def once(course: Course) -> Course:
            mine = running(course)
            state = _chosen(mine, jax.vmap(solver.step)(active_program, course.state), course.state)
            ended = mine & jax.vmap(solver.terminate)(active_program, state)
            attempt = jnp.where(ended, course.attempt + 1, course.attempt)
            return Course(attempt, course.fresh | ended, state, jnp.where(mine, course.steps + 1, course.steps))

        active_course = lax.while_loop(lambda course: running(course).sum() > least, once, active_course)
        return jax.tree.map(lambda leaf, part: leaf.at[places].set(part), course, active_course)

    def attempt(course: Course) -> Course:
        return lax.while_loop(lambda course: left(course).any(), some, start(course))

    course = jax.vmap(partial(begin, solver))(program)
    course = lax.while_loop(lambda course: goes_on(goal, max_steps, course).any(), attempt, course)
    return course.state, course.steps


def _chosen(which: Array, new: PyTree, old: PyTree) -> PyTree:
    """Of every instance the new arrays, where it is one of `which` (N,), or the old ones."""

    def choose(new_leaf: Array, old_leaf: Array) -> Array:
        return jnp.where(which.reshape(-1, *(1,) * (new_leaf.ndim - 1)), new_leaf, old_leaf)

    return jax.tree.map(choose, new, old)


T = TypeVar("T")


def in_precision(tree: T, dtype: DTypeLike) -> T:
    """Every array of real numbers of a tree in another precision."""

    def real(leaf: object) -> bool:
        return eqx.is_inexact_array(leaf) or (isinstance(leaf, LaneArray) and leaf.dtype.kind == "f")

    return jax.tree.map(lambda leaf: leaf.astype(dtype) if real(leaf) else leaf, tree)


def check_single(solver: AbstractSolver) -> None:
    """Whether `single` is one of its three values."""
    if not (solver.single is None or isinstance(solver.single, bool)):
        raise InputError(f"{type(solver).__name__}: single must be None, True or False")


def before_double(solver: PyTree, goal: Goal) -> tuple[PyTree, Goal]:
    """The solver and the goal of float32 passes that float64 ones follow."""
    if hasattr(solver, "patience"):
        solver = replace(solver, patience=min(solver.patience, _SINGLE_PATIENCE))
    return solver, replace(goal, rtol=np.maximum(goal.rtol, SINGLE_ACCURACY))


def normalised(logits: Arr) -> tuple[Arr, Arr]:
    """Logs of the softmax over outputs, and the softmax: one exponential of every entry."""
    return _with_sums(logits)[1:]


def _with_sums(logits: Arr) -> tuple[Arr, Arr, Arr]:
    """(ln sum_y exp of every row (X, 1), logits less that, their exponentials)."""
    top = logits.max(axis=1, keepdims=True)
    e = xp.exp(logits - top)
    total = e.sum(axis=1, keepdims=True)
    sums = top + xp.log(total)
    return sums, logits - sums, e / total


# The least curvature of a dual in a price: float32 holds a slope divided by it. A choice.
_FLAT = 1e-30


class _Dual(NamedTuple):
    """The dual of a mirror step at prices of the budgets, divided by the step, and the moves to the next ones."""

    prices: Arr  # (R,)
    logs: Arr  # (X, Y) of the mechanism at these prices
    mechanism: Arr  # (X, Y)
    value: Arr
    rounding: Arr  # of the value
    over: Arr  # (R,): used - budget, the slope
    scale: Arr  # (R,): of the sums that it is the difference of
    newton: Arr  # (R,): Newton's move, the prices that are 0 and fall left out
    plain: Arr  # (R,): a move along which the dual rises at first, whatever its curvature


def _slope(constraints: Arr, budgets: Arr, tilt: Arr, mechanism: Arr) -> tuple[Arr, Arr, Arr]:
    """(slope, curvature, what is added to the latter's diagonal) of the dual at the mechanism of some prices."""
    # Budgets that are equivalent, under joints that are nearly equal, leave a matrix that is singular to rounding: some
    # units of rounding of its largest entry, 1e-9 in float64, which changes a step by as much.
    relative = max(1e-9, 64.0 * float(np.finfo(tilt.dtype).eps))
    used = (constraints * mechanism[None]).sum(axis=2)  # (R, X)
    over = used.sum(axis=1) - budgets
    centred = constraints - used[:, :, None]
    curvature = xp.einsum("rxy,qxy->rq", centred * (tilt * mechanism)[None], centred)
    # The absolute part keeps a matrix of zeros (a mechanism without choice) regular; moves are cut anyway.
    return over, curvature, _FLAT + relative * xp.diagonal(curvature).max()


def _newton_move(curvature: Arr, over: Arr, free: Arr, ridge: Arr) -> Arr:
    """The move of the prices (R,) that are free to their place at zero slope `over`; the others stay."""
    matrix = xp.where(free[:, None] & free[None, :], curvature, 0.0) + xp.diag(xp.where(free, ridge, 1.0))
    return small_solve(matrix, xp.where(free, over, 0.0))


def newton_prices(prices: Arr, least: Arr, curvature: Arr, over: Arr, ridge: Arr, unit: ScalarLike) -> Arr:
    """The prices (R,) after Newton's move of a dual with the slope `over`, no lower than `least`.

    Doubling (and one `unit`) and halving at most keeps Newton inside the region where its model holds.
    """
    low, high = xp.maximum(least, 0.5 * prices), 2.0 * prices + unit

    def hold(_: ScalarLike, carry: tuple[Arr, Arr]) -> tuple[Arr, Arr]:
        """Prices that Newton's move of the free ones takes to `low` stay there; the others move given that."""
        free, moved = carry
        fixed = xp.where(free, 0.0, moved - prices)
        newton = prices + _newton_move(curvature, over - xp.weigh(fixed, curvature), free, ridge)
        return free & (newton > low), xp.where(free, xp.maximum(newton, low), moved)

    # Every round but the last holds one price more, or changes nothing.
    _, moved = xp.fori_loop(0, len(prices), hold, ((prices > least) | (over > 0), prices))
    return xp.minimum(moved, high)


def approach_budgets(constraints: Arr, budgets: Arr, base: Arr, tilt: Arr, multipliers: Arr) -> tuple[Arr, Arr]:
    """(logits, multipliers) after one projected Newton step on the dual of `meet_budgets`; no test of what it gains."""
    _, mechanism = normalised(base - tilt * xp.weigh(multipliers, constraints))
    over, curvature, ridge = _slope(constraints, budgets, tilt, mechanism)
    multipliers = newton_prices(multipliers, xp.zeros_like(multipliers), curvature, over, ridge, 1.0)
    return base - tilt * xp.weigh(multipliers, constraints), multipliers


# After so many moves in a row that were not taken the plain one is tried in place of Newton's; with several prices the
# latter may not even ascend once prices are cut at 0.
_REFUSED = 5
# A move is taken if it gains this share of what the slope promises, and if it does not go so far that the dual falls
# beyond it with more than this share of the slope before it. Roundings that the first test leaves out.
_GAIN, _FALL, _ROUNDINGS = 1e-4, 0.5, 16.0
# The first bound on moves, in times of a price and of the size at which it matters, and what two moves in a row that
# were taken make of it. Choices.
_REACH, _WIDER = 10.0, 4.0

# Evaluations after which a refused move may be the last one: 30 halvings of the bound on it, and more.
_LAST = 40

# Units of rounding to which budgets are met, and which a move of a price has to exceed.
_MET, _MOVES = 64.0, 4.0


def meet_budgets(
    constraints: Arr, budgets: Arr, base: Arr, tilt: Arr, multipliers: Arr, most: int
) -> tuple[Arr, Arr, Arr]:
    """(logs of the mechanism, mechanism, multipliers) of the mirror step within the budgets: the prices lambda >= 0
    that maximise its dual, for a tilt step/m_x (X, 1),

        h(lambda) / step = -sum_x 1/tilt_x ln sum_y exp(base - tilt lambda.c) - lambda.D,

    which is concave, with the slope used - D. The moves are Newton's, within a bound that is halved where the dual does
    not rise, or falls beyond the move, and grows again after moves that were taken. They end where every budget is met,
    and used up if it has a price, to some units of rounding; where the mechanism has the least already of what the next
    move prices, so that no move in its direction changes that (budgets that are no larger than the least costs, whose
    prices have no end); where the next move is rounding; or after `most` evaluations of one softmax each, if the last
    move was taken: prices whose moves are all refused would stay as they are in every later step, too.
    """
    dtype, last = np.finfo(base.dtype), max(most, _LAST)
    eps, tiny = float(dtype.eps), dtype.tiny
    massed = tilt[:, 0] > 0
    mass = xp.where(massed, 1.0 / xp.where(massed, tilt[:, 0], 1.0), 0.0)
    # In these units a price of one changes some logit by one.
    most_tilted = abs(constraints * tilt[None]).max(axis=(1, 2))
    unit = xp.where(most_tilted > 0.0, 1.0 / xp.where(most_tilted > 0.0, most_tilted, 1.0), 1.0)
    constraints, budgets = constraints * unit[:, None, None], budgets * unit

    def at(prices: Arr) -> _Dual:
        logits = base - tilt * xp.weigh(prices, constraints)
        sums, logs, mechanism = _with_sums(logits)
        sums, spent = sums[:, 0], prices * budgets
        # A sum of so many exponentials is not below the largest one, and above it by the logarithm of their number.
        size = (
            (mass * (abs(sums) + math.log(base.shape[1]))).sum()
            + xp.weigh(prices, abs(constraints)).max(axis=1).sum()
            + abs(spent).sum()
        )
        over, curvature, ridge = _slope(constraints, budgets, tilt, mechanism)
        free = (prices > 0) | (over > 0)
        return _Dual(
            prices,
            logs,
            mechanism,
            -(mass * sums).sum() - spent.sum(),
            _ROUNDINGS * eps * size,
            over,
            abs(budgets) + (abs(constraints) * mechanism[None]).sum(axis=(1, 2)),
            _newton_move(curvature, over, free, ridge),
            xp.where(free, over, 0.0) / (len(over) * xp.maximum(xp.diagonal(curvature), _FLAT)),
        )

    def next_prices(dual: _Dual, reach: Arr, refused: Arr) -> Arr:
        def moved(move: Arr) -> Arr:
            # Cut as a whole, so that it keeps its direction, until a price comes down to 0.
            share = (reach * (dual.prices + 1.0) / xp.maximum(abs(move), tiny)).min()
            return xp.maximum(dual.prices + xp.minimum(share, 1.0) * move, 0.0)

        newton = moved(dual.newton)
        ascends = dual.over @ (newton - dual.prices) >= 0.0
        return xp.where(ascends & (refused < _REFUSED), newton, moved(dual.plain))

    def go_on(carry: tuple[_Dual, Arr, Arr, Arr, Arr]) -> Arr:
        dual, coming, _, refused, used = carry
        missed = xp.where(dual.prices > 0, abs(dual.over), xp.maximum(dual.over, 0.0))
        met = (missed <= _MET * eps * dual.scale).all()
        move = coming - dual.prices
        priced = xp.where(massed[:, None] & (base > -xp.inf), xp.weigh(move, constraints), xp.inf)
        least = xp.where(massed, priced.min(axis=1), 0.0).sum()
        changes = move @ (dual.over + budgets) - least > eps * (abs(move) @ dual.scale)
        left = ~met & changes & (abs(move) > _MOVES * eps * dual.prices).any()
        return (used == 0) | (left & (used < xp.where(refused > 0, last, most)))

    def once(carry: tuple[_Dual, Arr, Arr, Arr, Arr]) -> tuple[_Dual, Arr, Arr, Arr, Arr]:
        dual, coming, reach, refused, used = carry
        new = at(coming)
        move = coming - dual.prices
        promised = dual.over @ move
        gained = new.value >= dual.value + _GAIN * promised - dual.rounding
        taken = (used == 0) | (gained & (new.over @ move >= -_FALL * promised))
        gone = (abs(move) / (dual.prices + 1.0)).max()
        wider = xp.where(refused == 0, _WIDER * reach, reach)
        dual, reach, refused = lax.cond(
            taken, lambda: (new, wider, jnp.zeros_like(refused)), lambda: (dual, 0.5 * gone, refused + 1)
        )
        return dual, next_prices(dual, reach, refused), reach, refused, used + 1

    # The first round is at the given prices: the loop holds the one copy of what is compiled.
    given, none = multipliers / unit, xp.zeros((), like=base)
    blank = _Dual(given, base, base, none, none, *(xp.zeros_like(given),) * 4)
    start = blank, given, jnp.asarray(_REACH / _WIDER, base.dtype), jnp.array(0), jnp.array(0)
    dual, *_ = lax.while_loop(go_on, once, start)
    return dual.logs, dual.mechanism, dual.prices * unit
