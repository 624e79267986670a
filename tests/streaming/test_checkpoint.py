"""Checkpoints of streaming solves: a killed process loses little, and a file that does not belong is left alone."""

import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import jaxpriv as jp
from tests.cases import assert_one_optimum, files_end_at, raised, refused
from tests.cli.conftest import answered, run

from .conftest import line, smooth_joint

# Below what passes in float32 reach, so that float64 goes on; and met at once by a bound of late rules, at a gap of
# 1.9e-6 after 2.4e-6, so that one step fewer does not meet it.
TOL = 2.2e-6


def problem(budget=0.1, joint=None):
    return jp.DistortionProblem(
        smooth_joint(40, 4) if joint is None else joint, jp.distortion.absolute(line(40)), budget=budget
    )


def solve(path, asked=None, **options):
    return jp.solve(asked or problem(), "accelerated", tol=TOL, checkpoint=path, **options)


@pytest.fixture(scope="module")
def undisturbed():
    return solve(None)


@pytest.fixture
def stopped(tmp_path):
    """The file of a solve that had too few steps."""
    path = tmp_path / "state.npz"
    assert solve(path, max_steps=12).status == "not_certified"
    return path


_KILLED = """
    import os, signal, sys
    import jax
    import jaxpriv as jp
    from tests.compiling import QUICKLY
    from jaxpriv.solving import streamed_runs
    from tests.streaming.test_checkpoint import problem, TOL

    exec(QUICKLY)  # as in the process that goes on: the same bits
    streamed_runs._SECONDS, streamed_runs._SHARE = 0.0, 1e9

    def kill(record):
        if record.step >= 20:
            os.kill(os.getpid(), signal.SIGKILL)

    jp.solve(problem(), "accelerated", tol=TOL, checkpoint=sys.argv[1], progress=kill)
"""


def test_a_killed_solve_goes_on_from_its_last_state(tmp_path, undisturbed):
    path = tmp_path / "state.npz"
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(_KILLED), str(path)], capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert path.exists()
    seen = []
    solution = solve(path, progress=seen.append)
    assert solution.status == "optimal"
    assert solution.gap <= TOL
    assert solution.steps == undisturbed.steps
    assert (solution.value, solution.lower_bound) == (undisturbed.value, undisturbed.lower_bound)
    begun = int(solution.notes[0].split("went on from step ")[1].split()[0])
    assert 0 < begun < seen[0].step  # what was done before is not done again
    assert not path.exists()  # nothing is left to do
    verified = jp.solve(problem(), tol=1e-9)
    assert_one_optimum(solution, verified)


def test_steps_end_and_go_on_at_every_place(tmp_path, often, undisturbed):
    """Through float32, float64 and the change between them."""
    path, notes = tmp_path / "state.npz", []
    for most in (11, 100, undisturbed.steps - 1, undisturbed.steps):
        solution = solve(path, max_steps=most)
        notes += solution.notes
        assert solution.steps == most
        assert path.exists() == (most < undisturbed.steps)
    assert solution.steps == undisturbed.steps
    assert solution.value == undisturbed.value
    assert any("of all symbols, float32" in note for note in notes)
    assert any("of all symbols, continued" in note for note in notes)


def test_an_interrupt_leaves_a_state(tmp_path, undisturbed):
    path = tmp_path / "state.npz"

    def interrupt(record):
        if record.step >= 9:
            raise KeyboardInterrupt

    first = solve(path, progress=interrupt)
    assert first.status == "best_known"
    assert path.exists()
    assert solve(path).steps == undisturbed.steps


def test_the_file_is_written_by_time(tmp_path):
    """Seldom by default: a short solve writes nothing until it ends."""
    path, written = tmp_path / "state.npz", []
    solve(path, progress=lambda _: written.append(path.exists()))
    assert written
    assert not any(written)


SWAPPED = smooth_joint(40, 4)
SWAPPED[0, [3, 5]] = SWAPPED[0, [5, 3]]
CHANGED = {
    "budget": {"problem": problem(budget=0.11)},
    "joint": {"problem": problem(joint=SWAPPED)},
    "distortion": {"problem": jp.DistortionProblem(smooth_joint(40, 4), jp.distortion.squared(line(40)), budget=0.1)},
    "solver": {"solver": jp.AcceleratedMirrorDescent(patience=150)},
    "tolerance": {"tol": 2 * TOL},
    "measure": {
        "problem": jp.DistortionProblem(
            smooth_joint(40, 4), jp.distortion.absolute(line(40)), budget=0.1, leakage=jp.leakage.Sibson(2.0)
        )
    },
}


@pytest.mark.parametrize("change", CHANGED)
def test_a_file_of_another_solve_is_refused_and_left(stopped, change):
    before = stopped.read_bytes()
    asked = {"problem": problem(), "solver": "accelerated", "tol": TOL} | CHANGED[change]
    with refused(r"^checkpoint: another problem, solver setting or tolerance"):
        jp.solve(checkpoint=stopped, **asked)
    assert stopped.read_bytes() == before


