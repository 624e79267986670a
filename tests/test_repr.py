"""Results print what they are, never the numbers of a table: as all fields, as lines, and as a table of a notebook."""

import re
from dataclasses import replace

import jax
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import datasets, watchdog
from jaxpriv.release import fit, fit_groups
from jaxpriv.statistics import tables

JOINT = np.array([[0.3123, 0.1077], [0.0811, 0.4989]])
HAMMING = 1 - np.eye(2)


def problem(**form):
    return jp.DistortionProblem(JOINT, HAMMING, **(form or {"budget": 0.1}))


@pytest.mark.parametrize(
    "make",
    [
        lambda: jp.FunnelProblem(JOINT, disclosure=0.1),
        lambda: jp.solve(jp.FunnelProblem(JOINT, disclosure=0.1)),
        lambda: jp.funnel_frontier(jp.BottleneckProblem(JOINT, disclosure=0.0), disclosures=[0.1, 0.2]),
        lambda: watchdog.watchdog(JOINT, epsilon=0.5),
        lambda: jp.maximum_utility(JOINT.sum(axis=0), (jp.leakage.MaxLift(), 0.2)),
        lambda: jp.gaussian.from_covariances(np.eye(2), np.eye(1), np.array([[0.1], [0.2]])),
        datasets.census_small,
    ],
)
def test_no_table_is_printed(make):
    text = repr(make())
    assert "array(" not in text
    assert "0.3123" not in text
    assert len(text) < 1500


def test_numbers_print_plainly():
    text = repr(jp.solve(problem()))
    assert "np." not in text
    assert "  code=0," in text


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (problem, r"leakage +mutual information I\(S;Y\) \(nats\)"),
        (lambda: problem(leakage_budget=0.1, limits=[(jp.leakage.MaxLift(), 1.0)]), r"limit of max-lift +1 \(nats\)"),
        (lambda: jp.DistortionProblem(np.stack([JOINT] * 2), HAMMING, budget=0.1), "joints +2"),
        (lambda: jp.NoiseProblem(JOINT, np.array([0.0, 1.0]), budget=0.2), r"symbols .*\|Z\| = 2"),
        (lambda: jp.FunnelProblem(JOINT, leakage_budget=0.1), "leakage budget +0.1"),
        (lambda: jp.BottleneckProblem(JOINT, beta=4.0), "multiplier +0.25"),
        (lambda: jp.solve(problem()), "status +optimal"),
        (lambda: jp.solve(problem()), r"value +0\.\d+ nats\n"),
        (lambda: jp.solve(problem()), r"leakage +0\.\d+ nats, mutual information I\(S;Y\)\n"),
        (lambda: jp.solve(problem()), r"distortion +0\.\d+ \(E d\(X,Y\)\)\n"),
        (lambda: jp.solve(problem(leakage_budget=0.1)), r"lower bound +0\.\d+ \(E d\(X,Y\)\)\n"),
        (lambda: jp.solve(problem(multiplier=0.5)), r"value +0\.\d+ nats \(leakage and priced E d\(X,Y\)\)\n"),
        (
            lambda: jp.solve(
                problem(budget=0.1, leakage=jp.leakage.by_name("f-information", divergence="total-variation"))
            ),
            r"gap +\S+ probability\n",
        ),
        (lambda: jp.solve_many([problem(), problem(budget=0.2)])[1], r"value +0\.\d+ nats\n"),
        (lambda: jp.frontier(problem(), budgets=[0.1, -1.0]).solutions, r"leakage +.* nats, mutual"),
        (lambda: jp.solve(problem(), solver="accelerated"), r"value +0\.\d+ nats\n"),
        (lambda: jp.solve(jp.NoiseProblem(JOINT, np.array([0.0, 1.0]), budget=0.2)), r"value +0\.\d+ nats\n"),
        (lambda: jp.solve(jp.FunnelProblem(JOINT, disclosure=0.2)), r"I\(X;Y\) +0.2 nats"),
        (lambda: jp.solve(jp.FunnelProblem(JOINT, disclosure=0.2)), r"optimum +\S+ to \S+ nats\n"),
        (lambda: jp.solve(jp.FunnelProblem(JOINT, leakage_budget=0.02)), r"optimum +\S+ to \S+ nats, I\(X;Y\)\n"),
        (lambda: jp.solve(jp.BottleneckProblem(JOINT, beta=9.0)), r"gap .* nats \(leakage less priced I\(X;Y\)\)\n"),
        (lambda: jp.frontier(problem(), budgets=[-1.0, 0.1]), "budget -1 +infeasible"),
        (lambda: jp.frontier(problem(), budgets=np.linspace(-0.1, 0.3, 9)), "status +[1-3] infeasible, [6-8] optimal"),
        (
            lambda: jp.funnel_frontier(jp.BottleneckProblem(JOINT, disclosure=0.0), disclosures=[0.2]),
            r"disclosure 0\.2 +0\.\d+ to 0\.\d+, optimal",
        ),
        (lambda: watchdog.watchdog(JOINT, epsilon=0.5), "released +[01] of 2 symbols"),
        (lambda: jp.leakage.report(JOINT, np.eye(2)), r"Sibson information of order 2 +0\.\d+ nats"),
    ],
)
def test_the_lines_of_a_result_are_those_of_its_table(make, line):
    result = make()
    text, table = str(result), result._repr_html_()
    first, *rest = text.splitlines()
    assert first == type(result).__name__
    assert re.search(line, text)
    cells = re.findall(r"<tr><th[^>]*>(.*?)</th><td[^>]*>(.*?)</td></tr>", table)
    assert [re.split("  +", one.strip(), maxsplit=1) for one in rest] == [list(pair) for pair in cells]
    assert "0.3123" not in text
    assert max(map(len, rest)) < 100


