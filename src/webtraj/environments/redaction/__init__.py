"""Keeping secrets out of records.

What a record may not hold (passwords, keys, a person's data) is replaced on its way to the
collector by `<secret:name>`; the agent's own timestep is never touched. A `Redactor` knows the
secrets and finds them in any value, in the spellings that pages and protocols give them
(`searching`); `RedactionRules` say what else is one, by its shape or by its place in a page; a
`RedactingCollector` applies all of it to everything that is recorded.

What cannot be found: a secret shorter than `MIN_LENGTH` characters, one that is cut into pieces or
changed beyond those spellings (encrypted, translated, drawn in a canvas or a video), and one that
was recorded before it became known as one. Give what must not leak as a secret beforehand.
"""

from webtraj.environments.redaction.recording import RedactingCollector, redacting
from webtraj.environments.redaction.redactor import MIN_LENGTH, Redactor, without_keys
from webtraj.environments.redaction.rules import ELEMENTS, RedactionRules

__all__ = [
    "ELEMENTS",
    "MIN_LENGTH",
    "RedactingCollector",
    "RedactionRules",
    "Redactor",
    "redacting",
    "without_keys",
]
