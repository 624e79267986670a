"""Tables that no design released, with receipts of their own and right hashes: `verify` accepts none of them."""

import re
from pathlib import Path

import numpy as np
import pytest

from jaxpriv.errors import IntegrityError
from jaxpriv.release import fit, release
from jaxpriv.statistics.tables import Categories
from jaxpriv.verifier import verify
from jaxpriv.verifier.csv_text import escaped
from tests.cases import raised, refused
from tests.release.conftest import Released, csv_text, order_file, resealed, shown


class Folder(Released):
    """The files of one release; `forge` replaces the released file, with a receipt and an order that are right."""

    def __init__(self, path: Path, table, fitted, **options):
        super().__init__(path, table, fitted, **options)
        self.path, self.table, self.order = path, table, path / "order.zip"
        order = self.done.order
        self.place = np.arange(len(self.done.outputs)) if order is None else order  # the record of each row
        self.pairing = {} if order is None else {"order": self.order}
        self.reorder()

    def reorder(self) -> None:
        self.order.write_bytes(order_file(self.place, self.out.read_bytes()))

    def forge(self, content: str | bytes | list[list[str]], **fields) -> None:
        if isinstance(content, list):
            content = csv_text(content)
        super().forge(content.encode() if isinstance(content, str) else content, **fields)
        self.reorder()

    def draws(self, outputs: np.ndarray) -> None:
        """A file with these outputs of the records in place of what was drawn."""
        labels = self.mechanism.labels_of(outputs[self.place])
        cells = [list(map(shown, column)) for column in labels.values()]
        header, *rows = self.rows
        rows = [[*new, *row[len(labels) :]] for new, row in zip(zip(*cells, strict=True), rows, strict=True)]
        self.forge([header, *rows])

    def verify(self, records: bool = True, **pairing):
        return super().verify(**({"records": self.records, **(pairing or self.pairing)} if records else {}))


@pytest.fixture
def folder(tmp_path, table, fitted) -> Folder:
    return Folder(tmp_path, table, fitted)


