"""The report: one page without the network, numbers that are right, and, where there is a browser, no error in it."""

import base64
import hashlib
import json
import os
import re
import select
import shutil
import stat
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from html.parser import HTMLParser

import numpy as np
import pytest

from jaxpriv.errors import InputError, IntegrityError
from jaxpriv.release import fit, fit_groups
from jaxpriv.release.report import report
from jaxpriv.release.report.page import (
    HeatMap,
    _down,
    _up,
    heat_maps,
    mapping_picture,
    numbers,
)
from jaxpriv.statistics.tables import Quantiles
from jaxpriv.verifier.logarithms import percent
from tests.cases import raised, refused
from tests.cli.conftest import printed, run
from tests.release.conftest import COLUMNS, every, excluding, fitted, people, saved, table  # noqa: F401 - fixtures

_EMPTY = {"meta", "input"}


class Checked(HTMLParser):
    """Tags close in the order in which they open, identities are different, and what there is of links is noted."""

    def __init__(self, page: str):
        super().__init__()
        self.open, self.identities, self.links, self.words = [], [], [], []
        self.pictures, self.described = [], []
        self.feed(page)
        self.close()
        assert self.open == []
        assert len(set(self.identities)) == len(self.identities)
        assert self.pictures
        assert set(self.pictures) <= set(self.described)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.identities += [given["id"]] if "id" in given else []
        self.links += [value for name, value in attrs if name in ("href", "src", "srcset", "action")]
        assert "style" not in given  # the policy of the page admits no style of an element
        if tag == "svg" and given.get("aria-hidden") != "true":  # bars beside the numbers that they show
            assert given["role"] == "img"
            self.pictures += [given["aria-labelledby"], given["aria-describedby"]]
        self.described += [given.get("id")] if tag in ("title", "desc") else []
        if tag not in _EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def data_of(page, identity):
    """The JSON that a page holds for its scripts."""
    return json.loads(re.search(rf'id="{identity}">(.*?)</script>', page, re.DOTALL)[1])


@pytest.mark.parametrize("problem", ["budget", "leakage-budget", "disclosure", "watchdog"])
def test_a_page_for_every_kind_of_design(every, problem):  # noqa: F811
    one = every[problem]
    page = report(one.mechanism, one.evidence)
    checked = Checked(page)
    assert checked.links == []
    assert not re.search(r"https?://|@import|url\(", page)
    assert one.mechanism.sha256 in page
    assert "What it does not protect against" in checked.text
    assert ('id="slider-1"' in page) == (problem in ("budget", "leakage-budget"))
    public = Checked(report(one.mechanism)).text
    for text in (checked.text, public):
        assert ("What is lost" in text) == (problem != "disclosure")
    assert "For each private class" not in public
    # Of the records that were held out nothing is known without the audit.
    assert "held out" not in public
    assert "The audit of the design, with which bounds are computed, was not given" in public


def test_the_public_page_says_how_likely_each_column_is_changed(fitted):  # noqa: F811
    one = fitted.mechanism
    chances = 1 - np.einsum("xyc,xy->xc", one.useful[:, None] == one.released[None], one.matrix())
    page = report(one)
    for name, column in zip(one.codebook.useful, chances.T, strict=True):
        low, high = re.search(rf"<td>{name}</td><td>([\d.]+) %</td><td>([\d.]+) %", page).groups()
        assert float(low) <= 100 * column.min() <= 100 * column.max() <= float(high)
        assert float(low) == pytest.approx(100 * column.min(), abs=0.1 + 1e-9)
        assert float(high) == pytest.approx(100 * column.max(), abs=0.1 + 1e-9)


@pytest.mark.filterwarnings("ignore:Every record is released as it is")
@pytest.mark.parametrize("options", [{"split": 1.0}, {"population": True}], ids=["no split", "for a population"])
def test_a_page_without_held_out_records_says_why_it_has_no_bounds(options):
    records = people(400)
    one = fit(records, private="income", useful=["town"], leakage_budget=0.5, **options)
    assert one.evidence.held_out is None
    text = Checked(report(one.mechanism, one.evidence)).text
    assert "No records were held out from the making of the design, so this page has no bounds" in text


