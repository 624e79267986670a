"""`jaxpriv.plotting`: figures show what is proved, carry units, and are the same file every time."""

import matplotlib
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import Frontier, Solution, datasets, leakage as lk, plotting
from jaxpriv.errors import ResourceError
from tests.cases import drawn_joint, raised, refused

BITS = 1 / np.log(2)
JOINT = drawn_joint(0, 2, 4)


def curve(gap=1e-7):
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
    joint = np.array([[0.5, 0.0], [0.0, 0.5]])
    return Frontier("budget", points, solution, jp.DistortionProblem(joint, 1 - np.eye(2), budget=0.1))


def lines_of(axes):
    return {line.get_label(): line for line in axes.get_lines()}


def texts(figure):
    figure.canvas.draw()
    return {text.get_text() for text in figure.findobj(matplotlib.text.Text)}


def test_where_nothing_leaks_is_rounded_to_the_side_where_it_holds():
    assert "nothing leaks\nfrom 0.409 on" in texts(plotting.plot_frontier(curve(), free=0.40811))
    assert "nothing leaks\nfrom 0.290 on" in texts(plotting.plot_frontier(curve(), free=0.29))


def test_points_marks_and_words_are_inside_of_the_axes():
    for spent in (0.3, 2.0):
        figure = plotting.plot_frontier(curve(), others=[(spent, 0.7, "coin")], free=1.0)
        figure.canvas.draw()
        axes = figure.axes[0]
        assert max(1.0, spent) < axes.get_xlim()[1]
        (words,) = (text for text in axes.texts if text.get_text().startswith("nothing leaks"))
        assert words.get_window_extent().x1 <= figure.bbox.x1


def test_frontier_shows_band_points_units_and_others():
    figure = plotting.plot_frontier(
        curve(), tol=1e-6, others=[(0.3, 0.7, "coin")], others_label="coins", free=1.0, units="bits"
    )
    above, below = figure.axes
    drawn = lines_of(above)
    assert drawn["certified optimum"].get_ydata() == pytest.approx((1 - np.array([0, 0.25, 0.5, 1])) ** 2 * BITS)
    assert drawn["coins"].get_ydata() == pytest.approx([0.7 * BITS])
    # The band lies around the curve that the points were taken from.
    (band,) = above.collections
    outline = band.get_paths()[0].vertices
    x, y = outline[1:-1].T
    assert np.all(np.abs(y - (1 - x) ** 2 * BITS) <= 0.25**2 * BITS)
    assert "mutual information I(S;Y) (bits)" in texts(figure)
    assert {"coin", "nothing leaks\nfrom 1.000 on", "certified band", "tolerance"} <= texts(figure)
    widths = {name: line.get_ydata() for name, line in lines_of(below).items()}
    assert widths["at a point"] == pytest.approx(1e-7 * BITS)
    assert max(widths["between points"]) > 1e-3
    assert set(widths["tolerance"]) == {1e-6 * BITS}


def test_funnel_boundaries_are_drawn_like_curves_over_budgets():
    targets = np.array([0.5, 0.9, 1.1])
    for kind in (jp.FunnelProblem, jp.BottleneckProblem):
        boundary = jp.funnel_frontier(kind(JOINT, disclosure=0.5), disclosures=targets)
        above, below = plotting.plot_frontier(boundary, units="nats").axes
        drawn = lines_of(above)
        assert drawn["certified optimum"].get_xdata() == pytest.approx(targets)
        assert drawn["certified optimum"].get_ydata() == pytest.approx(boundary.value)
        widths = {name: line.get_ydata() for name, line in lines_of(below).items()}
        assert widths["at a point"] == pytest.approx(np.maximum(boundary.gap, 1e-9))
        assert below.get_xlabel() == "I(X;Y) (nats)"


def test_any_mixture_of_curves_has_one_axis():
    funnel = jp.funnel_frontier(jp.FunnelProblem(JOINT, disclosure=0.5), disclosures=[0.5, 0.9])
    bottleneck = jp.funnel_frontier(jp.BottleneckProblem(JOINT, disclosure=0.5), multipliers=[0.3])
    designed = jp.frontier(jp.DistortionProblem(JOINT, 1 - np.eye(4), budget=0.1), budgets=[0.1, 0.3])
    figure = plotting.plot_frontier(funnel, bottleneck, designed, units="bits")
    drawn = lines_of(figure.axes[0])
    assert drawn["privacy funnel"].get_xdata() == pytest.approx(funnel.targets * BITS)
    assert drawn["information bottleneck"].get_ydata() == pytest.approx(bottleneck.leakage * BITS)
    # The mechanisms of a curve over budgets stand where their own I(X;Y) is.
    own = lk.evaluate(lk.MutualInformation(), np.diag(JOINT.sum(0)), designed[0].mechanism, "bits")
    assert drawn["least mutual information I(S;Y)"].get_xdata()[0] == pytest.approx(own.value)
    assert drawn["least mutual information I(S;Y)"].get_ydata() == pytest.approx(designed.leakage * BITS)
    assert figure.axes[-1].get_xlabel() == "I(X;Y) (bits)"


