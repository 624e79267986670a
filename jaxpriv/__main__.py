"""`python -m jaxpriv` is the command `jaxpriv`."""

import sys


def main() -> None:
    """The console entry. `verify` needs Python's standard library only, and nothing else is imported for it."""
    if sys.argv[1:2] == ["verify"]:
        from jaxpriv.verifier.__main__ import run

        sys.exit(run(sys.argv[2:]))
    from jaxpriv.cli import main as command

    command()


if __name__ == "__main__":
    main()
