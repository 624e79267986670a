"""Symbols of equal probability are interchangeable, and rare ones nearly divisible.

Averaging a mechanism over the permutations that keep p changes neither its mutual information nor its limits, so
symbols of the same probability form one type with n_g members, and a posterior is described by HOW MANY members are
raised: n_g + 1 cases where subsets number 2^n_g.

A split keeps the most probable types exact and pools the rest into one divisible "fluid". The fluid can do whatever
the pooled symbols can, so its optimum is an upper bound; a rotation (`rotation`) turns its posteriors into ones
of real symbols.
"""

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Split:
    """Heavy types, from the most probable down, and the pooled light symbols.

    Attributes:
        source: p (X,), all positive.
        members: for each heavy type the symbols (indices into p), all of one probability.
        light: the pooled symbols; empty if every type is kept.
    """

    source: np.ndarray
    members: tuple[np.ndarray, ...]
    light: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """n_g of the heavy types."""
        return np.array([len(group) for group in self.members], dtype=np.int64)

    @property
    def probabilities(self) -> np.ndarray:
        """p_x of one member of each heavy type."""
        return np.array([self.source[group[0]] for group in self.members], dtype=np.float64)

    @property
    def light_mass(self) -> float:
        return float(self.source[self.light].sum())

    @property
    def mass(self) -> np.ndarray:
        """P_g of the heavy types, then of the pool if there is one: the rows of the linear program."""
        heavy = self.sizes * self.probabilities
        return np.append(heavy, self.light_mass) if len(self.light) else heavy


def types_of(source: np.ndarray) -> list[np.ndarray]:
    """The symbols of each distinct probability, from the most probable down."""
    order = np.argsort(-source, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(source[order])) + 1)


def split_at(source: np.ndarray, patterns: int, heavy: int | None = None) -> Split:
    """Keep the most probable types while their counts have at most `patterns` combinations (and at most `heavy`)."""
    groups = types_of(source)
    separate, combinations = 0, 1
    for group in groups[:heavy]:
        combinations *= len(group) + 1
        if combinations > patterns:
            break
        separate += 1
    pooled = groups[separate:]
    light = np.concatenate(pooled) if pooled else np.zeros(0, dtype=np.int64)
    return Split(source, tuple(groups[:separate]), light)


def combinations_of(split: Split) -> int:
    """How many count patterns the heavy types have."""
    return math.prod(len(group) + 1 for group in split.members)


def outer_sum(tables: list[np.ndarray]) -> np.ndarray:
    """f_1[j_1] + f_2[j_2] + ... for all patterns (j_1, j_2, ...), the last index running fastest."""
    total = np.zeros(1)
    for table in tables:
        total = (total[:, None] + table[None, :]).ravel()
    return total
