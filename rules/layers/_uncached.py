"""Generation that runs a network on the whole sequence for each new token."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import called_name
from torchlint.model.syntax.parameters import parameters_of
from torchlint.model.training.grad_mode import GradModes
from torchlint.model.training.loops import Loops
from torchlint.model.training.networks import Networks

from ._generation_words import STATE

_CATS = ("torch.cat", "torch.concat", "torch.concatenate", "torch.hstack")
#: What chooses a token.
_CHOOSES = frozenset({"argmax", "multinomial", "topk", "sample", "max", "sort", "gumbel_softmax"})
#: The last item of an output: `logits[:, -1, :]`, `logits[:, -1:]`.
_LAST = re.compile(r"\[\s*:\s*,\s*-\s*1\b|\[\s*-\s*1\b|\[\s*\.\.\.\s*,\s*-\s*1\b")
#: Names of functions that generate.
_GENERATES = re.compile(
    r"generat|sampl|decod|greedy|infer|translat|predict|synth|complet|continu|beam|answer|chat", re.IGNORECASE
)
_DEPTH = 10


@dataclass(frozen=True, eq=False)
class UncachedForward:
    """A forward pass over all tokens so far."""

    call: cst.Call
    network: cst.BaseExpression
    sequence: str
    grown: cst.CSTNode  #: where the sequence gets its next token


class GenerationLoops:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def all(self) -> Iterator[UncachedForward]:
        """The forward passes of the file, in order: the first of each loop."""
        seen: set[cst.CSTNode] = set()
        for cat in self._module.own_calls(*_CATS):
            loops = self._module.fact(Loops).around(cat.node)
            if not loops or loops[0].node in seen:
                continue
            found = self._in_loop(cat.node, loops[0].node)
            if found is not None:
                seen.add(loops[0].node)
                yield found

    def _in_loop(self, cat: cst.Call, loop: cst.For | cst.While) -> UncachedForward | None:
        statement = self._tree.parent(cat)
        if not isinstance(statement, cst.Assign) or len(statement.targets) != 1 or not cat.args:
            return None
        target, parts = statement.targets[0].target, cat.args[0].value
        if not isinstance(target, cst.Name) or not isinstance(parts, (cst.List, cst.Tuple)) or len(parts.elements) != 2:
            return None
        first, new = (item.value for item in parts.elements)
        first = _all_of(first)
        dimension = self._dimension(cat)
        if not isinstance(first, cst.Name) or first.value != target.value or dimension not in ("0", "1", "-1"):
            return None
        if STATE.search(self._module.code(loop)) or not self._generates(cat):
            return None
        for call in self._tree.calls_in(loop.body):
            is_forward = self._is_forward_of(call, target.value, loop)
            if is_forward and self._is_made_by(new, call, loop, is_certain=dimension != "0"):
                return UncachedForward(call, self._module.fact(Networks).network_of(call), target.value, cat)
        return None

    def _dimension(self, cat: cst.Call) -> str:
        """The dimension along which tensors are joined: 1 or the last one, or 0 if the batch comes second."""
        if self._module.name_of(cat.func) == "torch.hstack":
            return "1"
        given = [item.value for item in cat.args[1:] if item.keyword is None or item.keyword.value in ("dim", "axis")]
        return self._module.code(given[0]).replace(" ", "") if given else ""

    def _generates(self, cat: cst.Call) -> bool:
        """Whether a loop runs without gradients, or in a function whose name says that it generates."""
        if self._module.fact(GradModes).of(cat).is_off:
            return True
        function = self._module.function_of(cat)
        return function is not None and _GENERATES.search(function.name.value) is not None

    def _is_forward_of(self, call: cst.Call, sequence: str, loop: cst.For | cst.While) -> bool:
        """Whether a call runs a network on the whole sequence, or its last part, and passes nothing kept before."""
        if any(item.star and not self._is_passed_on(item, loop) for item in call.args):
            return False
        if any(item.keyword is not None and STATE.search(item.keyword.value) for item in call.args):
            return False
        given = [item.value for item in call.args if self._is_sequence(item.value, sequence, loop, 3)]
        return bool(given) and (self._runs(call) or self._hands_on(call, given[0], 2))

    def _hands_on(self, call: cst.Call, given: cst.BaseExpression, depth: int) -> bool:
        """Whether a function of the program runs a network on what it is given: ``forward(model, x)``."""
        definitions = self._module.definitions
        called = definitions.called(call, self._module.values)
        function = called[0] if len(called) == 1 else None
        if not isinstance(function, cst.FunctionDef) or STATE.search(self._module.code(function)):
            return False
        taken = [
            param.name.value
            for param in parameters_of(function)
            if definitions.argument_of(call, function, param) is given
        ]
        return bool(taken) and any(
            isinstance(item.value, cst.Name)
            and item.value.value == taken[0]
            and (self._runs(inner) or (depth > 0 and self._hands_on(inner, item.value, depth - 1)))
            for inner in self._tree.calls_in(function.body)
            for item in inner.args
        )

    def _is_passed_on(self, given: cst.Arg, loop: cst.For | cst.While) -> bool:
        """Whether ``**given`` are the arguments of the function, which contain the same at every iteration."""
        function, name = self._module.function_of(loop), given.value
        own = function.params.star_kwarg if function is not None else None
        if own is None or given.star != "**" or not isinstance(name, cst.Name):
            return False
        if any(item.node is not own for item in self._module.values.reaching.of(name)):
            return False
        used = (self._tree.parent(use) for use in self._tree.names[name.value] if self._tree.within(use, loop))
        return all(isinstance(use, cst.Arg) and use.star == "**" for use in used)

    def _runs(self, call: cst.Call) -> bool:
        if isinstance(call.func, cst.Name) and call.func.value == "self":
            return True
        if self._module.name_of(call.func) is not None:
            return False
        return self._module.fact(Networks).runs_network(call)

    def _is_sequence(self, node: cst.BaseExpression, sequence: str, loop: cst.For | cst.While, depth: int) -> bool:
        """Whether an expression is the sequence, or as many of its last tokens as the network takes."""
        if depth <= 0:
            return False
        if isinstance(node, cst.IfExp):
            return self._is_sequence(node.body, sequence, loop, depth) or self._is_sequence(
                node.orelse, sequence, loop, depth
            )
        if isinstance(node, cst.Subscript):
            cut = self._module.code(node)
            return not _LAST.search(cut) and self._is_sequence(node.value, sequence, loop, depth)
        if isinstance(node, cst.Call) and self._module.name_of(node.func) == "torch.autograd.Variable" and node.args:
            return self._is_sequence(node.args[0].value, sequence, loop, depth)
        if not isinstance(node, cst.Name):
            return False
        if node.value == sequence:
            return True
        return any(
            item.kind is BindingKind.ASSIGN
            and not item.path
            and isinstance(item.value, (cst.IfExp, cst.Subscript, cst.Name))
            and self._tree.within(item.value, loop)
            and self._is_sequence(item.value, sequence, loop, depth - 1)
            for item in self._module.values.reaching.of(node)
        )

    def _is_made_by(
        self, new: cst.BaseExpression, forward: cst.Call, loop: cst.For | cst.While, *, is_certain: bool
    ) -> bool:
        """Whether the new token is chosen from the output of ``forward``, as its last item.

        One of both is enough if it is certain that the sequence grows, and not the batch.
        """
        waiting: list[cst.CSTNode] = [new]
        seen: set[cst.CSTNode] = set()
        chosen = reached = False
        last = any(
            _LAST.search(self._module.code(function)) is not None
            for function in self._module.definitions.called(forward, self._module.values)
            if isinstance(function, cst.FunctionDef) and not self._runs(forward)
        )
        while waiting and len(seen) < _DEPTH * 4:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            last = last or _LAST.search(self._module.code(node)) is not None
            for part in self._tree.nodes_in(node):
                reached = reached or part is forward
                if isinstance(part, cst.Call) and called_name(part) in _CHOOSES:
                    chosen = True
                if isinstance(part, cst.Name):
                    for item in self._module.values.reaching.of(part):
                        if item.value is not None and self._tree.within(item.value, loop.body):
                            waiting.append(item.value)
        return reached and (last or chosen if is_certain else last and chosen)


def _all_of(node: cst.BaseExpression) -> cst.BaseExpression:
    """``x`` of ``x[beams]``, the rows of a beam search, whose indices a variable contains."""
    part = node.slice[0].slice if isinstance(node, cst.Subscript) and len(node.slice) == 1 else None
    is_selected = isinstance(part, cst.Index) and isinstance(part.value, cst.Name)
    return node.value if isinstance(node, cst.Subscript) and is_selected else node
