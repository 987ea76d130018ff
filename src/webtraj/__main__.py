"""`python -m webtraj` is the command line."""

from webtraj.cli import main

if __name__ == "__main__":
    main()
