"""`jaxpriv leakage`: every measure, infinities with their witness, one report for each joint."""

import numpy as np
import pytest

import jaxpriv as jp
from tests.cli.conftest import DISTORTION, JOINT, answered, mistaken, printed, refused, run

MECHANISM = 0.7 * np.eye(4) + 0.3 / 4
# Output 3 excludes private symbol 0.
SHARP_JOINT = np.array([[0.3, 0.1, 0.0, 0.0], [0.1, 0.1, 0.1, 0.1], [0.0, 0.1, 0.0, 0.1]])


def rows(record: dict, name: str) -> list[dict]:
    return [row for row in record["measures"] if row["name"] == name]


def test_round_trip_from_solve(problem):
    solved = answered("solve problem.npz --budget 0.2 --out mechanism.npz")
    record = answered("leakage mechanism.npz --joint problem.npz")
    assert record["units"] == "nats"
    (row,) = rows(record, "mutual-information")
    assert row["value"] == pytest.approx(solved["leakage"], abs=1e-12)
    assert row["joint"] == 0
    assert row["value"] <= record["prior_free_cap"]
    assert {row["name"] for row in record["measures"]} >= {*jp.leakage.NAMES} - {
        "gain-log-loss",
        "maximal-alpha-leakage",
    }


def test_infinite_values_are_text_with_a_witness(save):
    save("mechanism.npz", mechanism=np.eye(4))
    save("joint.npz", joint=SHARP_JOINT)
    record = answered("leakage mechanism.npz --joint joint.npz")
    (row,) = rows(record, "ldp")
    assert row["value"] == "inf"
    witness = row["witness"]
    channel = SHARP_JOINT / SHARP_JOINT.sum(axis=1, keepdims=True)
    assert channel[witness["lowered"], witness["output"]] == 0 < channel[witness["raised"], witness["output"]]
    text = printed("leakage mechanism.npz --joint joint.npz")
    line = next(line for line in text.splitlines() if line.strip().startswith("ldp"))
    assert line.split()[1:3] == ["inf", "nats"]
    assert f"y={witness['output']}" in line


def test_text_in_bits_and_the_cap_apart(save, problem):
    save("mechanism.npz", mechanism=MECHANISM)
    result = printed("leakage mechanism.npz --joint problem.npz --units bits")
    line = next(line for line in result.splitlines() if "mutual-information" in line)
    exact = jp.leakage.evaluate(jp.leakage.MutualInformation(), JOINT, MECHANISM, units="bits").value
    assert exact <= float(line.split()[1]) <= exact * (1 + 1e-5)
    assert f"prior-free cap: {np.log2(4 * (0.7 + 0.3 / 4)):.5}"[:21] in result


def test_orders_and_several_joints(save):
    save("mechanism.npz", mechanism=MECHANISM)
    save("joints.npz", joint=np.stack([JOINT, SHARP_JOINT]))
    record = answered("leakage mechanism.npz --joint joints.npz --order 3 4 --envelope 0.1 1")
    for name in ("sibson", "arimoto"):
        assert [(row["joint"], row["order"]) for row in rows(record, name)] == [
            (joint, order) for joint in (0, 1) for order in (0.5, 2.0, 10.0, 3.0, 4.0)
        ]
    largest = [
        max(
            np.log(outputs / outputs.sum(axis=0) / joint.sum(axis=1, keepdims=True)).max()
            for outputs in [joint @ MECHANISM]
        )
        for joint in (JOINT, SHARP_JOINT)
    ]  # of outputs that all have more than the mass .1
    assert [(point["joint"], point["delta"], point["value"]) for point in record["envelopes"]] == [
        (joint, delta, pytest.approx(value, abs=1e-12))
        for joint, most in enumerate(largest)
        for delta, value in ((0.1, most), (1.0, 0.0))
    ]
    assert len(record["absent_private"]) == len(record["unused_outputs"]) == 2
    refused(run("leakage mechanism.npz --joint joints.npz --envelope 1.5"), 2, "--envelope")
    text = printed("leakage mechanism.npz --joint joints.npz --envelope 0.1 --units bits")
    assert "leakage envelope at mass 0.1" in text
    assert "joint 0" in text
    assert "joint 1" in text


def test_symbols_without_mass_are_listed(save):
    save("mechanism.npz", mechanism=np.tile([0.5, 0.5, 0.0, 0.0], (4, 1)))
    save("joint.npz", joint=np.vstack([JOINT[:2] / JOINT[:2].sum(), np.zeros(4)]))
    record = answered("leakage mechanism.npz --joint joint.npz")
    assert record["absent_private"] == [[2]]
    assert record["unused_outputs"] == [[2, 3]]
    text = printed("leakage mechanism.npz --joint joint.npz")
    assert "private symbols without mass: 2" in text
    assert "outputs never released: 2, 3" in text


BAD = {
    "nan": (np.where(np.eye(4) > 0, np.nan, 0.0), JOINT, ["mechanism[0, 0]", "NaN"]),
    "rows": (MECHANISM * 0.9, JOINT, ["mechanism", "row 0"]),
    "second joint": (MECHANISM, np.stack([JOINT, -JOINT]), ["joint[1][0, 0]", "negative"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_arrays(save, tmp_path, case):
    mechanism, joint, words = BAD[case]
    line = ("leakage", save("mechanism.npz", mechanism=mechanism), "--joint", save("joint.npz", joint=joint))
    refused(run(*line, "--json report.json"), 2, *words)
    assert not (tmp_path / "report.json").exists()


def test_bad_files_and_options(save, problem, tmp_path):
    save("mechanism.npz", mechanism=MECHANISM)
    mistaken("leakage mechanism.npz", "--joint")
    mistaken("leakage mechanism.npz --joint absent.npz", "absent.npz")
    mistaken("leakage problem.npz --joint problem.npz", "no array named 'mechanism'")
    mistaken("leakage mechanism.npz --joint problem.npz --json problem.npz", "--json", "--joint")
    mistaken("leakage mechanism.npz --joint problem.npz --order -1", "order")
    mistaken("leakage mechanism.npz --joint problem.npz --order nan", "order")
    (tmp_path / "text.npz").write_text("no arrays")
    refused(run("leakage text.npz --joint problem.npz"), 5, "text.npz")
    assert np.array_equal(np.load(problem)["distortion"], DISTORTION)
