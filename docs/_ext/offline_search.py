"""The search page shows the text around each hit also where the site is opened from disk.

Sphinx fetches each page that it found to show the words around a hit, which browsers refuse for files. The texts of all
pages are therefore a script of the search page as well.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_FILE = "pages.js"


def script(pages: Mapping[str, str]) -> str:
    """A `fetch` that answers from `pages`, texts by the names of pages without a suffix; for pages from disk alone."""
    return f"""if (location.protocol === "file:") {{
  const pages = {json.dumps(pages, ensure_ascii=False)};
  const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  window.fetch = (url) => {{
    const name = String(url).replace(/^(\\.\\/)+/, "").replace(/\\.html.*$/, "");
    return Promise.resolve({{ text: async () => `<div role="main">${{escaped(pages[name] ?? "")}}</div>` }});
  }};
}}
"""


def _for_search(app: "Sphinx", page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    if page == "search":
        app.add_js_file(_FILE)


def _write(app: "Sphinx", error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        pages = {name: app.env.get_doctree(name).astext() for name in sorted(app.env.found_docs)}
        Path(app.outdir, "_static", _FILE).write_text(script(pages), encoding="utf-8")


def setup(app: "Sphinx") -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("html-page-context", _for_search)
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True}
