"""What a channel keeps of a divergence at most and at least, and the problems whose every posterior is optimal."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import jaxpriv as jp
from jaxpriv.funnels import proved_line
from jaxpriv.funnels.contraction import contraction_proofs
from jaxpriv.leakage import contraction_coefficient
from tests.cases import drawn_joint

from .cases import CHANNELS, conditional_of, entropy_of, information, proved, released


def _divergence(q, p):
    return np.where(q > 0, q * np.log(np.where(q > 0, q, 1.0) / p), 0.0).sum(axis=-1)


@pytest.mark.parametrize(
    ("conditional", "known"),
    [
        (np.array([[0.9, 0.1], [0.1, 0.9]]), 0.8**2),  # binary symmetric: (1 - 2 delta)^2
        (np.array([[0.5, 0.0], [0.5, 1.0]]), 0.5),  # the Z-channel: 1 - delta, as t -> 1
        (np.vstack([0.7 * np.eye(4), np.full(4, 0.3)]), 0.7),
        (0.7 * np.eye(2) + 0.15, 0.49),
        (np.eye(3), 1.0),
        (np.outer([0.2, 0.8], np.ones(5)), 0.0),
        (np.ones((1, 4)), 0.0),
    ],
)
def test_known_contraction_coefficients(conditional, known):
    assert 0 <= contraction_coefficient(conditional.T) - known <= 1e-11


@pytest.mark.parametrize("seed", range(4))
def test_no_divergence_contracts_less_and_a_pair_of_symbols_contracts_as_little(seed):
    rng = np.random.default_rng(seed)
    conditional = rng.dirichlet(np.full(4, 0.7), 5).T
    eta = contraction_coefficient(conditional.T)
    p, q = (rng.dirichlet(np.full(5, shape), 20_000) for shape in (0.2, 0.3))
    p = np.maximum(p, 1e-6) / np.maximum(p, 1e-6).sum(axis=1, keepdims=True)
    assert (_divergence(q @ conditional.T, p @ conditional.T) <= eta * _divergence(q, p) + 1e-12).all()
    near, best = np.linspace(1e-4, 1 - 1e-4, 2001)[:, None], 0.0
    for one in range(5):
        for other in range(one):
            mixed = near * conditional[:, one] + (1 - near) * conditional[:, other]
            apart = conditional[:, one] - conditional[:, other]
            best = max(best, float((near[:, 0] * (1 - near[:, 0]) * (apart**2 / mixed).sum(axis=1)).max()))
    assert 0 <= eta - best <= 1e-5 * best
    assert eta < 1 - conditional.min(axis=1).sum()


@pytest.mark.parametrize("joint", CHANNELS.values(), ids=CHANNELS)
@pytest.mark.parametrize("made", [jp.FunnelProblem, jp.BottleneckProblem])
def test_no_mechanism_crosses_the_lines(joint, made):
    rng, source = np.random.default_rng(0), joint.sum(axis=0)
    for proof in contraction_proofs(made(joint, disclosure=0.0)):
        line = proved_line(made(joint, disclosure=0.0), proof)
        for shape in (0.05, 0.3, 1.0):
            for mechanism in rng.dirichlet(np.full(3, shape), (40, len(source))):
                disclosed, leaked = released(joint, mechanism)
                apart = leaked - line - proof.multiplier * disclosed
                assert (apart if made is jp.FunnelProblem else -apart) >= -1e-12


LINES = ["bit", "skewed bit", "three symbols", "five symbols"]


@pytest.mark.parametrize("name", LINES)
def test_erasure_channels_leak_a_fixed_share_of_what_is_disclosed(name):
    joint = CHANNELS[name]
    kept = information(joint) / entropy_of(joint)
    for problem, value in (
        (jp.BottleneckProblem(joint, disclosure=0.1), 0.1 * kept),
        (jp.BottleneckProblem(joint, relevance=0.05), 0.05 / kept),
        (jp.BottleneckProblem(joint, multiplier=kept - 0.1), 0.1 * entropy_of(joint)),
        (jp.BottleneckProblem(joint, multiplier=kept), 0.0),
        (jp.FunnelProblem(joint, disclosure=0.1), 0.1 * kept),
        (jp.FunnelProblem(joint, leakage_budget=0.05), 0.05 / kept),
        (jp.FunnelProblem(joint, multiplier=kept + 0.1), -0.1 * entropy_of(joint)),
    ):
        solution = proved(problem)
        assert solution.gap <= 1e-9
        assert_allclose(solution.value, value, atol=1e-9)
        assert np.isfinite(solution.prices).all()


@pytest.mark.parametrize("name", [name for name in CHANNELS if name not in LINES])
def test_channels_with_an_erasure_in_them(name):
    joint = CHANNELS[name]
    whole, most = entropy_of(joint), information(joint)
    for problem in (
        jp.BottleneckProblem(joint, disclosure=0.2 * whole),
        jp.BottleneckProblem(joint, disclosure=0.8 * whole),
        jp.BottleneckProblem(joint, relevance=0.4 * most),
        jp.BottleneckProblem(joint, multiplier=0.4),
        jp.FunnelProblem(joint, disclosure=0.8 * whole),
        jp.FunnelProblem(joint, leakage_budget=0.3 * most),
        jp.FunnelProblem(joint, multiplier=0.4),
    ):
        proved(problem)


def test_a_frontier_of_an_erasure_channel_is_a_line():
    joint = CHANNELS["three symbols"]
    for made in (jp.BottleneckProblem, jp.FunnelProblem):
        curve = jp.funnel_frontier(made(joint, disclosure=0.1), disclosures=[0.05, 0.3, 0.9])
        assert (curve.status == "optimal").all()
        low, high = curve.band([0.1, 0.5])
        assert_allclose(high - low, 0.0, atol=1e-9)


@pytest.mark.parametrize(
    "counts",
    [
        [[0, 1, 1, 1, 0], [0, 2, 2, 1, 2], [1, 0, 2, 0, 0]],
        [[2, 0, 1, 1], [0, 0, 2, 0], [2, 0, 1, 1], [0, 2, 1, 2]],
        [[1, 0, 2, 2], [0, 1, 0, 2], [1, 1, 0, 1]],
    ],
)
def test_small_counts(counts):
    joint = np.array(counts) / np.sum(counts)
    proved(jp.BottleneckProblem(joint, multiplier=0.4))


def test_tables_of_too_many_pairs_have_the_bound_of_doeblin():
    conditional = conditional_of(drawn_joint(0, 3, 13_000))
    exact_of_few = contraction_coefficient(conditional[:, :40].T)
    assert exact_of_few <= contraction_coefficient(conditional.T) <= 1.0
