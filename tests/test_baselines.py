"""Baselines: entries against definitions, leakage against closed forms, limits, and refusals."""

import itertools
import math

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import laplace

import jaxpriv.leakage as lk
from jaxpriv import InputError, ResourceError, baselines, distortion

EPSILONS = [0.0, 1e-12, 0.3, 1.0, 4.0, 30.0]
UNEVEN = np.array([-1.0, 0.0, 0.5, 3.0, 3.25, 7.0])

# Every baseline on a few symbols, as a function of epsilon.
FAMILIES = {
    "randomised response": lambda eps: baselines.randomized_response(5, eps),
    "subset selection": lambda eps: baselines.subset_selection(5, eps, 2),
    "geometric": lambda eps: baselines.geometric(6, eps),
    "geometric, sensitivity 2.5": lambda eps: baselines.geometric(6, eps, 2.5),
    "staircase": lambda eps: baselines.staircase(9, eps, 3),
    "staircase, width 2": lambda eps: baselines.staircase(9, eps, 3, 2),
    "staircase, wider than the range": lambda eps: baselines.staircase(4, eps, 7, 6),
    "laplace": lambda eps: baselines.truncated_laplace(UNEVEN, eps, 1.5),
    "exponential": lambda eps: baselines.exponential(distortion.absolute(UNEVEN, [0.0, 2.0, 9.0]), eps),
}


def uniform(size):
    return np.eye(size) / size


def value(measure, joint, mechanism):
    return lk.evaluate(measure, joint, mechanism).value


def ldp(mechanism, neighbours=None):
    """The exact LDP of the table itself, on the host in logarithms."""
    size = mechanism.shape[0]
    return value(lk.LocalDifferentialPrivacy(neighbours), uniform(size), mechanism)


def apart(values, largest):
    """The relation 'at most `largest` apart'."""
    return np.abs(np.subtract.outer(values, values)) <= largest


def entropy(p):
    return -sum(float(q) * math.log(q) for q in p if q > 0)


# All of them


@pytest.mark.parametrize("epsilon", [*EPSILONS, 5e-324, 700.0, 745.0, 1e3, 1e300, math.inf])
@pytest.mark.parametrize("name", FAMILIES)
def test_rows_are_distributions_at_every_epsilon(name, epsilon):
    table = FAMILIES[name](epsilon)
    assert type(table) is np.ndarray
    assert table.dtype == np.float64
    assert np.all(table >= 0)
    np.testing.assert_allclose(table.sum(axis=1), 1.0, rtol=0, atol=2e-15)


@pytest.mark.parametrize("name", FAMILIES)
def test_zero_epsilon_releases_nothing(name):
    table = FAMILIES[name](0.0)
    np.testing.assert_allclose(table, table[[0]].repeat(len(table), axis=0), rtol=0, atol=1e-16)
    assert value(lk.MutualInformation(), uniform(len(table)), table) == pytest.approx(0, abs=1e-15)
    assert ldp(table) == pytest.approx(0, abs=1e-15)


def test_infinite_epsilon_adds_no_noise():
    for table in (
        baselines.randomized_response(4, math.inf),
        baselines.geometric(4, math.inf),
        baselines.staircase(4, math.inf, 3),
        baselines.truncated_laplace([0.0, 1.0, 5.0, 5.5], math.inf),
        baselines.exponential(distortion.squared([0.0, 1.0, 5.0, 5.5]), math.inf),
        baselines.subset_selection(4, math.inf, 1),
        # e^-1000 is below the smallest number
        baselines.geometric(4, 1e3),
    ):
        np.testing.assert_array_equal(table, np.eye(4))
    np.testing.assert_array_equal(
        baselines.subset_selection(3, math.inf, 2), np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.5, 0.5]])
    )
    np.testing.assert_allclose(baselines.staircase(9, math.inf, 3, 2)[4], [0, 0, 0, 1 / 3, 1 / 3, 1 / 3, 0, 0, 0])


@pytest.mark.parametrize("epsilon", [0.0, 1.0, math.inf])
def test_one_symbol(epsilon):
    for table in (
        baselines.randomized_response(1, epsilon),
        baselines.subset_selection(1, epsilon, 1),
        baselines.geometric(1, epsilon),
        baselines.staircase(1, epsilon, 4),
        baselines.truncated_laplace([3.0], epsilon),
        baselines.exponential([[2.0]], epsilon),
        baselines.merging(1),
        baselines.merge([0]),
    ):
        np.testing.assert_array_equal(table, [[1.0]])
    np.testing.assert_array_equal(baselines.erasure(1, 0.25), [[0.75, 0.25]])


