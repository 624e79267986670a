"""Which known name a mistyped one may have meant."""

import difflib
from collections.abc import Callable, Iterable


def near(name: str, known: Iterable[str], form: Callable[[str], str] = str) -> str:
    """What a message about an unknown name ends with: the known names of the form most like its form, if any is."""
    known = tuple(dict.fromkeys(known))
    found = difflib.get_close_matches(form(name), [form(one) for one in known], n=1)
    alike = " or ".join(repr(one) for one in known if form(one) in found)
    return f"; did you mean {alike}?" if alike else ""
