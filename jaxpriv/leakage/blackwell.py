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

from jaxpriv._module import summary
from jaxpriv._validation import scalar
from jaxpriv.leakage.evaluation import checked_pair

__all__ = ["BlackwellOrder", "blackwell_order"]


@dataclass(frozen=True)
class BlackwellOrder:
    """How two releases of one S compare for all average measures.

    Attributes:
        safer: "first" or "second", which is a garbling of the other one; "equivalent", both; "incomparable", neither.
        garblings: R (Y2, Y1) from the second release to the first, and R (Y1, Y2) from the first to the second, those
            nearest; exact up to `distances`.
        distances: sums of | P(s,y) - P(s,z) R(y|z) | over s and y, each at most 2.
        gains: (actions, s) in [0, 1], by which the first release gives more than the second, and the other way round;
            None where it is a garbling. `GainLeakage(gains)` measures both releases.
        advantages: by how much the expected gain is larger, computed from `gains`; 0 where there is none.
    """

    safer: Literal["first", "second", "equivalent", "incomparable"]
    garblings: tuple[np.ndarray, np.ndarray]
    distances: tuple[float, float]
    gains: tuple[np.ndarray | None, np.ndarray | None]
    advantages: tuple[float, float]

    __repr__ = summary


def blackwell_order(joint: ArrayLike, first: object, second: object, *, tol: float = 1e-9) -> BlackwellOrder:
    """Which of two mechanisms (x, y) and (x, z) is safer for every average measure under a joint (s, x).

    A safer one has the smaller mutual information, Sibson, Arimoto and maximal leakage, f-information, g-leakage and
    cost gain, whatever the parameters. A difference is stated only if a gain function proves it by more than `tol`.
    Errors as of `evaluate`. Blackwell 1951; McIver et al. 2014 (the coriaceous theorem).
    """
    tol = scalar(tol, "tol", low=0.0, open_low=True)
    one, other = (np.matmul(*checked_pair(joint, each)) for each in (first, second))
    found = [_nearest(one, other), _nearest(other, one)]
    garbled = [advantage <= tol for _, _, _, advantage in found]
    safer = {(True, True): "equivalent", (True, False): "first", (False, True): "second"}.get(
        (garbled[0], garbled[1]), "incomparable"
    )
    garblings, distances, gains, advantages = zip(*found, strict=True)
    return BlackwellOrder(
        safer,
        garblings,
        distances,
        tuple(None if none else gain for none, gain in zip(garbled, gains, strict=True)),
        tuple(0.0 if none else advantage for none, advantage in zip(garbled, advantages, strict=True)),
    )


def _nearest(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, float, np.ndarray, float]:
    """(the garbling R (Z, Y) of P(s,z) nearest to P(s,y), its distance, the gain (Y, S), what it proves)."""
    from scipy.optimize import linprog  # costs a third of a second: imported where needed
    from scipy.sparse import coo_array, eye_array, hstack, kron

    (symbols, actions), outputs = one.shape, other.shape[1]
    cells, apart = outputs * actions, symbols * actions
    signs = eye_array(apart)
    whole = hstack([kron(eye_array(outputs), np.ones((1, actions))), coo_array((outputs, 2 * apart))])
    equal = hstack([kron(other, eye_array(actions)), signs, -signs])
    system = np.vstack([equal.toarray(), whole.toarray()])
    cost = np.append(np.zeros(cells), np.ones(2 * apart))
    result = linprog(cost, A_eq=system, b_eq=np.append(one.ravel(), np.ones(outputs)), bounds=(0, None), method="highs")
    if result.status != 0:  # bounded and feasible by construction, so this is a failure of the backend
        raise ArithmeticError(f"the linear program of a garbling failed: {result.message}")
    garbling = np.maximum(result.x[:cells].reshape(outputs, actions), 0.0)
    garbling /= garbling.sum(axis=1, keepdims=True)
    gains = 0.5 + 0.5 * np.clip(result.eqlin.marginals[:apart].reshape(symbols, actions), -1.0, 1.0).T
    advantage = (gains @ one).max(axis=0).sum() - (gains @ other).max(axis=0).sum()
    return garbling, float(abs(one - other @ garbling).sum()), gains, float(advantage)
