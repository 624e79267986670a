"""A design as one page of HTML for people who decide about it: who can learn what, and what is proved.

page = report(mechanism, evidence)
"""

from typing import TYPE_CHECKING

from jaxpriv._importing import attach

if TYPE_CHECKING:  # the names below, for type checkers and editors
    from jaxpriv.report.page import report as report
else:
    __getattr__, __dir__, __all__ = attach(__name__, {"jaxpriv.report.page": ["report"]})
