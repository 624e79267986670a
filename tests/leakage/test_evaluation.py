"""The checked front: names, units, witnesses, reports, rare masses and refused inputs."""

import math
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpriv.leakage as lk
from jaxpriv.errors import InputError
from jaxpriv.leakage import evaluation
from tests.cases import NEEDED, assert_refused, assert_values, raised, value_of

JOINT = np.array([[0.1, 0.2, 0.1], [0.2, 0.1, 0.3]])
MECHANISM = np.array([[0.5, 0.3, 0.2, 0.0], [0.1, 0.1, 0.8, 0.0], [0.4, 0.5, 0.1, 0.0]])


def ratio(y, s, r):
    channel = (JOINT / JOINT.sum(axis=1, keepdims=True)) @ MECHANISM
    return math.log(channel[s, y] / channel[r, y])


@pytest.mark.skipif("JAXPRIV_SHAPES" in os.environ, reason="the types that the tests check come first")
def test_a_name_in_place_of_a_measure_is_refused_with_the_remedy():
    assert_refused(
        r"^measures\[0\] must be a measure .* not str; jaxpriv.leakage.by_name",
        lk.evaluate,
        "mutual-information",
        JOINT,
        MECHANISM,
    )


def test_float64_arrays_give_no_warning_where_jax_computes_in_float32():
    with jax.enable_x64(False):
        assert float(lk.MutualInformation()(JOINT, MECHANISM)) > 0


# --- names -------------------------------------------------------------------------------------


def test_every_name_has_a_measure():
    for name in lk.NAMES:
        for form in (None, *lk.forms_of(name)):
            measure = lk.by_name(name, form=form, **NEEDED.get(name, {}))
            chosen = form or lk.forms_of(name)[0]
            assert measure.worst_outcome == (chosen == "worst")
    for divergence in lk.DIVERGENCES:
        gamma = 1.5 if divergence == "e-gamma" else None
        assert isinstance(lk.by_name("f-information", divergence=divergence, gamma=gamma), lk.FInformation)
    assert isinstance(lk.by_name("mutual-information", form="worst"), lk.MaxInformation)
    assert isinstance(lk.by_name("f-information", divergence=lk.ChiSquared()).divergence, lk.ChiSquared)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "mutual_information"}, "unknown leakage measure; known: mutual-information, .*inferential"),
        ({"name": "lift", "form": "average"}, "lift has no form"),
        ({"name": "sibson"}, "sibson needs order"),
        ({"name": "f-information"}, "f-information needs divergence"),
        ({"name": "lift", "order": 2.0}, "lift takes no order"),
        ({"name": "sibson", "order": 0.0}, "order must be"),
        ({"name": "sibson", "order": -1.0}, "order must be"),
        ({"name": "arimoto", "order": math.nan}, "order must be"),
        ({"name": "arimoto", "order": True}, "order must be a number, not a bool"),
        ({"name": "sibson", "order": [1.0, 2.0]}, "order has 1 dimension"),
        ({"name": "f-information", "divergence": "renyi"}, "unknown divergence; known: kl,"),
        ({"name": "f-information", "divergence": "e-gamma"}, "needs gamma"),
        ({"name": "f-information", "divergence": "kl", "gamma": 2.0}, "only divergence 'e-gamma' takes gamma"),
        ({"name": "f-information", "divergence": "e-gamma", "gamma": 0.5}, "gamma must be"),
        ({"name": "ldp", "neighbours": [[0.0, 2.0], [1.0, 0.0]]}, r"neighbours\[0, 1\] is neither true/false nor 0/1"),
        ({"name": "ldp", "neighbours": [[True, False]]}, "neighbours must be a square"),
    ],
)
def test_wrong_names_and_parameters(arguments, message):
    assert_refused(message, lk.by_name, **arguments)


