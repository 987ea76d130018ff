"""One module imports the HTTP client, so that another library is one line away."""

import ast
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
