"""What stands in the fences of a page, and what a page says of them in comments.

Before a fence there may be a line `<!-- not run: WHY -->`, or `<!-- needs: MODULE -->`: it is run
where the module can be imported. A fence with `title="FILE"` is written to that file. A page that
takes long says `<!-- slow -->` anywhere.
"""

import dataclasses
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "examples/two_cores/README.md",
    *sorted(ROOT.glob("examples/*/results/*.md")),
    ROOT / "benchmarks/RESULTS.md",
    *sorted(ROOT.glob("benchmarks/results/*.md")),
    *sorted(ROOT.glob("packages/*/results/*.md")),
    *sorted(DOCS.rglob("*.md")),
]

FENCE = re.compile(
    r"^(?:<!-- (?P<kind>not run|needs): (?P<said>[^>]*?) -->\n)?"
    r'^```(?P<language>\w*)(?: title="(?P<title>[^"]*)")?\n(?P<text>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)


@dataclasses.dataclass(frozen=True)
class Block:
    """A fence of a page."""

    page: Path
    line: int
    language: str
    title: str
    text: str
    not_run: str
    needs: str

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT).as_posix().removeprefix('docs/')}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(
            page=page,
            line=text.count("\n", 0, match.start("text")) + 1,
            language=match["language"],
            title=match["title"] or "",
            text=match["text"],
            not_run=match["said"] if match["kind"] == "not run" else "",
            needs=match["said"] if match["kind"] == "needs" else "",
        )
        for match in FENCE.finditer(text)
    ]


def is_slow(page: Path) -> bool:
    return "<!-- slow -->" in page.read_text()