def test_wrong_costs_and_divergences():
    assert_refused(r"losses\[0, 1\] is NaN", lk.LossMatrix, [[0.0, math.nan]])
    assert_refused(r"gains\[1, 0\] is negative", lk.GainLeakage, [[1.0], [-1.0]])
    assert_refused(r"f\(1\) = 0", lk.UserDivergence, lambda t: t, at_zero=0.0)
    assert_refused("f must be a function", lk.UserDivergence, "kl", at_zero=0.0)
    assert_refused("loss must be a function", lk.CustomLoss, np.eye(2))
    assert_refused("proper must be True or False", lk.CustomLoss, np.log, proper="no")
    assert_refused("steps must be", lk.CustomLoss, np.log, steps=0)
    assert_refused("at_zero", lk.UserDivergence, lambda t: t - 1, at_zero=math.nan)


# --- arrays ------------------------------------------------------------------------------------


def changed(array, index, value):
    array = array.copy()
    array[index] = value
    return array


@pytest.mark.parametrize(
    ("joint", "mechanism", "message"),
    [
        (changed(JOINT, (1, 2), math.nan), MECHANISM, r"joint\[1, 2\] is NaN"),
        (JOINT, changed(MECHANISM, (2, 3), math.nan), r"mechanism\[2, 3\] is NaN"),
        (JOINT, changed(MECHANISM, (0, 1), -0.3), r"mechanism\[0, 1\] is negative"),
        (JOINT, changed(MECHANISM, (0, 1), 0.4), "mechanism: row 0 sums to 1.1"),
        (JOINT, MECHANISM.T, "it looks transposed"),
        (JOINT, MECHANISM[:2], "2 rows"),
        (JOINT[0], MECHANISM, r"joint sums to 0\.\d+, not 1; .*one axis is P\(X\), with S = X"),
        (np.ones(2) / 2, MECHANISM, "mechanism has 3 rows"),
        (JOINT[None], MECHANISM, "joint has 3 dimension"),
    ],
)
def test_wrong_arrays(joint, mechanism, message):
    for call in (lambda: lk.evaluate(lk.Lift(), joint, mechanism), lambda: lk.report(joint, mechanism)):
        assert_refused(message, call)


def test_a_divergence_is_no_name_and_no_class():
    """They were taken, and solves ended in an AttributeError."""
    for given in ("chi-squared", lk.ChiSquared):
        assert_refused(
            r"^divergence must be a divergence .* such as jaxpriv.leakage.ChiSquared", lk.FInformation, given
        )


def test_parameters_of_another_size():
    for name, measure in (
        ("neighbours", lk.LocalDifferentialPrivacy(np.ones((3, 3)))),
        ("gains", lk.GainLeakage(np.ones((2, 3)))),
        ("losses", lk.AverageCostGain(lk.LossMatrix(np.ones((3, 2))))),
    ):
        with raised(InputError, f"{name} is for 3 private symbols .* the joint has 2") as refused:
            lk.evaluate(measure, JOINT, MECHANISM)
        assert ("action_axis" in str(refused.value)) == (name != "neighbours")


def test_actions_along_either_axis():
    table = np.array([[0.3, 1.1], [0.7, 0.2], [0.6, 0.6]])  # 3 actions, 2 private symbols
    gains, losses = lk.GainLeakage(table), lk.LossMatrix(table.T)
    assert lk.GainLeakage(table.T, action_axis=1) == gains
    assert lk.LossMatrix(table, action_axis=0) == losses
    # A square table is not read otherwise than it was said.
    square = table[:2]
    assert lk.GainLeakage(square, action_axis=1) == lk.GainLeakage(square.T) != lk.GainLeakage(square)
    assert_refused(r"gains\[1, 0\] is negative", lk.GainLeakage, [[1.0, 2.0], [-1.0, 0.0]], action_axis=1)
    for cls in (lk.GainLeakage, lk.LossMatrix):
        assert_refused("action_axis must be 0 or 1", cls, table, action_axis=2)


def test_a_joint_of_one_axis_is_a_prior_of_the_private_useful_symbol():
    prior = np.array([0.5, 0.2, 0.3])
    assert lk.report(prior, MECHANISM) == lk.report(np.diag(prior), MECHANISM)
    for measure in (lk.MutualInformation(), lk.Sibson(2.0), lk.Lift()):
        assert lk.evaluate(measure, prior, MECHANISM) == lk.evaluate(measure, np.diag(prior), MECHANISM)


