"""What a solver of one's own needs beside `AbstractSolver`: the slope of a program, and what a mechanism is worth."""

from jaxtyping import Float

from jaxpriv import _arrays as xp
from jaxpriv._types import Arr
from jaxpriv.problems.program import Form, Program
from jaxpriv.solvers._base import Candidate
from jaxpriv.solvers._parts import dual_bound, leak_of, posterior_scores, score_costs
from jaxpriv.solvers.conic.candidate import with_mechanism


def _weights(program: Program, weights: Arr | None) -> Arr:
    """Ones where none are given: the leakage as it stands in the objective."""
    return xp.ones(len(program.terms), like=program.cost) if weights is None else weights


def slope_of(program: Program, mechanism: Float[Arr, "x y"], weights: Arr | None = None) -> Float[Arr, "x y"]:
    """The gradient (X, Y) of <cost, W> + sum_k weights_k I_k(S;Y) at a mechanism W > 0 on the support.

    Entry (x, y) is cost(x, y) + sum_k weights_k sum_s P_k(s, x) ln( P_k(s|y)/P_k(s) ): it carries the mass of x.
    `weights` (K,): the price of leakage of a leakage budget, the weight of every joint of a set; none: ones.
    """
    scores = posterior_scores(program, leak_of(program, mechanism).columns)
    return program.cost + score_costs(program, scores, _weights(program, weights))


def consider(
    program: Program,
    best: Candidate,
    mechanism: Float[Arr, "x y"],
    weights: Arr | None = None,
    multipliers: Arr | None = None,
) -> Candidate:
    """`best`, or what is better of a mechanism: itself, and the lower bound by the rules of its own posteriors.

    The mechanism (X, Y) has rows that sum to one and no mass outside of the support; it is mixed with the anchor as far
    as a limit needs it. `weights` (K,) as for `slope_of`, `multipliers` (R,) >= 0 the prices of the budgets (none:
    zeros). Any numbers give a bound that holds; those near the solution's give one that is near the optimum.
    """
    leak = leak_of(program, mechanism)
    scores, own = posterior_scores(program, leak.columns), _weights(program, weights)
    if program.form is Form.WORST:
        own = own / own.sum()
    if multipliers is None:
        multipliers = xp.zeros(program.budgets.shape[0], like=program.cost)
    k, price = program.stacked(scores, own, multipliers)
    best = best.with_dual(k, best.eta, price, dual_bound(program, scores, own, multipliers))
    return with_mechanism(program, best, mechanism)
