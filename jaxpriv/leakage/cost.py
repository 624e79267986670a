"""Cost gains: what an adversary who pays C(s, q) for announcing q saves by seeing the output.

With no output the adversary pays c0 = min_q sum_s p_s C(s, q), and after output y
c_y = min_q sum_s P(s|y) C(s, q). The average gain is c0 - sum_y P(y) c_y, the maximum gain
c0 - min_y c_y (Calmon and Fawaz 2012, eq. 1-4). A cost is known by its least expected value
`least(w) = min_q sum_s w_s C(s, q)`, concave and homogeneous of degree 1 in w.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxpriv._numerics import positive, xlogx
from jaxpriv._types import Arr, Column, PrivateMarginal, Scalar
from jaxpriv._validation import finite, real_array
from jaxpriv.leakage._base import AbstractMeanLeakage, AbstractWorstOutcomeLeakage, Unit, posterior_of, same_symbols


class AbstractCost(eqx.Module):
    """A cost C(s, q) for announcing q when the secret is s."""

    @property
    @abstractmethod
    def unit(self) -> Unit:
        """What the cost is measured in."""

    @abstractmethod
    def least(self, w: Column) -> Scalar:
        """min_q sum_s w_s C(s, q) for w >= 0; 0 for w = 0."""


class LogLoss(AbstractCost):
    """C(s, q) = -ln q(s): the least cost is |w| times the entropy of w/|w|.

    The average gain is mutual information, the maximum gain `MaxInformation`.
    """

    @property
    def unit(self) -> Unit:
        return "nats"

    def least(self, w: Column) -> Scalar:
        return -jnp.sum(w) * jnp.sum(xlogx(posterior_of(w)))


class ZeroOneLoss(AbstractCost):
    """C(s, a) = 1 if a != s, else 0: |w| - max_s w_s; the gain is in probability of a correct guess."""

    @property
    def unit(self) -> Unit:
        return "probability"

    def least(self, w: Column) -> Scalar:
        return jnp.sum(w) - jnp.max(w)


class BrierLoss(AbstractCost):
    """C(s, q) = sum_r (q(r) - 1[r = s])^2, in [0, 2]: |w| (1 - sum_s (w_s/|w|)^2)."""

    @property
    def unit(self) -> Unit:
        return "dimensionless"

    def least(self, w: Column) -> Scalar:
        return jnp.sum(w) * (1.0 - jnp.sum(jnp.square(posterior_of(w))))


def _losses(value: Any) -> Any:
    return finite(real_array(value, "losses", ndim=2), "losses")


class LossMatrix(AbstractCost):
    """Finitely many actions: C(s, a) = losses[s, a], any finite numbers; min_a sum_s w_s losses[s, a].

    The average gain is additive g-leakage for the gains -losses. Tied actions share the gradient.
    Raises `InputError` for a NaN or infinite loss, and for losses of another number of symbols than
    the joint's.
    """

    losses: Any = eqx.field(converter=_losses)

    @property
    def unit(self) -> Unit:
        return "cost"

    def least(self, w: Column) -> Scalar:
        same_symbols("losses", self.losses.shape[0], w)
        return jnp.min(jnp.matmul(w, jnp.asarray(self.losses).astype(w.dtype), precision="highest"))


class CustomLoss(AbstractCost):
    """A user's cost: `loss(q)` is the vector C(., q), of shape (s,), for an announced distribution q.

    `loss` is a JAX function on the simplex, convex and twice differentiable in q for every s. It
    may be infinite where q(s) = 0. For a loss with kinks list its actions in a `LossMatrix`.

    If the loss is a proper scoring rule pass `proper=True`: announcing the posterior is optimal
    and nothing is minimised. Otherwise the minimum is found by a fixed number (`steps`) of
    interior-point steps (Newton's method on sum_s w_s C(s, q) - mu sum_s ln q(s), mu shrinking with
    the gap), deterministic and the same under `jit` and `vmap`. The Frank-Wolfe gap
    `g.q - min_s g(s)`, g the gradient at the point found, bounds the error whatever the steps did:
    `accuracy(w)` returns it. In float64, for up to 50 symbols and masses down to 1e-20, the bound
    was below 1e-9 of the cost and the error below 1e-12. One step takes a Hessian of `loss`.

    The gradient is the envelope theorem's, C(., q*) at the minimiser; a symbol with w_s = 0 has
    gradient 0. Second derivatives are not available.

    As an objective or a limit the loss is refused (`InputError`, naming the symbol s) where it or its slope is not
    finite inside the simplex, has another shape than (s,), is not above its tangents at some dozens of
    announcements, or is declared proper and is not. Any announcement q is then a proof, min_q' sum_s w_s C(s, q')
    <= sum_s w_s C(s, q) for every w (Calmon and Fawaz 2012, eq. 1-4); convexity is assumed for `accuracy` alone.
    """

    loss: Callable[[Array], Array]
    proper: bool = eqx.field(static=True, default=False)
    steps: int = eqx.field(static=True, default=80)

    @property
    def unit(self) -> Unit:
        return "cost"

    def least(self, w: Column) -> Scalar:
        costs = self.loss(jax.lax.stop_gradient(jnp.asarray(self.announcement(w))))
        return jnp.sum(w * jnp.where(positive(w), costs, 0.0))

    def announcement(self, w: Column) -> Column:
        """The minimiser q* in the simplex: what the adversary announces."""
        posterior = posterior_of(w)
        return posterior if self.proper else self._minimise(posterior)

    def accuracy(self, w: Column) -> Scalar:
        """An upper bound on the error of `least(w)`, from convexity alone (0 if `proper`)."""
        if self.proper:
            return jnp.zeros_like(jnp.sum(w))
        announced = self.announcement(w)
        return jnp.sum(w) * _gap(jax.grad(self._expected(posterior_of(w)))(announced), announced)

    def _expected(self, posterior: Column) -> Callable[[Array], Array]:
        weights = jax.lax.stop_gradient(posterior)
        return lambda q: jnp.sum(jnp.where(positive(weights), weights * self.loss(q), 0.0))

    def _minimise(self, posterior: Column) -> Column:
        objective = self._expected(posterior)
        gradient, hessian = jax.grad(objective), jax.hessian(objective)
        size = posterior.size
        # Half the posterior keeps a proper loss near its solution, half uniform keeps q interior.
        start = jax.lax.stop_gradient(0.5 * posterior + 0.5 / size)
        start = start / jnp.sum(start)
        shortening = jnp.asarray(0.5, posterior.dtype) ** jnp.arange(12, dtype=posterior.dtype)

        def step(_: Any, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            q, nearest, least = state
            slope = gradient(q)
            gap = _gap(slope, q)
            nearest, least = jnp.where(gap < least, q, nearest), jnp.minimum(gap, least)
            scale = jnp.max(jnp.abs(slope)) * jnp.finfo(q.dtype).eps
            # At the centre of weight mu the gap is just below size * mu: aim at a tenth of it.
            mu = jnp.maximum(0.1 * gap / size, scale + jnp.finfo(q.dtype).tiny)
            # In the variable z = (move of q)/q the Hessian of the barrier is mu I: well conditioned.
            matrix = q[:, None] * hessian(q) * q[None, :] + mu * jnp.eye(size, dtype=q.dtype)
            factor = jax.scipy.linalg.cho_factor(matrix)
            newton = jax.scipy.linalg.cho_solve(factor, q * slope - mu)
            level = jax.scipy.linalg.cho_solve(factor, q)
            z = level * (jnp.sum(q * newton) / jnp.sum(q * level)) - newton
            longest = jnp.minimum(1.0, 0.95 / jnp.maximum(jnp.max(-z), 0.95))
            lengths = longest * shortening

            def point(length: Array) -> Array:
                moved = q * (1.0 + length * z)
                return moved / jnp.sum(moved)

            def merit(candidate: Array) -> Array:
                return objective(candidate) - mu * jnp.sum(jnp.log(candidate))

            candidates = jax.vmap(point)(lengths)
            merits = jax.vmap(merit)(candidates)
            best = jnp.argmin(jnp.where(jnp.isnan(merits), jnp.inf, merits))
            # Close to the minimum the merits differ by rounding only, the gap (of first order) still by much: such
            # a step is taken, and the point of the smallest gap kept.
            before = merit(q)
            rounding = 4 * size * jnp.finfo(q.dtype).eps * jnp.abs(before)
            usable = jnp.all(jnp.isfinite(candidates[best])) & (merits[best] <= before + rounding)
            return jnp.where(usable, candidates[best], q), nearest, least

        last, nearest, least = jax.lax.fori_loop(
            0, self.steps, step, (start, start, jnp.full((), jnp.inf, start.dtype))
        )
        return jnp.where(_gap(gradient(last), last) < least, last, nearest)


def _gap(slope: Array, q: Arr) -> Array:
    """The Frank-Wolfe gap of a convex function with gradient `slope` at q in the simplex."""
    return jnp.sum(slope * q) - jnp.min(slope)


def _gain(cost: AbstractCost, w: Column, prior: PrivateMarginal) -> Scalar:
    return cost.least(prior) - cost.least(posterior_of(w))


class AverageCostGain(AbstractMeanLeakage):
    """The average cost gain, c0 - sum_y P(y) min_q sum_s P(s|y) C(s, q), in units of the cost.

    Column |w| c0 - min_q sum_s w_s C(s, q), convex. For |C| <= L at most sqrt(2) L sqrt(I(S;Y)).

    Calmon and Fawaz 2012, eq. (3).
    """

    cost: AbstractCost

    @property
    def unit(self) -> Unit:
        return self.cost.unit

    def outcome(self, w: Column, prior: PrivateMarginal) -> Scalar:
        """c0 - c_y."""
        return _gain(self.cost, w, prior)


class MaxCostGain(AbstractWorstOutcomeLeakage):
    """The maximum cost gain, c0 - min_y min_q sum_s P(s|y) C(s, q), in units of the cost.

    For |C| <= L at most sqrt(2) L sqrt(max_y D(P_{S|Y=y} || P_S)).

    Calmon and Fawaz 2012, eq. (4).
    """

    cost: AbstractCost

    @property
    def unit(self) -> Unit:
        return self.cost.unit

    def outcome(self, w: Column, prior: PrivateMarginal) -> Scalar:
        """c0 - c_y."""
        return _gain(self.cost, w, prior)
