"""Changes to single values and bytes of files, for tests of damaged ones."""

import random

import orjson

from webtraj import errors
from webtraj.store.blobs import BlobStore
from webtraj.store.formats import format_named

WINNER = "golden-1-won"
"""The golden episode that is changed."""
NASTY = [
    None, True, "x", "", -1, 0, 3.5, 1e308, 2**63, [], {}, [[]], ["x"], [None], {"x": None}, "\0",
    {"$": "float", "v": "nan"}, {"$": "float", "v": "-inf"}, {"$": "int", "v": "0x" + "f" * 300},
    {"$": "tuple", "v": []}, {"$": "bytes", "v": "AAAA"}, {"$": "complex", "v": [1.0, 2.0]},
    {"$": "set", "v": [1]}, {"$": "dict", "v": [[1, 2], ["a", 3]]}, {"$": "?"}, {"$": 3},
    {"$": "ndarray", "shape": [2], "dtype": "<f8", "v": {"$": "bytes", "v": ""}},
    {"$": "ndarray", "shape": [0, 3], "dtype": "object", "v": []},
    {"$": "ndarray", "shape": [1], "dtype": "<U1", "v": {"$": "bytes", "v": "/////w=="}},
    {"$": "ndarray", "shape": [1], "dtype": "<M8[ns]", "v": {"$": "bytes", "v": "AAAAAAAAAIA="}},
    {"$": "scalar", "dtype": "<i8", "v": 3}, {"$": "scalar", "dtype": "<f4", "v": 0.5},
    {"$": "record", "type": "x.Y", "fields": {"a": 1}}, {"$": "record", "type": 3, "fields": 4},
    {"$": "record", "type": "action/click", "fields": {"element": 5}},
    {"$": "enum", "type": "x.E", "member": "A", "v": 1},
    {"$": "unwritable", "type": "a", "repr": "b"},
    {"$": "namedtuple", "type": "P", "fields": {"x": 1}}, {"$": "nested", "v": "[1"},
    {"$": "datetime", "v": "x"}, {"$": "str", "v": "7aCA"},
    {"$": "text", "sha256": "ab" * 32, "ext": "txt", "size": 9},
    {"$": "blob", "sha256": "../../../victim", "ext": "png", "size": 9},
]  # fmt: skip


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


def named(data, number):
    """Returns an episode's data with an id of its own, unless that was changed."""
    info = data.get("info")
    if isinstance(info, dict) and info.get("episode_id") == WINNER:
        return data | {"info": info | {"episode_id": f"m{number}"}}
    return data


def episode_of(golden):
    (path,) = golden.glob(f"episodes/{WINNER}.*")
    format_name = path.name.removeprefix(f"{WINNER}.")
    stored = format_named(format_name).decode(path.read_bytes(), path.name)
    return path.name, format_name, stored.data, stored.blobs or BlobStore(golden / "blobs")


def damaged(whole, rng):
    """Returns a place in bytes, and the bytes with a bit turned, an end cut off or bytes added."""
    content = bytearray(whole)
    at = rng.randrange(len(content))
    kind = rng.randrange(3)
    if kind == 0:
        content[at] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del content[at:]
    else:
        content[at:at] = rng.randbytes(5)
    return at, bytes(content)


def mutations(golden, seed, count):
    """Yields some ways to change an episode: fields of other types, and then bytes."""
    rng = random.Random(seed)
    file, format_name, data, blobs = episode_of(golden)
    ways = list(places_in(data))
    made = 0
    while made < count:
        path, value = rng.choice(ways), rng.choice([*NASTY, ...])
        wrong = named(changed(data, path, value), made)
        try:
            content = format_named(format_name).encode(wrong, blobs)
        except (errors.WebtrajError, orjson.JSONEncodeError):
            continue  # Such an episode cannot be written in this format.
        made += 1
        yield f"{'.'.join(map(str, path))}={str(value)[:60]}", format_name, content
    whole = (golden / "episodes" / file).read_bytes()
    for _ in range(count // 4):
        at, content = damaged(whole, rng)
        yield f"bytes at {at}", format_name, content
