"""A thousand changed designs, audits, receipts and released files, all refused; `fit`, killed at any time."""

import io
import json
import random
import zipfile
from pathlib import Path

import pytest

from jaxpriv.errors import InputError, IntegrityError
from jaxpriv.release import release
from jaxpriv.verifier import verify
from tests.cases import thorough
from tests.release.conftest import digest, packed, resealed, saved, unpacked, write

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def finished(tmp_path_factory, fitted, table):
    """The files of a finished release, by name."""
    folder = tmp_path_factory.mktemp("finished")
    write(folder / "records.csv", table)
    saved(fitted, folder)
    release(folder / "records.csv", fitted.mechanism, folder / "released.csv", folder / "receipt.json")
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "records.csv"}


def bits(data, rng):
    """One to three flipped bits."""
    changed = bytearray(data)
    for place in rng.sample(range(8 * len(data)), rng.randint(1, 3)):
        changed[place // 8] ^= 1 << (place % 8)
    return bytes(changed)


def cut(data, rng):
    """A part is missing, or occurs twice."""
    first, last = sorted(rng.sample(range(len(data) + 1), 2))
    return data[:first] + data[last:] if rng.random() < 0.5 else data[:last] + data[first:]


def trailing(data, rng):
    """Bytes before or behind."""
    extra = rng.choice([b"\0", b"\n", b"PK", b" ", b"x" * 100, data[:50]])
    return data + extra if rng.random() < 0.7 else extra + data


def swapped_words(data, rng):
    """Two stretches of eight bytes exchanged: entries of arrays, letters of texts, rows of a table."""
    for _ in range(1000):
        first, second = sorted(8 * place for place in rng.sample(range(len(data) // 8), 2))
        one, two = data[first : first + 8], data[second : second + 8]
        if one != two:
            return data[:first] + two + data[first + 8 : second] + one + data[second + 8 :]
    raise AssertionError("all words are equal")


def another_zip(data, rng):
    """The same members in another archive: compressed, dated, in another order, one twice, one more."""
    members = list(unpacked(data).items())
    kind = rng.randrange(5)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED if kind == 0 else zipfile.ZIP_STORED) as file:
        if kind == 1:
            members = members[::-1]
        for name, content in members:
            file.writestr(zipfile.ZipInfo(name, (1980 + rng.randrange(2, 60), 1, 1, 0, 0, 0)), content)
        if kind == 2:
            with pytest.warns(UserWarning, match="Duplicate"):
                file.writestr(*rng.choice(members))
        if kind == 3:
            file.writestr(rng.choice(["more.npy", "../x.npy", "more.json", "x.pkl"]), b"1")
        if kind == 4:
            file.comment = b"x"
    return stream.getvalue()


def edited(data, rng):
    """One value of the JSON edited and sealed again: the hash in the record is right."""
    return resealed(data, lambda record: edit(record, rng))


def edit(record, rng):
    places = []

    def walk(value, path):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(inner, (dict, list)) and inner:
                walk(inner, (*path, key))
            else:
                places.append((*path, key))

    walk(record, ())
    *path, last = rng.choice([place for place in places if place != ("format",)])
    part = record
    for key in path:
        part = part[key]
    old = part[last]
    part[last] = rng.choice([value for value in ("0.000001", -1, 10**40, None, True, [], "", "x") if value != old])


def other_json(data, rng):
    """The same record, written otherwise: order, blanks, a key twice, NaN, numbers with a point."""
    members = unpacked(data) if data[:2] == b"PK" else {"x.json": data}
    name = next(name for name in members if name.endswith(".json"))
    text = members[name].decode()
    record = json.loads(text)
    key = rng.choice(list(record))
    changed = rng.choice(
        [
            json.dumps(dict(reversed(record.items())), separators=(",", ":")) + "\n",
            json.dumps(record, sort_keys=True) + "\n",
            text[:-2] + f',"{key}":{json.dumps(record[key])}' + "}\n",
            json.dumps({**record, key: float("nan")}, sort_keys=True, separators=(",", ":")) + "\n",
            text.replace('"version":1', '"version":1.0'),
            text.replace('"version":1', '"version":' + "1" * 5000),
            text[:-1],
            "\ufeff" + text,
        ]
    ).encode()
    return packed({**members, name: changed}) if data[:2] == b"PK" else changed


def swapped_rows(data, rng):
    """Two different lines exchanged, one removed, or one twice."""
    lines = data.splitlines(keepends=True)
    first, second = rng.sample(range(1, len(lines)), 2)
    while lines[first] == lines[second]:
        first, second = rng.sample(range(1, len(lines)), 2)
    kind = rng.randrange(3)
    if kind == 0:
        lines[first], lines[second] = lines[second], lines[first]
    elif kind == 1:
        del lines[first]
    else:
        lines.insert(second, lines[first])
    return b"".join(lines)


ANY = (bits, cut, trailing, swapped_words)
KINDS = {
    "design.zip": (*ANY, another_zip, edited, other_json),
    "audit.zip": (*ANY, another_zip, edited, other_json),
    "receipt.json": (*ANY, edited, other_json),
    "released.csv": (*ANY, swapped_rows),
}


@pytest.mark.parametrize("number", [60, *thorough(1000)])
def test_no_mutation_is_accepted(finished, tmp_path, number):
    """The auditor's check, with the hash of the design known from where it was published."""
    rng = random.Random(number)
    for name, data in finished.items():
        (tmp_path / name).write_bytes(data)
    published = digest(finished["design.zip"])

    def check():
        found = verify(
            tmp_path / "receipt.json",
            design=tmp_path / "design.zip",
            private=tmp_path / "audit.zip",
            released=tmp_path / "released.csv",
        )
        return found.design == published

    assert check()
    accepted = []
    for step in range(number):
        name = rng.choice(list(KINDS))
        kind = rng.choice(KINDS[name])
        changed = kind(finished[name], rng)
        if changed == finished[name]:
            continue
        (tmp_path / name).write_bytes(changed)
        try:
            if check():
                accepted.append((step, name, kind.__name__, changed))
        except (IntegrityError, InputError):
            pass
        (tmp_path / name).write_bytes(finished[name])
    assert not accepted, [(step, name, kind) for step, name, kind, _ in accepted]
