"""What the model server of the documentation's desk replies: a verdict, an answer, or an action in
the format of the agent that asks.
"""

import json
import re

from webtraj.testing.model_server import ModelRequest

_VERDICTS = {
    "You see one screenshot of several.": "keep",
    "Did the site keep the agent from its task": "open",
    "every claim in it was seen": "success",
    "Judge one fact and no other": "success",
    "Judge the whole task": "success",
}
_PASSWORD = "sesame-99"


def reply(request: ModelRequest) -> str:
    """Answer the questions of judges and agents."""
    text = request.text
    for words, verdict in _VERDICTS.items():
        if words in text:
            return json.dumps({"reasoning": "It was seen.", "verdict": verdict})
    if "<browser_state>" in text:
        actions = _for_webtraj_tools(text) if "webtraj" in text else _for_browser_use(text)
        return json.dumps(
            {"evaluation_previous_goal": "", "memory": "", "next_goal": "", "action": actions}
        )
    if "Accessibility Tree:" in text:
        return json.dumps(_for_stagehand(text))
    if "AXTree:" in text:
        return _for_agentlab(text)
    answer = {"name": "computer_use", "arguments": {"action": "answer", "text": "12 dollars"}}
    return (
        'Memory: {"price": "12 dollars"}\nProgress: {"find": "done"}\nIntention: Tell the price.\n'
        f"Action: Answer with the price.\n<tool_call>\n{json.dumps(answer)}\n</tool_call>"
    )


def _for_browser_use(text: str) -> list[dict[str, object]]:
    """Fill the form in, press the button, and say so."""

    def index(element: str) -> int:
        return int(re.search(rf"\[(\d+)\]<{element}", text)[1])

    if "Clicked button" in text:
        return [{"done": {"text": "Subscribed.", "success": True}}]
    if "Typed" in text:
        return [{"click": {"index": index("button")}}]
    return [
        {"input": {"index": index("input[^>]*id=name"), "text": "Anna"}},
        {"input": {"index": index("input[^>]*id=secret"), "text": _PASSWORD}},
    ]


def _for_webtraj_tools(text: str) -> list[dict[str, object]]:
    """Open a session, and click the button that it shows."""
    if "Used MCP tool 'click'" in text:
        return [{"done": {"text": "Clicked.", "success": True}}]
    if button := re.search(r"\[(\w+)\] button", text):
        return [{"webtraj_click": {"ref": button[1]}}]
    return [{"webtraj_open": {}}]


def _for_stagehand(text: str) -> dict[str, object]:
    """Return the one action of an instruction."""
    wanted = re.search(r"the following action: (.*?)\.  ", text)[1]
    is_text = wanted.startswith("type")
    role = "textbox" if is_text else "button"
    element = re.search(rf"\[(\d+-\d+)\] {role}", text.partition("Accessibility Tree:")[2])[1]
    action = {
        "elementId": element,
        "description": role,
        "method": "fill" if is_text else "click",
        "arguments": ["Anna"] if is_text else [],
    }
    return {"action": action, "twoStep": False}


def _for_agentlab(text: str) -> str:
    """Log in at MiniWoB++'s login-user."""
    user, password = re.findall(r'username "([^"]*)" and the password "([^"]*)"', text)[0]
    page = text.rpartition("AXTree:")[2]
    fields = re.findall(r"\[(\w+)\] textbox", page)
    (button,) = re.findall(r"\[(\w+)\] button", page)[:1]
    deeds = (
        f"fill('{fields[0]}', '{user}')",
        f"fill('{fields[1]}', '{password}')",
        f"click('{button}')",
    )
    done = sum(f"\n{deed}\n" in text for deed in deeds[:2])
    return f"<think>There are {3 - done} to do.</think>\n<action>\n{deeds[done]}\n</action>"
