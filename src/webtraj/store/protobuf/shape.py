"""Orby's fields that follow from an episode's data: filled for those who read no others.

They are written and never read. Whatever cannot be had in Orby's terms stays empty.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from webtraj import errors
from webtraj.proto.webtraj.v1 import trajectory_pb2 as pb
from webtraj.store import decoding
from webtraj.store.blobs import Blob
from webtraj.store.protobuf.blobs import MIME_TYPES
from webtraj.store.protobuf.value_writing import blob_of, inline_bytes
from webtraj.store.values import TAG
from webtraj.trajectory import Outcome

__all__ = ["fill_episode", "fill_step", "screenshot_blob"]

_Failure = pb.TrajectoryData.ResultFailure
_MAGIC = {b"\xff\xd8\xff": "jpg", b"\x89PNG": "png", b"RIFF": "webp", b"GIF8": "gif"}
_FAILURES = {outcome.name.lower() for outcome in Outcome} - {"unknown", "success"}
_ANSWERS = ("action/answer", "action/send_message")


def screenshot_blob(step: Mapping[str, Any]) -> Blob | None:
    """Returns the blob of a step's screenshot, if it has one that is an image."""
    item = _entry(step, "screenshot")
    blob = blob_of(item) if type(item) is dict else None
    return blob if blob is not None and item[TAG] == "blob" and _is_image(blob.ext) else None


def fill_episode(message: pb.TrajectoryData, data: Mapping[str, Any]) -> None:
    """Says what the episode was worth."""
    end = data.get("end")
    outcome = end.get("outcome") if type(end) is dict else None
    steps = data["steps"]
    last = steps[-1].get("action") if steps else None
    name = last.get("type") if type(last) is dict and last.get(TAG) == "record" else ""
    fields = last.get("fields") if type(last) is dict else None
    if outcome == "success":
        message.success.SetInParent()
        answered = type(name) is str and name in _ANSWERS
        text = fields.get("text") if answered and type(fields) is dict else None
        if type(text) is str:
            message.success.answer = text
    elif type(outcome) is str and outcome in _FAILURES:
        # Never the zero, which some readers take for a success.
        infeasible = name == "action/report_infeasible"
        message.failure.failure_message = (
            _Failure.REPORT_INFEASIBLE if infeasible else _Failure.UNKNOWN_ERROR
        )


def fill_step(
    action: pb.ActionData,
    step: Mapping[str, Any],
    *,
    name: str,
    domain: str,
    screenshot: bytes | None,
) -> None:
    """Fills one action.

    Args:
        action: What to fill; what stands nowhere else is in it already.
        step: The step's data.
        name: What no other step is called.
        domain: The episode's site.
        screenshot: The content of the step's `screenshot_blob`.
    """
    action.id = hashlib.sha256(name.encode()).hexdigest()[:12]
    action.domain = domain
    action.after_state.SetInParent()
    if not action.browser_gym_action.action_string:
        action.browser_gym_action.action_string = _action_string(step.get("action"))
    _fill_result(action.after_state.browser_gym_observation, step)
    if type(step.get("observation")) is dict:
        _fill_viewport(action.after_state, step, screenshot)
        _fill_tabs(action.after_state.browser_gym_observation, step)


def _fill_result(observation: pb.BrowserGymObservation, step: Mapping[str, Any]) -> None:
    reward, discount = step.get("reward"), step.get("discount")
    if isinstance(reward, (int, float)):
        observation.reward = float(reward)
    if step.get("step_type") == "last" and isinstance(discount, (int, float)):
        observation.terminated = discount == 0
        observation.truncated = discount > 0


def _fill_viewport(state: pb.WebState, step: Mapping[str, Any], screenshot: bytes | None) -> None:
    blob = screenshot_blob(step)
    item = _entry(step, "screenshot")
    ext = blob.ext if blob is not None else ""
    if screenshot is None and type(item) is dict:
        screenshot = inline_bytes(item)
        ext = next((e for m, e in _MAGIC.items() if (screenshot or b"").startswith(m)), "")
    if screenshot and _is_image(ext):
        state.viewport.screenshot.mime_type = MIME_TYPES[ext]
        state.viewport.screenshot.content = screenshot
    scroll = _entry(step, "scroll")
    if type(scroll) is dict:
        for key in ("x", "y", "width", "height"):
            if type(scroll.get(key)) in (int, float):
                setattr(state.viewport.viewport_rect, key, float(scroll[key]))


def _fill_tabs(observation: pb.BrowserGymObservation, step: Mapping[str, Any]) -> None:
    tabs = _decoded(_entry(step, "tabs") or _entry(step, "open_pages_urls"))
    if tabs is not None and all(map(_is_utf8, tabs)):
        observation.open_pages_urls.extend(map(str, tabs))
    active = _entry(step, "active_tab")
    if type(active) is not int:
        indices = _decoded(_entry(step, "active_page_index"))
        active = indices[0] if indices else None
    if type(active) is int and 0 <= active < 2**31:
        observation.active_page_index = active
    last_action = _entry(step, "last_action")
    error = last_action.get("error") if type(last_action) is dict else None
    # The observation's own, if it has one, stands there alone.
    if type(error) is str and not observation.HasField("last_action_error"):
        observation.last_action_error = error


def _decoded(data: Any) -> list[Any] | None:
    """Returns a short list, tuple or array as a list."""
    if not isinstance(data, (dict, list)):
        return None
    try:
        value = decoding.decode(data)
        items = value.tolist() if hasattr(value, "tolist") else list(value)
    except (errors.CorruptDataError, TypeError):  # A blob, or no list at all.
        return None
    return items if isinstance(items, list) else None


def _action_string(data: Any) -> str:
    if type(data) is not dict or not str(data.get("type")).startswith("action/"):
        return ""
    from webtraj.environments import actions  # Not needed for other episodes.

    try:
        action = decoding.decode(data)
        text = actions.format_action(action) if isinstance(action, actions.Action) else ""
    except errors.WebtrajError:  # A blob among its fields, or no action that has words.
        return ""
    return text if _is_utf8(text) else ""


def _entry(step: Mapping[str, Any], key: str) -> Any:
    """Returns an entry of a step's observation."""
    observation = step.get("observation")
    return observation.get(key) if type(observation) is dict else None


def _is_utf8(text: Any) -> bool:
    try:
        return isinstance(text, str) and bool(text.encode() or True)
    except UnicodeEncodeError:
        return False


def _is_image(ext: str) -> bool:
    return MIME_TYPES.get(ext, "").startswith("image/")
