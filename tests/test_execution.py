"""Executables that are compiled ahead of time and kept."""

import numpy as np

from jaxpriv.solving import execution
from jaxpriv.solving.execution import compiled, own_settings


def _sum(a):
    return a.sum()


def test_only_the_most_recent_executables_are_kept(monkeypatch):
    """Without a bound a sweep over shapes ends in an abort of the process: its maps run out."""
    monkeypatch.setattr(execution, "_EXECUTABLES", type(execution._EXECUTABLES)())
    monkeypatch.setattr(execution, "_MOST_EXECUTABLES", 2)
    one, two, three = (np.ones(n) for n in (1, 2, 3))
    with own_settings():
        assert compiled(_sum, one)[1] > 0
        assert compiled(_sum, two)[1] > 0
        run, seconds = compiled(_sum, one)  # now `two` is the one that was not used for longest
        assert seconds == 0
        assert float(run()) == 1.0
        assert compiled(_sum, three)[1] > 0
        assert len(execution._EXECUTABLES) == 2
        assert compiled(_sum, one)[1] == 0
        assert compiled(_sum, two)[1] > 0
