"""How records become plain data, and plain data records.

`values` handles the values of any environment (arrays, bytes, NaN, dataclasses, ...), `records` the
records of `webtraj.trajectory`, `record_types` the names of dataclasses. Bytes on disk are the
collectors' and datasets' business.
"""
