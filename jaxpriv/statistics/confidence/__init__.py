"""Where a distribution can be, given counts of it: with a stated probability, for every sample size.

`sets`: balls and boxes around the frequencies, their radii, and linear functionals over them; intervals of single
probabilities, and of means of functions that were fixed beforehand. Here all of these for a table of (S, X), and for
the output of a mechanism.

`population(counts, beta)` holds, together with probability 1 - beta,

    P(x|s) for every s    in the intersection of an L1 ball, a divergence ball and a box,
    P(x), P(s)            in such an intersection, and in another L1 ball,
    P(s, x)               in an L1 ball,

a quarter of beta for each line and distribution. Nothing in it depends on a mechanism: what it implies holds for all
mechanisms at once, also for one that was fitted on the same counts. Given S, the X of the records with S = s are
independent draws from P(.|s), so n_s may be taken as fixed.

`seen_through(population, mechanism)` are the intervals of P(y|s), P(y) and P(s). For a mechanism that was fixed
WITHOUT the counts (fitted on other records) its columns are fixed functions of X, and their means have narrower
intervals where X has many symbols: with `held_out` half of the parts for P(x|s) and P(x) goes to them, and both
kinds of intervals are intersected.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.counts import count_array, failure, l1_radius, mcdiarmid_radius, weissman_radius
from jaxpriv._runtime.importing import names_of
from jaxpriv._runtime.module import summary
from jaxpriv._runtime.validation import flag, mechanism_array
from jaxpriv.statistics.confidence.intervals import (
    bernstein_interval,
    chernoff_interval,
    clopper_pearson,
    mean_interval,
)
from jaxpriv.statistics.confidence.radii import (
    divergence_quantile,
    divergence_radius,
    divergence_tail,
    empirical_radius,
)
from jaxpriv.statistics.confidence.sets import (
    AbstractConfidenceSet,
    Box,
    DivergenceBall,
    Intersection,
    Interval,
    L1Ball,
    possible_array,
)

__all__ = [
    "AbstractConfidenceSet",
    "Box",
    "DivergenceBall",
    "Intersection",
    "L1Ball",
    "Outputs",
    "Population",
    "bernstein_interval",
    "chernoff_interval",
    "clopper_pearson",
    "distribution_set",
    "divergence_quantile",
    "divergence_radius",
    "divergence_tail",
    "empirical_radius",
    "l1_radius",
    "mcdiarmid_radius",
    "mean_interval",
    "population",
    "seen_through",
    "weissman_radius",
]
__dir__ = names_of(__name__)


@dataclass(frozen=True, eq=False)
class Population:
    """Confidence sets from R tables of counts (R = 1 for one table); all hold together with probability 1 - beta.

    Attributes:
        counts: (R, S, X) int64.
        possible: (S, X) bool, pairs that the population can have.
        beta: the probability that anything here is wrong.
        held_out: whether mechanisms seen through it are fixed without the counts.
        given: P(.|s), R S sets on X, table by table.
        useful: P_X, R sets on X.
        private: P_S, R sets on S.
        distance: (R,) total variation between P(s,x) and the frequencies.
        private_distance: (R,) the same of P_S.
        useful_distance: (R,) the same of P_X.
    """

    counts: np.ndarray
    possible: np.ndarray
    beta: float
    held_out: bool
    given: AbstractConfidenceSet
    useful: AbstractConfidenceSet
    private: AbstractConfidenceSet
    distance: np.ndarray
    private_distance: np.ndarray
    useful_distance: np.ndarray

    __repr__ = summary

    @property
    def joint(self) -> np.ndarray:
        """The frequencies (R, S, X); uniform on the possible pairs where nothing was counted."""
        return _frequencies(self.counts.reshape(len(self.counts), -1), self.possible.reshape(1, -1)).reshape(
            self.counts.shape
        )

    @property
    def conditional(self) -> np.ndarray:
        """The frequencies of x for each s (R, S, X); uniform on the possible x where s was not seen."""
        return _frequencies(self.counts, self.possible)


@dataclass(frozen=True, eq=False)
class Outputs:
    """Intervals of the released data: R populations, M mechanisms, S private symbols, Y outputs.

    Attributes:
        given_low, given_high: (R, M, S, Y) P(y|s).
        low, high: (R, M, Y) P(y).
        private: the set of P_S; private_low, private_high (R, S) its limits.
        least, most: (M, Y) min_x and max_x of W[x, y]: limits that need no data.
    """

    given_low: np.ndarray
    given_high: np.ndarray
    low: np.ndarray
    high: np.ndarray
    private: AbstractConfidenceSet
    private_low: np.ndarray
    private_high: np.ndarray
    least: np.ndarray
    most: np.ndarray


def _frequencies(counts: np.ndarray, possible: np.ndarray) -> np.ndarray:
    total = counts.sum(axis=-1, keepdims=True)
    unseen = possible / possible.sum(axis=-1, keepdims=True)
    return np.where(total > 0, counts / np.maximum(total, 1), unseen)


def distribution_set(counts: np.ndarray, possible: np.ndarray, beta: float) -> Intersection:
    """Where the distributions behind B samples `counts` (B, k) are: each by itself with probability 1 - beta.

    A third of beta for an L1 ball, a third for a divergence ball, a third for a box of exact binomial intervals.
    """
    possible = np.broadcast_to(possible, counts.shape)
    centre, n, cells = _frequencies(counts, possible), counts.sum(axis=-1), possible.sum(axis=-1)
    share = beta / 3
    pairs = zip(cells.tolist(), n.tolist(), strict=True)
    l1, divergence = np.array([(l1_radius(*pair, share), divergence_radius(*pair, share)) for pair in pairs]).T
    low, high = clopper_pearson(counts, n[:, None], share / (2 * cells[:, None]))
    alone = np.asarray(cells == 1)[:, None]  # the only possible symbol has probability 1
    low, high = np.where(possible, np.where(alone, 1.0, low), 0.0), np.where(possible, high, 0.0)
    return Intersection(
        (L1Ball(centre, l1, possible), DivergenceBall(centre, divergence, possible), Box(low, high, possible))
    )


def _variation(counts: np.ndarray, cells: int, beta: float) -> np.ndarray:
    """Total variation to the frequencies: half for the radius from the sizes, half for the one from the counts."""
    deterministic = [l1_radius(cells, int(n), beta / 2) for n in counts.sum(axis=-1)]
    return 0.5 * np.minimum(deterministic, empirical_radius(counts, beta / 2))


def population(
    counts: ArrayLike, beta: float = 0.05, *, possible: ArrayLike | None = None, held_out: bool = False
) -> Population:
    """Confidence sets for P(S, X) from counts (S, X), or from R independent tables (R, S, X) one by one.

    Args:
        counts: whole numbers; a private symbol without counts, and a table without any, are allowed (nothing
            is known of them then).
        beta: the probability, for each table, that any of the statements fails.
        possible: (S, X) truth values, pairs that can occur at all (None: all). It must be known without the
            data: where an attribute is private AND useful most pairs are impossible by definition.
        held_out: the mechanisms to be bounded do not depend on these counts.

    Raises:
        InputError: bad counts (argument and position named), a beta outside (0, 1), a contradiction
            between `possible` and the counts.
    """
    array = count_array(counts, "counts", ndim=(2, 3))
    beta, held_out = failure(beta), flag(held_out, "held_out")
    allowed = possible_array(possible, array)
    tables = array if array.ndim == 3 else array[None]
    batch, private, useful = tables.shape
    quarter = beta / 4
    shared = 0.5 if held_out else 1.0  # the rest is for the intervals of `seen_through`
    rows = np.broadcast_to(allowed, tables.shape).reshape(-1, useful)
    by_useful, by_private = tables.sum(axis=1), tables.sum(axis=2)
    return Population(
        counts=tables,
        possible=allowed,
        beta=beta,
        held_out=held_out,
        given=distribution_set(tables.reshape(-1, useful), rows, shared * quarter / private),
        useful=distribution_set(by_useful, np.any(allowed, axis=0, keepdims=True), shared * quarter / 2),
        private=distribution_set(by_private, np.ones((1, private), bool), quarter / 2),
        distance=_variation(tables.reshape(batch, -1), int(allowed.sum()), quarter),
        private_distance=_variation(by_private, private, quarter / 2),
        useful_distance=_variation(by_useful, int(allowed.any(axis=0).sum()), quarter / 2),
    )


def mechanism_stack(value: object, inputs: int) -> np.ndarray:
    """One mechanism (X, Y) or several (M, X, Y) as (M, X, Y), each checked."""
    array = np.asarray(value)
    if array.ndim == 3:
        return np.stack(
            [mechanism_array(mechanism, f"mechanism[{m}]", inputs=inputs) for m, mechanism in enumerate(array)]
        )
    return mechanism_array(value, inputs=inputs)[None]


def seen_through(known: Population, mechanism: ArrayLike) -> Outputs:
    """The intervals of P(y|s), P(y), P(s), for one mechanism (X, Y) or a stack (M, X, Y).

    If the population is of the held-out kind all M mechanisms share the probability of error.
    """
    batch, private, useful = known.counts.shape
    stack = mechanism_stack(mechanism, useful)
    count, _, outputs = stack.shape
    columns = np.moveaxis(stack, 1, 2).reshape(-1, useful)  # (M Y, X)

    def limits(chosen: AbstractConfidenceSet, samples: np.ndarray, beta: float) -> Interval:
        low, high = chosen.lower(columns), chosen.upper(columns)
        if known.held_out:
            means = mean_interval(samples, columns, beta)
            low, high = np.maximum(low, means[0]), np.minimum(high, means[1])
        return low, high

    given = limits(known.given, known.counts.reshape(-1, useful), known.beta / 8 / private)
    given_low, given_high = (np.moveaxis(end.reshape(batch, private, count, outputs), 1, 2) for end in given)
    alone = limits(known.useful, known.counts.sum(axis=1), known.beta / 16)
    low, high = (end.reshape(batch, count, outputs) for end in alone)
    # P(y) is a mixture of the P(y|s).
    low, high = np.maximum(low, given_low.min(axis=2)), np.minimum(high, given_high.max(axis=2))
    identity = np.eye(private)
    return Outputs(
        given_low=np.maximum(given_low, 0.0),
        given_high=np.minimum(given_high, 1.0),
        low=np.maximum(low, 0.0),
        high=np.minimum(high, 1.0),
        private=known.private,
        private_low=np.maximum(known.private.lower(identity), 0.0),
        private_high=known.private.upper(identity),
        least=stack.min(axis=1),
        most=stack.max(axis=1),
    )
