"""Recording what a person, or another program, does in a browser as an ordinary episode.

The recorder holds the last step back until the next gesture begins, so that it can be joined (a
click becomes a double click, letters become a text), undone, or redacted. As in any recording,
`TrajectoryCollectingEnvironment` and its collector write the steps. An action other than text is
noted in the journal at once, as in flight.

A model's reply may contain the password that a later step types letter by letter. So with
`decisions`, a step before another in a password field is put off: it is written when the first step
elsewhere begins, or five seconds after the last input once a password was typed.

The observation after a step is taken once the page has settled. If the next gesture begins before
that, it is what the page showed when that gesture began, before the page's own handlers ran, and
has no picture. An element that came up by itself between two gestures is first shown by a `Wait`,
so that each action's element is in the observation before it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import dm_env

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.collectors.base import TrajectoryCollector, drain
from webtraj.demonstrating import gestures as gestures_lib
from webtraj.environments import actions as a
from webtraj.environments.browser import listener as listener_lib
from webtraj.environments.browser.environment import BrowserEnvironment
from webtraj.environments.browser.observation import refs_in
from webtraj.environments.browser.watched import WatchedEnvironment
from webtraj.environments.collecting_environment import TrajectoryCollectingEnvironment
from webtraj.trajectory import EndReason, Outcome, Phase

if TYPE_CHECKING:
    from playwright.async_api import Page

    from webtraj.environments.browser.session import BrowserSession

__all__ = ["Decisions", "Progress", "Recorded", "Recorder"]

_QUIET: Final = 0.1
"""Seconds without input after which the page is observed."""
_QUIET_TYPING: Final = 0.6
"""The same after a letter, when more are likely to come."""
_TYPED: Final = 5.0
"""Seconds without input after which a text in a password field is the whole password."""
_EFFECT: Final = 1.5
"""Seconds after a gesture within which a page that goes back or closes does so because of it."""
_SLOW_EFFECT: Final = 15.0
"""Seconds within which a page that comes by a link comes because of the gesture before it."""
_BY_BROWSER: Final = (a.Goto, a.GoBack, a.GoForward, a.Reload, a.NewTab, a.FocusTab, a.CloseTab)
"""Actions that give a page no input, so a page does not go back because of one."""
_HIDDEN_BY_HAND: Final = "hidden"
"""The placeholder name of elements that a person chose to redact."""
_COMMAND: Final = "command"
_MESSAGES: Final = frozenset({"up", "drop", "key", "text", "toggle", "choose", "files", "scroll"})

Command = Literal["pause", "resume", "undo", "redact", "stop"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The display for a person who records."""

    goal: str
    steps: int
    """The steps so far, the one held back included."""
    last: str
    """The last action; empty if there is none."""
    can_undo: bool
    paused: bool
    notice: str = ""
    """What has just happened, such as an undone step."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One recorded episode."""

    episode_id: str
    steps: int
    outcome: Outcome
    reward: float
    stopped: bool
    """Whether it was stopped without a verdict, or its browser was closed."""


class Decisions(Protocol):
    """A source of the decisions behind the actions in a browser."""

    def decision(
        self, deed: gestures_lib.Deed, *, last: bool = False
    ) -> trajectory_lib.Decision | None:
        """Return the decision behind a step; None if it is unknown.

        Args:
            deed: The step's action, with the time of its last gesture.
            last: Whether it is the episode's last step.
        """

    def note_recorded(self) -> None:
        """Note that the decision returned last was recorded."""

    def hide(self, password: str) -> None:
        """Hide a password in all decisions from now on, even if each holds only a part of it."""


class _NoDecisions:
    """Knows no decision, as for a person."""

    def decision(self, deed: gestures_lib.Deed, *, last: bool = False) -> None:
        """See `Decisions`."""

    def note_recorded(self) -> None:
        """See `Decisions`."""

    def hide(self, password: str) -> None:
        """See `Decisions`."""


