"""The README as a package index shows it: without the repository around it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = re.sub(r"(?ms)^```.*?^```", "", (ROOT / "README.md").read_text())
TARGETS = sorted(
    {
        *re.findall(r"\]\((\S+?)\)", README),
        *re.findall(r"""\b(?:src|href|srcset)=["'](.+?)["']""", README),
        *re.findall(r"^\[[^\]]+\]:\s*(\S+)", README, re.MULTILINE),
    }
)
IN_REPOSITORY = re.compile(
    r"https://(?:github\.com/webtraj/webtraj/(?P<kind>blob|tree)"
    r"|raw\.githubusercontent\.com/webtraj/webtraj)/main/(?P<path>[^#?]+)"
)


def test_there_are_links_and_pictures():
    assert [target for target in TARGETS if "/docs/images/" in target]
    assert [target for target in TARGETS if target.endswith(".md")]


@pytest.mark.parametrize("target", TARGETS)
def test_link_leads_somewhere_from_anywhere(target):
    assert target.startswith(("https://", "#"))
    if match := IN_REPOSITORY.match(target):
        path = ROOT / match["path"]
        assert path.is_dir() if match["kind"] == "tree" else path.is_file()


def test_pictures_are_pictures_and_no_pages():
    pictures = re.findall(r"!\[[^\]]*\]\((\S+?)\)", README)
    assert pictures
    assert not [picture for picture in pictures if "/blob/" in picture]
