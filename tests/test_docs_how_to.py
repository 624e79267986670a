"""The how-to guides run and print what they show: a file of their own, so that none takes a minute (test_docs.py)."""

import pytest

from tests.pages import RUNNABLE, check


@pytest.mark.usefixtures("same_draws")
@pytest.mark.parametrize("page", [page for page in RUNNABLE if "/how-to/" in page])
def test_the_guide_runs_and_prints_what_it_shows(page, tmp_path):
    check(page, tmp_path)
