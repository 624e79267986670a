"""One problem shared by two processes of two devices each: one proof, one end and one checkpoint."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpriv as jp
from tests.compiling import QUICKLY

# What all scripts begin with.
_BEGIN = """
    import json, os, signal, sys
    from pathlib import Path

    import jax
    process, port = map(int, sys.argv[1:3])
    jax.config.update("jax_num_cpu_devices", 2)
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=process)

    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    import jaxpriv as jp
    from jaxpriv._runtime import resources
    from jaxpriv.solvers import Goal
    from jaxpriv.solving import streamed_runs
    from jaxpriv.solving.choice import pick_solver

    mesh = Mesh(np.array(jax.devices()), ("x",))
    folder = Path(sys.argv[3])
    x = (np.arange(61) + 0.5) / 61
    place = jnp.array([0.2, 0.5, 0.8])
    joint = jp.joints.from_function(lambda v: jnp.exp(-((v[0] - place) ** 2) / 0.02) + 0.01, x)
    problem = whole = jp.DistortionProblem(joint, jp.distortion.absolute(x), budget=0.05)

    def say(found):
        sys.stderr.write("result " + json.dumps(found, default=float) + "\\n")

    def own(name):
        # A checkpoint that the first process alone has: the others have no folder for it.
        return str(folder / name) if process == 0 else "/nowhere/" + name
"""

_SHARED = """
    found = []
    solution = jp.solve(problem, jp.AcceleratedMirrorDescent(mesh=mesh), rtol=1e-2)
    rows = np.asarray(solution.mechanism.rows(np.arange(3)))
    found.append([solution.status, solution.value, solution.lower_bound, int(solution.steps), rows.sum()])
    # A time limit of one process ends the work of both.
    limit = 1e-9 if process == 0 else None
    stopped = jp.solve(problem, jp.AcceleratedMirrorDescent(mesh=mesh), rtol=1e-9, time_limit=limit)
    found.append([stopped.status, stopped.value, stopped.lower_bound])
    path = own("shared.npz")
    state = Path(path)
    for steps in (8, 1000):
        solver = jp.AcceleratedMirrorDescent(mesh=mesh)
        solution = jp.solve(problem, solver, rtol=1e-2, checkpoint=path, max_steps=steps)
        kept = solution.status != "optimal"
        assert process > 0 or state.exists() == kept, (steps, solution)
        found.append([solution.status, solution.value, solution.lower_bound, int(solution.steps), solution.notes])
    if process == 0:
        state.write_bytes(b"damaged")
    try:
        jp.solve(problem, jp.AcceleratedMirrorDescent(mesh=mesh), rtol=1e-2, checkpoint=path)
    except jp.IntegrityError as error:
        found.append([type(error).__name__, str(error).replace(path, "")])
    assert process > 0 or state.read_bytes() == b"damaged"
    # Of two problems none is solved: both processes refuse.
    other = jp.DistortionProblem(joint, jp.distortion.absolute(x), budget=0.05 + 0.01 * (process > 0))
    try:
        jp.solve(other, jp.AcceleratedMirrorDescent(mesh=mesh), rtol=1e-2, checkpoint=path + "-other")
    except jp.InputError as error:
        found.append([type(error).__name__, str(error)])
    say(found)
"""


# Each process makes the columns of its own useful symbols alone.
_HALVES = """
    x = (np.arange(60) + 0.5) / 60
    own_x = np.array_split(x, 2)[process]
    table = np.exp(-((own_x - np.array([[0.2], [0.5], [0.8]])) ** 2) / 0.02) + 0.01
    with jax.enable_x64(True):
        along_x = NamedSharding(mesh, PartitionSpec(None, "x"))
        columns = jax.make_array_from_process_local_data(along_x, table, (3, 60))
        columns = columns / columns.sum()
        joint = jp.joints.sharded(columns)
    held = sum(shard.data.shape[1] for shard in joint.values.addressable_shards)
    found = [[held, joint.held, joint.values.is_fully_addressable]]
    problem = jp.DistortionProblem(joint, jp.distortion.absolute(x), budget=0.05)
    for steps in (8, 1000):
        solution = jp.solve(
            problem, jp.AcceleratedMirrorDescent(single=False), rtol=1e-3, checkpoint=own("half.npz"), max_steps=steps
        )
        found.append([solution.status, solution.value, solution.lower_bound, solution.notes])
    with jax.enable_x64(True):
        bad = jax.make_array_from_process_local_data(along_x, np.where(own_x == x[-2], -table, table), (3, 60))
    try:
        jp.joints.sharded(bad)
    except jp.InputError as error:
        found.append(str(error))
    for call in (jp.solve, lambda one, device: jp.solve_many([one], device=device)):
        try:
            call(problem, device=jax.local_devices()[0])
            found.append("no error")
        except jp.InputError as error:
            found.append(str(error))
    tabled = jp.DistortionProblem(joint, abs(np.subtract.outer(x, x)), budget=0.05)
    resources.ALWAYS = 0.0
    # With half of the joint; of a table of costs each process has all: 60 * 60 numbers more.
    for asked, free in ((problem, 23_759.0), (problem, 23_760.0), (tabled, 52_559.0), (tabled, 52_560.0)):
        resources.free_memory = lambda free=free: free
        try:
            pick_solver("accelerated", asked, Goal(1e-6))
            found.append("fits")
        except jp.ResourceError:
            found.append("does not fit")
    say(found)
