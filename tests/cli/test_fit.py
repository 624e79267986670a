"""`jaxpriv fit`: mistakes of the command line, and what they cost."""

import contextlib
import os
import subprocess
import sys

import numpy as np
import pytest

from jaxpriv.release import Mechanism
from tests.cases import run_python
from tests.cli.conftest import answered, mistaken, printed, refused, run, strict_json

COLUMNS = "--private income --useful age --useful town"
MISTAKES = {
    "--private incme --useful age": "no column 'incme' among its 3; did you mean 'income'?",
    "--private income --useful aeg": "did you mean 'age'?",
    "--private Income --useful age": "did you mean 'income'?",
    f"{COLUMNS} --bins agee=quantiles:3": "did you mean 'age'?",
    f"{COLUMNS} --distortion twon=changed": "did you mean 'town'?",
    f"{COLUMNS} --bins age=quantile:3": "did you mean 'quantiles'?",
    f"{COLUMNS} --split 2": "--split",
    f"{COLUMNS} --leakage maximal-leakge": "did you mean 'maximal-leakage'?",
}


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(
        "income,age,town\n" + "".join(f"{i * 7 % 10 < 3 + 2 * (i % 3)},{i % 3},{i % 2}\n" for i in range(600))
    )
    return path


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_name_that_was_meant(people, mistake):
    mistaken(f"fit people.csv {mistake} --budget 0.2 --out design.zip", MISTAKES[mistake])


def test_a_mistake_costs_no_import_of_jax(people, tmp_path):
    """All of them in a fresh process."""
    end = ["--budget", "0.2", "--out", str(tmp_path / "d.zip")]
    lines = [["fit", str(people), *mistake.split(), *end] for mistake in MISTAKES]
    absent, wrong = str(tmp_path / "absent.npz"), [str(people), "--private", "incom", "--useful", "age"]
    lines += [[command, absent] for command in ("solve", "frontier", "funnel", "watchdog")]
    lines += [["report", absent, "--out", str(tmp_path / "r.html")], ["plot", absent, "--out", str(tmp_path / "p.png")]]
    lines += [[command, *wrong] for command in ("advise", "solve", "frontier", "funnel", "watchdog")]
    lines += [["excess", *wrong, "--released", "town"], ["counts", str(people), "--design", absent]]
    code = (
        f"import sys\nfrom jaxpriv.cli import app\ncodes = [app(line, standalone_mode=False) for line in {lines!r}]\n"
        "assert codes == [2] * len(codes), codes\nassert 'jax' not in sys.modules\nassert 'equinox' not in sys.modules"
    )
    run_python("-c", code)


def test_a_file_without_a_header_gets_the_hint_and_no_value_is_shown(tmp_path):
    """A first record that resembles a name is not suggested: it is data."""
    path = tmp_path / "people.csv"
    path.write_text("incomes,31,north\nhigh,45,south\n")
    found = run(f"fit people.csv {COLUMNS} --budget 0.2 --out design.zip")
    refused(found, 2, "for a file without a header name all its columns", "--read names=A,B")
    shown = found.stderr.replace(str(tmp_path), "")  # whose name has numbers
    assert not any(value in shown for value in ("incomes", "31", "north"))


def test_a_terminal_shows_the_stages(people, tmp_path):
    """A bar on a terminal of 80 columns, and then the results; nothing of it stays in the way."""
    pty = pytest.importorskip("pty", reason="the system has no terminals of Unix")
    line = ["fit", str(people), *COLUMNS.split(), "--budget", "0.2", "--out", str(tmp_path / "design.zip")]
    terminal, end = pty.openpty()
    settings = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
    process = subprocess.Popen([sys.executable, "-m", "jaxpriv", *line], stdout=end, stderr=end, env=settings)
    os.close(end)
    shown = b""
    with contextlib.suppress(OSError):  # the end of a terminal, on Linux
        while part := os.read(terminal, 2**16):
            shown += part
    os.close(terminal)
    assert process.wait(timeout=60) == 0
    assert "Fitting" in shown.decode()
    assert "certified gap" in shown.decode()
    assert (tmp_path / "design.zip").exists()


