"""What common ways of releasing the census leak beyond the certified optimum.

    python experiments/other_releases/run.py      # writes data/excess.csv beside this file; about a minute

S = income, X = (age, gender, education): 48 842 records, expanded from the count table. Releases:

    randomised response   every column is kept with probability 0.7, otherwise drawn uniformly from its classes
    merging               age in three classes, education in two, gender as it is
    resampling            education is drawn anew from the records of the same age and gender, like synthetic data

Each is compared with the optimum at the same disclosure I(X;Y), and where the classes are the same at the same mean
number of changed columns too.
"""

import csv
from pathlib import Path

import numpy as np

from jaxpriv import datasets
from jaxpriv.statistics.audit import excess

DATA = Path(__file__).parent / "data"
KEEP = 0.7


def main() -> None:
    data = datasets.census()
    income = data.private_attributes[:, data.private_names.index("income")]
    counts = np.zeros((2, data.counts.shape[1]), dtype=np.int64)
    np.add.at(counts, income, data.counts)
    s, x = (np.repeat(part.ravel(), counts.ravel()) for part in np.indices(counts.shape))
    columns = data.useful_attributes[x]
    sizes = [len(labels) for labels in data.useful_values]
    age, education = (data.useful_names.index(name) for name in ("age", "education"))
    rng = np.random.default_rng(1)
    noisy = np.where(rng.random(columns.shape) < KEEP, columns, rng.integers(0, sizes, columns.shape))
    merged = columns.copy()
    merged[:, age] = columns[:, age] * 3 // sizes[age]
    merged[:, education] = columns[:, education] * 2 // sizes[education]
    resampled = columns.copy()
    others = [place for place in range(columns.shape[1]) if place != education]
    _, group = np.unique(columns[:, others], axis=0, return_inverse=True)
    for one in range(int(group.max()) + 1):
        rows = np.flatnonzero(group.ravel() == one)
        resampled[rows, education] = rng.choice(columns[rows, education], len(rows))
    DATA.mkdir(exist_ok=True)
    with open(DATA / "excess.csv", "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(
            [
                "release",
                "at",
                "leakage",
                "optimum",
                "lower_bound",
                "status",
                "least",
                "most",
                "distortion",
                "disclosure",
            ]
        )
        for name, released, same in (
            ("randomised response", noisy, True),
            ("merging", merged, False),
            ("resampling", resampled, True),
        ):
            symbols, y = np.unique(
                np.vstack([released, *([data.useful_attributes] if same else [])]), axis=0, return_inverse=True
            )
            table = np.zeros((*counts.shape, len(symbols)), dtype=np.int64)
            np.add.at(table, (s, x, y.ravel()[: len(s)]), 1)
            prices = (data.useful_attributes[:, None] != symbols[None]).sum(axis=2).astype(float) if same else None
            for at in ("distortion", "disclosure") if same else ("disclosure",):
                found = excess(table, distortion=prices, at=at)
                row = [found.leakage, found.optimum, found.lower_bound, found.status, found.least, found.most]
                row += ["" if found.distortion is None else found.distortion, found.disclosure]
                writer.writerow([name, at, *[f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row]])
                stream.flush()


if __name__ == "__main__":
    main()
