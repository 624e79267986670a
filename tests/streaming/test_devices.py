"""The block loop on four devices proves what the whole table has. Devices are virtual, in a process of their own."""

import json
import os

import numpy as np
import pytest
from numpy.testing import assert_allclose

import jaxpriv as jp
from tests.cases import run_python
from tests.compiling import QUICKLY

SCRIPT = """
import json
import numpy as np
import jax
import jaxpriv as jp
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxpriv.data.streaming import all_devices

def line(n):
    return (np.arange(n) + 0.5) / n

def smooth(n):
    table = np.exp(-0.5 * ((line(n) - np.array([[0.2], [0.5], [0.8]])) / 0.2) ** 2) + 1e-3
    return table / table.sum()

def found(problem, solver, last):
    s = jp.solve(problem, solver, tol=1e-12, rtol=3e-3)
    return s, [str(s.status), float(s.value), float(s.lower_bound), int(s.steps), s.mechanism.rows([0, last]).tolist()]

# 250 symbols: no multiple of any block or of 4
problem = jp.DistortionProblem(smooth(250), jp.distortion.squared(line(250)), budget=0.01)
out = {"mesh": all_devices().size, "accelerated": found(problem, "accelerated", 249)[1], "errors": []}

# The same joint cut along x, and what is refused.
table, x = smooth(240), line(240)
mesh = Mesh(np.array(jax.devices()), ("columns",))

def put(*spec):
    with jax.enable_x64(True):
        return jax.device_put(table, NamedSharding(mesh, PartitionSpec(*spec)))

joint = jp.joints.sharded(put(None, "columns"))
out["held"] = [list(shard.data.shape) for shard in joint.values.addressable_shards]
problems = {k: jp.DistortionProblem(d, jp.distortion.absolute(x), multiplier=1.0) for k, d in
            (("stored", table), ("sharded", joint))}
for kind, problem in problems.items():
    s, out[kind] = found(problem, jp.TwoGrid(), 239)
out["verified"] = s.verify(problem).valid
slopes = [jp.sensitivity(problem, s).joint for problem in problems.values()]
out["slopes"] = float(abs(slopes[0] - slopes[1]).max())
other = Mesh(np.array(jax.devices()[::-1]), ("x",))
problem = jp.DistortionProblem(joint, jp.distortion.absolute(x), budget=0.02)
for wrong in (
    lambda: jp.joints.sharded(put()),
    lambda: jp.joints.sharded(jax.device_put(table, NamedSharding(mesh, PartitionSpec(None, "columns"))).T),
    lambda: jp.solve(problem, jp.AcceleratedMirrorDescent(mesh=other), rtol=3e-3),
    lambda: jp.solve(problem, "accelerated", rtol=3e-3, device=jax.devices()[0]),
):
    try:
        wrong()
    except jp.InputError as error:
        out["errors"].append(str(error))
print(json.dumps(out))
"""


@pytest.fixture(scope="module")
def four() -> dict:
    """What the script finds on four devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    return json.loads(run_python("-c", QUICKLY + SCRIPT, XLA_FLAGS=flags, JAX_PLATFORMS="cpu"))


@pytest.mark.slow
def test_four_devices_prove_the_optimum_of_the_table(four):
    place = (np.arange(250) + 0.5) / 250
    smooth = np.exp(-0.5 * ((place - np.array([[0.2], [0.5], [0.8]])) / 0.2) ** 2) + 1e-3
    exact = jp.solve(
        jp.DistortionProblem(smooth / smooth.sum(), np.subtract.outer(place, place) ** 2, budget=0.01),
        "interior-point",
        rtol=1e-4,
    )
    assert four["mesh"] == 4
    status, value, bound, _, rows = four["accelerated"]
    assert status == "optimal"
    assert bound <= exact.value
    assert exact.lower_bound <= value
    assert_allclose(np.sum(rows, axis=1), 1.0, atol=1e-12)


@pytest.mark.slow
def test_a_joint_cut_along_x_gives_what_the_stored_one_gives(four):
    assert four["held"] == [[3, 60]] * 4
    stored, cut = four["stored"], four["sharded"]
    assert stored[0] == cut[0] == "optimal"
    assert_allclose(cut[1:3], stored[1:3], rtol=1e-9)
    assert cut[3] == stored[3]
    assert_allclose(cut[4], stored[4], rtol=0, atol=1e-9)
    assert four["verified"]
    assert four["slopes"] <= 1e-9
    whole, rows, other, one = four["errors"]
    assert whole == rows == "joint is not sharded along axis 1 (x) alone: PartitionSpec(None, axis) is needed"
    assert other == "joint: its columns lie on other devices than those that solve; leave out device= and mesh="
    cut = "device: an array of the problem is cut over several devices, which share the solve; leave device= out"
    assert one == cut