def test_a_design_is_a_zip(people, tmp_path):
    line = f"fit people.csv {COLUMNS} --budget 0.2 --out"
    mistaken(f"{line} d.csv", "--out must end in .zip, not d.csv")
    mistaken(f"{line} d.zip --private-out a.npz", "--private-out must end in .zip")
    assert list(tmp_path.iterdir()) == [people]


@pytest.mark.usefixtures("surely")
def test_numbers_with_commas_from_the_table_to_the_check(tmp_path):
    """The readers of the library and of the verifier take the same records for the same."""
    (tmp_path / "t.csv").write_text("income;pay\n" + "".join(f"{i % 2};{1 + i % 3}.{i % 7:03},5\n" for i in range(300)))
    read = "--read delimiter=; --read decimal=, --read thousands=."
    columns = "--private income --useful pay --bins pay=edges:1000,2000.5,4000"
    printed("fit t.csv", read, columns, "--budget 0.1 --out design.zip")
    order = answered("release t.csv", read, "--design design.zip --out out.csv --receipt receipt.json")["order"]
    assert "2000.5" in (tmp_path / "out.csv").read_text()
    files = "--design design.zip --released out.csv --records t.csv"
    printed("verify receipt.json", files, read, "--order", order)


def test_a_target_that_x_itself_meets_is_refused_or_stated(people, tmp_path):
    """I(S;Y) is at most ln 2: with 5 nats every record is released as it is."""
    out = tmp_path / "design.zip"
    line = f"fit people.csv {COLUMNS} --leakage-budget 5 --out design.zip"
    with pytest.warns(UserWarning, match="Every record is released as it is"):
        mistaken(line, "every record would be released as it is", "--unchanged")
    assert not out.exists()
    with pytest.warns(UserWarning, match="Every record is released as it is"):
        found = run(line, "--unchanged")
    assert found.exit_code == 0, found.output
    assert "Every record is released as it is" in found.stdout
    assert "leakage-budget 5 nats, leakage: mutual-information" in found.stdout
    table = Mechanism.load("design.zip").matrix()
    assert np.array_equal(table, np.eye(len(table)))


def test_a_leakage_tolerance_is_above_the_least_leakage(people):
    options = f"{COLUMNS} --budget 0.2 --leakage-tolerance 0.01"
    record = answered("fit people.csv", options, "--out design.zip")
    target = Mechanism.load("design.zip").asked
    assert target.problem == "leakage-budget"
    plain = answered(f"fit people.csv {COLUMNS} --budget 0.2 --out design.zip")
    assert target.target == pytest.approx(float(plain["on_the_design"]["leakage"]["upper"]) + 0.01, abs=2e-6)
    assert float(record["on_the_design"]["distortion"]["upper"]) < 0.2
    assert any(" nats; the leakage budget is" in sentence for sentence in record["statements"])
    mistaken(f"fit people.csv {options} --population --out design.zip", "--leakage-tolerance goes with --budget")


def test_a_time_limit_and_progress(people, tmp_path):
    """At 0 s there is a design that meets its target, and the command says that it is not the best one."""
    out = tmp_path / "design.zip"
    line = ("fit", people, COLUMNS, "--budget 0.2 --out", out, "--progress")
    with pytest.warns(UserWarning, match="Every record is released as it is"):  # what needs no iteration
        found = run(*line[:-1], "--time-limit 0")
    refused(found, 2, "time limit: every record would be released as it is", "allow more --time-limit")
    with pytest.warns(UserWarning, match="Every record is released as it is"):
        found = run(*line, "--time-limit 0 --unchanged --json -")
    assert found.exit_code == 4, found.output
    assert "error: time limit: not certified to --tol 1e-06" in found.stderr
    assert "jaxpriv: reading the records, " in found.stderr
    record = strict_json(found.stdout)
    assert record["status"] == "best_known"
    assert float(record["on_the_design"]["distortion"]["upper"]) <= 0.2
    printed("verify design.zip")
    refused(run(*line, "--time-limit -1"), 2, "--time-limit must be")
