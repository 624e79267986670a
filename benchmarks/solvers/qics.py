"""QICS: one classical relative entropy cone for the whole leakage, stated by its own modelling interface."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.cases import Case, Instance
from benchmarks.solvers._base import Accuracy, Run, Solver


class Qics(Solver):
    """`qics.Solver` on min t with t >= D(J W || prior x mass W), the rows of W on simplices and the budget.

    Its cone takes all |S| |Y| terms together, and its steps factor a dense matrix of order |X| |Y|.
    """

    name = "qics"
    timed = "its constructor and solve; the model's matrices are made before"
    packages = ("qics",)

    def supports(self, case: Case) -> bool:
        return case.family == "cube"

    def ladder(self, targets: Sequence[float]) -> Sequence[Accuracy]:
        return [Accuracy(f"{t:g}", {"tol_gap": t, "tol_feas": t}) for t in (1e-4, 1e-6, 1e-8)]

    def load(self) -> None:
        import qics  # noqa: F401 - the import is what is wanted

    def prepare(self, instance: Instance) -> Any:
        import qics
        import scipy.sparse as sp

        joint, table = instance.joint, instance.table
        prior, mass = joint.sum(axis=1), joint.sum(axis=0)
        inputs, outputs = table.shape
        each, last = sp.identity(outputs), inputs * outputs  # W by rows, then t
        released = sp.kron(joint, each)
        apart = sp.kron(np.outer(prior, mass), each)
        spent = sp.csr_array((mass[:, None] * table).reshape(1, -1))
        top = sp.csr_array(([1.0], ([0], [last])), shape=(1, last + 1))
        blocks = [released, apart, sp.identity(last), -spent]
        wide = [sp.hstack([block, sp.csr_array((block.shape[0], 1))]) for block in blocks]
        cone = -sp.vstack([top, *wide], format="csr")
        free = np.zeros((cone.shape[0], 1))
        free[-1] = instance.budgets[0]
        goal = np.zeros((last + 1, 1))
        goal[last] = 1.0
        rows = sp.kron(sp.identity(inputs), np.ones((1, outputs)))
        model = qics.Model(
            c=goal,
            A=sp.csr_matrix(sp.hstack([rows, sp.csr_array((inputs, 1))])),
            b=np.ones((inputs, 1)),
            G=sp.csr_matrix(cone),
            h=free,
            cones=[qics.cones.ClassRelEntr(released.shape[0]), qics.cones.NonNegOrthant(last + 1)],
        )
        return model, table.shape

    def run(self, prepared: Any, accuracy: Accuracy) -> Run:
        import qics

        model, shape = prepared
        begun = time.perf_counter()
        found = qics.Solver(model, verbose=0, **accuracy.settings).solve()
        seconds = time.perf_counter() - begun
        mechanism = np.asarray(found["x_opt"])[:-1].reshape(shape)
        return Run(mechanism, seconds, own_clock=found["solve_time"], steps=found["num_iter"])
