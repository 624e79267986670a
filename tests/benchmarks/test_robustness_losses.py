"""One of the problems with users' losses, whose set has kinks: a cube, under a leakage budget."""

import jaxpriv as jp
from benchmarks.robustness_losses import instance


def test_a_loss_whose_announcements_leave_symbols_out_is_certified():
    solution = jp.solve(instance(0, 7).problem, tol=1e-6)
    assert solution.status == "optimal", solution.gap
    assert solution.gap <= 1e-6
