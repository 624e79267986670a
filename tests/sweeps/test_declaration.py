"""Studies as they are declared: what a grid holds, what is refused with its place, and what names a study."""

import os

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from jaxpriv.errors import InputError, IntegrityError, ResourceError
from jaxpriv.solving.sweeps import Study
from tests.cases import budget_at, raised, refused

GRID = {
    "joint": {"family": "dirichlet", "private": 3, "useful": 4, "seed": {"first": 5, "count": 3}},
    "budget_share": [0.2, 0.5],
}


def _study(**changes) -> Study:
    return Study.of({"grid": [{**GRID, **changes}]})


def test_a_grid_is_the_product_of_its_lists():
    study = _study(leakage=["mutual-information", {"name": "sibson", "order": [2, float("inf")]}], tol=[1e-4, 1e-6])
    assert len(study.cases) == 3 * 2 * 3 * 2
    assert [case["joint"]["seed"] for case in study.cases[:: 2 * 3 * 2]] == [5, 6, 7]
    assert {str(case["leakage"]) for case in study.cases} == {
        "{'name': 'mutual-information'}",
        "{'name': 'sibson', 'order': 2.0}",
        "{'name': 'sibson', 'order': 'inf'}",
    }
    assert [case["tol"] for case in study.cases[:2]] == [1e-4, 1e-6]
    assert study.problem(len(study.cases) - 1).leakage.order == np.inf


def test_a_share_lies_between_the_least_distortion_and_that_of_the_best_constant():
    least, half, idle = (_study(budget_share=share).problem(0) for share in (0.0, 0.5, 1.0))
    for share, problem in ((0.0, least), (1.0, idle)):
        assert problem.budget[0] == pytest.approx(budget_at(half.joints[0], half.tables()[0], share), abs=1e-15)
    assert half.budget[0] == pytest.approx((least.budget[0] + idle.budget[0]) / 2, abs=1e-15)


def test_families_are_what_they_say():
    joint = {"family": "correlated", "private": 4, "useful": 4, "correlation": [0.0, 1.0], "seed": 3}
    alone, same = (one.joints[0] for one in map(_study(joint=joint, budget_share=0.5).problem, (0, 1)))
    assert_allclose(alone, np.outer(alone.sum(axis=1), alone.sum(axis=0)), atol=1e-15)
    assert_allclose(same, np.diag(np.diag(same)), atol=1e-15)
    emptied = _study(joint={**GRID["joint"], "zeros": 1.0}).problem(0).joints[0]
    assert (emptied.sum(axis=0) > 0).all()
    assert (emptied.sum(axis=1) > 0).all()
    assert (emptied == 0).sum() >= 12 - 4 - 3


def test_files_are_read_beside_the_declaration_and_named_by_their_content(tmp_path):
    joint = np.full((2, 4), 1 / 8)
    np.savez(tmp_path / "data.npz", joint=joint, distortion=1.0 - np.eye(4))
    (tmp_path / "study.toml").write_text(
        '[[grid]]\njoint = "data.npz"\ndistortion = { file = "data.npz" }\nbudget = [0.1, 0.2]\n'
    )
    study = Study.of(tmp_path / "study.toml")
    assert_array_equal(study.problem(1).joints[0], joint)
    before = study.hash
    np.savez(tmp_path / "data.npz", joint=joint[::-1], distortion=1.0 - np.eye(4))
    assert Study.of(tmp_path / "study.toml").hash == before  # the same numbers
    np.savez(tmp_path / "data.npz", joint=joint, distortion=2.0 - np.eye(4))
    assert Study.of(tmp_path / "study.toml").hash != before
    (tmp_path / "data.npz").write_bytes(b"PK\x03\x04 and no more")
    with raised(IntegrityError, r"grid\[0\].joint: .*not a complete .npz"):
        Study.of(tmp_path / "study.toml")


