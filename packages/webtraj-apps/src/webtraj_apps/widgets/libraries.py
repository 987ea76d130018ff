"""The libraries of the widgets, from npm: pinned in `libraries.toml`, installed at first use.

A library is a table there: its package, version, the integrity of its archive as npm has it, its
licence, the only folder of it that is needed, if not all are, and the split of its widgets; without
a split it only supports others. The widget
`bootstrap-modal` belongs to the library `bootstrap`. Listing the widgets reads names alone.
"""

from __future__ import annotations

import base64
import fcntl
import functools
import hashlib
import json
import shutil
import subprocess
import tarfile
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from webtraj import errors
from webtraj_apps import app as app_lib

__all__ = ["NAME", "PAGES", "Libraries", "library_of", "load_table", "widget_names"]

NAME: Final = "widgets"
"""The name for `webtraj apps install`, and of the presets."""

PAGES: Final = Path(__file__).with_name("pages")
"""The folder of the pages, one for each widget."""

_TABLE: Final = Path(__file__).with_name("libraries.toml")
_SERVED: Final = frozenset(
    (".css", ".gif", ".js", ".json", ".mjs", ".png", ".svg", ".ttf", ".wasm", ".woff", ".woff2")
)
"""The suffixes of files that a page may load; nothing else is unpacked."""


@functools.cache
def load_table() -> Mapping[str, Mapping[str, str]]:
    """Return the libraries by short name."""
    return tomllib.loads(_TABLE.read_text("utf-8"))


@functools.cache
def widget_names() -> tuple[str, ...]:
    """Return the names of all widgets."""
    return tuple(sorted(page.stem for page in PAGES.glob("*.html")))


def library_of(widget: str) -> str:
    """Return the short name of a widget's library: the longest that its name begins with."""
    found = [name for name in load_table() if f"{widget}-".startswith(f"{name}-")]
    return max(found, key=len)


class Libraries:
    """The installed libraries, as `webtraj apps` lists and installs them."""

    name = NAME
    title = "Widgets of UI libraries"

    @property
    def home(self) -> Path:
        """The folder of this version of the table, installed or not."""
        digest = hashlib.sha256(_TABLE.read_bytes()).hexdigest()
        return app_lib.home() / f"{NAME}-{digest[:12]}"

    @property
    def installed(self) -> bool:
        """Whether all libraries are installed."""
        return (self.home / "installed").exists()

    @property
    def size(self) -> int:
        """The bytes of the libraries on disk."""
        return sum(file.stat().st_size for file in self.home.rglob("*"))

    def require(self) -> None:
        """Check that the libraries are installed.

        Raises:
            MissingDependencyError: They are not.
        """
        if not self.installed:
            raise errors.MissingDependencyError(
                "The libraries of the widgets are not installed. Install them with: "
                f"webtraj apps install {NAME}"
            )

    def install(self, say: Callable[[str], None] = lambda _: None) -> None:
        """Fetch the libraries with npm, unless they are installed.

        Raises:
            MissingDependencyError: There is no npm.
            InvalidInputError: A library cannot be fetched, or is not the one that is pinned.
        """
        app_lib.home().mkdir(parents=True, exist_ok=True)
        with (app_lib.home() / f"{NAME}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not self.installed:  # Another process may have done it.
                self._install(say)

    def _install(self, say: Callable[[str], None]) -> None:
        npm = shutil.which("npm")
        if npm is None:
            raise errors.MissingDependencyError(
                "The widgets need npm, which comes with Node.js: https://nodejs.org/"
            )
        table = load_table()
        say(f"Fetching {len(table)} libraries with npm.")
        folder = self.home
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with tempfile.TemporaryDirectory() as fetched:
            wanted = [f"{row['package']}@{row['version']}" for row in table.values()]
            command = [npm, "pack", "--json", "--pack-destination", fetched, *wanted]
            done = subprocess.run(command, capture_output=True, check=False)
            if done.returncode:
                raise errors.InvalidInputError(
                    f"npm cannot fetch the libraries:\n{done.stderr.decode('utf-8', 'replace')}"
                )
            archives = {row["id"]: Path(fetched, _file_of(row)) for row in json.loads(done.stdout)}
            for row, library in zip(table.values(), wanted, strict=True):
                _unpack(archives[library], folder / row["package"], row)
        (folder / "installed").touch()

    def remove(self, *, old: bool = False) -> None:
        """Remove the installed libraries; if `old`, their other versions instead.

        Raises:
            InvalidInputError: They cannot be removed.
        """
        with app_lib.removing(self.title):
            for folder in app_lib.home().glob(f"{NAME}-*"):
                if (folder == self.home) != old:
                    shutil.rmtree(folder)


def _file_of(row: Mapping[str, Any]) -> str:
    """Return the name of an archive; npm 8 tells that of a scoped package with its slash."""
    return str(row["filename"]).removeprefix("@").replace("/", "-")


def _unpack(archive: Path, folder: Path, row: Mapping[str, str]) -> None:
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if f"sha512-{digest}" != row["integrity"]:
        raise errors.InvalidInputError(
            f"{archive.name} is not the archive that is pinned: expected {row['integrity']}, "
            f"got sha512-{digest}."
        )
    with tarfile.open(archive) as files:
        for member in files:
            # The first part of each path is the archive's own folder.
            _, _, path = member.name.partition("/")
            wanted = path.startswith(row.get("folder", "")) and Path(path).suffix in _SERVED
            if member.isfile() and wanted:
                member.name = path
                files.extract(member, folder, filter="data")