@given(name=st.sampled_from(sorted(FAMILIES)), low=st.floats(0, 20), more=st.floats(0, 20))
def test_privacy_is_at_most_asked_and_leakage_grows_with_epsilon(name, low, more):
    if name == "geometric":
        asked = apart(np.arange(6), 1)
    elif name == "geometric, sensitivity 2.5":
        asked = apart(np.arange(6), 2.5)
    elif name == "laplace":
        asked = apart(UNEVEN, 1.5)
    elif name == "staircase, wider than the range" or "staircase" not in name:
        asked = None
    else:
        asked = apart(np.arange(9), 3)
    table = FAMILIES[name](low)
    assert ldp(table, asked) <= low + 1e-12
    assert ldp(FAMILIES[name](low + more), asked) >= ldp(table, asked) - 1e-12
    # The prior-free cap of the whole table follows from LDP over all pairs.
    assert float(lk.prior_free_cap(table)) <= ldp(table) + 1e-12


@pytest.mark.parametrize("name", ["geometric", "staircase, width 2", "laplace", "randomised response"])
def test_post_processing_by_a_baseline_reveals_no_more(name):
    table = FAMILIES[name](1.3)
    joint = np.random.default_rng(3).dirichlet(np.ones(3 * len(table))).reshape(3, -1)
    after = table @ baselines.merge(np.arange(table.shape[1]) // 2)
    for measure in (lk.MutualInformation(), lk.Sibson(2.0), lk.MaximalLeakage(), lk.Lift(), lk.CorrectGuess()):
        assert value(measure, joint, after) <= value(measure, joint, table) + 1e-12


# Randomised response and subset selection


@pytest.mark.parametrize("size", [2, 3, 10])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_randomized_response_in_closed_form(size, epsilon):
    table, joint = baselines.randomized_response(size, epsilon), uniform(size)
    total = math.exp(epsilon) + size - 1
    truth, lie = math.exp(epsilon) / total, 1 / total
    np.testing.assert_allclose(table, np.where(np.eye(size), truth, lie), rtol=1e-14)
    near = {"rel": 1e-12, "abs": 1e-15}
    assert ldp(table) == pytest.approx(epsilon, rel=1e-13, abs=2e-15)
    assert value(lk.InferentialPrivacy(), joint, table) == pytest.approx(epsilon, rel=1e-13, abs=2e-15)
    assert value(lk.MaximalLeakage(), joint, table) == pytest.approx(math.log(size * truth), **near)
    assert value(lk.MinEntropyLeakage(), joint, table) == pytest.approx(math.log(size * truth), **near)
    assert value(lk.MaxLift(), joint, table) == pytest.approx(math.log(size * truth), **near)
    assert value(lk.MinLift(), joint, table) == pytest.approx(-math.log(size * lie), **near)
    assert value(lk.CorrectGuess(), joint, table) == pytest.approx(truth, **near)
    assert float(lk.prior_free_cap(table)) == pytest.approx(math.log(size * truth), **near)
    information = math.log(size) - entropy([truth] + [lie] * (size - 1))
    assert value(lk.MutualInformation(), joint, table) == pytest.approx(information, abs=1e-14)
    assert value(lk.MaxInformation(), joint, table) == pytest.approx(information, abs=1e-14)
    for order in (0.5, 2.0, 10.0):
        renyi = math.log(truth**order + (size - 1) * lie**order) / (1 - order)
        # For a uniform prior Sibson's and Arimoto's informations agree.
        for measure in (lk.Sibson(order), lk.Arimoto(order)):
            assert value(measure, joint, table) == pytest.approx(math.log(size) - renyi, abs=1e-13)
    distance = (truth - 1 / size + (size - 1) * (1 / size - lie)) / 2
    assert value(lk.FInformation(lk.TotalVariation()), joint, table) == pytest.approx(distance, abs=1e-15)
    chi = size * (truth**2 + (size - 1) * lie**2) - 1
    assert value(lk.FInformation(lk.ChiSquared()), joint, table) == pytest.approx(chi, rel=1e-13, abs=1e-14)


@given(size=st.integers(2, 6), epsilon=st.floats(0, 50), seed=st.integers(0, 10**6))
def test_randomized_response_does_not_know_names(size, epsilon, seed):
    table = baselines.randomized_response(size, epsilon)
    order = np.random.default_rng(seed).permutation(size)
    np.testing.assert_array_equal(table[order][:, order], table)


def test_two_randomized_responses_are_a_weaker_one():
    first, second = (baselines.randomized_response(3, eps) for eps in (1.0, 2.0))
    both = first @ second
    np.testing.assert_allclose(both, baselines.randomized_response(3, ldp(both)), rtol=1e-14)
    assert ldp(both) < 1.0


@pytest.mark.parametrize("subset", [1, 2, 3, 4, 5])
def test_subset_selection_in_closed_form(subset):
    size, epsilon = 5, 1.7
    table = baselines.subset_selection(size, epsilon, subset)
    inside, outside = math.comb(size - 1, subset - 1), math.comb(size - 1, subset)
    total = inside * math.exp(epsilon) + outside
    for y, members in enumerate(itertools.combinations(range(size), subset)):
        for x in range(size):
            assert table[x, y] == pytest.approx((math.exp(epsilon) if x in members else 1) / total, rel=1e-14)
    assert ldp(table) == pytest.approx(epsilon if subset < size else 0.0, abs=1e-14)
    cap = math.log(math.comb(size, subset) * math.exp(epsilon) / total)
    assert value(lk.MaximalLeakage(), uniform(size), table) == pytest.approx(cap, abs=1e-14)
    # The posterior given a set: m on each member, m e^-eps on the others.
    weights = np.array([1.0] * subset + [math.exp(-epsilon)] * (size - subset))
    information = math.log(size) - entropy(weights / weights.sum())
    assert value(lk.MutualInformation(), uniform(size), table) == pytest.approx(information, abs=1e-14)
    assert value(lk.CorrectGuess(), uniform(size), table) == pytest.approx(1 / weights.sum(), abs=1e-15)


def test_one_member_subsets_are_randomized_response():
    for epsilon in EPSILONS:
        np.testing.assert_allclose(
            baselines.subset_selection(6, epsilon, 1), baselines.randomized_response(6, epsilon), rtol=1e-15
        )


# Additive noise, clamped


def clamped_by_sum(size, noise):
    """x + Z clamped, by adding up P(Z = z) over a long range: an oracle that knows no tail formula."""
    table = np.zeros((size, size))
    for x in range(size):
        for z in range(-3000, 3001):
            table[x, min(max(x + z, 0), size - 1)] += noise(abs(z))
    return table


@pytest.mark.parametrize("epsilon", [0.05, 0.7, 5.0])
@pytest.mark.parametrize("sensitivity", [1, 2.5])
def test_geometric_is_its_definition(epsilon, sensitivity):
    a = math.exp(-epsilon / sensitivity)
    expected = clamped_by_sum(5, lambda m: (1 - a) / (1 + a) * a**m)
    np.testing.assert_allclose(baselines.geometric(5, epsilon, sensitivity), expected, rtol=1e-12)


@pytest.mark.parametrize("epsilon", [1e-9, 0.3, 1.0, 8.0])
def test_geometric_is_exactly_private_at_every_distance(epsilon):
    table = baselines.geometric(7, epsilon)
    for k in range(1, 7):
        assert ldp(table, apart(np.arange(7), k)) == pytest.approx(k * epsilon, rel=1e-12, abs=1e-15)
    # Every output is likeliest at its own input: 1/(1+a) at the two ends, (1-a)/(1+a) between.
    a = math.exp(-epsilon)
    total = (2 + 5 * -math.expm1(-epsilon)) / (1 + a)
    assert value(lk.MaximalLeakage(), uniform(7), table) == pytest.approx(math.log(total), abs=1e-14)


def test_geometric_on_two_symbols_is_randomized_response():
    for epsilon in EPSILONS:
        np.testing.assert_allclose(
            baselines.geometric(2, epsilon), baselines.randomized_response(2, epsilon), rtol=1e-14
        )


@given(
    size=st.integers(1, 12),
    epsilon=st.floats(0, 800),
    sensitivity=st.integers(1, 9),
    data=st.data(),
)
def test_clamped_mechanisms_are_mirrored(size, epsilon, sensitivity, data):
    width = data.draw(st.integers(1, sensitivity))
    values = np.cumsum(data.draw(st.lists(st.floats(0.01, 5), min_size=size, max_size=size)))
    for table in (
        baselines.geometric(size, epsilon, sensitivity),
        baselines.staircase(size, epsilon, sensitivity, width),
    ):
        np.testing.assert_allclose(table.sum(axis=1), 1.0, rtol=0, atol=2e-15)
        np.testing.assert_allclose(table[::-1, ::-1], table, rtol=1e-13, atol=1e-320)
    table = baselines.truncated_laplace(values, epsilon, sensitivity)
    turned = baselines.truncated_laplace(-values[::-1], epsilon, sensitivity)
    np.testing.assert_allclose(turned[::-1, ::-1], table, rtol=1e-13, atol=1e-320)
    # Another unit changes nothing; a power of two rounds nothing but subnormal rates.
    scaled = baselines.truncated_laplace(4 * values, epsilon, 4 * sensitivity)
    np.testing.assert_allclose(scaled, table, rtol=1e-15, atol=1e-320)


def steps(epsilon, sensitivity, width):
    """P(Z = z) up to a factor, step by step from the definition in words."""
    heights = [1.0] * width
    for level in range(1, 3100 // sensitivity + 2):
        heights += [math.exp(-level * epsilon)] * sensitivity
    total = heights[0] + 2 * math.fsum(heights[1:])
    return [height / total for height in heights]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 6.0])
