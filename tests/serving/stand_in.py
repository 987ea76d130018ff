"""Stands in for a Python that has vLLM: a real process with a child, which serves vLLM's addresses.

It takes vLLM's command line. What goes wrong is said by variables:

* `STAND_IN_FAIL`: it ends at once, with a message; `STAND_IN_FAIL=starts:N`: from start N on;
  `STAND_IN_FAIL=model:NAME`: for a model whose folder is called so.
* `STAND_IN_UNREADY`: it runs and is never healthy.
* `STAND_IN_DEAF`: it and its child ignore SIGTERM.
* `STAND_IN_REFUSE`: it takes no weights; `STAND_IN_REFUSE=NAME`: none of a folder of that name.
* `STAND_IN_INSOMNIA`: it says that it sleeps, and does not; `STAND_IN_COMA`: it does not wake up.
* `STAND_IN_STARTS`: a file that gets a line, the server's and its child's process ids, at each
  start.
"""

import http.server
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import ClassVar

CHILD = "import signal, sys; {}print(flush=True); signal.pause()"
IGNORE = "signal.signal(signal.SIGTERM, signal.SIG_IGN); "


class Handler(http.server.BaseHTTPRequestHandler):
    """vLLM's addresses that `webtraj.serving` uses, and two to make trouble."""

    options: dict[str, str]
    names: list[str]
    state: ClassVar = {
        "version": os.environ.get("WEBTRAJ_WEIGHTS_VERSION", "default"),
        "weights": "",
        "paused": False,
        "hang": False,
        "asleep": False,
        "adapters": {},
        "held": "WEBTRAJ_WEIGHTS_HOLD" in os.environ,
        "takes_adapters": os.environ.get("VLLM_ALLOW_RUNTIME_LORA_UPDATING") == "True",
    }
    calls: ClassVar[list[str]] = []
    unhang = threading.Event()

    def do_GET(self) -> None:
        if self.state["hang"]:
            self.unhang.wait()
        if self.path.startswith("/v1/") and not self.has_key:
            self.answer({"error": "Unauthorized"}, 401)
            return
        if self.path == "/health":
            self.answer({}, 503 if "STAND_IN_UNREADY" in os.environ else 200)
        elif self.path == "/v1/models":
            root = self.options["model"]
            adapters = self.state["adapters"].items()
            listed = [{"id": name, "root": root, "parent": None} for name in self.names]
            listed += [{"id": key, "root": root, "parent": self.names[0]} for key, root in adapters]
            self.answer({"data": listed})
        elif self.path == "/is_sleeping":
            self.answer({"is_sleeping": self.state["asleep"]})
        elif self.path == "/weight_info":
            self.answer({"weight_version": self.state["version"]})
        elif self.path == "/seen":
            self.answer({**self.state, "calls": self.calls, "arguments": sys.argv})
        else:
            self.answer({}, 404)

    @property
    def has_key(self) -> bool:
        key = self.options.get("api-key") or os.environ.get("VLLM_API_KEY")
        return not key or self.headers.get("authorization") == f"Bearer {key}"

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        path = self.path.partition("?")[0]
        self.calls.append(self.path)
        if path == "/pause":
            self.state["paused"] = True
        elif path == "/resume":
            self.state["paused"] = False
        elif path == "/collective_rpc":
            folder = body.get("kwargs", {}).get("weights_path", "")
            if os.environ.get("STAND_IN_REFUSE") in ("1", Path(folder).name):
                self.answer({"error": "no such parameter"}, 500)
                return
            if "weights_path" in body.get("kwargs", {}) and body["method"] == "reload_weights":
                self.state["weights"] = body["kwargs"]["weights_path"]
            self.calls[-1] += f" {body['method']}"
        elif path == "/v1/load_lora_adapter":
            if os.environ.get("STAND_IN_REFUSE") in ("1", Path(body["lora_path"]).name):
                self.answer({"error": "LoRA rank 64 is greater than max_lora_rank 16"}, 400)
                return
            self.state["adapters"][body["lora_name"]] = body["lora_path"]
        elif path == "/sleep":
            self.state["asleep"] = self.state["paused"] = "STAND_IN_INSOMNIA" not in os.environ
        elif path == "/wake_up":
            if "tags=weights" not in self.path and "STAND_IN_COMA" not in os.environ:
                self.state["asleep"] = self.state["paused"] = False
            self.answer({"status": "sleeping" if self.state["asleep"] else "awake"})
            return
        elif path == "/update_weight_version":
            self.state["version"] = body["new_version"]
        elif path == "/hang":
            self.state["hang"] = True
        self.answer({"success": True})

    def answer(self, content: object, status: int = 200) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def main() -> None:
    # In a session of its own, where a signal to the server's process group does not reach it.
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD.format(IGNORE if "STAND_IN_DEAF" in os.environ else "")],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert child.stdout is not None
    child.stdout.readline()
    starts = Path(os.environ["STAND_IN_STARTS"])
    with starts.open("a") as file:
        file.write(f"{os.getpid()} {child.pid}\n")
    fail = os.environ.get("STAND_IN_FAIL", "starts:0")
    kind, _, value = fail.partition(":")
    bound = int(value or 1) if kind != "model" else 0
    arguments = [argument.removeprefix("--").partition("=") for argument in sys.argv[1:]]
    Handler.options = {name: value for name, _, value in arguments}
    first = sys.argv.index("--served-model-name") + 1
    names = list(itertools.takewhile(lambda name: name[:2] != "--", sys.argv[first:]))
    override = Handler.options["served-model-name"]  # One that came later.
    Handler.names = [override] if override else names
    if kind == "model" and Path(Handler.options["model"]).name == value:
        sys.exit("stand-in: there is no such model")
    if bound and len(starts.read_text().splitlines()) >= bound:
        sys.exit("stand-in: there is no such model")
    if "STAND_IN_DEAF" in os.environ:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    address = (Handler.options["host"], int(Handler.options["port"]))
    http.server.ThreadingHTTPServer(address, Handler).serve_forever()


if __name__ == "__main__":
    main()
