"""What is run: each suite is a list of parts, each part some cases, solvers, target gaps and a time limit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from benchmarks.cases import Case
from benchmarks.solvers.conic import FORMULATIONS
from benchmarks.solvers.conic_limits import LINEAR_FORMULATIONS, WORST_FORMULATIONS

DISTORTIONS = ("absolute", "squared", "hamming")
GAPS = (1e-2, 1e-4, 1e-6, 1e-8)
FINE_GAPS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)

CONIC = ("clarabel", "ecos", "scs")
FIRST_ORDER = ("hybrid-gradient", "augmented-lagrangian", "mpax")
LINEAR = ("interior-point", "clarabel", "highs", "highs-ipm", "scs", "moreau", *FIRST_ORDER)
# Shares of what a release of X as it is leaks: in the worst outcome, and for each linear measure.
SHARES = (0.05, 0.6)
MEASURES = (("max-lift", 0.2), ("local-dp", 0.05), ("maximal-leakage", 0.2))
GENERAL = ("interior-point", "mirror-descent", "accelerated", *CONIC)
FUNNEL = ("column-generation", "greedy", "difference-of-convex", "alternating", "paper-dca", "paper-splitting")
# Those that are meant for alphabets of hundreds of ordered symbols, and for thousands.
LARGE = ("interior-point", "mirror-descent", "accelerated", "two-grid")
STREAMING = ("accelerated", "two-grid")
SOURCE = ("interior-point", "mirror-descent", "accelerated", "blahut-arimoto", "qif", "dit", *CONIC)
# What is run of ladders that take long: the accuracies between which a gap of 1e-6 was reached on small sizes, and
# the default of 1e-8.
RUNGS = {"clarabel": ("1e-06", "1e-07", "1e-08"), "ecos": ("1e-05", "1e-06", "1e-08")}
SHORT_RUNGS = {
    **RUNGS,
    "scs": ("0.01", "0.0001"),
    "highs": ("1e-07",),
    "mirror-descent": ("0.01", "0.0001"),
}
# The part of instances that the command line names.
GIVEN = "your problems"
_LARGE = (8192, 16384, 32768, 65536)


@dataclass(frozen=True)
class Part:
    """Cases that belong together.

    Attributes:
        title: for the report.
        cases: in the order of running, small before large.
        solvers: those asked; each runs on the cases that it supports.
        targets: certified gaps aimed at.
        limit: seconds that one accuracy of one solver may take, compile time and repeats included.
        axis: the parameter that grows along the cases, if one does: what exceeds the limit is then
            not tried on larger ones.
        rungs: the accuracies of a solver's ladder that are run, for solvers whose ladder is cut short; the others
            are rows that say so.
    """

    title: str
    cases: tuple[Case, ...]
    solvers: tuple[str, ...]
    targets: tuple[float, ...] = GAPS
    limit: float = 60.0
    axis: str | None = None
    rungs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Options:
    """What the command line may change of a suite."""

    seed: int
    sizes: tuple[int, ...] | None = None
    cases: int = 1
    instances: tuple[Case, ...] = ()


def cube(options: Options, sizes: Sequence[int] = (32, 64), solvers: Sequence[str] = GENERAL, **more) -> list[Part]:
    """|S| = |X| = |Y| = n, Dirichlet joints: a sweep in n for each distortion."""
    seeds = range(options.seed, options.seed + options.cases)
    kinds = more.pop("kinds", DISTORTIONS)
    return [
        Part(
            f"cube, {kind}",
            tuple(Case.of("cube", n=n, distortion=kind, seed=s) for n in options.sizes or sizes for s in seeds),
            tuple(solvers),
            axis="n",
            **more,
        )
        for kind in kinds
    ]


def growth(options: Options, sizes: Sequence[int] = (24, 48, 96, 192, 384), base: int = 48, **more) -> list[Part]:
    """One alphabet grows, the others stay at `base`: what exponents are measured on, in about twelve minutes."""
    solvers = more.pop("solvers", GENERAL)
    more = {"rungs": RUNGS, "limit": 20.0, **more}
    parts = []
    for axis in ("S", "X", "Y"):
        shapes = [{"S": base, "X": base, "Y": base, axis: size} for size in options.sizes or sizes]
        cases = tuple(
            Case.of("shape", **shape, distortion="absolute", share=0.3, seed=options.seed) for shape in shapes
        )
        parts.append(Part(f"growth in {axis}", cases, tuple(solvers), targets=(1e-3, 1e-6), axis=axis, **more))
    return parts


def worst(options: Options, sizes: Sequence[int] = (8, 16, 32, 64), **more) -> list[Part]:
    """Least distortion under a limit on maximum information leakage (Calmon-Fawaz Theorem 2), Dirichlet joints."""
    # Not SCS: it runs into the time limit on every size. Two gaps: eight minutes on two cores.
    solvers = more.pop("solvers", ("interior-point", "clarabel", "ecos"))
    kinds, shares = more.pop("kinds", DISTORTIONS), more.pop("shares", SHARES)
    more.setdefault("rungs", RUNGS)
    more.setdefault("targets", (1e-4, 1e-6))
    seeds = range(options.seed, options.seed + options.cases)
    return [
        Part(
            f"worst outcome, {kind}, limit {share:g}",
            tuple(
                Case.of("worst", n=n, distortion=kind, share=share, seed=s)
                for n in options.sizes or sizes
                for s in seeds
            ),
            tuple(solvers),
            axis="n",
            **more,
        )
        for kind in kinds
        for share in shares
    ]


def linear(options: Options, sizes: Sequence[int] = (20, 50, 100, 200), **more) -> list[Part]:
    """Least distortion under limits that are linear: max-lift, local differential privacy, maximal leakage."""
    solvers, measures = more.pop("solvers", LINEAR), more.pop("measures", MEASURES)
    more.setdefault("rungs", RUNGS)
    seeds = range(options.seed, options.seed + options.cases)
    return [
        Part(
            f"linear, {measure}",
            tuple(
                Case.of("linear", n=n, measure=measure, distortion="absolute", share=share, seed=s)
                for n in options.sizes or sizes
                for s in seeds
            ),
            tuple(solvers),
            axis="n",
            **more,
        )
        for measure, share in measures
    ]


def source(options: Options, sizes: Sequence[int] = (32, 64, 128, 256), **more) -> list[Part]:
    """S = X in multiplier form: rate-distortion, which qif and dit solve too."""
    solvers = more.pop("solvers", SOURCE)
    return [
        Part(
            f"S = X, {kind}",
            tuple(
                Case.of("source", n=n, distortion=kind, multiplier=slope, seed=options.seed)
                for n in options.sizes or sizes
            ),
            tuple(solvers),
            axis="n",
            **more,
        )
        for kind, slope in more.pop("kinds", (("absolute", 20.0), ("squared", 100.0)))
    ]


def penalty(options: Options, sizes: Sequence[int] = (32, 64), **more) -> list[Part]:
    """The multiplier form on Dirichlet joints."""
    cases = tuple(
        Case.of("penalty", n=n, distortion="absolute", multiplier=2.0, seed=options.seed)
        for n in options.sizes or sizes
    )
    return [Part("multiplier form", cases, GENERAL, axis="n", **more)]


def ordered(options: Options, sizes: Sequence[int] = (256, 512, 1024, 2048), **more) -> list[Part]:
    """Smooth joints of ordered symbols whose parameters do not depend on n: for solvers of large alphabets."""
    cases = tuple(
        Case.of("ordered", n=n, S=8, distortion="absolute", multiplier=8.0, seed=options.seed)
        for n in options.sizes or sizes
    )
    return [Part("ordered, smooth", cases, more.pop("solvers", LARGE), axis="n", **more)]


def large(options: Options) -> list[Part]:
    """Alphabets that no table of |X| |Y| numbers should be made for, |S| = 64.

    Smooth ordered joints at a multiplier, and joints without any structure at a budget. Gaps are absolute;
    the optimal values are near 0.81 nats (ordered) and 0.13 (no structure).
    """
    smooth = [Case.of("ordered", n=n, S=64, distortion="absolute", multiplier=4.0, seed=options.seed) for n in _LARGE]
    rough = Case.of("shape", S=64, X=8192, Y=8192, distortion="hamming", share=0.3, seed=options.seed)
    few = {"targets": (8e-3, 8e-4), "limit": 400.0}
    return [
        Part("large, ordered and smooth", tuple(smooth), ("two-grid",), axis="n", **few),
        Part("large, no structure", (rough,), ("accelerated",), targets=(1e-3,), limit=400.0),
    ]


def census(options: Options, **more) -> list[Part]:
    """The embedded census table; there is nothing random in it."""
    del options
    return [Part("census", (Case.of("census"),), more.pop("solvers", GENERAL), **more)]


def hard(options: Options, **more) -> list[Part]:
    """Degenerate joints: nearly deterministic, nearly independent, masses down to 1e-10, mostly zero."""
    kinds = ("near-deterministic", "near-rank-one", "tiny-masses", "dirichlet-0.02")
    cases = tuple(Case.of("hard", kind=kind, S=16, X=24, distortion="absolute", seed=options.seed) for kind in kinds)
    return [Part("degenerate joints", cases, GENERAL, **more)]


def frontier(options: Options, points: int = 200, **more) -> list[Part]:
    """A curve of a 20 x 60 x 60 problem, in batches and point by point."""
    case = Case.of("curve", S=20, X=60, Y=60, distortion="absolute", points=points, seed=options.seed)
    return [Part("frontier", (case,), ("frontier", "single-solves"), targets=(1e-6,), **more)]


def shapes(options: Options, **more) -> list[Part]:
    """Two large instances: few private symbols, and a large cube."""
    cases = (
        Case.of("shape", S=16, X=512, Y=512, distortion="absolute", share=0.3, seed=options.seed),
        Case.of("cube", n=256, distortion="absolute", seed=options.seed),
    )
    return [Part("large shapes", cases, ("interior-point",), targets=(1e-6,), limit=300.0, **more)]


def formulations(options: Options, sizes: Sequence[int] = (16, 32, 64)) -> list[Part]:
    """Every conic solver in every formulation: which one is the fastest for it."""
    solvers = tuple(f"{backend}-{form}" for backend in CONIC for form in FORMULATIONS)
    return cube(options, sizes, solvers, limit=60.0, kinds=("absolute", "hamming"))


def limit_formulations(options: Options, sizes: Sequence[int] = (8, 16, 32)) -> list[Part]:
    """Every conic and linear solver in every formulation of a limit on leakage."""
    conic = tuple(f"{backend}-{form}" for backend in CONIC for form in WORST_FORMULATIONS)
    lp = tuple(f"{backend}-{form}" for backend in ("clarabel", "highs", "scs") for form in LINEAR_FORMULATIONS)
    return [
        *worst(options, sizes, solvers=conic, kinds=("absolute", "hamming"), shares=(0.2,)),
        *linear(options, sizes, solvers=lp, rungs={}),
    ]


def funnel(options: Options, sizes: Sequence[int] = (4, 6, 8, 12), **more) -> list[Part]:
    """Leakage at equal disclosure: ours, and solvers written from their papers. Reference tables and random joints.

    The comparators' points are time-shared like ours, which their papers do not do.
    """
    solvers = more.pop("solvers", FUNNEL)
    more = {"targets": (1e-6,), "limit": 60.0, **more}
    heart = tuple(Case.of("funnel-heart", bits=bits) for bits in (1.0, 1.5))
    small, full = (
        Case.of("funnel-census", table=name, nats=nats) for name, nats in (("small", 1.0), ("full", 1.812585))
    )
    random = tuple(
        Case.of("funnel-random", S=4, X=size, share=0.6, seed=seed)
        for size in options.sizes or sizes
        for seed in range(options.seed, options.seed + options.cases)
    )
    return [
        Part("funnel, heart", heart, solvers, **more),
        Part("funnel, census", (small, full), solvers, **more),
        Part("funnel, Dirichlet joints of four private symbols", random, solvers, axis="X", **more),
    ]


def peers(options: Options, sizes: Sequence[int] = (8, 16, 32, 64)) -> list[Part]:
    """Solvers that are not in the other suites, on cubes: Moreau, Ipopt through cvxpy's DNLP, QICS."""
    solvers = ("interior-point", "clarabel", "moreau", "dnlp-ipopt", "qics")
    return cube(options, sizes, solvers, kinds=("absolute",), targets=(1e-6,), limit=120.0)


