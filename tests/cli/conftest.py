"""One tiny problem for all commands, so that each program is compiled once, and the command in this process."""

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

from jaxpriv.cli import app

JOINT = np.array([[0.20, 0.05, 0.03, 0.02], [0.05, 0.20, 0.05, 0.05], [0.02, 0.03, 0.10, 0.20]])
DISTORTION = 1 - np.eye(4)


def strict_json(text: str) -> Any:
    """`text` parsed as strict JSON: NaN and Infinity are errors."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture(autouse=True)
def settings_of_a_new_process():
    """The command is a process of its own, where JAX has its default settings, not those of the suite."""
    defaults = {
        "jax_enable_x64": False,
        "jax_numpy_dtype_promotion": "standard",
        "jax_numpy_rank_promotion": "allow",
    }
    before = {name: jax.config.values[name] for name in defaults}
    for name, value in defaults.items():
        jax.config.update(name, value)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    """Names of files in a line are those of this folder."""
    monkeypatch.chdir(tmp_path)


def run(*line: object, charset: str = "utf-8", **environment: str) -> Result:
    """The finished command: `exit_code`, `stdout`, `stderr`.

    A text is split at its blanks; a path, a number and each entry of a list is a word as it is.
    """
    words = []
    for part in line:
        if isinstance(part, str):
            words += part.split()
        else:
            words += map(str, part if isinstance(part, list) else [part])
    return CliRunner(charset=charset).invoke(app, words, prog_name="jaxpriv", env=environment)


def printed(*line: object, code: int = 0) -> str:
    """What a command prints that ends with this code."""
    result = run(*line)
    assert result.exit_code == code, result.output
    return result.stdout


def answered(*line: object, code: int = 0) -> Any:
    """The JSON of a command that ends with this code."""
    return strict_json(printed(*line, "--json -", code=code))


def examples(name: str) -> tuple[list[str], list[str]]:
    """The lines at the end of a command's help: those that make what it reads, and those of the command itself."""
    example = printed(name, "--help").rpartition("\nExample:\n\n")[2]
    first, _, rest = example.partition("\nWhat it reads, for a first try in an empty folder:\n\n")
    own, making = ([line[2:] for line in part.splitlines()] for part in (first, rest))
    return making, own


@pytest.fixture
def save(tmp_path):
    """`save(name, **arrays)` is the path of a new .npz file."""

    def write(name: str = "problem.npz", **arrays: Any) -> Path:
        np.savez(tmp_path / name, **arrays)
        return tmp_path / name

    return write


@pytest.fixture
def problem(save) -> Path:
    return save(joint=JOINT, distortion=DISTORTION)


def refused(result: Any, code: int, *words: str) -> None:
    """The command ended with `code`, nothing on stdout, and one line on stderr that holds the words."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("jaxpriv: error: ")
    assert result.stderr.count("\n") == 1
    for word in words:
        assert word in result.stderr


def mistaken(line: object, *words: str) -> None:
    """The command `line` is refused as bad input, in these words."""
    refused(run(line), 2, *words)
