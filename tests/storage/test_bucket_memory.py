"""How much memory a large upload takes."""

import json
import subprocess
import sys

import pytest

_UPLOAD = """
import json, os, resource, sys
from webtraj.storage import open_storage

url, options, parts = json.loads(sys.argv[1])
storage = open_storage(url, options)
data = os.urandom(64 << 20)
storage.write("warm/up", data[: 9 << 20] if parts else data[: 1 << 20])

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10

before = peak()
storage.write("large", data, overwrite=parts)
print(peak() - before)
assert storage.size("large") == len(data)
"""


@pytest.mark.parametrize("parts", [True, False], ids=["in parts", "in one piece"])
def test_an_upload_of_64_mib_takes_a_few_parts_of_memory(bucket_url, bucket_options, parts):
    options = {**bucket_options, "parallel_parts": 2, "timeout": 60.0}
    arguments = json.dumps([bucket_url, options, parts])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _UPLOAD, arguments],
        capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    # Beside the data themselves: parts of 8 MiB, two on their way and two being filled.
    assert int(done.stdout) < 40 << 20
