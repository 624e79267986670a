"""Sealed records whose inner values are of another type, resealed: refused by every reader, without a traceback."""

import json
import shutil

import numpy as np
import pytest

from jaxpriv.errors import InputError, IntegrityError, JaxprivError
from jaxpriv.release import Evidence, Mechanism, fit, release
from jaxpriv.release.ledger import Ledger
from jaxpriv.statistics.tables import Categories, Codebook, Edges
from jaxpriv.verifier import __main__ as command, archive, read_audit, read_design, read_receipt, verify
from tests.cli.conftest import refused, run
from tests.release.conftest import digest, flipped, resealed, saved, unpacked, write

# One value of each type of JSON, and texts that are no number, no label and no hash.
VALUES = (None, True, 0, 7, -1, 10**40, "", "x", "nan", "1e999", [], ["x"], [None], {}, {"x": 1})


@pytest.fixture(scope="module")
def files(tmp_path_factory, fitted, table):
    """Every sealed file of a release."""
    folder = tmp_path_factory.mktemp("records")
    write(folder / "records.csv", table)
    saved(fitted, folder)
    released = folder / "released.csv", folder / "receipt.json"
    options = {"ledger": folder / "ledger", "order_out": folder / "order.zip"}
    release(folder / "records.csv", fitted.mechanism, *released, **options)
    return folder


def record_of(data: bytes) -> dict:
    """The record of a file, without its hash."""
    content = next(iter(unpacked(data).values())) if data[:2] == b"PK" else data.partition(b"\n")[0]
    record = json.loads(content)
    del record["sha256"]
    return record


