"""The convex program of any leakage measures: objective, average limits and worst-outcome limits.

Every measure is the support function of a set G of decision rules of the adversary (MATH of the
certificates: phi(w) = sup { <g, w> : g in G }), written here as a `Term`: rows A of shape (T, X), so
that A W[:, y] is what the term sees of output y, and the set

    G = { g : h(g) <= 0 }                                      smooth kinds, h convex, separable but for LOSS
    G = { k : 0 <= k <= cap, reference . k = 1 }               kind LINEAR

A term stands in one of four roles, with W_y = W[:, y] and phi(y) = sup { <g, A W_y> : g in G }:

    OBJECTIVE  + sum_y phi(y) in the objective
    AVERAGE    sum_y phi(y) <= bound
    PEAK       sum_y phi(y) <= peak, and the peak is minimised (a set of joints)
    WORST      phi(y) + offset . W_y <= 0 for every y: smooth kinds;
               for LINEAR terms: some t_y with A W_y <= t_y reference (A W_y <= 0 if reference = 0)

    minimise <cost, W> + objective terms + peak  subject to  <constraints_r, W> <= budgets_r + marks_r peak.
"""

import enum
from dataclasses import dataclass, field
from typing import Any

import jax


class Kind(enum.Enum):
    """The set G of a term."""

    ENTROPIC = "entropic"  # sum_i r_i e^{g_i} <= 1: relative entropy to r
    POWER = "power"  # Renyi: sum_i r_i |g_i|^b <= 1, g of the sign of `parameter`'s order - 1
    CHI_SQUARED = "chi-squared"  # last row: the mass; sum_i r_i f*(g_i) + g_last <= 0
    REVERSE_KL = "reverse-kl"
    HELLINGER = "hellinger"
    JENSEN_SHANNON = "jensen-shannon"
    GENERATOR = "generator"  # the same for a user's f
    LOSS = "loss"  # a user's loss: some announcement q has g <= -C(., q)
    LINEAR = "linear"


class Role(enum.Enum):
    """Where a term stands in the program."""

    OBJECTIVE = "objective"
    AVERAGE = "average"
    PEAK = "peak"
    WORST = "worst"


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Term:
    """One measure under one joint. All arrays float, one dtype."""

    rows: Any  # (T, X)
    reference: Any  # (T,): r of a smooth kind, the normalisation of LINEAR (zeros: none)
    cap: Any  # (T,) or None: LINEAR only
    offset: Any  # (X,): -eps P(x) in role WORST, otherwise 0
    bound: Any  # (): of role AVERAGE; PEAK: sum_y phi(y) - bound <= peak; otherwise 0
    parameter: Any  # (): the exponent b of POWER, otherwise 0
    kind: Kind = field(metadata={"static": True})
    role: Role = field(metadata={"static": True})
    normalised: bool = field(metadata={"static": True})  # whether t_y exists (LINEAR with a reference)
    negative: bool = field(metadata={"static": True}, default=False)  # POWER of an order < 1: g < 0
    function: Any = field(metadata={"static": True}, default=None)  # the user's: `Generator` (GENERATOR), `Loss` (LOSS)
    # The rule that rules are counted from, (T,), None: zero. The set of a smooth kind is then { g : g + centre in G }.
    centre: Any = None

    @property
    def smooth(self) -> bool:
        return self.kind is not Kind.LINEAR

    @property
    def massed(self) -> bool:
        """Whether the last row is the mass of the output: the f kinds."""
        return self.kind not in (Kind.ENTROPIC, Kind.POWER, Kind.LOSS, Kind.LINEAR)

    def whole(self, g: Any) -> Any:
        """Rules g (..., T) of a smooth term as the formulas of its kind take them."""
        return g if self.centre is None else g + self.centre

    @property
    def priced(self) -> bool:
        """Whether one price for all outputs multiplies the set (a limit on the sum over the outputs)."""
        return self.role in (Role.AVERAGE, Role.PEAK)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class MeasuredProgram:
    """One convex program over mechanisms of shape (X, Y)."""

    terms: tuple[Term, ...]
    mass: Any  # (X,): P(x), for the scale of the central path
    cost: Any  # (X, Y)
    constraints: Any  # (R, X, Y)
    budgets: Any  # (R,)
    marks: Any  # (R,): 1 where the peak is added to the budget
    support: Any  # (X, Y) bool
    anchor: Any  # (X, Y): meets every limit
    equal: Any = None  # (R,) bool: constraints that hold with equality, at a price of any sign; None: there are none
    shares: bool = field(metadata={"static": True}, default=False)  # whether any of `marks` is 1
    diagonal: bool = field(metadata={"static": True}, default=False)  # one term, whose rows are a diagonal matrix

    @property
    def peaked(self) -> bool:
        """Whether there is a peak to be minimised."""
        return self.shares or any(term.role is Role.PEAK for term in self.terms)
