"""Rebuild the embedded census table from the original raw files.

    python scripts/build_census.py FOLDER

FOLDER holds `adult.data` and `adult.test`; a file whose SHA256 is not the original's is an error.
The groups of age and education are defined, with their reasons, in `jaxpriv/data/datasets/__init__.py`.
"""

import argparse
from pathlib import Path

from jaxpriv._runtime.files import atomic_write
from jaxpriv.data.datasets import census_csv, census_table, load_adult


def main() -> None:
    parser = argparse.ArgumentParser(description="Rebuild the embedded census table from the original raw files.")
    parser.add_argument("folder", type=Path, help="holds adult.data and adult.test")
    default = Path(__file__).resolve().parent.parent / "jaxpriv" / "_assets" / "census.csv"
    parser.add_argument("--out", type=Path, default=default)
    arguments = parser.parse_args()

    table = census_table(load_adult(arguments.folder))
    atomic_write(arguments.out, census_csv(table))
    print(f"{arguments.out}: {table.sum()} people in {(table > 0).sum()} combinations")


if __name__ == "__main__":
    main()
