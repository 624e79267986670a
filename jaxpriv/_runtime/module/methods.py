"""Methods that are looked up as in any other class, and numbers that print as numbers."""

import equinox as eqx

from jaxpriv._runtime.module.printing import summary


class Module(eqx.Module):
    """An `equinox.Module` without its treatment of methods.

    Equinox makes every bound method a pytree, so that it may be an argument of compiled functions, in Python code that
    runs at each access of each attribute. What stands before a solve reads hundreds of attributes and passes no method
    to such a function; at small sizes that was a third of the time from the call to the first operation. To compile a
    method, compile a function of the object that calls it.
    """

    __getattribute__ = object.__getattribute__
    __repr__ = summary
