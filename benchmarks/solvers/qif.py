"""libqif: its rate-distortion Blahut-Arimoto at a fixed slope (S = X, multiplier form)."""

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.cases import Case, Instance
from benchmarks.solvers._base import Accuracy, Run, Solver


class Qif(Solver):
    """`qif.mechanism.shannon.max_entropy_given_same_loss`, the slope being part of the loss.

    It stops when the output distribution changes by less than a relative `mrd` (its absolute `md` was
    without effect in 1.6.0). The gap that this buys is judged; the ladder has every decade to a tenth of
    the tightest target, and the default.
    """

    name = "qif"
    timed = "the call, its tabulation of the loss by a Python function included"
    packages = ("qif",)

    def supports(self, case: Case) -> bool:
        return {"S = X", "multiplier"} <= case.traits

    def ladder(self, targets: Sequence[float]) -> Sequence[Accuracy]:
        decades = range(2, 3 + math.ceil(-math.log10(min(targets))))
        changes = [*(10.0**-k for k in decades), np.finfo(float).eps * 100]
        return [Accuracy(f"mrd {c:.0e}", {"mrd": c}) for c in changes]

    def load(self) -> None:
        import qif  # noqa: F401 - the import is what is wanted

    def prepare(self, instance: Instance) -> Any:
        assert instance.multiplier is not None
        return np.diag(instance.joint).copy(), (instance.multiplier * instance.table).tolist()

    def run(self, prepared: Any, accuracy: Accuracy) -> Run:
        from qif import mechanism  # an extension module: its parts cannot be imported by name

        source, loss = prepared
        start = np.full(len(loss[0]), 1.0 / len(loss[0]))
        begun = time.perf_counter()
        channel = mechanism.shannon.max_entropy_given_same_loss(
            source, start, lambda x, y: loss[x][y], **accuracy.settings
        )
        seconds = time.perf_counter() - begun
        return Run(np.asarray(channel), seconds)
