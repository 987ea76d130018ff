"""The on-disk format, in one place: values, records, files, layout, index and storage."""