@pytest.mark.parametrize(("sensitivity", "width"), [(1, 1), (2, 1), (2, 2), (5, 1), (5, 3), (5, 5)])
def test_staircase_is_its_definition(epsilon, sensitivity, width):
    noise = steps(epsilon, sensitivity, width)
    # Private before clamping: any shift by at most the sensitivity costs at most epsilon, one costs all of it.
    both = np.log(np.array(noise[60:0:-1] + noise[:61]))
    worst = [np.max(np.abs(both[shift:] - both[:-shift])) for shift in range(1, sensitivity + 1)]
    assert max(worst) == pytest.approx(epsilon, rel=1e-12)
    np.testing.assert_allclose(
        baselines.staircase(8, epsilon, sensitivity, width), clamped_by_sum(8, noise.__getitem__), rtol=1e-12
    )


@pytest.mark.parametrize("epsilon", [1e-9, 0.4, 3.0])
@pytest.mark.parametrize("width", [1, 2, 3, None])
def test_staircase_is_exactly_private_after_clamping(epsilon, width):
    table = baselines.staircase(10, epsilon, 3, width)
    near = {"rel": 1e-12, "abs": 1e-15}
    assert ldp(table, apart(np.arange(10), 3)) == pytest.approx(epsilon, **near)
    assert ldp(table, apart(np.arange(10), 6)) == pytest.approx(2 * epsilon, **near)
    assert ldp(table, apart(np.arange(10), 9)) == pytest.approx(3 * epsilon, **near)
    # Symbols closer than the sensitivity are as far apart as it, if a step begins between them.
    assert ldp(table, apart(np.arange(10), 1)) == pytest.approx(epsilon, **near)


