"""The CPU kernel of a block of a Gibbs mechanism against the code in JAX that it stands for."""

import functools
import hashlib
import itertools
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpriv.data.streaming import gibbs_block, portable_block
from tests.cases import drawn_joint, run_python
from tests.compiling import kernels

pytestmark = [kernels, pytest.mark.usefixtures("own_settings")]

# Symbols, |S|, outputs, distortions: whole and broken groups of symbols, tiles and chunks of outputs.
SHAPES = [
    (1, 1, 1, 1),
    (5, 3, 7, 2),
    (32, 16, 64, 1),
    (33, 17, 65, 1),
    (64, 4, 1025, 3),
    (100, 70, 2100, 1),
    (16, 8, 72, 2),
    (70, 2, 131, 1),
    (33, 6, 70, 1),
    (20, 7, 66, 1),
]
PRECISIONS = {"float32": 3e-6, "float64": 1e-14}


def arguments(symbols, private, outputs, costs, dtype, size=3.0, seed=0):
    """A block with a symbol without mass; logits are of size `size`."""
    rng = np.random.default_rng(seed)
    joint = drawn_joint(rng, symbols, private)
    conditional = joint / joint.sum(axis=1, keepdims=True)
    joint[symbols // 2] = 0.0
    parts = (
        conditional,
        joint,
        size * rng.normal(size=(outputs, private)),
        rng.uniform(size=(costs, outputs, symbols)),
        size * rng.uniform(size=costs),
        rng.normal(size=outputs),
    )
    return tuple(jnp.asarray(part, dtype=dtype) for part in parts)


def block(args, squares=True):
    return jax.jit(lambda *a: gibbs_block(*a, squares=squares))(*args)


@functools.partial(jax.jit, static_argnums=1)  # compiled once for all kinds of instructions
def portable(args, squares=True):
    return portable_block(*args, squares=squares)


def close(got, wanted, tol):
    for one, other in zip(got, wanted, strict=True):
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=0, atol=tol * abs(np.asarray(other)).max(initial=1e-30))


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize(
    ("shape", "squares"),
    [
        case if case[1] or case[0] in SHAPES[1::3] else pytest.param(*case, marks=pytest.mark.thorough)
        for case in itertools.product(SHAPES, (False, True))
    ],
)
def test_blocks_are_those_of_the_portable_code(shape, squares, dtype):
    args = arguments(*shape, dtype)
    close(block(args, squares), portable(args, squares), PRECISIONS[dtype])


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_logits_of_any_size(dtype):
    """What is far below the row's largest logit is 0, wherever in the row that is."""
    for seed in range(3):
        args = arguments(40, 5, 1500, 1, dtype, size=2000.0, seed=seed)
        got = block(args)
        assert all(np.isfinite(part).all() for part in got)
        # A logit of some thousands has an error of as many units: weights move by that much, relative.
        close(got, portable(args), 1e4 * PRECISIONS[dtype])


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize("dtype", PRECISIONS)
def test_exponentials_are_good_to_two_units_in_the_last_place(dtype):
    """A price of ln 2 makes the costs logits of base 2, which is what the kernel exponentiates."""
    eps, outputs = np.finfo(dtype).eps, 20_000
    # The largest logit is the first one, so that no tile is moved; divided by the total, the least is a normal number.
    cost = np.linspace(0.0, -np.log2(np.finfo(dtype).tiny) - 12.0, outputs).astype(dtype)
    none = np.zeros((1, 1), dtype)
    args = (
        none,
        none + 1,
        np.zeros((outputs, 1), dtype),
        cost[None, :, None],
        np.full(1, np.log(2), dtype),
        np.zeros(outputs, dtype),
    )
    got = block(tuple(map(jnp.asarray, args)), squares=False)
    exact = np.exp2(-cost.astype(np.longdouble))
    weights = np.asarray(got.columns)[:, 0].astype(np.longdouble) * np.asarray(got.total)[0]
    assert np.max(abs(weights / exact - 1)) < 2 * eps  # also of the factor and of the division by the total
    np.testing.assert_allclose(np.asarray(got.total)[0], float(exact.sum()), rtol=8 * eps)


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("size", [3.0, 300.0])
def test_rounding_of_the_logits_is_that_of_their_size(dtype, size):
    """Weights are wrong by no more units than a few roundings of the largest logit make."""
    eps = np.finfo(dtype).eps
    for seed in range(5):
        args = arguments(32, 3, 500, 1, dtype, size=size, seed=seed)
        got = block(args, squares=False)
        conditional, joint, scores, costs, prices, levels = (np.asarray(a, np.longdouble) for a in args)
        logits = -scores @ conditional.T - prices[0] * costs[0]
        weights = np.exp(logits - logits.max(axis=0))
        wanted = weights @ (joint / weights.sum(axis=0)[:, None])
        wrong = abs(np.asarray(got.columns) - wanted)
        largest = (abs(scores) @ conditional.T + prices[0] * costs[0]).max()
        assert wrong.max() < 4 * eps * (largest + 1) * wanted.max()
        assert abs(np.asarray(got.top) - logits.max(axis=0)).max() < 4 * eps * largest
        assert abs(np.asarray(got.hard) - (logits + levels[:, None]).max(axis=0)).max() < 4 * eps * (largest + 5)


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("symbols", [5, 64])
@pytest.mark.parametrize(
    "bad",  # argument, value
    [(0, np.nan), (2, np.nan), (2, -np.inf), (3, np.nan), (4, np.nan), (4, np.inf)],
)
def test_a_logit_that_is_no_number_is_not_hidden(bad, symbols, dtype):
    which, value = bad
    args = list(arguments(symbols, 5, 200, 1, dtype))
    place = tuple(size // 2 for size in args[which].shape)
    args[which] = args[which].at[place].set(value)
    got = block(tuple(args))
    x = slice(None) if which in (2, 4) else symbols // 2
    for row in (got.top, got.total, got.hard):
        assert not np.isfinite(row[x]).any()
    assert np.isnan(got.mean[:, x]).all()
    assert np.isnan(got.columns).any()


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("y", [0, 3, 1500, 2099])
def test_a_level_that_is_no_number_is_not_hidden(y, dtype):
    args = list(arguments(40, 5, 2100, 1, dtype))
    args[5] = args[5].at[y].set(np.nan)
    got = block(tuple(args))
    assert np.isnan(got.hard).all()
    assert np.isfinite(got.top).all()


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_an_output_of_endless_score_is_never_released(dtype):
    """Also where symbols do not fill a whole group."""
    args = list(arguments(5, 3, 70, 1, dtype))
    args[2] = args[2].at[66].set(np.inf)
    got = block(tuple(args))
    assert (got.columns[66] == 0).all()
    close(got[:5], portable(tuple(args))[:5], PRECISIONS[dtype])


def digest():
    """Of all the bits of some results."""
    results = [block(arguments(300, private, 3000, 1, dtype)) for private in (4, 20) for dtype in PRECISIONS]
    return hashlib.sha256(b"".join(np.asarray(part).tobytes() for got in results for part in got)).hexdigest()


def test_the_same_bits_every_time():
    assert len({digest() for _ in range(5)}) == 1


WITH_ONE_THREAD = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from tests.streaming.test_gibbs_kernel import digest
from jaxpriv._runtime.compilation import own_settings
with own_settings():
    print(digest())
"""


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="the number of threads is set by the affinity on Linux"
)
def test_the_same_bits_with_one_thread():
    assert run_python("-c", WITH_ONE_THREAD).strip() == digest()


def test_a_batch_is_one_block_after_another():
    args = arguments(20, 4, 90, 2, "float64")
    batch = tuple(jnp.stack([part, 0.5 * part]) for part in args)
    both = jax.vmap(lambda *a: gibbs_block(*a, squares=True))(*batch)
    for i in range(2):
        close([part[i] for part in both], block(tuple(part[i] for part in batch)), 1e-15)


def test_derivatives_are_those_of_the_portable_code():
    args = arguments(10, 3, 20, 1, "float64")
    along = [jnp.ones_like(part) for part in args]
    got = jax.jvp(lambda *a: tuple(gibbs_block(*a, squares=True)), args, tuple(along))
    wanted = jax.jvp(lambda *a: portable_block(*a, squares=True), args, tuple(along))
    close(got[1], wanted[1], 1e-13)
