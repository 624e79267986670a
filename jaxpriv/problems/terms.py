"""Leakage measures as terms of a convex program: the table of the adversary's sets.

For every measure phi(w) = sup { <g, w> : g in G } (C-F, Issa et al., Sibson, Arimoto, Csiszar; the sets
are in `measured`), and its value is `outer( sum_y phi(w_y) + shift )` (average) or the smallest eps with
phi(w_y) <= eps |w_y| for all y (worst outcome). Private symbols without mass are left out; rows that
say the same are merged. A user's f or loss is taken in units of its own size.

The arrays may be tracers. Shapes must not depend on their values then, so every symbol keeps its rows (`whole`): one
without mass has rows of zeros and reference 0 in a smooth set, and rows that the others imply in a linear one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxpriv import leakage as measures
from jaxpriv._validation import is_traced
from jaxpriv.errors import InputError
from jaxpriv.leakage import AbstractLeakage, AbstractWorstOutcomeLeakage
from jaxpriv.problems.generator import Generator
from jaxpriv.problems.linear_rows import all_rows, average_rows, kept_rows, without_output, worst_rows
from jaxpriv.problems.loss import Loss, scale_of_loss
from jaxpriv.problems.measured import Kind, Role, Term

# Rows whose entries agree to this many binary-scaled decimals, each relative to itself, are one row (the
# certificate is computed on the merged rows). Not to so many decimals of 1: rare symbols have small rows.
_DECIMALS = 14


@dataclass(frozen=True)
class Scale:
    """value = outer(total), total = inner(value), both increasing; total is the sum over outputs and terms.
    `slope(value)` is the derivative of `inner`.
    """

    outer: Callable[[Any], Any]
    inner: Callable[[Any], Any]
    slope: Callable[[Any], Any]

    @property
    def proportional(self) -> bool:
        """Whether the value is a multiple of the total (no logarithm)."""
        return self.inner(2.0) == 2.0 * self.inner(1.0)


def _itself(number: Any) -> Any:
    return number if is_traced(number) else float(number)


PLAIN = Scale(_itself, _itself, lambda _: 1.0)


def _in_units(size: float) -> Scale:
    return Scale(lambda total: size * total, lambda value: value / size, lambda _: 1.0 / size)


# A limit of so many nats is none to any float64: e^-200 of the largest cost is far below its rounding, and the
# exponentials of higher ones would overflow.
_MOST_NATS = 200.0


def _exp(nats: Any) -> Any:
    return jnp.exp(jnp.minimum(nats, _MOST_NATS)) if is_traced(nats) else math.exp(min(nats, _MOST_NATS))


def _log(total: Any) -> Any:
    return jnp.log(jnp.maximum(total, 1e-300)) if is_traced(total) else math.log(max(total, 1e-300))


def supported(measure: AbstractLeakage) -> bool:
    """Whether `measure` can be an objective or a limit."""
    if isinstance(measure, measures.FInformation):
        return type(measure.divergence) in (*_DIVERGENCES, measures.KullbackLeibler, measures.UserDivergence, *_BOXES)
    if isinstance(measure, (measures.AverageCostGain, measures.MaxCostGain)):
        return isinstance(
            measure.cost,
            (measures.LogLoss, measures.ZeroOneLoss, measures.BrierLoss, measures.LossMatrix, measures.CustomLoss),
        )
    return isinstance(measure, _KNOWN)


def is_worst(measure: AbstractLeakage) -> bool:
    """Whether it is a worst-outcome measure."""
    return isinstance(measure, AbstractWorstOutcomeLeakage)


def linear(measure: AbstractLeakage) -> bool:
    """Whether its limit or its sum of columns is piecewise linear in the mechanism: a linear program."""
    if isinstance(measure, (measures.Sibson, measures.Arimoto)):
        return bool(np.isinf(np.asarray(measure.order)))
    if isinstance(measure, measures.FInformation):
        return isinstance(measure.divergence, _BOXES)
    if isinstance(measure, (measures.AverageCostGain, measures.MaxCostGain)):
        return isinstance(measure.cost, (measures.ZeroOneLoss, measures.LossMatrix))
    return not entropic(measure)


def entropic(measure: AbstractLeakage) -> bool:
    """Whether it is a relative entropy: proportional rows are one row to it."""
    return isinstance(measure, (measures.MutualInformation, measures.MaxInformation, measures.RelativeEntropyPrivacy))


def two_sided(measure: AbstractLeakage) -> bool:
    """Whether it takes two rows for every private symbol."""
    return isinstance(measure, (measures.Lift, measures.LocalDifferentialPrivacy, measures.InferentialPrivacy))


def scale_of(measure: AbstractLeakage, symbols: int) -> Scale:
    """How the value of an average measure of `symbols` private symbols follows from the sum of its columns."""
    if isinstance(measure, measures.FInformation) and isinstance(measure.divergence, measures.UserDivergence):
        return _in_units(Generator.of(measure.divergence).size)
    if isinstance(measure, measures.AverageCostGain) and isinstance(measure.cost, measures.CustomLoss):
        return _in_units(scale_of_loss(measure.cost, symbols))
    if isinstance(measure, (measures.Sibson, measures.Arimoto)):
        order = float(np.asarray(measure.order))
        if math.isfinite(order) and order != 1.0:
            rate, sign = 1.0 - 1.0 / order, math.copysign(1.0, order - 1.0)
            return Scale(
                lambda total: _log(sign * total) / rate,
                lambda value: sign * _exp(rate * value),
                lambda value: sign * rate * _exp(rate * value),
            )
        if order == 1.0:
            return PLAIN
    if isinstance(
        measure,
        (measures.Sibson, measures.Arimoto, measures.MaximalLeakage, measures.MinEntropyLeakage, measures.GainLeakage),
    ):
        return Scale(_log, _exp, _exp)
    return PLAIN


def terms_of(
    measure: AbstractLeakage, joint: Any, role: Role, value: Any = 0.0, whole: bool = False
) -> tuple[Term, ...]:
    """The terms of `measure` under one joint in a role; `value` is its limit in roles AVERAGE and WORST.

    In role AVERAGE or PEAK the shift of the measure is in `bound`; in role OBJECTIVE it is `shift_of`. `whole`: no row
    is left out or merged, as it must be where an argument is traced.
    """
    mass = joint.sum(axis=0)
    inner = scale_of(measure, len(joint)).inner
    measure, joint = on_support(measure, joint, whole)
    prior = joint.sum(axis=1)
    if role is Role.WORST:
        return tuple(_worst(measure, joint, prior, mass, value, whole))
    kind, rows, reference, cap, parameter, negative = _average(measure, joint, prior, mass)
    bound = 0.0
    if role is Role.AVERAGE:
        bound = inner(value) - _shift(measure, joint, prior)
    elif role is Role.PEAK:
        bound = -_shift(measure, joint, prior)
    return (
        _term(
            kind,
            rows,
            reference,
            role,
            cap=cap,
            parameter=parameter,
            negative=negative,
            bound=bound,
            mass=mass,
            function=_function(kind, measure),
            whole=whole,
        ),
    )


def shift_of(measure: AbstractLeakage, joint: Any, whole: bool = False) -> Any:
    """What is added to the sum of the columns of an average measure."""
    measure, joint = on_support(measure, joint, whole)
    return _shift(measure, joint, joint.sum(axis=1))


def on_support(measure: Any, joint: Any, whole: bool = False) -> tuple[Any, Any]:
    """The measure and the joint without private symbols of no mass; `whole`: with them, but for a user's loss."""
    size = len(joint)
    cost: Any = getattr(measure, "cost", None)
    custom = isinstance(cost, measures.CustomLoss)
    every = whole and (not custom or is_traced(joint))
    seen = np.ones(size, dtype=bool) if every else joint.sum(axis=1) > 0

    def fits(table: Any, axis: int, name: str) -> Any:
        if table.shape[axis] != size:
            raise InputError(f"{name} is for {table.shape[axis]} private symbols (axis s), but the joint has {size}")
        return table if whole else np.compress(seen, np.asarray(table), axis=axis)

    if isinstance(measure, measures.GainLeakage):
        measure = measures.GainLeakage(fits(measure.gains, 1, "gains"))
    elif isinstance(measure, measures.LocalDifferentialPrivacy) and measure.neighbours is not None:
        relation = fits(measure.neighbours, 0, "neighbours")
        measure = measures.LocalDifferentialPrivacy(relation if whole else relation[:, seen])
    elif isinstance(measure, measures.MaxInformation) and measure.hidden is not None:
        measure = measures.MaxInformation(fits(measure.hidden, 0, "hidden"))
    elif isinstance(cost, measures.LossMatrix):
        measure = _of_cost(measure, measures.LossMatrix(fits(cost.losses, 0, "losses")))
    elif custom:
        measure = _of_cost(measure, Loss.of(cost, joint.sum(axis=1)))
    return measure, joint if every else joint[seen]


