"""Every command ends its help with an example, and every line of every example works, in an empty folder."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest
import typer

from jaxpriv.cli import app
from jaxpriv.cli._commands import COMMANDS as PANELS_OF_COMMANDS
from jaxpriv.cli._help import PANELS
from jaxpriv.verifier.__main__ import emit
from tests.cases import run_python, thorough
from tests.cli.conftest import examples, printed, run

COMMANDS = sorted(one.name or one.callback.__name__ for one in app.registered_commands)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_ends_with_the_example(name):
    """First the command itself, then the lines that make what it reads; each line once."""
    making, own = examples(name)
    assert own
    assert all(line.startswith(f"jaxpriv {name}") for line in own)
    assert len({*making, *own}) == len([*making, *own])


@pytest.mark.parametrize("columns", [80, 120])
def test_every_option_stands_in_a_panel_and_no_line_is_too_long(columns, monkeypatch):
    """Typer's own panel, Options, is left to the options of `jaxpriv` itself; flags have no type."""
    monkeypatch.setenv("COLUMNS", str(columns))
    group = typer.main.get_command(app)
    for name in COMMANDS:
        text = printed(name, "--help")
        panels = [line.split()[1] for line in text.splitlines() if line.startswith("\u256d\u2500")]
        assert panels[0] == "Arguments" or not any(
            one.param_type_name == "argument" for one in group.commands[name].params
        )
        own = [panel for panel in panels if panel != "Arguments"]
        assert own == [panel for panel in PANELS if panel in own and panel != "Options"]
        assert "<bool>" not in text
        assert "\u2026" not in text  # a word that is longer than its column
        assert max(map(len, text.partition("\nExample:")[0].splitlines())) <= columns


def test_commands_are_listed_by_what_they_are_for():
    """In the order of use, each of them once."""
    text = printed("--help")
    places = [text.index(f"\u2500 {panel} ") for panel in PANELS_OF_COMMANDS]
    assert places == sorted(places)
    listed = [name for names in PANELS_OF_COMMANDS.values() for name in names]
    assert sorted(listed) == COMMANDS
    lines = [
        line.split()[1] for line in text[places[0] :].splitlines() if line.startswith("\u2502 ") and line[2] != " "
    ]
    assert lines == listed


# Encodings of standard output that have no lines of tables, and few letters: those of other locales and systems.
ENCODINGS = ["ascii", *thorough("cp1252")]


# All commands print through the same console: the other encoding is tried with one of them.
@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        ("solve", "cp1252"),
        *((name, "ascii") for name in COMMANDS if name != "demo"),  # `test_demo` runs that one
        *thorough(*((name, "cp1252") for name in COMMANDS if name not in ("demo", "solve"))),
    ],
)
def test_examples_work_whatever_the_encoding_of_stdout(name, encoding, tmp_path):
    making, own = examples(name)
    for line in (*making, *own):
        command, _, target = line.partition(" > ")
        program, *words = shlex.split(command)
        if program == "python":
            made = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)
            if target:
                (tmp_path / target).write_text(made.stdout)
            continue
        assert program == "jaxpriv"
        result = run(words, charset=encoding)
        assert result.exit_code == 0, f"{line}\n{result.output}"
        for word in re.findall(r"--(?:out|picture|receipt) (\S+)", line):
            assert (tmp_path / word).exists()


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_what_an_encoding_lacks_is_escaped(encoding):
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="")
    with contextlib.redirect_stdout(stream):
        emit("caf\u00e9 \u2500\u2500 \u65e5\n")
    expected = {
        "ascii": "caf\\xe9 -- \\u65e5\n",
        "cp1252": "caf\u00e9 -- \\u65e5\n",
        "utf-8": "caf\u00e9 \u2500\u2500 \u65e5\n",
    }
    assert stream.buffer.getvalue().decode(encoding) == expected[encoding]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_file_is_written_whatever_the_encoding(encoding, tmp_path, save):
    problem = save(joint=np.array([[0.3, 0.2], [0.1, 0.4]]), distortion=1 - np.eye(2))
    line = [
        sys.executable,
        "-m",
        "jaxpriv",
        "leakage",
        str(save("m.npz", mechanism=np.eye(2))),
        "--joint",
        str(problem),
    ]
    line += ["--json", str(tmp_path / "found.json")]
    done = subprocess.run(line, capture_output=True, env={**os.environ, "PYTHONIOENCODING": encoding}, check=False)
    assert done.returncode == 0, done.stderr
    assert "----" in done.stdout.decode(encoding)
    assert (tmp_path / "found.json").exists()


def test_shells_complete(monkeypatch):
    environment = {"_JAXPRIV_COMPLETE": "complete_bash", "COMP_WORDS": "jaxpriv fr", "COMP_CWORD": "1"}
    code = "import sys; sys.argv = ['jaxpriv']; from jaxpriv.cli import main; main()"
    assert run_python("-c", code, **environment).split() == ["frontier"]
