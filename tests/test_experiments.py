"""The stored numbers of the funnel experiments keep what their headers promise: a value is never beyond its bound."""

import csv
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from jaxpriv.testing import binary_bottleneck, binary_funnel_at

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
SIGN = {"least": 1.0, "most": -1.0}


def rows_of(folder, name, **values):
    """The rows of a stored table that have these values."""
    path = EXPERIMENTS / folder / "data" / name
    if not path.exists():
        pytest.skip(f"{path} is not here")
    with open(path, newline="") as stream:
        return [row for row in csv.DictReader(stream) if values.items() <= row.items()]


def column(rows, name):
    return np.array([float(row[name] or "nan") for row in rows])


def intervals(rows, reached, proved, sign, widest, slack=0.0):
    """What is reached and what is proved, which do not cross; gaps are what is said, and no wider than that."""
    value, bound, gap = (column(rows, name) for name in (reached, proved, "gap"))
    assert (sign * (value - bound) >= -slack).all()
    assert_allclose(gap, sign * (value - bound), atol=1e-13)
    assert gap.max() <= widest
    assert {row.get("status", "optimal") for row in rows} == {"optimal"}
    return value, bound


def check_rivals(rows, bound, sign, slack, *names):
    """None of them crosses the bound where it has a value."""
    for name in names:
        value = column(rows, name)
        known = ~np.isnan(value)
        assert (sign * (value - bound)[known] >= -slack).all(), name


@pytest.mark.parametrize("boundary", SIGN)
@pytest.mark.parametrize("folder", ["census_funnel", "heart_funnel"])
def test_boundaries_are_proved_and_nothing_else_crosses_them(folder, boundary):
    rows, sign = rows_of(folder, "boundaries.csv", boundary=boundary), SIGN[boundary]
    _, proved = intervals(rows, "reached", "proved", sign, 1e-6)
    others = ["greedy_shared"] if folder == "census_funnel" else ["partition", "partitions_shared"]
    check_rivals(rows, proved, sign, 1e-10, "greedy", "erasure", *others)
    check_rivals(rows, proved, -sign, 1e-10, "elementary")


@pytest.mark.parametrize("boundary", SIGN)
def test_both_boundaries_bend_one_way(boundary):
    """PF is convex and IB concave, up to the gap of each point."""
    rows = rows_of("census_funnel", "boundaries.csv", boundary=boundary)
    for binning in {row["binning"] for row in rows}:
        part = [row for row in rows if row["binning"] == binning]
        rate, reached, proved = (column(part, name) for name in ("R", "reached", "proved"))
        share = (rate[1:-1] - rate[:-2]) / (rate[2:] - rate[:-2])
        chord = (1 - share) * reached[:-2] + share * reached[2:]
        assert (SIGN[boundary] * (chord - proved[1:-1]) >= -1e-10).all()


def test_binary_pairs_meet_the_closed_forms():
    for boundary, sign in SIGN.items():
        for row in rows_of("binary_funnel", "binary.csv", boundary=boundary):
            p, delta, rate = float(row["p"]), float(row["delta"]), float(row["R"])
            exact = binary_funnel_at(p, delta, rate).leakage if sign > 0 else binary_bottleneck(delta, rate)
            assert float(row["reached"]) == pytest.approx(exact, abs=1e-7)
            assert sign * (exact - float(row["proved"])) >= -1e-12
            assert row["status"] == "optimal"


def test_three_private_attributes_are_proved_and_greedy_leaks_more():
    rows = rows_of("census_three_private", "boundary.csv")
    _, proved = intervals(rows, "reached", "proved", 1.0, 1e-5)
    check_rivals(rows, proved, 1.0, 0.0, "greedy", "greedy_shared", "erasure")
    check_rivals(rows, proved, -1.0, 0.0, "elementary")


def test_no_mechanism_beats_the_least_of_a_measure():
    """Factors between measures are at least 1, up to the tolerance of 1e-6 over the least that counts, 1e-3."""
    rows = rows_of("ldp_and_information", "factors.csv")
    q10, median, q90 = (column(rows, name) for name in ("q10", "median", "q90"))
    assert (q10 >= 1.0 - 1e-3).all()
    assert (median >= q10).all()
    assert (q90 >= median).all()
    own = np.array([row["optimised"] == row["measured"] for row in rows])
    assert_allclose(q90[own], 1.0, atol=1e-3)
    assert len({(row["family"], row["size"], row["share"]) for row in rows}) == 4 * 2 * 7


