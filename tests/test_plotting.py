"""`jaxpriv.plotting`: figures say what is proved, carry units, and are the same file every time."""

import importlib.util

import matplotlib
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import datasets, plotting
from jaxpriv.errors import InputError, ResourceError
from jaxpriv.solution import Solution
from jaxpriv.solving.frontier import Frontier

BITS = 1 / np.log(2)


def curve(parameter: str = "budget", gap: float = 1e-7) -> Frontier:
    """A made-up curve: leakage (1 - D)^2 with exact slopes, and one point that is infeasible."""
    points = np.array([-1.0, 0.0, 0.25, 0.5, 1.0])
    value = np.where(points < 0, np.inf, (1 - points) ** 2)
    count = len(points)
    solution = Solution(
        value=value,
        lower_bound=value - gap,
        mechanism=np.tile(np.eye(2), (count, 1, 1)),
        leakage=value,
        distortion=points[:, None],
        scores=np.zeros((count, 1, 2, 2)),
        weights=np.ones((count, 1)),
        multipliers=2 * (1 - points)[:, None],
        code=np.where(points < 0, 2, 0),
        steps=np.ones(count, dtype=int),
    )
    return Frontier(parameter, points[:, None], solution)


def texts(figure) -> set[str]:
    figure.canvas.draw()
    return {text.get_text() for text in figure.findobj(matplotlib.text.Text)}


def test_frontier_shows_band_points_units_and_others():
    figure = plotting.plot_frontier(curve(), tol=1e-6, others=[(0.3, 0.7, "coin")], others_label="coins", free=1.0)
    above, below = figure.axes
    drawn = {line.get_label(): line for line in above.get_lines()}
    assert drawn["certified optimum"].get_ydata() == pytest.approx((1 - np.array([0, 0.25, 0.5, 1])) ** 2 * BITS)
    assert drawn["coins"].get_ydata() == pytest.approx([0.7 * BITS])
    # The band lies around the curve that the points were taken from.
    (band,) = above.collections
    outline = band.get_paths()[0].vertices
    x, y = outline[1:-1].T
    assert np.all(np.abs(y - (1 - x) ** 2 * BITS) <= 0.25**2 * BITS)
    assert "leakage of S (bits)" in texts(figure)
    assert {"coin", "nothing leaks\nfrom 1.000 on", "certified band", "tolerance"} <= texts(figure)
    widths = {line.get_label(): line.get_ydata() for line in below.get_lines()}
    assert widths["at a point"] == pytest.approx(1e-7 * BITS)
    assert max(widths["between points"]) > 1e-3
    assert set(widths["tolerance"]) == {1e-6 * BITS}


def test_units_are_a_choice():
    figure = plotting.plot_frontier(curve(), units="nats")
    assert max(figure.axes[0].get_lines()[0].get_ydata()) == 1.0
    assert "leakage of S (nats)" in texts(figure)


def test_funnel_boundaries_are_drawn_like_curves_over_budgets():
    joint = np.random.default_rng(0).dirichlet(np.ones(8)).reshape(2, 4)
    targets = np.array([0.5, 0.9, 1.1])
    for kind in (jp.FunnelProblem, jp.BottleneckProblem):
        boundary = jp.funnel_frontier(kind(joint, disclosure=0.5), disclosures=targets)
        above, below = plotting.plot_frontier(boundary, units="nats").axes
        drawn = {line.get_label(): line for line in above.get_lines()}
        assert drawn["certified optimum"].get_xdata() == pytest.approx(targets)
        assert drawn["certified optimum"].get_ydata() == pytest.approx(boundary.value)
        widths = {line.get_label(): line.get_ydata() for line in below.get_lines()}
        assert widths["at a point"] == pytest.approx(np.maximum(boundary.gap, 1e-9))
        assert below.get_xlabel() == "I(X;Y) (nats)"
    prices = jp.funnel_frontier(jp.FunnelProblem(joint, disclosure=0.5), multipliers=[0.3])
    with pytest.raises(InputError, match="curve over disclosures, not over multipliers"):
        plotting.plot_frontier(prices)


@pytest.mark.parametrize("gap", [0.0, 1e-12])
def test_exact_points_stay_on_the_axis(gap):
    low, high = (figure := plotting.plot_frontier(curve(gap=gap))).axes[1].get_ylim()
    figure.canvas.draw()
    assert 0 < low < high


def test_frontier_refuses_what_it_cannot_draw():
    with pytest.raises(InputError, match="multiplier"):
        plotting.plot_frontier(curve("multiplier"))
    with pytest.raises(InputError, match="no point"):
        plotting.plot_frontier(Frontier("budget", curve().points[:1], curve().solution[:1]))


def test_mapping_of_numbered_symbols():
    mechanism = np.array([[0.9, 0.1, 0.0], [0.0005, 0.0, 0.9995]])
    figure = plotting.plot_mapping(mechanism, title="two to three")
    (image,) = figure.axes[0].images
    shown = np.ma.filled(image.get_array(), np.nan)
    assert np.isnan(shown[[0, 1, 1], [2, 0, 1]]).all()
    assert shown[0, 1] == pytest.approx(0.1)
    assert {"two to three", "true symbol x", "released symbol y"} <= texts(figure)


def test_mapping_of_named_symbols_says_what_changes():
    data = datasets.census_small()
    # Everybody becomes female with the same education: only the gender of men changes.
    mechanism = np.zeros((8, 8))
    mechanism[np.arange(8), np.arange(8) % 4] = 1
    figure = plotting.plot_mapping(mechanism, data)
    men = 100 * data.joint.sum(axis=0)[4:].sum()
    assert {"Female", "Male", "gender", "education", f"{men:.1f} %", "0.0 %"} <= texts(figure)


def test_mapping_refuses_other_shapes():
    with pytest.raises(InputError, match="row 0"):
        plotting.plot_mapping(np.ones((2, 2)))
    with pytest.raises(InputError, match="8 useful symbols"):
        plotting.plot_mapping(np.eye(3), datasets.census_small())


@pytest.mark.parametrize("kind", ["png", "pdf", "svg"])
def test_equal_figures_are_equal_files(tmp_path, kind):
    paths = [tmp_path / f"{name}.{kind}" for name in "ab"]
    for path in paths:
        plotting.save(plotting.plot_frontier(curve(), tol=1e-6), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert paths[0].stat().st_size > 1000


def test_save_refuses_other_kinds(tmp_path):
    for name in ("figure.txt", "figure"):
        with pytest.raises(InputError, match="png"):
            plotting.save(plotting.plot_frontier(curve()), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_style_stays_inside():
    before = dict(matplotlib.rcParams)
    plotting.image_bytes(plotting.plot_frontier(curve()))
    assert dict(matplotlib.rcParams) == before


def test_missing_matplotlib_is_said_with_the_remedy(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ResourceError, match="jaxpriv\\[plots\\]"):
        plotting.plot_frontier(curve())
