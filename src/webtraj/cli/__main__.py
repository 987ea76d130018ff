"""`python -m webtraj.cli` is `webtraj`."""

from webtraj.cli import main

if __name__ == "__main__":
    main()
