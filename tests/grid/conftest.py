"""The complete product runs only where it is asked for: `-m grid`."""

import re


def pytest_collection_modifyitems(config, items):
    if re.search(r"\bgrid\b", config.option.markexpr or ""):
        return
    chosen = [item for item in items if item.get_closest_marker("grid") is None]
    config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("grid") is not None])
    items[:] = chosen
