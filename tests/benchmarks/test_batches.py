"""The comparison of many problems at once: every column solves the same problems."""

import pytest


def test_all_columns_reach_the_certified_bounds():
    for name in ("cvxpy", "clarabel", "moreau"):
        pytest.importorskip(name)
    from benchmarks.batches import compared

    row = compared(size=4, count=3, by_cvxpy=2, workers=1, repeats=1)["milliseconds"]
    assert {name: column["problems"] for name, column in row.items()} == {"solve_many": 3, "moreau": 3, "cvxpy_pool": 2}
    assert all(-1e-9 <= column["gap"] <= 2e-6 for column in row.values())
    assert all(column["first"] > 0 and column["later"] > 0 for column in row.values())


def test_other_measures_are_certified_beside_mutual_information(worth_compiling):
    from benchmarks.batches import measured

    worth_compiling(float("inf"))
    row = measured(size=3, count=2, names=["ldp"], repeats=1)["milliseconds"]
    assert list(row) == ["mutual-information", "ldp"]
    for forms in row.values():
        assert list(forms) == ["least", "limited"]
        assert all(one["optimal"] == 2 and 0 <= one["gap"] <= 1e-6 and one["ratio"] > 0 for one in forms.values())
    assert row["mutual-information"]["least"]["ratio"] == 1.0
