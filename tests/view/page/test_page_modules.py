"""The page's own rules: what its files may hold, what its functions give."""

import random
import re
from importlib import resources

import pytest

from rows import each

STATIC = resources.files("webtraj.view") / "static"
FILES = sorted(path.name for path in STATIC.iterdir())

RUNS_TEXT = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|"
    r"createContextualFragment|setHTML|DOMParser|srcdoc|setTimeout\([\"'`]"
)
ELSEWHERE = re.compile(
    r"https?:(?!//www\.w3\.org/)|\burl\(|@import|(?<!:)//[a-z0-9.-]+\.[a-z]{2,}/"
)


@each("name", FILES)
def test_no_file_runs_text_or_asks_anyone_else(name):
    text = (STATIC / name).read_text(encoding="utf-8")
    assert RUNS_TEXT.findall(text) == []
    assert ELSEWHERE.findall(text) == []
    assert not re.search(r"<[a-z][^>]* (style|on[a-z]+)=", text)


def lcs(left, right):
    """Returns the length of the longest common subsequence, the slow way."""
    row = [0] * (len(right) + 1)
    for one in left:
        previous, row = row, [0]
        for j, other in enumerate(right):
            row.append(previous[j] + 1 if one == other else max(previous[j + 1], row[-1]))
    return row[-1]


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
async def test_a_diff_is_right_and_the_shortest(look, serve, written_episodes, tmp_path):
    page = await look(await serve(written_episodes(tmp_path / "d", 1)))
    source = random.Random(5)
    cases = [([], []), (["a"], []), ([], ["a"]), (["a"], ["a"]), (["a"], ["b"])]
    for _ in range(300):
        letters = "abcdefg"[: source.randint(1, 7)]
        cases.append(
            tuple([source.choice(letters) for _ in range(source.randint(0, 14))] for _ in "12")
        )
    found = await page.evaluate(
        """async cases => {
          const { diff } = await import("/static/diff.js");
          return cases.map(([left, right]) => diff(left, right));
        }""",
        cases,
    )
    for (left, right), edits in zip(cases, found, strict=True):
        assert [left[e["left"]] for e in edits if e["kind"] != "added"] == left
        assert [right[e["right"]] for e in edits if e["kind"] != "removed"] == right
        same = [e for e in edits if e["kind"] == "same"]
        assert all(left[e["left"]] == right[e["right"]] for e in same)
        assert len(same) == lcs(left, right)
    # What has nothing in common, and much of it, is given up on in good time.
    sizes = await page.evaluate(
        """async () => {
          const { diff } = await import("/static/diff.js");
          const many = (word) => Array.from({ length: 5000 }, (_, i) => word + i);
          return diff(many("a"), many("b")).length;
        }"""
    )
    assert sizes == 10_000


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
async def test_places_are_written_as_they_are_read(look, serve, written_episodes, tmp_path):
    page = await look(await serve(written_episodes(tmp_path / "d", 1)))
    routes = [
        {"view": "list", "params": {"q": "a b&c=#?/", "task": "x/y"}},
        {"view": "list", "params": {"outcome": ["success", "failure"], "q": "a"}},
        {"view": "episode", "dataset": "d", "id": "e.1-_", "step": 3, "params": {"tab": "raw"}},
        {"view": "episode", "dataset": "a/b?c#%", "id": "é", "step": None, "params": {}},
        {
            "view": "compare",
            "left": {"dataset": "a", "id": "b"},
            "right": {"dataset": "c", "id": "d"},
            "step": 0,
            "params": {"align": "actions"},
        },
    ]
    read = await page.evaluate(
        """async routes => {
          const { formatRoute, parseRoute } = await import("/static/router.js");
          return routes.map(route => parseRoute(formatRoute(route)));
        }""",
        routes,
    )
    assert read == routes
