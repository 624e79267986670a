"""One more release of the same records, with a limit on what each coalition of receivers has afterwards.

Earlier receivers have Z_1, ..., Z_m. The release Y is drawn from W = P(y | x, z_1, ..., z_m). A coalition A of earlier
receivers that is given Y too has (Z_A, Y), whose joint with S is linear in W: L(S; Z_A, Y) is convex in W for every
measure L that is a mean over the outputs. For prices l_A >= 0 of the limits e_A

    least E d  >=  min over W of  E d + sum_A l_A (L_A(W) - e_A),

a minimisation over probability vectors (`simplex.minimise`), whose proved bound is taken. The prices are those of a
linear program over the mechanisms found so far: the best mixture of them. By convexity it is within the limits. Where
the largest excess over the limits is minimised instead, the prices sum to one, and each mechanism meets the budget.

A limit of no more than a coalition has before the release has no finite price where L is strictly convex, as L rises
with the square of a small change. It is met by those mechanisms alone with which Y says nothing about S beyond Z_A,

    P(s, z_A, y) = P(s | z_A) P(z_A, y)    for all s, z_A, y:

linear equations in W, within which every minimisation is made.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linprog

from jaxpriv._runtime.clock import Clock, ProgressLike, clock_of
from jaxpriv._runtime.module import summary
from jaxpriv._runtime.types import Arr
from jaxpriv._runtime.validation import (
    finite,
    host_only,
    joint_array,
    mechanism_array,
    nonnegative,
    real_array,
    scalar,
    whole,
)
from jaxpriv.errors import InfeasibleError, InputError
from jaxpriv.leakage import AbstractMeanLeakage, MutualInformation
from jaxpriv.leakage.rule_sets import Role
from jaxpriv.program.lower import terms_of
from jaxpriv.simplex import minimise

__all__ = ["CoalitionRelease", "coalition_release"]

# The share of the tolerance to which a minimisation over W is solved, and the largest price of a limit (the bound holds
# for every price; a limit that is reached at no lower one leaves a gap).
_SHARE, _HIGHEST = 0.2, 1e6
# What sums of the numbers of a bound are rounded by, relative to their size.
_ROUNDING = 1e-13
# The same of the leakages of a release of no information, which are compared with the limits. A limit that is truly so
# much higher allows changes of its root, 4e-8; it is read as the lower one, as the docstring says.
_SILENT = 2e-15
# Equations that are combinations of others up to this share are left out. Of the others the rows are off by rounding,
# divided by their singular value, and by so much times their prices a bound may be too high.
_DEPENDENT, _OFF = 1e-10, 2e-15

Coalition = tuple[int, ...]


@dataclass(frozen=True)
class CoalitionRelease:
    """A release that every coalition is given, and what proves it.

    Attributes:
        mechanism: P(y | x, z_1, ..., z_m), shape (X, Z_1, ..., Z_m, Y).
        value: E d, or the largest L(S; Z_A, Y) - e_A over the coalitions where there is a budget.
        lower_bound: no mechanism that meets the limits (the budget) has a smaller value.
        leakages: L(S; Z_A, Y) of each coalition, in the unit of the measure.
        prices: of the limit of each coalition, those of the bound; 0 where the bound has equations in their place.
        distortion: E d.
        status: `optimal` if value - lower_bound <= tol, otherwise `not_certified`.
        rounds: minimisations over W.
        stopped: why it ended before its goal: 0 it did not, 1 the time limit, 2 an interrupt.
    """

    mechanism: np.ndarray
    value: float
    lower_bound: float
    leakages: dict[Coalition, float]
    prices: dict[Coalition, float]
    distortion: float
    status: Literal["optimal", "not_certified"]
    rounds: int
    stopped: int = 0

    __repr__ = summary

    @property
    def gap(self) -> float:
        """value - lower_bound."""
        return self.value - self.lower_bound


@host_only
def coalition_release(
    joint: ArrayLike,
    earlier: ArrayLike,
    distortion: ArrayLike,
    limits: Mapping[Coalition, float],
    *,
    budget: float | None = None,
    leakage: AbstractMeanLeakage | None = None,
    tol: float = 1e-6,
    max_rounds: int = 100,
    time_limit: float | None = None,
    progress: ProgressLike = None,
) -> CoalitionRelease:
    """The next release Y, drawn from P(y | x, z), with a limit on what each coalition of receivers has together.

    Args:
        joint: P(S,X), shape (S, X).
        earlier: P(z_1, ..., z_m | x), shape (X, Z_1, ..., Z_m): one axis for each earlier receiver. Of releases A and B
            that were drawn independently given x it is `np.einsum("xa,xb->xab", A, B)`.
        distortion: d(x, y), shape (X, Y), finite.
        limits: e_A >= 0 for coalitions A, each a tuple of earlier receivers, 0 to m - 1, who collude with the receivers
            of Y; `()` are the latter alone. What a larger coalition has is limited by its own entry only. With a limit
            of 0, or of what it has already, a coalition learns nothing from Y; so are limits read that are above
            what it has by at most 2e-15 (1 + limit), which is rounding.
        budget: D; None: E d is minimised under the limits. With a budget E d <= D holds, and the largest
            L(S; Z_A, Y) - e_A is minimised: at most 0 where the limits can be met.
        leakage: L, a mean over the outputs: mutual information by default, or an f-information, in their unit.
        tol: the largest value - lower_bound that counts as `optimal`.
        max_rounds: most minimisations.
        time_limit, progress: as for `solve`; a minimisation is not interrupted.

    Raises:
        InputError: naming the argument and the position.
        InfeasibleError: a coalition has more than its limit already, or the budget is below the least distortion.
    """
    tol, max_rounds = scalar(tol, "tol", low=0.0, open_low=True), whole(max_rounds, "max_rounds", low=1)
    with clock_of(time_limit, progress) as clock:
        return release_within(joint, earlier, distortion, limits, budget, leakage, tol, max_rounds, clock)


def release_within(
    joint: ArrayLike,
    earlier: ArrayLike,
    distortion: ArrayLike,
    limits: Mapping[Coalition, float],
    budget: float | None,
    leakage: AbstractMeanLeakage | None,
    tol: float,
    max_rounds: int,
    clock: Clock,
) -> CoalitionRelease:
    """`coalition_release` with a clock that is held by the caller."""
    measure = MutualInformation() if leakage is None else leakage
    if not isinstance(measure, AbstractMeanLeakage) or not measure.designable:
        raise InputError("leakage must be a mean over the outputs that has decision rules")
    if not isinstance(limits, Mapping) or not limits:
        raise InputError("limits must name a coalition: a mapping from coalitions to numbers")
    joint, table = joint_array(joint), finite(real_array(distortion, "distortion", ndim=2), "distortion")
    given = nonnegative(real_array(earlier, "earlier", ndim=tuple(range(2, 65))), "earlier")
    if len(given) != joint.shape[1] or len(table) != joint.shape[1]:
        raise InputError(
            f"earlier (X, Z, ...) and distortion (X, Y) need the {joint.shape[1]} useful symbols of the joint"
        )
    given_rows = mechanism_array(given.reshape(len(given), -1), "earlier", inputs=joint.shape[1])
    most = np.array([scalar(e, f"limits[{a}]", low=0.0) for a, e in limits.items()])
    whole_joint = (joint[:, :, None] * given_rows).reshape(len(joint), -1)  # (S, X Z)
    seen = [_seen(whole_joint, coalition, given.shape) for coalition in limits]
    cost = whole_joint.sum(axis=0)[:, None] * np.repeat(table, given_rows.shape[1], axis=0)
    nearest = np.eye(table.shape[1])[table.argmin(axis=1)].repeat(given_rows.shape[1], axis=0)
    nothing = np.eye(table.shape[1])[np.broadcast_to(cost.sum(axis=0).argmin(), len(cost))]
    least = float((cost * nearest).sum())
    if budget is not None:
        budget = scalar(budget, "budget")
        if not least - budget <= _ROUNDING * (1.0 + abs(least)):
            raise InfeasibleError(
                f"budget {budget:.12g} is below {least:.12g}, the least distortion of any mechanism",
                {"bound": least, "allowed": budget, "multipliers": [1.0]},
            )
        budget = max(budget, least)  # the caller's sum may round otherwise
    # Within the least distortion each symbol is released as one of its nearest outputs: there is nothing to limit.
    farther = (cost > cost.min(axis=1, keepdims=True)).astype(float) * float(budget == least)
    problem = _Coalitions(measure, joint.sum(axis=1), seen, cost, most, budget, nearest, farther)
    before = problem.excesses(nothing)
    if budget is None and (before > _ROUNDING * (1.0 + most)).any():
        at = list(limits)[int(before.argmax())]
        allowed = float(limits[at])
        raise InfeasibleError(
            f"limits[{at}]: the coalition has {allowed + before.max():.6g} already, and may have {allowed:.6g}",
            {"bound": allowed + float(before.max()), "allowed": allowed, "multipliers": [1.0]},
        )
    starts = [nearest] if budget is not None else [nearest, nothing]
    mechanism, bound, prices, rounds = problem.solved(starts, tol, max_rounds, clock)
    excesses, used = problem.excesses(mechanism), float((cost * mechanism).sum())
    value = used if budget is None else float(excesses.max())
    bound = min(bound, value)
    return CoalitionRelease(
        mechanism=mechanism.reshape(*given.shape, -1),
        value=value,
        lower_bound=bound,
        leakages=dict(zip(limits, (excesses + most).tolist(), strict=True)),
        prices=dict(zip(limits, prices.tolist(), strict=True)),
        distortion=used,
        status="optimal" if value - bound <= tol else "not_certified",
        rounds=rounds,
        stopped=int(clock.stop),
    )


def _seen(whole_joint: np.ndarray, coalition: Coalition, shape: tuple[int, ...]) -> np.ndarray:
    """P(s, z_A, x z) of a coalition, (S Z_A, X Z): what Y is seen with."""
    if not isinstance(coalition, tuple) or sorted({*coalition}) != sorted(coalition):
        raise InputError(f"limits: a coalition is a tuple of different earlier receivers, not {coalition!r}")
    if any(receiver not in range(len(shape) - 1) for receiver in coalition):
        raise InputError(f"limits[{coalition}]: the earlier receivers are 0 to {len(shape) - 2}")
    sizes = [shape[receiver + 1] for receiver in coalition]
    places = np.indices(shape)[1:].reshape(len(shape) - 1, -1)
    held = np.ravel_multi_index(tuple(places[[*coalition]]), sizes) if coalition else np.zeros(places.shape[1], int)
    mine = held == np.arange(int(np.prod(sizes)))[:, None]
    return (whole_joint[:, None, :] * mine).reshape(-1, whole_joint.shape[1])


def _equations(seen: Sequence[np.ndarray], private: int, outputs: int) -> tuple[np.ndarray, np.ndarray]:
    """P(s, z_A, y) - P(s | z_A) P(z_A, y) = 0 of coalitions as rows (E, X Z, Y) of W, from P(s, z_A, x z): a basis,
    without the equations of one output, which the sums over y imply; and what a mechanism may miss each by, as the rows
    are rounded, (E,).
    """
    masses = np.concatenate([joint.reshape(private, -1, joint.shape[1]) for joint in seen], axis=1)
    held, mass = masses.sum(axis=2), masses.sum(axis=0)
    whole = held.sum(axis=0)
    rows = masses - (held / np.where(whole > 0, whole, 1.0))[:, :, None] * mass
    rows = np.where(abs(rows) > _ROUNDING * mass, rows, 0.0).reshape(-1, mass.shape[1])
    root = np.sqrt(mass.max(axis=0))
    _, sizes, basis = np.linalg.svd(rows / np.where(root > 0, root, 1.0), full_matrices=False)
    apart = sizes > _DEPENDENT * sizes.max(initial=0.0)
    rows = np.einsum("rx,yw->ryxw", basis[apart] * root, np.eye(outputs))[:, :-1].reshape(-1, len(root), outputs)
    return rows, np.repeat(_OFF / sizes[apart] * np.linalg.norm(root), outputs - 1)


def _leakages(measure: AbstractMeanLeakage, prior: Arr, seen: Sequence[Arr], mechanism: Arr) -> list[Arr]:
    """L(S; Z_A, Y) of each coalition at W (X Z, Y)."""
    return [measure.of_outputs((joint @ mechanism).reshape(len(prior), -1), prior) for joint in seen]


def _without_farther(mechanism: Arr, nearest: Arr, farther: Arr) -> Arr:
    """The mechanism with the nearest output in the place of those that may not be released."""
    moved = mechanism * farther
    return mechanism - moved + moved.sum(1)[:, None] * nearest


def _priced(
    measure: AbstractMeanLeakage,
    prior: Arr,
    seen: Sequence[Arr],
    cost: Arr,
    outputs: tuple[Arr, Arr],
    mechanism: Arr,
    prices: Arr,
) -> Arr:
    """The cost and the priced leakages: traced once for all rounds, and for all limits of the same coalitions."""
    leakages = _leakages(measure, prior, seen, _without_farther(mechanism, *outputs))
    return (cost * mechanism).sum() + prices @ jnp.stack(leakages)


@dataclass(frozen=True)
class _Coalitions:
    """What the mechanisms W (X Z, Y) are measured by."""

    measure: AbstractMeanLeakage
    prior: np.ndarray  # (S,)
    seen: list[np.ndarray]  # of each coalition (S Z_A, X Z)
    cost: np.ndarray  # (X Z, Y)
    limits: np.ndarray  # (A,)
    budget: float | None
    nearest: np.ndarray  # (X Z, Y), one of the nearest outputs
    farther: np.ndarray  # (X Z, Y), 1 for outputs that may not be released

    def excesses(self, mechanism: np.ndarray) -> np.ndarray:
        """What the leakages are above their limits, (A,)."""
        return (
            np.array([float(leakage) for leakage in _leakages(self.measure, self.prior, self.seen, mechanism)])
            - self.limits
        )

    def silent(self, nothing: np.ndarray) -> np.ndarray:
        """Which limits are equations, (A,): those that `nothing`, a release of no information, meets without slack."""
        private = np.diag(self.prior)  # X = S: no symbol is left out of the terms
        strict = any(term.independent for term in terms_of(self.measure, private, Role.AVERAGE))
        return (self.excesses(nothing) >= -_SILENT * (1.0 + self.limits)) & (strict and self.budget is None)

    def solved(
        self, mechanisms: list[np.ndarray], tol: float, most: int, clock: Clock
    ) -> tuple[np.ndarray, float, np.ndarray, int]:
        """(mechanism, lower bound, its prices, rounds), from some mechanisms, the last one within the limits."""
        safe, start = mechanisms[-1], 0.5 * (mechanisms[0] + 1.0 / self.cost.shape[1])
        # Without prices: the least distortion, or how far a coalition is above its limit before the release.
        first = float((self.cost * self.nearest).sum() if self.budget is None else -self.limits.min())
        bound, best, rounds = first - _ROUNDING * (1.0 + abs(first)), np.zeros(len(self.limits)), 0
        silent = self.silent(safe)
        mechanisms = [trial for trial in mechanisms if not (silent & (self.excesses(trial) > _SILENT)).any()]
        equal = list(itertools.compress(self.seen, silent))
        rows, off = _equations(equal, len(self.prior), self.cost.shape[1]) if equal else (np.zeros(0), np.zeros(0))
        costs, rises = [], []
        outputs = self.nearest, self.farther
        priced_cost = self.cost if self.budget is None else 0.0 * self.cost  # of a budget the cost is no part
        objective = eqx.Partial(_priced, self.measure, self.prior, self.seen, priced_cost, outputs)
        limited = None
        if self.budget is not None and not self.farther.any():
            limited = self.cost[None], np.array([self.budget])
        elif len(rows):  # each equation as two inequalities
            limited = np.concatenate([rows, -rows]), np.zeros(2 * len(rows))
        while True:
            for vertex in mechanisms[len(costs) :]:
                costs.append(0.0 if self.budget is not None else float((self.cost * vertex).sum()))
                rises.append(self.excesses(vertex))
            prices, shares = self._prices(np.array(costs), np.array(rises), silent)
            mixed = self._within(np.tensordot(shares, np.array(mechanisms), 1), safe)
            value = float((self.cost * mixed).sum() if self.budget is None else self.excesses(mixed).max())
            clock.report("coalitions", rounds, value, bound)
            if value - bound <= tol or rounds >= most or clock.expired():
                return mixed, bound, best, rounds
            with jax.enable_x64(True):
                given = {"args": (jnp.asarray(prices),), "constraints": limited, "tol": _SHARE * tol}
                minimum = minimise(objective, start, **given)
            rounds += 1
            spent = float(prices @ self.limits)
            least, reached = float(minimum.lower_bound), float(minimum.value)
            better = np.isfinite(reached)
            proved = least - spent - _ROUNDING * (abs(spent) + abs(reached if better else least))
            proved -= float(np.asarray(minimum.prices) @ np.tile(off, 2)) if len(rows) else 0.0
            if proved > bound:
                bound, best = proved, prices
            if better:
                mechanisms.append(np.asarray(_without_farther(np.asarray(minimum.x), *outputs)))
            else:  # no other mechanism within the budget was found: it is next to the least distortion
                most = rounds

    def _prices(self, costs: np.ndarray, rises: np.ndarray, silent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(prices (A,), the best mixture (J,)) of the mechanisms found: max t, t <= cost_j + prices . rises_j."""
        count = len(self.limits)
        total = None if self.budget is None else (np.append(np.ones(count), 0.0)[None], [1.0])
        solved = linprog(
            np.append(np.zeros(count), -1.0),
            np.hstack([-rises, np.ones((len(rises), 1))]),
            costs,
            *(total or (None, None)),
            bounds=[*((0.0, 0.0 if equal else _HIGHEST) for equal in silent), (None, None)],
        )
        shares = np.maximum(-solved.ineqlin.marginals, 0.0)
        return solved.x[:-1], shares / shares.sum()

    def _within(self, mixed: np.ndarray, safe: np.ndarray) -> np.ndarray:
        """The mixture, with so much of a mechanism inside the limits as its excess over one of them takes."""
        if self.budget is not None:
            return mixed
        slack = _ROUNDING * (1.0 + self.limits)  # as at the start: a limit may be what the coalition has already
        over, held = self.excesses(mixed) - slack, self.excesses(safe) - slack
        share = np.where(over > 0, over / np.where(over > 0, over - held, 1.0), 0.0).max()
        return (1.0 - share) * mixed + share * safe
