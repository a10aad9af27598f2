"""Which expressions are constants: they give the same numbers whenever they are evaluated."""

from __future__ import annotations

import re
from collections.abc import Iterable

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.stores import Stores
from torchlint.model.semantics.knowledge import LIST_ADDING, Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import changes_in_place
from torchlint.model.syntax.climbing import climb, nearest
from torchlint.model.syntax.conditions import branches
from torchlint.model.syntax.dotted import called_name, index_of, is_attribute_of_self
from torchlint.model.syntax.literals import asked_for_none, is_none
from torchlint.model.syntax.nodes import HANDLERS
from torchlint.model.syntax.parameters import owner_of
from torchlint.model.syntax.scopes import Binding, Scope, unpacked
from torchlint.model.syntax.tree import Tree
from torchlint.model.training.computations import Computations

from ._fixed_attributes import NUMBERS, FixedAttributes

#: Functions that give the same for the same arguments.
_PURE = re.compile(
    r"math\.\w+|builtins\.(float|int|bool|complex|abs|min|max|round|list|tuple|sorted|range|len|sum|zip|enumerate|dict|"
    r"reversed|divmod)|numpy\.(?!random\b|load|from|mem|empty)\w+|torch\.(finfo|iinfo)"
)
#: Methods of a constant that give another form of it, or a part.
_FORMS = frozenset("astype reshape flatten transpose copy tolist index get items keys values count split".split())
#: Functions that a function may call which computes the same from the same arguments.
_COMPUTING = re.compile(r"(?:math|numpy)\.(?!random\.)|builtins\.(?!id$|hash$|input$|open$|print$)")
#: Kinds of values other than numbers of Python or NumPy.
_NO_DATA = (Kind.TENSOR, Kind.BATCH, Kind.MODULE, Kind.LOADER, Kind.OPTIMIZER, Kind.LOSS)
_DEPTH = 12
#: Of a parameter of a function with more calls, nothing is found out.
_MANY_CALLS = 40


