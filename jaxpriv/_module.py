"""How the classes of the library behave: methods that are looked up as in any other class, and printing by shapes."""

import re

import equinox as eqx

# A number of NumPy as it prints itself, as in np.float64(0.25).
_NUMBER = re.compile(r"\bnp\.(?:float|u?int)\d+\(([^()]+)\)")


class Module(eqx.Module):
    """An `equinox.Module` without its treatment of methods.

    Equinox makes every bound method a pytree, so that it may be an argument of compiled functions, in Python code that
    runs at each access of each attribute. What stands before a solve reads hundreds of attributes and passes no method
    to such a function; at small sizes that was a third of the time from the call to the first operation. To compile a
    method, compile a function of the object that calls it.
    """

    __getattribute__ = object.__getattribute__


def summary(self: object) -> str:
    """Use as `__repr__ = summary` in the body of a dataclass: arrays print as their dtype and shape, numbers plainly.

    What they hold may be private, and is too long to read.
    """
    return _NUMBER.sub(r"\1", eqx.tree_pformat(self, short_arrays=True))