def test_a_curve_over_leakage_budgets_is_the_same_curve_read_across():
    ask = lambda **form: jp.DistortionProblem(JOINT, 1 - np.eye(4), **form)  # noqa: E731
    limits = np.array([0.01, 0.03, 0.06])
    across = jp.frontier(ask(budget=0.1), leakage_budgets=limits)
    along = jp.frontier(ask(budget=0.1), budgets=across.value)
    figure = across.plot()
    points = lines_of(figure.axes[0])["certified optimum"]
    assert points.get_xdata() == pytest.approx(across.value, abs=1e-6)
    assert points.get_ydata() == pytest.approx(along.value, abs=1e-5)
    numbers = plotting.drawn_curve(across)
    known = np.isfinite(numbers.high)
    low, high = along.band(numbers.grid[known])
    assert (numbers.low[known] <= high + 1e-9).all()
    assert (low <= numbers.high[known] + 1e-9).all()


def test_axes_of_ones_own_take_the_curve_alone():
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    assert plotting.plot_frontier(curve(), ax=axes, title="mine") is axes.figure
    assert len(axes.figure.axes) == 1
    assert axes.get_title(loc="left") == "mine" or axes.get_title() == "mine"
    assert axes.get_xlabel() == "distortion budget"


def test_every_solution_draws_its_mapping():
    designed = jp.solve(jp.DistortionProblem(JOINT, 1 - np.eye(4), budget=0.1))
    funnel = jp.solve(jp.FunnelProblem(JOINT, disclosure=0.5))
    for one in (designed, funnel):
        (image,) = one.plot(title="mapping").axes[0].images
        shown = np.ma.filled(image.get_array(), 0.0)
        np.testing.assert_allclose(shown, np.where(one.mechanism >= 1e-3, one.mechanism, 0.0))
    with refused("dimension"):
        plotting.plot_mapping(
            jp.frontier(jp.DistortionProblem(JOINT, 1 - np.eye(4), budget=0.1), budgets=[0.1]).solutions
        )


def test_a_solver_looks_the_same_everywhere_and_no_two_of_a_figure_alike():
    for group in (
        ("interior-point", "mirror-descent", "blahut-arimoto", "accelerated", "two-grid", "linear-program"),
        ("interior-point", "accelerated", "clarabel", "ecos", "scs", "highs"),
        ("column-generation", "greedy", "greedy-ratio", "difference-of-convex", "alternating"),
    ):
        seen = [tuple(sorted(plotting.solver_style(name).items())) for name in group]
        assert len({*seen}) == len(group)
        assert len({plotting.solver_style(name)["color"] for name in group}) == len(group)


@pytest.mark.parametrize("gap", [0.0, 1e-12])
def test_exact_points_stay_on_the_axis(gap):
    low, high = (figure := plotting.plot_frontier(curve(gap=gap))).axes[1].get_ylim()
    figure.canvas.draw()
    assert 0 < low < high


ONE = curve()
OTHER_MEASURE = jp.DistortionProblem(ONE.problem.joints[0], 1 - np.eye(2), budget=0.1, leakage=lk.CorrectGuess())


@pytest.mark.parametrize(
    ("curves", "options", "message"),
    [
        ((), {}, "needs a curve"),
        ((ONE, ONE.solutions), {}, r"curves\[1\] must be a Frontier"),
        ((Frontier("budget", ONE.targets[:1], ONE.solutions[:1], ONE.problem),), {}, "no point"),
        (
            (Frontier("budget", np.stack([ONE.targets] * 2, axis=1), ONE.solutions, ONE.problem),),
            {},
            "several distortions",
        ),
        ((ONE,), {"labels": ["a", "b"]}, "labels has 2 entries for 1"),
        ((ONE,), {"units": "shannons"}, "units must be"),
        ((ONE, Frontier("budget", ONE.targets, ONE.solutions, OTHER_MEASURE)), {}, "no axis in common"),
    ],
)
def test_frontier_refuses_what_it_cannot_draw(curves, options, message):
    with refused(message):
        plotting.plot_frontier(*curves, **options)


