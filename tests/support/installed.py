"""A package that is installed as far as import and metadata go."""

from pathlib import Path


def install(folder: Path, modules: dict[str, str], **groups: dict[str, str]) -> None:
    """Write a package's modules and entry points to a folder, which belongs on `sys.path`.

    Args:
        folder: The folder.
        modules: The text of each module by name.
        groups: The entry points of each group, named without `webtraj.`.
    """
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    metadata = folder / f"{'_'.join(modules)}-1.dist-info"
    metadata.mkdir()
    name = metadata.name.partition("-")[0]
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    lines = []
    for group, points in groups.items():
        lines += [f"[webtraj.{group}]", *(f"{each} = {home}" for each, home in points.items()), ""]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
