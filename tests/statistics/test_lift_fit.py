"""Fits: normalised, decided by their key, alike alone and together, judged on rows they never saw."""

import equinox as eqx
import jax
import numpy as np
import pytest

from jaxpriv.errors import DivergedError, ResourceError
from jaxpriv.statistics.lift import (
    NAMES,
    AbstractLiftEstimator,
    CalibratedClassifier,
    DonskerVaradhan,
    Network,
    NeuralLift,
    PlugIn,
    Training,
    Trimmed,
    average,
    encode,
    from_features,
    from_symbols,
    named,
    trimmed,
)
from jaxpriv.statistics.lift.classifiers import temperature
from jaxpriv.statistics.lift.estimating import e_gamma, estimate
from jaxpriv.statistics.lift.known_answers import known_tasks, self_test
from jaxpriv.statistics.lift.log_lift import project
from jaxpriv.statistics.lift.training import _standardisation
from tests.cases import raised, refused

TINY = Network(8, 1)
FEW = Training(batch=64, epochs=6, patience=3, learning_rate=1e-2)
KEY = jax.random.key(3)
TASKS = {task.name: task for task in known_tasks()}
CHANNEL, PAIR = TASKS["channel, 3 x 8"], TASKS["Gaussian pair, sign"]
LEARNER = NeuralLift(DonskerVaradhan(), TINY, FEW)


@pytest.fixture(scope="module")
def samples():
    return PAIR.samples(0, 600)


@pytest.fixture(scope="module")
def report(samples):
    return estimate(LEARNER, KEY, samples, splits=3)


def test_scores_are_normalised_and_below_their_ceilings(samples, report):
    for lift in report.lifts:
        scores = lift(samples.useful)
        assert np.exp(scores) @ samples.prior == pytest.approx(1.0, abs=1e-12)
        assert np.all(scores <= -np.log(samples.prior))
    mean = average(report.lifts)(samples.useful)
    assert np.exp(mean) @ samples.prior == pytest.approx(1.0, abs=1e-12)
    assert np.exp(mean) == pytest.approx(np.mean([np.exp(lift(samples.useful)) for lift in report.lifts], axis=0))


def test_the_report_is_of_test_rows(samples, report):
    assert report.information.value > 0.1  # 0.224; six epochs of a tiny network
    for r, (lift, rows) in enumerate(zip(report.lifts, report.test, strict=True)):
        own = lift(samples.useful[rows])[np.arange(len(rows)), samples.private[rows]]
        assert report.per_split[r] == pytest.approx(own.mean(), abs=1e-12)
    assert report.information.value == pytest.approx(report.per_split.mean(), abs=1e-12)
    assert report.information.n == len(report.test[0])
    untested = np.setdiff1d(np.arange(samples.size), report.test)
    assert np.all(np.isnan(report.scores[untested]))
    assert np.all(np.isfinite(report.scores[np.unique(report.test)]))
    once = np.flatnonzero(np.bincount(report.test.ravel(), minlength=samples.size) == 1)[0]
    r = int(np.flatnonzero((report.test == once).any(axis=1))[0])
    assert report.scores[once] == pytest.approx(report.lifts[r](samples.useful[[once]])[0], abs=1e-12)
    for s, check in enumerate(report.marginal):
        means = [
            np.exp(lift(samples.useful[rows])[:, s]).mean()
            for lift, rows in zip(report.lifts, report.test, strict=True)
        ]
        assert check.value == pytest.approx(np.mean(means), abs=1e-12)


class _Spy(AbstractLiftEstimator):
    """Fits by counting, and notes the rows it was given."""

    seen: list = eqx.field(static=True)

    @property
    def name(self) -> str:
        return "spy"

    def fit_rows(self, keys, samples, train_rows, validation, prior):
        self.seen.append((train_rows, validation))
        return PlugIn().fit_rows(keys, samples, train_rows, validation, prior)


