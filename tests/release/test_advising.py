"""`advise`: its designs are those of `fit`, its rules remove what keeps a table from having one."""

import datetime
import re
import signal

import numpy as np
import pytest

from jaxpriv import leakage
from jaxpriv.models.baselines import dropping, hiding
from jaxpriv.release import advise, fit
from jaxpriv.statistics.tables import Categories, Quantiles
from tests.cases import drawn_joint, refused, value_of

from .conftest import COLUMNS, people


@pytest.fixture(scope="module")
def advice(table):
    return advise(table, **COLUMNS)


def test_designs_go_from_little_change_to_no_leakage(advice):
    leaked = [one.leakage for one in advice.designs]
    assert leaked == sorted(leaked, reverse=True)
    assert leaked[-1] < 1e-5 < leaked[0]
    right = [one.correct_guess for one in advice.designs]
    assert all(np.diff(right) < 1e-5)
    assert right[-1] == pytest.approx(advice.correct_guess, abs=1e-4)
    for one in advice.designs:
        assert one.lower_bound <= one.leakage <= one.lower_bound + one.gap + 1e-15
        assert one.gap <= 1e-6
        assert one.distortion <= one.budget * (1 + 1e-9)
        assert one.mean_changes == pytest.approx(one.distortion, abs=1e-12)  # every changed column costs one


def test_advice_prints_as_a_line_for_each_design_rounded_against_it(advice):
    lines = str(advice).splitlines()
    assert lines[0] == "Advice"
    designs = [line for line in lines if line.startswith("  budget ")]
    assert len(designs) == len(advice.designs)
    numbers = re.fullmatch(
        r"  budget \S+ +(\S+) to (\S+) nats, guess right at most (\S+) %, population at most (\S+) nats", designs[2]
    )
    low, high, right, population = map(float, numbers.groups())
    one = advice.designs[2]
    assert low <= one.lower_bound <= one.leakage <= high
    assert right >= 100 * one.correct_guess
    assert population >= one.population
    assert "<caption" in advice._repr_html_()
    assert "mutual-information" in lines[1]
    assert "1200" not in str(advice) + advice._repr_html_()  # no count of records
    assert "600" not in " ".join(line for line in lines if "budget" not in line)


def test_the_picture_names_the_least_distortion_at_which_nothing_leaks(advice):
    """A release that hides all columns is one of those that reveal nothing."""
    texts = [text.get_text() for text in advice.plot().axes[0].texts]
    (free,) = (float(text.split()[3]) for text in texts if text.startswith("nothing leaks"))
    assert free <= advice.designs[-1].distortion
    assert free == pytest.approx(advice.designs[-1].budget / 1.01, abs=1e-3)


@pytest.mark.parametrize("place", [1, 5])
def test_fit_designs_what_was_advised(table, advice, place):
    one = advice.designs[place]
    fitted = fit(table, **advice.arguments, budget=one.budget)
    assert float(fitted.claims["leakage"].upper) == pytest.approx(one.leakage, abs=2e-6)
    assert fitted.mechanism.codebook.useful == tuple(one.changed)
    assert int(fitted.evidence.counts.sum()) == advice.records[0]
    assert int(fitted.evidence.held_out.sum()) == advice.records[1]


def test_bounds_for_the_population_hold_together(advice):
    other = people(records=400_000, seed=11)
    codes = [np.digitize(other["age"], _edges(advice)), np.unique(other["town"], return_inverse=True)[1]]
    symbols = {pair: k for k, pair in enumerate(sorted(set(zip(*codes, strict=True))))}
    x = np.array([symbols[pair] for pair in zip(*codes, strict=True)])
    joint = np.zeros((2, len(symbols)))
    np.add.at(joint, ((other["income"] == "high").astype(int), x), 1 / len(x))
    measure = leakage.by_name("mutual-information")
    for one, mapping in zip(advice.designs, np.asarray(advice.frontier.solutions.mechanism), strict=True):
        assert value_of(measure, joint, mapping) <= one.population


def _edges(advice):
    fitted = fit(people(), **advice.arguments, budget=0.1)
    return fitted.mechanism.codebook.rules["age"].edges[1:-1]


def test_hiding_columns_is_no_better_than_the_optimum(advice):
    assert [one.columns for one in advice.hidden if not one.leakage > 1e-12] == [("age", "town")]
    assert {one.columns for one in advice.hidden} == {(), ("age",), ("town",), ("age", "town")}
    for one in advice.hidden:
        low, high = one.optimum
        assert low <= high <= one.leakage + 1e-12


