"""`python -m webtraj.cli` is `python -m webtraj`, as it was called before."""

from webtraj.cli import main

if __name__ == "__main__":
    main()
