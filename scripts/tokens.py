"""How much code there is, in tokens: without comments, docstrings, blank lines and indentation.

    python scripts/tokens.py                the library, the tests and the rest, and the lines of C
    python scripts/tokens.py --by-folder    the library by folder
    python scripts/tokens.py --base REV     beside those at a commit, and the difference

Lines can be packed, tokens cannot: a smaller number of them is less to read.
"""

import argparse
import ast
import io
import subprocess
import tarfile
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_CODE = (".py", ".c", ".h")
TREES = ("jaxpriv", "tests", "benchmarks", "experiments", "scripts")
_BLANK = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip


def _docstrings(source: str) -> set[tuple[int, int]]:
    """Where the docstrings of modules, classes and functions begin: (line, column)."""
    places = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and type(first.value.value) is str:
                places.add((first.lineno, first.col_offset))
    return places


def tokens_of(source: str) -> int:
    """The number of tokens of a Python source; one string is one token, whatever its prefix."""
    documented = _docstrings(source)
    count, depth = 0, 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        # Since Python 3.12 an f-string has tokens of its own for its parts: it counts as one, as before.
        kind = tokenize.tok_name[token.type]
        if kind == "FSTRING_START":
            count, depth = count + (depth == 0), depth + 1
        elif kind == "FSTRING_END":
            depth -= 1
        elif depth == 0 and token.type not in _BLANK and token.start not in documented:
            count += 1
    return count


def _files(revision: str | None) -> Iterator[tuple[str, str]]:
    """(path, source) of every Python and C file that git tracks, as they are now or at a commit."""
    git = ["git", "-C", str(ROOT)]
    if revision is None:
        listed = subprocess.run([*git, "ls-files", *TREES], capture_output=True, text=True, check=True).stdout
        paths = [path for path in listed.splitlines() if (ROOT / path).is_file()]
        yield from ((path, (ROOT / path).read_text()) for path in paths if path.endswith(_CODE))
        return
    packed = subprocess.run([*git, "archive", revision, *TREES], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            if member.name.endswith(_CODE) and (file := archive.extractfile(member)) is not None:
                yield member.name, file.read().decode()


def counted(revision: str | None, by_folder: bool) -> Counter[str]:
    """Tokens by tree, or by folder of the library; the lines of C in one row of their own."""
    counts: Counter[str] = Counter()
    for path, source in _files(revision):
        parts = path.split("/")
        if not path.endswith(".py"):
            counts["C, lines"] += len(source.splitlines())
        elif not by_folder:
            counts[parts[0]] += tokens_of(source)
        elif parts[0] == "jaxpriv":
            counts[parts[1] if len(parts) > 2 else "(files)"] += tokens_of(source)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description="Count the tokens of code, without comments and docstrings.")
    parser.add_argument("--base", metavar="REV", help="a commit to compare with")
    parser.add_argument("--by-folder", action="store_true", help="the folders of the library instead of the trees")
    arguments = parser.parse_args()

    now = counted(None, arguments.by_folder)
    before = None if arguments.base is None else counted(arguments.base, arguments.by_folder)
    for name in sorted({*now, *(before or ())}, key=lambda name: (-now[name], name)):
        line = f"{name:14}{now[name]:9,}"
        print(line if before is None else f"{line}{before[name]:9,}{now[name] - before[name]:+9,}")


if __name__ == "__main__":
    main()
