"""From a raw file to a checked release: the census and COMPAS, where their files are beside the repository."""

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from jaxpriv import datasets
from jaxpriv.cli import app
from jaxpriv.data.probability import mutual_information
from jaxpriv.release import Evidence, Mechanism, fit, release
from jaxpriv.release.report import report
from jaxpriv.statistics.tables import Edges, count_table
from jaxpriv.verifier import verify


def run(*line):
    result = CliRunner().invoke(app, [str(word) for word in line])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def write(path, columns):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(values.tolist() for values in columns.values()), strict=True))


@pytest.mark.slow
def test_the_census_by_commands(shared, tmp_path):
    if not (shared / "data" / "adult.data").exists():
        pytest.skip(f"the raw census files are not in {shared / 'data'}")
    columns = datasets.load_adult(shared / "data")
    write(tmp_path / "census.csv", {name: columns[name] for name in ("age", "sex", "race", "income")})
    design, audit, out, receipt = (tmp_path / name for name in ("design.zip", "audit.zip", "out.csv", "receipt.json"))
    table = ("--private", "income", "--useful", "age", "--useful", "sex", "--useful", "race")
    bins = ("--bins", "age=edges:17,30,40,50,60,inf")
    files = ("--out", design, "--private-out", audit)
    fitted = run("fit", tmp_path / "census.csv", *table, *bins, "--budget", 0.2, *files, "--json", "-")
    assert fitted["records"] == {"design": 24421, "held_out": 24421}
    assert fitted["alphabets"]["useful"] <= 50
    claims = fitted["on_the_design"]
    assert (
        float(claims["gap"]["upper"]) <= 2e-6 < float(claims["lower_bound"]["lower"]) < float(claims["value"]["upper"])
    )
    bound = next(row for row in fitted["population"]["measures"] if row["name"] == "mutual-information")
    assert float(claims["leakage"]["lower"]) < bound["upper"] < 0.2
    released = run(
        "release", tmp_path / "census.csv", "--design", design, "--out", out, "--receipt", receipt, "--json", "-"
    )
    assert (released["rows"], released["unseen"]) == (48842, 0)
    line = ("verify", receipt, "--design", design, "--private", audit, "--released", out, "--json", "-")
    found = run(*line, "--records", tmp_path / "census.csv", "--order", released["order"])
    assert found["on_the_design"] == claims
    assert float(found["conformity"]["p_value"]) > 1e-6
    assert float(found["conformity"]["detectable"]) < 0.02


@pytest.mark.slow
def test_the_census_in_python(shared, tmp_path):
    """From the raw file: joint, design, release, verification, report."""
    if not (shared / "data" / "adult.data").exists():
        pytest.skip(f"the raw census files are not in {shared / 'data'}")
    columns = datasets.load_adult(shared / "data")
    records = {name: columns[name] for name in ("age", "sex", "race", "income")}
    table = {"private": "income", "useful": ["age", "sex", "race"]}
    table["rules"] = {"age": Edges([17, 30, 40, 50, 60, np.inf])}
    counted = count_table(records, **table)
    fitted = fit(records, **table, budget=0.2)
    assert fitted.status == "optimal"
    assert len(fitted.mechanism.table) == counted.dataset.joint.shape[1]
    claims = fitted.claims
    assert float(claims["gap"].upper) <= 2e-6 < float(claims["lower_bound"].lower)
    # The bound is valid for the half that the design was made of, whatever mechanism meets the budget: hiding age too.
    assert float(claims["lower_bound"].lower) < float(mutual_information(counted.dataset.joint))
    bound = next(row for row in fitted.audit.rows if row.name == "mutual-information")
    assert float(claims["leakage"].lower) < bound.upper < 0.2
    fitted.mechanism.save(tmp_path / "design.zip")
    fitted.evidence.save(tmp_path / "audit.zip", fitted.mechanism)
    write(tmp_path / "records.csv", records)
    mechanism = Mechanism.load(tmp_path / "design.zip")
    done = release(tmp_path / "records.csv", mechanism, tmp_path / "out.csv", tmp_path / "receipt.json")
    assert (len(done.outputs), done.unseen) == (48842, 0)
    found = verify(
        tmp_path / "receipt.json",
        design=tmp_path / "design.zip",
        private=tmp_path / "audit.zip",
        released=tmp_path / "out.csv",
        records=tmp_path / "records.csv",
        order=done.order_file,
    )
    assert {name: claim.record for name, claim in found.claims.items()} == {
        name: claim.record for name, claim in claims.items()
    }
    assert found.conformity.p_value > 1e-6
    assert found.conformity.detectable < 0.02
    assert "What is released for a record" in report(mechanism, Evidence.load(tmp_path / "audit.zip", mechanism))


