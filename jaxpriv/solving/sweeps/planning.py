"""How a study is computed: cases of one kind in chunks, one file each, and what that is predicted to take.

A chunk holds cases that share one compiled program (or none, where they are solved one by one), ordered by difficulty,
because members of a batch that take as many steps end together. The plan follows from the study alone and is kept with
its results: a run that is continued, elsewhere or with another version of the library, has the same chunks.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from jaxpriv.errors import JaxprivError
from jaxpriv.solvers import Goal
from jaxpriv.solving.kinds import COMPILE, STEPS, Kind, kind_of, merged_kinds
from jaxpriv.solving.loops import step_seconds
from jaxpriv.solving.sweeps.declaration import FORMAT, Config, Study, digest

# A chunk is predicted to take about so many seconds, and has at most the rows that the study says.
_SECONDS = 3.0
# Seconds that a problem of a batch takes beside its steps, most of them for its certificate; and that one takes by
# itself beside its steps where it is of no kind. Measured on one core of a server of 2024.
_CERTIFY, _ALONE = 6e-4, 1.5e-2
# Memory of a process before it solves anything, in bytes.
_PROCESS = 4.5e8


@dataclass(frozen=True)
class Chunk:
    """Cases that are computed together and kept in one file.

    Attributes:
        positions: of the cases in the study.
        width: lanes of the batches, 0 where the cases are solved one by one.
        bucket: the sizes that batches are padded to, empty where there are none.
        key: SHA-256 of the configurations, the width and the bucket, which names the file.
    """

    positions: tuple[int, ...]
    width: int
    bucket: tuple[int, ...]
    key: str


@dataclass(frozen=True)
class Group:
    """One line of a plan: the cases of one kind, with what computing them is predicted to take."""

    what: str
    cases: int
    chunks: int
    width: int
    seconds: float
    bytes: float


@dataclass(frozen=True)
class Plan:
    """What a sweep will do.

    Attributes:
        chunks: in the order in which they are computed.
        groups: the kinds of problems, with the seconds and bytes that are predicted for one core.
            Those of chunks that were known are not among them.
        refused: cases that cannot be solved, by position, and why; nothing is computed for them.
    """

    chunks: tuple[Chunk, ...]
    groups: tuple[Group, ...]
    refused: dict[int, str]

    @property
    def seconds(self) -> float:
        """Predicted seconds on one core, compiling included."""
        return sum(group.seconds for group in self.groups)

    @property
    def bytes(self) -> float:
        """Predicted memory of one process."""
        return _PROCESS + max((group.bytes for group in self.groups), default=0.0)


def plan_of(study: Study, earlier: tuple[Chunk, ...] = ()) -> Plan:
    """The plan of a study, after chunks that are `known` and stay as they are.

    One case of each kind is built; whether it can be solved is decided for all of them.
    """
    planned = {i for chunk in earlier for i in chunk.positions}
    alike: defaultdict[Hashable, list[int]] = defaultdict(list)
    for i, case in enumerate(study.cases):
        if i in planned:
            continue
        alike[_alike(case)].append(i)
    chunks = list(earlier)
    refused: dict[int, str] = {}
    kinds: defaultdict[object, dict[Kind, list[int]]] = defaultdict(dict)  # by what they are certified to
    parts: list[tuple[Kind | None, list[int]]] = []
    for places in alike.values():
        case = study.cases[places[0]]
        try:
            kind = kind_of(study.problem(places[0]), case["solver"], goal_of(case))
        except JaxprivError as error:
            refused.update({i: f"{type(error).__name__}: {error}" for i in places})
            continue
        if kind is None:
            parts.append((None, places))
        else:
            settings = (case["tol"], case["rtol"], case["max_steps"])
            kinds[settings].setdefault(kind, []).extend(places)
    for own_kinds in kinds.values():
        parts += merged_kinds(own_kinds).items()
    groups = []
    for kind, places in parts:
        places.sort(key=lambda i: (study.cases[i]["target"], i))
        width = 0 if kind is None else kind.width(len(places))
        if width > study.chunk_rows:  # the next power of two below
            width = 1 << (study.chunk_rows.bit_length() - 1)
        case = study.cases[places[0]]
        each = _seconds_of_one(case, kind, width, len(places))
        size = max(1, min(study.chunk_rows, int(_SECONDS / each)))
        if width:
            size = max(1, size // width) * width
        bucket = tuple(kind.bucket) if kind is not None and width else ()
        of_group = []
        for start in range(0, len(places), size):
            part = tuple(places[start : start + size])
            of_group.append(Chunk(part, width, bucket, chunk_key((study.cases[i] for i in part), width, bucket)))
        chunks += of_group
        compiling = COMPILE if width else 0.0
        memory = 0.0 if kind is None else max(width or kind.width_uncompiled(size), 1) * kind.lane_bytes
        groups.append(
            Group(_described(case, kind), len(places), len(of_group), width, compiling + each * len(places), memory)
        )
    return Plan(tuple(chunks), tuple(groups), refused)


def goal_of(case: Config) -> Goal:
    """The tolerances of a case."""
    return Goal(case["tol"], case["rtol"])


def chunk_key(cases: Iterable[Config], width: int, bucket: tuple[int, ...]) -> str:
    """The name of a chunk: the SHA-256 of all that its rows depend on."""
    return digest({"format": FORMAT, "width": width, "bucket": bucket, "cases": list(cases)})


def _alike(case: Config) -> Hashable:
    """What decides by itself how a case is computed: all but seeds, targets and parameters of families."""
    joint = case["joint"]
    shape = [joint.get(name) for name in ("private", "useful", "sha256", "family")]
    rest = [case[name] for name in ("form", "solver", "tol", "rtol", "max_steps")]
    return (*shape, case["distortion"]["released"], case["target"] < 0, *case["leakage"].items(), *rest)


def _seconds_of_one(case: Config, kind: Kind | None, width: int, count: int) -> float:
    """About what one of `count` cases takes on one core, without compiling."""
    if kind is not None:
        return _CERTIFY + (kind.lane_seconds if width else kind.uncompiled_seconds(count) / count)
    joint = case["joint"]
    step = step_seconds(None, joint["private"], joint["useful"], case["distortion"]["released"], 1, False)
    return _ALONE + 10 * STEPS * step


def _described(case: Config, kind: Kind | None) -> str:
    leakage = ":".join(str(value) for value in case["leakage"].values())
    joint = case["joint"]
    sizes = (joint["private"], joint["useful"], case["distortion"]["released"]) if kind is None else kind.bucket
    how = "one by one" if kind is None else "interior-point"
    return f"{leakage}, {case['form']}, {'x'.join(map(str, sizes))}, {how}"
