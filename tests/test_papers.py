"""docs/explanation/papers.md: each statement of the papers and newer guarantee has a function and a page about it."""

import importlib
import re

import pytest

from tests.pages import ROOT

PAGE = ROOT / "docs" / "explanation" / "papers.md"
ROWS = re.findall(r"^\| (?!item)(.+?) \| (.+) \| \[\]\((.+)\) \|$", PAGE.read_text(encoding="utf-8"), re.M)


def found(name):
    """What a dotted name stands for, from the longest part of it that is a module."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            value = getattr(value, part)
        return value
    raise AttributeError(name)


def shown(page):
    """The text of a page with that of the programs that it includes."""
    text = page.read_text(encoding="utf-8")
    included = re.findall(r"literalinclude} (\S+)", text)
    return text + "".join((page.parent / each).read_text(encoding="utf-8") for each in included)


def test_no_row_is_lost():
    assert len(ROWS) == 54 + 9  # of the papers, and since
    assert len({(item, page) for item, _, page in ROWS}) == len(ROWS)


def test_each_statement_has_its_functions_and_a_page_about_one_of_them():
    for item, functions, page in ROWS:
        names = re.findall(r"`(jaxpriv\.[\w.]+)`", functions)
        assert names, item
        assert all(callable(found(name)) for name in names), item
        text = shown(PAGE.parent / page)
        parts = [name.rpartition(".") for name in names]
        about = (re.search(rf"automodule:: {found(module).__name__}\n|\b{last}\b", text) for module, _, last in parts)
        assert any(about), item


def test_a_lost_function_is_found():
    with pytest.raises(AttributeError):
        found("jaxpriv.models.databases.no_such_function")
