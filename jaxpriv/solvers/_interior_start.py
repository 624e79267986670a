"""Where the interior-point method starts: a strictly interior point near the central path."""

import dataclasses
from typing import Any

import numpy as np

from jaxpriv import _arrays as xp
from jaxpriv.problems.program import Form, Program
from jaxpriv.solvers._base import Candidate
from jaxpriv.solvers._central_path import row_prices
from jaxpriv.solvers._interior_system import Data, Point, reduced_costs
from jaxpriv.solvers._parts import in_precision, leak_of, output_columns, posterior_scores
from jaxpriv.solvers.mirror_descent import MirrorDescent, MirrorState, mirror_step, next_weights


def warm_start(program: Program, best: Candidate, steps: Any) -> MirrorState:
    """Unit mirror steps from the uniform mechanism, without their certificates.

    In float32, in half the time: they are far from their limit after so few steps, and what they lack in
    digits the first Newton step brings. What leaves its range there is not used.
    """
    start = MirrorDescent().init(program, 0, best)
    coarse = in_precision(program, np.float32)

    def step(_: Any, carry: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
        log_mechanism, mechanism, weights, multipliers = carry
        columns = output_columns(coarse, mechanism)
        scores = posterior_scores(coarse, columns)
        if coarse.form is Form.WORST:
            weights = next_weights(coarse, weights, (columns * scores).sum(axis=(1, 2)))
        moved = mirror_step(coarse, log_mechanism, scores, weights, multipliers, 1.0, 1)
        log_mechanism, mechanism, multipliers = moved
        return log_mechanism, mechanism, weights, multipliers

    first = in_precision(
        (start.log_mechanism, xp.exp(start.log_mechanism), start.weights, start.multipliers), np.float32
    )
    last = in_precision(xp.fori_loop(0, steps, step, first), program.joints.dtype)
    log_mechanism, mechanism, weights, multipliers = last
    sound = xp.isfinite(mechanism.sum() + weights.sum() + multipliers.sum())
    return dataclasses.replace(
        start,
        log_mechanism=xp.where(sound, log_mechanism, start.log_mechanism),
        weights=xp.where(sound, weights, start.weights),
        multipliers=xp.where(sound, multipliers, start.multipliers),
    )


def centred_point(program: Program, data: Data, warm: MirrorState, blend: Any, target: Any) -> Point:
    """A strictly interior point near the warm start, on the central path of a mu read off its gap."""
    outputs = data.cost.shape[0]
    weights = warm.weights
    spread = program.support.astype(data.joint.dtype)
    uniform = spread / spread.sum(axis=1, keepdims=True)
    mechanism = (1.0 - blend) * xp.exp(warm.log_mechanism) + blend * uniform
    leak = leak_of(program, mechanism)
    scores = posterior_scores(program, leak.columns)
    if data.form is Form.LIMIT:  # priced on the central path below, once mu is known
        scores, weights = xp.zeros_like(scores), xp.zeros_like(weights)
    g = xp.moveaxis(scores, 0, 1).reshape(outputs, -1)
    lam = xp.maximum(warm.multipliers, 1e-3)
    x = mechanism.T
    no_price = xp.zeros_like(data.mass[0])
    costs = reduced_costs(data, g, no_price, lam, weights)
    inside = xp.where(data.support, costs, xp.inf)
    gap = (xp.where(data.support, x * costs, 0.0)).sum() - inside.min(axis=0).sum()
    mu = target * xp.maximum(gap, 1e-9) / outputs
    nu = row_prices(data.support, data.h, costs, mu)
    z = xp.where(data.support, costs - nu, 1.0)
    x = xp.where(data.support, xp.sqrt(x * (mu * data.h / z)), 0.0)
    x = x / x.sum(axis=0)
    slack = xp.maximum(data.budgets - (data.c * x).sum(axis=(1, 2)), mu / lam)
    if program.equal is not None:
        slack = xp.where(program.equal, 0.0, slack)
    peak = xp.zeros((), like=x)
    if data.form is Form.OBJECTIVE:
        return Point(x, z, g, nu, lam, slack, peak)
    if data.form is Form.LIMIT:
        room = xp.broadcast_to(data.limit, weights.shape)
        weights = mu / room
    else:
        peak = leak.values.max() + mu * data.groups
        room = xp.maximum(peak - leak.values, mu / weights)
    price, slack = xp.concatenate([lam, weights]), xp.concatenate([slack, room])
    return Point(x, z, g, nu, price, slack, peak)
