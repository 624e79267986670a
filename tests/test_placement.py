"""Where programs run: the argument `device`, devices that share a batch or a block loop, and memory that is a device's.

Several devices are virtual ones of one process, which runs all that needs them.
"""

import json
import os
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import jaxpriv as jp
from jaxpriv._runtime import resources
from jaxpriv._runtime.compilation import Placement
from jaxpriv.errors import ResourceError
from jaxpriv.solvers import Goal
from jaxpriv.solving import choice
from tests.cases import distances, raised, refused, run_python
from tests.compiling import QUICKLY

JOINT = np.array([[0.3, 0.1, 0.1], [0.05, 0.15, 0.3]])
TABLE = distances(3)
STUDY = {"grid": [{"joint": {"family": "dirichlet", "private": 2, "useful": 2, "seed": 0}, "budget": 0.2}]}
PROBLEM = jp.DistortionProblem(JOINT, TABLE, budget=0.3)

_SCRIPT = """
    import json, sys

    import jax, jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    import jaxpriv as jp
    from jaxpriv.data.streaming import all_devices
    from jaxpriv._runtime import compilation
    from jaxpriv._runtime.compilation import Placement
    from jaxpriv.errors import InputError
    from jaxpriv.solvers import Goal
    from jaxpriv.solving import kinds

    devices = jax.devices()
    assert len(devices) == 4
    sharding = NamedSharding(Mesh(np.array(devices), ("lanes",)), PartitionSpec("lanes"))
    rng = np.random.default_rng(1)
    table = abs(np.subtract.outer(np.arange(3.0), np.arange(3.0)))
    problems = [jp.DistortionProblem(rng.dirichlet(np.ones(9)).reshape(3, 3), table, budget=b)
                for b in np.linspace(0.05, 0.5, 10)]

    # Every program: on which devices its results are, and how many lanes one of them has.
    ran = []
    original = compilation.compiled
    def seen(function, *args):
        run, seconds = original(function, *args)
        def call():
            result = run()
            leaf = jax.tree.leaves(result)[0]
            ran.append([sorted(one.id for one in leaf.devices()), leaf.addressable_shards[0].data.shape])
            return result
        return call, seconds
    from jaxpriv.solving import loops, many
    many.compiled = seen

    out = {"alone": [float(one.value) for one in jp.solve_many(problems)]}
    together = jp.solve_many(problems, device=sharding)
    out["together"] = [float(one.value) for one in together]
    out["proved"] = all(one.status == "optimal" and jp.certify(p, one).agrees for p, one in zip(problems, together))
    out["ran"] = ran
    kind = kinds.kind_of(problems[0], "auto", Goal(1e-6))
    out["width"] = kind.width(10, mesh=Placement.of(sharding).mesh)

    # One device: programs are compiled for it, what is made is made there, and the other one is another program.
    for device in (devices[2], jax.sharding.SingleDeviceSharding(devices[1])):
        with Placement.of(device).here():
            run, _ = compilation.compiled(jnp.sin, np.ones(3))
            out.setdefault("placed", []).append([one.id for one in run().devices()])
            out.setdefault("made", []).append([one.id for one in jnp.ones(3).devices()])
    run, _ = compilation.compiled(jnp.sin, np.ones(3))
    out["default"] = [one.id for one in run().devices()]
    out["on_one"] = float(jp.solve(problems[4], device=devices[3]).value)

    # Streaming: on two of four, on one, and where the operator's own array was put.
    def line(n):
        return (np.arange(n) + 0.5) / n

    def smooth(n):
        table = np.exp(-0.5 * ((line(n) - np.array([[0.2], [0.5], [0.8]])) / 0.2) ** 2) + 1e-3
        return table / table.sum()

    large = jp.DistortionProblem(smooth(50), jp.distortion.absolute(line(50)), budget=0.05)
    two = NamedSharding(Mesh(np.array(devices[:2]), ("any",)), PartitionSpec())
    for asked in ({}, {"device": two}, {"device": devices[1]}):
        found = jp.solve(large, "accelerated" if asked else "auto", rtol=1e-2, **asked)
        out.setdefault("streamed", []).append([found.status, float(found.value), float(found.lower_bound)])
    operator = jp.joints.Stored(jax.device_put(jnp.asarray(smooth(50)), devices[3]))
    own = Placement.of(None, jp.DistortionProblem(operator, jp.distortion.absolute(line(50)), budget=0.05))
    out["own"] = own.device.id
    try:
        jp.solve(problems[0], device=sharding)
    except InputError as error:
        out["refused"] = str(error)
    try:
        jp.solve(jp.FunnelProblem([[0.3, 0.2], [0.1, 0.4]], disclosure=0.1), device=sharding)
    except InputError as error:
        out["funnel"] = str(error)

    # A batch of traced solves shared among devices.
    def value(budget):
        return jp.optimal_value(jp.problems.replace_form(problems[0], budget=budget))

    each, budgets = jax.vmap(value), np.linspace(0.05, 0.5, 4)
    along = {"in_specs": PartitionSpec("b"), "out_specs": PartitionSpec("b")}
    with jax.enable_x64(True):
        shared = jax.shard_map(each, mesh=Mesh(np.array(devices), ("b",)), **along, check_vma=False)
        out["shared"] = jax.jit(shared)(budgets).tolist()
    out["unshared"] = [float(jp.solve(jp.problems.replace_form(problems[0], budget=b)).value) for b in budgets]

    # The block loop on all of them; 250 symbols: no multiple of any block or of 4.
    def found(problem, solver, last):
        s = jp.solve(problem, solver, tol=1e-12, rtol=3e-3)
        rows = s.mechanism.rows([0, last]).tolist()
        return s, [str(s.status), float(s.value), float(s.lower_bound), int(s.steps), rows]

    problem = jp.DistortionProblem(smooth(250), jp.distortion.squared(line(250)), budget=0.01)
    out |= {"mesh": all_devices().size, "accelerated": found(problem, "accelerated", 249)[1], "errors": []}

    # The same joint cut along x, and what is refused.
    table, x = smooth(240), line(240)
    mesh = Mesh(np.array(devices), ("columns",))

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
    other = Mesh(np.array(devices[::-1]), ("x",))
    problem = jp.DistortionProblem(joint, jp.distortion.absolute(x), budget=0.02)
    for wrong in (
        lambda: jp.joints.sharded(put()),
        lambda: jp.joints.sharded(jax.device_put(table, NamedSharding(mesh, PartitionSpec(None, "columns"))).T),
        lambda: jp.solve(problem, jp.AcceleratedMirrorDescent(mesh=other), rtol=3e-3),
        lambda: jp.solve(problem, "accelerated", rtol=3e-3, device=devices[0]),
    ):
        try:
            wrong()
        except InputError as error:
            out["errors"].append(str(error))
    json.dump(out, sys.stdout)
"""


