"""Draw docs/images/house.svg: the packages of webtraj as rooms, on floors, as their imports allow.

A package imports only packages below it; the floors are those of `FLOORS`, which
tests/packaging/test_layers.py checks against the code. A room is the wider, the more lines it has.
The arrows are the imports that run up all the same.
"""

from __future__ import annotations

import ast
import dataclasses
import html
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "webtraj"
FILE = ROOT / "docs" / "images" / "house.svg"

FLOORS = (
    ("data model, settings, hosts", "errors shown trajectory settings net _homes"),
    ("files on disk, in buckets", "store"),
    ("find and hide secrets", "redaction"),
    ("record episodes", "collectors"),
    ("act on pages", "environments registry"),
    ("read, check, convert", "datasets runs"),
    ("decide what to do", "agents"),
    ("say what an episode was worth", "judging metrics"),
    ("make datasets from datasets", "processing"),
    ("play many episodes at once", "rollouts demonstrating"),
    ("find tasks, train, serve", "exploring training serving gateway"),
    ("repeat, watch, look", "loop view"),
    ("commands, and tools for tests", "cli testing"),
)
"""From the lowest to the highest: what a floor is for, and its packages. On one floor, packages may
import each other, in no circle."""

WIDTH = 960
_LEFT, _RIGHT = 40, 890
_ROOMS = 290
"""Where rooms begin; what the floor is for stands to the left."""
_ROOM, _GAP, _SLAB = 34, 8, 14
"""A room's height, the gap between two, and what is between two floors."""
_ROOF = 96

_STYLE = """
  .ground { fill: #eef5f4 } .soil { fill: #d5dedb } .wall { fill: #ffffff; stroke: #0b7d73 }
  .roof { fill: #0b7d73 } .title { fill: #ffffff; font-size: 20px; font-weight: 700 }
  .slab { stroke: #b9dcd8 } .room { fill: #d3edea; stroke: #0b7d73 } .name { fill: #0b3b38 }
  .name { font-size: 13px; font-weight: 600; text-anchor: middle } .floor { fill: #44605e }
  .down { stroke: #0b7d73 }
  .arrow { fill: #0b7d73 } .rule { fill: #0b7d73; font-size: 13px; font-weight: 600 }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0e1718 } .soil { fill: #1a2626 } .wall { fill: #132021; stroke: #3fb5a9 }
    .roof { fill: #12665f } .slab { stroke: #28484a } .room { fill: #17413f; stroke: #3fb5a9 }
    .name { fill: #d9f3ef } .floor { fill: #a2bdba }
    .down { stroke: #3fb5a9 } .arrow, .rule { fill: #4fc9bd }
  }
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Room:
    """A package in the picture."""

    name: str
    x: int
    y: int
    width: int

    @property
    def middle(self) -> int:
        """Where its name stands."""
        return self.x + self.width // 2


def strings(tree: ast.AST, *, bare: bool = False) -> Iterator[tuple[str, int]]:
    """Yield each module named by a string `webtraj.x:y`, or `webtraj.x` if `bare`, and its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = re.fullmatch(r"(webtraj\w*(?:\.\w+)+)(:\w+)?", node.value)
            if named and (named[2] or bare):
                yield named[1], node.lineno


def arrows() -> Iterator[tuple[str, str, str]]:
    """Yield (package, package that it imports, where)."""
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE)
        package = place.parts[0].removesuffix(".py")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found = list(strings(tree, bare=True))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found += [(f"{node.module}.{alias.name}", node.lineno) for alias in node.names]
            elif isinstance(node, ast.Import):
                found += [(alias.name, node.lineno) for alias in node.names]
        for module, line in found:
            top, _, rest = module.partition(".")
            imported = rest.partition(".")[0]
            if top == "webtraj" and imported and imported != package:
                yield package, imported, f"{place}:{line}"


def imports_of_files(root: Path = ROOT) -> dict[str, set[str]]:
    """Return the modules that each module of a tree imports when it is imported itself.

    Strings `webtraj.x:y` count, annotations do not.
    """
    files = {
        ".".join(file.relative_to(source).with_suffix("").parts).removesuffix(".__init__"): (
            ast.parse(file.read_text("utf-8"))
        )
        for source in (root / "src", *root.glob("packages/*/src"))
        for file in source.rglob("*.py")
    }
    graph = {}
    for name, tree in files.items():
        imported = {
            whole if (whole := f"{module}.{one}".lstrip(".")) in files else module
            for module, one in _imported_at_first(tree.body)
        }
        imported |= {module for module, _ in strings(tree)}
        graph[name] = imported & files.keys() - {name}
    return graph


