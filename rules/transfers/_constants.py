"""Constants that are copied from the host to a device again and again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.data.placement import Placement
from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.moves import device_of, keyword
from torchlint.model.semantics.stores import Stores
from torchlint.model.semantics.value import Device
from torchlint.model.syntax.calls import changes_in_place
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.dotted import dotted_name, last_part
from torchlint.model.syntax.tree import Tree
from torchlint.model.training.purpose import Purposes
from torchlint.model.training.step_places import StepPlace, StepPlaces

from ._repetition import keeps_result

#: ``torch.<name>(data)`` that makes a tensor of a list or of a number ...
_OF_DATA = ("torch.tensor", "torch.as_tensor", "torch.asarray")
#: ... and those that make one of a list only; of a number, they make a tensor of that size.
_OF_LISTS = tuple(f"torch.{name}Tensor" for name in ("", "Float", "Long", "Int", "Double", "Half", "Bool", "Byte"))
#: Methods between the tensor and its move that leave it on the host.
_SHAPING = frozenset(
    "view reshape unsqueeze squeeze expand repeat t transpose permute contiguous flatten float long int double half "
    "bool byte index_select type expand_as log exp sqrt neg reciprocal abs flip".split()
)
#: Functions that give the same number for the same arguments.
_PURE = re.compile(
    r"math\.\w+|builtins\.(float|int|bool|complex|abs|min|max|round|list|tuple|sorted|range|len|sum)|"
    r"numpy\.(array|asarray|float32|float64|sqrt|log|exp|prod|cos|sin)|torch\.(finfo|iinfo)"
)
#: Numbers, and lists of them, of libraries: `math.pi`, `timm.data.constants.IMAGENET_DEFAULT_MEAN`.
_NUMBERS = re.compile(r"(math|numpy)\.(pi|e|inf|nan|tau)|\w+(\.\w+)*\.[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")
#: Words of a test that is true once, seldom, or where the speed does not matter.
_RARE = re.compile(
    r"onnx|export|tracing|scripting|cache|first|initiali[sz]ed|debug|verbose|empty|\.shape\b|\.size\(|numel",
    re.IGNORECASE,
)
#: Decorators that compile a function with its constants.
_COMPILING = re.compile(r"compile|jit|script", re.IGNORECASE)
_DEPTH = 6


@dataclass(frozen=True, eq=False)
class Upload:
    """A constant that is made on the host and copied to a device, repeatedly."""

    node: cst.Call  #: what copies: the factory if it is given a device or has a name, else the move
    factory: cst.Call  #: what makes the tensor
    data: cst.BaseExpression
    repeated: StepPlace
    is_named: bool  #: whether it has a name before a later statement copies it


class ConstantUploads:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    @cached_property
    def all(self) -> list[Upload]:
        """The constants that the code of a file uploads at every step or call of a network, in order."""
        return [found for call in self._module.own_calls(*_OF_DATA, *_OF_LISTS) if (found := self._upload(call.node))]

    def _upload(self, factory: cst.Call) -> Upload | None:
        data = self._data(factory)
        if data is None or not self.is_constant(data):
            return None
        copied = self._copying(factory)
        named = copied is None and self._is_copied_later(factory)
        node = factory if named else copied
        if node is None or self._is_seldom(node):
            return None
        repeated = self._module.fact(StepPlaces).per_batch(node)
        if repeated is None or self._is_compiled(node):
            return None
        return Upload(node, factory, data, repeated, named)

    def _data(self, factory: cst.Call) -> cst.BaseExpression | None:
        """What the tensor is made of, if that is a list or a number, and no size."""
        if not factory.args or factory.args[0].keyword is not None or any(item.star for item in factory.args):
            return None
        data = factory.args[0].value
        if self._module.name_of(factory.func) not in _OF_LISTS:
            return data
        if any(item.keyword is None for item in factory.args[1:]):
            return None
        return data if isinstance(data, (cst.List, cst.Tuple)) or self._is_list(data) else None

    def _is_list(self, node: cst.BaseExpression) -> bool:
        return self._module.value(node).kind in (Kind.SEQUENCE, Kind.ARRAY)

    # -- the copy

    def _copying(self, made: cst.BaseExpression) -> cst.Call | None:
        """The call that copies what ``made`` gives: a factory itself with ``device=``, or a move of its result."""
        device = keyword(made, "device") if isinstance(made, cst.Call) else None
        if isinstance(made, cst.Call) and device is not None:
            return made if self._may_be_gpu(device) else None
        for above, child in climb(self._tree, made):
            if isinstance(above, cst.Call) and above.func is child:
                assert isinstance(child, cst.Attribute)
                method = child.attr.value
                if method in ("cuda", "type_as"):
                    return above
                if method == "to" and self._moves(above):
                    return above
                if method not in _SHAPING and method != "to":
                    return None
            elif isinstance(above, cst.Call):  # `torch.log(torch.tensor(2.0)).cuda()`
                name = self._module.name_of(above.func) or ""
                if not name.startswith("torch.") or last_part(name) not in _SHAPING:
                    return None
            elif isinstance(above, cst.Subscript):
                if above.value is not child:
                    return None
            elif not isinstance(above, (cst.Attribute, cst.UnaryOperation)) and not (
                isinstance(above, cst.Arg) and above.keyword is None
            ):
                return None
        return None

    def _is_copied_later(self, factory: cst.Call) -> bool:
        """Whether a statement gives a name what ``factory`` makes, and a later one moves that under its name.

        The name may be bound to other forms of the tensor in between: ``kernel = kernel.repeat(3, 1)``.
        """
        made = self._tree.statement_of(factory)
        if not isinstance(made, cst.Assign) or len(made.targets) != 1:
            return False
        target = made.targets[0].target
        home = self._module.names.home_of(target) if isinstance(target, cst.Name) else None
        if home is None or not isinstance(target, cst.Name) or not self._is_form_of(made.value, factory):
            return False
        forms: set[cst.CSTNode] = {made}
        for use in self._module.names.uses_in(home, target.value):
            reached = {item.node for item in self._module.values.reaching.of(use)}
            if not reached or not reached <= forms:
                continue
            if self._copying(use) is not None:
                return True
            if is_changed_at(self._tree, use):
                return False
            statement = self._tree.statement_of(use)
            if isinstance(statement, cst.AugAssign) and statement.target is use:
                if not self.is_constant(statement.value):
                    return False
                forms.add(statement)
            elif isinstance(statement, cst.Assign) and self._is_form_of(statement.value, use):
                forms.add(statement)
        return False

    def _is_form_of(self, whole: cst.BaseExpression, part: cst.CSTNode) -> bool:
        """Whether ``whole`` is ``part``, or another form of it on the host."""
        while part is not whole:
            above = self._tree.parent(part)
            if isinstance(above, cst.Attribute):
                called = self._tree.parent(above)
                if above.attr.value not in _SHAPING or not isinstance(called, cst.Call) or called.func is not above:
                    return False
                part = called
            elif isinstance(above, cst.BinaryOperation):
                if not self.is_constant(above.left if part is above.right else above.right):
                    return False
                part = above
            else:
                return False
        return True

    def _moves(self, call: cst.Call) -> bool:
        """Whether ``x.to(...)`` may move to a GPU; ``x.to(y)`` moves to where ``y`` is."""
        target = keyword(call, "device", "other")
        if target is None and call.args and call.args[0].keyword is None and not call.args[0].star:
            target = call.args[0].value
        if target is None:
            return False
        value = self._module.value(target)
        if value.kind in (Kind.TENSOR, Kind.BATCH):
            return value.device is not Device.CPU
        return self._module.fact(Placement).is_device(target) and self._may_be_gpu(target)

    def _may_be_gpu(self, device: cst.BaseExpression) -> bool:
        if isinstance(device, cst.Name) and device.value == "None":
            return False
        return device_of(device, self._module.values) in (None, Device.CUDA)

    # -- the constant

    def is_constant(self, node: cst.BaseExpression, depth: int = _DEPTH) -> bool:
        """Whether ``node`` gives the same numbers whenever it is evaluated."""
        if isinstance(node, (cst.Integer, cst.Float, cst.Imaginary)):
            return True
        if depth <= 0:
            return False
        if isinstance(node, cst.UnaryOperation):
            return self.is_constant(node.expression, depth)
        if isinstance(node, cst.BinaryOperation):
            return self.is_constant(node.left, depth) and self.is_constant(node.right, depth)
        if isinstance(node, (cst.List, cst.Tuple)):
            return bool(node.elements) and all(
                not isinstance(item, cst.StarredElement) and self.is_constant(item.value, depth)
                for item in node.elements
            )
        if isinstance(node, cst.Call):
            name = self._module.name_of(node.func) or ""
            if name in ("torch.finfo", "torch.iinfo"):
                return True
            given = [item.value for item in node.args if item.keyword is None or item.keyword.value != "dtype"]
            return bool(_PURE.fullmatch(name) and given) and all(
                self._is_text(item) or self.is_constant(item, depth - 1) for item in given
            )
        if isinstance(node, cst.Name):
            return self._is_constant_name(node, depth)
        return isinstance(node, cst.Attribute) and self._is_constant_attribute(node, depth)

    def is_python_number(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is written as a number of Python, of which ``torch.full`` makes the same tensor."""
        if isinstance(node, cst.UnaryOperation):
            return isinstance(node.operator, (cst.Minus, cst.Plus)) and self.is_python_number(node.expression)
        if isinstance(node, cst.Call):
            return self._module.name_of(node.func) == "builtins.float" and len(node.args) == 1
        if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Call):
            return self._module.name_of(node.value.func) in ("torch.finfo", "torch.iinfo")
        return isinstance(node, (cst.Integer, cst.Float, cst.Imaginary)) or (
            isinstance(node, cst.Name) and node.value in ("True", "False")
        )

    def _is_text(self, node: cst.BaseExpression) -> bool:
        """``float("inf")``."""
        return isinstance(node, cst.SimpleString)

    def _is_constant_name(self, node: cst.Name, depth: int) -> bool:
        if node.value in ("True", "False") or _NUMBERS.fullmatch(self._module.name_of(node) or ""):
            return True
        reached = self._module.values.reaching.of(node)
        if len(reached) != 1 or reached[0].kind != "assign" or reached[0].path or reached[0].value is None:
            return False
        home = self._module.names.home_of(node)
        changed = home is None or (len(home.bindings[node.value]) > 1 and self._tree.function_of(node) is None)
        if changed or (isinstance(reached[0].value, (cst.List, cst.Tuple)) and self._is_filled(node.value)):
            return False
        return self.is_constant(reached[0].value, depth - 1)

    def _is_filled(self, name: str) -> bool:
        """Whether something is put into a list of this name, anywhere."""
        return name in self._module.fact(Stores).containers

    def _is_constant_attribute(self, node: cst.Attribute, depth: int) -> bool:
        name = self._module.name_of(node)
        if name is not None:
            return _NUMBERS.fullmatch(name) is not None
        if isinstance(node.value, cst.Call):
            return self._module.name_of(node.value.func) in ("torch.finfo", "torch.iinfo")
        function = self._module.function_of(node)
        owner = self._tree.class_of(function) if function is not None else None
        if owner is None or dotted_name(node.value) != "self":
            return False
        return self._is_set_once(owner, node.attr.value, depth)

    def _is_set_once(self, owner: cst.ClassDef, name: str, depth: int) -> bool:
        """Whether an attribute of ``self`` gets its value in the constructor alone, and that is no tensor."""
        stores = self._module.fact(Stores)
        if name in stores.containers:
            return False
        values: list[cst.BaseExpression] = []
        for item in self._module.definitions.lineage(owner):
            scope = self._tree.scopes[item]
            for binding in (*scope.attributes.get(name, ()), *scope.bindings.get(name, ())):
                function = self._tree.function_of(binding.node)
                constructs = isinstance(function, cst.FunctionDef) and function.name.value == "__init__"
                if binding.kind not in ("assign", "annotation") or binding.path or binding.value is None:
                    return False
                if not constructs and function is not None:
                    return False
                values.append(binding.value)
        outside = [place for _, _, place in stores.attributes.get(name, ()) if not self._is_constructing(place)]
        return bool(values) and not outside and all(self._is_setting(value, depth - 1) for value in values)

    def _is_constructing(self, place: cst.CSTNode) -> bool:
        function = self._tree.function_of(place)
        return isinstance(function, cst.FunctionDef) and function.name.value == "__init__"

    def _is_setting(self, value: cst.BaseExpression, depth: int) -> bool:
        """Whether a constructor keeps a number or a list: a constant, or a parameter that is seen to be one."""
        if self._module.value(value).kind in (Kind.NUMBER, Kind.SEQUENCE, Kind.ARRAY):
            return True
        if isinstance(value, cst.Name):
            reached = self._module.values.reaching.of(value)
            defaults = [item.node.default for item in reached if isinstance(item.node, cst.Param)]
            if len(reached) == 1 and defaults and defaults[0] is not None:
                return isinstance(defaults[0], cst.List) or self.is_constant(defaults[0], depth)
        return self.is_constant(value, depth)

    # -- how often

    def _is_seldom(self, node: cst.Call) -> bool:
        """Whether ``node`` is kept for later, or is in a branch that is seldom taken."""
        if self._module.fact(Purposes).is_self_test(node):
            return True
        for above, child in climb(self._tree, node):
            if isinstance(above, cst.FunctionDef) and child is above.body:
                compiles = any(_COMPILING.search(self._module.code(item.decorator)) for item in above.decorators)
                return compiles or keeps_result(self._module, above)
            if isinstance(above, (cst.ExceptHandler, cst.Raise, cst.Assert)):
                return True
            if isinstance(above, (cst.If, cst.IfExp)) and child is not above.test:
                if self._is_rare(above, is_else=child is above.orelse):
                    return True
            if isinstance(above, cst.IndentedBlock) and self._is_behind_return(above, child):
                return True
            if isinstance(above, cst.Call) and self._keeps(above):
                return True
            if isinstance(above, cst.Assign) and any(
                isinstance(target.target, cst.Subscript) and "cache" in self._module.code(target.target).lower()
                for target in above.targets
            ):
                return True
        return False

    def _keeps(self, call: cst.Call) -> bool:
        """Whether a call makes a parameter or a buffer of what it is given."""
        name = self._module.name_of(call.func) or ""
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        return last_part(name) in ("Parameter", "Buffer") or method in ("register_buffer", "register_parameter")

    def _is_rare(self, branch: cst.If | cst.IfExp, is_else: bool) -> bool:
        """Whether a branch is for what is seldom: nothing there yet, no element, an export."""
        test = branch.test
        text = self._module.code(test)
        if _RARE.search(text):
            return True
        if is_else:
            return re.search(r"> ?0\b|!= ?0\b|\blen\(|any\(|is not None|numel|\.sum\(|\bin\b|hasattr", text) is not None
        return (
            re.search(
                r"\bnot\b|is None|== ?0\b|< ?\d+\b|<= ?\d+\b|\blen\(|isinstance|isnan|isinf|is_tensor|any\(|all\(|"
                r"\.item\(\) ?[<>]",
                text,
            )
            is not None
        )

    def _is_behind_return(self, block: cst.IndentedBlock, child: cst.CSTNode) -> bool:
        """Whether an earlier statement of ``block`` returns what was kept: ``if key in self.cache: return ...``."""
        for statement in block.body:
            if statement is child:
                return False
            if (
                isinstance(statement, cst.If)
                and re.search(r"cache|is not None|hasattr|\bin self\.", self._module.code(statement.test))
                and any(isinstance(node, cst.Return) for node in self._tree.nodes_in(statement.body))
            ):
                return True
        return False

    def _is_compiled(self, node: cst.Call) -> bool:
        """Whether ``torch.compile`` is seen to compile the function or the network, and folds the constant."""
        function = self._module.function_of(node)
        if function is None:
            return False
        if any("compile" in self._module.code(item.decorator) for item in function.decorators):
            return True
        return any(item in self._compiled for item in self._holders(function))

    def _holders(self, function: cst.FunctionDef) -> Iterator[cst.CSTNode]:
        yield function
        owner = self._tree.class_of(function)
        if owner is not None:
            yield owner

    @cached_property
    def _compiled(self) -> frozenset[cst.CSTNode]:
        """The classes and functions that are given to ``torch.compile``."""
        found = [call.node.args[0].value for call in self._module.calls("torch.compile") if call.node.args]
        found += [call.func.value for call in self._module.methods("compile") if isinstance(call.func, cst.Attribute)]
        definitions = (self._module.value(item).definition for item in found)
        return frozenset(item for item in definitions if item is not None)


def is_changed_at(tree: Tree, use: cst.Name) -> bool:
    """Whether a use of a tensor writes to it: ``x[0] = 1``, ``x.fill_(1)``."""
    above = tree.parent(use)
    if isinstance(above, cst.Attribute):
        return changes_in_place(above.attr.value)
    return isinstance(above, cst.Subscript) and isinstance(tree.parent(above), (cst.AssignTarget, cst.AugAssign))
