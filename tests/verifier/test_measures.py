"""Every leakage measure of the library, computed by the verifier from whole numbers."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from jaxpriv import leakage
from jaxpriv.errors import IntegrityError
from jaxpriv.verifier.claims import DIVERGENCES, MEASURES, Measure
from tests.cases import raised
from tests.verifier.conftest import ONE, counted, integers

ORDERS = (1e-3, 0.5, 0.9999, 1.0, 1.0000001, 2.0, 10.0, 300.0, math.inf)


def every_measure():
    """The arguments of every measure, in each of its forms."""
    for name, (forms, needed) in MEASURES.items():
        if needed == "order":
            ends = (1.0, math.inf)
            yield from ({"name": name, "order": one} for one in (ends if name == "maximal-alpha-leakage" else ORDERS))
        elif needed == "divergence":
            yield from ({"name": name, "divergence": one} for one in DIVERGENCES if one != "e-gamma")
            yield from ({"name": name, "divergence": "e-gamma", "gamma": one} for one in (1.0, 1.3))
        else:
            yield from ({"name": name, "form": form} for form in forms)


def drawn(seed: int, *, zeros: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 40, (3, 5))
    counts[seed % 3, 1] = 0
    w = rng.dirichlet(np.full(4, 0.5), 5)
    if zeros:
        w[[0, 2, 3, 4], 2] = 0  # only an x that one private symbol never has
    return counts, integers(w / w.sum(axis=1, keepdims=True))


def test_the_measures_are_those_of_the_library():
    """A measure that is entered in the library and not here would be one whose target no verifier checks."""
    assert set(MEASURES) == set(leakage.NAMES)
    assert leakage.DIVERGENCES == DIVERGENCES
    for name, (forms, needed) in MEASURES.items():
        assert forms == leakage.forms_of(name)
        assert Measure(name).fault is None or needed is not None
        if needed is not None:
            with raised(ValueError, f"needs {needed}"):
                leakage.by_name(name)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_values_and_units_are_those_of_the_library(seed, zeros):
    counts, table = drawn(seed, zeros=zeros)
    exact, infinite = counted(counts, table), 0
    for arguments in every_measure():
        claim = exact.leakage(Measure(**arguments))
        measure = leakage.by_name(**arguments)
        expected = leakage.evaluate(measure, counts / counts.sum(), table / ONE)
        assert claim.unit == measure.unit, arguments
        if claim.upper is None:
            assert expected.value == math.inf, arguments
            infinite += 1
            continue
        low, high = Fraction(claim.lower), Fraction(claim.upper)
        assert 0 <= low <= high <= low * (1 + Fraction(1, 10**11)) + Fraction(1, 10**30), arguments
        assert float(low) == pytest.approx(expected.value, rel=1e-9, abs=1e-12), arguments
    assert (infinite > 0) == zeros


@pytest.mark.parametrize("order", [5e-324, 1e-9, 1 - 2**-53, 1 + 2**-52, 7.5, 1e9, 1.7e308])
def test_informations_of_extreme_orders_are_enclosed(order):
    """Against a hundred digits where powers still have some, and against the limits beyond."""
    counts, table = drawn(1, zeros=False)
    exact = counted(counts, table)
    for name in ("sibson", "arimoto"):
        claim = exact.leakage(Measure(name, order=order))
        low, high = Fraction(claim.lower), Fraction(claim.upper)
        assert high - low <= high / 10**11 + Fraction(1, 10**20)
        if 1e-3 < order < 1e6:
            with localcontext(prec=100):
                p = [Decimal(one) / exact.records for one in exact.private]
                w = [[Decimal(one) / (exact.records * ONE) for one in row] for row in exact.outputs]
                a, q = Decimal(order), p if name == "arimoto" else None
                terms = [
                    sum(x**a * (1 if q else one ** (1 - a)) for x, one in zip(column, p, strict=True)) ** (1 / a)
                    for column in zip(*w, strict=True)
                ]
                norm = sum(one**a for one in q) ** (1 / a) if q else Decimal(1)
                value = Fraction(a / (a - 1) * (sum(terms) / norm).ln())
            assert low <= value <= high
    ends = {"sibson": "maximal-leakage", "arimoto": "min-entropy"}
    for name, end in ends.items():
        value = float(exact.leakage(Measure(name, order=order)).upper)
        if order > 1e8:
            assert value == pytest.approx(float(exact.leakage(end).upper), rel=1e-6)
        if abs(order - 1) < 1e-15:
            assert value == pytest.approx(float(exact.leakage("mutual-information").upper), rel=1e-11)


def test_what_is_independent_leaks_nothing():
    counts = np.array([[3, 4, 5], [6, 8, 10]])
    table = integers(np.random.default_rng(1).dirichlet(np.ones(3), 3))
    for arguments in every_measure():
        claim = counted(counts, table).leakage(Measure(**arguments))
        if arguments["name"] != "correct-guess":
            assert (claim.lower, claim.upper) == ("0", "0"), arguments


def test_a_measure_that_is_none_has_a_fault():
    for arguments in (
        {"name": "mutual-informations"},
        {"name": "Mutual-Information"},
        {"name": "ldp", "form": "average"},
        {"name": "mutual-information", "order": 2.0},
        {"name": "sibson"},
        {"name": "sibson", "order": 0.0},
        {"name": "sibson", "order": math.nan},
        {"name": "maximal-alpha-leakage", "order": 0.5},
        {"name": "f-information"},
        {"name": "f-information", "divergence": "own"},
        {"name": "f-information", "divergence": "kl", "gamma": 2.0},
        {"name": "f-information", "divergence": "e-gamma"},
        {"name": "f-information", "divergence": "e-gamma", "gamma": 0.5},
    ):
        assert Measure(**arguments).fault is not None, arguments
        record = dict.fromkeys(("name", "form", "order", "divergence", "gamma")) | arguments
        stated = {key: repr(one) if isinstance(one, float) else one for key, one in record.items()}
        with raised(IntegrityError, "asked"):
            Measure.of(stated, "asked")
