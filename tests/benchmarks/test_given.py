"""Problems and solvers that the command line names."""

import sys

import numpy as np
import pytest

from benchmarks import run
from benchmarks.cases import Case
from benchmarks.solvers import SOLVERS, Unable
from benchmarks.solvers.ours import problem_of
from tests.cases import drawn_joint, raised

JOINT = drawn_joint(0, 3, 4)


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A folder with a problem, and a module of three functions."""
    np.savez(tmp_path / "mine.npz", joint=2 * JOINT, distortion=1 - np.eye(4))
    (tmp_path / "mine_solvers.py").write_text(
        "import numpy as np\n"
        "def itself(joint, distortion, budget): return np.eye(4)\n"
        "def asked(joint, distortion, *, budget=None, multiplier=None, tol): return np.full((4, 4), 1 / 4)\n"
        "def bad(joint, distortion, budget): raise ValueError('no idea')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    yield tmp_path
    sys.modules.pop("mine_solvers", None)


def test_a_file_is_a_case_with_its_table_as_distortion(mine):
    (case,) = run.instances_of(mine / "mine.npz", 0.2, None)
    instance = case.build()
    assert np.allclose(instance.joint, JOINT)
    assert np.array_equal(instance.table, 1 - np.eye(4))
    assert float(problem_of(instance).budget[0]) == 0.2
    assert instance.objective().score(np.full((4, 4), 1 / 4)).values[0] >= 0


def test_rows_of_a_csv_are_cases(mine):
    (mine / "many.csv").write_text("problem,budget,multiplier\nmine.npz,0.1,\nmine.npz,,1.5\n")
    first, second = run.instances_of(mine / "many.csv", None, None)
    assert (first["budget"], second["multiplier"]) == (0.1, 1.5)
    assert (first.family, second.family) == ("file", "file-penalty")
    assert second.build().multiplier == 1.5


@pytest.mark.parametrize(("row", "message"), [("mine.npz,,", "row 1: give"), ("mine.npz,1,2", "row 1: give")])
def test_a_row_has_one_target(mine, row, message):
    (mine / "many.csv").write_text(f"problem,budget,multiplier\nmine.npz,0.1,\n{row}\n")
    with raised(ValueError, message):
        run.instances_of(mine / "many.csv", None, None)


def test_functions_and_solvers_are_run_as_they_are(mine):
    (case,) = run.instances_of(mine / "mine.npz", 0.2, None)
    instance = case.build()
    for name, labels in (("mine_solvers:itself", ["as it is"]), ("mine_solvers:asked", ["0.01"])):
        solver = SOLVERS[name]
        ladder = solver.ladder((1e-2,))
        assert [one.label for one in ladder] == labels
        assert solver.run(solver.prepare(instance), ladder[0]).candidate.shape == (4, 4)
    ours = SOLVERS["jaxpriv:InteriorPoint()"]
    ours.load()
    found = ours.run(ours.prepare(instance), ours.ladder((1e-4,))[0])
    assert found.values[0] - found.bounds[0] <= 1e-4
    bad = SOLVERS["mine_solvers:bad"]
    (accuracy,) = bad.ladder((1e-2,))
    with raised(Unable, "ValueError: no idea"):
        bad.run(bad.prepare(instance), accuracy)
    assert not bad.supports(Case.of("funnel-heart", bits=1.0))
    with pytest.raises(KeyError):
        SOLVERS["nothing"]
