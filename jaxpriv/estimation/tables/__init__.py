"""From a table of records to a joint distribution, through an explicit and stored discretisation.

    table = count_table("people.csv", private="income", useful=["age", "education"], rules={"age": Quantiles(5)})
    table.dataset.joint                       # (S, X), with counts, labels and attribute codes
    table.codebook.save("codebook.json")      # the classes, without a count
    Codebook.load("codebook.json").encode(new_records)

Records come in as pandas, polars or Arrow frames, as columns by name, or as CSV and Parquet files
(`readers`: the only place that imports a table library). A `Codebook` states to which class each value
belongs (`rules`); nothing else is done to a value, and what no class holds is an error, or the class
that was declared for it. No message shows a value: it names column, row (from 0, without the header)
and rule.
"""

from jaxpriv.estimation.tables.codebook import Codebook, CountedTable, Records, count_table, fit_codebook
from jaxpriv.estimation.tables.csv_files import TableFile
from jaxpriv.estimation.tables.readers import Source
from jaxpriv.estimation.tables.rules import Categories, Edges, Quantiles, Rule, column_distortion

__all__ = [
    "Categories",
    "Codebook",
    "CountedTable",
    "Edges",
    "Quantiles",
    "Records",
    "Rule",
    "Source",
    "TableFile",
    "column_distortion",
    "count_table",
    "fit_codebook",
]
