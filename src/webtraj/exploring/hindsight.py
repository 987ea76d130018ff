"""The hindsight proposer: makes tasks from actions and their results, without a model.

Each rule looks at one step and infers the goal that would have led to it:

* navigation: a link led to a new page, or a search to its results: get there.
* information: a page shows `Label: value`, or a row of label and value: find the value.
* modification: a form was submitted, or a button changed the page's text: do that.

A task starts on an unmodified site. So once an episode has changed something, its pages no longer
count as evidence, except for links that existed before. Rules take turns, so that a limited number
of tasks covers all kinds.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from webtraj.environments.browser.observation import Ref, changes_between, refs_in
from webtraj.exploring.drafts import Claim, Draft, Drafts, Rejection, data_of, normal, problem_of
from webtraj.exploring.seen import Seen, Sight, page_key
from webtraj.shown import one_line

__all__ = ["HindsightProposer"]

_LABELLED = re.compile(r"^([A-Z][^:\n]{1,40}): (\S[^\n]{0,80})$")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_NUMBER = re.compile(r"\d")
_LONGEST_NAME = 80
_HARMLESS = re.compile(
    r"\b(search|find|filter|apply|sort|show|view|more|next|previous|go|back|open|expand)\b",
    re.IGNORECASE,
)
"""Buttons that only change the view."""
_NO_SITE = "no page of a web site was seen without an error: http or https, and a status below 400"
_NO_WORDS = "the pages have no {}: record the channels url, title, axtree and last_action"
_NOTHING = (
    "nothing to ask for: no link led to a page that was new, no page has a label and a value, and "
    "no button changed what a page says"
)
_FILLING = ("fill", "type_into", "select_option", "check")


@dataclasses.dataclass(frozen=True, slots=True)
class HindsightProposer:
    """A proposer that applies rules. The same episode gives the same proposals."""

    name: str = "hindsight"
    version: str = "2"
    model: str = ""
    prompt_sha256: str = ""

    @property
    def settings(self) -> Mapping[str, Any]:
        """See `Proposer.settings`."""
        return {}

    async def propose(self, seen: Seen, limit: int) -> Drafts:
        """See `Proposer.propose`. It proposes only drafts that pass the checks.

        Drafts that would fail are reported as rejections. So is an episode without drafts.
        """
        clean = _find_first_change(seen)
        rules = (_navigation(seen, clean), _information(seen, clean), _presses(seen, clean))
        turns = itertools.chain.from_iterable(itertools.zip_longest(*rules))
        found: dict[str, Draft] = {}
        rejected: dict[str, Rejection] = {}
        for draft in filter(None, turns):
            if len(found) >= limit:
                break
            goal = normal(draft.goal)
            if problem := problem_of(draft, seen):
                rejected.setdefault(goal, Rejection(problem, data_of(draft)))
            else:
                found.setdefault(goal, draft)
        if not found and not rejected:
            return Drafts(rejections=(Rejection(_why_nothing(seen), None),))
        return Drafts(drafts=tuple(found.values()), rejections=tuple(rejected.values()))


def _why_nothing(seen: Seen) -> str:
    if not any(sight.is_sound for sight in seen.sights):
        return _NO_SITE
    for channel in ("title", "axtree"):
        if not any(getattr(sight, channel) for sight in seen.sights):
            return _NO_WORDS.format(channel)
    return _NOTHING


def _find_first_change(seen: Seen) -> int:
    """Return the index of the first step that may have changed the site."""
    for sight in seen.sights:
        if sight.role == "button" and not sight.error and not _HARMLESS.search(sight.name):
            return sight.index
    return seen.sights[-1].index + 1 if seen.sights else 0


def _navigation(seen: Seen, clean: int) -> Iterator[Draft]:
    known = {page_key(sight.url) for sight in seen.sights[:1]}
    for before, after in itertools.pairwise(seen.sights):
        page = page_key(after.url)
        new = page not in known and after.is_sound and not after.error
        known.add(page)
        if not (new and after.role == "link" and after.title and _is_short(after.name)):
            continue
        start = before if after.index <= clean else _find_link(after.name, seen, clean)
        if start is None:
            continue
        yield Draft(
            goal=f'On {_describe_page(start)}, open "{after.name}".',
            start_url=start.url,
            kind="navigation",
            facts=(Claim(f'The page "{_line(after.title)}" is open.', (after.index,)),),
        )


def _find_link(name: str, seen: Seen, clean: int) -> Sight | None:
    """Return the first page with a link of that name before anything was changed."""
    for sight in seen.sights:
        if sight.index >= clean:
            break
        if any(ref.role == "link" and ref.name == name for ref in refs_in(sight.axtree)):
            return sight
    return None


def _information(seen: Seen, clean: int) -> Iterator[Draft]:
    start = seen.sights[0].url if seen.sights else ""
    asked: set[str] = set()
    read: set[str] = set()
    for sight in seen.sights:
        if sight.index >= clean:
            return
        if sight.axtree in read:
            continue
        read.add(sight.axtree)
        if not (sight.is_sound and sight.title and seen.is_inside(sight.url)):
            continue
        for label, value in _find_labelled(sight.axtree):
            if normal(label) in asked:
                continue
            asked.add(normal(label))
            yield Draft(
                goal=f'What does {_describe_page(sight)} say of "{label}"?',
                start_url=start,
                kind="information",
                facts=(Claim(f'The answer says that "{label}" is "{value}".', (sight.index,)),),
                reference_answer=value,
            )


def _presses(seen: Seen, clean: int) -> Iterator[Draft]:
    filled: list[Sight] = []
    start: Sight | None = None
    for before, after in itertools.pairwise(seen.sights):
        if after.index > clean:
            return
        if after.error or not after.is_sound or not after.name:
            filled, start = [], None
        elif after.verb in _FILLING:
            start = start if filled else before
            filled.append(after)
        elif after.verb == "click" and after.role == "button":
            yield from _propose_press(start or before, before, after, filled)
            filled, start = [], None
        else:
            filled, start = [], None


def _propose_press(
    start: Sight, before: Sight, after: Sight, filled: list[Sight]
) -> Iterator[Draft]:
    """Propose pressing a button after filling in fields."""
    if not _is_short(after.name) or not all(_is_short(field.name) for field in filled):
        return
    only_shows = _HARMLESS.search(after.name) is not None
    said = _new_words(before, after)
    moved = page_key(before.url) != page_key(after.url)
    if (only_shows and not filled) or not (said or (moved and after.title)):
        return  # It takes no skill, or had no visible result.
    facts = [Claim(_describe_entry(field), (field.index,)) for field in filled]
    if moved and after.title:
        facts.append(Claim(f'The page "{_line(after.title)}" is open.', (after.index,)))
    if said:
        facts.append(Claim(f'The page says "{said}".', (after.index,)))
    doing = [_entry_goal(field) for field in filled]
    press = f'press "{after.name}"'
    what = f"{', '.join(doing)}, and {press}" if doing else press
    yield Draft(
        goal=f"On {_describe_page(start)}, {what}.",
        start_url=start.url,
        kind="navigation" if only_shows else "modification",
        facts=tuple(facts),
    )


def _new_words(before: Sight, after: Sight) -> str:
    """Return new text on a page, preferably with a number in it."""
    came = [line for line in changes_between(before.axtree, after.axtree) if line.startswith("+")]
    # An old text may come in a new line: the pressed button's own, which has the focus now.
    old = {after.name, *_QUOTED.findall(before.axtree)}
    quoted = (_QUOTED.search(line) for line in came)
    texts = [
        found[1]
        for found in quoted
        if found and found[1] not in old and "\\" not in found[1] and _is_short(found[1])
    ]
    return next((text for text in texts if _NUMBER.search(text)), texts[0] if texts else "")


def _find_labelled(axtree: str) -> Iterator[tuple[str, str]]:
    """Yield a page's pairs of label and value."""
    elements = refs_in(axtree)
    for element in elements:
        found = _LABELLED.match(element.name) if _is_said(element) else None
        if found and _is_short(found[2]):
            yield found[1], found[2]
    for one, label, value, end in itertools.zip_longest(
        elements, elements[1:], elements[2:], elements[3:]
    ):
        is_row = one.role == "row" and label and value and label.role == value.role == "cell"
        if is_row and (end is None or end.role != "cell") and label.name and value.name:
            yield label.name, value.name


def _is_said(element: Ref) -> bool:
    return element.role in ("paragraph", "generic", "listitem", "status", "cell", "text")


def _entry_goal(field: Sight) -> str:
    if field.verb == "check":
        return f'tick "{field.name}"'
    if field.verb == "select_option":
        return f'choose "{_line(field.text)}" for "{field.name}"'
    return f'enter "{_line(field.text)}" for "{field.name}"'


def _describe_entry(field: Sight) -> str:
    if field.verb == "check":
        return f'"{field.name}" was ticked.'
    return f'"{_line(field.text)}" was entered for "{field.name}".'


def _describe_page(sight: Sight) -> str:
    return f'the page "{_line(sight.title)}"' if sight.title else "this page"


def _is_short(text: str) -> bool:
    return 0 < len(text.strip()) <= _LONGEST_NAME


def _line(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _LONGEST_NAME else f"{line[:_LONGEST_NAME]}..."
