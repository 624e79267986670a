"""Random joints: no bound of a funnel pricer lies above the best of many descents, and exact ones meet it."""

import numpy as np
import pytest

from jaxpriv.funnels.pricing.binary import BinaryFunnelPricer
from jaxpriv.funnels.pricing.boxes import BoxFunnelPricer
from tests.cases import thorough

from .cases import conditional_of, psi

STARTS, STEPS, CHUNK = 300, 400, 50


def descended(conditional, prices, lam, rng):
    """The least value of f that is reached from random starts: q <- q^{1 + lambda} exp( nu - T'ln Tq )."""
    useful = conditional.shape[1]
    starts = [rng.dirichlet(np.full(useful, shape), STARTS // 3) for shape in (0.1, 0.4, 1.0)]
    logs = np.log(np.vstack(starts) + 1e-9)
    for _ in range(STEPS):
        mixed = np.maximum(np.exp(logs) @ conditional.T, 1e-300)
        logs = (1 + lam) * logs + prices - np.log(mixed) @ conditional
        logs -= logs.max(axis=1, keepdims=True)
        logs = np.maximum(logs - np.log(np.exp(logs).sum(axis=1, keepdims=True)), -300.0)
    points = np.where(np.exp(logs) > 1e-12, np.exp(logs), 0.0)
    points = np.vstack([points / points.sum(axis=1, keepdims=True), np.eye(useful)])
    return float(psi(points, conditional, lam, prices).min())


# 1,050 joints in all; the whole of them is the thorough test.
@pytest.mark.parametrize("chunk", [0, *thorough(*range(1, 21))])
def test_no_bound_is_above_the_best_of_many_descents(chunk):
    met = 0
    for seed in range(CHUNK * chunk, CHUNK * (chunk + 1)):
        rng = np.random.default_rng(seed)
        private, useful = int(rng.integers(2, 9)), int(rng.integers(2, 16))
        joint = rng.dirichlet(np.full(private * useful, rng.choice([0.2, 1.0, 5.0]))).reshape(private, useful)
        conditional = conditional_of(joint)
        lam = float(rng.choice([0.02, 0.1, 0.3, 0.6, 0.9]))
        prices = psi(np.eye(useful), conditional, 0.0) - lam * rng.choice([0.1, 0.5]) * rng.random(useful)
        best = descended(conditional, prices, lam, rng)
        priced = BoxFunnelPricer(conditional, budget=2_000_000).price(prices, lam, 1)
        reached = float(psi(priced.posteriors, conditional, lam, prices).min())
        assert priced.bound <= min(best, reached) + 1e-12, seed
        if priced.exact:
            assert priced.bound >= min(best, reached) - 2e-8, seed
            met += 1
        if private == 2:
            old = BinaryFunnelPricer(conditional).price(prices, lam, 1)
            assert old.bound <= min(best, reached) + 1e-12, seed
            if priced.exact:
                assert priced.bound == pytest.approx(old.bound, abs=2e-8), seed
    assert met >= CHUNK // 2