def test_hiding_leaks_what_dropping_does():
    rng = np.random.default_rng(2)
    attributes = np.array([[a, b, c] for a in range(3) for b in range(2) for c in range(2)])
    joint = drawn_joint(rng, 2, 12)
    costs = (attributes[:, None] != attributes[None]).sum(axis=2)
    measure = leakage.by_name("mutual-information")
    for hidden in [(), (0,), (1, 2), (0, 1, 2)]:
        mapping = hiding(attributes, joint.sum(axis=0), hidden, costs)
        kept = [column for column in range(3) if column not in hidden]
        moved = mapping.argmax(axis=1)
        assert (attributes[moved][:, kept] == attributes[:, kept]).all()
        values = [value_of(measure, joint, one) for one in (mapping, dropping(attributes, hidden))]
        assert values[0] == pytest.approx(values[1], abs=1e-14)
        # No other symbol for a whole group is cheaper.
        for y in np.unique(moved):
            group = moved == y
            spent = joint.sum(axis=0)[group] @ costs[group]
            assert spent[y] == min(spent[group])
    with refused("12 symbols"):
        hiding(attributes, np.ones(3), (0,), costs)


def crowded(records: int = 1500) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    given = people(records)
    words = rng.choice([f"w{k}" for k in range(40)], records, p=np.arange(1, 41) / 820).astype(object)
    return given | {"wage": rng.normal(size=records), "word": np.where(rng.random(records) < 0.1, "", words)}


def test_obstacles_are_removed_and_the_design_fits():
    given = crowded()
    found = advise(given, private="income", useful=["age", "wage", "word"])
    rules = {one.column: one.rule for one in found.obstacles}
    assert isinstance(rules["wage"], Quantiles)
    assert isinstance(rules["age"], Quantiles)
    assert isinstance(rules["word"], Categories)
    assert rules["word"].missing == "missing"
    sentences = " ".join(one.sentence for one in found.obstacles)
    assert "'wage' holds real numbers" in sentences
    assert "'word' has" in sentences
    assert "w1" not in sentences.replace("'word'", "")  # no value
    assert 8 <= found.useful <= 750 // 5
    assert fit(given, **found.arguments, budget=0.2).status == "optimal"


def test_few_symbols_are_asked_for(table):
    found = advise(table, private="income", useful=["age", "town"], rules={"age": Quantiles(8)}, symbols=6)
    assert found.useful <= 6
    (obstacle,) = found.obstacles
    assert obstacle.column == "age"
    assert "more than 6" in obstacle.sentence


@pytest.mark.parametrize("texts", [False, True], ids=["numbers", "texts"])
def test_a_private_column_of_real_numbers_gets_classes(texts):
    """A CSV file holds texts."""
    given = crowded()
    given["wage"] = given["wage"] + given["age"] / 20
    if texts:
        given["wage"] = given["wage"].astype(str).astype(object)
    found = advise(given, private="wage", useful=["age", "town"], rules={"age": Quantiles(4)})
    assert [one.column for one in found.obstacles] == ["wage"]
    assert found.private == 4


@pytest.mark.parametrize(
    ("form", "ways"),
    [
        (lambda cents: f"{cents / 100:.2f}".replace(".", ","), "--read decimal=,"),
        (lambda cents: f"{cents // 100 % 1000},{cents % 100:02d}" if cents < 10**5 else f"{cents // 10**5}.500,25",
         "--read decimal=, --read thousands=."),
        (lambda cents: f"{cents:,d}.5", "--read thousands=,"),
        (lambda cents: f"{cents:07,d}", "--read decimal=,.* or with thousands=, .*--read thousands=,"),
    ],
)  # fmt: skip
def test_numbers_with_a_comma_are_no_words(form, ways):
    given = crowded()
    given["wage"] = np.array([form(100_000 + 37 * row) for row in range(1500)], dtype=object)
    with refused(rf"column 'wage' holds numbers with a comma: .*{ways}"):
        advise(given, private="wage", useful=["age", "town"], rules={"age": Quantiles(4)})


def test_numbers_with_a_few_other_texts_are_no_words():
    given = crowded()
    given["wage"] = given["wage"].astype(str).astype(object)
    given["wage"][7::9] = "NA"
    with refused(r"column 'wage' holds numbers and 1 other text \(166 rows, the first is row 7 .*--read empty=TEXT"):
        advise(given, private="income", useful=["wage", "town"])
    answers = np.array(["1", "2", "3", "none"], dtype=object)[np.arange(1500) % 4]  # few numbers are answers
    assert not advise(given | {"wage": answers}, private="income", useful=["wage", "town"]).obstacles


@pytest.mark.parametrize(("code", "records"), [(-99, 40), (-1, 40), (9999, 40), (-99, 2), (30, 40)])
def test_a_number_like_the_code_of_a_missing_value_is_named(code, records):
    given = people(1500)
    given["age"] = np.where(np.arange(1500) < records, code, np.arange(1500) % 70 + 18)
    (obstacle,) = advise(given, private="income", useful=["age", "town"]).obstacles
    named = f"in {records} records a number apart from the others (if it means that there is none, read the table with"
    assert (named in obstacle.sentence) == (records > 2 and code != 30)
    assert str(code) not in obstacle.sentence


def test_a_few_real_numbers_are_classes():
    given = crowded()
    given["hours"] = np.array(["40.0", "38.5", "20.0"], dtype=object)[np.arange(1500) % 3]
    assert not advise(given, private="income", useful=["hours", "town"]).obstacles


