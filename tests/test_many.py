"""Problems padded to buckets and solved in batches: the padding changes no leakage and no distortion, every result is
certified on its own problem, and one problem does not disturb the others.
"""

import dataclasses

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import jaxpriv as jp
from jaxpriv.errors import InfeasibleError, ResourceError
from jaxpriv.leakage import by_name, exact_values
from jaxpriv.reductions.buckets import Lanes, bucket_of, restored
from jaxpriv.solvers import Goal
from jaxpriv.solving import kinds, many
from jaxpriv.testing import random_joint, random_mechanisms
from tests.cases import (
    AVERAGES,
    MIXED_SIZES,
    assert_one_optimum,
    assert_proved,
    distances,
    raised,
    random_problem,
    refused,
    spent,
)

_WORTH_COMPILING = kinds.WORTH_COMPILING


@pytest.fixture(autouse=True)
def _batches_of_any_number(worth_compiling, no_whole_solves):
    worth_compiling(0.0)


@pytest.fixture
def compiled_by(monkeypatch):
    """`compiled_by(function)`: the function takes the place of what compiles batches."""
    return lambda function: monkeypatch.setattr(many, "compiled", function)


def kind_of(sizes, **more):
    kind = kinds.kind_of(random_problem(0, sizes, **more), "auto", Goal(1e-6))
    assert kind is not None
    return kind


def assert_all_proved(problems, results):
    for problem, found in zip(problems, results, strict=True):
        assert_proved(problem, found)


# ------------------------------------------------------------------------------ buckets


_MEASURES = [*AVERAGES, *map(by_name, ("max-information", "max-lift", "ldp"))]


@pytest.mark.parametrize("measure", _MEASURES, ids=lambda one: type(one).__name__)
def test_padding_changes_no_leakage_and_no_distortion(measure):
    """Copies of outputs that share a mechanism leak as much as it, any other use of them at least what is read back."""
    problem = random_problem(1, (3, 5, 5), leakage=measure)
    bucket = bucket_of(problem)
    padded = jax.tree.map(lambda leaf: leaf[0], Lanes.of([problem], bucket)).problem()
    wide = random_mechanisms(2, 6, bucket.inputs, bucket.outputs)
    shared = np.zeros((bucket.inputs, bucket.outputs))
    rows = random_mechanisms(3, 1, 5, 5)[0]
    copies = np.arange(bucket.outputs) % 5
    shared[:5] = rows[:, copies] / np.bincount(copies)[copies]
    shared[5:, 0] = 1.0

    def leaks(one, mechanism):
        return exact_values((measure,), one.joints[0], mechanism)[0]

    def costs(one, mechanism):
        return spent(one.joints[0], one.tables()[0], mechanism)

    def back(mechanism):
        scores, weights = np.zeros((1, 1, bucket.outputs, bucket.private)), np.zeros((1, bucket.outputs, 0))
        return restored(problem.joints[None], 5, bucket, mechanism[None], scores, weights)[0][0]

    assert_allclose(back(shared), rows, atol=1e-15)
    assert leaks(padded, shared) == pytest.approx(leaks(problem, rows), abs=1e-9)
    for one in wide:
        assert leaks(problem, back(one)) <= leaks(padded, one) + 1e-9
        assert costs(problem, back(one)) == pytest.approx(costs(padded, one), abs=1e-12)


# ------------------------------------------------------------------------------ many problems


def test_mixed_shapes_share_one_program_and_agree_with_single_solves(compiled_by):
    lanes, original = [], many.compiled
    compiled_by(lambda *given: lanes.append(len(given[2].joints)) or original(*given))
    problems = [random_problem(seed, MIXED_SIZES[seed % 5], 0.1 + 0.1 * seed) for seed in range(7)]
    results = jp.solve_many(problems)
    assert lanes == [8]  # one batch, the next power of two
    assert_all_proved(problems, results)
    for problem, found in zip(problems, results, strict=True):
        assert found.mechanism.shape == problem.shape
        assert_one_optimum(found, jp.solve(problem))


def test_problems_that_a_batch_cannot_prove_do_not_disturb_the_others():
    """No mechanism, no slack, a useful symbol without mass, a lane with NaN inside."""
    problems = [random_problem(seed, (4, 4, 4), 0.1 + 0.07 * seed) for seed in range(5)]
    plain = jp.solve_many(problems)
    joint, table = random_joint(7, 4, 4), 1.0 + distances(4)
    impossible = jp.DistortionProblem(joint, table, budget=0.5)
    exact = jp.DistortionProblem(joint, table, budget=1.0)
    emptied = joint * np.array([1.0, 1.0, 0.0, 1.0])
    empty = jp.DistortionProblem(emptied / emptied.sum(), table - 1.0, budget=0.3)
    mixed = jp.solve_many([impossible, *problems[:3], exact, *problems[3:], empty])
    assert mixed[0].status == "infeasible"
    assert mixed[4].status == mixed[7].status == "optimal"
    assert jp.certify(exact, mixed[4]).gap <= 1e-6
    outputs = empty.joints[0].sum(axis=0) @ mixed[7].mechanism
    assert_allclose(mixed[7].mechanism[2], outputs, atol=1e-12)
    for one, other in zip(plain, [*mixed[1:4], *mixed[5:7]], strict=True):
        assert other.status == "optimal"
        assert_one_optimum(other, one)
    with raised(InfeasibleError, r"problems\[1\]: budget") as error:
        jp.solve_many([problems[0], impossible, *problems[1:]], throw=True)
    assert error.value.proof["bound"] > error.value.proof["allowed"]


