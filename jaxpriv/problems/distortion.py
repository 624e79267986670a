"""Calmon-Fawaz Theorem 1: least average leakage at bounded distortion, in all its forms, and by additive noise.

Additive noise is Y = X + Z with Z independent of the data (Corollary 1, second part). The paper replaces it by
max H(Z) s.t. E d(Z) <= D, arguing that H(X|Y) = H(Z). What holds is H(Y|X) = H(Z), so I(X;Y) = H(Y) - H(Z), and maximum
entropy is optimal where H(Y) does not depend on the noise: uniform X on a cyclic group. In general the least leakage is
the convex program

    minimise I(S; X + Z)   over the distribution of Z   subject to E d(Z) <= D,

which is what `NoiseProblem` states; `max_entropy_noise` is the paper's own answer.
"""

import inspect
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from numpy.typing import ArrayLike

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.module import Module, Shown, summary
from jaxpriv._runtime.module.shown import nearest, numbers, sizes
from jaxpriv._runtime.resources import MERGE, STREAM, need_memory
from jaxpriv._runtime.types import Arr, ArrayInput, ScalarLike
from jaxpriv._runtime.validation import (
    above_minus_infinity,
    finite,
    is_traced,
    joint_array,
    nonnegative,
    real_array,
    scalar,
)
from jaxpriv.data import distortion as distortions
from jaxpriv.data.distortion import AbstractDistortion
from jaxpriv.data.joints import AbstractJoint, Stored
from jaxpriv.errors import InfeasibleError, InputError
from jaxpriv.leakage import AbstractDivergence, AbstractLeakage, MutualInformation
from jaxpriv.leakage.released_marginal import ReleasedMarginal
from jaxpriv.problems.forms import AbstractProblemForm, form_of


class DistortionTarget(TypedDict, total=False):
    """The form of a `DistortionProblem`: exactly one of these."""

    budget: ArrayInput
    multiplier: ArrayInput
    leakage_budget: ScalarLike


class DistortionForm(DistortionTarget, total=False):
    """The form and the measures of a `DistortionProblem`."""

    leakage: AbstractLeakage
    limits: Sequence[tuple[AbstractLeakage, ScalarLike]]


