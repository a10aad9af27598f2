"""What is known of the value of an expression."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import libcst as cst

from torchlint.model.semantics.knowledge import Kind


class Device(Enum):
    """What a value is on, or names."""

    CUDA = "cuda"
    CPU = "cpu"
    MPS = "mps"
    OTHER = "other"

    @classmethod
    def named(cls, text: str) -> Device | None:
        """The device that ``cuda:1`` or the like names; None for an empty text."""
        name = text.partition(":")[0]
        if not name:
            return None
        return next((device for device in cls if device.value == name), cls.OTHER)


class Role(Enum):
    """What a tensor is to a training step."""

    BATCH = "batch"
    OUTPUT = "output"  #: of a module
    LOSS = "loss"


@dataclass(unsafe_hash=True)  # not frozen, which would make its constructor three times as slow
class Value:
    """What is known of a value. Unknown is a first-class answer."""

    kind: Kind = Kind.UNKNOWN
    #: The calls that made it: a loader's constructor; for batches and their tensors the loaders they came from.
    origins: frozenset[cst.CSTNode] = frozenset()
    device: Device | None = None  #: CUDA also where a condition picks it; None if unknown
    elements: tuple[Value, ...] = ()  #: of a sequence whose members are known one by one
    #: the elements of each length, of a value that is not a sequence of one length on all paths
    shapes: tuple[tuple[Value, ...], ...] = ()
    each: Value | None = None  #: of an iterable: what every item is
    constant: object = None  #: of a literal
    name: str = ""  #: dotted name of the class or function that made it
    definition: cst.ClassDef | cst.FunctionDef | None = None  #: its class, or itself if a class or function
    role: Role | None = None  #: of a tensor
    compiles: frozenset[cst.CSTNode] = frozenset()  #: the ``torch.compile`` calls it went through
    sure: bool = True  #: False: guessed from a name or a use, or not the same on all paths

    def __bool__(self) -> bool:
        """Whether anything is known."""
        return self.kind is not Kind.UNKNOWN

    @property
    def is_of_one_class(self) -> bool:
        """Whether its class, or it if it is a class, is known to be ``definition`` and not one derived from it."""
        return self.sure if self.kind is Kind.CLASS else bool(self.origins)

    @property
    def is_on_host(self) -> bool:
        """Whether it is on the CPU: by its device, or because it is certainly a number, an array or a string."""
        return self.device is Device.CPU or (self.sure and self.kind in (Kind.NUMBER, Kind.ARRAY, Kind.STRING))

    @property
    def is_optimizer_of_torch(self) -> bool:
        """Whether it is an optimizer of torch itself, not of a class that derives from one."""
        return self.kind is Kind.OPTIMIZER and self.name.startswith("torch.optim.")


UNKNOWN = Value()
NONE = Value(Kind.NONE)
NUMBER = Value(Kind.NUMBER)
STRING = Value(Kind.STRING)
TENSOR = Value(Kind.TENSOR)


def join(values: Iterable[Value]) -> Value:
    """What is true of all ``values``; None as one of several means "not yet set"."""
    given = tuple(values)
    found = _joined(given)
    if not found.elements and any(value.elements or value.shapes for value in given):
        return replace(found, shapes=_shapes(given))
    return found


def join_bound(values: Iterable[Value]) -> Value:
    """What is true of all that an attribute is bound to: ``self.data = DataLoader(self.data)`` replaces a dataset."""
    given = tuple(values)
    loaders = [value for value in given if value.kind is Kind.LOADER]
    rest = {value.kind for value in given} - {Kind.LOADER}
    return replace(join(loaders), sure=False) if loaders and rest == {Kind.DATASET} else join(given)


#: What a dict of loaders may contain next to them, and is not iterated over.
_NEXT_TO_LOADERS = frozenset({Kind.OTHER, Kind.NUMBER, Kind.STRING, Kind.NONE, Kind.UNKNOWN})
#: The name of what a dict of loaders and datasets contains: only a key such as ``"train_loader"`` says which it is.
LOADER_OR_DATASET = "loader or dataset"


def join_items(values: Iterable[Value]) -> Value:
    """What is true of all items of a dict; of loaders with samplers and numbers, what is true of the loaders."""
    given = tuple(values)
    found = join(given)
    loaders = [value for value in given if value.kind is Kind.LOADER]
    if found or not loaders:
        return found
    rest = {value.kind for value in given} - {Kind.LOADER}
    if rest <= _NEXT_TO_LOADERS:
        return replace(join(loaders), sure=False)
    return (
        replace(join(loaders), sure=False, name=LOADER_OR_DATASET)
        if rest - _NEXT_TO_LOADERS == {Kind.DATASET}
        else found
    )


def _shapes(values: Sequence[Value]) -> tuple[tuple[Value, ...], ...]:
    """For each length of a sequence among ``values`` what is true of the elements of all sequences of that length."""
    by_length: dict[int, list[tuple[Value, ...]]] = {}
    for value in values:
        for elements in value.shapes or ((value.elements,) if value.elements else ()):
            by_length.setdefault(len(elements), []).append(elements)
    others = [UNKNOWN] if any(not value for value in values if not value.shapes) else []  # may be of any length
    return tuple(
        tuple(join([*members, *others]) for members in zip(*found, strict=True)) for found in by_length.values()
    )


def _joined(values: Iterable[Value]) -> Value:
    known: Value | None = None
    sure = True
    only_none = False
    for value in values:
        if value.kind is Kind.NONE:
            only_none = True
        elif value.kind is Kind.UNKNOWN:
            sure = False
        elif known is None:
            known = value
        else:
            known = _join_two(known, value)
            if known is None:
                return UNKNOWN
    if known is None:
        return NONE if only_none and sure else UNKNOWN
    return known if sure else replace(known, sure=False)


_RELATED = {
    frozenset({Kind.TENSOR, Kind.BATCH}): Kind.TENSOR,
    frozenset({Kind.MODULE, Kind.LOSS}): Kind.MODULE,
    frozenset({Kind.STRING, Kind.DEVICE}): Kind.DEVICE,
    frozenset({Kind.TENSOR, Kind.NUMBER}): Kind.TENSOR,
}


#: Kinds of objects that an option selects by name.
_NAMED = frozenset({Kind.MODULE, Kind.LOSS, Kind.OPTIMIZER})


def _join_two(a: Value, b: Value) -> Value | None:
    kinds = frozenset({a.kind, b.kind})
    if kinds == {Kind.LOADER, Kind.SEQUENCE}:  # a pair of loaders for training, one for a test
        one, several = (a, b) if a.kind is Kind.LOADER else (b, a)
        listed = several.each if several.each is not None and not several.elements else UNKNOWN
        alike = listed.origins if listed.kind is Kind.LOADER else frozenset()  # one for a test, or one per crop
        return replace(one, origins=one.origins | alike, sure=False)
    if kinds == {Kind.LOADER, Kind.OTHER} and _is_iterable(a if a.kind is Kind.OTHER else b):
        return replace(a if a.kind is Kind.LOADER else b, sure=False)
    if Kind.STRING in kinds and kinds & _NAMED:  # the object replaces its name: `if model == "small": model = Small()`
        return replace(b if a.kind is Kind.STRING else a, sure=False)
    kind = a.kind if a.kind is b.kind else _RELATED.get(kinds)
    if kind is None:
        return None
    device = _join_devices(named_device(a), named_device(b))
    elements: tuple[Value, ...] = ()
    if a.elements and len(a.elements) == len(b.elements):
        elements = tuple(join(pair) for pair in zip(a.elements, b.elements, strict=True))
    each = join([a.each, b.each]) if a.each is not None and b.each is not None else a.each or b.each
    return Value(
        kind=kind,
        origins=a.origins | b.origins,
        device=device,
        elements=elements,
        each=each,
        constant=a.constant if a.constant == b.constant else None,
        name=a.name if a.name == b.name else "",
        definition=a.definition if a.definition is b.definition else None,
        role=a.role if a.role == b.role else a.role or b.role,
        compiles=a.compiles | b.compiles,
        sure=a.sure and b.sure and a.kind is b.kind,
    )


def _is_iterable(value: Value) -> bool:
    """Whether the class of an object has ``__iter__``: a wrapper that repeats a loader, which an option selects."""
    body = value.definition.body.body if isinstance(value.definition, cst.ClassDef) else ()
    return any(isinstance(item, cst.FunctionDef) and item.name.value == "__iter__" for item in body)


def named_device(value: Value) -> Device | None:
    """The device a value names, if it is a device or a string that names one."""
    if value.device:
        return value.device
    if value.kind is Kind.STRING and isinstance(value.constant, str):
        return Device.named(value.constant)
    return None


def _join_devices(a: Device | None, b: Device | None) -> Device | None:
    """CUDA if one of the two is: ``"cuda" if available else "cpu"``, ``device or "cuda"``; of others, any will do."""
    if Device.CUDA in (a, b):
        return Device.CUDA
    return a if b else None


def iterated(value: Value) -> Value:
    """What a loop over ``value`` binds."""
    if value.kind is Kind.LOADER:
        return Value(Kind.BATCH, value.origins, role=Role.BATCH, sure=value.sure)
    if value.kind is Kind.BATCH:
        return Value(Kind.TENSOR, value.origins, role=Role.BATCH, sure=value.sure)
    if value.kind is Kind.TENSOR:
        return value
    if value.each is not None:
        return value.each
    if value.elements:
        return join(value.elements)
    if value.kind is Kind.MODULE:
        return Value(Kind.MODULE, sure=False)
    return UNKNOWN


def unpacked(value: Value, path: tuple[int, ...], count: int | None = None) -> Value:
    """The part of ``value`` that unpacking binds at ``path``, into ``count`` targets if their number is known."""
    if path and value.shapes:
        value = next((replace(value, elements=each, shapes=()) for each in value.shapes if len(each) == count), value)
    for position in path:
        if value.kind is Kind.BATCH or (value.kind is Kind.TENSOR and value.role is Role.BATCH):
            value = Value(Kind.TENSOR, value.origins, role=Role.BATCH, sure=value.sure)
        elif value.elements and 0 <= position < len(value.elements):
            value = value.elements[position]
        else:
            value = iterated(value)
    return value


def numbers_batches(value: Value) -> bool:
    """Whether ``value`` gives pairs of a number and a batch of a loader, as ``enumerate(loader)`` does."""
    pair = value.each.elements if value.kind is Kind.SEQUENCE and value.each is not None else ()
    return [part.kind for part in pair] == [Kind.NUMBER, Kind.BATCH]


def is_settled(value: Value) -> bool:
    """Whether a cycle that may have cut the value short cannot have changed it, nor what it contains."""
    inside = value.elements if value.each is None else (*value.elements, value.each)
    if not inside and (value.kind is Kind.SEQUENCE or (value.kind is Kind.OTHER and value.definition is not None)):
        return False  # what it contains, or an iteration over it gives, is unknown, maybe for that reason
    return bool(value) and value.sure and all(map(is_settled, inside))
