"""All measures in one compiled function, and random instances of one shape with every kind of zero."""

import functools
import operator

import equinox as eqx
import jax
import numpy as np
import pytest

import jaxpriv.leakage as lk
from tests.cases import drawn_joint
from tests.problems.measured_cases import MEASURES, TWINS

ORDERS = (0.05, 0.5, 0.999, 1.0, 1.001, 2.0, 5.0, 50.0, np.inf)


# One Module of each family holds every order, for vmap: another order is only another number.
FAMILIES = {"sibson": lk.Sibson, "arimoto": lk.Arimoto}
ALL = {name: one for name, one in MEASURES.items() if not name.startswith((*FAMILIES, "maximal-alpha"))}
ALL |= {name: eqx.filter_vmap(family)(np.array(ORDERS)) for name, family in FAMILIES.items()}
ALL |= {"user": TWINS["kl"]}


def _rows(array: np.ndarray) -> np.ndarray:
    return array / array.sum(axis=-1, keepdims=True)


def _joint(rng: np.random.Generator, kind: int) -> np.ndarray:
    joint = drawn_joint(rng, 4, 5, 0.7)
    if kind % 4 == 1:
        joint = joint * (rng.random((4, 5)) < 0.6)
        joint[0, 0] += 0.1
    if kind % 4 == 2:
        joint[rng.integers(4)] = 0.0
    if kind % 8 == 7:
        joint[1] *= 1e-200
    return joint / joint.sum()


def _mechanism(rng: np.random.Generator, kind: int) -> np.ndarray:
    mechanism = _rows(rng.random((5, 6)) + 1e-3)
    if kind % 7 == 1:
        mechanism = mechanism * (rng.random((5, 6)) < 0.5)
        mechanism[:, 0] += 0.05
    if kind % 7 == 2:
        mechanism[:, 3] = 0.0
    if kind % 7 == 3:
        mechanism = np.eye(6)[rng.integers(6, size=5)]
    if kind % 7 == 4:
        mechanism = np.ones((5, 1)) * mechanism[:1] + 1e-7 * mechanism
    if kind % 7 == 5:
        mechanism[:, 2] *= 1e-150
    return _rows(mechanism)


@pytest.fixture(scope="session")
def measures() -> dict[str, lk.AbstractLeakage]:
    return ALL


@pytest.fixture(scope="session")
def instances():
    """seed -> (joints (28, 4, 5), mechanisms (28, 5, 6)), dense and with zeros of every kind."""

    def draw(seed: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        joints = np.stack([_joint(rng, kind) for kind in range(28)])
        return joints, np.stack([_mechanism(rng, kind) for kind in range(28)])

    return draw


@pytest.fixture(scope="session")
def interior():
    """seed -> one joint (4, 5) and mechanism (5, 6) without small entries."""

    def draw(seed: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        joint = 0.1 + rng.random((4, 5)) ** 2
        return joint / joint.sum(), _rows(0.1 + rng.random((5, 6)) ** 2)

    return draw


@pytest.fixture(scope="session")
def stack_of(measures):
    """`stack_of(each)`: (joint, mechanism) -> {name: each(measure)(joint, mechanism)}, of every order for "sibson" and
    "arimoto".
    """

    def stacked(each, joint, mechanism):
        values = {}
        for name, measure in measures.items():
            if name in FAMILIES:
                by_order = eqx.filter_vmap(lambda m: each(m)(joint, mechanism))(measure)
                values |= {
                    f"{name} {order}": jax.tree.map(operator.itemgetter(i), by_order) for i, order in enumerate(ORDERS)
                }
            else:
                values[name] = each(measure)(joint, mechanism)
        return values

    return lambda each: functools.partial(stacked, each)


@pytest.fixture(scope="session")
def values_of(stack_of):
    """(joints, mechanisms), batched -> {name: values}; compiled once for each shape."""
    compiled = jax.jit(jax.vmap(stack_of(lambda measure: measure)))
    return lambda joints, mechanisms: {k: np.asarray(v) for k, v in compiled(joints, mechanisms).items()}


@pytest.fixture(scope="session")
def orders():
    return ORDERS
