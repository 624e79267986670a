"""The sets of decision rules as the method takes them: rules counted from the centre of their term."""

from jaxpriv._types import Arr, ScalarLike
from jaxpriv.leakage.custom_loss import CENTRED
from jaxpriv.leakage.rule_sets import Boundary, Term


def boundary(term: Term, g: Arr, smoothing: ScalarLike = CENTRED) -> Boundary:
    """The set of a smooth term at rules g, (Y, T); one that may have kinks so smooth as `smoothing`."""
    return term.rule_set.boundary(term, term.whole(g), smoothing)


def domain(term: Term) -> tuple[float, float]:
    """The open interval of the coordinates of `whole` rules of a smooth term (the last one of massed sets is free)."""
    return term.rule_set.domain(term)


def rule_at(term: Term, w: Arr) -> Arr:
    """The natural rule of a smooth term where it sees w > 0: the gradient of phi. (T,), or (Y, T) for every output."""
    rule = term.rule_set.gradient(term, w)
    return rule if term.centre is None else rule - term.centre


def prior_rule(term: Term) -> Arr:
    """A best rule about an output that tells nothing, (T,)."""
    return rule_at(term, term.rows.sum(axis=1))


def normalised(term: Term, g: Arr, level: Arr) -> Arr:
    """Rules moved into the set: (Y, T) -> (Y, T)."""
    return term.rule_set.normalised(term, g, level)


def support(term: Term, w: Arr) -> Arr:
    """phi of every output from what the term sees of it, w (Y, T), less what `centre` claims: shape (Y,)."""
    phi = term.rule_set.support(term, w)
    return phi if term.centre is None else phi - w @ term.centre
