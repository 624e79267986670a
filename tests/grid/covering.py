"""Which cells the standard run takes: every pair of values of two axes at least once, with few programs to compile.

Greedy, over cells drawn at random with a fixed seed: next comes the cell with the most pairs not yet covered for its
cost, which is small where its program is compiled already. Pairs that some answered cell holds are covered by answered
cells (first by those that ask for some leakage), the other pairs by refused ones. What the interior-point method
compiles takes seconds for every kind of measure, form, addition and shape: there a measure meets its own form, the
levels and the structures of one shape, and each class of measures (`class_of`) everything else. The complete product
is behind the marker `grid`.
"""

import functools
import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from .cells import AXES, TRACED, UNBUDGETED, Cell, measured, refusal
from .measures import MARGINALS, MEASURES

Pair = tuple[int, str, int, str]

_DRAWN = 40_000
_TRIED = 8_000  # of the drawn cells, for the next place
_COMPILED = 0.1  # the cost of a cell whose program is compiled already, of 1


def pairs(cell: Cell) -> list[Pair]:
    """The pairs of values that a cell holds."""
    return [(i, cell[i], j, cell[j]) for i, j in itertools.combinations(range(len(cell)), 2)]


_USUAL = ("dense", "zeros", "zero-mass")  # one shape after jaxpriv's reductions
# Where the measures of every class, not every measure, meet the other values; an average and a worst outcome in each.
_ALSO = (
    ("limits", "less", "host", "sibson-2", "max-gain-brier"),
    ("distortions", "more", "host", "chi-squared", "relative-entropy"),
    ("joints", "equal", "host", "gain-brier", "max-information"),
    ("private-input", "diagonal", "frontier", "kl", "max-information-hidden"),
)


# A limit on the released marginal: more outputs, and inputs, of a few measures.
_MARGINAL = (
    ("total-variation", "less", "host", "mutual-information", "correct-guess"),
    ("transport", "dense", "float32", "mutual-information", "max-lift"),
    ("divergence", "zeros", "frontier", "mutual-information", "chi-squared"),
)


# Any measure inside of a transformation: one of every class, in programs that the caller compiles.
_TRANSFORMED = (
    ("jit", "leakage-budget", "nothing", "ldp"),
    ("vmap", "budget", "nothing", "total-variation"),
    ("grad", "leakage-budget", "nothing", "max-information"),
    ("vmap", "budget", "nothing", "ldp"),
    ("grad", "budget", "limits", "chi-squared"),
)


def class_of(measure: str) -> str:
    """Measures that the standard run takes for each other beside their own form, levels and usual structures."""
    reference = MEASURES[measure]
    if measure == "mutual-information":
        return measure
    return f"{'linear' if reference.linear else 'smooth'}, {'worst outcome' if reference.worst else 'average'}"


def _measured() -> Iterator[Cell]:
    """Cells whose solver is compiled for the measure: one form of every kind of measure, and `_ALSO`."""
    kinds = sorted({reference.kind for reference in MEASURES.values()})
    for name, reference in MEASURES.items():
        turn = kinds.index(reference.kind) % (2 if reference.worst or reference.logarithm else 3)
        form = ("leakage-budget", "budget", "multiplier")[0 if name in UNBUDGETED else turn]
        hybrid = ("hybrid-gradient",) if reference.kind in ("gain", "lift", "power") else ()
        rest = itertools.product(("auto", "interior-point", *hybrid), _USUAL, AXES.level, ("host", "float32"))
        yield from (Cell(solver, form, "nothing", name, *values) for solver, *values in rest)
    for also, structure, transform, *names in _ALSO:
        for name, form in itertools.product(names, ("budget", "leakage-budget")):
            if form == ("leakage-budget" if also == "distortions" or MEASURES[name].worst else "budget"):
                continue
            for level, solver in itertools.product(AXES.level, ("auto", "interior-point")):
                yield Cell(solver, form, also, name, structure, level, transform)

    for form, structure, transform, *names in _MARGINAL:
        for name, also, level in itertools.product(names, ("nothing", "limits"), AXES.level):
            yield Cell("auto", form, also, name, structure, level, transform)


def _by_caller(cell: Cell) -> bool:
    """Whether it is a program of the caller's with any measures: the covering counts it as refused."""
    return measured(cell) and cell.transform in TRACED


def _light(cell: Cell) -> bool:
    """Whether nothing is compiled for the measure."""
    return not measured(cell) or cell.solver == "linear-program" or _by_caller(cell) or refusal(cell) is not None


