"""Access policies: which URLs and files an agent may reach beyond its first page.

A policy may also have an attribute `network`, a `NetworkPolicy` for the pages themselves
(`network_of`); without it, pages may reach what the agent may open. None disables network
filtering: for a browser that runs elsewhere or behind a filtering proxy.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Protocol

from webtraj.environments.browser.network import BLANK
from webtraj.environments.browser.network_policy import (
    NO_NETWORK,
    PUBLIC_WEB,
    NetworkPolicy,
    Verdict,
    with_start,
)
from webtraj.net.hosts import netloc

__all__ = ["AccessPolicy", "NoAccess", "WebAccess", "at_home", "network_of"]


class AccessPolicy(Protocol):
    """A rule for what may be opened and uploaded."""

    def open(self, url: str) -> bool:
        """Return whether a URL may be opened."""

    def travel(self) -> bool:
        """Return whether the agent may go through the history, reload, and open and close tabs."""

    def upload(self, path: str) -> Path | None:
        """Return the file for a path in an action; None if it may not be uploaded."""


@dataclasses.dataclass(frozen=True, slots=True)
class NoAccess:
    """The policy of a one-page task: nothing else may be opened or uploaded."""

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
    """The policy of a task on the web: pages allowed by a network policy, files of one folder."""

    network: NetworkPolicy | None = PUBLIC_WEB
    """What pages and the agent may reach; by default the public web, nothing private."""
    uploads: Path | None = None
    """The folder from which files may be uploaded; None allows no upload."""

    def open(self, url: str) -> bool:
        """See `AccessPolicy.open`."""
        if url == BLANK:
            return True
        if self.network is None:
            return url.lower().startswith(("http://", "https://"))
        return self.network.judge_url(url).allowed

    def travel(self) -> bool:
        """See `AccessPolicy.travel`."""
        return True

    def upload(self, path: str) -> Path | None:
        """See `AccessPolicy.upload`. Symbolic links out of the folder are refused."""
        if self.uploads is None:
            return None
        try:
            file = (self.uploads / path).resolve()
            allowed = file.is_relative_to(self.uploads.resolve()) and file.is_file()
        except (OSError, ValueError, RuntimeError):  # Too long, not a path, circular links.
            return None
        return file if allowed else None


def at_home(policy: AccessPolicy, start_url: str) -> AccessPolicy:
    """Return a policy that also lets the agent open what pages may: the task's own origin."""
    if not isinstance(policy, WebAccess):
        return policy
    return dataclasses.replace(policy, network=with_start(policy.network, start_url))


def network_of(policy: AccessPolicy) -> NetworkPolicy | None:
    """Return the network policy for pages; None if the network is not restricted here."""
    network: NetworkPolicy | None = getattr(policy, "network", _Openable(policy))
    return network


@dataclasses.dataclass(frozen=True, slots=True)
class _Openable:
    """A network policy that allows what the agent may open."""

    policy: AccessPolicy

    @property
    def denies_everything(self) -> bool:
        return False

    def judge_url(self, url: str) -> Verdict:
        if self.policy.open(url):
            return Verdict(True, "it may be opened")
        return Verdict(False, "it may not be opened")

    def judge(self, scheme: str, host: str, port: int, address: str = "") -> Verdict:
        # Any address: the proxy refuses forbidden ones under every policy.
        usual = {"http": 80, "https": 443}.get(scheme) == port
        shown = netloc(host, port)
        return self.judge_url(f"{scheme}://{shown.removesuffix(f':{port}') if usual else shown}/")
