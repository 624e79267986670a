"""Public functions compute with arrays of NumPy in float64, whatever precision JAX is set to.

The calls below run in a process whose JAX computes in float32, its default, and again with float64. Both times every
number must be of float64, and the same. Modules that use NumPy alone need no entry.
"""

import importlib
import inspect
import json
import re
import runpy
from operator import attrgetter
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpriv as jp
from tests.cases import run_python
from tests.compiling import QUICKLY

lk = jp.leakage
TABLE = np.array([[0.28, 0.11, 0.06], [0.07, 0.17, 0.31]])
ROWS = np.array([[0.8, 0.2], [0.3, 0.7], [0.45, 0.55]])
OUTPUTS, PRIOR = TABLE @ ROWS, TABLE.sum(axis=1)
CHANNEL = OUTPUTS / PRIOR[:, None]
LOG_LIFT = np.log(CHANNEL.T / OUTPUTS.sum(axis=0)[:, None])
COUNTS = np.array([[31, 12, 7], [8, 19, 40]])
INDEX = np.arange(3)


class Doubled(lk.AbstractMeanLeakage):
    """A user's measure, written with jax.numpy alone."""

    traits = lk.Traits("nats")

    def outcome(self, w, prior):
        t = lk.lift_of(w, prior)
        return 2.0 * jnp.sum(prior * t * jnp.log(t))


def own_loss(q):
    return -jnp.log(q) / 3.0


MEASURES = [lk.by_name(**row) for row in lk.registry.reported_rows()] + [
    lk.GainLeakage(np.array([[0.3, 1.1], [0.7, 0.2]])),
    lk.MaxInformation(np.array([0.1, 0.3])),
    lk.LocalDifferentialPrivacy(~np.eye(2, dtype=bool)),
    lk.FInformation(lk.EGamma(1.1)),
    lk.FInformation(lk.UserDivergence(lambda t: (t - 1.0) ** 2 / 3.0, 1.0 / 3.0)),
    lk.AverageCostGain(lk.LossMatrix(np.array([[0.1, 0.9], [0.7, 0.3]]))),
    lk.AverageCostGain(lk.CustomLoss(own_loss)),
    Doubled(),
]
COSTS = [lk.LogLoss(), lk.ZeroOneLoss(), lk.BrierLoss(), lk.LossMatrix(np.eye(2) / 3.0), lk.CustomLoss(own_loss)]
DIVERGENCES = [measure.divergence for measure in MEASURES if isinstance(measure, lk.FInformation)]


def problem(**form):
    return jp.DistortionProblem(TABLE, jp.distortion.absolute(INDEX / 3.0), **(form or {"budget": 0.2}))


def solved(**form):
    return jp.solve(problem(**form))


def program_parts():
    one, found = problem(), solved()
    shape = found.scores[0], found.weights, found.multipliers
    return jp.program.program_of(one), found.mechanism, *shape


def operator():
    """A mechanism as an operator, and what it is one for."""
    joint = jp.joints.from_function(lambda x: jnp.exp(-((x[0] - jnp.arange(2.0) / 3.0) ** 2)), INDEX / 7.0)
    distortion = jp.distortion.from_function(lambda x, y: jnp.abs(x[0] - y[0]) ** 1.3, INDEX / 7.0)
    gibbs = jp.channel.Gibbs(
        joint, (distortion,), np.asarray(joint.matrix()).sum(axis=1), np.log(CHANNEL.T).repeat(2, 0)[:3], np.ones(1)
    )
    return joint, distortion, gibbs


def pushed():
    joint, distortion, gibbs = operator()
    return jp.channel.push(gibbs, joint, (distortion,), None)


def of_channel():
    _, _, gibbs = operator()
    fixed = jp.channel.Deterministic(np.array([1, 0, 1]), 2)
    return gibbs.weights(INDEX), gibbs.rows(INDEX), gibbs.matrix(), fixed.weights(INDEX)


def of_function():
    _, costs, _ = operator()
    return costs.matrix(), costs.rows(INDEX), costs.tile(INDEX, 1, 2), costs.pairs(INDEX, INDEX[::-1])


def objective(one):
    scores, private = np.log(CHANNEL.T), np.array([0, 1])
    log_prior, weights = np.log(PRIOR), np.array([0.3, 0.7])
    parts = [one.scores(scores, log_prior)]
    parts += [getattr(one, name)(parts[0], private, log_prior, weights) for name in ("value", "selection")]
    parts += [getattr(one, name)(scores) for name in ("joint", "product") if hasattr(one, name)]
    return parts


