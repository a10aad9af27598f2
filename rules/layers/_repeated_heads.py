"""Keys and values whose heads are repeated in memory before `scaled_dot_product_attention`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint import edits
from torchlint.model.module import Module
from torchlint.model.program.effects import only_computes
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import keyword
from torchlint.model.syntax.dotted import called_name, last_name
from torchlint.model.syntax.scopes import Binding, unpacked

_ATTENTION = "torch.nn.functional.scaled_dot_product_attention"
#: The dimension of the heads of a tensor with four dimensions, by whether it is transposed afterwards.
_HEADS = {False: ("1", "-3"), True: ("2", "-2")}
#: How many assignments lie between the repetition and the attention.
_DEPTH = 3


@dataclass(frozen=True, eq=False)
class RepeatedHeads:
    """An attention whose keys and values are repeated for it alone."""

    call: cst.Call
    repeats: tuple[cst.CSTNode, cst.CSTNode]  #: the statements that repeat the keys and the values
    is_alone: bool  #: whether nothing but the attention needs the repetition


class RepeatedHeadsOf:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module

    def all(self) -> Iterator[RepeatedHeads]:
        """The attentions of the file without a mask, in order."""
        for call in self._module.own_calls(_ATTENTION):
            given = [item.value for item in call.node.args if item.keyword is None]
            mask = call.argument("attn_mask")
            has_mask = len(given) > 3 or not (mask.absent or mask.literal() == "None")
            if call.opaque or has_mask or not call.argument("enable_gqa").absent:
                continue
            key = keyword(call.node, "key") or (given[1] if len(given) > 1 else None)
            value = keyword(call.node, "value") or (given[2] if len(given) > 2 else None)
            keys, values = self._repeat(key, call.node), self._repeat(value, call.node)
            if keys is not None and values is not None:
                yield RepeatedHeads(call.node, (keys[0], values[0]), keys[1] and values[1])

    def deleted(self, found: RepeatedHeads) -> edits.Edits | None:
        """The edits that remove the repetition, and the condition around it; None if something else needs it."""
        if not found.is_alone:
            return None
        tree = self._module.tree
        above = tree.parent(tree.parent(found.repeats[0]) or found.repeats[0])
        condition = tree.parent(above) if isinstance(above, cst.IndentedBlock) else None
        if isinstance(condition, cst.If) and isinstance(above, cst.IndentedBlock) and condition.orelse is None:
            rows = [tree.parent(statement) for statement in found.repeats]
            if list(above.body) == rows and only_computes(self._module, condition.test):
                return edits.delete_statement(self._module, condition)
        first, second = (edits.delete_statement(self._module, statement) for statement in found.repeats)
        if first is None or second is None or not isinstance(above, cst.IndentedBlock) or len(above.body) < 3:
            return None
        return tuple(
            edit for edit in (*first, *second) if edit.start < edit.end
        )  # another statement stays in the block

    def _repeat(self, node: cst.BaseExpression | None, call: cst.Call) -> tuple[cst.CSTNode, bool] | None:
        """The only statement that repeats the heads of what an attention gets, and whether nothing else needs it.

        An attention in another branch, such as a handwritten one, may read them as well.
        """
        is_moved, is_alone = False, True
        for _ in range(_DEPTH):
            found = self._made(node) if isinstance(node, cst.Name) else None
            if found is None or not isinstance(node, cst.Name):
                return None
            bound, source = found
            others = [use for use in self._uses(node, bound) if use is not node]
            if not all(self._module.tree.exclusive(use, call) for use in others):
                return None
            is_moved = is_moved or _without_moves(unpacked(bound.value, bound.path))[1]
            if isinstance(source, cst.Call):
                is_plain = called_name(source) == "repeat_interleave" and self._repeated(source) == bound.name
                is_alone = is_alone and is_plain and not (is_moved or others or bound.path)
                return (bound.node, is_alone) if self._is_of_heads(source, is_moved) else None
            node, is_alone = source, False
        return None

    def _made(self, name: cst.Name) -> tuple[Binding, cst.Call | cst.Name] | None:
        """What a name is bound to, on one path at least: a repetition, else a transposed name."""
        reached = [bound for bound in self._module.values.reaching.of(name) if bound.kind is BindingKind.ASSIGN]
        sources = [(bound, source) for bound in reached if (source := self._source(bound)) is not None]
        repeated = [item for item in sources if isinstance(item[1], cst.Call)]
        found = repeated or sources
        return found[0] if len(found) == 1 else None

    def _source(self, bound: Binding) -> cst.Call | cst.Name | None:
        """The repetition that a name is bound to, or the name that it is another view of."""
        value, is_moved = _without_moves(unpacked(bound.value, bound.path))
        if isinstance(value, cst.Call) and called_name(value) in ("repeat_interleave", "repeat_kv"):
            return value
        return value if isinstance(value, cst.Name) and is_moved else None

    def _uses(self, name: cst.Name, bound: Binding) -> list[cst.Name]:
        """Where the value of a binding of a name is read."""
        home = self._module.names.home_of(name)
        nodes = self._module.values.reaching.uses_of(bound, home) if home is not None else ()
        return [node for node in nodes if not self._module.tree.is_target(node)]

    def _repeated(self, value: cst.Call) -> str:
        """``k`` of ``k.repeat_interleave(n, dim=1)`` and ``torch.repeat_interleave(k, n, dim=1)``."""
        if self._module.name_of(value.func) is not None:
            return last_name(value.args[0].value) if value.args else ""
        return last_name(value.func.value) if isinstance(value.func, cst.Attribute) else ""

    def _is_of_heads(self, value: cst.Call, is_moved: bool) -> bool:
        if called_name(value) == "repeat_kv":
            return len(value.args) == 2
        given = [item.value for item in value.args if item.keyword is None and not item.star]
        if self._module.name_of(value.func) == "torch.repeat_interleave":
            given = given[1:]
        dimension = keyword(value, "dim") or (given[1] if len(given) > 1 else None)
        return dimension is not None and self._module.code(dimension) in _HEADS[is_moved]


def _without_moves(node: cst.CSTNode | None) -> tuple[cst.CSTNode | None, bool]:
    """``k`` of ``k.transpose(1, 2).contiguous()``, and whether dimensions are exchanged."""
    is_moved = False
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        if node.func.attr.value not in ("transpose", "contiguous"):
            break
        is_moved = is_moved or node.func.attr.value == "transpose"
        node = node.func.value
    return node, is_moved
