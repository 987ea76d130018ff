"""What oracles read off goals and pages: shapes, polygons, airports."""

import itertools
import math

import pytest

from rows import each
from webtraj.environments.miniwob.oracles import Element, OracleError, match_goal, shapes

SELECT = r"Select (\w+) and click Submit\."


@pytest.mark.parametrize(
    "goal",
    [
        "Please select bob and click Submit.",
        "select bob and click submit.",
        "Select bob and click Submit",
        "Select bob and click Submit.\n",
    ],
)
def test_goal_must_match_as_a_whole(goal):
    with pytest.raises(OracleError, match=r"The goal .* does not match"):
        match_goal(SELECT, goal)


def svg(tag, text="", height=20.0, **attributes):
    attributes = {name.replace("_", "-"): value for name, value in attributes.items()}
    box = (0.0, 0.0, height, height)
    return Element("1", tag, text, "", False, True, box, attributes)


class Grid:
    """The view of a page that has these elements."""

    goal = ""

    def __init__(self, *elements):
        self._elements = list(elements)

    async def all(self, selector):
        return self._elements


SHAPES = {
    "large red circle": svg("circle", fill="red"),
    "small red rectangle": svg("rect", height=10.0, fill="red"),
    "large black triangle": svg("polygon", fill="black"),
    "small aqua 7": svg("text", "7", fill="aqua", font_size="10px"),
    "large aqua s": svg("text", "s", fill="aqua", font_size="20px"),
}


@each(
    ("description", "matching"),
    [
        ("red item", {"large red circle", "small red rectangle"}),
        ("large item", {"large red circle", "large black triangle", "large aqua s"}),
        ("shape", {"large red circle", "small red rectangle", "large black triangle"}),
        ("circle", {"large red circle"}),
        ("digit", {"small aqua 7"}),
        ("aqua letter", {"large aqua s"}),
        ("s", {"large aqua s"}),
        ("S", set()),
        ("small aqua letter", set()),
    ],
)
async def test_description_matches_shapes(description, matching):
    found_shapes = await shapes.grid(Grid(*SHAPES.values()))
    wanted = shapes.Description.parse(description)
    found = {
        name for name, shape in zip(SHAPES, found_shapes, strict=True) if wanted.matches(shape)
    }
    assert found == matching


@each("sides", range(3, 8))
@each("turn", [0.0, 0.1, 0.7, 1.3, 3.0])
def test_sides_of_a_regular_polygon_are_counted(sides, turn):
    corners = [
        (
            75 + 35 * math.cos(turn + math.tau * i / sides),
            50 + 35 * math.sin(turn + math.tau * i / sides),
        )
        for i in range(sides + 1)
    ]
    outline = [
        (round(x + (to_x - x) * t / 40) + 0.5, round(y + (to_y - y) * t / 40) + 0.5)
        for (x, y), (to_x, to_y) in itertools.pairwise(corners)
        for t in range(40)
    ]
    assert shapes.sides_of(outline) == sides
