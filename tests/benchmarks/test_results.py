"""The results file: what is written is read back, and what does not fit the schema is refused by name."""

import dataclasses
import json
import re

import pytest

from benchmarks import reading, report, results, speed_page
from benchmarks.results import CaseRecord, PartRecord, Results, Row
from tests.cases import raised

MACHINE = {"processor": "some", "cores": 2, "memory_gib": 4, "accelerator": "none"}


def row(case, solver, accuracy, seconds, gap, **more):
    return Row(case, solver, accuracy, "ok", seconds=seconds, gap=gap, **more)


def case_of(name, family, sizes, **parameters):
    return CaseRecord(name, family, parameters, dict(zip("SXY", sizes, strict=True)), 0.5, "interior-point 1e-09")


def made_up(suite, parts, cases, rows):
    return Results(1, suite, 7, "2026-01-01", 1.0, {"python": "3.11", "qif": None}, MACHINE, parts, cases, rows)


def document():
    """Made-up results: four sizes, ours with seconds n^3 / 1e6, a peer ten times as slow, and a time limit."""
    cases, rows = [], []
    for n in (16, 32, 64, 128):
        name, cube = f"cube n={n}", n**3
        cases.append(case_of(name, "cube", (n, n, n), n=n))
        rows.append(row(name, "interior-point", "1e-06", cube / 1e6, 1e-6, steps=n, peak_mib=n))
        rows.append(row(name, "interior-point", "1e-08", 1.5 * cube / 1e6, 1e-8, steps=n, peak_mib=n))
        rows.append(row(name, "clarabel", "1e-06", cube / 1e6, 1e-5, own_clock=cube / 1e7))
        rows.append(row(name, "clarabel", "1e-08", cube / 1e5, 1e-7, own_clock=cube / 2e5))
    rows.append(Row("cube n=32", "scs", "1e-06", "time limit", "more than 1 s"))
    return made_up("cube", [PartRecord("cube, absolute", "n", [one.name for one in cases], [1e-6], 1.0)], cases, rows)


def test_what_is_written_is_read_back(tmp_path):
    results.write(tmp_path / "some.json", document())
    assert results.read(tmp_path / "some.json") == document()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(schema=2), "schema 1"),
        (lambda d: d.pop("seed"), r"results\.seed: missing"),
        (lambda d: d.update(extra=1), r"results\.extra: unknown"),
        (lambda d: d["rows"][1].update(seconds="fast"), r"rows\[1\]\.seconds"),
        (lambda d: d["rows"][1].update(steps=True), r"rows\[1\]\.steps"),
        (lambda d: d["rows"][1].update(status="fine"), r"rows\[1\]\.status"),
        (lambda d: d["rows"][1].update(case="cube n=256"), r"rows\[1\]\.case"),
        (lambda d: d["cases"].append("cube"), r"cases\[4\]: an object"),
    ],
)
def test_what_does_not_fit_the_schema_is_named(tmp_path, change, message):
    path = tmp_path / "some.json"
    results.write(path, document())
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    with raised(ValueError, message):
        results.read(path)


def test_time_to_a_gap_is_that_of_the_fastest_accuracy_that_reaches_it():
    assert reading.to_gap(document(), "cube n=32", "clarabel", 1e-4).accuracy == "1e-06"
    assert reading.to_gap(document(), "cube n=32", "clarabel", 1e-6).accuracy == "1e-08"
    assert reading.to_gap(document(), "cube n=32", "scs", 1e-2) is None


def limited():
    """Made-up results under limits: ours takes 1 s, a peer 10 s or 20 s, another is fast and not good enough."""
    cases, rows, parts = [], [], []
    for share, slow in ((0.2, 10.0), (0.6, 20.0)):
        name = f"worst n=8 share={share:g}"
        cases.append(case_of(name, "worst", (8, 8, 8), n=8))
        parts.append(PartRecord(f"worst outcome, squared, limit {share:g}", "n", [name], [1e-6], 1.0))
        rows.append(row(name, "interior-point", "1e-04", 0.5, 1e-5, steps=4, compile_seconds=3.0))
        rows.append(row(name, "interior-point", "1e-06", 1.0, 1e-7, steps=6))
        rows.append(row(name, "ecos", "1e-06", slow, 5e-7))
        rows.append(row(name, "scs", "1e-06", 0.1, 1e-3))
        rows.append(Row(name, "clarabel", "1e-06", "skipped", "the time budget was spent"))
    return made_up("worst", parts, cases, rows)