def places(value, path=()):
    """The path of every inner value."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(inner, (dict, list)):
            yield from places(inner, (*path, key))


def part_of(record, path):
    for key in path:
        record = record[key]
    return record


def edited(data: bytes, path, value) -> bytes:
    """The file with another value at the path of its record."""
    return resealed(data, lambda record: part_of(record, path[:-1]).__setitem__(path[-1], value))


READERS = {
    "design.zip": lambda data, path, files: (read_design(data, "design"), Mechanism.from_bytes(data)),
    "audit.zip": lambda data, path, files: read_audit(
        data, read_design((files / "design.zip").read_bytes(), "design"), "audit"
    ),
    "receipt.json": lambda data, path, files: read_receipt(data, "receipt"),
    "ledger": lambda data, path, files: (path.write_bytes(data), Ledger.load(path)),
}


@pytest.mark.parametrize("name", READERS)
def test_no_value_of_another_type_is_accepted(files, tmp_path, name):
    data = (files / name).read_bytes()
    record, tried = record_of(data), 0
    for path in places(record):
        if path[0] == "members" and len(path) > 1:
            continue  # hashes, which are compared with the arrays
        before = part_of(record, path)
        for value in VALUES:
            if type(value) is type(before):
                continue
            tried += 1
            named = before is None and isinstance(value, (str, list))  # a rule may have names, other and missing
            with pytest.raises(JaxprivError if named else IntegrityError):
                READERS[name](edited(data, path, value), tmp_path / name, files)
    assert tried > 20


# Files without a record that is edited above: their readers know them by a hash.
HASHED = {"released.csv": "released", "order.zip": "order"}


def verified(data, path, files):
    """Everything of the release, with this file in place of its own."""
    path.write_bytes(data)
    names = {"design": "design.zip", "released": "released.csv", "records": "records.csv", "order": "order.zip"}
    verify(files / "receipt.json", **{key: files / name for key, name in names.items()} | {HASHED[path.name]: path})


@pytest.mark.usefixtures("surely")
@pytest.mark.parametrize("name", [*READERS, *HASHED])
def test_no_flipped_bit_is_accepted(files, tmp_path, name):
    read, data = READERS.get(name, verified), (files / name).read_bytes()
    read(data, tmp_path / name, files)
    for changed in flipped(data, 60):
        with pytest.raises((IntegrityError, InputError) if name == "receipt.json" else IntegrityError):
            read(changed, tmp_path / name, files)


@pytest.mark.parametrize("name", READERS)
def test_no_command_shows_a_traceback(files, tmp_path, name, capsys, monkeypatch):
    """Some values of each file, by the commands that read it: an exit code of its own and one line."""
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    data = (files / name).read_bytes()
    record = record_of(data)
    lines = {
        "design.zip": ("verify design.zip", "report design.zip --out page.html"),
        "audit.zip": ("verify design.zip --private audit.zip",),
        "receipt.json": ("verify receipt.json --design design.zip",),
        "ledger": ("release records.csv --design design.zip --out again.csv --receipt again.json --ledger ledger",),
    }
    every = list(places(record))
    for step, path in enumerate(every[:: max(1, len(every) // 12)]):
        values = [value for value in VALUES if type(value) is not type(part_of(record, path))]
        (tmp_path / name).write_bytes(edited(data, path, values[step % len(values)]))
        for line in lines[name]:
            refused(run(line), 5)
            if line.startswith("verify"):  # without the library
                assert command.run(line.split()[1:]) == 5
                shown = capsys.readouterr().err
                assert shown.startswith("jaxpriv: error: ")
                assert shown.count("\n") == 1
    assert not (tmp_path / "again.csv").exists()


def test_a_defect_of_the_verifier_shows_one_line_too(files, monkeypatch, capsys):
    def broken(*_, **__):
        raise KeyError("secret")

    monkeypatch.setattr(command, "verify", broken)
    assert command.run([str(files / "design.zip")]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("jaxpriv: error: internal error (KeyError)")
    assert "secret" not in shown
    assert shown.count("\n") == 1


def test_a_ledger_of_other_draws_is_refused(files, fitted, tmp_path):
    """A symbol that the design does not have, and a record that occurs twice; both with hashes that are right."""
    line, _, draws = (files / "ledger").read_bytes().partition(b"\n")
    beyond = b"".join(draws[place : place + 24] + b"\xff\x0f\0\0" for place in range(0, len(draws), 28))
    out, receipt, ledger = (tmp_path / name for name in ("a.csv", "a.json", "ledger"))
    for own in (draws[:28] * 2, beyond):
        stated = {"entries": len(own) // 28, "payload": digest(own)}
        ledger.write_bytes(resealed(line + b"\n" + own, lambda record, stated=stated: record.update(stated)))
        with pytest.raises(IntegrityError):
            release(files / "records.csv", fitted.mechanism, out, receipt, ledger=ledger)
        assert not out.exists()


RULES = {
    "edges that fall": {"edges": ["-inf", "3.0", "2.0", "inf"]},
    "edges in other digits": {"edges": ["-inf", "36.50", "56.5", "inf"]},
    "an infinite edge inside": {"edges": ["-inf", "inf", "inf"]},
    "names of other intervals": {"names": ["young", "old"]},
    "a label of two lines": {"missing": "a\nb"},
    "a blank label": {"other": " "},
}


@pytest.mark.parametrize("edit", RULES)
def test_a_rule_that_the_library_refuses_is_refused_without_it(files, edit):
    """`verify` accepts nothing that `Mechanism.load` does not."""

    def change(record):
        entry = next(one for one in record["codebook"]["useful"] if one["rule"]["kind"] == "edges")
        entry["rule"].update(RULES[edit])
        extras = [entry["rule"][name] for name in ("other", "missing") if entry["rule"][name] is not None]
        entry["labels"] = [*(entry["rule"]["names"] or entry["labels"]), *extras]

    forged = resealed((files / "design.zip").read_bytes(), change)
    for reader in (read_design, Mechanism.from_bytes):
        with pytest.raises(IntegrityError):
            reader(forged, "design")


def test_half_a_character_is_no_text(files, tmp_path):
    with pytest.raises(IntegrityError):
        read_design(edited((files / "design.zip").read_bytes(), ("released", 0, "column"), "\ud800"), "design")
    book = Codebook(("s",), ("x",), {"s": Categories(("a",)), "x": Categories(("a", "b"))})
    (tmp_path / "book.json").write_text(book.to_json().replace('"b"', '"\\ud800"'))
    with pytest.raises(IntegrityError):
        Codebook.load(tmp_path / "book.json")


# -- brackets --------------------------------------------------------------------------------------


def test_nesting_has_a_limit():
    deepest = b"[" * archive.MAX_DEPTH + b"]" * archive.MAX_DEPTH
    assert archive.strict(deepest, "record")
    for content in (b"[" + deepest + b"]", b'{"a":' * 20 + b"1" + b"}" * 20, b'["' + b"[" * 10**6):
        with pytest.raises(IntegrityError):
            archive.strict(content, "record")


@pytest.mark.filterwarnings("ignore:Every record is released as it is")
def test_many_intervals_and_labels_full_of_brackets(tmp_path):
    """Before, the brackets of seven labels such as "[18, 35)" were taken for nesting, after all the work."""
    rng = np.random.default_rng(0)
    towns = ["[" * 40, '{"a": [1, "', "\\", '"', "]]}}", "[18, 35)", "'[\\\"{"]
    table = {
        "age": rng.integers(0, 301, 4000).astype(float),
        "town": rng.choice(towns, 4000).astype(object),
        "income": rng.choice(["high]", "[low"], 4000).astype(object),
    }
    edges = Edges(range(302))
    for useful, rules in (("age", {"age": edges}), ("town", {})):
        found = fit(table, private="income", useful=useful, rules=rules, target_leakage=0.5, split=1.0, sparse=True)
        design, audit = saved(found, tmp_path)
        loaded = Mechanism.load(design)
        assert loaded.to_bytes() == found.mechanism.to_bytes()
        assert Evidence.load(audit, loaded).private_labels
        released = release(table, loaded, tmp_path / f"{useful}.csv", tmp_path / f"{useful}.json")
        assert read_receipt((tmp_path / f"{useful}.json").read_bytes(), "receipt").rows == len(released.outputs)
        assert len(loaded.codebook.rules[useful].labels) == (301 if useful == "age" else len(towns))
