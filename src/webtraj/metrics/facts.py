"""`EpisodeFacts`: what metrics know about one episode.

An episode may come from a summary in a dataset's index, from a result of a running rollout, or from
its whole record. Metrics read only the facts.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from webtraj import errors
from webtraj.agents.models.accounting import Account, Price, account_for
from webtraj.environments.actions.recorded import (
    ANSWER,
    DUMMY,
    GO_BACK,
    INVALID,
    INVALID_URL,
    is_invalid,
    same_action,
    verb_of,
)
from webtraj.environments.browser.recorded_channels import as_number, last_action_of
from webtraj.environments.tasks import TaskSpec
from webtraj.store.blobs import LazyBlob
from webtraj.trajectory import (
    Decision,
    Ending,
    EndReason,
    EpisodeInfo,
    EpisodeTrajectory,
    ModelCall,
    Outcome,
    StepRecord,
    counts_for_agent,
    ending_of,
    group_of,
    is_broken,
    name_of_end,
)

if TYPE_CHECKING:
    from webtraj.runs.plan import PlannedEpisode
    from webtraj.runs.run import EpisodeResult
    from webtraj.store.index import EpisodeSummary

__all__ = [
    "CRASH_RULES",
    "CrashRule",
    "EpisodeClass",
    "EpisodeFacts",
    "Fault",
    "Origin",
    "PhaseTimes",
    "StepFacts",
    "check_rule",
    "classify",
    "fault_of",
    "load_text",
    "phase_times",
    "step_facts",
]

# Phase times: an episode's time by phase, from its record.
#
# A step's `start_time` and `end_time` frame the environment's own `reset` or `step`. Within a step,
# a browser environment's observation gives more detail (the channel `timings`). Between two steps
# lie the agent's decision and the recording; a model call's `start_time` and `latency` frame the
# request.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PhaseTimes:
    """Seconds by phase, of one or several episodes."""

    model: float = 0.0
    """Model calls, from sending the request to the full reply, retries included."""
    act: float = 0.0
    """Performing actions in the browser."""
    settle: float = 0.0
    """Waiting for pages to settle."""
    observe: float = 0.0
    """Reading pages and taking screenshots."""
    reset: float = 0.0
    """`reset`, which includes waiting for a free browser."""
    environment: float = 0.0
    """The rest of `step`: all of it without the channel `timings`. Includes an action that never
    returned."""
    waiting: float = 0.0
    """From an observation to the request for the next action, and between requests: building
    prompts and waiting for the rate limit."""
    other: float = 0.0
    """Everything else: the agent's own work and the recording."""

    @property
    def total(self) -> float:
        """Total of all phases."""
        return math.fsum(dataclasses.astuple(self))

    def __add__(self, other: Self) -> Self:
        names = (field.name for field in dataclasses.fields(self))
        return type(self)(**{n: getattr(self, n) + getattr(other, n) for n in names})


def phase_times(trajectory: EpisodeTrajectory) -> PhaseTimes:
    """Return an episode's time by phase.

    An episode without times has 0 in every phase. If the clock was set back, times are still never
    negative.
    """
    spent = dict.fromkeys((field.name for field in dataclasses.fields(PhaseTimes)), 0.0)
    before: float | None = None
    for step in trajectory.steps:
        calls = () if step.decision is None else step.decision.model_calls
        _add_calls(spent, calls, before)
        _add_step(spent, step)
        before = step.end_time
    end = trajectory.end
    if end is not None and end.in_flight_decision is not None:
        _add_calls(spent, end.in_flight_decision.model_calls, before)
    begun, ended = trajectory.start_time, trajectory.end_time
    if begun is not None and ended is not None:
        rest = max(ended - begun - math.fsum(spent.values()), 0.0)
        spent["environment" if end is not None and end.action_in_flight else "other"] += rest
    return PhaseTimes(**spent)


def _add_calls(spent: dict[str, float], calls: tuple[ModelCall, ...], before: float | None) -> None:
    """Add a decision's model calls; `before` is the time of the observation."""
    for call in calls:
        latency = _positive(call.latency)
        spent["model"] += latency
        if call.start_time is None:
            before = None
            continue
        if before is not None:
            spent["waiting"] += max(call.start_time - before, 0.0)
        before = call.start_time + latency


