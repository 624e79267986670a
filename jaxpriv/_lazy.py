"""Packages whose public names are imported when they are first used (PEP 562).

Importing all of the library takes longer than importing JAX; a program uses a part of it.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def attach(
    package: str, names: Mapping[str, Sequence[str]], submodules: Sequence[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of `package`.

    Args:
        package: its name.
        names: for each module, the public names of the package that it defines. No public name may be that of a
            submodule of the package: the import of the submodule would put the module in its place.
        submodules: those that are public themselves.
    """
    home = {name: module for module, own in names.items() for name in own}
    public = sorted([*home, *submodules])

    def get(name: str) -> object:
        if name in home:
            value = getattr(import_module(home[name]), name)
        elif name in submodules:
            value = import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)  # the next use finds it without this function
        return value

    def names_of() -> list[str]:  # what completion offers: no helper of the package itself
        own = (name for name in vars(sys.modules[package]) if name.startswith("__"))
        return sorted({*own, *public})

    return get, names_of, public