@pytest.mark.slow
def test_compas_by_commands_from_the_raw_file(shared, tmp_path):
    """A limit on max-lift, with the bound of the verifier; the report says what is released."""
    raw = shared / "data" / "compas-scores-two-years.csv"
    if not raw.exists():
        pytest.skip(f"the raw COMPAS file is not in {shared / 'data'}")
    design, audit, out, receipt = (tmp_path / name for name in ("design.zip", "audit.zip", "out.csv", "receipt.json"))
    table = ("--private", "race", "--useful", "age_cat", "--useful", "sex", "--useful", "juv_fel_count")
    classes = ("--bins", "race=categories:3", "--bins", "juv_fel_count=categories:3")
    goal = ("--leakage", "max-lift", "--leakage-budget", 0.1, "--out", design, "--private-out", audit, "--json", "-")
    fitted = run("fit", raw, *table, *classes, *goal)
    claims = fitted["on_the_design"]
    assert float(claims["leakage"]["upper"]) <= 0.1
    assert float(claims["gap"]["upper"]) <= 2e-6 < float(claims["lower_bound"]["lower"])
    released = run(
        "release", raw, "--design", design, "--out", out, "--receipt", receipt, "--unseen", "suppress", "--json", "-"
    )
    assert released["rows"] == 7214
    line = ("verify", receipt, "--design", design, "--private", audit, "--released", out, "--records", raw)
    line += ("--order", released["order"])
    found = run(*line, "--json", "-")
    assert found["on_the_design"] == claims
    assert float(found["conformity"]["p_value"]) > 1e-6
    page = tmp_path / "report.html"
    result = CliRunner().invoke(app, ["report", str(design), "--private", str(audit), "--out", str(page)])
    assert result.exit_code == 0
    assert "What is released for a record" in page.read_text(encoding="utf-8")
    # The file has two columns of this name: a table cannot say which one is meant.
    refused = CliRunner().invoke(app, ["joint", str(raw), "--private", "race", "--useful", "priors_count"])
    assert refused.exit_code == 2


def test_compas_in_python(shared, tmp_path):
    if not (shared / "data" / "compas-scores-two-years.csv").exists():
        pytest.skip(f"the raw COMPAS file is not in {shared / 'data'}")
    columns = datasets.load_compas(shared / "data")
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
    fitted.mechanism.save(tmp_path / "design.zip")
    fitted.evidence.save(tmp_path / "audit.zip", fitted.mechanism)
    mechanism = Mechanism.load(tmp_path / "design.zip")
    write(tmp_path / "records.csv", records)
    done = release(tmp_path / "records.csv", mechanism, tmp_path / "out.csv", tmp_path / "receipt.json")
    found = verify(
        tmp_path / "receipt.json",
        design=tmp_path / "design.zip",
        private=tmp_path / "audit.zip",
        released=tmp_path / "out.csv",
        records=tmp_path / "records.csv",
        order=done.order_file,
    )
    assert found.rows == 5278
    assert found.conformity.p_value > 1e-6
    # The mean difference of released scores is the one that was certified, on these records.
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    score, gender = (np.array([row[name] for row in rows]) for name in ("recidivism_score", "gender"))
    own = {name: records[name][done.order] for name in ("recidivism_score", "gender")}
    spent = abs(score.astype(int) - own["recidivism_score"]) + (gender != own["gender"])
    assert abs(spent.mean() - float(found.claims["distortion"].upper)) < 0.2
