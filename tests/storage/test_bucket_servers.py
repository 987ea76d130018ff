"""The tests' own S3 servers and the proxy before them are what they say."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import obstore
import obstore.exceptions
import pytest
from obstore.store import S3Store

import bucket_servers
from fault_proxy import Fault, FaultProxy


def plain_store(url, options):
    return S3Store(
        url.removeprefix("s3://"),
        endpoint=options["endpoint"],
        region=options["region"],
        access_key_id=options["access_key_id"],
        secret_access_key=options["secret_access_key"],
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )


def test_servers_honour_conditions_or_not_as_told(s3_server, bucket_url, bucket_options):
    store = plain_store(bucket_url, bucket_options)
    obstore.put(store, "a", b"1", mode="create")
    if s3_server.honours_conditions:
        with pytest.raises(obstore.exceptions.AlreadyExistsError):
            obstore.put(store, "a", b"2", mode="create")
    else:
        obstore.put(store, "a", b"2", mode="create")


def test_a_restarted_server_has_its_data_or_not_as_told(s3_server):
    url = s3_server.make_bucket()
    obstore.put(plain_store(url, s3_server.options()), "a", b"1")
    port = s3_server.port
    s3_server.restart()
    assert s3_server.port == port
    store = plain_store(url, s3_server.options())
    if s3_server.keeps_data:
        assert obstore.get(store, "a").bytes() == b"1"
    else:
        with pytest.raises(FileNotFoundError):
            obstore.get(store, "a")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rclone", "moto"])
def test_a_server_dies_with_the_process_that_started_it(kind):
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[1])\n"
        "from bucket_servers import S3Server\n"
        "server = S3Server(sys.argv[2]); server.start()\n"
        "print(server.port, server.folder, flush=True)\n"
        "os.kill(os.getpid(), 9)"
    )
    folder = Path(bucket_servers.__file__).parent
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(folder), kind],
        stdout=subprocess.PIPE, text=True, timeout=120,
    )  # fmt: skip
    port, data = done.stdout.split()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", int(port))):
                break
    else:
        raise AssertionError("it still takes connections")
    os.rmdir(data)  # noqa: PTH106
    Path(data).with_suffix(".log").unlink()


def test_the_proxy_passes_on_what_it_is_given(s3_server, bucket_url, bucket_options):
    body = os.urandom(3 << 20)
    with FaultProxy(s3_server.port) as proxy:
        store = plain_store(bucket_url, {**bucket_options, "endpoint": proxy.endpoint})
        obstore.put(store, "a", body, use_multipart=False)
        assert obstore.get(store, "a").bytes() == body
        assert [seen.method for seen in proxy.seen] == ["PUT", "GET"]


def test_the_proxy_does_what_it_is_told(s3_server):
    with FaultProxy(s3_server.port) as proxy, httpx.Client(trust_env=False) as client:
        url = f"{proxy.endpoint}/x"
        first = proxy.inject(Fault(status=503, code="SlowDown"), every=2, times=1)
        usual = client.get(url)
        assert "SlowDown" not in usual.text
        assert "<Code>SlowDown</Code>" in client.get(url).text
        assert "SlowDown" not in client.get(url).text
        assert (first.matched, first.injected) == (2, 1)
        proxy.clear()
        proxy.inject(Fault(refuse=True), method="PUT")
        assert client.get(url).status_code == usual.status_code
        with pytest.raises(httpx.TransportError):
            client.put(url, content=b"1")
        proxy.clear()
        proxy.inject(Fault(cut_response_after=5), path="/x")
        with pytest.raises(httpx.TransportError):
            client.get(url)
        proxy.clear()
        proxy.refuse()
        with pytest.raises(httpx.ConnectError):
            client.get(url)
        proxy.accept()
        assert client.get(url).status_code == usual.status_code
        assert proxy.seen[-1].headers["host"] == f"127.0.0.1:{proxy.port}"
