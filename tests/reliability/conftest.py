"""A design for the cases that release or verify one."""

import pytest

from jaxpriv.release import fit
from tests.mechanism.conftest import COLUMNS, people


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A design, its table and files."""
    folder = tmp_path_factory.mktemp("reliability")
    fitted = fit(people(400), **COLUMNS, budget=0.15)
    design = folder / "design.zip"
    fitted.mechanism.save(design)
    return {"fitted": fitted, "design": design, "table": people(400), "folder": folder}
