"""Where a solve stands: the record that the function `progress` is called with, and the history of a solve."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from jaxpriv._runtime.validation import whole


@dataclass(frozen=True, eq=False)
class Progress:
    """Where a solve stands, for the function `progress`.

    Attributes:
        solver: the name of the method at work, or of a stage without numbers (step 0).
        step: its iterations (or rounds) so far.
        value: the objective of the best mechanism so far, in the units of the result; infinite while there is none.
        bound: the best bound on the optimum so far, as the method computes it (the result's is computed again).
        gap: |value - bound|.
        seconds: since the call began, compiling included.
        done, total: points of a sweep that are done, and all of them; 0 and 1 where one problem is solved.
        distortion: E d_k of the best mechanism so far, shape (M,), which budgets limit; None where the method computes
            none before its end.
        length: of the last step, in the unit of the method: of the interior point the share of a full step, of mirror
            descent and the hybrid gradient the step size; None of other methods.
        mechanism: the best mechanism so far, for a `History` that asks for mechanisms; None otherwise.
    """

    solver: str
    step: int
    value: float
    bound: float
    gap: float
    seconds: float
    done: int = 0
    total: int = 1
    distortion: np.ndarray | None = None
    length: float | None = None
    mechanism: object = None

    def __str__(self) -> str:
        if not self.step and self.gap == float("inf"):
            return f"{self.solver}, {self.seconds:.1f} s"
        points = f" point {self.done}/{self.total}," if self.total > 1 else ""
        numbers = f"value {self.value:.6g}, bound {self.bound:.6g}, gap {self.gap:.2e}"
        return f"{self.solver}:{points} step {self.step}, {numbers}, {self.seconds:.1f} s"

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class History:
    """The records of a solve, in order: `jp.solve(problem, progress=history)`.

    The last record of `solve` is that of its certified result. `history["gap"]` is the array of a field over the
    records, and a loop over the history goes through them.

    Args:
        every: steps from one record of a method to the next; the methods report no more seldom than that.
        mechanisms: whether each record holds its mechanism.

    Raises InputError if `every` is no whole number of at least 1.
    """

    every: int = 1
    mechanisms: bool = False
    records: list[Progress] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        whole(self.every, "every", low=1)

    def __call__(self, record: Progress) -> None:
        if self.records:
            last = self.records[-1]
            if last.step % self.every and (last.solver, last.done) == (record.solver, record.done):
                self.records.pop()  # it was the last one so far, and no multiple of `every`
        self.records.append(record)

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[Progress]:
        return iter(self.records)

    def __getitem__(self, name: str) -> np.ndarray:
        return np.array([getattr(record, name) for record in self.records])

    def __repr__(self) -> str:
        return f"History({len(self)} records)"
