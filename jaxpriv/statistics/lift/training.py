"""The critics, fully connected networks from a row of X (and s) to one value for each s; their training on the device.

Each of R splits has its own rows, standardisation, seed and best parameters; one vmapped program trains them all. An
epoch is a scan over minibatches of a fresh permutation, followed by the objective on the split's validation rows; the
parameters of the best epoch are kept, and a split whose best epoch is `patience` epochs past stands still while
others go on. Nothing is sent to the host within a step or an epoch: the host looks in every few epochs, so that a
long training can be interrupted.

Float32: the noise of a sample is far above its rounding.
"""

import importlib.util
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Literal, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree

from jaxpriv._runtime.compilation import own_settings
from jaxpriv._runtime.resources import need_memory
from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv._runtime.validation import scalar, whole
from jaxpriv.errors import DivergedError, InputError, ResourceError
from jaxpriv.statistics.lift.log_lift import AbstractScorer
from jaxpriv.statistics.lift.objectives import AbstractObjective
from jaxpriv.statistics.lift.samples import Samples

if TYPE_CHECKING:
    from optax import GradientTransformation

T = TypeVar("T")

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


# Epochs that run on the device before the host checks whether any network still trains.
_EPOCHS_AT_ONCE = 25
# Interquartile range of a standard Gaussian; a feature that varies less than this, in its deviations, is constant.
_GAUSSIAN_RANGE, _CONSTANT = 1.349, 1e-12


class Training(eqx.Module):
    """How a critic is trained.

    Attributes:
        optimiser: "adam" or "adagrad" (whose accumulators start at 0.1).
        learning_rate: of the optimiser.
        weight_decay: decoupled, of weight matrices only.
        batch: rows in a minibatch; None takes all training rows at once. What a permutation leaves over waits for
            the next epoch.
        epochs: at most this many.
        patience: stop when the best validation value is this many epochs past, and keep the parameters it was
            reached with; None never stops and keeps the last.
    """

    optimiser: Literal["adam", "adagrad"] = eqx.field(static=True, default="adam")
    learning_rate: float = 3e-3
    weight_decay: float = 1e-2
    batch: int | None = eqx.field(static=True, default=256)
    epochs: int = eqx.field(static=True, default=200)
    patience: int | None = eqx.field(static=True, default=15)

    def __check_init__(self) -> None:
        if self.optimiser not in ("adam", "adagrad"):
            raise InputError("optimiser must be 'adam' or 'adagrad'")
        scalar(self.learning_rate, "learning_rate", low=0.0, open_low=True)
        scalar(self.weight_decay, "weight_decay", low=0.0)
        whole(self.epochs, "epochs", low=1.0)
        for name in ("batch", "patience"):
            if getattr(self, name) is not None:
                whole(getattr(self, name), name, low=1.0)


class _Rows(eqx.Module):
    """What all splits are trained on."""

    useful: Array  # (n, d) float32, or (n,) int32 symbols
    private: Array  # (n,) int32
    log_prior: Array  # (S,)
    numeric: Array  # (d,) bool


class _Splits(eqx.Module):
    """What each of R splits has of its own."""

    mean: Array  # (R, d)
    scale: Array  # (R, d)
    train: Array  # (R, a)
    validation: Array  # (R, b)


class _TrainingState(eqx.Module):
    weights: PyTree
    optimiser: PyTree
    key: Array
    epoch: Array
    best: PyTree
    value: Array
    best_epoch: Array
    finite: Array


