"""Finding a port for a server."""

from __future__ import annotations

import socket

from webtraj import errors

__all__ = ["claim"]


def claim(host: str, port: int) -> int:
    """Returns a port that nobody listens at.

    vLLM shares a port with whoever else allows it, so that two servers on one would go unnoticed.

    Args:
        host: The address to listen at.
        port: The port; 0 for one that is free.

    Raises:
        InvalidInputError: The address is not this machine's, or somebody listens at the port.
    """
    try:
        ((family, kind, protocol, _, address), *_) = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            return int(probe.getsockname()[1])
    except OSError as error:
        raise errors.InvalidInputError(
            f"The model server cannot listen at {host}, port {port}: {error.strerror}. Give port 0 "
            "for one that is free."
        ) from error
