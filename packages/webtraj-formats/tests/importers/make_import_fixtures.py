"""Makes the files in `data` by running the systems that they come from.

Run it in parts, each with the interpreter that has the system installed::

    python make_import_fixtures.py browsergym FOLDER   # browsergym-experiments, tiktoken
    python make_import_fixtures.py demos FOLDER        # webtraj[web] and a browser
    python make_import_fixtures.py torch FOLDER        # torch

BrowserGym needs what `benchmarks/peers.py: browsergym_variables` gives.
"""

from __future__ import annotations

import dataclasses
import http.server
import json
import os
import pickle
import sys
import threading
import types
from pathlib import Path
from typing import Any


def browsergym(folder: Path) -> None:
    """Runs BrowserGym's own experiment loop on MiniWoB++, to good and to bad ends."""
    import browsergym.experiments.loop as loop
    import browsergym.miniwob  # noqa: F401  (Registers the tasks.)
    from browsergym.experiments.agent import Agent, AgentInfo

    # Counting tokens would download a vocabulary.
    loop.count_tokens = lambda text, **_: len(text) // 4
    loop.count_messages_token = lambda messages, **_: sum(len(str(m)) // 4 for m in messages)

    class ScriptedAgent(Agent):
        def __init__(self, script: list[str]) -> None:
            self.script = list(script)

        def get_action(self, obs: dict[str, Any]) -> tuple[str | None, Any]:
            said = self.script.pop(0)
            if said == "raise":
                raise RuntimeError("the model's server went away")
            action = None if said == "None" else said
            if "{button}" in said:
                line = next(li for li in obs["axtree_txt"].splitlines() if "button" in li)
                action = said.replace("{button}", line.strip().partition("]")[0].lstrip("["))
            messages = [
                {"role": "system", "content": "You act in a browser."},
                {"role": "user", "content": obs["goal"]},
                {"role": "assistant", "content": f"<action>{action}</action>"},
            ]
            info = AgentInfo(
                think="The goal names a button.",
                chat_messages=messages,
                stats={"cost": 0.25},
                extra_info={"chat_model_args": {"model_name": "scripted-1"}},
            )
            if said == "noop()":
                info = {"think": "Wait.", "stats": {"cost": 0.5}}
            return action, info

    @dataclasses.dataclass
    class ScriptedAgentArgs(loop.AbstractAgentArgs):
        agent_name: str = "scripted"
        script: tuple[str, ...] = ()

        def make_agent(self) -> Agent:
            return ScriptedAgent(list(self.script))

    for cls in (ScriptedAgent, ScriptedAgentArgs):  # So that pickle finds them by name.
        cls.__module__, cls.__qualname__ = "scripted_agents", cls.__name__
    module = types.ModuleType("scripted_agents")
    module.ScriptedAgent, module.ScriptedAgentArgs = ScriptedAgent, ScriptedAgentArgs
    sys.modules["scripted_agents"] = module

    runs = {
        "solved": (("noop()", "click('{button}')"), 10),
        "truncated": (("noop(10)",) * 3, 2),
        "gave_up": (("noop(10)", "None"), 10),
        "agent_raised": (("noop(10)", "raise"), 10),
    }
    for name, (script, max_steps) in runs.items():
        args = loop.ExpArgs(
            agent_args=ScriptedAgentArgs(agent_name=f"scripted-{name}", script=script),
            env_args=loop.EnvArgs(
                task_name="miniwob.click-test", task_seed=3, max_steps=max_steps, slow_mo=0
            ),
            enable_debug=False,
        )
        os.chdir(folder)
        args.prepare(Path())
        args.run()
        # What names folders of the machine that this runs on.
        (args.exp_dir / "experiment.log").unlink()
        summary = json.loads((args.exp_dir / "summary_info.json").read_text())
        if summary["stack_trace"]:
            summary["stack_trace"] = "Traceback (most recent call last):\n  ..."
        (args.exp_dir / "summary_info.json").write_text(json.dumps(summary, indent=4))
        versions = args.exp_dir / "package_versions.txt"
        lines = [
            li for li in versions.read_text().splitlines() if "browsergym" in li or "numpy" in li
        ]
        versions.write_text("\n".join(lines))


def demos(folder: Path) -> None:
    """Records demonstrations as MiniWoB++'s own recorder does, in a real browser."""
    from playwright.sync_api import sync_playwright

    from webtraj.environments.browser.processes import find_browser
    from webtraj.environments.miniwob import tasks

    received: list[bytes] = []

    class Recorder(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Access-Control-Allow-Origin", "*")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            del args

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    html = tasks.html_folder() / "miniwob"

    def click_button(page: Any) -> None:
        page.click("#subbtn")

    def fill(page: Any) -> None:
        wanted = page.evaluate("core.getUtterance()").split('"')[1]
        page.click("#tt")
        page.keyboard.type(wanted)
        page.keyboard.press("Backspace")
        page.keyboard.type(wanted[-1])
        page.click("#subbtn")

    def fail(page: Any) -> None:
        page.click("#subbtn")

    def drag(page: Any) -> None:
        page.mouse.move(30, 100)
        page.mouse.down()
        page.mouse.move(90, 150)
        page.mouse.up()
        page.evaluate("core.endEpisode(-1)")

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser().path)
        for name, task, act in (
            ("click-test", "click-test", click_button),
            ("enter-text", "enter-text", fill),
            ("enter-text-failed", "enter-text", fail),
            ("drag-box", "drag-box", drag),
        ):
            page = browser.new_page(viewport={"width": 500, "height": 320})
            url = (html / f"{task}.html").as_uri()
            page.goto(f"{url}?record=true&server=http://127.0.0.1:{server.server_address[1]}")
            page.evaluate("Math.seedrandom('7'); core.EPISODE_MAX_TIME = 1e6;")
            page.click("#sync-task-cover")
            page.wait_for_timeout(200)
            act(page)
            page.wait_for_timeout(1500)
            data = json.loads(received.pop())
            (folder / f"{name}.json").write_text(json.dumps(data, separators=(",", ":")))
            page.close()
        browser.close()
    server.shutdown()


def torch(folder: Path) -> None:
    """Saves WebGym's trajectories by torch.save, from classes of WebGym's names and fields."""
    import torch as torch_lib

    components = types.ModuleType("webgym.data.components")
    for name in ("Task", "Observation", "Action", "Response", "Reward"):
        cls = type(name, (), {"__module__": components.__name__})
        setattr(components, name, cls)
    for name in ("webgym", "webgym.data"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules[components.__name__] = components
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    from webgym_shapes import trajectories

    def make(name: str, **fields: Any) -> Any:
        made = getattr(components, name)()
        made.__dict__.update(fields)
        return made

    data = {
        "trajectories": trajectories(make),
        "metadata": {"solution_model": "qwen3-instruct", "iteration": 1, "split": "train"},
    }
    torch_lib.save(data, folder / "train_trajectories.pt.iteration1")
    torch_lib.save(
        data, folder / "train_trajectories.pt.legacy", _use_new_zipfile_serialization=False
    )
    tensors = {
        "floats": torch_lib.arange(6, dtype=torch_lib.float32).reshape(2, 3).t(),
        "half": torch_lib.tensor([1.5, -2.0], dtype=torch_lib.bfloat16),
        "bools": torch_lib.tensor([True, False]),
        "shared": (base := torch_lib.arange(4))[1:3],
        "base": base,
        "scalar": torch_lib.tensor(3),
    }
    torch_lib.save(tensors, folder / "tensors.pt")
    torch_lib.save(tensors, folder / "tensors.legacy.pt", _use_new_zipfile_serialization=False)
    (folder / "protocol.txt").write_text(f"{torch_lib.__version__} {pickle.DEFAULT_PROTOCOL}\n")


if __name__ == "__main__":
    target = Path(sys.argv[2])
    target.mkdir(parents=True, exist_ok=True)
    {"browsergym": browsergym, "demos": demos, "torch": torch}[sys.argv[1]](target)