"""


# At last the first process is killed from its tenth step on, after it has written its state; the other waits for it.
_KILLED = """
    streamed_runs._SECONDS, streamed_runs._SHARE = 0.0, 1e9  # written after every portion of steps
    path = folder / "state.npz"

    def kill(record):
        if process == 0 and record.step >= 10 and path.exists():
            os.kill(os.getpid(), signal.SIGKILL)

    jp.solve(whole, jp.AcceleratedMirrorDescent(mesh=mesh), rtol=1e-2, checkpoint=own("state.npz"), progress=kill)
"""


def _free_port():
    """Below those that the system itself gives to connections, which may be any before the first process listens."""
    for port in range(20_000 + os.getpid() % 10_000, 32_768):
        with contextlib.suppress(OSError), socket.socket() as free:
            free.bind(("127.0.0.1", port))
            return port
    pytest.fail("no port is free")


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    """The file that the first of two processes leaves."""
    return tmp_path_factory.mktemp("states") / "state.npz"


@pytest.fixture(scope="module")
def both(state):
    """What each of two processes finds, which find one another; the first is killed in the end."""
    code = textwrap.dedent(_BEGIN) + QUICKLY + "".join(map(textwrap.dedent, (_SHARED, _HALVES, _KILLED)))
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo"}
    children, said, port = [], [], str(_free_port())
    for process in range(2):
        arguments = [sys.executable, "-c", code, str(process), port, str(state.parent)]
        # gloo prints lines to stdout
        children += [
            subprocess.Popen(arguments, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        ]
    try:
        said += [children[0].communicate(timeout=900)[1]]
    finally:
        for child in children:  # what one process of two does alone is JAX's: it waits, or ends with an error
            child.kill()
    said += [children[1].communicate()[1]]
    assert children[0].returncode == -signal.SIGKILL, said
    return [[json.loads(line[7:]) for line in text.splitlines() if line.startswith("result ")] for text in said]


def _problem(size):
    """Of so many symbols."""
    x, place = (np.arange(size) + 0.5) / size, jnp.array([0.2, 0.5, 0.8])
    joint = jp.joints.from_function(lambda v: jnp.exp(-((v[0] - place) ** 2) / 0.02) + 0.01, x)
    return jp.DistortionProblem(joint, jp.distortion.absolute(x), budget=0.05)


def _holds(size, *intervals):
    """All intervals (value, lower bound) hold the optimum of the problem with so many symbols."""
    exact = jp.solve(_problem(size), "interior-point", tol=1e-8)
    for value, bound in intervals:
        assert bound <= exact.value
        assert exact.lower_bound <= value


@pytest.mark.slow
def test_two_processes_prove_the_optimum_and_end_together(both):
    first, second = both[0][0], both[1][0]
    assert first[:2] == second[:2]
    assert first[0][0] == "optimal"
    assert first[0][4] == pytest.approx(3.0)
    assert first[1][0] == "best_known"
    _holds(61, *(one[1:3] for one in first[:4]))
    # The checkpoint: all go on from the first one's file, and the result is that of an undisturbed solve.
    for stopped, later, damaged in (first[2:5], second[2:5]):
        assert stopped[0] == "not_certified"
        assert later[0] == "optimal"
        assert later[1:3] == pytest.approx(first[0][1:3], rel=1e-9)
        assert later[3] == first[0][3] > stopped[3] == 8  # the steps before the end count
        assert "went on from step 8" in later[4][0]
        assert damaged[0] == "IntegrityError"
    assert first[5] == second[5]
    assert first[5][0] == "InputError"
    assert "do not have the same problem" in first[5][1]


@pytest.mark.slow
@pytest.mark.usefixtures("both")
def test_one_process_goes_on_after_one_of_two_was_killed(state):
    assert state.exists()
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):  # as in the two
        solution = jp.solve(_problem(61), "accelerated", rtol=1e-2, checkpoint=state)
    assert not state.exists()
    assert solution.status == "optimal"
    assert int(solution.notes[0].split("went on from step ")[1].split()[0]) > 0
    _holds(61, (solution.value, solution.lower_bound))


@pytest.mark.slow
def test_two_processes_that_hold_half_of_the_joint_each_prove_its_optimum(both):
    first, second = both[0][1], both[1][1]
    assert first == second
    assert first[0] == [30, 30, False]
    stopped, later = first[1:3]
    assert stopped[0] == "not_certified"
    assert later[0] == "optimal"
    assert "went on from step 8" in later[3][0]
    _holds(60, stopped[1:3], later[1:3])
    assert first[3] == "joint at [0, 58] (axes s, x) is negative or not finite"
    for error in first[4:6]:
        assert error.startswith("device: an array of the problem is cut over several devices")
    assert first[6:] == ["does not fit", "fits"] * 2
