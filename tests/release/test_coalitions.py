"""Limits for each coalition of receivers: brute force from the full joint, closed forms, and another optimiser."""

import numpy as np
import pytest
from scipy.optimize import linprog

import jaxpriv as jp
from tests.cases import drawn_joint, raised, thorough

RNG = np.random.default_rng(0)
JOINT = drawn_joint(RNG, 2, 3)
EARLIER = RNG.dirichlet(0.7 * np.ones(4), 3).reshape(3, 2, 2)
HAMMING = 1 - np.eye(3)
COALITIONS = [(), (0,), (1,), (0, 1)]
# Limits that no leakage reaches: with them all calls have limits on the same coalitions, and share compiled programs.
FREE = dict.fromkeys(COALITIONS, 9.0)


def information(joint, earlier, mechanism, coalition, f=lambda t: t * np.log(t)):
    """I(S; Z_A, Y) from P(s, x, z0, z1, y)."""
    seen = "".join("ab"[one] for one in coalition)
    masses = np.einsum(f"sx,xab,xaby->s{seen}y", joint, earlier, mechanism).reshape(len(joint), -1)
    products = np.outer(masses.sum(axis=1), masses.sum(axis=0))
    return (products * f(masses / products))[masses > 0].sum()


def limits_above():
    """What each coalition has before the release, and .02 more."""
    nothing = np.full((3, 2, 2, 3), 1 / 3)
    return {one: information(JOINT, EARLIER, nothing, one) + 0.02 for one in COALITIONS}


@pytest.mark.parametrize("budget", [None, 0.25])
def test_every_coalition_by_brute_force_and_the_optimum_by_another_method(budget):
    limits = limits_above()
    limits[(1,)] -= 0.01
    found = jp.coalition_release(JOINT, EARLIER, HAMMING, limits, budget=budget)
    assert found.status == "optimal"
    np.testing.assert_allclose(found.mechanism.sum(axis=-1), 1.0, atol=1e-12)
    values = {one: information(JOINT, EARLIER, found.mechanism, one) for one in COALITIONS}
    assert found.leakages == pytest.approx(values, abs=1e-9)
    cost = np.einsum("x,xab,xy->xaby", JOINT.sum(axis=0), EARLIER, HAMMING)
    assert found.distortion == pytest.approx((cost * found.mechanism).sum(), abs=1e-12)
    over = max(values[one] - limits[one] for one in COALITIONS)
    assert found.value == pytest.approx(over if budget else found.distortion, abs=1e-9)
    assert (found.distortion <= budget + 1e-9) if budget else (over <= 1e-12)

    least = least_by_cuts(cost, limits, budget, found.value - 5e-5)
    assert least <= found.value + 1e-8
    assert found.value == pytest.approx(least, abs=1e-4)


def least_by_cuts(cost, limits, budget, enough):
    """A bound from below by linear programs: each I(S; Z_A, Y) is above its tangents, four more at every answer, until
    it is `enough`."""
    full, private = np.einsum("sx,xab->sxab", JOINT, EARLIER), JOINT.sum(axis=1)
    sums = np.hstack([np.kron(np.eye(12), np.ones(3)), np.zeros((12, 1))])
    rows, most = [], []
    if budget:
        rows, most = [np.append(cost, 0.0)], [budget]
    objective = np.append(np.zeros(36), 1.0) if budget else np.append(cost, 0.0)
    w = np.full((3, 2, 2, 3), 1 / 3)
    for _ in range(150):
        for one in COALITIONS:
            held = "".join("ab"[i] for i in one)
            seen = np.einsum(f"sxab,xaby->s{held}y", full, w)
            lift = np.log(seen / seen.sum(axis=0) / private.reshape(-1, *[1] * (seen.ndim - 1)))
            rows.append(np.append(np.einsum(f"sxab,s{held}y->xaby", full, lift), -1.0 if budget else 0.0))
            most.append(limits[one])
        found = linprog(objective, np.array(rows), most, sums, np.ones(12), bounds=[(1e-9, 1)] * 36 + [(-1, 1)])
        if found.fun >= enough:
            break
        w = np.maximum(found.x[:-1], 1e-9).reshape(w.shape)
    return found.fun


