"""`jaxpriv frontier` and `jaxpriv plot`: files hold what the table says, and pictures are those of the library."""

import csv
import io

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import plotting
from tests.cli.conftest import DISTORTION, JOINT, answered, mistaken, printed, refused, run, strict_json

BUDGETS = (0.05, 0.1, 0.2)


@pytest.fixture
def curve(problem, tmp_path):
    """The files of one curve, and the same curve from the library."""
    files = {kind: tmp_path / f"curve.{kind}" for kind in ("npz", "csv", "json")}
    for kind, path in files.items():
        extra = ("--picture", tmp_path / "curve.svg", "--json", tmp_path / "same.json") if kind == "npz" else ()
        shown = printed("frontier problem.npz --budget", *BUDGETS, "--out", path, *extra)
    asked = jp.DistortionProblem(JOINT / JOINT.sum(), DISTORTION, budget=0.1)
    return files, jp.frontier(asked, budgets=np.array(BUDGETS)), shown


def test_every_file_holds_the_curve(curve, tmp_path):
    files, known, printed = curve
    assert "leakage (nats)" in printed
    record = strict_json(files["json"].read_text())
    assert record == strict_json((tmp_path / "same.json").read_text())
    assert record["form"] == "budget"
    assert record["status"] == ["optimal"] * 3
    rows = list(csv.DictReader(io.StringIO(files["csv"].read_text())))
    assert [float(row["budget"]) for row in rows] == list(BUDGETS)
    arrays = np.load(files["npz"])
    for values in (record["value"], [float(row["value"]) for row in rows], arrays["value"]):
        np.testing.assert_allclose(values, known.value, atol=2e-6)
    for budget, mechanism in zip(BUDGETS, arrays["mechanism"], strict=True):
        assert ((JOINT.sum(axis=0) / JOINT.sum())[:, None] * DISTORTION * mechanism).sum() <= budget + 1e-9


def test_a_stored_curve_is_drawn_as_it_was(curve, tmp_path):
    files, known, _ = curve
    again = tmp_path / "again.svg"
    printed("plot", files["npz"], "--out again.svg --units bits")
    assert again.read_text().count("I(S;Y) (bits)") == 1
    assert "I(S;Y) (nats)" in (tmp_path / "curve.svg").read_text()
    stored = plotting.DrawnCurve.of_arrays(np.load(files["npz"]))
    fresh = plotting.drawn_curve(known)
    assert (stored.name, stored.unit, stored.across) == (fresh.name, fresh.unit, fresh.across)
    np.testing.assert_allclose(stored.high, fresh.high, atol=3e-6)
    both = tmp_path / "both.png"
    printed("plot", files["npz"], files["npz"], "--out both.png")
    assert both.read_bytes().startswith(b"\x89PNG")
    line = tmp_path / "line.svg"
    printed("plot", files["npz"], "--out line.svg --line --units bits")
    assert line.read_text().count("<use ") < again.read_text().count("<use ")  # marks


def test_a_number_of_targets_goes_from_little_to_a_constant_release(problem, save):
    record = answered("frontier problem.npz --count 4")
    mass = JOINT.sum(axis=0) / JOINT.sum()
    assert record["target"][-1] == pytest.approx((mass @ DISTORTION).min())
    assert record["value"][-1] <= 1e-6
    told = answered("frontier", save("joint.npz", joint=JOINT), "--count 3")
    assert told["form"] == "disclosure"
    assert told["target"][-1] == pytest.approx(-(mass * np.log(mass)).sum())
    assert told["status"] == ["optimal"] * 3
    assert np.all(np.diff(told["value"]) >= -1e-6)
    most = answered("frontier", save("joint.npz", joint=JOINT), "--bottleneck --count 3")
    assert np.all(np.array(most["value"]) >= np.array(told["value"]) - 1e-6)


def test_targets_that_no_mapping_meets_are_said(problem):
    record = answered("frontier problem.npz --budget 0.1 -0.1")
    assert record["status"] == ["optimal", "infeasible"]
    assert record["value"][1] == "inf"
    assert printed("frontier problem.npz --budget -0.1").splitlines()[3].split() == ["-0.1", *"----", "infeasible"]


def test_mappings_are_drawn(problem, tmp_path):
    picture = tmp_path / "mapping.svg"
    printed("solve problem.npz --budget 0.2 --out mapping.npz")
    printed("plot mapping.npz --out mapping.svg --title", ["a mapping"])
    assert "a mapping" in picture.read_text()
    mistaken("plot mapping.npz mapping.npz --out mapping.svg", "several results")
    mistaken("plot mapping.npz --out mapping.svg --line", "--line is about curves")
    mistaken("plot mapping.npz --out mapping.svg --units bits", "--units is about curves")
    mistaken("plot problem.npz --out x.png", "neither a mapping")
    mistaken("plot mapping.npz --out x.txt", ".png")
    (tmp_path / "curve.csv").touch()
    mistaken("plot curve.csv --out x.png", "curve.csv", "--out CURVE.npz")


def test_a_mapping_is_written_as_a_table_where_the_name_says_so(problem, tmp_path):
    paths = [tmp_path / f"mapping.{kind}" for kind in ("npz", "csv")]
    for path in paths:
        printed("solve problem.npz --budget 0.2 --out", path)
    head, *rows = [line.split(",") for line in paths[1].read_text().splitlines()]
    with np.load(paths[0]) as arrays:
        assert np.array_equal(np.array(rows, dtype=float)[:, 1:], arrays["mechanism"])
    assert head == ["x", *(f"y={y}" for y in range(len(head) - 1))]
    mistaken("solve problem.npz --budget 0.2 --out mapping.txt", "--out must end in .npz or")
    assert not (tmp_path / "mapping.txt").exists()


def test_what_is_wrong_is_said_before_the_work(problem):
    mistaken("frontier problem.npz", "exactly one", "none given")
    mistaken("frontier problem.npz --budget 0.1 --count 3", "several given")
    mistaken("frontier problem.npz --budget 0.1 --out x.txt", "--out", ".csv")
    mistaken("frontier problem.npz --budget 0.1 --solver newton", "'newton'", "interior-point")
    mistaken("frontier problem.npz --budget 0.1 --bottleneck", "--disclosure")


def test_a_result_says_its_leakage_once(problem):
    assert printed("solve problem.npz --budget 0.2").count("leakage") == 1
    assert "\nleakage" in printed("solve problem.npz --leakage-budget 0.1")
    assert printed("funnel problem.npz --disclosure 0.5").count("leakage") == 1


@pytest.mark.parametrize("option", ["--budget", "--leakage-budget", "--multiplier", "--disclosure"])
def test_a_target_that_is_no_number_is_named_as_the_option(problem, option):
    refused(run("frontier problem.npz", option, "0.1 nan"), 2, f"{option}[1]")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("drawn_words", np.frombuffer(b"[" * 10**5, dtype=np.uint8)),
        ("drawn_informed", np.zeros(0)),
        ("drawn_x", np.nan),
    ],
    ids=["nested words", "no informed", "no numbers"],
)
def test_a_damaged_curve_is_no_internal_error(problem, tmp_path, name, value):
    printed("frontier problem.npz --count 3 --out curve.npz")
    arrays = dict(np.load("curve.npz"))
    np.savez(
        tmp_path / "bad.npz",
        **{**arrays, name: np.broadcast_to(value, arrays[name].shape) if value is np.nan else value},
    )
    done = run("plot bad.npz --out curve.png")
    assert done.exit_code == 5
    assert "drawn_" in done.stderr
