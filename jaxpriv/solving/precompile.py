"""Programs compiled ahead of time, for problems of a shape, so that later processes find them on the disk."""

import os

import numpy as np

from jaxpriv.problems import DistortionProblem
from jaxpriv.solving.loops import SWITCH
from jaxpriv.solving.solve import solve


def precompile(private: int, inputs: int, outputs: int) -> None:
    """Compile what `solve` needs for so many symbols of S, X and Y: with a budget, a multiplier and a leakage budget.

    Compiled loops take the place of those on the host meanwhile, through the environment variable of `solving.loops`.
    """
    # Tables without structure, so that nothing is merged; a time limit would choose other programs.
    draw = np.random.default_rng(0)
    joint = draw.dirichlet(np.ones(private * inputs)).reshape(private, inputs)
    costs = draw.uniform(size=(inputs, outputs))
    costs[np.arange(inputs), np.arange(inputs) % outputs] = 0.0
    before = os.environ.get(SWITCH)
    os.environ[SWITCH] = "always"
    try:
        for problem in (
            DistortionProblem(joint, costs, budget=0.1),
            DistortionProblem(joint, costs, multiplier=1.0),
            DistortionProblem(joint, costs, leakage_budget=0.01),
        ):
            solve(problem)
    finally:
        os.environ.pop(SWITCH)
        if before is not None:
            os.environ[SWITCH] = before