def test_staircase_of_sensitivity_one_is_geometric():
    for epsilon in [*EPSILONS, 1e3, math.inf]:
        np.testing.assert_allclose(baselines.staircase(7, epsilon), baselines.geometric(7, epsilon), rtol=1e-14)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0, 5.0, 9.0])
@pytest.mark.parametrize("sensitivity", [2, 5, 12])
def test_default_width_has_the_least_mean_noise(epsilon, sensitivity):
    widths = range(1, sensitivity + 1)
    means = [2 * math.fsum(m * p for m, p in enumerate(steps(epsilon, sensitivity, width))) for width in widths]
    best = 1 + int(np.argmin(means))
    np.testing.assert_array_equal(
        baselines.staircase(8, epsilon, sensitivity), baselines.staircase(8, epsilon, sensitivity, best)
    )
    # Geng and Viswanath: gamma = 1/(1 + e^(eps/2)) for real-valued noise; widths are gamma D rounded up or down.
    assert abs(best - sensitivity / (1 + math.exp(epsilon / 2))) <= 1


# Laplace


@pytest.mark.parametrize("epsilon", [1e-6, 0.3, 2.0, 20.0])
def test_laplace_is_its_definition(epsilon):
    edges = np.concatenate([[-np.inf], (UNEVEN[1:] + UNEVEN[:-1]) / 2, [np.inf]])
    scale = 1.5 / epsilon
    lower, upper = laplace.cdf(edges, loc=UNEVEN[:, None], scale=scale), laplace.sf(edges, UNEVEN[:, None], scale)
    # The difference of whichever tail is the smaller keeps the digits.
    expected = np.where(lower[:, 1:] < 0.5, np.diff(lower), -np.diff(upper))
    table = baselines.truncated_laplace(UNEVEN, epsilon, 1.5)
    np.testing.assert_allclose(table, expected, rtol=1e-9 if epsilon < 1e-3 else 1e-13)


