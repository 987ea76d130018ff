"""`whole`: a record with everything in it, as one text."""

import dataclasses
from collections.abc import Mapping


def whole(value):
    """Return all that a value holds: records by their fields, without any limit.

    Tests that look for a secret look here: a record's own repr leaves out what is long.
    """
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(whole, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{whole(key)}: {whole(item)}' for key, item in value.items())}}}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return whole(
            {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        )
    return repr(value)
