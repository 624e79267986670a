"""Arguments that do not fit into memory are refused before anything of their size is allocated."""

import tracemalloc

import jax
import numpy as np
import pytest

from jaxpriv import (
    BottleneckProblem,
    DistortionProblem,
    FunnelProblem,
    ResourceError,
    distortion,
    frontier,
    funnel_frontier,
    leakage,
    optimal_mechanism,
    probability,
    rate_distortion,
    watchdog,
)
from jaxpriv.solvers import Goal
from jaxpriv.solving import choice
from jaxpriv.statistics.audit import audit_mechanism
from tests.cases import drawn_joint, raised
from tests.compiling import kernels

# A view of one number: 60,000 x 60,000 entries that take no memory until they are copied.
HUGE = np.broadcast_to(np.float64(1 / 3.6e9), (60_000, 60_000))
COUNTS = np.broadcast_to(np.int64(1), (60_000, 60_000))

EVEN = np.full((1, 60_000), 1 / 6e4)
MAXIMAL = leakage.MaximalLeakage()

CALLS = {
    "evaluate, joint": lambda: leakage.evaluate(MAXIMAL, HUGE, np.ones((60_000, 1))),
    "evaluate, mechanism": lambda: leakage.evaluate(MAXIMAL, EVEN, HUGE),
    "evaluate, outputs": lambda: leakage.evaluate(leakage.MaxLift(), np.full((60_000, 1), 1 / 6e4), EVEN),
    "measure, joint": lambda: MAXIMAL(HUGE, np.ones((60_000, 1))),
    "measure, mechanism": lambda: leakage.MutualInformation()(EVEN, HUGE),
    "measure, outputs": lambda: leakage.Lift()(np.full((60_000, 1), 1 / 6e4), EVEN),
    "measure of outputs": lambda: leakage.Sibson(2.0).of_outputs(HUGE, EVEN[0]),
    "channel": lambda: leakage.ldp_of_channel(HUGE),
    "probability": lambda: probability.mutual_information(HUGE),
    "posterior": lambda: probability.posterior(HUGE),
    "output joint": lambda: probability.output_joint(HUGE, np.ones((60_000, 1))),
    "report": lambda: leakage.report(HUGE, np.ones((60_000, 1))),
    "problem": lambda: DistortionProblem(
        HUGE, distortion.hamming(60_000), budget=0.1, leakage=leakage.MaximalLeakage()
    ),
    "rate distortion": lambda: rate_distortion(EVEN[0], distortion.hamming(60_000), budget=0.1),
    "funnel": lambda: FunnelProblem(np.broadcast_to(1 / 1.2e5, (2, 60_000)), disclosure=1.0),
    "bottleneck": lambda: BottleneckProblem(np.broadcast_to(1 / 1.2e5, (2, 60_000)), relevance=0.1),
    "audit": lambda: audit_mechanism(HUGE, counts=COUNTS),
    "counts": lambda: probability.from_counts(COUNTS),
    "watchdog": lambda: watchdog.watchdog(HUGE, epsilon=0.1),
    "frontier": lambda: frontier(
        DistortionProblem(np.full((2, 2), 0.25), distortion.hamming(2), budget=0.1),
        budgets=np.broadcast_to(0.1, 1_200_000),
    ),
    "funnel frontier": lambda: funnel_frontier(
        FunnelProblem(np.full((2, 2), 0.25), disclosure=0.1), disclosures=np.broadcast_to(0.1, 1_200_000)
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_refused_before_the_first_large_allocation(call, free_memory):
    free_memory(8 * 2.0**30)
    tracemalloc.start()
    try:
        with raised(ResourceError, r"needs .* GiB and 8\.0 GiB are free"):
            CALLS[call]()
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


@kernels
def test_the_plan_of_a_cube_is_one_set_of_systems(free_memory):
    """1024 systems of order 1024, once, with the CPU kernels."""
    free_memory(16 * 2.0**30)
    table = distortion.absolute(np.arange(1024.0))
    cube = DistortionProblem(np.full((1024, 1024), 2.0**-20), table, budget=1.0)
    one = 8.0 * 1024**3
    assert one < choice.newton_bytes(cube) < 1.2 * one
    assert choice.pick_solver("interior-point", cube, Goal(1e-6, 0.0))[0] == "interior-point"


@kernels
def test_a_derivative_of_the_optimum_stays_within_the_plan(free_memory):
    """What XLA reserves for reverse mode: its systems are those of a step, and no product of theirs is held."""
    free_memory(60e6)  # for the plan with the kernels alone
    joint = drawn_joint(0, 64, 256)
    table = distortion.absolute(np.arange(256.0) / 256)

    def first_cell(joint):
        return optimal_mechanism(DistortionProblem(joint, table, budget=0.05))[0, 0]

    with jax.enable_x64(True):
        compiled = jax.jit(jax.grad(first_cell)).lower(joint).compile({"xla_backend_optimization_level": 0})
    found = compiled.memory_analysis()
    assert found.argument_size_in_bytes == found.output_size_in_bytes == joint.nbytes
    plan = choice.newton_bytes(DistortionProblem(joint, table, budget=0.05))
    assert found.temp_size_in_bytes + 2 * joint.nbytes < plan
