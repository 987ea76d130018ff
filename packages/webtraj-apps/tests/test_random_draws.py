"""What an application draws at random is the same whenever the same requests come."""

import shutil
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from webtraj_apps import app as app_lib

SERVE = Path(app_lib.__file__).with_name("serve.py")

HOST = """
import random, secrets, uuid

def enter(state):
    pass

def open_application(root):
    def application(environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        drawn = f"{random.random()} {secrets.token_urlsafe(8)} {uuid.uuid4()}"
        return [drawn.encode()]
    return application
"""


@pytest.fixture
def worlds(tmp_path):
    host = tmp_path / "host.py"
    host.write_text(textwrap.dedent(HOST))
    root = tmp_path / "worlds"
    root.mkdir()
    server = subprocess.Popen(
        [sys.executable, str(SERVE), "serve", str(host), str(root), "2000"], stdin=subprocess.PIPE
    )
    deadline = time.monotonic() + 30
    while not (root / "host.sock").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    yield root
    server.stdin.close()  # It ends with its owner.
    server.wait()


def draw(world, path):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(world.parent / "host.sock"))
        asked = f"WORLD {world.name}\nGET {path} HTTP/1.0\r\nHost: a.test\r\nAccept: text/html"
        connection.sendall(f"{asked}\r\n\r\n".encode())
        with connection.makefile("rb") as answer:
            return answer.read().partition(b"\r\n\r\n")[2]


def test_equal_requests_to_equal_worlds_draw_the_same_and_no_world_draws_twice(worlds):
    one, two = worlds / "one", worlds / "two"
    one.mkdir()
    two.mkdir()
    paths = ("/", "/a", "/a", "/b")
    drawn = [draw(one, path) for path in paths]
    assert len({part for each in drawn for part in each.split()}) == 3 * len(paths)
    assert [draw(two, path) for path in paths] == drawn
    shutil.copytree(one, worlds / "copy")
    assert draw(worlds / "copy", "/b") == draw(one, "/b") not in drawn