class ConstantValues:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._attributes = FixedAttributes(module, self._is_constant)
        self._place: cst.CSTNode = module.root  #: where the constant is used

    def is_constant(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` gives the same numbers whenever it is evaluated."""
        return self._is_constant_at(node, node, _DEPTH)

    def _is_constant_at(self, place: cst.CSTNode, node: cst.BaseExpression, depth: int) -> bool:
        """Whether ``node``, which is used at a place, is a constant. Loops around the place give no constants."""
        outer, self._place = self._place, place
        try:
            return self._is_constant(node, depth)
        finally:
            self._place = outer

    def _is_constant(self, node: cst.BaseExpression, depth: int) -> bool:
        if isinstance(node, (cst.Integer, cst.Float, cst.Imaginary)):
            return True
        if depth <= 0:
            return False
        if isinstance(node, cst.Call):
            return self._is_constant_call(node, depth)
        if isinstance(node, cst.Subscript):
            return self._is_constant_item(node, depth)
        if isinstance(node, cst.Name):
            return self._is_constant_name(node, depth)
        if isinstance(node, cst.Attribute):
            return self._is_constant_attribute(node, depth)
        if isinstance(node, (cst.List, cst.Tuple)) and not node.elements:
            return False
        parts = _parts(node)
        return bool(parts) and self._are_constant(parts, depth)

    def _are_constant(self, parts: Iterable[cst.BaseExpression], depth: int) -> bool:
        """Whether all of ``parts``, which an expression is made of, are constants or text."""
        return all(isinstance(item, cst.SimpleString) or self._is_constant(item, depth) for item in parts)

    # -- calls and items

    def _is_constant_call(self, node: cst.Call, depth: int) -> bool:
        name = self._module.name_of(node.func) or ""
        if name in ("torch.finfo", "torch.iinfo"):
            return True
        given = [item.value for item in node.args if item.keyword is None or item.keyword.value != "dtype"]
        is_given = self._are_constant(given, depth - 1)
        if name:
            return _PURE.fullmatch(name) is not None and bool(given) and is_given
        if isinstance(node.func, cst.Attribute) and called_name(node) in _FORMS and is_given:
            if self._is_constant(node.func.value, depth - 1):
                return True
        if not node.args and isinstance(node.func, cst.Attribute):
            return self._is_constant_method(node, depth - 1)
        return bool(given) and is_given and self._computes(node, depth - 1)

    def _is_constant_method(self, call: cst.Call, depth: int) -> bool:
        """Whether the methods of the program that a call without arguments may run only give a constant."""
        called = self._module.definitions.called(call, self._module.values)
        returned = [self._module.definitions.returns(item) for item in called if isinstance(item, cst.FunctionDef)]
        return 0 < len(called) == len(returned) and all(
            len(values) == 1 and values[0] is not None and self._is_constant(values[0], depth) for values in returned
        )

    def _computes(self, call: cst.Call, depth: int) -> bool:
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
        ) and all(self._is_own_or_fixed(name, depth) for name in self._tree.inside(function.body, cst.Name))

    def _is_own_or_fixed(self, node: cst.CSTNode, depth: int) -> bool:
        """Whether a name in a function is that of a variable of its own, or of one of a file that nothing changes."""
        assert isinstance(node, cst.Name)
        home = self._module.names.home_of(node) if not self._module.name_of(node) else None
        return home is None or not isinstance(home.node, cst.Module) or self._is_fixed(home, node.value, depth)

    def _is_constant_item(self, node: cst.Subscript, depth: int) -> bool:
        """``self.scales["x"]``, ``self.betas[1:]``, or ``self.sizes[i]`` in a loop over numbers at every step.

        These are the same numbers in each of its runs.
        """
        if not self._is_constant(node.value, depth - 1):
            return False
        for item in node.slice:
            parts = (item.slice.lower, item.slice.upper, item.slice.step) if isinstance(item.slice, cst.Slice) else ()
            index = item.slice.value if isinstance(item.slice, cst.Index) else None
            for part in filter(None, (*parts, index)):
                is_key = isinstance(part, cst.SimpleString) or is_none(part)  # None: a new dimension of an array
                if not is_key and not self._is_counter(part) and not self._is_constant(part, depth - 1):
                    return False
        return True

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

    # -- names

    def _is_constant_name(self, node: cst.Name, depth: int) -> bool:
        if node.value in ("True", "False") or NUMBERS.fullmatch(self._module.name_of(node) or ""):
            return True
        home = self._module.names.home_of(node)
        if home is None:
            return False
        if isinstance(home.node, cst.Module) and self._tree.function_of(node) is not None:
            return self._is_fixed(home, node.value, depth - 1)
        reached = self._module.values.reaching.of(node)
        param = self._module.names.parameter(node, rebound=True)
        if param is not None and any(item.node is param for item in reached):
            return self._is_constant_parameter(param, reached, depth - 1)
        if not reached or (len(home.bindings[node.value]) > 1 and isinstance(home.node, cst.Module)):
            return False
        if self._is_filled(home, node.value, depth - 1):
            return False
        if len(reached) > 1 and not all(self._runs_alike(item.node, home.node, depth - 1) for item in reached):
            return False  # what decides between them may differ
        return all(self._is_bound_to_constant(item, depth - 1) for item in reached)

    def _is_bound_to_constant(self, binding: Binding, depth: int) -> bool:
        """Whether a binding in a function gives its name a constant: also for each item in a comprehension."""
        value = binding.value
        if depth > 0 and isinstance(binding.node, cst.AugAssign):
            return self._is_constant_sum(binding.node, depth)
        if value is None or depth <= 0:
            return False
        if binding.kind is BindingKind.FOR:
            is_over = not self._tree.within(self._place, binding.node)
            return (is_over or isinstance(binding.node, cst.CompFor)) and self._is_constant(value, depth)
        if binding.kind is not BindingKind.ASSIGN:
            return False
        if binding.path:
            taken = unpacked(value, binding.path)
            return self._is_chosen(value, binding.path, depth) or self._is_constant(taken or value, depth)
        is_empty = isinstance(value, (cst.List, cst.Dict)) and not value.elements
        return is_empty or self._is_constant(value, depth)

    def _is_constant_sum(self, added: cst.AugAssign, depth: int) -> bool:
        """Whether ``mask += [1] * self.length`` adds a constant to constants."""
        reached = self._module.values.reaching.of(added.target) if isinstance(added.target, cst.Name) else []
        others = [item for item in reached if item.node is not added]
        function = self._tree.function_of(added)
        return (
            bool(others)
            and function is not None
            and all(self._runs_alike(item, function, depth) for item in (added, *(other.node for other in others)))
            and self._is_constant(added.value, depth)
            and all(self._is_bound_to_constant(item, depth) for item in others)
        )

    def _is_filled(self, home: Scope, name: str, depth: int) -> bool:
        """Whether a function fills a variable of its own with other things than constants, or not always alike."""
        for use in self._module.names.uses_in(home, name):
            put = self._put_at(use)
            if put is None:
                continue
            statement, values = put
            if not self._are_constant(values, depth) or not self._runs_alike(statement, home.node, depth):
                return True
        return False

    def _put_at(self, use: cst.Name) -> tuple[cst.CSTNode, list[cst.BaseExpression]] | None:
        """Where a use of a list puts something into it, and what: ``x.append(value)``, ``x[key] = value``."""
        above = self._tree.parent(use)
        call = self._tree.parent(above) if isinstance(above, cst.Attribute) else None
        if isinstance(above, cst.Attribute) and isinstance(call, cst.Call) and call.func is above:
            adds = above.attr.value in LIST_ADDING or changes_in_place(above.attr.value)
            return (call, [item.value for item in call.args]) if adds else None
        if not isinstance(above, cst.Subscript):
            return None
        target = self._tree.parent(above)
        statement = self._tree.statement_of(use)
        if not isinstance(target, (cst.AssignTarget, cst.AugAssign)) or not isinstance(
            statement, (cst.Assign, cst.AugAssign)
        ):
            return None
        key = index_of(above)
        return statement, [statement.value, *([key] if key is not None else [])]

    def _runs_alike(self, node: cst.CSTNode, function: cst.CSTNode, depth: int) -> bool:
        """Whether only loops over constants, and conditions on them, decide how often ``node`` runs in a function."""
        for above, child in climb(self._tree, node):
            if above is function:
                break
            if isinstance(above, (cst.While, *HANDLERS)):
                return False
            if isinstance(above, cst.For) and child is above.body and not self._is_constant(above.iter, depth):
                return False
            if isinstance(above, cst.If) and child is not above.test and not self._is_constant(above.test, depth):
                return False
        return True

    def _is_fixed(self, home: Scope, name: str, depth: int) -> bool:
        """Whether a variable of a file gets its value when the file is imported, and no function changes it."""
        function_of, bindings = self._tree.function_of, home.bindings.get(name, [])
        if depth <= 0 or not bindings:
            return False
        for item in bindings:
            is_set = item.kind in (BindingKind.ASSIGN, BindingKind.AUGMENT) and item.value is not None
            is_repeated = nearest(self._tree, item.node, cst.For, cst.While) is not None
            if not is_set or is_repeated or function_of(item.node) is not None:
                return False
            is_empty = isinstance(item.value, (cst.List, cst.Dict)) and not item.value.elements
            if is_empty or self._module.value(item.value).kind in _NO_DATA:
                return False
        stores = self._module.fact(Stores)
        puts = [place for held, _, place in stores.containers.get(name, ()) if self._refers_to(held, home, name)]
        puts += [use for use in self._module.names.uses_in(home, name) if is_changed_at(self._tree, use)]
        sets = [held for held, _, _ in stores.attributes.get(name, ()) if home in self._module.names.modules(held)]
        return not sets and all(self._runs_at_import(place, home, depth) for place in puts)

    def _runs_at_import(self, node: cst.CSTNode, home: Scope, depth: int) -> bool:
        """Whether the top level of a file runs ``node``, or a function that only the top level of the file calls."""
        function = self._module.function_of(node)
        if function is None:
            return self._runs_alike(node, home.node, depth)
        calls = self._module.callers(function).calls
        return bool(calls) and all(self._tree.function_of(call) is None for call in calls)

    def _refers_to(self, node: cst.BaseExpression, home: Scope, name: str) -> bool:
        """Whether ``node`` is a variable of a file, in that file or as an attribute of its module."""
        if isinstance(node, cst.Name):
            return self._module.names.defined(node) == (home, name)
        return isinstance(node, cst.Attribute) and home in self._module.names.modules(node.value)

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
            and self._attributes.is_set_by_constructors(key.attr.value)
            and len(taken) == len(value.value.elements)
            and all(item is not None and self._is_constant(item, depth) for item in taken)
        )

    def _is_constant_parameter(self, param: cst.Param, reached: list[Binding], depth: int) -> bool:
        """Whether every call of a function gives a parameter a constant, or None if that is replaced by one."""
        function = owner_of(self._tree, param)
        others = [item for item in reached if item.node is not param]
        if function is None or not all(self._replaces_none(item, param, function, depth) for item in others):
            return False
        calls = self._module.callers(function).calls
        filled = self._module.fact(Stores).containers.get(param.name.value, ())
        if len(calls) > _MANY_CALLS or any(self._tree.within(place, function) for _, _, place in filled) or param.star:
            return False
        is_option = self._is_option(param)
        if not is_option and (not calls or any(item.star for call in calls for item in call.args)):
            return False
        given = ((call, self._module.definitions.argument_of(call, function, param) or param.default) for call in calls)
        return all(
            item is not None and (self._is_constant_at(call, item, depth) or (bool(others) and is_none(item)))
            for call, item in given
        )

    def _is_option(self, param: cst.Param) -> bool:
        """Whether a parameter is declared as a number and has a default, which callers out of sight do not vary."""
        annotation = param.annotation.annotation if param.annotation is not None else None
        is_number = isinstance(annotation, cst.Name) and annotation.value in ("int", "float")
        return is_number and param.default is not None and self._is_constant(param.default, 1)

    def _replaces_none(self, binding: Binding, param: cst.Param, function: cst.FunctionDef, depth: int) -> bool:
        """``if kernel is None: kernel = [1] * factor``."""
        if binding.kind is not BindingKind.ASSIGN or binding.path or binding.value is None:
            return False
        guards = (item.guard for item in branches(self._tree, binding.node, function))
        asked = [asked_for_none(guard.test, cst.Is) for guard in guards if guard is not None]
        is_missing = any(isinstance(item, cst.Name) and item.value == param.name.value for item in asked)
        return is_missing and self._is_constant(binding.value, depth)

    def _is_constant_attribute(self, node: cst.Attribute, depth: int) -> bool:
        """``constants.MEAN`` of a module of the project, ``x.T`` of a constant, ``self.mean``, ``args.scale``."""
        modules = self._module.names.modules(node.value)
        if (self._module.name_of(node) or "").partition(".")[0] in ("numpy", "torch", "math"):
            return True  # a number or a type
        if modules:
            return all(self._is_fixed(home, node.attr.value, depth - 1) for home in modules)
        return (node.attr.value == "T" and self._is_constant(node.value, depth - 1)) or self._attributes.is_fixed(
            node, depth
        )


def _parts(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The expressions that decide the value of ``node``; none if other things do, too."""
    if isinstance(node, cst.UnaryOperation):
        return [node.expression]
    if isinstance(node, (cst.BinaryOperation, cst.BooleanOperation)):
        return [node.left, node.right]
    if isinstance(node, cst.IfExp):
        return [node.test, node.body, node.orelse]
    if isinstance(node, cst.Comparison):
        return [node.left, *(item.comparator for item in node.comparisons)]
    if isinstance(node, (cst.List, cst.Tuple)):
        return (
            []
            if any(isinstance(item, cst.StarredElement) for item in node.elements)
            else [item.value for item in node.elements]
        )
    if isinstance(node, cst.Dict):
        pairs = [item for item in node.elements if isinstance(item, cst.DictElement)]
        return [part for item in pairs for part in (item.key, item.value)] if len(pairs) == len(node.elements) else []
    if isinstance(node, (cst.ListComp, cst.GeneratorExp)):
        parts: list[cst.BaseExpression] = [node.elt]
        over: cst.CompFor | None = node.for_in
        while over is not None:
            parts += [over.iter, *(item.test for item in over.ifs)]
            over = over.inner_for_in
        return parts
    return []


def is_changed_at(tree: Tree, use: cst.Name) -> bool:
    """Whether a use of a tensor writes to it: ``x[0] = 1``, ``x.fill_(1)``."""
    above = tree.parent(use)
    if isinstance(above, cst.Attribute):
        return changes_in_place(above.attr.value)
    return isinstance(above, cst.Subscript) and isinstance(tree.parent(above), (cst.AssignTarget, cst.AugAssign))