@pytest.fixture
def keeping(tmp_path, table, fitted) -> Folder:
    """A release that keeps a note and a number of every record."""
    more = {**table, "note": np.arange(1200) // 2 % 3, "number": np.arange(1200)}
    return Folder(tmp_path, more, fitted, keep=["note", "number"])


# -- columns ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["income", "Income", " income", "ｉｎｃｏｍｅ", "age", "town", "AGE"])
def test_a_private_or_useful_column_cannot_be_kept(folder, name):
    rows = [[*row, value] for row, value in zip(folder.rows, [name, *folder.table["income"]], strict=True)]
    folder.forge(rows, kept=[name])
    for records in (True, False):
        with raised(IntegrityError, "column"):
            folder.verify(records)
    more = {**folder.table, name: folder.table["income"]}
    with refused("keep"):
        release(more, folder.mechanism, folder.path / "2.csv", folder.path / "2.json", keep=[name])


def test_a_raw_useful_column_beside_numbered_outputs_cannot_be_kept(tmp_path, table, every):
    folder = Folder(tmp_path, table, every["disclosure"])
    assert "age" not in folder.rows[0]
    rows = [[*row, str(value)] for row, value in zip(folder.rows, ["age", *table["age"]], strict=True)]
    folder.forge(rows, kept=["age"])
    with raised(IntegrityError, "released in another form"):
        folder.verify(records=False)


def test_a_further_column_needs_a_receipt(folder):
    rows = [[*row, str(value)] for row, value in zip(folder.rows, ["note", *folder.table["income"]], strict=True)]
    folder.forge(rows)
    for options in ({"design": folder.design}, {}):
        with raised(IntegrityError, "other columns"):
            verify(folder.receipt, released=folder.out, **options)
    with raised(IntegrityError, "other columns"):
        verify(folder.design, released=folder.out)


@pytest.mark.usefixtures("surely")
def test_every_kept_column_is_stated(keeping):
    for options in ({"design": keeping.design, "records": keeping.records}, {"design": keeping.design}, {}):
        found = verify(keeping.receipt, released=keeping.out, **options)
        assert found.kept == ("note", "number")
        assert found.record["kept"] == ["note", "number"]
        assert "kept as they were, no design protects them: 'note', 'number'" in found.text
    assert verify(keeping.receipt).kept == ("note", "number")
    keeping.forge(keeping.out.read_bytes(), kept=["note", "note"])
    with raised(IntegrityError, "twice"):
        keeping.verify(records=False)


@pytest.mark.usefixtures("surely")
def test_kept_columns_are_those_of_the_records(keeping):
    secret = (keeping.table["income"] == "high").astype(int)[keeping.place]
    header, *rows = keeping.rows
    numbers = [row[3] for row in rows]

    def put(place, values):
        """Other values of one column."""
        keeping.forge(
            [header, *([*row[:place], value, *row[place + 1 :]] for row, value in zip(rows, values, strict=True))]
        )

    for place, values in (
        (2, secret.astype(str)),
        # Two forms of one number: which one is chosen says what is private.
        (3, [f"{number}.0" if one else number for number, one in zip(numbers, secret, strict=True)]),
        (2, [f"0{row[2]}" if one else row[2] for row, one in zip(rows, secret, strict=True)]),
    ):
        put(place, values)
        assert keeping.verify(records=False).rows == 1200
        with raised(IntegrityError, rf"row \d+ \(from 0\): the kept column '{header[place]}' is not that"):
            keeping.verify()
        with raised(IntegrityError, rf"the kept column '{header[place]}' is not that"):
            verify(keeping.receipt, design=keeping.design, released=keeping.out, records=keeping.records)
    # The same numbers as a frame of floats has them, in all rows.
    put(3, [f"{number}.0" for number in numbers])
    assert keeping.verify().rows == 1200
    assert keeping.verify(identity=["number"]).paired == "id"
    # The notes of the records, at others of them.
    notes = np.array([row[2] for row in rows], dtype=object)
    notes[np.argsort(secret, kind="stable")] = np.sort(notes)
    put(2, notes)
    for pairing in ({"order": keeping.order}, {"identity": ["number"]}, {"identity": []}):
        with raised(IntegrityError, r"the kept column 'note' is not that|do not go together"):
            keeping.verify(**pairing)
    renamed = keeping.out.read_text().replace("note", "memo", 1)
    keeping.forge(renamed, kept=["memo", "number"])
    with raised(IntegrityError, "'memo' is not in the records"):
        keeping.verify()


def test_a_kept_column_that_is_the_private_one_in_other_words_is_refused(tmp_path, table, fitted):
    coded = {**table, "rank": np.where(table["income"] == "high", "A", "B").astype(object)}
    folder = Folder(tmp_path, coded, fitted, keep=["rank"])
    for pairing in ({"order": folder.order}, {"identity": []}):
        with raised(IntegrityError, "'rank' is column 'income' in other words"):
            folder.verify(**pairing)


# -- one form --------------------------------------------------------------------------------------


FORMS = {
    "quotes": lambda line, bit: (re.sub("[^,]*$", r'"\g<0>"', line, count=1) if bit else line) + "\n",
    "line ends": lambda line, bit: line + ("\r\n" if bit else "\n"),
    "carriage returns": lambda line, bit: line + ("\r" if bit else "\n"),
    "a mark at the start": lambda line, bit: line.replace("age,town", "\ufeffage,town") + "\n",
    "header": lambda line, bit: line.replace("town", '"town"') + "\n",
    "no end": lambda line, bit: line + "\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_what_quotes_and_line_ends_could_tell_is_refused(folder, form):
    lines = folder.out.read_text().splitlines()
    secret = [False, *(folder.table["income"] == "high")[folder.place]]
    assert not any(line.endswith('"') for line in lines)
    content = "".join(map(FORMS[form], lines, secret))
    assert content != folder.out.read_text() or form == "no end"
    folder.forge(content[:-1] if form == "no end" else content)
    for check in (
        lambda: folder.verify(records=False),
        folder.verify,
        lambda: verify(folder.receipt, released=folder.out),
        lambda: verify(folder.design, released=folder.out),
    ):
        with pytest.raises(IntegrityError):
            check()


def test_a_receipt_that_states_another_kind_of_file_is_refused(folder):
    receipt = folder.receipt.read_bytes()
    folder.receipt.write_bytes(resealed(receipt, lambda record: record["released"].update(format="parquet")))
    with raised(IntegrityError, "no Parquet file"):
        folder.verify(records=False)
    for data in (
        b"PAR1",
        b"PAR1" + bytes(4),
        b"PAR1" + folder.out.read_bytes() + b"PAR1",
        b"PAR1" + bytes(8) + b"PAR1",
    ):
        folder.forge(data)
        with raised(IntegrityError, "no Parquet file"):
            verify(folder.receipt, released=folder.out)


def test_a_file_without_records_is_refused(folder):
    folder.forge(folder.out.read_text().splitlines(keepends=True)[0])
    folder.records.write_text("age,town,income\n")
    for check in (folder.verify, lambda: verify(folder.design, released=folder.out)):
        with raised(IntegrityError, "no records"):
            check()


AWKWARD = [
    'a "quoted" word',
    "a, b",
    "two\nlines",
    "a\rreturn",
    "\n=1+1",
    "\v=1+1",
    "\n\v =1+1",
    "\f@SUM(A1)",
    "\r+1",
    "\u200b=1+1",
    "\ufeff-1+1",
    "=1+1",
    "'=1+1",
    "''=1+1",
    "'plain",
    "＝1",
    "-5",
    "'-5",
    "\u2028=1",
    " blank",
    "",
]
# What may stand first in a cell without being computed.
COMPUTED = set("=+-@＝＋－＠\t\r\n\v\f\u200b\ufeff\u2028")


@pytest.mark.usefixtures("surely")
def test_labels_of_every_kind_are_released_in_the_one_form_and_read_back(tmp_path):
    rng = np.random.default_rng(0)
    town = rng.permutation(np.array(AWKWARD * 40, dtype=object))
    rich = rng.random(len(town)) < np.where([len(one) > 5 for one in town], 0.7, 0.3)
    table = {"=town": town, "income": np.where(rich, "high", "low").astype(object)}
    rules = {"=town": Categories(AWKWARD, tokens=())}
    one = fit(table, private="income", useful=["=town"], rules=rules, budget=0.3)
    folder = Folder(tmp_path, table, one)
    assert folder.verify().rows == len(town)
    header, *rows = folder.rows
    assert header == ["'=town"]
    assert folder.out.read_bytes() == csv_text(folder.rows).encode()  # any reader and writer has the one form
    # Which labels are drawn is by chance; one that is rare in the design may be absent.
    assert {row[0] for row in rows} <= {escaped(text) for text in AWKWARD}
    assert len({row[0] for row in rows}) > len(AWKWARD) - 4
    for (cell,) in rows:
        assert cell in ("-5", "") or cell[0] not in COMPUTED


def test_escaped_texts_stay_different():
    pieces = ["'", "=", "-", "\n", "\v", " ", "5", "a", "\t", "", "@", "\u200b"]
    texts = {"".join((a, b, c, d)) for a in pieces for b in pieces for c in pieces for d in pieces}
    assert len({escaped(text) for text in texts}) == len(texts)
    assert all(escaped(text) in (text, f"'{text}") for text in texts)
    for text in texts:
        if text.strip(" \n\v\t\u200b")[:1] in ("=", "@"):
            assert escaped(text)[0] == "'"


# -- draws -----------------------------------------------------------------------------------------


def rounded(table: np.ndarray, count: int) -> np.ndarray:
    """How often each y is released of `count` records, as near to its share as whole numbers are."""
    shares = count * table.astype(float) / 2.0**62
    found = np.floor(shares).astype(int)
    found[np.argsort(found - shares)[: count - found.sum()]] += 1
    return found


SORTED, IN_ORDER, EXACT = "sorted by the private column", "exact shares in order", "exact shares"


@pytest.mark.usefixtures("same_draws")
@pytest.mark.parametrize(
    ("problem", "forgery", "pairing"),
    [
        *((problem, SORTED, "order") for problem in ("budget", "watchdog")),
        *(
            pytest.param(problem, SORTED, "order", marks=pytest.mark.thorough)
            for problem in ("leakage-budget", "disclosure")
        ),
        ("budget", SORTED, "table"),
        ("budget", SORTED, "id"),
        ("budget", IN_ORDER, "order"),
        ("budget", IN_ORDER, "id"),
        ("budget", EXACT, "order"),
        ("watchdog", EXACT, "table"),
    ],
)
def test_draws_that_are_none_are_refused(tmp_path, table, every, problem, forgery, pairing):
    options = {"table": {"keep_order": True}, "id": {"keep": ["id"]}, "order": {}}[pairing]
    folder = Folder(tmp_path, {**table, "id": np.arange(1200)}, every[problem], **options)
    folder.pairing = {"identity": ["id"]} if pairing == "id" else folder.pairing
    symbols = folder.mechanism.symbols(folder.records)
    outputs, private = folder.mechanism.sample(symbols), table["income"] == "high"
    rng = np.random.default_rng(0)
    for x in np.unique(symbols):
        rows = np.flatnonzero(symbols == x)
        if forgery == SORTED:
            outputs[rows[np.argsort(private[rows], kind="stable")]] = np.sort(outputs[rows])
            continue
        shares = rounded(folder.mechanism.table[x], len(rows))
        outputs[rows] = np.repeat(np.arange(len(shares)), shares)
        if forgery == EXACT:
            outputs[rows] = rng.permutation(outputs[rows])
    folder.draws(outputs)
    words = "more exact" if forgery == EXACT else "depend on|more exact"
    with raised(IntegrityError, words):
        folder.verify()
    assert folder.verify(records=False).rows == 1200


@pytest.mark.parametrize("key", ["income", "id"])
def test_rows_in_an_order_that_tells_something_are_refused(tmp_path, table, every, key):
    """Honest draws whose rows are sorted, with a receipt that states a random order."""
    records = {**table, "id": np.arange(1200)}
    folder = Folder(tmp_path, records, every["leakage-budget"], keep=["id"])
    header, *rows = folder.rows
    order = np.argsort(records[key][folder.place], kind="stable")
    folder.place = folder.place[order]
    folder.forge([header, *(rows[row] for row in order)])
    for pairing in ({"order": folder.order}, {"identity": ["id"]}):
        with raised(IntegrityError, r"a random order and (depend on|follow)"):
            folder.verify(**pairing)


def test_an_order_that_names_a_record_twice_is_refused(folder):
    folder.place = np.append(folder.place[1:], folder.place[1])
    folder.reorder()
    with raised(IntegrityError, "does not hold each record once"):
        folder.verify()


@pytest.mark.usefixtures("surely")
def test_what_was_not_tested_is_said(folder):
    found = folder.verify()
    totals = folder.verify(identity=[])
    for text in (found.text, totals.text):
        assert "no test sees draws of a generator whose state somebody knows" in text
        assert "refused with probability at most 1e-06" in text
    assert totals.dependence is None
    assert "rows are not paired with records" in totals.text
    assert "depend on" not in totals.text
    assert float(found.record["dependence"]["p_value"]) > 1e-6
    lines = folder.records.read_text().splitlines()
    folder.records.write_text("".join(f"{line.rsplit(',', 1)[0]}\n" for line in lines))
    assert "whether it depends on 'income' was not tested" in folder.verify().text


@pytest.mark.usefixtures("surely")
@pytest.mark.parametrize("size", [1, 3, 10, 30])
def test_of_few_records_no_power_is_claimed(tmp_path, table, fitted, size):
    few = {name: values[:size] for name, values in table.items()}
    folder = Folder(tmp_path, few, fitted)
    symbols = folder.mechanism.symbols(folder.records)
    folder.draws(symbols)  # the useful symbols are the released ones, in the same order
    found = folder.verify()
    assert found.conformity.detectable == np.inf
    assert found.record["conformity"]["detectable"] == "inf"
    assert "with so few records it would not find in nine of ten cases that all of them were" in found.text
    assert "%" not in found.text


def test_a_nul_character_in_records_or_a_released_file_is_refused(folder):
    records = folder.records.read_bytes()
    folder.records.write_bytes(records.replace(b"north", b"nort\0", 1))
    with refused(r"line \d+: a NUL character"):
        folder.verify()
    folder.records.write_bytes(records)
    folder.forge(folder.out.read_bytes().replace(b"north", b"nort\0", 1))
    with raised(IntegrityError, r"line \d+: a NUL character"):
        folder.verify()


# -- one draw for each identity --------------------------------------------------------------------


@pytest.fixture
def repeated(table) -> dict[str, np.ndarray]:
    """Four records of each of 300 people, in two columns that identify them."""
    four = np.arange(1200) // 4
    return {**{name: values[::4][four] for name, values in table.items()}, "house": four // 3, "person": four % 3}


@pytest.mark.usefixtures("surely")
@pytest.mark.parametrize("options", [{}, {"keep_order": True}], ids=["permuted", "in order"])
def test_records_with_one_identity_are_tested_once(tmp_path, repeated, fitted, options):
    people = ["house", "person"]
    folder = Folder(tmp_path, repeated, fitted, keep=people, identity=people, **options)
    for pairing in ({**folder.pairing, "identity": people}, {"identity": people}):
        found = folder.verify(**pairing)
        assert "300 identities of 1200 records" in found.text
        assert found.paired == ("table" if options else "order" if "order" in pairing else "id")
    with raised(IntegrityError, "does not come from the design"):  # four draws in place of one
        folder.verify()
    for absent, words in (("name", "no column 'name'"), ("town", "other useful classes|was not kept")):
        with refused(words):
            folder.verify(identity=[absent])
        with refused(r"no column|other useful classes"):
            folder.verify(**folder.pairing, identity=[absent])
    folder.draws(folder.mechanism.sample(folder.mechanism.symbols(folder.records)))
    for pairing in ({**folder.pairing, "identity": people}, {"identity": people}):
        with raised(IntegrityError, r"one identity .* and two draws"):
            folder.verify(**pairing)


@pytest.mark.usefixtures("same_draws")
def test_forged_draws_are_found_among_repeated_records(tmp_path, repeated, fitted):
    folder = Folder(tmp_path, repeated, fitted, identity=["house", "person"])
    symbols = folder.mechanism.symbols(folder.records)
    folder.draws(symbols)
    with raised(IntegrityError, "does not come from the design"):
        folder.verify(**folder.pairing, identity=["house", "person"])
    with refused("'house' was not kept"):
        folder.verify(identity=["house"])