def test_the_hash_is_that_of_the_problems():
    assert Study.of({"name": "a", "grid": [GRID]}).hash == Study.of({"chunk_rows": 2, "grid": [GRID]}).hash
    assert _study().hash != _study(tol=1e-5).hash
    assert _study(tol=1).hash == _study(tol=1.0).hash
    split = [{**GRID, "joint": {**GRID["joint"], "seed": seed}} for seed in (5, 6, 7)]
    assert Study.of({"grid": split}).hash == _study().hash


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"budget": 0.1}, r"grid\[0\] needs exactly one of .*budget and budget_share given"),
        ({"budget_share": []}, r"grid\[0\].budget_share is an empty list"),
        ({"joint": None}, r"grid\[0\].joint must name a file or a family"),
        ({"joint": {"family": "gaussian"}}, r"grid\[0\].joint.family is unknown; known: dirichlet, correlated"),
        ({"joint": GRID["joint"] | {"private": 0}}, r"joint.private must be a whole number >= 1"),
        ({"joint": GRID["joint"] | {"rho": 1}}, r"joint has an unknown key 'rho'"),
        ({"joint": GRID["joint"] | {"zeros": 2}}, "joint.zeros must be a finite number >= 0 and <= 1"),
        ({"joint": "absent.npz"}, r"grid\[0\].joint: .*does not exist"),
        ({"distortion": "euclidean"}, r"distortion.name is unknown"),
        ({"distortion": {"name": "hamming", "seed": 1}}, r"distortion has an unknown key 'seed'"),
        ({"leakage": "entropy"}, r"grid\[0\].leakage: .*known"),
        ({"leakage": "sibson"}, r"grid\[0\].leakage: sibson needs order"),
        ({"solver": "simplex"}, r"grid\[0\].solver is unknown"),
        ({"bugdet": 1}, r"grid\[0\] has an unknown key 'bugdet'"),
        ({"tol": [1e-6, 1e-6]}, r"the same problem twice, as numbers 0 and 1"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(changes, words):
    with refused(words):
        _study(**changes)


NAN, INF = float("nan"), float("inf")
# For every axis of a grid, values that no problem can have; each is tried alone and at position 1 of a list.
REFUSED = {
    "joint": [3, True, {}, {"family": "dirichlet"}, {"file": 3}, {"file": "a\0b"}, {"array": "joint"}, ""],
    "joint.private": [0, -1, 2.0, "3", True, 2**17, NAN],
    "joint.useful": [0, -1, 2.0, "3", False, 2**60],
    "joint.seed": [-1, 0.5, "0", True, 2**53],
    "joint.concentration": [0, -1.0, NAN, INF, "1", True, 1e9],
    "joint.zeros": [-0.1, 1.1, NAN, "0"],
    "distortion": [3, True, {}, "", {"name": 3}, {"file": ""}, {"name": "hamming", "released": 0}],
    "leakage": [3, True, {}, "", {"name": 3}, {"name": "sibson"}, {"name": "sibson", "order": -1.0}],
    "budget_share": [-0.1, 1.5, NAN, INF, -INF, "0.5", True, {}],
    "budget": [-1, -1e-300, NAN, INF, "0.5", True],
    "multiplier": [-1, NAN, INF, "0.5", True],
    "leakage_budget": [-1e-9, NAN, INF, "0.5", True],
    "solver": [3, True, {}, "", "simplex"],
    "tol": [0, -1e-6, NAN, INF, "1e-6", True],
    "rtol": [-1e-6, NAN, INF, "0", True],
    "max_steps": [-1, 0.5, NAN, "10", True],
}


@pytest.mark.parametrize("name", REFUSED)
def test_no_axis_takes_what_no_problem_can_have(name):
    """The message names the place: alone, and in a list, where the first entry is good."""
    axis, _, part = name.partition(".")
    grid = {"joint": {"family": "dirichlet", "private": 2, "useful": 3, "seed": 1}, "budget_share": 0.5}
    good = {
        "joint": grid["joint"] | {"seed": 9},
        "distortion": "absolute",
        "leakage": "mutual-information",
        "solver": "auto",
        "tol": 1e-3,
        "max_steps": 50,
    }.get(axis, 0.25)
    if axis in ("budget", "multiplier", "leakage_budget"):
        del grid["budget_share"]
    for value in REFUSED[name]:
        bad = {**grid["joint"], part: value} if part else value
        for given, place in ((bad, f"grid[0].{axis}"), ([good, bad], f"grid[0].{axis}[1]")):
            with pytest.raises(InputError) as error:
                pytest.fail(f"{value} is taken: {Study.of({'grid': [{**grid, axis: given}]})}")
            assert str(error.value).startswith(f"{place}.{part}" if part else place), str(error.value)


@pytest.mark.parametrize("shape", [(0, 0), (2, 0), (0, 3), (0, 2, 3), (), (3,)])
def test_arrays_that_are_no_joints(shape, tmp_path):
    np.savez(tmp_path / "data.npz", joint=np.full(shape, 1.0 / 6))
    with refused(r"grid\[0\].joint: the array has shape"):
        Study.of({"grid": [{"joint": "data.npz", "budget": 0.1}]}, tmp_path)


def test_files_that_are_no_declarations(tmp_path):
    path = tmp_path / "study.toml"
    for given, words in ((path, "does not exist"), (3, "must be a path")):
        with refused(words):
            Study.of(given)
    for content, words in (
        (b"[[grid]\n", "is not TOML"),
        (b"\xff\xfe", "is not TOML"),
        (b"name = 3\n[[grid]]\n", "name must be a string"),
        (b"", r"no \[\[grid\]\]"),
    ):
        path.write_bytes(content)
        with refused(words):
            Study.of(path)


def test_a_declaration_is_a_regular_file_of_a_size_that_people_write(tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    with refused("not a regular file"):  # to open it would wait for ever
        Study.of(tmp_path / "pipe.toml")
    (tmp_path / "large.toml").write_text("# " + "x" * 2**20)
    with raised(ResourceError, "larger than 1048576 bytes"):
        Study.of(tmp_path / "large.toml")
