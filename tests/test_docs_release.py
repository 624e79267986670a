"""docs/how-to/release.md, run: its Python, its commands, and what the page says that they print."""

import os
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jaxpriv.cli import app

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "release.md"
_NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?")


def alike(expected: str, found: str) -> bool:
    """Words are the same and numbers nearly; `...` stands for the rest of the line.

    A gap and what is far below the tolerance of the solver may be any number up to it.
    """
    if expected.endswith("..."):
        return found.startswith(expected[:-3])
    if _NUMBER.sub("#", expected) != _NUMBER.sub("#", found):
        return False
    pairs = zip(map(float, _NUMBER.findall(expected)), map(float, _NUMBER.findall(found)), strict=True)
    return all(abs(one - other) <= 1e-6 + (0.0 if abs(one) < 1e-5 else 0.02 * abs(one)) for one, other in pairs)


def test_the_page_prints_what_it_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    names: dict[str, object] = {}
    commands = 0
    for language, block in re.findall(r"```(python|console)\n(.*?)```", text, re.S):
        if language == "python":
            exec(compile(block, PAGE.name, "exec"), names)
            continue
        for part in block.split("$ jaxpriv ")[1:]:
            line, _, output = part.partition("\n")
            result = CliRunner().invoke(app, shlex.split(line))
            assert result.exit_code == 0, result.output
            expected, found = output.splitlines(), result.stdout.splitlines()
            assert len(expected) == len(found), result.stdout
            for one, other in zip(expected, found, strict=True):
                assert alike(one, other), (one, other)
            commands += 1
    assert commands == 6
    printed = capsys.readouterr().out
    assert "optimal 0.036" in printed
    assert (tmp_path / "released.csv").read_bytes() == (tmp_path / "again.csv").read_bytes()
    assert os.stat("audit.zip").st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("expected", "found", "same"),
    [
        ("gap 1.9e-07 nats", "gap 3e-7 nats", True),
        ("leakage 0.0362 nats", "leakage 0.0363 nats", True),
        ("leakage 0.0362 nats", "leakage 0.05 nats", False),
        ("leakage 0.0362 nats", "leakage 0.0362 bits", False),
        ("design ...", "design 0a", True),
        ("design ...", "file 0a", False),
    ],
)
def test_the_comparison_can_fail(expected, found, same):
    assert alike(expected, found) is same