def study_of(measure):
    found = [measure(TABLE, ROWS), measure.of_outputs(OUTPUTS, PRIOR), measure.outcomes(OUTPUTS, PRIOR)]
    found += [measure.value_of(OUTPUTS, PRIOR), lk.evaluate(measure, TABLE, ROWS).value]
    if measure.in_numpy:  # the others' are functions of JAX, of one column
        column = OUTPUTS[:, 0]
        found += [measure.outcome(column, PRIOR), measure.column(column, PRIOR)]
    return found


def of_alpha():
    measure = lk.MaximalAlphaLeakage(1.7)
    return measure(TABLE, ROWS), measure.shortfall(CHANNEL)


def of_loss():
    cost = lk.CustomLoss(own_loss)
    return cost.announcement(OUTPUTS[:, 0]), cost.accuracy(OUTPUTS[:, 0])


def source():
    return jp.gaussian.from_covariances(np.diag([1.0, 2.0]), np.eye(1), np.array([[0.3], [0.9]]))


def population():
    return jp.statistics.confidence.population(COUNTS)


def samples():
    rng = np.random.default_rng(0)
    return jp.statistics.lift.from_symbols(rng.integers(0, 2, 400), rng.integers(0, 3, 400))


def lift_report():
    return jp.statistics.lift.estimate(jp.statistics.lift.named("plug-in"), jax.random.key(0), samples(), splits=2)


audit, lift = jp.statistics.audit, jp.statistics.lift
SIZES = (2, 2)
UNIFORM = np.full(4, 0.25)

