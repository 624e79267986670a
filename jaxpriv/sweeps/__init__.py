"""Declared studies: thousands of certified solves from one file, in chunks that are kept whatever ends the process."""

from jaxpriv._importing import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "jaxpriv.sweeps.declaration": ["Study"],
        "jaxpriv.sweeps.planning": ["Plan"],
        "jaxpriv.sweeps.running": ["Sweep", "SweepProgress", "sweep"],
    },
)
