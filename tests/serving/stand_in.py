"""Stands in for a Python that has vLLM: a real process with a child, which serves vLLM's addresses.

It takes vLLM's command line. What goes wrong is said by variables:

* `STAND_IN_FAIL`: it ends at once, with a message; `STAND_IN_FAIL=starts:N`: from start N on.
* `STAND_IN_UNREADY`: it runs and is never healthy.
* `STAND_IN_DEAF`: it and its child ignore SIGTERM.
* `STAND_IN_REFUSE`: it takes no weights.
* `STAND_IN_STARTS`: a file that gets a line, the server's and its child's process ids, at each
  start.
"""

import http.server
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
    state: ClassVar = {"version": "default", "weights": "", "paused": False, "hang": False}
    calls: ClassVar[list[str]] = []
    unhang = threading.Event()

    def do_GET(self) -> None:
        if self.state["hang"]:
            self.unhang.wait()
        if self.path == "/health":
            self.answer({}, 503 if "STAND_IN_UNREADY" in os.environ else 200)
        elif self.path == "/v1/models":
            self.answer({"data": [{"id": self.options["served-model-name"]}]})
        elif self.path == "/weight_info":
            self.answer({"weight_version": self.state["version"]})
        elif self.path == "/seen":
            self.answer({**self.state, "calls": self.calls, "arguments": sys.argv})
        else:
            self.answer({}, 404)

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
            if "STAND_IN_REFUSE" in os.environ:
                self.answer({"error": "no such parameter"}, 500)
                return
            if body["method"] == "reload_weights":
                self.state["weights"] = body["kwargs"]["weights_path"]
            self.calls[-1] += f" {body['method']}"
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
    bound = int(fail.partition(":")[2] or 1)
    if bound and len(starts.read_text().splitlines()) >= bound:
        sys.exit("stand-in: there is no such model")
    if "STAND_IN_DEAF" in os.environ:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    arguments = [argument.removeprefix("--").partition("=") for argument in sys.argv[1:]]
    Handler.options = {name: value for name, _, value in arguments}
    address = (Handler.options["host"], int(Handler.options["port"]))
    http.server.ThreadingHTTPServer(address, Handler).serve_forever()


if __name__ == "__main__":
    main()
