"""The report: one page without the network, numbers that are right, and, where there is a browser, no error in it."""

import os
import re
import shutil
import stat
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest
from typer.testing import CliRunner

from jaxpriv.cli import app
from jaxpriv.errors import InputError
from jaxpriv.estimation.tables import Quantiles
from jaxpriv.mechanism import fit
from jaxpriv.report import report
from jaxpriv.report.numbers import numbers
from tests.mechanism.conftest import COLUMNS, every, fitted, people, table  # noqa: F401 - fixtures

_EMPTY = {"meta", "input"}


class Checked(HTMLParser):
    """Tags close in the order in which they open, identities are different, and what there is of links is noted."""

    def __init__(self, page: str):
        super().__init__()
        self.open, self.identities, self.links, self.words = [], [], [], []
        self.feed(page)
        self.close()
        assert self.open == []
        assert len(set(self.identities)) == len(self.identities)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.identities += [given["id"]] if "id" in given else []
        self.links += [value for name, value in attrs if name in ("href", "src", "srcset", "action")]
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


@pytest.mark.parametrize("problem", ["budget", "leakage-budget", "disclosure", "watchdog"])
def test_a_page_for_every_kind_of_design(every, problem):  # noqa: F811
    one = every[problem]
    page = report(one.mechanism, one.evidence)
    checked = Checked(page)
    assert checked.links == []
    assert not re.search(r"https?://|@import|url\(", page)
    assert one.mechanism.sha256 in page
    assert "What it does not protect against" in checked.text
    assert ('id="slider"' in page) == (problem in ("budget", "leakage-budget"))
    public = Checked(report(one.mechanism)).text
    assert "For each private class" not in public
    assert "No records were held out" in public


def test_what_a_guess_gains(fitted):  # noqa: F811
    found = numbers(fitted.mechanism, fitted.evidence, 0.95)
    outputs = fitted.evidence.counts / fitted.evidence.counts.sum() @ fitted.mechanism.matrix()
    assert found.right_before == pytest.approx(outputs.sum(axis=1).max())
    assert found.right_after == pytest.approx(outputs.max(axis=0).sum())
    for s, one in enumerate(found.guesses):
        posterior = outputs[s] / outputs.sum(axis=0)
        assert (one.lowest, one.highest) == pytest.approx((posterior.min(), posterior.max()))
        assert one.mean == pytest.approx((outputs[s] / outputs[s].sum()) @ posterior)
        assert one.lowest <= one.share <= one.highest
    curve = found.curve
    place = int(np.argmin(abs(curve.points - curve.chosen[0])))
    assert curve.lower[place] - 1e-9 <= curve.chosen[1] <= curve.upper[place] + 1e-6
    assert (np.diff(curve.upper[np.isfinite(curve.upper)]) <= 1e-9).all()


def test_labels_are_text_and_nothing_else():
    records = people(400)
    records["town"] = np.where(records["town"] == "north", "<script>alert(1)</script>&", records["town"]).astype(object)
    one = fit(records, private="income", useful=["age", "town"], rules={"age": Quantiles(2)}, target_leakage=0.3)
    page = report(one.mechanism, one.evidence)
    assert "<script>alert" not in page
    assert "<script>alert(1)</script>&" in Checked(page).text


def test_the_command(fitted, tmp_path):  # noqa: F811
    design, audit, out = (tmp_path / name for name in ("design.zip", "audit.zip", "report.html"))
    fitted.mechanism.save(design)
    fitted.evidence.save(audit, fitted.mechanism)
    for options, mode in ((["--private", str(audit)], 0o600), ([], None)):
        out.unlink(missing_ok=True)
        result = CliRunner().invoke(app, ["report", str(design), "--out", str(out), *options])
        assert result.exit_code == 0, result.output
        Checked(out.read_text(encoding="utf-8"))
        assert mode is None or stat.S_IMODE(os.stat(out).st_mode) == mode
    result = CliRunner().invoke(app, ["report", str(audit), "--out", str(out)])
    assert result.exit_code == 5
    with pytest.raises(InputError, match="confidence"):
        report(fitted.mechanism, fitted.evidence, confidence=2)


@pytest.mark.slow
def test_a_browser_runs_it_without_an_error(fitted, tmp_path):  # noqa: F811
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("there is no browser (chromium) here")
    path = tmp_path / "report.html"
    path.write_text(report(fitted.mechanism, fitted.evidence), encoding="utf-8")
    line = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--window-size=390,900"]
    line += ["--host-resolver-rules=MAP * 0.0.0.0", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    done = subprocess.run([*line, path.as_uri()], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0
    assert "CONSOLE" not in done.stderr
    said = re.search(r'id="said"[^>]*>([^<]*)<', done.stdout)
    assert said is not None
    assert re.fullmatch(r"Mean distortion 0\.15.*between 0\.01\d* and 0\.01\d* nats\.", said[1])
    assert "aria-valuetext" in done.stdout
