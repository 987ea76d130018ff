"""Asking models for data, and showing them what is not to be trusted.

What is asked for is one JSON object of a given form; whatever else comes back is asked for again,
and then no answer. What is shown is quoted. Judges, processing steps and proposers all ask here.

* `asking`: a question, until the reply can be used.
* `objects`: what of a reply counts as one JSON object.
* `quoting`: text of pages, agents and tasks as data that cannot speak for whoever asks.
* `parallel`: many questions at the same time.
"""

from webtraj.asking.asking import Answer, Forms, ask
from webtraj.asking.objects import Reading, object_of, read_object
from webtraj.asking.parallel import all_of
from webtraj.asking.quoting import Quotes, defused, json_string, quoted

__all__ = [
    "Answer",
    "Forms",
    "Quotes",
    "Reading",
    "all_of",
    "ask",
    "defused",
    "json_string",
    "object_of",
    "quoted",
    "read_object",
]
