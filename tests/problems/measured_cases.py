"""Every measure that a problem takes, functions of a user among them, and the one joint and distortion of most tests.

One joint, one distortion: a program of another structure costs seconds to compile, another limit nothing.
"""

import math

import jax.numpy as jnp
import numpy as np

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv.testing import random_joint
from tests.cases import distances

INF = math.inf
N = 4
DISTORTION = distances(N)
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
SMOOTH = {
    name: AVERAGE[name]
    for name in (
        *("sibson-0.5", "sibson-2", "arimoto-3", "chi-squared", "reverse-kl", "hellinger", "jensen-shannon"),
        "gain-brier",
    )
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


def problem_of(measure, joint=JOINT, distortion=DISTORTION, **form):
    return jp.DistortionProblem(joint, distortion, leakage=measure, **form)


# -- functions of a user's own ---------------------------------------------------------------------


def _user_f(f, at_zero):
    return lk.FInformation(lk.UserDivergence(f, at_zero))


def log_loss(q):
    return -jnp.log(q)


def brier_loss(q):
    return jnp.sum(q * q) + 1.0 - 2.0 * q


# The user's own f, none of them with f'(1) = 0, and losses, each by the name of the built-in measure that
# it equals.
TWINS = {
    "kl": _user_f(lambda t: t * jnp.log(t), 0.0),
    "chi-squared": _user_f(lambda t: t * t - 1.0, -1.0),
    "reverse-kl": _user_f(lambda t: -jnp.log(t), INF),
    "hellinger": _user_f(lambda t: 2.0 - 2.0 * jnp.sqrt(t), 2.0),
    "jensen-shannon": _user_f(lambda t: 0.5 * (t * jnp.log(t) - (1 + t) * jnp.log(0.5 * (1 + t))), 0.5 * math.log(2)),
    "gain-log-loss": lk.AverageCostGain(lk.CustomLoss(log_loss)),
    "gain-brier": lk.AverageCostGain(lk.CustomLoss(brier_loss)),
    "gain-brier, proper": lk.AverageCostGain(lk.CustomLoss(brier_loss, proper=True)),
    "max-gain-log-loss": lk.MaxCostGain(lk.CustomLoss(log_loss, proper=True)),
    "max-gain-brier": lk.MaxCostGain(lk.CustomLoss(brier_loss)),
}
# No built-in equals these: a quartic has no curvature at 1, these losses are not proper, and their best announcements
# lie on faces of the simplex.
OWN = {
    "quartic": _user_f(lambda t: (t - 1.0) ** 4, 1.0),
    "inverse": _user_f(lambda t: 1.0 / t - 1.0, INF),
    "le-cam": _user_f(lambda t: (t - 1.0) ** 2 / (t + 1.0), 1.0),
    "bounded-domain": _user_f(
        lambda t: jnp.where(t < 3.0, -jnp.log(jnp.where(t < 3.0, 3.0 - t, 1.0)), INF) + math.log(2.0),
        math.log(2.0 / 3.0),
    ),
    "kink": _user_f(lambda t: 0.5 * jnp.abs(t - 1.0), 0.5),
    "flat": _user_f(lambda t: jnp.maximum(jnp.abs(t - 1.0) - 0.2, 0.0), 0.8),
    "cubic": lk.AverageCostGain(lk.CustomLoss(lambda q: (1.0 - q) ** 3)),
    "euros": lk.AverageCostGain(lk.CustomLoss(lambda q: 1e4 * jnp.arange(1.0, N + 1) * (1.0 - q) ** 2)),
    "max-cubic": lk.MaxCostGain(lk.CustomLoss(lambda q: (1.0 - q) ** 3)),
}
USERS = {f"user {name}": measure for name, measure in (TWINS | OWN).items()}
