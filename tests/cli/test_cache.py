"""`jaxpriv cache`: what is kept, removing it, compiling ahead of time."""

import pytest

from jaxpriv._runtime import executables
from jaxpriv.solving import precompile
from tests.cli.conftest import answered, mistaken, printed, refused, run


def test_an_empty_cache(place):
    found = answered("cache")
    assert found == {
        "folder": str(place),
        "executables": 0,
        "bytes": 0,
        "note": "nothing has been kept yet",
        "most_bytes": executables.MOST_BYTES,
    }
    assert str(place) in printed("cache")
    assert not place.exists()
    assert answered("info")["kept"] == {"executables": 0, "bytes": 0, "note": "nothing has been kept yet"}


@pytest.mark.slow
def test_compiled_ahead_shown_and_removed(place, monkeypatch):
    asked, solve = [], precompile.solve

    def one_of_three(problem):
        asked.append(problem)
        return solve(problem) if problem.multiplier is not None else None  # the others take seconds more

    monkeypatch.setattr(precompile, "solve", one_of_three)
    found = answered("cache --warm 2x3x2")
    assert {problem.form.name for problem in asked} == {"budget", "multiplier", "leakage_budget"}
    assert {problem.shape for problem in asked} == {(3, 2)}
    assert found["executables"] == len(list(place.glob("*.executable"))) > 0
    assert found["bytes"] == sum(path.stat().st_size for path in place.glob("*.executable"))
    assert answered("cache") == found
    assert answered("info")["kept"] == {name: found[name] for name in ("executables", "bytes")}
    assert str(place) not in printed("info")
    again = answered("cache --clear")
    assert (again["removed"], again["executables"], again["bytes"]) == (found["executables"], 0, 0)
    assert list(place.iterdir()) == []


def test_switched_off(monkeypatch):
    monkeypatch.setenv(executables.SWITCH, "off")
    assert answered("cache")["folder"] is None
    refused(run("cache --clear"), 6, "switched off")
    refused(run("cache --warm 2x2x2"), 6, "switched off")


def test_a_folder_that_cannot_be_used_is_refused_before_anything_is_compiled(place, monkeypatch):
    place.write_text("a file of the user's")
    refused(run("cache --warm 2x2x2"), 6, "nothing was compiled")
    refused(run("cache --clear"), 6, "nothing was removed")
    assert place.read_text() == "a file of the user's"
    place.unlink()
    place.mkdir()
    place.chmod(0o777)
    refused(run("cache --warm 2x2x2"), 6, "by others than its owner")
    monkeypatch.setenv(executables.SWITCH, "/proc/none/kept")
    refused(run("cache --warm 2x2x2"), 6, "cannot be made")
    assert answered("cache --clear")["removed"] == 0


USERS = {
    "notes.tmp": "notes",
    "thesis.executable": "thesis",
    "secret": "a password",
    f"{'a' * 64}.executable": "a program",
}


def test_files_of_the_user_stay(place):
    """In a folder that jaxpriv did not make nothing is removed or written; in its own only what it wrote."""
    place.mkdir(mode=0o700)
    for name, text in USERS.items():
        (place / name).write_text(text)
    for line in ("--clear", "--warm 2x2x2"):
        refused(run("cache", line), 6, "was not made by jaxpriv")
    assert "was not made by jaxpriv" in answered("cache")["note"]
    assert {path.name: path.read_text() for path in place.iterdir()} == USERS


def test_what_a_user_puts_into_the_folder_later_stays(place):
    executables.prepare()
    for name in ("notes.tmp", "thesis.executable"):
        (place / name).write_text("own")
    (place / f"{'0' * 64}.executable").write_bytes(b"of ours")
    assert answered("cache --clear")["removed"] == 1
    assert sorted(path.name for path in place.iterdir()) == ["notes.tmp", "thesis.executable"]


def test_an_empty_folder_of_the_user_may_be_named(place):
    place.mkdir(mode=0o700)
    executables.prepare()
    assert executables.contents() == (0, 0)
    executables.clear()
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("shape", ["2x2", "2x0x2", "2x-1x2", "axbxc", "2x2x2x2", "²x2x2", "999x999x999"])
def test_shapes_that_are_none(place, shape):
    mistaken(f"cache --warm {shape}", "--warm")