def test_the_evidence_of_another_design_is_refused(every):  # noqa: F811
    with raised(IntegrityError, "evidence: it is that of another mechanism"):
        report(every["budget"].mechanism, every["watchdog"].evidence)
    with raised(InputError, "evidence must be of type"):
        report(every["budget"].mechanism, every["budget"].claims)


def test_what_a_guess_gains(fitted):  # noqa: F811
    found = numbers(fitted.mechanism, fitted.evidence, 0.95)
    outputs = fitted.evidence.counts / fitted.evidence.counts.sum() @ fitted.mechanism.matrix()
    assert found.right["without"] == pytest.approx(outputs.sum(axis=1).max())
    assert found.right["with"] == pytest.approx(outputs.max(axis=0).sum())
    for s, one in enumerate(found.guesses):
        posterior = outputs[s] / outputs.sum(axis=0)
        assert (one.lowest, one.highest) == pytest.approx((posterior.min(), posterior.max()))
        assert one.mean == pytest.approx((outputs[s] / outputs[s].sum()) @ posterior)
        assert one.lowest <= one.share <= one.highest
    curve = found.curve
    place = int(np.argmin(abs(curve.points - curve.chosen[0])))
    assert curve.lower[place] - 1e-9 <= curve.chosen[1] <= curve.upper[place] + 1e-6
    assert curve.right[place] == pytest.approx(found.right["with"])
    # A guess gains nothing where the release is independent of the class, and all that X tells where it is X.
    seen = fitted.evidence.counts / fitted.evidence.counts.sum()
    assert found.right["unchanged"] == pytest.approx(seen.max(axis=0).sum())
    assert curve.right[0] == pytest.approx(seen.max(axis=0).sum())
    assert curve.right[-1] == pytest.approx(found.right["without"])
    assert (curve.right >= found.right["without"] - 1e-9).all()
    assert (np.diff(curve.upper) <= 1e-9).all()


def test_every_stop_of_the_slider_says_how_often_a_guess_is_right(fitted):  # noqa: F811
    curve = numbers(fitted.mechanism, fitted.evidence, 0.95).curve
    page = report(fitted.mechanism, fitted.evidence)
    stops = data_of(page, "data-1")
    assert len(stops) == len(curve.points)
    for (x, high, sentence), right in zip(stops, curve.right, strict=True):
        assert (x, high) in zip(curve.points, curve.upper, strict=True)
        said = re.search(r"right in at most ([\d.]+) % of the cases \(without the release ([\d.]+) %\)", sentence)
        after, before = (float(text) / 100 for text in said.groups())
        assert right <= after + 1e-12 < right + 1.1e-4
        assert before <= after


def test_a_policy_admits_the_own_style_and_scripts_alone(every):  # noqa: F811
    """Each inline text is admitted by its hash, and no source of another kind is."""
    for one in (every["budget"], every["watchdog"]):
        page = report(one.mechanism, one.evidence)
        policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
        given = dict(part.split(" ", 1) for part in policy[1].split("; "))
        for kind, pattern in (("style-src", r"<style>(.*?)</style>"), ("script-src", r"<script>(.*?)</script>")):
            texts = re.findall(pattern, page, re.DOTALL)
            hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
            assert sorted(given.pop(kind).split()) == sorted(f"'sha256-{one}'" for one in hashes)
        none = "'none'"
        assert given == {"default-src": none, "img-src": "data:", "base-uri": none, "form-action": none}
        assert page.index(policy[0]) < page.index("<style>")


