"""What sets of quasi-identifiers say about the private attribute of a record: attribute inference in microdata."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from jaxpriv.data.datasets._layout import columns_added, distinct_rows
from jaxpriv.leakage import CorrectGuess
from jaxpriv.problems import FunnelProblem
from jaxpriv.solving.solve import solve
from jaxpriv.statistics.audit import binomial
from jaxpriv.statistics.audit._information import entropy
from jaxpriv.statistics.audit.evidence import guessed_right
from jaxpriv.statistics.confidence.intervals import clopper_pearson


@dataclass(frozen=True)
class AttributeRow:
    """What the columns A of the quasi-identifiers X say about S. Probabilities of a record that is drawn at random.

    Attributes:
        columns: A, numbers of columns, or their names where these were given; without any of them `guess` is the best
            one without data.
        certain: that all records with its x_A have the same s: the deterministic attack.
        guess: that the best guess of s from x_A is correct, sum_a max_s P(s, a): the probabilistic attack.
        lower, upper: of `guess` in the population.
        disclosure: I(X;X_A) = H(X_A), nats: what the columns A say about all of them.
        optimum: the least `guess` that was found of any release of X with I(X;Y) = `disclosure`; None: not asked for.
        least: certified: no such release has less.
    """

    columns: tuple[int | str, ...]
    certain: float
    guess: float
    lower: float
    upper: float
    disclosure: float
    optimum: float | None = None
    least: float | None = None


def attribute_rows(
    choosing: np.ndarray, counting: np.ndarray, attributes: np.ndarray, most: int, beta: float, optimum: float | None
) -> Iterator[AttributeRow]:
    """The rows of all sets of at most so many columns, smaller ones first.

    `choosing` and `counting` (S, X) are counts of two independent samples of the population. The values of `upper` hold
    together with probability 1 - beta, and so do those of `lower`. More columns allow no worse guess, so the lower
    bounds of the sets within a set are its own too. `optimum`: seconds for each of them.
    """
    columns = attributes.shape[1]
    sizes = attributes.max(axis=0) + 1
    chosen = [subset for count in range(most + 1) for subset in combinations(range(columns), count)]
    share, n = beta / len(chosen), int(choosing.sum() + counting.sum())
    joint = (choosing + counting) / n
    bounds: dict[tuple[int, ...], float] = {}
    for subset in chosen:
        codes = attributes[:, subset]
        place = (
            distinct_rows(codes, sizes[list(subset)].tolist())[1] if subset else np.zeros(len(codes), dtype=np.int64)
        )
        first, second = (columns_added(half, place) for half in (choosing, counting))
        table = first + second
        within = [bounds[subset[:k] + subset[k + 1 :]] for k in range(len(subset))]
        hits = guessed_right(first, second)
        bounds[subset] = max(float(clopper_pearson(hits, second.sum(), share)[0]), *within, 0.0)
        guess = float(table.max(axis=0).sum() / n)
        disclosure = float(entropy(table.sum(axis=0) / n))
        value = bound = None
        if optimum is not None:
            value = bound = guess  # nothing is disclosed, or x itself
            if 1 < table.shape[1] < len(place):
                # The optimum may not be worse for the rounding of an entropy.
                asked = max(0.0, disclosure * (1 - 1e-9) - 1e-12)
                problem = FunnelProblem(joint, disclosure=asked, leakage=CorrectGuess())
                solution = solve(problem, time_limit=optimum)
                value, bound = min(float(solution.value), guess), float(solution.lower_bound)
        certain = float(table[:, np.count_nonzero(table, axis=0) == 1].sum() / n)
        upper = binomial.correct_guess(table, share)
        yield AttributeRow(subset, certain, guess, bounds[subset], upper, disclosure, value, bound)
