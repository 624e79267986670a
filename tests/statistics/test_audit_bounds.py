"""Bounds against populations inside the confidence set, against simulated samples, and among each other."""

import itertools

import numpy as np
import pytest
from scipy.special import rel_entr
from scipy.stats import binom, entropy

from jaxpriv import errors as jp_errors, leakage
from jaxpriv.statistics.audit import drift, leakage_bounds, least_utility
from jaxpriv.statistics.audit._information import entropy_change
from jaxpriv.statistics.confidence import population
from tests.cases import drawn_joint, raised, value_of
from tests.information import information
from tests.statistics.conftest import GENERATOR, JOINTS, MECHANISM, PRIVATE, SHARP, USEFUL, sampled

BETA = 0.05
# A test of R coverages errs by chance with probability below this.
ALPHA = 1e-8


def uppers(counts, measures, mechanism=MECHANISM, **options):
    """(measures, R) upper bounds."""
    found = leakage_bounds(population(counts, BETA, **options), mechanism, measures)
    assert all(one is not None for one in found)
    return np.stack([one.upper[:, 0] for one in found])


def samples(joint, draws, repeats=200):
    return sampled(joint, draws, repeats, draws)


def too_many_misses(misses, repeats):
    return misses > binom.isf(ALPHA, repeats, BETA)


# -- soundness without chance: every population in the set ----------------------------------------


def inside(known, count):
    """Populations in the sets of one table of counts, most of them on the boundary."""
    fitted, found = known.joint[0], []
    while len(found) < count:
        corner = drawn_joint(GENERATOR, *fitted.shape, GENERATOR.choice([0.02, 0.3]))
        low, high = 0.0, 1.0
        for _ in range(30):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if _admits(known, (1 - middle) * fitted + middle * corner) else (low, middle)
        found.append((1 - low) * fitted + low * corner)
    return found


def _admits(known, joint):
    prior = joint.sum(axis=1)
    parts = [
        (known.given, joint / prior[:, None]),
        (known.useful, joint.sum(axis=0)[None]),
        (known.private, prior[None]),
    ]
    for part, laws in parts:
        l1, divergence, box = part.sets
        if not (
            np.all(np.abs(laws - l1.centre).sum(axis=1) <= l1.radius)
            and np.all(rel_entr(divergence.centre, laws).sum(axis=1) <= divergence.radius)
            and np.all((laws >= box.least) & (laws <= box.most))
        ):
            return False
    distances = [(known.joint[0], joint, known.distance), (known.joint[0].sum(axis=1), prior, known.private_distance)]
    distances += [(known.joint[0].sum(axis=0), joint.sum(axis=0), known.useful_distance)]
    return all(0.5 * np.abs(one - other).sum() <= radius[0] for one, other, radius in distances)


@pytest.mark.parametrize("mechanism", [MECHANISM, SHARP], ids=["positive", "with zeros"])
@pytest.mark.parametrize("draws", [60, 3000, 10**6])
def test_bounds_hold_for_every_population_in_the_set(measures, truth, mechanism, draws):
    counts = samples(JOINTS["strong"] if draws == 3000 else JOINTS["weak"], draws, 1)[0]
    known = population(counts, BETA)
    found = leakage_bounds(known, mechanism, measures)
    bounds, caps = [one.upper[0, 0] for one in found], [one.cap[0] for one in found]
    utility = least_utility(known, mechanism)[0, 0]
    for joint in inside(known, 8):
        values = truth(joint, mechanism)
        assert np.all(values <= np.array(bounds) + 1e-12)
        assert np.all(values <= np.array(caps) + 1e-12)
        assert utility <= information(joint.sum(axis=0)[:, None] * mechanism) + 1e-12


def test_entropies_change_by_no_more_than_stated():
    """Random pairs of joints of (S, Y), most of them sparse; the extremal pair attains the bound."""
    for private, released in ((2, 3), (4, 2), (3, 1)):
        shape = (4000, 2, private, released)
        joints = GENERATOR.dirichlet(np.full(private * released, 0.1), shape[:2]).reshape(shape)
        joints[:, 1] = joints[:, 0] + GENERATOR.random((4000, 1, 1)) ** 3 * (joints[:, 1] - joints[:, 0])
        distance = 0.5 * np.abs(joints[:, 0] - joints[:, 1]).sum(axis=(1, 2))
        whole = entropy(joints.reshape(4000, 2, -1), axis=2) - entropy(joints.sum(axis=2), axis=2)  # H(S|Y)
        own = entropy(joints.sum(axis=3), axis=2)
        limit = entropy_change(distance, private)
        assert np.all(np.abs(whole[:, 0] - whole[:, 1]) <= limit + 1e-12)
        assert np.all(np.abs(own[:, 0] - own[:, 1]) <= limit + 1e-12)
    spread = np.array([0.7, 0.1, 0.1, 0.1])
    assert entropy(spread) == pytest.approx(entropy_change(np.array(0.3), 4))
    assert entropy_change(np.array(0.9), 4) == entropy_change(np.array(1.0), 4) == pytest.approx(np.log(4))