def test_the_worst_case_is_not_read_as_what_holds_here(fitted):  # noqa: F811
    text = Checked(report(fitted.mechanism, fitted.evidence)).text
    assert re.search(r"Worst case over all populations.*at most\s+[\d.]+\s+times as often", text)
    assert "For the private class and the records of the design the numbers above hold." in text
    assert "need its audit, which was not given" in Checked(report(fitted.mechanism)).text


@pytest.fixture(scope="module")
def large():
    """Designs with more useful combinations than a picture has rows: of two columns, and one for numbered symbols."""
    records = people(4000)
    records["age"] = records["age"] * 2 + np.arange(4000) % 2  # 124 classes
    options = {"private": "income", "useful": ["age", "town"], "sparse": True, "split": 1.0}
    return [fit(records, **options, target_leakage=0.5), fit(records, **options, disclosure=2.0, tol=1.0)]


def test_long_labels_and_wide_letters_stay_inside_of_the_picture():
    """A label that is cut keeps its end, by which combinations of one class differ."""
    labels = ["long name " * 20 + f"{place} · {town}" for place, town in enumerate(("north", "south", "年😀"))]
    picture = mapping_picture(HeatMap("mapping", np.eye(3), labels, ["年" * 20, "年" * 19 + "a", "b"]), "1")
    left = float(re.search(r'<rect class="frame" x="(\d+)"', picture)[1])
    texts = re.findall(r'class="name"[^>]*>([^<]*)<', picture)
    assert len(set(texts)) == 6
    assert [text[-9:] for text in texts[:2]] == ["0 · north", "1 · south"]
    assert all(len(text) * 12 * 0.65 <= left for text in texts[:2])
    assert float(re.search(r'y="(\d+)"', picture)[1]) >= 20 * 12


def test_a_mapping_of_any_size_is_drawn(large):
    for one, same in zip(large, (True, False), strict=True):
        mechanism, counts = one.mechanism, one.evidence.counts
        assert len(mechanism.table) > 200
        for weights, evidence, words in (
            (np.ones(len(mechanism.table)), None, "with equal weights"),
            (counts.sum(axis=0), one.evidence, "averaged over the records of the design"),
        ):
            age, town = heat_maps(mechanism, weights)
            assert age.matrix.shape[0] == len(age.useful) <= 64
            assert town.useful == ["town: =west", "town: north", "town: south"]
            assert max(*age.matrix.shape, *town.matrix.shape) <= 64
            np.testing.assert_allclose(age.matrix.sum(axis=1), 1.0)
            assert re.fullmatch(r"age: \d+ to \d+", age.useful[0])
            # The same by hand: P(released town | town), or the first group of released numbers.
            joint = weights[:, None] * mechanism.matrix()
            for row in range(3):
                of = joint[mechanism.useful[:, 1] == row]
                if same:
                    assert town.released == ["=west", "north", "south"]
                    parts = [of[:, mechanism.released[:, 1] == code].sum() for code in range(3)]
                    np.testing.assert_allclose(town.matrix[row], np.array(parts) / of.sum())
                else:
                    assert town.matrix[row].max() < 1
            page = report(mechanism, evidence)
            checked = Checked(page)
            assert len(checked.pictures) == 4
            rows = data_of(page, "rows-1")
            assert len(rows) == len(age.useful) + 3
            for row in rows:
                assert len(row) <= 11
                assert sum(float(text[:-1].split()[-1]) for text in row) == pytest.approx(1, abs=0.02)
            assert "too many to draw" not in checked.text
            assert words in checked.text


def test_labels_are_text_and_nothing_else():
    records = people(400)
    records["town"] = np.where(records["town"] == "north", "<script>alert(1)</script>&", records["town"]).astype(object)
    one = fit(records, private="income", useful=["age", "town"], rules={"age": Quantiles(2)}, target_leakage=0.3)
    page = report(one.mechanism, one.evidence)
    assert "<script>alert" not in page
    assert "<script>alert(1)</script>&" in Checked(page).text


