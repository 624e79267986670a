"""A small table of people, and a mechanism for it with every kind of target."""

import numpy as np
import pytest

from jaxpriv.release import Fitted, fit
from jaxpriv.statistics.tables import Quantiles

COLUMNS = {"private": "income", "useful": ["age", "town"], "rules": {"age": Quantiles(3)}}
TARGETS = {
    "budget": {"budget": 0.15},
    "leakage-budget": {"leakage_budget": 0.005},
    "disclosure": {"disclosure": 0.8},
    "watchdog": {"target_leakage": 0.3},
}


def people(records: int = 1200, seed: int = 3) -> dict[str, np.ndarray]:
    """Records in which income depends on age and town."""
    rng = np.random.default_rng(seed)
    age, town = rng.integers(18, 80, records), rng.choice(["north", "south", "=west"], records)
    rich = rng.random(records) < 0.15 + 0.4 * (age > 50) + 0.1 * (town == "north")
    return {"age": age, "town": town.astype(object), "income": np.where(rich, "high", "low").astype(object)}


@pytest.fixture(scope="session")
def table() -> dict[str, np.ndarray]:
    return people()


@pytest.fixture(scope="session")
def every(table) -> dict[str, Fitted]:
    return {name: fit(table, **COLUMNS, **target) for name, target in TARGETS.items()}


@pytest.fixture(scope="session")
def fitted(every) -> Fitted:
    return every["budget"]
