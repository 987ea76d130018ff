"""The people of all applications' worlds: the same seed gives the same people everywhere.

Used by the applications' host modules, so only the standard library is imported.
"""

import random
from typing import NamedTuple

__all__ = ["DOMAIN", "NAMES", "PASSWORD", "Person", "people"]

DOMAIN = "northfield.test"
"""The domain of their mail addresses."""
PASSWORD = "harbour-light-7"
"""The password of every account."""

# fmt: off
_FIRST = (
    "Emma", "Noah", "Priya", "Lukas", "Amara", "Jonas", "Sofia", "Mateo", "Hana", "Oliver",
    "Leila", "Viktor", "Grace", "Omar", "Ingrid", "Tomas", "Chloe", "Rahul", "Freya", "Daniel",
    "Nadia", "Felix", "Aisha", "Hugo", "Mei", "Oscar", "Zara", "Anton", "Clara", "Yusuf",
    "Elin", "Marco", "Ruby", "Stefan", "Talia", "Ivan", "Bianca", "Kofi", "Maeve", "Pavel",
)
# fmt: on
# fmt: off
_LAST = (
    "Hartley", "Lindqvist", "Raman", "Keller", "Okafor", "Weber", "Marino", "Delgado", "Tanaka",
    "Whitfield", "Haddad", "Petrov", "Bennett", "Farouk", "Solberg", "Novak", "Laurent",
    "Mehta", "Aldridge", "Costa", "Rahimi", "Brandt", "Siddiqui", "Moreau", "Chen", "Falk",
    "Osman", "Kovac", "Jensen", "Demir", "Nyberg", "Ricci", "Calloway", "Vogel", "Amsel",
    "Sokolov", "Ferraro", "Mensah", "Quinn", "Dvorak",
)
# fmt: on
NAMES = frozenset((*_FIRST, *_LAST))
"""First and last names that people may have."""


class Person(NamedTuple):
    """A person with accounts."""

    username: str
    first: str
    last: str

    @property
    def name(self) -> str:
        """First and last name."""
        return f"{self.first} {self.last}"

    @property
    def email(self) -> str:
        """The mail address."""
        return f"{self.username}@{DOMAIN}"


def people(seed: int, count: int = 40) -> list[Person]:
    """Return up to 40 people with different names. The first one uses the browser."""
    rng = random.Random(f"people {seed}")
    firsts, lasts = rng.sample(_FIRST, len(_FIRST)), rng.sample(_LAST, len(_LAST))
    made = [Person(first.lower(), first, last) for first, last in zip(firsts, lasts, strict=True)]
    return made[:count]
