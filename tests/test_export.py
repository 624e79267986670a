"""`jax.export` from a process of the CPU: programs for other platforms call no kernel of the CPU."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import Mesh, PartitionSpec

import jaxpriv as jp
from tests.cases import distances, drawn_joint, thorough
from tests.compiling import kernels

lk = jp.leakage
JOINT = drawn_joint(0, 2, 3)
COSTS = distances(3)

# One problem for each kernel of whole solves, by its target.
FORMS = {
    "budget": {"leakage": lk.MutualInformation()},
    "leakage_budget": {"leakage": lk.MutualInformation()},
    "least ratios": {"leakage": lk.MaxLift()},
    "worst information": {"leakage": lk.MaxInformation()},
}


def value_of(form):
    name = "leakage_budget" if form == "leakage_budget" else "budget"
    return lambda t: jp.optimal_value(jp.DistortionProblem(JOINT, COSTS, **FORMS[form], **{name: t}), tol=1e-6)


def kernels_of(exported):
    return set(re.findall(r"custom_call @(jaxpriv_\w+)", exported.mlir_module()))


@kernels
@pytest.mark.parametrize("form", ["budget", *thorough(*list(FORMS)[1:])])
def test_solves_derivatives_and_batches_are_exported_for_accelerators(form):
    targets = jnp.array([0.02, 0.05]) if form == "leakage_budget" else jnp.array([0.2, 0.3])
    batch = jax.jit(jax.vmap(jax.value_and_grad(value_of(form)) if form == "budget" else value_of(form)))
    assert not kernels_of(export.export(batch, platforms=["cuda", "tpu"])(targets))
    assert re.search(r"custom_call @jaxpriv_\w+_call_v1", batch.lower(targets).as_text())  # of the CPU: the kernel


@kernels
def test_one_program_for_the_cpu_and_an_accelerator_takes_the_kernel_on_the_cpu():
    targets = jnp.array([0.2, 0.3])
    batch = jax.jit(jax.vmap(value_of("budget")))
    allowed = [export.DisabledSafetyCheck.custom_call("jaxpriv_information_call_v1")]
    exported = export.export(batch, platforms=["cpu", "cuda"], disabled_checks=allowed)(targets)
    assert kernels_of(exported) == {"jaxpriv_information_call_v1"}
    np.testing.assert_allclose(exported.call(targets), batch(targets), rtol=1e-12)


METHODS = (
    ("blahut-arimoto", lk.MutualInformation()),
    ("mirror-descent", lk.Sibson(2.0)),
    ("accelerated", lk.FInformation(lk.ChiSquared())),
    ("hybrid-gradient", lk.MaximalLeakage()),
    ("augmented-lagrangian", lk.MaximalLeakage()),
    ("augmented-lagrangian", lk.FInformation(lk.ChiSquared())),
    ("difference-of-convex", lk.MaximalLeakage()),
)
# JAX's own factorisations.
CHOLESKY = {"lapack_dtrsm_ffi", "lapack_dpotrf_ffi", "cusolver_potrf_ffi"}
FACTORS = {"augmented-lagrangian": CHOLESKY, "difference-of-convex": CHOLESKY}


@pytest.mark.parametrize(("name", "measure"), METHODS)
def test_a_first_order_method_is_lowered_for_every_platform(name, measure):
    """From one trace, a batch shared among devices; no kernel of the host is part of it."""

    def value(joint, target):
        if name == "difference-of-convex":
            problem = jp.FunnelProblem(joint, multiplier=target, leakage=measure)
        else:
            problem = jp.DistortionProblem(joint, COSTS, budget=target, leakage=measure)
        return jp.solve(problem, name).value

    shapes = jax.ShapeDtypeStruct(JOINT.shape, float), jax.ShapeDtypeStruct((2,), float)
    along = {"in_specs": (PartitionSpec(), PartitionSpec("b")), "out_specs": PartitionSpec("b")}
    mesh = Mesh(np.array(jax.devices()[:1]), ("b",))
    batch = jax.shard_map(jax.vmap(value, in_axes=(None, 0)), mesh=mesh, **along, check_vma=False)
    lowered = export.export(jax.jit(batch), platforms=["cpu", "cuda", "tpu"])(*shapes)
    assert lowered.platforms == ("cpu", "cuda", "tpu")
    assert [(found.shape, found.dtype) for found in lowered.out_avals] == [((2,), float)]
    called = re.findall(r"custom_call @?\"?(\w+)", lowered.mlir_module())
    assert set(called) == FACTORS.get(name, set())