def test_splits_are_disjoint_proportional_and_differ():
    samples = CHANNEL.samples(0, 1000)
    spy = _Spy([])
    found = estimate(spy, KEY, samples, splits=4, test=0.3, validation=0.2)
    (train, held), tested = spy.seen[0], found.test
    for rows in zip(train, held, tested, strict=True):
        assert sorted(np.concatenate(rows).tolist()) == list(range(samples.size))
        for part, share in zip(rows, (0.56, 0.14, 0.30), strict=True):
            counts = np.bincount(samples.private[part], minlength=3)
            assert counts == pytest.approx(share * samples.size * samples.prior, abs=1.0)
    assert len({frozenset(rows.tolist()) for rows in tested}) == 4


def test_a_key_decides_everything(samples, report):
    again = estimate(LEARNER, KEY, samples, splits=3)
    assert np.array_equal(again.per_split, report.per_split)
    assert np.array_equal(again.scores, report.scores, equal_nan=True)
    other = estimate(LEARNER, jax.random.key(4), samples, splits=3)
    assert not np.array_equal(other.per_split, report.per_split)


def test_units_and_offsets_of_a_feature_do_not_matter(samples, report):
    moved = from_features(samples.private, 1e7 - 30.0 * samples.useful)
    again = estimate(LEARNER, KEY, moved, splits=3)
    flipped = from_features(samples.private, -samples.useful)
    mirror = estimate(LEARNER, KEY, flipped, splits=3)
    assert again.scores == pytest.approx(mirror.scores, abs=1e-3, nan_ok=True)
    assert mirror.information.value == pytest.approx(report.information.value, abs=0.03)


def test_a_feature_that_is_mostly_one_value_has_a_scale():
    """Its interquartile range is 0: the deviation takes its place; a constant keeps its units."""
    rng = np.random.default_rng(0)
    rare = np.where(rng.random(200) < 0.1, rng.exponential(size=200), 0.0)
    samples = from_features(
        rng.integers(2, size=200), np.stack([rare, np.full(200, 3.0), rng.normal(size=200)], axis=1)
    )
    rows = np.arange(200)[None, :150]
    shift, size, mean, scale = _standardisation(samples, rows, "asinh")
    centre, units = (shift + size * mean)[0], (size * scale)[0]
    assert centre[:2] == pytest.approx([0.0, 3.0], abs=1e-12)
    assert units[:2] == pytest.approx([rare[:150].std(), 1.0], rel=1e-9)
    low, middle, high = np.quantile(samples.useful[:150, 2], (0.25, 0.5, 0.75))
    assert (centre[2], units[2]) == pytest.approx((middle, (high - low) / 1.349), rel=1e-9)


def test_splits_trained_together_are_splits_trained_alone(samples, report):
    estimator = LEARNER
    rows = np.random.default_rng(0).permuted(np.tile(np.arange(samples.size), (3, 1)), axis=1)
    train, held = rows[:, :336], rows[:, 336:420]  # the sizes of the report's splits
    keys = jax.random.split(KEY, 3)
    together = estimator.fit_rows(keys, samples, train, held, samples.prior)
    for r in (0, 2):
        (alone,) = estimator.fit_rows(keys[r : r + 1], samples, train[[r]], held[[r]], samples.prior)
        assert together[r](samples.useful) == pytest.approx(alone(samples.useful), abs=1e-4)


def test_the_best_epoch_is_kept(samples):
    """At a rate that soon overfits: its validation value is above those of the first epoch and of the last."""
    rows, keys = np.arange(samples.size)[None], jax.random.split(KEY, 1)
    train_rows, held = rows[:, :150], rows[:, 150:]

    def validated(epochs, patience):
        wild = Training(batch=32, epochs=epochs, patience=patience, learning_rate=3e-2, weight_decay=0.0)
        learner = NeuralLift(DonskerVaradhan(), TINY, wild)
        (lift,) = learner.fit_rows(keys, samples, train_rows, held, samples.prior)
        return lift(samples.useful[held[0]])[np.arange(held.size), samples.private[held[0]]].mean()

    best = validated(30, 30)
    assert best > validated(1, None) + 1e-3
    assert best > validated(30, None) + 1e-3