def train(
    objective: AbstractObjective,
    network: Network,
    training: Training,
    keys: jax.Array,
    samples: Samples,
    train_rows: np.ndarray,
    validation_rows: np.ndarray,
    prior: np.ndarray,
) -> tuple[NetworkScorer, ...]:
    """One critic for each key, fitted on rows `train_rows` (R, a) and stopped by `validation_rows` (R, b).

    Raises `DivergedError` naming the splits whose objective or weights did not stay finite; nothing of them is
    returned. Raises `ResourceError` where the memory does not suffice, or Optax is not installed.
    """
    if importlib.util.find_spec("optax") is None:
        raise ResourceError("critics are trained with Optax: pip install 'jaxpriv[estimation]'")
    count, held = validation_rows.shape
    inputs = samples.rows.inputs
    need_memory(
        4.0 * count * held * (inputs + 2 * network.width * (samples.private_size if network.private_input else 1)),
        f"scoring {count} x {held} validation rows at once",
        "ask for fewer splits at a time or a smaller validation share",
    )
    shift, size, mean, scale = _standardisation(samples, train_rows, network.scaling)
    symbols = samples.rows.symbols is not None
    with np.errstate(over="ignore", invalid="ignore"):  # what is beyond float32 diverges, and is reported below
        useful = samples.useful.astype(np.int32) if symbols else ((samples.useful - shift) / size).astype(np.float32)
    # Optax raises a decay rate to an integer step: what strict promotion of the caller's would refuse.
    with own_settings(), jax.numpy_dtype_promotion("standard"):
        rows = _Rows(
            useful=jnp.asarray(useful),
            private=jnp.asarray(samples.private, jnp.int32),
            log_prior=jnp.asarray(np.log(prior), jnp.float32),
            numeric=jnp.asarray(samples.numeric),
        )
        splits = _Splits(
            mean=jnp.asarray(mean, jnp.float32),
            scale=jnp.asarray(scale, jnp.float32),
            train=jnp.asarray(train_rows, jnp.int32),
            validation=jnp.asarray(validation_rows, jnp.int32),
        )
        objective, training = _as_arrays(objective), _as_arrays(training)
        state = _begin(network, training, keys, inputs, samples.private_size)
        until = 0
        while until < training.epochs and bool(jnp.any(_goes_on(training, state, training.epochs))):
            until = min(until + _EPOCHS_AT_ONCE, training.epochs)
            state = _advance(objective, network, training, rows, splits, state, jnp.asarray(until, jnp.int32))
        bad = ", ".join(str(k) for k in np.flatnonzero(~np.asarray(state.finite)))
        if bad:
            raise DivergedError(
                f"training by the {objective.name} did not stay finite in split {bad}; a smaller learning rate, "
                "or features without extreme values, usually cures it"
            )
        best = jax.tree.map(np.asarray, state.best)
    rest, mean, scale = _skeleton(network, inputs, samples.private_size), shift + size * mean, size * scale
    return tuple(
        NetworkScorer(
            eqx.combine(jax.tree.map(lambda leaf, r=r: leaf[r], best), rest),
            mean[r],
            scale[r],
            samples.numeric,
            network.scaling,
        )
        for r in range(count)
    )


def _skeleton(network: Network, inputs: int, private_size: int) -> PyTree:
    """A critic without its weights."""
    built = eqx.filter_eval_shape(network.build, jax.random.key(0), inputs, private_size)
    return eqx.filter(built, lambda leaf: not isinstance(leaf, jax.ShapeDtypeStruct))


def _standardisation(samples: Samples, train_rows: np.ndarray, scaling: str) -> tuple[np.ndarray, ...]:
    """(shift (d,), size (d,), mean (R, d), scale (R, d)): rows are (x - shift)/size, then (. - mean)/scale per split.

    The first step, on all rows, only saves digits in float32 and is undone by the second, which uses training rows
    alone. Indicators, and features that are constant in a split, keep their scale.
    """
    inputs, count = samples.rows.inputs, len(train_rows)
    if samples.rows.symbols is not None or scaling == "none":
        return np.zeros(inputs), np.ones(inputs), np.zeros((count, inputs)), np.ones((count, inputs))
    with np.errstate(over="ignore", invalid="ignore"):
        shift, size = samples.useful.mean(axis=0), samples.useful.std(axis=0)
    shift = np.where(samples.numeric & np.isfinite(shift), shift, 0.0)
    size = np.where(samples.numeric & np.isfinite(size) & (size > 0), size, 1.0)
    near = (samples.useful - shift) / size
    mean = np.stack([near[rows].mean(axis=0) for rows in train_rows])
    scale = np.stack([near[rows].std(axis=0) for rows in train_rows])
    if scaling == "asinh":
        low, mean, high = np.stack([np.quantile(near[rows], (0.25, 0.5, 0.75), axis=0) for rows in train_rows], axis=1)
        scale = np.where(
            high - low > _CONSTANT, (high - low) / _GAUSSIAN_RANGE, scale
        )  # counts that are mostly one value
    mean = np.where(samples.numeric, mean, 0.0)
    return shift, size, mean, np.where(samples.numeric & (scale > _CONSTANT), scale, 1.0)


