"""The Gaussian privacy funnel and information bottleneck: linear releases Y = A X + Z, in closed form.

    source = from_covariances(Sx, Ss, Sxs)         # or from_samples(x, s): then everything is an estimate
    funnel(source, rate=1.0)                       # the mapping that leaks least about S at I(X;Y) = 1 nat
    bottleneck(source, rate=1.0)                   # the mapping that discloses most about S
    funnel_curve(source, rates), bottleneck_curve(source, rates)
    information(source, A, Sz)                     # I(X;Y) and I(S;Y) of any mapping, exactly

(S, X) is jointly Gaussian and Z ~ N(0, Sz) independent of it. All that counts of the covariances are the
eigenvalues lambda_1 >= ... >= lambda_n in [0, 1] of K = Sx^-1/2 Sx|s Sx^-1/2, where
Sx|s = Sx - Sxs Ss^-1 Ssx: one minus the squared canonical correlations of X and S. `source` computes them and the
information of any mapping; `release` has the formulas of one eigen-direction with their proofs, the mappings and
the curves.
After Makhdoumi, Salamatian, Fawaz and Medard 2014, section V (Theorem 2 corrected), and Chechik, Globerson, Tishby
and Weiss 2005. Host NumPy in float64, nats.

Two warnings.

* **One linear release against time sharing.** The funnel curve of one linear release is concave in the rate. A release
  at rate R/t on a share t of the occasions and nothing otherwise, openly, has the average rate R and leaks
  t PF(R/t) <= t/2 ln(1/lambda_1) on average: nothing in the limit, at ANY rate R, if lambda_1 > 0
  (`time_sharing_curve`). Over all mappings the funnel of continuous data is therefore 0, and I(X;Y) is a poor measure
  of their utility: a few releases of very high accuracy have all of it.
* **Real numbers.** Leakage and rate are those of real-number arithmetic. Floating-point noise has gaps whose pattern
  depends on the value it was added to (Mironov 2012; Haney et al. 2022): a release meant to withstand an adversary who
  reads the last bits has to be discretised, and measured as a finite mechanism.
"""

from jaxpriv.gaussian.release import (
    GaussianRelease,
    bottleneck,
    bottleneck_curve,
    funnel,
    funnel_curve,
    time_sharing_curve,
)
from jaxpriv.gaussian.source import GaussianSource, Information, from_covariances, from_samples, information

__all__ = [
    "GaussianRelease",
    "GaussianSource",
    "Information",
    "bottleneck",
    "bottleneck_curve",
    "from_covariances",
    "from_samples",
    "funnel",
    "funnel_curve",
    "information",
    "time_sharing_curve",
]