def test_laplace_far_tails_keep_their_digits():
    table = baselines.truncated_laplace(np.arange(7.0), 100.0)
    # (e^(-100 (m - 1/2)) - e^(-100 (m + 1/2)))/2 at distance m: about 1e-196, lost in 1 - (1 - small).
    assert math.log(table[0, 5]) == pytest.approx(-math.log(2) - 450.0, abs=1e-12)
    assert math.log(table[6, 1]) == pytest.approx(-math.log(2) - 450.0, abs=1e-12)
    assert math.log(table[0, 6]) == pytest.approx(-math.log(2) - 550.0, abs=1e-12)


@pytest.mark.parametrize("epsilon", [1e-6, 0.5, 3.0])
def test_laplace_is_exactly_private_at_every_distance(epsilon):
    table = baselines.truncated_laplace(2.0 * np.arange(8), epsilon, 2.0)
    for k in range(1, 7):  # an output outside of both inputs exists
        asked = apart(np.arange(8), k)
        assert ldp(table, asked) == pytest.approx(k * epsilon, rel=1e-12, abs=2e-15)
    # The two ends have none: P(n-1|n-1) = 1 - e^(-eps/2)/2 and P(n-1|0) = e^(-(n - 3/2) eps)/2.
    ends = math.log((1 - math.exp(-epsilon / 2) / 2) / (math.exp(-6.5 * epsilon) / 2))
    only = np.zeros((8, 8), dtype=bool)
    only[7, 0] = True
    assert ldp(table, only) == pytest.approx(max(ends, 6 * epsilon), rel=1e-10)
    assert ends < 7 * epsilon


def test_laplace_on_two_values_hides_more_than_asked():
    for epsilon in (0.1, 1.0, 5.0):
        expected = math.log(2 * math.exp(epsilon / 2) - 1)
        assert ldp(baselines.truncated_laplace([0.0, 1.0], epsilon)) == pytest.approx(expected, rel=1e-12)


def test_laplace_at_the_edge_of_the_number_range():
    close = np.array([1.0, np.nextafter(1.0, 2.0), 2.0])
    np.testing.assert_array_equal(baselines.truncated_laplace(close, math.inf), np.eye(3))
    tiny = np.array([0.0, 5e-324, 1e-323])
    np.testing.assert_array_equal(baselines.truncated_laplace(tiny, math.inf), np.eye(3))
    np.testing.assert_array_equal(baselines.truncated_laplace([-4e307, 0.0, 4e307], 1e300, 1e-300), np.eye(3))


# Exponential


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_exponential_with_hamming_distortion_is_randomized_response_of_half_epsilon(epsilon):
    expected = baselines.randomized_response(4, epsilon / 2)
    for distance in (distortion.hamming(4), 1 - np.eye(4), 3 + 7 * (1 - np.eye(4))):
        np.testing.assert_allclose(baselines.exponential(distance, epsilon), expected, rtol=1e-14)


@given(seed=st.integers(0, 10**6), epsilon=st.floats(0, 100), x=st.integers(1, 5), y=st.integers(1, 5))
def test_exponential_is_its_definition_and_private(seed, epsilon, x, y):
    rng = np.random.default_rng(seed)
    costs = rng.normal(size=(x, y))
    table = baselines.exponential(costs, epsilon)
    spread = np.max(costs.max(axis=0) - costs.min(axis=0))
    if x > 1:
        weights = np.exp(-epsilon * (costs - costs.min(axis=1, keepdims=True)) / (2 * spread))
        np.testing.assert_allclose(table, weights / weights.sum(axis=1, keepdims=True), rtol=1e-12, atol=1e-300)
    assert not np.all(table > 0) or ldp(table) <= epsilon + 1e-12
    # Neither a cost of the input alone nor the names of the symbols change anything.
    rows, columns = rng.permutation(x), rng.permutation(y)
    moved = costs[rows][:, columns] + 2.0 ** rng.integers(0, 3)
    if x > 1:
        np.testing.assert_allclose(baselines.exponential(moved, epsilon), table[rows][:, columns], rtol=1e-10)


