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


def refuse_after_fork() -> None:
    """A computation would wait without end for threads that a fork does not copy."""
    if _Forks.useless:
        from jaxpriv.errors import ResourceError  # here: the import of the package brings in no other module

        raise ResourceError(
            "this process was forked from one in which JAX had already started, and JAX cannot compute in it; start "
            "workers by 'spawn' or 'forkserver' (multiprocessing.set_start_method), or fork before anything is computed"
        )