def program_of(cell: Cell) -> tuple[str, ...]:
    """Cells of one program share what jaxpriv compiles; of an empty tuple nothing is compiled."""
    if cell.solver == "linear-program" or _by_caller(cell) or refusal(cell) is not None:
        return ()
    shape = "usual" if cell.structure in _USUAL else cell.structure
    solver = "interior-point" if cell.solver == "auto" else cell.solver
    transform = "host" if cell.transform == "float32" else cell.transform
    return (MEASURES[cell.measure].kind, str(measured(cell)), cell.form, cell.also, shape, solver, transform)


class _Pool:
    """Cells as arrays: which pairs each holds, and the number of its program."""

    def __init__(self, cells: Sequence[Cell], rng: np.random.Generator):
        self.cells, self.rng = cells, rng
        starts = np.cumsum([0, *map(len, AXES)])
        index = [{value: i for i, value in enumerate(axis)} for axis in AXES]
        values = np.array([[index[k][value] for k, value in enumerate(cell)] for cell in cells]) + starts[:-1]
        firsts, seconds = np.triu_indices(len(AXES), 1)
        self.pairs = values[:, firsts] * starts[-1] + values[:, seconds]
        self.all_pairs = starts[-1] ** 2
        numbers = {(): 0}
        self.programs = np.array([numbers.setdefault(program_of(cell), len(numbers)) for cell in cells])

    def cover(self, covered: np.ndarray) -> list[Cell]:
        """Cells that cover every pair of the pool; `covered` (one entry for each pair) is updated."""
        wanted = np.zeros(self.all_pairs, dtype=bool)
        wanted[self.pairs] = True
        compiled = np.zeros(self.programs.max() + 1, dtype=bool)
        compiled[0] = True
        chosen = []
        while (left := np.flatnonzero(wanted & ~covered)).size:
            tried = (
                self.rng.choice(len(self.cells), min(_TRIED, len(self.cells)), replace=False)
                if left.size > 40
                else np.arange(len(self.cells))
            )
            worth = (~covered[self.pairs[tried]]).sum(axis=1) / np.where(compiled[self.programs[tried]], _COMPILED, 1.0)
            best = tried[worth.argmax()]
            if not covered[self.pairs[best]].all():
                chosen.append(self.cells[best])
                compiled[self.programs[best]] = True
                covered[self.pairs[best]] = True
        return chosen


@functools.cache
def covering() -> tuple[Cell, ...]:
    """The cells of the covering, those of one program together: every pair of values, measures by their class."""
    rng = np.random.default_rng(17)
    drawn = np.stack([rng.integers(len(axis), size=_DRAWN) for axis in AXES], axis=1)
    cells = sorted({Cell(*(axis[i] for axis, i in zip(AXES, row, strict=True))) for row in drawn})
    information = [
        cell._replace(measure="mutual-information") for cell in cells[:: len(MEASURES) // 2] if cell.also != "limits"
    ]
    cells = sorted({*information, *_measured(), *filter(_light, cells)})
    answered = [cell for cell in cells if refusal(cell) is None and not _by_caller(cell)]
    parts = (
        [cell for cell in answered if cell.level != "beyond"],
        [cell for cell in answered if cell.level == "beyond"],
        [cell for cell in cells if _by_caller(cell) or refusal(cell) is not None],
    )
    covered = np.zeros(sum(map(len, AXES)) ** 2, dtype=bool)
    # Pairs without a marginal are covered by cells without one: those with one are behind the marker.
    parts = tuple(
        [cell for cell in part if (cell.form in MARGINALS) == marked] for marked in (False, True) for part in parts
    )
    chosen = [cell for part in parts for cell in _Pool(part, rng).cover(covered)]
    return tuple(sorted(chosen, key=lambda cell: (program_of(cell), cell)))


def _compiles(cell: Cell) -> bool:
    return cell.form in MARGINALS or bool(program_of(cell)) or (_by_caller(cell) and refusal(cell) is None)


def standard() -> tuple[Cell, ...]:
    """The cells that every run of the tests takes: those without a marginal for which no solver is compiled."""
    return tuple(cell for cell in covering() if not _compiles(cell))


def compiled() -> tuple[Cell, ...]:
    """The other cells of the covering and those of `_TRANSFORMED`, seconds of compiling each."""
    transformed = [
        Cell("auto", form, also, name, structure, level, transform)
        for transform, form, also, name in _TRANSFORMED
        for structure, level in itertools.product(_USUAL, AXES.level)
    ]
    return tuple(dict.fromkeys([*filter(_compiles, covering()), *transformed]))
