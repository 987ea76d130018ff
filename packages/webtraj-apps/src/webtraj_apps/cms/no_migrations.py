"""The migrations of Northfield's page types: none. Their tables are made as they are today."""

__path__: list[str] = []
