"""What a page may reach: the rules, and their enforcement.

`origins` has the rules, `proxy` the proxy that enforces them, `gateway` makes a browser use it.

The rules are enforced outside the browser, by a proxy that all of its traffic must pass: pages,
frames, popups and workers, every hop of a redirect, WebSockets. Request interception inside the
browser misses some of these; a page cannot talk its way around a proxy.
"""

from webtraj.environments.browser.network.gateway import NETWORK_ARGUMENTS, Gateway
from webtraj.environments.browser.network.origins import (
    NO_NETWORK,
    PUBLIC_WEB,
    NetworkPolicy,
    OriginPolicy,
    Verdict,
    destination_of,
    origin_of,
)
from webtraj.environments.browser.network.proxy import Denial, FilteringProxy, LocalSites, Serve

__all__ = [
    "NETWORK_ARGUMENTS",
    "NO_NETWORK",
    "PUBLIC_WEB",
    "Denial",
    "FilteringProxy",
    "Gateway",
    "LocalSites",
    "NetworkPolicy",
    "OriginPolicy",
    "Serve",
    "Verdict",
    "destination_of",
    "origin_of",
]
