"""A small joint from medical data, for comparisons with published privacy-funnel solvers."""

import numpy as np

# P(x|s), rounded to four digits, and P(s).
_GIVEN = (
    (0.1926, 0.2685, 0.1516, 0.2004),
    (0.0574, 0.3796, 0.0665, 0.4159),
    (0.0034, 0.0463, 0.0133, 0.0366),
    (0.0034, 0.1574, 0.0027, 0.0711),
    (0.6115, 0.0833, 0.5027, 0.2004),
    (0.0439, 0.0093, 0.0878, 0.0366),
    (0.0709, 0.0463, 0.1622, 0.0194),
    (0.0169, 0.0093, 0.0133, 0.0194),
)
_PRIVATE = (0.2379, 0.0868, 0.3023, 0.3730)


def heart_disease() -> np.ndarray:
    """P(S,X), shape (4, 8), of the UCI heart disease data, as a public code for privacy funnels has it.

    The published digits do not add up to one: the product P(x|s) P(s) is normalised. Source of the digits: the
    repository `drs-pfib` (Douglas-Rachford splitting for privacy funnel and information bottleneck, arXiv:2203.07527).
    Perfect privacy, I(S;Y) = 0, allows I(X;Y) = 0.701802363 bits.
    """
    joint = (np.array(_GIVEN) * _PRIVATE).T
    return joint / joint.sum()