def test_what_looks_like_an_identifier_is_named():
    given = crowded() | {"id": np.arange(1500)}
    (obstacle,) = advise(given, private="income", useful=["id", "town"]).obstacles
    assert "column 'id' has 1500 classes, as many as an identifier has (leave it out if it is one)" in obstacle.sentence
    given["id"] = np.array([f"n{row}" for row in range(1500)], dtype=object)
    for sides in ({"private": "income", "useful": ["id", "town"]}, {"private": "id", "useful": "town"}):
        with refused("column 'id' has 1500 different texts in 1500 records, as names and identifiers have"):
            advise(given, **sides)


@pytest.mark.parametrize("side", ["private", "useful"])
def test_most_records_are_of_no_class_of_rare_texts(side):
    """Such a class says nothing, and a design of it shows no leakage: what to do instead is said."""
    given = crowded() | {"day": np.array([f"2024-{row % 400}" for row in range(1500)], dtype=object)}
    sides = {"private": "income", "useful": "town"} | {side: "day"}
    with refused("merging rare texts would leave most records of 'day' in one class: give them coarser classes"):
        advise(given, **sides)


def test_codes_that_are_taken_for_numbers_are_named():
    given = crowded() | {"area": np.array([f"0{row % 90}" for row in range(1500)], dtype=object)}
    (obstacle,) = advise(given, private="income", useful="area", symbols=20).obstacles
    assert obstacle.rule == Quantiles(16)
    assert "has 90 classes, some begin with 0, as those of codes (quantiles order them as" in obstacle.sentence


@pytest.mark.parametrize(
    ("texts", "first", "classes"),
    [
        ([f"{row % 90:05d}" for row in range(1500)], 4, 9),
        ([f"{2020 + row % 3}-{1 + row % 12:02d}-{1 + row % 28:02d}T{row % 24:02d}:00" for row in range(1500)], 7, 12),
        ([datetime.date(2020 + row % 5, 1 + row % 12, 1 + row % 28) for row in range(1500)], 4, 5),
    ],
)
def test_dates_and_codes_get_the_classes_of_their_first_characters(texts, first, classes):
    given = crowded() | {"text": np.array(texts, dtype=object)}
    found = advise(given, private="income", useful="text", symbols=20)
    (obstacle,) = found.obstacles
    assert obstacle.rule == Categories(first=first)
    assert (found.useful, fit(given, **found.arguments, budget=0.2).mechanism.table.shape[0]) == (classes, classes)


def test_five_answers_become_three_classes():
    given = crowded() | {"answer": np.array(list("aaabbbccde") * 150, dtype=object)}
    (obstacle,) = advise(given, private="income", useful="answer", symbols=4).obstacles
    assert obstacle.rule == Categories(least=301)


def test_private_combinations_are_limited_too():
    given = crowded() | {"code": np.arange(1500) % 200}
    (obstacle,) = advise(given, private="code", useful="town", symbols=20).obstacles
    assert "private columns make 200 combinations, too many" in obstacle.sentence
    assert obstacle.rule == Quantiles(16)


@pytest.mark.parametrize("name", ["maximal-leakage", "max-lift"])
def test_other_measures(table, name):
    found = advise(table, **COLUMNS, leakage=name, split=1.0)
    assert all(one.population is None for one in found.designs)
    assert found.frontier.problem.leakage == leakage.by_name(name)
    assert [one.leakage for one in found.designs] == sorted((one.leakage for one in found.designs), reverse=True)


def test_what_has_no_designs():
    rng = np.random.default_rng(0)
    binary = {f"c{k}": rng.integers(0, 2, 60) for k in range(6)} | {"s": rng.integers(0, 2, 60)}
    with refused("name fewer useful columns"):
        advise(binary, private="s", useful=[f"c{k}" for k in range(6)])
    many = {name: np.tile(values, 20) for name, values in binary.items()}
    with refused("combinations, more than 8: name fewer useful columns, or allow more `symbols`"):
        advise(many, private="s", useful=[f"c{k}" for k in range(6)], symbols=8)
    with refused("4 records of the design are too few for 2 classes of column 's', with 5 each"):
        advise({name: values[:8] for name, values in binary.items()}, private="s", useful="c0")
    independent = {"s": np.array([0, 1] * 40), "x": np.array([0, 0, 1, 1] * 20)}
    with refused("nothing is to hide"):
        advise(independent, private="s", useful="x", split=1.0)


def test_a_time_limit_leaves_intervals(table):
    found = advise(table, **COLUMNS, time_limit=0.0)
    assert all(one.gap >= 0 for one in found.designs)
    assert not all(one.status == "optimal" for one in found.designs)


def test_one_handler_notes_ctrl_c_from_the_first_stage_to_the_last(table):
    """The handler of a call stays in place when a part of its work has ended."""
    handlers = []
    advise(table, **COLUMNS, progress=lambda at: handlers.append((at.solver, signal.getsignal(signal.SIGINT))))
    assert {"reading the records", "bounds for the population"} <= {stage for stage, _ in handlers}
    assert signal.default_int_handler not in [handler for _, handler in handlers]
