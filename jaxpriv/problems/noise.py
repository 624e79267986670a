"""Additive noise Y = X + Z with Z independent of the data (Calmon-Fawaz Corollary 1, second part).

The paper replaces the problem by max H(Z) s.t. E d(Z) <= D, arguing that H(X|Y) = H(Z). What holds is
H(Y|X) = H(Z), so I(X;Y) = H(Y) - H(Z), and maximum entropy is optimal where H(Y) does not depend on
the noise: uniform X on a cyclic group. In general the least leakage is the convex program

    minimise I(S; X + Z)   over the distribution of Z   subject to E d(Z) <= D,

which is what `NoiseProblem` states; `max_entropy_noise` is the paper's own answer.
"""

from dataclasses import dataclass

import equinox as eqx
import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._module import summary
from jaxpriv._types import Arr
from jaxpriv._validation import finite, joint_array, real_array, scalar
from jaxpriv.errors import InfeasibleError, InputError


class NoiseProblem(eqx.Module):
    """Design the law of Z for Y = X + Z with least I(S;Y) at E d(Z) <= budget.

    Args:
        joint: P(S,X), shape (S, X); symbol x stands for the integer x. diag(P_X) gives the least I(X;Y).
        distortion: d(z), shape (Z,), finite.
        budget: the largest mean of d(Z), in the unit of d.
        offsets: the integers that z = 0..Z-1 stand for; Y then runs over all sums, from the least
            to the largest. By default addition is modulo |X|, Z = |X| and z stands for itself.

    Raises:
        InputError: naming the argument and the position.
    """

    joint: np.ndarray
    distortion: np.ndarray  # (Z,)
    budget: float
    targets: np.ndarray  # (X, Z) index of y = x + z
    outputs: int = eqx.field(static=True)

    def __init__(self, joint: ArrayLike, distortion: ArrayLike, *, budget: float, offsets: ArrayLike | None = None):
        self.joint = joint_array(joint)
        self.distortion = finite(real_array(distortion, "distortion", ndim=1), "distortion")
        self.budget = scalar(budget, "budget")
        inputs, count = self.joint.shape[1], len(self.distortion)
        x = np.arange(inputs)[:, None]
        if offsets is None:
            if count != inputs:
                raise InputError(f"distortion has {count} entries; addition modulo |X| needs |X| = {inputs}")
            self.targets, self.outputs = (x + np.arange(count)) % inputs, inputs
            return
        shifts = finite(real_array(offsets, "offsets", ndim=1), "offsets")
        if len(shifts) != count:
            raise InputError(f"offsets has {len(shifts)} entries; distortion has {count}")
        if not np.all(shifts == np.round(shifts)):
            raise InputError(f"offsets[{int(np.argmax(shifts != np.round(shifts)))}] is not an integer")
        if len(np.unique(shifts)) != count:
            raise InputError("offsets repeats a value")
        if not np.all(abs(shifts) < 2**31):
            raise InputError(f"offsets[{int(np.argmax(abs(shifts)))}] is beyond 2^31")
        shifts = shifts.astype(np.int64)
        self.targets = x + shifts - shifts.min()
        self.outputs = int(self.targets.max()) + 1

    def mechanism(self, noise: Arr) -> np.ndarray:
        """W[x, x + z] = P(Z = z), shape (X, Y)."""
        table = np.zeros((self.joint.shape[1], self.outputs))
        np.put_along_axis(table, self.targets, np.broadcast_to(noise, self.targets.shape), axis=1)
        return table

    def noise(self, mechanism: Arr) -> np.ndarray:
        """P(Z = z), read off the rows of a mechanism of this problem, shape (Z,)."""
        return np.take_along_axis(np.asarray(mechanism), self.targets, axis=1)[0]

    def columns(self) -> np.ndarray:
        """A[y, s, z] = P(S=s, X + z = y): the output joint is w_y = A_y P_Z, shape (Y, S, Z)."""
        table = np.zeros((self.outputs, self.joint.shape[0], len(self.distortion)))
        for z, reached in enumerate(self.targets.T):
            table[reached, :, z] = self.joint.T
        return table


@dataclass(frozen=True)
class MaxEntropyNoise:
    """The noise of largest entropy at E d(Z) <= D: P(z) proportional to exp(-price d(z)).

    `entropy` is H of the returned law; `upper_bound` = price D + ln sum_z exp(-price d(z)) >= H of every
    feasible law (Gibbs), so their difference is the certified gap. Nats.
    """

    noise: np.ndarray
    price: float
    entropy: float
    upper_bound: float

    __repr__ = summary

    @property
    def gap(self) -> float:
        """upper_bound - entropy."""
        return self.upper_bound - self.entropy


def max_entropy_noise(distortion: ArrayLike, budget: float) -> MaxEntropyNoise:
    """max H(Z) subject to E d(Z) <= budget.

    Args:
        distortion: d(z), shape (Z,), finite.
        budget: D, at least min d (at D = min d the law is uniform on the minimisers).

    Raises `InfeasibleError` if the budget is below min d.
    """
    d = finite(real_array(distortion, "distortion", ndim=1), "distortion")
    budget = scalar(budget, "budget")
    least, mean = float(d.min()), float(d.mean())
    if budget < least:
        raise InfeasibleError(
            f"budget: E d(Z) is at least {least:.12g}, the budget allows {budget:.12g}",
            {"bound": least, "allowed": budget, "multipliers": [1.0]},
        )

    def law(price: float) -> np.ndarray:
        weight = np.exp(-price * (d - least))
        return weight / weight.sum()

    price = 0.0
    if budget < mean:
        low, high = 0.0, 1.0 / max(float(np.ptp(d)), np.finfo(float).tiny)
        while law(high) @ d > budget and np.isfinite(high):
            high *= 2.0
        for _ in range(200):  # bisection to the last bit: E d is decreasing in the price
            price = 0.5 * (low + high)
            low, high = (price, high) if law(price) @ d > budget else (low, price)
        price = high
    noise = law(price)
    present = noise[noise > 0]
    bound = price * (budget - least) + float(np.log(np.exp(-price * (d - least)).sum()))
    return MaxEntropyNoise(noise, price, float(-(present * np.log(present)).sum()), bound)
