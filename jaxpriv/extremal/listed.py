"""Pricing over posteriors that are all listed."""

import numpy as np

from jaxpriv.extremal.master import AbstractPosteriorSet, Columns


class ListedPricer(AbstractPosteriorSet):
    """A table of columns; its maximum is exact if the table holds every vertex."""

    def __init__(self, columns: Columns, mass: np.ndarray):
        self.columns, self.weighted = columns, columns.lifts * mass

    def price(self, prices: np.ndarray, count: int) -> tuple[float, Columns]:
        gain = self.columns.values - self.weighted @ prices
        top = np.argpartition(-gain, min(count, len(gain)) - 1)[:count]
        return float(gain.max()), self.columns.take(top)
