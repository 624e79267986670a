"""Mutual information of pairs (s, y) from their counts: estimates, labelled as such.

The plug-in value I^ of n pairs is too high by about (|S|-1)(|Y|-1)/(2n) (Miller 1955); Miller and Madow's correction
I^ + (m_S + m_Y - m_SY - 1)/(2n), m the numbers of non-empty cells, removes that where the cells are full and far from
all of it where they are not. So with fewer than 5 |S| |Y| pairs nothing is estimated.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from jaxpriv._runtime.counts import count_array, failure
from jaxpriv.statistics.audit._information import mutual_information

# Pairs for each cell of the table, below which nothing is estimated.
LEAST_PER_CELL = 5
# The normal approximation of the interval is left out where the bias is more than a tenth of the value.
_LEAST_SIGNAL = 10


@dataclass(frozen=True)
class InformationEstimate:
    """Estimates of I(S;Y) in nats. None of them is a bound.

    Attributes:
        plug_in: the value on the frequencies: exact for them, biased upwards for the population; None if undersampled.
        miller_madow: corrected for the bias; None if undersampled.
        interval: asymptotic two-sided interval around it; None if undersampled or too near independence.
        undersampled: fewer than 5 |S| |Y| pairs.
    """

    plug_in: float | None
    miller_madow: float | None
    interval: tuple[float, float] | None
    undersampled: bool


def estimate_information(counts: ArrayLike, beta: float = 0.05) -> InformationEstimate:
    """Estimate I(S;Y) from counts (S, Y); `beta` is the (asymptotic) error of the interval."""
    table, beta = count_array(counts), failure(beta)
    n = int(table.sum())
    joint = table / max(n, 1)
    plug_in = float(mutual_information(joint))
    if n < LEAST_PER_CELL * table.size:
        return InformationEstimate(None, None, None, True)
    full = [int(np.count_nonzero(part)) for part in (table.sum(axis=1), table.sum(axis=0), table)]
    corrected = max(0.0, plug_in + (full[0] + full[1] - full[2] - 1) / (2 * n))
    interval = None
    if 2 * n * plug_in > _LEAST_SIGNAL * (full[0] - 1) * (full[1] - 1) > 0:
        product = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
        density = np.log(np.divide(joint, product, out=np.ones_like(joint), where=table > 0))
        spread = float(np.sqrt(max((joint * (density - plug_in) ** 2).sum(), 0.0) / n) * -ndtri(beta / 2))
        interval = (max(0.0, corrected - spread), corrected + spread)
    return InformationEstimate(plug_in, corrected, interval, False)
