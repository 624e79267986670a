"""What the package notes about its process as it is imported: Ctrl-C while the command line is loaded, and forks.

Loading the command line takes a second. Ctrl-C then gives one line and exit code 130, where Python would show a
traceback; nothing is changed in a process other than the command `jaxpriv` or `python -m jaxpriv`. In a process that
was forked from one in which JAX had started, the threads of JAX are missing: nothing can be computed there.
"""

import os
import signal
import sys
import threading
from collections.abc import Sequence

# What shells report of a process that a signal ended: 128 and the number of SIGINT, 2.
INTERRUPTED = 130
MESSAGE = "jaxpriv: error: interrupted; no output file was written\n"


def is_command(argv: Sequence[str], original: Sequence[str]) -> bool:
    """Whether these (`sys.argv`, `sys.orig_argv`) start the command. While `-m` loads packages, `argv[0]` is "-m"."""
    if argv[:1] == ["-m"]:
        return original[-len(argv)] in ("jaxpriv", "-mjaxpriv")
    return bool(argv) and os.path.basename(argv[0]) == "jaxpriv"


def _leave(*_: object) -> None:
    # Not an exception: one that is raised inside of a callback is lost. Nothing has been begun that must be ended.
    os.write(2, MESSAGE.encode())
    os._exit(INTERRUPTED)


def listen() -> None:
    """From here on Ctrl-C raises KeyboardInterrupt, as usual: the command line has been imported and handles it."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if (
    is_command(sys.argv, sys.orig_argv)
    and threading.current_thread() is threading.main_thread()  # only that one may set handlers
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not where the caller has them ignored
):
    signal.signal(signal.SIGINT, _leave)


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
