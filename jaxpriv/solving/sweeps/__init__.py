"""Declared studies: thousands of certified solves from one file, in chunks that are kept whatever ends the process."""

from jaxpriv._runtime.importing import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "jaxpriv.solving.sweeps.declaration": ["Study"],
        "jaxpriv.solving.sweeps.planning": ["Plan"],
        "jaxpriv.solving.sweeps.running": ["Sweep", "SweepProgress", "sweep"],
    },
)
