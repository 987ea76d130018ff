"""Logs two points to an offline run of W&B (`write`), or prints what its file says (`read`).

Run by test_metrics_sinks.py in an interpreter that has wandb.
"""

import json
import socket
import struct
import sys
from pathlib import Path


def no_network(self, address):
    if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1"):
        raise AssertionError(f"it wants to connect to {address}")
    return connect(self, address)


connect = socket.socket.connect
socket.socket.connect = no_network

from webtraj.rollouts.metrics.sinks import WandbSink  # noqa: E402


def write(folder):
    sink = WandbSink(
        "webtraj-test", name="a run", mode="offline", folder=folder, config={"seed": 3}
    )
    sink.write({"rollout/success_rate": 0.25, "rollout/total": 4.0}, step=4)
    sink.write({"rollout/success_rate": 0.5, "rollout/total": 2.0}, step=2)  # After a death.
    sink.close()
    sink.close()


def read(folder):
    from wandb.proto import wandb_internal_pb2

    (path,) = Path(folder).glob("wandb/offline-run-*/*.wandb")
    for data in records(path.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        if record.HasField("history"):
            items = record.history.item
            yield {
                item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items
            }
        elif record.HasField("run"):
            yield {"project": record.run.project, "name": record.run.display_name}


BLOCK, HEADER = 32768, 7
FULL, LAST = 1, 4


def records(content):
    """Yields the records of a file in LevelDB's log format, which W&B's have behind 7 bytes."""
    position, record = 7, b""
    while position + HEADER <= len(content):
        left = BLOCK - position % BLOCK
        if left < HEADER:  # The rest of a block is filled up.
            position += left
            continue
        _, length, kind = struct.unpack_from("<IHB", content, position)
        record += content[position + HEADER : position + HEADER + length]
        position += HEADER + length
        if kind in (FULL, LAST):
            yield record
            record = b""


if __name__ == "__main__":
    # W&B's own process has written all only when this one has ended.
    if sys.argv[1] == "write":
        write(sys.argv[2])
    else:
        print(json.dumps(list(read(sys.argv[2]))))