def test_exponential_attains_epsilon_only_in_the_limit():
    # Two inputs that prefer opposite halves of one output against many: the totals differ as much as they can.
    costs = np.stack([np.array([0.0] + [1.0] * 2000), np.array([1.0] + [0.0] * 2000)])
    assert 0.98 < ldp(baselines.exponential(costs, 4.0)) / 4.0 <= 1.0


def test_exponential_without_sensitivity():
    costs = [[2.0, 1.0, 1.0], [2.0, 1.0, 1.0]]
    np.testing.assert_array_equal(baselines.exponential(costs, 1e-3), [[0.0, 0.5, 0.5]] * 2)
    np.testing.assert_array_equal(baselines.exponential(costs, 0.0), np.full((2, 3), 1 / 3))
    # Ties share at infinite epsilon.
    np.testing.assert_array_equal(baselines.exponential([[0.0, 0.0, 1.0], [5.0, 3.0, 4.0]], math.inf)[0], [0.5, 0.5, 0])


# Erasure and merging


@pytest.mark.parametrize("probability", [0.0, 0.2, 0.9, 1.0])
def test_erasure_in_closed_form(probability):
    prior = np.array([0.5, 0.3, 0.15, 0.05])
    table, joint = baselines.erasure(4, probability), np.diag(prior)
    np.testing.assert_array_equal(table, np.hstack([(1 - probability) * np.eye(4), np.full((4, 1), probability)]))
    kept = 1 - probability
    assert value(lk.MutualInformation(), joint, table) == pytest.approx(kept * entropy(prior), abs=1e-14)
    assert value(lk.MaximalLeakage(), joint, table) == pytest.approx(math.log1p(kept * 3), abs=1e-14)
    assert value(lk.CorrectGuess(), joint, table) == pytest.approx(kept + probability * 0.5, abs=1e-15)
    for order in (0.5, 2.0):
        sibson = order / (order - 1) * math.log(kept * np.sum(prior ** (1 / order)) + probability)
        assert value(lk.Sibson(order), joint, table) == pytest.approx(sibson, abs=1e-13)
        norm = np.sum(prior**order) ** (1 / order)
        arimoto = order / (order - 1) * math.log(kept / norm + probability)
        assert value(lk.Arimoto(order), joint, table) == pytest.approx(arimoto, abs=1e-13)
    # f(t) = |t - 1|/2: a kept symbol of mass p has total variation 1 - p.
    assert value(lk.FInformation(lk.TotalVariation()), joint, table) == pytest.approx(
        kept * np.sum(prior * (1 - prior)), abs=1e-15
    )
    assert value(lk.MaxLift(), joint, table) == pytest.approx(math.log(20) if kept else 0.0, abs=1e-14)
    for measure in (lk.Lift(), lk.LocalDifferentialPrivacy(), lk.MinLift()):
        assert value(measure, joint, table) == (math.inf if kept else 0.0)


def test_two_erasures_are_one():
    again = np.zeros((4, 4))
    again[:3] = baselines.erasure(3, 0.5)
    again[3, 3] = 1  # the erasure stays erased
    np.testing.assert_array_equal(baselines.erasure(3, 0.5) @ again, baselines.erasure(3, 0.75))


def test_complete_merging_leaks_nothing_under_any_measure():
    joint = np.random.default_rng(0).dirichlet(np.ones(12)).reshape(3, 4)
    table = baselines.merging(4)
    assert table.shape == (4, 1)
    report = lk.report(joint, table)
    assert report.prior_free_cap == 0
    for row in report.rows:
        nothing = joint.sum(axis=1).max() if row.name == "correct-guess" else 0.0
        assert row.value == pytest.approx(nothing, abs=1e-14), row.name


