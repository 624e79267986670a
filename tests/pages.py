"""The code of a page of the documentation, run, and what it prints compared with what the page shows.

A block of a page is run by its language:

* `python`, and `{code-cell}` of a notebook: all of a page in one namespace, one after another;
* `text` directly after a `python` block: what that block prints; a `python` block that prints is followed by one;
* `console`: every line `$ jaxpriv ...`, run in this process, and below each line what it prints;
* `{code-block} LANGUAGE` with `:caption: NAME`: the content of a file NAME, which later blocks read.

Other languages (`sh`, `bibtex`, ...) are not run; `sh` is for what installs or needs a cluster.
"""

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jaxpriv.leakage import registry
from tests.cli.conftest import printed

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
)
LANGUAGES = {"python", "text", "console", "sh", "bibtex", "json", "makefile", "{code-cell}", "{code-block}"}
_RUN = {"python", "console", "{code-cell}"}
_NEEDED = {("optax", "docs/explanation/estimation.md")}  # by a function that the page calls
_FENCE = re.compile(r"^(?P<fence>`{3,})(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=fence)[ ]*$", re.S | re.M)
_OPTION = re.compile(r"^:(?P<name>[\w-]+):[ ]*(?P<value>.*)\n", re.M)
_NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?")


@dataclass(frozen=True)
class Block:
    """A fenced block: language, options of a directive, text, and whether it follows the block before directly."""

    language: str
    options: dict[str, str]
    text: str
    adjacent: bool
    line: int


def blocks_of(text: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found, last = [], -1
    for match in _FENCE.finditer(text):
        body, options = match["body"], {}
        if match["info"].startswith("{"):
            while option := _OPTION.match(body):
                options[option["name"]] = option["value"]
                body = body[option.end() :]
        adjacent = last >= 0 and not text[last : match.start()].strip()
        language = match["info"].strip().split(" ")[0]
        found.append(Block(language, options, body, adjacent, text.count("\n", 0, match.start()) + 2))
        last = match.end()
    return found


def alike(expected: str, found: str) -> bool:
    """Words are the same and numbers nearly; `...` stands for the rest of the line.

    A gap and what is far below the tolerance of the solver may be any number up to it.
    """
    if expected.endswith("..."):
        return found.startswith(expected[:-3].rstrip())
    if _NUMBER.sub("#", expected).split() != _NUMBER.sub("#", found).split():
        return False
    pairs = zip(map(float, _NUMBER.findall(expected)), map(float, _NUMBER.findall(found)), strict=True)
    return all(abs(one - other) <= 1e-6 + (0.0 if abs(one) < 1e-5 else 0.02 * abs(one)) for one, other in pairs)


def assert_alike(expected: str, found: str, where: str) -> None:
    """Line by line; a line `...` stands for any number of lines."""
    wanted, got = expected.rstrip().splitlines(), found.rstrip().splitlines()
    at, skipping = 0, False
    for one in map(str.rstrip, wanted):
        if one.strip() == "...":
            skipping = True
            continue
        start = at
        while skipping and at < len(got) and not alike(one, got[at].rstrip()):
            at += 1
        assert at < len(got), f"{where}: the page says {one!r}, and this is printed:\n" + "\n".join(got[start:])
        assert alike(one, got[at].rstrip()), f"{where}: the page says {one!r}, and this is printed: {got[at]!r}"
        at, skipping = at + 1, False
    assert skipping or at == len(got), f"{where} prints more than the page says:\n" + "\n".join(got[at:])


def code_of(page: str) -> dict[str, Any]:
    """The names that the Python blocks of docs/`page` define, run one after another in the current folder."""
    return run(f"docs/{page}")


def run(page: str) -> dict[str, Any]:
    """Run a page in the current folder, which gets its files, and compare what it prints; the names that it defines."""
    names: dict[str, Any] = {"__name__": page}
    printed: str | None = None
    for block in blocks_of(text_of(page)):
        where = f"{page}:{block.line}"
        if printed and block.language == "text" and block.adjacent:
            assert_alike(block.text, printed, where)
            printed = None
            continue
        assert not printed, f"{where}: the block before prints, and the page does not show what:\n{printed}"
        printed = None
        if block.language in ("python", "{code-cell}"):
            output = io.StringIO()
            # The lines of the page, for messages and for those who look up the source of a function.
            source = "\n" * (block.line - 1) + block.text
            with contextlib.redirect_stdout(output):
                exec(compile(source, str(ROOT / page), "exec"), names)
            printed = output.getvalue() if block.language == "python" else None
        elif block.language == "console":
            _run_commands(block.text, where)
        elif block.language == "{code-block}" and "caption" in block.options:
            Path(block.options["caption"]).write_text(block.text, encoding="utf-8")
    assert not printed, f"{page}: the last block prints, and the page does not show what:\n{printed}"
    return names


def _run_commands(text: str, where: str) -> None:
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        line, _, output = part.replace("\\\n", " ").partition("\n")
        program, *arguments = shlex.split(line, comments=True)
        assert program == "jaxpriv", f"{where}: {line!r} is no command of jaxpriv"
        assert_alike(output, printed(arguments), f"{where}: {line}")


def text_of(page: str) -> str:
    """What the file of a page holds."""
    return (ROOT / page).read_text(encoding="utf-8")


RUNNABLE = [page for page in PAGES if any(block.language in _RUN for block in blocks_of(text_of(page)))]


@contextlib.contextmanager
def names_of_measures() -> Iterator[None]:
    """The names of measures that are entered inside are taken away again."""
    before = dict(registry._ENTRIES)
    try:
        yield
    finally:
        registry._ENTRIES.clear()
        registry._ENTRIES.update(before)


def check(page: str, folder: Path) -> None:
    """Run a page in a folder, if there are the extras that it needs; the names of its measures are taken away again."""
    for package in ("cvxpy", "optax", "polars"):
        if re.search(rf"^(import|from) {package}", text_of(page), re.M) or (package, page) in _NEEDED:
            pytest.importorskip(package)
    with contextlib.chdir(folder), names_of_measures():
        run(page)
