"""What must hold between measures and under operations, on random mechanisms with zeros of every kind."""

import numpy as np
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose

SEEDS = st.integers(0, 2**32 - 1)
TOLERANCE = 1e-9


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
