"""How many passes do first-order methods take to a certified gap, for every kind of measure?

    python -m benchmarks.first_order [--sizes 16 64] [--private 4] [--seeds 3] [--passes 6000] [--joint mixed]
        [--multiplier L] [--hamming] [--measures NAME ...] [--methods NAME ...] [--figure PATH]

A pass is one product with the rows of the measures, one with their transpose and one softmax of every entry; a look at
the gap counts as two, and a step of the interior-point method as the passes that have as many multiplications as its
systems. For each measure and method a row says after how many passes the certified gap was at most 1e-2,
1e-3, ..., 1e-6 of the optimum (-: not within so many passes), and whether a bound was ever above the optimum, which the
interior-point method knows to 1e-9. Passes do not depend on the machine; times do, and none is printed.

The joint is Dirichlet(1) with 5 % of smooth bumps over ordered symbols (`mixed`), without them (`random`), or the bumps
with 1e-4 of a uniform joint (`bumps`); costs are |x - y|/n, or 1 of a wrong symbol (`--hamming`); budgets are 12 % of
what an independent release costs, limits are in nats. With `--multiplier` L times the cost is added to the measure.
"""

import argparse
import itertools
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
from matplotlib.figure import Figure

import jaxpriv as jp
from benchmarks.plots import look
from jaxpriv import leakage as lk
from jaxpriv.plotting import style
from jaxpriv.program import program_of

SHARES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
# Measures by name, with the limit of those that are stated as limits.
MEASURES: dict[str, tuple[Any, float | None]] = {
    "mutual information": (lk.MutualInformation(), None),
    "Sibson 2": (lk.Sibson(2.0), None),
    "Sibson 1/2": (lk.Sibson(0.5), None),
    "Sibson 10": (lk.Sibson(10.0), None),
    "Arimoto 2": (lk.Arimoto(2.0), None),
    "chi-squared": (lk.FInformation(lk.ChiSquared()), None),
    "Hellinger": (lk.FInformation(lk.SquaredHellinger()), None),
    "Jensen-Shannon": (lk.FInformation(lk.JensenShannon()), None),
    "reverse KL": (lk.FInformation(lk.ReverseKullbackLeibler()), None),
    "Brier": (lk.AverageCostGain(lk.BrierLoss()), None),
    "maximal leakage": (lk.MaximalLeakage(), None),
    "correct guess": (lk.CorrectGuess(), None),
    "total variation": (lk.FInformation(lk.TotalVariation()), None),
    "mutual information, limit .02": (lk.MutualInformation(), 0.02),
    "max-information, limit .3": (lk.MaxInformation(), 0.3),
    "max-lift, limit .3": (lk.MaxLift(), 0.3),
    "lift, limit .3": (lk.Lift(), 0.3),
    "LDP, limit .5": (lk.LocalDifferentialPrivacy(), 0.5),
    "least max-lift": (lk.MaxLift(), None),
    "least lift": (lk.Lift(), None),
    "least LDP": (lk.LocalDifferentialPrivacy(), None),
    "least max-information": (lk.MaxInformation(), None),
}


class CountedSteps(jp.solvers.AcceleratedMirrorDescent):
    """The accelerated method, whose steps take as many passes as their tests and budgets ask for."""

    passes: ClassVar[list[None]] = []

    def _pass(self, problem: Any, rules: Any, prices: Any, total: Any) -> Any:
        jax.debug.callback(lambda: self.passes.append(None))
        return super()._pass(problem, rules, prices, total)


class CountedNewtons(jp.AugmentedLagrangian):
    """The augmented Lagrangian method, whose steps take as many passes as their systems ask for."""

    passes: ClassVar[list[float]] = []

    def terminate(self, program: Any, state: Any) -> Any:
        jax.debug.callback(lambda passes: self.passes.append(float(passes)), state.passes)
        return super().terminate(program, state)


@dataclass(frozen=True, eq=False)
class Looks(jp.History):
    """The records of a solve, and the passes that were counted at each."""

    passes: list[float] = field(default_factory=list, init=False)

    def __call__(self, record: jp.Progress) -> None:
        super().__call__(record)
        self.passes.append(max([len(CountedSteps.passes), *CountedNewtons.passes[-1:]]))


METHODS: dict[str, Any] = {
    "hybrid-gradient": "hybrid-gradient",
    "mirror-descent": "mirror-descent",
    "blahut-arimoto": "blahut-arimoto",
    "augmented-lagrangian": CountedNewtons(),
    "accelerated": CountedSteps(single=False),
    "interior-point": "interior-point",
}


# The parts of the random joint, of the bumps and of the uniform joint.
JOINTS = {"mixed": (1.0, 0.05, 0.0), "random": (1.0, 0.0, 0.0), "bumps": (0.0, 1.0, 1e-4)}


def problem_of(
    name: str,
    symbols: int,
    private: int,
    seed: int,
    kind: str = "mixed",
    multiplier: float | None = None,
    hamming: bool = False,
) -> jp.DistortionProblem:
    """The instance of a measure."""
    rng = np.random.default_rng(seed)
    place = (np.arange(symbols) + 0.5) / symbols
    centre, width = rng.uniform(size=(private, 1)), rng.uniform(0.05, 0.2, size=(private, 1))
    bumps = rng.dirichlet(np.ones(private))[:, None] * np.exp(-0.5 * ((place - centre) / width) ** 2)
    drawn = rng.dirichlet(np.ones(private * symbols)).reshape(private, symbols)
    joint = np.tensordot(JOINTS[kind], [drawn, bumps / bumps.sum(), np.full(drawn.shape, 1.0 / drawn.size)], 1)
    joint /= joint.sum()
    costs = 1.0 - np.eye(symbols) if hamming else abs(place[:, None] - place)
    measure, limit = MEASURES[name]
    if multiplier is not None:
        return jp.DistortionProblem(joint, costs, multiplier=multiplier, leakage=measure)
    if limit is not None:
        return jp.DistortionProblem(joint, costs, leakage_budget=limit, leakage=measure)
    return jp.DistortionProblem(joint, costs, budget=0.12 * (joint.sum(axis=0) @ costs).min(), leakage=measure)


