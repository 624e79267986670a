"""Ready-made mechanisms P(y|x) from the literature, to compare a designed one against.

    channel = randomized_response(4, epsilon=1.0)   # mechanism[x, y] = P(y | x), a float64 NumPy array
    leakage.report(joint, channel)                  # every measure of it

Logarithms are natural: `epsilon` is in nats, as every leakage is. epsilon = 0 gives the limit
without information about x, epsilon = inf the limit without noise. Probabilities below the smallest
float64 (about e^-745) are 0: a measured log-ratio is then infinite although epsilon is not.

Built on the host: nothing is compiled and traced arguments are refused. A table that does not fit in
memory is a `ResourceError`.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from jaxpriv._runtime.importing import names_of
from jaxpriv._runtime.resources import need_memory
from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv._runtime.validation import finite, index, is_traced, listed, nonnegative, real_array, scalar
from jaxpriv.data.distortion import AbstractDistortion, as_distortion, dense
from jaxpriv.errors import InputError

__dir__ = names_of(__name__)

Table = Float[np.ndarray, "x y"]


def _host(value: object, name: str) -> object:
    if is_traced(value):
        raise InputError(f"{name} is traced; a baseline is built on the host, outside of jit, vmap and grad")
    return value


def _epsilon(value: object) -> float:
    return scalar(_host(value, "epsilon"), "epsilon", low=0.0, infinite=True)


def _rate(epsilon: float, sensitivity: object) -> float:
    return epsilon / scalar(_host(sensitivity, "sensitivity"), "sensitivity", low=0.0, open_low=True)


def _costs(distortion: ArrayLike | AbstractDistortion) -> Arr:
    return finite(dense(as_distortion(_host(distortion, "distortion"))), "distortion")


def _need_table(rows: int, columns: int) -> None:
    # Three tables are alive at a time. The bound keeps a number of subsets within a float.
    need_memory(float(min(24 * rows * columns, 2**63)), "the mechanism as a table", "take a smaller alphabet")


def _decay(rate: float, steps: ScalarLike) -> np.ndarray:
    """e^(-rate steps) with 0 inf = 0: no steps or no rate, no decay."""
    with np.errstate(invalid="ignore", over="ignore"):
        exponent = rate * np.asarray(steps, dtype=np.float64)
    return np.exp(-np.where(np.isnan(exponent), 0.0, exponent))


def _normalised(table: np.ndarray) -> np.ndarray:
    return table / table.sum(axis=1, keepdims=True)


def _clamped(pmf: np.ndarray, tail: np.ndarray) -> np.ndarray:
    """x + Z clamped to 0..n-1, Z symmetric: P(Z = m) and P(Z >= m) for m = 0..n-1, up to one common factor."""
    symbols = np.arange(len(pmf))
    table = pmf[np.abs(symbols[:, None] - symbols)]
    table[:, 0] = tail
    table[:, -1] = tail[::-1]
    return _normalised(table)


def randomized_response(size: int, epsilon: float) -> Table:
    """k-ary randomised response: P(y|x) = e^eps/(e^eps + k - 1) for y = x, 1/(e^eps + k - 1) for each other y.

    `size` (k) symbols on both sides, shape (k, k). ln P(y|x)/P(y|x') is 0 or +-eps: eps-LDP exactly
    for k >= 2. epsilon = 0 is uniform, epsilon = inf the identity.

    Raises `InputError` unless size >= 1 and 0 <= epsilon <= inf.

    Warner 1965 (k = 2); Kairouz, Oh and Viswanath 2014.
    """
    size, epsilon = index(size, "size", low=1), _epsilon(epsilon)
    _need_table(size, size)
    lie = math.exp(-epsilon)  # relative to the truth; e^eps would overflow
    table = np.full((size, size), lie / (1.0 + (size - 1) * lie))
    np.fill_diagonal(table, 1.0 / (1.0 + (size - 1) * lie))
    return table


def subset_selection(size: int, epsilon: float, subset: int | None) -> Table:
    """d-subset mechanism: releases a set of d of the k symbols, P(A|x) proportional to e^eps if x in A, else to 1.

    Outputs are the C(k, d) sets of `subset` (d) symbols, ordered as `itertools.combinations(range(k), d)`
    is: shape (k, C(k, d)). With N = C(k-1, d-1) e^eps + C(k-1, d), P(A|x) = e^eps/N or 1/N. eps-LDP
    exactly for d < k; d = 1 is randomised response, d = k releases nothing. epsilon = 0 is uniform,
    epsilon = inf uniform over the sets that hold x.

    Raises `InputError` unless size >= 1, 1 <= subset <= size and 0 <= epsilon <= inf.

    Ye and Barg 2018; Wang et al. 2016 (d near k/(e^eps + 1) is the choice for estimating frequencies).
    """
    size, epsilon = index(size, "size", low=1), _epsilon(epsilon)
    subset = index(subset, "subset", low=1, high=size)
    _need_table(size, size)  # before the number of subsets, which takes long for absurd sizes
    outputs = math.comb(size, subset)
    _need_table(size, outputs)
    sets = np.array(list(itertools.combinations(range(size), subset)))
    without = math.exp(-epsilon)  # relative to a set that holds x
    total = math.comb(size - 1, subset - 1) + without * math.comb(size - 1, subset)
    table = np.full((size, outputs), without / total)
    table[sets, np.arange(outputs)[:, None]] = 1.0 / total
    return table


def geometric(size: int, epsilon: float, sensitivity: float = 1) -> Table:
    """Truncated geometric mechanism: x + Z clamped to 0..n-1, P(Z = z) = (1 - a)/(1 + a) a^|z|.

    Here a = e^(-eps/sensitivity). P(y|x) = (1 - a)/(1 + a) a^|x-y| for 0 < y < n-1, and a^|x-y|/(1 + a)
    for the two ends, which take the tails. `size` (n) integers on both sides, shape (n, n).
    ln P(y|x)/P(y|x') is at most |x - x'| eps/sensitivity, with equality at an end: eps-DP exactly
    between inputs `sensitivity` (a number > 0) apart. epsilon = 0 tosses a fair coin for one of the
    two ends, epsilon = inf is the identity.

    Raises `InputError` unless size >= 1, 0 <= epsilon <= inf and 0 < sensitivity < inf.

    Ghosh, Roughgarden and Sundararajan 2012.
    """
    size, epsilon = index(size, "size", low=1), _epsilon(epsilon)
    rate = _rate(epsilon, sensitivity)
    _need_table(size, size)
    tail = _decay(rate, np.arange(size))
    return _clamped(-math.expm1(-rate) * tail, tail)


def staircase(size: int, epsilon: float, sensitivity: float = 1, width: float | None = None) -> Table:
    """Discrete staircase mechanism: x + Z clamped to 0..n-1, P(Z = z) = a b^L(|z|), with b = e^-eps,

        L(m) = floor( (m + D - r)/D ),   a = (1 - b)/( 2 r + 2 b (D - r) - (1 - b) ).

    The steps are D = `sensitivity` integers long, except that the top one is |z| < r = `width`, and
    each is e^-eps of the one above it. Moving by at most D changes L by at most 1, and by exactly 1
    in the tails: eps-DP exactly between inputs at most D apart, before clamping, and after it if n > D.
    D = 1 is `geometric`. `size` (n) integers on both sides, shape (n, n). epsilon = 0 tosses a fair
    coin for one of the two ends; epsilon = inf is uniform noise on |z| < r, the identity for r = 1.

    `width` in 1..D (gamma = r/D of the continuous mechanism); by default the one with the least
    E|Z|, the smallest of them if several.

    Raises `InputError` unless size >= 1, sensitivity >= 1 and 1 <= width <= sensitivity are whole
    numbers and 0 <= epsilon <= inf.

    Geng and Viswanath 2016, integer-valued queries (the optimal noise is of this form).
    """
    size, epsilon = index(size, "size", low=1), _epsilon(epsilon)
    step = index(sensitivity, "sensitivity", low=1)
    _need_table(size, size)
    ratio, drop = math.exp(-epsilon), -math.expm1(-epsilon)
    if width is None:
        _need_table(1, step)
        widths = np.arange(1, step + 1, dtype=np.float64)
        # E|Z| drop/2: sums of m b^L(m) over the top and the other steps, over the total mass times drop.
        moments = (
            drop**2 * widths * (widths - 1) / 2 + drop * ratio * step * (widths + (step - 1) / 2) + (ratio * step) ** 2
        )
        width = int(widths[np.argmin(moments / (drop * (2 * widths - 1) + 2 * ratio * step))])
    width = index(width, "width", low=1, high=step)
    level, place = np.divmod(np.arange(size) + step - width, step)
    height = _decay(epsilon, level)
    # The rest of the own step, and the geometric series of the full steps below it.
    tail = height * (drop * (step - place) + ratio * step)
    return _clamped(drop * height, tail)


def truncated_laplace(values: ArrayLike, epsilon: float, sensitivity: float = 1.0) -> Table:
    """Truncated Laplace mechanism: v_x + Z rounded to the nearest of v_0 < v_1 < ..., Z of density e^(-|z|/b)/(2 b).

    P(y|x) is the Laplace mass of the cell between the midpoints around v_y, scale b = sensitivity/eps;
    the first and the last cell reach to infinity. `values` (n,) are increasing, finite numbers,
    shape (n, n). ln P(y|x)/P(y|x') is at most |v_x - v_x'| eps/sensitivity, with equality if some y
    lies on one side of both x and x': rounding is post-processing, and may only hide more. epsilon = 0
    tosses a fair coin for one of the two ends, epsilon = inf is the identity.

    Raises `InputError` unless the values increase and their differences are finite float64,
    0 <= epsilon <= inf and 0 < sensitivity < inf.

    Dwork, McSherry, Nissim and Smith 2006 (the noise).
    """
    values = finite(real_array(_host(values, "values"), "values", ndim=1), "values")
    epsilon = _epsilon(epsilon)
    # Half the rate, because lengths below are doubled: no midpoint is rounded onto a value.
    rate = 0.5 * _rate(epsilon, sensitivity)
    size = len(values)
    stalled = np.flatnonzero(~(values[1:] > values[:-1]))
    if stalled.size:
        raise InputError(f"values must increase, but values[{stalled[0] + 1}] is not above values[{stalled[0]}]")
    with np.errstate(over="ignore"):
        if not np.isfinite(2 * (values[-1] - values[0])):
            raise InputError("values spread too far: their differences overflow")
    if size == 1:
        return np.ones((1, 1))
    _need_table(size, size)

    gaps = np.diff(values)
    offsets = values - values[:, None]
    # Twice the distance from v_x to the midpoint of v_j and v_j+1: a sum of two numbers of one sign.
    beyond = 0.5 * _decay(rate, np.abs(offsets[:, 1:] + offsets[:, :-1]))
    with np.errstate(over="ignore"):  # an infinite exponent is as good as a huge one
        lost = np.expm1(-rate * gaps), np.expm1(-rate * (gaps[1:] + gaps[:-1]))
    sides = np.concatenate([[0.5], -0.5 * lost[0], [0.5]])  # the mass from v_x to a midpoint; an end has its whole side
    held = np.concatenate([[1.0], -lost[1], [1.0]])  # what a cell keeps of the mass beyond its inner midpoint
    table = np.diag(sides[1:] + sides[:-1])
    table[:, 1:] += np.triu(beyond) * held[1:]
    table[:, :-1] += np.tril(beyond, -1) * held[:-1]
    return _normalised(table)


def exponential(distortion: ArrayLike | AbstractDistortion, epsilon: float) -> Table:
    """Exponential mechanism: P(y|x) proportional to exp( -eps d(x,y)/(2 D) ), D = max_y (max_x d - min_x d).

    `distortion` is a table (x, y) or a `jaxpriv.distortion` object; shape (|X|, |Y|). D is the
    sensitivity of the score -d when any x may be replaced by any other: eps-LDP, often with slack to
    spare (eps/2 is attained where every row has the same total). epsilon = 0 is uniform, epsilon = inf
    uniform over the y of least d(x, y). If d does not depend on x, D = 0: the rows are equal, and
    uniform over the y of least d (for epsilon > 0).

    Raises `InputError` for a distortion that is not a finite table or whose differences overflow,
    and unless 0 <= epsilon <= inf.

    McSherry and Talwar 2007, Theorem 6.
    """
    costs, epsilon = _costs(distortion), _epsilon(epsilon)
    with np.errstate(over="ignore"):
        sensitivity = np.max(costs.max(axis=0) - costs.min(axis=0))
        excess = costs - costs.min(axis=1, keepdims=True)
    if not (np.isfinite(sensitivity) and np.all(np.isfinite(excess))):
        raise InputError("distortion spreads too far: its differences overflow")
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        steps = np.where(excess > 0, excess / sensitivity, 0.0)
    return _normalised(_decay(0.5 * epsilon, steps))


def erasure(size: int, probability: float) -> Table:
    """Erasure: P(x|x) = 1 - p, and with p = `probability` the output is the erasure, symbol k = `size` (the last).

    Shape (k, k + 1). For S = X: I(X;Y) = (1 - p) H(X) and maximal leakage ln( p + (1 - p) k ) on a full
    support; every output but the erasure determines x, so lift and LDP are infinite for p < 1 and k >= 2.

    Raises `InputError` unless size >= 1 and 0 <= probability <= 1.

    Elias 1955.
    """
    size = index(size, "size", low=1)
    probability = scalar(_host(probability, "probability"), "probability", low=0.0, high=1.0)
    _need_table(size, size + 1)
    return np.concatenate([(1.0 - probability) * np.eye(size), np.full((size, 1), probability)], axis=1)


def merging(size: int) -> Table:
    """Complete merging: P(0|x) = 1 for every x. One output for all `size` (k) symbols, shape (k, 1); leaks nothing.

    Raises `InputError` unless size >= 1. To merge only some symbols, `merge`.
    """
    size = index(size, "size", low=1)
    _need_table(size, 1)
    return np.ones((size, 1))


def merge(classes: ArrayLike) -> Table:
    """Deterministic merging: P(y|x) = 1 if y = `classes[x]`, else 0.

    `classes` (k,) numbers the classes 0, 1, ..., m-1, each with a symbol; shape (k, m). The leakage
    is that of the class.

    Raises `InputError` unless the entries are whole numbers >= 0 without a gap.
    """
    numbers = nonnegative(real_array(_host(classes, "classes"), "classes", ndim=1), "classes")
    broken = np.flatnonzero(numbers != np.floor(numbers))
    if broken.size:
        raise InputError(f"classes[{broken[0]}] is not a whole number")
    used = np.unique(numbers)
    missing = np.flatnonzero(used != np.arange(len(used)))
    if missing.size:
        raise InputError(f"classes must be numbered without a gap, but {missing[0]} is not used")
    _need_table(len(numbers), len(used))
    return (numbers[:, None] == np.arange(len(used))).astype(np.float64)


def dropping(attributes: ArrayLike, dropped: Sequence[int]) -> Table:
    """Attribute dropping: release every attribute of x but those of the columns `dropped`.

    `attributes` (k, a) holds the attribute codes of each symbol, in the columns; `dropped` is a sequence of column
    numbers, empty for a full release. Shape (k, m): an output for each combination of the kept codes that some
    symbol has, in sorted order. The leakage is that of the kept attributes.

    Raises `InputError` unless the codes are whole numbers >= 0 and `dropped` are distinct columns.
    """
    return _dropping(attributes, dropped, "dropped")


def _dropping(attributes: ArrayLike, dropped: Sequence[int], name: str) -> Table:
    codes = nonnegative(real_array(_host(attributes, "attributes"), "attributes", ndim=2), "attributes")
    broken = np.argwhere(codes != np.floor(codes))
    if broken.size:
        raise InputError(f"attributes[{broken[0][0]}, {broken[0][1]}] is not a whole number")
    columns = listed(dropped, name)
    for position, column in enumerate(columns):
        index(column, f"{name}[{position}]", low=0, high=codes.shape[1] - 1)
        if column in columns[:position]:
            raise InputError(f"{name}[{position}] is the same column as an earlier one")
    kept = np.setdiff1d(np.arange(codes.shape[1]), np.array(columns, dtype=np.int64))
    if not kept.size:
        return merging(len(codes))
    _, classes = np.unique(codes[:, kept], axis=0, return_inverse=True)
    return merge(classes.ravel())


def hiding(
    attributes: ArrayLike, prior: ArrayLike, hidden: Sequence[int], distortion: ArrayLike | AbstractDistortion
) -> Table:
    """Attribute hiding: every x is released as the cheapest symbol that agrees with it in the attributes that are kept.

    As `dropping`, with outputs that are symbols of X, so that it has a distortion: all x with the same kept codes are
    released as the one of them, y, that has the least sum_x prior(x) d(x, y). Shape (k, k), a single 1 in every row.

    `attributes` and the columns `hidden` are as for `dropping`; `prior` (k,) is P(x) or counts of x, `distortion` a
    table (k, k) or a `jaxpriv.distortion` object.

    Raises `InputError` as `dropping` does, and for a prior that is not k numbers >= 0 or a distortion that is not (k,
    k).
    """
    groups = _dropping(attributes, hidden, "hidden")
    size = len(groups)
    mass = nonnegative(real_array(_host(prior, "prior"), "prior", ndim=1), "prior")
    costs = _costs(distortion)
    if mass.shape != (size,) or costs.shape != (size, size):
        raise InputError(f"prior and distortion must be of the {size} symbols that attributes has")
    spent = groups.T @ (mass[:, None] * costs)  # (m, k): what the group costs as the symbol
    released = np.where(groups.T > 0, spent, np.inf).argmin(axis=1)
    table = np.zeros((size, size))
    table[np.arange(size), released[groups.argmax(axis=1)]] = 1.0
    return table
