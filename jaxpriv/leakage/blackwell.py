"""Which of two releases of S is safer for every average measure: the order of Blackwell.

The first release leaks at most what the second does, by every gain function, if and only if it is a garbling of it:
P(s,y) = sum_z P(s,z) R(y|z) for some R. The least distance to a garbling is a linear program,

    min over R of sum_{s,y} | P(s,y) - sum_z P(s,z) R(y|z) |
        = max over |G| <= 1 of sum_{s,y} G(s,y) P(s,y) - sum_z max_y sum_s G(s,y) P(s,z) ,

and its dual a gain function, with the outputs of the first release as actions, by which that release gives more.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.module import summary
from jaxpriv._runtime.validation import on_host, scalar
from jaxpriv.leakage.evaluation import checked_pair

__all__ = ["BlackwellOrder", "Garbling", "blackwell_order"]


@dataclass(frozen=True)
class Garbling:
    """How near one release is to a garbling of another one.

    Attributes:
        matrix: R(y|z), (Z, Y): the garbling that is nearest.
        distance: sum over s and y of | P(s,y) - sum_z P(s,z) R(y|z) |, at most 2.
        gains: (actions, s) in [0, 1], a gain function for `GainLeakage`.
        advantage: by how much the expected gain from the release is larger than that from the other one: a positive one
            proves that the release is no garbling.
    """

    matrix: np.ndarray
    distance: float
    gains: np.ndarray
    advantage: float

    __repr__ = summary


@dataclass(frozen=True)
class BlackwellOrder:
    """How two releases of one S compare for all average measures.

    Attributes:
        safer: "first" or "second", which is a garbling of the other one up to gains of `tol`; "equivalent", both;
            "incomparable", neither.
        first: the first release as a garbling of the second, or the gain by which it leaks more.
        second: the second release as a garbling of the first, or the gain by which it leaks more.
    """

    safer: Literal["first", "second", "equivalent", "incomparable"]
    first: Garbling
    second: Garbling

    __repr__ = summary


def blackwell_order(joint: ArrayLike, first: object, second: object, *, tol: float = 1e-9) -> BlackwellOrder:
    """Which of two mechanisms (x, y) and (x, z) is safer for every average measure under a joint (s, x).

    A safer one has the smaller mutual information, Sibson, Arimoto and maximal leakage, f-information, g-leakage and
    cost gain, whatever the parameters. That one is no garbling is stated only where a gain function proves it by more
    than `tol`: what one tells of symbols with a probability below `tol` is not seen, which maximal leakage counts in
    full. Errors as of `evaluate`. Blackwell 1951; McIver et al. 2014 (the coriaceous theorem).
    """
    on_host(tol)
    tol = scalar(tol, "tol", low=0.0, open_low=True)
    named = {"first": first, "second": second}
    first_joint, second_joint = (np.matmul(*checked_pair(joint, each, name)) for name, each in named.items())
    of_first, of_second = _nearest(first_joint, second_joint), _nearest(second_joint, first_joint)
    if of_first.advantage <= tol:
        safer = "first" if of_second.advantage > tol else "equivalent"
    else:
        safer = "incomparable" if of_second.advantage > tol else "second"
    return BlackwellOrder(safer, of_first, of_second)


def _nearest(target: np.ndarray, source: np.ndarray) -> Garbling:
    """P(s,y) (S, Y) as a garbling of P(s,z) (S, Z)."""
    from scipy.optimize import linprog  # costs a third of a second: imported where needed

    (symbols, actions), outputs = target.shape, source.shape[1]
    cells, apart = outputs * actions, symbols * actions
    differences, sums = np.kron(source, np.eye(actions)), np.kron(np.eye(outputs), np.ones(actions))
    none = np.zeros((outputs, apart))
    system = np.block([[differences, np.eye(apart), -np.eye(apart)], [sums, none, none]])
    cost = np.append(np.zeros(cells), np.ones(2 * apart))
    result = linprog(
        cost, A_eq=system, b_eq=np.append(target.ravel(), np.ones(outputs)), bounds=(0, None), method="highs"
    )
    if result.status != 0:  # bounded and feasible by construction, so this is a failure of the backend
        raise ArithmeticError(f"the linear program of a garbling failed: {result.message}")
    garbling = np.maximum(result.x[:cells].reshape(outputs, actions), 0.0)
    garbling /= garbling.sum(axis=1, keepdims=True)
    gains = 0.5 + 0.5 * np.clip(result.eqlin.marginals[:apart].reshape(symbols, actions), -1.0, 1.0).T
    advantage = (gains @ target).max(axis=0).sum() - (gains @ source).max(axis=0).sum()
    return Garbling(garbling, float(abs(target - source @ garbling).sum()), gains, float(advantage))
