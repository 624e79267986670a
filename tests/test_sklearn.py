"""`jaxpriv.release.sklearn`: what scikit-learn asks of an estimator, frames, pipelines and searches."""

import datetime

import numpy as np
import pytest

from tests.cases import raised, refused

pytest.importorskip("sklearn")

from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

from jaxpriv.release.sklearn import PrivacyMapping
from jaxpriv.statistics.tables import Categories, Edges, Quantiles
from tests.release.conftest import people

# With a budget of 0 the rows are those that were given.
pytestmark = pytest.mark.filterwarnings("ignore:Every record is released as it is")

# Two transforms of the same rows are two draws.
RANDOMISED = {
    "check_estimators_pickle": "transform draws anew at every call",
    "check_fit_idempotent": "transform draws anew at every call",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("same_draws")  # two draws of 30 rows are equal once in some thousand runs
@parametrize_with_checks([PrivacyMapping()], expected_failed_checks=lambda _: RANDOMISED)
def test_what_scikit_learn_asks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def frame():
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({name: values.tolist() for name, values in people(900).items()})


def test_frames_in_and_out(frame):
    mapping = PrivacyMapping(private="income", budget=0.15, encode="labels").set_output(transform="pandas")
    released = mapping.fit(frame).transform(frame)
    assert list(released.columns) == list(mapping.get_feature_names_out()) == ["age", "town"]
    assert set(released["town"]) == set(frame["town"])
    assert list(released.index) == list(frame.index)
    without = mapping.transform(frame.drop(columns="income"))
    assert without.shape == released.shape
    assert float(mapping.claims_["distortion"].upper) <= 0.15
    changed = (released["town"].to_numpy() != frame["town"].to_numpy()).mean()
    assert changed <= 0.3
    with raised(ValueError, r"columns|feature names"):
        mapping.transform(frame.rename(columns={"town": "city"}).drop(columns="income"))


def test_a_smaller_budget_leaks_more_and_changes_less(frame):
    found = [PrivacyMapping(private="income", budget=budget).fit(frame).claims_ for budget in (0.05, 0.15)]
    assert float(found[0]["leakage"].lower) > float(found[1]["leakage"].upper)
    limited = PrivacyMapping(private="income", budget=None, leakage_budget=0.01).fit(frame)
    assert float(limited.claims_["leakage"].upper) <= 0.01


def test_a_search_over_budgets_in_a_pipeline(frame):
    """Income is hidden; who is over 50 is to be told from what is released."""
    old = (frame["age"] > 50).to_numpy()
    mapping = PrivacyMapping(private="income", rules={"age": Edges([18, 35, 51, 80])})
    line = make_pipeline(mapping, OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
    search = GridSearchCV(line, {"privacymapping__budget": [0.05, 1.2]}, cv=2).fit(frame, old)
    scores = search.cv_results_["mean_test_score"]
    assert scores[0] > 0.85 > scores[1] + 0.05
    assert search.best_params_ == {"privacymapping__budget": 0.05}
    assert search.best_estimator_[0].mechanism_.asked.target == 0.05


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"private": "absent"}, "not a column"),
        ({"private": "incom"}, "not a column of X; did you mean 'income'"),
        ({"private": 7}, "not a column"),
        ({"private": ["income", "income"]}, "different"),
        ({"private": ["age", "town", "income"]}, "no useful column"),
        ({"private": "income", "encode": "numbers"}, "encode"),
        ({"private": "income", "budget": None}, "exactly one"),
        ({"private": "income", "leakage_budget": 0.1}, "exactly one"),
        ({"private": "income", "budget": -1.0}, "budget"),
        ({"private": "income", "unseen": "drop"}, "unseen"),
        ({"private": "income", "rules": {"absent": None}}, "absent"),
        ({"private": "income", "rules": 3}, "rules must be a mapping"),
        ({"private": 3.5}, "private must be a sequence"),
    ],
)
def test_bad_parameters_are_refused_by_fit(frame, parameters, words):
    with refused(words):
        PrivacyMapping(**parameters).fit(frame)


def test_names_of_persons_are_not_released(frame):
    """As classes of their own they would be released nearly as they are."""
    named = frame.assign(who=[f"n{row}" for row in range(len(frame))])
    with refused(rf"column 'who' has {len(frame)} different texts in .* identifiers have: leave it out"):
        PrivacyMapping("income", budget=0.2).fit(named)


def test_positions_arrays_and_a_private_target():
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(400, 2))
    y = (numbers[:, 0] + rng.normal(size=400) > 0).astype(int)
    mapping = PrivacyMapping(budget=0.3).fit(numbers, y)
    released = mapping.transform(numbers)
    assert released.shape == (400, 2)
    assert released.dtype == np.int64
    assert released.max() <= 3
    with_private = np.column_stack([y, numbers])
    by_position = PrivacyMapping(private=0, budget=0.3).fit(with_private)
    assert by_position.transform(with_private).shape == by_position.transform(numbers).shape == (400, 2)
    assert list(by_position.get_feature_names_out()) == ["x1", "x2"]


# -- every column by its own type ----------------------------------------------------------------------

