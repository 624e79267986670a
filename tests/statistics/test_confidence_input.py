"""Bad counts, levels and declarations: refused by name and position, without a value."""

import numpy as np
import pytest

from jaxpriv.statistics import audit
from jaxpriv.statistics.confidence import clopper_pearson, l1_radius, population
from tests.cases import refused

GOOD = np.array([[5, 3], [2, 10]])
BAD = {
    "negative": ([[5, -77], [2, 10]], r"\[0, 1\] is negative"),
    "nan": ([[5.0, 1.0], [np.nan, 10.0]], r"\[1, 0\] is NaN"),
    "float": ([[5.0, 1.0], [2.0, 10.0]], "dtype float64; counts must be integers"),
    "bool": ([[True, False], [True, True]], "dtype bool"),
    "text": ([["5", "1"], ["2", "9"]], "dtype"),
    "object": (np.array([[5, 1], [2, 2**70]], dtype=object), "dtype object"),
    "complex": ([[5j, 1], [2, 1]], "dtype complex"),
    "ragged": ([[5, 1], [2]], "rectangular"),
    "flat": ([5, 1], "1 dimension"),
    "empty": (np.zeros((2, 0), int), "empty along axis 1"),
    "masked": (np.ma.MaskedArray([[5, 1], [2, 1]], [[0, 0], [1, 0]]), r"\[1, 0\] is masked"),
    "too many": ([[2**52, 2**52], [0, 1]], r"2\^53"),
}
TAKERS = {
    "population": population,
    "estimate": audit.estimate_information,
    "permutation": audit.permutation_test,
    "g-test": audit.g_test,
    "split": audit.split,
    "conformity": lambda counts: audit.conformity(counts, np.full((2, 2), 0.5)),
    "pairs": audit.audit_pairs,
    "mechanism": lambda counts: audit.audit_mechanism(np.full((2, 2), 0.5), counts=counts),
}


@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize("case", BAD)
def test_bad_counts(case, taker):
    value, words = BAD[case]
    with refused(words) as caught:
        TAKERS[taker](value)
    assert "77" not in str(caught.value)


@pytest.mark.parametrize("beta", [0, 1, -0.1, 1.5, np.nan, np.inf, True, "0.05", None])
def test_bad_levels(beta):
    for call in (lambda b: population(GOOD, b), lambda b: l1_radius(3, 10, b), lambda b: audit.drift([1], [1], b)):
        with refused("beta"):
            call(beta)


@pytest.mark.parametrize("confidence", [0, 1, 95, np.nan, True])
def test_bad_confidence(confidence):
    with refused("confidence"):
        audit.audit_mechanism(np.full((2, 2), 0.5), counts=GOOD, confidence=confidence)
    with refused("confidence"):
        audit.audit_pairs(GOOD, confidence=confidence)


def test_bad_sizes():
    for cells, draws, name in ((0, 5, "cells"), (2.5, 5, "cells"), (2, -1, "draws"), (2, np.nan, "draws")):
        with refused(name):
            l1_radius(cells, draws, 0.05)
    for permutations in (0, 2.5, np.nan):
        with refused("permutations"):
            audit.permutation_test(GOOD, permutations=permutations)
    with refused("seed"):
        audit.split(GOOD, seed=-1)


def test_bad_declarations_of_what_is_possible():
    for possible, words in (
        ([[1, 1]], "shape"),
        ([[1, 1], [0, 0]], "row 1 has no possible pair"),
        ([[1, 0], [1, 1]], r"possible\[0, 1\].*counts\[0, 1\] is positive"),
        ([[1, 0.5], [1, 1]], r"possible\[0, 1\] is neither true/false nor 0/1"),
    ):
        with refused(words):
            population(GOOD, possible=possible)


def test_bad_audits():
    channel = np.full((2, 2), 0.5)
    joint = GOOD / GOOD.sum()
    for options, words in (
        ({}, "either counts or joint"),
        ({"counts": GOOD, "joint": joint}, "either counts or joint"),
        ({"counts": 0 * GOOD}, "no record"),
        ({"joint": joint, "held_out": True}, "held_out"),
        ({"joint": joint, "possible": np.ones((2, 2), bool)}, "possible"),
        ({"joint": GOOD}, "sums to"),
        ({"counts": np.ones((2, 3), int)}, "mechanism has 2 rows"),
    ):
        with refused(words):
            audit.audit_mechanism(channel, **options)
    with refused("row 0 sums"):
        audit.audit_mechanism(0.9 * channel, counts=GOOD)
    with refused("fewer than two pairs"):
        audit.audit_pairs([[1, 0], [0, 0]])
    with refused("3 outputs"):
        audit.conformity(np.ones((2, 3), int), channel)


@pytest.mark.parametrize(
    "value", [0.3, -7654321, np.nan, True, "3", None, 3j, [[1], [1, 2]], np.ma.masked_equal([3], 3)]
)
def test_an_interval_takes_whole_counts_alone(value):
    for arguments, name in (((value, 10), "hits"), ((3, value), "draws")):
        with refused(name) as caught:
            clopper_pearson(*arguments, 0.05)
        assert "7654321" not in str(caught.value)
    for arguments, words in (
        ((11, 10, 0.05), "hits is above draws"),
        (([1, 2], [3, 4, 5], 0.05), "hits, draws and beta have shapes that do not match"),
        ((3, 10, 0.0), "beta must be > 0 and < 1"),
        ((3, 10, [0.05, np.nan]), "beta must be > 0 and < 1"),
    ):
        with refused(words):
            clopper_pearson(*arguments)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([0.1, 1.5], r"p_values\[1\] is above 1"),
        ([0.1, -0.5], r"p_values\[1\] is negative"),
        ([np.nan], r"p_values\[0\] is NaN"),
        ([[0.1]], "p_values has 2 dimension"),
        ("0.1", "p_values has dtype"),
        (None, "p_values has dtype"),
    ],
)
def test_p_values_are_numbers_from_0_to_1(value, words):
    with refused(words):
        audit.holm(value)


def test_sentences_names_and_declarations_are_what_they_are_called():
    half = np.full((2, 2), 0.5)
    for value in ("one text", None, 3, [1], np.array("text")):
        with refused("^statements must be a sequence"):
            audit.audit_mechanism(half, counts=GOOD, statements=value, bootstrap=0)
        with refused("^statements must be a sequence"):
            audit.audit_pairs(GOOD, statements=value, permutations=9, bootstrap=0)
    for value in ("ab", 3, [1, 2], np.array([1, 2])):
        with refused("^names must be a sequence"):
            audit.audit_attributes(GOOD, [[0, 0], [0, 1]], names=value)
    for value in ("False", 1, None):
        with refused("^held_out must be True or False"):
            audit.audit_mechanism(half, counts=GOOD, held_out=value)
        with refused("^held_out must be True or False"):
            population(GOOD, held_out=value)
