"""The block loop on four devices gives what it gives on one. Devices are virtual, in a process of their own."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.compiling import QUICKLY

SCRIPT = """
import json
import numpy as np
import jax
import jaxpriv as jp
from jaxpriv.streaming import all_devices

def line(n):
    return (np.arange(n) + 0.5) / n

place = np.array([0.2, 0.5, 0.8])  # 250 symbols: no multiple of any block or of 4
smooth = np.exp(-0.5 * ((line(250) - place[:, None]) / 0.2) ** 2) + 1e-3
smooth /= smooth.sum()
mesh = all_devices()
out = {"devices": len(jax.devices()), "mesh": None if mesh is None else mesh.size}
for name, problem, solver in (
    ("accelerated", jp.DistortionProblem(smooth, jp.distortion.squared(line(250)), budget=0.01), "accelerated"),
    ("two-grid", jp.DistortionProblem(smooth, jp.distortion.absolute(line(250)), multiplier=1.0), "two-grid"),
):
    s = jp.solve(problem, solver, tol=1e-12, rtol=3e-3)
    rows = s.mechanism.rows([0, 249]).tolist()
    out[name] = [float(s.value), float(s.lower_bound), float(s.leakage), str(s.status), rows]
print(json.dumps(out))
"""


# The same joint cut along x, and what is refused.
SHARDED = """
import json
import numpy as np
import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
import jaxpriv as jp

x = (np.arange(240) + 0.5) / 240
table = np.exp(-0.5 * ((x - np.array([[0.2], [0.5], [0.8]])) / 0.2) ** 2) + 1e-3
table /= table.sum()
mesh = Mesh(np.array(jax.devices()), ("columns",))

def put(*spec):
    with jax.enable_x64(True):
        return jax.device_put(table, NamedSharding(mesh, PartitionSpec(*spec)))

joint = jp.joints.sharded(put(None, "columns"))
out = {"held": [list(shard.data.shape) for shard in joint.values.addressable_shards], "errors": []}
for name, solver, cost, form in (
    ("accelerated", jp.AcceleratedGradient(single=False), jp.distortion.squared(x), {"budget": 0.01}),
    ("two-grid", jp.TwoGrid(), jp.distortion.absolute(x), {"multiplier": 1.0}),
):
    for kind, data in (("stored", table), ("sharded", joint)):
        problem = jp.DistortionProblem(data, cost, **form)
        s = jp.solve(problem, solver, tol=1e-12, rtol=3e-3)
        rows = s.mechanism.rows([0, 239]).tolist()
        out[f"{name}, {kind}"] = [str(s.status), float(s.value), float(s.lower_bound), int(s.steps), rows]
out["verified"] = s.verify(problem).valid
slopes = [jp.sensitivity(p, s).joint for p in (problem, jp.DistortionProblem(table, cost, **form))]
out["slopes"] = float(abs(slopes[0] - slopes[1]).max())
other = Mesh(np.array(jax.devices()[::-1]), ("x",))
problem = jp.DistortionProblem(joint, jp.distortion.absolute(x), budget=0.02)
for wrong in (
    lambda: jp.joints.sharded(put()),
    lambda: jp.joints.sharded(jax.device_put(table, NamedSharding(mesh, PartitionSpec(None, "columns"))).T),
    lambda: jp.solve(problem, jp.AcceleratedGradient(mesh=other), rtol=3e-3),
    lambda: jp.solve(problem, "accelerated", rtol=3e-3, device=jax.devices()[0]),
):
    try:
        wrong()
    except jp.InputError as error:
        out["errors"].append(str(error))
print(json.dumps(out))
"""


@pytest.fixture(scope="module")
def four() -> list[dict]:
    """What both scripts find on four devices, in one process."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    code = QUICKLY + SCRIPT + SHARDED
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    return list(map(json.loads, done.stdout.splitlines()))


@pytest.mark.slow
def test_four_devices_agree_with_one(four, capfd):
    exec(SCRIPT, {})  # this process has one
    one, four = json.loads(capfd.readouterr().out), four[0]
    assert (one["devices"], one["mesh"]) == (1, None)
    assert (four["devices"], four["mesh"]) == (4, 4)
    for name in ("accelerated", "two-grid"):
        assert one[name][3] == four[name][3] == "optimal"
        # Float32 passes add in another order: the paths agree to their precision, the proofs hold for both.
        np.testing.assert_allclose(four[name][:3], one[name][:3], rtol=2e-3)
        assert four[name][1] <= one[name][0]
        assert one[name][1] <= four[name][0]
        np.testing.assert_allclose(np.sum(four[name][4], axis=1), 1.0, atol=1e-12)


@pytest.mark.slow
def test_a_joint_cut_along_x_gives_what_the_stored_one_gives(four):
    got = four[1]
    assert got["held"] == [[3, 60]] * 4
    for name in ("accelerated", "two-grid"):
        stored, cut = got[f"{name}, stored"], got[f"{name}, sharded"]
        assert stored[0] == cut[0] == "optimal"
        np.testing.assert_allclose(cut[1:3], stored[1:3], rtol=1e-9)
        assert cut[3] == stored[3]
        np.testing.assert_allclose(cut[4], stored[4], rtol=0, atol=1e-9)
    assert got["verified"]
    assert got["slopes"] <= 1e-9
    whole, rows, other, one = got["errors"]
    assert whole == rows == "joint is not sharded along axis 1 (x) alone: PartitionSpec(None, axis) is needed"
    assert other == "joint: its columns lie on other devices than those that solve; leave out device= and mesh="
    cut = "device: an array of the problem is cut over several devices, which share the solve; leave device= out"
    assert one == cut
