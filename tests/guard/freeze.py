"""Write the frozen files again: `python -m tests.guard.freeze solves [KEY ...]`, `funnels`, `commands`."""

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

import jax

from . import commands, funnels, solves


def _lines(entries: dict[str, Any]) -> str:
    """One line for each entry, so that a difference shows which."""
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in entries.items()) + "\n}\n"


def main() -> None:
    of: dict[str, tuple[Any, Callable[[str], Any]]] = {
        "solves": (solves, lambda name: solves.as_json(solves.results(name))),
        "funnels": (funnels, funnels.result),
        "commands": (commands, commands.result),
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=of)
    parser.add_argument("names", nargs="*", help="entries to replace, by default those that are missing")
    asked = parser.parse_args()
    module, result = of[asked.what]
    jax.config.update("jax_enable_x64", asked.what != "commands")
    # Without names what is missing is added: freezing takes minutes, and goes on where it was ended.
    entries = json.loads(module.FILE.read_text()) if module.FILE.exists() else {}
    for name in asked.names or [one for one in module.names() if one not in entries]:
        entries[name] = result(name)
        module.FILE.write_text(_lines(entries))
        print(name, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
