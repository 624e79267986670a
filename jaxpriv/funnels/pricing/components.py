"""The components of the support of P(S,X).

If S = (A, S') and X = (A, X') share an attribute A, the joint is block diagonal after sorting; A is found as the
component of the bipartite graph that joins s and x where P(s,x) > 0.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Component:
    """One value of the shared attribute.

    Attributes:
        private, useful: which symbols of the whole joint it has.
        mass: P(A = a).
        joint: P(S,X | A = a), shape (S_a, X_a).
    """

    private: np.ndarray
    useful: np.ndarray
    mass: float
    joint: np.ndarray

    @property
    def source(self) -> np.ndarray:
        """P(X | A = a), shape (X_a,)."""
        return self.joint.sum(axis=0)

    @property
    def prior(self) -> np.ndarray:
        """P(S | A = a), shape (S_a,)."""
        return self.joint.sum(axis=1)

    @property
    def conditional(self) -> np.ndarray:
        """T_a = P(S | X), shape (S_a, X_a)."""
        return self.joint / self.source


def blocks_of(joint: np.ndarray) -> tuple[Component, ...]:
    """The components of `joint` (S, X), whose every row and column has mass, in the order of their useful symbols."""
    from scipy.sparse import bmat, csr_matrix  # costs a tenth of a second: imported where needed
    from scipy.sparse.csgraph import connected_components

    edges = csr_matrix(joint > 0)
    count, label = connected_components(bmat([[None, edges], [edges.T, None]]), directed=False)
    rows, columns = label[: joint.shape[0]], label[joint.shape[0] :]
    components = []
    for number in range(count):
        private, useful = np.flatnonzero(rows == number), np.flatnonzero(columns == number)
        part = joint[np.ix_(private, useful)]
        mass = float(part.sum())
        components.append(Component(private, useful, mass, part / mass))
    return tuple(sorted(components, key=lambda block: int(block.useful[0])))


def whole_block(joint: np.ndarray) -> Component:
    """All of `joint` (S, X), total one, as if it had no shared attribute."""
    return Component(np.arange(len(joint)), np.arange(joint.shape[1]), 1.0, joint)
