"""What a shell is offered for a value, from the variables by which it asks; `test_shells_complete` starts a process."""

import pytest

from tests.cli.conftest import run

# What is typed, and what is offered for its last word.
LINES = {
    "fit t.csv --private in": "income",
    "fit s.csv --read delimiter=; --useful ": "age town",
    "fit t.csv --missing a": "age=",
    "fit t.csv --bins age=q": "age=quantiles:4",
    "fit t.csv --distortion age=s": "age=squared",
    "solve p.npz --leakage maximal-l": "maximal-leakage",
    "solve p.npz --divergence chi": "chi-squared",
    "solve p.npz --solver interior": "interior-point",
    "funnel p.npz --method greedy-b": "greedy-bottleneck",
    "fit t.csv --unseen s": "suppress",
    "fit t.csv --read dec": "decimal=,",
    "verify --rec": "--receipt --records",
    "ver": "verify",
    "fit absent.csv --private in": "",
    "fit u.csv --private ": "",  # in another encoding
}


@pytest.mark.parametrize("typed", LINES)
def test_values(typed, tmp_path):
    words = typed.split(" ")
    (tmp_path / "t.csv").write_text("income,age\n1,2\n")
    (tmp_path / "s.csv").write_text("age;town\n1;2\n")
    (tmp_path / "u.csv").write_bytes("Größe,age\n1,2\n".encode("latin-1"))
    line = " ".join(f'"{word}"' if ";" in word else word for word in ["jaxpriv", *words])
    done = run(_JAXPRIV_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(words)))
    assert done.stdout.split() == LINES[typed].split()
    assert done.stderr == ""
