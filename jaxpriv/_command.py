"""Ctrl-C while the command line is imported, which takes a second: one line and exit code 130, as while it works.

Python would show a traceback. Nothing is changed in a process other than the command `jaxpriv` or `python -m jaxpriv`.
"""

import os
import signal
import sys
import threading
from collections.abc import Sequence

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
    """From here on Ctrl-C raises KeyboardInterrupt, as usual: the command line has been imported and hears it."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if (
    is_command(sys.argv, sys.orig_argv)
    and threading.current_thread() is threading.main_thread()  # only that one may set handlers
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not where the caller has them ignored
):
    signal.signal(signal.SIGINT, _leave)