def test_no_mapping_of_records_beats_the_best_of_the_count():
    rows = rows_of("input_perturbation", "curves.csv")
    output, lower, best, bound = (column(rows, name) for name in ("output", "output_lower", "input", "input_lower"))
    assert (output >= lower).all()
    assert (best >= np.maximum(bound, lower)).all()
    assert (best - bound <= 0.01 * column(rows, "response") + 1e-9).all()
    assert (column(rows, "response") >= bound).all()
    assert (column(rows, "geometric") >= lower).all()


def test_newer_guarantees_meet_what_is_known_of_them():
    rows = rows_of("newer_guarantees", "curves.csv")

    def curve(guarantee, name, what="value"):
        return column([row for row in rows if (row["guarantee"], row["curve"]) == (guarantee, name)], what)

    for guarantee, ours, known in (("marginal", "exact", "closed form"), ("metric", "optimum", "geometric, remapped")):
        theirs = curve(guarantee, known)
        assert (curve(guarantee, ours, "bound") <= theirs + 1e-12).all()
        assert_allclose(curve(guarantee, ours), theirs, atol=1e-9)
    free, near, exact = (curve("marginal", name) for name in ("free", "within .02", "exact"))
    assert (free <= near + 1e-9).all()
    assert (near <= exact + 1e-9).all()
    assert (curve("sequence", "optimum") <= curve("sequence", "drawn from X alone") + 1e-12).all()
    assert (np.diff(curve("samples", "from records")) > 0).all()
    assert (curve("samples", "from records") < curve("samples", "known prior")).all()
    at, envelope = curve("envelope", "eps(delta)", "at"), curve("envelope", "eps(delta)")
    printed = {0.0: 1.41161217, 0.1: 1.41161217, 0.3: 1.05382053, 0.6: 0.47343809, 1.0: 0.0}
    assert_allclose([envelope[at == delta][0] for delta in printed], list(printed.values()), atol=1e-8)
    assert_allclose(envelope[1:], curve("envelope", "events"), atol=1e-12)  # of a mass of 0 there is no event
    assert_allclose(curve("samples", "known prior"), 0.32996578, atol=1e-8)
    assert_allclose(curve("alpha_beta", "alpha inf")[[0, -1]], [0.58778666, 1.90940147], atol=1e-8)
    ours = [curve("alpha_beta", f"alpha {order}") for order in ("2", "5", "inf")]
    beta, exact = curve("alpha_beta", "closed form", "at"), curve("alpha_beta", "closed form")
    values = np.array(ours)[:, np.searchsorted(curve("alpha_beta", "alpha 2", "at"), beta)]
    assert_allclose(abs(values - exact).min(axis=0), 0.0, atol=1e-12)


# Of each experiment: the table, its columns (reached, proved), whether least (1) or most (-1), the largest gap.
FIELD = {
    "ldp_optimum": ("curves.csv", ("value", "upper"), -1.0, 1e-6),
    "pml_optimum": ("curves.csv", ("value", "upper"), -1.0, 1e-6),
    "maximal_leakage_hamming": ("curves.csv", ("value", "lower_bound"), 1.0, 1e-6),
    "rate_distortion": ("curves.csv", ("value", "lower_bound"), 1.0, 1e-6),
    "alpha_leakage_hamming": ("curves.csv", ("value", "lower_bound"), 1.0, 3e-4),
    "entropy_bounded_adversary": ("curves.csv", ("lower", "upper"), -1.0, 1e-4),
    "funnel_solvers": ("leakage.csv", ("value", "lower_bound"), 1.0, 1e-6),
}


@pytest.mark.parametrize("name", FIELD)
def test_figures_of_the_field_are_proved(name):
    """Values do not cross their bounds, gaps are what is said, closed forms lie between, and no rival does better."""
    file, ends, sign, widest = FIELD[name]
    rows = rows_of(name, file)
    assert len(rows) >= 18
    value, bound = intervals(rows, *ends, sign, widest, 1e-12)
    exact = column(rows, "closed") if "closed" in rows[0] else np.array([])
    # Grids have rate-distortion functions of their own, not those of the continuous sources.
    of_table = np.array(["grid" not in row.get("family", "") for row in rows])[: len(exact)] & np.isfinite(exact)
    if len(exact):
        assert (sign * (value - exact)[of_table] >= -1e-9).all()
        assert (sign * (exact - bound)[of_table] >= -1e-9).all()
    rivals = {"binary", "randomised_response", "greedy", "greedy-ratio", "difference-of-convex", "alternating"}
    check_rivals(rows, bound, sign, 1e-9, *(rivals & rows[0].keys()))
