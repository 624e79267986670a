"""Rules about the library's own files, which no linter checks."""

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import jaxpriv as jp

LIBRARY = Path(__file__).resolve().parent.parent / "jaxpriv"


@pytest.fixture(scope="module")
def trees():
    """By the path of a file; not held while other files are tested, nor made by those who do not test this one."""
    return {path.relative_to(LIBRARY): ast.parse(path.read_text()) for path in sorted(LIBRARY.rglob("*.py"))}


def test_no_class_name_stands_for_two_things(trees):
    homes = defaultdict(list)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(str(path))
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


def test_no_name_of_a_package_hides_one_of_its_modules(trees):
    """`import jaxpriv.a.b as b` gives what the package calls `b`."""
    hidden = [
        path.parent / alias.name
        for path, tree in trees.items()
        for node in tree.body
        if path.name == "__init__.py" and isinstance(node, ast.ImportFrom)
        for alias in node.names
        if path.parent / f"{alias.name}.py" in trees and node.module != ".".join(("jaxpriv", *path.parent.parts))
    ]
    assert hidden == []


# Where such a name says what its thing is: a group of options, masks of what is known, columns kept as they were, the
# outcome 1, and parameters of public functions.
SAYS_ENOUGH = {
    ("cli/_audit_options.py", "known"),
    ("cli/audit.py", "known"),
    ("funnels/pricing/shapes.py", "known"),
    ("models/baselines.py", "kept"),
    ("release/releasing.py", "kept"),
    ("statistics/audit/binary_information.py", "one"),
    ("statistics/audit/populations.py", "known"),
    ("statistics/confidence/__init__.py", "known"),
    ("verifier/__init__.py", "kept"),
    ("verifier/releases.py", "kept"),
}


def test_local_names_say_what_a_thing_is(trees):
    vague = {"found", "one", "own", "known", "kept"}
    used = set()
    for path, tree in trees.items():
        for scope in ast.walk(tree):
            if isinstance(scope, ast.arg):
                used.add((path.as_posix(), scope.arg))
            elif isinstance(scope, ast.Name) and isinstance(scope.ctx, ast.Store):
                used.add((path.as_posix(), scope.id))
    assert {(path, name) for path, name in used if name in vague} == SAYS_ENOUGH


def test_a_numeric_constant_says_where_it_is_from(trees):
    """A comment on its lines or right above gives the derivation, the source or the consequence of a choice."""
    bare = []
    for path, tree in trees.items():
        lines = (LIBRARY / path).read_text().splitlines()
        for node in tree.body:
            if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None or node.end_lineno is None:
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
            numbers = [one.value for one in ast.walk(node.value) if isinstance(one, ast.Constant)]
            if not any(name.isupper() for name in names) or not any(type(number) in (int, float) for number in numbers):
                continue
            above = lines[node.lineno - 2].startswith("#")
            if not above and not any("#" in line for line in lines[node.lineno - 1 : node.end_lineno]):
                bare.append(f"{path}:{node.lineno} {', '.join(names)}")
    assert bare == []


def test_the_files_of_one_solve_are_those_of_the_page(trees):
    """docs/explanation/one-solve.md names at most ten files: a solve passes each, and runs what is named."""
    page = (LIBRARY.parent / "docs" / "explanation" / "one-solve.md").read_text()
    named = {
        path: re.findall(r"`(\w+)`", read)
        for path, read in re.findall(r"^\|.*\| `([\w/]+\.py)`.*?\|(.*)\|$", page, re.M)
    }
    assert 8 <= len(named) <= 10
    run = defaultdict(set)

    def note(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(LIBRARY):
            run[path.relative_to(LIBRARY).as_posix()].update(frame.f_code.co_qualname.split("."))

    sys.setprofile(note)
    try:
        problem = jp.DistortionProblem(np.array([[0.3, 0.2], [0.1, 0.4]]), jp.distortion.hamming([0, 1]), budget=0.2)
        jp.solve(problem, progress=lambda _: None)  # by steps, which are reported: no kernel takes their place
    finally:
        sys.setprofile(None)
    for path, names in named.items():
        defined = {
            node.name for node in ast.walk(trees[Path(path)]) if isinstance(node, ast.ClassDef | ast.FunctionDef)
        }
        assert set(names) <= defined, path
        assert run[path], f"{path} is not part of a solve"
        assert {name for name in names if name[0].islower()} <= run[path], path
