"""The README as a package index shows it: without the repository around it."""

import re
from pathlib import Path

from rows import each

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


@each("target", TARGETS)
def test_link_leads_somewhere_from_anywhere(target):
    assert target.startswith(("https://", "#"))
    if match := IN_REPOSITORY.match(target):
        path = ROOT / match["path"]
        assert path.is_dir() if match["kind"] == "tree" else path.is_file()
