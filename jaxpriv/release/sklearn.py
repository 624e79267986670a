"""A privacy mapping as a transformer of scikit-learn: in pipelines, searches over budgets, frames in and out.

mapping = PrivacyMapping(private="income", budget=0.3).set_output(transform="pandas")
released = mapping.fit(people).transform(people.drop(columns="income"))
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxpriv._runtime.importing import names_of
from jaxpriv._runtime.near import near
from jaxpriv._runtime.validation import by_column, listed
from jaxpriv.errors import InputError, ResourceError
from jaxpriv.release import fit
from jaxpriv.release.obstacles import identifies
from jaxpriv.statistics.tables import ROWS_PER_SYMBOL, Categories, Quantiles, Rule
from jaxpriv.statistics.tables.readers import Column, column_of, is_frame, is_series, parts_of_frame
from jaxpriv.verifier.symbols import EXACT

__dir__ = names_of(__name__)

try:
    from sklearn.base import BaseEstimator, TransformerMixin
    from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data
except ImportError as error:
    raise ResourceError("jaxpriv.release.sklearn needs scikit-learn: pip install 'jaxpriv[estimation]'") from error

if TYPE_CHECKING:
    from sklearn.utils import Tags

# Up to this many different whole numbers are classes of their own; more, and real numbers, are cut at quantiles.
_CATEGORIES = 10
_TARGET = "y"


class PrivacyMapping(TransformerMixin, BaseEstimator):
    """Release the columns of X by the mapping that leaks least about the private ones, within a budget.

    What `transform` gives is drawn anew for every row and every call, with randomness of the operating system: two
    calls on the same rows give two releases, which together disclose more than one. There is no `random_state`.
    Rows keep their order, as steps of a pipeline must; `jaxpriv.release.release` releases them in a random one.

    Parameters:
        private: name or position of a column of X, or several: they are not among what is released, and `transform`
            takes X with or without them. None: the private variable is y.
        budget: the largest mean number of columns that a row may be changed in; or
        leakage_budget: the largest leakage, with the least change; `budget` is None then.
        leakage: the measure, a name of `jaxpriv.leakage.by_name`.
        rules: classes of columns by name or position, as for `jaxpriv.statistics.tables.count_table`.
        bins: quantile classes of numbers without a rule; text, booleans, dates (UTC, in the shortest form of ISO 8601)
            and up to ten different whole numbers are classes as they are. Texts of which nearly every row has its own
            are refused without a rule: they are names or identifiers.
        unseen: what a combination of classes comes to that `fit` had not: `nearest`, `suppress` or `refuse`.
        encode: `ordinal`, the number of each class, int64; `labels`, its text.

    Attributes:
        mechanism_: the `jaxpriv.release.Mechanism`; `mechanism_.save` writes the design.
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

        Every column has a type of its own, also in an array of objects or a list. A missing value (None, null, NA; NaN
        in pandas, and where the column has a class for missing values) is an error if its column has no such class.

        Raises `InputError` (a ValueError) for bad parameters and columns, `InfeasibleError` if no mapping meets the
        budget.
        """
        if self.encode not in ("ordinal", "labels"):
            raise InputError("encode must be ordinal or labels")
        parts = self._parts(X, reset=True)
        names = self._names()
        if not names:
            raise InputError("X has no columns")
        chosen = self._private_places(names)
        rules = self._given_rules(names)
        columns = {name: _column(name, part, rules.get(name)) for name, part in zip(names, parts, strict=True)}
        size = len(next(iter(columns.values())).values)
        private = [names[place] for place in chosen]
        if not chosen:
            if y is None:
                raise InputError(
                    "requires y to be passed, but the target y is None: it is private where private is None"
                )
            private = [_free(_TARGET, names)]
            columns[private[0]] = _column(private[0], _target(y), rules.get(private[0]))
            rows = len(columns[private[0]].values)
            if rows != size:
                raise InputError(f"X and y must have the same number of rows, not {size} and {rows}")
        useful = [name for place, name in enumerate(names) if place not in chosen and not _constant(columns[name])]
        if not useful:
            raise InputError("X has no useful column that is not constant")
        for name in (*private, *useful):
            if rules.get(name) is None:
                rules[name] = self._default_rule(columns[name], name in private)
        fitted = fit(
            columns,
            private=private,
            useful=useful,
            rules={name: rule for name, rule in rules.items() if name in (*private, *useful) or name not in names},
            leakage=self.leakage,
            split=1.0,
            unseen=self.unseen,
            sparse=True,
            budget=self.budget,
            leakage_budget=self.leakage_budget,
        )
        self.mechanism_, self.claims_ = fitted.mechanism, dict(fitted.claims)
        self._columns, self._chosen = names, chosen
        return self

    def transform(self, X: object) -> np.ndarray:
        """One draw for each row of X, (n, released columns): with or without the private columns of `fit`."""
        check_is_fitted(self)
        parts, book = self._parts_by_name(X), self.mechanism_.codebook
        columns = {name: _column(name, parts[name], book.rules[name]) for name in book.useful}
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
        names = getattr(self, "feature_names_in_", None)
        return (
            [f"x{place}" for place in range(int(getattr(self, "n_features_in_", 0)))] if names is None else list(names)
        )

    def _private_places(self, names: Sequence[str]) -> list[int]:
        if self.private is None:
            return []
        given = [self.private] if isinstance(self.private, (str, int)) else listed(self.private, "private")
        places = []
        for column in given:
            if isinstance(column, str) and column in names:
                places.append(names.index(column))
            elif isinstance(column, int) and not isinstance(column, bool) and 0 <= column < len(names):
                places.append(column)
            else:
                raise InputError(f"private: {column!r} is not a column of X{near(str(column), names)}")
        if len(set(places)) < len(places) or not places:
            raise InputError("private must name different columns of X")
        return sorted(places)

    def _given_rules(self, names: Sequence[str]) -> dict[str, Rule | None]:
        by_column(self.rules, "rules")
        given: dict[str, Rule | None] = {}
        for name, rule in (self.rules or {}).items():
            place = isinstance(name, int)
            if place and not 0 <= name < len(names):
                raise InputError(f"rules: {name!r} is not a column of X")
            given[names[name] if place else name] = rule
        return given

    def _default_rule(self, column: Column, private: bool) -> Rule:
        values = column.values[~column.missing]
        different = len(np.unique(values))
        if column.kind == "text":
            if private and different > max(_CATEGORIES, len(values) / ROWS_PER_SYMBOL):
                raise InputError(
                    f"column {column.name!r} is private and has {different} different texts in {len(values)} rows, too "
                    "many for classes: give it a rule in `rules`, Categories(least=10) for one"
                )
            identifies(column)  # refused: the release would name persons
            return Categories()
        whole = column.kind == "integer" or ((values == np.rint(values)) & (abs(values) < EXACT)).all()
        return Categories() if whole and different <= _CATEGORIES else Quantiles(self.bins)

    def _parts(self, X: object, *, reset: bool) -> list[object]:
        """The columns of X one by one: series of a frame, or parts of an array."""
        rows: Any = _untyped(X)  # scikit-learn's own annotation has the default alone
        if is_frame(X):
            validate_data(self, rows, reset=reset, skip_check_array=True)
            return [part for _, part in parts_of_frame(X)]
        least = 2 if reset else 1
        # What is not finite is for the rule of its column.
        table: Any = validate_data(
            self, rows, dtype=None, reset=reset, ensure_all_finite=False, ensure_min_samples=least
        )
        return list(table.T)

    def _parts_by_name(self, X: object) -> dict[str, object]:
        """The columns of X, which may lack the private ones."""
        useful = [name for place, name in enumerate(self._columns) if place not in self._chosen]
        X = _untyped(X)
        shape = getattr(X, "shape", ())
        if not (self._chosen and len(shape) == 2 and shape[1] == len(useful)):
            return dict(zip(self._columns, self._parts(X, reset=False), strict=True))
        parts = parts_of_frame(X) if is_frame(X) else None
        given = [name for name, _ in parts] if parts else list(getattr(X, "columns", useful))
        if given != useful and hasattr(self, "feature_names_in_"):
            raise InputError("X has other columns than the useful ones of fit")
        return dict(zip(useful, [part for _, part in parts] if parts else _array(X).T, strict=True))


def _array(values: object, *, ensure_2d: bool = True, input_name: str = "") -> np.ndarray:
    """An array of any kind, checked as scikit-learn does; what is not finite is for the rule of its column."""
    keep: Any = None
    given: Any = values
    checked: Any = check_array(
        given, dtype=keep, ensure_2d=ensure_2d, input_name=input_name, ensure_all_finite=not ensure_2d
    )
    return checked


def _untyped(values: object) -> object:
    """A list as an array of what it holds: NumPy would make one type of all its columns."""
    return np.array(values, dtype=object) if isinstance(values, (list, tuple)) else values


def _target(y: object) -> object:
    """The column y: a series, or an array of one dimension."""
    return y if is_series(y) else column_or_1d(_array(_untyped(y), ensure_2d=False, input_name="y"))


def _column(name: str, values: object, rule: Rule | None) -> Column:
    """A series of a frame, or a column of an array, in which objects that are NaN or NA are missing."""
    if isinstance(values, np.ndarray):
        if values.dtype.kind == "O":
            values = values.copy()
            values[[_is_gap(value) for value in values.tolist()]] = None
        elif values.dtype.kind == "S":
            values = values.astype(str)
        elif values.dtype.kind == "f" and rule is not None and rule.missing is not None:
            values = np.ma.masked_where(np.isnan(values), values)
    return column_of(name, values)


def _is_gap(value: object) -> bool:
    is_nan = isinstance(value, (float, np.floating)) and value != value
    return is_nan or type(value).__name__ in ("NAType", "NaTType")


def _constant(column: Column) -> bool:
    """Whether there is nothing to release; a missing value is another one."""
    return len(np.unique(column.values[~column.missing])) + int(column.missing.any()) < 2


def _free(name: str, names: Sequence[str]) -> str:
    while name in names:
        name += "_"
    return name
