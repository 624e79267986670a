"""A study as it is declared: grids of joints, distortions, measures, targets and tolerances; how it is read; its cases.

A case is plain data (numbers and strings), which stands for a problem and has a hash that names it. Random joints and
distortions are named by family and seed: the same numbers on every machine with the same NumPy.
"""

import hashlib
import itertools
import json
import math
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from jaxpriv._runtime.files import load_npz_safely
from jaxpriv._runtime.validation import finite, joint_array, scalar
from jaxpriv.data.distortion import AbstractDistortion, as_distortion, dense
from jaxpriv.errors import InputError, JaxprivError
from jaxpriv.leakage import AbstractLeakage, by_name
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.problems.forms import FORMS
from jaxpriv.verifier.archive import read_file

Config: TypeAlias = dict[str, Any]
_Items: TypeAlias = tuple[tuple[str, Any], ...]  # of a part of a case

# In place of the number in cases: TOML has it, strict JSON does not.
INFINITE = "inf"

# Masses below this are raised to it: a small concentration would round symbols to nothing.
_LEAST = 1e-6


def _dirichlet(rng: np.random.Generator, private: int, useful: int, concentration: float, zeros: float) -> np.ndarray:
    """Dirichlet over all cells; each is emptied with probability `zeros`, but one of each row and column."""
    table = rng.dirichlet(np.full(private * useful, concentration)).reshape(private, useful)
    present = rng.random((private, useful)) >= zeros
    cell = np.arange(max(private, useful))
    present[rng.permutation(private)[cell % private], rng.permutation(useful)[cell % useful]] = True
    return np.maximum(table, _LEAST) * present


def _correlated(
    rng: np.random.Generator, private: int, useful: int, concentration: float, correlation: float
) -> np.ndarray:
    """X = S with probability `correlation`, otherwise independent of S with the same law: a Dirichlet one."""
    if private != useful:
        raise InputError(f"joint: family 'correlated' has S = X, not {private} private and {useful} useful symbols")
    law = np.maximum(rng.dirichlet(np.full(private, concentration)), _LEAST)
    law = law / law.sum()
    return correlation * np.diag(law) + (1.0 - correlation) * np.outer(law, law)


# Every family: its function and its parameters beside the sizes and the seed, with (default, least, largest).
FAMILIES: Mapping[str, tuple[Callable[..., np.ndarray], Mapping[str, tuple[float, float, float]]]] = {
    "dirichlet": (_dirichlet, {"concentration": (1.0, 1e-3, 1e6), "zeros": (0.0, 0.0, 1.0)}),
    "correlated": (_correlated, {"concentration": (1.0, 1e-3, 1e6), "correlation": (0.5, 0.0, 1.0)}),
}


def joint_of(config: Mapping[str, Any]) -> np.ndarray:
    """The joint (S, X) of a family, total one."""
    function, parameters = FAMILIES[config["family"]]
    rng = np.random.default_rng(config["seed"])
    table = function(rng, config["private"], config["useful"], **{name: config[name] for name in parameters})
    return table / table.sum()


# Distortions between numbered symbols, x = 0, 1, ... and y = 0, 1, ...
DISTORTIONS: Mapping[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "absolute": lambda x, y: abs(x - y),
    "squared": lambda x, y: (x - y) ** 2,
    "hamming": lambda x, y: x != y,
}


def distortion_of(config: Mapping[str, Any], useful: int) -> np.ndarray:
    """The distortion (X, Y) of a name; `uniform` draws every cost from [0, 1) by its seed."""
    released = config["released"]
    if config["name"] == "uniform":
        return np.random.default_rng(config["seed"]).random((useful, released))
    x, y = np.arange(useful)[:, None], np.arange(released)[None, :]
    return DISTORTIONS[config["name"]](x, y).astype(np.float64)