def test_what_a_batch_claims_is_not_believed(compiled_by):
    """A mechanism that is not what the lane says, or a refused batch: the problem is solved by itself."""
    problems = [random_problem(seed) for seed in range(5)]
    original = many.compiled

    def lying(*args):
        run, seconds = original(*args)

        def lie():
            found = run()
            mechanism = np.array(found.mechanism)
            mechanism[1] = 1.0 / mechanism.shape[2]
            mechanism[2] = np.nan
            return dataclasses.replace(found, mechanism=mechanism)

        return lie, seconds

    compiled_by(lying)
    assert_all_proved(problems, jp.solve_many(problems))

    def refusing(*_):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory")

    compiled_by(refusing)
    assert_all_proved(problems, jp.solve_many(problems))


def test_a_lane_that_takes_many_steps_is_left_to_a_solve_of_its_own(monkeypatch):
    """The others do not wait for it, and it is certified as they are."""
    monkeypatch.setattr(many, "STEPS_OF_LANES", 4)
    problems = [random_problem(seed, share=0.15 * seed) for seed in range(1, 6)]
    found = jp.solve_many(problems)
    assert any(one.steps > 4 for one in found)
    assert_all_proved(problems, found)


def test_an_error_in_one_solve_is_its_own(worth_compiling):
    worth_compiling(np.inf)
    errors = {3: ResourceError("the device ran out of memory"), 5: ZeroDivisionError("0.123 / 0")}

    class Failing(jp.InteriorPoint):
        """Fails with so many outputs."""

        def init(self, program, *given):
            if error := errors.get(program.cost.shape[1]):
                raise error
            return super().init(program, *given)

    problems = [random_problem(outputs, (4, 4, outputs)) for outputs in (4, *errors)]
    good, refused, broken = jp.solve_many(problems, Failing())
    assert good.status == "optimal"
    assert refused.notes == ("ResourceError: the device ran out of memory",)
    assert broken.notes == ("ZeroDivisionError while solving",)  # no data value
    assert refused.status == broken.status == "not_certified"
    assert (refused.lower_bound, refused.value) == (-np.inf, np.inf)
    assert np.isnan(refused.mechanism).all()
    with raised(ResourceError, r"^problems\[1\]: the device"):
        jp.solve_many(problems, Failing(), throw=True)


def test_wrong_arguments_are_named_with_their_position():
    good, bad = random_problem(0), random_problem(1, leakage=by_name("maximal-alpha-leakage", order=2.0))
    with refused(r"^problems\[2\]: leakage"):
        jp.solve_many([good, good, bad])
    with refused(r"^problems\[1\] must be one of DistortionProblem.*not str"):
        jp.solve_many([good, "heart.npz"])
    with refused(r"^problems\[0\]: solver"):
        jp.solve_many([good], "simplex")
    with refused("tol"):
        jp.solve_many([good], tol=0.0)
    with refused("^problems must be a list, not DistortionProblem; `solve` takes one problem"):
        jp.solve_many(good)
    with refused("solve_many takes a list"):
        jp.solve([good])
    assert jp.solve_many([]) == []


def test_a_time_limit_gives_intervals_for_all():
    problems = [random_problem(seed) for seed in range(4)]
    for problem, found in zip(problems, jp.solve_many(problems, time_limit=0.0), strict=True):
        assert found.status == "best_known"
        assert jp.certify(problem, found).valid


def test_progress_counts_all_problems():
    lines: list[jp.Progress] = []
    jp.solve_many([random_problem(seed) for seed in range(5)], progress=lines.append)
    assert lines[-1].done == lines[-1].total == 5
    assert [one.done for one in lines] == sorted(one.done for one in lines)


def test_the_number_of_lanes_is_bounded_by_memory_and_seldom_changes():
    small, large, huge = (kind_of((n, n, n)) for n in (8, 32, 64))
    assert [small.width(count) for count in (1, 2, 3, 100, 128, 5000)] == [0, 2, 4, 128, 128, 128]
    assert large.width(5000) * large.lane_bytes <= 2**24
    assert huge.width(5000) == 0


def shared(counts):
    """The kind in whose bucket the problems of each kind are computed, for so many of each."""
    found = kinds.merged_kinds({kind: [kind] * count for kind, count in counts.items()})
    return {one: target for target, ones in found.items() for one in ones}


def test_kinds_that_fit_into_a_larger_bucket_share_its_program(worth_compiling):
    """Where that costs less than a program or a batch of their own, or than solving them one by one."""
    worth_compiling(_WORTH_COMPILING)
    tiny, small, large = (kind_of((n, n, n)) for n in (4, 8, 32))
    assert shared({tiny: 30_000, small: 30_000}) == {tiny: small, small: small}  # one program in place of two
    assert [kind.width(30_000) for kind in (tiny, small)] == [128, 128]
    few, some = {tiny: 20, small: 20}, {tiny: 1000, small: 1000}
    assert [kind.width(1000) for kind in some] == [0, 0]
    assert shared(few) == {tiny: small, small: small}  # one batch in NumPy
    assert shared(some) == {tiny: tiny, small: small}
    # Three large problems are no reason to compute a thousand small ones in their size.
    assert shared({small: 1000, large: 3}) == {small: small, large: large}
    assert shared({small: 100_000, large: 10_000}) == {small: small, large: large}
    other = kind_of((4, 4, 4), limits=[(by_name("max-lift"), 1.0)])
    assert shared({other: 1000, small: 1000}) == {other: other, small: small}
    three, five = (kind_of((n, 4, 4), leakage=by_name("ldp")) for n in (3, 5))  # rows of pairs of private symbols
    assert shared({three: 1000, five: 1000}) == {three: three, five: five}
