"""`python -m feddiv` is the command line."""

from feddiv.cli import main

if __name__ == "__main__":
    main()
