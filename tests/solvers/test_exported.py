"""First-order methods for other devices: lowered for CPU, CUDA and TPU from one trace, and shared among devices."""

import jax
import numpy as np
import pytest
from jax import export

import jaxpriv as jp
from jaxpriv import leakage as lk
from tests.cases import uniform_joint

JOINT = uniform_joint(0, 3, 4)
COSTS = abs(np.arange(4.0)[:, None] - np.arange(4.0))
METHODS = {
    "blahut-arimoto": lk.MutualInformation(),
    "mirror-descent": lk.Sibson(2.0),
    "hybrid-gradient": lk.MaximalLeakage(),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_solve_is_lowered_for_every_platform(name):
    """No kernel of the host is part of it."""

    def value(joint, budget):
        return jp.solve(jp.DistortionProblem(joint, COSTS, budget=budget, leakage=METHODS[name]), name).value

    with jax.enable_x64(True):
        shapes = jax.ShapeDtypeStruct(JOINT.shape, float), jax.ShapeDtypeStruct((), float)
        lowered = export.export(jax.jit(value), platforms=["cpu", "cuda", "tpu"])(*shapes)
    assert lowered.platforms == ("cpu", "cuda", "tpu")
    assert lowered.out_avals == (jax.core.ShapedArray((), np.dtype(float)),)
    assert "custom_call" not in lowered.mlir_module()
