"""The papers' other models: `databases` of several records, the `gaussian` source, the usual releases as `baselines`.

All three are attributes of `jaxpriv` as well (`jp.databases`, `jp.gaussian`, `jp.baselines`).
"""

from typing import TYPE_CHECKING

from jaxpriv._runtime.importing import attach

if TYPE_CHECKING:  # what `attach` reads, and type checkers and editors
    from jaxpriv.models import baselines as baselines, databases as databases, gaussian as gaussian
else:
    __getattr__, __dir__, __all__ = attach(__name__)
