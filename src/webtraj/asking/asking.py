"""Asking: one question, until the reply can be used or there is no use in asking on.

A server is asked to hold the reply to the form that the sampling has. One that refuses is asked in
words alone; `Forms` remembers it. A reply that cannot be used is asked for again, with what was
wrong with it. It is not shown again: it may be what a page has made the model say.

What is shown and what is asked may come as texts of their own. Servers put the parts of a message
together with nothing in between, the question on the line of a fence; so texts are joined here.

All calls are kept, in order, failed ones included.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from webtraj import errors
from webtraj.agents.models.base import Message, ModelClient, Part, Sampling, Text
from webtraj.asking.objects import Reading
from webtraj.environments.redaction import without_keys
from webtraj.trajectory import ModelCall

__all__ = ["Answer", "Forms", "ask"]

_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True, slots=True)
class Answer(Generic[_T]):
    """What came of asking."""

    value: _T | None
    """What was asked for; None if it was not had."""
    calls: tuple[ModelCall, ...]
    """All calls, the one that decided it last."""
    broken: str = ""
    """Why the last reply cannot be used; empty if it can, or if none came."""
    error: errors.ModelError | None = None
    """Why no reply came; None if one did."""


class Forms:
    """Which clients' servers hold replies to a form, as far as that is known. Shared by tasks."""

    def __init__(self) -> None:
        # By id, since clients need not be hashable; kept, so that an id stays its client's own.
        self._refusing: dict[int, ModelClient] = {}

    def takes(self, client: ModelClient) -> bool:
        """Returns whether a client is to be asked for a form."""
        return id(client) not in self._refusing

    def refused(self, client: ModelClient) -> None:
        """Notes that a client has answered in words what it had refused with a form."""
        self._refusing[id(client)] = client


async def ask(
    client: ModelClient,
    messages: Sequence[Message],
    read: Callable[[ModelCall], Reading[_T]],
    *,
    sampling: Sampling,
    again: Callable[[str], str],
    attempts: int,
    timeout: float | None = None,
    forms: Forms | None = None,
) -> Answer[_T]:
    """Asks until a reply can be read, or there were enough.

    A client that fails ends it: it has tried again itself as often as makes sense.

    Args:
        client: The model.
        messages: The conversation; the question is its last message. Texts that follow one another
            in a message are asked as one, a blank line between them.
        read: Says what a reply is, or why it cannot be used.
        sampling: How replies are sampled; its `structure` is the form that they must have.
        again: Makes the note that is added to the question, of why a reply could not be used.
        attempts: How many replies are read, in all.
        timeout: Seconds that one call may take; None leaves it to the client.
        forms: What is known of clients, and gets known now.
    """
    forms = Forms() if forms is None else forms
    calls: list[ModelCall] = []
    structured = sampling.structure is not None and forms.takes(client)
    asked = messages = tuple(map(_joined, messages))
    replies = 0
    while True:
        form = sampling.structure if structured else None
        try:
            call = await client.complete(
                asked, dataclasses.replace(sampling, structure=form), timeout=timeout
            )
        except errors.ModelError as error:
            calls.append(error.call or ModelCall(error=str(error) or repr(error)))
            if not structured or not isinstance(error, errors.ModelRefusedError):
                return Answer(None, without_keys(tuple(calls)), error=error)
            # Perhaps it is only the form that it does not take.
            structured = False
            continue
        calls.append(call)
        replies += 1
        if sampling.structure is not None and not structured:
            forms.refused(client)
        reading = read(call)
        if reading.value is not None or replies >= attempts:
            return Answer(reading.value, without_keys(tuple(calls)), reading.broken)
        asked = _with_note(messages, again(reading.broken))


def _with_note(messages: Sequence[Message], note: str) -> tuple[Message, ...]:
    last = messages[-1]
    return (*messages[:-1], _joined(Message.of(last.role, *last.parts, note)))


def _joined(message: Message) -> Message:
    return Message(message.role, tuple(_parts_of(message)))


def _parts_of(message: Message) -> Iterator[Part]:
    for are_texts, run in itertools.groupby(message.parts, lambda part: isinstance(part, Text)):
        if are_texts:
            yield Text("\n\n".join(part.text for part in run if isinstance(part, Text)))
        else:
            yield from run
