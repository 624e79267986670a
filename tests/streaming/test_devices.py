"""The block loop on four devices gives what it gives on one. Devices are virtual, in a process of their own."""

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

SCRIPT = """
import json, sys
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
json.dump(out, sys.stdout)
"""


def run(devices: int) -> dict:
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    code = textwrap.dedent(SCRIPT)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.slow
def test_four_devices_agree_with_one():
    one, four = run(1), run(4)
    assert (one["devices"], one["mesh"]) == (1, None)
    assert (four["devices"], four["mesh"]) == (4, 4)
    for name in ("accelerated", "two-grid"):
        assert one[name][3] == four[name][3] == "optimal"
        # Float32 passes add in another order: the paths agree to their precision, the proofs hold for both.
        np.testing.assert_allclose(four[name][:3], one[name][:3], rtol=2e-3)
        assert four[name][1] <= one[name][0]
        assert one[name][1] <= four[name][0]
        np.testing.assert_allclose(np.sum(four[name][4], axis=1), 1.0, atol=1e-12)
