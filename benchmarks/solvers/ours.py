"""jaxpriv's own solvers, by the names that `solve` takes, and its batched curves."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.cases import Case, Instance
from benchmarks.solvers._base import Accuracy, Run, Solver, Unable, by_tolerance


class Ours(Solver):
    """`jp.solve(problem, solver=name, tol=...)`: validation, reduction and certificate included."""

    timed = "jp.solve on a ready problem: validation, iterations and certificate"
    packages = ("jaxpriv",)
    compiles = True

    def __init__(self, name: str, needs: frozenset[str] = frozenset(), limits: bool = False):
        """`needs`: traits of a case without which the solver is of no use; `limits`: whether leakage may be limited."""
        self.name = name
        self.solver: Any = name
        self.needs = needs
        self.limits = limits

    def supports(self, case: Case) -> bool:
        beyond = {"curve", "funnel"} | (set() if self.limits else {"limit"})
        return self.needs <= case.traits and not beyond & case.traits

    def ladder(self, targets: Sequence[float]) -> Sequence[Accuracy]:
        return by_tolerance(targets)

    def load(self) -> None:
        import jax

        import jaxpriv  # noqa: F401 - the import is what is wanted

        jax.devices()

    def prepare(self, instance: Instance) -> Any:
        return problem_of(instance)

    def run(self, prepared: Any, accuracy: Accuracy) -> Run:
        import jax

        import jaxpriv as jp

        begun = time.perf_counter()
        try:
            solution = jp.solve(prepared, solver=self.solver, **accuracy.settings)
        except jp.errors.ResourceError as error:
            raise Unable(str(error)) from error
        jax.block_until_ready(solution)
        seconds = time.perf_counter() - begun
        return _run(solution, seconds, (float(solution.value),), (float(solution.lower_bound),))


class OurFunnel(Solver):
    """`jp.solve(FunnelProblem(joint, disclosure=R), solver=name, tol=...)`."""

    timed = "jp.solve on a ready problem: validation, search, certificate"
    packages = ("jaxpriv",)
    compiles = True

    def __init__(self, name: str):
        self.name = name

    def supports(self, case: Case) -> bool:
        return "funnel" in case.traits

    def ladder(self, targets: Sequence[float]) -> Sequence[Accuracy]:
        return by_tolerance(targets)

    def load(self) -> None:
        Ours("interior-point").load()

    def prepare(self, instance: Instance) -> Any:
        return problem_of(instance)

    def run(self, prepared: Any, accuracy: Accuracy) -> Run:
        import jaxpriv as jp

        begun = time.perf_counter()
        solution = jp.solve(prepared, solver=self.name, **accuracy.settings)
        seconds = time.perf_counter() - begun
        return Run(
            candidate=solution.mechanism,
            seconds=seconds - solution.seconds["compile"],
            compile_seconds=solution.seconds["compile"],
            steps=solution.steps,
            values=(solution.value,),
            bounds=(solution.lower_bound,),
        )


class OurCurve(Solver):
    """Every budget of a curve: in batches by `jp.frontier`, or one `jp.solve` after the other."""

    packages = ("jaxpriv",)
    compiles = True

    def __init__(self, name: str, batched: bool):
        self.name = name
        self.batched = batched
        self.timed = "jp.frontier over all points" if batched else "jp.solve for every point, summed"

    def supports(self, case: Case) -> bool:
        return "curve" in case.traits

    def ladder(self, targets: Sequence[float]) -> Sequence[Accuracy]:
        return by_tolerance(targets)

    def load(self) -> None:
        Ours("interior-point").load()

    def prepare(self, instance: Instance) -> Any:
        return problem_of(instance), np.asarray(instance.budgets)

    def run(self, prepared: Any, accuracy: Accuracy) -> Run:
        import jax

        import jaxpriv as jp

        problem, budgets = prepared
        begun = time.perf_counter()
        if self.batched:
            solution = jp.frontier(problem, budgets=budgets, solver="interior-point", **accuracy.settings).solutions
            jax.block_until_ready(solution)
            seconds = time.perf_counter() - begun
            return _run(solution, seconds, tuple(map(float, solution.value)), tuple(map(float, solution.lower_bound)))
        problems = [problem_at(problem, budget) for budget in budgets]
        solutions = [jp.solve(one, solver="interior-point", **accuracy.settings) for one in problems]
        jax.block_until_ready(solutions)
        seconds = time.perf_counter() - begun
        return Run(
            candidate=np.stack([one.mechanism for one in solutions]),
            seconds=seconds,
            compile_seconds=sum(one.seconds["compile"] for one in solutions if one.seconds),
            steps=sum(int(one.steps) for one in solutions),
            values=tuple(float(one.value) for one in solutions),
            bounds=tuple(float(one.lower_bound) for one in solutions),
        )


def _run(solution: Any, seconds: float, values: tuple[float, ...], bounds: tuple[float, ...]) -> Run:
    return Run(
        candidate=solution.mechanism,
        seconds=seconds,
        compile_seconds=(solution.seconds or {}).get("compile", 0.0),
        steps=int(np.sum(solution.steps)),
        values=values,
        bounds=bounds,
    )


def problem_of(instance: Instance) -> Any:
    """The instance as a problem of jaxpriv, its distortion given by features where there are any."""
    import jaxpriv as jp

    if instance.disclosure is not None:
        return jp.FunnelProblem(instance.joint, disclosure=instance.disclosure)
    rules = {
        "absolute": jp.distortion.absolute,
        "squared": jp.distortion.squared,
        "hamming": jp.distortion.hamming,
        "attributes": jp.distortion.changed_attributes,
    }
    codes = instance.kind in ("hamming", "attributes", "table")
    x, y = (side.astype(np.int64) if codes else side for side in (instance.x, instance.y))
    if instance.limit is not None:
        form = {
            "leakage_budget": instance.limit.value,
            "leakage": getattr(jp.leakage, _MEASURES[instance.limit.name])(),
        }
    else:
        form = {"budget": instance.budgets[0]} if instance.multiplier is None else {"multiplier": instance.multiplier}
    distortion = instance.table if instance.kind == "table" else rules[instance.kind](x, y)
    return jp.DistortionProblem(instance.joint, distortion, **form)


# The measure of each limit of `benchmarks.limits`.
_MEASURES = {
    "max-information": "MaxInformation",
    "max-lift": "MaxLift",
    "local-dp": "LocalDifferentialPrivacy",
    "maximal-leakage": "MaximalLeakage",
}


def problem_at(problem: Any, budget: float) -> Any:
    """The same problem at another budget."""
    import jaxpriv as jp

    return jp.DistortionProblem(problem.joints[0], list(problem.distortions), budget=budget)