def digest(value: object) -> str:
    """SHA-256 of plain data: of the JSON with sorted keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


class CaseParts:
    """Joints, distortions and measures of cases, each made once."""

    def __init__(self, tables: Mapping[str, np.ndarray]) -> None:
        self._tables = tables
        self._joint, self._distortion = cache(self._joint_of), cache(self._distortion_of)
        self._ends = cache(self._ends_of)
        self._measure = cache(lambda items: _measure_of(dict(items)))

    def problem(self, case: Config) -> DistortionProblem:
        """The problem of a case.

        A `budget_share` t stands for the budget a + t (b - a) between the least distortion a of any mechanism and that
        of the best constant release, b.
        """
        joint, distortion, measure = (tuple(case[part].items()) for part in ("joint", "distortion", "leakage"))
        form, target = case["form"], case["target"]
        if form == "budget_share":
            least, idle = self._ends(joint, distortion)
            form, target = "budget", least + target * (idle - least)
        costs = self._distortion(distortion, case["joint"]["useful"])
        return DistortionProblem(self._joint(joint), costs, leakage=self._measure(measure), **{form: target})

    def _joint_of(self, items: _Items) -> np.ndarray:
        config = dict(items)
        return self._tables[config["sha256"]] if "file" in config else joint_of(config)

    def _distortion_of(self, items: _Items, useful: int) -> AbstractDistortion:
        config = dict(items)
        return as_distortion(self._tables[config["sha256"]] if "file" in config else distortion_of(config, useful))

    def _ends_of(self, joint: _Items, distortion: _Items) -> tuple[float, float]:
        """The least distortion of any mechanism, and of a constant release."""
        table = self._joint(joint)
        masses = table.sum(axis=-2) if table.ndim == 2 else table.sum(axis=1).mean(axis=0)
        costs = dense(self._distortion(distortion, len(masses)))
        weighted = masses[:, None] * finite(costs, "form budget_share: distortion")
        return weighted.min(axis=1).sum(), weighted.sum(axis=0).min()


def _measure_of(config: Config) -> AbstractLeakage:
    given: Config = {key: math.inf if setting == INFINITE else setting for key, setting in config.items()}
    return by_name(**given)


# What the hashes below are made from: changed whenever equal cases would give other rows.
FORMAT = 1
# Rows of a file, where the declaration does not say how many.
CHUNK_ROWS = 1024

_FORMS = (*FORMS, "budget_share")
_MEASURE = ("name", "form", "order", "divergence", "gamma")
# Problems of a study (a day of solving at 10 ms each), bytes of its declaration (a text that people write), and symbols
# of a generated joint (32 GiB for two alphabets of this size).
_MOST_CASES, _MOST_BYTES, _MOST_SYMBOLS = 10**7, 2**20, 2**16


@dataclass(frozen=True)
class Study:
    """A declared study.

    Attributes:
        name: for people.
        cases: one configuration for each problem, in the order of the declaration (the last axis changes first).
        tables: the arrays of files, by the SHA-256 that configurations refer to.
        chunk_rows: how many problems are kept in one file at most.
    """

    name: str
    cases: tuple[Config, ...]
    tables: Mapping[str, np.ndarray]
    chunk_rows: int = CHUNK_ROWS

    @property
    def hash(self) -> str:
        """SHA-256 of all cases: a changed case is another study; the name and the chunks are no part of it."""
        return digest({"format": FORMAT, "cases": self.cases})

    @staticmethod
    def of(declaration: object, folder: Path | None = None) -> "Study":
        """The study of a TOML file (a path), or of the same as a mapping, whose files are relative to `folder`.

        Raises:
            InputError: what is wrong, with its place in the declaration.
            ResourceError, IntegrityError: a file cannot be read, or is damaged.
        """
        if isinstance(declaration, Study):
            return declaration
        if isinstance(declaration, (str, Path)):
            path = Path(declaration)
            declared = _read(path)
            try:
                return Study._of_mapping(declared, path.parent)
            except JaxprivError as error:
                raise type(error)(f"{path}: {error}") from error
        if not isinstance(declaration, Mapping):
            raise InputError(f"study must be a path to a TOML file or a mapping, not {type(declaration).__name__}")
        return Study._of_mapping(declaration, Path.cwd() if folder is None else folder)

    @staticmethod
    def _of_mapping(declared: Mapping[str, object], folder: Path) -> "Study":
        _only(declared, ("name", "chunk_rows", "grid"), "study")
        name = declared.get("name", "")
        if not isinstance(name, str):
            raise InputError("name must be a string")
        grids = declared.get("grid")
        if not isinstance(grids, (list, tuple)) or not grids:
            raise InputError("study has no [[grid]]; it needs at least one")
        size = _whole(declared.get("chunk_rows", CHUNK_ROWS), "chunk_rows", 1)
        files = _Files(folder)
        cases: list[Config] = []
        for i, grid in enumerate(grids):
            for case in _cases(grid, f"grid[{i}]", files):
                if len(cases) == _MOST_CASES:
                    raise InputError(f"study has more than {_MOST_CASES} problems; declare several studies")
                cases.append(case)
        _refuse_twins(cases)
        return Study(name, tuple(cases), files.tables, size)

    def problem(self, i: int) -> DistortionProblem:
        """The problem of case `i`."""
        return CaseParts(self.tables).problem(self.cases[i])


# ------------------------------------------------------------------------------ reading


def _read(path: Path) -> Mapping[str, object]:
    try:
        return tomllib.loads(read_file(path, _MOST_BYTES).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path} is not TOML: {error}") from error


@dataclass(frozen=True)
class _Declared:
    """A value of a declaration and its place; of a table the places of its values too, which differ in lists."""

    value: object
    place: str
    places: Mapping[str, str]

    def at(self, key: str) -> str:
        return self.places.get(key, f"{self.place}.{key}")


class _Files:
    """The arrays of .npz files, each read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[tuple[str, str], str] = {}
        self.tables: dict[str, np.ndarray] = {}

    def take(self, entry: _Declared, value: Mapping[str, object], default: str) -> tuple[str, np.ndarray]:
        """(SHA-256, array) of the array that a `file` and an `array` name."""
        name = _text(value["file"], entry.at("file") if isinstance(entry.value, Mapping) else entry.place)
        array = _text(value.get("array", default), entry.at("array"))
        if (name, array) not in self._known:
            try:
                table = load_npz_safely(self._folder / name, [array])[array]
                if table.dtype.kind not in "biuf":
                    raise InputError(f"array {array!r} of {name} does not hold real numbers")
            except JaxprivError as error:
                raise type(error)(f"{entry.place}: {error}") from error
            table = table.astype(np.float64)
            hashed = hashlib.sha256(f"{table.shape}".encode() + np.ascontiguousarray(table).tobytes()).hexdigest()
            self._known[name, array] = hashed
            self.tables[hashed] = table
        hashed = self._known[name, array]
        return hashed, self.tables[hashed]

    def least(self, config: Config) -> float:
        """The smallest cost of a distortion; 0 of those that are made by name, whose costs are not negative."""
        return float(self.tables[config["sha256"]].min()) if "file" in config else 0.0


