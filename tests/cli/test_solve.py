"""`jaxpriv solve`: the JSON of other people's scripts, exit codes, and refusals before any work."""

import os

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv.cli import solve as command
from tests.cases import files_end_at, spent, value_of
from tests.cli.conftest import DISTORTION, JOINT, answered, mistaken, printed, refused, run, strict_json

FIELDS = ["status", "value", "lower_bound", "gap", "leakage", "distortion", "solver", "iterations", "seconds", "units"]


def other(**changes) -> dict:
    return {"joint": JOINT, "distortion": DISTORTION} | changes


def changed(array: np.ndarray, index: tuple, value: float) -> np.ndarray:
    result = array.copy()
    result[index] = value
    return result


# -- results ---------------------------------------------------------------------------------------


def test_json_has_exactly_the_promised_fields(problem):
    result = run("solve problem.npz --budget 0.2 --out mechanism.npz --json -")
    assert (result.exit_code, result.stderr) == (0, "")
    record = strict_json(result.stdout)
    assert list(record) == FIELDS
    assert record["status"] == "optimal"
    assert record["units"] == "nats"
    assert list(record["seconds"]) == ["compile", "solve"]
    assert type(record["iterations"]) is int
    assert record["solver"] == "interior-point"
    assert 0 <= record["gap"] == pytest.approx(record["value"] - record["lower_bound"], abs=1e-15)
    assert record["gap"] <= 1e-6
    expected = jp.solve(jp.DistortionProblem(JOINT, DISTORTION, budget=0.2))
    assert record["value"] == float(expected.value)
    # The file holds the mechanism that the numbers are about.
    mechanism = np.load("mechanism.npz")["mechanism"]
    assert mechanism.dtype == np.float64
    assert mechanism.shape == (4, 4)
    assert np.allclose(mechanism.sum(axis=1), 1, atol=1e-12)
    assert record["distortion"] == [pytest.approx(spent(JOINT, DISTORTION, mechanism))]
    measured = jp.leakage.evaluate(jp.leakage.MutualInformation(), JOINT, mechanism)
    assert record["leakage"] == pytest.approx(measured.value, abs=1e-12)


def test_a_leakage_tolerance_adds_the_least_leakage(problem):
    options = "--budget 0.2 --leakage-tolerance 0.01"
    record = answered("solve problem.npz", options)
    assert list(record) == [*FIELDS, "least_leakage"]
    least = record["least_leakage"]
    assert list(least) == FIELDS
    assert 0.2 > record["value"] == pytest.approx(record["distortion"][0])
    assert least["value"] < record["leakage"] <= least["value"] + 0.01
    shown = printed("solve problem.npz", options)
    assert "least distortion" in shown
    assert "least leakage" in shown
    mistaken("solve problem.npz --leakage-budget 0.1 --leakage-tolerance 0.01", "goes with --budget")


def test_json_file_and_text(problem, tmp_path):
    target = tmp_path / "result.json"
    nats = run("solve problem.npz --budget 0.2 --json result.json")
    record = strict_json(target.read_text())
    assert list(record) == FIELDS
    bits = run("solve problem.npz --budget 0.2 --units bits")

    def shown(text: str, field: str) -> float:
        line = next(line for line in text.splitlines() if line.startswith(field))
        return float(line.removeprefix(field).split()[0])

    # Bounds are rounded away from each other, so the printed interval holds what is proved.
    assert record["value"] <= shown(nats.stdout, "least leakage") <= record["value"] + 1e-6
    assert record["lower_bound"] - 1e-6 <= shown(nats.stdout, "lower bound") <= record["lower_bound"]
    assert shown(bits.stdout, "least leakage") == pytest.approx(record["value"] / np.log(2), rel=1e-5)


def test_multiplier_adds_the_distortion(problem):
    record = answered("solve problem.npz --multiplier 0.3")
    assert record["value"] == pytest.approx(record["leakage"] + 0.3 * record["distortion"][0], abs=1e-9)


@pytest.mark.parametrize("budgets", ["--budget 5 6", "--budget 5 --budget 6", "--budget=5 6", "--budget=5 --budget=6"])
def test_several_budgets_in_a_row_or_one_by_one(save, budgets):
    save(joint=JOINT, distortion=np.stack([DISTORTION, 2 * DISTORTION]))
    for record in (answered("solve problem.npz", budgets), answered("solve", budgets, "problem.npz")):
        assert len(record["distortion"]) == 2
        assert record["solver"] == "closed-form"


