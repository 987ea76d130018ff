"""Other tools' formats: writers in `exporters`, readers in `importers`.

webtraj finds them through the entry points in this package's `pyproject.toml`, so
`webtraj.datasets.exporters.export_dataset` and `webtraj.datasets.importers.import_episodes` take
their names as they take built-in ones.
"""