def test_tracers_and_unknown_units_are_refused():
    assert_refused("runs on the host", jax.jit(lambda w: value_of(lk.Lift(), JOINT, w)), MECHANISM)
    assert_refused("units must be", lk.evaluate, lk.Lift(), JOINT, MECHANISM, units="bit")
    assert_refused("measures must be a sequence", lk.evaluate_all, lk.Lift(), JOINT, MECHANISM)
    assert_refused("text must be of type str", lk.parameters_of, None)
    assert_refused("orders must be a sequence", lk.report, JOINT, MECHANISM, orders=5)


def test_lists_and_integers_are_welcome():
    assert value_of(lk.MutualInformation(), [[0.5, 0], [0, 0.5]], [[1, 0], [0, 1]]) == pytest.approx(math.log(2))


# --- values, units, witnesses --------------------------------------------------------------------


def test_witnesses_attain_the_value():
    ldp = lk.evaluate(lk.LocalDifferentialPrivacy(), JOINT, MECHANISM)
    expected = max((ratio(y, s, 1 - s), y, s) for y in range(3) for s in range(2))
    assert ldp.value == pytest.approx(expected[0], abs=1e-14)
    assert ldp.witness == lk.Witness(expected[1], expected[2], 1 - expected[2])
    assert lk.evaluate(lk.InferentialPrivacy(), JOINT, MECHANISM) == ldp

    outputs, p = JOINT @ MECHANISM, JOINT.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_lift = np.log(outputs / outputs.sum(axis=0) / p[:, None])[:, :3]
    s, y = np.unravel_index(np.argmax(log_lift), log_lift.shape)
    assert lk.evaluate(lk.MaxLift(), JOINT, MECHANISM).witness == lk.Witness(int(y), raised=int(s))
    s, y = np.unravel_index(np.argmin(log_lift), log_lift.shape)
    low = lk.evaluate(lk.MinLift(), JOINT, MECHANISM)
    assert low.witness == lk.Witness(int(y), lowered=int(s))
    lift = lk.evaluate(lk.Lift(), JOINT, MECHANISM)
    assert lift.value == pytest.approx(np.abs(log_lift).max(), abs=1e-14)
    assert lift.witness in (low.witness, lk.evaluate(lk.MaxLift(), JOINT, MECHANISM).witness)

    worst = lk.evaluate(lk.MaxInformation(), JOINT, MECHANISM)
    outcomes = np.asarray(lk.MaxInformation().outcomes(outputs, p))[:3]
    assert worst.witness == lk.Witness(int(np.argmax(outcomes)))
    assert lk.evaluate(lk.MutualInformation(), JOINT, MECHANISM).witness is None


def test_infinite_values_name_the_excluded_symbol():
    joint = np.array([[0.2, 0.2], [0.0, 0.1], [0.0, 0.0], [0.0, 0.5]])
    mechanism = np.array([[0.0, 0.4, 0.6], [0.0, 1.0, 0.0]])
    # Output 2 is sent for x = 0 only, which has s = 0 only: it excludes s = 1 and 3; s = 2 never occurs.
    for measure, expected in (
        (lk.LocalDifferentialPrivacy(), lk.Witness(2, 0, 1)),
        (lk.InferentialPrivacy(), lk.Witness(2, 0, 1)),
        (lk.Lift(), lk.Witness(2, None, 1)),
        (lk.MinLift(), lk.Witness(2, None, 1)),
        (lk.FInformation(lk.ReverseKullbackLeibler()), lk.Witness(2, None, 1)),
    ):
        result = lk.evaluate(measure, joint, mechanism, units="bits")
        assert result.value == math.inf
        assert result.units == "bits"
        assert result.witness == expected
    assert value_of(lk.MaxLift(), joint, mechanism) == pytest.approx(math.log(1 / 0.4))


