"""How the classes of the library behave: methods that are looked up as in any other class, and how they print."""

from typing import TYPE_CHECKING

from jaxpriv._runtime.importing import attach

if TYPE_CHECKING:  # what `attach` reads, and type checkers and editors
    from jaxpriv._runtime.module.methods import Module as Module
    from jaxpriv._runtime.module.printing import summary as summary
    from jaxpriv._runtime.module.shown import Shown as Shown
else:
    __getattr__, __dir__, __all__ = attach(__name__)
