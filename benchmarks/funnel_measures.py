"""The funnel of seventeen measures: how far the bounds are from the values, and processor time beside that of I(S;Y).

    python -m benchmarks.funnel_measures [--seeds 5] [--only WORD]

Tables `default_rng(k).dirichlet(ones(S*X)).reshape(S, X)`, k = 0, 1, ..., of 3 x 12 and 4 x 20, at R = .8 and .95 H(X),
default tolerance (1e-6). A row has the mean value and the mean bound, the largest gap relative to the value, the
certified ones, and the mean and the largest ratio of the processor time to that of the funnel of I(S;Y) of the same
table in the same process. To reach: a gap of at most 1e-3, within 10 (3 x 12) and 30 (4 x 20) times.
"""

import argparse
import time

import numpy as np

import jaxpriv as jp
from jaxpriv import leakage
from jaxpriv.errors import InputError

SIZES, SHARES = ((3, 12), (4, 20)), (0.8, 0.95)
MEASURES = {
    "mutual information": leakage.MutualInformation(),
    "Sibson 2": leakage.Sibson(2.0),
    "Sibson .5": leakage.Sibson(0.5),
    "Arimoto 2": leakage.Arimoto(2.0),
    "chi-squared": leakage.FInformation(leakage.ChiSquared()),
    "Hellinger": leakage.FInformation(leakage.SquaredHellinger()),
    "Jensen-Shannon": leakage.FInformation(leakage.JensenShannon()),
    "reverse Kullback-Leibler": leakage.FInformation(leakage.ReverseKullbackLeibler()),
    "total variation": leakage.FInformation(leakage.TotalVariation()),
    "correct guess": leakage.CorrectGuess(),
    "Brier": leakage.AverageCostGain(leakage.BrierLoss()),
    "maximal leakage": leakage.MaximalLeakage(),
    "max-information": leakage.MaxInformation(),
    "relative entropy": leakage.RelativeEntropyPrivacy(),
    "lift": leakage.Lift(),
    "max-lift": leakage.MaxLift(),
    "LDP": leakage.LocalDifferentialPrivacy(),
}


def solved(joint: np.ndarray, share: float, measure: leakage.AbstractLeakage) -> tuple[float, float, float]:
    """(value, bound, processor seconds)."""
    source = joint.sum(axis=0)
    begun = time.process_time()
    problem = jp.FunnelProblem(joint, disclosure=-share * float(source @ np.log(source)), leakage=measure)
    found = jp.solve(problem)
    return float(found.value), float(found.lower_bound), time.process_time() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="", help="measures whose name contains this")
    given = parser.parse_args()
    for private, useful in SIZES:
        shape = private, useful
        joints = [
            np.random.default_rng(k).dirichlet(np.ones(private * useful)).reshape(shape) for k in range(given.seeds)
        ]
        solved(joints[0], SHARES[-1], MEASURES["mutual information"])  # what is compiled and imported once
        for share in SHARES:
            plain = np.array([solved(joint, share, MEASURES["mutual information"]) for joint in joints])
            for name, measure in MEASURES.items():
                if given.only not in name:
                    continue
                try:
                    rows = np.array([solved(joint, share, measure) for joint in joints])
                except InputError as error:
                    print(f"| {private} x {useful} | {share} | {name} | refused: {error} |", flush=True)
                    continue
                value, bound, seconds = rows.T
                gap, times = (value - bound) / value, seconds / plain[:, 2]
                print(
                    f"| {private} x {useful} | {share} | {name} | {value.mean():.6f} | {bound.mean():.6f} | "
                    f"{gap.max():.1e} | "
                    f"{(value - bound <= 1e-6).sum()} of {len(rows)} | {times.mean():.1f}, {times.max():.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
