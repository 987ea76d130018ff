"""A file read in a process of its own that may not have much memory."""

import subprocess
import sys
import textwrap

GIB = 1 << 30
READ = """
import importlib, pathlib, resource, sys
from webtraj import errors
where = pathlib.Path(sys.argv[1])
for name in sys.argv[3:]:
    globals()[name.rpartition(".")[2]] = importlib.import_module(name)
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]), int(sys.argv[2])))
try:
%s
except errors.WebtrajError as error:
    print(type(error).__name__, error)
print("DONE", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def read_confined(code, modules, where, memory=3 * GIB):
    """Run code that reads a file; return what it printed, and its most memory in bytes.

    Args:
        code: The code; `where` is the file, and each module has its own last name.
        modules: The modules that it needs, loaded before the limit holds.
        where: The file.
        memory: The address space in bytes.
    """
    program = READ % textwrap.indent(textwrap.dedent(code), "    ")
    done = subprocess.run(
        [sys.executable, "-c", program, str(where), str(memory), *modules],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    *said, last = done.stdout.splitlines()
    return "\n".join(said), int(last.removeprefix("DONE ")) * 1024
