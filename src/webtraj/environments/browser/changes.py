r"""Two texts of a page compared: what changed, so that unchanged parts need not be sent again.

Pure functions on axtrees (`webtraj.environments.browser.observation` has the grammar). A comparison
is a list of lines, in the new page's order; the first two characters say what each is::

    "  " line                      an unchanged line: the parent of lines that are new
    "+ " line                      a new line
    "~ " line                      an element with the same ref, and its new line
    "- " line                      a removed line
    "... " n " unchanged lines"    not shown
    "... " n " more removed lines" not shown: they followed the removed line above

Lines keep their indents. Nothing else is left out: the old page and the changes give the new page.
"""

from __future__ import annotations

import bisect
import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence

__all__ = ["changes_between", "page_changes", "subtree_of"]

_SAME, _NEW, _CHANGED, _GONE = "  ", "+ ", "~ ", "- "
_REF = re.compile(r" *\[([^\]]+)\]")


def page_changes(before: str, after: str) -> str:
    r"""Return the changes from one axtree to the next. See the module for the form.

    Lines that are equal from the start or to the end are the same; so are, in between, elements
    with the same ref, and equal texts, if they have the same parent.

    >>> old = '[1] main\n  [2] textbox "Name"\n  [3] list\n    [4] listitem "Eggs"\n[5] button "Go"'
    >>> new = '[1] main\n  [2] textbox "Name" value="A"\n  [3] list\n    [6] listitem "Milk"\n'
    >>> print(page_changes(old, new + '[5] button "Go"'))
      [1] main
    ~   [2] textbox "Name" value="A"
        [3] list
    -     [4] listitem "Eggs"
    +     [6] listitem "Milk"
      [5] button "Go"
    """
    old, new = before.split("\n"), after.split("\n")
    start, end = _equal_ends(old, new)
    parents = _parents(new[: len(new) - end])
    pairs = [
        *((place, place) for place in range(start)),
        *_pairs(old, new, start, end),
        *((len(old) - place, len(new) - place) for place in range(end, 0, -1)),
    ]
    kept = {place for _, place in pairs}
    shown = {parents[place] for place in range(start, len(new) - end) if place not in kept}
    lines: list[str] = []
    quiet: list[str] = []
    last_old = last_new = -1
    for from_, to in [*pairs, (len(old), len(new))]:
        gone, come = old[last_old + 1 : from_], new[last_new + 1 : to]
        same = to < len(new) and old[from_] == new[to]
        if gone or come or not same or to in shown:
            lines += _short(quiet, "unchanged")
            quiet = []
        if gone:
            lines += [_GONE + gone[0], *_short(gone[1:], "more removed", _GONE)]
        lines += [_NEW + line for line in come]
        if to == len(new):
            break
        if same and to not in shown:
            quiet.append(new[to])
        else:
            lines.append((_SAME if same else _CHANGED) + new[to])
        last_old, last_new = from_, to
    return "\n".join(lines)


def subtree_of(axtree: str, ref: str) -> str | None:
    r"""Return the lines of an element and of all inside it; None if it is not in the page.

    >>> subtree_of('[1] main\n  [2] list\n    text "Hi"\n  [3] button', "2")
    '  [2] list\n    text "Hi"'
    """
    lines = axtree.split("\n")
    for first, line in enumerate(lines):
        found = _REF.match(line)
        if found is not None and found[1] == ref:
            depth = _indent(line)
            end = first + 1
            while end < len(lines) and _indent(lines[end]) > depth:
                end += 1
            return "\n".join(lines[first:end])
    return None


def changes_between(before: str, after: str) -> list[str]:
    """Return the lines by which two axtrees differ, wherever they are: removed, then added ones.

    >>> changes_between('[1] button "Go"', '[1] button "Stop"')
    ['- [1] button "Go"', '+ [1] button "Stop"']
    """
    old, new = ([line.strip() for line in tree.splitlines()] for tree in (before, after))
    gone, come = Counter(old) - Counter(new), Counter(new) - Counter(old)
    return [*_marked(_GONE, old, gone), *_marked(_NEW, new, come)]


def _marked(mark: str, lines: list[str], counted: Counter[str]) -> Iterator[str]:
    for line in lines:
        if counted[line]:
            counted[line] -= 1
            yield f"{mark}{line}"


def _short(lines: Sequence[str], what: str, mark: str = _SAME) -> list[str]:
    """Return lines that need not be shown: counted, or as they are if that is as short."""
    counted = f"... {len(lines)} {what} line{'s' * (len(lines) != 1)}"
    if sum(len(line) + len(mark) + 1 for line in lines) <= len(counted) + 1:
        return [mark + line for line in lines]
    return [counted]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _parents(lines: Sequence[str]) -> list[int]:
    """Return the place of each line's parent, -1 at the top."""
    parents = []
    around: list[tuple[int, int]] = [(-1, -1)]
    for place, line in enumerate(lines):
        indent = _indent(line)
        while around[-1][0] >= indent:
            around.pop()
        parents.append(around[-1][1])
        around.append((indent, place))
    return parents


def _equal_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return how many lines are equal from the start, and of the others to the end."""
    most = min(len(old), len(new))
    start = next((n for n in range(most) if old[n] != new[n]), most)
    most -= start
    end = next((n for n in range(most) if old[-1 - n] != new[-1 - n]), most)
    return start, end


def _pairs(old: Sequence[str], new: Sequence[str], start: int, end: int) -> list[tuple[int, int]]:
    """Return the places of lines that are in both pages, in ascending order.

    Args:
        old: The lines of one page.
        new: Those of the other.
        start: How many lines are equal from the start; they have the same places.
        end: How many lines to leave out at the end.
    """
    old_children = _children(old[: len(old) - end], start)
    new_children = _children(new[: len(new) - end], start)
    pairs = []
    todo = deque((place, place) for place in new_children if place < start)
    while todo:
        from_, to = todo.popleft()
        were = old_children.get(from_, {})
        both = [(were[key], at) for key, at in new_children.get(to, {}).items() if key in were]
        for pair in _ascending(both):
            pairs.append(pair)
            if pair[1] in new_children:
                todo.append(pair)
    return sorted(pairs)


def _children(lines: Sequence[str], start: int) -> dict[int, dict[tuple[str, int], int]]:
    """Return the places of each line's children from a place on, by ref or text.

    The n-th of equals has n.
    """
    children: dict[int, dict[tuple[str, int], int]] = {}
    seen: Counter[tuple[int, str]] = Counter()
    parents = _parents(lines)
    for place in range(start, len(lines)):
        line, parent = lines[place], parents[place]
        found = _REF.match(line)
        key = found[0] if found is not None else line
        children.setdefault(parent, {})[key, seen[parent, key]] = place
        seen[parent, key] += 1
    return children


def _ascending(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the most pairs whose first places ascend; their second ones do already."""
    ends: list[int] = []
    at: list[int] = []
    before: list[int] = []
    for number, (first, _) in enumerate(pairs):
        length = bisect.bisect_left(ends, first)
        if length == len(ends):
            ends.append(first)
            at.append(number)
        else:
            ends[length], at[length] = first, number
        before.append(at[length - 1] if length else -1)
    chain = []
    number = at[-1] if at else -1
    while number >= 0:
        chain.append(pairs[number])
        number = before[number]
    return chain[::-1]
