"""A privacy mapping as a transformer of scikit-learn: in pipelines, searches over budgets, frames in and out.

mapping = PrivacyMapping(private="income", budget=0.3).set_output(transform="pandas")
released = mapping.fit(people).transform(people.drop(columns="income"))
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxpriv.errors import InputError, ResourceError
from jaxpriv.estimation.tables import Categories, Quantiles, Rule
from jaxpriv.mechanism import fit

try:
    from sklearn.base import BaseEstimator, TransformerMixin
    from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data
except ImportError as error:
    raise ResourceError("jaxpriv.sklearn needs scikit-learn: pip install 'jaxpriv[estimation]'") from error

if TYPE_CHECKING:
    from sklearn.utils import Tags

# Up to this many different whole numbers are classes of their own; more, and real numbers, are cut at quantiles.
_CATEGORIES = 10
_TARGET = "y"


class PrivacyMapping(TransformerMixin, BaseEstimator):
    """Release the columns of X by the mapping that leaks least about the private ones, within a budget.

    What `transform` gives is drawn anew for every row and every call, with randomness of the operating system: two
    calls on the same rows give two releases, which together disclose more than one. There is no `random_state`.
    Rows keep their order, as steps of a pipeline must; `jaxpriv.mechanism.release` releases them in a random one.

    Parameters:
        private: name or position of a column of X, or several: they are not among what is released, and `transform`
            takes X with or without them. None: the private variable is y.
        budget: the largest mean number of columns that a row may be changed in; or
        leakage_budget: the largest leakage, with the least change; `budget` is None then.
        leakage: the measure, a name of `jaxpriv.leakage.by_name`.
        rules: classes of columns by name or position, as for `jaxpriv.estimation.tables.count_table`.
        bins: quantile classes of numbers without a rule; text and up to ten different whole numbers are classes as they
            are.
        unseen: what a combination of classes comes to that `fit` had not: `nearest`, `suppress` or `refuse`.
        encode: `ordinal`, the number of each class, int64; `labels`, its text.

    Attributes:
        mechanism_: the `jaxpriv.mechanism.Mechanism`; `mechanism_.save` writes the design.
        claims_: its numbers on the rows of `fit`, which are those of a sample and not of a population.
        n_features_in_, feature_names_in_: as everywhere in scikit-learn.
    """

    def __init__(
        self,
        private: str | int | Sequence[str | int] | None = None,
        *,
        budget: float | None = 0.5,
        leakage_budget: float | None = None,
        leakage: str = "mutual-information",
        rules: Mapping[str | int, Rule] | None = None,
        bins: int = 4,
        unseen: str = "nearest",
        encode: str = "ordinal",
    ):
        self.private = private
        self.budget = budget
        self.leakage_budget = leakage_budget
        self.leakage = leakage
        self.rules = rules
        self.bins = bins
        self.unseen = unseen
        self.encode = encode

    def fit(self, X: object, y: object = None) -> "PrivacyMapping":
        """Design the mapping on the rows of X (and y, if that is what is private).

        Raises `InputError` (a ValueError) for bad parameters and columns, `InfeasibleError` if no mapping meets the
        budget.
        """
        if self.encode not in ("ordinal", "labels"):
            raise InputError("encode must be ordinal or labels")
        rows: Any = X  # scikit-learn's own annotation has the default alone
        table: Any = validate_data(self, rows, dtype=None, ensure_min_samples=2)
        names = self._names()
        chosen = self._private_places(names)
        columns = {name: _column(table[:, place]) for place, name in enumerate(names)}
        private = [names[place] for place in chosen]
        if not chosen:
            if y is None:
                raise InputError(
                    "requires y to be passed, but the target y is None: it is private where private is None"
                )
            target = column_or_1d(_array(y, ensure_2d=False, input_name="y"))
            if len(target) != len(table):
                raise InputError(f"X and y must have the same number of rows, not {len(table)} and {len(target)}")
            private = [_free(_TARGET, names)]
            columns[private[0]] = _column(target)
        useful = [name for place, name in enumerate(names) if place not in chosen]
        useful = [name for name in useful if len(np.unique(columns[name].astype(str))) > 1]  # nothing to release else
        if not useful:
            raise InputError("X has no useful column that is not constant")
        rules = self._rules(columns, names)
        found = fit(
            columns,
            private=private,
            useful=useful,
            rules=rules,
            leakage=self.leakage,
            split=1.0,
            unseen=self.unseen,
            sparse=True,
            budget=self.budget,
            leakage_budget=self.leakage_budget,
        )
        self.mechanism_, self.claims_ = found.mechanism, dict(found.claims)
        self._columns, self._chosen = names, chosen
        return self

    def transform(self, X: object) -> np.ndarray:
        """One draw for each row of X, (n, released columns): with or without the private columns of `fit`."""
        check_is_fitted(self)
        table, names = self._table(X)
        columns = {name: _column(table[:, place]) for place, name in enumerate(names)}
        outputs = self.mechanism_.sample(self.mechanism_.symbols(columns))
        if self.encode == "ordinal":
            return self.mechanism_.released[outputs]
        return np.stack(list(self.mechanism_.labels_of(outputs).values()), axis=1)

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """The names of what is released."""
        del input_features
        check_is_fitted(self)
        return np.array(self.mechanism_.released_columns, dtype=object)

    def __sklearn_tags__(self) -> "Tags":
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.transformer_tags.preserves_dtype = []
        tags.target_tags.required = self.private is None
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def _names(self) -> list[str]:
        known = getattr(self, "feature_names_in_", None)
        return (
            [f"x{place}" for place in range(int(getattr(self, "n_features_in_", 0)))] if known is None else list(known)
        )

    def _private_places(self, names: Sequence[str]) -> list[int]:
        if self.private is None:
            return []
        given = [self.private] if isinstance(self.private, (str, int)) else list(self.private)
        places = []
        for one in given:
            if isinstance(one, str) and one in names:
                places.append(names.index(one))
            elif isinstance(one, int) and not isinstance(one, bool) and 0 <= one < len(names):
                places.append(one)
            else:
                raise InputError(f"private: {one!r} is not a column of X")
        if len(set(places)) < len(places) or not places:
            raise InputError("private must name different columns of X")
        return sorted(places)

    def _rules(self, columns: Mapping[str, np.ndarray], names: Sequence[str]) -> dict[str, Rule]:
        given = {names[name] if isinstance(name, int) else name: rule for name, rule in (self.rules or {}).items()}
        for name, values in columns.items():
            numbers = values.dtype.kind in "if"
            many = numbers and (values.dtype.kind == "f" or len(np.unique(values)) > _CATEGORIES)
            if name not in given and many:
                given[name] = Quantiles(self.bins)
            elif name not in given:
                given[name] = Categories()
        return given

    def _table(self, X: object) -> tuple[np.ndarray, list[str]]:
        """The rows of X; where the private columns are left out, under the names of the others."""
        shape = getattr(X, "shape", ())
        width = shape[1] if len(shape) == 2 else None
        kept = [name for place, name in enumerate(self._columns) if place not in self._chosen]
        if self._chosen and width == len(kept):
            given = [str(name) for name in getattr(X, "columns", kept)]
            if given != kept and hasattr(self, "feature_names_in_"):
                raise InputError("X has other columns than the useful ones of fit")
            return _array(X), kept
        rows: Any = X
        table: Any = validate_data(self, rows, dtype=None, reset=False)
        return table, self._columns


def _array(values: object, *, ensure_2d: bool = True, input_name: str = "") -> np.ndarray:
    """An array of any kind, checked as scikit-learn does."""
    keep: Any = None
    checked: Any = check_array(values, dtype=keep, ensure_2d=ensure_2d, input_name=input_name)
    return checked


def _column(values: np.ndarray) -> np.ndarray:
    """A column of X as whole numbers, real numbers or text."""
    if values.dtype.kind == "O":
        listed = values.tolist()
        if all(isinstance(one, (int, float, np.number)) and not isinstance(one, bool) for one in listed):
            values = np.array(listed)
        else:
            return np.array([str(one) for one in listed], dtype=object)
    if values.dtype.kind in "US":
        return values.astype(str).astype(object)
    if values.dtype.kind == "f" and (values == np.rint(values)).all() and (abs(values) < 2**53).all():
        return values.astype(np.int64)
    return values.astype(np.float64) if values.dtype.kind == "f" else values


def _free(name: str, names: Sequence[str]) -> str:
    while name in names:
        name += "_"
    return name
