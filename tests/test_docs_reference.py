"""Every public name is in the reference, and its docstring names the errors that it raises."""

import ast
import importlib
import inspect
import json
import re
import textwrap
from pathlib import Path

import pytest

import jaxpriv as jp
from tests.cases import run_python

PAGES = sorted((Path(__file__).parents[1] / "docs" / "reference").glob("*.md"))
MODULES = [
    "jaxpriv",
    *(f"jaxpriv.{name}" for name in jp.__all__ if inspect.ismodule(getattr(jp, name))),
    *(f"jaxpriv.statistics.{name}" for name in jp.statistics.__all__),
    "jaxpriv.release.sklearn",
]


def public(module):
    """The names of a module that are its users': those of `__all__`, or those that it defines itself."""
    if hasattr(module, "__all__"):
        return {name for name in module.__all__ if not inspect.ismodule(getattr(module, name))}
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    }


@pytest.fixture(params=MODULES)
def module(request):
    """Every public module."""
    pytest.importorskip("sklearn" if request.param == "jaxpriv.release.sklearn" else "jaxpriv")
    return importlib.import_module(request.param)


def test_dir_lists_what_is_public_and_nothing_else(module):
    submodules = {each for each in getattr(module, "__all__", ()) if inspect.ismodule(getattr(module, each))}
    assert {each for each in dir(module) if not each.startswith("__")} == public(module) | submodules


# In a process of its own: here the hook of the conftest has changed the types.
SIGNATURES = """
import importlib, inspect, json

from tests.test_docs_reference import MODULES, public

texts = {}
for name in MODULES:
    if name != "jaxpriv.release.sklearn":
        module = importlib.import_module(name)
        for each in public(module):
            value = getattr(module, each)
            if inspect.isroutine(value) or inspect.isclass(value) and not issubclass(value, Exception):
                texts[f"{name}.{each}"] = str(inspect.signature(value))
print(json.dumps(texts))
"""


@pytest.fixture(scope="module")
def signatures():
    return json.loads(run_python("-c", SIGNATURES))


def unreadable(text):
    """Whether a signature names a type that only the library knows, or none at all (but for values of a mapping)."""
    return bool(re.search(r"LaneArray|\bAny\b", text.replace("[str, typing.Any]", "")))


def test_signatures_show_types_that_a_reader_knows(signatures):
    assert "jaxpriv.solve" in signatures
    assert not {name: text for name, text in signatures.items() if unreadable(text)}


def test_an_unreadable_signature_is_found():
    assert unreadable("(value: Any) -> None")
    assert unreadable("(value: jax.Array | jaxpriv._runtime.lanes.LaneArray) -> float")
    assert not unreadable("(record: dict[str, typing.Any]) -> numpy.ndarray")


def resolve(name):
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


@pytest.fixture(scope="module")
def documented():
    """What the directives of the pages stand for, each with its page, and the text of all pages."""
    found, text = [], ""
    for page in PAGES:
        text += page.read_text(encoding="utf-8")
    for kind, name, options in re.findall(r"^\.\. auto(\w+):: (\S+)\n((?:   :.*\n)*)", text, re.M):
        if kind == "module":
            left_out = set(re.findall(r"[\w]+", "".join(re.findall(r":exclude-members:(.*)", options))))
            module = importlib.import_module(name)
            found += [getattr(module, each) for each in public(module) - left_out]
        else:
            found.append(resolve(name))
    return found, text


def test_every_public_name_is_in_the_reference(request, module, documented):
    name, (found, text) = request.node.callspec.params["module"], documented
    for each in sorted(public(module)):
        value = getattr(module, each)
        if inspect.isclass(value) or inspect.isroutine(value):
            assert any(value is other for other in found), f"{name}.{each} is on no page of docs/reference"
            assert inspect.getdoc(value), f"{name}.{each} has no docstring"
        else:  # a constant or an alias of types has no docstring of its own
            assert f"{name}.{each}" in text or any(value is other for other in found), f"{name}.{each}"


def test_nothing_is_described_twice(documented):
    found, _ = documented
    described = [value for value in found if inspect.isclass(value) or inspect.isroutine(value)]
    assert len({id(value) for value in described}) == len(described)


def own_errors(function):
    """The errors of jaxpriv that the body of a function raises itself."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    calls = [node.exc.func for node in ast.walk(tree) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)]
    return {name for call in calls if hasattr(jp.errors, name := ast.unparse(call).rpartition(".")[2])}


def unnamed_errors(function):
    """Those of them that its docstring does not name."""
    described = inspect.getdoc(function) or ""
    return {name for name in own_errors(function) if name not in described}


def test_a_docstring_names_the_errors_that_its_function_raises(module):
    functions = [getattr(module, each) for each in sorted(public(module))]
    missing = {
        each.__name__: found for each in functions if inspect.isfunction(each) and (found := unnamed_errors(each))
    }
    assert not missing


def test_an_error_without_a_word_is_found():
    def silent(value):
        """The value."""
        raise jp.errors.InputError("value is negative")

    def told(value):
        """The value; `InputError` if it is negative."""
        raise jp.InputError("value is negative")

    assert unnamed_errors(silent) == {"InputError"}
    assert not unnamed_errors(told)
