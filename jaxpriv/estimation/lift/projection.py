"""Self-normalisation: the nearest valid log-lift of any critic.

A log-lift i(s, x) = ln P(s|x)/P(s) satisfies, for every x,

    sum_s p_s e^{i(s,x)} = sum_s P(s|x) = 1,                                   (1)

so p_s e^{i(s,x)} <= 1 and i(s, x) <= -ln p_s for every s and x, whatever the data. A critic g is projected onto (1) by

    i(s, x) = g(s, x) - ln Z(x),    Z(x) = sum_s p_s e^{g(s,x)}.

What it does to the Donsker-Varadhan value DV(g) = E g(S,X) - ln E Z(X): the logarithm vanishes, because Z = 1 after
it, and

    DV(i) = E g - E ln Z(X)  >=  E g - ln E Z(X) = DV(g)                        (Jensen),

so the population value never falls. Without its logarithm a mean over held-out rows is an unbiased estimate of
DV(i) <= I(S;X) for the prior that (1) was imposed with; with a prior counted from n rows the bias is of the order of
(|S| - 1)/(2 n).
"""

import jax
import numpy as np
from jaxtyping import Array, Float
from scipy.special import logsumexp


def project(critic: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """`(n, S)` critic values -> log-lift with sum_s p_s e^i = 1 in each row; float64 on the host."""
    return critic - logsumexp(critic + np.log(prior), axis=1, keepdims=True)


def projected(critic: Float[Array, "n s"], log_prior: Float[Array, " s"]) -> Float[Array, "n s"]:
    """The same inside a compiled function."""
    return critic - jax.nn.logsumexp(critic + log_prior[None, :], axis=1, keepdims=True)


def ceilings(prior: np.ndarray) -> np.ndarray:
    """`(S,)` -ln p_s: no log-lift is above it."""
    return -np.log(prior)
