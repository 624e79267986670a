"""MPAX, a primal-dual hybrid gradient method for linear programs in JAX: the peer of `hybrid-gradient`."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.cases import Case, Instance
from benchmarks.solvers._base import Accuracy, Run, Solver, Unable, by_tolerance
from benchmarks.solvers.conic import formulate


@contextlib.contextmanager
def _settings() -> Iterator[None]:
    """float64, and the promotions of types and shapes that MPAX rests on."""
    import jax

    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


class Mpax(Solver):
    """`mpax.raPDHG` in float64 on the arrays of cvxpy's formulation `scaled`, one function for all tolerances.

    (cvxpy's own call of MPAX makes a new function for every solve, which compiles again.)
    """

    name = "mpax"
    timed = "optimize; what cvxpy writes out and what JAX compiles is set-up"
    packages = ("cvxpy", "mpax")

    def supports(self, case: Case) -> bool:
        return "linear" in case.traits

    def ladder(self, targets: Sequence[float]) -> Sequence[Accuracy]:
        return by_tolerance(targets)

    def load(self) -> None:
        import cvxpy  # noqa: F401 - the import is what is wanted
        import mpax  # noqa: F401

    def prepare(self, instance: Instance) -> Any:
        import cvxpy as cp
        import jax
        import mpax

        problem, mechanism = formulate(instance, instance.table, "scaled")
        data, chain, inverse = problem.get_problem_data(cp.MPAX)
        ends = (
            np.full_like(data["q"], end) if data[side] is None else data[side]
            for side, end in (("lower_bounds", -np.inf), ("upper_bounds", np.inf))
        )
        with _settings():
            model = mpax.create_lp(data["q"], -data["A"], -data["b"], -data["F"], -data["G"], *ends)
            optimize = jax.jit(lambda model, tol: mpax.raPDHG(eps_abs=tol, eps_rel=tol).optimize(model))
            compiled = optimize.lower(model, 0.0).compile()

        def mechanism_of(solution: Any) -> np.ndarray:
            problem.unpack_results(solution, chain, inverse)
            if mechanism.value is None:
                raise Unable(f"no mechanism returned, status {problem.status}")
            return mechanism.value

        return model, compiled, mechanism_of

    def run(self, prepared: Any, accuracy: Accuracy) -> Run:
        import jax

        model, optimize, mechanism_of = prepared
        with _settings():
            begun = time.perf_counter()
            solution = jax.block_until_ready(optimize(model, accuracy.settings["tol"]))
            seconds = time.perf_counter() - begun
        return Run(mechanism_of(solution), seconds, steps=int(solution.iteration_count))
