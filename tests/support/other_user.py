"""Another user of this machine, who asks our servers. Only root can become one."""

import os
import subprocess
import sys
import urllib.parse

import pytest

from webtraj.net import hosts

USER = 65534

needs_root = pytest.mark.skipif(
    sys.platform != "linux" or os.getuid() != 0 or not hosts.knows_owners(),
    reason="becomes another user, whom the kernel must tell from this one",
)

_PROGRAM = """
import encodings.idna, os, socket, sys
user, port, *requests = sys.argv[1:]
os.setgroups([])
os.setgid(int(user))
os.setuid(int(user))
for request in requests:
    with socket.create_connection(("127.0.0.1", int(port)), 60) as server:
        try:
            server.sendall(bytes.fromhex(request))
            print(server.recv(1000).hex())
        except ConnectionError:
            print()
"""


def ask(url, *requests, user=USER):
    """Send each request's bytes by a connection of a user; return how each answer begins."""
    port = urllib.parse.urlsplit(url).port
    command = [sys.executable, "-c", _PROGRAM, str(user), str(port), *(r.hex() for r in requests)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [bytes.fromhex(line) for line in done.stdout.splitlines()]


def statuses(url, *lines, user=USER, headers=""):
    """Return the status of each request, such as `GET /health`; 0 if nobody answers.

    `WS /ws` asks for a WebSocket.
    """
    host = urllib.parse.urlsplit(url).netloc
    requests = []
    for line in lines:
        method, _, path = line.partition(" ")
        more = headers
        if method == "WS":
            method = "GET"
            more += (
                "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            )
        else:
            more += "Content-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n"
        body = "" if "websocket" in more else "{}"
        requests.append(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n{body}".encode())
    answers = ask(url, *requests, user=user)
    return [int(answer.split(b" ")[1]) if answer else 0 for answer in answers]