def _add_step(spent: dict[str, float], step: StepRecord) -> None:
    if step.start_time is None or step.end_time is None:
        return
    seconds = max(step.end_time - step.start_time, 0.0)
    if step.first:
        spent["reset"] += seconds
        return
    timings = step.observation.get("timings") if isinstance(step.observation, Mapping) else None
    parts = {"act": ("act",), "settle": ("settle",), "observe": ("observe", "pictures")}
    for phase, names in parts.items():
        # The parts of a step never exceed the step, whatever the page's clock says.
        part = min(math.fsum(_seconds(timings, name) for name in names), seconds)
        spent[phase] += part
        seconds -= part
    spent["environment"] += seconds


def _seconds(timings: Any, name: str) -> float:
    return _positive(timings.get(name) if isinstance(timings, Mapping) else None)


def _positive(value: Any) -> float:
    """Return a valid number of seconds unchanged, and 0 for anything else that a file may hold."""
    number = as_number(value)
    return number if number is not None and number >= 0 else 0.0


# Step facts: what an episode's steps add to its summary.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StepFacts:
    """Counts over the steps of one episode."""

    first_verb: str = ""
    """Verb of the first action; empty if unknown. WebGym's `invalid_url` if the start page did not
    load."""
    last_verb: str = ""
    """Verb of the last action."""
    dummies: int = 0
    """Steps without an action, or with WebGym's stand-in for one."""
    go_backs: int = 0
    """Steps that went back to the previous page."""
    choices: int = 0
    """Chosen actions: those of steps, and one that was pending when the episode ended."""
    invalid_choices: int = 0
    """Chosen actions whose reply could not be parsed."""
    judged_actions: int = 0
    """Steps whose observation reports whether the action succeeded (`last_action`)."""
    failed_actions: int = 0
    """Steps whose observation reports that the action failed."""
    repeated: int = 0
    """Steps that repeat the previous step's action."""
    longest_repeat: int = 0
    """Most steps in a row with the same action; 1 if none was repeated."""
    settle_reports: int = 0
    """Steps whose observation reports whether the page had settled (`last_action`)."""
    unsettled: int = 0
    """Steps whose observation was taken at the time limit, before the page had settled."""
    page_pairs: int = 0
    """Steps that observe a page, as did the step before."""
    repeated_pages: int = 0
    """Steps that observe exactly the same page as the step before."""
    replies: int = 0
    """Model replies."""
    cut_replies: int = 0
    """Model replies that were cut off at a length limit."""
    refused_replies: int = 0
    """Refusals of the model, and replies that a content filter stopped."""
    reply_characters: int = 0
    """Characters in model replies."""
    account: Account = dataclasses.field(default_factory=Account)
    """Usage and cost of the model calls, without latencies."""
    times: PhaseTimes = dataclasses.field(default_factory=PhaseTimes)
    """Time by phase."""


def step_facts(
    trajectory: EpisodeTrajectory, prices: Mapping[str, Price] | None = None
) -> StepFacts:
    """Return the counts over an episode's steps.

    Args:
        trajectory: The episode. Long bytes and text may be `LazyBlob`s; screenshots are not read.
        prices: As `accounting.account_for` takes them.

    Raises:
        CorruptDataError: A long reply cannot be read.
    """
    taken = [step for step in trajectory.steps if not step.first]
    verbs = [verb_of(step.action) for step in taken]
    told = [last_action_of(step.observation) for step in taken]
    ends = [each for each in told if "error" in each]
    invalid = sum(map(is_invalid, taken))
    undone = _decision_at_the_end(trajectory)
    if undone is not None:
        invalid += bool(undone.parse_error) or verb_of(undone.action) == INVALID
    calls = list(_calls(trajectory))
    replies = [len(load_text(call.text)) for call in calls if not call.error]
    endings = [ending_of(load_text(call.finish_reason)) for call in calls if not call.error]
    settled = [each["settled"] for each in told if each.get("settled")]
    pages = [_page_of(step.observation) for step in trajectory.steps]
    pairs = [pair for pair in itertools.pairwise(pages) if all(pair)]
    repeated, longest = _repeats([step.action for step in taken])
    return StepFacts(
        first_verb=verbs[0] if verbs else INVALID_URL if _did_not_load(trajectory) else "",
        last_verb=verbs[-1] if verbs else "",
        dummies=sum(
            step.action is None or verb == DUMMY for step, verb in zip(taken, verbs, strict=True)
        ),
        go_backs=verbs.count(GO_BACK),
        choices=len(taken) + (undone is not None),
        invalid_choices=invalid,
        judged_actions=len(ends),
        failed_actions=sum(bool(end["error"]) for end in ends),
        repeated=repeated,
        longest_repeat=longest,
        settle_reports=len(settled),
        unsettled=settled.count("cap"),
        page_pairs=len(pairs),
        repeated_pages=sum(same_action(page, before) for before, page in pairs),
        replies=len(replies),
        cut_replies=endings.count(Ending.CUT),
        refused_replies=endings.count(Ending.FILTERED),
        reply_characters=sum(replies),
        account=dataclasses.replace(account_for(calls, prices), latencies=()),
        times=phase_times(trajectory),
    )


