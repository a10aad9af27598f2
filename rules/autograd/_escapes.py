"""Where a network goes: whether something, such as an optimizer, may be given its parameters."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.parameters import parameters_of
from torchlint.model.training.networks import Networks

#: Methods that return the network itself.
_SAME = frozenset({"to", "cuda", "cpu", "eval", "train", "float", "half", "bfloat16", "double", "type", "share_memory"})
#: Methods and attributes that do not give parameters away.
_READ = frozenset({"load_state_dict", "state_dict", "training", "forward", "__call__", "device", "config", "zero_grad"})
#: What copies the values of a parameter, or is only asked of it.
_DATA = frozenset({"data", "detach", "copy_", "mul_", "add_", "lerp_", "numel", "shape", "size"})
#: Words of a method that may return layers or parameters, or change what is trained.
_GIVES = re.compile(r"param|optim|modules\(|children\(|grad|_dict\b")
#: Attributes of a layer or a tensor that tell where and what it is.
_ASKED = frozenset({"device", "dtype", "shape", "training"})
#: Functions that only look at a network.
_LOOK = (
    "builtins.print",
    "builtins.len",
    "builtins.type",
    "builtins.isinstance",
    "builtins.id",
    "torch.save",
    "torchinfo.",
    "torchsummary.",
)
_WRAPPERS = frozenset({"torch.nn.DataParallel", "torch.compile"})
#: How many places a network is followed through.
_MAX_PLACES = 60


class Escapes:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def may_be_trained(self, made: cst.Call) -> bool:
        """Whether any use of the network that ``made`` builds may hand its parameters to something else."""
        waiting: list[cst.CSTNode] = [made]
        seen: set[cst.CSTNode] = set()
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            following = self._following(node)
            if following is None or len(seen) > _MAX_PLACES:
                return True
            waiting += following
        return False

    def bound_to(self, made: cst.Call) -> cst.BaseExpression | None:
        """The name or attribute that the network is assigned to."""
        return self._assigned(self._outermost(made))

    def _outermost(self, node: cst.CSTNode) -> cst.CSTNode:
        """``Net().to(device)`` for ``Net()``."""
        parent = self._tree.parent(node)
        while isinstance(parent, cst.Attribute) and parent.attr.value in _SAME:
            call = self._tree.parent(parent)
            if not isinstance(call, cst.Call) or call.func is not parent:
                break
            node, parent = call, self._tree.parent(call)
        return node

    def _following(self, node: cst.CSTNode) -> list[cst.CSTNode] | None:
        """The further expressions for the network that ``node`` is; None if it may be changed there."""
        parent = self._tree.parent(node)
        if isinstance(parent, (cst.AssignTarget, cst.Expr, cst.Del)) or self._is_in_row(parent):
            return []
        if isinstance(parent, cst.Call) and parent.func is node:
            return []  # a forward pass
        if isinstance(parent, cst.Attribute) and parent.value is node:
            return self._of_attribute(parent)
        if isinstance(parent, cst.Arg):
            return self._of_argument(parent)
        target = self._assigned(node)
        return self._uses(target) if target is not None else None

    def _is_in_row(self, element: cst.CSTNode | None) -> bool:
        """Whether ``element`` is one of several expressions in a statement, ``a.eval(), b.eval()``, or of targets."""
        row = self._tree.parent(element) if isinstance(element, cst.Element) else None
        return isinstance(row, cst.Tuple) and isinstance(self._tree.parent(row), (cst.Expr, cst.AssignTarget))

    def _of_attribute(self, node: cst.Attribute) -> list[cst.CSTNode] | None:
        parent = self._tree.parent(node)
        called = isinstance(parent, cst.Call) and parent.func is node
        if node.attr.value in _SAME and called:
            assert parent is not None
            return [parent]
        if node.attr.value == "module":
            return [node]
        if node.attr.value == "parameters" and called and parent is not None:
            return [] if self._is_only_copied(parent) else None
        if isinstance(parent, cst.Call) and called:
            return [] if node.attr.value in _READ or self._only_runs(parent) else None
        return [] if node.attr.value in _READ or self._is_number(node) else None

    def _only_runs(self, call: cst.Call) -> bool:
        """Whether a layer of the network is called, or a method of its class that gives no layers or weights away."""
        if self._module.fact(Networks).is_forward(call):
            return True
        called = self._module.definitions.called(call, self._module.values)
        return bool(called) and all(isinstance(item, cst.FunctionDef) and not self._gives_away(item) for item in called)

    def _gives_away(self, method: cst.FunctionDef) -> bool:
        if _GIVES.search(self._module.code(method)):
            return True
        uses = [node for node in self._tree.inside(method.body, cst.Name) if node.value == "self"]
        return not all(map(self._is_plain_use, uses))

    def _is_plain_use(self, owner: cst.Name) -> bool:
        """Whether an attribute of ``self`` is called or asked for its place, has layers to call, or is not a layer."""
        node: cst.CSTNode = owner
        parent = self._tree.parent(node)
        while isinstance(parent, cst.Attribute) and parent.value is node:
            node, parent = parent, self._tree.parent(parent)
        if not isinstance(node, cst.Attribute):
            return False  # the network itself
        if isinstance(parent, cst.Call) and parent.func is node:
            return True
        if isinstance(parent, (cst.For, cst.CompFor)) and parent.iter is node:
            return self._only_calls(parent)
        return node.attr.value in _ASKED or self._module.value(node).kind is Kind.NUMBER or self._is_number(node)

    def _only_calls(self, loop: cst.For | cst.CompFor) -> bool:
        """Whether each layer that a loop iterates over is only called: ``for layer in self.layers: x = layer(x)``."""
        if not isinstance(loop.target, cst.Name):
            return False
        scope = self._module.names.home_of(loop.target)
        uses = self._module.names.uses_in(scope, loop.target.value) if scope is not None else ()
        others = [use for use in uses if use is not loop.target]
        return bool(others) and all(
            isinstance(parent := self._tree.parent(use), cst.Call) and parent.func is use for use in others
        )

    def _is_number(self, node: cst.Attribute) -> bool:
        """Whether an attribute is a number that the constructor of the network computes, or is given."""
        owner = self._module.value(node.value).definition
        bound = self._tree.scopes[owner].attributes.get(node.attr.value, ()) if isinstance(owner, cst.ClassDef) else ()
        return bool(bound) and all(
            isinstance(item.value, (cst.Integer, cst.Float, cst.BinaryOperation))
            or (isinstance(item.value, cst.Name) and self._is_setting(item.value))
            for item in bound
        )

    def _is_setting(self, name: cst.Name) -> bool:
        """Whether a name is a parameter, and not one for a network."""
        reached = self._module.values.reaching.of(name)
        is_given = bool(reached) and all(item.kind is BindingKind.PARAM for item in reached)
        return is_given and self._module.value(name).kind in (Kind.UNKNOWN, Kind.NUMBER)

    def _is_only_copied(self, parameters: cst.CSTNode) -> bool:
        """Whether a loop only reads and writes the data of ``parameters``, as where a target network is updated.

        ``for mine, other in zip(target.parameters(), model.parameters()): mine.data.copy_(other.data)``
        """
        above = self._tree.parent(parameters)
        zipped = self._tree.parent(above) if isinstance(above, cst.Arg) else parameters
        if isinstance(zipped, cst.Call) and zipped is not parameters:
            if self._module.name_of(zipped.func) != "builtins.zip":
                return False
        loop = self._tree.parent(zipped) if zipped is not None else None
        if not isinstance(loop, cst.For) or loop.iter is not zipped:
            return False
        bound = self._tree.names_in(loop.target)
        uses = [item for item in self._tree.inside(loop.body, cst.Name) if item.value in bound]
        return all(self._is_data(use) for use in uses)

    def _is_data(self, use: cst.Name) -> bool:
        """Whether a name is used as ``parameter.data`` or ``parameter.copy_(...)``."""
        above = self._tree.parent(use)
        return isinstance(above, cst.Attribute) and above.value is use and above.attr.value in _DATA

    def _of_argument(self, argument: cst.Arg) -> list[cst.CSTNode] | None:
        call = self._tree.parent(argument)
        if not isinstance(call, cst.Call) or argument.star:
            return None
        name = self._module.name_of(call.func)
        if name in _WRAPPERS:
            return [call]
        if name is not None and name.startswith(_LOOK):
            return []
        found: list[cst.CSTNode] = []
        definitions = self._module.definitions.called(call, self._module.values)
        for definition in definitions:
            function = self._function(definition)
            given = None if function is None else self._parameter(call, function, argument.value)
            if given is None or function is None:
                return None
            found += self._module.names.uses_in(self._tree.scopes[function], given.name.value)
        return found if definitions else None

    def _function(self, definition: cst.FunctionDef | cst.ClassDef) -> cst.FunctionDef | None:
        if isinstance(definition, cst.FunctionDef):
            return definition
        if self._module.values.instance(definition).kind is Kind.MODULE:
            return None  # a part of another network
        found = self._module.definitions.method(definition, "__init__")
        return found if isinstance(found, cst.FunctionDef) else None

    def _parameter(self, call: cst.Call, function: cst.FunctionDef, value: cst.BaseExpression) -> cst.Param | None:
        argument_of = self._module.definitions.argument_of
        return next((item for item in parameters_of(function) if argument_of(call, function, item) is value), None)

    def _assigned(self, node: cst.CSTNode) -> cst.Name | cst.Attribute | None:
        """The one target of an assignment of ``node``; also of ``a, b = Net(), Net()``."""
        parent = self._tree.parent(node)
        row = self._tree.parent(parent) if isinstance(parent, cst.Element) else None
        whole = row if isinstance(row, cst.Tuple) else node
        assign = self._tree.parent(whole)
        if not isinstance(assign, cst.Assign) or assign.value is not whole or len(assign.targets) != 1:
            return None
        target: cst.BaseExpression = assign.targets[0].target
        if isinstance(row, cst.Tuple):
            elements = target.elements if isinstance(target, cst.Tuple) else ()
            if len(elements) != len(row.elements) or any(isinstance(item, cst.StarredElement) for item in elements):
                return None
            target = next(left.value for left, right in zip(elements, row.elements, strict=True) if right is parent)
        return target if isinstance(target, (cst.Name, cst.Attribute)) else None

    def _uses(self, target: cst.Name | cst.Attribute) -> list[cst.CSTNode] | None:
        """All expressions that may name what ``target`` is set to."""
        if isinstance(target, cst.Name):
            scope = self._module.names.home_of(target)
            if scope is None or isinstance(scope.node, cst.ClassDef):
                return None
            if any(self._module.is_exported(item) for item in scope.bindings.get(target.value, ())):
                return None
            return list(self._module.names.uses_in(scope, target.value))
        if not isinstance(target.value, cst.Name) or target.value.value != "self":
            return None
        function = self._tree.function_of(target)
        owner = self._tree.class_of(function) if function is not None else None
        if owner is None or self._module.values.instance(owner).kind is Kind.MODULE:
            return None  # a part of a network, or of something unknown
        return [*self._tree.attributes_named(target.attr.value)]
