"""`python -m jaxpriv` is the command `jaxpriv`."""

if __name__ == "__main__":
    from jaxpriv.cli import main

    main()