def test_zero_mass_rows_and_columns_are_allowed(save):
    joint = np.zeros((4, 5))
    joint[:3, :4] = JOINT
    save("zeros.npz", joint=joint, distortion=np.vstack([DISTORTION, np.ones(4)]))
    record = answered("solve zeros.npz --budget 0.2 --out mechanism.npz")
    plain = jp.solve(jp.DistortionProblem(JOINT, DISTORTION, budget=0.2))
    assert record["value"] == pytest.approx(float(plain.value), abs=1e-6)
    mechanism = np.load("mechanism.npz")["mechanism"]
    assert mechanism[4] == pytest.approx(joint.sum(axis=0) @ mechanism, abs=1e-9)


# -- other measures --------------------------------------------------------------------------------


def solved(*args):
    record = answered("solve", *args)
    assert record["status"] == "optimal"
    assert record["units"] == "nats"
    assert -1e-12 <= record["gap"] <= 1e-6
    return record


# Loose and tight problems of the same structure share one compiled program.
def test_every_measure_can_be_minimised(problem):
    """With a budget that a release of one symbol meets, all need no iteration; the values are those of no release."""
    extra = {
        "sibson": "--order 2",
        "arimoto": "--order 0.5",
        "maximal-alpha-leakage": "--order inf",
        "f-information": "--divergence kl",
    }
    for name in jp.leakage.NAMES:
        for form in jp.leakage.forms_of(name):
            record = solved("problem.npz", f"--budget 5 --leakage {name} --form {form} {extra.get(name, '')}")
            least = JOINT.sum(axis=1).max() if name == "correct-guess" else 0
            assert record["value"] == pytest.approx(least, abs=1e-12), name
            assert record["leakage"] == pytest.approx(least, abs=1e-12), name


def test_a_measure_in_its_own_unit(problem):
    asked = "problem.npz --budget 0.2 --leakage f-information --divergence chi-squared"
    record = solved(asked, "--out m.npz")
    assert list(record) == [*FIELDS, "leakage_units"]
    assert record["leakage_units"] == "dimensionless"
    mechanism = np.load("m.npz")["mechanism"]
    w = JOINT @ mechanism
    free = np.outer(w.sum(axis=1), w.sum(axis=0))
    assert record["value"] == pytest.approx(np.sum((w - free) ** 2 / free), abs=1e-9)
    text = printed("solve", asked, "--units bits")
    line = next(line for line in text.splitlines() if line.startswith("least leakage"))
    assert line.split()[-1] == "dimensionless"
    assert float(line.split()[-2]) == pytest.approx(record["value"], rel=1e-5)
    assert "bits" not in text
    assert "nats" not in text


def test_form_and_order_choose_the_measure(problem):
    limited = "problem.npz --leakage-budget 0.2"
    worst = solved(limited, "--form worst")
    named = solved(limited, "--leakage max-information")
    assert worst["value"] == named["value"] == pytest.approx(named["distortion"][0], abs=1e-9)
    assert worst["leakage"] <= 0.2 + 1e-9
    assert "least distortion" in printed("solve", limited, "--leakage max-information")
    values = [solved(limited, "--leakage sibson --order", a)["value"] for a in (2, 5)]
    assert values[0] < values[1]


def test_limits_beside_the_objective(problem):
    """Several limits, with parameters; each holds, and more of them cost more."""
    limits = "--limit sibson:2=0.3 --limit=f-information:e-gamma:1.5=0.02"
    both = solved("problem.npz --leakage-budget 0.25 --leakage max-lift", limits, "--out m.npz")
    mechanism = np.load("m.npz")["mechanism"]
    for measure, value in (
        (jp.leakage.MaxLift(), 0.25),
        (jp.leakage.Sibson(2.0), 0.3),
        (jp.leakage.FInformation(jp.leakage.EGamma(1.5)), 0.02),
    ):
        assert value_of(measure, JOINT, mechanism) <= value + 1e-9
    loose = "--limit sibson:2=inf --limit f-information:e-gamma:1.5=inf"
    alone = solved("problem.npz --leakage-budget 0.25 --leakage max-lift", loose)
    assert both["value"] >= alone["lower_bound"] - 1e-9