def _cases(grid: object, place: str, files: _Files) -> Iterator[Config]:
    """The product of the axes of one grid."""
    if not isinstance(grid, Mapping):
        raise InputError(f"{place} must be a table")
    _only(grid, ("joint", "distortion", "leakage", *_FORMS, "solver", "tol", "rtol", "max_steps"), place)
    given = [name for name in _FORMS if name in grid]
    if len(given) != 1:
        named = " and ".join(given) or "none"
        raise InputError(f"{place} needs exactly one of {', '.join(_FORMS)} ({named} given)")
    if "joint" not in grid:
        raise InputError(f"{place} has no joint")
    (form,) = given
    defaults = {"joint": None, "distortion": "absolute", "leakage": "mutual-information", form: None}
    defaults |= {"solver": "auto", "tol": 1e-6, "rtol": 0.0, "max_steps": 0}
    axes = {key: _alternatives(grid.get(key, default), f"{place}.{key}") for key, default in defaults.items()}
    made = [
        [_joint(joint, files) for joint in axes["joint"]],
        range(len(axes["distortion"])),
        [_leakage(measure) for measure in axes["leakage"]],
        [(_target(target, form), target.place) for target in axes[form]],
        [_solver(solver) for solver in axes["solver"]],
        [scalar(tol.value, tol.place, low=0.0, open_low=True) for tol in axes["tol"]],
        [scalar(rtol.value, rtol.place, low=0.0) for rtol in axes["rtol"]],
        [_steps(steps.value, steps.place) for steps in axes["max_steps"]],
    ]
    cost_of = cache(lambda place, useful: _distortion(axes["distortion"][place], useful, files))
    for joint, place_of_cost, leakage, (number, where), *rest in itertools.product(*made):
        config = cost_of(place_of_cost, joint["useful"])
        if form == "budget" and number < 0.0 <= files.least(config):
            raise InputError(f"{where} is negative, and no cost of the distortion is")
        asked = {"joint": joint, "distortion": config, "leakage": leakage, "form": form, "target": number}
        yield asked | dict(zip(("solver", "tol", "rtol", "max_steps"), rest, strict=True))


