"""The paths of the public modules of version 0.2 load the modules where they lie now."""

from importlib import import_module

import pytest

import jaxpriv as jp
from jaxpriv._runtime.importing import FORMER
from tests.cases import raised, run_python


@pytest.mark.parametrize("former", FORMER)
def test_one_module_has_both_paths(former):
    if former == "jaxpriv.sklearn":
        pytest.importorskip("sklearn")
    module = import_module(former)
    assert module is import_module(FORMER[former])
    assert module.__name__ == FORMER[former]
    assert module.__spec__.name == FORMER[former]


def test_modules_inside_of_a_moved_package_are_not_loaded_twice():
    modules = {
        "jaxpriv.mechanism.table": "jaxpriv.release.table",
        "jaxpriv.estimation.audit.bounds": "jaxpriv.statistics.audit.bounds",
    }
    code = "import sys\n" + "".join(
        f"import {former} as one, {now} as other; print(one is other, one.__name__, '{former}' in sys.modules)\n"
        for former, now in modules.items()
    )
    assert run_python("-W", "error", "-c", code).splitlines() == [f"True {now} True" for now in modules.values()]


def test_attributes_of_the_package():
    assert jp.mechanism is jp.release
    assert jp.estimation is jp.statistics
    assert not {"mechanism", "estimation"} & set(dir(jp))


def test_a_module_that_never_was_is_not_found():
    with raised(ModuleNotFoundError, r"jaxpriv\.mechanism\.nothing|jaxpriv\.release\.nothing"):
        import_module("jaxpriv.mechanism.nothing")
