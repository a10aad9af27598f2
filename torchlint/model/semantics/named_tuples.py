"""Named tuples: the class that ``collections.namedtuple`` makes, its objects, and their attributes."""

from __future__ import annotations

import libcst as cst

from torchlint.model.semantics.evaluator import Evaluator
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import UNKNOWN, Value
from torchlint.model.syntax.calls import keyword

NAMED_TUPLE = "collections.namedtuple"


def named_tuple(call: cst.Call, made: Value, values: Evaluator) -> Value:
    """An object of the class ``made``, a named tuple, that ``call`` creates."""
    fields = _fields(made, values)
    given: dict[str, cst.BaseExpression] = {}
    for place, item in enumerate(call.args):
        if item.star or (item.keyword is None and place >= len(fields)):
            return UNKNOWN
        given[item.keyword.value if item.keyword is not None else fields[place]] = item.value
    elements = tuple(values.of(given.get(name)) for name in fields)
    return Value(Kind.SEQUENCE, made.origins, elements=elements, name=NAMED_TUPLE)


def member(made: Value, name: str, values: Evaluator) -> Value | None:
    """What the attribute ``name`` of ``made`` is; None if that is not a named tuple with a field of this name."""
    fields = _fields(made, values) if made.name == NAMED_TUPLE and made.elements else []
    return made.elements[fields.index(name)] if name in fields and len(fields) == len(made.elements) else None


def _fields(made: Value, values: Evaluator) -> list[str]:
    """The names of the fields: of ``namedtuple("Data", "dataset loader")``, ``namedtuple("Data", ["a", "b"])``."""
    call = next(iter(made.origins)) if len(made.origins) == 1 else None
    if not isinstance(call, cst.Call):
        return []
    given = keyword(call, "field_names") or (call.args[1].value if len(call.args) > 1 else None)
    value = values.of(given)
    if isinstance(value.constant, str):
        return value.constant.replace(",", " ").split()
    names = [item.constant for item in value.elements]
    return [name for name in names if isinstance(name, str)] if None not in names else []
