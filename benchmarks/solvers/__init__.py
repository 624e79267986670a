"""Solvers by name: jaxpriv's and those it is compared with. A new one is one line here."""

from benchmarks.solvers._base import Accuracy, Run, Solver, Unable
from benchmarks.solvers.conic import FORMULATIONS, Conic
from benchmarks.solvers.dit import Dit
from benchmarks.solvers.ours import OurCurve, Ours
from benchmarks.solvers.qif import Qif

__all__ = ["REFERENCE", "SOLVERS", "Accuracy", "Run", "Solver", "Unable"]

# Solves every case beside those asked for, to 1e-9: somebody must supply the bound that judges all.
REFERENCE = "interior-point"

_ALL: tuple[Solver, ...] = (
    Ours("interior-point"),
    Ours("mirror-descent"),
    Ours("blahut-arimoto"),
    Ours("accelerated"),
    Ours("two-grid", needs=frozenset({"ordered"})),
    OurCurve("frontier", batched=True),
    OurCurve("single-solves", batched=False),
    # Each in the formulation that was fastest to a gap of 1e-6 where the three were measured (--suite
    # formulations, results/formulations*.json, cubes of 32 and 64): Clarabel always, SCS in three of four
    # (once `auxiliary` took two thirds), ECOS a tie within a tenth, broken by `scaled` taking many times as
    # long as `expression` when asked for its default tolerance at n = 64.
    Conic("clarabel", "scaled", name="clarabel"),
    Conic("ecos", "expression", name="ecos"),
    Conic("scs", "scaled", name="scs"),
    *(Conic(backend, form) for backend in ("clarabel", "ecos", "scs") for form in FORMULATIONS),
    Qif(),
    Dit(),
)
SOLVERS: dict[str, Solver] = {solver.name: solver for solver in _ALL}
