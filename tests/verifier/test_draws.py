"""Whether draws depend on anything but x: honest ones pass, and dependence of every kind is found and named."""

import math

import numpy as np
import pytest

from jaxpriv.verifier import draws
from jaxpriv.verifier.draws import _log_evidence, dependence, order_dependence

W = {0: [0.7, 0.2, 0.1], 1: [0.1, 0.6, 0.3], 2: [0.25, 0.25, 0.5]}
MATRIX = np.array([W[x] for x in W])
RECORDS = 900


def records(seed):
    """x, a private column that depends on x, a number for each record; as texts."""
    rng = np.random.default_rng(seed)
    x = rng.integers(3, size=RECORDS)
    private = (rng.random(RECORDS) < 0.2 + 0.3 * x).astype(int)
    columns = {"s": private.astype(str).tolist(), "row": [str(row) for row in range(RECORDS)]}
    return rng, x, columns


def inverted(x, numbers):
    return (numbers[:, None] >= np.cumsum(MATRIX, axis=1)[x]).sum(axis=1).clip(max=2)


def checked(x, y, columns):
    return dependence(W, x.tolist(), y.tolist(), columns, ["s"], {})


def sorted_by(x, y, key):
    """The same draws for every x, given out in the order of a key."""
    y = y.copy()
    for symbol in W:
        rows = np.flatnonzero(x == symbol)
        y[rows[np.argsort(key[rows], kind="stable")]] = np.sort(y[rows])
    return y


def test_the_factors_of_an_e_value_are_those_of_the_sequential_mechanism():
    """The closed form against the product of q_t(y_t)/W(x_t, y_t), for one k, in the order of the draws."""
    x, v, y = [0, 0, 1, 0, 1, 0], [0, 1, 0, 0, 0, 0], [2, 1, 1, 2, 2, 0]
    products = []
    for k in [4.0**power for power in range(8)]:
        of_context = {}
        seen = {}
        for one in zip(x, v, y, strict=True):
            *context, output = one
            counts = seen.setdefault(tuple(context), [0, 0, 0])
            weight = W[context[0]][output]
            ratio = (k * weight + counts[output]) / (k + sum(counts)) / weight
            of_context[tuple(context)] = of_context.get(tuple(context), 1.0) * ratio
            counts[output] += 1
        of_x = [math.prod(e for c, e in of_context.items() if c[0] == one) for one in (0, 1)]
        of_v = [math.prod(e for c, e in of_context.items() if c[1] == one) for one in (0, 1, 2)]  # 2 does not occur
        products += [math.prod(of_context.values()), sum(of_x) / 2, sum(of_v) / 3]
    used = {x: W[x] for x in (0, 1)}
    assert _log_evidence(used, x, y, v, 3) == pytest.approx(math.log(np.mean(products)), rel=1e-9)