@pytest.fixture(scope="module")
def four() -> dict:
    """What the script finds on four devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    return json.loads(run_python("-c", QUICKLY + textwrap.dedent(_SCRIPT), XLA_FLAGS=flags, JAX_PLATFORMS="cpu"))


@pytest.mark.slow
def test_devices_that_are_named_do_the_work(four):
    assert four["proved"]
    assert_allclose(four["together"], four["alone"], atol=1e-6)
    assert four["funnel"].startswith("device: several devices")
    assert four["width"] == 16
    assert four["ran"] == [[[0, 1, 2, 3], [4]]]  # one batch, four lanes on each
    assert four["placed"] == four["made"] == [[2], [1]]
    assert four["default"] == [0]
    assert four["on_one"] == pytest.approx(four["alone"][4], abs=1e-6)
    (status, value, bound), *others = four["streamed"]
    assert status == "optimal"
    for one in others:
        assert one[0] == "optimal"
        assert one[2] <= value
        assert bound <= one[1]
    assert four["own"] == 3
    assert four["shared"] == pytest.approx(four["unshared"], abs=2e-6)
    assert "device: interior-point runs on one device" in four["refused"]


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


def test_what_is_no_device_is_refused_by_name(tmp_path):
    for call in (jp.solve, lambda one, device: jp.solve_many([one], device=device)):
        with refused(r"device must be a jax\.Device or a jax\.sharding\.Sharding, not str"):
            call(PROBLEM, device="gpu:0")
    with jax.enable_x64(True), refused("device: outside of jit"):
        jax.jit(lambda b: jp.solve(jp.DistortionProblem(JOINT, TABLE, budget=b), device=jax.devices()[0]).value)(0.3)
    with refused("device: one device, in this process"):
        jp.sweep(STUDY, tmp_path / "out", workers=2, device=jax.devices()[0])


def test_a_device_of_the_host_gives_the_same_numbers(tmp_path):
    device = jax.devices()[0]
    assert jp.solve(PROBLEM, device=device).value == jp.solve(PROBLEM).value
    assert jp.solve_many([PROBLEM] * 3, device=device)[2].value == jp.solve_many([PROBLEM] * 3)[2].value
    one, other = jp.sweep(STUDY, tmp_path / "a", device=device), jp.sweep(STUDY, tmp_path / "b")
    assert one.solution(0).value == other.solution(0).value
    assert jax.config.jax_default_device is None


def test_the_place_of_arrays_is_that_of_those_that_were_put_somewhere():
    put, free = jax.device_put(jnp.ones(2), jax.devices()[0]), jnp.ones(2)
    assert Placement.of(None, (put, free, 1.0)).device == jax.devices()[0]
    assert Placement.of(None, (free, np.ones(2))) == Placement()


class _Small:
    """A device of 2 GiB, half of which is taken."""

    def memory_stats(self):
        return {"bytes_limit": 2 * 2**30, "bytes_in_use": 2**30}

    def __str__(self):
        return "cuda:0"


def test_memory_is_that_of_the_device_that_computes(free_memory, monkeypatch):
    monkeypatch.setattr(choice, "accelerator", _Small)
    monkeypatch.setattr(choice, "target_platform", lambda: "gpu")
    free_memory(64 * 2.0**30)  # of the host: enough
    symbols = np.arange(400.0)
    large = jp.DistortionProblem(np.full((400, 400), 1 / 1.6e5), jp.distortion.absolute(symbols), budget=1.0)
    with raised(ResourceError, r"interior-point for .* 1\.0 GiB are free on cuda:0; use solver='acc"):
        choice.pick_solver("interior-point", large, Goal(1e-6))
    assert choice.pick_solver("auto", large, Goal(1e-6))[0] == "two-grid"
    other = jp.DistortionProblem(large.data, large.distortions, budget=1.0, leakage=jp.leakage.Sibson(2.0))
    assert choice.pick_solver("auto", other, Goal(1e-6))[0] == "hybrid-gradient"
    assert choice.pick_solver("auto", PROBLEM, Goal(1e-6))[0] == "interior-point"


def test_a_device_that_does_not_say_has_memory_without_end():
    class Silent:
        def memory_stats(self):
            return None

    assert resources.fits(2.0**60, device=Silent())
    assert not resources.fits(2.0**60)
