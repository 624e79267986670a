"""Write one file of every kind, as a user of this version would: `python -m tests.frozen.write FOLDER`.

A folder is named after the version that wrote it, and stays as it was written; a release adds a folder of its own.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

COLUMNS = ("--private", "income", "--useful", "age", "--useful", "town")
STUDY = """name = 'small'
[[grid]]
joint = [{ family = 'correlated', private = 3, useful = 3, seed = 0, correlation = [0.3, 0.6] }]
distortion = 'hamming'
budget_share = [0.2, 0.5]
"""
FIT = ("fit", "people.csv", *COLUMNS)
# Designs by their targets.
DESIGNS = {
    "budget": ("--budget", "0.2"),
    "leakage-budget": ("--leakage-budget", "0.01", "--leakage", "maximal-leakage"),
    "disclosure": ("--disclosure", "0.4"),
    "watchdog": ("--target-leakage", "0.5"),
}
OPTIONS = ("--design", "budget.zip", "--out", "released.csv")
COMMANDS = (
    ("joint", "people.csv", *COLUMNS, "--out", "problem.npz", "--codebook-out", "book.json"),
    ("solve", "problem.npz", "--budget", "0.2", "--out", "mapping.npz", "--json", "solution.json"),
    ("frontier", "problem.npz", "--count", "4", "--out", "curve.csv", "--json", "curve.json"),
    *(
        (*FIT, *target, "--out", f"{name}.zip", "--private-out", f"{name}-audit.zip", "--seed", "1")
        for name, target in DESIGNS.items()
    ),
    ("release", "people.csv", *OPTIONS, "--receipt", "receipt.json", "--ledger", "ledger"),
    ("audit", "mapping.npz", "--counts", "problem.npz", "--json", "audit.json"),
    ("sweep", "study.toml", "--out", "study"),
)
# A solve that a limit on its time ends, so that its checkpoint stays.
STATE = """
import numpy as np, jaxpriv as jp
steps = np.arange(12.0)
joint = np.exp(-((steps[:, None] - steps)/ 3.0) ** 2)
problem = jp.DistortionProblem(joint / joint.sum(), jp.distortion.absolute(steps, steps), budget=1.0)
print(jp.solve(problem, solver=jp.AcceleratedMirrorDescent(), tol=1e-9, max_steps=8, checkpoint="state.npz").status)
"""


def people(records: int = 240) -> str:
    """A table whose private column depends on one useful column."""
    rows = [f"{int(i * 7 % 10 < 3 + 2 * (i % 3))},{i % 3},{i % 2}" for i in range(records)]
    return "\n".join(["income,age,town", *rows, ""])


def main(folder: Path) -> None:
    """Write all of them."""
    folder.mkdir(parents=True)
    (folder / "people.csv").write_text(people())
    (folder / "study.toml").write_text(STUDY)
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "COLUMNS": "120"}
    for line in (*((sys.executable, "-m", "jaxpriv", *command) for command in COMMANDS), (sys.executable, "-c", STATE)):
        subprocess.run(line, cwd=folder, env=environment, check=True)
    with np.load(folder / "problem.npz") as problem:
        assert problem["counts"].sum() == 240


if __name__ == "__main__":
    main(Path(sys.argv[1]))
