"""The forms of the two problems as linear programs over columns, and what their duals mean.

A column q has a(q) and b(q), both >= 0. For mutual information a(q) = D(Tq || P_S) and b(q) = D(q || P_X), exact near
0 (H(S) - H(Tq) and H(X) - H(q) differ from them by terms linear in q, which any measure with mean P_X averages to
zero). Every form reads

    minimise sum m cost(q)   subject to   sum m side(q) <= limit,  sum m q = P_X

    funnel      disclosure      cost a         side -b   limit -R        a - mu b - nu.q >= 0
                limited leakage cost -b        side a    limit D         a - b/mu - (nu/mu).q >= 0
                multiplier      cost a - l b
    bottleneck  disclosure      cost -a        side b    limit R         a - mu b + nu.q <= 0
                relevance       cost b         side -a   limit -D        a - b/mu + (nu/mu).q <= 0
                multiplier      cost -a + l b

so that the dual (nu, mu) always gives prices and lambda of the one function a - lambda b. `MOST` is the most of a.
"""

from dataclasses import dataclass

import numpy as np

# The slope of either curve is at most one; the funnel is priced below it.
_STEEPEST = 1.0 - 1e-9


@dataclass(frozen=True)
class Objective:
    """Attributes:
    funnel: which of the two problems.
    form: `disclosure`, `side` (the leakage is limited), or `multiplier`.
    target: R, D, or l.
    steepest: the largest lambda that columns are priced at.
    """

    funnel: bool
    form: str
    target: float
    steepest: float = _STEEPEST

    @property
    def sign(self) -> float:
        """+1 where a - lambda b is minimised (funnel), -1 where it is maximised."""
        return 1.0 if self.funnel else -1.0

    @property
    def limit(self) -> float | None:
        """The right-hand side of the one constraint beside the mean."""
        if self.form == "multiplier":
            return None
        return -self.sign * self.target if self.form == "disclosure" else self.sign * self.target

    @property
    def floor(self) -> float:
        """No plan costs less, whatever the atoms: a leakage is never negative."""
        return 0.0 if self.funnel and self.form == "disclosure" else -np.inf

    def cost(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """What is minimised."""
        if self.form == "multiplier":
            return self.sign * (a - self.target * b)
        return self.sign * a if self.form == "disclosure" else -self.sign * b

    def side(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """What is limited."""
        return -self.sign * b if self.form == "disclosure" else self.sign * a

    def duals(self, nu: np.ndarray, mu: float) -> tuple[np.ndarray, float]:
        """(prices, lambda) of a - lambda b from the duals of the program; lambda is at most the steepest."""
        if self.form == "multiplier":
            return self.sign * nu, min(self.target, self.steepest)
        if self.form == "disclosure":
            return self.sign * nu, min(max(mu, 0.0), self.steepest)
        if not mu * self.steepest > 1.0:
            return self.sign * nu * self.steepest, self.steepest
        return self.sign * nu / mu, 1.0 / mu

    def priced(self, gap: float, lam: float) -> float:
        """What a gap of the cost is in a - lambda b."""
        return gap * lam if self.form == "side" else gap

    def bound(self, line: float, lam: float) -> float:
        """A bound on the least cost, if a - lambda b is at least (bottleneck: at most) `line`."""
        if self.form == "disclosure":
            return self.sign * (line + lam * self.target)
        if self.form == "multiplier":
            return self.sign * line if lam == self.target else -np.inf
        return -self.sign * (self.target - line) / lam if lam > 0 else -np.inf


# The most of a, whatever b is: a price of zero.
MOST = Objective(funnel=False, form="multiplier", target=0.0)