def test_mapping_of_numbered_symbols():
    mechanism = np.array([[0.9, 0.1, 0.0], [0.0005, 0.0, 0.9995]])
    figure = plotting.plot_mapping(mechanism, title="two to three")
    (image,) = figure.axes[0].images
    shown = np.ma.filled(image.get_array(), np.nan)
    assert np.isnan(shown[[0, 1, 1], [2, 0, 1]]).all()
    assert shown[0, 1] == pytest.approx(0.1)
    assert {"two to three", "true symbol x", "released symbol y"} <= texts(figure)


@pytest.mark.parametrize(("inputs", "outputs"), [(3, 3), (2, 7), (40, 1)])
def test_numbered_symbols_have_whole_numbers(inputs, outputs):
    figure = plotting.plot_mapping(np.full((inputs, outputs), 1 / outputs))
    figure.canvas.draw()
    for axis, count in ((figure.axes[0].xaxis, outputs), (figure.axes[0].yaxis, inputs)):
        shown = [float(tick) for tick in axis.get_ticklocs() if -0.5 <= tick <= count - 0.5]
        assert shown
        assert all(tick.is_integer() for tick in shown)


def test_mapping_of_named_symbols_says_what_changes():
    data = datasets.census_small()
    # Everybody becomes female with the same education: only the gender of men changes.
    mechanism = np.zeros((8, 8))
    mechanism[np.arange(8), np.arange(8) % 4] = 1
    figure = plotting.plot_mapping(mechanism, data)
    men = 100 * data.joint.sum(axis=0)[4:].sum()
    assert {"Female", "Male", "gender", "education", f"{men:.1f} %", "0.0 %"} <= texts(figure)


def test_posteriors_are_bars_whose_areas_are_the_masses_of_s_and_outputs():
    """Outputs 1 and 2 have one posterior; the last private symbol has no mass."""
    mechanism = np.array([[0.7, 0.2, 0.1], [0.4, 0.4, 0.2], [0.1, 0.6, 0.3], [0.1, 0.6, 0.3]])
    joint = np.vstack([JOINT, np.zeros(4)])
    figure = plotting.plot_posteriors(joint, mechanism, title="three outputs")
    masses = JOINT @ np.column_stack([mechanism[:, 0], mechanism[:, 1:].sum(axis=1)])
    masses = masses[:, np.argsort(-masses.sum(axis=0))]
    bars = figure.axes[0].patches
    areas = np.reshape([bar.get_width() * bar.get_height() for bar in bars], (2, 2))
    assert areas == pytest.approx(masses)
    assert [bar.get_x() for bar in bars[:2]] == pytest.approx([0.0, masses[:, 0].sum()])
    assert [bar.get_y() for bar in bars[2:]] == pytest.approx(masses[0] / masses.sum(axis=0))
    (prior,) = figure.axes[0].get_lines()
    assert prior.get_ydata() == pytest.approx([JOINT.sum(axis=1)[0]] * 2)
    assert {"three outputs", "s = 0", "s = 1"} <= texts(figure)
    assert "s = 2" not in texts(figure)
    plotting.plot_posteriors(joint, mechanism, ax=figure.axes[0])
    assert len(figure.axes[0].patches) == 8


def test_mapping_refuses_other_shapes():
    with refused("row 0"):
        plotting.plot_mapping(np.ones((2, 2)))
    with refused("8 useful symbols"):
        plotting.plot_mapping(np.eye(3), datasets.census_small())


@pytest.mark.parametrize(
    ("plot", "data"),
    [
        (plotting.plot_frontier, (ONE,)),
        (plotting.plot_mapping, (np.eye(4),)),
        (plotting.plot_posteriors, (JOINT, np.eye(4))),
    ],
)
def test_what_is_no_axes_is_refused(plot, data):
    with refused("ax must be of type Axes, not int"):
        plot(*data, ax=3)


