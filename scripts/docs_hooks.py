"""What `mkdocs build` calls: pages that are made are put into the site, and links are mended."""

from __future__ import annotations

import posixpath
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).resolve().parent))
import docs_pages


def on_config(config: Any) -> Any:
    """Puts the pages of the API into the navigation."""
    reference = next(part["Reference"] for part in config.nav if "Reference" in part)
    api = next(part["API"] for part in reference if "API" in part)
    made = docs_pages.made_pages()
    pages = (uri for uri in made if uri.startswith("reference/api/") and uri not in api)
    api += sorted(pages, key=lambda uri: uri.removesuffix(".md"))
    return config


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages that are made, and the files outside `docs` that pages link to."""
    for uri, text in docs_pages.made_pages().items():
        files.append(File.generated(config, uri, content=text))
    for target in sorted(set(docs_pages.linked_files())):
        path = docs_pages.ROOT / target
        files.append(File.generated(config, f"files/{target}", content=path.read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Leads links out of `docs` to where their targets are in the site."""
    if page.file.generated_by:
        return markdown
    return docs_pages.relinked(markdown, posixpath.join("docs", page.file.src_uri))
