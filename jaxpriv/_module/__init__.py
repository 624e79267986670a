"""How the classes of the library behave: methods that are looked up as in any other class, and how they print."""

from typing import TYPE_CHECKING

from jaxpriv._importing import attach

if TYPE_CHECKING:  # the names below, for type checkers and editors
    from jaxpriv._module.methods import Module as Module
    from jaxpriv._module.printing import summary as summary
    from jaxpriv._module.shown import Shown as Shown
else:
    __getattr__, __dir__, __all__ = attach(
        __name__,
        {
            "jaxpriv._module.methods": ["Module"],
            "jaxpriv._module.printing": ["summary"],
            "jaxpriv._module.shown": ["Shown"],
        },
    )
