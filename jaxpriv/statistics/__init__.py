"""From samples: tables, log-lift estimators, confidence statistics."""

from typing import TYPE_CHECKING

from jaxpriv._runtime.importing import attach

if TYPE_CHECKING:  # what `attach` reads, and type checkers and editors
    from jaxpriv.statistics import audit as audit
    from jaxpriv.statistics import confidence as confidence
    from jaxpriv.statistics import lift as lift
    from jaxpriv.statistics import tables as tables
else:
    __getattr__, __dir__, __all__ = attach(__name__)