_PAGE = ("url", "axtree", "text", "screenshot", "scroll", "tabs")
"""The channels that show a page. Others, such as `timings`, describe the step."""


def _page_of(observation: Any) -> dict[str, Any]:
    """Return the channels of an observation that show the page, without reading lazy values."""
    seen = _mapping(observation)
    return {name: seen[name] for name in _PAGE if seen.get(name) is not None}


def _did_not_load(trajectory: EpisodeTrajectory) -> bool:
    error = None if trajectory.end is None else trajectory.end.error
    return error is not None and error.type.rpartition(".")[2] == errors.PageLoadError.__name__


def _decision_at_the_end(trajectory: EpisodeTrajectory) -> Decision | None:
    return None if trajectory.end is None else trajectory.end.in_flight_decision


def _calls(trajectory: EpisodeTrajectory) -> Iterator[ModelCall]:
    for step in trajectory.steps:
        if step.decision is not None:
            yield from step.decision.model_calls
    last = _decision_at_the_end(trajectory)
    if last is not None:
        yield from last.model_calls


def load_text(text: Any) -> Any:
    """Return a text, read from the blob store if it is there."""
    return text.load() if isinstance(text, LazyBlob) else text


def _repeats(actions: list[Any]) -> tuple[int, int]:
    repeated, longest, row = 0, min(len(actions), 1), 1
    for before, action in itertools.pairwise(actions):
        same = same_action(action, before)
        repeated += same
        row = row + 1 if same else 1
        longest = max(longest, row)
    return repeated, longest


