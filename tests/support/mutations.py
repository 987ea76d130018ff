"""Changes to single values of JSON data, for tests of damaged files."""

import orjson


def places_in(data, path=()):
    """Yields the way to each value of JSON data."""
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from places_in(value, (*path, key))


def changed(data, path, value):
    """Returns a copy of JSON data with another value at a place, or without it."""
    data = orjson.loads(orjson.dumps(data))
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return data
