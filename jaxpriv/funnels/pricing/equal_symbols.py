"""Useful symbols with one P(S|x) are one symbol for funnel and bottleneck: exactly, with a constant for the rest.

Let C be the class of X under equal columns T_x = P(S|x). Given C, S and X are independent, so for S - X - Y

    I(X;Y) = I(C;Y) + I(X;Y|C) <= I(C;Y) + H(X|C),

and I(S;Y) is a function of P(Y|C) alone. With PF_C and IB_C the curves of the classes:

    funnel       PF(R) = PF_C( max(0, R - H(X|C)) ):  "at least" by the line above; "at most" because each output of a
                 release of C can be cut into parts, and each part shows of every class one symbol. A part has the
                 posterior of its output over C, so the cut leaks nothing, and X is known where C is:
                 I(X;Y|C) = H(X|C).
    bottleneck   IB(R) = IB_C(R):  I(C;Y) <= I(X;Y), with equality where the symbols of a class have one P(Y|x).

The cut adds (symbols - classes) outputs at most: in every class the outputs in their order use up one symbol after
the other, and where two symbols meet an output is cut. With q_C the masses of the classes under q, prices nu_c of the
classes prove what they prove there:

    funnel       nu_x = nu_c:  H(q) >= H(q_C), so psi(q) - nu.q >= psi_C(q_C) - nu_C.q_C
    bottleneck   nu_x = nu_c - lambda ln( p_x/p_c ):  lambda H(q) - nu.q <= lambda H(q_C) - nu_C.q_C, since the sum of
                 exp( -(nu_x - nu_c)/lambda ) over a class is 1.
"""

import numpy as np

_EPS = float(np.finfo(np.float64).eps)
# Columns of one class agree to this (relative): what sums of some private symbols and a division round.
_SAME = 8 * _EPS


def classes(conditional: np.ndarray, tolerance: float) -> list[np.ndarray]:
    """The symbols in classes of columns that agree to `tolerance` (relative), in the order of their first symbols."""
    order = np.lexsort(np.round(conditional, 12))
    groups, first = [[order[0]]], conditional[:, order[0]]
    for number in order[1:]:
        column = conditional[:, number]
        if (np.abs(column - first) <= tolerance * np.minimum(column, first)).all():
            groups[-1].append(number)
        else:
            groups.append([number])
            first = column
    return sorted((np.sort(group) for group in groups), key=lambda group: int(group[0]))


class EqualSymbols:
    """The classes of the useful symbols of a joint (S, X), whose every column has mass.

    Attributes:
        joint: P(S,C), shape (S, C).
        number: the class of every symbol, (X,).
        hidden: H(X|C), nats.
        slack: what the merged columns may change of a bound that prices prove.
    """

    def __init__(self, joint: np.ndarray):
        self._source = joint.sum(axis=0)
        groups = classes(joint / self._source, _SAME)
        self.number = np.empty(joint.shape[1], dtype=int)
        for number, group in enumerate(groups):
            self.number[group] = number
        self._size = len(groups)
        self.joint = joint if len(groups) == joint.shape[1] else self.summed(joint)
        # Classes of several symbols, the lightest first: shares are then sums of small numbers only, with all
        # their digits.
        self._several = [
            (number, group[np.argsort(self._source[group], kind="stable")])
            for number, group in enumerate(groups)
            if len(group) > 1
        ]
        self._share = self._source / self.joint.sum(axis=0)[self.number]
        several = np.concatenate([group for _, group in self._several]) if self._several else np.empty(0, dtype=int)
        self.hidden = max(0.0, -float(self._source[several] @ np.log(self._share[several])))
        # A column that is off by a share d of itself moves -H(Tq) by at most d (1 + ln S).
        self.slack = 2 * _SAME * (1.0 + float(np.log(len(joint)))) if self._several else 0.0

    def summed(self, table: np.ndarray) -> np.ndarray:
        """Columns (..., X) added up in classes (..., C)."""
        sums = np.zeros((self._size, *table.shape[:-1]))
        np.add.at(sums, self.number, np.moveaxis(table, -1, 0))
        return np.moveaxis(sums, 0, -1)

    def shared(self, posteriors: np.ndarray) -> np.ndarray:
        """Posteriors (K, X) of the bottleneck from those of the classes (K, C): shares p_x/p_c."""
        return posteriors[:, self.number] * self._share

    def shown(self, posteriors: np.ndarray, masses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(posteriors (K', X), masses (K',)) of the funnel from those of the classes (K, C): outputs cut into parts."""
        if not self._several:
            return posteriors, masses
        output, where, ends = [np.arange(len(masses))], [np.zeros(len(masses))], []
        for number, group in self._several:
            each = masses * posteriors[:, number]
            ends.append(np.concatenate([[0.0], np.cumsum(each)]) / each.sum())
            cuts = np.cumsum(self._share[group])[:-1]
            inside = np.clip(np.searchsorted(ends[-1], cuts, side="right") - 1, 0, len(masses) - 1)
            begin, width = ends[-1][inside], np.diff(ends[-1])[inside]
            output.append(inside[width > 0])
            where.append(np.clip((cuts - begin)[width > 0] / width[width > 0], 0.0, 1.0))
        pieces = np.unique(np.stack([np.concatenate(output).astype(float), np.concatenate(where)]), axis=1)
        of, begin = pieces[0].astype(int), pieces[1]
        end = np.append(begin[1:], 1.0)
        end[np.append(of[1:] != of[:-1], True)] = 1.0
        positive = end > begin
        of, begin, end = of[positive], begin[positive], end[positive]
        whole = posteriors[of][:, self.number]
        for (number, group), at in zip(self._several, ends, strict=True):
            middle = at[of] + 0.5 * (begin + end) * (at[of + 1] - at[of])
            member = np.searchsorted(np.cumsum(self._share[group])[:-1], middle, side="right")
            whole[:, group] = 0.0
            whole[np.arange(len(of)), group[member]] = posteriors[of, number]
        return whole, masses[of] * (end - begin)

    def priced(self, prices: np.ndarray, lam: float, *, funnel: bool) -> np.ndarray:
        """Prices (X,) that prove what those of the classes (C,) prove."""
        lifted = prices[self.number]
        return lifted if funnel else lifted - lam * np.log(self._share)
