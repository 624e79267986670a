"""From a raw file to a checked release: the census and COMPAS, where their files are beside the repository."""

import csv

import numpy as np
import pytest

from jaxpriv import datasets
from jaxpriv.release import Mechanism, fit, release
from jaxpriv.verifier import verify
from tests.cases import raw
from tests.cli.conftest import answered, printed, run
from tests.release.conftest import saved, write


@pytest.fixture
def journey(tmp_path):
    """`journey(table, columns, goal)`: what the commands answer that fit, release and verify."""

    def commands(table, columns, goal, unseen=""):
        design, audit, out, receipt = (tmp_path / name for name in ("d.zip", "a.zip", "out.csv", "receipt.json"))
        fitted = answered("fit", table, columns, goal, "--out", design, "--private-out", audit)
        claims = fitted["on_the_design"]
        assert float(claims["gap"]["upper"]) <= 2e-6 < float(claims["lower_bound"]["lower"])
        released = answered("release", table, "--design", design, "--out", out, "--receipt", receipt, unseen)
        files = ("--design", design, "--private", audit, "--released", out, "--records", table)
        found = answered("verify", receipt, *files, "--order", released["order"])
        assert found["on_the_design"] == claims
        assert float(found["conformity"]["p_value"]) > 1e-6
        page = tmp_path / "report.html"
        printed("report", design, "--private", audit, "--out", page)
        assert "What is released for a record" in page.read_text(encoding="utf-8")
        return fitted, released, found

    return commands


@pytest.mark.usefixtures("surely")
@pytest.mark.slow
def test_the_census_by_commands(shared, tmp_path, journey):
    columns = datasets.load_adult(raw(shared, "adult.data").parent)
    table = write(tmp_path / "census.csv", {name: columns[name] for name in ("age", "sex", "race", "income")})
    asked = "--private income --useful age --useful sex --useful race --bins age=edges:17,30,40,50,60,inf"
    fitted, released, found = journey(table, asked, "--budget 0.2")
    assert fitted["records"] == {"design": 24421, "held_out": 24421}
    assert fitted["alphabets"]["useful"] <= 50
    claims = fitted["on_the_design"]
    assert float(claims["lower_bound"]["lower"]) < float(claims["value"]["upper"])
    bound = next(row for row in fitted["population"]["measures"] if row["name"] == "mutual-information")
    assert float(claims["leakage"]["lower"]) < bound["upper"] < 0.2
    assert (released["rows"], released["unseen"]) == (48842, 0)
    assert float(found["conformity"]["detectable"]) < 0.02


@pytest.mark.usefixtures("surely")
@pytest.mark.slow
def test_compas_by_commands_from_the_raw_file(shared, journey):
    """A limit on max-lift, with the bound of the verifier."""
    table = raw(shared, "compas-scores-two-years.csv")
    columns = "--private race --useful age_cat --useful sex --useful juv_fel_count"
    classes = " --bins race=categories:3 --bins juv_fel_count=categories:3"
    fitted, released, _ = journey(
        table, columns + classes, "--leakage max-lift --leakage-budget 0.1", "--unseen suppress"
    )
    assert float(fitted["on_the_design"]["leakage"]["upper"]) <= 0.1
    assert released["rows"] == 7214
    # The file has two columns of this name: a table cannot say which one is meant.
    assert run("joint", table, "--private race --useful priors_count").exit_code == 2


@pytest.mark.usefixtures("surely")
def test_compas_in_python(shared, tmp_path):
    columns = datasets.load_compas(raw(shared, "compas-scores-two-years.csv").parent)
    records = {name: columns[name] for name in ("race", "gender", "recidivism_score")}
    fitted = fit(
        records,
        private="race",
        useful=["gender", "recidivism_score"],
        distortion={"recidivism_score": "absolute"},
        leakage_budget=0.01,
    )
    assert fitted.status == "optimal"
    assert float(fitted.claims["leakage"].upper) <= 0.01
    design, audit = saved(fitted, tmp_path)
    table = write(tmp_path / "records.csv", records)
    out, receipt = tmp_path / "out.csv", tmp_path / "receipt.json"
    done = release(table, Mechanism.load(design), out, receipt)
    found = verify(receipt, design=design, private=audit, released=out, records=table, order=done.order_file)
    assert found.rows == 5278
    assert found.conformity.p_value > 1e-6
    # The mean difference of released scores is the one that was certified, on these records.
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    score, gender = (np.array([row[name] for row in rows]) for name in ("recidivism_score", "gender"))
    own = {name: records[name][done.order] for name in ("recidivism_score", "gender")}
    spent = abs(score.astype(int) - own["recidivism_score"]) + (gender != own["gender"])
    assert abs(spent.mean() - float(found.claims["distortion"].upper)) < 0.2
