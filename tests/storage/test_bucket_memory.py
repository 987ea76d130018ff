"""How much memory a large upload takes."""

import json
import subprocess
import sys

import pytest

_UPLOAD = """
import json, os, re, sys
from pathlib import Path

from webtraj.store.places import open_storage

url, options, parts = json.loads(sys.argv[1])
storage = open_storage(url, options)
data = os.urandom(64 << 20)
storage.write("warm/up", b"1")

def peak():  # Of this program only; getrusage counts what ran before exec too.
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) << 10

before = peak()
storage.write("large", data, overwrite=parts)
print(peak() - before)
assert storage.size("large") == len(data)
"""


@pytest.mark.slow
@pytest.mark.parametrize("parts", [True, False], ids=["in parts", "in one piece"])
def test_an_upload_of_64_mib_takes_hardly_any_memory_beside_them(bucket_url, bucket_options, parts):
    options = {**bucket_options, "timeout": 60.0}
    arguments = json.dumps([bucket_url, options, parts])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _UPLOAD, arguments],
        capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    # The parts are views of the data; not even one of them is copied.
    assert int(done.stdout) < 8 << 20
