"""`jaxpriv reproduce`, and the gallery that shows the same experiments."""

import importlib.util
import runpy
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import mistaken, printed, run

ROOT = Path(__file__).parents[2]
EXPERIMENTS = ROOT / "experiments"

pytestmark = pytest.mark.skipif(not EXPERIMENTS.is_dir(), reason="the experiments are not here")


@pytest.fixture(scope="module")
def gallery():
    spec = importlib.util.spec_from_file_location("build_gallery", ROOT / "scripts" / "build_gallery.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_experiment_says_what_it_is_and_has_its_figures(gallery):
    known = gallery.experiments()
    assert set(known) == {path.parent.name for path in EXPERIMENTS.glob("*/plot.py")}
    for name, about in known.items():
        assert {"title", "group", "source", "minutes", "figures", "text"} <= set(about)
        assert about["group"] in gallery.GROUPS
        assert (EXPERIMENTS / name / "run.py").exists()
        for figure in about["figures"]:
            assert (ROOT / "docs" / "figures" / figure).exists()
            assert figure in (EXPERIMENTS / name / "plot.py").read_text()
        for one in about.get("published", ()):
            assert set(one) == {"what", "theirs", "ours", "where"}


def test_the_gallery_is_that_of_the_experiments(gallery):
    for file, text in gallery.pages().items():
        assert (gallery.GALLERY / file).read_text() == text, f"{file}: run scripts/build_gallery.py"


def test_stored_numbers_are_drawn_elsewhere(tmp_path, monkeypatch):
    figures = {path: path.read_bytes() for path in (ROOT / "docs" / "figures").glob("binary-funnel.png")}
    monkeypatch.chdir(tmp_path)
    done = printed("reproduce binary_funnel --draw")
    folder = Path("out") / "binary_funnel"
    assert sorted(path.name for path in folder.iterdir()) == ["binary-funnel.png", "binary.csv"]
    assert {path: path.read_bytes() for path in figures} == figures
    assert done.splitlines()[-1] == f"wrote {folder / 'binary-funnel.png'}"


def test_the_list_names_all(gallery):
    listed = printed("reproduce --list")
    assert all(name in listed for name in gallery.experiments())
    assert max(map(len, listed.splitlines())) < 80


def test_what_is_wrong_is_said(tmp_path):
    mistaken("reproduce", "--list")
    mistaken("reproduce gausian_funnel", "gaussian_funnel")
    mistaken("reproduce gaussian_funnel --draw -- --fast", "--draw")
    (tmp_path / "file").write_text("")
    mistaken("reproduce gaussian_funnel --draw --out file", "not a folder")


@pytest.fixture
def offline(absent):
    """Nothing can be fetched."""
    absent("pooch")


@pytest.fixture
def programs(in_children, tmp_path_factory):
    """`programs()`: the programs that were started since the last call, each with its arguments; none does anything."""
    log = tmp_path_factory.mktemp("log") / "started"
    log.touch()
    in_children(
        f"import os, pathlib, sys\nprogram, *given = sys.orig_argv[1:]\nwith open({str(log)!r}, 'a') as log:\n"
        "    print(pathlib.Path(program).name, *given, file=log)\nos._exit(0)\n"
    )

    def started():
        lines = log.read_text().splitlines()
        log.write_text("")
        return lines

    return started


def test_the_embedded_table_is_taken_where_raw_files_are_absent(tmp_path, offline, programs):
    done = run("reproduce census_funnel --out", tmp_path)
    assert programs() == ["run.py --embedded", "plot.py"]
    assert "Needs the original adult.data" in done.stderr
    assert "three of the five binnings" in done.stderr
    run("reproduce census_funnel --out", tmp_path, "-- --adult=folder")
    assert programs() == ["run.py --adult=folder", "plot.py"]


def test_what_cannot_be_had_is_said_before_anything_runs(tmp_path, offline, programs, absent):
    absent("optax")
    for name, why in (("census_three_private", "here: -- --adult FOLDER"), ("compas", "needs optax")):
        done = run("reproduce", name, "--out", tmp_path)
        assert done.exit_code == 6
        assert why in done.stderr.splitlines()[-1]
        assert "--draw draws the stored numbers" in done.stderr.splitlines()[-1]
    assert programs() == []
    assert list(tmp_path.iterdir()) == []


def test_binnings_that_were_not_computed_have_empty_axes(tmp_path):
    shutil.copytree(EXPERIMENTS / "census_funnel", tmp_path / "experiments" / "census_funnel")
    for name in ("boundaries", "greedy", "dropping"):
        path = tmp_path / "experiments" / "census_funnel" / "data" / f"{name}.csv"
        rows = path.read_text().splitlines(keepends=True)
        path.write_text("".join(row for row in rows if not row.startswith(("five-years", "degrees"))))
    (tmp_path / "docs" / "figures").mkdir(parents=True)
    runpy.run_path(str(tmp_path / "experiments" / "census_funnel" / "plot.py"), run_name="__main__")
    figure = (tmp_path / "docs" / "figures" / "census-funnel.png").read_bytes()
    assert figure != (ROOT / "docs" / "figures" / "census-funnel.png").read_bytes()


def test_an_experiment_that_fails_leaves_nothing(tmp_path, monkeypatch, offline):
    monkeypatch.chdir(tmp_path)
    done = run("reproduce census_funnel --out new -- --unknown")
    assert done.exit_code == 6
    assert "ended with code 2" in done.stderr
    assert list((tmp_path / "new").iterdir()) == []
