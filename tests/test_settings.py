"""Solves under settings of JAX by which a user looks for mistakes in programs of his own, and without a device."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import jaxpriv as jp
from tests.cases import distances, further

JOINT = np.array([[0.3, 0.1, 0.1], [0.05, 0.15, 0.3]])
TABLE = distances(3)
AVERAGE = jp.DistortionProblem(JOINT, TABLE, budget=0.3)
OPERATOR = jp.DistortionProblem(JOINT, jp.distortion.absolute(np.arange(3.0)), budget=0.3)
LINEAR = jp.DistortionProblem(JOINT, TABLE, budget=0.3, leakage=jp.leakage.MaximalLeakage())
SOLVES = {
    "mirror-descent": AVERAGE,
    "accelerated": AVERAGE,
    "two-grid": OPERATOR,
    "hybrid-gradient": LINEAR,
    "interior-point": AVERAGE,
    "linear-program": LINEAR,
}
SETTINGS = {
    "debug_infs": lambda: jax.debug_infs(True),
    "debug_nans": lambda: jax.debug_nans(True),
    "disable_jit": jax.disable_jit,
    "transfer_guard": lambda: jax.transfer_guard("disallow"),
}


@pytest.mark.parametrize("solver", further(SOLVES, SOLVES.keys() - {"accelerated", "hybrid-gradient"}))
def test_settings_that_look_for_mistakes_change_no_solve(solver):
    expected = jp.solve(SOLVES[solver], solver, tol=1e-3)
    assert expected.status == "optimal"
    for name, setting in SETTINGS.items():
        with setting():
            found = jp.solve(SOLVES[solver], solver, tol=1e-3)
            assert jax.config.jax_debug_infs == (name == "debug_infs")  # the caller's settings stay
            assert jax.config.jax_disable_jit == (name == "disable_jit")
        assert found.value == expected.value, name
        assert found.lower_bound == expected.lower_bound, name


WITHOUT_A_DEVICE = """
import sys
from jaxpriv.cli import main
for line in (["solve", "problem.npz", "--budget", "0.3"], ["info"]):
    sys.argv[1:] = line
    try:
        main()
    except SystemExit as end:
        print(end.code)
"""


def test_no_device_is_a_line_that_says_so(tmp_path):
    np.savez(tmp_path / "problem.npz", joint=JOINT, distortion=TABLE)
    places = {"PYTHONPATH": os.pathsep.join(sys.path), "JAX_PLATFORMS": "cuda", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_DEVICE],
        env={**os.environ, **places},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "6\n6\n", done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("jaxpriv: error: JAX finds no device: JAX_PLATFORMS=cuda") for line in lines)
