"""`python -m webtraj.cli`: the older name of `python -m webtraj`."""

from webtraj.cli import main

if __name__ == "__main__":
    main()
