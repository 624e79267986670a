"""Every measure that a problem takes, and the one joint and distortion of most tests.

One joint, one distortion: a program of another structure costs seconds to compile, another limit nothing.
"""

import math

import numpy as np

from jaxpriv import leakage as lk
from jaxpriv.testing import random_joint

INF = math.inf
N = 4
DISTORTION = abs(np.subtract.outer(np.arange(float(N)), np.arange(float(N))))
JOINT = 0.5 * np.diag([0.4, 0.3, 0.2, 0.1]) + 0.5 * random_joint(7, N, N)
BUDGET = 0.35

CHAIN = np.eye(N, k=1, dtype=bool) | np.eye(N, k=-1, dtype=bool)
LOSSES = 0.2 - np.eye(N, 3) + 0.1 * np.random.default_rng(5).random((N, 3))
GAINS = np.eye(3, N) + 0.1 * np.random.default_rng(6).random((3, N))

AVERAGE = {
    "kl": lk.FInformation(lk.KullbackLeibler()),
    "gain-log-loss": lk.AverageCostGain(lk.LogLoss()),
    "sibson-0.5": lk.Sibson(0.5),
    "sibson-1": lk.Sibson(1.0),
    "sibson-2": lk.Sibson(2.0),
    "sibson-inf": lk.Sibson(INF),
    "arimoto-0.3": lk.Arimoto(0.3),
    "arimoto-3": lk.Arimoto(3.0),
    "arimoto-inf": lk.Arimoto(INF),
    "maximal-leakage": lk.MaximalLeakage(),
    "maximal-alpha-1": lk.MaximalAlphaLeakage(1.0),
    "maximal-alpha-inf": lk.MaximalAlphaLeakage(INF),
    "min-entropy": lk.MinEntropyLeakage(),
    "correct-guess": lk.CorrectGuess(),
    "gain": lk.GainLeakage(GAINS),
    "chi-squared": lk.FInformation(lk.ChiSquared()),
    "reverse-kl": lk.FInformation(lk.ReverseKullbackLeibler()),
    "hellinger": lk.FInformation(lk.SquaredHellinger()),
    "jensen-shannon": lk.FInformation(lk.JensenShannon()),
    "total-variation": lk.FInformation(lk.TotalVariation()),
    "e-gamma": lk.FInformation(lk.EGamma(1.2)),
    "gain-zero-one": lk.AverageCostGain(lk.ZeroOneLoss()),
    "gain-brier": lk.AverageCostGain(lk.BrierLoss()),
    "gain-losses": lk.AverageCostGain(lk.LossMatrix(LOSSES)),
}
WORST = {
    "max-information": lk.MaxInformation(),
    "max-gain-log-loss": lk.MaxCostGain(lk.LogLoss()),
    "relative-entropy": lk.RelativeEntropyPrivacy(),
    "max-gain-zero-one": lk.MaxCostGain(lk.ZeroOneLoss()),
    "max-gain-brier": lk.MaxCostGain(lk.BrierLoss()),
    "max-gain-losses": lk.MaxCostGain(lk.LossMatrix(LOSSES)),
    "lift": lk.Lift(),
    "max-lift": lk.MaxLift(),
    "min-lift": lk.MinLift(),
    "ldp": lk.LocalDifferentialPrivacy(),
    "ldp-chain": lk.LocalDifferentialPrivacy(CHAIN),
    "inferential": lk.InferentialPrivacy(),
}
MEASURES = {"mutual-information": lk.MutualInformation()} | AVERAGE | WORST
