"""What is done to the symbols that are not released, and what it leaves of them.

All three are one form: the complement of X_eps is cut into groups; x is kept with probability `keep`, else a
symbol is drawn from R_Y in the group of x, whatever x is.

* `CompleteMerging` (eq. 9 of Hsu, Asoodeh and Calmon): one group, keep = 0. Every outcome in it has the posterior
  P(s | X in X_eps^c). Of everything that can be done to the complement it leaks least: to merge the outcomes of any
  other perturbation is post-processing, and gives this one.
* `SubsetMerging`: several groups, keep = 0. Starts from single symbols; while some group leaks more than the limit, the
  worst is merged with the one that costs least utility among those that meet the limit, else with the one that comes
  nearest. Ends at the latest with one group. A heuristic: no optimality is claimed.
* `RandomisedResponse`: one group, keep as large as the limit allows. P(s,y) is linear in keep, so that the largest is
  the smallest root of |S| x |X| linear equations.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.special import entr

from jaxpriv._runtime.module import summary
from jaxpriv._runtime.validation import nonnegative, real_array, scalar
from jaxpriv.data.datasets._layout import columns_added
from jaxpriv.errors import InfeasibleError, InputError
from jaxpriv.statistics.watchdog.thresholds import merged_leakage

DRAWS = ("marginal", "uniform", "single")
# How many values a count must be able to have, given the rounded shares.
_CANDIDATES = 10


@dataclass(frozen=True)
class CompleteMerging:
    """One draw for the whole complement. The draw changes neither leakage nor utility.

    `draw` is R_Y: "marginal" (P_X on the complement, rounded), "uniform", "single" (one further output, which
    stands for suppressed), or a distribution `(x,)` without mass on X_eps.

    Whoever has the mechanism has R_Y. The shares of counted records would give back the counts: the smallest whole
    numbers in the same proportion. So "marginal" is rounded to whole multiples (at least one, also for a symbol that
    does not occur) of a step that is so large that each count could be one of ten numbers, if no count in the table
    is below that of its rarest pair (s, x), for someone who has their total too; with few records it is uniform. A
    distribution of the caller's is used as it is.
    """

    draw: object = "marginal"


@dataclass(frozen=True)
class SubsetMerging:
    """As many groups as a limit on the leakage allows, found greedily. `draw` as above, within each group.

    `limit`: the largest leakage of the watchdog, in nats; None for that of complete merging.
    """

    draw: object = "marginal"
    limit: float | None = None


@dataclass(frozen=True)
class RandomisedResponse:
    """x with probability keep + (1 - keep) R_Y(x), another y of the complement with (1 - keep) R_Y(y).

    The largest keep within the limit; `limit` as above. `draw` as above but not "single"; "uniform" is
    the classical randomised response of Warner 1965.
    """

    draw: object = "uniform"
    limit: float | None = None


Perturbation: TypeAlias = CompleteMerging | SubsetMerging | RandomisedResponse


@dataclass(frozen=True, eq=False)
class Perturbed:
    """The complement of X_eps after a perturbation.

    `group` `(x,)`: the group of each symbol, -1 for those in X_eps; `draw` `(x,)`: R_Y, with total 1 in each
    group, or None for one output for each group. `leakage` and `utility`: what the complement leaks, and its
    part of I(X;Y), in nats. `outcomes` `(s, y)`: P(s, y) of the outcomes, one for each group that merges.
    """

    group: np.ndarray
    keep: float
    draw: np.ndarray | None
    leakage: float
    utility: float
    outcomes: np.ndarray

    __repr__ = summary


def perturbed(asked: Perturbation, joint: np.ndarray, released: np.ndarray, leaking: float) -> Perturbed:
    """The perturbation of the complement of `released` (x,), whose own leakage is `leaking`."""
    hidden = ~released
    private, useful = joint.sum(axis=1), joint.sum(axis=0)
    group = np.where(hidden, 0, -1)
    least = _one_group(joint, private, hidden)
    limit = max(leaking, least)
    if not isinstance(asked, CompleteMerging) and asked.limit is not None:
        limit = scalar(asked.limit, "limit", low=0.0, infinite=True)
        if not limit >= max(leaking, least):
            raise InfeasibleError(
                f"with these symbols released and the others merged {max(leaking, least):.6g} nats leak; no other "
                "perturbation leaks less, so the limit cannot be met: lower epsilon",
                {"limit": limit, "least": max(leaking, least)},
            )
    if isinstance(asked, SubsetMerging):
        group = _subsets(joint, private, useful, hidden, limit)
    draw = _draw(asked.draw, joint, group)
    if isinstance(asked, RandomisedResponse):
        if draw is None:
            raise InputError("draw 'single' merges; randomised response draws a symbol: use 'uniform' or 'marginal'")
        return _responding(joint, private, useful, group, draw, limit)
    masses = _grouped(joint, group)
    shares = masses.sum(axis=0)
    leakage = least if len(shares) == 1 else float(merged_leakage(masses, private, shares).max(initial=0.0))
    return Perturbed(group, 0.0, draw, leakage, float(entr(shares).sum()), masses)


def _one_group(joint: np.ndarray, private: np.ndarray, hidden: np.ndarray) -> float:
    if hidden.all():  # independent of S, without rounding
        return 0.0
    merged = np.ascontiguousarray(joint[:, hidden]).sum(axis=1, keepdims=True)
    return float(merged_leakage(merged, private, merged.sum(axis=0))[0])


def _grouped(joint: np.ndarray, group: np.ndarray) -> np.ndarray:
    """P(s, G) `(s, g)`."""
    inside = group >= 0
    return columns_added(joint[:, inside], group[inside])


def _draw(asked: object, joint: np.ndarray, group: np.ndarray) -> np.ndarray | None:
    """R_Y with total 1 in each group."""
    inside, useful = group >= 0, joint.sum(axis=0)
    if isinstance(asked, str):
        if asked not in DRAWS:
            raise InputError(f"draw must be one of {', '.join(DRAWS)}, or a distribution")
        if asked == "single":
            return None
        weights = inside.astype(np.float64)
        if asked == "marginal":
            record = float(joint[joint > 0].min())  # no smaller than that of one record
            for number in range(int(group.max()) + 1):
                weights[group == number] = rounded_shares(useful[group == number], record)
    else:
        weights = nonnegative(real_array(asked, "draw", ndim=1), "draw")
        if weights.shape != useful.shape:
            raise InputError(
                f"draw has {len(weights)} entries, but the joint has {len(useful)} useful symbols (axis x)"
            )
        released = np.flatnonzero((weights > 0) & ~inside)
        if released.size:
            raise InputError(f"draw[{released[0]}] is positive, but that symbol is released and must mean itself only")
        if not abs(weights.sum() - 1) <= 1e-9 and inside.any():
            raise InputError("draw must sum to 1")
    if not inside.any():
        return np.zeros(len(useful))
    totals, sizes = np.bincount(group[inside], weights=weights[inside]), np.bincount(group[inside])
    # A group without weight (symbols that never occur) is drawn from evenly.
    empty = totals[group] == 0
    share = np.where(empty, 1.0 / sizes[group], weights / np.where(empty, 1.0, totals[group]))
    return np.where(inside, share, 0.0)


def rounded_shares(masses: np.ndarray, record: float) -> np.ndarray:
    """Whole numbers >= 1 in about the proportion of `masses` (m,), none of which discloses a multiple of `record`.

    The step is a power of two of the total, at least 4 k records (k = 10). A mass is then known up to a step; and as
    the total may be known too, the step is doubled until each mass could differ by 3 k records in all, made up for
    by the others within their own steps. At the latest all numbers are 1. That the step itself depends on the masses
    takes some of these values away; listing all tables of two and three symbols left 21 or more, or all there are.
    """
    total = float(masses.sum())
    if not total > 0:
        return np.ones(len(masses))
    share, least = masses / total, _CANDIDATES * record / total
    step = 2.0 ** min(np.ceil(np.log2(4 * least)), 0.0)
    while True:
        level = np.maximum(np.floor(share / step + 0.5), 1.0)
        down = share - np.where(level > 1, (level - 0.5) * step, 0.0)
        up = (level + 0.5) * step - share
        free = np.minimum(down, up.sum() - up) + np.minimum(up, down.sum() - down)
        if (level == level[0]).all() or (free >= 3 * least).all():
            return level
        step *= 2


def _subsets(
    joint: np.ndarray, private: np.ndarray, useful: np.ndarray, hidden: np.ndarray, limit: float
) -> np.ndarray:
    members = np.flatnonzero(hidden & (useful > 0))
    owner = np.arange(len(members))  # the group of each member
    masses, alive = joint[:, members].copy(), np.ones(len(members), dtype=bool)
    leaks = merged_leakage(masses, private, masses.sum(axis=0))
    while alive.sum() > 1 and leaks[alive].max() > limit:
        worst = int(np.argmax(np.where(alive, leaks, -1.0)))
        others = np.flatnonzero(alive & (np.arange(len(members)) != worst))
        together = masses[:, others] + masses[:, [worst]]
        shares = together.sum(axis=0)
        after = merged_leakage(together, private, shares)
        # What merging takes from the entropy of the groups.
        loss = entr(masses[:, others].sum(axis=0)) - entr(shares)
        meets = after <= limit
        best = int(np.lexsort((loss, np.where(meets, 0.0, after), ~meets))[0])
        partner = others[best]
        masses[:, worst], leaks[worst] = together[:, best], after[best]
        alive[partner] = False
        owner[owner == partner] = worst
    group = np.where(hidden, 0, -1)
    if len(members):
        # Numbered by their first symbol; symbols that never occur join the first.
        _, first, place = np.unique(owner, return_index=True, return_inverse=True)
        group[members] = np.argsort(np.argsort(first))[place]
    return group


def _responding(
    joint: np.ndarray, private: np.ndarray, useful: np.ndarray, group: np.ndarray, draw: np.ndarray, limit: float
) -> Perturbed:
    hidden = group >= 0
    if not hidden.any():
        return Perturbed(group, 0.0, draw, 0.0, 0.0, joint[:, hidden])
    original, base = joint[:, hidden], joint[:, hidden].sum(axis=1, keepdims=True) * draw[hidden]
    mass, flat = useful[hidden], draw[hidden] * useful[hidden].sum()
    largest = _largest_keep(original, base, mass, flat, private, limit)
    leakage = np.inf
    for shrink in (0.0, 1e-15, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1.0):  # until rounding is on our side
        keep = largest * (1.0 - shrink)
        columns = keep * original + (1.0 - keep) * base
        shares = keep * mass + (1.0 - keep) * flat
        leakage = float(merged_leakage(columns, private, shares).max(initial=0.0))
        if leakage <= limit:
            break
    drawn = (1.0 - keep) * draw[hidden]
    # H(Y|X): row x is `drawn` with keep added at x.
    rows = entr(drawn).sum() - entr(drawn) + entr(drawn + keep)
    utility = float(entr(shares).sum() - mass @ rows)
    return Perturbed(group, float(keep), draw, leakage, max(utility, 0.0), columns)


def _largest_keep(
    original: np.ndarray, base: np.ndarray, mass: np.ndarray, flat: np.ndarray, private: np.ndarray, limit: float
) -> float:
    """The largest keep in [0, 1] with e^-L p_s P(y) <= P(s,y) <= e^L p_s P(y) for all s and y."""
    if np.isinf(limit):
        return 1.0
    present = private > 0
    largest = 1.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for sign in (1.0, -1.0):
            # keep * at_one + (1 - keep) * at_zero <= 0, true at keep = 0 (to rounding).
            factor = np.exp(sign * limit) * private[present, None]
            at_one = sign * (original[present] - factor * mass)
            at_zero = np.minimum(sign * (base[present] - factor * flat), 0.0)
            root = at_zero / (at_zero - at_one)
            largest = min(largest, float(np.where(at_one > 0, root, 1.0).min(initial=1.0)))
    return max(largest, 0.0)