def test_training_that_diverges_is_an_error(samples):
    wild = Training(batch=64, epochs=6, patience=3, learning_rate=1e30)
    with raised(DivergedError, r"split 0, 1, 2"):
        estimate(NeuralLift(DonskerVaradhan(), TINY, wild), KEY, samples, splits=3)


def test_e_gamma(samples, report):
    """E_1 is total variation: 2/pi asin(rho)/2 of the sign of Z against that of X; nothing exceeds a lift of 2.1."""
    total = e_gamma(report, samples, 1.0)
    # For the fitted sign pattern (i > 0 on one half line each): P(A) - Q(A) = asin(rho)/pi.
    assert total.agrees(np.arcsin(0.75) / np.pi, 4.0)
    assert e_gamma(report, samples, 2.1).value == 0.0
    values = [e_gamma(report, samples, gamma).value for gamma in (1.0, 1.2, 1.5, 1.8)]
    assert values == sorted(values, reverse=True)


def test_table_critic_and_plug_in_agree_with_the_truth_on_a_channel():
    samples = CHANNEL.samples(1, 8000)
    table = NeuralLift(DonskerVaradhan(), Network(depth=0), Training(learning_rate=3e-2, epochs=40))
    indicator = NeuralLift(DonskerVaradhan(), Network(private_input=True), Training(learning_rate=1e-2, epochs=10))
    for estimator in (PlugIn(), table, indicator):
        found = estimate(estimator, KEY, samples, splits=2)
        assert found.information.agrees(CHANNEL.information, 4.0)
        assert np.abs(found.lifts[0](np.arange(8)) - CHANNEL.lift(np.arange(8))).max() < 0.25
        for check in found.marginal:
            assert check.agrees(1.0, 5.0)


@pytest.mark.parametrize("task", known_tasks(), ids=lambda task: task.name)
def test_known_answers_are_right(task):
    """The true log-lift is normalised and averages to the stated information."""
    samples = task.samples(5, 40_000)
    lift = task.lift(samples.useful)
    assert np.exp(lift) @ task.prior == pytest.approx(1.0, abs=1e-9)
    own = lift[np.arange(samples.size), samples.private]
    assert abs(own.mean() - task.information) <= 5.0 * own.std() / 200.0 + 1e-12
    assert samples.prior == pytest.approx(task.prior, abs=5.0 * 0.5 / 200.0)


def test_self_test():
    (found,) = self_test(PlugIn(), KEY, n=4000, splits=2, tasks=(CHANNEL,))
    assert abs(found.errors) < 5.0
    assert found.agrees == (abs(found.errors) <= 2.0)


def test_temperature():
    """An overconfident log-lift is toned down to what it was; one that tells nothing goes to independence."""
    samples, prior = PAIR.samples(2, 20_000), PAIR.prior
    lift = PAIR.lift(samples.useful)
    found = temperature(project(4.0 * lift, prior), samples.private, prior)
    assert found == pytest.approx(0.25, rel=0.1)
    shuffled = np.random.default_rng(0).permutation(samples.private)
    assert temperature(lift, shuffled, prior) < 0.1
    assert temperature(-lift, samples.private, prior) == 0.0


def test_classifiers(samples):
    linear = pytest.importorskip("sklearn.linear_model")
    found = estimate(CalibratedClassifier(linear.LogisticRegression()), KEY, samples, splits=3)
    assert found.information.agrees(0.2243, 4.0)  # P(s|x) is probit: nearly logistic
    assert found.information.method == "calibrated LogisticRegression"
    network = estimate(CalibratedClassifier(network=TINY, training=FEW), KEY, samples, splits=3)
    assert network.information.value > 0.1