def _imported_at_first(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """Yield (module, name) of what a module imports when it is imported itself."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (("", name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", name.name) for name in node.names)
        elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            yield from _imported_at_first(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _imported_at_first(ast.iter_child_nodes(node))


def sizes() -> dict[str, int]:
    """Return each package's lines, coarsely: the figures of the picture."""
    counted = {}
    for _, names in FLOORS:
        for name in names.split():
            here = SOURCE / f"{name}.py"
            files = [here] if here.exists() else sorted((SOURCE / name).rglob("*.py"))
            lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
            digits = 10 ** max(1, len(str(lines)) - 2)
            counted[name] = max(digits, round(lines / digits) * digits)
    return counted


def draw(lines: Mapping[str, int]) -> str:
    """Return the picture."""
    floors, bottom = _placed(lines)
    height = bottom + 46
    cellar = floors[0][1] - _SLAB // 2
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
            'aria-labelledby="title desc" font-family="system-ui, Segoe UI, Helvetica, Arial, '
            'DejaVu Sans, sans-serif" font-size="13">'
        ),
        '<title id="title">The house of webtraj</title>',
        f'<desc id="desc">{_described()}</desc>',
        f"<style>{_STYLE}</style>",
        f'<rect class="ground" width="{WIDTH}" height="{height}" rx="14"/>',
        (
            f'<path class="soil" d="M0 {cellar}H{WIDTH}V{height - 14}a14 14 0 0 1 -14 14H14'
            f'a14 14 0 0 1 -14 -14Z"/>'
        ),
        (
            f'<rect class="wall" x="{_LEFT}" y="{_ROOF}" width="{_RIGHT - _LEFT}" '
            f'height="{bottom - _ROOF + 8}" stroke-width="2"/>'
        ),
        (
            f'<path class="roof" d="M{_LEFT - 22} {_ROOF + 2}L{(_LEFT + _RIGHT) // 2} 18L'
            f'{_RIGHT + 22} {_ROOF + 2}Z"/>'
        ),
        (
            f'<text class="title" x="{(_LEFT + _RIGHT) // 2}" y="{_ROOF - 22}" '
            'text-anchor="middle">webtraj</text>'
        ),
    ]
    for what, top, row in floors:
        if top != floors[-1][1]:
            y = top - _SLAB // 2
            parts.append(f'<path class="slab" d="M{_LEFT + 1} {y}H{_RIGHT - 1}" stroke-width="2"/>')
        end = max(room.y for room in row) + _ROOM
        parts.append(
            f'<text class="floor" x="{_LEFT + 18}" y="{(top + end) // 2 + 5}">'
            f"{html.escape(what)}</text>"
        )
        parts.extend(
            f'<g id="{room.name}"><rect class="room" '
            f'x="{room.x}" y="{room.y}" width="{room.width}" height="{_ROOM}" rx="4"/>'
            f'<text class="name" x="{room.middle}" y="{room.y + 22}">{room.name}</text></g>'
            for room in row
        )
    x, last = _RIGHT + 38, bottom - 20
    parts.append(
        f'<path class="down" d="M{x} {_ROOF + 40}V{last}" stroke-width="2"/>'
        f'<path class="arrow" d="M{x - 6} {last - 2}L{x} {last + 12}L{x + 6} {last - 2}Z"/>'
        f'<text class="rule" transform="translate({x - 10} {(_ROOF + last) // 2}) rotate(-90)" '
        'text-anchor="middle">imports point down</text>'
    )
    return "\n".join([*parts, "</svg>\n"])


def _placed(lines: Mapping[str, int]) -> tuple[list[tuple[str, int, list[Room]]], int]:
    """Return the floors, the lowest first: (what it is for, top, rooms); and where all ends."""
    widest = max(sum(math.sqrt(lines[name]) for name in names.split()) for _, names in FLOORS[1:])
    scale = (_RIGHT - _ROOMS - 100) / widest
    y, floors = _ROOF + _SLAB, []
    for what, names in reversed(FLOORS):
        top, x, row = y, _ROOMS, []
        for name in names.split():
            width = max(round(scale * math.sqrt(lines[name])), round(8.4 * len(name)) + 16)
            if x + width > _RIGHT - 44:
                x, y = _ROOMS, y + _ROOM + _GAP
            row.append(Room(name, x, y, width))
            x += width + _GAP
        floors.append((what, top, row))
        y += _ROOM + _SLAB
    return floors[::-1], y - _SLAB


def _described() -> str:
    floors = "; ".join(f"{names.replace(' ', ', ')} ({what})" for what, names in reversed(FLOORS))
    return html.escape(f"A house in section. From the roof to the cellar: {floors}.")


if __name__ == "__main__":
    FILE.write_text(draw(sizes()), encoding="utf-8")
