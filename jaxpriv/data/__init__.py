"""What is known before a problem is stated: distributions, distortions, operators by blocks, the embedded tables.

`probability` makes distributions from counts and draws, `joints` states a joint distribution that is computed block by
block, `distortion` states d(x, y), `channel` holds a mechanism that is too large for a table, `streaming` multiplies
operators block by block, and `datasets` loads the tables of the papers. All but `streaming` are attributes of `jaxpriv`
as well (`jp.probability`, `jp.joints`, ...).
"""

from typing import TYPE_CHECKING

from jaxpriv._runtime.importing import attach

if TYPE_CHECKING:  # what `attach` reads, and type checkers and editors
    from jaxpriv.data import (
        channel as channel,
        datasets as datasets,
        distortion as distortion,
        joints as joints,
        probability as probability,
    )
else:
    __getattr__, __dir__, __all__ = attach(__name__)