# For each public function its arguments, arrays of NumPy; a call, where it takes others or a part of its result counts;
# and calls of what else computes numbers.
CALLS = {
    "jaxpriv.certify": lambda: jp.certify(problem(), solved()).lower_bound,
    "jaxpriv.frontier": lambda: jp.frontier(problem(), budgets=np.array([0.1, 0.3])).value,
    "jaxpriv.max_entropy_noise": (INDEX / 3.0, 0.2),
    "jaxpriv.maximum_utility": lambda: jp.maximum_utility(TABLE, (lk.MaxLift(), 0.4)).value,
    "jaxpriv.optimal_mechanism": lambda: jp.optimal_mechanism(problem()),
    "jaxpriv.optimal_value": lambda: jp.optimal_value(problem()),
    "jaxpriv.rate_distortion": lambda: jp.solve(jp.rate_distortion(PRIOR, 1 - np.eye(2), budget=0.2)).value,
    "jaxpriv.sensitivity": lambda: jp.sensitivity(problem(), solved()).joint,
    "jaxpriv.solve": lambda: [
        (found.value, found.lower_bound, found.mechanism, found.scores, found.multipliers)
        for found in (solved(), solved(leakage_budget=0.01), solved(multiplier=0.3))
    ],
    "jaxpriv.solve_many": lambda: [one.value for one in jp.solve_many([problem(), problem(budget=0.3)])],
    "jaxpriv.with_marginal": lambda: jp.with_marginal(TABLE, 1 - np.eye(3), TABLE.sum(axis=0), budget=0.2).joints,
    "jaxpriv.with_maximal_alpha": lambda: jp.with_maximal_alpha(
        TABLE, 1 - np.eye(3), lk.MaximalAlphaLeakage(2.0), 0.1, budget=0.2
    ).joints,
    "jaxpriv.with_private_input": lambda: jp.with_private_input(TABLE, 1 - np.eye(3), budget=0.2).joints,
    "jaxpriv.sequential_release": lambda: jp.sequential_release(TABLE, ROWS, 1 - np.eye(3), budget=0.2).joints,
    "jaxpriv.coalition_release": lambda: jp.coalition_release(TABLE, ROWS, 1 - np.eye(3), {(0,): 0.3}).leakages[(0,)],
    "jaxpriv.funnel_frontier": lambda: jp.funnel_frontier(
        jp.FunnelProblem(TABLE, disclosure=0.3), disclosures=np.array([0.2, 0.3])
    ).value,
    "jaxpriv.solve_prior_ball": lambda: jp.solve_prior_ball(problem(), 0.01).value,
    "jaxpriv.baselines.exponential": lambda: [
        jp.baselines.exponential(jp.distortion.absolute(INDEX / 3.0), 0.7), jp.baselines.exponential(operator()[1], 0.7)
    ],
    "jaxpriv.certificates.average_leakage": (TABLE, ROWS),
    "jaxpriv.certificates.certify_program": lambda: jp.certificates.certify_program(*program_parts()),
    "jaxpriv.certificates.valid_scores": (PRIOR, np.log(CHANNEL.T)),
    "jaxpriv.certificates.violation_of": lambda: jp.certificates.violation_of(*program_parts()[:2]),
    "jaxpriv.channel.push": pushed,
    "jaxpriv.channel": of_channel,
    "jaxpriv.distortion.absolute": lambda: jp.distortion.absolute(INDEX / 3.0).matrix(),
    "jaxpriv.distortion.as_distortion": lambda: jp.distortion.as_distortion(TABLE).tile(np.arange(2), 1, 2),
    "jaxpriv.distortion.changed_attributes": lambda: jp.distortion.changed_attributes(
        np.array([[0, 1], [1, 1]]), weights=np.array([0.3, 0.7])
    ).matrix(),
    "jaxpriv.distortion.dense": lambda: jp.distortion.dense(operator()[1]),
    "jaxpriv.distortion.from_function": of_function,
    "jaxpriv.distortion.hamming": lambda: jp.distortion.hamming(3).rows(INDEX),
    "jaxpriv.distortion.squared": lambda: jp.distortion.squared(INDEX / 3.0).tile(INDEX, 0, 2),
    "jaxpriv.extremal.record_utility": lambda: jp.extremal.record_utility(UNIFORM, SIZES, [0.1, 0.3]).value,
    "jaxpriv.funnels.elementary_bound": (jp.FunnelProblem(TABLE, disclosure=0.3),),
    "jaxpriv.funnels.measure_of": (ROWS, TABLE.sum(axis=0)),
    "jaxpriv.gaussian.funnel_curve": (source(), np.array([0.1, 0.2])),
    "jaxpriv.joints.arrays_of": lambda: list(jp.joints.arrays_of(operator()[0])),
    "jaxpriv.joints.from_function": lambda: [operator()[0].matrix(), operator()[0].columns(INDEX)],
    "jaxpriv.joints.in_double": lambda: jp.joints.in_double(jp.joints.Stored(TABLE)).matrix(),
    "jaxpriv.extremal.envelope_design": lambda: jp.extremal.envelope_design(
        problem(leakage=lk.LeakageEnvelope(0.2), leakage_budget=0.1), tol=1e-2
    ).value,
    "jaxpriv.leakage.capacity": (CHANNEL, 2.0),
    "jaxpriv.leakage.cost_gain_bound": (0.3, 0.0, 1.1),
    "jaxpriv.leakage.cost_gain_bounds": (TABLE, ROWS, 0.0, 1.1),
    "jaxpriv.leakage.adversary": (lk.CorrectGuess(), TABLE, ROWS),
    "jaxpriv.leakage.evaluate": (lk.Sibson(2.0), TABLE, ROWS),
    "jaxpriv.leakage.evaluate_all": (tuple(MEASURES), TABLE, ROWS),
    "jaxpriv.leakage.exact_values": (tuple(MEASURES), TABLE, ROWS),
    "jaxpriv.leakage.ldp_of_channel": lambda: [
        lk.ldp_of_channel(*given) for given in ((CHANNEL,), (CHANNEL.tolist(),), (CHANNEL, ~np.eye(2, dtype=bool)))
    ],
    "jaxpriv.leakage.lift_of": (OUTPUTS[:, 0], PRIOR),
    "jaxpriv.leakage.posterior_of": (OUTPUTS[:, 0],),
    "jaxpriv.leakage.prior_free_cap": lambda: [lk.prior_free_cap(ROWS), lk.prior_free_cap(ROWS.tolist())],
    "jaxpriv.leakage.report": (TABLE, ROWS),
    "jaxpriv.leakage.MaximalAlphaLeakage": of_alpha,
    "jaxpriv.leakage.CustomLoss": of_loss,
    **{f"measure {place}: {one!r}": lambda one=one: study_of(one) for place, one in enumerate(MEASURES)},
    **{f"cost: {type(one).__name__}": lambda one=one: one.least(OUTPUTS[:, 0]) for one in COSTS},
    **{f"divergence {place}": lambda one=one: one(CHANNEL / 0.4) for place, one in enumerate(DIVERGENCES)},
    "jaxpriv.probability.entropy": lambda: [jp.probability.entropy(TABLE), jp.probability.entropy(TABLE.tolist(), 1)],
    "jaxpriv.probability.from_counts": (COUNTS,),
    "jaxpriv.probability.mutual_information": (TABLE,),
    "jaxpriv.probability.output_joint": (TABLE, ROWS),
    "jaxpriv.probability.posterior": (TABLE,),
    "jaxpriv.probability.private_marginal": (TABLE,),
    "jaxpriv.probability.useful_marginal": (TABLE,),
    "jaxpriv.program.program_of": lambda: jp.program.program_of(problem()),
    "jaxpriv.watchdog.estimated_staircase": (LOG_LIFT, PRIOR),
    "jaxpriv.statistics.audit.audit_mechanism": lambda: audit.audit_mechanism(ROWS, counts=COUNTS),
    "jaxpriv.statistics.audit.audit_pairs": lambda: audit.audit_pairs(COUNTS, permutations=19, bootstrap=5),
    "jaxpriv.statistics.audit.leakage_bounds": (population(), ROWS, MEASURES[:4]),
    "jaxpriv.statistics.audit.least_utility": (population(), ROWS),
    "jaxpriv.statistics.audit.excess": (np.stack([COUNTS, COUNTS[::-1]], axis=2),),
    "jaxpriv.leakage.from_samples": lambda: lk.evaluate(
        lk.from_samples(lk.MaxLift(), COUNTS), COUNTS.sum(axis=0) / COUNTS.sum(), ROWS
    ).value,
    "jaxpriv.statistics.lift.estimate": lift_report,
    "jaxpriv.statistics.lift.e_gamma": lambda: lift.e_gamma(lift_report(), samples(), 1.1),
    "jaxpriv.statistics.lift.encode": (np.array([[0.3], [0.7]]),),
    **{
        f"jaxpriv.statistics.lift.{one.__name__}": lambda one=one: objective(one())
        for one in (
            lift.DonskerVaradhan, lift.ReverseKullbackLeiblerForm, lift.ChiSquaredForm, lift.JensenShannonForm,
            lift.SquaredHellingerForm, lift.Trimmed,
        )
    },
}  # fmt: skip