def test_categories_beside_numbers_and_trimmed_scores():
    """One-hot columns follow the numeric ones; a constant feature is harmless; offsets are no matter."""
    rng = np.random.default_rng(0)
    s = rng.integers(2, size=600)
    kind = np.where(rng.random(600) < 0.8, s, 2)
    numeric = np.stack([np.full(600, 7.0), 1e9 + rng.normal(size=600)], axis=1)
    samples = from_features(s, numeric, categories=kind[:, None])
    assert samples.useful.shape == (600, 5)
    assert samples.numeric.tolist() == [True, True, False, False, False]
    later = encode(numeric[:2], categories=[[0], [0]], sizes=[3])
    assert later.tolist() == [[*numeric[0], 1, 0, 0], [*numeric[1], 1, 0, 0]]
    # i = ln 2 or -inf where the category tells, 0 where it does not; trimmed to [-0.3, 0.3].
    found = estimate(NeuralLift(Trimmed(0.3), TINY, FEW), KEY, samples, splits=1)
    scores = found.lifts[0](samples.useful)
    assert np.abs(scores).max() <= 0.3
    assert np.mean(np.abs(scores) > 0.29) == pytest.approx(0.8, abs=0.06)
    # E_P[h] - E_Q[e^h] + 1 with h = 0.3 and -0.3, each on half of the informed pairs.
    best = 0.8 * (0.3 - np.cosh(0.3) + 1.0)
    assert found.information.value == pytest.approx(best, abs=0.03)
    with refused("gamma must be below"):
        e_gamma(found, samples, 2.0)


def test_prior_that_is_known(samples):
    prior = np.array([0.6, 0.4])
    lift = PlugIn().fit(KEY, CHANNEL.samples(0, 2000), prior=[0.5, 0.3, 0.2])
    assert np.exp(lift(np.arange(8))) @ np.array([0.5, 0.3, 0.2]) == pytest.approx(1.0, abs=1e-12)
    with refused("prior must be positive"):
        NeuralLift().fit(KEY, samples, prior=[1.0, 0.0])
    with refused("prior has 3 entries"):
        NeuralLift().fit(KEY, samples, prior=[*prior, 0.1])


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_an_estimator(name):
    assert isinstance(named(name), AbstractLiftEstimator)