def _alternatives(value: object, place: str) -> list[_Declared]:
    """A list is its entries, a table the product of its values; {first, count} counts from the first number on."""
    if isinstance(value, (list, tuple)):
        if not value:
            raise InputError(f"{place} is an empty list: the grid would hold nothing")
        return [alternative for i, entry in enumerate(value) for alternative in _alternatives(entry, f"{place}[{i}]")]
    if isinstance(value, Mapping):
        if set(value) == {"first", "count"}:
            first, count = (_whole(value[key], f"{place}.{key}", low) for key, low in (("first", 0), ("count", 1)))
            _few(count, place)
            return [_Declared(number, place, {}) for number in range(first, first + count)]
        parts = [_alternatives(entry, f"{place}.{key}") for key, entry in value.items()]
        _few(math.prod(map(len, parts)), place)
        return [
            _Declared(
                {key: alternative.value for key, alternative in zip(value, chosen, strict=True)},
                place,
                {key: alternative.place for key, alternative in zip(value, chosen, strict=True)},
            )
            for chosen in itertools.product(*parts)
        ]
    return [_Declared(value, place, {})]


def _few(count: int, place: str) -> None:
    """Refuses what would fill the memory with alternatives before a problem is counted."""
    if count > _MOST_CASES:
        raise InputError(f"{place} stands for more than {_MOST_CASES} values; declare several studies")


def _target(entry: _Declared, form: str) -> float:
    """A number of the form: shares lie between the two ends; prices and leakages are not negative."""
    low, high = {"budget": (-math.inf, math.inf), "budget_share": (0.0, 1.0)}.get(form, (0.0, math.inf))
    return scalar(entry.value, entry.place, low=low, high=high)


def _joint(entry: _Declared, files: _Files) -> Config:
    value, place = entry.value, entry.place
    if isinstance(value, str):
        value = {"file": value}
    if not isinstance(value, Mapping):
        raise InputError(f"{place} must name a file or a family")
    if "file" in value:
        _only(value, ("file", "array"), place)
        hashed, table = files.take(entry, value, "joint")
        if table.ndim not in (2, 3) or not table.size:
            raise InputError(f"{place}: the array has shape {table.shape}; (S, X) or (K, S, X) is needed")
        try:
            for joint in table.reshape(-1, *table.shape[-2:]):
                joint_array(joint)
        except InputError as error:
            raise InputError(f"{place}: {error}") from error
        return {"file": value["file"], "sha256": hashed, "private": table.shape[-2], "useful": table.shape[-1]}
    family = value.get("family")
    if not isinstance(family, str) or family not in FAMILIES:
        raise InputError(f"{entry.at('family')} is unknown; known: {', '.join(FAMILIES)}")
    parameters = FAMILIES[family][1]
    _only(value, ("family", "private", "useful", "seed", *parameters), place)
    sizes = {name: _size(value.get(name), entry.at(name)) for name in ("private", "useful")}
    seed = _whole(value.get("seed", 0), entry.at("seed"), 0)
    numbers = {
        name: scalar(value.get(name, default), entry.at(name), low=low, high=high)
        for name, (default, low, high) in parameters.items()
    }
    return {"family": family, **sizes, "seed": seed, **numbers}


