"""Every command ends its help with an example, and every line of every example works, in an empty folder."""

import io
import os
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from jaxpriv.cli import app
from jaxpriv.cli._app import EXAMPLES
from jaxpriv.verifier.__main__ import EXAMPLE as VERIFIED
from jaxpriv.verifier.__main__ import emit

COMMANDS = sorted(one.name or one.callback.__name__ for one in app.registered_commands)
# Its help is that of a program that needs nothing but Python: it does not show how its files are made.
OWN_EXAMPLE = {"verify": VERIFIED}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_ends_with_the_example(run, capfd, name):
    result = run(name, "--help")
    printed = (result.stdout + capfd.readouterr().out).rstrip()
    lines = OWN_EXAMPLE.get(name, EXAMPLES[name])
    assert printed.endswith("Example:\n\n" + "\n".join(f"  {line}" for line in lines))
    assert EXAMPLES[name][-len(lines) :] == lines


# Encodings of standard output that have no lines of tables, and few letters: those of other locales and systems.
ENCODINGS = ["ascii", pytest.param("cp1252", marks=pytest.mark.slow)]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "demo"])  # `test_demo` runs that one
def test_examples_work_whatever_the_encoding_of_stdout(name, encoding, tmp_path, monkeypatch):
    def run(*words):
        return CliRunner(charset=encoding).invoke(app, words)

    monkeypatch.chdir(tmp_path)
    for line in EXAMPLES[name]:
        command, _, target = line.partition(" > ")
        program, *words = shlex.split(command)
        if program == "python":
            made = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)
            if target:
                (tmp_path / target).write_text(made.stdout)
            continue
        assert program == "jaxpriv"
        result = run(*words)
        assert result.exit_code == 0, f"{line}\n{result.output}"
        for word in re.findall(r"--(?:out|picture|receipt) (\S+)", line):
            assert (tmp_path / word).exists()


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_what_an_encoding_lacks_is_escaped(encoding, monkeypatch):
    stream = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(stream, encoding=encoding, newline=""))
    emit("caf\u00e9 \u2500\u2500 \u65e5\n")
    expected = {
        "ascii": "caf\\xe9 -- \\u65e5\n",
        "cp1252": "caf\u00e9 -- \\u65e5\n",
        "utf-8": "caf\u00e9 \u2500\u2500 \u65e5\n",
    }
    assert stream.getvalue().decode(encoding) == expected[encoding]


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
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


def test_some_example_makes_a_problem():
    assert any("np.savez('problem.npz'" in line for lines in EXAMPLES.values() for line in lines)


def test_shells_complete(monkeypatch):
    environment = {"_JAXPRIV_COMPLETE": "complete_bash", "COMP_WORDS": "jaxpriv fr", "COMP_CWORD": "1"}
    code = "import sys; sys.argv = ['jaxpriv']; from jaxpriv.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )
    assert done.stdout.split() == ["frontier"]
