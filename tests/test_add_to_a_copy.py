"""A measure, a solver and a command, each added to a copy of the library as the pages say: what keeps the house passes.

The measure and the solver are those of docs/how-to/own-measure.md and own-solver.md. Each is one file, and a line where
files of its kind are listed; the command has a line in the table of help texts for each new option, the measure one in
the reference.
"""

import ast
import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.cases import ROOT
from tests.pages import blocks_of

pytestmark = pytest.mark.slow

# The house, and that each public name is on one page.
_KEPT = "test_house or public_name or twice"
_MEASURE = '''"""Le Cam's divergence of P(s, y) from P(s) P(y), on average over y."""

from dataclasses import dataclass

from jaxpriv.leakage import _base as lk
from jaxpriv.leakage.f_rules import AbstractCurve, f_rules
from jaxpriv.leakage.registry import named

__all__ = ["LeCam"]


'''
_SOLVER = '''"""Exponentiated gradient: W <- W exp(-t slope / P(x)) / Z, for smooth averages with a multiplier."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from jaxpriv import solvers


'''
_COMMAND = '''"""`jaxpriv limit`: what no release of a joint exceeds."""

from pathlib import Path

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._tables import ColumnOptions, problem_of


def limit(*, problem: Path, columns: ColumnOptions, json: Path | None = None) -> None:
    """Print I(S;X), the most that any release of X says about S."""
    columns.check(problem)
    arrays, _ = problem_of(problem, columns, ["joint"])
    most = float(jp.probability.mutual_information(arrays["joint"]))
    _output.deliver({"most": most}, json, f"I(S;X)  {_output.upper(most, 4)} nats\\n")
'''


def _classes(page, names):
    """The source of classes of a page, with their decorators."""
    text = next(b.text for b in blocks_of((ROOT / page).read_text()) if f"class {names[-1]}" in b.text)
    lines, sources = text.splitlines(), {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            sources[node.name] = "\n".join(lines[first - 1 : node.end_lineno])
    return "\n\n\n".join(sources[name] for name in names) + "\n"


def _insert(path, before, line):
    text = path.read_text()
    assert text.count(before) == 1
    path.write_text(text.replace(before, line + before))


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    place = tmp_path_factory.mktemp("copy")
    for folder in ("jaxpriv", "tests", "docs"):
        shutil.copytree(ROOT / folder, place / folder, ignore=shutil.ignore_patterns("__pycache__", "figures"))
    for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, place / name)
    library = place / "jaxpriv"

    measure = _classes("docs/how-to/own-measure.md", ["LeCamCurve", "LeCam"]).replace("@lk.named", "@named")
    (library / "leakage/le_cam.py").write_text(_MEASURE + measure)
    measures = library / "leakage/__init__.py"
    _insert(
        measures,
        "from jaxpriv.leakage.pointwise import *\n",
        "from jaxpriv.leakage.le_cam import *\n",
    )
    _insert(measures, "# isort: on\n", "from jaxpriv.leakage import le_cam\n")
    _insert(measures, "__all__ += pointwise.__all__\n", "__all__ += le_cam.__all__\n")
    _insert(
        place / "docs/reference/leakage.md",
        ".. autofunction:: jaxpriv.leakage.evaluate\n",
        ".. autoclass:: jaxpriv.leakage.LeCam\n\n",
    )

    solver = _classes("docs/how-to/own-solver.md", ["State", "ExponentiatedGradient"])
    (library / "solvers/exponentiated_gradient.py").write_text(_SOLVER + solver)
    choice = library / "solving/choice.py"
    _insert(choice, '    "hybrid-gradient": ', '    "exponentiated-gradient": ExponentiatedGradient(),\n')
    _insert(
        choice,
        "from jaxpriv.solvers.two_grid import",
        "from jaxpriv.solvers.exponentiated_gradient import ExponentiatedGradient\n",
    )

    (library / "cli/limit.py").write_text(_COMMAND)
    commands = library / "cli/_commands.py"
    _insert(commands, '"watchdog", "leakage", "plot"),', '"limit", ')
    _insert(commands, '    "sweep": (', '    "limit": (_PROBLEM, "jaxpriv limit problem.npz --json -"),\n')
    _insert(
        library / "cli/_help.py",
        '        "frontier:problem": (',
        '        "limit:problem": ("PROBLEM.npz|TABLE.csv", "`joint` (S,X), or a table of records."),\n',
    )
    return place


def _run(place, *arguments):
    """What a module of Python prints in the copy, whose packages come first."""
    given = {**os.environ, "PYTHONPATH": str(place), "JAXPRIV_CACHE": "off"}
    ended = subprocess.run([sys.executable, "-m", *arguments], cwd=place, env=given, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_what_keeps_the_house_passes(copy):
    _run(copy, "ruff", "check", "--no-cache", "--ignore", "I001,ANN,RUF100", "jaxpriv")
    _run(
        copy, "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "tests/test_house.py", "tests/test_docs_reference.py"
    )


def test_they_work_on_the_command_line(copy):
    code = "import numpy as np; np.savez('p.npz', joint=[[.3, .1, .05], [.05, .2, .3]], distortion=1 - np.eye(3))"
    subprocess.run([sys.executable, "-c", code], cwd=copy, check=True)
    most = json.loads(_run(copy, "jaxpriv", "limit", "p.npz", "--json", "-"))["most"]
    line = ("p.npz", "--multiplier", "0.4", "--tol", "1e-5", "--json", "-")
    solved = json.loads(_run(copy, "jaxpriv", "solve", *line, "--solver", "exponentiated-gradient"))
    assert solved["status"] == "optimal"
    assert 0 < solved["lower_bound"] <= solved["value"] <= most
    named = json.loads(_run(copy, "jaxpriv", "solve", "p.npz", "--budget", "0.2", "--leakage", "le-cam", "--json", "-"))
    assert named["status"] == "optimal"
    assert 0 < named["lower_bound"] <= named["value"] <= 1
