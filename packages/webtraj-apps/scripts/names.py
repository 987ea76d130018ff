"""Write the names of the applications' templates to `names.txt`.

Run: python packages/webtraj-apps/scripts/names.py
"""

import importlib
from pathlib import Path

from webtraj_apps import app, tasks

FILE = Path(__file__).parents[1] / "src/webtraj_apps/names.txt"


def main() -> None:
    """Write them."""
    found: dict[str, tuple[int, str]] = {}
    for package in (*app.APPS, "across"):
        importlib.import_module(f"webtraj_apps.{package}.tasks")
        found |= tasks.registered(package)
    lines = (f"{name} {level} {split}\n" for name, (level, split) in found.items())
    FILE.write_text("".join(lines), "utf-8")
    print(f"{len(found)} templates")


if __name__ == "__main__":
    main()
