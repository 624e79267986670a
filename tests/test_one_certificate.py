"""There is one certificate: what rules and prices prove is the same number in every way that a solve computes it.

Alone, in a stack, in a trace, and for one smooth average of one joint block by block over operators.
"""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import jaxpriv as jp
from jaxpriv.data.channel import Gibbs
from jaxpriv.leakage import by_name
from jaxpriv.program import program_of
from jaxpriv.program.certificates import certify_program, certify_streamed
from jaxpriv.program.certificates.verification import certify_stack
from jaxpriv.program.lower import ProblemStack, scale_and_shift
from jaxpriv.testing import random_joint
from tests.cases import distances
from tests.streaming.conftest import stated

_COUNT, _SIZE = 200, 4
MEASURES = {
    "mutual-information": by_name("mutual-information"),
    "sibson": by_name("sibson", order=2.0),
    "chi-squared": by_name("f-information", divergence="chi-squared"),
    "maximal-leakage": by_name("maximal-leakage"),
    "max-lift": by_name("max-lift"),
}


@pytest.mark.parametrize("name", MEASURES)
def test_two_hundred_duals_prove_the_same_in_every_way(name):
    """Those of the optimum, off by a relative 1e-6 to 10: of five measures these are 1,000."""
    joint, table, draw = random_joint(3, 3, _SIZE), distances(_SIZE), np.random.default_rng(0)
    target = {"leakage_budget": 0.2} if name == "max-lift" else {"budget": 0.2}
    problem = jp.DistortionProblem(joint, table, leakage=MEASURES[name], **target)
    program, best = program_of(problem), jp.solve(problem, tol=1e-8)
    off = 10.0 ** draw.uniform(-6, 1, _COUNT)

    def near(part):
        shape = (_COUNT, *np.shape(part))
        return np.asarray(part) * (1.0 + off.reshape(-1, *[1] * np.ndim(part)) * draw.normal(size=shape))

    k, eta, price = near(best.scores[0]), abs(near(best.weights)), abs(near(best.multipliers))
    statement = stated(jp.DistortionProblem(joint, table, budget=0.2))
    releases = [
        Gibbs(statement.joint, statement.distortions, statement.prior, draw.normal(size=(_SIZE, 3)), rate[None])
        for rate in draw.uniform(0, 5, _COUNT)
    ]
    mechanisms = np.stack([release.matrix() for release in releases])

    alone = [certify_program(program, *parts) for parts in zip(mechanisms, k, eta, price, strict=True)]
    values, bounds = np.array([(proof.value, proof.lower_bound) for proof in alone]).T
    assert len(set(bounds.round(9))) > _COUNT // 4  # the others prove what needs no rules

    with jax.enable_x64(True):
        traced = jax.jit(jax.vmap(lambda *parts: certify_program(program, *parts)))(mechanisms, k, eta, price)
    assert_allclose(traced.value, values, rtol=1e-12, atol=1e-13)
    assert_allclose(traced.lower_bound, bounds, rtol=1e-11, atol=1e-13)

    stack = certify_stack(ProblemStack.of([problem] * _COUNT), mechanisms, k, eta, price)
    scale, shift = scale_and_shift(problem)
    assert_allclose(stack.value, scale.outer(values + shift), rtol=1e-12, atol=1e-13)
    assert_allclose(stack.lower_bound, scale.outer(bounds + shift), rtol=1e-11, atol=1e-13)

    if MEASURES[name].worst_outcome:
        return
    operators = stated(problem)
    blocks = [certify_streamed(operators, *parts) for parts in zip(releases, k, price, strict=True)]
    assert_allclose([proof.value for proof in blocks], values, rtol=1e-12, atol=1e-13)
    assert_allclose([proof.lower_bound for proof in blocks], bounds, rtol=1e-11, atol=1e-13)
