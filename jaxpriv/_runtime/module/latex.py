r"""Tables for LaTeX, in the style of the package booktabs."""

from collections.abc import Sequence

import numpy as np

from jaxpriv.errors import InputError

_SPECIAL = str.maketrans(
    {letter: f"\\{letter}" for letter in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
)


def escaped(text: str) -> str:
    """The text as LaTeX prints it."""
    return " ".join(text.translate(_SPECIAL).split())


def number(text: str) -> str:
    """A number as `upper` and `lower` write it: powers of ten and infinities as LaTeX sets them."""
    digits, _, power = text.partition("e")
    if text.endswith(("inf", "nan")):
        return {"inf": r"$\infty$", "-inf": r"$-\infty$"}.get(text, "--")
    return rf"${digits} \cdot 10^{{{int(power)}}}$" if power else f"${digits}$" if digits.startswith("-") else digits


def tabular(headings: Sequence[str], rows: Sequence[Sequence[str]], alignment: str) -> str:
    """A `tabular` environment of texts that are LaTeX already; it needs `booktabs`."""
    lines = [r" & ".join(line) + r" \\" for line in (headings, *rows)]
    body = "\n".join([r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"])
    return f"\\begin{{tabular}}{{{alignment}}} % \\usepackage{{booktabs}}\n{body}\n\\end{{tabular}}\n"


def mapping_table(table: np.ndarray, inputs: Sequence[str], outputs: Sequence[str], digits: int) -> str:
    """P(y|x) (X, Y) with a row for each of the `inputs`: `digits` decimals, and 0 only where the probability is 0."""
    if not 1 <= digits <= 15:
        raise InputError("digits must be a whole number from 1 to 15")
    least = f"{10.0**-digits:.{digits}f}"

    def cell(share: float) -> str:
        return "0" if share == 0 else f"$<${least}" if share < 0.5 * float(least) else f"{share:.{digits}f}"

    rows = [[escaped(name), *map(cell, row)] for name, row in zip(inputs, table, strict=True)]
    return tabular(["$P(y|x)$", *map(escaped, outputs)], rows, "l" + "r" * len(outputs))
