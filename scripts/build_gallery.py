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
            f":img-top: ../figures/{about['figures'][0]}\n:::\n"
            for name, about in known.items()
            if about["group"] == group
        ]
        cards.append("::::\n")
    return "\n".join(
        [
            "# Gallery\n",
            "Every figure with the code that draws it, its source, and published values beside ours where there are "
            "any. `jaxpriv reproduce NAME` computes one again, `jaxpriv reproduce --list` names them.\n",
            *cards,
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
