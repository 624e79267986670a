"""A solver of the user's own, named as `module:expression` of an importable module."""

import importlib
import inspect
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.cases import Case, Instance
from benchmarks.solvers._base import Accuracy, Run, Solver, Unable, by_tolerance
from benchmarks.solvers.ours import Ours


class Yours(Ours):
    """What the expression gives: a solver of jaxpriv, or a function of (joint, distortion, budget= or multiplier=).

    A function gives the mechanism (X, Y), and takes `tol` or is asked once. Its exceptions are failures with their
    text as the reason. Its first call, which may compile, does not count.
    """

    timed = "jp.solve, or the call of the function on NumPy arrays"
    packages = ()

    def __init__(self, name: str):
        super().__init__(name)
        self._module, _, self._expression = name.partition(":")

    def load(self) -> None:
        super().load()
        self.solver = eval(f"module.{self._expression}", {"module": importlib.import_module(self._module)})

    def supports(self, case: Case) -> bool:
        return bool({"budget", "multiplier"} & case.traits) and not {"curve", "limit", "funnel"} & case.traits

    def ladder(self, targets: Sequence[float]) -> Sequence[Accuracy]:
        self.load()
        if self._is_ours or "tol" in inspect.signature(self.solver).parameters:
            return by_tolerance(targets)
        return [Accuracy("as it is", {})]

    @property
    def _is_ours(self) -> bool:
        from jaxpriv.solvers import AbstractSolver

        return isinstance(self.solver, AbstractSolver)

    def prepare(self, instance: Instance) -> Any:
        if self._is_ours:
            return super().prepare(instance)
        target = {"budget": instance.budgets[0]} if instance.multiplier is None else {"multiplier": instance.multiplier}
        return instance.joint, instance.table, target

    def run(self, prepared: Any, accuracy: Accuracy) -> Run:
        if self._is_ours:
            return super().run(prepared, accuracy)
        joint, table, target = prepared
        begun = time.perf_counter()
        try:
            mechanism = self.solver(joint, table, **target, **accuracy.settings)
        except Exception as error:
            raise Unable(f"{type(error).__name__}: {error}") from error
        return Run(candidate=mechanism, seconds=time.perf_counter() - begun)


class Solvers(dict[str, Solver]):
    """Solvers by name; `module:expression` names one of the user's."""

    def __missing__(self, name: str) -> Solver:
        if ":" not in name:
            raise KeyError(name)
        self[name] = Yours(name)
        return self[name]
