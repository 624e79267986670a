"""`python -m jaxpriv` is the command `jaxpriv`."""

import sys


def main() -> None:
    """The console entry. `verify` needs Python's standard library only, and for it nothing else is imported."""
    if sys.argv[1:2] == ["verify"] and not {"-h", "--help"} & set(sys.argv):
        from jaxpriv.verifier.__main__ import run

        sys.exit(run(sys.argv[2:]))
    from jaxpriv.cli import main as command

    command()


if __name__ == "__main__":
    main()