@pytest.mark.parametrize("kind", ["png", "pdf", "svg"])
def test_equal_figures_are_equal_files(tmp_path, kind):
    paths = [tmp_path / f"{name}.{kind}" for name in "ab"]
    for path in paths:
        plotting.save(plotting.plot_frontier(curve(), tol=1e-6), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert paths[0].stat().st_size > 1000


def test_save_refuses_other_kinds(tmp_path):
    for name in ("figure.txt", "figure"):
        with refused("png"):
            plotting.save(plotting.plot_frontier(curve()), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_notebook_shows_a_figure_without_pyplot():
    for figure in (plotting.plot_frontier(curve()), plotting.plot_mapping(np.eye(2))):
        assert figure._repr_png_().startswith(b"\x89PNG\r\n\x1a\n")


@pytest.mark.parametrize("own", [True, False])
def test_a_figure_has_its_colours_whoever_writes_it(tmp_path, own):
    """Colours named by their place in the cycle would be those of the moment of drawing."""
    figure = plotting.plot_frontier(curve(), tol=1e-6)
    if own:
        plotting.save(figure, tmp_path / "written.png")
    else:
        figure.savefig(tmp_path / "written.png", metadata={"Software": None})
    plotting.save(plotting.plot_frontier(curve(), tol=1e-6), tmp_path / "expected.png")
    assert (tmp_path / "written.png").read_bytes() == (tmp_path / "expected.png").read_bytes()
    with matplotlib.rc_context({"axes.prop_cycle": matplotlib.cycler("color", ["red"])}):
        axes = matplotlib.figure.Figure().subplots()
        plotting.plot_frontier(curve(), ax=axes)
        drawn = [matplotlib.colors.to_hex(line.get_color()) for line in axes.get_lines()]
    assert drawn[0] == plotting.styles.COLOURS["blue"].lower()


def test_style_stays_inside():
    before = dict(matplotlib.rcParams)
    plotting.image_bytes(plotting.plot_frontier(curve()))
    assert dict(matplotlib.rcParams) == before


def test_missing_matplotlib_is_said_with_the_remedy(absent):
    absent("matplotlib")
    with raised(ResourceError, "jaxpriv\\[plots\\]"):
        plotting.plot_frontier(curve())


def test_many_points_are_a_line():
    above, below = plotting.plot_frontier(curve(), line=True).axes
    (line,) = above.get_lines()
    assert (line.get_marker(), line.get_linestyle()) == ("None", "-")
    assert (np.diff(line.get_xdata()) > 0).all()
    assert {one.get_marker() for one in below.get_lines()} == {"None"}


def test_axes_are_labelled_by_the_measure_in_words_that_fit():
    for measure, label in (
        (lk.Sibson(2.0), "Sibson information of order 2 (nats)"),
        (lk.FInformation(lk.EGamma(1.5)), "E-gamma divergence of gamma 1.5 (probability)"),
    ):
        asked = jp.DistortionProblem(ONE.problem.joints[0], 1 - np.eye(2), budget=0.1, leakage=measure)
        figure = Frontier("budget", ONE.targets, ONE.solutions, asked).plot()
        figure.canvas.draw()
        shown = figure.axes[0].yaxis.label
        assert label in " ".join(shown.get_text().split())
        assert shown.get_window_extent().height < 1.1 * figure.axes[0].bbox.height


def test_figures_of_a_paper_keep_its_size_and_settings(tmp_path):
    plain = plotting.image_bytes(plotting.plot_frontier(curve()))
    with plotting.paper("icml", 2.5, settings={"font.family": "serif", "savefig.dpi": 100}):
        figure = plotting.plot_frontier(curve())
    assert tuple(figure.get_size_inches()) == (plotting.WIDTHS["icml"], 2.5)
    plotting.save(figure, tmp_path / "figure.png")
    assert matplotlib.image.imread(tmp_path / "figure.png").shape[:2] == (250, 325)
    assert "serif" in figure.axes[0].yaxis.label.get_fontfamily()
    assert plotting.image_bytes(plotting.plot_frontier(curve())) == plain


def test_the_style_can_be_switched_off():
    with matplotlib.rc_context({"axes.spines.top": True, "font.size": 11.0}):
        with plotting.paper(styled=False):
            own = plotting.plot_frontier(curve())
        ours = plotting.plot_frontier(curve())
    assert [one.axes[0].spines["top"].get_visible() for one in (own, ours)] == [True, False]
    assert [one.axes[1].xaxis.label.get_fontsize() for one in (own, ours)] == [11.0, 7.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"width": "journal"}, "'journal' is unknown; known: ieee"),
        ({"width": 0.0}, "width must be positive"),
        ({"height": np.nan}, "height"),
        ({"settings": {"font.colour": "red"}}, "font.colour"),
        ({"settings": {"font.size": "large?"}}, "font.size"),
    ],
)
def test_a_paper_that_is_none_is_refused(arguments, message):
    with refused(message), plotting.paper(**arguments):
        pass


def test_pgf_without_latex_is_said(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with raised(ResourceError, "pgf files need LaTeX"):
        plotting.image_bytes(plotting.plot_frontier(curve()), "pgf")
