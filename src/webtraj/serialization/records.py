"""The records of `webtraj.trajectory` as plain JSON data.

A record becomes an object with its fields by name. Fields that hold their default are left out, so
that a reader fills in what an older writer did not know. Enums are written by name, in lower case;
a name that is not known decodes to the enum's UNKNOWN. Fields that may hold any value follow
`webtraj.serialization.values`.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import orjson

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.serialization import decoding, encoding
from webtraj.serialization.blobs import BlobSink, BlobSource

__all__ = ["decode_record", "dumps_fields", "encode_record"]

_Record = TypeVar("_Record")

_ENUM_FIELDS: dict[tuple[type, str], type[enum.Enum]] = {
    (trajectory_lib.StepRecord, "step_type"): trajectory_lib.StepType,
    (trajectory_lib.EpisodeEnd, "reason"): trajectory_lib.EndReason,
    (trajectory_lib.EpisodeEnd, "phase"): trajectory_lib.Phase,
    (trajectory_lib.EpisodeEnd, "outcome"): trajectory_lib.Outcome,
    (trajectory_lib.Judgement, "outcome"): trajectory_lib.Outcome,
}
_RECORD_FIELDS: dict[tuple[type, str], type] = {
    (trajectory_lib.StepRecord, "decision"): trajectory_lib.Decision,
    (trajectory_lib.EpisodeEnd, "error"): trajectory_lib.ErrorInfo,
    (trajectory_lib.EpisodeEnd, "in_flight_decision"): trajectory_lib.Decision,
    (trajectory_lib.EpisodeTrajectory, "info"): trajectory_lib.EpisodeInfo,
    (trajectory_lib.EpisodeTrajectory, "end"): trajectory_lib.EpisodeEnd,
}
_RECORD_LIST_FIELDS: dict[tuple[type, str], type] = {
    (trajectory_lib.Decision, "model_calls"): trajectory_lib.ModelCall,
    (trajectory_lib.EpisodeEnd, "judgements"): trajectory_lib.Judgement,
    (trajectory_lib.EpisodeInfo, "derivation"): trajectory_lib.Derivation,
    (trajectory_lib.EpisodeTrajectory, "steps"): trajectory_lib.StepRecord,
    (trajectory_lib.Judgement, "model_calls"): trajectory_lib.ModelCall,
}
_LIST_FIELDS = {
    (trajectory_lib.ModelCall, "messages"),
    (trajectory_lib.ModelCall, "prompt_token_ids"),
    (trajectory_lib.ModelCall, "completion_token_ids"),
    (trajectory_lib.ModelCall, "logprobs"),
    (trajectory_lib.EpisodeEnd, "violations"),
    (trajectory_lib.EpisodeEnd, "recording_errors"),
}

_ToJson = Callable[[Any, encoding.Encoder, str], Any]
_FromJson = Callable[[Any, BlobSource | None], Any]


def encode_record(record: Any, encoder: encoding.Encoder, path: str = "") -> dict[str, Any]:
    """Returns one of the records of `webtraj.trajectory` as JSON data."""
    data: dict[str, Any] = {}
    for name, default, to_json in _WRITERS[type(record)]:
        value = getattr(record, name)
        if value is default or (type(value) in _EMPTY and value == default):
            continue
        data[name] = to_json(value, encoder, f"{path}.{name}" if path else name)
    return data


def dumps_fields(
    fields: Mapping[str, Any], blobs: BlobSink | None = None
) -> tuple[bytes, list[str]]:
    """Returns an object of records and other values as JSON bytes, and what could not be kept.

    Args:
        fields: Records of `webtraj.trajectory` become objects of their fields; all other values
            follow `webtraj.serialization.values`.
        blobs: Takes long bytes and text; without it all stands in the result.
    """
    try:
        encoder = encoding.Encoder(blobs)
        return orjson.dumps(_encode_fields(fields, encoder)), encoder.unwritable
    except orjson.JSONEncodeError:  # Text with lone surrogates: find it.
        encoder = encoding.Encoder(blobs, check_text=True)
        return orjson.dumps(_encode_fields(fields, encoder)), encoder.unwritable


def decode_record(
    cls: type[_Record], data: Mapping[str, Any], blobs: BlobSource | None = None
) -> _Record:
    """Returns the record of class `cls` that `data`, parsed JSON, stands for.

    Fields that this version does not know are left aside.

    Raises:
        CorruptDataError: A field is missing or does not follow the format.
    """
    try:
        readers = _READERS[cls]
        fields = {
            name: readers[name](value, blobs) for name, value in data.items() if name in readers
        }
        return cls(**fields)
    except (TypeError, ValueError, AttributeError) as error:
        if isinstance(error, errors.WebtrajError):
            raise
        raise errors.CorruptDataError(
            f"A stored {cls.__name__} does not follow the format: {type(error).__name__}: {error}. "
            "Run `webtraj verify` on the dataset."
        ) from error


_EMPTY = (str, tuple, dict, int, bool)


def _encode_fields(fields: Mapping[str, Any], encoder: encoding.Encoder) -> dict[str, Any]:
    return {
        name: encode_record(value, encoder, name)
        if type(value) in _WRITERS
        else encoder.encode(value, name)
        for name, value in fields.items()
    }


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is dict:
        return {}
    return field.default  # MISSING, which no value is, where there is none.


def _to_json(cls: type, name: str) -> _ToJson:
    key = (cls, name)
    if key in _ENUM_FIELDS:
        return lambda value, encoder, path: value.name.lower()
    if key in _RECORD_FIELDS:
        return lambda value, encoder, path: (
            None if value is None else encode_record(value, encoder, path)
        )
    if key in _RECORD_LIST_FIELDS:
        return lambda value, encoder, path: [
            encode_record(item, encoder, f"{path}[{i}]") for i, item in enumerate(value)
        ]
    if key in _LIST_FIELDS:
        return lambda value, encoder, path: encoder.encode(list(value), path)
    return lambda value, encoder, path: encoder.encode(value, path)


def _from_json(cls: type, name: str) -> _FromJson:
    key = (cls, name)
    if key in _ENUM_FIELDS:
        enum_class = _ENUM_FIELDS[key]
        return lambda data, blobs: _enum_member(enum_class, data)
    if key in _RECORD_FIELDS:
        record_class = _RECORD_FIELDS[key]
        return lambda data, blobs: (
            None if data is None else decode_record(record_class, data, blobs)
        )
    if key in _RECORD_LIST_FIELDS:
        item_class = _RECORD_LIST_FIELDS[key]
        return lambda data, blobs: tuple(decode_record(item_class, item, blobs) for item in data)
    if key in _LIST_FIELDS:
        return lambda data, blobs: tuple(decoding.decode(data, blobs))
    return decoding.decode


def _enum_member(enum_class: type[enum.Enum], name: str | None) -> enum.Enum | None:
    member = enum_class.__members__.get(str(name).upper())
    if member is None and "UNKNOWN" in enum_class.__members__:
        return enum_class["UNKNOWN"]
    if member is None and enum_class is trajectory_lib.StepType:
        raise errors.CorruptDataError(
            f"A stored step type is {name!r}; expected one of first, mid, last."
        )
    return member


_RECORDS: tuple[type, ...] = (
    trajectory_lib.Decision,
    trajectory_lib.Derivation,
    trajectory_lib.EpisodeEnd,
    trajectory_lib.EpisodeInfo,
    trajectory_lib.EpisodeTrajectory,
    trajectory_lib.ErrorInfo,
    trajectory_lib.Judgement,
    trajectory_lib.ModelCall,
    trajectory_lib.StepRecord,
)

_WRITERS: dict[type, tuple[tuple[str, Any, _ToJson], ...]] = {
    cls: tuple(
        (field.name, _default(field), _to_json(cls, field.name))
        for field in dataclasses.fields(cls)
    )
    for cls in _RECORDS
}
_READERS: dict[type, dict[str, _FromJson]] = {
    cls: {field.name: _from_json(cls, field.name) for field in dataclasses.fields(cls)}
    for cls in _RECORDS
}
