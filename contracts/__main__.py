"""`python -m contracts` is the `contracts` command."""

from contracts.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
