"""Write the names of the applications' templates to their files `names.txt`.

Run: python packages/webtraj-apps/scripts/names.py
"""

from pathlib import Path

import webtraj_apps
from webtraj_apps import names


def main() -> None:
    """Write them."""
    for source in names.find_installed().values():
        if source.is_ours:
            source.load_tasks()
            found = names.list_registered(source.name)
            lines = (f"{name} {level} {split}\n" for name, (level, split) in found.items())
            file = Path(webtraj_apps.__file__).parent / source.name / names.NAMES
            file.write_text("".join(lines), "utf-8")
            print(f"{source.name}: {len(found)} templates")


if __name__ == "__main__":
    main()
