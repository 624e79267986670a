"""Whether JAX ran in this process's parent when it was forked: its threads are then missing here.

Imported with the package: a fork is noted from then on, whatever else of the library has been imported.
"""

import os
import sys

_BRIDGE = "jax._src.xla_bridge"


class _Forks:
    running = useless = False

    @classmethod
    def before(cls) -> None:
        # No public name says whether a backend has been started without starting one. Where a later JAX does not have
        # this one, it counts as started. Only JAX's import brings the module in.
        asked = getattr(sys.modules.get(_BRIDGE), "backends_are_initialized", None)
        cls.running = "jax" in sys.modules and (asked is None or asked())

    @classmethod
    def in_child(cls) -> None:
        cls.useless = cls.running


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_Forks.before, after_in_child=_Forks.in_child)


def useless() -> bool:
    """Whether JAX cannot compute in this process."""
    return _Forks.useless
