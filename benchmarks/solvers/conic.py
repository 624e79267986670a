"""cvxpy with Clarabel, ECOS, SCS, HiGHS, Moreau and Ipopt, in several formulations.

`scaled`      relative entropies of P(s|.) W against the mass of each output, weighted by the prior
`expression`  relative entropies of w = J W against prior x mass, both as expressions
`auxiliary`   the same with variables for w and for the mass, tied by equations

Where the leakage is limited instead (`conic_limits`), the same names mean the same choices, and there are two
more. All formulations are the same problem; which of them is the fastest for a solver was measured (`--suite
formulations`, `--suite limit-formulations`) and is the default of its plain name. cvxpy is timed as its user
has it: `problem.solve` of a fresh problem, canonicalisation included; the solver's own clock is recorded
beside it.
"""

import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.cases import Case, Instance
from benchmarks.solvers._base import Accuracy, Run, Solver, Unable
from benchmarks.solvers.conic_limits import formulate_limit

FORMULATIONS = ("scaled", "expression", "auxiliary")

# The names of the accuracy parameters; iteration limits high enough that the time limit is what stops a run.
_TOLERANCES = {
    "clarabel": ("tol_gap_abs", "tol_gap_rel", "tol_feas"),
    "ecos": ("abstol", "reltol", "feastol"),
    "scs": ("eps_abs", "eps_rel"),
    "highs": ("primal_feasibility_tolerance", "dual_feasibility_tolerance"),
    "moreau": ("tol_gap_abs", "tol_gap_rel", "tol_feas"),
    "ipopt": ("tol",),
}
# Ipopt takes the problem as a smooth nonlinear program (cvxpy's DNLP), with its derivatives.
_LIMITS = {
    "ecos": {"max_iters": 200},
    "scs": {"max_iters": 10_000_000},
    "ipopt": {"nlp": True, "print_level": 0, "sb": "yes"},
}

# HiGHS by its interior-point method, without the walk to a vertex that follows it by default.
INTERIOR = {"solver": "ipm", "run_crossover": "off"}
# Where the module is not called like the backend.
_PACKAGES = {"highs": "highspy", "ipopt": "cyipopt"}


def _kind(case: Case) -> str:
    """Which of a solver's formulations a case is asked in."""
    if "worst outcome" in case.traits:
        return "max-information"
    return case["measure"] if "linear" in case.traits else "average"


class Conic(Solver):
    """One conic solver through cvxpy."""

    timed = "problem.solve of a fresh cvxpy problem: canonicalisation and solver"

    def __init__(
        self,
        backend: str,
        average: str | None = None,
        worst: str | None = None,
        linear: str | None = None,
        local_dp: str | None = None,
        name: str | None = None,
        **settings: Any,
    ):
        """The formulation of each kind of problem, None for those that it is not asked (`local_dp`: `linear` unless
        given); `settings` of the backend.
        """
        self.backend = backend
        self.formulations = {
            "average": average,
            "max-information": worst,
            "max-lift": linear,
            "maximal-leakage": linear,
            "local-dp": local_dp or linear,
        }
        self.name = name or f"{backend}-{average or worst or linear}"
        self.packages = ("cvxpy", _PACKAGES.get(backend, backend))
        self.settings = settings

    def supports(self, case: Case) -> bool:
        return not {"curve", "funnel"} & case.traits and self.formulations[_kind(case)] is not None

    def ladder(self, targets: Sequence[float]) -> Sequence[Accuracy]:
        # A conic solver's tolerance is no bound on the gap that is judged: the rungs are close enough for the
        # time to a gap not to be that of a much smaller one, and go beyond the default of 1e-8.
        tolerances = sorted(targets, reverse=True) if self.backend == "scs" else (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
        if self.backend == "highs":
            tolerances = (1e-7, 1e-9)  # a simplex method is exact up to these: its default and near its least
        fixed = {**_LIMITS.get(self.backend, {}), **self.settings}
        return [Accuracy(f"{t:g}", {**self._asked(t), **fixed}) for t in tolerances]

    def _asked(self, tolerance: float) -> dict[str, Any]:
        named = dict.fromkeys(_TOLERANCES[self.backend], tolerance)
        return {"ipm_settings": named} if self.backend == "moreau" else named

    def load(self) -> None:
        import cvxpy  # noqa: F401 - the import is what is wanted

    def prepare(self, instance: Instance) -> Any:
        formulation = self.formulations["average" if instance.limit is None else instance.limit.name]
        assert formulation is not None
        return instance, instance.table, formulation

    def run(self, prepared: Any, accuracy: Accuracy) -> Run:
        import cvxpy as cp

        problem, mechanism = formulate(*prepared)
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
        steps = stats.num_iters if isinstance(stats.num_iters, int) else None  # Ipopt's are a remark
        return Run(mechanism.value, seconds, own_clock=clock, steps=steps)


def formulate(instance: Instance, table: Any, formulation: str) -> tuple[Any, Any]:
    """(cvxpy problem, its variable W of shape (X, Y))."""
    import cvxpy as cp

    if instance.limit is not None:
        return formulate_limit(instance.joint, table, instance.limit, formulation)
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