def test_peers_under_limits_count_only_where_they_are_as_good():
    (one,) = reading.comparisons(limited())
    assert (one.group, one.size, one.cases) == ("worst outcome, squared", 8, 2)
    assert [row.steps for row in one.ours] == [6, 6]
    assert one.ratios == (10.0, 20.0)
    assert one.fastest == ("ecos",)
    assert one.missing == ("scs",)
    assert one.absent == ("clarabel",)
    assert one.compiling == 3.0
    assert reading.comparisons(document()) == []


def test_the_page_has_a_table_and_a_plot_of_the_limits(tmp_path):
    page = report.write(limited(), tmp_path / "worst.json").read_text()
    assert "| worst outcome, squared | 8 | 1e-06 | 2/2 |" in page
    assert "15x (10x to 20x, 2 cases)" in page
    assert (tmp_path / "worst-worst-outcome.png").exists()


def test_what_was_not_run_is_not_called_unreached(tmp_path):
    made = document()
    made.rows.append(Row("cube n=32", "ecos", "1e-06", "skipped", "the time budget was spent"))
    page = report.write(made, tmp_path / "cube.json").read_text()
    assert "Never reached by scs. Not run: ecos." in page
    # Of fewer than four sizes nothing is drawn.
    rows = [dataclasses.replace(row, status="skipped") if row.case == "cube n=16" else row for row in made.rows]
    report.write(dataclasses.replace(made, rows=rows), tmp_path / "three.json")
    assert (tmp_path / "cube-cube-absolute.png").exists()
    assert not (tmp_path / "three-cube-absolute.png").exists()


def test_exponents_are_read_from_the_sweep():
    found = {(one.solver, one.quantity): one for one in reading.exponents(document())}
    assert found["interior-point", "seconds"].measured.exponent == pytest.approx(3)
    assert found["interior-point", "seconds per step"].measured.exponent == pytest.approx(2)
    assert found["interior-point", "seconds per step"].predicted == pytest.approx(4, abs=0.02)
    assert found["interior-point", "peak memory"].measured.exponent == pytest.approx(1)
    assert not any(solver == "scs" for solver, _ in found)


@pytest.mark.parametrize("name", speed_page.PAGES)
def test_the_pages_have_the_numbers_of_the_results_files(name):
    page, makers = (speed_page.EXPLANATION / name).read_text(encoding="utf-8"), speed_page.PAGES[name]
    assert re.findall(r"<!-- ([a-z0-9-]+\.json.*?) -->", page) == list(makers)
    assert speed_page.renewed(page, makers) == page


def test_a_block_of_the_page_on_speed_is_made_from_its_file(tmp_path):
    made = dataclasses.replace(document(), versions={"jaxpriv": "9.1", "jax": "0.12"}, seed=5)
    made.cases.append(case_of("curve", "curve", (2, 3, 3), points=200))
    made.rows.append(row("curve", "frontier", "1e-06", 0.5, None))
    made.rows.append(row("curve", "single-solves", "1e-06", 30.0, None))
    for family, parameters in (("shape", {"S": 16}), ("cube", {"n": 256})):
        made.cases.append(case_of(family, family, (16, 256, 256), **parameters))
        made.rows.append(row(family, "interior-point", "1e-06", 0.0123, 1e-7))
    results.write(tmp_path / "dense.json", made)
    before = "a\n\n<!-- dense.json -->\n\nold\n\n<!-- end -->\n\n<!-- large.json -->\n\nkept\n\n<!-- end -->\n"
    after = speed_page.renewed(before, speed_page.PAGES["speed.md"], tmp_path)
    assert "Version 9.1 with JAX 0.12, `python -m benchmarks.run --suite dense --seed 5`" in after
    assert "| 32 | 33 ms | 0.33 s (Clarabel), 10 times slower | 1.50 times |" in after
    assert "took 0.5 s in batches,\n30 s as single solves" in after
    assert "|X| = |Y| = 512 took 12 ms" in after
    assert after.startswith("a\n\n<!-- dense.json -->\n\nVersion")
    assert after.endswith("<!-- end -->\n\n<!-- large.json -->\n\nkept\n\n<!-- end -->\n")
