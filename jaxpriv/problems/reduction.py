"""Smaller, scaled programs with the same optimum, and the way back.

Exact facts, none of which a certificate relies on (it is computed on the original program):

* a symbol without mass changes nothing (nor, beyond any rounding, one of mass 1e-100);
* private symbols with the same P(x|s) are one symbol: the leakage sees S only through P(s|x), and
  merged symbols keep their share of every posterior. With X = f(S) this is Corollary 1,
  I(S;Y) = I(X;Y), however large |S| is;
* useful symbols with the same posterior and the same costs are one symbol: by convexity their rows
  may be averaged;
* private symbols may be told in any order: where X = f(S) the merged ones take the order of their x, and
  the joint is a diagonal matrix (`Program.diagonal`);
* a constant added to a row of a cost shifts its value, because rows of W sum to one.
"""

from dataclasses import dataclass

import numpy as np

from jaxpriv.problems.program import Form, Program

# Distributions that agree to this many decimals are merged; the certificate sees the difference.
_DECIMALS = 14
# Masses so small that products of them leave float64's range: to the iteration they are absent.
_NEGLIGIBLE = 1e-100


@dataclass(frozen=True)
class Reduction:
    """A reduced program and what is needed to read its solution as one of the original program."""

    program: Program
    private_class: np.ndarray  # (S,) class of each private symbol, -1 without mass
    useful_class: np.ndarray  # (X,) class of each useful symbol, -1 without mass
    constraint_scale: np.ndarray  # (R,)
    cost_scale: float
    cost_shift: float  # original objective = cost_scale * (reduced objective) + cost_shift

    def mechanism(self, reduced: np.ndarray, masses: np.ndarray) -> np.ndarray:
        """(X', Y) -> (X, Y); symbols without mass release the marginal of Y."""
        marginal = masses @ reduced
        rows = np.vstack([reduced, marginal / marginal.sum()])
        return rows[self.useful_class]

    def scores(self, reduced: np.ndarray) -> np.ndarray:
        """(K, Y, S') -> (K, Y, S)."""
        padded = np.concatenate([reduced, np.zeros((*reduced.shape[:2], 1))], axis=2)
        return padded[:, :, self.private_class]

    def multipliers(self, reduced: np.ndarray) -> np.ndarray:
        """Multipliers of the unscaled constraints."""
        return reduced * self.cost_scale / self.constraint_scale

    def weights(self, reduced: np.ndarray) -> np.ndarray:
        """Weights of the leakages in units of the unscaled cost."""
        return reduced * self.cost_scale


def reduce(program: Program, neighbour: Reduction | None = None) -> Reduction:
    """Drop, merge, shift and scale. `program` is on the host, float64.

    `neighbour` is a reduction of the same problem at another budget: its classes serve again.
    """
    joints = np.asarray(program.joints)
    if neighbour is None:
        useful_class = _useful_classes(program, joints, joints.sum(axis=1))
        private_class = _private_classes(joints)
    else:
        useful_class, private_class = neighbour.useful_class, neighbour.private_class
    _, private, inputs = joints.shape

    kept = np.maximum(useful_class, -1)
    count = kept.max() + 1
    if count < inputs:
        first = np.array([np.argmax(kept == c) for c in range(count)])
        gather = np.zeros((count, inputs))
        gather[kept[kept >= 0], np.flatnonzero(kept >= 0)] = 1.0
        joints = joints @ gather.T
        constraints = np.einsum("cx,rxy->rcy", gather, program.constraints)
        cost, anchor, support = gather @ program.cost, program.anchor[first], program.support[first]
    else:
        constraints, cost = program.constraints, program.cost
        anchor, support = program.anchor, program.support
    diagonal = joints.shape[0] == 1
    if diagonal and neighbour is None:
        private_class = _in_order_of_useful(private_class, joints[0])
    if (private_class != np.arange(private)).any():
        gather = np.zeros((private_class.max() + 1, private))
        seen = private_class >= 0
        gather[private_class[seen], np.flatnonzero(seen)] = 1.0
        joints = np.einsum("cs,ksx->kcx", gather, joints)

    # Above the cheapest output of each row, and on the scale of one.
    constraints = np.where(support, constraints, 0.0)
    floors = np.where(support, constraints, np.inf).min(axis=2)
    constraints = np.where(support, constraints - floors[:, :, None], 0.0)
    scale = constraints.sum(axis=1).max(axis=1, initial=0.0)
    scale = np.where(scale > 0, scale, 1.0)
    lowest = np.where(support, cost, np.inf).min(axis=1, keepdims=True)
    cost = np.where(support, cost - lowest, 0.0)
    cost_scale = float(cost.sum(axis=0).max()) if program.form is Form.LIMIT else 1.0
    cost_scale = cost_scale if cost_scale > 0 else 1.0
    reduced = Program(
        joints=joints,
        cost=cost / cost_scale,
        constraints=constraints / scale[:, None, None],
        budgets=(program.budgets - floors.sum(axis=1)) / scale,
        limit=np.asarray(program.limit),
        support=support,
        anchor=anchor,
        form=program.form,
        diagonal=diagonal and _is_diagonal(joints[0]),
        equal=program.equal,
    )
    return Reduction(reduced, private_class, useful_class, scale, cost_scale, float(lowest.sum()))


