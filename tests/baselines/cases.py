"""Every baseline on a few symbols, and what the tests of baselines compute with."""

import numpy as np

import jaxpriv.leakage as lk
from jaxpriv import baselines, distortion
from tests.cases import value_of

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


def ldp(mechanism, neighbours=None):
    """The exact LDP of the table itself, on the host in logarithms."""
    size = mechanism.shape[0]
    return value_of(lk.LocalDifferentialPrivacy(neighbours), uniform(size), mechanism)


def apart(values, largest):
    """The relation 'at most `largest` apart'."""
    return np.abs(np.subtract.outer(values, values)) <= largest
