"""All commands, by the panels of the help text, and an example of each."""

from jaxpriv.verifier.__main__ import EXAMPLE as VERIFIED

# In the order in which they are used. The command NAME is the function NAME of the module NAME of this package.
COMMANDS: dict[str, tuple[str, ...]] = {
    "Tables of records": (
        "advise",
        "fit",
        "audit",
        "release",
        "verify",
        "report",
        "compare",
        "counts",
        "excess",
        "joint",
    ),
    "Problems": ("solve", "frontier", "funnel", "envelope", "utility", "watchdog", "leakage", "plot"),
    "Studies": ("sweep", "reproduce"),
    "This installation": ("demo", "info", "cache"),
}

# The examples at the end of every help text. They are run, one after another in one folder, by the tests.
_PROBLEM = (
    "python -c \"import numpy as np; np.savez('problem.npz', joint=[[.3, .15, .05], [.05, .15, .3]], "
    'distortion=1 - np.eye(3))"'
)
_PEOPLE = (
    "python -c \"print('income,age,town'); [print(f'{int(i * 7 % 10 < 3 + 2 * (i % 3))},{i % 3},{i % 2}') "
    'for i in range(600)]" > people.csv'
)
_STUDY = (
    "python -c \"print('name = \\'small\\'\\n[[grid]]\\njoint = [{ family = \\'correlated\\', private = 3, useful = 3, "
    "seed = 0, correlation = [0.3, 0.6] }]\\ndistortion = \\'hamming\\'\\nbudget_share = [0.2, 0.5]')\" > study.toml"
)
_MAPPING = "jaxpriv solve problem.npz --budget 0.2 --out mapping.npz"
_COLUMNS = "--private income --useful age --useful town"
_FIT = f"jaxpriv fit people.csv {_COLUMNS} --budget 0.2 --out design.zip"
_RELEASE = "jaxpriv release people.csv --design design.zip --out released.csv --receipt receipt.json"

# Lines of a shell: what is typed after a fresh start, in an empty folder.
EXAMPLES: dict[str, tuple[str, ...]] = {
    "solve": (_PROBLEM, "jaxpriv solve problem.npz --budget 0.2 --out mapping.npz --json -"),
    "frontier": (_PROBLEM, "jaxpriv frontier problem.npz --count 12 --out curve.csv --picture curve.png"),
    "plot": (_PROBLEM, _MAPPING, "jaxpriv plot mapping.npz --out mapping.png"),
    "funnel": (_PROBLEM, "jaxpriv funnel problem.npz --disclosure 0.7 0.9"),
    "envelope": (_PROBLEM, "jaxpriv envelope problem.npz --delta 0.2 --leakage-budget 0.3 --tol 0.001"),
    "utility": (
        "python -c \"import numpy as np; np.savez('sample.npz', counts=[400, 300, 200, 100])\"",
        "jaxpriv utility sample.npz --limit max-lift=0.5 --confidence 0.95 --out mapping.npz",
    ),
    "leakage": (_PROBLEM, _MAPPING, "jaxpriv leakage mapping.npz --joint problem.npz"),
    "sweep": (_STUDY, "jaxpriv sweep study.toml --out results"),
    "watchdog": (_PEOPLE, f"jaxpriv watchdog people.csv {_COLUMNS} --target-leakage 0.5"),
    "joint": (_PEOPLE, f"jaxpriv joint people.csv {_COLUMNS} --out counted.npz"),
    "advise": (_PEOPLE, f"jaxpriv advise people.csv {_COLUMNS}"),
    "fit": (_PEOPLE, _FIT),
    "release": (_PEOPLE, _FIT, _RELEASE),
    "verify": (_PEOPLE, _FIT, _RELEASE, *VERIFIED),
    "report": (_PEOPLE, _FIT, "jaxpriv report design.zip --out report.html"),
    "compare": (
        _PEOPLE,
        f"{_FIT} --private-out audit.zip",
        _RELEASE,
        f"jaxpriv fit people.csv {_COLUMNS} --budget 0.3 --out other.zip --private-out other-audit.zip",
        "jaxpriv compare people.csv released.csv --design design.zip",
        "jaxpriv compare design.zip other.zip --private audit.zip --private other-audit.zip",
    ),
    "counts": (_PEOPLE, _FIT, _RELEASE, "jaxpriv counts released.csv --design design.zip"),
    "audit": (
        _PROBLEM,
        _MAPPING,
        "python -c \"import numpy as np; np.savez('counts.npz', counts=[[60, 30, 10], [10, 30, 60]])\"",
        "jaxpriv audit mapping.npz --counts counts.npz",
    ),
    "excess": (
        "python -c \"print('income,age,reported'); "
        "[print(f'{i % 2},{i % 3 + i % 2},{(i % 3 + i % 2 if i % 5 else i % 4)}') for i in range(600)]\" "
        "> reported.csv",
        "jaxpriv excess reported.csv --private income --useful age --released reported",
    ),
    "reproduce": ("jaxpriv reproduce --list", "jaxpriv reproduce gaussian_funnel --out gaussian"),
    "info": ("jaxpriv info",),
    "cache": ("jaxpriv cache",),
    "demo": ("jaxpriv demo --out demo --points 6",),
}


def text_of(command: str) -> str:
    """The last lines of a help text: the command at work, then the lines that make what it reads."""
    lines = EXAMPLES.get(command, ())
    calls = [line for line in lines if line.startswith(f"jaxpriv {command}")]
    parts = {
        "Example": calls,
        "What it reads, for a first try in an empty folder": [x for x in lines if x not in calls],
    }
    return "".join(f"\n{title}:\n\n" + "".join(f"  {line}\n" for line in part) for title, part in parts.items() if part)
