"""Two texts of a page, compared."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webtraj.environments.browser.observation import page_changes, subtree_of

NOT_SHOWN = re.compile(r"\.\.\. (\d+) (unchanged|more removed) lines?")


def rebuilt(before, changes):
    """Return the new page: the old one with the changes, by the rules in the module's docstring."""
    old, new, place = before.split("\n"), [], 0
    for line in changes.split("\n"):
        mark, rest = line[:2], line[2:]
        if found := NOT_SHOWN.fullmatch(line):
            count = int(found[1])
            new += old[place : place + count] if found[2] == "unchanged" else []
            place += count
            continue
        if mark in ("  ", "- "):
            assert old[place] == rest
        if mark != "- ":
            new.append(rest)
        place += mark != "+ "
    assert place == len(old)
    return "\n".join(new)


TREE = """\
[1] main
  [2] heading "Groceries" level=2
  [3] list
    [4] listitem
      text "Eggs"
      [5] button "Remove"
    [6] listitem
      text "Milk"
      [7] button "Remove"
  [8] textbox "New"
  [9] button "Add"
[10] contentinfo
  text "All rights reserved"\
"""

CASES = {
    "nothing": (TREE, ["... 13 unchanged lines"]),
    "a value": (
        TREE.replace('"New"', '"New" value="Tea"'),
        ["... 9 unchanged lines", '~   [8] textbox "New" value="Tea"', "... 3 unchanged lines"],
    ),
    "a new element is shown below its parent": (
        TREE.replace("  [8] textbox", '    [11] listitem\n      text "Tea"\n  [8] textbox'),
        [
            "... 2 unchanged lines",
            "    [3] list",
            "... 6 unchanged lines",
            "+     [11] listitem",
            '+       text "Tea"',
            "... 4 unchanged lines",
        ],
    ),
    "a removed element is its first line": (
        TREE.replace('    [4] listitem\n      text "Eggs"\n      [5] button "Remove"\n', ""),
        [
            "... 3 unchanged lines",
            "-     [4] listitem",
            "... 2 more removed lines",
            "... 7 unchanged lines",
        ],
    ),
    "another page": (
        '[20] main\n  text "Bye"',
        ["- [1] main", "... 12 more removed lines", "+ [20] main", '+   text "Bye"'],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_changed(case):
    after, changes = CASES[case]
    assert page_changes(TREE, after).split("\n") == changes
    assert rebuilt(TREE, "\n".join(changes)) == after


def test_the_same_ref_elsewhere_is_removed_and_new():
    before = "[1] main\n  [2] button\n[3] form"
    after = "[1] main\n[3] form\n  [2] button"
    assert page_changes(before, after).split("\n") == [
        "  [1] main",
        "-   [2] button",
        "  [3] form",
        "+   [2] button",
    ]


@pytest.mark.parametrize(
    ("ref", "lines"), [("4", slice(3, 6)), ("10", slice(11, 13)), ("9", slice(10, 11))]
)
def test_an_element_and_all_inside_it(ref, lines):
    assert subtree_of(TREE, ref) == "\n".join(TREE.split("\n")[lines])


def lines(depths, words):
    return "\n".join("  " * depth + word for depth, word in zip(depths, words, strict=False))


WORDS = st.sampled_from(
    [*(f"[{n}] button" for n in range(9)), "[3] button checked", 'text "A"', 'text "B"', "",
     "... 3 more lines", "+ plus", "- minus", "~ other", "... 3 unchanged lines", "\u2028"]
)  # fmt: skip
PAGES = st.builds(lines, st.lists(st.integers(0, 4), max_size=12), st.lists(WORDS, max_size=12))


@given(PAGES, PAGES)
def test_changes_rebuild_any_page(before, after):
    assert rebuilt(before, page_changes(before, after)) == after


@given(st.permutations(range(12)), st.sets(st.integers(0, 11)), st.sets(st.integers(0, 11)))
def test_what_stays_in_order_is_not_sent_again(order, gone, checked):
    before = [f'[{n}] button "A long name for this button"' for n in range(12)]
    kept = [n for n in range(12) if n == 0 or n not in gone]
    after = [before[n] + " checked" * (n in checked) for n in kept]
    changes = page_changes("\n".join(before), "\n".join(after)).split("\n")
    sent = [line for line in changes if line[0] in "+~"]
    assert sent == [f"~ {line}" for line in after if line.endswith("checked")]
    moved = "\n".join(before[n] for n in order)
    assert rebuilt("\n".join(before), page_changes("\n".join(before), moved)) == moved
