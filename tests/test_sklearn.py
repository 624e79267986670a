"""`jaxpriv.sklearn`: what scikit-learn asks of an estimator, frames, pipelines and searches."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

from jaxpriv.errors import InputError
from jaxpriv.estimation.tables import Edges
from jaxpriv.sklearn import PrivacyMapping
from tests.mechanism.conftest import people

# Two transforms of the same rows are two draws.
RANDOMISED = {
    "check_estimators_pickle": "transform draws anew at every call",
    "check_fit_idempotent": "transform draws anew at every call",
}


@pytest.mark.filterwarnings("ignore")
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
    with pytest.raises(ValueError, match=r"columns|feature names"):
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


def test_parameters_are_what_was_given():
    mapping = PrivacyMapping("income", budget=0.3, bins=3)
    assert clone(mapping).get_params() == mapping.get_params()
    assert mapping.get_params()["private"] == "income"


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"private": "absent"}, "not a column"),
        ({"private": 7}, "not a column"),
        ({"private": ["income", "income"]}, "different"),
        ({"private": ["age", "town", "income"]}, "no useful column"),
        ({"private": "income", "encode": "numbers"}, "encode"),
        ({"private": "income", "budget": None}, "exactly one"),
        ({"private": "income", "leakage_budget": 0.1}, "exactly one"),
        ({"private": "income", "budget": -1.0}, "budget"),
        ({"private": "income", "unseen": "drop"}, "unseen"),
        ({"private": "income", "rules": {"absent": None}}, "absent"),
    ],
)
def test_bad_parameters_are_refused_by_fit(frame, parameters, words):
    with pytest.raises(InputError, match=words):
        PrivacyMapping(**parameters).fit(frame)


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
