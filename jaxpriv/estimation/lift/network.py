"""The critics: fully connected networks from a row of X (and s) to one value for each s."""

from collections.abc import Callable
from types import ModuleType

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxpriv._compile import own_settings
from jaxpriv._types import Arr
from jaxpriv._validation import whole
from jaxpriv.errors import InputError
from jaxpriv.estimation.lift._base import AbstractScorer

# Rows scored at once: one compiled program whatever the number of rows.
_BLOCK = 4096


_SCALINGS = ("asinh", "standard", "none")


class Critic(eqx.Module):
    """g(., x): one row of X, standardised, to a value for each s."""

    layers: eqx.nn.MLP
    private_size: int = eqx.field(static=True)
    private_input: bool = eqx.field(static=True)

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " s"]:
        if not self.private_input:
            return self.layers(x)
        each = jnp.eye(self.private_size, dtype=x.dtype)
        return jax.vmap(lambda s: self.layers(jnp.concatenate([s, x]))[0])(each)


class Network(eqx.Module):
    """The shape of a critic.

    Attributes:
        width, depth: neurons in a hidden layer, and hidden layers; depth 0 on symbols is a full table g(s, x).
        activation: of the hidden layers.
        private_input: s enters as an indicator beside x and the network has one output (so it runs |S| times);
            otherwise it has one output for each s.
        zero_readout: the readout starts at zero, so the critic starts at independence.
        scaling: of numeric features, by the training rows. "asinh": asinh of the distance from the median in units of
            the interquartile range (over 1.35, which makes it the deviation of a Gaussian). It is one-to-one, so no
            information is lost, nearly linear in the bulk, and brings a value 50 deviations out to 4.6: networks
            resolve neither end of a heavy tail otherwise. "standard": zero mean, unit deviation. "none": as they are.
    """

    width: int = eqx.field(static=True, default=32)
    depth: int = eqx.field(static=True, default=2)
    activation: Callable[[Array], Array] = eqx.field(static=True, default=jax.nn.silu)
    private_input: bool = eqx.field(static=True, default=False)
    zero_readout: bool = eqx.field(static=True, default=True)
    scaling: str = eqx.field(static=True, default="asinh")

    def __check_init__(self) -> None:
        whole(self.width, "width", low=1.0)
        whole(self.depth, "depth", low=0.0)
        if self.scaling not in _SCALINGS:
            raise InputError(f"scaling must be one of {', '.join(_SCALINGS)}")

    def build(self, key: jax.Array, inputs: int, private_size: int) -> Critic:
        """A critic with random weights, float32."""
        layers = eqx.nn.MLP(
            in_size=inputs + (private_size if self.private_input else 0),
            out_size=1 if self.private_input else private_size,
            width_size=self.width,
            depth=self.depth,
            activation=self.activation,
            dtype=jnp.float32,
            key=key,
        )
        if self.zero_readout:
            last = layers.layers[-1]
            assert last.bias is not None
            layers = eqx.tree_at(
                lambda net: (net.layers[-1].weight, net.layers[-1].bias),
                layers,
                (jnp.zeros_like(last.weight), jnp.zeros_like(last.bias)),
            )
        return Critic(layers, private_size, self.private_input)


def scaled(values: Arr, mean: Arr, scale: Arr, numeric: Arr, scaling: str, numpy: ModuleType) -> Arr:
    """(values - mean)/scale, through asinh where the feature is `numeric` if asked; `numpy` works on host or device."""
    z = (values - mean) / scale
    return numpy.where(numeric, numpy.arcsinh(z), z) if scaling == "asinh" else z


class NetworkScorer(AbstractScorer):
    """A trained critic with the standardisation of its training rows; scores in blocks on the device."""

    critic: Critic
    mean: np.ndarray
    scale: np.ndarray
    numeric: np.ndarray
    scaling: str = eqx.field(static=True)

    def __call__(self, useful: np.ndarray) -> np.ndarray:
        blocks = []
        with own_settings():
            for start in range(0, len(useful), _BLOCK):
                rows = useful[start : start + _BLOCK]
                block = np.zeros((_BLOCK, len(self.mean)), np.float32)
                if rows.ndim == 1:  # symbols
                    block[np.arange(len(rows)), rows] = 1.0
                else:
                    # Standardised in float64: a feature with a large offset keeps its digits. What is beyond
                    # float32 becomes infinite here and is refused by the log-lift.
                    with np.errstate(over="ignore", invalid="ignore"):
                        block[: len(rows)] = scaled(rows, self.mean, self.scale, self.numeric, self.scaling, np)
                blocks.append(np.asarray(_values(self.critic, block), np.float64)[: len(rows)])
        return np.concatenate(blocks)


@eqx.filter_jit
def _values(critic: Critic, rows: Arr) -> Array:
    return jax.vmap(critic)(jnp.asarray(rows))
