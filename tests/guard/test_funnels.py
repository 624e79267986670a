"""Funnels of real tables are proved as they were."""

import pytest

from . import funnels

_FROZEN = funnels.frozen()


@pytest.mark.guard
@pytest.mark.parametrize("name", _FROZEN)
def test_a_funnel_is_proved_as_it_was(name, shared):
    assert funnels.worse(_FROZEN[name], funnels.result(name)) == []


def test_the_guard_notices_what_is_worse():
    before = {"status": "optimal", "value": 1.0, "bound": 1.0 - 1e-7}
    assert funnels.worse(before, before) == []
    for wrong in ({"status": "best_known"}, {"bound": 0.9}, {"value": 2.0, "bound": 1.5}, {"bound": float("-inf")}):
        assert funnels.worse(before, {**before, **wrong})
        assert funnels.worse([before, before], [before, {**before, **wrong}])[0].startswith("point 2 ")
