"""One problem shared by two processes of two devices each: the results of one process, and one end for both."""

import json
import os
import socket
import subprocess
import sys
import textwrap

import pytest

_SCRIPT = """
    import json, sys
    import jax
    process, count, port = map(int, sys.argv[1:])
    jax.config.update("jax_num_cpu_devices", 2)
    if count > 1:
        jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=count, process_id=process)

    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh

    import jaxpriv as jp

    mesh = Mesh(np.array(jax.devices()), ("x",))
    x = (np.arange(61) + 0.5) / 61
    place = jnp.array([0.2, 0.5, 0.8])
    joint = jp.joints.from_function(lambda v: jnp.exp(-((v[0] - place) ** 2) / 0.02) + 0.01, x)
    problem = jp.DistortionProblem(joint, jp.distortion.absolute(x), budget=0.05)
    found = []
    for solver in (jp.AcceleratedGradient(mesh=mesh), jp.TwoGrid(mesh=mesh)):
        solution = jp.solve(problem, solver, rtol=1e-2)
        rows = np.asarray(solution.mechanism.rows(np.arange(3)))
        found.append([solution.status, solution.value, solution.lower_bound, rows.sum(), float(rows[0, 0])])
    # A time limit of one process ends the work of both.
    limit = 1e-9 if process == 0 else None
    stopped = jp.solve(problem, jp.AcceleratedGradient(mesh=mesh), rtol=1e-9, time_limit=limit)
    found.append([stopped.status, stopped.value, stopped.lower_bound])
    sys.stderr.write("result " + json.dumps(found, default=float) + "\\n")
"""


def _run(count: int) -> list[list]:
    """What every one of `count` processes found."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo"}
    children = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(_SCRIPT), str(process), str(count), str(port)],
            env=environment,
            stdout=subprocess.DEVNULL,  # gloo prints lines there
            stderr=subprocess.PIPE,
            text=True,
        )
        for process in range(count)
    ]
    try:
        said = [child.communicate(timeout=300)[1] for child in children]
    finally:
        for child in children:
            child.kill()
    for child, text in zip(children, said, strict=True):
        assert child.returncode == 0, text
    return [json.loads(text.rpartition("result ")[2]) for text in said]


@pytest.mark.slow
def test_two_processes_find_what_one_finds_and_end_together():
    (alone,) = _run(1)
    first, second = _run(2)
    assert first == second
    for one, shared in zip(alone[:2], first[:2], strict=True):
        assert shared[0] == one[0] == "optimal"
        assert shared[1:] == pytest.approx(one[1:], rel=1e-6)
    assert first[2][0] == "best_known"
    assert first[2][2] <= first[0][1]
