"""The model judge, which asks models about an episode and returns a judgement."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import time
from collections.abc import Awaitable, Callable, Sequence

import orjson

from webtraj import errors
from webtraj.agents.models import structured_output
from webtraj.agents.models.base import Message, ModelClient, Sampling, Structure
from webtraj.judging.base import REWARDS, is_judgeable, make_judgement
from webtraj.judging.model.case import Case, JudgeSettings, Question, Routing
from webtraj.judging.model.evidence import Composer, Evidence, gather, halve
from webtraj.judging.model.procedure import Examined, examine
from webtraj.judging.model.prompts import load_prompts
from webtraj.judging.model.votes import Ask, Compose, Recorded, Transcript, read_call, schema_of
from webtraj.store.closeable import AsyncClosing
from webtraj.trajectory import EpisodeTrajectory, Judgement, ModelCall, Outcome

__all__ = ["ModelJudge", "Rerun", "replay", "rerun"]

_CODE_VERSION = "3"
"""Bump this when the handling of evidence or replies changes."""
_NOT_JUDGEABLE = "The episode did not end by itself, so it says nothing of the agent."


class ModelJudge(AsyncClosing):
    """Judges episodes by asking models.

    It asks, in this order: which screenshots matter; whether the site blocked the agent; whether
    the evidence shows what the final answer claims; whether each fact of the task holds (or the
    goal, if there are no facts); whether the answer matches the reference answer. See
    `JudgeSettings` and `Routing`.

    Closing it closes its clients.

    Args:
        models: The client of the model to ask, or a routing of stages to clients.
        settings: The settings.
    """

    def __init__(
        self,
        models: ModelClient | Routing,
        *,
        settings: JudgeSettings | None = None,
    ) -> None:
        self.routing = Routing.to(models)
        self.settings = settings or JudgeSettings()
        self.prompts = load_prompts()
        self._forms = structured_output.Forms()
        self._version = _version(self.settings, self.prompts.sha256)

    def __repr__(self) -> str:
        return f"ModelJudge({', '.join(client.name for client in self.routing.clients)})"

    @property
    def name(self) -> str:
        """The judge's name in its judgements."""
        return "model"

    @property
    def version(self) -> str:
        """The version of its code, prompts and settings; the models are not part of it."""
        return self._version

    async def aclose(self) -> None:
        """Close its clients. Idempotent."""
        for client in self.routing.clients:
            await client.aclose()

    async def check(self) -> None:
        """Ask each model for one word, to find a wrong key or address before judging starts.

        Raises:
            ModelRefusedError: A model's server rejects the request.
            ModelUnavailableError: A model's server does not answer.
        """
        hello = [Message.of("user", "Reply with the word: ready")]
        sampling = Sampling(temperature=self.settings.temperature, max_tokens=16)
        for client in self.routing.clients:
            await client.complete(hello, sampling, timeout=self.settings.timeout)

    async def judge(self, trajectory: EpisodeTrajectory) -> Judgement:
        """Return the judgement of an episode. See `Judge`."""
        if not is_judgeable(trajectory):
            return self._judgement(Examined(Outcome.JUDGE_ERROR, _NOT_JUDGEABLE, {}))
        evidence = gather(trajectory, self.settings)
        if evidence.missing:
            return self._judgement(Examined(Outcome.JUDGE_ERROR, evidence.missing, {}))

        @functools.cache
        def composer(times: int) -> Composer:
            less = halve(evidence, trajectory, self.settings, times)
            return Composer(less, self.prompts)

        def compose(question: Question, times: int) -> Sequence[Message]:
            return composer(times).messages(question, times)

        return await self.examine(evidence.case(self.settings), compose, evidence)

    async def examine(
        self, case: Case, compose: Compose, evidence: Evidence | None = None
    ) -> Judgement:
        """Return the judgement on a case.

        Args:
            case: The case to judge.
            compose: A function that makes the conversation for a question.
            evidence: The evidence of the case, for the findings.
        """
        transcript = Transcript()
        examination = examine(case)
        try:
            questions = next(examination)
            while True:
                asked = await self._ask(questions, compose)
                answers = [
                    transcript.add(question, self._words(question), votes)
                    for question, votes in zip(questions, asked, strict=True)
                ]
                questions = examination.send(answers)
        except StopIteration as stop:
            examined: Examined = stop.value
        findings = {
            **examined.findings,
            "case": case.to_data(),
            "models": self.routing.names,
            "prompts": {"version": self.prompts.version, "sha256": self.prompts.sha256},
            "transcript": transcript.entries,
            "unanswered": transcript.unanswered,
        }
        if evidence is not None and evidence.unreadable:
            findings["unreadable_screenshots"] = list(evidence.unreadable)
        found = Examined(examined.outcome, examined.reason, findings)
        return self._judgement(found, transcript.calls)

    async def _ask(
        self, questions: Sequence[Question], compose: Compose
    ) -> list[list[tuple[Ask, ...]]]:
        """Ask all questions concurrently and return the calls of each vote on each question."""
        jobs: list[Callable[[], Awaitable[tuple[Ask, ...]]]] = []
        votes = []
        for question in questions:
            clients = self.routing.of(question.stage)
            votes.append(question.votes if compose(question, 0) else 0)
            jobs += [
                functools.partial(self._vote, clients[number % len(clients)], question, compose)
                for number in range(votes[-1])
            ]
        asked = iter(await structured_output.all_of(jobs, self.settings.max_concurrency))
        return [[next(asked) for _ in range(number)] for number in votes]

    async def _vote(
        self, client: ModelClient, question: Question, compose: Compose
    ) -> tuple[Ask, ...]:
        """Ask for one vote and return all calls made for it, in order.

        If the conversation is too long for the model, retry a few times, halving the evidence each
        time.
        """
        settings, words = self.settings, self._words(question)
        sampling = Sampling(
            temperature=settings.temperature,
            max_tokens=settings.max_tokens,
            structure=Structure("json", schema_of(words)) if settings.structured else None,
        )
        asks: list[Ask] = []
        shown: Sequence[Message] = ()
        for halved_times in range(settings.halvings + 1):
            messages = compose(question, halved_times)
            if not messages or messages == shown:
                continue  # Halving removed nothing.
            answer = await structured_output.ask(
                client,
                messages,
                lambda call: read_call(call, words),
                sampling=sampling,
                again=self.prompts.ask_again,
                attempts=settings.retries + 1,
                timeout=settings.timeout,
                forms=self._forms,
            )
            asks += [Ask(call, halved_times) for call in answer.calls]
            if not isinstance(answer.error, errors.ContextOverflowError):
                asks[-1] = dataclasses.replace(asks[-1], unanswered=answer.error is not None)
                break
            shown = messages
        return tuple(asks)

    def _words(self, question: Question) -> tuple[str, ...]:
        return self.prompts.words[question.prompt]

    def _judgement(self, examined: Examined, calls: Sequence[ModelCall] = ()) -> Judgement:
        made = make_judgement(self, examined.outcome, examined.reason, examined.findings)
        return dataclasses.replace(made, model_calls=tuple(calls), time=time.time())