def test_what_is_printed_of_an_interval_holds_it():
    solution = replace(jp.solve(problem()), value=0.12345678, lower_bound=0.12345611, leakage=0.12345678)
    text = str(solution)
    assert re.search(r"value +0\.123457 nats\n", text)
    assert re.search(r"lower bound +0\.123456 nats\n", text)


def test_many_solutions_are_a_range_and_few_are_listed():
    solutions = jp.frontier(problem(), budgets=[0.05, 0.1, 0.15, 0.2, 0.25]).solutions
    assert re.search(r"value +0\.\d+ to 0\.\d+ nats\n", str(solutions))
    assert "5 optimal" in str(solutions)
    assert re.search(r"value +0\.\d+, 0\.\d+ nats\n", str(solutions[:2]))


@pytest.mark.parametrize(("transform", "budgets"), [(jax.jit, 0.1), (jax.vmap, np.array([0.1, 0.2]))])
def test_what_is_traced_prints_by_shape(transform, budgets):
    printed = []

    def value(budget):
        asked = problem(budget=budget)
        found = jp.solve(asked)
        printed.extend([str(asked), str(found), found._repr_html_()])
        return found.value

    jax.make_jaxpr(transform(value))(budgets)
    assert re.search(r"budget +float\d\d\[1\]", printed[0])
    assert re.search(r"status +int32\[\]", printed[1])
    assert re.search(r"value</th><td[^>]*>float\d\d\[\]", printed[2])


def test_a_design_prints_no_class_of_its_table():
    rng = np.random.default_rng(0)
    town = rng.choice(["<b>north", "south"], 400).astype(object)
    income = np.where(rng.random(400) < 0.3 + 0.4 * (town == "south"), "high", "low").astype(object)
    columns = {"private": "income", "useful": ["<i>town"]}
    table = {"<i>town": town, "income": income}
    found = fit(table, **columns, budget=0.1)
    counted = tables.count_table(table, **columns)
    groups = fit_groups(table, groups=[["<i>town"]], private="income", budget=0.1)
    parts = (found.mechanism, found.evidence, found.codebook, counted, counted.dataset, counted.codebook.encode(table))
    for one in (found, *parts, groups, groups.evidence):
        assert "high" not in repr(one)
        assert found.evidence.key not in repr(one)
        assert groups.evidence.key not in repr(one)
    for text in (str(found), str(found.mechanism), found._repr_html_()):
        assert "high" not in text
        assert "south" not in text
        assert "400" not in text
    assert "<i>town" in str(found.mechanism)
    assert "&lt;i&gt;town" in found._repr_html_()
    assert re.search(r"lower bound, these records +0\.\d+ nats", str(found))


def test_the_order_of_a_measure_prints_as_a_number():
    assert repr(jp.leakage.Sibson(2.0)) == "Sibson(order=2.0)"
    shown = repr(jp.DistortionProblem(np.eye(2) / 2, 1 - np.eye(2), budget=0.1, leakage=jp.leakage.Arimoto(0.5)))
    assert "leakage=Arimoto(order=0.5)" in shown
    assert "data=f64[1,2,2](numpy)" in shown