def _as_arrays(tree: T) -> T:
    """Real hyper-parameters as arrays: a changed learning rate is no new program."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32) if isinstance(leaf, float) else leaf, tree)


def _optimiser(training: Training) -> "GradientTransformation":
    import optax  # an extra

    return optax.scale_by_adam() if training.optimiser == "adam" else optax.scale_by_rss(0.1)


@eqx.filter_jit
def _begin(network: Network, training: Training, keys: jax.Array, inputs: int, private_size: int) -> _TrainingState:
    def begin_split(key: Array) -> _TrainingState:
        build, shuffle = jax.random.split(key)
        weights = eqx.filter(network.build(build, inputs, private_size), eqx.is_inexact_array)
        return _TrainingState(
            weights=weights,
            optimiser=_optimiser(training).init(weights),
            key=shuffle,
            epoch=jnp.zeros((), jnp.int32),
            best=weights,
            value=jnp.array(-jnp.inf, jnp.float32),
            best_epoch=jnp.zeros((), jnp.int32),
            finite=jnp.array(True),
        )

    return jax.vmap(begin_split)(keys)


def _goes_on(training: Training, state: _TrainingState, until: ScalarLike) -> Array:
    on = state.finite & (state.epoch < until)
    if training.patience is not None:
        on &= state.epoch - state.best_epoch < training.patience
    return on


@eqx.filter_jit
def _advance(
    objective: AbstractObjective,
    network: Network,
    training: Training,
    rows: _Rows,
    splits: _Splits,
    state: _TrainingState,
    until: ScalarLike,
) -> _TrainingState:
    """Every split up to epoch `until`, or to its end."""

    def advance_split(split: _Splits, state: _TrainingState) -> _TrainingState:
        return lax.while_loop(
            lambda now: _goes_on(training, now, until),
            lambda now: _epoch(objective, network, training, rows, split, now),
            state,
        )

    return jax.vmap(advance_split)(splits, state)


def _epoch(
    objective: AbstractObjective,
    network: Network,
    training: Training,
    rows: _Rows,
    split: _Splits,
    state: _TrainingState,
) -> _TrainingState:
    static = _skeleton(network, split.scale.shape[0], rows.log_prior.shape[0])

    def value(weights: PyTree, index: Array, function: Callable[..., Arr]) -> Arr:
        critic = jax.vmap(eqx.combine(weights, static))
        if rows.useful.ndim == 1:
            inputs = jax.nn.one_hot(rows.useful[index], split.scale.shape[0], dtype=jnp.float32)
        else:
            inputs = scaled(
                rows.useful[index], split.mean[None], split.scale[None], rows.numeric[None], network.scaling, jnp
            )
        scores = objective.scores(critic(inputs), rows.log_prior)
        even = jnp.full(index.shape, 1.0 / index.shape[0], jnp.float32)
        return function(scores, rows.private[index], rows.log_prior, even)

    def step(carry: tuple[PyTree, PyTree, PyTree], index: Array) -> tuple[tuple[PyTree, PyTree, PyTree], None]:
        weights, optimiser, finite = carry
        loss, slope = jax.value_and_grad(lambda w: -value(w, index, objective.value))(weights)
        update, optimiser = _optimiser(training).update(slope, optimiser, weights)
        weights = jax.tree.map(
            lambda w, u: w - training.learning_rate * (u + (training.weight_decay * w if w.ndim > 1 else 0.0)),
            weights,
            update,
        )
        return (weights, optimiser, finite & jnp.isfinite(loss)), None

    size = split.train.shape[0]
    batch = size if training.batch is None else min(training.batch, size)
    key, shuffle = jax.random.split(state.key)
    order = split.train if batch == size else split.train[jax.random.permutation(shuffle, size)]
    batches = order[: size // batch * batch].reshape(-1, batch)
    (weights, optimiser, finite), _ = lax.scan(step, (state.weights, state.optimiser, state.finite), batches)

    now = value(weights, split.validation, objective.selection)
    epoch = state.epoch + 1
    finite &= jnp.isfinite(now)
    better = finite & ((now > state.value) | (training.patience is None))
    return _TrainingState(
        weights=weights,
        optimiser=optimiser,
        key=key,
        epoch=epoch,
        best=jax.tree.map(lambda new, old: jnp.where(better, new, old), weights, state.best),
        value=jnp.where(better, now, state.value),
        best_epoch=jnp.where(better, epoch, state.best_epoch),
        finite=finite,
    )