@dataclasses.dataclass(slots=True)
class _Held:
    """The step held back."""

    deed: gestures_lib.Deed
    metadata: dict[str, Any]
    looked: bool
    """Whether the environment has given a result that the next one replaces."""
    after: float
    """When the result of the step before was seen."""
    last: bool = False
    """Whether it is the episode's last step."""
    result: dm_env.TimeStep | None = None
    seen: float = 0.0
    """When the result was seen."""
    noted: a.Action | None = None
    """The action that the journal knows to be in flight."""
    click: gestures_lib.Deed | None = None
    """The click before, if all it did was focus the field of this text."""

    @property
    def returned(self) -> float:
        """When its result is on record."""
        return max(self.seen, self.deed.time, self.after)

    @property
    def secret(self) -> str:
        """The text that the step types into a password field; empty if it types none."""
        match self.deed.action:
            case a.Fill(value=text) | a.TypeInto(text=text) if self.deed.is_in_password_field:
                return text
        return ""


class Recorder:
    """A recorder of episodes in which somebody else acts.

    Args:
        environment: The environment, not yet reset.
        collector: Stores the episodes.
        policy: Who acts, for the record.
        metadata: Further metadata for the record.
        ends_with_browser: Whether an episode ends when the last tab is closed. Otherwise only
            `stop` ends it, which can still give a verdict.
        decisions: The source of the steps' decisions. Default: steps have no decisions.
        on_progress: Called whenever something has changed.
    """

    def __init__(
        self,
        environment: BrowserEnvironment,
        collector: TrajectoryCollector,
        *,
        policy: str = "human",
        metadata: Mapping[str, Any] | None = None,
        ends_with_browser: bool = True,
        decisions: Decisions | None = None,
        on_progress: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        self._environment = environment
        self._collector = collector
        self._listener = listener_lib.Listener()
        self._watched = WatchedEnvironment(environment, self._listener)
        self._secrets = environment.secret_keeper
        self._listener.tell_secrets(self._secrets.learn_password)
        self._recording = TrajectoryCollectingEnvironment(
            environment,
            collector,
            episode_info=trajectory_lib.EpisodeInfo(
                policy=policy, metadata={"demonstration": dict(metadata or {})}
            ),
        )
        self._ends_with_browser = ends_with_browser
        self._decisions: Decisions = decisions or _NoDecisions()
        self._puts_off = decisions is not None
        self._on_progress = on_progress
        self._tracker = self._recording.tracker
        self._goal = ""
        self._begun = asyncio.Event()
        self._forget()

    def _forget(self) -> None:
        self._begun.clear()
        self._held: _Held | None = None
        self._unwritten: list[_Held] = []
        self._spare_result = False
        self._recorded = 0
        self._reward = 0.0
        self._last: dm_env.TimeStep | None = None
        self._last_time = self._now = self._pressed = self._clock = 0.0
        self._session: BrowserSession | None = None
        self._page: Page | None = None
        self._press: Mapping[str, Any] | None = None
        self._element: Mapping[str, Any] | None = None
        self._before: Mapping[str, Any] | None = None
        self._left: Mapping[str, Any] | None = None
        self._gesture = self._document = 0
        self._paused = False
        self._was_paused = False
        self._over = False
        self._stopped = False

    # Commands, from the bar or the terminal. They take their turn after what was heard before.

    def pause(self) -> None:
        """Record nothing until `resume`."""
        self._command("pause")

    def resume(self) -> None:
        """Record again."""
        self._command("resume")

    def undo(self) -> None:
        """Leave the last step out of the episode. The page stays as it is."""
        self._command("undo")

    def redact(self) -> None:
        """Redact the field that was last used, now and from now on."""
        self._command("redact")

    def stop(self, outcome: Outcome | None = None, *, answer: str | None = None) -> None:
        """End the episode.

        Args:
            outcome: SUCCESS or FAILURE, where the task has no judge; None for no verdict.
            answer: The answer to the task, recorded as the last action.
        """
        self._command("stop", outcome=outcome, answer=answer)

    def _command(self, name: Command, **details: Any) -> None:
        message = {"name": name, **details}
        self._listener.heard.put_nowait(listener_lib.Event(None, _COMMAND, message))

    # An episode.

    async def record_episode(self) -> Recorded:
        """Record until the task is done, somebody stops it, or the browser's last tab is closed.

        Raises:
            BrowserError: The browser failed. What was recorded until then is kept.
        """
        self._forget()
        first = await self._recording.reset()
        episode_id = self._recording.episode_id or ""
        try:
            # The environment gives it only until a look finds the task done, and a look that came
            # too late for its step is taken again.
            session = self._session = self._environment.session
            self._page = session.page
            self._last = first
            self._listener.forget_heard()
            with contextlib.suppress(errors.BrowserError):
                await self._listener.note_history(session.page)
            described = self._environment.describe_episode()
            self._goal = str(described.get("goal", ""))
            self._last_time = self._now = time.monotonic()
            self._clock = trajectory_lib.now() - self._now
            self._begun.set()
            self._report()
            while not self._over:
                await self._go_on()
        except BaseException as error:
            self._keep_held()
            self._tracker.record_exception(error, Phase.STEP)
            raise
        outcome = self._environment.episode_outcome() if not self._stopped_open else Outcome.UNKNOWN
        return Recorded(
            episode_id=episode_id,
            steps=self._recorded,
            outcome=outcome,
            reward=self._reward,
            stopped=self._stopped_open,
        )

    def _keep_held(self) -> None:
        """Record the step held back when the recording fails, with its result or as in flight."""
        held, self._held = self._held, None
        if held is not None and held.result is not None:
            self._unwritten.append(held)
            held = None
        self._write(held)

    def _write(self, in_flight: _Held | None = None) -> None:
        """Write the recorded steps, then the action in flight, if any."""
        steps, self._unwritten = self._unwritten, []
        for held in (*steps, in_flight, self._held):
            if held is not None and held.secret:
                self._secrets.learn_password(held.secret)
                if self._secrets.watches_passwords:
                    self._decisions.hide(held.secret)
        for held in steps:
            self._note_call(held, self._decision(held))
            self._tracker.record_return(held.result, Phase.STEP, at=self._clock + held.returned)
            self._decisions.note_recorded()
        if in_flight is not None:
            self._note_call(in_flight, self._decision(in_flight))

    def _note_call(self, held: _Held, decision: trajectory_lib.Decision | None) -> None:
        at = self._clock + max(held.deed.time, held.after)
        self._tracker.step_called(held.deed.action, decision, at=at)

    @property
    def is_recording(self) -> bool:
        """Whether an episode has begun and is not over."""
        return self._begun.is_set() and not self._over

    @property
    def steps(self) -> int:
        """The steps of the episode so far, the one held back included."""
        return self._recorded + (self._held is not None)

    @property
    def is_settled(self) -> bool:
        """Whether the last step's result has been observed."""
        return self._held is None or self._held.result is not None

    async def wait_until_begun(self) -> None:
        """Wait until the first observation is recorded. Later actions are recorded."""
        await self._begun.wait()

    async def close(self) -> None:
        """Close the environment. Idempotent.

        The step held back and the steps put off are lost, as if the process were killed. The
        journal keeps the first of them as in flight, unless it types text.
        """
        await self._recording.close()

    @property
    def _stopped_open(self) -> bool:
        return self._stopped and not (self._last is not None and self._last.last())

    async def _go_on(self) -> None:
        heard = await self._next()
        if heard is not None:
            self._now = heard.time
        if heard is None:
            if self._is_to_be_looked_at:
                await self._look()
            elif self._knows_password:
                await self._write_after_password()
        elif heard.kind == _COMMAND:
            await self._obey(heard.message)
        elif not self._paused:
            await self._hear(heard)
        is_close = heard is not None and heard.kind == "closed"
        if is_close and self._ends_with_browser and not self._is_open:
            await self._stop(None, None)

    async def _next(self) -> listener_lib.Event | None:
        """Return the next message; None when it is time to observe the page or to write."""
        held = self._held
        quiet = _TYPED if self._knows_password else None
        if held is not None and self._is_to_be_looked_at:
            quiet = _QUIET_TYPING if held.deed.is_text else _QUIET
        try:
            async with asyncio.timeout(quiet):
                return await self._listener.heard.get()
        except TimeoutError:
            return None

    @property
    def _is_to_be_looked_at(self) -> bool:
        """Whether the step held back has no result yet, and can have one."""
        can_look = self._is_open and not self._listener.dialog_is_open
        return can_look and self._held is not None and self._held.result is None

    @property
    def _knows_password(self) -> bool:
        """Whether steps are put off, and the password that they wait for is known."""
        steps = (*self._unwritten, self._held)
        return bool(self._unwritten) and any(step is not None and step.secret for step in steps)

    async def _write_after_password(self) -> None:
        await drain(self._collector)
        self._write()
        if self._held is not None:
            self._note(self._held)

    async def _hear(self, heard: listener_lib.Event) -> None:
        page, message = heard.page, heard.message
        assert page is not None
        match heard.kind:
            case "begin":
                await self._begin(page, message)
            case "here":
                await self._note_tab_switch(page)
            case "leave":
                if page is self._page:
                    self._left = message["before"]
            case "navigated":
                await self._note_navigation(page, await message["travel"])
            case "opened":
                await self._note_open(page, by_page=await message["by_page"])
            case "closed":
                await self._note_close(page)
            case kind if kind in _MESSAGES:
                deed = gestures_lib.read_deed(kind, message, press=self._press)
                if kind in ("up", "drop"):
                    self._press = None
                if deed is not None:
                    await self._did(page, deed)

    async def _begin(self, page: Page, message: Mapping[str, Any]) -> None:
        await self._end_press()
        await self._note_tab_switch(page, message.get("before"))
        self._before, self._left = message.get("before"), None
        held = self._held
        if held is not None and held.result is None and self._before is not None:
            held.metadata["hurried"] = True
            await self._observe_as_seen(held, self._before)
            if self._over:
                return
        self._gesture += 1
        if message["what"] == "press":
            self._press, self._pressed = message, self._now
            self._element = message["element"]

    async def _end_press(self) -> None:
        """Note a press whose release was not heard because the page went away."""
        press, self._press = self._press, None
        if press is not None and self._page is not None:
            up = {"path": None, "count": press["count"]}
            if (deed := gestures_lib.read_deed("up", up, press=press)) is not None:
                await self._did(self._page, dataclasses.replace(deed, time=self._pressed))

    async def _did(self, page: Page, deed: gestures_lib.Deed) -> None:
        await self._note_tab_switch(page, self._before)
        if self._over:
            return
        deed = self._date(deed)
        touched = deed.touched
        if touched is not None:
            self._element = touched
            if deed.is_in_password_field:
                self._secrets.saw_password_field(str(touched["ref"]))
        held = self._held
        if held is not None:
            both = gestures_lib.join_deeds(held.deed, deed)
            if (
                both is None
                and gestures_lib.only_focuses(held.deed, deed)
                and self._is_unmoved(held)
            ):
                both, held.click = deed, held.deed
            elif both and held.click and isinstance(deed.action, a.TypeInto):
                # Keep the click: the keys go where it put the caret.
                held.deed, held.result, both = held.click, None, None
                if self._before is not None:
                    await self._observe_as_seen(held, self._before)
            if both is not None:
                held.deed, held.result = both, None
                held.metadata.pop("hurried", None)
                self._note(held)
                self._report()
                return
        await self._commit()
        if not self._over:
            await self._show_first(deed)
            await self._hold(deed)

    async def _hold(self, deed: gestures_lib.Deed) -> None:
        """Hold a step back, and write the steps before it, unless it is in a password field."""
        if self._over:
            return
        if not (self._puts_off and deed.is_in_password_field):
            await drain(self._collector)
            self._write()
        self._held = self._new(deed, {})
        self._note(self._held)
        self._report()

    def _new(self, deed: gestures_lib.Deed, metadata: dict[str, Any]) -> _Held:
        looked, self._spare_result = self._spare_result, False
        return _Held(deed, metadata, looked=looked, after=self._last_time)

    async def _hold_new(self, action: a.Action) -> None:
        """Hold back an action of the browser itself, such as navigation, which is never joined."""
        self._gesture += 1
        await self._hold(self._date(gestures_lib.Deed(action=action)))

    def _date(self, deed: gestures_lib.Deed) -> gestures_lib.Deed:
        at = deed.time or self._now
        return dataclasses.replace(deed, document=self._document, gesture=self._gesture, time=at)

    def _is_unmoved(self, held: _Held) -> bool:
        """Whether a click brought up no new element, as far as is known."""
        result = held.result
        if result is None or self._last is None:
            return True
        return _refs(result.observation) <= _refs(self._last.observation)

    def _note(self, held: _Held) -> None:
        """Note an action in the journal, unless it has text, which may be redacted later.

        Its decision is not noted, because it may name a password that is typed later. An action
        after steps that were put off is not noted either, because the first of those is in flight
        for the journal.
        """
        if held.deed.is_text or held.noted is held.deed.action or self._unwritten:
            return
        held.noted = held.deed.action
        self._note_call(held, None)

    def _decision(self, held: _Held) -> trajectory_lib.Decision | None:
        decision = self._decisions.decision(held.deed, last=held.last)
        if not held.metadata:
            return decision
        decision = decision or trajectory_lib.Decision(action=held.deed.action)
        metadata = {**decision.metadata, "demonstration": dict(held.metadata)}
        return dataclasses.replace(decision, metadata=metadata)

    async def _show_first(self, deed: gestures_lib.Deed) -> None:
        """Record a `Wait` if the action's element was not there after the last step."""
        self._was_paused, paused = False, self._was_paused
        if self._before is None or self._last is None or "axtree" not in self._last.observation:
            return
        missing = set(gestures_lib.refs_of(deed.action)) - _refs(self._last.observation)
        if not missing.intersection(element.ref for element in refs_in(self._before["axtree"])):
            return
        seconds = min(max(self._now - self._last_time, 0.0), 100.0)
        wait = gestures_lib.Deed(action=a.Wait(round(seconds, 1)), time=self._last_time)
        reason = "paused" if paused else "the page changed"
        held = self._new(wait, {"waited_for": reason})
        await self._observe_as_seen(held, self._before)
        await self._record(held)

    async def _look(self) -> None:
        """Look at the result of the step held back."""
        held = self._held
        if held is None or self._over:
            return
        inputs = self._listener.inputs
        try:
            result = await self._observe_result(held)
        except errors.BrowserError:
            if not self._is_open:
                return  # The messages that its tabs were closed follow.
            raise
        # If more was done meanwhile, it may be too late.
        if result is not None and self._listener.inputs == inputs:
            held.result = result
            if result.last():
                await self._commit()

    async def _observe_result(self, held: _Held) -> dm_env.TimeStep | None:
        """Return the result of a step; None if a dialog opened, which stops the page."""
        again, held.looked = held.looked, True
        looking = asyncio.ensure_future(
            self._watched.observe_external(held.deed.action, held.deed.touched, again=again)
        )
        dialog = asyncio.ensure_future(self._listener.dialog())
        try:
            await asyncio.wait((looking, dialog), return_when=asyncio.FIRST_COMPLETED)
            held.seen = time.monotonic()
            return await looking if looking.done() else None
        finally:
            for task in (looking, dialog):
                task.cancel()
            await asyncio.gather(looking, dialog, return_exceptions=True)

    @property
    def _is_open(self) -> bool:
        return bool(self._tabs)

    @property
    def _tabs(self) -> list[Page]:
        return [] if self._session is None else self._session.tabs

    async def _observe_as_seen(self, held: _Held, seen: Mapping[str, Any]) -> None:
        again, held.looked = held.looked, True
        held.seen = self._now
        held.result = await self._watched.observe_external(
            held.deed.action, held.deed.touched, seen=seen, again=again
        )
        if held.result.last() and held is self._held:
            await self._commit()

    async def _commit(self) -> None:
        """Commit the step held back. It is written when the next is held or the episode ends."""
        held = self._held
        while held is not None and held.result is None:
            held.result = await self._observe_result(held)
        self._held = None
        if held is not None:
            await self._record(held)

    async def _record(self, held: _Held, *, last: bool = False) -> None:
        result = held.result
        assert result is not None
        deed = held.deed
        if deed.typed and self._last is not None and _has_reacted(self._last, result, deed.action):
            held.deed = dataclasses.replace(deed, action=deed.typed)
        held.last = last or result.last()
        self._unwritten.append(held)
        self._last, self._last_time = result, held.returned
        self._recorded += 1
        self._reward += float(result.reward or 0.0)
        self._over = self._over or result.last()
        if held.last:
            await drain(self._collector)
            self._write()
        self._report()

    # Tabs and navigation.

    async def _note_tab_switch(self, page: Page, before: Mapping[str, Any] | None = None) -> None:
        """Record that somebody switched to another tab, if they did."""
        if page is self._page or page not in self._tabs:
            return
        await self._commit()
        if self._over or page not in self._tabs:
            return
        index = self._tabs.index(page)
        self._turn_to(page)
        await self._hold_new(a.FocusTab(index))
        if before is not None and self._held is not None:
            await self._observe_as_seen(self._held, before)

    async def _note_open(self, page: Page, *, by_page: bool) -> None:
        if page.is_closed():
            return
        if by_page:
            if self._held is not None:
                self._held.result = None
            self._turn_to(page)
            return
        await self._commit_before_travel()
        if self._over:
            return
        self._turn_to(page)
        await self._hold_new(a.NewTab(_web_url(page.url)))

    def _turn_to(self, page: Page) -> None:
        self._page = page
        self._document += 1
        if self._session is not None:
            self._session.turn_to(page)

    async def _note_close(self, page: Page) -> None:
        if self._session is None or page is not self._page or not self._is_open:
            return
        self._page = self._session.page
        if self._takes_effect(_EFFECT):
            return
        await self._commit_before_travel()
        await self._hold_new(a.CloseTab())

    async def _note_navigation(self, page: Page, travel: listener_lib.Travel | None) -> None:
        await self._end_press()
        self._document += 1
        if travel is None or page is not self._page or self._over:
            return
        held = self._held
        if travel.kind == "page":
            self._takes_effect(_SLOW_EFFECT)
            return
        caused = held is not None and not isinstance(held.deed.action, _BY_BROWSER)
        if travel.kind != "goto" and caused and self._takes_effect(_EFFECT):
            return
        action = _travel_action(travel)
        if action is None:
            return
        opened = held.deed.action if held is not None else None
        if (
            held is not None
            and isinstance(opened, a.NewTab)
            and isinstance(action, a.Goto)
            and opened.url in ("", action.url)
        ):
            held.deed = dataclasses.replace(held.deed, action=a.NewTab(action.url))
            held.result = None
            self._note(held)
            return
        await self._commit_before_travel()
        await self._hold_new(action)

    async def _commit_before_travel(self) -> None:
        held, left = self._held, self._left
        if held is not None and held.result is None and left is not None:
            held.metadata["hurried"] = True
            await self._observe_as_seen(held, left)
        await self._commit()
        self._before = self._left = None

    def _takes_effect(self, seconds: float) -> bool:
        """Return whether the step held back may have caused what the page does now."""
        held = self._held
        if held is None or self._now - held.deed.time > seconds:
            return False
        held.result = None
        return True

    # Commands.

    async def _obey(self, message: Mapping[str, Any]) -> None:
        match message["name"]:
            case "pause":
                await self._end_press()
                await self._look_at_held()
                self._paused = True
                self._report("Paused: nothing is recorded.")
            case "resume":
                self._paused, self._was_paused = False, True
                self._report("Recording.")
            case "undo":
                self._undo()
            case "redact":
                await self._redact()
            case "stop" if not message.get("caught_up"):
                # A program may stop while the browser still reports its last click.
                await self._listener.catch_up()
                self._command(**message, caught_up=True)
            case "stop":
                await self._end_press()
                await self._stop(message["outcome"], message["answer"])

    def _undo(self) -> None:
        held, self._held = self._held, None
        if held is None:
            self._report("There is no step to undo.")
            return
        self._spare_result = held.looked
        if held.noted is not None:
            self._tracker.withdrawn()
        self._report(f"Left out: {_describe_deed(held.deed)}. The page stays as it is.")

    async def _redact(self) -> None:
        element = self._element
        if element is None or not element.get("selector"):
            self._report("No field was used yet. Click into the field first.")
            return
        self._secrets.hide(_HIDDEN_BY_HAND, str(element["selector"]))
        if self._held is not None:
            self._held.result = None
            await self._look_at_held()
        name = element.get("name") or element.get("role") or "the field"
        self._report(f"From now on {name!r} is recorded as <secret:hidden>.")

    async def _look_at_held(self) -> None:
        if self._held is not None and self._is_to_be_looked_at:
            self._held.result = await self._observe_result(self._held)

    async def _stop(self, outcome: Outcome | None, answer: str | None) -> None:
        if self._over:
            return
        self._stopped = True
        with contextlib.suppress(errors.BrowserError):  # The browser may be closed already.
            await self._look_at_held()
        # A task with a judge needs the answer, or a report that it cannot be done.
        told = outcome is not None and (self._held is None or self._environment.has_judge)
        if answer is not None or told:
            if self._held is not None:
                if self._held.result is None and self._last is not None:  # Its page is gone.
                    self._held.metadata["unseen"] = True
                    self._held.result = dm_env.transition(0.0, self._last.observation)
                await self._commit()
                if self._over:
                    return
            refuses = outcome is Outcome.FAILURE and self._environment.task.judges_refusals
            await self._say(a.ReportInfeasible(answer or "") if refuses else a.Answer(answer or ""))
        held, self._held = self._held, None
        if held is not None and held.result is not None:
            if outcome is not None:
                held.result = self._watched.conclude(held.result, outcome)
            await self._record(held, last=True)
        else:
            self._write(held)
        self._over = True
        if self._stopped_open:
            self._tracker.end(EndReason.CLOSED, Phase.CLOSE)

    async def _say(self, action: a.Answer | a.ReportInfeasible) -> None:
        deed = gestures_lib.Deed(action=action, time=self._now)
        held = self._held = self._new(deed, {})
        try:
            held.result = await self._watched.observe_external(action, again=held.looked)
        except errors.BrowserError:
            if self._last is not None:  # The browser is gone; so it looked last.
                held.result = dm_env.termination(0.0, self._last.observation)

    def _report(self, notice: str = "") -> None:
        held = self._held
        shown = "" if held is None else _describe_deed(held.deed)
        self._on_progress(
            Progress(
                goal=self._goal,
                steps=self.steps,
                last=shown,
                can_undo=held is not None,
                paused=self._paused,
                notice=notice,
            )
        )


def _refs(observation: Mapping[str, Any]) -> set[str]:
    return {element.ref for element in refs_in(str(observation.get("axtree", "")))}


def _has_reacted(before: dm_env.TimeStep, after: dm_env.TimeStep, action: a.Action) -> bool:
    """Return whether an action changed more than its own element and the focus."""
    own = gestures_lib.refs_of(action)

    def others(timestep: dm_env.TimeStep) -> list[tuple[object, ...]]:
        return [
            (each.ref, each.role, each.name, set(each.states) - {"focused"})
            for each in refs_in(str(timestep.observation.get("axtree", "")))
            if each.ref not in own
        ]

    return others(before) != others(after)


def _travel_action(travel: listener_lib.Travel) -> a.Action | None:
    match travel.kind:
        case "back":
            return a.GoBack()
        case "forward":
            return a.GoForward()
        case "reload":
            return a.Reload()
    url = _web_url(travel.url)
    return a.Goto(url) if url else None


def _web_url(url: str) -> str:
    """Return a URL that an action may hold; empty if it is not one."""
    try:
        a.Goto(url)
    except errors.InvalidInputError:
        return ""
    return "" if url == "about:blank" else url


def _describe_deed(deed: gestures_lib.Deed) -> str:
    """Return an action and its element for the screen, without the text that was typed."""
    action, element = deed.action, deed.touched or {}
    done = a.format_action(action)
    if isinstance(action, a.Fill | a.TypeInto):
        text = action.value if isinstance(action, a.Fill) else action.text
        done = f"{action.verb}({action.ref!r}, {len(text)} characters)"
    name = str(element.get("name", ""))
    return f"{done}: {element.get('role', '')} {name[:60]!r}" if name else done