def test_neighbour_relation():
    joint, channel = np.eye(3) / 3, np.array([[0.5, 0.5], [0.4, 0.6], [0.1, 0.9]])
    line, everybody = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]), np.ones((3, 3), bool)
    ldp = lk.LocalDifferentialPrivacy
    expected = {
        ldp(line): math.log(4),
        ldp(): math.log(5),
        ldp(np.triu(everybody, 1)): math.log(5),  # P(y|s) <= e^eps P(y|s') asked for s < s' only
        ldp(np.tril(everybody, -1)): math.log(0.9 / 0.5),
        ldp(np.zeros((3, 3))): 0.0,
    }
    assert_values(expected, joint, channel, abs=1e-14)
    assert lk.evaluate(ldp(line), joint, channel).witness == lk.Witness(0, 1, 2)
    # Neighbours that an output excludes together are no violation; a neighbour of one it allows is.
    shut = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    assert_values({ldp([[0, 1, 0], [1, 0, 0], [0, 0, 0]]): 0.0, ldp(line): math.inf}, joint, shut, abs=0.0)


def test_ldp_needs_the_channel_where_the_prior_has_no_mass():
    channel = np.array([[0.5, 0.5], [0.4, 0.6], [0.0, 1.0]])
    joint = np.diag([0.5, 0.5, 0.0])
    assert float(lk.LocalDifferentialPrivacy()(joint, channel)) == pytest.approx(math.log(1.25))
    assert float(lk.ldp_of_channel(channel)) == math.inf
    assert float(lk.ldp_of_channel(channel[:2])) == pytest.approx(math.log(1.25))
    near = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    assert float(lk.ldp_of_channel(channel, near)) == pytest.approx(math.log(1.25))


@pytest.mark.parametrize("rare", [1e-300, 1e-310, 5e-324])
def test_rare_symbols_count(rare):
    """A symbol of subnormal probability is not an absent one: what depends on P(y|s) sees it."""
    joint = np.array([[0.5, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, rare]])
    mechanism = np.array([[0.5, 0.5, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0], [0.2, 0.0, 0.8, 0.0]])
    values = {row.name: row for row in lk.report(joint, mechanism).rows if row.divergence is None}
    assert values["maximal-leakage"].value == pytest.approx(math.log(0.5 + 0.5 + 0.8), abs=1e-12)
    assert values["max-lift"].witness == lk.Witness(2, raised=2)
    assert values["lift"].value == math.inf
    assert values["mutual-information"].value == pytest.approx(0.0, abs=1e-12)
    assert all(not math.isnan(row.value) for row in values.values())


def test_rare_outputs_count():
    """Ratios of subnormal probabilities are taken in logarithms on the host."""
    mechanism = np.array([[1 - 1e-310, 1e-310], [1 - 4e-310, 4e-310]])
    result = lk.evaluate(lk.LocalDifferentialPrivacy(), np.eye(2) / 2, mechanism)
    assert result.value == pytest.approx(math.log(4), rel=1e-9)
    assert result.witness == lk.Witness(1, 1, 0)
    one_sided = np.array([[0.5, 0.5], [1.0, 1e-310]])
    assert value_of(lk.LocalDifferentialPrivacy(), np.eye(2) / 2, one_sided) == pytest.approx(
        math.log(0.5) + 310 * math.log(10), rel=1e-12
    )


def test_evaluation_is_float64_without_x64():
    jax.config.update("jax_enable_x64", False)
    try:
        value = value_of(lk.MutualInformation(), JOINT, MECHANISM)
        order = value_of(lk.Sibson(1.3), JOINT, MECHANISM)
        assert not jax.config.jax_enable_x64
    finally:
        jax.config.update("jax_enable_x64", True)
    both = jax.jit(lambda *arrays: (lk.MutualInformation()(*arrays), lk.Sibson(1.3)(*arrays)))
    assert (value, order) == pytest.approx(tuple(map(float, both(JOINT, MECHANISM))), abs=1e-15)


