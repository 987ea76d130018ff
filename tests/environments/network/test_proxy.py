"""The filtering proxy connects to what its policy allows, over real sockets."""

import asyncio
import contextlib
import dataclasses
import errno
import gc
import os
import struct
import warnings
from collections.abc import AsyncIterator, Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rows import each
from webtraj.environments.browser import network as network_lib
from webtraj.environments.browser import network_policy as network_policy_lib
from webtraj.environments.browser.network import FilteringProxy
from webtraj.environments.browser.network_policy import OriginPolicy
from webtraj.environments.local_server import LocalServer

GRANTED, FAILED, FORBIDDEN, UNSUPPORTED = 0, 1, 2, 7
TLS = b"\x16\x03\x01\x00\x05hello"
HTTP = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@dataclasses.dataclass
class Server:
    """Answers whatever it is sent with the same; keeps what it got."""

    port: int = 0
    got: list[bytes] = dataclasses.field(default_factory=list)
    connections: int = 0


@contextlib.asynccontextmanager
async def echo() -> AsyncIterator[Server]:
    told = Server()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        told.connections += 1
        with contextlib.suppress(ConnectionError):
            while chunk := await reader.read(4096):
                told.got.append(chunk)
                writer.write(chunk)
                await writer.drain()

    async with LocalServer(answer) as server:
        told.port = int(server.address.rpartition(":")[2])
        yield told


async def dial(proxy: FilteringProxy) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = proxy.url.removeprefix("socks5://").split(":")
    return await asyncio.open_connection(host, int(port))


async def ask(
    proxy: FilteringProxy, host: str | bytes, port: int, sent: bytes = b""
) -> tuple[int, bytes]:
    """Ask for a connection; return the reply's code, and what comes back for what is sent."""
    name = host if isinstance(host, bytes) else host.encode("latin-1")
    reader, writer = await dial(proxy)
    async with asyncio.timeout(30):
        writer.write(b"\x05\x01\x00")
        assert await reader.readexactly(2) == b"\x05\x00"
        head = struct.pack("!BBBBB", 5, 1, 0, 3, len(name))
        writer.write(head + name + struct.pack("!H", port))
        code = (await reader.readexactly(10))[1]
        back = b""
        if code == GRANTED and sent:
            writer.write(sent)
            back = await reader.read(4096)
    writer.close()
    return code, back


def resolving(*answers: Sequence[str]) -> Callable[..., object]:
    """A resolver that gives each answer once, and the last one for ever."""
    left = list(answers)

    async def resolve(host: str, port: int) -> Sequence[str]:
        return left.pop(0) if len(left) > 1 else left[0]

    return resolve


async def test_an_allowed_connection_carries_bytes_both_ways() -> None:
    async with (
        echo() as server,
        FilteringProxy(OriginPolicy(allow=(f"127.0.0.1:{server.port}",))) as proxy,
    ):
        for sent in (HTTP, TLS):
            assert await ask(proxy, "127.0.0.1", server.port, sent) == (GRANTED, sent)
        assert proxy.take_denials() == []
        assert proxy.failure("127.0.0.1", server.port) == ("", False)


