"""One more release after an earlier one, of every measure and form, against linear programs with tangents.

A cell is answered, or refused with its reason and another way. The pairs (x, z) are the inputs of the checker, and the
outputs are (z, y): a mechanism is zero where its two z differ.
"""

import itertools

import jax
import numpy as np
import pytest

import jaxpriv as jp
from tests.cases import assert_certified, assert_refused

from .cells import UNBUDGETED
from .judge import ALTERNATIVE
from .measures import MEASURES
from .optimum import Limit, Question, least

COSTS = np.array([[0.0, 1.0], [0.4, 0.3], [1.0, 0.0]])
DENSE = np.array([[0.2, 0.1, 0.1], [0.05, 0.25, 0.1], [0.05, 0.05, 0.1]])
NOISY, SHARP, NOTHING = [[0.8, 0.2], [0.5, 0.5], [0.1, 0.9]], [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]], [[1.0]] * 3
# Joint and earlier mechanism.
STRUCTURES = {
    "dense": (DENSE, NOISY),
    "zeros": (np.array([[0.3, 0.1, 0.0], [0.1, 0.2, 0.3]]), NOISY),
    "zero-mass": (np.pad(DENSE, ((0, 1), (0, 0))), NOISY),
    "sharp": (DENSE, SHARP),
    "first": (DENSE, NOTHING),
}
FORMS = ("budget", "leakage-budget", "multiplier")


def _cells():
    """Every measure and form, the structures in turn; always run: for each kind of measure that is not one's own the
    first form that is not refused, and the forms in turn.
    """
    seen = []
    for place, (name, form) in enumerate(itertools.product(MEASURES, FORMS)):
        kind, structure = MEASURES[name].kind, [*STRUCTURES][place % len(STRUCTURES)]
        first = kind not in seen and "user" not in name and form in (FORMS[len(seen) % 2], "multiplier")
        seen += [kind] if first else []
        yield pytest.param(name, form, structure, marks=() if first else pytest.mark.grid)


def _refused(name: str, form: str) -> bool:
    """The least multiple of the scales is no convex program, and a multiplier needs an average without a logarithm."""
    reference = MEASURES[name]
    return (form == "budget" and name in UNBUDGETED) or (
        form == "multiplier" and (reference.worst or reference.logarithm)
    )


@pytest.mark.parametrize(("name", "form", "structure"), [*_cells()])
def test_the_next_release(name, form, structure):
    reference, (joint, earlier) = MEASURES[name], STRUCTURES[structure]
    size, outputs = len(earlier[0]), COSTS.shape[1]
    pairs = (joint[:, :, None] * earlier).reshape(len(joint), -1)
    same = np.kron(np.ones((3, 1)), np.kron(np.eye(size), np.ones((1, outputs)))) > 0
    costs = pairs.sum(axis=0)[:, None] * np.tile(np.repeat(COSTS, size, axis=0), (1, size))
    nearest = (costs == np.where(same, costs, np.inf).min(axis=1, keepdims=True)) & same
    near = 0.6 * nearest / nearest.sum(axis=1, keepdims=True) + 0.4 * same / outputs
    pairs_with_mass = pairs[pairs.sum(axis=1) > 0]
    nothing, leaks = (reference.of(pairs_with_mass, way) for way in (same / outputs, near))
    limit = nothing + 0.4 * (leaks - nothing) if np.isfinite(leaks) else nothing + 0.5
    budget = float((costs * near).sum())
    asked = {
        "budget": {"budget": budget},
        "leakage-budget": {"leakage_budget": limit},
        "multiplier": {"multiplier": 0.3},
    }
    given = {**asked[form], "leakage": reference.asked(joint.sum(axis=1))}
    if _refused(name, form):
        assert_refused(ALTERNATIVE.pattern, jp.solve, jp.sequential_release(joint, earlier, COSTS, **given))
        return
    problem = jp.sequential_release(joint, earlier, COSTS, **given)
    solution = jp.solve(problem)
    assert solution.status == "optimal"
    assert_certified(problem, solution)
    mechanism = np.asarray(solution.mechanism)
    assert not mechanism[~same].any()
    leakage, spent = reference.of(pairs_with_mass, mechanism), float((costs * mechanism).sum())
    terms = [Limit(reference, pairs_with_mass, None)]
    if form == "leakage-budget":
        assert leakage <= limit + 1e-9
        limited = Limit(reference, pairs_with_mass, limit if reference.worst else reference.inner(limit))
        optimum, value = least(Question(costs, [], [limited], same), mechanism)[0], spent
    elif form == "multiplier":
        optimum, value = least(Question(0.3 * costs, [], terms, same), mechanism)[0], leakage + 0.3 * spent
    elif reference.worst:  # no limit below the bound can be met within the budget
        assert spent <= budget + 1e-9
        below = Limit(reference, pairs_with_mass, float(solution.lower_bound) - 1e-6)
        assert least(Question(costs, [], [below], same), mechanism)[0] > budget
        optimum = value = leakage
    else:
        assert spent <= budget + 1e-9
        total = least(Question(np.zeros(costs.shape), [(costs, budget)], terms, same), mechanism)[0]
        optimum, value = reference.outer(total), leakage
    assert value <= solution.value + 1e-9
    assert solution.lower_bound - 1e-6 <= optimum <= solution.value + 1e-8


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap, jax.grad])
def test_transforms_are_refused_with_another_way(transform):
    for release in (
        lambda joint: jp.sequential_release(joint, NOISY, COSTS, budget=0.3).joints.sum(),
        lambda joint: jp.coalition_release(joint, NOISY, COSTS, {(0,): 0.3}).value,
    ):
        assert_refused(ALTERNATIVE.pattern, transform(release), DENSE[None] if transform is jax.vmap else DENSE)


