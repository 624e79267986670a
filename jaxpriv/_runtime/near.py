"""Which known name a mistyped one may have meant."""

import difflib
from collections.abc import Callable, Iterable


def near(name: str, names: Iterable[str], form: Callable[[str], str] = str) -> str:
    """What a message about an unknown name ends with: the known names of the form most like its form, if any is.

    Nothing where the name is known: then something else is wrong.
    """
    names = tuple(dict.fromkeys(names))
    closest = difflib.get_close_matches(form(name), [form(candidate) for candidate in names], n=1)
    alike = " or ".join(repr(candidate) for candidate in names if form(candidate) in closest)
    return f"; did you mean {alike}?" if alike and name not in names else ""
