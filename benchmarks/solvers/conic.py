"""cvxpy with Clarabel, ECOS and SCS, in three formulations.

`scaled`      relative entropies of P(s|.) W against the mass of each output, weighted by the prior
`expression`  relative entropies of w = J W against prior x mass, both as expressions
`auxiliary`   the same with variables for w and for the mass, tied by equations

The three are the same problem; which of them a solver likes best was measured (`--suite formulations`)
and is the default of its plain name. cvxpy is timed as its user sees it: `problem.solve` of a fresh
problem, canonicalisation included; the solver's own clock is recorded beside it.
"""

import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.cases import Case, Instance
from benchmarks.solvers._base import Accuracy, Run, Solver, Unable

FORMULATIONS = ("scaled", "expression", "auxiliary")

# The names of the accuracy parameters; iteration limits high enough that the time limit is what stops a run.
_TOLERANCES = {
    "clarabel": ("tol_gap_abs", "tol_gap_rel", "tol_feas"),
    "ecos": ("abstol", "reltol", "feastol"),
    "scs": ("eps_abs", "eps_rel"),
}
_LIMITS = {"clarabel": {}, "ecos": {"max_iters": 200}, "scs": {"max_iters": 10_000_000}}


class Conic(Solver):
    """One conic solver through cvxpy."""

    timed = "problem.solve of a fresh cvxpy problem: canonicalisation and solver"

    def __init__(self, backend: str, formulation: str, name: str | None = None):
        self.backend = backend
        self.formulation = formulation
        self.name = name or f"{backend}-{formulation}"
        self.packages = ("cvxpy", backend)

    def supports(self, case: Case) -> bool:
        return "curve" not in case.traits

    def ladder(self, targets: Sequence[float]) -> Sequence[Accuracy]:
        # A conic solver's tolerance is no bound on the gap that is judged: the rungs are close enough for the
        # time to a gap not to be that of a much smaller one, and go beyond the default of 1e-8.
        tolerances = sorted(targets, reverse=True) if self.backend == "scs" else (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
        names = _TOLERANCES[self.backend]
        return [Accuracy(f"{t:g}", {**dict.fromkeys(names, t), **_LIMITS[self.backend]}) for t in tolerances]

    def load(self) -> None:
        import cvxpy  # noqa: F401 - the import is what is wanted

    def prepare(self, instance: Instance) -> Any:
        return instance, instance.table

    def run(self, prepared: Any, accuracy: Accuracy) -> Run:
        import cvxpy as cp

        problem, mechanism = formulate(*prepared, self.formulation)
        begun = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "solution may be inaccurate": the mechanism is judged
                problem.solve(solver=self.backend.upper(), **accuracy.settings)
        except cp.error.SolverError as error:
            raise Unable(f"{type(error).__name__}: {error}") from error
        seconds = time.perf_counter() - begun
        if mechanism.value is None:
            raise Unable(f"no mechanism returned, status {problem.status}")
        stats = problem.solver_stats
        clock = None if stats.solve_time is None else stats.solve_time + (stats.setup_time or 0.0)
        return Run(mechanism.value, seconds, own_clock=clock, steps=stats.num_iters)


def formulate(instance: Instance, table: Any, formulation: str) -> tuple[Any, Any]:
    """(cvxpy problem, its variable W of shape (X, Y))."""
    import cvxpy as cp

    joint = instance.joint
    prior, mass = joint.sum(axis=1), joint.sum(axis=0)
    seen = prior > 0  # a symbol without mass has no row P(.|s)
    w = cp.Variable(table.shape, nonneg=True)
    limits = [cp.sum(w, axis=1) == 1]
    if formulation == "scaled":
        rows = (joint[seen] / prior[seen, None]) @ w
        masses = cp.sum(cp.multiply(mass[:, None], w), axis=0, keepdims=True)
        leakage = prior[seen] @ cp.sum(cp.rel_entr(rows, np.ones((int(seen.sum()), 1)) @ masses), axis=1)
    else:
        auxiliary = formulation == "auxiliary"
        columns: Any = cp.Variable((len(prior), table.shape[1])) if auxiliary else joint @ w
        masses: Any = cp.Variable((1, table.shape[1])) if auxiliary else cp.sum(columns, axis=0, keepdims=True)
        if auxiliary:
            limits += [columns == joint @ w, masses == mass[None, :] @ w]
        leakage = cp.sum(cp.rel_entr(columns, prior[:, None] @ masses))
    distortion = cp.sum(cp.multiply(mass[:, None] * table, w))
    if instance.multiplier is not None:
        return cp.Problem(cp.Minimize(leakage + instance.multiplier * distortion), limits), w
    limits.append(distortion <= instance.budgets[0])
    return cp.Problem(cp.Minimize(leakage), limits), w
