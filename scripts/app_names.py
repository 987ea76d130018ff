"""Write the names of the applications' templates into `names.py`: `python scripts/app_names.py`."""

import importlib
from pathlib import Path

from webtraj.environments.apps import app, tasks

FILE = Path(__file__).parents[1] / "src/webtraj/environments/apps/names.py"


def main() -> None:
    """Write them."""
    found: dict[str, tuple[int, str]] = {}
    for package in (*app.APPS, "across"):
        importlib.import_module(f"webtraj.environments.apps.{package}.tasks")
        found |= tasks.registered(package)
    lines = "".join(
        f'        "{name}": ({level}, "{split}"),\n' for name, (level, split) in found.items()
    )
    text = FILE.read_text("utf-8")
    start = text.index("TEMPLATES: Final")
    end = text.index("\n\n\ndef subsets")
    made = (
        "TEMPLATES: Final[Mapping[str, tuple[int, str]]] = MappingProxyType(\n"
        f"    {{\n{lines}    }}\n)"
    )
    FILE.write_text(text[:start] + made + text[end:], "utf-8")
    print(f"{len(found)} templates")


if __name__ == "__main__":
    main()
