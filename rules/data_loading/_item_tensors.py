"""How a dataset uses a tensor of an item between its copy to a device and its return."""

from __future__ import annotations

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.dotted import dotted_name

#: Kinds of values without a device.
_PLAIN = (Kind.NUMBER, Kind.STRING, Kind.NONE, Kind.DTYPE)
#: Attributes and methods of a tensor that do not read its values.
_SHAPES = frozenset({"shape", "dtype", "ndim", "size", "dim", "numel", "nelement", "element_size"})


def stays_alone(module: Module, method: cst.FunctionDef, moves: tuple[cst.Call, ...]) -> bool:
    """Whether the tensors that ``moves`` copy to a device are never combined with another tensor there.

    They are returned unchanged, or after conversions and arithmetic with numbers under the same name.
    """
    names: set[str] = set()
    for move in moves:
        if not _is_converted(module, move):
            return False
        statement = module.tree.statement_of(move)
        if isinstance(statement, (cst.Assign, cst.AnnAssign)):
            names.update(item.value for item in _targets(statement) if isinstance(item, cst.Name))
    return all(
        _is_harmless(module, node)
        for node in module.tree.nodes_in(method.body)
        if isinstance(node, cst.Name)
        and node.value in names
        and not isinstance(module.tree.parent(node), (cst.AssignTarget, cst.AnnAssign))
    )


def _is_converted(module: Module, node: cst.CSTNode) -> bool:
    """Whether methods and operators around ``node``, up to its statement, combine it only with numbers."""
    for above, child in climb(module.tree, node):
        if isinstance(above, (cst.Return, cst.Tuple, cst.Assign, cst.AnnAssign)):
            return True
        if isinstance(above, cst.Call):
            if above.func is not child or not all(_is_plain(module, item.value) for item in above.args):
                return False
        elif isinstance(above, cst.BinaryOperation):
            if not _is_plain(module, above.right if child is above.left else above.left):
                return False
        elif not isinstance(above, (cst.Attribute, cst.Element)) or _is_in_place(above):
            return False
    return False


def _is_in_place(node: cst.CSTNode) -> bool:
    """Whether ``node`` is a method such as ``div_``: without the copy it would change the data of the dataset."""
    return isinstance(node, cst.Attribute) and node.attr.value.endswith("_")


def _is_harmless(module: Module, node: cst.Name) -> bool:
    """Whether a use of a moved tensor reads its shape, returns it, or rebinds its own name."""
    parent, statement = module.tree.parent(node), module.tree.statement_of(node)
    if isinstance(parent, cst.Attribute) and parent.attr.value in _SHAPES:
        return True
    if isinstance(statement, cst.Return):
        return isinstance(parent, (cst.Return, cst.Element))
    if not isinstance(statement, (cst.Assign, cst.AnnAssign)):
        return False
    same = [isinstance(item, cst.Name) and item.value == node.value for item in _targets(statement)]
    return all(same) and _is_converted(module, node)


def _targets(statement: cst.Assign | cst.AnnAssign) -> list[cst.BaseExpression]:
    return [statement.target] if isinstance(statement, cst.AnnAssign) else [item.target for item in statement.targets]


def _is_plain(module: Module, node: cst.BaseExpression) -> bool:
    """Whether ``node`` is not a tensor: a number, a string, a data type, the device of the copy."""
    if isinstance(node, (cst.Tuple, cst.List)):
        return all(_is_plain(module, item.value) for item in node.elements)
    value = module.value(node)
    if value.sure and value.kind in _PLAIN:
        return True
    return (module.name_of(node) or "").startswith("torch.") or "device" in (dotted_name(node) or "")
