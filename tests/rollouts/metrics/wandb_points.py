"""Logs two points to an offline run of W&B in a folder."""

import sys

from webtraj.metrics.live import WandbSink


def main(folder):
    sink = WandbSink(
        "webtraj-test", name="a run", mode="offline", folder=folder, config={"seed": 3}
    )
    sink.write({"rollout/success_rate": 0.25, "rollout/total": 4.0}, step=4)
    sink.write({"rollout/success_rate": 0.5, "rollout/total": 2.0}, step=2)  # After a death.
    sink.close()
    sink.close()


if __name__ == "__main__":
    main(sys.argv[1])
