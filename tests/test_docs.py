"""Every page of the documentation: its code runs, prints what the page shows, and its links lead somewhere."""

import doctest
import importlib
import re

import pytest

from tests.cases import raised
from tests.pages import LANGUAGES, PAGES, ROOT, RUNNABLE, alike, blocks_of, check, run, text_of


@pytest.mark.usefixtures("same_draws")
@pytest.mark.parametrize("page", [page for page in RUNNABLE if "/how-to/" not in page])  # test_docs_how_to.py
def test_the_page_runs_and_prints_what_it_shows(page, tmp_path):
    check(page, tmp_path)


def test_every_block_says_what_it_is():
    for page in PAGES:
        for block in blocks_of(text_of(page)):
            if not block.language.startswith("{") or block.language in LANGUAGES:
                assert block.language in LANGUAGES, f"{page}:{block.line}: {block.language!r}"
            if block.language == "sh":  # what users type and a test can run is a transcript
                assert not re.search(r"^(\$ )?jaxpriv ", block.text, re.M), f"{page}:{block.line}"


def test_links_between_files_lead_somewhere():
    for page in PAGES:
        text = re.sub(r"^(`{3,}).*?^\1|\$\$.*?\$\$", "", text_of(page), flags=re.S | re.M)  # code, mathematics
        folder = (ROOT / page).parent
        for link in re.findall(r"\]\((?![a-z]+:|#)([^)#]+)[^)]*\)", text):
            assert (folder / link).exists() or (folder / f"{link}.md").exists(), f"{page}: {link}"


SOURCES = [
    path.relative_to(ROOT).as_posix()
    for folder in ("jaxpriv", "benchmarks", "experiments", "docs", "tests", "scripts", ".")
    for path in (ROOT / folder).glob("*" if folder == "." else "**/*")
    if path.suffix in (".py", ".c", ".h")
]


def test_files_of_the_sources_that_a_page_names_exist():
    named = {(page, name) for page in PAGES for name in re.findall(r"`([\w./-]+\.(?:py|c|h))`", text_of(page))}
    assert not {one for one in named if not any(f"/{path}".endswith(f"/{one[1]}") for path in SOURCES)}


MODULES = [
    path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
    for path in sorted((ROOT / "jaxpriv").rglob("*.py"))
    if re.search(r"^\s*>>> ", path.read_text(encoding="utf-8"), re.M)
]


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_docstrings_print_what_they_show(module):
    found = doctest.testmod(
        importlib.import_module(module), optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    )
    assert found.attempted
    assert not found.failed


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "the page says '2'"),
        ("```python\nprint(1)\n```\n", "does not show"),
        ("```python\nprint(1)\n```\nWords.\n```text\n1\n```\n", "does not show"),
        ("```console\n$ jaxpriv info --nonsense\n```\n", "nonsense"),
        ("```console\n$ rm file\n```\n", "no command of jaxpriv"),
    ],
)
def test_a_page_that_shows_something_else_fails(text, message, tmp_path):
    (tmp_path / "page.md").write_text(text)
    with raised(AssertionError, message):
        run(str(tmp_path / "page.md"))
