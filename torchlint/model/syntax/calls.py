"""One call and its arguments: present, absent or unknowable, by keyword or position."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import libcst as cst

from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.syntax.signatures import METHOD_SIGNATURES, SIGNATURES


class Presence(Enum):
    """Whether a call passes an argument."""

    PRESENT = "present"
    ABSENT = "absent"
    UNKNOWN = "unknown"  #: the call has ``*args`` or ``**kwargs`` that may contain it


@dataclass(frozen=True)
class Entries:
    """What a dictionary may contain under one key, or a call pass for one parameter."""

    values: tuple[cst.BaseExpression, ...] = ()
    certain: bool = False  #: the key is there on all paths
    known: bool = True  #: False: there may be other values, or the key although no value is seen
    usual: bool = True  #: False: and not only because of who starts the program or calls it from out of sight

    def updated(self, update: Entries) -> Entries:
        """What is there once a dictionary is updated with another one."""
        if update.certain:
            return update
        values, known, usual = self.values + update.values, self.known and update.known, self.usual and update.usual
        return Entries(values, self.certain, known, usual)


class Unpacking(Protocol):
    """Looks into the dictionaries that calls unpack; `Keywords` is what does."""

    def passed(self, call: cst.Call, name: str) -> Entries:
        """What the dictionaries that ``call`` unpacks give for the parameter ``name``."""


def changes_in_place(method: str) -> bool:
    """Whether a method is named like those of tensors that change their tensor: ``mul_``, not ``__init__``."""
    return method.endswith("_") and not method.endswith("__")


def keyword(node: cst.Call, *names: str) -> cst.BaseExpression | None:
    """What a call passes for the first keyword that is one of ``names``."""
    for argument in node.args:
        if argument.keyword is not None and argument.keyword.value in names:
            return argument.value
    return None


def keywords_of(node: cst.Call) -> dict[str, cst.BaseExpression]:
    """What a call passes by keyword, in order; not what the dictionaries that it unpacks contain."""
    return {argument.keyword.value: argument.value for argument in node.args if argument.keyword is not None}


def is_super_call(node: cst.Call, method: str) -> bool:
    """Whether ``node`` is ``super().__init__(...)``, for the method ``__init__``."""
    func = node.func
    return isinstance(func, cst.Attribute) and func.attr.value == method and is_of_super(func)


def is_of_super(node: cst.Attribute) -> bool:
    """Whether ``node`` is an attribute of ``super()``."""
    owner = node.value
    return isinstance(owner, cst.Call) and isinstance(owner.func, cst.Name) and owner.func.value == "super"


def requires_gradient(call: cst.Call) -> bool:
    """``x.requires_grad_()``, ``Variable(x, requires_grad=True)``."""
    if isinstance(call.func, cst.Attribute) and call.func.attr.value == "requires_grad_":
        return not call.args or dotted_name(call.args[0].value) != "False"
    return any(
        item.keyword is not None and item.keyword.value == "requires_grad" and dotted_name(item.value) == "True"
        for item in call.args
    )


def replaces_callee(node: cst.Call, statement: cst.CSTNode | None) -> bool:
    """Whether ``statement``, around ``node``, is ``model = model(classes)``: a class becomes an object of it."""
    return (
        isinstance(statement, cst.Assign)
        and isinstance(node.func, cst.Name)
        and len(statement.targets) == 1
        and dotted_name(statement.targets[0].target) == node.func.value
    )


@dataclass(frozen=True)
class Argument:
    """One parameter of a call, as the call gives it."""

    presence: Presence
    node: cst.Arg | None = None  #: where the call itself passes it; None also if an unpacked dictionary contains it
    entry: cst.BaseExpression | None = None  #: its value in an unpacked dictionary

    @property
    def absent(self) -> bool:
        """The call surely does not pass it."""
        return self.presence is Presence.ABSENT

    @property
    def value(self) -> cst.BaseExpression | None:
        """The expression passed, if any is seen."""
        return self.node.value if self.node is not None else self.entry

    def literal(self) -> str | None:
        """The text of a passed ``0``, ``False``, ``None``, ... ; None if absent or no literal."""
        value = self.value
        if isinstance(value, (cst.Integer, cst.Float, cst.Name, cst.SimpleString)):
            if not isinstance(value, cst.Name) or value.value in ("True", "False", "None"):
                return value.value
        return None


@dataclass(frozen=True, eq=False)
class Call:
    """A call of a function whose dotted name is known, or of a method of any object."""

    node: cst.Call
    name: str  #: the canonical dotted name of the function; of a method, its bare name
    unpacking: Unpacking
    is_of_derived_class: bool = False  #: of a class derived from the one called ``name``, with its parameters
    method: str = ""  #: the bare name of the method, whatever object it is called on; empty for a function

    @property
    def receiver(self) -> cst.BaseExpression:
        """The expression whose method is called: ``loss`` of ``loss.backward()``. Only of calls with a `method`."""
        assert isinstance(self.node.func, cst.Attribute)
        return self.node.func.value

    def argument(self, name: str) -> Argument:
        """The argument for parameter ``name``; by position only where the signature is known."""
        order = (METHOD_SIGNATURES if self.method else SIGNATURES).get(self.name, ())
        position = order.index(name) if name in order else -1
        seen = 0
        hidden = False
        for argument in self.node.args:
            if argument.star == "**":
                hidden = True
            elif argument.star == "*":
                hidden = True
                seen = len(order)
            elif argument.keyword is not None:
                if argument.keyword.value == name:
                    return Argument(Presence.PRESENT, argument)
            else:
                if seen == position:
                    return Argument(Presence.PRESENT, argument)
                seen += 1
        return self._unpacked(name) if hidden else Argument(Presence.ABSENT)

    def entries(self, name: str) -> Entries:
        """What the call may pass for parameter ``name``, directly or in a dictionary."""
        passed = self.argument(name).node
        return self.unpacking.passed(self.node, name) if passed is None else Entries((passed.value,), certain=True)

    def _unpacked(self, name: str) -> Argument:
        """The argument for parameter ``name`` where only an unpacked dictionary may contain it."""
        found = self.unpacking.passed(self.node, name)
        if not found.known:
            return Argument(Presence.UNKNOWN)
        if not found.values:
            return Argument(Presence.ABSENT)
        passed = [Argument(Presence.PRESENT, entry=value) for value in found.values]
        texts = {argument.literal() for argument in passed}
        agree = len(passed) == 1 or (len(texts) == 1 and None not in texts)
        return passed[0] if found.certain and agree else Argument(Presence.UNKNOWN)

    @property
    def opaque(self) -> bool:
        """Whether ``*args``, ``**kwargs`` or a derived class hide some of its arguments."""
        return self.is_of_derived_class or any(argument.star for argument in self.node.args)


def method_calls(nodes: Iterable[cst.Call], unpacking: Unpacking) -> Iterator[Call]:
    """The calls ``<anything>.name(...)`` among ``nodes``."""
    for node in nodes:
        if isinstance(node.func, cst.Attribute):
            name = node.func.attr.value
            yield Call(node, name, unpacking, method=name)
