"""Makes the golden Protobuf dataset whose values are JSON text (see README.md).

    python tests/golden/make_golden_json_values.py

It holds the episodes of `make_golden_v1.py`. It was made once and is never made again.
"""

from make_golden_v1 import HERE, _tidy, episodes

from webtraj.datasets.writer import DatasetWriter


def main():
    folder = HERE / "v1-pb-json-values"
    with DatasetWriter(folder, format="pb") as writer:
        for episode in episodes():
            writer.add(episode)
    _tidy(folder)


if __name__ == "__main__":
    main()