def test_the_command(fitted, tmp_path):  # noqa: F811
    (design, audit), out = saved(fitted, tmp_path), tmp_path / "report.html"
    for options, mode in ((["--private", audit], 0o600), ([], None)):
        out.unlink(missing_ok=True)
        printed("report", design, "--out", out, *options)
        Checked(out.read_text(encoding="utf-8"))
        assert mode is None or stat.S_IMODE(os.stat(out).st_mode) == mode
    assert run("report", audit, "--out", out).exit_code == 5
    for level in (2, 1):
        with refused("confidence"):
            report(fitted.mechanism, confidence=level)
    assert "--confidence goes with --private" in run("report", design, "--out", out, "--confidence 0.9").stderr


def test_numbers_beside_four_digits_are_rounded_against_the_design():
    """Floating-point numbers next to decimals of four digits: a quotient of them would be rounded to the decimal."""
    for near in (1.677e-9, 0.07, 1.234, 5e-5, 9.999, 123.4):
        for value in (np.nextafter(near, 0), near, np.nextafter(near, np.inf)):
            assert Fraction(_down(value)) <= Fraction(value) <= Fraction(_up(value))
    assert (_up(0.0), _down(np.inf), _up(0.25)) == ("0", "inf", "0.25")
    # 100 * 0.57 is below 57, and a bound on a share may be above one.
    shares = percent(0.57, places=2), percent(0.55, up=True, places=2), percent(1.01, up=True, places=1)
    assert shares == ("57.00 %", "55.00 %", "100.0 %")
    assert (percent(0.5715), percent(0.6345, up=True)) == ("57.15 %", "63.45 %")


def test_a_measure_of_the_worst_outcome_has_no_curve_of_the_average_and_a_bound_of_its_own():
    records = {"s": np.arange(200) % 3 % 2, "x": np.arange(200) % 5 % 3}
    designed = fit(records, private="s", useful="x", budget=0.1, form="worst")
    text = Checked(report(designed.mechanism, designed.evidence)).text
    assert "The choice" not in text
    bound = next(row.upper for row in designed.audit.rows if row.name == "max-information")
    assert re.search(rf"max-information [\d.]+ {re.escape(_up(bound))} ", text)


_LAUNCH = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)
_KEYS = {"Tab": 9, "ArrowRight": 39, "ArrowLeft": 37, "ArrowDown": 40, "End": 35, "Home": 36}


