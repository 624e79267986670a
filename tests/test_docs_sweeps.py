"""The page on studies: its code runs, and prints what the page says."""

import re
from pathlib import Path

from tests.pages import code_of


def test_the_page_prints_what_it_says(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[1] / "docs" / "how-to" / "sweeps.md").read_text(encoding="utf-8")
    (declaration,) = re.findall(r"```toml\n(.*?)```", page, re.S)
    (tmp_path / "study.toml").write_text(declaration)
    monkeypatch.chdir(tmp_path)
    names = code_of("how-to/sweeps.md")
    said = "".join(re.findall(r"```\n\n```\n(.*?)```", page, re.S))
    assert capsys.readouterr().out == said
    assert all(proof.valid and proof.agrees for proof in names["result"].verify().values())
