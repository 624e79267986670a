"""dit: its rate-distortion Blahut-Arimoto (S = X, multiplier form)."""

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.cases import Case, Instance
from benchmarks.solvers._base import Accuracy, Run, Solver


class Dit(Solver):
    """`dit.rate_distortion.blahut_arimoto`, one start (the problem is convex).

    Its slope is per bit. The iteration limit is the only parameter of its accuracy: it also stops as soon
    as the distortion changes by a relative 1e-5, which cannot be set, so that higher rungs may change nothing.
    """

    name = "dit"
    timed = "the call, with one start"
    packages = ("dit",)

    def supports(self, case: Case) -> bool:
        return {"S = X", "multiplier"} <= case.traits

    def ladder(self, targets: Sequence[float]) -> Sequence[Accuracy]:
        return [Accuracy(f"{n} iterations", {"max_iters": n}) for n in (10, 100, 1000, 100_000)]

    def load(self) -> None:
        with np.errstate():  # the import changes what NumPy does about numbers that are not finite
            import dit.rate_distortion.blahut_arimoto  # noqa: F401 - the import is what is wanted

    def prepare(self, instance: Instance) -> Any:
        assert instance.multiplier is not None
        return np.diag(instance.joint).copy(), instance.multiplier / math.log(2.0), instance.table

    def run(self, prepared: Any, accuracy: Accuracy) -> Run:
        self.load()
        from dit.rate_distortion.blahut_arimoto import blahut_arimoto

        source, slope, table = prepared
        begun = time.perf_counter()
        _, joint = blahut_arimoto(source, slope, lambda *_: table, restarts=1, **accuracy.settings)
        seconds = time.perf_counter() - begun
        mass = source[:, None]
        return Run(np.where(mass > 0, joint / np.where(mass > 0, mass, 1.0), 1.0), seconds)
