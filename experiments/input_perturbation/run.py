"""Input and output perturbation of the counting query, both designed: Example 1 of Calmon and Fawaz 2012.

    python experiments/input_perturbation/run.py      # writes data/curves.csv beside this file; one to two minutes
    python experiments/input_perturbation/plot.py     # draws it

n = 30 independent binary records, each 1 with probability 0.3; X is their count, S the database, U the released count.
At mean errors E|X - U| the leakage I(S;U) = I(X;U) of

* output perturbation, any mapping of the count: the optimum, with its certified bound, and geometric noise;
* input perturbation, one mapping of every record: the best one, with a bound for all of them, and randomised response,
  which changes both answers with the same probability.
"""

import csv
from pathlib import Path

import jax
import numpy as np
from scipy.optimize import brentq

import jaxpriv as jp
from jaxpriv.data.probability import mutual_information
from jaxpriv.models.databases import counting_query, geometric_count, perturbed_count, record_mapping

DATA = Path(__file__).parent / "data"
RECORDS, PROBABILITY = 30, 0.3
ERRORS = (0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 1.9)
SHARE = 0.01  # of the leakage: the gap at which the search over mappings of records ends

PRIOR = counting_query(RECORDS, PROBABILITY).prior
COST = abs(np.subtract.outer(np.arange(RECORDS + 1.0), np.arange(RECORDS + 1.0)))


def at_error(family, target: float) -> float:
    """I(X;U) of the member of a family of channels, by eps, that has this mean error; NaN where none has it."""

    def excess(log_eps: float) -> float:
        return float(PRIOR @ (family(RECORDS, float(np.exp(log_eps))) * COST).sum(axis=1)) - target

    low, high = np.log(1e-3), np.log(20.0)
    if excess(low) < 0:
        return float("nan")
    return float(mutual_information(PRIOR[:, None] * family(RECORDS, float(np.exp(brentq(excess, low, high))))))


def main() -> None:
    rows = []
    for error in ERRORS:
        output = jp.solve(jp.rate_distortion(PRIOR, COST, budget=error), tol=1e-7)
        geometric, response = at_error(geometric_count, error), at_error(perturbed_count, error)
        records = record_mapping(RECORDS, PROBABILITY, error, tol=SHARE * response)
        lost, gained = records.mapping[1, 0], records.mapping[0, 1]
        numbers = (float(output.value), float(output.lower_bound), geometric)
        rows.append([error, *numbers, records.leakage, records.lower_bound, response, lost, gained])
        print(
            f"E|X - U| = {error:4.2f}: output {output.value:.4f} (geometric {geometric:.4f}), "
            f"input {records.leakage:.4f} >= {records.lower_bound:.4f} "
            f"(randomised response {response:.4f}), 1 -> 0 {lost:.3f}, 0 -> 1 {gained:.3f}"
        )
    DATA.mkdir(exist_ok=True)
    with open(DATA / "curves.csv", "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        names = ["output", "output_lower", "geometric", "input", "input_lower", "response", "lost", "gained"]
        writer.writerow(["error", *names])
        writer.writerows([f"{cell:.9g}" for cell in row] for row in rows)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
