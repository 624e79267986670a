"""Every command ends its help with an example, and every line of every example works, in an empty folder."""

import re
import shlex
import subprocess
import sys

import pytest

from jaxpriv.cli import app
from jaxpriv.cli._app import EXAMPLES
from jaxpriv.verifier.__main__ import EXAMPLE as VERIFIED

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


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "demo"])  # `test_demo` runs that one
def test_examples_work(run, name, tmp_path, monkeypatch):
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


def test_some_example_makes_a_problem():
    assert any("np.savez('problem.npz'" in line for lines in EXAMPLES.values() for line in lines)


def test_shells_complete(monkeypatch):
    environment = {"_JAXPRIV_COMPLETE": "complete_bash", "COMP_WORDS": "jaxpriv fr", "COMP_CWORD": "1"}
    code = "import sys; sys.argv = ['jaxpriv']; from jaxpriv.cli import main; main()"
    import os

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )
    assert done.stdout.split() == ["frontier"]
