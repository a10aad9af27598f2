"""Parts of expressions: dotted names, the objects that they are a part of, their last part, the index of an item."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TypeGuard, TypeVar

import libcst as cst

_Node = TypeVar("_Node", bound=cst.CSTNode | None)

#: What takes a part of an object: ``x.part``, ``x[0]``.
PARTS: frozenset[type[cst.CSTNode]] = frozenset({cst.Attribute, cst.Subscript})
#: The same, or what a method returns: ``x.part().other``.
PARTS_AND_RESULTS = PARTS | {cst.Call}
#: Methods that return the same numbers, on the CPU or without a graph.
_COPYING = frozenset({"detach", "cpu", "clone"})


def prefixes(node: cst.CSTNode | None, through: Collection[type[cst.CSTNode]] = PARTS) -> Iterator[cst.BaseExpression]:
    """``model.layers`` and ``model`` for ``model.layers[0]``: the objects that an expression takes a part of.

    ``through`` says what an expression takes them by.
    """
    while type(node) in through:
        node = node.func if isinstance(node, cst.Call) else node.value  # type: ignore[union-attr]
        yield node


def base_of(node: _Node, through: Collection[type[cst.CSTNode]] = PARTS_AND_RESULTS) -> _Node | cst.BaseExpression:
    """``model`` for ``model.layers[0].weight.detach()``: the outermost of the objects; ``node`` if there are none."""
    parts: list[_Node | cst.BaseExpression] = [node, *prefixes(node, through)]
    return parts[-1]


def bare(
    node: cst.BaseExpression,
    methods: Collection[str] = _COPYING,
    attributes: Collection[str] = ("data",),
    *,
    with_arguments: bool = False,
) -> cst.BaseExpression:
    """``x`` of ``x.detach().cpu().data``: ``node`` without calls of ``methods`` and without ``attributes`` at its end.

    Calls that pass arguments are part of the result, ``x.sum(1)``, unless ``with_arguments`` is set.
    """
    while True:
        if isinstance(node, cst.Attribute) and node.attr.value in attributes:
            node = node.value
        elif (
            isinstance(node, cst.Call)
            and isinstance(node.func, cst.Attribute)
            and node.func.attr.value in methods
            and (with_arguments or not node.args)
        ):
            node = node.func.value
        else:
            return node


def last_part(name: str) -> str:
    """``c`` of ``a.b.c``."""
    return name.rpartition(".")[2]


def last_name(node: cst.CSTNode | None) -> str:
    """``c`` for the expression ``a.b.c``; "" for anything but a dotted name."""
    head = node
    while type(head) is cst.Attribute:
        head = head.value
    if type(head) is not cst.Name:
        return ""
    return node.attr.value if type(node) is cst.Attribute else head.value


def index_of(node: cst.Subscript) -> cst.BaseExpression | None:
    """``i`` of ``x[i]``; None for slices and for several indices."""
    first = node.slice[0].slice if len(node.slice) == 1 else None
    return first.value if isinstance(first, cst.Index) else None


def key_of(node: cst.Subscript) -> str:
    """``device`` of ``config["device"]``; empty for other indices."""
    key = index_of(node)
    return str(key.evaluated_value) if isinstance(key, cst.SimpleString) else ""


def called_name(call: cst.Call) -> str:
    """``mul_`` for ``batch[0].mul_(2)``, ``f`` for ``f()``; "" where what is called has no name of its own."""
    func = call.func
    if type(func) is cst.Attribute:
        return func.attr.value
    return func.value if type(func) is cst.Name else ""


def dotted_name(node: cst.CSTNode | None) -> str | None:
    """``a.b.c`` for a Name or a chain of Attributes, else None."""
    parts: list[str] = []
    while type(node) is cst.Attribute:  # called most of all, and `isinstance` would be ten times as slow
        parts.append(node.attr.value)
        node = node.value
    if type(node) is not cst.Name:
        return None
    parts.append(node.value)
    return ".".join(reversed(parts))


def name_or_key(node: cst.CSTNode | None) -> str:
    """``self.optimizer`` as it is written, ``optimizer`` of ``state["optimizer"]``; "" of other expressions."""
    key = index_of(node) if isinstance(node, cst.Subscript) else None
    return key.raw_value if isinstance(key, cst.SimpleString) else dotted_name(node) or ""


def is_attribute_of_self(node: cst.CSTNode) -> TypeGuard[cst.Attribute]:
    """Whether ``node`` is ``self.name``."""
    return isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value == "self"


def is_within_self(node: cst.CSTNode) -> bool:
    """Whether ``node`` is ``self.name``, or an attribute of it: ``self.net.encoder``."""
    return isinstance(node, cst.Attribute) and (dotted_name(node) or "").startswith("self.")


def stored_name(target: cst.CSTNode) -> str | None:
    """``args.options`` of ``args.options = ...``, and of ``vars(args)["options"] = ...``; None of other targets."""
    if not isinstance(target, cst.Subscript):
        return dotted_name(target)
    owner, index = target.value, target.slice[0].slice
    held: cst.BaseExpression | None = None
    if isinstance(owner, cst.Attribute) and owner.attr.value == "__dict__":
        held = owner.value
    elif isinstance(owner, cst.Call) and called_name(owner) == "vars" and len(owner.args) == 1:
        held = owner.args[0].value
    name = dotted_name(held) if held is not None else None
    key = index.value if isinstance(index, cst.Index) and len(target.slice) == 1 else None
    return f"{name}.{key.raw_value}" if name is not None and isinstance(key, cst.SimpleString) else None


def of_first_item(node: cst.Subscript) -> cst.BaseExpression | None:
    """``loss`` of ``loss.data[0]``: before torch 0.4, a loss had one item, and this was its ``item()``."""
    data, index = node.value, index_of(node)
    is_first = isinstance(index, cst.Integer) and index.value == "0"
    return bare(data) if is_first and isinstance(data, cst.Attribute) and data.attr.value == "data" else None


def is_read_of_loss(node: cst.Subscript) -> bool:
    """Whether a subscript is such a read of what is called a loss."""
    return "loss" in last_name(of_first_item(node)).lower()