def _distortion(entry: _Declared, useful: int, files: _Files) -> Config:
    value, place = entry.value, entry.place
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping):
        raise InputError(f"{place} must be a name or a table")
    if "file" in value:
        _only(value, ("file", "array"), place)
        hashed, table = files.take(entry, value, "distortion")
        if table.ndim != 2 or table.shape[0] != useful or not table.size:
            raise InputError(f"{place}: the array has shape {table.shape}; the joint needs ({useful}, Y)")
        try:
            as_distortion(table)
        except InputError as error:
            raise InputError(f"{place}: {error}") from error
        return {"file": value["file"], "sha256": hashed, "released": table.shape[1]}
    name = value.get("name")
    if name not in (*DISTORTIONS, "uniform"):
        raise InputError(f"{place}.name is unknown; known: {', '.join((*DISTORTIONS, 'uniform'))}")
    _only(value, ("name", "released", *(("seed",) if name == "uniform" else ())), place)
    released = _size(value.get("released", useful), entry.at("released"))
    seed = {"seed": _whole(value.get("seed", 0), entry.at("seed"), 0)} if name == "uniform" else {}
    return {"name": name, "released": released, **seed}


def _leakage(entry: _Declared) -> Config:
    value, place = entry.value, entry.place
    config = {"name": value} if isinstance(value, str) else value
    if not isinstance(config, Mapping):
        raise InputError(f"{place} must be a name or a table")
    _only(config, _MEASURE, place)
    made: Config = {key: float(setting) if type(setting) is int else setting for key, setting in config.items()}
    if "name" not in made:
        raise InputError(f"{place} has no name")
    try:
        by_name(**made)
    except (InputError, TypeError) as error:
        raise InputError(f"{place}: {error}") from error
    return {key: INFINITE if setting == math.inf else setting for key, setting in made.items()}


def _solver(entry: _Declared) -> str:
    from jaxpriv.solving.choice import SOLVER_NAMES

    if not isinstance(entry.value, str) or entry.value not in SOLVER_NAMES:
        raise InputError(f"{entry.place} is unknown; known: {', '.join(SOLVER_NAMES)}")
    return entry.value


def _steps(value: object, place: str) -> int | None:
    return None if value == 0 else _whole(value, place, 1)


def _whole(value: object, place: str, low: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value < 2**53:
        raise InputError(f"{place} must be a whole number >= {low}")
    return value


def _size(value: object, place: str) -> int:
    if (number := _whole(value, place, 1)) > _MOST_SYMBOLS:
        raise InputError(f"{place} is more than {_MOST_SYMBOLS} symbols")
    return number


def _text(value: object, place: str) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise InputError(f"{place} must be a string without null characters")
    return value


def _only(value: Mapping[str, object], allowed: tuple[str, ...], place: str) -> None:
    for key in value:
        if key not in allowed:
            raise InputError(f"{place} has an unknown key {key!r}; known: {', '.join(allowed)}")


def _refuse_twins(cases: list[Config]) -> None:
    """Every problem once: two equal rows would be computed twice."""
    seen: dict[str, int] = {}
    for i, case in enumerate(cases):
        first = seen.setdefault(digest(case), i)
        if first != i:
            raise InputError(f"study declares the same problem twice, as numbers {first} and {i}; remove one of them")
