"""Useful symbols of one P(S|x) are one symbol: the curves of the classes are those of X, but for H(X|C)."""

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv.funnels.pricing.equal_symbols import EqualSymbols
from tests.cases import drawn_joint

from .cases import entropy_of, information, proved

TOL = 1e-6


def divided(joint, counts):
    """(column c in counts[c] parts, shuffled; H(X|C) of the class C of X); of 3 parts one is 1e-9 of it."""
    rng, smallest = np.random.default_rng(0), 1e-9
    parts = []
    for column, count in enumerate(counts):
        shares = rng.dirichlet(np.ones(count))
        if count > 2:
            shares = np.append(shares[1:] * (1 - smallest) / shares[1:].sum(), smallest)
        parts.append(joint[:, [column]] * shares)
    whole = np.hstack(parts)[:, rng.permutation(sum(part.shape[1] for part in parts))]
    return whole, entropy_of(whole) - entropy_of(joint)


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
    joint = drawn_joint(private, private, 4)
    whole, hidden = divided(joint, (2, 1, 3, 2))
    most = {"disclosure": entropy_of(joint), "multiplier": 1.0}.get(form, information(joint))
    target = share * most
    funnel = problem is jp.FunnelProblem
    moved = target + hidden if funnel and form == "disclosure" else target
    plain, split = proved(problem(joint, **{form: target})), proved(problem(whole, **{form: moved}))
    extra = 0.0
    if funnel:
        extra = {"leakage_budget": hidden, "multiplier": -target * hidden}.get(form, 0.0)
    assert split.lower_bound <= plain.upper_bound + extra + 1e-12
    assert plain.lower_bound + extra <= split.upper_bound + 1e-12


def test_what_the_classes_hide_is_free():
    whole, hidden = divided(drawn_joint(1, 3, 3), (3, 1, 2))
    for share in (0.3, 1.0):
        found = proved(jp.FunnelProblem(whole, disclosure=share * hidden))
        assert found.value <= 1e-12
        assert found.disclosure >= share * hidden


def test_columns_that_differ_are_different_symbols():
    joint = drawn_joint(0, 2, 2)
    near = np.hstack([joint, joint * [[1.0], [1 + 1e-6]]])
    assert EqualSymbols(near / near.sum()).joint.shape == (2, 4)
    same = np.hstack([joint, 0.3 * joint])
    assert EqualSymbols(same / same.sum()).joint.shape == (2, 2)
