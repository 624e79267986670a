"""Which files of the library one solve runs, and how often it goes from one to another.

python -m tests.guard.one_solve    # in a process without the checks of the suite
"""

import json
import sys
from pathlib import Path
from types import FrameType

import numpy as np

import jaxpriv as jp
from tests.cases import drawn_joint

LIBRARY = Path(jp.__file__).resolve().parent


def joint_and_costs(size: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """A random joint and Hamming costs."""
    joint = drawn_joint(0, size, size)
    return joint, 1.0 - np.eye(size)


def crossed(measure: jp.leakage.AbstractLeakage) -> tuple[set[str], int]:
    """(files, switches between files) of the second solve of the least leakage at 8 x 8 x 8.

    A switch is a call or a return that goes on in another file of the library than the one before.
    """
    joint, costs = joint_and_costs()
    budget = (1.0 - joint.sum(axis=0).max()) / 3.0
    problem = jp.DistortionProblem(joint, costs, budget=budget, leakage=measure)
    jp.solve(problem)
    files: set[str] = set()
    last, switches = "", 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal last, switches
        at = frame if event == "call" else frame.f_back
        path = Path(at.f_code.co_filename) if event in ("call", "return") and at is not None else None
        if path is None or not path.is_relative_to(LIBRARY):
            return
        name = path.relative_to(LIBRARY).as_posix()
        files.add(name)
        if name != last:
            last, switches = name, switches + 1

    sys.setprofile(note)
    try:
        jp.solve(problem)
    finally:
        sys.setprofile(None)
    return files, switches


if __name__ == "__main__":
    measures = (jp.leakage.MutualInformation(), jp.leakage.MaxLift(), jp.leakage.MaximalLeakage())
    print(json.dumps({type(one).__name__: [sorted(files), n] for one in measures for files, n in [crossed(one)]}))
