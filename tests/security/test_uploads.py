"""Which files a model may give away: those of one folder, however it names them."""

from pathlib import Path

import pytest

from rows import each
from webtraj.environments.browser.access import WebAccess

UPLOADS = {
    "../secret.txt", "../../etc/passwd", "/etc/passwd", "link", "linked/secret.txt", "sub",
    "loop", "x" * 5000, "missing.txt", "", ".", "..", "sub/../../secret.txt", "~/x", "fifo",
    "ok.txt/../../secret.txt", "https://x.test/a", "file:///etc/passwd", "a\x00b",
}  # fmt: skip


@each("path", sorted(UPLOADS))
def test_a_model_uploads_nothing_from_outside_its_folder(folder: Path, path: str) -> None:
    assert WebAccess(uploads=folder).upload(path) is None
    assert WebAccess().upload(path) is None


@pytest.mark.parametrize("path", ["ok.txt", "sub/deep.txt", "sub/../ok.txt", "./ok.txt"])
def test_a_model_uploads_what_its_folder_holds(folder: Path, path: str) -> None:
    assert WebAccess(uploads=folder).upload(path) is not None
    assert WebAccess(uploads=folder).upload(str((folder / path).resolve())) is not None
