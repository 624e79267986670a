"""Pages and comparisons for people who decide about a release: what it reveals, and what it costs.

page = report(mechanism, evidence)        # HTML
"""

from typing import TYPE_CHECKING

from jaxpriv._importing import attach

if TYPE_CHECKING:  # the names below, for type checkers and editors
    from jaxpriv.report.page import report as report
else:
    __getattr__, __dir__, __all__ = attach(__name__, {"jaxpriv.report.page": ["report"]})
