"""`jaxpriv advise`: the command that it prints fits the design that it shows."""

import shlex

import numpy as np
import pytest

from tests.cli.conftest import answered, run


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["income,age,town,wage"]
    for _ in range(800):
        age, town = int(rng.integers(18, 80)), rng.choice(["north", "south", ""], p=[0.5, 0.4, 0.1])
        rich = "high" if rng.random() < 0.15 + 0.5 * (age > 50) else "low"
        lines.append(f"{rich},{age},{town},{rng.normal():.3f}")
    path = tmp_path / "my people.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_printed_command_fits(table, tmp_path, monkeypatch):
    line = "--private income --useful age --useful town --useful wage --symbols 40"
    result = run("advise", table, line, "--picture a.png --units bits")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    command = shlex.split(result.output.splitlines()[-1])
    assert command[:3] == ["jaxpriv", "fit", str(table)]
    assert "--missing" in command
    monkeypatch.chdir(tmp_path)
    record = answered(command[1:])
    shown = answered("advise", table, line)
    assert shown["command"] == shlex.join(command)
    assert {one["column"] for one in shown["obstacles"]} == {"age", "town", "wage"}
    (design,) = [one for one in shown["designs"] if f"{one['budget']:.4g}" == command[command.index("--budget") + 1]]
    assert float(record["on_the_design"]["leakage"]["upper"]) == pytest.approx(design["leakage"], abs=1e-4)


def test_a_time_limit_is_an_exit_code(table):
    columns = "--private income --useful age --bins age=quantiles:4"
    result = run("advise", table, columns, "--time-limit 0")
    assert result.exit_code == 4
    assert "time limit" in result.output


def test_a_picture_of_no_kind_is_refused_before_the_work(table):
    result = run("advise", table, "--private income --useful age --picture a.txt")
    assert result.exit_code == 2
    assert "--picture" in result.output
