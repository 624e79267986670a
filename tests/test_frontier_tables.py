"""The numbers of frontiers as columns, frames, CSV and LaTeX, and mappings as LaTeX."""

import csv
import io

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import jaxpriv as jp
from jaxpriv.errors import ResourceError
from jaxpriv.release import fit
from tests.cases import raised, refused

JOINT = np.array([[0.3, 0.1], [0.1, 0.5]])
HAMMING = 1 - np.eye(2)
BITS = 1 / np.log(2)


@pytest.fixture(scope="module")
def curve():
    return jp.frontier(jp.DistortionProblem(JOINT, HAMMING, budget=0.1), budgets=[-0.1, 0.1, 0.2])


@pytest.fixture(scope="module")
def funnel():
    return jp.funnel_frontier(jp.FunnelProblem(JOINT, disclosure=0.1), disclosures=[0.1, 0.2])


def test_columns_are_the_attributes(curve, funnel):
    for one, spent, target in ((curve, "distortion", "budget"), (funnel, "disclosure", "target_disclosure")):
        columns = one.columns()
        names = [target, "value", "lower_bound", "upper_bound", "gap", "leakage", "status", spent]
        assert list(columns) == names
        assert_array_equal(columns[target], one.targets)
        for name in names[1:]:
            assert_array_equal(columns[name], getattr(one, name).reshape(-1))


@pytest.mark.parametrize(
    ("form", "scaled"),
    [
        ("budgets", {"budget": 1, "value": BITS, "gap": BITS, "leakage": BITS, "distortion": 1}),
        ("leakage_budgets", {"leakage_budget": BITS, "value": 1, "gap": 1, "leakage": BITS, "distortion": 1}),
        ("multipliers", {"multiplier": BITS, "value": BITS, "gap": BITS, "leakage": BITS, "distortion": 1}),
    ],
)
def test_bits_are_those_of_every_logarithm(form, scaled):
    one = jp.frontier(jp.DistortionProblem(JOINT, HAMMING, budget=0.1), **{form: [0.05, 0.1]})
    nats, bits = one.columns(), one.columns("bits")
    for name, factor in scaled.items():
        assert_allclose(bits[name], factor * nats[name], rtol=1e-15)
    with refused("units must be"):
        one.columns("shannons")


@pytest.mark.parametrize(
    ("kind", "form", "scaled"),
    [
        (jp.FunnelProblem, "leakage_budgets", {"leakage_budget": BITS, "value": BITS, "disclosure": BITS}),
        (jp.FunnelProblem, "multipliers", {"multiplier": 1, "value": BITS, "leakage": BITS}),
        (jp.BottleneckProblem, "relevances", {"relevance": BITS, "value": BITS, "leakage": BITS}),
    ],
)
def test_bits_of_funnels(kind, form, scaled):
    one = jp.funnel_frontier(kind(JOINT, disclosure=0.1), **{form: [0.05]})
    for name, factor in scaled.items():
        assert_allclose(one.columns("bits")[name], factor * one.columns()[name], rtol=1e-15)


def test_other_units_stay_what_they_are():
    asked = jp.DistortionProblem(JOINT, HAMMING, budget=0.1, leakage=jp.leakage.CorrectGuess())
    one = jp.frontier(asked, budgets=[0.1])
    assert one.columns("bits")["leakage"] == one.leakage
    assert "leakage (probability)" in one.to_latex("bits")


def test_several_distortions_have_columns_of_their_own():
    asked = jp.DistortionProblem(JOINT, [HAMMING, 2 * HAMMING], budget=[0.1, 0.3])
    columns = jp.frontier(asked, budgets=[[0.1, 0.3], [0.2, 0.3]]).columns()
    assert_array_equal(columns["budget_1"], [0.3, 0.3])
    assert_allclose(columns["distortion_1"], 2 * columns["distortion_0"])


@pytest.mark.parametrize("backend", ["polars", "pandas", "pyarrow"])
def test_frames_hold_the_columns(curve, backend):
    pytest.importorskip("narwhals")
    library = pytest.importorskip(backend)
    frame = curve.to_frame("bits", backend=backend)
    assert isinstance(frame, library.Table if backend == "pyarrow" else library.DataFrame)
    for name, values in curve.columns("bits").items():
        found = np.array(frame[name].to_pylist() if backend == "pyarrow" else frame[name].to_list())
        assert_array_equal(found, values)


def test_frames_that_cannot_be_made_are_said(curve):
    pytest.importorskip("narwhals")
    with refused("no frame of 'excel'"):
        curve.to_frame(backend="excel")
    with raised(ResourceError, r"pip install 'jaxpriv\[tables\]' cudf"):
        curve.to_frame(backend="cudf")


def test_a_csv_file_has_all_digits(curve, tmp_path):
    text = curve.to_csv(tmp_path / "curve.csv", units="bits")
    assert (tmp_path / "curve.csv").read_text() == text == curve.to_csv(units="bits")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["status"] for row in rows] == ["infeasible", "optimal", "optimal"]
    assert [float(row["value"]) for row in rows] == list(curve.value * BITS)


def test_latex_has_a_line_for_each_point_rounded_outwards(curve, funnel):
    begin, top, heading, middle, *rows, bottom, end = curve.to_latex().splitlines()
    assert begin.startswith(r"\begin{tabular}{rrrrrlr}")
    assert (top, middle, bottom, end) == (r"\toprule", r"\midrule", r"\bottomrule", r"\end{tabular}")
    assert heading.startswith("budget & lower bound (nats) & upper bound (nats)")
    cells = [row.removesuffix(r" \\").split(" & ") for row in rows]
    assert len(cells) == len(curve)
    assert cells[0] == ["$-0.1$", r"$\infty$", r"$\infty$", r"$\infty$", "--", "infeasible", "--"]
    for cell, value, bound in zip(cells[1:], curve.value[1:], curve.lower_bound[1:], strict=True):
        assert float(cell[1]) <= bound < value <= float(cell[2])
        assert r"\cdot 10^{-" in cell[3]
    assert r"target disclosure (bits) & lower bound (bits)" in funnel.to_latex("bits")


def test_a_mapping_as_latex_writes_no_zero_that_is_none():
    solution = jp.solve(jp.DistortionProblem(JOINT, HAMMING, budget=0.0))
    assert "0 & 1.00 & 0 \\\\\n1 & 0 & 1.00 \\\\\n" in solution.to_latex(2)
    rare = jp.solve(jp.DistortionProblem(JOINT, HAMMING, budget=1e-5))
    assert r"0 & 1.000 & $<$0.001 \\" in rare.to_latex()
    funnel = jp.solve(jp.FunnelProblem(JOINT, disclosure=0.2))
    assert funnel.to_latex().count(r" \\") == 1 + 2
    with refused("digits"):
        solution.to_latex(0)


def test_the_classes_of_a_design_are_escaped():
    town = np.array(["a_b & 5%", "~c^<d>"], dtype=object)[np.arange(200) % 2]
    income = np.array(["low", "high"], dtype=object)[(np.arange(200) * 7 // 10) % 2]
    text = fit({"town": town, "income": income}, private="income", useful=["town"], budget=0.1).mechanism.to_latex()
    assert r"a\_b \& 5\%" in text
    assert r"\textasciitilde{}c\textasciicircum{}\textless{}d\textgreater{}" in text
    assert "income" not in text
