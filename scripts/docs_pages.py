"""The pages of the documentation that are made when it is built, and links that lead out of `docs`.

Made are the first page (the README), the changelog, how to contribute, the examples, the reference
of the commands, of the configuration keys, of the actions, and of the API: a page for each package,
with every module that README, docs or examples name.
So what a reader meets on a page has its reference, and nothing else is promised.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

import docs_actions
import docs_cli
import docs_keys

__all__ = ["ROOT", "made_pages", "relinked"]

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
TOP_FILES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples/two_cores/README.md": "two_cores.md",
}
"""The files beside `docs` that are pages of the site, and where."""
FACES = sorted(
    path
    for path in (ROOT / "src" / "webtraj").glob("**/__init__.py")
    if "_homes.face(" in path.read_text()
)
"""The packages whose names come from their modules when they are first used."""

REPOSITORY = "https://github.com/webtraj/webtraj/blob/main/"

LINK = re.compile(
    r"(!?\[[^\]]*\]\()(https://github\.com/webtraj/webtraj/(?:blob|tree)/main/"
    r"|https://raw\.githubusercontent\.com/webtraj/webtraj/main/)?([^)#\s:]+)((?:#[^)\s]*)?\))"
)
"""A link or picture within the repository. The README, which package indexes show as well, names
the repository's address; the site has the files themselves, except for other Markdown files."""
MODULE = re.compile(r"\bwebtraj(?:_[a-z]+)?(?:\.[a-z_0-9]+)+")
IMPORT = re.compile(r"from (webtraj[a-z_0-9.]*) import (?:\(([^)]*)\)|(.*))")
FACE = re.compile(r"from (webtraj[a-z_.]+) import \(?\s*(\w+) as")

EXAMPLES_HEAD = """\
# Examples

Each is a script of less than sixty lines, in the folder `examples`, and is run by the tests. It
says at the top what it needs and how to start it.
"""

API_HEAD = """\
# The API

A page for each package, made of the docstrings. What a page lists first can be imported from the
package itself, without the module; it is loaded when it is first used.

"""


def made_pages() -> dict[str, str]:
    """Returns the Markdown of each page that is made, by its place in the site."""
    pages = {
        **{page: relinked((ROOT / name).read_text(), name) for name, page in TOP_FILES.items()},
        "examples.md": "\n".join([EXAMPLES_HEAD, *_examples()]),
        "reference/cli.md": docs_cli.cli_reference(),
        "reference/keys.md": docs_keys.keys_reference(),
        "reference/actions.md": docs_actions.actions_reference(),
    }
    packages = _packages()
    pages["reference/api/index.md"] = API_HEAD + "\n".join(
        f"- [`{package}`]({package}.md): {_summary(package)}" for package in packages
    )
    for package, modules in packages.items():
        pages[f"reference/api/{package}.md"] = _api_page(package, modules)
    return pages


def relinked(text: str, source: str) -> str:
    """Returns a page with its links to files as they are in the site.

    Args:
        text: The page.
        source: Its place in the repository, such as `README.md` or `docs/guides/agent.md`.
    """
    in_site = posixpath.dirname(TOP_FILES.get(source, source.removeprefix("docs/")))

    def relink(match: re.Match[str]) -> str:
        target = _target(match, source)
        if target.startswith("docs/"):
            to = target.removeprefix("docs/")
        elif target in TOP_FILES:
            to = TOP_FILES[target]
        elif target.endswith(".md"):
            return f"{match[1]}{REPOSITORY}{target}{match[4]}"
        elif match[2] and target != "examples" and (ROOT / target).is_dir():
            return match[0]
        elif target == "examples" or target.startswith("examples/"):
            to = "examples.md"
        else:
            to = f"files/{target}"
        return match[1] + posixpath.relpath(to, in_site or ".") + match[4]

    return LINK.sub(relink, text)


def _target(match: re.Match[str], source: str) -> str:
    """Returns where a link of a page leads, by its place in the repository."""
    folder = "" if match[2] else posixpath.dirname(source)
    return posixpath.normpath(posixpath.join(folder, match[3]))


def linked_files() -> Iterator[str]:
    """Yields each file outside `docs` that a page links to and that is no page of the site."""
    for page in [*(ROOT / name for name in TOP_FILES), *DOCS.rglob("*.md")]:
        source = page.relative_to(ROOT).as_posix()
        for match in LINK.finditer(page.read_text()):
            target = _target(match, source)
            made = target in TOP_FILES or target.startswith(("docs/", "examples/"))
            if (ROOT / target).is_file() and not made and not target.endswith(".md"):
                yield target


def _examples() -> Iterator[str]:
    for path in sorted((ROOT / "examples").glob("[0-9]*.py")):
        summary = (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n")[0]
        yield f"## {path.name}\n\n{summary}\n\n```python\n{path.read_text()}```\n"


def _packages() -> dict[str, list[str]]:
    """Returns the modules that pages and examples name, by package."""
    texts = [
        *FACES,
        ROOT / "README.md",
        *DOCS.rglob("*.md"),
        *(ROOT / "examples").glob("[0-9]*.py"),
    ]
    found = set()
    for path in texts:
        text = path.read_text()
        found.update(MODULE.findall(text))
        for match in IMPORT.finditer(text):
            names = re.findall(r"\w+", match[2] or match[3])
            found.update(f"{match[1]}.{name}" for name in names)
    modules = {module for name in found if (module := _module(name))}
    packages: dict[str, list[str]] = {"webtraj": []}
    for module in sorted(name for name in modules if "._" not in name and name != "webtraj"):
        library, *rest = module.split(".")
        package = ".".join([library, *rest[:1]]) if library == "webtraj" else library
        packages.setdefault(package, []).append(module)
    return packages


def _module(name: str) -> str | None:
    """Returns the module that a dotted name is, or lies in; None if it is none of ours."""
    parts = name.split(".")
    while len(parts) > 1 and _file(".".join(parts)) is None:
        parts.pop()
    return ".".join(parts) if len(parts) > 1 or "_" in parts[0] else None


def _file(module: str) -> Path | None:
    path = module.replace(".", "/")
    files = (
        folder / name
        for folder in (ROOT / "src", *ROOT.glob("packages/*/src"))
        for name in (f"{path}.py", f"{path}/__init__.py")
    )
    return next((file for file in files if file.is_file()), None)


def _summary(module: str) -> str:
    file = _file(module)
    docstring = ast.get_docstring(ast.parse(file.read_text())) if file else None
    return (docstring or "").split("\n")[0]


def _api_page(package: str, modules: list[str]) -> str:
    """Returns a page of directives for mkdocstrings, which looks the modules up."""
    lines = [f"# {package}", ""]
    face = _file(package)
    if face is not None and face in FACES:
        homes = sorted((name, module) for module, name in FACE.findall(face.read_text()))
        lines += [*(f"- [`{package}.{name}`][{module}.{name}]" for name, module in homes), ""]
    if package == "webtraj":
        return "\n".join(lines)
    for module in [package, *(module for module in modules if module != package)]:
        if module == package or _file(module) is not None:
            lines += [f"::: {module}", ""]
    return "\n".join(lines)
