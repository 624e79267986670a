"""Blocked sums against tables: every number a pass returns, whatever the block size."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

import jaxpriv as jp
from jaxpriv import streaming
from jaxpriv.data.joints import Stored

from .conftest import stated

pytestmark = pytest.mark.usefixtures("own_settings")


@pytest.fixture(params=[1, 4, 64], ids=lambda b: f"blocks of {b}")
def blocks(request, blocks_of, monkeypatch):
    blocks_of(request.param)
    for name in ("_TILE_ROWS", "_TILE_COLUMNS"):
        monkeypatch.setattr(streaming, name, request.param)


def test_a_pass_is_what_its_table_gives(rough, blocks):
    joint, table = rough
    prior, mass = joint.sum(axis=1), joint.sum(axis=0)
    rng = np.random.default_rng(0)
    scores, levels = rng.normal(size=(19, 5)), -rng.uniform(size=19)
    costs, prices = np.stack([table, table**2]), np.array([2.0, 0.7])
    distortions = tuple(jp.distortion.as_distortion(c) for c in costs)
    run = jax.jit(lambda *args: streaming.gibbs_pass(*args, spread=True, mesh=None))
    got = run(Stored(joint), distortions, prior, scores, prices, levels)
    present = mass > 0
    conditional = np.where(present, joint / np.where(present, mass, 1.0), prior[:, None]).T
    logits = -conditional @ scores.T - np.tensordot(prices, costs, 1)
    w = np.exp(logits - logsumexp(logits, axis=1, keepdims=True))
    mean = (w * costs).sum(axis=2)
    second = np.einsum("xy,jxy,kxy->jkx", w, costs, costs)
    assert_allclose(got.columns, (joint @ w).T, atol=1e-15)
    assert_allclose(got.distortions, mean @ mass, atol=1e-14)
    assert_allclose(got.spread, (second - mean[:, None] * mean[None]) @ mass, atol=1e-14)
    assert_allclose(got.log_mass, mass @ logsumexp(logits, axis=1), atol=1e-14)
    assert_allclose(got.hard, mass @ (logits + levels).max(axis=1), atol=1e-14)


def test_the_cheapest_outputs_are_those_of_the_table(rough, blocks):
    joint, table = rough
    mass = joint.sum(axis=0)
    scores = np.random.default_rng(1).normal(size=(19, 5))
    distortions = (jp.distortion.as_distortion(table),)
    run = jax.jit(lambda *args: streaming.cheapest(*args, mesh=None))
    total, size = run(Stored(joint), distortions, joint.sum(axis=1), scores, np.array([1.5]))
    least = ((scores @ joint).T + 1.5 * mass[:, None] * table).min(axis=1)
    assert_allclose([total, size], [least.sum(), abs(least).sum()], atol=1e-14)


def test_the_survey_reads_everything(rough, blocks):
    joint, table = rough
    mass = joint.sum(axis=0)
    run = jax.jit(lambda *args: streaming.survey(*args, sound=False, mesh=None))
    got = run(Stored(joint), (jp.distortion.as_distortion(table),), np.ones(1))
    assert_allclose(got.prior, joint.sum(axis=1), atol=1e-15)
    assert_array_equal(got.nearest, table.argmin(axis=1))
    assert_allclose(got.columns, (joint @ np.eye(19)[table.argmin(axis=1)]).T, atol=1e-15)
    assert_allclose(got.least, [mass @ table.min(axis=1)], atol=1e-15)
    assert_allclose(got.at_feasible_point, got.least, atol=1e-15)
    assert_allclose(got.constant, (mass @ table)[None], atol=1e-15)
    assert not np.any(got.faults)


def test_an_output_without_mass_says_nothing():
    columns = jnp.asarray([[0.2, 0.3], [0.0, 0.0], [0.0, 0.5]])
    program = stated(jp.DistortionProblem(np.diag([0.2, 0.8]), np.ones((2, 3)), budget=1.0))
    scores = program.rules(columns)
    assert_array_equal(scores[1], [0.0, 0.0])
    assert np.isfinite(np.asarray(scores)).all()


def test_peak_memory_of_a_pass_does_not_grow_with_the_useful_alphabet():
    """What XLA allocates beside its arguments and results: blocks, however many there are."""
    peaks = []
    for inputs in (2000, 32000):
        joint = jnp.full((4, inputs), 1.0 / (4 * inputs))
        distortion = jp.distortion.absolute(np.arange(float(inputs)), np.arange(2000.0))
        run = jax.jit(
            lambda j, d, a: streaming.gibbs_pass(
                j, (d,), jnp.full(4, 0.25), a, jnp.ones(1), jnp.zeros(2000), spread=True, mesh=None
            )
        )
        memory = run.lower(Stored(joint), distortion, jnp.zeros((2000, 4))).compile().memory_analysis()
        peaks.append(memory.temp_size_in_bytes)
    assert max(peaks) < 1.05 * min(peaks)
    assert max(peaks) < 8 * 2000 * 2000 * 8  # a few blocks, far from 32000 x 2000 numbers
