"""The benchmark of estimators: fair foldings, and verdicts that need evidence."""

import numpy as np
import pytest

pytest.importorskip("optax")

from benchmarks.estimation import against, drawn
from jaxpriv.statistics.lift.known_answers import known_tasks


def test_foldings_test_every_row_once():
    task = known_tasks()[4]
    samples, (train, held, test) = drawn(task, 60, 2)
    assert samples.size == 120
    for k in range(2):
        own = np.arange(60 * k, 60 * (k + 1))
        assert sorted(test[3 * k : 3 * k + 3].ravel().tolist()) == own.tolist()
        for rows in zip(train[3 * k : 3 * k + 3], held[3 * k : 3 * k + 3], test[3 * k : 3 * k + 3], strict=True):
            assert sorted(np.concatenate(rows).tolist()) == own.tolist()


def test_verdicts():
    near, far = np.array([1.01, 0.98, 1.0, 1.02]), np.array([1.5, 1.6, 1.4, 1.5])
    assert against(near, far, 1.0) == "better"
    assert against(far, near, 1.0) == "worse"
    assert against(near, near[::-1], 1.0) == "alike"
