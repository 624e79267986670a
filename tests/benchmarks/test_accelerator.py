"""The accelerator script: counted work, predictions from published peaks, and every part at a small size."""

import pytest

from benchmarks.accelerator import DEVICES, SCALES, Batch, Cube, Pass, Streaming, measure, predicted


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
