"""All measures in one compiled function, and random instances of one shape with every kind of zero."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpriv.leakage as lk
from tests.cases import drawn_joint

ORDERS = (0.05, 0.5, 0.999, 1.0, 1.001, 2.0, 5.0, 50.0, np.inf)


def _all_measures() -> dict[str, lk.AbstractLeakage]:
    losses = np.random.default_rng(7).normal(size=(4, 3))
    gains = np.random.default_rng(8).random(size=(3, 4)) + np.eye(3, 4)
    ring = np.abs(np.subtract.outer(np.arange(4), np.arange(4))) % 2 == 1
    divergences = {name: lk.by_name("f-information", divergence=name) for name in lk.DIVERGENCES if name != "e-gamma"}
    return {
        "mutual-information": lk.MutualInformation(),
        "max-information": lk.MaxInformation(),
        "relative-entropy": lk.RelativeEntropyPrivacy(),
        "correct-guess": lk.CorrectGuess(),
        "min-entropy": lk.MinEntropyLeakage(),
        "maximal-leakage": lk.MaximalLeakage(),
        "g-leakage": lk.GainLeakage(gains),
        # One Module holding every order, for vmap: another order is only another number.
        "sibson": eqx.filter_vmap(lk.Sibson)(np.array(ORDERS)),
        "arimoto": eqx.filter_vmap(lk.Arimoto)(np.array(ORDERS)),
        **{f"f {name}": measure for name, measure in divergences.items()},
        "f e-gamma": lk.FInformation(lk.EGamma(1.2)),
        "f user": lk.FInformation(lk.UserDivergence(lambda t: t * jnp.log(t), at_zero=0.0)),
        **{
            f"{form} gain {name}": gain(cost)
            for form, gain in (("average", lk.AverageCostGain), ("maximum", lk.MaxCostGain))
            for name, cost in (
                ("log-loss", lk.LogLoss()),
                ("zero-one", lk.ZeroOneLoss()),
                ("brier", lk.BrierLoss()),
                ("matrix", lk.LossMatrix(losses)),
            )
        },
        "lift": lk.Lift(),
        "max-lift": lk.MaxLift(),
        "min-lift": lk.MinLift(),
        "ldp": lk.LocalDifferentialPrivacy(),
        "ldp of neighbours": lk.LocalDifferentialPrivacy(ring),
        "inferential": lk.InferentialPrivacy(),
    }


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
    return _all_measures()


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
    """(joint, mechanism) -> {name: value}, of every order for the families "sibson" and "arimoto"."""

    def stack(joint, mechanism):
        values = {}
        for name, measure in measures.items():
            if name in ("sibson", "arimoto"):
                by_order = eqx.filter_vmap(lambda m: m(joint, mechanism))(measure)
                values |= {f"{name} {order}": by_order[i] for i, order in enumerate(ORDERS)}
            else:
                values[name] = measure(joint, mechanism)
        return values

    return stack


@pytest.fixture(scope="session")
def values_of(stack_of):
    """(joints, mechanisms), batched -> {name: values}; compiled once for each shape."""
    compiled = jax.jit(jax.vmap(stack_of))
    return lambda joints, mechanisms: {k: np.asarray(v) for k, v in compiled(joints, mechanisms).items()}


@pytest.fixture(scope="session")
def orders():
    return ORDERS
