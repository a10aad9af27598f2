"""Frozen dataclasses <-> JSON, by the types of their fields: what is read is checked: anyone can write it."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

_T = TypeVar("_T")
_Decoder = Callable[[Any], Any]


class CodingError(Exception):
    """Data is not what an object of the wanted type is written as."""


def encode(value: object) -> Any:
    """``value`` as JSON has it: a dataclass is the list of its fields. Sets are sorted."""
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value):
        return [encode(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, (frozenset, set)):
        return sorted(map(encode, value))
    if isinstance(value, (tuple, list)):
        return [encode(item) for item in value]
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    return value


def decode(kind: type[_T], data: object) -> _T:
    """The object of a type that ``data`` encodes. Raises CodingError."""
    wanted: Any = kind
    try:
        found: _T = _decoder(wanted)(data)
    except (TypeError, ValueError, RecursionError) as error:
        raise CodingError(str(error)) from error
    return found


@cache
def _decoder(kind: Any) -> _Decoder:
    """What makes an object of a type; made once for each type."""
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _of_fields(kind)
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _of_union(get_args(kind))
    if origin in (tuple, frozenset):
        return _of_items(origin, get_args(kind))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _of_table(get_args(kind)[1])
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    accepted = (float, int) if kind is float else (kind,)

    def plain(data: Any) -> Any:
        if type(data) not in accepted:
            raise CodingError(f"not of type {kind}")
        return data

    return plain


def _of_fields(kind: type) -> _Decoder:
    decoders: list[_Decoder] = []  # filled when first needed: a field may be of the type itself

    def read(data: Any) -> Any:
        if not decoders:
            hints = get_type_hints(kind)
            decoders.extend(_decoder(hints[field.name]) for field in dataclasses.fields(kind))
        if type(data) is not list or len(data) != len(decoders):
            raise CodingError(f"not a {kind.__name__}")
        return kind(*[decoder(item) for decoder, item in zip(decoders, data, strict=True)])

    return read


def _of_union(kinds: tuple[Any, ...]) -> _Decoder:
    decoders = [_decoder(kind) for kind in kinds if kind is not type(None)]

    def read(data: Any) -> Any:
        if data is None and type(None) in kinds:
            return None
        for decoder in decoders:
            try:
                return decoder(data)
            except CodingError:
                continue
        raise CodingError(f"not of a type of {kinds}")

    return read


def _of_items(origin: Any, kinds: tuple[Any, ...]) -> _Decoder:
    decoders = [_decoder(kind) for kind in kinds if kind is not ...]
    any_number = origin is frozenset or kinds[-1:] == (...,)

    def read(data: Any) -> Any:
        if type(data) is not list:
            raise CodingError("not a list")
        if any_number:
            return origin(map(decoders[0], data))
        if len(data) != len(decoders):
            raise CodingError(f"not {len(decoders)} items")
        return tuple([decoder(item) for decoder, item in zip(decoders, data, strict=True)])

    return read


def _of_table(kind: Any) -> _Decoder:
    decoder = _decoder(kind)

    def read(data: Any) -> Any:
        if type(data) is not dict:
            raise CodingError("not a table")
        return {key: decoder(item) for key, item in data.items()}

    return read
