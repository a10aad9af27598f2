"""What changes the dataset of a loader between two epochs."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.model.data.lightning import Lightning
from torchlint.model.data.loaders import Loaders
from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.dotted import PARTS, base_of, dotted_name, is_attribute_of_self, prefixes
from torchlint.model.training.loops import Loops

#: Methods that only return information about a dataset.
GETTERS = re.compile(
    r"^(get|is|has|num|print|show|plot|draw|save|write|dump|export|log|info|describe|summary|report|close"
    r"|(run_)?eval(uate)?|compute)(_|$)|^__len__$"
)
#: How many calls of functions are followed that change a dataset for what makes it.
_DEPTH = 3
#: What Lightning runs before it asks for loaders.
_BEFORE_LOADERS = frozenset({"__init__", "prepare_data", "setup"})


class DatasetChanges:
    """Answers about the loaders of one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._before: dict[tuple[cst.CSTNode | None, cst.CSTNode, int], bool] = {}
        self._after: dict[tuple[cst.FunctionDef, cst.Call, int], bool] = {}

    def between(self, loader: Call, epochs: cst.CSTNode) -> cst.CSTNode | None:
        """A place that changes the dataset once the workers run; persistent workers would not see the change.

        ``epochs`` is what iterates over ``loader`` repeatedly.
        """
        found = (self._change(call, epochs) for call in self._module.fact(Loaders).creating_calls(loader))
        return next((node for node in found if node is not None), None) or self._handed_over(loader)

    def _handed_over(self, loader: Call) -> cst.CSTNode | None:
        """Where a stream has its items made by an object other than a dataset: a worker keeps a copy of that."""
        made = self._module.value(loader.argument("dataset").value).definition
        method = self._module.definitions.method(made, "__iter__") if isinstance(made, cst.ClassDef) else None
        for item in self._module.definitions.returns(method) if method is not None else ():
            func = item.func if isinstance(item, cst.Call) else None
            if isinstance(func, cst.Attribute) and is_attribute_of_self(func.value):
                owner = self._module.value(func.value)
                if isinstance(owner.definition, cst.ClassDef) and owner.kind is not Kind.DATASET:
                    return item
        return None

    def _change(self, loader: Call, epochs: cst.CSTNode) -> cst.CSTNode | None:
        for target, _, statement in self._tree.stores:
            owner = target.value if isinstance(target, (cst.Attribute, cst.Subscript)) else None
            if owner is None or self._comes_before(statement, epochs) or self._is_of_other_script(statement, epochs):
                continue
            if self._comes_after(statement, loader) and self._is_dataset(owner, loader):
                return statement
        for call in self._tree.calls:
            if not isinstance(self._tree.parent(call), cst.Expr) or self._comes_before(call, epochs):
                continue
            if self._is_of_other_script(call, epochs) or not self._comes_after(call, loader):
                continue
            changed = [item.value.value for item in call.args if isinstance(item.value, cst.Attribute)]
            if not (self._module.name_of(call.func) or "").endswith("shuffle"):  # random.shuffle(dataset.items)
                changed = []
            if isinstance(call.func, cst.Attribute) and not GETTERS.search(call.func.attr.value):
                changed.append(call.func.value)
            if any(self._is_dataset(owner, loader) for owner in changed):
                return call
        return None

    def _is_dataset(self, node: cst.CSTNode, loader: Call) -> bool:
        """Whether ``node`` is the dataset of ``loader``, or a part of it: ``loader.dataset``, ``data.transform``."""
        given = loader.argument("dataset").value
        text, own = dotted_name(node), dotted_name(given)
        is_alike = own is not None and own != "self" and (text == own or (text or "").startswith(own + "."))
        if is_alike and self._is_same_name(node, given, loader):
            # a list of the same name in another function is another variable
            same = self._module.function_of(node) is self._module.function_of(loader.node)
            if same or self._module.value(node).kind is not Kind.SEQUENCE:
                return True
        home = self._module.function_of(loader.node)
        for stored in self._module.values.stored(text or "") if own is not None else ():  # `self.dataset = dataset`
            if dotted_name(stored) == own and stored is not None and self._module.function_of(stored) is home:
                return True
        for part in (node, *prefixes(node)):
            if isinstance(part, cst.Attribute) and part.attr.value == "dataset":
                value = self._module.value(part.value)
                if value.kind is Kind.LOADER:
                    return not value.origins or loader.node in value.origins
        value = self._module.value(base_of(node, PARTS))
        return value.kind is Kind.DATASET and bool(value.origins & self._module.value(given).origins)

    def _is_same_name(self, node: cst.CSTNode, given: cst.BaseExpression | None, loader: Call) -> bool:
        """Whether two equal dotted names begin with the same variable: another script has its own names."""
        if self._tree.root_of(node) is self._tree.root_of(loader.node):
            return True
        first, second = base_of(node, {cst.Attribute}), base_of(given, {cst.Attribute})
        if not (isinstance(first, cst.Name) and isinstance(second, cst.Name)):
            return False
        bound = [{binding.node for binding in self._module.names.bindings(base)} for base in (first, second)]
        return not bound[0].isdisjoint(bound[1])

    def _comes_before(self, node: cst.CSTNode, epochs: cst.CSTNode, depth: int = _DEPTH) -> bool:
        """Whether ``node`` runs once in the function around ``epochs``, before that, itself or by calls there."""
        function = self._module.function_of(node)
        if function is not self._module.function_of(epochs):
            key = (function, epochs, depth)
            if key not in self._before:
                self._before[key] = function is not None and self._is_run_before(function, epochs, depth)
            return self._before[key]
        if self._tree.within(node, epochs):
            return False
        return self._tree.index(node) < self._tree.index(epochs) and not self._module.fact(Loops).around(node)

    def _is_run_before(self, function: cst.FunctionDef, epochs: cst.CSTNode, depth: int) -> bool:
        """Whether each call of a function runs once before ``epochs``."""
        callers = self._module.callers(function) if depth > 0 else None
        calls = callers.calls if callers is not None and callers.complete else ()
        own = [call for call in calls if not self._is_of_other_script(call, epochs)]
        return bool(own) and all(self._comes_before(call, epochs, depth - 1) for call in own)

    def _is_of_other_script(self, node: cst.CSTNode, epochs: cst.CSTNode) -> bool:
        """Whether ``node`` is in a file that no other one imports, and ``epochs`` in another file."""
        root = self._tree.root_of(node)
        return root is not self._tree.root_of(epochs) and not self._module.links.is_imported(root)

    def _comes_after(self, node: cst.CSTNode, loader: Call, depth: int = _DEPTH) -> bool:
        """Whether ``node`` may run once the loader exists: not before, nor for what is not its dataset yet."""
        function = self._module.function_of(node)
        if function is self._module.function_of(loader.node):
            return self._tree.index(node) > self._tree.index(loader.node)
        if function is None:
            return True
        key = (function, loader.node, depth)
        if key not in self._after:
            self._after[key] = not (
                self._constructs_dataset(function)
                or self._makes_dataset(function, loader)
                or self._sets_up(function, loader)
                or self._is_called_before(function, loader, depth)
            )
        return self._after[key]

    def _is_called_before(self, function: cst.FunctionDef, loader: Call, depth: int) -> bool:
        """Whether each call of a function runs before the loader exists: a part of what makes the dataset."""
        callers = self._module.callers(function)
        is_known = depth > 0 and callers.complete and bool(callers.calls)
        return is_known and not any(self._comes_after(call, loader, depth - 1) for call in callers.calls)

    def _sets_up(self, function: cst.FunctionDef, loader: Call) -> bool:
        """Whether Lightning runs a method before the hook of its class that creates the loader."""
        hook = self._module.function_of(loader.node)
        is_hook = function.name.value in _BEFORE_LOADERS and loader.node in self._module.fact(Lightning).hooks
        return is_hook and hook is not None and self._tree.class_of(function) is self._tree.class_of(hook)

    def _constructs_dataset(self, function: cst.FunctionDef) -> bool:
        """Whether a function is the constructor of a dataset, which changes the dataset that it wraps."""
        return function.name.value == "__init__" and self._module.values.object_of(function).kind is Kind.DATASET

    def _makes_dataset(self, function: cst.FunctionDef, loader: Call) -> bool:
        """Whether a function creates the dataset of ``loader`` and returns it: what it changes, it changes before."""
        made = self._module.value(loader.argument("dataset").value).origins
        returned = (self._module.value(item) for item in self._module.definitions.returns(function) if item)
        parts = (part for value in returned for part in (value, *value.elements))
        return any(self._tree.within(origin, function) for part in parts for origin in part.origins & made)
