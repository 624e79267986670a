"""Scripts that call the commands go on working: exit codes, and the keys of every JSON record."""

import pytest

from tests.cli.conftest import settings_of_a_new_process  # noqa: F401 - a fixture

from . import commands

_FROZEN = commands.frozen()


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=pytest.mark.guard if one == "demo" else ()) for one in _FROZEN],  # `test_demo` runs it
)
@pytest.mark.usefixtures("surely")
def test_a_command_answers_as_it_did(name):
    now, before = commands.result(name), _FROZEN[name]
    assert now["codes"] == before["codes"]
    assert commands.missing(before["record"], now["record"]) == []


def test_the_guard_notices_what_is_gone():
    before = {"value": "number", "list": [{"name": "text"}]}
    assert commands.missing(before, {**before, "more": "text"}) == []
    assert commands.missing(before, {"list": [{"name": "text"}]}) == ["/value is gone"]
    assert commands.missing(before, {"value": "text", "list": [{}]}) == [
        "/value is text, was number",
        "/list[]/name is gone",
    ]