class Course(NamedTuple):
    """The certified gap after every look at it."""

    passes: np.ndarray
    gaps: np.ndarray  # in times of the optimum
    holds: bool  # whether every bound was below the optimum

    def to(self, share: float) -> int | None:
        """After how many passes the gap was at most so large."""
        first = np.flatnonzero(self.gaps <= share)
        return int(self.passes[first[0]]) if len(first) else None


def passes_of_step(problem: jp.DistortionProblem, method: str) -> float:
    """Of a method whose steps all take as many, looks at the gap included."""
    if method == "hybrid-gradient":
        return jp.solvers.PrimalDualHybridGradient().inner + 2
    if method != "interior-point":
        return 1
    inputs, outputs = problem.distortions[0].shape
    rows = sum(len(term.rows) for term in program_of(problem).terms)
    factors = 1.0 if isinstance(problem.leakage, lk.MutualInformation) else rows * (1.0 + rows / inputs)
    return (2.0 * outputs * inputs**2 * factors + inputs**3) / (4.0 * rows * inputs * outputs)


def course_of(problem: jp.DistortionProblem, method: str, most: int, optimum: float) -> Course | None:
    """The gaps of a method; None where it does not take the problem."""
    each, history = passes_of_step(problem, method), Looks(every=1)
    CountedSteps.passes.clear()
    CountedNewtons.passes.clear()
    try:
        jp.solve(problem, METHODS[method], tol=1e-12, rtol=SHARES[-1], max_steps=int(most // each), progress=history)
    except jp.InputError:
        return None
    steps, gaps, bounds = (np.asarray(history[name], dtype=float) for name in ("step", "gap", "bound"))
    passes = np.array(history.passes) if method in ("accelerated", "augmented-lagrangian") else steps * each
    holds = bool((bounds <= optimum + 1e-8 * (1.0 + abs(optimum))).all())
    return Course(passes, gaps / abs(optimum), holds)


def draw(courses: dict[tuple[str, int, str, int], Course], path: str) -> None:
    """Certified gaps against passes: a row for every measure, a column for every size, a line for every method."""
    measures, sizes = (list(dict.fromkeys(key[i] for key in courses)) for i in (0, 1))
    with style():
        figure = Figure(figsize=(2.2 * len(sizes) + 0.9, 1.7 * len(measures) + 0.7))
        axes = figure.subplots(len(measures), len(sizes), sharex=True, sharey=True, squeeze=False)
        for (measure, size, method, _), course in courses.items():
            axis = axes[measures.index(measure), sizes.index(size)]
            axis.loglog(
                course.passes, np.maximum(course.gaps, SHARES[-1] / 10), label=method, **{**look(method), "marker": ""}
            )
        for axis, size in zip(axes[0], sizes, strict=True):
            axis.set_title(f"{size} symbols")
        for axis, measure in zip(axes[:, 0], measures, strict=True):
            axis.set_ylabel(f"{measure}\nrelative gap")
        for axis in axes[-1]:
            axis.set_xlabel("passes")
        named = {
            label: line for axis in axes.flat for line, label in zip(*axis.get_legend_handles_labels(), strict=True)
        }
        figure.legend(named.values(), named.keys(), loc="outside upper center", ncols=len(named))
        figure.savefig(path, dpi=200)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=int, default=[16])
    parser.add_argument("--private", type=int, default=4)
    parser.add_argument("--seeds", nargs="+", type=int, default=[3])
    parser.add_argument("--passes", type=int, default=6000)
    parser.add_argument("--joint", default="mixed", choices=list(JOINTS))
    parser.add_argument("--multiplier", type=float, help="the cost has this price in place of a budget")
    parser.add_argument("--hamming", action="store_true", help="costs are 1 of a wrong symbol")
    parser.add_argument("--measures", nargs="+", default=list(MEASURES), choices=list(MEASURES))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--figure", help="a file for a picture of the certified gaps against passes")
    asked = parser.parse_args()
    shares = " | ".join(f"{share:.0e}" for share in SHARES)
    print(f"| measure | symbols | seed | method | {shares} | bounds hold |")
    print("|---" * (5 + len(SHARES)) + "|")
    courses: dict[tuple[str, int, str, int], Course] = {}
    for symbols, name, seed in itertools.product(asked.sizes, asked.measures, asked.seeds):
        problem = problem_of(name, symbols, asked.private, seed, asked.joint, asked.multiplier, asked.hamming)
        optimum = jp.solve(problem, tol=1e-9).value
        for method in asked.methods:
            course = course_of(problem, method, asked.passes, optimum)
            if course is None:
                continue
            courses[name, symbols, method, seed] = course
            counts = (course.to(share) for share in SHARES)
            cells = " | ".join("-" if count is None else f"{count:,}" for count in counts)
            holds = "yes" if course.holds else "NO"
            print(f"| {name} | {symbols} | {seed} | {method} | {cells} | {holds} |", flush=True)
    if asked.figure:
        draw(courses, asked.figure)


if __name__ == "__main__":
    main()