@dataclasses.dataclass(frozen=True, slots=True)
class Origin:
    """Origin of an episode: a run's plan, which knows more of its task than the record."""

    run: str = ""
    """The run's id; empty without a run."""
    row: int = -1
    """Row in the run's plan."""
    number: int = 0
    """Number of earlier tries at that row."""
    site: str = ""
    domain: str = ""
    difficulty: int = 0
    """The task's difficulty, from 1; 0 if unknown."""
    level: str = "unknown"
    """The difficulty level."""

    @classmethod
    def of(cls, planned: PlannedEpisode, run: str, number: int) -> Origin:
        """Return the origin for a row of a plan."""
        spec = planned.spec
        return cls(
            run=run,
            row=planned.row,
            number=number,
            site=spec.site,
            domain=spec.domain,
            difficulty=spec.difficulty,
            level=spec.level,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeFacts:
    """One episode, as metrics see it."""

    episode_id: str = ""
    task: str = ""
    policy: str = ""
    attempts_key: str = ""
    """Key shared with the other attempts at the task."""
    outcome: Outcome = Outcome.UNKNOWN
    end_reason: EndReason = EndReason.UNKNOWN
    num_steps: int = 0
    reward: float | None = None
    """Total reward; None if the episode was not scored."""
    seconds: float | None = None
    """Duration; None if unknown."""
    start_time: float | None = None
    """In seconds since the epoch (UTC)."""
    end_time: float | None = None
    """In seconds since the epoch (UTC)."""
    origin: Origin = dataclasses.field(default_factory=Origin)
    steps: StepFacts | None = None
    """Counts over the steps; None if they were not read."""
    perturbation: str = ""
    """The perturbation of the task; empty if none, or if only the index was read."""
    retry_of: str = ""
    """The episode that it retries; empty if none."""
    superseded: bool = False
    """Whether another try of its row counts instead."""

    @property
    def task_group(self) -> str:
        """The task's domain if known, else its name up to the last slash."""
        return self.origin.domain or self.task.rpartition("/")[0]

    @classmethod
    def of_result(cls, result: EpisodeResult, policy: str = "") -> EpisodeFacts:
        """Return the facts from a result of a running rollout."""
        origin = Origin(row=result.row, number=result.number, site=result.site, level=result.level)
        return cls(
            episode_id=result.episode_id,
            task=result.task,
            policy=policy,
            attempts_key=result.task if result.group is None else f"{result.task}\0{result.group}",
            outcome=result.outcome,
            end_reason=result.end_reason,
            num_steps=result.num_steps,
            reward=result.total_reward,
            seconds=result.seconds,
            origin=origin,
        )

    @classmethod
    def of_summary(cls, summary: EpisodeSummary, origin: Origin | None = None) -> EpisodeFacts:
        """Return the facts from a line of a dataset's index."""
        known = Origin() if origin is None else origin
        known = known if known.site else dataclasses.replace(known, site=summary.site)
        return cls._of(summary, summary, known, None)

    @classmethod
    def of_trajectory(
        cls, trajectory: EpisodeTrajectory, origin: Origin | None = None, *, steps: StepFacts
    ) -> EpisodeFacts:
        """Return the facts from a whole record and its `step_facts`."""
        facts = cls._of(trajectory.info, trajectory, _origin(trajectory, origin), steps)
        return dataclasses.replace(
            facts, perturbation=_text(trajectory.info.metadata, "perturbation")
        )

    @classmethod
    def _of(
        cls,
        info: EpisodeInfo | EpisodeSummary,
        played: EpisodeTrajectory | EpisodeSummary,
        origin: Origin,
        steps: StepFacts | None,
    ) -> EpisodeFacts:
        start, end = played.start_time, played.end_time
        return cls(
            episode_id=info.episode_id,
            task=info.task,
            policy=info.policy,
            attempts_key=group_of(info.group_id, info.policy, info.task),
            outcome=played.outcome,
            end_reason=played.end_reason,
            num_steps=played.num_steps,
            reward=played.total_reward,
            seconds=None if start is None or end is None else max(end - start, 0.0),
            start_time=start,
            end_time=end,
            origin=origin,
            steps=steps,
            retry_of=info.retry_of,
        )


def _origin(trajectory: EpisodeTrajectory, origin: Origin | None) -> Origin:
    """Return an episode's origin, with what the plan lacks taken from its record."""
    info = trajectory.info
    if origin is None:
        place = _mapping(info.metadata.get("rollout"))
        origin = Origin(
            run=_text(place, "run"),
            row=_number(place, "row", -1),
            number=_number(place, "try") or int(bool(info.retry_of)),
        )
    # The values of a task file or an environment, under WebGym's names.
    task = _mapping(info.metadata.get("task"))
    difficulty = origin.difficulty or _number(task, "difficulty")
    spec = TaskSpec(
        name=info.task, difficulty=difficulty, domain=origin.domain or _text(task, "domain")
    )
    return dataclasses.replace(
        origin,
        site=origin.site or info.site,
        domain=spec.domain,
        difficulty=spec.difficulty,
        level=spec.level,
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name, "")
    return value if isinstance(value, str) else ""


def _number(values: Mapping[str, Any], name: str, default: int = 0) -> int:
    value = values.get(name, default)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


# Episode classes: whether an episode counts for the policy, and if not, why.
#
# There are two rules. Each puts every episode into exactly one class:
#
# `typed`: by the outcome.
#
#     valid       success, failure, judge_error or unknown, if the episode finished; agent_error
#     blocked     the site refused the agent
#     crashed     env_error, model_error or timeout; any other, if an error or a crash ended it
#     unfinished  cancelled; any other, if it was cut short otherwise
#
# `webgym`: WebGym's `is_crashed` (scripts/rollout.py), quoting its documentation in brackets.
#
#     crashed     no steps ("it's empty or has no steps");
#                 the first action is `invalid_url` ("first action is invalid_url");
#                 a dummy in place of an action ("contains dummy actions (None values)");
#                 or fewer than 10 steps, no answer at the end, and not blocked
#     blocked     of the rest, those that the site refused
#     valid       everything else
#
# By either rule, a valid or blocked episode is `superseded` if another try of its row counts.
#
# If an error, a time limit or a cancellation ends an episode, WebGym discards its steps and stores
# a dummy, so those ends count as dummies here. The rule calls every short episode without an answer
# crashed, even a success, so it suits only tasks that ask for an answer.

CrashRule = Literal["typed", "webgym"]
"""A rule for crashed episodes: by the types of their ends, or WebGym's."""

CRASH_RULES: tuple[CrashRule, ...] = get_args(CrashRule)

_MIN_STEPS = 10
"""WebGym's threshold: a shorter episode must have an answer."""

_DUMMY_ENDS = (EndReason.ERRORED, EndReason.CANCELLED, EndReason.CRASHED)


class EpisodeClass(enum.StrEnum):
    """Whether an episode counts for the policy, and if not, why."""

    VALID = "valid"
    """Played; counts for the policy."""
    BLOCKED = "blocked"
    """Refused by the site."""
    CRASHED = "crashed"
    """Broken by an error."""
    UNFINISHED = "unfinished"
    """Cut short, by a person or by the end of the rollout."""
    SUPERSEDED = "superseded"
    """Played, or refused by the site; but another try of its row counts."""


def check_rule(rule: str) -> CrashRule:
    """Return a rule's name after checking it.

    Raises:
        InvalidInputError: There is no such rule.
    """
    for known in CRASH_RULES:
        if rule == known:
            return known
    raise errors.InvalidInputError(
        f"Unknown crash_rule={rule!r:.60}; expected {' or '.join(map(repr, CRASH_RULES))}."
    )


def classify(facts: EpisodeFacts, rule: CrashRule = "typed") -> EpisodeClass:
    """Return the class of an episode.

    Raises:
        InvalidInputError: WebGym's rule needs the episode's steps, which were not read.
    """
    found = _classify(facts) if rule == "typed" else _webgym(facts)
    played = found in (EpisodeClass.VALID, EpisodeClass.BLOCKED)
    return EpisodeClass.SUPERSEDED if played and facts.superseded else found


def _classify(facts: EpisodeFacts) -> EpisodeClass:
    outcome, reason = facts.outcome, facts.end_reason
    if outcome is Outcome.BLOCKED:
        return EpisodeClass.BLOCKED
    if counts_for_agent(outcome, reason):
        return EpisodeClass.VALID
    # A judge that failed on an episode that was cut short is not what ended it.
    broke = is_broken(outcome, reason) and outcome is not Outcome.JUDGE_ERROR
    return EpisodeClass.CRASHED if broke else EpisodeClass.UNFINISHED


def _webgym(facts: EpisodeFacts) -> EpisodeClass:
    steps = facts.steps
    if facts.num_steps and steps is None:
        raise errors.InvalidInputError(
            f"WebGym's crash rule needs the actions of {facts.episode_id or facts.task!r}, which a "
            "summary does not contain. Measure a recorded dataset, with its steps."
        )
    blocked = facts.outcome is Outcome.BLOCKED
    if steps is None or not facts.num_steps or facts.end_reason in _DUMMY_ENDS:
        return EpisodeClass.CRASHED
    if steps.first_verb == INVALID_URL or steps.dummies:
        return EpisodeClass.CRASHED
    if facts.num_steps < _MIN_STEPS and steps.last_verb != ANSWER and not blocked:
        return EpisodeClass.CRASHED
    return EpisodeClass.BLOCKED if blocked else EpisodeClass.VALID


# The error that ended an episode, as a kind and a message.

_LONGEST = 400


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """An error that ended an episode."""

    kind: str
    """The error's type without its module, such as `BrowserCrashedError`; or the outcome or end
    reason, such as `crashed`."""
    message: str = ""
    """The start of the message's first line."""


def fault_of(trajectory: EpisodeTrajectory) -> Fault:
    """Return the error that ended an episode."""
    end = trajectory.end
    error = None if end is None else end.error
    if error is not None and error.type:
        return Fault(str(error.type).rpartition(".")[2], _first_line(error.message))
    if trajectory.outcome is Outcome.JUDGE_ERROR:
        judgements = trajectory.judgements
        return Fault("judge_error", _first_line(judgements[-1].reason) if judgements else "")
    return Fault(name_of_end(trajectory.outcome, trajectory.end_reason))


def _first_line(message: object) -> str:
    text = load_text(message)
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return str(text).strip().partition("\n")[0][:_LONGEST]
