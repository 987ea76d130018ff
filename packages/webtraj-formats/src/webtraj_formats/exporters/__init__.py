"""Writers of episodes: one module per format, with an exporter for `webtraj.exporters`.

* `atif`: the Agent Trajectory Interchange Format, one JSON file per episode.
* `har`: the network traffic of each episode that was recorded with it.
* `inspect_ai`: logs of the evaluation framework Inspect, one sample per episode.
* `minari`: a dataset for `minari.load_dataset`.
* `otel`: a file of OpenTelemetry traces, one per episode.
* `playwright`: a Playwright script per episode, in Python or TypeScript, that runs without webtraj.
"""