# -- coverage by simulation ------------------------------------------------------------------------

CASES = [
    ("independent", 150, False),
    ("strong", 400, False),
    ("unseen", 300, False),
    *(
        (name, draws, held_out)
        for name, draws in (("weak", 3000), ("rare", 2000), ("strong", 12))
        for held_out in (False, True)
    ),
]


@pytest.mark.parametrize(("name", "draws", "held_out"), CASES)
def test_coverage(measures, truth, name, draws, held_out):
    """For all mechanisms, and of counts that were held out; all measures at once."""
    counts = samples(JOINTS[name], draws)
    values = truth(JOINTS[name])
    wrong = (uppers(counts, measures, held_out=held_out) < values[:, None] - 1e-12).any(axis=0)
    assert not too_many_misses(wrong.sum(), len(counts))


def test_coverage_when_the_mechanism_is_the_worst_of_many_for_the_sample():
    """Selection on the same counts: the mechanism whose fitted leakage is the farthest below its true one."""
    joint, candidates = JOINTS["strong"], GENERATOR.dirichlet(np.full(4, 0.5), (30, USEFUL))
    counts = samples(joint, 200)
    known = population(counts, BETA)
    (bound,) = leakage_bounds(known, candidates, [leakage.CorrectGuess()])
    guess = lambda one: np.einsum("...sx,mxy->...msy", one, candidates).max(axis=-2).sum(axis=-1)  # noqa: E731
    fitted, true = guess(counts / 200), guess(joint)
    chosen = np.argmax(true - fitted, axis=1)
    assert (true[chosen] > np.take_along_axis(fitted, chosen[:, None], 1)[:, 0]).mean() > 0.9  # plug-in is too low
    wrong = true[chosen] > np.take_along_axis(bound.upper, chosen[:, None], 1)[:, 0]
    assert not too_many_misses(wrong.sum(), len(counts))


def test_coverage_of_the_utility():
    for name, draws in (("strong", 400), ("weak", 30)):
        counts = samples(JOINTS[name], draws)
        value = information(JOINTS[name].sum(axis=0)[:, None] * MECHANISM)
        wrong = least_utility(population(counts, BETA), MECHANISM)[:, 0] > value
        assert not too_many_misses(wrong.sum(), len(counts))


# -- relations -------------------------------------------------------------------------------------


def test_without_counts_the_bounds_are_the_caps(measures):
    nothing = leakage_bounds(population(np.zeros((PRIVATE, USEFUL), int)), MECHANISM, measures)
    for one in nothing:
        assert one.upper[0, 0] == one.cap[0]
    by_type = {type(measure): one.cap[0] for measure, one in zip(measures, nothing, strict=True)}
    total = float(leakage.prior_free_cap(MECHANISM))
    assert by_type[leakage.MaximalLeakage] == pytest.approx(min(total, np.log(PRIVATE)), abs=1e-9)
    assert by_type[leakage.MutualInformation] < total
    ratio = np.log((MECHANISM.max(axis=0) / MECHANISM.min(axis=0)).max())
    for kind in (leakage.Lift, leakage.MaxLift, leakage.LocalDifferentialPrivacy, leakage.InferentialPrivacy):
        assert by_type[kind] == pytest.approx(ratio, abs=1e-9)


def test_the_cap_on_information_is_the_capacity():
    """Binary symmetric and erasure channels."""
    flip, lost = 0.2, 0.3
    symmetric = np.array([[1 - flip, flip], [flip, 1 - flip]])
    erasure = np.array([[1 - lost, 0.0, lost], [0.0, 1 - lost, lost]])
    nothing = population(np.zeros((5, 2), int))
    entropy = -(flip * np.log(flip) + (1 - flip) * np.log(1 - flip))
    for channel, capacity in ((symmetric, np.log(2) - entropy), (erasure, (1 - lost) * np.log(2))):
        (bound,) = leakage_bounds(nothing, channel, [leakage.MutualInformation()])
        assert bound.cap[0] == pytest.approx(capacity, abs=1e-8)


