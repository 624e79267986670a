"""What must hold between measures and under operations, on random mechanisms with zeros of every kind."""

import itertools
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

SEEDS = st.integers(0, 2**32 - 1)
TOLERANCE = 1e-9
# Not gains, or only bounded below by 0 on average: everything else is a leakage that is 0 iff nothing leaks.
VULNERABILITY = "correct-guess"


def below(a, b, what):
    assert np.all(a <= b + TOLERANCE), what


@given(SEEDS)
def test_order_of_strength(values_of, instances, orders, seed):
    joints, mechanisms = instances(seed)
    v = values_of(joints, mechanisms)
    prior = joints.sum(axis=2)
    for name, values in v.items():
        assert np.all(values >= 0), name  # also refuses NaN
    assert_array_equal(v["inferential"], v["ldp"])
    assert_array_equal(v["lift"], np.maximum(v["max-lift"], v["min-lift"]))
    # Wu, Proposition 2, and the two-sided form.
    below(v["lift"], v["inferential"], "lift <= inferential")
    below(v["max-lift"], v["lift"], "max-lift <= lift")
    below(v["relative-entropy"], v["max-lift"], "relative entropy <= max-lift")
    below(v["mutual-information"], v["relative-entropy"], "I <= relative entropy")
    below(v["ldp"], 2 * v["lift"], "LDP <= 2 lift")
    below(v["ldp-chain"], v["ldp"], "neighbours <= all pairs")
    below(v["mutual-information"], v["max-information"], "average <= maximum")
    below(v["mutual-information"], v["maximal-leakage"], "I <= maximal leakage")
    below(v["maximal-leakage"], v["max-lift"], "maximal leakage <= max-lift")
    below(v["gain"], v["maximal-leakage"], "g-leakage <= maximal leakage")
    below(v["min-entropy"], v["maximal-leakage"], "min-entropy <= maximal leakage")
    below(v["correct-guess"], prior.max(axis=1) * np.exp(v["max-lift"]), "P_c <= p* e^eps")
    below(v["correct-guess"], 1.0, "P_c <= 1")
    for order in orders:
        below(v[f"sibson {order}"], v["maximal-leakage"], order)
        below(v[f"arimoto {order}"], v["maximal-leakage"], order)
    for low, high in itertools.pairwise(orders):
        below(v[f"sibson {low}"], v[f"sibson {high}"], "Sibson is non-decreasing")
    # The prior-free cap, and the size of the alphabets.
    cap = np.log(mechanisms.max(axis=1).sum(axis=1))
    below(v["maximal-leakage"], cap, "prior-free cap")
    below(v["mutual-information"], math.log(4), "I <= ln |S|")
    # Definition 4 under lift (the corrected Theorem 3).
    entropy = -np.sum(np.where(prior > 0, prior * np.log(np.where(prior > 0, prior, 1)), 0), axis=1)
    eps = v["lift"]
    below(v["max-information"], eps + (1 - np.exp(-eps)) * entropy, "Definition 4 under lift")
    # f-information <= max of f over [e^-eps, e^eps]; by convexity at an end.
    for name, f in {
        "chi-squared": lambda t: (t - 1) ** 2,
        "total-variation": lambda t: np.abs(t - 1) / 2,
        "hellinger": lambda t: (np.sqrt(t) - 1) ** 2,
        "kl": lambda t: t * np.log(t),
    }.items():
        finite = np.isfinite(eps)
        bound = np.maximum(f(np.exp(eps[finite])), f(np.exp(-eps[finite])))
        below(v[name][finite], bound * (1 + TOLERANCE), name)
    # Pinsker and its converses between divergences.
    below(2 * v["total-variation"] ** 2, v["kl"], "Pinsker")
    below(v["kl"], np.log1p(v["chi-squared"]), "KL <= ln(1 + chi^2)")
    below(v["hellinger"], v["kl"], "Hellinger <= KL")
    below(v["e-gamma"], v["total-variation"], "E_gamma falls in gamma")
    below(v["jensen-shannon"], math.log(2) * v["total-variation"], "JS <= ln2 TV")
    # Bounded costs, with half of Makhdoumi's constant: Brier has C in [0, 2], 0-1 loss in [0, 1].
    for name, size in (("brier", 2.0), ("zero-one", 1.0)):
        below(v[f"gain-{name}"], math.sqrt(2) * size * np.sqrt(v["mutual-information"]), name)
        below(v[f"max-gain-{name}"], math.sqrt(2) * size * np.sqrt(v["relative-entropy"]), name)
        below(v[f"gain-{name}"], v[f"max-gain-{name}"], name)
    assert_allclose(v["gain-log-loss"], v["mutual-information"], atol=1e-13)
    assert_allclose(v["max-gain-log-loss"], v["max-information"], atol=1e-13)
    assert_allclose(v["gain-zero-one"], v["correct-guess"] - prior.max(axis=1), atol=1e-13)


@given(SEEDS)
def test_post_processing_never_raises_any_measure(values_of, instances, seed):
    joints, mechanisms = instances(seed)
    rng = np.random.default_rng(seed)
    further = rng.dirichlet(np.full(6, 0.4), size=(len(joints), 6))
    further[::3] = np.eye(6)[rng.integers(6, size=(len(further[::3]), 6))]  # merging
    before, after = values_of(joints, mechanisms), values_of(joints, mechanisms @ further)
    for name in before:
        assert np.all(after[name] <= before[name] * (1 + TOLERANCE) + TOLERANCE), name


def same(before, after, but=()):
    for name in before:
        if name not in but:
            assert_allclose(after[name], before[name], rtol=1e-9, atol=1e-12, err_msg=name)


# Measures that hold a matrix over the private symbols: relabelling these changes the question.
LABELLED = ("gain", "gain-losses", "max-gain-losses", "ldp-chain")


@given(SEEDS)
def test_labels_do_not_matter(values_of, instances, seed):
    joints, mechanisms = instances(seed)
    rng = np.random.default_rng(seed)
    s, x, y = rng.permutation(4), rng.permutation(5), rng.permutation(6)
    before = values_of(joints, mechanisms)
    same(before, values_of(joints[:, :, x], mechanisms[:, x][:, :, y]))
    same(before, values_of(joints[:, s][:, :, x], mechanisms[:, x][:, :, y]), but=LABELLED)


@given(SEEDS)
def test_a_split_output_changes_nothing(values_of, instances, seed):
    """Outputs 4 and 5 in proportion to one output, in any proportion, equal or with nothing in one of them."""
    joints, mechanisms = instances(seed)
    merged = np.concatenate([mechanisms[..., :4], mechanisms[..., 4:].sum(axis=2, keepdims=True)], axis=2)
    share = np.random.default_rng(seed).choice([0.0, 0.5, 0.3, 1e-3])
    split = np.concatenate([merged[..., :4], merged[..., 4:] * share, merged[..., 4:] * (1 - share)], axis=2)
    whole = np.concatenate([merged, np.zeros_like(merged[..., :1])], axis=2)
    same(values_of(joints, whole), values_of(joints, split))


@given(SEEDS)
def test_splitting_a_useful_symbol_changes_nothing(values_of, instances, seed):
    """Two symbols x with the same row are one symbol: their columns of the joint may be exchanged in part."""
    joints, mechanisms = instances(seed)
    mechanisms = mechanisms.copy()
    mechanisms[:, 4] = mechanisms[:, 3]
    moved = joints.copy()
    moved[:, :, 3], moved[:, :, 4] = joints[:, :, 3] + joints[:, :, 4], 0.0
    same(values_of(joints, mechanisms), values_of(moved, mechanisms))