def _of_cost(measure: Any, cost: Any) -> Any:
    """The gain of the same kind with another cost."""
    return type(measure)(cost)


_DIVERGENCES = {
    measures.ChiSquared: Kind.CHI_SQUARED,
    measures.ReverseKullbackLeibler: Kind.REVERSE_KL,
    measures.SquaredHellinger: Kind.HELLINGER,
    measures.JensenShannon: Kind.JENSEN_SHANNON,
}
_BOXES = (measures.TotalVariation, measures.EGamma)
_KNOWN = (
    measures.MutualInformation,
    measures.MaxInformation,
    measures.RelativeEntropyPrivacy,
    measures.Sibson,
    measures.Arimoto,
    measures.MaximalLeakage,
    measures.CorrectGuess,
    measures.MinEntropyLeakage,
    measures.GainLeakage,
    measures.Lift,
    measures.MaxLift,
    measures.MinLift,
    measures.LocalDifferentialPrivacy,
    measures.InferentialPrivacy,
)


def _function(kind: Kind, measure: Any) -> Generator | Loss | None:
    """The user's own function, if the set is made of one."""
    if kind is Kind.GENERATOR:
        return Generator.of(measure.divergence)
    return measure.cost if kind is Kind.LOSS else None


def _with_mass(rows: Any, reference: Any, mass: Any) -> tuple[Any, Any]:
    xp = jnp if is_traced(rows) else np
    return xp.concatenate([rows, mass[None]]), xp.append(reference, 1.0)


