"""Keeping secrets out of records.

Secrets (passwords, keys, personal data) are replaced by `<secret:name>` on their way to the
collector; the agent's own timestep never changes. A `Redactor` finds known secrets in any value, in
all spellings that pages and protocols use (`searcher`); `RedactionRules` describe further secrets,
by their form or their place in a page; `webtraj.environments.redacting_collector` applies both to
everything that is recorded. `parts` leaves whole kinds of content, such as screenshots, out of
recorded episodes. Both use the walk in `walker`.

Not found: a secret shorter than `MIN_LENGTH` characters, one that is split or transformed in other
ways (encrypted, translated, drawn on a canvas or in a video), and one that was recorded before it
was known to be secret. Declare secrets that must not leak beforehand.
"""

from webtraj.redaction.redactor import MIN_LENGTH, Redactor, without_keys
from webtraj.redaction.rules import ELEMENTS, RedactionRules

__all__ = [
    "ELEMENTS",
    "MIN_LENGTH",
    "RedactionRules",
    "Redactor",
    "without_keys",
]