class DistortionProblem(Module, Shown):
    """Design W = P(Y|X) with small I(S;Y) and small E d(X,Y).

    Exactly one form is chosen by the keyword:

    * `budget=D`: minimise I(S;Y) subject to E d_k(X,Y) <= D_k for every distortion
      (Calmon-Fawaz Theorem 1; several distortions: Remark 1);
    * `multiplier=l`: minimise I(S;Y) + sum_k l_k E d_k(X,Y), l_k >= 0;
    * `leakage_budget=e`: minimise E d(X,Y) subject to I(S;Y) <= e (one distortion).

    With S = X (`joint` P(X), or a diagonal joint) this is rate-distortion, and where X = f(S) the leakage I(S;Y)
    equals I(X;Y) (Corollary 1); the solvers find and use both by themselves.

    Args:
        joint: P(S,X), shape (S, X); or P(X), shape (X,), where X itself is private (S = X); or an operator
            (`jaxpriv.joints.from_function`) that computes P(S,X) block by block; or a finite set of K possible
            joints, shape (K, S, X): the largest leakage over the set is then minimised while every budget holds under
            every joint. Never with `multiplier`; with `leakage_budget` the largest E d over the set is minimised, and
            the leakage is limited under every joint.
        distortion: d(x, y), a `jaxpriv.distortion` or an array (X, Y); or several, as a sequence
            or an array (M, X, Y). An entry of inf in any of them forbids the pair: W(y|x) is exactly 0 in every
            solution, of useful symbols without mass too. Every row x needs an output that none of them forbids.
        budget: D, finite, one number for each distortion, in the unit of that distortion.
        multiplier: l >= 0, one number for each distortion.
        leakage_budget: e >= 0 in nats (in the unit of `leakage`); `inf` limits nothing.
        leakage: the measure, mutual information by default. Any other measure of `jaxpriv.leakage` may stand in
            its place (a user's own f or loss too), in nats or in its own unit. With a
            worst-outcome measure `budget` means the least limit that the budgets allow
            (Calmon-Fawaz Theorem 2 and Remark 4). `multiplier` needs an average that is not a logarithm.
        limits: further limits, a sequence of (measure, value), in every form.

    Zero masses: symbols s or x without mass change nothing; the mechanism's row for an x without
    mass is the marginal of Y (on the outputs that it allows), so that a release never meets an undefined row.

    Forbidden pairs are taken by the solvers on tables, outside of jit, vmap and grad; from traced tables with infinite
    entries comes no mechanism there (NaN).

    Raises:
        InputError: naming the argument and the position.
    """

    # The host or a trace decides which library it is of: a union would have to be narrowed at every use.
    data: Any  # (K, S, X), or an operator for one joint
    distortions: tuple[AbstractDistortion, ...]
    form: AbstractProblemForm
    leakage: AbstractLeakage
    limits: tuple[tuple[AbstractLeakage, float], ...]

    def __init__(
        self,
        joint: ArrayInput | AbstractJoint,
        distortion: ArrayInput | AbstractDistortion | Sequence[ArrayInput | AbstractDistortion],
        *,
        budget: ArrayInput | None = None,
        multiplier: ArrayInput | None = None,
        leakage_budget: ScalarLike | None = None,
        leakage: AbstractLeakage | None = None,
        limits: Sequence[tuple[AbstractLeakage, ScalarLike]] = (),
    ):
        self.leakage = MutualInformation() if leakage is None else leakage
        _measure(self.leakage, "leakage")
        self.limits = _limits(limits)
        self.data = joint if isinstance(joint, AbstractJoint) else _joints(joint)
        groups, _, inputs = (1, *joint.shape) if isinstance(joint, AbstractJoint) else self.data.shape
        private = joint.shape[0] if isinstance(joint, AbstractJoint) else self.data.shape[1]
        self.distortions = as_distortions(distortion, inputs, private)
        stored = [distortion.values for distortion in self.distortions if isinstance(distortion, distortions.Matrix)]
        _allowed([table for table in stored if not is_traced(table)])
        given = {"budget": budget, "multiplier": multiplier, "leakage_budget": leakage_budget}
        self.form = form_of(given, self.leakage.worst_outcome, groups, len(self.distortions))

    def _shown(self) -> dict[str, str]:
        groups, private, useful, outputs = self.sizes
        rows = {"leakage": f"{self.leakage.label} ({self.leakage.unit})"}
        rows[self.form.name.replace("_", " ")] = numbers(self.form.target, nearest)
        for measure, limit in self.limits:
            rows[f"limit of {measure.label}"] = f"{numbers(limit, nearest)} ({measure.unit})"
        rows["distortions"] = str(len(self.distortions))
        rows["symbols"] = sizes(S=private, X=useful, Y=outputs)
        return rows if groups == 1 else {**rows, "joints": str(groups)}

    @property
    def of_information(self) -> bool:
        """Whether mutual information occurs once: in the objective (the largest of several joints), or under one
        limit. Blahut-Arimoto and solvers that name no other `measures` take these.
        """
        limited = self.form.limits_leakage and self.sizes[0] > 1
        return isinstance(self.leakage, MutualInformation) and not self.limits and not limited

    @property
    def budget(self) -> Any:  # noqa: ANN401 (of the host or a trace, like the targets below)
        """D, shape (M,); None in other forms."""
        return self.form.target if self.form.limits_distortion else None

    @property
    def multiplier(self) -> Any:  # noqa: ANN401
        """l, shape (M,); None in other forms."""
        return self.form.target if self.form.prices_distortion else None

    @property
    def leakage_budget(self) -> Any:  # noqa: ANN401
        """e, shape (); None in other forms."""
        return self.form.target if self.form.limits_leakage else None

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (X, Y) of a mechanism."""
        return self.distortions[0].shape

    @property
    def joints(self) -> Arr:
        """The joints as tables, shape (K, S, X)."""
        if not isinstance(self.data, AbstractJoint):
            return self.data
        need_memory(8.0 * math.prod(self.data.shape), f"joint as a table of shape {self.data.shape}", self._instead)
        with jax.enable_x64(True):
            table = joint_array(self.data.matrix())
        if table.shape != self.data.shape:
            raise InputError(f"joint computes columns of shape {table.shape}, but declares {self.data.shape}")
        return table[None]

    @property
    def _instead(self) -> str:
        """What to do where a table is too large."""
        return STREAM if self.streams else MERGE

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """(K, |S|, |X|, |Y|)."""
        groups, private, inputs = (1, *self.data.shape) if isinstance(self.data, AbstractJoint) else self.data.shape
        return groups, private, inputs, self.shape[1]

    @property
    def measures(self) -> tuple[tuple[str, AbstractLeakage], ...]:
        """The measures, each with the argument in which it stands."""
        return ("leakage", self.leakage), *((f"limits[{i}]", measure) for i, (measure, _) in enumerate(self.limits))

    @property
    def linear(self) -> bool:
        """Whether every measure is the largest of linear functions."""
        return all(measure.linear for _, measure in self.measures)

    @property
    def rows(self) -> int:
        """At most so many rows of all measures under all joints."""
        groups, private, _, _ = self.sizes
        return groups * sum(measure.row_count(private) for _, measure in self.measures)

    @property
    def streams(self) -> bool:
        """Whether a streaming solver can take it: one joint, an average measure with rules in closed form, no further
        limits, budget or multiplier form.
        """
        covered = (self.leakage.smooth or self.leakage.linear) and not self.leakage.worst_outcome
        return covered and self.sizes[0] == 1 and not (self.form.limits_leakage or self.limits)

    def operators(self) -> tuple[AbstractJoint, tuple[AbstractDistortion, ...]]:
        """The one joint and the distortions as operators."""
        joint = self.data if isinstance(self.data, AbstractJoint) else Stored(self.data[0])
        return joint, self.distortions

    def entries(self) -> list[Arr]:
        """The distortions as tables, (X, Y) each, inf where they forbid a pair."""
        if all(isinstance(d, distortions.Matrix) for d in self.distortions):  # nothing to compute, nothing to refuse
            return [distortions.dense(d) for d in self.distortions]
        return [distortions.dense(d, f"distortion[{k}]", self._instead) for k, d in enumerate(self.distortions)]

    def costs(self) -> tuple[Arr, Arr]:
        """(tables (M, X, Y), support (X, Y)): finite costs, and the pairs that no distortion forbids.

        What a table has in the place of a forbidden pair is the largest cost that its row has elsewhere, so that the
        least of a row is that of what is allowed. Traced tables are NaN where one of their entries is infinite: which
        pairs they forbid is not known.

        Raises `InputError` for a row without an allowed pair.
        """
        each = self.entries()
        if any(isinstance(table, Tracer) for table in each):
            tables = jnp.stack(each)
            return jnp.where(jnp.isfinite(tables).all(), tables, jnp.nan), np.ones(self.shape, dtype=bool)
        allowed = _allowed(each)
        if allowed is None:
            return np.stack(each), np.ones(each[0].shape, dtype=bool)
        largest = np.where(allowed, each, -np.inf).max(axis=2, keepdims=True)
        return np.where(allowed, each, largest), allowed

    @property
    def forbids(self) -> bool:
        """Whether a distortion forbids pairs, as far as is known: what is traced does not."""
        return any(distortions.forbids(distortion) for distortion in self.distortions if not is_traced(distortion))

    def tables(self) -> Arr:
        """The tables of `costs`, shape (M, X, Y)."""
        return self.costs()[0]


def rate_distortion(
    source: ArrayInput,
    distortion: ArrayInput | AbstractDistortion | Sequence[ArrayInput | AbstractDistortion],
    **form: Unpack[DistortionForm],
) -> DistortionProblem:
    """Rate-distortion as a privacy problem: S = X (Calmon-Fawaz Corollary 1), joint = diag(source).

    `source`: P(X), shape (X,); `form`: `budget=`, `multiplier=` or `leakage_budget=` (the rate).
    """
    real_array(source, "source", ndim=1)
    return DistortionProblem(joint_array(source, "source"), distortion, **form)


def private_pairs(joint: ArrayLike) -> np.ndarray:
    """The pairs (s, x) of positive mass, shape (P, 2), in row order: the data symbols of Remark 3."""
    return np.argwhere(joint_array(joint) > 0)


def with_private_input(
    joint: ArrayInput,
    distortion: ArrayInput | AbstractDistortion | Sequence[ArrayInput | AbstractDistortion],
    **form: Unpack[DistortionForm],
) -> DistortionProblem:
    """Calmon-Fawaz Remark 3: the curator has S too, and the mapping may use it: P(y | x, s).

    The data symbol becomes the pair (s, x), so nothing else changes: row i of the mechanism is
    P(y | pair i) for pair i of `private_pairs(joint)`, with distortion d((s, x), y) = d(x, y).

    Raises `InputError` inside of jit and vmap: which pairs have positive mass must be known.
    """
    joint = joint_array(joint)
    if is_traced(joint):
        raise InputError("joint: its pairs of positive mass must be known; call this outside of jit and vmap")
    pairs = np.argwhere(joint > 0)
    paired = np.zeros((joint.shape[0], len(pairs)))
    paired[pairs[:, 0], np.arange(len(pairs))] = joint[pairs[:, 0], pairs[:, 1]]
    tables = [
        distortions.Matrix(distortions.dense(d)[pairs[:, 1]])
        for d in as_distortions(distortion, joint.shape[1], joint.shape[0])
    ]
    return DistortionProblem(paired, tables, **form)


def with_marginal(
    joint: ArrayInput,
    distortion: ArrayInput | AbstractDistortion | Sequence[ArrayInput | AbstractDistortion],
    marginal: ArrayInput,
    *,
    budget: ArrayInput,
    within: ScalarLike = 0.0,
    cost: ArrayInput | None = None,
    divergence: AbstractDivergence | None = None,
    leakage: AbstractLeakage | None = None,
    limits: Sequence[tuple[AbstractLeakage, ScalarLike]] = (),
) -> DistortionProblem:
    """A limit on the released marginal: the least leakage such that E d_k(X,Y) <= D_k and P_Y is q, or near it.

    With q = P_X a released table has the marginals of the original one (rate-distortion-perception: Blau and Michaeli
    2019); with a q of one's own it is the fair release. What near means:

    * `within=0`: P_Y = q;
    * `within=v`: TV(P_Y, q) = sum_y (P_Y(y) - q(y))^+ <= v;
    * `within=v, cost=c`: the transport cost min E c(Y,Z) over couplings of P_Y with Z ~ q is at most v: the
      Wasserstein-1 distance where c is a metric;
    * `within=v, divergence=f`: D_f(P_Y || q) = sum_y q(y) f(P_Y(y)/q(y)) <= v.

    The first three are budgets alone. Outputs get a second part V: whether y is kept or moved, or Z itself, so that
    P(kept, y) <= q(y) and P(moved) <= v, or P(Z=z) = q(z) and E c(Y,Z) <= v. A V that is drawn from Y alone leaks
    nothing beyond Y, and no V leaks less than that, for every measure that post-processing does not raise: the optimum
    is that of Y. A divergence is a limit on one more measure. Inputs get |Y| further symbols without mass, each of
    which is released as its own y: q is then a row of the mechanism. In every case the mechanism of Y is
    `solution.mechanism[:X].reshape(X, -1, Y).sum(axis=1)`.

    Args:
        joint, distortion, budget, leakage, limits: as for `DistortionProblem`; a set of joints with `within=0` and
            no `cost`, or with a `divergence`: how y is moved may differ from joint to joint, and V may not.
        marginal: q, shape (Y,).
        within: v >= 0, without unit or in that of `cost`. The program has |Y| outputs for v = 0, then 2 |Y|.
        cost: c(y, z) >= 0, shape (Y, Y); the program has |Y|^2 outputs.
        divergence: f, a divergence of `jaxpriv.leakage` or one's own, with a curve (total variation is that without
            `cost` and `divergence`); q > 0. The program has |X| + |Y| inputs.

    Inside of jit, vmap and grad budgets without slack, as those of `within=0`, are met to rounding, and the interval
    may stay open; divergences are taken outside.

    Raises:
        InputError: naming the argument and the position.
    """
    plain = DistortionProblem(joint, distortion, budget=budget, leakage=leakage, limits=limits)
    inputs, outputs = plain.shape
    target = joint_array(real_array(marginal, "marginal", ndim=1)[None], "marginal")[0]
    near = xp.full((), scalar(within, "within", low=0.0), like=target)
    if target.shape != (outputs,):
        raise InputError(f"marginal has shape {target.shape}; the distortion has {outputs} outputs")
    unit = np.eye(outputs)
    if divergence is not None:
        if cost is not None:
            raise InputError("cost and divergence are two distances; give one of them")
        if not isinstance(divergence, AbstractDivergence) or not divergence.designable or divergence.linear:
            raise InputError(
                "divergence must be a curved one, as KullbackLeibler(); without it the limit is total variation"
            )
        if is_traced((near, target)) or near > 0:
            return _within_divergence(plain, target, near, divergence)
    if plain.sizes[0] > 1 and (cost is not None or is_traced(near) or near > 0):
        raise InputError("joint: how y is moved is one rule for all joints of a set; give one joint, or a divergence")
    if cost is not None:  # outputs (z, y)
        price = nonnegative(real_array(cost, "cost", ndim=2), "cost")
        if price.shape != unit.shape:
            raise InputError(f"cost has shape {price.shape}; for {outputs} outputs it is {unit.shape}")
        parts, rows = outputs, [*unit.repeat(outputs, axis=1), price.T.reshape(-1)]
    elif is_traced(near) or near > 0:  # y kept, then y moved
        parts, rows = 2, [*np.pad(unit, ((0, 0), (0, outputs))), np.arange(2 * outputs) >= outputs]
    else:
        parts, rows = 1, [*unit]
    amounts = [plain.budget, target / target.sum(), *([near] if len(rows) > outputs else [])]
    tables = [xp.concatenate([table] * parts, axis=1) for table in plain.entries()]
    return DistortionProblem(
        plain.data,
        [*tables, *(xp.broadcast_to(row * 1.0, (inputs, len(row))) for row in rows)],
        budget=xp.concatenate([part.reshape(-1) for part in amounts]),
        leakage=leakage,
        limits=limits,
    )


def _within_divergence(
    plain: DistortionProblem, target: Arr, within: ScalarLike, divergence: AbstractDivergence
) -> DistortionProblem:
    """The problem `plain` with D_f(P_Y || target) <= within."""
    if is_traced((plain, target, within)):
        raise InputError("divergence: what the further symbols forbid must be known; call it outside of jit and vmap")
    if not np.all(target > 0):
        at = int(np.argmin(target))
        raise InputError(f"marginal[{at}] is 0, and a divergence takes positive ones: leave that output out")
    itself = np.where(np.eye(len(target)) > 0, 0.0, np.inf)
    limit = ReleasedMarginal(divergence, np.asarray(target / target.sum()))
    return DistortionProblem(
        np.pad(plain.joints, ((0, 0), (0, 0), (0, len(target)))),
        [np.concatenate([table, itself]) for table in plain.entries()],
        budget=plain.budget,
        leakage=plain.leakage,
        limits=[*plain.limits, (limit, within)],
    )


def _joints(value: ArrayInput) -> Arr:
    if isinstance(value, np.ndarray) and value.ndim == 2:
        return joint_array(value)[None]
    array = real_array(value, "joint", ndim=(1, 2, 3))
    if array.ndim < 3:
        return joint_array(value)[None]
    if is_traced(array):
        return array
    return np.stack([joint_array(table, f"joint[{k}]") for k, table in enumerate(np.asarray(value))])


def _measure(value: object, name: str) -> None:
    """Refuse what is no measure, and name what to write instead."""
    if isinstance(value, AbstractLeakage):
        return
    if isinstance(value, type) and issubclass(value, AbstractLeakage):
        needed = [
            parameter.name
            for parameter in inspect.signature(value).parameters.values()
            if parameter.default is inspect.Parameter.empty
        ]
        call = f"{value.__name__}({', '.join(needed)})"
        raise InputError(f"{name} is the class {value.__name__}; pass a measure made of it: {name}={call}")
    if isinstance(value, str):
        raise InputError(
            f"{name} is a string; names of measures belong to the command line. Pass a measure of jaxpriv.leakage, "
            f"such as jaxpriv.leakage.Sibson(2.0), or that of a name: jaxpriv.leakage.by_name(...)"
        )
    kind = type(value).__name__
    instead = f"; of a divergence it is FInformation({kind}())" if isinstance(value, AbstractDivergence) else ""
    raise InputError(f"{name} must be a measure of jaxpriv.leakage, not {kind}{instead}")


def as_distortions(
    value: ArrayInput | AbstractDistortion | Sequence[ArrayInput | AbstractDistortion], inputs: int, private: int
) -> tuple[AbstractDistortion, ...]:
    several = value if isinstance(value, (list, tuple)) else [value]
    for k, part in enumerate(several):
        if callable(part) and not isinstance(part, AbstractDistortion):
            name = "distortion" if part is value else f"distortion[{k}]"
            raise InputError(
                f"{name} is a function; write {name}=jaxpriv.distortion.from_function(...), or pass the table d(x, y)"
            )
    if isinstance(value, (list, tuple)) and any(isinstance(v, AbstractDistortion) or np.ndim(v) == 2 for v in value):
        items = [distortions.as_distortion(v, f"distortion[{k}]") for k, v in enumerate(value)]
    elif isinstance(value, AbstractDistortion):
        items = [value]
    else:
        table = real_array(value, "distortion", ndim=(2, 3))
        above_minus_infinity(table, "distortion")
        items = [distortions.Matrix(table)] if table.ndim == 2 else [distortions.Matrix(t) for t in table]
    for k, item in enumerate(items):
        name = "distortion" if len(items) == 1 else f"distortion[{k}]"
        if item.shape[0] != inputs:
            hint = "; it looks transposed" if item.shape[1] == inputs else ""
            if item.shape[0] == private:
                hint = (
                    "; the joint looks transposed: its rows are private symbols s, its columns useful ones x (joint.T)"
                )
            raise InputError(
                f"{name} has {item.shape[0]} rows (axis x), but the joint has {inputs} useful symbols (axis x){hint}"
            )
        if item.shape != items[0].shape:
            raise InputError(f"{name} has shape {item.shape}; the first distortion has {items[0].shape}")
        if item.shape[1] == 0:
            raise InputError(f"{name} is empty along axis 1 (no released symbol)")
    return tuple(items)


def _allowed(tables: Sequence[Arr]) -> np.ndarray | None:
    """The pairs (X, Y) that no table forbids, None where these are all."""
    if all(np.isfinite(table).all() for table in tables):
        return None
    allowed = ~np.isinf(tables).any(axis=0)
    blocked = ~allowed.any(axis=1)
    if blocked.any():
        raise InputError(f"distortion: row {int(np.argmax(blocked))} forbids every output, and one is needed")
    return allowed


def _limits(value: Iterable[tuple[AbstractLeakage, ScalarLike]]) -> tuple[tuple[AbstractLeakage, float], ...]:
    """(measure, number >= 0) pairs; `inf` limits nothing."""
    checked = []
    if isinstance(value, tuple) and len(value) == 2 and not isinstance(value[0], (tuple, list)):
        raise InputError("limits must be a list of (measure, value) pairs; write limits=[(measure, value)]")
    try:
        pairs = [(measure, number) for measure, number in value]
    except (TypeError, ValueError) as error:
        raise InputError("limits must be a sequence of (measure, value) pairs") from error
    for i, (measure, number) in enumerate(pairs):
        _measure(measure, f"limits[{i}][0]")
        checked.append((measure, scalar(number, f"limits[{i}]", low=0.0, infinite=True)))
    return tuple(checked)


def replace_form(problem: DistortionProblem, **form: Unpack[DistortionTarget]) -> DistortionProblem:
    """The same joint and distortions asked in another form or at another budget."""
    data = problem.data
    joint = data if isinstance(data, AbstractJoint) or data.shape[0] > 1 else data[0]
    return DistortionProblem(joint, list(problem.distortions), leakage=problem.leakage, limits=problem.limits, **form)


class NoiseProblem(eqx.Module, Shown):
    """Design the law of Z for Y = X + Z with least I(S;Y) at E d(Z) <= budget.

    Args:
        joint: P(S,X), shape (S, X); symbol x stands for the integer x. diag(P_X) gives the least I(X;Y).
        distortion: d(z), shape (Z,), finite.
        budget: the largest mean of d(Z), in the unit of d.
        offsets: the integers that z = 0..Z-1 stand for; Y then runs over all sums, from the least
            to the largest. By default addition is modulo |X|, Z = |X| and z stands for itself.

    Raises:
        InputError: naming the argument and the position.
    """

    joint: np.ndarray
    distortion: np.ndarray  # (Z,)
    budget: float
    targets: np.ndarray  # (X, Z) index of y = x + z
    outputs: int = eqx.field(static=True)

    def __init__(self, joint: ArrayLike, distortion: ArrayLike, *, budget: float, offsets: ArrayLike | None = None):
        self.joint = joint_array(joint)
        self.distortion = finite(real_array(distortion, "distortion", ndim=1), "distortion")
        self.budget = scalar(budget, "budget")
        inputs, count = self.joint.shape[1], len(self.distortion)
        x = np.arange(inputs)[:, None]
        if offsets is None:
            if count != inputs:
                raise InputError(f"distortion has {count} entries; addition modulo |X| needs |X| = {inputs}")
            self.targets, self.outputs = (x + np.arange(count)) % inputs, inputs
            return
        shifts = finite(real_array(offsets, "offsets", ndim=1), "offsets")
        if len(shifts) != count:
            raise InputError(f"offsets has {len(shifts)} entries; distortion has {count}")
        if not np.all(shifts == np.round(shifts)):
            raise InputError(f"offsets[{int(np.argmax(shifts != np.round(shifts)))}] is not an integer")
        if len(np.unique(shifts)) != count:
            raise InputError("offsets repeats a value")
        if not np.all(abs(shifts) < 2**31):
            raise InputError(f"offsets[{int(np.argmax(abs(shifts)))}] is beyond 2^31")
        shifts = shifts.astype(np.int64)
        self.targets = x + shifts - shifts.min()
        self.outputs = int(self.targets.max()) + 1

    @property
    def units(self) -> tuple[str, str]:
        """What the numbers of a value and of a leakage mean, in words: `Solution.units`."""
        return "nats", f"nats, {MutualInformation().label}"

    def _shown(self) -> dict[str, str]:
        private, useful = self.joint.shape
        return {
            "leakage": f"{MutualInformation().label} (nats)",
            "budget": numbers(self.budget, nearest),
            "symbols": sizes(S=private, X=useful, Y=self.outputs, Z=len(self.distortion)),
        }

    def mechanism(self, noise: Arr) -> np.ndarray:
        """W[x, x + z] = P(Z = z), shape (X, Y)."""
        table = np.zeros((self.joint.shape[1], self.outputs))
        np.put_along_axis(table, self.targets, np.broadcast_to(noise, self.targets.shape), axis=1)
        return table

    def noise(self, mechanism: Arr) -> np.ndarray:
        """P(Z = z), read off the rows of a mechanism of this problem, shape (Z,)."""
        return np.take_along_axis(np.asarray(mechanism), self.targets, axis=1)[0]

    def columns(self) -> np.ndarray:
        """A[y, s, z] = P(S=s, X + z = y): the output joint is w_y = A_y P_Z, shape (Y, S, Z)."""
        table = np.zeros((self.outputs, self.joint.shape[0], len(self.distortion)))
        for z, reached in enumerate(self.targets.T):
            table[reached, :, z] = self.joint.T
        return table


@dataclass(frozen=True)
class MaxEntropyNoise:
    """The noise of largest entropy at E d(Z) <= D: P(z) proportional to exp(-price d(z)).

    `entropy` is H of the returned law; `upper_bound` = price D + ln sum_z exp(-price d(z)) >= H of every
    feasible law (Gibbs), so their difference is the certified gap. Nats.
    """

    noise: np.ndarray
    price: float
    entropy: float
    upper_bound: float

    __repr__ = summary

    @property
    def gap(self) -> float:
        """upper_bound - entropy."""
        return self.upper_bound - self.entropy


def max_entropy_noise(distortion: ArrayLike, budget: float) -> MaxEntropyNoise:
    """max H(Z) subject to E d(Z) <= budget.

    Args:
        distortion: d(z), shape (Z,), finite.
        budget: D, at least min d (at D = min d the law is uniform on the minimisers).

    Raises `InfeasibleError` if the budget is below min d.
    """
    d = finite(real_array(distortion, "distortion", ndim=1), "distortion")
    budget = scalar(budget, "budget")
    least, mean = float(d.min()), float(d.mean())
    if budget < least:
        raise InfeasibleError(
            f"budget: E d(Z) is at least {least:.12g}, the budget allows {budget:.12g}",
            {"bound": least, "allowed": budget, "multipliers": [1.0]},
        )

    def law(price: float) -> np.ndarray:
        weight = np.exp(-price * (d - least))
        return weight / weight.sum()

    price = 0.0
    if budget < mean:
        low, high = 0.0, 1.0 / max(float(np.ptp(d)), np.finfo(float).tiny)
        while law(high) @ d > budget and np.isfinite(high):
            high *= 2.0
        for _ in range(200):  # bisection to the last bit: E d is decreasing in the price
            price = 0.5 * (low + high)
            low, high = (price, high) if law(price) @ d > budget else (low, price)
        price = high
    noise = law(price)
    present = noise[noise > 0]
    bound = price * (budget - least) + float(np.log(np.exp(-price * (d - least)).sum()))
    return MaxEntropyNoise(noise, price, float(-(present * np.log(present)).sum()), bound)
