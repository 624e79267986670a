"""`adversary`: the best action after each output, and the vulnerabilities that measures are made of."""

import numpy as np
import pytest

from jaxpriv import leakage as lk
from tests.cases import assert_refused, drawn_joint, value_of

RNG = np.random.default_rng(5)
JOINT = drawn_joint(RNG, 3, 4, 0.5)
MECHANISM = np.concatenate(
    [RNG.dirichlet(np.ones(3), size=4), np.zeros((4, 1))], axis=1
)  # the last output never occurs
GAINS = RNG.uniform(0.0, 1.0, (5, 3))


def test_numbers_by_hand():
    joint, mechanism = np.diag([0.6, 0.4]), np.array([[0.75, 0.25], [0.25, 0.75]])
    found = lk.adversary(lk.CorrectGuess(), joint, mechanism)
    assert found.actions.tolist() == [0, 1]
    assert found.gains == pytest.approx([0.45 / 0.55, 0.3 / 0.45])
    assert found.masses == pytest.approx([0.55, 0.45])
    assert (found.prior_action, found.prior_vulnerability) == (0, pytest.approx(0.6))
    assert found.posterior_vulnerability == pytest.approx(0.75)
    # Costs of the actions: after output 0, where the posterior is (9/11, 2/11), they are 4/11, 45/11 and 1.
    losses = lk.LossMatrix([[0.0, 5.0, 1.0], [2.0, 0.0, 1.0]])
    found = lk.adversary(lk.AverageCostGain(losses), joint, mechanism)
    assert found.actions.tolist() == [0, 2]
    assert found.gains == pytest.approx([-0.2 / 0.55, -1.0])
    assert found.prior_vulnerability == pytest.approx(-0.8)


@pytest.mark.parametrize(
    ("measure", "value"),
    [
        (lk.CorrectGuess(), lambda before, after: after),
        (lk.MinEntropyLeakage(), lambda before, after: np.log(after / before)),
        (lk.GainLeakage(GAINS), lambda before, after: np.log(after / before)),
        (lk.AverageCostGain(lk.ZeroOneLoss()), lambda before, after: after - before),
        (lk.AverageCostGain(lk.LossMatrix(GAINS.T)), lambda before, after: after - before),
    ],
)
def test_measures_are_made_of_the_vulnerabilities(measure, value):
    found = lk.adversary(measure, JOINT, MECHANISM)
    expected = value(found.prior_vulnerability, found.posterior_vulnerability)
    assert value_of(measure, JOINT, MECHANISM) == pytest.approx(expected, abs=1e-14)
    assert found.posterior_vulnerability == pytest.approx(found.masses @ found.gains)


def test_the_largest_gain_is_that_of_the_witness():
    measure = lk.MaxCostGain(lk.LossMatrix(GAINS.T))
    found, worst = lk.adversary(measure, JOINT, MECHANISM), lk.evaluate(measure, JOINT, MECHANISM)
    seen = found.masses > 0
    assert worst.witness.output == np.argmax(np.where(seen, found.gains, -np.inf))
    assert worst.value == pytest.approx(found.gains[seen].max() - found.prior_vulnerability)


def test_actions_gain_most_after_their_outputs():
    found = lk.adversary(lk.GainLeakage(GAINS), JOINT, MECHANISM)
    worth = GAINS @ JOINT @ MECHANISM[:, :3]
    assert found.actions[:3].tolist() == worth.argmax(axis=0).tolist()
    # After an output that never occurs the adversary acts as without one.
    assert found.actions[3] == found.prior_action
    assert found.gains[3] == found.prior_vulnerability
    assert "posterior vulnerability" in str(found)


def test_outputs_of_tiny_mass_have_their_actions():
    """Masses of 1e-320 have few digits: the posterior is computed in a unit of the output's own."""
    joint, mechanism = np.diag([0.5, 0.5]), np.array([[1.0, 3e-320], [1.0, 6e-320]])
    found = lk.adversary(lk.CorrectGuess(), joint, mechanism)
    assert found.actions[1] == 1
    assert found.gains[1] == pytest.approx(2 / 3, rel=1e-3)


@pytest.mark.parametrize(
    ("measure", "message"),
    [
        (lk.MutualInformation(), "MutualInformation is not one of finitely many actions"),
        (lk.AverageCostGain(lk.LogLoss()), "AverageCostGain is not one of finitely many actions"),
        ("correct-guess", "str is not one"),
        (lk.GainLeakage(GAINS.T), "gains is for 5 private symbols .* the joint has 3; it looks transposed"),
        (lk.AverageCostGain(lk.LossMatrix(GAINS)), "losses is for 5 private symbols"),
    ],
)
def test_other_measures_are_refused(measure, message):
    assert_refused(message, lk.adversary, measure, JOINT, MECHANISM)
