"""Losses of one step that each have a backward pass of their own, where one pass of their sum is the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.tensor_methods import METHODS
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.dotted import is_attribute_of_self, last_name
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.loops import is_backward
from torchlint.model.training.networks import Networks

#: Words of a statement between two passes that may need the gradients of the first one alone.
_NEEDS_FIRST = re.compile(
    r"optim|\bopt\b(?!\.\w+(?![\w(]))|step|zero|hook|scaler|fisher|\bparam|param(?:s|eters|_)|importance|conflict"
    r"|register|backward|state_dict|free|empty_cache"
)
#: ... and those of gradients, which are attributes and functions: a variable may contain gradients of the input.
_GRADIENTS = re.compile(r"\.\s*\w*grad|grad\w*\s*\(")
#: ... and of a function that treats the gradients of each loss in its own way.
_BY_LOSS = re.compile(r"register_hook|register_full_backward_hook|register_post_accumulate|no_sync|memory_allocated")
#: Names of losses.
_LOSS = re.compile(
    r"loss|err|cost|(^|_)(kl|reg)|mse|bce|nll|objective|penalty|(^|[ (])[lL]_?\w?([ )]|$)|\.(sum|mean)\("
)
#: Methods of values that are tensors in all likelihood, and change nothing.
_OF_TENSORS = METHODS | {"size", "numel", "dim"}
_GRAD = "torch.autograd.grad"
#: The first arguments of `backward`.
_ARGUMENTS = ("gradient", "retain_graph")
_ARITHMETIC = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide)


@dataclass(frozen=True, eq=False)
class SplitBackward:
    """Adjacent backward passes, of which all but the last keep the graph."""

    calls: tuple[cst.Call, ...]
    statements: tuple[cst.SimpleStatementLine, ...]
    can_be_summed: bool  #: whether the losses still have their values at the last pass


class SplitBackwards:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._penalties: dict[cst.Call, bool] = {}

    def all(self) -> Iterator[SplitBackward]:
        """The groups of backward passes of the file that could be one, in order."""
        seen: set[cst.CSTNode] = set()
        for call in self._module.own_methods("backward"):
            block = self._block_of(call.node)
            if block is None or block in seen:
                continue
            seen.add(block)
            yield from self._in_block(block)

    def _block_of(self, call: cst.Call) -> cst.IndentedBlock | cst.Module | None:
        statement = self._tree.parent(call)
        line = self._tree.parent(statement) if isinstance(statement, cst.Expr) else None
        if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
            return None
        block = self._tree.parent(line)
        return block if isinstance(block, (cst.IndentedBlock, cst.Module)) else None

    def _in_block(self, block: cst.IndentedBlock | cst.Module) -> Iterator[SplitBackward]:
        group: list[tuple[int, cst.Call]] = []
        body: Sequence[cst.CSTNode] = block.body
        for position, statement in enumerate(body):
            call = self._pass(statement)
            if call is not None:
                group.append((position, call))
                if not _retains(call):
                    yield from self._group(body, group)
                    group = []
            elif group and not self._is_between(statement):
                yield from self._group(body, group)
                group = []
        yield from self._group(body, group)

    def _group(self, body: Sequence[cst.CSTNode], group: list[tuple[int, cst.Call]]) -> Iterator[SplitBackward]:
        if len(group) < 2:
            return
        calls = tuple(call for _, call in group)
        function = self._module.function_of(calls[0])
        if function is not None and _BY_LOSS.search(self._module.code(function)):
            return
        losses = [self._module.code(_loss(call)) for call in calls]
        if len(set(losses)) < len(losses):
            return  # a name that gets another loss in between
        lines = tuple(line for position, _ in group if isinstance(line := body[position], cst.SimpleStatementLine))
        between = body[group[0][0] : group[-1][0]]
        inside = [call for statement in between for call in self._tree.calls_in(statement)]
        if any(map(self._is_gradient, inside)) and any(map(self._module.fact(Networks).runs_network, inside)):
            return  # the penalty is on the gradient of a graph of its own
        yield SplitBackward(calls, lines, not self._rebinds(between, calls))

    def _pass(self, statement: cst.CSTNode) -> cst.Call | None:
        """The call of a statement that is ``loss.backward()`` or ``loss.backward(retain_graph=True)``."""
        if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
            return None
        inner = statement.body[0]
        call = inner.value if isinstance(inner, cst.Expr) else None
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
            return None
        if call.func.attr.value != "backward":
            return None
        if _retains(call) is None:
            return None
        owner = self._module.value(call.func.value)
        if owner.kind is not Kind.TENSOR and not _LOSS.search(self._module.code(call.func.value)):
            return None
        if (owner.kind is Kind.MODULE and owner.sure) or owner.definition is not None:
            return None
        return None if self._module.definitions.called(call, self._module.values) else call

    def _is_between(self, statement: cst.CSTNode) -> bool:
        """Whether a statement only computes something, and does not need the gradients of the pass before it.

        It may do so under a condition, or in a context of torch such as ``torch.autocast``.
        """
        if isinstance(statement, (cst.With, cst.If, cst.Else)):
            return all(map(self._only_asks, _head(statement))) and all(map(self._is_between, _inner(statement)))
        if not isinstance(statement, cst.SimpleStatementLine):
            return False
        return not self._needs_first(statement) and all(self._is_computation(item) for item in statement.body)

    def _needs_first(self, node: cst.CSTNode) -> bool:
        """Whether the words of a node say that it may use the gradients that the pass before it has computed."""
        code = self._module.code(node)
        for call in filter(self._is_gradient, self._tree.calls_in(node)):
            code = code.replace(f"{self._module.code(call.func)}(", "(")
        return any(words.search(code.lower()) for words in (_NEEDS_FIRST, _GRADIENTS))

    def _only_asks(self, node: cst.BaseExpression) -> bool:
        """Whether the head of a compound statement needs no gradients and calls no function out of sight."""
        calls = self._tree.calls_in(node)
        return not self._needs_first(node) and all(map(self._is_known, calls))

    def _is_computation(self, statement: cst.BaseSmallStatement) -> bool:
        if isinstance(statement, (cst.AugAssign, cst.Pass)):
            return all(map(self._is_known, self._tree.calls_in(statement)))
        if isinstance(statement, cst.Assign):
            plain = all(isinstance(item.target, (cst.Name, cst.Tuple, cst.Subscript)) for item in statement.targets)
            return plain and all(map(self._is_known, self._tree.calls_in(statement)))
        if isinstance(statement, cst.Expr) and isinstance(statement.value, cst.Call):
            return last_name(statement.value.func) in ("append", "print", "update", "add_scalar", "log", "info")
        return False

    def _is_known(self, call: cst.Call) -> bool:
        """Whether a call runs a network or loss, or a function of torch, or a method of a tensor."""
        name = self._module.name_of(call.func)
        if (name is not None and name.startswith(("torch.", "builtins.", "numpy."))) or self._is_gradient(call):
            return True
        if name is not None:
            return False
        value = self._module.value(call.func)
        if value.kind in (Kind.MODULE, Kind.LOSS) or "criter" in last_name(call.func) or "loss" in last_name(call.func):
            return not any(
                self._module.fact(Gradients).trains(item)
                for item in self._module.definitions.called(call, self._module.values)
                if isinstance(item, cst.FunctionDef)
            )
        if isinstance(call.func, cst.Attribute):
            kind = self._module.value(call.func.value).kind
            return kind is Kind.TENSOR or (kind is Kind.UNKNOWN and call.func.attr.value in _OF_TENSORS)
        return False

    def _is_gradient(self, call: cst.Call) -> bool:
        """Whether a call takes the gradient of an input, which leaves those of the weights as they are.

        It is ``torch.autograd.grad``, or a function of the program that calls it and runs no network: a penalty.
        """
        if self._module.name_of(call.func) == _GRAD:
            return True
        if call not in self._penalties:
            called = self._module.definitions.called(call, self._module.values)
            self._penalties[call] = bool(called) and all(map(self._is_penalty, called))
        return self._penalties[call]

    def _is_penalty(self, function: cst.FunctionDef | cst.ClassDef) -> bool:
        calls = [] if isinstance(function, cst.ClassDef) else self._tree.calls_in(function)
        takes = [call.func for call in calls if self._module.name_of(call.func) == _GRAD]
        return (
            bool(takes)
            and all(map(self._only_computes, calls))
            and all(node in takes for node in self._tree.attributes_in(function) if node.attr.value == "grad")
        )

    def _only_computes(self, call: cst.Call) -> bool:
        """Whether a call is of a function of torch, or a method of neither a network nor an object of the program."""
        name = self._module.name_of(call.func)
        if name is not None or not isinstance(call.func, cst.Attribute) or is_attribute_of_self(call.func):
            return (name or "").startswith(("torch.", "builtins."))
        value = self._module.value(call.func.value)
        return value.kind is not Kind.MODULE and value.definition is None and not is_backward(call)

    def _rebinds(self, statements: Sequence[cst.CSTNode], calls: tuple[cst.Call, ...]) -> bool:
        """Whether a name of an earlier loss gets a new value, or changes in place, before the last pass."""
        names = {
            node.value for call in calls[:-1] for node in self._tree.nodes_in(_loss(call)) if isinstance(node, cst.Name)
        }
        for statement in statements:
            for node in self._tree.nodes_in(statement):
                targets = [item.target for item in node.targets] if isinstance(node, cst.Assign) else []
                if isinstance(node, (cst.AugAssign, cst.AnnAssign)):
                    targets = [node.target]
                for target in targets:
                    for part in self._tree.nodes_in(target):
                        if isinstance(part, cst.Name) and part.value in names:
                            return True
        return False


def summed(module: Module, found: SplitBackward) -> str | None:
    """The one backward pass of the sum; None where a loss is not a simple expression."""
    parts = []
    for call in found.calls:
        loss = _loss(call)
        simple = isinstance(loss, (cst.Name, cst.Attribute, cst.Subscript, cst.Call))
        if not simple and not (isinstance(loss, cst.BinaryOperation) and isinstance(loss.operator, _ARITHMETIC)):
            return None
        parts.append(module.code(loss))
    retained = "retain_graph=True" if _retains(found.calls[-1]) else ""
    return f"({' + '.join(parts)}).backward({retained})"


def _head(statement: cst.With | cst.If | cst.Else) -> list[cst.BaseExpression]:
    """The contexts or the condition of a compound statement."""
    if isinstance(statement, cst.With):
        return [item.item for item in statement.items]
    return [statement.test] if isinstance(statement, cst.If) else []


def _inner(statement: cst.With | cst.If | cst.Else) -> list[cst.CSTNode]:
    """The statements in a compound statement, and its `else`."""
    other = statement.orelse if isinstance(statement, cst.If) else None
    return [*statement.body.body, *([] if other is None else [other])]


def _loss(call: cst.Call) -> cst.BaseExpression:
    assert isinstance(call.func, cst.Attribute)
    return call.func.value


def _retains(call: cst.Call) -> bool | None:
    """Whether a pass retains its graph; None if that is unknown, or if it has other arguments."""
    retains = False
    for place, item in enumerate(call.args):
        name = item.keyword.value if item.keyword is not None else "".join(_ARGUMENTS[place : place + 1])
        value = item.value.value if isinstance(item.value, cst.Name) and not item.star else None
        if name == "retain_graph" and value in ("True", "False"):
            retains = value == "True"
        elif name != "gradient" or value != "None":
            return None
    return retains
