"""Functions that return what they are given: ``x``, ``x.to(device)``, ``tqdm(x)``, ``Progress(x)``."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from torchlint.model.semantics.definitions import Definitions
from torchlint.model.semantics.evaluator import Evaluator
from torchlint.model.semantics.knowledge import ITERATION_WRAPPERS, Kind
from torchlint.model.semantics.names import Names
from torchlint.model.semantics.reaching import Reaching
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import is_attribute_of_self
from torchlint.model.syntax.parameters import owner_of
from torchlint.model.syntax.scopes import Binding
from torchlint.model.syntax.tree import Tree

#: How many names a parameter is followed through, and how many bindings of each.
_DEPTH, _MAX_BINDINGS = 4, 8
#: The function that makes a tensor of an array, and takes nothing else.
_CONVERSION = "torch.from_numpy"
#: The parameter that an expression is, and the calls of its methods, ``x.to(device)``, that may have replaced it.
_Found = tuple[cst.Param | None, tuple[cst.Call, ...]]
_NOTHING: _Found = (None, ())


class HandedBack:
    """Answers for one forest."""

    def __init__(self, tree: Tree, names: Names, definitions: Definitions, reaching: Reaching) -> None:
        self._tree = tree
        self._names = names
        self._definitions = definitions
        self._reaching = reaching
        self._returned: dict[cst.FunctionDef, _Found] = {}

    def of(self, call: cst.Call, function: cst.FunctionDef) -> tuple[cst.BaseExpression | None, tuple[cst.Call, ...]]:
        """What ``call`` passes for the one parameter that ``function`` returns; None if it may return anything else.

        And the calls that may have replaced it before: of its methods, or of `torch.from_numpy` if it is an array.
        """
        if function not in self._returned:
            is_generator = bool(self._definitions.yields(function))
            returns = () if is_generator else self._definitions.returns(function)
            self._returned[function] = self._same(self._parameter(item, _DEPTH) for item in returns)
        param, made = self._returned[function]
        return (self._definitions.argument_of(call, function, param) if param is not None else None), made

    def same(self, call: cst.Call, function: cst.FunctionDef, values: Evaluator) -> cst.BaseExpression | None:
        """What ``call`` gets back as it is: a value that is known, and a tensor if arrays are converted."""
        handed, replaced = self.of(call, function)
        given = values.of(handed)
        is_array = given.kind not in (Kind.TENSOR, Kind.BATCH)
        changes = any(is_array or self._names.resolve(item.func) != _CONVERSION for item in replaced)
        return handed if given and not changes else None

    def _same(self, alternatives: Iterable[_Found]) -> _Found:
        """The parameter that all ``alternatives`` are, with the calls of each; nothing if one is something else."""
        same: cst.Param | None = None
        calls: list[cst.Call] = []
        for param, made in alternatives:
            if param is None or (same is not None and param is not same):
                return _NOTHING
            same = param
            calls += made
        return same, tuple(calls)

    def _parameter(self, node: cst.BaseExpression | None, depth: int) -> _Found:
        """The parameter that ``node`` is, whose items an object passes on, or that is converted to a tensor."""
        if isinstance(node, cst.Call) and node.args and self._names.resolve(node.func) == _CONVERSION:
            param, made = self._parameter(node.args[0].value, depth)
            return (param, (*made, node)) if param is not None else _NOTHING
        if isinstance(node, cst.IfExp):
            return self._same(self._parameter(side, depth) for side in (node.body, node.orelse))
        if isinstance(node, cst.Call) and node.args:
            node = self._passed_on_by(node)
        bindings = self._reaching.of(node) if isinstance(node, cst.Name) and depth > 0 else []
        if len(bindings) > _MAX_BINDINGS:
            return _NOTHING
        own = [item.value for item in bindings if isinstance(item.value, cst.Call) and self._replaces(item)]
        param, made = self._same(self._bound(item, depth) for item in bindings if item.value not in own)
        return (param, (*made, *own)) if param is not None else _NOTHING

    def _bound(self, binding: Binding, depth: int) -> _Found:
        if binding.kind is BindingKind.PARAM and isinstance(binding.node, cst.Param):
            return binding.node, ()
        return (
            self._parameter(binding.value, depth - 1)
            if binding.kind is BindingKind.ASSIGN and not binding.path
            else _NOTHING
        )

    def _replaces(self, binding: Binding) -> bool:
        """Whether a name is bound to what a method of it returns: ``x = x.to(device)``."""
        func = binding.value.func if isinstance(binding.value, cst.Call) and not binding.path else None
        owner = func.value if isinstance(func, cst.Attribute) and binding.kind is BindingKind.ASSIGN else None
        return isinstance(owner, cst.Name) and owner.value == binding.name

    def _is_progress_bar(self, node: cst.Call) -> bool:
        name = self._names.resolve(node.func)
        return name in ITERATION_WRAPPERS and not name.startswith(("builtins.", "itertools."))

    def _passed_on_by(self, node: cst.Call) -> cst.BaseExpression:
        """What ``node`` makes an object of whose items are the same: a progress bar, or an object of a class."""
        if self._is_progress_bar(node):
            return node.args[0].value
        classes = self._definitions.named(node.func)
        attribute = self._passed_on(classes[0]) if len(classes) == 1 and isinstance(classes[0], cst.ClassDef) else None
        bound = self._tree.scopes[classes[0]].attributes.get(attribute, []) if attribute is not None else []
        constructor = self._definitions.method(classes[0], "__init__") if len(bound) == 1 else None
        param = self._parameter(bound[0].value, _DEPTH)[0] if len(bound) == 1 and not bound[0].path else None
        if constructor is None or param is None or owner_of(self._tree, param) is not constructor:
            return node
        return self._definitions.argument_of(node, constructor, param) or node

    def _passed_on(self, definition: cst.ClassDef) -> str | None:
        """``batches`` of a class whose ``__iter__`` yields the items of ``self.batches``; None of other classes."""
        method = self._definitions.method(definition, "__iter__")
        if method is None:
            return None
        over: list[cst.BaseExpression | None] = [*self._definitions.delegated(method)]
        for item in self._definitions.yields(method):
            bound = self._reaching.only(item) if isinstance(item, cst.Name) else None
            is_item = bound is not None and bound.kind is BindingKind.FOR and not bound.path
            over.append(bound.value if bound is not None and is_item else None)
        names = {item.attr.value if item is not None and is_attribute_of_self(item) else None for item in over}
        return names.pop() if len(names) == 1 else None