def _version(settings: JudgeSettings, prompts_sha256: str) -> str:
    data = orjson.dumps([settings.to_data(), prompts_sha256], option=orjson.OPT_SORT_KEYS)
    return f"{_CODE_VERSION}-{hashlib.sha256(data).hexdigest()[:12]}"


# Judging again: by repeating the recorded requests, or from the recorded replies alone.


@dataclasses.dataclass(frozen=True, slots=True)
class Rerun:
    """The result of asking again."""

    judgement: Judgement
    """The new judgement."""
    agrees: bool
    """Whether the outcome is the same as the recorded one."""
    differences: tuple[tuple[str, str, str], ...] = ()
    """The questions whose verdict changed: key, old verdict, new verdict. An empty verdict means
    that the votes decided nothing or that the question was not asked."""


async def rerun(judgement: Judgement, models: ModelClient | Routing) -> Rerun:
    """Ask models the recorded questions again, with exactly the same messages and pictures.

    Only recorded questions are asked. If a criterion that failed is met this time, the criteria
    after it have no recorded question, and the outcome is JUDGE_ERROR.

    Args:
        judgement: A judgement by the model judge.
        models: The models to ask. They are not closed.

    Raises:
        InvalidInputError: The judgement has no readable transcript.
    """
    recorded = Recorded.of(judgement)
    judge = ModelJudge(models, settings=recorded.case.settings)
    again = await judge.examine(recorded.case, recorded.messages)
    before, after = _verdicts(judgement), _verdicts(again)
    differences = tuple(
        (key, before.get(key, ""), after.get(key, ""))
        for key in {**before, **after}
        if before.get(key, "") != after.get(key, "")
    )
    return Rerun(again, again.outcome is judgement.outcome, differences)


def replay(judgement: Judgement) -> Judgement:
    """Recompute the judgement from its stored replies, without asking a model.

    `replay(judgement) == judgement` shows that the transcript is complete and alone determines
    the outcome.

    Raises:
        InvalidInputError: The judgement has no readable transcript.
    """
    recorded = Recorded.of(judgement)
    examination = examine(recorded.case)
    try:
        questions = next(examination)
        while True:
            questions = examination.send([recorded.count_votes(asked) for asked in questions])
    except StopIteration as stop:
        examined = stop.value
    return dataclasses.replace(
        judgement,
        outcome=examined.outcome,
        reward=REWARDS.get(examined.outcome),
        reason=examined.reason,
        findings={**judgement.findings, **examined.findings},
    )


def _verdicts(judgement: Judgement) -> dict[str, str]:
    try:
        return {
            str(found["question"]): str(found["verdict"])
            for found in judgement.findings["questions"]
        }
    except (KeyError, TypeError) as error:
        raise errors.InvalidInputError(
            f"The findings of the judgement by {judgement.judge!r} have no questions ({error!r})."
        ) from error
