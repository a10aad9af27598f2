"""Keys and values whose heads are repeated in memory before `scaled_dot_product_attention`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint import edits
from torchlint.model.module import Module
from torchlint.model.semantics.moves import keyword
from torchlint.model.syntax.dotted import called_name

_ATTENTION = "torch.nn.functional.scaled_dot_product_attention"
#: The dimension of the heads of a tensor with four dimensions.
_HEADS = ("1", "-3")


@dataclass(frozen=True, eq=False)
class RepeatedHeads:
    """An attention whose keys and values are repeated for it alone."""

    call: cst.Call
    repeats: tuple[cst.CSTNode, cst.CSTNode]  #: the statements that repeat the keys and the values


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
            repeats = [self._repeat(node) for node in (key, value)]
            if repeats[0] is not None and repeats[1] is not None:
                yield RepeatedHeads(call.node, (repeats[0], repeats[1]))

    def deleted(self, found: RepeatedHeads) -> edits.Edits | None:
        """The edits that remove the repetition, and the condition around it."""
        tree = self._module.tree
        above = tree.parent(tree.parent(found.repeats[0]) or found.repeats[0])
        condition = tree.parent(above) if isinstance(above, cst.IndentedBlock) else None
        if isinstance(condition, cst.If) and isinstance(above, cst.IndentedBlock) and condition.orelse is None:
            rows = [tree.parent(statement) for statement in found.repeats]
            if list(above.body) == rows:
                return edits.delete_statement(self._module, condition)
        parts = [edits.delete_statement(self._module, statement) for statement in found.repeats]
        return None if parts[0] is None or parts[1] is None else (*parts[0], *parts[1])

    def _repeat(self, node: cst.BaseExpression | None) -> cst.CSTNode | None:
        """The only statement that repeats the heads of a name, if nothing else reads the result."""
        reached = self._module.values.reaching.of(node) if isinstance(node, cst.Name) else []
        repeated = [bound for bound in reached if bound.kind == "assign" and self._repeats(bound.value, bound.name)]
        home = self._module.names.home_of(node) if isinstance(node, cst.Name) else None
        if len(repeated) != 1 or repeated[0].path or home is None:
            return None
        uses = [
            use
            for use in self._module.names.uses_in(home, repeated[0].name)
            if not self._module.tree.within(use, repeated[0].node)
            and repeated[0] in self._module.values.reaching.of(use)
            and not isinstance(self._module.tree.parent(use), cst.AssignTarget)
        ]
        return repeated[0].node if uses == [node] else None

    def _repeats(self, value: cst.CSTNode | None, name: str) -> bool:
        """``k.repeat_interleave(n, dim=1)``, to be stored in `k` again."""
        if not isinstance(value, cst.Call) or called_name(value) != "repeat_interleave":
            return False
        given = [item.value for item in value.args if item.keyword is None and not item.star]
        if self._module.name_of(value.func) == "torch.repeat_interleave":
            owner, given = (given[0] if given else None), given[1:]
        else:
            owner = value.func.value if isinstance(value.func, cst.Attribute) else None
        dimension = keyword(value, "dim") or (given[1] if len(given) > 1 else None)
        is_same = isinstance(owner, cst.Name) and owner.value == name
        return is_same and dimension is not None and self._module.code(dimension) in _HEADS