def test_the_expectation_of_the_e_value_is_one():
    """Exactly, over all outcomes of four draws: no simulation."""
    x, v = [0, 1, 0, 0], [0, 1, 0, 1]
    total = 0.0
    for code in range(81):
        y = [code // 3**power % 3 for power in range(4)]
        chance = math.prod(W[one][output] for one, output in zip(x, y, strict=True))
        total += chance * math.exp(_log_evidence(W, x, y, v, 2))
    assert total == pytest.approx(1.0, rel=1e-9)


def test_honest_draws_pass():
    found = []
    for seed in range(100):
        rng, x, columns = records(seed)
        found.append(checked(x, inverted(x, rng.random(RECORDS)), columns).p_value)
    # Each is below 0.01 with probability 0.01 at most: seven or more of 100 with probability 1e-4 at most.
    assert sum(p <= 0.01 for p in found) <= 6
    assert min(found) > 1e-8


def dependent(kind, rng, x, columns):
    u = rng.random(RECORDS)
    y, s = inverted(x, u), np.array(columns["s"]).astype(int)
    if kind == "sorted by the private column":
        return sorted_by(x, y, s)
    if kind == "one private class of one symbol":
        return np.where((s == 0) & (x == 2), 0, y)
    if kind == "drawn in order":
        return sorted_by(x, y, np.arange(RECORDS))
    if kind == "a rotation in place of draws":
        for symbol in W:
            rows = np.flatnonzero(x == symbol)
            u[rows] = (np.arange(len(rows)) * 0.6180339887498949) % 1
        return inverted(x, u)
    if kind == "each number twice":
        return inverted(x, np.repeat(u[::2], 2))
    # The same draw for the same group of a column, as a hash of the record gives it.
    return inverted(x, rng.random(7)[np.arange(RECORDS) % 7])


@pytest.mark.parametrize(
    ("kind", "strongest"),
    [
        ("sorted by the private column", ("column 's'",)),
        ("one private class of one symbol", ("column 's'",)),
        ("drawn in order", ("column 'row'", "the draw before for the same useful symbol", "the place in the table")),
        (
            "a rotation in place of draws",
            ("the draw before for the same useful symbol", "the draw for the record before"),
        ),
        ("each number twice", ("the draw for the record before",)),
        ("a function of a column", ("column 'hash'",)),
    ],
)
def test_dependence_is_found_and_named(kind, strongest):
    for seed in range(3):
        rng, x, columns = records(seed)
        columns["hash"] = (np.arange(RECORDS) % 7).astype(str).tolist()
        found = checked(x, dependent(kind, rng, x, columns), columns)
        assert found.p_value <= 1e-4
        assert found.strongest in strongest


def test_private_columns_are_tested_together_too():
    """y depends on whether two private columns are equal, and on neither of them alone."""
    rng, x, _ = records(0)
    one, other = rng.integers(2, size=(2, RECORDS))
    y = sorted_by(x, inverted(x, rng.random(RECORDS)), one ^ other)
    columns = {"one": one.astype(str).tolist(), "other": other.astype(str).tolist()}
    found = dependence(W, x.tolist(), y.tolist(), columns, ["one", "other", "absent"], {})
    assert found.p_value <= 1e-6
    assert found.strongest == "the private columns together"


def test_of_all_orders_few_are_called_none(monkeypatch):
    """Pr[p <= a] <= a of a random order: of 20 records of each kind, j of one in the first half has a known law."""
    monkeypatch.setattr(draws, "_GROUPS", 2)
    chance, p = [], []
    for j in range(21):
        half = [*range(j), *range(20, 40 - j), *range(j, 20), *range(40 - j, 40)]  # the record of each row
        rows = np.argsort(half).tolist()
        p.append(order_dependence(rows, {"s": list("a" * 20 + "b" * 20)}, ["s"]).p_value)
        chance.append(math.comb(20, j) ** 2 / math.comb(40, 20))
    for bound in p:
        assert sum(one for one, other in zip(chance, p, strict=True) if other <= bound) <= bound
    assert min(p) < 1e-6
    assert sum(one / other for one, other in zip(chance, p, strict=True)) < 2  # 1 for e-values, without their cap


def test_an_order_that_tells_something_is_found_and_named():
    rng, _, columns = records(3)
    columns["number"] = [str(n) for n in rng.integers(10**6, size=RECORDS)]
    random = [order_dependence(rng.permutation(RECORDS).tolist(), columns, ["s"]).p_value for _ in range(20)]
    assert min(random) > 1e-8  # any one below has probability 1e-8
    for name in ("s", "number", "row"):
        key = np.array(columns[name], dtype=float)
        rows = np.argsort(np.argsort(key + 1e-6 * rng.random(RECORDS), kind="stable"), kind="stable")
        found = order_dependence(rows.tolist(), columns, ["s"])
        assert found.p_value < 1e-20
        assert found.strongest in (f"column '{name}'", "the place in the table")
