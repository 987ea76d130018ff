import asyncio
import os
import sys
from pathlib import Path

import pytest

from webtraj.serving import ModelServer, RestartPolicy, VllmLaunch

STAND_IN = Path(__file__).with_name("stand_in.py")


def alive(pid):
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class StandIn:
    """A Python that seems to have vLLM, a model's folder, and servers that are made of both."""

    def __init__(self, folder):
        self.folder = folder
        self.python = folder / "python"
        self.python.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "$@"\n')
        self.python.chmod(0o700)
        self.model = folder / "tiny"
        self.model.mkdir()
        (self.model / "config.json").write_text("{}")
        self.starts_file = folder / "starts"
        self.log = folder / "server.log"

    @property
    def variables(self):
        return {"STAND_IN_STARTS": str(self.starts_file)}

    def launch(self, *, trouble=None, **settings):
        variables = {**self.variables, **(trouble or {})}
        settings = {"model": self.model, "python": self.python, "dev_mode": True, **settings}
        return VllmLaunch(environment=variables, **settings)

    def server(self, *, trouble=None, launch=None, **options):
        options = {
            "log_file": self.log,
            "patience": 20.0,
            "restarts": RestartPolicy(first_pause=0.01),
            **options,
        }
        return ModelServer(self.launch(trouble=trouble, **(launch or {})), **options)

    def weights(self, name):
        folder = self.folder / name
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"")
        (folder / "config.json").write_text("{}")
        return folder

    def adapter(self, name):
        folder = self.folder / name
        folder.mkdir()
        (folder / "adapter_model.safetensors").write_bytes(b"")
        (folder / "adapter_config.json").write_text("{}")
        return folder

    @property
    def processes(self):
        """The process ids of each start: the server's, its child's."""
        if not self.starts_file.exists():
            return []
        return [tuple(map(int, line.split())) for line in self.starts_file.read_text().splitlines()]

    @property
    def survivors(self):
        return [pid for pids in self.processes for pid in pids if alive(pid)]

    async def until(self, condition):
        """Waits for a condition that nothing tells of."""
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(0.01)


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    monkeypatch.delenv("WEBTRAJ_VLLM_PYTHON", raising=False)
    made = StandIn(tmp_path)
    yield made
    left = made.survivors
    for pid in left:
        os.kill(pid, 9)
    assert not left
