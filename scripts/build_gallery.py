"""Writes docs/gallery from the experiments: `python scripts/build_gallery.py`.

Every folder of experiments/ with an about.toml gets a page: its figures, what they show, the published values beside
ours, and the code. Nothing is computed or drawn here.
"""

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "docs" / "gallery"
GROUPS = ("The four papers", "From the field", "What else can be computed")
# Where the figures, tables and numeric statements of the papers are.
PAPERS = """\
| paper | figure, table or statement | page |
|---|---|---|
| Calmon and Fawaz 2012 (no figures) | Examples 1 and 2, Corollary 2: the counting query | [](counting_query.md) |
| | Example 1: input and output perturbation | [](input_perturbation.md) |
| | Theorem 4: differential privacy and leakage, exact recovery of ordered records | [](dp_and_leakage.md) |
| | Corollary 1: rate-distortion | [](rate_distortion.md) |
| | section V: average and maximum leakage, information privacy | [](guarantees.md), [](ldp_and_information.md) |
| | section VI: a set of priors | [](worst_prior.md) |
| Makhdoumi et al. 2014 | Fig. 1: least and most I(S;Y) of the census | [](census_funnel.md); the bins are \
not printed, so five binnings |
| | Algorithms 1 and 2 | [](heart_funnel.md), [](funnel_solvers.md), [](census_three_private.md) |
| | Theorem 1: bounded costs | [](cost_bound.md) |
| | section V: the Gaussian funnel | [](gaussian_funnel.md) |
| Wu, Xia and He 2017 (no figures) | Assumption 1, Definition 4, Proposition 4 | [](entropy_bounded_adversary.md) |
| | Proposition 2: four measures | [](guarantees.md) |
| Hsu, Asoodeh and Calmon 2019 | Fig. 1, Tables I and II: log-lift of COMPAS records | [](compas.md) |
| | Fig. 2: utility against leakage | [](compas.md): the shape; its split and training are not printed |
| | Tables III and IV | none: a normalised log-lift cannot have these values, [](../explanation/compas.md) |
| | eq. 9, Proposition 2 | [](census_watchdog.md) |
"""

DEMO = """\
## The figure of the front page

`jaxpriv demo` draws it, the least leakage of the census where much of X is disclosed, and the mapping at one budget.
Each row of this picture is an age, a gender and a level of education, and each column what is released in their place:

![An optimal mapping of the census, and the share of people with a changed attribute](../figures/census-mapping.png)
"""


def experiments() -> dict[str, dict[str, Any]]:
    """What each experiment says of itself, by name."""
    found = sorted((ROOT / "experiments").glob("*/about.toml"))
    return {path.parent.name: tomllib.loads(path.read_text("utf-8")) for path in found}


def page(name: str, about: dict[str, Any]) -> str:
    """The page of one experiment."""
    pictures = [f"![{about['title']}](../figures/{figure})\n" for figure in about["figures"]]
    minutes = f"{about['minutes']:g} minute{'s' if about['minutes'] != 1 else ''}"
    needs = f" Needs {about['needs']}." if "needs" in about else ""
    lines = [
        f"# {about['title']}\n",
        *pictures,
        f"{about['text'].strip()}\n",
        f"**Source.** {about['source']}.\n",
        f"**Compute it again.** `jaxpriv reproduce {name}`, about {minutes} on two cores.{needs}\n",
    ]
    if about.get("published"):
        lines += [
            "## Published values beside ours\n",
            "| value | published | ours | where |",
            "|---|---|---|---|",
            *(
                f"| {one['what']} | {one['theirs']} | {one['ours']} | {one['where']} |".replace("||", "\\|\\|")
                for one in about["published"]
            ),
            "",
        ]
    for heading, program in (("Code that draws it", "plot.py"), ("Code that computes the numbers", "run.py")):
        lines += [
            f"## {heading}\n",
            f"```{{literalinclude}} ../../experiments/{name}/{program}",
            ":language: python",
            "```\n",
        ]
    return "\n".join(lines)


def index(known: dict[str, dict[str, Any]]) -> str:
    """All experiments with their first picture."""
    cards: list[str] = []
    for group in GROUPS:
        cards += [f"## {group}\n", "::::{grid} 1 2 2 3\n:gutter: 3\n"]
        cards += [
            f":::{{grid-item-card}} {about['title']}\n:link: {name}\n:link-type: doc\n"
            f":img-top: ../figures/{about['figures'][0]}\n:img-alt: {about['title']}\n:::\n"
            for name, about in known.items()
            if about["group"] == group
        ]
        cards.append("::::\n")
    return "\n".join(
        [
            "# Gallery\n",
            "Every figure with the code that draws it, its source, and published values beside ours where there are "
            "any. `jaxpriv reproduce NAME` computes one again, `jaxpriv reproduce --list` names them.\n",
            *cards[:1],
            PAPERS,
            *cards[1:],
            DEMO,
            "```{toctree}\n:hidden:\n",
            *known,
            "```\n",
        ]
    )


def pages() -> dict[str, str]:
    """File name -> contents."""
    known = experiments()
    return {"index.md": index(known), **{f"{name}.md": page(name, about) for name, about in known.items()}}


if __name__ == "__main__":
    for file, text in pages().items():
        (GALLERY / file).write_text(text, encoding="utf-8")
