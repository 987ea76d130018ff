"""Runs a peer in a virtual environment of its own, so that its pins touch nothing of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def make_venv(name: str, packages: Sequence[str]) -> Path:
    """Returns the Python of `.venv-<name>` in the checkout, made if it is not there yet.

    Args:
        name: The peer's name.
        packages: What pip installs; a change makes the environment anew.
    """
    folder = ROOT / f".venv-{name}"
    python = folder / "bin" / "python"
    stamp = folder / "packages.txt"
    wanted = "\n".join(packages)
    if not (stamp.exists() and stamp.read_text() == wanted):
        print(f"making {folder.name} ({', '.join(packages)})", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        stamp.write_text(wanted)
    return python


def run_peer(python: Path, script: Path, *args: str, env: Mapping[str, str] | None = None) -> Any:
    """Runs a script there and returns the JSON that is the last line of what it prints."""
    result = subprocess.run(
        [python, script, *args],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, **(env or {})},
    )
    return json.loads(result.stdout.strip().splitlines()[-1])