def test_a_limit_under_every_prior(problem):
    """Local Renyi differential privacy of order 2, of every pair of rows."""
    asked = "problem.npz --budget 0.5 --limit maximal-alpha-leakage:2:2=0.08"
    solved(asked, "--out m.npz")
    answered("frontier", asked, "--out c.npz")
    for mechanism in (np.load("m.npz")["mechanism"], *np.load("c.npz")["mechanism"]):
        assert mechanism.shape == DISTORTION.shape
        rows = (JOINT / JOINT.sum(axis=1, keepdims=True)) @ mechanism
        assert np.log((rows[:, None] ** 2 / rows[None]).sum(axis=-1)).max() == pytest.approx(0.08, abs=1e-4)


def test_the_released_marginal(save):
    """That of x, or the one of the file: the mapping is one of the outputs of the distortion."""
    target = np.array([0.4, 0.2, 0.2, 0.2])
    same, near = save(**other()), save("q.npz", **other(marginal=target))
    for path, within, marginal in ((same, 0, JOINT.sum(axis=0)), (near, 0.02, target)):
        record = solved(path, "--budget 0.4 --marginal", within, "--out m.npz")
        mechanism = np.load("m.npz")["mechanism"]
        assert mechanism.shape == DISTORTION.shape
        released = JOINT.sum(axis=0) @ mechanism
        assert np.abs(released - marginal).sum() / 2 <= within + 1e-9
        assert record["distortion"] == [pytest.approx(JOINT.sum(axis=0) @ (DISTORTION * mechanism).sum(axis=1))]
        assert value_of(jp.leakage.MutualInformation(), JOINT, mechanism) <= record["value"] + 1e-12
    solved(near, "--budget 0.4 --marginal chi-squared=0.01 --out m.npz")
    mechanism = np.load("m.npz")["mechanism"]
    assert mechanism.shape == DISTORTION.shape
    assert ((JOINT.sum(axis=0) @ mechanism - target) ** 2 / target).sum() <= 0.01 + 1e-9
    line = save("line.npz", **other(marginal=target, cost=abs(np.subtract.outer(range(4), range(4)))))
    moved = solved(line, "--budget 0.4 --marginal transport=0.05 --out m.npz")
    released = JOINT.sum(axis=0) @ np.load("m.npz")["mechanism"]
    assert abs(np.cumsum(released - target)).sum() <= 0.05 + 1e-9  # the transport cost on a line
    assert moved["value"] < solved(line, "--budget 0.4 --marginal 0")["value"]
    refused(run("solve", near, "--budget 0.4 --marginal transport=0.05"), 2, "--marginal", "cost")


def test_ldp_between_neighbours_of_the_file(save):
    def value(name, asked="--leakage ldp --leakage-budget 0.5", **more):
        path = save(name, joint=JOINT, distortion=DISTORTION, **more)
        return solved(path, asked)["value"]

    everyone = value("all.npz")
    chain = value("chain.npz", neighbours=np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    assert chain < everyone - 1e-3
    path = save(joint=JOINT, distortion=DISTORTION, neighbours=np.ones((2, 2)))
    refused(run("solve", path, "--leakage ldp --leakage-budget 0.5"), 2, "neighbours", "2", "3")
    for name, scales in (("ldp", np.full((3, 3), 0.6)), ("max-lift", np.full(3, 0.6))):
        plain = value("all.npz", f"--leakage {name} --leakage-budget 0.3")
        scaled = value("scaled.npz", f"--leakage {name} --leakage-budget 0.5", scales=scales)
        assert scaled == pytest.approx(plain, abs=2e-6)
        looser = value("scaled.npz", f"--leakage {name} --leakage-budget 0.5", scales=scales * (1 + np.eye(3)[0]))
        assert looser < plain - 1e-3
    refused(run("solve scaled.npz --leakage ldp --leakage-budget 0.5"), 2, "--leakage ldp", "scales")
    refused(run("funnel scaled.npz --leakage max-lift --disclosure 0.1"), 2, "SymbolMaxLift")
    both = save("both.npz", joint=JOINT, distortion=DISTORTION, neighbours=np.ones((3, 3)), scales=np.ones((3, 3)))
    refused(run("solve", both, "--leakage ldp --leakage-budget 0.5"), 2, "scales without neighbours")
    # Another measure has no use for them.
    printed("solve", path, "--budget 5")


# -- results that are not what one hoped for -------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        ("--budget -0.1", "--budget"),
        ("--leakage-budget -0.1", "--leakage-budget"),
        ("--budget 0.1 --limit max-information=0.05", "--limit and --budget contradict"),
    ],
)
def test_infeasible_writes_the_proof_and_no_mechanism(problem, tmp_path, asked, word):
    target, out = tmp_path / "result.json", tmp_path / "mechanism.npz"
    refused(run("solve problem.npz", asked, "--out mechanism.npz --json result.json"), 3, word)
    record = strict_json(target.read_text())
    assert list(record) == [*FIELDS, "proof"]
    assert record["status"] == "infeasible"
    assert record["value"] == record["lower_bound"] == "inf"
    assert record["gap"] is None
    assert record["proof"]["bound"] > record["proof"]["allowed"]
    assert not out.exists()


