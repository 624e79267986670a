"""Names of an earlier version: they work for one release, with a warning."""

import warnings


def renamed(old: str, new: str) -> None:
    """Warn, at the line that used it, that a name has a new one."""
    warnings.warn(f"{old} is called {new} now; the old name goes with version 0.3", DeprecationWarning, stacklevel=3)
