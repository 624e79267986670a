"""Pages and comparisons for people who decide about a release: what it reveals, and what it costs.

page = report(mechanism, evidence)                                            # HTML
lost = compare("people.csv", "released.csv", mechanism=mechanism, order=order)
"""

from typing import TYPE_CHECKING

from jaxpriv._importing import attach

if TYPE_CHECKING:  # the names below, for type checkers and editors
    from jaxpriv.report.comparison import ColumnChange as ColumnChange
    from jaxpriv.report.comparison import Comparison as Comparison
    from jaxpriv.report.comparison import PairChange as PairChange
    from jaxpriv.report.comparison import Prediction as Prediction
    from jaxpriv.report.comparison import compare as compare
    from jaxpriv.report.page import report as report
else:
    __getattr__, __dir__, __all__ = attach(
        __name__,
        {
            "jaxpriv.report.comparison": ["ColumnChange", "Comparison", "PairChange", "Prediction", "compare"],
            "jaxpriv.report.page": ["report"],
        },
    )
