"""Bad input: refused before anything is computed, by argument and position, without repeating a data value."""

import re

import numpy as np
import pytest

import jaxpriv as jp
from tests.cases import assert_refused, distances, raised

from .checks import proved

JOINT = np.array([[0.1, 0.2, 0.05], [0.15, 0.25, 0.25]])
TABLE = distances(3)


def put(array, index, value):
    changed = np.array(array, dtype=float)
    changed[index] = value
    return changed


FORMS = ("budget", "multiplier", "leakage_budget")
BAD_JOINTS = {
    "nan": (put(JOINT, (1, 2), np.nan), r"^joint\[1, 2\] is NaN"),
    "inf": (put(JOINT, (0, 1), np.inf), r"^joint\[0, 1\] is infinite"),
    "-inf": (put(JOINT, (0, 1), -np.inf), r"^joint\[0, 1\] is infinite"),
    "negative": (put(JOINT, (1, 0), -0.15), r"^joint\[1, 0\] is negative"),
    "barely negative": (put(JOINT, (1, 0), -1e-300), r"^joint\[1, 0\] is negative"),
    "counts": (np.array([[3, 1, 2], [4, 1, 5]]), r"^joint sums to 16, not 1; use .*from_counts"),
    "short": (0.9 * JOINT, r"^joint sums to 0\.9, not 1"),
    "empty mass": (np.zeros((2, 3)), r"^joint has no mass"),
    "empty rows": (np.zeros((0, 3)), r"^joint is empty along axis 0"),
    "empty columns": (np.zeros((2, 0)), r"^joint is empty along axis 1"),
    "vector": (0.5 * np.full(3, 1 / 3), r"^joint sums to 0\.5, not 1; .*one axis is P\(X\), with S = X"),
    "vector with a nan": ([0.5, np.nan, 0.5], r"^joint\[1\] is NaN"),
    "four axes": (JOINT[None, None], r"^joint has 4 dimension\(s\)"),
    "bool": (JOINT > 0.1, r"^joint has dtype bool"),
    "object": (np.array([[0.5, None], [0.5, 0.0]], dtype=object), r"^joint has dtype object"),
    "string": (JOINT.astype(str), r"^joint has dtype <U"),
    "complex": (JOINT.astype(complex), r"^joint has dtype complex128"),
    "date": (np.zeros((2, 2), dtype="datetime64[s]"), r"^joint has dtype datetime64"),
    "ragged": ([[0.5, 0.5], [0.0]], r"^joint is not a rectangular array"),
    "none": (None, r"^joint has dtype object"),
    "masked": (np.ma.masked_array(JOINT, mask=JOINT > 0.2), r"^joint\[1, 1\] is masked"),
    "set with a bad one": (np.stack([JOINT, put(JOINT, (1, 2), np.nan)]), r"^joint\[1\]\[1, 2\] is NaN"),
    "set with a short one": (np.stack([JOINT, 0.5 * JOINT]), r"^joint\[1\] sums to 0\.5"),
    "empty set": (np.zeros((0, 2, 3)), r"^joint is empty along axis 0"),
}

BAD_DISTORTIONS = {
    "nan": (put(TABLE, (2, 0), np.nan), r"^distortion\[2, 0\] is NaN"),
    "-inf": (put(TABLE, (2, 0), -np.inf), r"^distortion\[2, 0\] is -inf"),
    "transposed": (np.zeros((5, 3)), r"^distortion has 5 rows \(axis x\), .* has 3 .* it looks transposed"),
    "wrong size": (
        np.zeros((5, 4)),
        r"^distortion has 5 rows \(axis x\), but the joint has 3 useful symbols \(axis x\)$",
    ),
    "no release": (np.zeros((3, 0)), r"^distortion is empty along axis 1"),
    "vector": (np.zeros(3), r"^distortion has 1 dimension"),
    "bool": (TABLE > 1, r"^distortion has dtype bool"),
    "second nan": ([TABLE, put(TABLE, (0, 1), np.nan)], r"^distortion\[1\]\[0, 1\] is NaN"),
    "second of another shape": (
        [TABLE, np.zeros((3, 4))],
        r"^distortion\[1\] has shape \(3, 4\); the first .* \(3, 3\)",
    ),
    "operator of another size": (jp.distortion.hamming(4), r"^distortion has 4 rows"),
    "masked": (np.ma.masked_array(TABLE, mask=TABLE > 1), r"^distortion\[0, 2\] is masked"),
}