def test_all_together_are_what_the_sequential_release_limits():
    flat = EARLIER.reshape(3, 4)
    whole = jp.solve(jp.sequential_release(JOINT, flat, HAMMING, budget=0.2))
    found = jp.coalition_release(JOINT, EARLIER, HAMMING, FREE | {(0, 1): 0.0}, budget=0.2)
    assert found.value == pytest.approx(whole.value, abs=3e-6)
    assert found.lower_bound <= whole.value + 1e-9
    alone = jp.solve(jp.DistortionProblem(JOINT, HAMMING, leakage_budget=0.02))
    own = jp.coalition_release(JOINT, EARLIER, HAMMING, FREE | {(): 0.02})  # earlier releases are of no use to it
    assert own.value == pytest.approx(alone.value, abs=3e-6)


def test_a_bit_that_was_released_is_released_again():
    """A uniform bit through a channel that flips .1: a copy of the first release tells no more, .531004406 bits."""
    flipped = np.array([[0.9, 0.1], [0.1, 0.9]])
    found = jp.coalition_release([0.5, 0.5], flipped, 1 - np.eye(2), {(): 9.0, (0,): 0.0}, budget=0.1)
    assert found.value / np.log(2) == pytest.approx(0.531004406, abs=2e-6)


def test_another_measure_of_coalitions():
    def chi_squared(w):
        return information(JOINT, EARLIER, w, (0,), lambda t: (t - 1) ** 2)

    limits = {(): 0.05, (0,): chi_squared(np.full((3, 2, 2, 3), 1 / 3)) + 0.02}
    measure = jp.leakage.FInformation(jp.leakage.ChiSquared())
    found = jp.coalition_release(JOINT, EARLIER, HAMMING, limits, leakage=measure)
    assert found.status == "optimal"
    assert found.leakages[(0,)] == pytest.approx(chi_squared(found.mechanism), abs=1e-9)


def test_what_cannot_be_met_or_is_no_coalition():
    with raised(jp.InfeasibleError, r"limits\[\(0, 1\)\]: the coalition has"):
        jp.coalition_release(JOINT, EARLIER, HAMMING, {(): 1.0, (0, 1): 1e-6})
    with raised(jp.InfeasibleError, "least distortion"):
        jp.coalition_release(JOINT, EARLIER, HAMMING + 1.0, {(): 1.0}, budget=0.5)
    wrong = [
        ({"limits": {(2,): 0.1}}, "receivers are 0 to 1"),
        ({"limits": {(0, 0): 0.1}}, "different earlier receivers"),
        ({"limits": {0: 0.1}}, "different earlier receivers"),
        ({"limits": {(): -0.1}}, r"limits\[\(\)\]"),
        ({"limits": {}}, "must name a coalition"),
        ({"limits": np.array([0.1, 0.2])}, "must name a coalition"),
        ({"earlier": "abc"}, "earlier has dtype"),
        ({"earlier": 1j * EARLIER}, "earlier has dtype"),
        ({"leakage": jp.leakage.Sibson(2.0)}, "mean over the outputs"),
        ({"earlier": np.ones(3)}, "earlier"),
        ({"earlier": EARLIER[:2]}, "useful symbols"),
        ({"earlier": 2 * EARLIER}, "earlier"),
        ({"distortion": np.full((3, 3), np.inf)}, "distortion"),
    ]
    for changed, message in wrong:
        given = {"joint": JOINT, "earlier": EARLIER, "distortion": HAMMING, "limits": {(): 0.1}} | changed
        with raised(jp.InputError, message):
            jp.coalition_release(**given)


def test_a_budget_next_to_the_least_distortion():
    """Where a minimisation finds no other mechanism within the budget, what was found stands, with its bound."""
    joint, earlier, cost = [[0.19, 0.38], [0.11, 0.32]], [[1.0, 0.0], [0.53, 0.47]], [[0.63, 0.79], [0.01, 0.92]]
    found = jp.coalition_release(joint, earlier, cost, {(): 0.1, (0,): 0.01}, budget=0.196 + 1e-9)
    assert found.distortion <= 0.196 + 2e-9
    assert -np.inf < found.lower_bound <= found.value == max(found.leakages[()] - 0.1, found.leakages[(0,)] - 0.01)


def test_the_bound_holds_after_every_number_of_rounds():
    limits = limits_above()
    best = jp.coalition_release(JOINT, EARLIER, HAMMING, limits)
    for rounds in (1, 3):
        early = jp.coalition_release(JOINT, EARLIER, HAMMING, limits, max_rounds=rounds)
        assert early.lower_bound <= best.value + 1e-9
        assert early.value >= best.lower_bound - 1e-9
        assert early.rounds <= rounds
        assert all(early.leakages[one] <= limits[one] + 1e-12 for one in COALITIONS)
    for form, least in ({"limits": limits}, 0.0), ({"limits": limits, "budget": 0.25}, -max(limits.values())):
        cut = jp.coalition_release(JOINT, EARLIER, HAMMING, **form, time_limit=1e-9)
        assert least - 1e-9 <= cut.lower_bound <= cut.value
        assert (cut.rounds, cut.stopped) == (0, 1)