# Measures that are stated as no mean over the outputs are refused, the families of an order among them.
MEANS = [
    name
    for name, reference in MEASURES.items()
    if not (reference.worst or reference.logarithm or name.startswith(("sibson", "arimoto")))
]


@pytest.mark.parametrize("form", ["limit", "budget"])
@pytest.mark.parametrize("coalition", [(), (0,)], ids=["alone", "together"])
@pytest.mark.parametrize("name", [MEANS[0], *(pytest.param(name, marks=pytest.mark.grid) for name in MEANS[1:])])
def test_a_limit_for_one_coalition(name, coalition, form):
    reference, (joint, earlier) = MEASURES[name], STRUCTURES["dense"]
    pairs = (joint[:, :, None] * earlier).reshape(len(joint), -1)
    size, outputs = len(earlier[0]), COSTS.shape[1]
    blocks = size if coalition else 1  # outputs are (z, y) or y
    same = np.tile(np.kron(np.eye(blocks), np.ones((size // blocks, outputs))), (len(COSTS), 1)) > 0
    costs = pairs.sum(axis=0)[:, None] * np.tile(np.repeat(COSTS, size, axis=0), (1, blocks))
    nothing, middle = reference.of(pairs, same / outputs), 0.5 * (costs * (same / outputs)).sum()
    limit, budget = nothing + 0.01, None if form == "limit" else middle
    measure = reference.asked(joint.sum(axis=1))
    found = jp.coalition_release(joint, earlier, COSTS, {coalition: limit}, budget=budget, leakage=measure, tol=1e-5)
    # Of measures with kinks the interval is proved, and may stay wide.
    kinks = reference.linear and (coalition or name == "total-variation")
    assert found.status == "optimal" or kinks
    flat = found.mechanism.reshape(-1, outputs)
    seen = np.tile(flat, (1, blocks)) * same
    leakage, spent = reference.of(pairs, seen), float((costs * seen).sum())
    assert found.leakages[coalition] == pytest.approx(leakage, abs=1e-9)
    if form == "limit":
        assert leakage <= limit + 1e-9
        limited = Limit(reference, pairs, reference.inner(limit))
        optimum, value = least(Question(costs, [], [limited], same), seen)[0], spent
    else:
        assert spent <= middle + 1e-9
        terms = [Limit(reference, pairs, None)]
        optimum = least(Question(np.zeros(costs.shape), [(costs, middle)], terms, same), seen)[0] - limit
        value = leakage - limit
    assert value == pytest.approx(found.value, abs=1e-9)
    assert found.lower_bound - 1e-6 <= optimum <= found.value + 1e-8
    assert abs(found.mechanism.sum(axis=-1) - 1.0).max() <= 1e-12


@pytest.mark.parametrize("name", [name for name in MEASURES if name not in MEANS])
def test_coalitions_take_means_over_the_outputs(name):
    measure = MEASURES[name].asked(DENSE.sum(axis=1))
    assert_refused(
        "must be a mean over the outputs", jp.coalition_release, DENSE, NOISY, COSTS, {(): 1.0}, leakage=measure
    )