def test_report():
    joint = np.vstack([np.zeros(3), JOINT])
    nats, bits = lk.report(joint, MECHANISM), lk.report(joint, MECHANISM, units="bits")
    assert {row.name for row in nats.rows} == set(lk.NAMES) - {"gain-log-loss", "maximal-alpha-leakage"}
    assert len({(row.name, row.form, row.order, row.divergence) for row in nats.rows}) == len(nats.rows)
    for one, other in zip(nats.rows, bits.rows, strict=True):
        if one.units == "nats":
            assert other.units == "bits"
            assert other.value == pytest.approx(one.value / math.log(2), rel=1e-15)
        else:
            assert one == other
        parameters = {"order": one.order, "divergence": one.divergence, "form": one.form}
        if one.name in ("sibson", "mutual-information", "gain-brier"):
            result = lk.evaluate(lk.by_name(one.name, **parameters), joint, MECHANISM)
            assert (result.units, result.witness) == (one.units, one.witness)
            assert result.value == pytest.approx(one.value, rel=1e-13)
    cap = math.log(0.5 + 0.5 + 0.8)
    assert nats.prior_free_cap == pytest.approx(cap, abs=1e-15)
    assert bits.prior_free_cap == pytest.approx(cap / math.log(2), abs=1e-15)
    assert float(lk.prior_free_cap(MECHANISM)) == pytest.approx(cap, abs=1e-15)
    assert nats.unused_outputs == (3,)
    assert nats.absent_private == (0,)


# --- NumPy or compiled -------------------------------------------------------------------------


def test_numpy_has_the_values_of_compiled_code(measures, orders, instances, values_of):
    chosen = {name: one for name, one in measures.items() if not isinstance(one, lk.AbstractPointwiseLeakage)}
    families = {"sibson": lk.Sibson, "arimoto": lk.Arimoto}
    chosen |= {f"{name} {order}": of(order) for name, of in families.items() for order in orders}
    chosen = {name: one for name, one in chosen.items() if name not in families}
    joints, mechanisms = instances(31)
    compiled = values_of(joints, mechanisms)
    assert len(chosen) >= 35
    assert all(one.in_numpy for one in chosen.values())
    for place, (joint, mechanism) in enumerate(zip(joints, mechanisms, strict=True)):
        found = lk.exact_values(tuple(chosen.values()), joint, mechanism)
        expected = [compiled[name][place] for name in chosen]
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=2e-14, err_msg=str(place))


def test_values_of_many_joints_are_those_of_each(measures, instances):
    families = (lk.Sibson(0.5), lk.Arimoto(2.0), lk.MaximalAlphaLeakage(2.0))
    chosen = (*(one for name, one in measures.items() if name not in ("sibson", "arimoto")), *families)
    joints, mechanisms = instances(37)
    expected = [lk.exact_values(chosen, joint, mechanisms[0]) for joint in joints[:10]]
    # So many that they are taken in more than one portion.
    times = evaluation._SMALL // (10 * joints.shape[1] * mechanisms.shape[2]) + 2
    found = evaluation.values_of_joints(chosen, np.tile(joints[:10], (times, 1, 1)), mechanisms[0])
    np.testing.assert_allclose(found, np.tile(expected, (times, 1)), rtol=1e-12, atol=1e-14)


def test_large_arrays_and_measures_of_a_user_have_the_same_values():
    class Own(lk.MutualInformation):
        """Written with `jax.numpy` alone."""

        def outcome(self, w, prior):
            return jnp.max(w / jnp.sum(w) / prior)

    measures = (lk.MaxInformation(), Own(), lk.FInformation(lk.ChiSquared()))
    found = lk.evaluate_all(measures, JOINT, MECHANISM[:, :3])
    # The same outputs in 2^15 equal parts: so many numbers are left to compiled code.
    parts = 2**15
    many = np.repeat(MECHANISM[:, :3] / parts, parts, axis=1)
    again = lk.evaluate_all(measures, JOINT, many)
    for one, other in zip(found, again, strict=True):
        assert one.value == pytest.approx(other.value, rel=1e-12)
        assert (one.witness is None) == (other.witness is None)
        if one.witness is not None:
            assert one.witness.output == other.witness.output // parts
