"""The token that `ray start` uses for this user is used for a rollout, unless the user decided."""

import json
import os
import subprocess
import sys

import pytest

CASES = [
    ({}, False, "127.0.0.1:6379", False),
    ({}, True, "127.0.0.1:6379", True),
    ({}, True, "http://127.0.0.1:8265", True),
    ({}, True, "http://192.0.2.99:8265", False),
    ({}, True, "127.0.0.1:6379", True),
    ({}, False, "127.0.0.1:6379", False),
    ({"RAY_AUTH_MODE": "disabled"}, True, "127.0.0.1:6379", False),
]
USE = """
import json, os, sys
import ray
from ray import _raylet
from ray._private.authentication.authentication_utils import is_token_auth_enabled
from webtraj.rollouts.distributed.cluster import use_own_token

for variables, home, address in json.load(sys.stdin):
    os.environ |= {**variables, "HOME": home}
    _raylet.Config.initialize("")
    use_own_token(address)
    print(is_token_auth_enabled())
"""


@pytest.mark.slow
@pytest.mark.gate
def test_the_users_token_is_used_where_there_is_one(tmp_path):
    homes = [tmp_path / "without", tmp_path / "with"]
    for home in homes:
        (home / ".ray").mkdir(parents=True)
    (homes[True] / ".ray" / "auth_token").write_text("t" * 64)
    rows = [(variables, str(homes[token]), address) for variables, token, address, _ in CASES]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    done = subprocess.run(
        [sys.executable, "-c", USE],
        env=plain, input=json.dumps(rows), capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.stdout.split() == [str(expected) for *_, expected in CASES], done.stderr