def _ones(prior: Any) -> Any:
    """1 for every symbol with mass, 0 for the others."""
    return (prior > 0).astype(prior.dtype)


def _average(measure: Any, joint: Any, prior: Any, mass: Any) -> tuple[Any, ...]:
    """(kind, rows, reference, cap, parameter, negative) of an average measure."""
    xp = jnp if is_traced(measure, joint) else np
    if linear(measure):
        rows, reference, cap = average_rows(xp, measure, joint, prior, mass)
        return Kind.LINEAR, rows, reference, cap, 0.0, False
    ones = _ones(prior)
    if isinstance(measure, (measures.Sibson, measures.Arimoto)):
        order = float(np.asarray(measure.order))
        own = isinstance(measure, measures.Sibson)
        if order == 1.0:
            return Kind.ENTROPIC, joint, prior, None, 0.0, False
        norm = 1.0 if own else (ones * xp.where(prior > 0, prior, 1.0) ** order).sum() ** (1.0 / order)
        return Kind.POWER, joint / norm, prior if own else ones, None, order / (order - 1.0), order < 1.0
    if isinstance(measure, measures.FInformation):
        divergence = measure.divergence
        if type(divergence) in _DIVERGENCES or isinstance(divergence, measures.UserDivergence):
            rows, reference = _with_mass(joint, prior, mass)
            return _DIVERGENCES.get(type(divergence), Kind.GENERATOR), rows, reference, None, 0.0, False
    if isinstance(measure, measures.AverageCostGain):
        cost = measure.cost
        if isinstance(cost, measures.BrierLoss):
            size = ones.sum()
            rows, reference = _with_mass(joint / size, ones / size, mass / size)
            return Kind.CHI_SQUARED, rows, reference, None, 0.0, False
        if isinstance(cost, Loss):
            return Kind.LOSS, joint, ones, None, 0.0, False
    return Kind.ENTROPIC, joint, prior, None, 0.0, False


