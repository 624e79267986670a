"""`jaxpriv sweep`: the plan, the results, going on, and how each way to end is reported."""

import json

import polars as pl
import pytest

from tests.cli.conftest import JOINT, answered, mistaken, printed, refused, run, strict_json


@pytest.fixture
def study(tmp_path, save):
    """Three certified problems of one table, in three chunks."""
    save("heart.npz", joint=JOINT)
    path = tmp_path / "study.toml"
    path.write_text('name = "three"\nchunk_rows = 1\n[[grid]]\njoint = "heart.npz"\nbudget_share = [0.2, 0.4, 0.6]\n')
    return path


def test_a_study_is_planned_computed_and_gone_on_with(study, tmp_path):
    out = tmp_path / "out"
    plan = answered("sweep study.toml --out out --dry-run")
    assert (plan["problems"], plan["chunks"], plan["refused"]) == (3, 3, {})
    assert plan["predicted"]["seconds"] > 0
    assert not out.exists()

    first = run("sweep study.toml --out out --json first.json --progress")
    assert first.exit_code == 0, first.output
    assert "3 of 3 done" in first.stdout
    assert "3/3 problems" in first.stderr
    record = strict_json((tmp_path / "first.json").read_text())
    assert record["statuses"] == {"optimal": 3}
    assert record["chunks"] == {"total": 3, "new": 3, "redone": 0}
    assert 0 <= record["worst_gap"] <= 1e-6
    table = pl.read_parquet(out / "table.parquet")
    assert table["target"].to_list() == [0.2, 0.4, 0.6]
    assert table["value"].to_list() == sorted(table["value"], reverse=True)

    again = answered("sweep study.toml --out out")
    assert again["chunks"] == {"total": 3, "new": 0, "redone": 0}
    assert again["study"] == record["study"]


def test_rows_that_are_not_certified_end_with_code_4(study, tmp_path):
    study.write_text(study.read_text() + 'max_steps = 1\ntol = 1e-9\nsolver = "blahut-arimoto"\n')
    result = run("sweep study.toml --out out")
    assert result.exit_code == 4
    assert "3 problems are not certified" in result.stderr
    assert (tmp_path / "out" / "table.parquet").exists()
    assert "not certified" in result.stdout


def test_a_time_limit_ends_with_code_4_and_keeps_what_is_done(study):
    result = run("sweep study.toml --out out --time-limit 0")
    assert result.exit_code == 4
    assert "time limit: 3 problems are not done" in result.stderr
    printed("sweep study.toml --out out")


def test_a_part_is_done_where_its_chunks_are(study, tmp_path):
    out = tmp_path / "out"
    printed("sweep study.toml --out out --part 2/2")
    planned = answered("sweep study.toml --out out --dry-run")
    assert (planned["chunks"], planned["missing"]) == (3, 2)
    printed("sweep study.toml --out out --part 1/2")
    assert (out / "table.parquet").exists()
    for text in ("3/2", "0/2", "1", "a/b"):
        mistaken(f"sweep study.toml --out out --part {text}", "--part")


def test_bad_input(study, tmp_path):
    mistaken("sweep absent.toml --out out", "does not exist")
    mistaken("sweep study.toml --out study.toml", "is not a folder")
    mistaken("sweep study.toml --out out --workers 0", "--workers")
    study.write_text("[[grid]]\n")
    mistaken("sweep study.toml --out out", "grid[0] needs exactly one of")
    assert not (tmp_path / "out").exists()


def test_another_study_and_another_format(study, tmp_path):
    out = tmp_path / "out"
    printed("sweep study.toml --out out")
    text = study.read_text()
    study.write_text(text.replace("0.6", "0.7"))
    mistaken("sweep study.toml --out out", "holds another study")
    study.write_text(text)
    record = json.loads((out / "study.json").read_text())
    (out / "study.json").write_text(json.dumps({**record, "format": 2}))
    refused(run("sweep study.toml --out out"), 5, "format 2")
