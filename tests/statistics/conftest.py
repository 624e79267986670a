"""One shape for all audits, black boxes included, so that the measures are compiled once; joints; columns."""

import numpy as np
import pytest

from jaxpriv.leakage import by_name, evaluate_all, report
from jaxpriv.statistics.tables.readers import read_columns

PRIVATE, USEFUL, RELEASED = 3, 4, 4
GENERATOR = np.random.default_rng(11)
MECHANISM = GENERATOR.dirichlet(np.full(RELEASED, 2.0), USEFUL)
# With an output that never occurs, an exact zero, and one that few get.
SHARP = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.9, 0.1, 0.0], [0.3, 0.3, 0.4, 0.0], [0.2, 0.3, 0.5, 0.0]])
PRIOR = np.array([0.5, 0.3, 0.2])
ROWS = GENERATOR.dirichlet(np.ones(USEFUL), PRIVATE)
JOINTS = {
    "independent": PRIOR[:, None] * ROWS[0],
    "weak": PRIOR[:, None] * (0.9 * ROWS[0] + 0.1 * ROWS),
    "strong": PRIOR[:, None] * (0.1 * ROWS + 0.9 * np.eye(PRIVATE, USEFUL)),
    "rare": np.array([0.979, 0.02, 0.001])[:, None] * ROWS,
    "unseen": np.array([0.7 - 1e-7, 0.3, 1e-7])[:, None] * ROWS,
}


def sampled(joint, draws, repeats, seed=0):
    """Counts of `repeats` samples."""
    return np.random.default_rng(seed).multinomial(draws, joint.ravel(), size=repeats).reshape(-1, *joint.shape)


def read(source, *names):
    """The columns of a table as the readers give them, by name."""
    return read_columns(source, list(names))


def column(values, name="a"):
    return read({name: values}, name)[name]


@pytest.fixture(scope="session")
def measures():
    """Every measure of a report."""
    rows = report(JOINTS["weak"], MECHANISM).rows
    return tuple(by_name(r.name, form=r.form, order=r.order, divergence=r.divergence) for r in rows)


@pytest.fixture(scope="session")
def truth(measures):
    """`truth(joint, mechanism)`: the values of all measures."""

    def values(joint, mechanism=MECHANISM):
        return np.array([one.value for one in evaluate_all(measures, joint, mechanism)])

    return values
