"""The pages of packages that `packages.toml` lists: fetched, checked, unpacked and served.

Packages stay in the cache folder, by name and version. Those of npm are unpacked into `npm/NAME`,
those of Debian into one root, in which their links find each other.
"""

from __future__ import annotations

import dataclasses
import hashlib
import mimetypes
import shutil
import subprocess
import tarfile
import tomllib
from pathlib import Path
from urllib.parse import unquote

from webtraj.environments.local_server import Request, Response

CACHE = Path.home() / ".cache" / "webtraj-trees"
_LIST = Path(__file__).with_name("packages.toml")


@dataclasses.dataclass(frozen=True, slots=True)
class Package:
    """One package, as `packages.toml` describes it."""

    kind: str
    name: str
    version: str
    sha256: str
    pages: str = ""
    most: int = 0

    @property
    def folder(self) -> str:
        """Where its pages are, in the cache folder."""
        return f"npm/{self.name}" if self.kind == "npm" else "debian"

    def fetch(self) -> str:
        """Fetch and unpack the package, unless it is there; return what went wrong."""
        done = CACHE / f"{self.name}-{self.version}.done"
        if done.exists():
            return ""
        downloads = CACHE / "downloads" / self.name
        shutil.rmtree(downloads, ignore_errors=True)
        downloads.mkdir(parents=True)
        command = {
            "npm": ["npm", "pack", "--silent", f"{self.name}@{self.version}"],
            "debian": ["apt-get", "download", "--quiet", f"{self.name}={self.version}"],
        }[self.kind]
        try:
            subprocess.run(command, cwd=downloads, check=True, capture_output=True, timeout=300)
            (archive,) = downloads.iterdir()
            self._unpack(archive)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            told = getattr(error, "stderr", b"") or b""
            return f"{self.name} {self.version}: {error} {told.decode(errors='replace')[-200:]}"
        shutil.rmtree(downloads)
        done.touch()
        return ""

    def _unpack(self, archive: Path) -> None:
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        if found != self.sha256:
            raise ValueError(f"{archive.name} has SHA-256 {found}, not {self.sha256}")
        target = CACHE / self.folder
        if self.kind == "npm":
            shutil.rmtree(target, ignore_errors=True)
            with tarfile.open(archive) as tar:
                tar.extractall(target.with_suffix(".new"), filter="data")
            (target.with_suffix(".new") / "package").rename(target)
            target.with_suffix(".new").rmdir()
        else:
            target.mkdir(parents=True, exist_ok=True)
            subprocess.run(["dpkg", "-x", archive, target], check=True, capture_output=True)

    def choose(self) -> list[str]:
        """Return the paths of the pages to read."""
        if not self.pages:
            return []
        folder = CACHE / self.folder
        found = sorted(path.relative_to(CACHE).as_posix() for path in folder.glob(self.pages))
        return [found[at * len(found) // self.most] for at in range(min(self.most, len(found)))]


def packages() -> list[Package]:
    """Return all packages."""
    with _LIST.open("rb") as file:
        return [Package(**each) for each in tomllib.load(file)["package"]]


def serve_file(request: Request) -> Response:
    """Answer a request with a file of the cache folder."""
    path = (CACHE / unquote(request.path).lstrip("/")).resolve()
    if not path.is_relative_to(CACHE.resolve()) or not path.is_file():
        return Response(status=404)
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return Response(body=path.read_bytes(), content_type=kind)
