"""Distortions: every constructor against its definition, blocks against the whole, and refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from numpy.testing import assert_allclose, assert_array_equal

from jaxpriv import distortion
from jaxpriv.data.distortion import as_distortion, dense
from tests.cases import refused

RNG = np.random.default_rng(0)
X, Y = RNG.integers(0, 4, (6, 3)).astype(float), RNG.integers(0, 4, (5, 3)).astype(float)
WEIGHTS = np.array([0.5, 2.0, 0.0])

# (operator, d(x, y) of two feature vectors)
CASES = {
    "absolute": (distortion.absolute(X, Y), lambda a, b: sum(abs(u - v) for u, v in zip(a, b, strict=True))),
    "absolute of numbers": (distortion.absolute(X[:, 0], Y[:, 0]), lambda a, b: abs(a[0] - b[0])),
    "squared": (distortion.squared(X, Y), lambda a, b: sum((u - v) ** 2 for u, v in zip(a, b, strict=True))),
    "hamming": (distortion.hamming(X[:, 0], Y[:, 0]), lambda a, b: float(a[0] != b[0])),
    "changed": (distortion.changed_attributes(X, Y), lambda a, b: sum(u != v for u, v in zip(a, b, strict=True))),
    "weighted": (
        distortion.changed_attributes(X, Y, weights=WEIGHTS),
        lambda a, b: sum(w * (u != v) for w, u, v in zip(WEIGHTS, a, b, strict=True)),
    ),
    "function": (
        distortion.from_function(lambda a, b: jnp.max(jnp.abs(a - b)) + 0.1 * a[0], X, Y),
        lambda a, b: max(abs(u - v) for u, v in zip(a, b, strict=True)) + 0.1 * a[0],
    ),
    "matrix": (as_distortion(X @ Y.T), lambda a, b: a @ b),
}


@pytest.mark.parametrize("name", CASES)
def test_every_entry_is_its_definition(name):
    operator, rule = CASES[name]
    expected = [[rule(a, b) for b in Y] for a in X]
    assert operator.shape == (6, 5)
    table = dense(operator)
    assert table.dtype == np.float64
    assert_allclose(table, expected, rtol=1e-15)
    assert_allclose(operator.matrix(), expected, rtol=1e-15)


@pytest.mark.parametrize("index", [np.array([4, 0, 0]), slice(1, 4), np.array([2])], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_blocks_are_rows_of_the_whole(name, index):
    operator, _ = CASES[name]
    assert_array_equal(operator.rows(index), np.asarray(operator.matrix())[index])


def test_the_released_alphabet_is_the_useful_one_by_default():
    for make in (distortion.absolute, distortion.squared, distortion.changed_attributes):
        assert_array_equal(make(X).matrix(), make(X, X).matrix())
    assert_array_equal(distortion.hamming(4).matrix(), 1 - np.eye(4))
    assert_array_equal(distortion.hamming(3, 4).matrix(), 1 - np.eye(3, 4))
    assert_array_equal(distortion.hamming([7, 9]).matrix(), 1 - np.eye(2))


def test_a_rule_is_evaluated_in_float64_whatever_the_caller_uses():
    with jax.enable_x64(False):
        table = dense(distortion.from_function(lambda a, b: jnp.exp(a[0] - b[0]), [1.0, 2.0], [0.3]))
    assert_allclose(table[:, 0], np.exp([0.7, 1.7]), rtol=1e-15)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: distortion.absolute([0.0, np.nan]), r"^x\[1, 0\] is NaN|^x\[1\] is NaN"),
        (lambda: distortion.squared([0.0], [np.inf]), r"^y\[0\] is infinite"),
        (lambda: distortion.absolute(X, Y[:, :2]), r"^x has 3 feature\(s\) a symbol, y has 2"),
        (lambda: distortion.absolute(np.zeros((2, 2, 2))), r"^x has 3 dimension\(s\)"),
        (lambda: distortion.absolute([]), r"^x is empty along axis 0"),
        (lambda: distortion.absolute(["a", "b"]), r"^x has dtype"),
        (lambda: distortion.hamming(0), r"^x must be an alphabet size >= 1"),
        (lambda: distortion.hamming(2.5), r"^x must be an alphabet size >= 1"),
        (lambda: distortion.hamming(3, -1), r"^y must be an alphabet size >= 1"),
        (lambda: distortion.hamming(True), r"^x has"),
        (lambda: distortion.changed_attributes(X, weights=[1.0, 1.0]), r"^weights has 2 entries; .* 3 attribute"),
        (lambda: distortion.changed_attributes(X, weights=[1.0, -1.0, 1.0]), r"^weights\[1\] is negative"),
        (lambda: distortion.changed_attributes(X, weights=[1.0, np.nan, 1.0]), r"^weights\[1\] is NaN"),
        (lambda: as_distortion(np.zeros(3)), r"^distortion has 1 dimension"),
        (lambda: as_distortion([[0.0, np.nan]], "d"), r"^d\[0, 1\] is NaN"),
    ],
)
def test_refusals(make, message):
    with refused(message):
        make()


def test_a_rule_that_fails_is_named_by_position():
    broken = distortion.from_function(lambda a, b: jnp.log(a[0] - b[0]), [1.0, 2.0], [0.0, 1.5])
    with refused(r"^distortion\[0, 1\] is NaN"):
        dense(broken)
    endless = distortion.from_function(lambda a, b: -1 / (a[0] - b[0]), [1.0, 2.0], [0.0, 2.0])
    with refused(r"^cost\[1, 1\] is -inf"):
        dense(endless, "cost")


class Lying(distortion.Pairwise):
    """Blocks that are not of the shape that it declares."""

    def matrix(self):
        return super().matrix()[:, :-1]


def test_a_table_of_another_shape_is_refused():
    honest = distortion.absolute(X, Y)
    with refused(r"^distortion computes blocks of shape \(6, 4\), but declares \(6, 5\)"):
        dense(Lying(honest.x_features, honest.y_features, honest.rule))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda a, b: a - b, r"^function must return one number for two feature vectors, not an array of shape \(3,\)"),
        (lambda a, b: None, "^function must return one number for two feature vectors, not NoneType"),
        (lambda a, b: lax.complex(a[0], b[0]), "^function returns complex128; real numbers are needed"),
        (lambda a: a[0], r"^function: JAX cannot trace it \(TypeError\)"),
        (lambda a, b: float(a[0]), r"^function: JAX cannot trace it \(ConcretizationTypeError\)"),
        (lambda a, b: np.abs(a[0] - b[0]), r"^function: JAX cannot trace it \(TracerArrayConversionError\)"),
        (lambda a, b: 1.0 if a[0] > b[0] else 0.0, r"^function: JAX cannot trace it \(TracerBoolConversionError\)"),
    ],
)
def test_a_function_that_is_none_of_a_distortion_is_refused_at_once(function, message):
    with refused(message):
        distortion.from_function(function, X, Y)


def test_a_function_sees_traced_features_in_their_own_precision():
    def total(x):
        return distortion.from_function(lambda a, b: lax.mul(a[0] - b[0], jnp.float32(2)), x).matrix().sum()

    assert jax.jit(total)(jnp.arange(3, dtype=jnp.float32)).dtype == jnp.float32


def test_a_function_that_closes_over_a_traced_number_is_refused():
    def total(weight):
        return dense(distortion.from_function(lambda a, b: weight * abs(a[0] - b[0]), np.arange(3.0))).sum()

    with refused(r"^distortion: its function closes over a traced number"):
        jax.grad(total)(2.0)
