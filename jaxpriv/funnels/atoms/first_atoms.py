"""Atoms to begin with: descents of whole mechanisms at several prices of disclosure.

The prices of the first linear programs, over single symbols only, are far from those of the optimum, and so are the
atoms that they ask for. The outputs of a mechanism at which  I(S;Y) - lambda I(X;Y)  is stationary belong to one
price vector, and the program over the outputs of such mechanisms at several lambda is already near its end. With
c[x,y] = sum_s T_sx ln( r_y(s)/P_s ), r_y = P(S|y) and w_y = P(y),

    ln W'[x,y] = ( ln W[x,y] - lambda ln w_y - c[x,y] )/(1 - lambda)  less a constant of the row

never raises it (`funnels.local_steps` with steps of the length 1/(1 - lambda)).
"""

import numpy as np

from jaxpriv._runtime.clock import Clock
from jaxpriv.funnels.pricing import Component

# Prices of disclosure; the slope of the curve is somewhere among them.
_PRICES = np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9])
# Steps of every start; entries of all mechanisms of one step, and the most starts at one price.
_STEPS, _ENTRIES, _MOST = 100, 200_000, 4
# Shape of the gamma weights of a start: rows with a few large entries.
_SHAPE = 0.1
# The iteration works on logarithms, from here up.
_DEEP = -300.0
# Outputs of less mass than this are left out.
_EMPTY = 1e-9


def descended_atoms(block: Component, clock: Clock) -> np.ndarray:
    """Posteriors (K, X_a) of the mechanisms reached; fewer steps where the clock ends them."""
    size = len(block.source)
    outputs = min(size + 1, max(2, _ENTRIES // (len(_PRICES) * size)))
    starts = int(np.clip(_ENTRIES // (len(_PRICES) * size * outputs), 1, _MOST))
    lam = np.repeat(_PRICES, starts)[:, None, None]
    weights = np.random.default_rng(0).gamma(_SHAPE, size=(len(lam), size, outputs)) + 1e-9
    logs = np.log(weights / weights.sum(axis=2, keepdims=True))
    prior, source, conditional = block.prior, block.source, block.conditional
    for _ in range(_STEPS):
        joint, masses = _joint(logs, source)
        seen = np.maximum((conditional @ joint) / masses, np.exp(_DEEP))
        logs = (logs - lam * np.log(masses) - conditional.T @ np.log(seen / prior[:, None])) / (1.0 - lam)
        logs -= logs.max(axis=2, keepdims=True)
        logs -= np.log(np.exp(logs).sum(axis=2, keepdims=True))
        np.maximum(logs, _DEEP, out=logs)
        if clock.expired():
            break
    joint, masses = _joint(logs, source)
    return (joint / masses).transpose(0, 2, 1)[masses[:, 0] > _EMPTY]


def _joint(logs: np.ndarray, source: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """P(x, y) (B, X, Y) and P(y) (B, 1, Y), positive."""
    joint = np.exp(logs) * source[:, None]
    return joint, np.maximum(joint.sum(axis=1, keepdims=True), np.exp(_DEEP))
