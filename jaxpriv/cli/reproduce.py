"""`jaxpriv reproduce`: an experiment of the gallery again."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

import jaxpriv as jp
from jaxpriv._runtime.near import near
from jaxpriv.cli import _output
from jaxpriv.errors import InputError, ResourceError

# What an experiment leaves behind that is for the reader.
_TABLES = (".csv", ".json")
_STDERR = 2  # standard output is for results


def reproduce(
    name: str | None = None,
    arguments: list[str] | None = None,
    out: Path | None = None,
    draw: bool = False,
    listed: bool = (False),
) -> None:
    """Compute a figure of the gallery again: its tables as .csv, with value, bound and gap, and the figure itself.

    The minutes of --list are those of two cores, compiling included. An experiment names what it needs before it
    starts: raw files are downloaded once, and where they cannot be had the embedded table takes their place.
    """
    home = _home()
    experiments = {
        path.parent.name: tomllib.loads(path.read_text("utf-8")) for path in sorted(home.glob("*/about.toml"))
    }
    if listed:
        _output.emit("".join(_entry(experiment, about) + "\n" for experiment, about in experiments.items()))
        return
    if name is None:
        raise InputError("name an experiment, or give --list to see them")
    if name not in experiments:
        raise InputError(f"{name!r} is no experiment; known: {', '.join(experiments)}{near(name, experiments)}")
    if draw and arguments:
        raise InputError("--draw computes nothing: leave out what comes after --")
    jp.plotting.require_matplotlib()
    folder = Path("out") / name if out is None else out
    _output.make_folder(folder)
    # The experiment writes beside itself: it works on a copy, and what is stored with it stays as it is.
    with tempfile.TemporaryDirectory(dir=folder, prefix=".run-") as place:
        copy = Path(place) / "experiments" / name
        shutil.copytree(home / name, copy, ignore=shutil.ignore_patterns("__pycache__"))
        (Path(place) / "docs" / "figures").mkdir(parents=True)
        if not draw:
            given = arguments or []
            _run(copy / "run.py", given + _prepared(name, experiments[name], given))
        _run(copy / "plot.py", [])
        made = sorted(path for path in (copy / "data").iterdir() if path.suffix in _TABLES)
        made += [Path(place) / "docs" / "figures" / figure for figure in experiments[name]["figures"]]
        for path in made:
            os.replace(path, folder / path.name)
    _output.emit("".join(f"wrote {folder / path.name}\n" for path in made))


def _prepared(name: str, about: Mapping[str, Any], arguments: Sequence[str]) -> list[str]:
    """Name what the experiment needs, and have it: further options of its program."""
    typer.echo(_entry(name, about), err=True)
    stored = "--draw draws the stored numbers"
    missing = [package for package in about.get("packages", ()) if importlib.util.find_spec(package) is None]
    if missing:
        raise ResourceError(f"{name} needs {' and '.join(missing)}: pip install 'jaxpriv[{about['extra']}]'; {stored}")
    if "fetch" not in about or any(argument.startswith(about["local"]) for argument in arguments):
        return []
    try:
        getattr(jp.datasets, about["fetch"])()
    except ResourceError as error:
        if "embedded" not in about:
            raise ResourceError(f"{error}; here: -- {about['local']} FOLDER; {stored}") from error
        typer.echo(f"{error}; the embedded table is taken: {about['embedded']}", err=True)
        return ["--embedded"]
    return []


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
    path = os.pathsep.join(path for path in (package, os.environ.get("PYTHONPATH", "")) if path)
    done = subprocess.run(
        [sys.executable, str(program), *arguments], env={**os.environ, "PYTHONPATH": path}, stdout=_STDERR, check=False
    )
    if done.returncode != 0:
        raise ResourceError(f"{program.name} of the experiment ended with code {done.returncode}; see above")


def _entry(name: str, about: Mapping[str, Any]) -> str:
    """One paragraph about an experiment, in lines that fit a terminal of 80 columns."""
    minutes = f"{about['minutes']:g} minute" + ("" if about["minutes"] == 1 else "s")
    needs = [f"Needs {about['needs']}."] if "needs" in about else []
    lines = (f"{about['title']}.", f"Source: {about['source']}.", *needs)
    filled = (textwrap.fill(line, 79, initial_indent="  ", subsequent_indent="    ") for line in lines)
    return "\n".join([f"{name} ({minutes})", *filled])