SIZE = 300
DAYS = [datetime.date(2024, 1, 1 + k % 4) for k in range(SIZE)]
OWN = {
    "booleans": [k % 3 == 0 for k in range(SIZE)],
    "dates": DAYS,
    "times": [datetime.datetime(day.year, day.month, day.day, 12) for day in DAYS],
    "ages": [18 + k % 62 for k in range(SIZE)],
    "texts": ["xyz"[k % 3] for k in range(SIZE)],
}
INCOME = ["lo" if (k * k) % 7 < 3 else "hi" for k in range(SIZE)]
FRAMES = {
    "pandas": lambda rows: pytest.importorskip("pandas").DataFrame(rows),
    "polars": lambda rows: pytest.importorskip("polars").DataFrame(rows),
    "arrow": lambda rows: pytest.importorskip("pyarrow").table(rows),
    "objects": lambda rows: np.array(list(zip(*rows.values(), strict=True)), dtype=object),
    "lists": lambda rows: [list(row) for row in zip(*rows.values(), strict=True)],
}


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("name", OWN)
def test_rows_without_the_private_column_are_the_rows_of_fit(name, kind):
    """Beside other columns NumPy makes objects of them, alone an array of their type: the classes are the same."""
    made = FRAMES[kind]
    rows = {"income": INCOME, name: OWN[name]}
    mapping = PrivacyMapping(private=0, budget=0.0, encode="labels").fit(made(rows))
    released = mapping.transform(made({name: OWN[name]})).ravel().tolist()
    assert released == mapping.transform(made(rows)).ravel().tolist()
    wanted = {
        "booleans": {"false", "true"},
        "dates": {f"2024-01-0{k}" for k in range(1, 5)},
        "times": {f"2024-01-0{k}T12:00" for k in range(1, 5)},
        "texts": {"x", "y", "z"},
    }
    assert len(set(released)) == 4 if name == "ages" else set(released) == wanted[name]


GAPS = {
    "booleans": ([True, None, False, True], "object"),
    "nullable booleans": ([True, None, False, True], "boolean"),
    "texts": (["x", None, "y", "x"], "object"),
    "typed texts": (["x", None, "y", "x"], "string"),
    "whole numbers": ([1, None, 2, 1], "Int64"),
    "floats": ([1.0, None, 2.0, 1.0], "float64"),
    "dates": ([DAYS[0], None, DAYS[1], DAYS[0]], "object"),
}


@pytest.mark.parametrize("case", GAPS)
@pytest.mark.parametrize("kind", ["pandas", "polars", "array"])
def test_missing_cells_are_missing(case, kind):
    """An error, or the class that is declared for them; never a class "None"."""
    pandas = pytest.importorskip("pandas")
    values, dtype = GAPS[case]
    if kind == "polars":
        table = pytest.importorskip("polars").DataFrame({"s": ["a", "b"] * 40, "x": values * 20})
    else:
        table = pandas.DataFrame({"s": ["a", "b"] * 40, "x": pandas.Series(values * 20, dtype=dtype)})
        table = table.to_numpy(dtype=object) if kind == "array" else table
    with refused(r"column '(x|x1)', row 1 \(from 0\) is missing \(such rows: 20\)"):
        PrivacyMapping(private=0).fit(table)
    mapping = PrivacyMapping(private=0, budget=0.0, encode="labels", rules={1: Categories(missing="gap")}).fit(table)
    released = mapping.transform(table).ravel()
    assert (released == "gap").tolist() == [False, True, False, False] * 20
    assert len(set(released)) == 3


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint64", "UInt16", "float32"])
def test_numbers_of_every_type_are_cut_at_quantiles(dtype):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"income": INCOME, "age": OWN["ages"]}).astype({"age": dtype})
    mapping = PrivacyMapping(private="income").fit(table)
    assert len(mapping.mechanism_.released) == 4


def test_nan_of_an_array_is_missing_where_its_column_has_a_class_for_it():
    numbers = np.random.default_rng(0).normal(size=(SIZE, 2))
    numbers[3, 1] = np.nan
    y = [value == "lo" for value in INCOME]
    with refused(r"column 'x1', row 3 \(from 0\) is NaN"):
        PrivacyMapping().fit(numbers, y)
    rule = Quantiles(3, missing="gap")
    mapping = PrivacyMapping(budget=0.0, encode="labels", rules={1: rule}).fit(numbers, y)
    assert np.flatnonzero(mapping.transform(numbers)[:, 1] == "gap").tolist() == [3]
    numbers[4, 1] = np.inf
    with refused(r"row 4 .* infinite"):
        PrivacyMapping(rules={1: rule}).fit(numbers, y)


def test_a_private_target_by_its_own_type():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    numbers = np.random.default_rng(0).normal(size=(SIZE, 1))
    flags = OWN["booleans"]
    for y in (flags, np.array(flags), pandas.Series(flags, dtype="boolean"), polars.Series(flags)):
        assert len(PrivacyMapping().fit(numbers, y).claims_) > 0
    with refused(r"column 'y', row 0 \(from 0\) is missing"):
        PrivacyMapping().fit(numbers, pandas.Series([None, *flags[1:]], dtype="boolean"))
    with refused("'y' is private and has 300 different texts"):
        PrivacyMapping().fit(numbers, [f"{k}.25" for k in range(SIZE)])


def test_rules_by_a_position_that_is_none_and_tables_without_columns(frame):
    for place in (3, -1):
        with refused("rules"):
            PrivacyMapping(private="income", rules={place: Categories()}).fit(frame)
    with refused("no columns"):
        PrivacyMapping().fit(frame[[]], frame["income"])
