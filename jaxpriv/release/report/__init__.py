"""Pages and comparisons for people who decide about a release: what it reveals, and what it costs.

page = report(mechanism, evidence)                                            # HTML
lost = compare("people.csv", "released.csv", mechanism=mechanism, order=order)
which = compare_designs({"small": (mechanism, evidence), "large": (other_mechanism, other_evidence)})
"""

from typing import TYPE_CHECKING

from jaxpriv._runtime.importing import attach

if TYPE_CHECKING:  # what `attach` reads, and type checkers and editors
    from jaxpriv.release.report.comparison import (
        ColumnChange as ColumnChange,
        Comparison as Comparison,
        PairChange as PairChange,
        Prediction as Prediction,
        compare as compare,
    )
    from jaxpriv.release.report.designs import (
        ComparedDesign as ComparedDesign,
        DesignComparison as DesignComparison,
        compare_designs as compare_designs,
    )
    from jaxpriv.release.report.page import report as report
else:
    __getattr__, __dir__, __all__ = attach(__name__)
