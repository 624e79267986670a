"""Messages of the library as the command line shows them: options and names of measures, not arguments and classes."""

import math
from fractions import Fraction

import numpy as np
import pytest

from jaxpriv.cli._app import in_words
from jaxpriv.release import Mechanism
from tests.cli.conftest import answered, printed, refused, run

OPTIONS = {"leakage_budget": "--leakage-budget", "seed": "--seed", "sparse": "--sparse", "unseen": "--unseen"}


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("seed must be a whole number", "--seed must be a whole number"),
        ("the seed must be a whole number", "the seed must be a whole number"),
        ("column 'leakage_budget' is missing", "column 'leakage_budget' is missing"),
        ("write leakage_budget=0.25 or more", "write --leakage-budget 0.25 or more"),
        ("choose unseen='suppress'", "choose --unseen suppress"),
        ("declared with `sparse`", "declared with --sparse"),
        ("no `seed[1]` there", "no --seed[1] there"),
        ("not LocalDifferentialPrivacy", "not ldp"),
        ("use MaximalLeakage() there", "use maximal-leakage there"),
        ("use MaximalLeakage(x)", "use MaximalLeakage(x)"),
        ("seeds differ", "seeds differ"),
        ("seed.npz does not exist", "seed.npz does not exist"),
        ("seed/part.csv does not exist", "seed/part.csv does not exist"),
    ],
)
def test_arguments_become_options(message, shown):
    assert in_words(message, OPTIONS) == shown


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ("--budget half", "error: --budget"),
        ("--budget 0.2 --max-steps 1.5", "error: --max-steps"),
        ("--budget 0.2 --units bit", "'nats', 'bits'"),
        ("--budget 0.2 --survey-weight w", "it is an option of jaxpriv joint\n"),
        ("--budget 0.2 --multiplier 1", "(--budget and --multiplier given)"),
    ],
)
def test_values_of_a_wrong_kind(problem, options, shown):
    """One line with the option and what it takes, in no words of the library that reads the line."""
    found = run("solve problem.npz", options)
    refused(found, 2, shown)
    assert not any(word in found.stderr for word in ("Invalid", "Value error", "Input", "parse"))


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("frontier problem.npz --multiplier 1 --leakage sibson --order 2", "convex; use --budget or --leakage-budget"),
        ("solve problem.npz --multiplier 1 --leakage lift", "measure takes --budget or --leakage-budget"),
        ("solve two.npz --leakage-budget 1", "use --budget or --multiplier, or pass"),
        ("solve set.npz --multiplier 1", "a set of joints takes a --budget;"),
        ("funnel problem.npz --multiplier 1 --leakage lift", "give a --disclosure or a --leakage-budget"),
        ("funnel problem.npz --disclosure 1 --leakage lift --method greedy", "--method: greedy takes average measures"),
        ("solve problem.npz --budget 1 --limit lift=1 --solver two-grid", "(--limit[0] is lift)"),
        ("solve problem.npz --budget 1 --checkpoint x", "writes none; choose --solver 'accelerated' or 'two-grid'"),
        (
            "solve problem.npz --budget 1 --leakage arimoto --order -1",
            "--leakage arimoto: --order must be a number > 0",
        ),
        (
            "solve problem.npz --budget 1 --leakage f-information --divergence kl --gamma 2",
            "only divergence 'e-gamma' takes --gamma",
        ),
        ("solve problem.npz --budget 1 --leakage lift --form average", "lift has no form 'average'; it has: worst"),
        ("compare problem.npz problem.npz --useful x --target y", "--target needs paired rows; give --row-order, --id"),
        ("solve problem.npz --budget 1 --leakage-tolerance -1", "--leakage-tolerance must be a finite number >= 0"),
        ("solve two.npz --budget 1 1 --leakage-tolerance 1", "--leakage-tolerance goes with --budget, with one"),
        ("solve problem.npz --budget 1 --marginal nothing=1", "--marginal 'nothing=1': unknown divergence"),
        (f"solve problem.npz --budget 1 --max-steps {10**20}", "--max-steps must be a whole number below 2^53"),
        (
            "frontier problem.npz --bottleneck --disclosure 0.1 --form worst",
            "bottleneck is about mutual information only",
        ),
        ("frontier two.npz --count 2", "error: distortion has 3 dimension(s)"),
    ],
)
def test_a_message_names_options_alone(save, problem, line, shown):
    """Arguments in the middle of a sentence become options too."""
    joint, distortion = np.load(problem)["joint"], np.load(problem)["distortion"]
    save("two.npz", joint=joint, distortion=np.stack([distortion] * 2))
    save("set.npz", joint=np.stack([joint] * 2), distortion=distortion)
    refused(run(line), 2, shown)