def test_merging_by_class_leaks_the_class():
    classes = np.array([1, 0, 2, 0, 1])
    table = baselines.merge(classes)
    assert table.dtype == np.float64
    np.testing.assert_array_equal(table, [[0, 1, 0], [1, 0, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0]])
    prior = np.array([0.1, 0.2, 0.3, 0.25, 0.15])
    joint = np.diag(prior)
    assert value(lk.MutualInformation(), joint, table) == pytest.approx(entropy([0.45, 0.25, 0.3]), abs=1e-14)
    assert value(lk.MaximalLeakage(), joint, table) == pytest.approx(math.log(3), abs=1e-15)
    assert value(lk.CorrectGuess(), joint, table) == pytest.approx(0.25 + 0.15 + 0.3, abs=1e-15)
    np.testing.assert_array_equal(baselines.merge([0] * 4), baselines.merging(4))
    np.testing.assert_array_equal(baselines.merge(np.arange(3.0)), np.eye(3))


def test_dropping_releases_the_other_attributes():
    codes = np.array([[0, 1], [0, 0], [1, 0], [1, 1], [0, 1]])
    np.testing.assert_array_equal(baselines.dropping(codes, [1]), baselines.merge([0, 0, 1, 1, 0]))
    np.testing.assert_array_equal(baselines.dropping(codes, (0,)), baselines.merge([1, 0, 0, 1, 1]))
    np.testing.assert_array_equal(baselines.dropping(codes, [0, 1]), baselines.merging(5))
    # Two symbols of the same attributes are one output; combinations come in sorted order.
    np.testing.assert_array_equal(baselines.dropping(codes, []), baselines.merge([1, 0, 2, 3, 1]))


# Refusals


SIZED = {
    "randomized_response": lambda size: baselines.randomized_response(size, 1.0),
    "subset_selection": lambda size: baselines.subset_selection(size, 1.0, 1),
    "geometric": lambda size: baselines.geometric(size, 1.0),
    "staircase": lambda size: baselines.staircase(size, 1.0),
    "erasure": lambda size: baselines.erasure(size, 0.5),
    "merging": baselines.merging,
}


@pytest.mark.parametrize("size", [0, -3, 2.0, True, "3", None, math.nan, 2**60, [3]], ids=str)
@pytest.mark.parametrize("name", SIZED)
def test_a_size_is_a_whole_number(name, size):
    with pytest.raises(InputError, match=r"^size must be a whole number from 1"):
        SIZED[name](size)


@pytest.mark.parametrize("name", SIZED)
def test_any_integer_type_is_a_size(name):
    np.testing.assert_array_equal(SIZED[name](np.int32(3)), SIZED[name](3))


@pytest.mark.parametrize("name", SIZED)
def test_a_table_beyond_the_memory_is_refused(name):
    with pytest.raises(ResourceError, match="the mechanism as a table needs"):
        SIZED[name](2**50)


def test_other_tables_beyond_the_memory_are_refused():
    with pytest.raises(ResourceError, match="the mechanism as a table needs"):
        baselines.subset_selection(3000, 1.0, 1500)  # 10^901 subsets
    with pytest.raises(ResourceError, match="the mechanism as a table needs"):
        baselines.staircase(2, 1.0, 2**50)


@pytest.mark.parametrize("epsilon", [-1e-9, -math.inf, math.nan])
@pytest.mark.parametrize("name", FAMILIES)
def test_epsilon_is_at_least_zero(name, epsilon):
    with pytest.raises(InputError, match=r"^epsilon must be a number >= 0"):
        FAMILIES[name](epsilon)


