"""Machines for the tests: network namespaces on one bridge, each with a Ray node of its own.

    host 10.x.y.1 --+
    one  10.x.y.11 -+-- bridge, in a namespace of its own
    two  10.x.y.12 -+

A machine's way to the others can be cut and mended. All of it is gone when the test is over.

Chromium drops its connections when a network interface of its network comes or goes. So all of this
is made in a network namespace of its own (`scripts/test_ray.sh`), where no other browser is, and a
machine has its interfaces before the first browser starts on it, and none any more when its link is
mended.
"""

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bucket_servers import S3Server

STARTED = "Ray runtime started"
GAVE_UP = "The current node timed out during startup"
"""What Ray says if it has not reached its head after 30 s, which nothing can set."""
TRIES = 4
START = 240
"""Seconds that Ray may take to start on a busy machine."""

RAY = str(Path(sys.executable).with_name("ray"))


def missing():
    """Returns why there can be no machines here; empty if there can."""
    if os.environ.get("WEBTRAJ_OWN_NETWORK") != "1":
        return "interfaces are made only in a network of their own: scripts/test_ray.sh"
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need the command `ip` (package iproute2)"
    return ""


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, timeout=30)


def wait_until(condition, *, seconds, what):
    """Waits for a condition, and returns what it gave."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError(f"Waited {seconds} s in vain: {what}")


class Machine:
    """A network namespace with an address, a home and, perhaps, a Ray node."""

    def __init__(self, network, number, folder):
        self.network = network
        self.name = f"{network.name}{number}"
        self.address = f"{network.subnet}.{10 + number}"
        self.home = folder / f"machine-{number}"
        self.home.mkdir()
        self._ray = None

    def command(self, *words):
        return ["ip", "netns", "exec", self.name, *words]

    def environment(self):
        return {
            **os.environ,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_AUTH_MODE": "disabled",
            # A machine that is cut off is dead to the others after some seconds, and gives up, too.
            "RAY_health_check_initial_delay_ms": "1000",
            "RAY_health_check_period_ms": "1000",
            "RAY_health_check_timeout_ms": "2000",
            "RAY_health_check_failure_threshold": "4",
            "RAY_gcs_rpc_server_reconnect_timeout_s": "20",
            "XDG_STATE_HOME": str(self.home),
            # Else every `ray.init()` of this computer would look for this cluster.
            "RAY_TMPDIR": self.network.ray_folder,
            **self.network.credentials,
        }

    @property
    def spool(self):
        return self.home / "webtraj" / "spool"

    def spooled(self):
        """Returns the ids of the episodes whose records are here alone."""
        sealed = {path.stem for path in self.spool.glob("*/episodes/*.json")}
        return sealed | {path.stem for path in self.spool.glob("*/journal/[!.]*.jsonl")}

    def plays(self):
        """Returns how many records each open episode here has, by the id."""
        journals = self.spool.glob("*/journal/[!.]*.jsonl")
        found = {}
        for journal in journals:
            with contextlib.suppress(FileNotFoundError):
                found[journal.stem] = journal.read_bytes().count(b"\n")
        return found

    def start_ray(self, *arguments, cpus=2):
        """Starts Ray and waits until it runs. It gives up on a busy machine, and is tried again."""
        if "--head" in arguments:
            arguments = (*arguments, f"--temp-dir={self.network.ray_folder}")
        for _ in range(TRIES):
            if self._starts_ray(arguments, cpus):
                return
            assert GAVE_UP in self.log(), self.log()
            self.kill_all()
        raise AssertionError(f"Ray gave up {TRIES} times: {self.log()}")

    def _starts_ray(self, arguments, cpus):
        """Starts Ray, and returns whether it runs."""
        starts = self.starts()
        with (self.home / "ray.log").open("ab") as log:
            self._ray = subprocess.Popen(
                self.command(
                    RAY, "start", "--block", "--disable-usage-stats",
                    f"--node-ip-address={self.address}", f"--num-cpus={cpus}",
                    f"--memory={8 << 30}", f"--object-store-memory={100 << 20}", *arguments,
                ),
                env=self.environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        what = f"Ray starts on {self.name}"
        wait_until(lambda: self.starts() > starts or not self.ray_runs, seconds=START, what=what)
        return self.ray_runs

    @property
    def ray_runs(self):
        return self._ray is not None and self._ray.poll() is None

    def log(self):
        path = self.home / "ray.log"
        return path.read_text(errors="replace")[-6000:] if path.exists() else ""

    def starts(self):
        """Returns how often Ray has started here. All of the log says so, not its end alone."""
        path = self.home / "ray.log"
        return path.read_text(errors="replace").count(STARTED) if path.exists() else 0

    def cut(self):
        """Takes the network away; processes live on."""
        self.network.hub("link", "set", f"{self.name}h", "down")

    def mend(self):
        self.network.hub("link", "set", f"{self.name}h", "up")

    def processes(self):
        found = subprocess.run(
            ["ip", "netns", "pids", self.name], capture_output=True, text=True, check=True
        )
        return [int(word) for word in found.stdout.split()]

    def kill_all(self):
        """Kills every process on the machine, as a power cut does."""
        while pids := self.processes():
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        if self._ray is not None:
            self._ray.wait(30)
            self._ray = None


class Network:
    """A bridge, and the machines on it."""

    def __init__(self, folder):
        self.folder = folder
        token = secrets.token_bytes(2)
        self.name = f"wt{token.hex()}"
        self.subnet = f"10.{64 + token[0] % 128}.{token[1]}"
        self.machines = []
        self.credentials = {}
        # Paths of sockets may not be long.
        self.ray_folder = tempfile.mkdtemp(prefix="wtray", dir="/tmp")
        Path(self.ray_folder, "ray").mkdir()

    def __enter__(self):
        ip("netns", "add", self.name)
        self.hub("link", "set", "lo", "up")
        self.hub("link", "add", "br0", "type", "bridge")
        self.hub("link", "set", "br0", "up")
        self._connect(f"{self.name}w", None)
        ip("addr", "add", f"{self.host}/24", "dev", f"{self.name}w")
        ip("link", "set", f"{self.name}w", "up")
        return self

    def __exit__(self, *exc_info):
        for machine in self.machines:
            with contextlib.suppress(subprocess.SubprocessError):
                machine.kill_all()
            subprocess.run(["ip", "netns", "del", machine.name], check=False, timeout=30)
        subprocess.run(["ip", "netns", "del", self.name], check=False, timeout=30)
        shutil.rmtree(self.ray_folder, ignore_errors=True)

    @property
    def host(self):
        return f"{self.subnet}.1"

    def hub(self, *arguments):
        ip("-n", self.name, *arguments)

    def add(self):
        machine = Machine(self, len(self.machines) + 1, self.folder)
        ip("netns", "add", machine.name)
        self.machines.append(machine)
        self._connect(f"{machine.name}m", machine.name)
        ip("-n", machine.name, "addr", "add", f"{machine.address}/24", "dev", f"{machine.name}m")
        for link in ("lo", f"{machine.name}m"):
            ip("-n", machine.name, "link", "set", link, "up")
        return machine

    def _connect(self, link, namespace):
        hub_end = f"{link[:-1]}h"
        ip("link", "add", link, "type", "veth", "peer", "name", hub_end, "netns", self.name)
        if namespace is not None:
            ip("link", "set", link, "netns", namespace)
        self.hub("link", "set", hub_end, "master", "br0")
        self.hub("link", "set", hub_end, "up")


class NetworkedS3Server(S3Server):
    """An rclone that the machines of a network reach, too."""

    def __init__(self, network):
        super().__init__("rclone")
        self._host = network.host
        network.credentials = {
            "AWS_ACCESS_KEY_ID": self.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
        }

    def reached_by_machines(self):
        """Returns the options, without credentials: those are in the machines' environments."""
        options = self.options(endpoint=f"http://{self._host}:{_PORT}")
        del options["access_key_id"], options["secret_access_key"]
        return options

    def _command(self):
        command = super()._command()
        where = command.index("--auth-key")
        return [*command[:where], "--addr", f"{self._host}:{_PORT}", *command[where:]]


# Nobody else listens at an address that is made for the test.
_PORT = 9000
