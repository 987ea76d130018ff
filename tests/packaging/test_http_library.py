"""One module imports the HTTP client, so that another library is one line away."""

import ast
import subprocess
import sys
from pathlib import Path

import webtraj

SOURCE = Path(webtraj.__file__).parent


def test_no_other_module_imports_the_http_client():
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.partition(".")[0] in ("httpx", "httpx2") for name in names):
                found.add(path.relative_to(SOURCE).as_posix())
    assert found == {"http.py"}


def test_where_the_newer_library_is_missing_the_older_one_is_used():
    program = (
        "import sys; sys.modules['httpx2'] = None\n"
        "from webtraj.http import httpx; print(httpx.__name__)\n"
        "import webtraj.agents.models, webtraj.serving\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "httpx\n"
