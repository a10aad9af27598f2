"""Tests of Python control flow that ask for the value of a tensor on the GPU at every training step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.buffers import Buffers
from torchlint.model.program.tensor_forms import ORDER, TensorForms, compared
from torchlint.model.program.tensor_methods import REDUCING
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.climbing import climb, nearest
from torchlint.model.syntax.conditions import conjuncts
from torchlint.model.syntax.dotted import base_of, called_name, dotted_name
from torchlint.model.training.data_flow import DataFlow, Search
from torchlint.model.training.outputs import Outputs
from torchlint.model.training.step_places import StepPlace

from ._exits import leaves_device
from ._host_reads import HostReads
from ._host_tensors import HostTensors
from ._step_tensors import StepTensors

#: Functions of two tensors that read them themselves to give a bool.
_COMPARING = frozenset({"torch.equal", "torch.allclose"})
#: ... and those of anything.
_ASKING = _COMPARING | {"builtins.bool", "math.isnan", "math.isinf", "math.isfinite"}
#: Functions that make an array of a tensor on the CPU, or of several in a list.
_MAKING_ARRAYS = frozenset(f"numpy.{name}" for name in ("array", "asarray", "stack", "concatenate"))

#: Functions and methods that give a tensor of truth values.
_ANSWERING = frozenset("all any isnan isinf isfinite eq ne gt lt ge le".split())

#: What gives a number, or a tensor.
_COMPUTED = (cst.BinaryOperation, cst.AugAssign, cst.Integer, cst.Float)

#: A function that is called at more places than this is a tool of many.
_MAX_CALLERS = 24

#: The maximum number of expressions between a buffer and what is tested.
_BUFFER_DEPTH = 6

#: What tells the number of dimensions of a tensor.
_FORMS = frozenset({"dim", "ndim", "shape"})

#: What has a test.
_TESTS = (cst.If, cst.While, cst.Assert, cst.IfExp, cst.CompIf)


@dataclass(frozen=True, eq=False)
class TruthTest:
    """A part of a test whose truth depends on a tensor."""

    node: cst.BaseExpression
    statement: cst.CSTNode  #: the ``if``, ``while`` or ``assert``, also the ``if`` of a comprehension
    step: StepPlace


class TruthTests:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._reads = module.fact(HostReads)
        self._tensors = module.fact(StepTensors)
        self._converted: dict[cst.FunctionDef | None, frozenset[str]] = {}

    def all(self) -> Iterator[TruthTest]:
        """The tests of the file that wait for the GPU at every training step, in order."""
        if not self._module.uses_torch or not self._reads.on_gpu:
            return
        for statement in self._tree.inside(self._module.root, *_TESTS):
            assert isinstance(statement, _TESTS)
            found = next((part for part in self._parts(statement.test) if self._asks_tensor(part)), None)
            if found is None:
                continue
            step = self._reads.training_step(statement)
            if step is None or self._ends_inner_loop(statement, step) or self._is_for_form(statement, found):
                continue
            if self._is_of_step(found) and not self._is_converted(found):
                yield TruthTest(found, statement, step)

    def _ends_inner_loop(self, statement: cst.CSTNode, step: StepPlace) -> bool:
        """Whether a test only ends a loop within the step, such as a search: its iterations take longer than a wait."""
        suite = statement.body if isinstance(statement, cst.If) else None
        first = suite.body[0] if suite is not None else None
        only = first.body[0] if isinstance(first, cst.SimpleStatementLine) else first
        if suite is None or len(suite.body) > 1 or not isinstance(only, cst.Break):
            return False
        loop = nearest(self._tree, statement, cst.For, cst.While)
        return loop is not None and loop is not step.step

    def _is_for_form(self, statement: cst.CSTNode, tested: cst.BaseExpression) -> bool:
        """Whether it only runs for tensors of a form: ``if mask.dim() == 4: assert mask.max() == 0``."""
        names = self._tree.names_in(tested)
        return any(
            _name_asked_for_dimensions(part) in names
            for above, child in climb(self._tree, statement)
            if isinstance(above, cst.If) and child is above.body
            for part in conjuncts(above.test)
        )

    def _parts(self, test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """What ``test`` evaluates every time; behind ``and`` what follows a question for a type, or for training.

        Behind ``or`` nothing that follows a flag: ``queue_is_full or torch.all(queue == 0)``. Of ``any(...)`` what it
        asks for each item: ``any(p.grad.isnan().any() for p in parameters)``.
        """
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            yield from self._parts(test.expression)
        elif isinstance(test, cst.BooleanOperation):
            yield from self._parts(test.left)
            is_or = isinstance(test.operator, cst.Or)
            if not _is_flag(test.left) if is_or else self._is_usually_true(test.left, test.right):
                yield from self._parts(test.right)
        elif (item := self._asked_of_items(test)) is not None:
            yield from self._parts(item)
        else:
            yield test

    def _asked_of_items(self, test: cst.BaseExpression) -> cst.BaseExpression | None:
        """``x > 0`` of ``all(x > 0 for x in sizes)`` or ``any([x > 0 for x in sizes])``, functions of Python."""
        if not isinstance(test, cst.Call) or len(test.args) != 1:
            return None
        given = test.args[0].value
        if not isinstance(given, (cst.GeneratorExp, cst.ListComp)):
            return None
        return given.elt if self._module.name_of(test.func) in ("builtins.any", "builtins.all") else None

    def _is_usually_true(self, test: cst.BaseExpression, right: cst.BaseExpression) -> bool:
        """Whether ``right``, which follows ``test`` and ``and``, is evaluated nearly every time."""
        if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
            return self._is_usually_true(test.left, right) and self._is_usually_true(test.right, right)
        return self._is_true_of_tensors(test) or self._is_default(test) or self._bounds_index(test, right)

    def _is_default(self, test: cst.BaseExpression) -> bool:
        """``classes == "present"``, if the program gives it no other value."""
        asked = test.comparisons[0] if isinstance(test, cst.Comparison) and len(test.comparisons) == 1 else None
        if asked is None or not isinstance(test, cst.Comparison) or not isinstance(asked.comparator, cst.SimpleString):
            return False
        value = self._module.value(test.left)
        is_equal = isinstance(asked.operator, (cst.Equal, cst.Is))
        return is_equal and value.sure and value.constant == asked.comparator.evaluated_value

    def _bounds_index(self, test: cst.BaseExpression, right: cst.BaseExpression) -> bool:
        """Whether a loop counts an index up or down, and tests that it is within bounds: ``i >= 0 and x[i] == 0``."""
        loop = self._tree.parent(test)
        while isinstance(loop, cst.BooleanOperation):
            loop = self._tree.parent(loop)
        name = test.left if isinstance(test, cst.Comparison) and compared(test) else None
        if not isinstance(loop, cst.While) or not isinstance(name, cst.Name):
            return False
        counted = any(
            isinstance(node.target, cst.Name) and node.target.value == name.value
            for node in self._tree.inside(loop.body, cst.AugAssign)
        )
        indices = (item for part in self._tree.inside(right, cst.Subscript) for item in part.slice)
        return counted and any(name.value in self._tree.names_in(item) for item in indices)

    def _is_true_of_tensors(self, test: cst.BaseExpression) -> bool:
        """``x is not None``, ``isinstance(x, torch.Tensor)``; ``self.training``, as a training step runs it."""
        if dotted_name(test) == "self.training":
            return True
        if isinstance(test, cst.Call):
            return self._module.name_of(test.func) in ("builtins.isinstance", "torch.is_tensor")
        return isinstance(test, cst.Comparison) and all(
            isinstance(item.operator, (cst.Is, cst.IsNot)) for item in test.comparisons
        )

    # -- tensors

    def _asks_tensor(self, part: cst.BaseExpression) -> bool:
        """Whether the truth of ``part`` is the value of a tensor, as far as its form tells."""
        return any(map(self._is_tensor, self._sides(part)))

    def _is_of_step(self, part: cst.BaseExpression) -> bool:
        """Whether a tensor that ``part`` asks for is computed on the GPU in the step."""
        if isinstance(part, cst.Call) and self._module.name_of(part.func) in _COMPARING:
            on_host = self._module.fact(HostTensors).is_on_host
            if any(on_host(item.value) for item in part.args if item.keyword is None):
                return False  # it raises an error unless both are on the same device
        return any(
            self._is_buffer(side)
            or (self._is_tensor(side) and self._is_computed(side) and not self._module.value(side).is_on_host)
            for side in self._sides(part)
        )

    def _is_computed(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is computed from a tensor or gradient of the step, or a buffer of a network."""
        tensors = self._tensors
        return tensors.is_tensor_of_step(node) or tensors.is_of_gradients(node) or self._of_buffers.finds(node)

    @cached_property
    def _of_buffers(self) -> Search:
        """A search for what is computed from buffers: ``expired`` after ``expired = self.cluster_size < 2``."""
        ends = partial(leaves_device, self._module.forest)
        return self._module.fact(DataFlow).search(self._is_buffer, ends, depth=_BUFFER_DEPTH)

    def _is_converted(self, part: cst.BaseExpression) -> bool:
        """Whether the function makes arrays of the tensors that ``part`` asks for: on a GPU, that fails."""
        roots = self._tree.names_in(part)
        return not roots.isdisjoint(self._converted_in(self._module.function_of(part)))

    def _converted_in(self, function: cst.FunctionDef | None) -> frozenset[str]:
        """The variables of which ``function`` makes arrays, and those that they are computed from without a call."""
        if function not in self._converted:
            names = [
                node
                for call in self._tree.calls_in(function.body if function is not None else self._module.root)
                if self._module.name_of(call.func) in _MAKING_ARRAYS and call.args
                for node in self._plain_names(call.args[0].value)
            ]
            names += [
                node
                for name in names
                if (bound := self._module.values.reaching.only(name)) is not None and bound.kind is BindingKind.ASSIGN
                for node in self._plain_names(bound.value)
            ]
            self._converted[function] = frozenset(name.value for name in names)
        return self._converted[function]

    def _plain_names(self, node: cst.CSTNode | None) -> list[cst.Name]:
        """The names in ``node``, an expression without calls, whose values it indexes or computes with."""
        parts = list(self._tree.nodes_in(node)) if node is not None else []
        if any(isinstance(part, cst.Call) for part in parts):
            return []
        indices = [item for part in parts if isinstance(part, cst.Subscript) for item in part.slice]
        return [
            part
            for part in parts
            if isinstance(part, cst.Name) and not any(self._tree.within(part, index) for index in indices)
        ]

    def _sides(self, part: cst.BaseExpression) -> list[cst.BaseExpression]:
        """The expressions whose value decides: both sides of a comparison, the argument of ``bool``, a buffer."""
        if isinstance(part, cst.Comparison):
            return [self._buffer_read_by(side) or side for side in _compared(part)]
        if isinstance(part, cst.Call) and self._module.name_of(part.func) in _ASKING:
            return [item.value for item in part.args if item.keyword is None and not item.star]
        buffer = self._buffer_read_by(part)
        if buffer is not None:
            return [buffer]
        return [part] if isinstance(part, cst.Call) or self._is_answer(part) else []

    def _buffer_read_by(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """``self.initialized`` for itself and for ``self.initialized.item()``, if it is a buffer."""
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and called_name(node) == "item":
            node = node.func.value
        return node if self._is_buffer(node) else None

    def _is_buffer(self, node: cst.CSTNode) -> bool:
        """Whether ``self.x`` is a buffer that the file registers."""
        return any(self._module.is_own(call.node) for call in self._module.fact(Buffers).calls_for(node))

    def _is_answer(self, part: cst.BaseExpression) -> bool:
        """Whether ``part`` names the answer to a question: ``is_empty`` after ``is_empty = mask.sum() == 0``.

        Also a number that is reduced from a tensor: ``n`` after ``n = mask.sum()``.
        """
        reached = self._module.values.reaching.of(part) if isinstance(part, cst.Name) else []
        return bool(reached) and all(
            item.kind is BindingKind.ASSIGN
            and not item.path
            and (
                isinstance(item.value, cst.Comparison)
                or (isinstance(item.value, cst.Call) and called_name(item.value) in _ANSWERING | REDUCING)
            )
            for item in reached
        )

    def _is_tensor(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` can only be a tensor, in a step that computes on tensors."""
        if self._is_buffer(node):
            return True
        if self._is_compared(node) or self._module.fact(TensorForms).is_tensor(node, self._is_known):
            return True
        if isinstance(node, cst.Name):
            given = self._module.values.reaching.assigned(node)
            sides = _compared(given) if isinstance(given, cst.Comparison) else [given]
            return any(map(self._is_reduced, sides))
        return self._is_reduced(node) or self._is_element(node)

    def _is_element(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is ``x[i]`` or ``x[i][0]`` of what is one tensor for certain."""
        whole = base_of(node, {cst.Subscript})
        if whole is node:
            return False
        values = (self._module.value(whole), self._module.value(node))
        return all(value.kind is Kind.TENSOR and value.sure and not value.elements for value in values)

    def _is_reduced(self, node: cst.CSTNode | None) -> bool:
        """Whether ``node`` is ``x.sum()`` of what may be a tensor."""
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            return False
        func = node.func
        if func.attr.value not in REDUCING or isinstance(func.value, cst.Call):
            return False
        if self._module.name_of(func) is not None or self._module.definitions.called(node, self._module.values):
            return False
        if isinstance(func.value, cst.Comparison):
            return bool(compared(func.value))  # ``(mask != 0).any()``: a bool has no such method
        return self._module.value(func.value).kind in (Kind.UNKNOWN, Kind.TENSOR, Kind.BATCH)

    def _is_compared(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is given to a function that only takes tensors: ``torch.equal(query, key)``."""
        argument = self._tree.parent(node)
        call = self._tree.parent(argument) if isinstance(argument, cst.Arg) and argument.keyword is None else None
        return isinstance(call, cst.Call) and self._module.name_of(call.func) in _COMPARING

    def _is_known(self, name: cst.Name) -> bool:
        """Whether ``name`` is a loss, an output of a network, or a tensor of the step whose method or data is asked."""
        if self._tensors.is_loss(name):
            return True
        parent = self._tree.parent(name)
        if isinstance(parent, cst.Attribute) and parent.attr.value == "data":
            return self._tensors.is_tensor_of_step(name)
        if self._tensors.is_asked(name) or self._is_sum_of_gradients(name) or self._is_given_loss(name):
            return True
        reached = self._module.values.reaching.of(name)
        return bool(reached) and all(
            item.kind is BindingKind.ASSIGN and not item.path and self._runs(item.value) for item in reached
        )

    def _is_given_loss(self, name: cst.Name) -> bool:
        """Whether ``name`` is a parameter for which all calls pass a loss: ``check(loss)``."""
        param = self._module.values.reaching.parameter(name)
        given = self._module.passed_by_all(param, _MAX_CALLERS) if param is not None else []
        return bool(given) and all(isinstance(item, cst.Name) and self._tensors.is_loss(item) for item in given)

    def _is_sum_of_gradients(self, name: cst.Name) -> bool:
        """``total`` after ``total += p.grad.norm() ** 2``, and what is computed from it."""
        reached = self._module.values.reaching.of(name)
        computed = all(isinstance(item.value or item.node, _COMPUTED) for item in reached)
        return bool(reached) and computed and self._tensors.is_of_gradients(name)

    def _runs(self, node: cst.CSTNode | None) -> bool:
        """``loss = criterion(...)``."""
        return isinstance(node, cst.Call) and (
            self._module.value(node.func).kind is Kind.LOSS or self._module.fact(Outputs).runs(node)
        )


def _compared(test: cst.Comparison) -> list[cst.BaseExpression]:
    """What ``a < b`` compares, also in ``a < b < c``."""
    orders = all(isinstance(item.operator, ORDER) for item in test.comparisons)
    return [test.left, *(item.comparator for item in test.comparisons)] if orders else []


def _name_asked_for_dimensions(test: cst.BaseExpression) -> str | None:
    """``x`` of ``x.dim() == 4``, ``x.ndim == 4`` and ``len(x.shape) == 4``."""
    if not isinstance(test, cst.Comparison) or not isinstance(test.comparisons[0].operator, cst.Equal):
        return None
    asked = test.left
    if isinstance(asked, cst.Call):
        asked = asked.args[0].value if called_name(asked) == "len" and asked.args else asked.func
    is_form = isinstance(asked, cst.Attribute) and asked.attr.value in _FORMS
    return dotted_name(asked.value) if is_form and isinstance(asked, cst.Attribute) else None


def _is_flag(test: cst.BaseExpression) -> bool:
    """Whether ``test`` is a name or an attribute, or the opposite of one."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        test = test.expression
    return isinstance(test, (cst.Name, cst.Attribute))