@pytest.mark.parametrize("case", BAD_JOINTS)
def test_joints(case):
    value, message = BAD_JOINTS[case]
    assert_refused(message, jp.DistortionProblem, value, TABLE, budget=0.1)
    if isinstance(value, np.ndarray) and value.ndim == 2:
        assert_refused(message.replace("2 or 3", "2"), jp.with_private_input, value, TABLE, budget=0.1)
        assert_refused(
            message.replace("2 or 3", "2"), jp.NoiseProblem, value, np.zeros(value.shape[1] or 1), budget=0.1
        )


@pytest.mark.parametrize("case", BAD_DISTORTIONS)
def test_distortions(case):
    value, message = BAD_DISTORTIONS[case]
    assert_refused(message, jp.DistortionProblem, JOINT, value, budget=0.1)


@pytest.mark.parametrize(
    ("value", "message", "names"),
    [
        (np.inf, "infinite|finite", ("budget", "multiplier")),  # an infinite leakage budget limits nothing
        (-np.inf, "infinite|finite", ("budget", "multiplier")),
        (np.nan, "NaN|finite", FORMS),
        (True, "bool", FORMS),
        (np.bool_(False), "bool", FORMS),
        ("0.1", "dtype", FORMS),
        (0.1 + 0j, "dtype", FORMS),
        ([], "empty|dimension", FORMS),
        ([0.1, 0.2], "entries|dimension", FORMS),
        ([[0.1]], "dimension", FORMS),
    ],
)
def test_parameters(value, message, names):
    for name in names:
        assert_refused(rf"^{name}.*({message})", jp.DistortionProblem, JOINT, TABLE, **{name: value})


def test_the_form_is_chosen_once():
    assert_refused(r"exactly one of .* \(none given\)", jp.DistortionProblem, JOINT, TABLE)
    assert_refused(
        r"exactly one of .* \(`budget` and `multiplier` given\)",
        jp.DistortionProblem,
        JOINT,
        TABLE,
        budget=0.1,
        multiplier=1.0,
    )
    assert_refused(
        r"^multiplier\[1\] is negative", jp.DistortionProblem, JOINT, [TABLE, TABLE], multiplier=[0.0, -1e-12]
    )
    assert_refused(
        r"^leakage_budget minimises one distortion", jp.DistortionProblem, JOINT, [TABLE, TABLE], leakage_budget=0.1
    )
    assert_refused(
        r"^multiplier: a set of joints", jp.DistortionProblem, np.stack([JOINT, JOINT]), TABLE, multiplier=1.0
    )
    assert_refused(
        r"^multiplier: a set of joints takes a `budget`",
        jp.DistortionProblem,
        np.stack([JOINT, JOINT]),
        TABLE,
        multiplier=1.0,
        leakage=jp.leakage.Lift(),
    )


def test_an_infinite_leakage_budget_limits_nothing():
    solution = proved(jp.DistortionProblem(JOINT, TABLE, leakage_budget=np.inf))
    assert solution.value == pytest.approx(float(JOINT.sum(axis=0) @ TABLE.min(axis=1)), abs=1e-12)


def test_other_real_numbers_are_welcome():
    """Lists, integers, float32, read-only, strided, foreign byte order: the same problem."""
    expected = jp.DistortionProblem([[0.25, 0.25], [0.0, 0.5]], [[0, 1], [1, 0]], budget=0.25)
    joint = np.array([[0.25, 0.25], [0.0, 0.5]])
    frozen = joint.copy()
    frozen.setflags(write=False)
    variants = [
        joint.astype(np.float32),
        joint.astype(np.float16),
        joint.astype(">f8"),
        frozen,
        np.asfortranarray(joint),
        joint[::-1][::-1],
        np.ma.masked_array(joint, mask=False),
    ]
    for variant in variants:
        problem = jp.DistortionProblem(variant, np.array([[0, 1], [1, 0]]), budget=np.float32(0.25))
        assert problem.joints.dtype == np.float64
        np.testing.assert_array_equal(problem.joints, expected.joints)
        np.testing.assert_array_equal(problem.tables(), expected.tables())
        assert problem.budget == expected.budget == 0.25
    # Integers that are probabilities are probabilities.
    assert jp.DistortionProblem([[1, 0]], [[0], [0]], budget=1).joints.sum() == 1


def test_a_total_that_is_one_up_to_rounding_is_divided_out():
    problem = jp.DistortionProblem(JOINT * (1 + 5e-10), TABLE, budget=0.1)
    assert problem.joints.sum() == pytest.approx(1, abs=4e-16)
    assert_refused(r"^joint sums to", jp.DistortionProblem, JOINT * (1 + 2e-9), TABLE, budget=0.1)


