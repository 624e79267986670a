"""Docstrings of this library are written to be read in a terminal; here they become reStructuredText."""

import ast
import inspect
import re
import sys

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

import jaxpriv

_LITERAL = re.compile(r"(``.+?``|`[^`]+`)")
_OPENS = re.compile(r"\s*([*-] |\d+\. |:|\.\. )")


_PROPERTIES: dict[str, list[str]] = {}


def _linked(code: str) -> str:
    """`solve` in a docstring is code, and a link where the name is public by itself."""
    word = code.strip("`")
    if word in jaxpriv.__all__ and not inspect.ismodule(getattr(jaxpriv, word)):
        return f":py:obj:`{word} <jaxpriv.{word}>`"
    return f":py:obj:`{word}`" if re.fullmatch(r"jaxpriv(\.\w+)+", word) else f"``{word}``"


def keep_properties(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Napoleon takes what stands before a colon for a type: docstrings of properties are kept from it."""
    if what == "property":
        _PROPERTIES[name] = lines[:]
        lines.clear()


def describe_fields(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Fields of a record whose docstring has no list of them: the comments behind them have shapes and meaning."""
    if what != "class" or not isinstance(obj, type) or any(line.strip() in ("Attributes:", "Args:") for line in lines):
        return
    source = inspect.getsource(sys.modules[obj.__module__])
    rows = source.splitlines()
    found = []
    for record in (one for one in ast.walk(ast.parse(source)) if isinstance(one, ast.ClassDef)):
        fields = record.body if record.name == obj.__name__ else []
        for one in (one for one in fields if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)):
            _, mark, comment = rows[(one.end_lineno or one.lineno) - 1].partition("  # ")
            if mark and not one.target.id.startswith("_"):
                found.append(f"    {one.target.id}: {comment}")
    lines += ["", "Attributes:", *found, ""] if found else []


def leave_out(app: Sphinx, what: str, name: str, obj: object, skip: bool, options: object) -> bool | None:
    """The fields of a named tuple have docstrings of their own, which say nothing: they are described with it."""
    return True if (getattr(obj, "__doc__", None) or "").startswith("Alias for field number") else None


def as_text(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Docstrings are written to be read in a terminal: formulas and tables are indented, and P(s|y) is P(s|y).

    So an indented block becomes a literal block, and a bar outside of literals opens no substitution.
    """
    lines[:] = _PROPERTIES.pop(name, lines)
    out: list[str] = []
    guard = literal = (
        None  # depth of the list item or field, and of the paragraph above the literal block, that we are in
    )
    above = 0  # depth of the last line of text
    for line in lines:
        depth = len(line) - len(line.lstrip())
        if not line.strip():
            out.append(line)
            continue
        if literal is not None and depth <= literal:
            literal = None
            if out[-1].strip():
                out.append("")
        if guard is not None and depth <= guard:
            guard = None
        if literal is None and guard is None and depth > above and not _OPENS.match(line):
            out += ["", " " * above + "::", ""]
            literal = above
        if literal is None and not line.lstrip().startswith(">>>"):
            if guard is None and _OPENS.match(line):
                guard = depth
            parts = _LITERAL.split(line)
            parts[::2] = [re.sub(r"(?<!\\)\|", r"\\|", part) for part in parts[::2]]
            parts[1::2] = map(_linked, parts[1::2])
            line = "".join(parts)
            above = depth
            if line.rstrip().endswith("::"):
                literal = depth
        out.append(line)
    lines[:] = out


def dash(app: Sphinx, doctree: nodes.document) -> None:
    """Sphinx separates an argument from its description by " -- "; smart quotes, which are off, would draw the dash."""
    for text in list(doctree.findall(nodes.Text)):
        if text == " -- ":
            text.parent.replace(text, nodes.Text(" \N{EN DASH} "))


def plain_types(app: Sphinx, doctree: nodes.document) -> None:
    """In a signature a number is a `float`, of whatever library."""
    numbers = {"floating", "integer", "float", "int"}

    def named(node: nodes.Node) -> str:  # the last part of the name that a node links to, or its text
        target = node.get("reftarget") if isinstance(node, addnodes.pending_xref) else None
        return (target or node.astext()).rpartition(".")[2]

    for parent in {node.parent for node in doctree.findall(addnodes.pending_xref)}:
        hidden = numbers - {"float"} if numbers <= set(map(named, parent)) else ()
        for child in [one for one in parent if named(one) in hidden]:
            at = parent.index(child)
            sides = (parent[max(at - 3, 0) : at], parent[at + 1 : at + 4])
            separator = next((side for side in sides if [one.astext() for one in side] == [" ", "|", " "]), ())
            for one in (child, *separator):
                parent.remove(one)


def plain_defaults(
    app: Sphinx, what: str, name: str, obj: object, options: object, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """A default that a function makes, or that is one, is `...` in a signature: its text names no value."""
    return re.sub(r"= ?<[^,]*>(?=, |\))", "= ...", signature) if signature else signature, returned


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx; napoleon has priority 500."""
    app.connect("autodoc-process-docstring", keep_properties, priority=400)
    app.connect("autodoc-process-docstring", describe_fields, priority=450)
    app.connect("autodoc-process-docstring", as_text, priority=600)
    app.connect("autodoc-process-signature", plain_defaults)
    app.connect("autodoc-skip-member", leave_out)
    app.connect("doctree-read", dash)
    app.connect("doctree-read", plain_types)
    return {"parallel_read_safe": True}
