"""What `webtraj gateway` adds to a model's streams: time to the first byte, and none lost.

    python benchmarks/gateway.py [--streams 256] [--rounds 3] [--events 32] [--every 0.1]

A fake server streams chat completions to clients, directly and through the gateway in turn, in
processes of their own on this machine, which should have two idle cores. All streams of a round are
open at once; they begin evenly within the time that one takes, as those of agents do. The time to
the first byte runs from the connection's opening. Each reply is compared with what the server
sends, and the journal has to have each call.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import orjson

from webtraj.gateway import read_calls

THINKING = 0.2
MODELS = b'{"object": "list", "data": [{"id": "m", "owned_by": "system"}]}'
BODY = orjson.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": "Hi"}]})


def events(number: int) -> list[bytes]:
    """Return a stream's events."""
    deltas = [{"content": f"word{index} "} for index in range(number)]
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices[-1]["finish_reason"] = "stop"
    chunks = [{"id": "1", "object": "chat.completion.chunk", "choices": [one]} for one in choices]
    return [b"data: %b\n\n" % orjson.dumps(chunk) for chunk in chunks] + [b"data: [DONE]\n\n"]


async def serve(number: int, every: float) -> None:
    """Be the model's server; print the port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = re.search(rb"(?i)content-length: (\d+)", head)
                await reader.readexactly(int(length[1]) if length else 0)
                if head.startswith(b"GET"):
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(MODELS))
                    writer.write(MODELS)
                    continue
                await asyncio.sleep(THINKING)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n")
                writer.write(b"transfer-encoding: chunked\r\n\r\n")
                for event in events(number):
                    writer.write(b"%x\r\n%b\r\n" % (len(event), event))
                    await asyncio.sleep(every)
                writer.write(b"0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def stream(port: int, expected: bytes, start: float) -> float:
    """Open a stream after some seconds; return the seconds to its first byte, infinity if lost."""
    await asyncio.sleep(start)
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\n"
        b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(BODY), BODY)
    )
    body = b""
    first = float("inf")
    try:
        await reader.readuntil(b"\r\n\r\n")
        while size := int(await reader.readline(), 16):
            body += await reader.readexactly(size)
            first = min(first, time.perf_counter() - began)
            await reader.readexactly(2)
    except (asyncio.IncompleteReadError, ConnectionError, ValueError):
        return float("inf")
    finally:
        writer.close()
    return first if body == expected else float("inf")


async def measure(arguments: argparse.Namespace, ports: dict[str, int]) -> dict[str, list[float]]:
    """Return the seconds to the first byte of each stream, by the way that it took."""
    expected = b"".join(events(arguments.events))
    lasts = THINKING + arguments.every * arguments.events
    found: dict[str, list[float]] = {name: [] for name in ports}
    for port in ports.values():
        await stream(port, expected, 0.0)
    for _ in range(arguments.rounds):
        for name, port in ports.items():
            starts = [lasts * index / arguments.streams for index in range(arguments.streams)]
            found[name] += await asyncio.gather(*(stream(port, expected, at) for at in starts))
    return found


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--events", type=int, default=32)
    parser.add_argument("--every", type=float, default=0.1)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve(arguments.events, arguments.every))
        return
    options = [f"--events={arguments.events}", f"--every={arguments.every}"]
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "calls.jsonl"
        with subprocess.Popen(
            [sys.executable, __file__, "--serve", *options], stdout=subprocess.PIPE, text=True
        ) as server:
            port = int(server.stdout.readline())
            with subprocess.Popen(
                [
                    *(sys.executable, "-m", "webtraj", "gateway", "--journal", str(journal)),
                    *("--base-url", f"http://127.0.0.1:{port}/v1"),
                ],
                stdout=subprocess.PIPE,
                text=True,
            ) as gateway:
                through = int(re.search(r":(\d+)/v1", gateway.stdout.readline())[1])
                found = asyncio.run(measure(arguments, {"direct": port, "gateway": through}))
                gateway.terminate()
                gateway.wait()
                spent = resource.getrusage(resource.RUSAGE_CHILDREN)
            server.terminate()
        whole = [call for call in read_calls(journal) if not call.call.error]
    medians = {}
    for name, seconds in found.items():
        got = sorted(one for one in seconds if one != float("inf"))
        medians[name] = statistics.median(got)
        print(
            f"{name}: {len(got)} of {len(seconds)} streams whole; first byte after "
            f"{medians[name] * 1e3:.1f} ms, p95 {got[int(len(got) * 0.95)] * 1e3:.1f} ms"
        )
    print(f"journal: {len(whole)} of {len(found['gateway']) + 1} calls whole")
    seconds = (spent.ru_utime + spent.ru_stime) / len(found["gateway"])
    print(f"the gateway's processor time, its start included: {seconds * 1e3:.1f} ms a stream")
    print(f"added at the median: {(medians['gateway'] - medians['direct']) * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