@pytest.mark.parametrize("name", FAMILIES)
def test_epsilon_is_one_number_and_not_traced(name):
    with pytest.raises(InputError, match=r"^epsilon must be a number, not a bool"):
        FAMILIES[name](True)
    with pytest.raises(InputError, match=r"^epsilon has 1 dimension"):
        FAMILIES[name]([1.0])
    with pytest.raises(InputError, match=r"^epsilon has dtype"):
        FAMILIES[name]("1")
    with pytest.raises(InputError, match=r"^epsilon is traced; a baseline is built on the host"):
        jax.jit(FAMILIES[name])(1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: baselines.subset_selection(3, 1.0, 4), "^subset must be at most size"),
        (lambda: baselines.subset_selection(3, 1.0, 0), "^subset must be a whole number from 1"),
        (lambda: baselines.geometric(3, 1.0, 0.0), "^sensitivity must be a finite number > 0"),
        (lambda: baselines.geometric(3, 1.0, -1.0), "^sensitivity must be a finite number > 0"),
        (lambda: baselines.geometric(3, 1.0, math.inf), "^sensitivity must be a finite number > 0"),
        (lambda: baselines.geometric(3, 1.0, math.nan), "^sensitivity must be a finite number > 0"),
        (lambda: baselines.staircase(3, 1.0, 0), "^sensitivity must be a whole number from 1"),
        (lambda: baselines.staircase(3, 1.0, 1.5), "^sensitivity must be a whole number from 1"),
        (lambda: baselines.staircase(3, 1.0, 2, 0), "^width must be a whole number from 1"),
        (lambda: baselines.staircase(3, 1.0, 2, 1.0), "^width must be a whole number from 1"),
        (lambda: baselines.staircase(3, 1.0, 2, 3), "^width must be at most sensitivity"),
        (lambda: baselines.truncated_laplace([0.0, 1.0], 1.0, 0.0), "^sensitivity must be a finite number > 0"),
        (lambda: baselines.truncated_laplace([0.0, 2.0, 2.0], 1.0), r"^values must increase, but values\[2\] is not"),
        (lambda: baselines.truncated_laplace([1.0, 0.0], 1.0), r"^values must increase, but values\[1\] is not"),
        (lambda: baselines.truncated_laplace([0.0, math.nan], 1.0), r"^values\[1\] is NaN"),
        (lambda: baselines.truncated_laplace([0.0, math.inf], 1.0), r"^values\[1\] is infinite"),
        (lambda: baselines.truncated_laplace([], 1.0), "^values is empty along axis 0"),
        (lambda: baselines.truncated_laplace([[0.0]], 1.0), r"^values has 2 dimension\(s\)"),
        (lambda: baselines.truncated_laplace(["a"], 1.0), "^values has dtype"),
        (lambda: baselines.truncated_laplace([-1e308, 1e308], 1.0), "^values spread too far"),
        (lambda: baselines.truncated_laplace([-6e307, 5e307, 6e307], 1.0), "^values spread too far"),
        (lambda: jax.jit(baselines.truncated_laplace)(np.arange(2.0), 1.0), "^values is traced"),
        (lambda: baselines.exponential([[0.0, math.nan]], 1.0), r"^distortion\[0, 1\] is NaN"),
        (lambda: baselines.exponential([0.0, 1.0], 1.0), r"^distortion has 1 dimension\(s\)"),
        (lambda: baselines.exponential([[]], 1.0), "^distortion is empty along axis 1"),
        (lambda: baselines.exponential([[-1e308], [1e308]], 1.0), "^distortion spreads too far"),
        (lambda: baselines.exponential([[-1e308, 1e308]], 1.0), "^distortion spreads too far"),
        (lambda: jax.jit(baselines.exponential)(np.eye(2), 1.0), "^distortion is traced"),
        (lambda: baselines.erasure(3, -0.1), "^probability must be a finite number >= 0 and <= 1"),
        (lambda: baselines.erasure(3, 1.1), "^probability must be a finite number >= 0 and <= 1"),
        (lambda: baselines.erasure(3, math.nan), "^probability must be a finite number >= 0 and <= 1"),
        (lambda: baselines.merge([]), "^classes is empty along axis 0"),
        (lambda: baselines.merge(3), r"^classes has 0 dimension\(s\)"),
        (lambda: baselines.merge([0, -1]), r"^classes\[1\] is negative"),
        (lambda: baselines.merge([0, 0.5]), r"^classes\[1\] is not a whole number"),
        (lambda: baselines.merge([0, 2, 3]), "^classes must be numbered without a gap, but 1 is not used"),
        (lambda: baselines.merge([1, 2]), "^classes must be numbered without a gap, but 0 is not used"),
        (lambda: baselines.merge([0, 10**12]), "^classes must be numbered without a gap, but 1 is not used"),
        (lambda: baselines.dropping([0, 1], [0]), r"^attributes has 1 dimension\(s\)"),
        (lambda: baselines.dropping([[0, 1.5]], [0]), r"^attributes\[0, 1\] is not a whole number"),
        (lambda: baselines.dropping([[0, -1]], [0]), r"^attributes\[0, 1\] is negative"),
        (lambda: baselines.dropping([[0, 1]], [0, 2]), r"^dropped\[1\] must be the number of a column, from 0 to 1"),
        (lambda: baselines.dropping([[0, 1]], [True]), r"^dropped\[0\] must be the number of a column"),
        (lambda: baselines.dropping([[0, 1]], [1, 1]), r"^dropped\[1\] is the same column"),
    ],
)
def test_a_bad_argument_is_named(make, message):
    with pytest.raises(InputError, match=message):
        make()
