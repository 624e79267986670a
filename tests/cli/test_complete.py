"""What a shell is offered for a value, from the variables by which it asks; `test_shells_complete` starts a process."""

import pytest
from typer.testing import CliRunner

from jaxpriv.cli import app

LINES = {
    "column": (["fit", "t.csv", "--private", "in"], ["income"]),
    "column in a stated dialect": (["fit", "s.csv", "--read", "delimiter=;", "--useful", ""], ["age", "town"]),
    "column of a label": (["fit", "t.csv", "--missing", "a"], ["age="]),
    "rule": (["fit", "t.csv", "--bins", "age=q"], ["age=quantiles:4"]),
    "price": (["fit", "t.csv", "--distortion", "age=s"], ["age=squared"]),
    "measure": (["solve", "p.npz", "--leakage", "maximal-l"], ["maximal-leakage"]),
    "divergence": (["solve", "p.npz", "--divergence", "chi"], ["chi-squared"]),
    "solver": (["solve", "p.npz", "--solver", "interior"], ["interior-point"]),
    "method": (["funnel", "p.npz", "--method", "greedy-b"], ["greedy-bottleneck"]),
    "choice": (["fit", "t.csv", "--unseen", "s"], ["suppress"]),
    "setting": (["fit", "t.csv", "--read", "dec"], ["decimal=,"]),
    "option of the verifier": (["verify", "--rec"], ["--receipt", "--records"]),
    "command": (["ver"], ["verify"]),
    "column of an absent table": (["fit", "absent.csv", "--private", "in"], []),
    "column of a table in another encoding": (["fit", "u.csv", "--private", ""], []),
}


@pytest.mark.parametrize("case", LINES)
def test_values(case, tmp_path, monkeypatch):
    words, offered = LINES[case]
    (tmp_path / "t.csv").write_text("income,age\n1,2\n")
    (tmp_path / "s.csv").write_text("age;town\n1;2\n")
    (tmp_path / "u.csv").write_bytes("Größe,age\n1,2\n".encode("latin-1"))
    line = " ".join(f'"{word}"' if ";" in word else word for word in ["jaxpriv", *words])
    shell = {"_JAXPRIV_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words))}
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, [], prog_name="jaxpriv", env=shell)
    assert done.stdout.split() == offered
    assert done.stderr == ""
