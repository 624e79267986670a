"""The data of the papers' experiments: the census table, embedded; raw files, fetched or local and checked.

    census()                                  # the joint of Makhdoumi et al., 14 x 55, from 48842 people
    load_adult(fetch_census())                # the records behind it
    load_compas(fetch_compas())               # the 5278 records of Hsu et al.

Raw files are checked against the SHA256 of the originals: most copies in circulation are altered.
"""

from jaxpriv.datasets._census import (
    ADULT_COLUMNS,
    ATTRIBUTION,
    census,
    census_csv,
    census_from_raw,
    census_small,
    census_table,
    fetch_census,
    load_adult,
)
from jaxpriv.datasets._compas import COMPAS_PRIVATE, COMPAS_USEFUL, compas_arrays, fetch_compas, load_compas
from jaxpriv.datasets._layout import Dataset

__all__ = [
    "ADULT_COLUMNS",
    "ATTRIBUTION",
    "COMPAS_PRIVATE",
    "COMPAS_USEFUL",
    "Dataset",
    "census",
    "census_csv",
    "census_from_raw",
    "census_small",
    "census_table",
    "compas_arrays",
    "fetch_census",
    "fetch_compas",
    "load_adult",
    "load_compas",
]
