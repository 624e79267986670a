"""From samples: tables, log-lift estimators, confidence statistics."""

from typing import TYPE_CHECKING

from jaxpriv._runtime.importing import attach

if TYPE_CHECKING:  # what `attach` reads, and type checkers and editors
    from jaxpriv.statistics import audit as audit, confidence as confidence, lift as lift, tables as tables
else:
    __getattr__, __dir__, __all__ = attach(__name__)
