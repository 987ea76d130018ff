"""What an agent may reach beyond the page it is given: which URLs, which files.

A policy may also have an attribute `network`, a `NetworkPolicy` for what pages themselves may reach
(`network_of`); without one they may reach what the agent may open. None leaves the network alone:
for a browser that runs elsewhere, or behind a proxy that filters already.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Protocol

from webtraj.environments.browser.network import (
    NO_NETWORK,
    PUBLIC_WEB,
    NetworkPolicy,
    Verdict,
)

__all__ = ["AccessPolicy", "NoAccess", "WebAccess", "network_of"]


class AccessPolicy(Protocol):
    """Says what may be opened and what may be uploaded."""

    def open(self, url: str) -> bool:
        """Whether a URL may be opened."""

    def travel(self) -> bool:
        """Whether the agent may go through the history, reload, and open and close tabs."""

    def upload(self, path: str) -> Path | None:
        """Returns the file that a path in an action names; None if it may not be uploaded."""


@dataclasses.dataclass(frozen=True, slots=True)
class NoAccess:
    """The policy of a task that lives in one page: nothing else may be opened or uploaded."""

    network: NetworkPolicy | None = NO_NETWORK

    def open(self, url: str) -> bool:
        """See `AccessPolicy.open`."""
        return False

    def travel(self) -> bool:
        """See `AccessPolicy.travel`."""
        return False

    def upload(self, path: str) -> Path | None:
        """See `AccessPolicy.upload`."""
        return None


@dataclasses.dataclass(frozen=True, slots=True)
class WebAccess:
    """The policy of a task on the web: pages that the network policy allows, one folder's files."""

    network: NetworkPolicy | None = PUBLIC_WEB
    """What pages and agent may reach; by default the public web, and nothing private."""
    uploads: Path | None = None
    """The folder that files may be uploaded from; None allows none."""

    def open(self, url: str) -> bool:
        """See `AccessPolicy.open`."""
        if url == "about:blank":
            return True
        if self.network is None:
            return url.lower().startswith(("http://", "https://"))
        return self.network.judge_url(url).allowed

    def travel(self) -> bool:
        """See `AccessPolicy.travel`."""
        return True

    def upload(self, path: str) -> Path | None:
        """See `AccessPolicy.upload`. Links that lead out of the folder are followed and refused."""
        if self.uploads is None:
            return None
        try:
            file = (self.uploads / path).resolve()
            allowed = file.is_relative_to(self.uploads.resolve()) and file.is_file()
        except (OSError, ValueError, RuntimeError):  # Too long, not a path, links in a circle.
            return None
        return file if allowed else None


def network_of(policy: AccessPolicy) -> NetworkPolicy | None:
    """Returns what pages may reach under a policy; None if that is not restricted here."""
    network: NetworkPolicy | None = getattr(policy, "network", _Openable(policy))
    return network


@dataclasses.dataclass(frozen=True, slots=True)
class _Openable:
    """What may be opened may be reached."""

    policy: AccessPolicy

    @property
    def denies_everything(self) -> bool:
        return False

    def judge_url(self, url: str) -> Verdict:
        if self.policy.open(url):
            return Verdict(True, "it may be opened")
        return Verdict(False, "it may not be opened")

    def judge(self, scheme: str, host: str, port: int, address: str = "") -> Verdict:
        # Of any address: what no name may lead to, the proxy refuses under every policy.
        usual = {"http": 80, "https": 443}.get(scheme) == port
        shown = f"[{host}]" if ":" in host else host
        return self.judge_url(f"{scheme}://{shown}" + ("" if usual else f":{port}") + "/")
