"""`jaxpriv reproduce`: one experiment of the gallery, computed and drawn again."""

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from jaxpriv.cli import _output
from jaxpriv.errors import InputError, ResourceError

# What an experiment leaves behind that is for the reader.
_TABLES = (".csv", ".json")
_STDERR = 2  # standard output is for results


def reproduce(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="An experiment, as --list names it.")] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- OPTION ...]", help="Options after -- are passed to the program of the experiment."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of figures and tables.", show_default="out/NAME")
    ] = None,
    draw: Annotated[
        bool, typer.Option("--draw", help="Draw the numbers that are stored with the experiment; compute nothing.")
    ] = False,
    listed: Annotated[bool, typer.Option("--list", help="Print the experiments, their minutes and their sources.")] = (
        False
    ),
) -> None:
    """Compute a figure of the gallery again: its tables as .csv, with value, bound and gap, and the figure itself.

    The minutes of --list are those of two cores, compiling included. An experiment that needs external data
    downloads them once; --list names these experiments.
    """
    home = _home()
    known = {path.parent.name: tomllib.loads(path.read_text("utf-8")) for path in sorted(home.glob("*/about.toml"))}
    if listed:
        _output.emit(_listing(known))
        return
    if name is None:
        raise InputError("name an experiment, or give --list to see them")
    if name not in known:
        raise InputError(f"{name!r} is no experiment; known: {', '.join(known)}")
    if draw and arguments:
        raise InputError("--draw computes nothing: leave out what comes after --")
    from jaxpriv.plotting import require_matplotlib

    require_matplotlib()
    folder = Path("out") / name if out is None else out
    _output.make_folder(folder)
    # The experiment writes beside itself: it works on a copy, and what is stored with it stays as it is.
    with tempfile.TemporaryDirectory(dir=folder, prefix=".run-") as place:
        copy = Path(place) / "experiments" / name
        shutil.copytree(home / name, copy, ignore=shutil.ignore_patterns("__pycache__"))
        (Path(place) / "docs" / "figures").mkdir(parents=True)
        if not draw:
            _run(copy / "run.py", arguments or [])
        _run(copy / "plot.py", [])
        made = sorted(path for path in (copy / "data").iterdir() if path.suffix in _TABLES)
        made += [Path(place) / "docs" / "figures" / figure for figure in known[name]["figures"]]
        for path in made:
            os.replace(path, folder / path.name)
    _output.emit("".join(f"wrote {folder / path.name}\n" for path in made))


def _home() -> Path:
    """Where the experiments are: in the installed package, or beside it in a checkout."""
    package = Path(__file__).parents[1]
    for home in (package / "experiments", package.parent / "experiments"):
        if any(home.glob("*/about.toml")):
            return home
    raise ResourceError("the experiments are not part of this installation; install a wheel or work in a checkout")


def _run(program: Path, arguments: list[str]) -> None:
    """A program of the experiment, with this package and this interpreter; what it prints goes to stderr."""
    package = str(Path(__file__).parents[2])
    path = os.pathsep.join(one for one in (package, os.environ.get("PYTHONPATH", "")) if one)
    done = subprocess.run(
        [sys.executable, str(program), *arguments], env={**os.environ, "PYTHONPATH": path}, stdout=_STDERR, check=False
    )
    if done.returncode != 0:
        raise ResourceError(f"{program.name} of the experiment ended with code {done.returncode}; see above")


def _listing(known: Mapping[str, Mapping[str, object]]) -> str:
    """One paragraph for each experiment, in lines that fit a terminal of 80 columns."""
    text = ""
    for name, about in known.items():
        minutes = f"{about['minutes']:g} minute" + ("" if about["minutes"] == 1 else "s")
        needs = [f"Needs {about['needs']}."] if "needs" in about else []
        text += f"{name} ({minutes})\n"
        for line in (f"{about['title']}.", f"Source: {about['source']}.", *needs):
            text += textwrap.fill(line, 79, initial_indent="  ", subsequent_indent="    ") + "\n"
    return text
