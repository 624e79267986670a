"""What frontiers of all problems share: the numbers of their points, as attributes, tables, lines and pictures."""

import os
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jaxpriv._runtime.files import atomic_write
from jaxpriv._runtime.module import Shown
from jaxpriv._runtime.module.latex import number, tabular
from jaxpriv._runtime.module.shown import nearest, numbers, tally, width
from jaxpriv._runtime.resources import need_memory
from jaxpriv._runtime.validation import per_nat
from jaxpriv.errors import InputError, ResourceError
from jaxpriv.verifier.logarithms import lower, upper

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Points up to which each has a line of its own in print.
_FEW = 8
# Bytes of one point beside its mechanism: its problem and its solution took 8,000 to 10,500 with three symbols.
_POINT = 8000.0


def need_memory_of_points(count: float, symbols: int) -> None:
    """Raise `ResourceError` if `count` points, each with a mechanism of `symbols` useful symbols, do not fit."""
    need_memory(count * (_POINT + 8.0 * symbols**2), f"a curve of {count} points", "ask for fewer points")


class AbstractFrontier(Shown):
    """Optimal values of one problem over a swept target, (B,) of each number.

    `form` names the target, `targets` are its values, `problem` is the problem whose target was swept.
    """

    form: str
    targets: np.ndarray
    problem: Any  # of the classes that a frontier is computed of
    spent: ClassVar[str]  # what the mechanisms spend: `distortion` or `disclosure`

    @abstractmethod
    def _column(self, name: str) -> np.ndarray:
        """One attribute of every solution."""

    @property
    def value(self) -> np.ndarray:
        """The objective of every solution, (B,); inf where no mechanism meets the target."""
        return self._column("value")

    @property
    def lower_bound(self) -> np.ndarray:
        """(B,)"""
        return self._column("lower_bound")

    @property
    def upper_bound(self) -> np.ndarray:
        """(B,): the values where these are minimised."""
        return self._column("upper_bound")

    @property
    def gap(self) -> np.ndarray:
        """upper_bound - lower_bound, (B,)."""
        return self._column("gap")

    @property
    def leakage(self) -> np.ndarray:
        """The problem's measure at every mechanism, (B,)."""
        return self._column("leakage")

    @property
    def status(self) -> np.ndarray:
        """The status of every solution, (B,)."""
        return self._column("status")

    def _shown(self) -> dict[str, str]:
        measure = self.problem.leakage
        rows = {"problem": type(self.problem).__name__, "leakage": f"{measure.label} ({measure.unit})"}
        name, finite = self.form.replace("_", " "), np.isfinite(self.upper_bound)
        if len(self.targets) <= _FEW:
            points = zip(self.targets, self.lower_bound, self.upper_bound, self.status, strict=True)
            for target, low, high, status in points:
                interval = f"{lower(low)} to {upper(high)}, " if np.isfinite(high) else ""
                rows[f"{name} {numbers(target, nearest)}"] = interval + status
        else:
            rows[f"{len(self.targets)} targets"] = f"{name} {numbers(self.targets, nearest)}"
            rows["status"] = tally(self.status)
            if finite.any():
                rows["optimum"] = f"{lower(self.lower_bound[finite].min())} to {upper(self.upper_bound[finite].max())}"
        rows["largest gap"] = width(self.gap[finite].max(initial=0.0))
        return rows

    def _measured(self, units: str) -> dict[str, tuple[np.ndarray, str]]:
        """`columns` with their units."""
        of_nats, unit = per_nat(units), self.problem.leakage.unit
        leaked = (of_nats, units) if unit == "nats" else (1.0, unit)
        spent = (of_nats, units) if self.spent == "disclosure" else (1.0, "")
        value = spent if self.form in ("leakage_budget", "relevance") else leaked
        price = leaked[0] / spent[0], ""
        scales = dict.fromkeys(("value", "lower_bound", "upper_bound", "gap"), value) | {"leakage": leaked}
        scale, named = {"leakage_budget": leaked, "relevance": leaked, "multiplier": price}.get(self.form, spent)
        target = f"target_{self.form}" if self.form == self.spent else self.form
        columns = {target: (np.asarray(self.targets, dtype=float) * scale, named)}
        columns |= {name: (self._column(name).astype(float) * scale, unit) for name, (scale, unit) in scales.items()}
        columns["status"] = self.status, ""
        columns[self.spent] = self._column(self.spent).astype(float) * spent[0], spent[1]
        flat: dict[str, tuple[np.ndarray, str]] = {}
        for name, (values, label) in columns.items():
            several = values.ndim > 1 and values.shape[1] > 1
            parts = np.moveaxis(values, -1, 0) if several else [values.reshape(-1)]
            flat |= {f"{name}_{k}" if several else name: (part, label) for k, part in enumerate(parts)}
        return flat

    def columns(self, units: str = "nats") -> dict[str, np.ndarray]:
        """The numbers of all points by name, (B,) each: the target under the name of `form`, `value`, `lower_bound`,
        `upper_bound`, `gap`, `leakage`, `status`, and `distortion` or `disclosure` I(X;Y) of every mechanism.

        Of several distortions each has a column (`budget_0`, `distortion_0`); a target of I(X;Y) is
        `target_disclosure`.

        `units`: of logarithms, "nats" or "bits"; other measures, and distortions, keep their units, and a multiplier is
        a leakage for each unit of what it prices. Raises `InputError` for other units.
        """
        return {name: values for name, (values, _) in self._measured(units).items()}

    def points(self, units: str = "nats") -> dict[str, np.ndarray]:
        """`columns` with the target under the name `target`, whatever its form."""
        (_, targets), *others = self.columns(units).items()
        return {"target": targets, **dict(others)}

    def arrays(self) -> dict[str, np.ndarray]:
        """What an .npz file of the curve holds: `points`, each status as its integer, the mechanisms (B, X, Y) where
        all have one shape, and the drawing that `jaxpriv plot` reads.
        """
        from jaxpriv.plotting import drawn_curve

        curve: Any = self  # it is one of the two classes
        held = {**self.points(), "status": self._column("code").astype(int)}
        mechanisms = [np.asarray(curve[k].mechanism) for k in range(len(curve))]
        if len({mechanism.shape for mechanism in mechanisms}) == 1:
            held["mechanism"] = np.stack(mechanisms)
        return held | drawn_curve(curve).arrays()

    def to_frame(self, units: str = "nats", *, backend: str = "polars") -> Any:  # noqa: ANN401 (of that library)
        """`columns` as a frame of polars, or of another `backend`: "pandas", "pyarrow".

        Raises `ResourceError` where narwhals or the backend is not installed, `InputError` for others and other units.
        """
        lists: dict[str, Any] = {name: values.tolist() for name, values in self.columns(units).items()}
        library: Any = backend
        try:
            import narwhals as nw  # an extra

            return nw.from_dict(lists, backend=library).to_native()
        except ImportError as error:
            needed = f"pip install 'jaxpriv[tables]' {backend}"
            raise ResourceError(f"frames need narwhals and {backend}: {needed}") from error
        except ValueError as error:
            raise InputError(f"backend: narwhals makes no frame of {backend!r}; give 'polars' or 'pandas'") from error

    def to_csv(self, path: str | os.PathLike[str] | None = None, units: str = "nats") -> str:
        """`columns` as CSV: a header, and a line for each point with all digits; written to `path` if that is given."""
        columns = self.columns(units)
        rows = [columns, *zip(*(values.tolist() for values in columns.values()), strict=True)]
        text = "".join(",".join(map(str, row)) + "\n" for row in rows)
        if path is not None:
            atomic_write(path, text.encode())
        return text

    def to_latex(self, units: str = "nats") -> str:
        """The points as a `tabular` environment in the style of booktabs, a line for each: six digits, bounds rounded
        against the claim.
        """
        measured = self._measured(units)
        del measured["value"]
        rounded = {"lower_bound": lower, "upper_bound": upper, "gap": width, "leakage": upper, "disclosure": lower}
        columns = []
        for name, (values, _) in measured.items():
            how = upper if name.startswith("distortion") else rounded.get(name, nearest)
            texts = values.tolist()
            columns.append([text.replace("_", " ") if isinstance(text, str) else number(how(text)) for text in texts])
        headings = [name.replace("_", " ") + (f" ({unit})" if unit else "") for name, (_, unit) in measured.items()]
        alignment = "".join("l" if name == "status" else "r" for name in measured)
        return tabular(headings, list(zip(*columns, strict=True)), alignment)

    def plot(self, **options: Any) -> "Figure":  # noqa: ANN401 (the options of that function)
        """`jaxpriv.plotting.plot_frontier(self, ...)`: a matplotlib figure of the points and their certified band."""
        from jaxpriv.plotting import plot_frontier  # it needs matplotlib

        return plot_frontier(self, **options)  # pyright: ignore[reportArgumentType] (it is one of the two classes)
