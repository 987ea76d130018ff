"""The token that `ray start` uses for this user is used for a rollout, unless the user decided."""

import os
import subprocess
import sys

import pytest

from rows import each

USE = """
import sys
from webtraj.rollouts.distributed.cluster import use_own_token
used = use_own_token(sys.argv[1])
from ray._private.authentication.authentication_utils import is_token_auth_enabled
print(used, is_token_auth_enabled())
"""


@pytest.mark.gate
@each(
    ("variables", "has_file", "address", "expected"),
    [
        ({}, False, "auto", "False False"),
        ({}, True, "auto", "True True"),
        ({}, True, "http://127.0.0.1:8265", "True True"),
        ({}, True, "http://192.0.2.7:8265", "False False"),
        ({"RAY_AUTH_TOKEN": "t"}, False, "192.0.2.7:6379", "True True"),
        ({"RAY_AUTH_MODE": "disabled"}, True, "auto", "False False"),
    ],
)
def test_the_users_token_is_used_where_there_is_one(
    variables, has_file, address, expected, tmp_path
):
    home = tmp_path / ("with" if has_file else "without")
    (home / ".ray").mkdir(parents=True, exist_ok=True)
    if has_file:
        (home / ".ray" / "auth_token").write_text("t" * 64)
    plain = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    done = subprocess.run(
        [sys.executable, "-c", "import ray\n" + USE, address],
        env={**plain, "HOME": str(home), **variables},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == expected, done.stderr