class Browser:
    """Chromium without a window, by its DevTools protocol over two pipes (messages of JSON that end with NUL)."""

    def __init__(self, path, folder):
        self.page = folder / "report.html"
        commands, self.sent = os.pipe()
        answers, results = os.pipe()
        line = [path, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        line += ["--host-resolver-rules=MAP * 0.0.0.0", f"--user-data-dir={folder / 'profile'}", "about:blank"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, str(commands), str(results), *line],
            pass_fds=(commands, results),
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(results)
        self.answers, self.rest, self.number, self.events = answers, b"", 0, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def message(self):
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.answers], [], [], 60)
            assert ready, "the browser does not answer"
            part = os.read(self.answers, 2**16)
            assert part, "the browser has ended"
            self.rest += part
        text, _, self.rest = self.rest.partition(b"\0")
        return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if hasattr(self, "session"):
            message["sessionId"] = self.session
        os.write(self.sent, json.dumps(message).encode() + b"\0")
        while True:
            found = self.message()
            if found.get("id") == self.number:
                assert "error" not in found, found
                return found["result"]
            self.events.append(found)

    def open(self, address):
        self.call("Page.navigate", url=address)
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self.message())

    def show(self, page, width=390):
        """A page in a window of this width."""
        self.page.write_text(page, encoding="utf-8")
        self.events.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=width < 500
        )
        self.open(self.page.as_uri())

    def value(self, script):
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def press(self, key):
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=_KEYS[key])

    def errors(self):
        self.value("1")  # what happened before it has been reported then
        wrong = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [event for event in self.events if event.get("method") in wrong]

    def requests(self):
        sent = [event["params"] for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [one["request"]["url"] for one in sent]

    def close(self):
        os.close(self.sent)  # the browser ends with its pipe
        os.close(self.answers)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def browser(tmp_path):
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("there is no browser (chromium) here")
    found = Browser(path, tmp_path)
    yield found
    found.close()


@pytest.mark.slow
def test_a_browser_runs_it_with_the_keyboard_at_the_width_of_a_phone(fitted, browser):  # noqa: F811
    browser.show(report(fitted.mechanism, fitted.evidence))
    assert browser.value("innerWidth") == 390
    assert browser.value("document.documentElement.scrollWidth") <= 390
    wide = "Math.max(...Array.from(document.querySelectorAll('table'), one => one.getBoundingClientRect().right))"
    assert browser.value(wide) <= 390  # no column lies outside of the picture
    said = "document.getElementById('said-1').textContent"
    first = browser.value(said)
    assert re.fullmatch(
        r"Mean distortion 0\.15.*between 0\.01\d* and 0\.01\d* nats\. .*without the release 59\.\d\d %\)\.", first
    )
    reached = []
    for _ in range(12):
        browser.press("Tab")
        at = "document.activeElement.id || document.activeElement.getAttribute('aria-label')"
        reached.append(browser.value(at))
        if reached[-1] == "slider-1":
            place = "document.getElementById('point-1').getAttribute('cx')"
            before, chosen = float(browser.value(place)), browser.value("document.activeElement.value")
            browser.press("ArrowRight")
            assert float(browser.value("document.activeElement.value")) == float(chosen) + 1
            assert float(browser.value(place)) > before
            assert browser.value(said) != first
            assert browser.value("document.activeElement.getAttribute('aria-valuetext')") == browser.value(said)
            browser.press("ArrowLeft")
            assert browser.value(said) == first
            browser.press("Home")
            assert browser.value(said).startswith("Mean distortion 0:")
        if reached[-1] == "origin-1":
            words = "document.getElementById('words-1').textContent"
            rows = [browser.value(words)]
            for _ in range(2):
                browser.press("ArrowDown")
                rows.append(browser.value(words))
            assert len(set(rows)) == 3
            likeliest = fitted.mechanism.matrix()[2].max()
            assert rows[2].startswith("Released as ")
            assert f"(probability {likeliest:.3f})" in rows[2]
            break
    names = [name for name in reached if name]
    assert names == ["Private classes", "slider-1", "Picture of the mapping", "origin-1"]
    assert browser.errors() == []
    assert {url.partition(":")[0] for url in browser.requests()} == {"file"}


@pytest.mark.slow
def test_each_group_of_a_page_has_a_slider_and_a_list_of_its_own(table, browser):  # noqa: F811
    found = fit_groups(table, private="income", groups=[["age"], ["town"]], rules=COLUMNS["rules"], budget=0.2)
    browser.show(report(found.mechanism, found.evidence))
    assert browser.value("document.documentElement.scrollWidth") <= 390
    said = [f"document.getElementById('said-{place}').textContent" for place in (1, 2)]
    before = [browser.value(one) for one in said]
    browser.value("document.getElementById('slider-2').focus()")
    browser.press("End")
    after = [browser.value(one) for one in said]
    assert after[0] == before[0]
    assert after[1] != before[1]
    assert browser.value("document.getElementById('words-2').textContent").startswith("Released as ")
    assert browser.errors() == []


@pytest.mark.slow
def test_a_browser_draws_a_large_mapping_and_runs_nothing_that_the_page_has_not(large, browser):
    page = report(large[0].mechanism)
    browser.show(page, 1280)
    assert browser.value("document.querySelectorAll('svg').length") == 2
    assert browser.value("getComputedStyle(document.querySelector('.cell')).fill") != "rgb(0, 0, 0)"
    reached = []
    for _ in range(3):
        browser.press("Tab")
        reached.append(browser.value("document.activeElement.id || document.activeElement.getAttribute('aria-label')"))
    assert reached == ["Picture of the mapping of age", "Picture of the mapping of town", "origin-1"]
    browser.press("End")
    words = browser.value("document.getElementById('words-1').textContent")
    assert re.fullmatch(r"Released as (.*\(probability 0\.\d+\))+\.", words)
    assert browser.errors() == []
    browser.show(page.replace("</main>", "</main><script>document.title='foreign'</script>"), 1280)
    assert browser.value("document.title") == "Privacy report"
    assert "Content Security Policy" in json.dumps(browser.errors())


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
def test_every_kind_of_design_fits_the_window(every, browser, width):  # noqa: F811
    """No page is wider than its window, no picture has an empty half, no error is reported."""
    for problem, one in every.items():
        browser.show(report(one.mechanism, one.evidence), width)
        assert browser.value("document.documentElement.scrollWidth") <= width
        frame = "document.querySelector('.frame').getBoundingClientRect()"
        picture = "document.querySelector('.frame').ownerSVGElement.getBoundingClientRect()"
        empty = browser.value(f"{frame}.top - {picture}.top")
        assert empty <= (0.15 if problem == "disclosure" else 0.8) * browser.value(f"{picture}.height")
        assert browser.errors() == []


def test_sentences_of_each_kind_of_design(every):  # noqa: F811
    """The sentence about the target states what the design does."""
    texts = {name: Checked(report(one.mechanism, one.evidence)).text for name, one in every.items()}
    assert "What is released is a number." in texts["disclosure"]
    assert all("What is released is a number." not in texts[name] for name in set(texts) - {"disclosure"})
    assert "becomes more than 1.35 times more or less likely" in texts["watchdog"]
    assert "to reveal at most 0.005 nats (mutual-information)" in texts["leakage-budget"]
    assert "No other mapping does better than this one by more than" in texts["disclosure"]
    assert "No other mapping to the same combinations does better than" in texts["budget"]
    assert "No other mapping" not in texts["watchdog"]  # nothing is known of better ones
    outputs = (
        every["budget"].evidence.counts @ every["budget"].mechanism.matrix() / every["budget"].evidence.counts.sum()
    )
    before, after = (
        float(re.search(rf"([\d.]+) %\s+{words}", texts["budget"])[1]) / 100
        for words in ("of the cases without the release", "with it")
    )
    assert before <= outputs.sum(axis=1).max() < before + 1e-4
    assert after - 1e-4 < outputs.max(axis=0).sum() <= after


def test_no_label_ends_the_data_of_the_page():
    """A label that would end a script stays text, there and in the list of combinations."""
    label = "</script><b>"
    found = fit({"s": np.arange(40) % 2, "x": [label, "b", "c", "c"] * 10}, private="s", useful="x", budget=0.2)
    page = report(found.mechanism)
    assert label in Checked(page).text
    data = re.search(r'<script type="application/json" id="rows-1">(.*?)</script>', page, re.DOTALL)
    assert "<" not in data[1]
    rows = json.loads(data[1])
    assert [len(row) for row in rows] == (found.mechanism.matrix() >= 0.005).sum(axis=1).tolist()
    assert any(label in text for row in rows for text in row)


def test_a_gap_that_is_infinite_is_not_stated_as_nothing(excluding):  # noqa: F811
    page = Checked(report(*excluding)).text
    assert "by more than inf nats" in page
    assert "by more than 0 nats" not in page


@pytest.mark.parametrize("name", ["budget", "watchdog"])
def test_a_target_beyond_every_power_has_a_page(every, name):  # noqa: F811
    """A mean squared distance of a thousand is a target like others: e^1000 was computed for it."""
    mechanism = every[name].mechanism
    large = replace(mechanism, asked=replace(mechanism.asked, target=1000.0))
    assert ("1000" if name == "budget" else "inf") in Checked(report(large)).text