@pytest.fixture
def people(tmp_path):
    lines = [f"{'abc'[i % 3]},{'uvw'[i * i % 3]},{i}" for i in range(300)] + ["d,u,1"]
    path = tmp_path / "people.csv"
    path.write_text("group,kind,number\n" + "\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ("--leakage-budget -1", "--leakage-budget must be"),
        ("--budget 0.1 --seed -1", "--seed must be"),
        ("--budget 0.1 --tol 0", "--tol must be"),
        ("--target-leakage 0.1 --tol 1e-3", "--tol is about a certified gap"),
        ("--budget 0.1 --population", "--population is about --leakage-budget and --target-leakage"),
        ("--target-leakage 0.1 --leakage ldp", "--target-leakage is about lift leakage; leave out --leakage"),
        ("--disclosure 0.1 --leakage ldp", "not ldp"),
        ("--budget 0.1 --leakage sibson", "sibson needs --order"),
        ("--budget 0.1 --useful number", "with --sparse"),
        ("--budget 0.1 --split 1 --seed 3", "--seed is about held-out records"),
        ("--disclosure 0.1 --weight kind=2", "--distortion and --weight go with --budget and --leakage-budget"),
        ("--budget 0.1 --useful group", "name it in --shared"),
    ],
)
def test_fit(people, tmp_path, options, shown):
    out = tmp_path / "design.zip"
    found = run("fit people.csv --private group --useful kind", options, "--out design.zip")
    refused(found, 2, shown)
    assert not out.exists()


def test_bounds_of_a_design_are_those_of_its_measure(people):
    """Of all rows with its name the last one was printed, order 10 in place of 2, and none of an order that no report
    has; and the largest information over outputs was called the mutual information.
    """
    asked = "fit people.csv --private group --useful kind --budget 0.3 --sparse --out design.zip"
    for measure, named in (
        ("--leakage sibson --order 2", ("sibson", 2.0)),
        ("--leakage sibson --order 3", ("sibson", 3.0)),
        ("--leakage mutual-information --form worst", ("max-information", None)),
        ("--leakage f-information --divergence kl", ("f-information", "kl")),
    ):
        rows = answered(asked, measure)["population"]["measures"]
        (bound,) = (row["upper"] for row in rows if (row["name"], row["order"] or row["divergence"]) == named)
        text = printed(asked, measure)
        assert f"leakage: {named[0]}" in text
        assert ("No lower bound is stated" in text) == (named[0] != "max-information")
        (shown,) = (line for line in text.splitlines() if f"  {named[0]}" in line)
        assert float(shown.split()[-2]) == pytest.approx(bound, rel=1e-5)


def test_a_share_of_records_is_not_rounded_below_itself(people):
    """100 * 0.57 is below 57 in floating-point numbers: the screen said 56.99 %. 100 * 0.55 is
    above 55: with a release that says nothing the guess was right in 55.01 %.
    """
    for of_a, budget, line in ((57, 0.1, "without a release"), (55, 0.5, "with the release")):
        rows = ["a,u"] * of_a + ["b,v"] * (100 - of_a)
        people.write_text("group,kind\n" + "\n".join(rows) + "\n")
        shown = printed(f"fit people.csv --private group --useful kind --budget {budget} --split 1 --out design.zip")
        (share,) = (row.split("  ")[-1] for row in shown.splitlines() if row.startswith(f"    {line}"))
        assert share.strip().removeprefix("at most ") == f"{of_a} %"


def test_fit_says_why_the_watchdog_withholds_everything(people):
    """A private class with one record: no symbol is released, and the output names the cause."""
    asked = "--private group --useful kind --target-leakage 0.3 --split 1"
    found = run("fit people.csv", asked, "--out design.zip")
    assert "because of private symbol 3 (from 0), which has 1 record" in found.stdout


def test_a_log_ratio_is_in_the_units_asked_for(people):
    """ln P(y|x)/P(y|x') in bits is no exponent of e: the label names the logarithm."""
    asked = "--private group --useful kind --budget 0.3 --units bits"
    found = run("fit people.csv", asked, "--out design.zip")
    (line,) = (line for line in found.stdout.splitlines() if "largest ln P" in line)
    bound = Mechanism.load("design.zip").guarantees["ldp"].upper
    assert line.endswith(" bits")
    assert float(line.split()[-2]) == pytest.approx(float(Fraction(bound)) / math.log(2), rel=1e-5)
