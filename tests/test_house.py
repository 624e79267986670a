"""Rules about the library's own files, which no linter checks."""

import ast
from collections import defaultdict
from pathlib import Path

LIBRARY = Path(__file__).resolve().parent.parent / "jaxpriv"
TREES = {path.relative_to(LIBRARY): ast.parse(path.read_text()) for path in sorted(LIBRARY.rglob("*.py"))}


def test_no_class_name_stands_for_two_things():
    homes = defaultdict(list)
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(str(path))
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


def test_no_file_is_longer_than_500_lines():
    lengths = {str(path): len((LIBRARY / path).read_text().splitlines()) for path in TREES}
    assert {path: length for path, length in lengths.items() if length > 500} == {}
