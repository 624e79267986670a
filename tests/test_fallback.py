"""`auto` goes on to the next method where the first one stops far from its goal, and returns the best of both."""

import numpy as np
import pytest

import jaxpriv as jp

JOINT = np.random.default_rng(17).dirichlet(np.ones(12)).reshape(3, 4)
TABLE = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))


@pytest.mark.parametrize(("form", "second"), [({"budget": 0.3}, "accelerated"), ({"multiplier": 0.2}, "accelerated")])
def test_the_better_mechanism_comes_with_the_better_bound(form, second):
    problem = jp.DistortionProblem(JOINT, TABLE, **form)
    parts = [jp.solve(problem, name, max_steps=2) for name in ("interior-point", second)]
    assert {part.status for part in parts} == {"not_certified"}
    both = jp.solve(problem, max_steps=2)
    assert both.solver == f"interior-point, {second}"
    assert both.value <= min(part.value for part in parts) + 1e-12
    assert both.lower_bound >= max(part.lower_bound for part in parts) - 1e-12
    assert isinstance(both.mechanism, np.ndarray)
    assert both.notes[-1].startswith(f"auto: {second} next, interior-point ended at a gap of ")
    proof = both.verify(problem)
    assert proof.valid
    assert proof.agrees


def test_no_message_advises_the_method_that_ended():
    problem = jp.DistortionProblem(JOINT, TABLE, budget=0.3)
    assert "interior-point" not in jp.solve(problem, max_steps=2).message
    assert "interior-point" in jp.solve(problem, "accelerated", max_steps=2).message


def test_a_method_that_was_asked_for_by_name_stays_alone():
    problem = jp.DistortionProblem(JOINT, TABLE, budget=0.3)
    assert jp.solve(problem, "interior-point", max_steps=2).solver == "interior-point"