FEW_ROWS, NUMBERS = CHANNEL.samples(0, 200), np.zeros((3, 1))
BAD = {
    "private has a single value": lambda: from_features(np.zeros(9), np.zeros((9, 1))),
    "no row has code 1": lambda: from_features([0, 2, 2, 0], np.zeros((4, 1))),
    r"private\[1\] is not a whole number": lambda: from_features([0, 0.5, 1], NUMBERS),
    r"private\[2\] is NaN": lambda: from_features([0, 1, np.nan], NUMBERS),
    r"numeric\[1, 0\] is infinite": lambda: from_features([0, 1, 1], [[0.0], [np.inf], [1.0]]),
    "numeric has 2 rows; private has 3": lambda: from_features([0, 1, 1], np.zeros((2, 1))),
    "numeric or categories is needed": lambda: from_features([0, 1, 1]),
    r"categories\[:, 0\]\[2\] is not a whole number in 0 .. 1": lambda: from_features(
        [0, 1, 1], categories=[[0], [1], [2]], sizes=[2]
    ),
    "sizes has 2 entries": lambda: from_features([0, 1, 1], categories=[[0], [1], [1]], sizes=[2, 2]),
    "useful has 9 symbols and 3 rows": lambda: from_symbols([0, 1, 1], [0, 1, 2], useful_size=9),
    "undersampled: 113 training rows for 3 x 8 cells, at least 120": lambda: estimate(PlugIn(), KEY, FEW_ROWS),
    "the samples have features": lambda: PlugIn().fit(KEY, from_features([0, 1] * 50, np.zeros((100, 1)))),
    "code 1 has too few rows": lambda: estimate(PlugIn(), KEY, from_symbols([0] * 50 + [1], [0] * 51)),
    "test must be a number > 0 and < 1": lambda: estimate(PlugIn(), KEY, FEW_ROWS, test=1.0),
    "splits must be a finite number >= 1": lambda: estimate(PlugIn(), KEY, FEW_ROWS, splits=0),
    "predict_proba": lambda: CalibratedClassifier(object()).fit(KEY, from_features([0, 1] * 50, np.zeros((100, 1)))),
    r"concentrations\[0\]": lambda: PlugIn((0.0,)),
    "limit must be": lambda: trimmed(0.0),
    "learning_rate must be": lambda: Training(learning_rate=float("nan")),
    "batch must be": lambda: Training(batch=0),
    "width must be": lambda: Network(width=0),
    "depth must be": lambda: Network(depth=-1),
    "scaling must be one of asinh, standard, none": lambda: Network(scaling="robust"),
    "concentrations is empty": lambda: PlugIn(()),
    "lifts is empty": lambda: average([]),
    "estimator must be one of donsker-varadhan": lambda: named("mine"),
    r"sizes\[0\] must be": lambda: encode(categories=[[0], [0]], sizes=[0]),
    "private_size must be": lambda: from_features([0, 1, 1], NUMBERS, private_size=-1),
    "private: no row has code 2": lambda: from_features([0, 1, 1], NUMBERS, private_size=10**12),
    "useful_size must be": lambda: from_symbols([0, 1, 1], [0, 1, 1], useful_size=0),
    "categories has 2 rows; numeric has 3": lambda: encode(np.zeros((3, 1)), categories=[[0], [1]]),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input(message):
    with refused(message):
        BAD[message]()


def test_too_many_categories_are_refused_before_they_are_written_out():
    with raised(ResourceError, "indicators of every category"):
        encode(categories=[[0], [0]], sizes=[10**14])


def test_without_the_extra(samples, absent):
    absent("optax")
    with raised(ResourceError, r"jaxpriv\[estimation\]"):
        NeuralLift().fit(KEY, samples)


def test_bad_rows_for_a_fitted_lift(samples, report):
    lift = report.lifts[0]
    with refused("useful has 2 columns; the samples have 1"):
        lift(np.zeros((3, 2)))
    with refused(r"useful\[1, 0\] is NaN"):
        lift([[0.0], [np.nan]])
    symbols = PlugIn().fit(KEY, CHANNEL.samples(0, 2000))
    with refused(r"useful\[0\] is not a whole number in 0 .. 7"):
        symbols([8])


class _Broken(AbstractLiftEstimator):
    """Gives scores that are not numbers."""

    @property
    def name(self) -> str:
        return "broken"

    def fit_rows(self, keys, samples, train_rows, validation, prior):
        lifts = PlugIn().fit_rows(keys, samples, train_rows, validation, prior)
        spoilt = np.full((8, 3), np.nan)
        return tuple(eqx.tree_at(lambda lift: lift.scorer.values, lift, spoilt) for lift in lifts)


def test_scores_that_are_not_numbers_are_refused():
    with refused(r"useful\[0\] has a score that is not finite"):
        estimate(_Broken(), KEY, CHANNEL.samples(0, 1000), splits=1)


def test_what_an_estimate_is_given_is_refused_by_name():
    samples = from_symbols([0, 1] * 30, [0, 1, 2] * 20)
    key = KEY
    for arguments, name in (
        (("plug-in", key, samples), "estimator"),
        ((PlugIn(), 0, samples), "key"),
        ((PlugIn(), jax.random.split(key), samples), "key"),
        ((PlugIn(), key, [0, 1]), "samples"),
    ):
        with refused(f"^{name} must be"):
            estimate(*arguments)
    for call, name in (
        (lambda: e_gamma(None, samples, 1.2), "report"),
        (lambda: average(3), "lifts"),
        (lambda: average([3]), r"lifts\[0\]"),
        (lambda: named(["plug-in"]), "estimator"),
        (lambda: encode(categories=[[0], [1]], sizes=2), "sizes"),
        (lambda: PlugIn(0.5), "concentrations"),
        (lambda: PlugIn().fit(key, "rows"), "samples"),
    ):
        with refused(f"^{name} must be"):
            call()