def _shift(measure: Any, joint: Any, prior: Any) -> Any:
    if isinstance(measure, measures.AverageCostGain):
        if isinstance(measure.cost, measures.BrierLoss):
            return _brier_shift(prior)
        if isinstance(measure.cost, Loss):
            return measure.cost.blind(prior)
    return without_output(measure, prior) if linear(measure) else 0.0


def _brier_shift(prior: Any) -> Any:
    return 1.0 / _ones(prior).sum() - (prior**2).sum()


def _entropy(prior: Any) -> Any:
    xp = jnp if is_traced(prior) else np
    return -(prior * xp.log(xp.where(prior > 0, prior, 1.0))).sum()


def _worst(measure: Any, joint: Any, prior: Any, mass: Any, eps: Any, whole: bool) -> list[Term]:
    """Terms of `measure <= eps` in every outcome."""
    xp = jnp if is_traced(measure, joint, eps) else np
    log_loss = isinstance(measure, measures.MaxCostGain) and isinstance(measure.cost, measures.LogLoss)
    if log_loss or isinstance(measure, measures.MaxInformation):
        hidden = getattr(measure, "hidden", None)
        inside = np.zeros(len(prior)) if hidden is None else hidden
        # Classes beyond e^650 of the scale have no mass that float64 could tell from 0.
        reference = xp.exp(xp.clip(inside - _entropy(prior) - prior @ inside, -650.0, 650.0))
        reference = xp.where(prior > 0, reference, 0.0)
        return [_term(Kind.ENTROPIC, joint, reference, Role.WORST, offset=-eps * mass, mass=mass, whole=whole)]
    if isinstance(measure, measures.RelativeEntropyPrivacy):
        return [_term(Kind.ENTROPIC, joint, prior, Role.WORST, offset=-eps * mass, mass=mass, whole=whole)]
    if isinstance(measure, measures.MaxCostGain):
        cost = measure.cost
        if isinstance(cost, measures.BrierLoss):
            ones = _ones(prior)
            size = ones.sum()
            rows, reference = _with_mass(joint / size, ones / size, mass / size)
            offset = (_brier_shift(prior) - eps) * mass
            return [_term(Kind.CHI_SQUARED, rows, reference, Role.WORST, offset=offset, mass=mass, whole=whole)]
        if isinstance(cost, Loss):
            offset = (cost.blind(prior) - eps / cost.scale) * mass
            ones = np.ones(len(prior))
            return [_term(Kind.LOSS, joint, ones, Role.WORST, offset=offset, mass=mass, function=cost, whole=whole)]
    kept = all_rows(measure, len(prior)) if whole else kept_rows(measure, joint, prior, _classes)
    if not len(kept):
        return []
    return [linear_limit(*worst_rows(xp, measure, joint, prior, mass, largest_limit(measure, eps), kept), mass)]


def largest_limit(measure: AbstractLeakage, eps: Any) -> Any:
    """A limit on a log-ratio, no higher than where it limits anything."""
    if isinstance(measure, measures.MaxCostGain):
        return eps
    return jnp.minimum(eps, _MOST_NATS) if is_traced(eps) else min(eps, _MOST_NATS)


def _refers(reference: Any) -> bool:
    """Whether linear rows are compared with multiples of a reference: none that is 0 depends on what is traced."""
    return is_traced(reference) or bool(np.any(reference != 0))


def linear_limit(rows: Any, reference: Any, mass: Any) -> Term:
    """A worst-outcome limit by linear rows, as they are: `kept_rows` merged them."""
    return Term(
        rows=rows,
        reference=reference,
        cap=None,
        offset=np.zeros(len(mass)),
        bound=np.float64(0.0),
        parameter=np.float64(0.0),
        kind=Kind.LINEAR,
        role=Role.WORST,
        normalised=_refers(reference),
    )


