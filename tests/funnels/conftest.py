import pytest

from jaxpriv.funnels.atoms import column_generation
from jaxpriv.funnels.pricing import connected_pricer, exact


@pytest.fixture
def pricing_rule(monkeypatch):
    """`pricing_rule(rule)`: a line of `connected_pricer`; `rule(joint, funnel)` is None where the next lines decide."""

    def added(rule):
        def connected(joint, *, funnel):
            return rule(joint, funnel) or connected_pricer(joint, funnel=funnel)

        for module in (column_generation, exact):
            monkeypatch.setattr(module, "connected_pricer", connected)

    return added
