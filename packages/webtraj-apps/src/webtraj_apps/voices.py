# mypy: ignore-errors
"""How each person writes: the same person writes the same way in all applications.

`company.toml` tells the manners. A text is written once, in plain English; here it becomes what a
person with a manner would write: with or without contractions, capitals, a last full stop, a
greeting. Its meaning, numbers and names stay.

Used by the applications' host modules, so only the standard library is imported.
"""

import re
from datetime import date
from typing import Any, Final, NamedTuple

import company
import people

__all__ = ["Manner", "letter", "manner", "say", "signature"]


class Manner(NamedTuple):
    """How somebody writes; `company.toml` says what the fields mean."""

    opens: str
    all: str
    closes: str
    signs: str
    words: int
    thanks: str
    contracts: int
    yes: str = "Yes"
    lower: bool = False
    stops: bool = True
    shouts: bool = True


_MANNERS: Final = {name: Manner(**row) for name, row in company.COMPANY.manners.items()}

_PRONOUN: Final = (
    r"(?!\s+(?:i|you|he|she|it|we|they|there|that|this|these|those|the|one|some|any|a)"
    r"(?:body|one)?\b|[?,])"
)
_HAS: Final = r"(?!\w+(?:ed|en|wn)\b|(?:got|had|gone|been|become|come|just|not)\b)"
_LONG: Final = (
    (rf"\b([Cc])an't\b{_PRONOUN}", r"\1annot"),
    (rf"\b([Ww])on't\b{_PRONOUN}", r"\1ill not"),
    (rf"(?<![Cc]a)(?<![Ww]o)n't\b{_PRONOUN}", " not"),
    (r"\b([Ll])et's\b", r"\1et us"),
    (r"\bI'm\b", "I am"),
    (r"(?<=[a-z])'re\b", " are"),
    (r"(?<=[a-zI])'ve\b", " have"),
    (r"(?<=[a-zI])'ll\b", " will"),
    (rf"\b([Ii]t|[Tt]hat|[Tt]here|[Ww]hat|[Hh]ere|[Ww]here|[Hh]e|[Ss]he)'s {_HAS}", r"\1 is "),
)
_DO: Final = "[Dd]o|[Dd]oes|[Dd]id|[Ii]s|[Aa]re|[Ww]as|[Ww]ere|[Hh]as|[Hh]ave|[Cc]ould"
_WE: Final = "[Ww]e|[Yy]ou|[Tt]hey"
_NOT_AS: Final = r"(?<!\bas )(?<!\bthan )(?<!\bhow )(?<!\bwho )(?<!\bwhat )(?<!\bwhere )"
_PREPOSITIONS: Final = ("about", "at", "for", "from", "in", "of", "on", "to", "with")
_NOT_OF: Final = "".join(rf"(?<!\b{preposition} )" for preposition in _PREPOSITIONS)
_DONE: Final = r"(?=\w+ed\b|(?:been|got|had|seen|done|put|made|sent|found|taken|written)\b)"
_SHORT: Final = (
    (r"\b([Cc])annot\b", r"\1an't"),
    (r"\b([Ww])ill not\b", r"\1on't"),
    (rf"\b({_DO}) not\b", r"\1n't"),
    (r"\bI am (?=\w)", "I'm "),
    (rf"\b(I|{_WE}) will (?=\w)", r"\1'll "),
    (rf"{_NOT_AS}\b({_WE}) are (?=\w)", r"\1're "),
    (rf"{_NOT_AS}{_NOT_OF}\b([Ii]t|[Tt]hat|[Tt]here) is (?=\w)", r"\1's "),
    (rf"\b(I|{_WE}) have {_DONE}", r"\1've "),
)
"""Contractions, and what they stand for, where exchanging them cannot change the meaning."""
_SENTENCE: Final = re.compile(r"(^|[.!?:]\s+|\n\s*)([A-Z][\w'-]*)")


def _names() -> frozenset[str]:
    """Return the words that always have a capital letter: names, months, days."""
    found = {*people.NAMES, "Mr", "Ms", "Dr", "St", "Scotland", "Yorkshire", "Dutch", "French"}
    found |= {f"{date(2026, month, 1):%B}" for month in range(1, 13)}
    found |= {f"{date(2026, 6, day):%A}" for day in range(1, 8)}

    def walk(value: Any, key: str = "") -> None:
        if isinstance(value, dict):
            for name, one in value.items():
                walk(one, name)
        elif isinstance(value, list):
            for one in value:
                walk(one, key)
        elif isinstance(value, str) and key in _NAMED:
            found.update(re.findall(r"\b[A-Z]\w+", value))

    walk(vars(company.COMPANY))
    return frozenset(found)


_NAMED: Final = frozenset(
    ("name", "town", "country", "short", "sites", "nearby", "weekends", "streets", "firms")
)
_NAMES: Final = _names()


def manner(number: int) -> Manner:
    """Return a person's manner, by their number in `people.people`."""
    return _MANNERS[company.COMPANY.positions[number]["manner"]]


def say(number: int | None, text: str) -> str:
    """Return a text as a person would write it. None is a stranger, who leaves it unchanged."""
    if number is None:
        return text
    own = manner(number)
    text = _thank(text, own.thanks)
    text = re.sub(r"^Yes(?=[,.!])", own.yes, text)
    if own.contracts:
        for pattern, new in _SHORT if own.contracts > 0 else _LONG:
            text = re.sub(pattern, new, text)
    if not own.shouts:
        text = re.sub(r"(?<!!)!(?!!)", ".", text)
    if own.lower:
        text = _SENTENCE.sub(_lower_start, text)
        text = re.sub(r"\bI\b(?!\.)", "i", text)
    if not own.stops and re.search(r"[^.]\.$", text):
        text = text[:-1]
    return text


def _thank(text: str, thanks: str) -> str:
    """Return a text that thanks in somebody's own words, where it stands for itself."""
    usual = "Thank you" if thanks.endswith("you") or thanks.startswith("Thank you") else "Thanks"
    text = re.sub(r"(?<!\w )\bThank(?:s(?: a lot)?| you(?: so much)?)(?=[.,!]|$)", thanks, text)
    return re.sub(r"(?<!\w )\bThank(?:s| you)(?= (?:for|to|all|both)\b)", usual, text)


def _lower_start(found: re.Match[str]) -> str:
    before, word = found.groups()
    is_name = word in _NAMES or word[1:] != word[1:].lower() or word.partition("'")[0] in _NAMES
    return found[0] if is_name else before + word[0].lower() + word[1:]


def letter(number: int, text: str, to: str, name: str) -> str:
    """Return a letter of a person: a text with their greeting and signature.

    Args:
        number: The person's number in `people.people`.
        text: What the letter says, in their words (`say`).
        to: The recipient's first name; empty if there are several.
        name: The writer's full name.
    """
    own = manner(number)
    hello = own.opens.format(first=to) if to else own.all
    return "\n\n".join(part for part in (hello, text, signature(number, name)) if part)


def signature(number: int, name: str) -> str:
    """Return the signature below a person's letters; may be empty."""
    own = manner(number)
    first, last = name.split()
    signs = {
        "first": first.lower() if own.lower else first,
        "full": name,
        "initials": first[0] + last[0],
        "none": "",
        "block": f"{name}\n{company.COMPANY.positions[number]['title']}, Northfield",
    }
    return "\n".join(part for part in (own.closes, signs[own.signs]) if part)