def _term(
    kind: Kind,
    rows: Any,
    reference: Any,
    role: Role,
    *,
    mass: Any,
    cap: np.ndarray | None = None,
    parameter: float = 0.0,
    negative: bool = False,
    bound: Any = 0.0,
    offset: Any = None,
    function: Generator | Loss | None = None,
    whole: bool,
) -> Term:
    if not whole:
        rows, reference, cap = _merged(kind, rows, reference, cap)
    return Term(
        rows=rows,
        reference=reference,
        cap=cap,
        offset=np.zeros(len(mass)) if offset is None else offset,
        bound=bound if is_traced(bound) else np.float64(bound),
        parameter=np.float64(parameter),
        kind=kind,
        role=role,
        normalised=kind is Kind.LINEAR and _refers(reference),
        negative=negative,
        function=function,
    )


def _merged(
    kind: Kind, rows: np.ndarray, reference: np.ndarray, cap: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Rows that say the same, once: equal w_i/r_i in a smooth set, equal rows in a linear one.

    Smooth sets see sums over symbols of r f(w/r), so equal ratios add up; the last row of an f kind is its own.
    """
    if kind is Kind.LINEAR:
        if cap is not None:
            return rows, reference, cap
        first = _first_linear(rows, reference)
        return rows[first], reference[first], None
    if kind is Kind.ENTROPIC:
        rows, reference = _proportional(rows, reference)
    if kind is Kind.LOSS:  # no two symbols are alike to an unknown loss
        return rows, reference, None
    own = len(rows) - (kind not in (Kind.ENTROPIC, Kind.POWER))
    sizes = rows[:own].sum(axis=1)
    classes = _classes(np.column_stack([rows[:own] / sizes[:, None], sizes / reference[:own]]))
    gather = np.zeros((classes.max() + 1, own))
    gather[classes, np.arange(own)] = 1.0
    return (
        np.vstack([gather @ rows[:own], rows[own:]]),
        np.append(gather @ reference[:own], reference[own:]),
        None,
    )


def _proportional(rows: np.ndarray, reference: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An entropic set sees proportional rows c_i v as one, v sum c_i, of another reference:
    sum_i c_i w ln(c_i w/r_i) = C w ln(C w/r) with C = sum c_i and ln r = ln C + sum_i (c_i/C) ln(r_i/c_i).

    This is C-F Corollary 1 and 2: a private S behind X = f(S) enters through H(S|X=x) alone.
    """
    sizes = rows.sum(axis=1)
    classes = _classes(rows / sizes[:, None])
    if classes.max() + 1 == len(rows):
        return rows, reference
    gather = np.zeros((classes.max() + 1, len(rows)))
    gather[classes, np.arange(len(rows))] = 1.0
    total = gather @ sizes
    mean = gather @ (sizes * (np.log(reference) - np.log(sizes)))
    return gather @ rows, total * np.exp(mean / total)


def _classes(keys: np.ndarray) -> np.ndarray:
    """Class numbers of rows that are equal to rounding, in order of first appearance."""
    first = np.sort(_rounded(keys[:, 0]))
    if (first[1:] != first[:-1]).all():  # mostly: then so do the rows
        return np.arange(len(keys))
    numbers: dict[bytes, int] = {}
    return np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in _rounded(keys)])


def _rounded(numbers: np.ndarray) -> np.ndarray:
    mantissa, exponent = np.frexp(numbers)
    return np.ascontiguousarray(np.ldexp(np.round(mantissa, _DECIMALS), exponent) + 0.0)


def _first_linear(rows: np.ndarray, reference: np.ndarray) -> np.ndarray:
    # Only the ratio to the reference counts, so rare symbols are compared by their own P(x|s).
    size = np.where(reference != 0, abs(reference), 1.0)[:, None]
    _, first = np.unique(_classes(np.column_stack([rows / size, np.sign(reference)])), return_index=True)
    return first