def test_bounds_are_monotone_in_the_sample_and_the_confidence(measures):
    base = np.rint(JOINTS["weak"] * 400).astype(int)
    by_size = [uppers(base * factor, measures)[:, 0] for factor in (0, 1, 100)]
    for smaller, larger in itertools.pairwise(by_size):
        assert np.all(larger <= smaller + 1e-9)
    by_level = [
        np.array([one.upper[0, 0] for one in leakage_bounds(population(base, beta), MECHANISM, measures)])
        for beta in (0.5, 1e-9)
    ]
    for looser, stricter in itertools.pairwise(by_level):
        assert np.all(looser <= stricter + 1e-9)


def test_bounds_become_the_truth(measures, truth):
    joint = JOINTS["strong"]
    counts = np.rint(joint * 10**15).astype(np.int64)
    values = truth(counts / counts.sum())
    assert uppers(counts, measures)[:, 0] == pytest.approx(values, abs=2e-5)


def test_relabelling_changes_nothing(measures):
    counts = samples(JOINTS["rare"], 500, 1)[0]
    s, x, y = (GENERATOR.permutation(size) for size in (PRIVATE, USEFUL, 4))
    before = uppers(counts, measures)
    after = uppers(counts[s][:, x], measures, mechanism=MECHANISM[x][:, y])
    assert after == pytest.approx(before, rel=1e-7, abs=1e-9)


def test_a_sweep_is_its_parts():
    measures = [leakage.MutualInformation(), leakage.Arimoto(2.0), leakage.CorrectGuess(), leakage.Lift()]
    measures += [leakage.Sibson(1.0), leakage.Arimoto(1.0)]
    measures += [leakage.MaxInformation(), leakage.MaxCostGain(leakage.BrierLoss()), leakage.LocalDifferentialPrivacy()]
    stack = np.stack([MECHANISM, SHARP, np.full((USEFUL, 4), 0.25)])
    counts = samples(JOINTS["weak"], 700, 2)
    together = leakage_bounds(population(counts, BETA), stack, measures)
    for r in range(2):
        for m in range(3):
            alone = leakage_bounds(population(counts[r], BETA), stack[m], measures)
            for one, part in zip(together, alone, strict=True):
                assert one.upper[r, m] == pytest.approx(part.upper[0, 0], rel=1e-9, abs=1e-10)
    for one in together[4:6]:  # of order 1
        assert one.upper == pytest.approx(together[0].upper, rel=1e-12)
    # A constant mechanism tells nothing, whatever the population is.
    for measure, one in zip(measures, together, strict=True):
        if not isinstance(measure, leakage.CorrectGuess):
            assert one.upper[:, 2] == pytest.approx(0, abs=1e-6)


def test_impossible_pairs_are_used():
    """An attribute that is private and useful: what cannot occur need not be estimated."""
    possible = np.kron(np.eye(3, dtype=bool), np.ones((1, 2), bool))
    counts = np.random.default_rng(3).multinomial(400, possible.ravel() / possible.sum()).reshape(3, 6)
    channel = GENERATOR.dirichlet(np.full(4, 2.0), 6)
    kinds = [leakage.MutualInformation(), leakage.MaximalLeakage(), leakage.Lift()]
    blind = leakage_bounds(population(counts, BETA), channel, kinds)
    aware = leakage_bounds(population(counts, BETA, possible=possible), channel, kinds)
    assert all(one.upper[0, 0] < other.upper[0, 0] for one, other in zip(aware, blind, strict=True))


def test_large_orders_and_unknown_measures():
    known = population(np.rint(JOINTS["weak"] * 10**5).astype(int), BETA)
    orders = [1 + 1e-9, 1 - 1e-9, 30.0, 1e6, np.inf, 1e-3]
    kinds = [kind(order) for kind in (leakage.Sibson, leakage.Arimoto) for order in orders]
    for bound, kind in zip(leakage_bounds(known, MECHANISM, kinds), kinds, strict=True):
        value = value_of(kind, known.joint[0], MECHANISM)
        assert value <= bound.upper[0, 0] <= bound.cap[0]
        assert bound.upper[0, 0] <= value + 0.1
    mine = leakage.FInformation(leakage.UserDivergence(lambda t: (t - 1) ** 4, 1.0))
    own = leakage.AverageCostGain(leakage.LossMatrix(np.eye(3)))
    assert leakage_bounds(known, MECHANISM, [mine, own]) == (None, None)


def test_drift():
    base = np.array([500, 300, 200])
    assert not drift(base, base * 3).exceeded
    assert drift(base, base[::-1]).exceeded
    with raised(jp_errors.InputError, "released has 2 symbols"):
        drift(base, base[:2])
    with raised(jp_errors.InputError, "released has no counts"):
        drift(base, 0 * base)
    once = np.random.default_rng(2).multinomial([40, 90], np.full(6, 1 / 6), size=(500, 2))
    assert not too_many_misses(sum(drift(*pair, BETA).exceeded for pair in once), 500)