@pytest.mark.parametrize("asked", ["--budget 0.2", "--leakage-budget 0.2 --leakage max-information"])
def test_not_certified_still_writes_a_valid_interval(problem, asked):
    result = run("solve problem.npz", asked, "--max-steps 1 --out mechanism.npz --json -")
    assert result.exit_code == 4
    assert "not certified" in result.stderr
    assert result.stderr.count("\n") == 1
    record = strict_json(result.stdout)
    assert record["status"] == "not_certified"
    assert record["gap"] > 1e-6
    optimum = solved("problem.npz", asked)
    assert record["lower_bound"] <= optimum["value"]
    assert record["value"] >= optimum["lower_bound"]
    assert (record["leakage"] if "leakage" in asked else record["distortion"][0]) <= 0.2 + 1e-12
    assert np.load("mechanism.npz")["mechanism"].shape == (4, 4)


# -- bad input -------------------------------------------------------------------------------------

ARRAYS = {
    "nan": (other(joint=changed(JOINT, (1, 2), np.nan)), ["joint[1, 2]", "NaN"]),
    "counts": (other(joint=np.ones((3, 4), dtype=int)), ["joint", "sums to 12", "counts"]),
    "no distortion": ({"joint": JOINT}, ["no array named 'distortion'"]),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_bad_arrays(save, tmp_path, case):
    arrays, words = ARRAYS[case]
    path = save(**arrays)
    mistaken("solve problem.npz --budget 0.2 --out mechanism.npz --json result.json", *words)
    assert os.listdir(tmp_path) == [path.name]


OPTIONS = {
    "--budget nan": ["budget[0]", "NaN"],
    "--budget": ["--budget"],
    "--budget 0.1 0.2": ["budget", "2 entries"],
    "--tol 1e-6": ["exactly one", "none given"],
    "--leakage-budget nan": ["--leakage-budget", "NaN"],
    "--multiplier -1": ["multiplier[0]", "negative"],
    "--budget 0.1 --solver guess": ["--solver", "interior-point", "blahut-arimoto"],
    "--budget 0.1 --leakage gossip": ["unknown", "mutual-information", "ldp"],
    "--budget 0.1 --leakage sibson": ["--leakage sibson", "needs --order"],
    "--budget 0.1 --leakage lift --order 2": ["--leakage lift", "no --order"],
    "--budget 0.1 --leakage f-information --divergence gossip": [
        "--leakage f-information",
        "unknown divergence",
        "chi-squared",
    ],
    "--multiplier 1 --leakage maximal-leakage": ["multiplier", "logarithm"],
    "--budget 0.1 --leakage lift --solver mirror-descent": ["mirror-descent", "interior-point"],
    "--budget 0.1 --limit lift": ["--limit 'lift'", "sibson:2=0.3"],
    "--budget 0.1 --limit lift=-1": ["--limit 'lift=-1'", ">= 0"],
    "--budget 0.1 --limit gossip=1": ["--limit gossip", "unknown", "ldp"],
    "--budget 0.1 --limit sibson=1": ["--limit sibson", "order", "sibson:2=0.3"],
    "--budget 0.1 --limit sibson:2:3=1": ["--limit", "order twice"],
    "--budget 0.1 --limit maximal-alpha-leakage:3:2=1": ["beta", "at least the order"],
    "--budget 0.1 --limit maximal-alpha-leakage:2=1 --limit maximal-alpha-leakage:3=1": ["--limit", "one limit"],
    "--budget 0.1 --limit maximal-alpha-leakage:2=1 --marginal 0": ["--marginal", "without --limit"],
    "--budget 0.1 --leakage maximal-alpha-leakage --order 2": ["--limit"],
    "--leakage-budget 0.1 --marginal 0": ["--marginal", "--budget"],
    "--budget 0.1 --marginal -1": ["--marginal", ">= 0"],
    "--budget 0.1 --marginal near": ["--marginal 'near'", "kl=0.01"],
    "--budget 0.1 --tol 0": ["--tol"],
    "--budget 0.1 --fast": ["--fast"],
}


@pytest.mark.parametrize("options", OPTIONS)
def test_bad_options(problem, tmp_path, options):
    mistaken(f"solve problem.npz {options} --out mechanism.npz", *OPTIONS[options])
    assert os.listdir(tmp_path) == [problem.name]


# -- files -----------------------------------------------------------------------------------------


def test_missing_file_is_bad_input(tmp_path):
    mistaken("solve absent.npz --budget 0.1", "absent.npz", "does not exist")
    refused(run("solve", tmp_path, "--budget 0.1"), 2, "not a regular file")
    mistaken("solve --budget 0.1", "PROBLEM.npz")


@pytest.mark.parametrize("content", [b"", b"joint,distortion\n", b"PK\x03\x04 truncated"])
def test_files_that_are_no_npz(tmp_path, content):
    path = tmp_path / "problem.npz"
    path.write_bytes(content)
    refused(run("solve problem.npz --budget 0.1 --out out.npz"), 5, "problem.npz")
    assert os.listdir(tmp_path) == ["problem.npz"]


def test_outputs_that_cannot_be_written_are_refused_before_the_work(problem, tmp_path):
    """The work would end with code 3: no mechanism has this budget."""
    before = problem.read_bytes()
    link = tmp_path / "link.npz"
    link.symlink_to(problem)
    asked = "solve problem.npz --budget -0.1"
    mistaken(f"{asked} --out problem.npz", "--out", "PROBLEM.npz")
    mistaken(f"{asked} --out link.npz", "--out")
    mistaken(f"{asked} --json problem.npz", "--json")
    design = tmp_path / "design.zip"
    design.write_bytes(b"PK")
    mistaken(f"{asked} --json design.zip", "--json: design.zip exists and is not what --json writes")
    design.unlink()
    mistaken(f"{asked} --out same --json same", "--json", "--out")
    refused(run(asked, "--out", tmp_path), 2, "--out", "not a regular file")
    refused(run(asked, "--out absent/m.npz"), 6, "--out", "No such file")
    refused(run(asked, "--json absent/r.json"), 6, "--json")
    assert problem.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["link.npz", "problem.npz"]


def test_a_failed_write_leaves_no_output(problem, tmp_path):
    with files_end_at(256):
        result = run("solve problem.npz --budget 5 --out m.npz --json r.json")
    refused(result, 6, "File too large")
    assert os.listdir(tmp_path) == ["problem.npz"]


# -- ends of a run ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError(), 6, "MemoryError"),
        (OSError(28, "No space left on device"), 6, "No space left"),
        (RuntimeError("RESOURCE_EXHAUSTED: out of memory"), 6, "out of memory"),
        (RuntimeError("secret 0.123"), 1, "internal error (RuntimeError)"),
    ],
)
def test_exit_codes_of_failures(problem, tmp_path, monkeypatch, error, code, words):
    def fail(*args):
        raise error

    monkeypatch.setattr(command, "working", fail)
    result = run("solve problem.npz --budget 0.2 --out m.npz --json r.json")
    refused(result, code, words)
    assert "secret" not in result.stderr
    assert os.listdir(tmp_path) == ["problem.npz"]


@pytest.mark.parametrize("place", [0, 1, 4])
def test_debug_anywhere_shows_the_traceback(problem, place):
    line = ["solve", problem, "--budget", "nan"]
    line.insert(place, "--debug")
    result = run(line)
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("jaxpriv: error: --budget[0]")
