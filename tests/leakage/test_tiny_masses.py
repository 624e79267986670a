"""Masses down to the smallest float64: every measure against its definition in decimal numbers of sixty digits."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

import jaxpriv.leakage as lk

INF = float("inf")


def decimal(number):
    exact = Fraction(float(number))
    return Decimal(exact.numerator) / Decimal(exact.denominator)


def exact_values(joint, mechanism):
    """The definitions, by the names of MEASURES."""
    joint, mechanism = ([[decimal(entry) for entry in row] for row in table] for table in (joint, mechanism))
    w = [
        [sum(p * row[y] for p, row in zip(line, mechanism, strict=True)) for y in range(len(mechanism[0]))]
        for line in joint
    ]
    prior, masses = [sum(line) for line in joint], [sum(column) for column in zip(*w, strict=True)]
    outputs = [y for y, mass in enumerate(masses) if mass > 0]
    symbols = [s for s, p in enumerate(prior) if p > 0]
    lift = {(s, y): w[s][y] / prior[s] / masses[y] for s in symbols for y in outputs}

    def plogp(p):
        return p * p.ln() if p > 0 else Decimal(0)

    def divergence(f):
        return sum(masses[y] * prior[s] * f(t) for (s, y), t in lift.items())

    def sibson(a):
        return (
            a
            / (a - 1)
            * sum(
                sum(prior[s] * (w[s][y] / prior[s]) ** a for s in symbols if w[s][y] > 0) ** (1 / a) for y in outputs
            ).ln()
        )

    def arimoto(a):
        norm = sum(prior[s] ** a for s in symbols) ** (1 / a)
        return (
            a
            / (a - 1)
            * (sum(sum(w[s][y] ** a for s in symbols if w[s][y] > 0) ** (1 / a) for y in outputs) / norm).ln()
        )

    high, low = max(lift.values()), min(lift.values())
    columns = [[lift[s, y] for s in symbols] for y in outputs]
    entropy = -sum(plogp(prior[s]) for s in symbols)
    found = {
        "mutual information": divergence(lambda t: plogp(t) - t + 1),
        "relative entropy": max(
            sum(plogp(w[s][y] / masses[y]) - w[s][y] / masses[y] * prior[s].ln() for s in symbols) for y in outputs
        ),
        "max information": entropy + max(sum(plogp(w[s][y] / masses[y]) for s in symbols) for y in outputs),
        "max-lift": high.ln(),
        "min-lift": -low.ln() if low else INF,
        "lift": max(high.ln(), -low.ln()) if low else INF,
        "ldp": max(max(column).ln() - min(column).ln() for column in columns) if low else INF,
        "maximal leakage": sum(max(w[s][y] / prior[s] for s in symbols) for y in outputs).ln(),
        "sibson 0.5": sibson(Decimal("0.5")),
        "sibson 2": sibson(Decimal(2)),
        "sibson 1000": sibson(Decimal(1000)),
        "arimoto 0.5": arimoto(Decimal("0.5")),
        "arimoto 10": arimoto(Decimal(10)),
        "chi-squared": divergence(lambda t: (t - 1) ** 2),
        "total variation": divergence(lambda t: abs(t - 1) / 2),
        "hellinger": divergence(lambda t: (t.sqrt() - 1) ** 2),
        "jensen-shannon": divergence(lambda t: (plogp(t) - (1 + t) * ((1 + t) / 2).ln()) / 2),
        "reverse kl": divergence(lambda t: t - 1 - t.ln()) if low else INF,
        "correct guess": sum(max(w[s][y] for s in symbols) for y in outputs),
        "min-entropy": (sum(max(w[s][y] for s in symbols) for y in outputs) / max(prior)).ln(),
    }
    return {name: float(value) for name, value in found.items()}


MEASURES = {
    "mutual information": lk.MutualInformation(),
    "relative entropy": lk.RelativeEntropyPrivacy(),
    "max information": lk.MaxInformation(),
    "max-lift": lk.MaxLift(),
    "min-lift": lk.MinLift(),
    "lift": lk.Lift(),
    "ldp": lk.LocalDifferentialPrivacy(),
    "maximal leakage": lk.MaximalLeakage(),
    "sibson 0.5": lk.Sibson(0.5),
    "sibson 2": lk.Sibson(2.0),
    "sibson 1000": lk.Sibson(1000.0),
    "arimoto 0.5": lk.Arimoto(0.5),
    "arimoto 10": lk.Arimoto(10.0),
    "chi-squared": lk.FInformation(lk.ChiSquared()),
    "total variation": lk.FInformation(lk.TotalVariation()),
    "hellinger": lk.FInformation(lk.SquaredHellinger()),
    "jensen-shannon": lk.FInformation(lk.JensenShannon()),
    "reverse kl": lk.FInformation(lk.ReverseKullbackLeibler()),
    "correct guess": lk.CorrectGuess(),
    "min-entropy": lk.MinEntropyLeakage(),
}
KINDS = ("symbol", "rare symbol", "rare input", "rare output", "two rare symbols")


def instance(kind, tiny):
    rng = np.random.default_rng(0)
    if kind == "symbol":  # one that is seen with certainty
        return np.array([[tiny, 0.0], [0.0, 1.0]]), np.eye(2)
    joint, mechanism = rng.dirichlet(np.ones(9)).reshape(3, 3), rng.dirichlet(np.ones(4), size=3)
    own = np.array([[0.0, 0.0, 0.0, 1.0], [0.3, 0.2, 0.5, 0.0], [0.1, 0.6, 0.3, 0.0]])
    if kind == "rare symbol":
        joint[0] *= tiny
    if kind == "rare input":
        joint[:, 0] *= tiny
        mechanism = own
    if kind == "rare output":
        mechanism[:, 0] *= tiny
    if kind == "two rare symbols":
        joint[:2] *= tiny * np.array([[1.0], [3.0]])
        joint[2, 0] = 0.0
        mechanism = own
    return joint / joint.sum(), mechanism / mechanism.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tiny", [1e-160, 1e-289, 1e-300, 1e-307, 1e-310, 5e-324])
def test_every_measure_has_its_value(kind, tiny):
    joint, mechanism = instance(kind, tiny)
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = 60, -(10**9), 10**9
        exact = exact_values(joint, mechanism)
    # Subnormal masses have fewer digits: 14 of 1e-310, and what they are multiplied by is less than one.
    accuracy = 1e-12 if tiny > 1e-308 else 1e-11
    found = lk.evaluate_all(tuple(MEASURES.values()), joint, mechanism)
    for (name, measure), one in zip(MEASURES.items(), found, strict=True):
        assert one.value == pytest.approx(exact[name], rel=accuracy, abs=accuracy), name
        if tiny > 1e-308:  # a measure that is called with arrays takes normal numbers
            assert float(measure(joint, mechanism)) == pytest.approx(exact[name], rel=1e-12, abs=1e-12), name


def test_the_value_is_a_limit_of_the_certificate():
    """The value that `certify` computes of a design is that of `evaluate`, where a symbol is rare."""
    import jaxpriv as jp

    joint = np.array([[1e-300, 0.0], [0.0, 1.0]])
    for measure in (lk.MaxLift(), lk.RelativeEntropyPrivacy()):
        problem = jp.DistortionProblem(joint, 1 - np.eye(2), leakage=measure, budget=0.0)
        solution = jp.solve(problem)
        proof = jp.certify(problem, solution)
        value = lk.evaluate(measure, joint, np.asarray(solution.mechanism)).value
        assert proof.value == pytest.approx(value, rel=1e-12)
        assert proof.lower_bound <= value
        assert float(solution.value) == pytest.approx(value, rel=1e-12)
