"""Which expressions are constants: they give the same numbers whenever they are evaluated."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.stores import Stores
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import changes_in_place
from torchlint.model.syntax.conditions import branches
from torchlint.model.syntax.dotted import called_name, dotted_name, index_of, is_attribute_of_self
from torchlint.model.syntax.literals import asked_for_none, is_none
from torchlint.model.syntax.parameters import owner_of
from torchlint.model.syntax.scopes import Binding, unpacked
from torchlint.model.syntax.tree import Tree
from torchlint.model.training.computations import Computations

from ._upload_words import OPTIONS, OPTIONS_PART

#: Functions that give the same number for the same arguments.
_PURE = re.compile(
    r"math\.\w+|builtins\.(float|int|bool|complex|abs|min|max|round|list|tuple|sorted|range|len|sum)|"
    r"numpy\.(array|asarray|float32|float64|sqrt|log|exp|prod|cos|sin|eye|arange|linspace|reshape|append|concatenate|"
    r"cumprod|cumsum)|torch\.(finfo|iinfo)"
)
#: Methods of an array that give another form of the same numbers.
_FORMS = frozenset({"astype", "reshape", "flatten", "transpose"})
#: Numbers, and lists of them, of libraries: `math.pi`, `timm.data.constants.IMAGENET_DEFAULT_MEAN`.
_NUMBERS = re.compile(r"(math|numpy)\.(pi|e|inf|nan|tau)|\w+(\.\w+)*\.[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")
#: Functions that a function may call which computes the same from the same arguments.
_COMPUTING = re.compile(r"(?:math|numpy)\.(?!random\.)|builtins\.(?!id$|hash$|input$|open$|print$)")
_DEPTH = 8
#: Of a parameter of a function with more calls, nothing is found out.
_MANY_CALLS = 40


class ConstantValues:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

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
            if not node.args and isinstance(node.func, cst.Attribute):
                return self._is_constant_method(node, depth - 1)
            array = node.func.value if isinstance(node.func, cst.Attribute) else None
            if isinstance(array, cst.Call) and called_name(node) in _FORMS:
                return self.is_constant(array, depth)
            given = [item.value for item in node.args if item.keyword is None or item.keyword.value != "dtype"]
            is_pure = _PURE.fullmatch(name) is not None if name else self._computes(node)
            return bool(is_pure and given) and all(
                self._is_text(item) or self.is_constant(item, depth - 1) for item in given
            )
        if isinstance(node, cst.Subscript):
            return self._is_constant_item(node, depth)
        if isinstance(node, cst.Name):
            return self._is_constant_name(node, depth)
        return isinstance(node, cst.Attribute) and self._is_constant_attribute(node, depth)

    def _is_constant_method(self, call: cst.Call, depth: int) -> bool:
        """Whether the methods of the program that a call without arguments may run only give a constant."""
        called = self._module.definitions.called(call, self._module.values)
        returned = [self._module.definitions.returns(item) for item in called if isinstance(item, cst.FunctionDef)]
        return 0 < len(called) == len(returned) and all(
            len(values) == 1 and values[0] is not None and self.is_constant(values[0], depth) for values in returned
        )

    def _is_constant_item(self, node: cst.Subscript, depth: int) -> bool:
        """``self.scales["x"]``, ``self.betas[1:]``, or ``self.sizes[i]`` in a loop over numbers at every step.

        These are the same numbers in each of its runs.
        """
        index = node.slice[0].slice if len(node.slice) == 1 else None
        if not isinstance(node.value, (cst.Name, cst.Attribute)):
            return False
        if isinstance(index, cst.Slice):
            bounds = (item for item in (index.lower, index.upper, index.step) if item is not None)
            return all(self.is_constant(item, depth - 1) for item in (node.value, *bounds))
        if not isinstance(index, cst.Index):
            return False
        counts = isinstance(index.value, (cst.Integer, cst.SimpleString)) or self._is_counter(index.value)
        counts = counts or is_none(index.value)  # a new dimension of an array
        return counts and self.is_constant(node.value, depth - 1)

    def _is_counter(self, node: cst.BaseExpression) -> bool:
        """``i`` of ``for i in range(n):`` and of ``for i, x in enumerate(y):``."""
        bound = self._module.values.reaching.only(node) if isinstance(node, cst.Name) else None
        if bound is None or bound.kind is not BindingKind.FOR or not isinstance(bound.value, cst.Call):
            return False
        path = {"builtins.range": (), "builtins.enumerate": (0,)}.get(self._module.name_of(bound.value.func) or "")
        return bound.path == path

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
        param = self._module.names.parameter(node, rebound=True)
        if param is not None and any(item.node is param for item in reached):
            return self._is_constant_parameter(param, reached, depth - 1)
        if len(reached) == 1 and isinstance(reached[0].node, cst.AugAssign):
            return self._is_constant_sum(node.value, reached[0].node, depth - 1)
        if len(reached) != 1 or reached[0].kind is not BindingKind.ASSIGN or reached[0].value is None:
            return False
        if reached[0].path:
            value = reached[0].value
            return self._is_chosen(value, reached[0].path, depth - 1) or self.is_constant(value, depth - 1)
        home = self._module.names.home_of(node)
        changed = home is None or (len(home.bindings[node.value]) > 1 and self._tree.function_of(node) is None)
        if changed or (isinstance(reached[0].value, (cst.List, cst.Tuple)) and self._is_filled(node.value)):
            return False
        return self._is_kept_array(node, reached[0].value) or self.is_constant(reached[0].value, depth - 1)

    def _is_constant_sum(self, name: str, added: cst.AugAssign, depth: int) -> bool:
        """Whether a function makes a list of constants by ``mask = []``, then ``mask += [1] * self.length``."""
        before = self._module.values.reaching.only(added.target) if isinstance(added.target, cst.Name) else None
        if depth <= 0 or before is None or not isinstance(added.operator, cst.AddAssign) or self._is_filled(name):
            return False
        if not self._is_of_lists(added.value) or not self.is_constant(added.value, depth):
            return False
        if isinstance(before.node, cst.AugAssign):
            return self._is_constant_sum(name, before.node, depth)
        made = before.value if before.kind is BindingKind.ASSIGN and not before.path else None
        return isinstance(made, cst.List) and (not made.elements or self.is_constant(made, depth))

    def _is_of_lists(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is a list that is written there, repeated or joined to others."""
        if isinstance(node, cst.BinaryOperation):
            return self._is_of_lists(node.left) or self._is_of_lists(node.right)
        return isinstance(node, cst.List)

    def _is_chosen(self, value: cst.BaseExpression, path: tuple[int, ...], depth: int) -> bool:
        """Whether a setting selects one of several tuples, and what is unpacked of each is a constant.

        ``low, high = {"small": (a, b), "large": (c, d)}[self.kind]``.
        """
        key = index_of(value) if isinstance(value, cst.Subscript) else None
        if not isinstance(value, cst.Subscript) or not isinstance(value.value, cst.Dict):
            return False
        taken = [unpacked(item.value, path) for item in value.value.elements if isinstance(item, cst.DictElement)]
        return (
            key is not None
            and is_attribute_of_self(key)
            and key.attr.value in self._module.fact(Stores).attributes
            and self._is_set_by_constructors(key.attr.value)
            and len(taken) == len(value.value.elements)
            and all(item is not None and self.is_constant(item, depth) for item in taken)
        )

    def _is_set_by_constructors(self, name: str) -> bool:
        """Whether nothing but constructors assigns attributes of this name."""
        stored = self._module.fact(Stores).attributes.get(name, ())
        return all(self._is_constructing(place) for _, _, place in stored)

    def _is_constant_parameter(self, param: cst.Param, reached: list[Binding], depth: int) -> bool:
        """Whether every call of a function gives a parameter a constant, or None if that is replaced by one."""
        function = owner_of(self._tree, param)
        others = [item for item in reached if item.node is not param]
        if function is None or not all(self._replaces_none(item, param, function, depth) for item in others):
            return False
        calls = self._module.callers(function).calls
        filled = self._module.fact(Stores).containers.get(param.name.value, ())
        if not 0 < len(calls) <= _MANY_CALLS or any(self._tree.within(place, function) for _, _, place in filled):
            return False
        if param.star or any(item.star for call in calls for item in call.args):
            return False
        given = [self._module.definitions.argument_of(call, function, param) or param.default for call in calls]
        return all(
            item is not None and (self.is_constant(item, depth) or (bool(others) and is_none(item))) for item in given
        )

    def _replaces_none(self, binding: Binding, param: cst.Param, function: cst.FunctionDef, depth: int) -> bool:
        """``if kernel is None: kernel = [1] * factor``."""
        if binding.kind is not BindingKind.ASSIGN or binding.path or binding.value is None:
            return False
        guards = (item.guard for item in branches(self._tree, binding.node, function))
        asked = [asked_for_none(guard.test, cst.Is) for guard in guards if guard is not None]
        is_missing = any(isinstance(item, cst.Name) and item.value == param.name.value for item in asked)
        return is_missing and self.is_constant(binding.value, depth)

    def _computes(self, call: cst.Call) -> bool:
        """Whether a function of the program computes the same from the same arguments, without torch."""
        called = self._module.definitions.called(call, self._module.values)
        function = called[0] if len(called) == 1 else None
        if not isinstance(function, cst.FunctionDef) or not self._module.fact(Computations).only_computes(call):
            return False
        if any(item.star for item in call.args):
            return False
        inner = self._tree.calls_in(function.body)
        names = [self._module.name_of(item.func) for item in inner]
        return all(
            isinstance(item.func, cst.Attribute) if name is None else _COMPUTING.match(name)
            for item, name in zip(inner, names, strict=True)
        ) and not any(map(self._is_of_file, self._tree.inside(function.body, cst.Name)))

    def _is_of_file(self, name: cst.Name) -> bool:
        """Whether a name is that of a variable of a file, which other code may set."""
        home = self._module.names.home_of(name) if not self._module.name_of(name) else None
        return home is not None and isinstance(home.node, cst.Module)

    def _is_kept_array(self, node: cst.Name, made: cst.BaseExpression) -> bool:
        """Whether NumPy makes an array at the top level of a file, and only statements there fill it."""
        home = self._module.names.home_of(node)
        if home is None or not isinstance(home.node, cst.Module) or len(home.bindings[node.value]) > 1:
            return False
        if not isinstance(made, cst.Call) or self._module.value(made).kind is not Kind.ARRAY:
            return False
        changed = [use for use in self._module.names.uses_in(home, node.value) if is_changed_at(self._tree, use)]
        stored = [place for _, _, place in self._module.fact(Stores).containers.get(node.value, ())]
        return all(self._tree.function_of(place) is None for place in (*changed, *stored))

    def _is_filled(self, name: str) -> bool:
        """Whether something is put into a list of this name, anywhere."""
        return name in self._module.fact(Stores).containers

    def _is_constant_attribute(self, node: cst.Attribute, depth: int) -> bool:
        name = self._module.name_of(node)
        if name is not None:
            return _NUMBERS.fullmatch(name) is not None
        if isinstance(node.value, cst.Call):
            return self._module.name_of(node.value.func) in ("torch.finfo", "torch.iinfo")
        is_ignored = node.attr.value == "ignore_index" and self._module.value(node.value).kind is Kind.LOSS
        names = [node.attr.value] if is_ignored else self._path_in_options(node)
        if names:
            return all(map(self._is_set_by_constructors, names)) and not any(map(self._is_added_to, names))
        owner = self._owner_of(node)
        return isinstance(owner, cst.ClassDef) and self._is_set_once(owner, node.attr.value, depth)

    def _is_added_to(self, name: str) -> bool:
        """Whether a statement changes an attribute of some object: ``args.scale *= 2``."""
        uses = ((use, self._tree.parent(use)) for use in self._tree.attributes_named(name))
        return any(isinstance(above, cst.AugAssign) and above.target is use for use, above in uses)

    def _path_in_options(self, node: cst.Attribute) -> list[str]:
        """The attributes that lead from the settings of a program to ``node``: two of ``model.config.text.begin``."""
        if OPTIONS.fullmatch(dotted_name(node.value) or ""):
            return [node.attr.value]
        *owners, last = (dotted_name(node) or "").split(".")
        at = next((place for place, name in enumerate(owners) if OPTIONS_PART.fullmatch(name)), None)
        return [] if at is None else [*owners[at + 1 :], last]

    def _owner_of(self, node: cst.Attribute) -> cst.CSTNode | None:
        """The class of ``self`` of ``self.mean``, or of ``self.net`` of ``self.net.mean``."""
        if is_attribute_of_self(node.value):
            return self._module.value(node.value).definition
        function = self._module.function_of(node)
        return self._tree.class_of(function) if function is not None and is_attribute_of_self(node) else None

    def _is_set_once(self, owner: cst.ClassDef, name: str, depth: int) -> bool:
        """Whether an attribute of ``self`` gets its value in the constructor alone, and that is not a tensor."""
        stores = self._module.fact(Stores)
        filled = stores.containers.get(name, ())
        if not all(self._is_constructing(place) or self._is_other(held, name) for held, _, place in filled):
            return False
        values: list[cst.BaseExpression] = []
        for item in self._module.definitions.lineage(owner):
            scope = self._tree.scopes[item]
            for binding in (*scope.attributes.get(name, ()), *scope.bindings.get(name, ())):
                function = self._tree.function_of(binding.node)
                constructs = isinstance(function, cst.FunctionDef) and function.name.value == "__init__"
                if (
                    binding.kind not in (BindingKind.ASSIGN, BindingKind.ANNOTATION)
                    or binding.path
                    or binding.value is None
                ):
                    return False
                if not constructs and function is not None:
                    return False
                values.append(binding.value)
        outside = [
            place
            for held, _, place in stores.attributes.get(name, ())
            if not self._is_constructing(place) and not self._is_of_other_class(held, owner)
        ]
        return bool(values) and not outside and all(self._is_setting(value, depth - 1) for value in values)

    def _is_other(self, container: cst.BaseExpression, name: str) -> bool:
        """Whether a container is not an attribute of this name, but a variable that is given something else.

        ``scale[mask] = 1`` with ``scale = x.std(dim=1)`` does not fill ``self.scale``.
        """
        reached = self._module.values.reaching.of(container) if isinstance(container, cst.Name) else ()
        return bool(reached) and all(
            item.kind is BindingKind.ASSIGN
            and item.value is not None
            and all(part.attr.value != name for part in self._tree.inside(item.value, cst.Attribute))
            and not (isinstance(item.value, cst.Attribute) and item.value.attr.value == name)
            for item in reached
        )

    def _is_of_other_class(self, node: cst.BaseExpression, owner: cst.ClassDef) -> bool:
        """Whether ``node`` is ``self`` in a class that neither derives from ``owner`` nor is a base class of it."""
        function = self._module.function_of(node) if dotted_name(node) == "self" else None
        other = self._tree.class_of(function) if function is not None else None
        lineage = self._module.definitions.lineage
        return other is not None and other not in lineage(owner) and owner not in lineage(other)

    def _is_constructing(self, place: cst.CSTNode) -> bool:
        """Whether a place is in a constructor, or in a method that only constructors name."""
        function = self._tree.function_of(place)
        if self._is_in_constructor(place) or not isinstance(function, cst.FunctionDef):
            return self._is_in_constructor(place)
        uses = self._tree.attributes_named(function.name.value) if self._tree.class_of(function) is not None else []
        return bool(uses) and all(map(self._is_in_constructor, uses))

    def _is_in_constructor(self, node: cst.CSTNode) -> bool:
        function = self._tree.function_of(node)
        return isinstance(function, cst.FunctionDef) and function.name.value == "__init__"

    def _is_setting(self, value: cst.BaseExpression, depth: int) -> bool:
        """Whether a constructor keeps a number or a list: a constant, or a parameter that may be one.

        Or what is computed from such: ``vocabulary - 1 if tokens is None else tokens.get("start", 1)``.
        """
        if depth > 0 and isinstance(value, (cst.IfExp, cst.BinaryOperation)) and not self._module.value(value):
            parts = (value.body, value.orelse) if isinstance(value, cst.IfExp) else (value.left, value.right)
            return all(self._is_setting(part, depth - 1) for part in parts)
        known = self._module.value(value)
        if known.kind in (Kind.NUMBER, Kind.SEQUENCE, Kind.ARRAY):
            return True
        if not known and (self._is_given(value) or self._is_option(value)):
            return True
        return self.is_constant(value, depth)

    def _is_given(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is a parameter, of a constructor, that is not bound to something else."""
        reached = self._module.values.reaching.of(node) if isinstance(node, cst.Name) else []
        return bool(reached) and all(isinstance(item.node, cst.Param) for item in reached)

    def _is_option(self, node: cst.BaseExpression) -> bool:
        """``options["scale"]`` and ``kwargs.get("scale", 2)``, of a parameter, and ``cfg.MODEL.SCALE``."""
        if isinstance(node, cst.Attribute):
            root = node.value
            while isinstance(root, cst.Attribute) and not self._is_named_option(root):
                root = root.value
            return self._is_named_option(root)
        held: cst.BaseExpression | None = None
        key: cst.BaseExpression | None = None
        if isinstance(node, cst.Subscript):
            held, key = node.value, index_of(node)
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.args:
            held, key = (node.func.value, node.args[0].value) if called_name(node) in ("get", "pop") else (None, None)
        if held is None or not isinstance(key, cst.SimpleString):
            return False
        return self._is_given(held) or self._is_named_option(held) or self._is_option(held)

    def _is_named_option(self, node: cst.BaseExpression) -> bool:
        """Whether the name of ``node`` is that of settings: ``cfg``, ``self.args``."""
        return OPTIONS.fullmatch(dotted_name(node) or "") is not None


def is_changed_at(tree: Tree, use: cst.Name) -> bool:
    """Whether a use of a tensor writes to it: ``x[0] = 1``, ``x.fill_(1)``."""
    above = tree.parent(use)
    if isinstance(above, cst.Attribute):
        return changes_in_place(above.attr.value)
    return isinstance(above, cst.Subscript) and isinstance(tree.parent(above), (cst.AssignTarget, cst.AugAssign))
