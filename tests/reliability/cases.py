"""What the numbered cases share: their table, two small problems, and what a refusal looks like."""

import numpy as np
import pytest

from jaxpriv.errors import (
    InputError,
)
from jaxpriv.leakage import MutualInformation, evaluate
from jaxpriv.release import release

JOINT = np.array([[0.2, 0.15, 0.05], [0.1, 0.2, 0.3]])
HAMMING = 1.0 - np.eye(3)
RESPONSE = 0.7 * np.eye(3) + 0.1
CASES = {}


def case(number):
    def enter(function):
        assert number not in CASES
        CASES[number] = function
        return function

    return enter


def value(joint, mechanism, measure=None):
    return evaluate(MutualInformation() if measure is None else measure, joint, mechanism).value


def refused(function, *words, error=InputError):
    with pytest.raises(error) as caught:
        function()
    text = str(caught.value)
    assert all(word in text for word in words), text
    assert "secret" not in text


def released(made, tmp, **options):
    out, receipt = tmp / "released.csv", tmp / "receipt.json"
    return release(options.pop("table", made["table"]), made["fitted"].mechanism, out, receipt, **options)