def test_a_function_of_the_users_counts_by_its_values(tmp_path):
    import jax.numpy as jnp

    def asked(width):
        place = jnp.array([0.2, 0.5, 0.8])
        joint = jp.joints.from_function(lambda v: jnp.exp(-((v[0] - place) ** 2) / width) + 0.01, line(40))
        return jp.DistortionProblem(joint, jp.distortion.absolute(line(40)), budget=0.1)

    path = tmp_path / "state.npz"
    solve(path, asked(0.02), max_steps=8)  # so few steps compile no float64 passes
    with refused(r"^checkpoint: another problem"):
        solve(path, asked(0.02001))
    assert "went on from step 8" in solve(path, asked(0.02), max_steps=9).notes[0]


def _changed_byte(content):
    at = content.index(b"state.npy") + 800
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


DAMAGE = [
    _changed_byte,
    *(lambda content, share=share: content[: int(share * len(content))] for share in (0, 0.3, 0.9)),
]


@pytest.mark.parametrize("damage", [*DAMAGE, lambda content: content[:-20]])
def test_a_damaged_file_is_refused_and_left(stopped, damage):
    content = damage(stopped.read_bytes())
    stopped.write_bytes(content)
    with raised(jp.IntegrityError, r"^checkpoint: .*nothing was changed there"):
        solve(stopped)
    assert stopped.read_bytes() == content


def rewritten(path, **changes):
    with np.load(path) as file:
        arrays = {**file, **changes}
    np.savez(path, **arrays)


def test_arrays_that_do_not_belong_together_are_found(stopped):
    with np.load(stopped) as file:
        state = file["state"]
    rewritten(stopped, state=state[:-1])
    with raised(jp.IntegrityError, r"a state does not have the size of its problem"):
        solve(stopped)
    rewritten(stopped, state=state, head=np.frombuffer(b'{"label": 3}', dtype=np.uint8))
    with raised(jp.IntegrityError, r"its arrays do not belong together"):
        solve(stopped)


def test_another_version_is_refused(stopped):
    rewritten(stopped, version=np.frombuffer(b"0.1.0", dtype=np.uint8))
    with refused(r"^checkpoint: version '0.1.0' of jaxpriv wrote"):
        solve(stopped)


def test_another_format_is_refused(stopped):
    """That of before the averages of late rules."""
    rewritten(stopped, format=np.array(1))
    with refused(r"^checkpoint: version .* of jaxpriv wrote .* which writes format 2: name another file"):
        solve(stopped)


def test_a_file_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "arrays.npz"
    np.savez(path, joint=np.ones(3))
    before = path.read_bytes()
    with refused(r"^checkpoint: .* has no array named"):
        solve(path)
    assert path.read_bytes() == before


def test_false_claims_in_the_file_never_reach_the_certificate(stopped, undisturbed):
    """The best value and bound of the file are steering only: the certificate is computed from the problem."""
    with np.load(stopped) as file:
        state = np.array(file["state"])
    state[-1] = 1e9  # the bound of the best candidate
    rewritten(stopped, state=state)
    solution = solve(stopped)
    assert_one_optimum(solution, undisturbed)


def test_a_file_that_another_process_wrote_meanwhile_is_left(tmp_path, often):
    path = tmp_path / "state.npz"

    def other(record):
        if record.step >= 10:
            path.write_bytes(b"other")

    solution = solve(path, progress=other)
    assert solution.status == "optimal"
    assert any("another process has changed" in note for note in solution.notes)
    assert path.read_bytes() == b"other"


def test_a_file_that_cannot_be_written_is_a_note(tmp_path, often):
    """A limit on the size of files, as a full disk."""
    with files_end_at(100):
        solution = solve(tmp_path / "state.npz")
    assert solution.status == "optimal"
    assert sum("cannot write" in note for note in solution.notes) == 1


def test_places_that_cannot_hold_a_file_are_refused(tmp_path):
    with refused(r"^checkpoint: .* is not a folder"):
        solve(tmp_path / "none" / "state.npz")
    with refused(r"^checkpoint: .* is not a regular file"):
        solve(tmp_path)


def test_only_streaming_solves_have_one(tmp_path):
    path = tmp_path / "state.npz"
    with refused(r"^checkpoint: interior-point writes none"):
        jp.solve(problem(), "interior-point", checkpoint=path)
    funnel = jp.FunnelProblem(smooth_joint(6, 3), disclosure=0.1)
    with refused(r"^checkpoint: one problem with a distortion has one"):
        jp.solve(funnel, checkpoint=path)
    assert not path.exists()


def test_the_command_goes_on(tmp_path):
    source, state = tmp_path / "p.npz", tmp_path / "state.npz"
    np.savez(source, joint=smooth_joint(40, 4), distortion=abs(line(40)[:, None] - line(40)))
    asked = ["solve", source, "--budget", 0.1, "--solver", "accelerated", "--tol", 3e-3, "--checkpoint", state]
    answered(asked, "--max-steps 12", code=4)
    assert state.exists()
    assert "went on from step 12" in answered(asked)["notes"][0]
    assert not state.exists()
    assert run(asked, "--out", state).exit_code != 0
    assert not state.exists()
