"""What happens as the package and its packages are imported: Ctrl-C of the command line, forks, and names on first use.

Loading the command line takes a second. Ctrl-C then gives one line and exit code 130, where Python would show a
traceback; nothing is changed in a process other than the command `jaxpriv` or `python -m jaxpriv`. In a process that
was forked from one in which JAX had started, the threads of JAX are missing: nothing can be computed there.

Public names of packages are imported when they are first used (PEP 562): importing all of the library takes longer than
importing JAX, and a program uses a part of it. Names of an earlier version work for one release, with a warning.
"""

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

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


class Forks:
    """`useless`: the process was forked from one in which JAX had started, whose threads it does not have."""

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
    os.register_at_fork(before=Forks.before, after_in_child=Forks.in_child)


# Where the public modules of version 0.2 lie now. The old paths go with version 0.4.
FORMER = {
    "jaxpriv.baselines": "jaxpriv.models.baselines",
    "jaxpriv.certificates": "jaxpriv.program.certificates",
    "jaxpriv.channel": "jaxpriv.data.channel",
    "jaxpriv.databases": "jaxpriv.models.databases",
    "jaxpriv.datasets": "jaxpriv.data.datasets",
    "jaxpriv.derivatives": "jaxpriv.solving.derivatives",
    "jaxpriv.distortion": "jaxpriv.data.distortion",
    "jaxpriv.estimation": "jaxpriv.statistics",
    "jaxpriv.frontiers": "jaxpriv.program.frontiers",
    "jaxpriv.gaussian": "jaxpriv.models.gaussian",
    "jaxpriv.joints": "jaxpriv.data.joints",
    "jaxpriv.mechanism": "jaxpriv.release",
    "jaxpriv.probability": "jaxpriv.data.probability",
    "jaxpriv.progress": "jaxpriv._runtime.progress",
    "jaxpriv.report": "jaxpriv.release.report",
    "jaxpriv.robust": "jaxpriv.solving.robust",
    "jaxpriv.sklearn": "jaxpriv.release.sklearn",
    "jaxpriv.solution": "jaxpriv.program.solution",
    "jaxpriv.streaming": "jaxpriv.data.streaming",
    "jaxpriv.sweeps": "jaxpriv.solving.sweeps",
    "jaxpriv.watchdog": "jaxpriv.statistics.watchdog",
}


class _FormerPaths(MetaPathFinder, Loader):
    """`import jaxpriv.mechanism.table` and the like load the module where it lies now: one module with two paths."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        package, _, rest = fullname.partition(".")
        first, dot, inner = rest.partition(".")
        if package != "jaxpriv" or (place := FORMER.get(f"jaxpriv.{first}")) is None:
            return None
        return ModuleSpec(fullname, self, origin=f"{place}{dot}{inner}")

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(str(spec.origin))
        # The import system writes the specification of the old path into the module: `exec_module` puts it back.
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


# First: the folder of a package is searched under its former path too, and would be loaded a second time from there.
sys.meta_path.insert(0, _FormerPaths())


def renamed(old: str, new: str) -> None:
    """Warn, at the line that used it, that a name has a new one."""
    warnings.warn(f"{old} is called {new} now; the old name goes with version 0.4", DeprecationWarning, stacklevel=3)


def names_of(module: str) -> Callable[[], list[str]]:
    """`__dir__` of a module, which completion offers: the names of its `__all__`, or those that it defines without one.

    What the module imports for itself is not among them.
    """

    def names() -> list[str]:
        namespace = vars(sys.modules[module])
        defined = (name for name, value in namespace.items() if getattr(value, "__module__", None) == module)
        public = namespace.get("__all__") or (name for name in defined if not name.startswith("_"))
        return sorted({*(name for name in namespace if name.startswith("__")), *public})

    return names


def attach(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of `package`, for the names that its source imports for type checkers.

    They stand below `if TYPE_CHECKING:` and above `else:`, in statements `from MODULE import NAME as NAME, ...`. A name
    may be a module; no other one may be that of a submodule of the package, which would take its place once it is
    imported.
    Raises `ImportError` where the source is not installed.
    """
    loader: Any = sys.modules[package].__loader__
    source = loader.get_source(package)
    if source is None:
        raise ImportError(f"{package} is installed without its source, from which its public names are read")
    below = source.partition("if TYPE_CHECKING:")[2].partition("\nelse:")[0]
    statements = (part.split(" import ") for part in below.split(" from ")[1:])
    home = {
        imported.split()[0]: module for module, names in statements for imported in names.strip("() ,\n").split(",")
    }

    def get(name: str) -> object:
        module = home.get(name)
        if module is None:
            former = FORMER.get(f"{package}.{name}")
            if former is None:
                raise AttributeError(f"module {package!r} has no attribute {name!r}")
            value = import_module(former)
        elif module != package and hasattr(import_module(module), name):
            value = getattr(sys.modules[module], name)
        else:
            value = import_module(f"{module}.{name}")
        setattr(sys.modules[package], name, value)  # the next use finds it without this function
        return value

    return get, names_of(package), sorted(home)