def _classes(keys: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Class numbers of equal rows among the present ones, in order of first appearance; -1 elsewhere."""
    rows = np.flatnonzero(present)
    if _all_differ(keys[rows, :1]):
        return _each_its_own(present)
    result = np.full(len(keys), -1)
    rounded = np.ascontiguousarray(np.round(keys[rows], _DECIMALS) + 0.0)  # + 0.0: no negative zeros
    numbers: dict[bytes, int] = {}
    for row, key in zip(rows, rounded, strict=True):
        result[row] = numbers.setdefault(key.tobytes(), len(numbers))
    return result


def _all_differ(column: np.ndarray) -> bool:
    """Whether all entries of a column differ in the digits that count: then so do the rows it is taken from."""
    ordered = np.sort(np.round(column, _DECIMALS), axis=None)
    return bool((ordered[1:] != ordered[:-1]).all())


def _each_its_own(present: np.ndarray) -> np.ndarray:
    return np.where(present, np.cumsum(present) - 1, -1)


def _private_classes(joints: np.ndarray) -> np.ndarray:
    present = joints.sum(axis=(0, 2)) > _NEGLIGIBLE
    if joints.shape[0] > 1:  # one merge would have to suit every joint; only empty symbols are dropped
        return _each_its_own(present)
    total = joints[0].sum(axis=1, keepdims=True)
    return _classes(joints[0] / np.where(total > 0, total, 1.0), present)


def _in_order_of_useful(private_class: np.ndarray, joint: np.ndarray) -> np.ndarray:
    """Class numbers in the order of the x that each class shows, if each shows a single one of its own."""
    seen = joint[private_class >= 0] > 0
    if (seen.sum(axis=1) != 1).any() or private_class.max() + 1 != joint.shape[1]:
        return private_class
    place = np.full(joint.shape[1], -1)
    place[private_class[private_class >= 0]] = seen.argmax(axis=1)
    return np.where(private_class >= 0, place[private_class], -1) if (np.bincount(place) == 1).all() else private_class


def _is_diagonal(joint: np.ndarray) -> bool:
    return joint.shape[0] == joint.shape[1] and bool(np.count_nonzero(joint) == np.count_nonzero(np.diagonal(joint)))


def _useful_classes(program: Program, joints: np.ndarray, masses: np.ndarray) -> np.ndarray:
    present = masses.sum(axis=0) > _NEGLIGIBLE
    total = np.where(present, masses.sum(axis=0), 1.0)
    shares = joints[0, 0] / total  # the first of the keys below, mostly enough
    if _all_differ(shares[present] / (abs(shares).max(initial=0.0) or 1.0)):
        return _each_its_own(present)
    parts = [joints.reshape(-1, joints.shape[2]).T]
    relative = [*program.constraints, program.cost]
    parts += [part - part.min(axis=1, keepdims=True) for part in relative]
    keys = np.concatenate([part / total[:, None] for part in parts] + [program.support], axis=1)
    # Costs of very different scale: compare each on its own scale.
    size = abs(keys).max(axis=0)
    return _classes(keys / np.where(size > 0, size, 1.0), present)