@pytest.mark.parametrize("alone", [True, *thorough(False)])
def test_a_coalition_that_may_learn_nothing(alone):
    """P(s,z,y) P(z) = P(s,z) P(z,y) is linear: the optimum is that of one linear program, with or without z = z0."""
    held = "" if alone else "a"
    full = np.einsum("sx,xab->sxab", JOINT, EARLIER)
    seen = np.einsum(f"sxab->s{held}", full).reshape(2, -1)
    mine = np.eye(1)[[0, 0]] if alone else np.eye(2)  # what z0 is to the coalition
    masses = np.einsum("sxab,ai->isxab", full, mine)
    apart = masses - np.einsum("si,ixab->isxab", seen / seen.sum(axis=0), masses.sum(axis=1))
    equations = np.einsum("isxab,yw->isyxabw", apart, np.eye(3)).reshape(-1, 36)
    sums = np.kron(np.eye(12), np.ones(3))
    cost = np.einsum("x,xab,xy->xaby", JOINT.sum(axis=0), EARLIER, HAMMING)
    right = np.repeat([0.0, 1.0], [len(equations), 12])
    least = linprog(cost.ravel(), A_eq=np.vstack([equations, sums]), b_eq=right).fun
    nothing = np.full((3, 2, 2, 3), 1 / 3)
    limit = {(): 0.0} if alone else {(0,): information(JOINT, EARLIER, nothing, (0,))}
    found = jp.coalition_release(JOINT, EARLIER, HAMMING, FREE | limit)
    assert found.status == "optimal"
    assert found.lower_bound - 1e-9 <= least <= found.value + 1e-9
    ((coalition, most),) = limit.items()
    assert information(JOINT, EARLIER, found.mechanism, coalition) <= most + 1e-12


def test_no_bound_is_above_the_optimum_where_an_equation_is_next_to_rounding():
    """P(s|x) depends on x by .1 along u and by 1e-9 along v, whose equation a table of float64 has to seven digits. Y
    says nothing about S exactly where it says nothing about both: the bound was 1e-6 above this linear program.
    """
    rng, size = np.random.default_rng(0), 5
    mass = rng.dirichlet(3 * np.ones(size))
    u, v = (w - mass @ w for w in rng.normal(size=(2, size)))
    given = np.array([0.3, 0.3, 0.4])[:, None] + np.outer([0.1, -0.1, 0.0], u) + 1e-9 * np.outer([0.05, 0.05, -0.1], v)
    joint = given * mass
    places = np.arange(float(size))
    costs = abs(places[:, None] - places)
    equal = np.vstack([*(np.kron(mass * w, np.eye(size)) for w in (u, v)), np.kron(np.eye(size), np.ones(size))])
    right = np.repeat([0.0, 1.0], [2 * size, size])
    least = linprog((mass[:, None] * costs).ravel(), A_eq=equal, b_eq=right).fun
    found = jp.coalition_release(joint / joint.sum(), np.ones((size, 1)), costs, {(): 0.0}, max_rounds=1)
    assert least - 1e-2 <= found.lower_bound <= least


def test_a_limit_that_is_what_the_coalition_has_but_for_rounding():
    """X says nothing about S: both leakages are zero but for rounding, and the data themselves may be released."""
    joint = np.outer([0.4, 0.6], [0.27, 0.11, 0.62])
    found = jp.coalition_release(joint, EARLIER, HAMMING, FREE | {(): 0.0, (0,): 0.0})
    assert found.status == "optimal"
    assert found.value == pytest.approx(0.0, abs=1e-6)


def test_a_budget_of_the_least_distortion_summed_in_another_order():
    least = 0.2374804682503
    cost = np.array([[least, 1.0], [1.0, least]])
    found = jp.coalition_release([[0.3, 0.1], [0.2, 0.4]], np.ones((2, 1)), cost, {(): 0.0}, budget=least * (1 - 4e-16))
    assert found.status == "optimal"
    assert found.distortion == pytest.approx(least, abs=1e-14)
