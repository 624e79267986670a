"""Declared studies: thousands of certified solves from one file, in chunks that are kept whatever ends the process."""

from typing import TYPE_CHECKING

from jaxpriv._runtime.importing import attach

if TYPE_CHECKING:  # what `attach` reads, and type checkers and editors
    from jaxpriv.solving.sweeps.declaration import Study as Study
    from jaxpriv.solving.sweeps.planning import Plan as Plan
    from jaxpriv.solving.sweeps.running import Sweep as Sweep, SweepProgress as SweepProgress, sweep as sweep
else:
    __getattr__, __dir__, __all__ = attach(__name__)