# Public functions without numbers of their own to compare, by module.
OTHERS = {
    "jaxpriv": "private_pairs sweep",  # whole numbers; files
    "jaxpriv.certificates": "certify_noise certify_streamed excess_of interval_of least_limit",  # parts of `certify`
    "jaxpriv.distortion": "check_blocks forbids",
    "jaxpriv.joints": "sharded",  # takes an array of JAX
    "jaxpriv.problems": "replace_form",
    "jaxpriv.simplex": "minimise",  # a function of JAX, in its precision
    "jaxpriv.solvers": (  # steps of a solver, in the precision of the program that it is given
        "AcceleratedGradient advance begin begin_again consider iterate last_state no_candidate path_tangent resume "
        "slope_of"
    ),
    "jaxpriv.statistics.lift": (
        "average donsker_varadhan f_divergence from_features from_symbols known_tasks named self_test trimmed "
        "watchdog_paper"
    ),
}


def by_numpy_alone(function):
    """Whether its module uses neither JAX nor the functions of both libraries: its numbers are of float64 anyway."""
    return not re.search(r"\b(jax|jnp|equinox|xp)\b", inspect.getsource(inspect.getmodule(function)))


def test_every_public_function_is_called_or_named():
    reference = runpy.run_path(str(Path(__file__).with_name("test_docs_reference.py")))
    modules, public = reference["MODULES"], reference["public"]
    known = {*CALLS, *(f"{module}.{name}" for module, names in OTHERS.items() for name in names.split())}
    seen, missing = set(), []
    for name in modules:
        if name != "jaxpriv.release.sklearn":
            module = importlib.import_module(name)
            for each in sorted(public(module)):
                value = getattr(module, each)
                if inspect.isroutine(value) and id(value) not in seen and not by_numpy_alone(value):
                    seen.add(id(value))
                    if not any(key.rpartition(".")[2] == each and key in known for key in known):
                        missing.append(f"{name}.{each}")
    assert not missing


def numbers(tree):
    """The floating-point leaves, of plain dataclasses too."""
    leaves = jax.tree.leaves(tree, is_leaf=lambda leaf: hasattr(leaf, "__dataclass_fields__"))
    for leaf in leaves:
        if hasattr(leaf, "__dataclass_fields__"):
            yield from numbers(vars(leaf))
        elif isinstance(leaf, float) or eqx.is_inexact_array_like(leaf):
            yield leaf


def called(name):
    """The result of an entry of `CALLS`."""
    entry = CALLS[name]
    return entry() if callable(entry) else attrgetter(name.removeprefix("jaxpriv."))(jp)(*entry)


def wrong(name):
    try:
        plain = list(numbers(called(name)))
        with jax.enable_x64(True):
            double = list(numbers(called(name)))
    except Exception as error:
        return f"{name}: {type(error).__name__}: {error}"
    if not double or len(plain) != len(double):
        return f"{name}: {len(plain)} and {len(double)} numbers"
    for one, other in zip(plain, double, strict=True):
        if getattr(one, "dtype", np.dtype(float)) != np.float64:
            return f"{name}: {one.dtype}"
        if not np.allclose(np.asarray(one), np.asarray(other), rtol=1e-13, atol=0, equal_nan=True):
            return f"{name}: {one} for {other}"
    return None


@pytest.mark.slow
def test_numbers_of_numpy_arrays_are_of_float64_where_jax_computes_in_float32():
    assert json.loads(run_python("-m", "tests.test_precision")) == []


if __name__ == "__main__":
    assert not jax.config.jax_enable_x64
    exec(QUICKLY)
    print(json.dumps([text for name in CALLS if (text := wrong(name))]))