def dense(options: Options) -> list[Part]:
    """The dense problems of the page on speed, six minutes on two cores; `--cases` instances of each size and kind.

    At 128 Clarabel, which takes minutes for each accuracy, is left out, and of ECOS one accuracy is run.
    """
    few = {"targets": (1e-6, 1e-8), "limit": 120.0}
    largest = cube(options, (128,), ("interior-point", "ecos"), rungs={"ecos": ("1e-06",)}, **few)
    return [
        *cube(options, (8, 16, 32, 64), ("interior-point", "clarabel", "ecos"), rungs=RUNGS, **few),
        *(replace(part, title=f"{part.title}, n = 128") for part in largest),
        *frontier(options),
        *shapes(options),
    ]


def short(options: Options) -> list[Part]:
    """A little of everything that is measured, for two cores in a quarter of an hour, each sweep over four sizes.

    Long ladders are cut (`SHORT_RUNGS`), and Clarabel and mirror descent, which run into the time limit in the
    sweeps of one alphabet, are not in them: suite growth has them.
    """
    few = {"limit": 10.0, "rungs": SHORT_RUNGS}
    peers = ("interior-point", "clarabel", "ecos")
    return [
        *cube(options, (8, 16, 32, 64), kinds=("absolute",), **few),
        *cube(options, (32,), peers, kinds=("squared", "hamming"), **few),
        *worst(options, (8, 16, 32, 64), solvers=peers, kinds=("absolute",), shares=(0.2,), **few),
        *linear(options, (10, 20, 50, 100), solvers=LINEAR[:3], measures=MEASURES[:1], **few),
        *source(
            options,
            (16, 32, 64, 128),
            solvers=("interior-point", "blahut-arimoto", "qif", "dit"),
            kinds=(("absolute", 20.0),),
            **few,
        ),
        *growth(options, (24, 48, 96, 192), solvers=("interior-point", "accelerated"), **few),
        *census(options, solvers=peers, **few),
        *frontier(options, points=50, limit=60.0),
        *ordered(options, (128, 256, 512, 1024), solvers=("interior-point", "accelerated", "two-grid"), **few),
    ]


def full(options: Options) -> list[Part]:
    """Everything, for an idle machine and some hours."""
    builders = (cube, worst, linear, source, penalty, growth, ordered, census, hard, frontier, shapes, funnel)
    return [part for build in builders for part in build(options)]


def given(options: Options) -> list[Part]:
    """The instances of the command line, in its order."""
    return [Part(GIVEN, options.instances, GENERAL, GAPS, limit=60.0)]


SUITES: dict[str, Callable[[Options], list[Part]]] = {
    "short": short,
    "full": full,
    "dense": dense,
    "cube": cube,
    "worst": worst,
    "linear": linear,
    "source": source,
    "penalty": penalty,
    "growth": growth,
    "ordered": ordered,
    "large": large,
    "census": census,
    "hard": hard,
    "frontier": frontier,
    "shapes": shapes,
    "funnel": funnel,
    "formulations": formulations,
    "peers": peers,
    "limit-formulations": limit_formulations,
    "given": given,
}
