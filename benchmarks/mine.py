"""MINE (Belghazi et al. 2018), written from its paper: the comparator of `benchmarks.estimation`.

A network T(s, x) maximises mean T over pairs minus ln mean e^T over pairs whose s was shuffled within the minibatch.
The gradient of the logarithm, mean e^T T' / mean e^T, is biased in a minibatch; as in the paper its denominator is an
exponential moving average over the steps. S enters as an indicator beside the standardised X.

The paper leaves free (or varies) the width, the steps and the averaging rate: two hidden layers of 64 ELU units, Adam
at 1e-3, minibatches of 256 and a rate of 0.01 are used here.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

WIDTH, DEPTH, RATE, BATCH, AVERAGING = 64, 2, 1e-3, 256, 0.01
# Steps over whose minibatch values the "training value" is averaged.
_LAST = 200


class Mine(NamedTuple):
    """One number for each training: the mean minibatch value of the last steps, as the paper reports, and the value on
    test rows of the parameters that were best on validation rows, which the paper does not ask for."""

    training: np.ndarray
    stopped: np.ndarray


def mine(
    key: jax.Array,
    s: np.ndarray,
    x: np.ndarray,
    symbols: int,
    rows: tuple[np.ndarray, ...],
    steps: int,
    looks: int = 40,
) -> Mine:
    """D trainings: `rows` are (train, validation, test) index arrays `(D, .)` into s `(n,)` and x `(n, d)`."""
    train, held, test = (jnp.asarray(part) for part in rows)
    indicator = jnp.eye(symbols, dtype=jnp.float32)
    codes, features = jnp.asarray(s), jnp.asarray(x, jnp.float32)
    optimiser = optax.adam(RATE)

    def one(key: Any, own: Any, held: Any, test: Any) -> Any:
        build, shuffle, score = jax.random.split(key, 3)
        shape = (symbols + x.shape[1], 1, WIDTH, DEPTH)
        network = eqx.nn.MLP(*shape, activation=jax.nn.elu, dtype=jnp.float32, key=build)
        weights, static = eqx.partition(network, eqx.is_inexact_array)
        mean, scale = features[own].mean(axis=0), features[own].std(axis=0)
        scale = jnp.where(scale > 1e-6, scale, 1.0)

        def critic(weights: Any, s: Any, x: Any) -> Any:
            inputs = jnp.concatenate([indicator[s], (x - mean) / scale], axis=1)
            return jax.vmap(eqx.combine(weights, static))(inputs)[:, 0]

        def parts(weights: Any, index: Any, key: Any) -> tuple[Any, Any]:
            s, x = codes[index], features[index]
            return critic(weights, s, x).mean(), jnp.exp(critic(weights, jax.random.permutation(key, s), x)).mean()

        def value(weights: Any, index: Any, key: Any) -> Any:
            joint, product = parts(weights, index, key)
            return joint - jnp.log(product)

        def step(carry: Any, key: Any) -> Any:
            weights, state, average = carry
            pick, mix = jax.random.split(key)
            index = own[jax.random.randint(pick, (BATCH,), 0, own.shape[0])]

            def loss(weights: Any) -> Any:
                joint, product = parts(weights, index, mix)
                moving = jnp.where(average > 0, (1 - AVERAGING) * average + AVERAGING * product, product)
                moving = lax.stop_gradient(moving)
                return product / moving - joint, (moving, joint - jnp.log(product))

            slope, (average, now) = jax.grad(loss, has_aux=True)(weights)
            update, state = optimiser.update(slope, state, weights)
            return (optax.apply_updates(weights, update), state, average), now

        def stretch(carry: Any, key: Any) -> Any:
            inner, best, most = carry
            inner, values = lax.scan(step, inner, jax.random.split(key, steps // looks))
            now = value(inner[0], held, score)
            better = now > most
            best = jax.tree.map(lambda new, old: jnp.where(better, new, old), inner[0], best)
            return (inner, best, jnp.maximum(now, most)), values

        start = ((weights, optimiser.init(weights), jnp.zeros(())), weights, jnp.array(-jnp.inf))
        (_, best, _), values = lax.scan(stretch, start, jax.random.split(shuffle, looks))
        return values.ravel()[-_LAST:].mean(), value(best, test, score)

    keys = jax.random.split(key, len(train))
    return Mine(*(np.asarray(part, np.float64) for part in jax.jit(jax.vmap(one))(keys, train, held, test)))
