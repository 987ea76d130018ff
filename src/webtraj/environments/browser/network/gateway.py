"""The way of one browser context to the network."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final, Self

from webtraj.environments.browser.network.origins import NetworkPolicy, destination_of
from webtraj.environments.browser.network.proxy import (
    Denial,
    FilteringProxy,
    LocalSites,
    Resolve,
)

__all__ = ["NETWORK_ARGUMENTS", "Gateway"]

_NOWHERE: Final = "http://127.0.0.1:0"
"""A proxy that is never there: port 0 cannot be listened on."""

_EVERYTHING: Final = "<-loopback>"
"""A list of hosts that go past the proxy: none, not even the loopback ones, which do by default."""

NETWORK_ARGUMENTS: Final = (
    # WebRTC speaks UDP, which no proxy sees: its packets would tell the machine's addresses, and go
    # where a page sends them. Chromium and its headless shell call the switch differently.
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    # A name is looked up by the proxy, or else not at all: a look-up tells its server the name.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    # Nobody is there to answer a prompt; a page that waits for an answer would never settle.
    "--deny-permission-prompts",
    # The browser's own traffic.
    "--disable-background-networking",
    "--disable-domain-reliability",
    "--no-pings",
)
"""Command-line arguments of a browser without which its traffic could go past the proxy."""


class Gateway:
    """The way of one browser context to the network: a proxy of its own that enforces a policy.

    Args:
        policy: What may be reached. If that is nothing, and no site is local, there is no proxy and
            there are no denials to report.
        local: Sites in this process, by host and port, which may always be reached.
        resolve: Return the addresses of a host; by default the system's resolver.
    """

    def __init__(
        self,
        policy: NetworkPolicy,
        *,
        local: LocalSites | None = None,
        resolve: Resolve | None = None,
    ) -> None:
        self.policy = policy
        self._proxy = (
            FilteringProxy(policy, local=local, resolve=resolve)
            if local or not policy.denies_everything
            else None
        )

    @property
    def context_options(self) -> dict[str, Any]:
        """Options for Playwright's `Browser.new_context` that lead through the gateway."""
        server = _NOWHERE if self._proxy is None else self._proxy.url
        return {"proxy": {"server": server, "bypass": _EVERYTHING}}

    def take_denials(self) -> list[Denial]:
        """Return what was not let through since the last call."""
        return [] if self._proxy is None else self._proxy.take_denials()

    def failure(self, url: str) -> tuple[str, bool]:
        """Return why the last connection for a URL failed, and whether it was denied.

        The reason is empty if the connection did not fail on the way.
        """
        destination = destination_of(url)
        if self._proxy is None or destination is None:
            return "", False
        return self._proxy.failure(*destination)

    async def open(self) -> None:
        """Start to let through what is allowed."""
        if self._proxy is not None:
            await self._proxy.start()

    async def close(self) -> None:
        """Stop letting anything through. Idempotent."""
        if self._proxy is not None:
            await self._proxy.stop()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