def test_messages_repeat_no_data():
    """Masses and costs are data; a message may hold sizes, positions and totals only."""
    secret = 0.123456789
    arguments = [
        {"joint": put(put(JOINT, (0, 0), secret), (1, 2), np.nan), "distortion": TABLE},
        {"joint": put(JOINT, (0, 0), -secret), "distortion": TABLE},
        {"joint": JOINT, "distortion": put(put(TABLE, (0, 0), secret), (1, 1), -np.inf)},
        {"joint": JOINT.astype(str), "distortion": TABLE},
    ]
    for case in arguments:
        with pytest.raises(jp.InputError) as caught:
            jp.DistortionProblem(case["joint"], case["distortion"], budget=0.1)
        assert not re.search(r"0?\.\d", str(caught.value)), str(caught.value)


def test_rate_distortion_and_noise_name_their_own_arguments():
    assert_refused(r"^source\[.*2\] is NaN", jp.rate_distortion, [0.5, 0.5, np.nan], TABLE, budget=0.1)
    assert_refused(r"^source sums to 2", jp.rate_distortion, [1, 1], TABLE[:2, :2], budget=0.1)
    noise = np.array([0.0, 1.0, 2.0])
    for arguments, message in [
        ({"distortion": noise[:2]}, r"^distortion has 2 entries; addition modulo \|X\| needs \|X\| = 3"),
        ({"distortion": put(noise, 1, np.nan)}, r"^distortion\[1\] is NaN"),
        ({"offsets": [0, 1]}, r"^offsets has 2 entries; distortion has 3"),
        ({"offsets": [0, 1, 0.5]}, r"^offsets\[2\] is not an integer"),
        ({"offsets": [0, 1, 1]}, r"^offsets repeats a value"),
        ({"budget": np.nan}, r"^budget must be a finite number"),
    ]:
        assert_refused(message, jp.NoiseProblem, JOINT, **{"distortion": noise, "budget": 1.0, **arguments})


_TABLE = np.ones((3, 3)) - np.eye(3)
_SKEW = np.array([[0.3, 0.1, 0.1], [0.1, 0.1, 0.3]])
MISTAKES = {
    "a class": (lambda: _ask(leakage=jp.leakage.MaximalLeakage), r"leakage=MaximalLeakage\(\)"),
    "a class with an order": (lambda: _ask(leakage=jp.leakage.Sibson), r"leakage=Sibson\(order\)"),
    "a name": (lambda: _ask(leakage="sibson"), r"Sibson\(2\.0\)"),
    "a divergence": (lambda: _ask(leakage=jp.leakage.TotalVariation()), r"it is FInformation\(TotalVariation\(\)\)"),
    "a limit without a list": (lambda: _ask(limits=(jp.leakage.MaxLift(), 0.1)), r"limits=\[\(measure, value\)\]"),
    "a class in a limit": (lambda: _ask(limits=[(jp.leakage.MaxLift, 0.1)]), r"MaxLift\(\)"),
    "a function": (lambda: jp.DistortionProblem(_SKEW, lambda x, y: x != y, budget=0.1), "from_function"),
    "a transposed joint": (lambda: jp.DistortionProblem(_SKEW.T, _TABLE, budget=0.1), r"joint\.T"),
}


def _ask(**given):
    return jp.DistortionProblem(_SKEW, _TABLE, budget=0.1, **given)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_answered_with_what_to_write(name):
    make, message = MISTAKES[name]
    assert_refused(message, make)


def test_targets_out_of_reach_say_what_is_in_reach():
    with raised(jp.InfeasibleError, "write leakage_budget=0"):
        jp.solve(jp.DistortionProblem(_SKEW, _TABLE, leakage_budget=-0.1))
    masses = _SKEW.sum(axis=0)
    entropy = -(masses * np.log(masses)).sum()
    with raised(jp.InfeasibleError, f"{entropy:.6g} nats".replace(".", r"\.")):
        jp.FunnelProblem(_SKEW, disclosure=2.0)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"leakage_budget": 800.0, "leakage": jp.leakage.RenyiDivergence(0, 1, 2.0)}, "^leakage_budget 800 on Renyi"),
        ({"budget": 0.5, "limits": [(jp.leakage.RenyiDivergence(0, 1, 50.0), 100.0)]}, r"^limits\[0\] 100 on Renyi"),
    ],
)
def test_a_limit_whose_sum_overflows_is_refused_by_name(form, message):
    """SciPy refused its own argument, or an interval from -inf was all that was said."""
    assert_refused(message, jp.solve, jp.DistortionProblem(JOINT, TABLE, **form))