async def test_a_denied_connection_reaches_nobody_and_is_noted() -> None:
    async with echo() as server, FilteringProxy(OriginPolicy(allow=("other.test",))) as proxy:
        assert await ask(proxy, "127.0.0.1", server.port) == (FORBIDDEN, b"")
        (denial,) = proxy.take_denials()
        assert denial.target == f"127.0.0.1:{server.port}"
        assert "not among the allowed origins" in denial.reason
        assert proxy.failure("127.0.0.1", server.port) == (denial.reason, True)
        assert server.connections == 0


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names of a new process, of which one is declared to be private."""
    monkeypatch.setattr(network_lib, "NAMES", network_policy_lib.Names())
    network_lib.NAMES.declare("shop.test")


# One decision on scheme, host and port.


@pytest.mark.parametrize(
    ("allow", "deny", "passes"),
    [
        ("http://shop.test:PORT", (), HTTP),
        ("https://shop.test:PORT", (), TLS),
        ("shop.test:*", ("https://shop.test",), HTTP),
        ("shop.test:*", ("http://shop.test",), TLS),
    ],
)
async def test_a_scheme_is_told_by_what_the_browser_speaks(
    allow: str, deny: tuple[str, ...], passes: bytes
) -> None:
    async with echo() as server:
        policy = OriginPolicy(allow=(allow.replace("PORT", str(server.port)),), deny=deny)
        async with FilteringProxy(policy, resolve=resolving(["127.0.0.1"])) as proxy:
            stopped = TLS if passes == HTTP else HTTP
            assert (await ask(proxy, "shop.test", server.port, stopped))[1] == b""
            assert await ask(proxy, "shop.test", server.port, passes) == (GRANTED, passes)
            assert len(proxy.take_denials()) == 1
        assert server.got == [passes]


# One decision on name and address, for the life of a connection.


async def test_a_public_name_with_a_private_address_is_denied() -> None:
    async with echo() as server:
        policy = OriginPolicy(allow=("*",))
        async with FilteringProxy(policy, resolve=resolving(["127.0.0.1"])) as proxy:
            assert (await ask(proxy, "innocent.test", server.port))[0] == FORBIDDEN
            (denial,) = proxy.take_denials()
            assert "private or special address 127.0.0.1" in denial.reason
        assert server.connections == 0


PUBLIC, PRIVATE, OTHER = "93.184.216.34", "127.0.0.1", "127.0.0.2"
WHERE = [
    # The name, whether it is declared, its addresses at each lookup, and which are dialled.
    ("start.test", False, [[PUBLIC], [PRIVATE], [PRIVATE, PUBLIC]], [PUBLIC, "", PUBLIC]),
    ("start.test", False, [[PRIVATE], [PUBLIC], [PRIVATE]], ["", PUBLIC, ""]),
    ("start.test", True, [[PUBLIC], [PRIVATE], [PRIVATE, PUBLIC]], [PUBLIC, "", PUBLIC]),
    ("start.test", True, [[PRIVATE], [PRIVATE], [OTHER]], [PRIVATE, PRIVATE, ""]),
    ("start.test", True, [[PRIVATE], [PUBLIC], [PRIVATE]], [PRIVATE, PUBLIC, ""]),
    ("start.test", True, [[PRIVATE, OTHER], [OTHER], [PRIVATE]], [PRIVATE, OTHER, PRIVATE]),
    ("start.test", True, [[PUBLIC, PRIVATE], [PRIVATE]], [PUBLIC, ""]),
    ("a.start.test", True, [[PRIVATE]], [""]),
    ("localhost", False, [[PRIVATE], ["10.0.0.1"], ["::1"]], [PRIVATE, "", "::1"]),
    ("a.localhost", False, [["10.0.0.1"], [PRIVATE]], ["", PRIVATE]),
    ("localhost.test", False, [[PRIVATE]], [""]),
    (PRIVATE, False, [[PRIVATE]], [PRIVATE]),
]


@pytest.mark.parametrize("policy", ["named", "everything"])
@pytest.mark.parametrize("how", ["declare", "variable"])
async def test_a_name_leads_to_a_private_address_only_if_it_is_declared_and_always_did(
    monkeypatch: pytest.MonkeyPatch, how: str, policy: str
) -> None:
    class Everything:
        denies_everything = False

        def judge(self, *_: object) -> network_policy_lib.Verdict:
            return network_policy_lib.Verdict(True, "anything goes")

        judge_url = judge

    dialled: list[str] = []
    connecting = asyncio.open_connection

    async def connect(host: str, port: int, **_: object) -> object:
        if port != 80:
            return await connecting(host, port)
        dialled.append(host)
        raise OSError(errno.ECONNREFUSED, "refused")

    monkeypatch.setattr(network_lib.asyncio, "open_connection", connect)
    for name, declared, lookups, expected in WHERE:
        monkeypatch.setattr(network_lib, "NAMES", network_policy_lib.Names())
        monkeypatch.setenv("WEBTRAJ_PRIVATE_HOSTS", "Start.test., b.test" if declared else "b.test")
        if how == "declare":
            monkeypatch.delenv("WEBTRAJ_PRIVATE_HOSTS")
            network_lib.NAMES.declare(*(["Start.TEST"] if declared else []))
        allowing = OriginPolicy(allow=(name,)) if policy == "named" else Everything()
        seen = []
        for addresses in lookups:  # Each in a proxy of its own: the process remembers.
            dialled.clear()
            async with FilteringProxy(allowing, resolve=resolving(addresses)) as proxy:
                await ask(proxy, name, 80)
            seen.append(dialled[0] if dialled else "")
        assert seen == expected, (name, declared, lookups)


async def test_a_declared_host_is_reached_at_the_port_that_is_named() -> None:
    async with echo() as server, echo() as other:
        policy = OriginPolicy(allow=("*", f"shop.test:{server.port}"))
        async with FilteringProxy(policy, resolve=resolving(["127.0.0.1"])) as proxy:
            assert await ask(proxy, "shop.test", server.port, HTTP) == (GRANTED, HTTP)
            assert (await ask(proxy, "shop.test", other.port, HTTP))[0] == FORBIDDEN
        assert other.connections == 0


@each("address", ["169.254.169.254", "fe80::1", "fd00:ec2::254", "100.100.100.200",
     "64:ff9b::a9fe:a9fe", "::ffff:169.254.169.254", "0.0.0.0", "::"])  # fmt: skip
async def test_no_name_leads_to_a_link_local_address_or_a_metadata_service(address: str) -> None:
    policy = OriginPolicy(allow=("*", "start.test", "start.test:*"))
    async with FilteringProxy(policy, resolve=resolving([address])) as proxy:
        assert (await ask(proxy, "start.test", 80))[0] == FORBIDDEN
        assert "which no name may lead to" in proxy.failure("start.test", 80)[0]


# What does not come.


async def test_a_site_that_breaks_off_breaks_off_the_browser_too() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"half")
        await writer.drain()
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(1, 13, linger)  # SOL_SOCKET, SO_LINGER
        writer.transport.abort()

    async with (
        LocalServer(answer) as server,
        FilteringProxy(OriginPolicy(allow=(server.address,))) as proxy,
    ):
        port = int(server.address.rpartition(":")[2])
        reader, writer = await dial(proxy)
        writer.write(b"\x05\x01\x00")
        await reader.readexactly(2)
        name = b"127.0.0.1"
        writer.write(struct.pack("!BBBBB", 5, 1, 0, 3, len(name)) + name + struct.pack("!H", port))
        await reader.readexactly(10)
        writer.write(HTTP)
        with pytest.raises(ConnectionResetError):
            await reader.read(-1)
        writer.close()


# Who asks, and for what.


async def test_a_local_site_is_answered_here_whatever_the_policy_says() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"here: " + await reader.read(100))

    local = {("pages.localhost", 80): serve}
    async with FilteringProxy(OriginPolicy(), local=local) as proxy:
        assert await ask(proxy, "PAGES.localhost.", 80, b"hello") == (GRANTED, b"here: hello")
        assert (await ask(proxy, "pages.localhost", 81))[0] == FORBIDDEN


async def test_another_user_gets_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FilteringProxy(OriginPolicy(allow=("*",))) as proxy:
        own = os.getuid()
        monkeypatch.setattr("os.getuid", lambda: own + 1)
        reader, writer = await dial(proxy)
        writer.write(b"\x05\x01\x00")
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(10), 30) == b""
        writer.close()


@each(
    "host",
    ["h:\xb2", "[::1].evil", "::1.evil", "a b", "", "x" * 255, "a..b", "-\x00", "\xb5.test", "a/b"],
)
async def test_a_host_that_is_none_is_refused(host: str) -> None:
    async with FilteringProxy(OriginPolicy(allow=("*",))) as proxy:
        assert await ask(proxy, host, 80) == (UNSUPPORTED, b"")


@settings(max_examples=30)
@given(st.lists(st.binary(max_size=300), max_size=4))
def test_no_bytes_make_the_proxy_fail(chunks: list[bytes]) -> None:
    failures: list[object] = []

    async def send() -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: failures.append(context)
        )
        async with FilteringProxy(OriginPolicy()) as proxy:
            for start in (b"", b"\x05\x01\x00", b"\x05\x01\x00\x05\x01\x00\x03"):
                reader, writer = await dial(proxy)
                with contextlib.suppress(ConnectionError):
                    for chunk in (start, *chunks):
                        writer.write(chunk)
                        await writer.drain()
                    writer.write_eof()
                    await asyncio.wait_for(reader.read(), 30)
                writer.close()

    asyncio.run(send())
    assert failures == []


@each("turns", range(8))
async def test_a_start_that_is_cancelled_leaves_nothing_listening(turns: int) -> None:
    proxy = FilteringProxy(OriginPolicy())
    starting = asyncio.create_task(proxy.start())
    for _ in range(turns):
        await asyncio.sleep(0)
    starting.cancel()
    await asyncio.wait({starting})
    await proxy.stop()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        del proxy, starting
        gc.collect()
    mine = [str(one.message) for one in caught if "unclosed <socket" in str(one.message)]
    assert not mine


async def test_a_failed_connection_says_why_and_is_no_denial() -> None:
    async with echo() as server:
        pass
    policy = OriginPolicy(allow=("*", f"127.0.0.1:{server.port}"))
    async with FilteringProxy(policy) as proxy:
        assert (await ask(proxy, "127.0.0.1", server.port))[0] == FAILED
        assert "Connection refused" in proxy.failure("127.0.0.1", server.port)[0]
        assert (await ask(proxy, "nowhere.invalid", 80))[0] == FAILED
        reason, denied = proxy.failure("nowhere.invalid", 80)
        assert reason.startswith("nowhere.invalid cannot be resolved: ")
        assert not denied
        assert proxy.take_denials() == []
