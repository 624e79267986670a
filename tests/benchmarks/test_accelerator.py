"""The accelerator script: counted work, predictions from published peaks, and every part at a small size."""

import json

import pytest

from benchmarks import accelerator
from benchmarks.accelerator import DEVICES, SCALES, Batch, Cube, Pass, Streaming, attained, measure, predicted


def test_the_dry_run_prints_every_part_and_runs_none(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(accelerator, "_in_child", None)
    out = tmp_path / "r.json"
    assert accelerator.main(["--dry-run", "--out", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(SCALES["full"])
    assert all("H200 SXM" in line for line in lines)
    assert not out.exists()


def test_the_work_of_a_cube_grows_as_it_must():
    small, large = Cube(512).work(), Cube(1024).work()
    assert large.flop == 16 * small.flop
    assert 7.5 * small.memory < large.memory < 8 * small.memory  # sets of systems, and what has the size of a mechanism
    assert large.memory >= 3 * 8.0 * 1024**3  # three sets of 1,024 systems of order 1,024
    assert Batch(1024, 1).work().flop == large.flop


def test_a_prediction_is_the_slower_of_arithmetic_and_traffic():
    for part in (Cube(1024), Pass(64, 4096, False), Pass(2, 4096, True), Streaming(64, 10_000)):
        work, row = part.work(), predicted(part)
        for name, (double, single, traffic, _) in DEVICES.items():
            rate = double if work.double else single
            if rate is None:
                assert row[f"{name} seconds"] is None
                continue
            assert row[f"{name} seconds"] >= work.flop / rate
            assert row[f"{name} seconds"] >= work.traffic / traffic
    # More private symbols shift a pass from traffic to arithmetic.
    assert predicted(Pass(2, 4096, False))["H100 SXM seconds"] == Pass(2, 4096, False).work().traffic / 3.35e12
    assert predicted(Pass(512, 4096, False))["H100 SXM seconds"] == Pass(512, 4096, False).work().flop / 67e12


def test_what_does_not_fit_has_no_prediction():
    row = predicted(Cube(1700))  # 130 GB
    assert row["H100 SXM seconds"] is None
    assert row["H200 SXM seconds"] is not None


def test_the_share_is_that_of_the_measured_peak():
    peaks = {"float64_flop_per_second": 1e12}
    work = Cube(100).work()
    assert attained(work, {"solve_seconds": 4e-3, "steps": 10}, peaks) == pytest.approx(10 * 2e8 / 1e12 / 4e-3)
    assert attained(work, {"error": "out of memory"}, peaks) is None
    assert attained(work, {"solve_seconds": 1.0, "steps": 10}, {}) is None


@pytest.mark.parametrize("name", [name for name in SCALES["small"] if name != "batch-8"])
def test_every_part_runs_at_a_small_size(name):
    found = measure(SCALES["small"][name])
    assert found["peak_host_bytes"] is None or found["peak_host_bytes"] > 0
    if name == "peaks":
        assert all(found[key] > 0 for key in ("float64_flop_per_second", "float32_flop_per_second", "bytes_per_second"))
        return
    assert found["solve_seconds"] > 0
    if "status" in found:
        assert found["status"] == "optimal"
        assert found["lower_bound"] <= found["value"]


def test_a_batch_is_certified_and_repeats_itself():
    found = measure(Batch(4, 6))
    assert found["certified"] == found["count"] == 6
    assert found["largest_gap"] <= 1e-6
    assert found["same_twice"] == "True"


def test_a_part_that_fails_leaves_the_others(monkeypatch, tmp_path):
    def child(scale, name):
        return {"error": "out of memory"} if name == "cube" else {"solve_seconds": 1.0, "steps": 1}

    monkeypatch.setattr(accelerator, "_in_child", child)
    out = tmp_path / "r.json"
    assert accelerator.main(["--scale", "small", "--parts", "cube", "pass-float32", "--out", str(out)]) == 1
    record = json.loads(out.read_text())
    assert record["measured"]["cube"] == {"error": "out of memory"}
    assert record["measured"]["pass-float32"]["solve_seconds"] == 1.0
    assert set(record["predicted"]) == {"cube", "pass-float32"}
    assert record["machine"]["accelerator"]
    assert record["versions"]["jax"]


def test_a_part_runs_in_a_process_of_its_own():
    found = accelerator._in_child("small", "peaks")
    assert found["float64_flop_per_second"] > 0
    assert "error" in accelerator._in_child("small", "none")


def test_an_unknown_part_is_refused(capsys):
    with pytest.raises(SystemExit):
        accelerator.main(["--scale", "small", "--parts", "cubes"])
    assert "no part 'cubes'" in capsys.readouterr().err
