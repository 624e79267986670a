"""Useful symbols of one P(S|x) are one symbol: the curves of the classes are those of X, but for H(X|C)."""

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv.funnels.pricing._base import EqualSymbols

from .cases import entropy, information, psi, random_joint, source_of

TOL = 1e-6


def divided(joint, counts, seed=0, smallest=1e-9):
    """(column c in counts[c] parts, shuffled; the class of each; H(X|C)); of 3 parts one is `smallest` of it."""
    rng = np.random.default_rng(seed)
    parts, number = [], []
    for column, count in enumerate(counts):
        shares = rng.dirichlet(np.ones(count))
        if count > 2:
            shares = np.append(shares[1:] * (1 - smallest) / shares[1:].sum(), smallest)
        parts.append(joint[:, [column]] * shares)
        number += [column] * count
    order = rng.permutation(len(number))
    whole, number = np.hstack(parts)[:, order], np.array(number)[order]
    return whole, number, entropy(source_of(whole)) - entropy(source_of(joint))


def measure(joint, outputs, seed):
    """Posteriors (K, C) and masses (K,) that average to P_C, some posteriors on few classes."""
    rng = np.random.default_rng(seed)
    mechanism = rng.dirichlet(np.full(outputs, 0.2), joint.shape[1])
    mechanism[mechanism < 0.05] = 0.0
    shown = (source_of(joint)[:, None] * mechanism / mechanism.sum(axis=1, keepdims=True)).T
    shown = shown[shown.sum(axis=1) > 0]
    masses = shown.sum(axis=1)
    return shown / masses[:, None], masses


@pytest.mark.parametrize("seed", range(6))
def test_cut_outputs_disclose_all_that_the_classes_hide_and_leak_nothing_more(seed):
    joint = random_joint(seed, 3, 5)
    whole, number, hidden = divided(joint, (1, 3, 2, 1, 4), seed)
    equal = EqualSymbols(whole)
    np.testing.assert_allclose(equal.hidden, hidden, atol=1e-14)
    np.testing.assert_array_equal(equal.number[:, None] == equal.number, number[:, None] == number)
    posteriors, masses = measure(equal.joint, 6, seed)
    shown, weights = equal.shown(posteriors, masses)
    assert len(weights) <= len(masses) + whole.shape[1] - equal.joint.shape[1]
    np.testing.assert_allclose(weights @ shown, source_of(whole), rtol=1e-9)
    np.testing.assert_allclose(shown.sum(axis=1), 1.0, atol=1e-14)
    assert information((shown * weights[:, None]).T) == pytest.approx(
        information((posteriors * masses[:, None]).T) + hidden, abs=1e-12
    )
    leaked = information((shown * weights[:, None]) @ (whole / source_of(whole)).T)
    inside = information((posteriors * masses[:, None]) @ (equal.joint / source_of(equal.joint)).T)
    assert leaked == pytest.approx(inside, abs=1e-12)


@pytest.mark.parametrize("funnel", [True, False])
def test_prices_of_the_classes_prove_the_same(funnel):
    rng, lam = np.random.default_rng(3), 0.3
    whole, _, _ = divided(random_joint(3, 3, 4), (2, 1, 3, 2), smallest=1e-3)
    equal = EqualSymbols(whole)
    prices = rng.normal(size=4)
    posteriors = np.vstack([rng.dirichlet(np.full(8, a), 5000) for a in (0.1, 1.0)])
    inside = (
        psi(equal.summed(posteriors), equal.joint / source_of(equal.joint), lam) - equal.summed(posteriors) @ prices
    )
    own = psi(posteriors, whole / source_of(whole), lam) - posteriors @ equal.priced(prices, lam, funnel=funnel)
    sign = 1.0 if funnel else -1.0
    assert (sign * own >= sign * inside - 1e-12).all()
    nearest = np.sort(sign * (own - inside))[0]
    assert nearest <= 0.1


@pytest.mark.parametrize(
    ("problem", "form", "share"),
    [
        (jp.FunnelProblem, "disclosure", 0.6),
        (jp.FunnelProblem, "leakage_budget", 0.2),
        (jp.FunnelProblem, "leakage_budget", 0.0),
        (jp.FunnelProblem, "multiplier", 0.3),
        (jp.BottleneckProblem, "disclosure", 0.4),
        (jp.BottleneckProblem, "relevance", 0.5),
        (jp.BottleneckProblem, "multiplier", 0.3),
    ],
)
@pytest.mark.parametrize("private", [2, 3])
def test_the_curves_differ_by_what_the_classes_hide(problem, form, share, private):
    joint = random_joint(private, private, 4)
    whole, _, hidden = divided(joint, (2, 1, 3, 2))
    most = {"disclosure": entropy(source_of(joint)), "multiplier": 1.0}.get(form, information(joint))
    target = share * most
    funnel = problem is jp.FunnelProblem
    moved = target + hidden if funnel and form == "disclosure" else target
    plain, split = jp.solve(problem(joint, **{form: target})), jp.solve(problem(whole, **{form: moved}))
    extra = 0.0
    if funnel:
        extra = {"leakage_budget": hidden, "multiplier": -target * hidden}.get(form, 0.0)
    assert split.status == plain.status == "optimal"
    assert split.lower_bound <= plain.upper_bound + extra + 1e-12
    assert plain.lower_bound + extra <= split.upper_bound + 1e-12
    checked = split.verify(problem(whole, **{form: moved}))
    assert checked.lower_bound <= checked.value + 1e-12
    assert checked.upper_bound - checked.lower_bound <= TOL
    assert checked.violation == 0


def test_what_the_classes_hide_is_free():
    whole, _, hidden = divided(random_joint(1, 3, 3), (3, 1, 2))
    for share in (0.3, 1.0):
        found = jp.solve(jp.FunnelProblem(whole, disclosure=share * hidden))
        assert found.status == "optimal"
        assert found.value <= 1e-12
        assert found.disclosure >= share * hidden


def test_columns_that_differ_are_different_symbols():
    joint = random_joint(0, 2, 2)
    near = np.hstack([joint, joint * [[1.0], [1 + 1e-6]]])
    assert EqualSymbols(near / near.sum()).joint.shape == (2, 4)
    same = np.hstack([joint, 0.3 * joint])
    assert EqualSymbols(same / same.sum()).joint.shape == (2, 2)
