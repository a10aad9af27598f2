"""Keyword arguments in dictionaries: what ``**options`` passes to a call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import libcst as cst

from torchlint.model.semantics import knowledge
from torchlint.model.semantics.definitions import Definitions
from torchlint.model.semantics.dict_reads import MAKERS, READING_METHODS, READING_NODES, DictReads
from torchlint.model.semantics.members import RECORDS
from torchlint.model.semantics.names import Names
from torchlint.model.semantics.object_items import ObjectItems
from torchlint.model.semantics.values import Values
from torchlint.model.semantics.written import Written
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import Entries
from torchlint.model.syntax.climbing import nearest
from torchlint.model.syntax.dotted import called_name, index_of
from torchlint.model.syntax.literals import is_none
from torchlint.model.syntax.parameters import owner_of
from torchlint.model.syntax.scopes import Binding
from torchlint.model.syntax.tree import Tree

#: How many names, calls and copies a dictionary is followed through.
_DEPTH = 6

_NOTHING = Entries()
_UNKNOWN = Entries(known=False, usual=False)
_KEPT = Entries(known=False)


@dataclass(frozen=True, eq=False)
class _Change:
    """Code that changes the entry of a dictionary."""

    node: cst.CSTNode
    entries: Entries


class Keywords:
    """Answers for one forest."""

    def __init__(self, tree: Tree, names: Names, definitions: Definitions, values: Values, written: Written) -> None:
        self._tree = tree
        self._names = names
        self._definitions = definitions
        self._values = values
        self._written = written
        self._reads = DictReads(tree, names, definitions, values)
        self._objects = ObjectItems(names, values, written)
        self._passed: dict[tuple[cst.Call, str], Entries] = {}

    def passed(self, call: cst.Call, name: str) -> Entries:
        """What the dictionaries that ``call`` unpacks give for the parameter ``name``."""
        key = (call, name)
        known = self._passed.get(key)
        if known is not None:
            return known
        found, is_final = self._values.guard(key, lambda: self._find_passed(call, name), _UNKNOWN)
        if is_final:
            self._passed[key] = found
        return found

    def _find_passed(self, call: cst.Call, name: str) -> Entries:
        found = _NOTHING
        for argument in call.args:
            if argument.star == "*":
                found = found.updated(self._positional(argument.value))
            elif argument.star == "**":
                found = found.updated(self.entries(argument.value, name))
        return found

    def _positional(self, node: cst.BaseExpression) -> Entries:
        """What ``*args`` may pass for a parameter: nothing if no call of the function around adds anything to it."""
        bindings = self._names.bindings(node) if isinstance(node, cst.Name) else []
        is_star = len(bindings) == 1 and bindings[0].kind is BindingKind.STAR
        function = owner_of(self._tree, bindings[0].node) if is_star else None
        if function is None or function.params.star_arg is not bindings[0].node:
            return _UNKNOWN
        calls, complete = self._written.calls_of(function)
        is_open = any(item.star == "*" for call in calls for item in call.args)
        is_empty = bool(calls) and not is_open and not self._definitions.extra_arguments(function, self._values)
        return Entries(known=complete, usual=complete) if is_empty else _UNKNOWN

    def entries(self, node: cst.BaseExpression | None, key: str | int, depth: int = _DEPTH) -> Entries:
        """What the dictionary ``node`` may contain under ``key``."""
        if depth <= 0 or node is None:
            return _UNKNOWN
        found = self._entries(node, key, depth)
        return found if found.known or found.values else self._objects.entries(node, key) or found

    def _entries(self, node: cst.BaseExpression, key: str | int, depth: int) -> Entries:
        if isinstance(node, cst.Dict):
            return self._display(node, key, depth)
        if isinstance(node, cst.Call):
            return self._call(node, key, depth)
        if isinstance(node, cst.IfExp):
            return _joined(self.entries(side, key, depth - 1) for side in (node.body, node.orelse))
        if isinstance(node, cst.BooleanOperation) and isinstance(node.operator, cst.Or):
            return self._with_default(node, key, depth)
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.BitOr):
            return self.entries(node.left, key, depth - 1).updated(self.entries(node.right, key, depth - 1))
        if isinstance(node, (cst.Name, cst.Attribute)):
            return self._variable(node, key, depth)
        return self._nested(node, key, depth) if isinstance(node, cst.Subscript) else _UNKNOWN

    def _with_default(self, node: cst.BooleanOperation, key: str | int, depth: int) -> Entries:
        """What one of ``options or DEFAULTS`` may contain; only the second if the first is None as far as is known."""
        found = self.entries(node.right, key, depth - 1)
        given = self._written.sources(node.left)
        if given is not None and all(map(is_none, given.values)):
            return found if given.complete else replace(found, known=False)
        return _joined((self.entries(node.left, key, depth - 1), found))

    def _nested(self, node: cst.Subscript, key: str | int, depth: int) -> Entries:
        """What a dictionary in a dictionary may contain: ``config["train"]`` of ``config["train"]["workers"]``."""
        outer = self._key(node)
        held = self.entries(node.value, outer, depth - 1) if isinstance(outer, (str, int)) else _UNKNOWN
        if not held.values:
            return _UNKNOWN
        found = _joined(self.entries(value, key, depth - 1) for value in held.values)
        changes = self._may_change_inside(node)
        is_whole = held.certain and held.known and not changes
        return found if is_whole else replace(found, known=False, usual=found.usual and held.usual and not changes)

    def _may_change_inside(self, node: cst.Subscript) -> bool:
        """Whether other code may change the dictionary ``node``, which is in a dictionary with a name."""
        keys = [self._key(node)]
        base = node.value
        while isinstance(base, cst.Subscript):
            keys.insert(0, self._key(base))
            base = base.value
        if not isinstance(base, (cst.Name, cst.Attribute)):
            return True
        bindings = self._values.reaching.of(base) if isinstance(base, cst.Name) else self._names.members(base) or []
        parts = [self._part(use, keys) for use in self._uses(base, bindings)]
        return any(part is not node and not self._reads.is_read(part, _DEPTH) for part in parts if part is not None)

    def _part(self, use: cst.BaseExpression, keys: list[object]) -> cst.Subscript | None:
        """What of a dictionary the code around ``use`` takes, if that may be what is under ``keys`` or around it."""
        item, inner = use, self._tree.parent(use)
        for key in keys:
            if not isinstance(inner, cst.Subscript):
                break
            if self._key(inner) not in (None, key):
                return None
            item, inner = inner, self._tree.parent(inner)
        return item if isinstance(item, cst.Subscript) else None

    def _key(self, node: cst.Subscript) -> object:
        """The constant that ``node`` is indexed with; None if it is unknown."""
        return self._values.of(index_of(node)).constant

    def _display(self, node: cst.BaseExpression, key: str | int, depth: int) -> Entries:
        found = _NOTHING
        for own, value in _pairs(node):
            constant = self._values.of(own).constant
            if own is None:
                found = found.updated(self.entries(value, key, depth - 1))
            elif constant == key:
                found = Entries((value,), True)
            elif constant is None:
                found = found.updated(_UNKNOWN)
        return found

    def _call(self, node: cst.Call, key: str | int, depth: int) -> Entries:
        name = self._names.resolve(node.func)
        first = node.args[0] if node.args else None
        if name in knowledge.COPIES and first is not None:
            return self.entries(first.value, key, depth - 1)
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == "copy" and not node.args:
            return self.entries(node.func.value, key, depth - 1)
        if name in MAKERS:
            return self._arguments(node, key, depth)
        if name == "builtins.vars" and len(node.args) == 1:
            found = self.entries(node.args[0].value, key, depth - 1)
            return replace(found, known=False) if found.values else _UNKNOWN
        if called_name(node) in RECORDS:
            return replace(self._arguments(node, key, depth), known=False)
        if any(argument.star for argument in node.args):
            return _UNKNOWN
        definitions = self._definitions.called(node, self._values)
        returned = []
        for definition in definitions:
            if not isinstance(definition, cst.FunctionDef) or definition.decorators:
                return _UNKNOWN
            if self._definitions.yields(definition):
                return _UNKNOWN
            returned += self._definitions.returns(definition)
        return _joined(self.entries(value, key, depth - 1) for value in returned) if returned else _UNKNOWN

    def _arguments(self, node: cst.Call, key: str | int, depth: int) -> Entries:
        """What ``dict(...)`` and ``options.update(...)`` are given."""
        found = _NOTHING
        for argument in node.args:
            if argument.star == "*":
                return _UNKNOWN
            if argument.keyword is None:
                is_written = _pairs(argument.value)  # `dict([("workers", 4)])`
                given = self._display if is_written else self.entries
                found = found.updated(given(argument.value, key, depth - 1))
            elif argument.keyword.value == key:
                found = Entries((argument.value,), True)
        return found

    # -- names and attributes

    def _variable(self, node: cst.Name | cst.Attribute, key: str | int, depth: int) -> Entries:
        bindings = self._values.reaching.of(node) if isinstance(node, cst.Name) else self._names.members(node) or []
        if len(bindings) == 1 and bindings[0].kind is BindingKind.STAR:
            found = self._of_caller(bindings[0], key, depth)
        else:
            sources = self._written.sources(node)
            if sources is None:
                return _UNKNOWN
            unpacked = [value for value in sources.values if not is_none(value)]  # `None` has no entries to pass
            given = [self.entries(value, key, depth - 1) for value in unpacked]
            found = _joined(given) if given else _UNKNOWN
            is_display = len(sources.values) == 1 and self._is_display(sources.values[0])
            if not (sources.complete or (is_display and isinstance(node, cst.Attribute))) or (
                _differ(given) and any(item.kind is BindingKind.PARAM for item in bindings)
            ):
                found = replace(found, known=False)
        for change in self._changes(node, bindings, key, depth):
            found = self._changed(found, change, node, bindings)
        return found

    def _is_display(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is ``{...}`` or ``dict(...)``."""
        return isinstance(node, cst.Dict) or (
            isinstance(node, cst.Call) and self._names.resolve(node.func) == "builtins.dict"
        )

    def _of_caller(self, binding: Binding, key: str | int, depth: int) -> Entries:
        """What the callers of a function pass for its ``**options``."""
        function = nearest(self._tree, binding.node, cst.FunctionDef)
        if function is None or function.params.star_kwarg is not binding.node:
            return _UNKNOWN
        declared = self._values.parsers.of_command(function, str(key))
        if declared:
            values = tuple(value for value in declared if value is not None)
            return Entries(values, certain=True, known=False, usual=bool(values))
        calls, complete = self._written.calls_of(function)
        given = []
        for call in calls:
            by_keyword = [item.value for item in call.args if item.keyword is not None and item.keyword.value == key]
            given.append(Entries(tuple(by_keyword), True) if by_keyword else self._unpacked(call, key, depth))
        found = _joined(given) if given else _NOTHING
        is_known = complete and not _differ(given)
        return found if is_known else replace(found, known=False, usual=found.usual and complete)

    def _unpacked(self, call: cst.Call, key: str | int, depth: int) -> Entries:
        found = _NOTHING
        for argument in call.args:
            if argument.star == "**":
                found = found.updated(self.entries(argument.value, key, depth - 1))
        return found

    def _changed(
        self, found: Entries, change: _Change, at: cst.Name | cst.Attribute, bindings: list[Binding]
    ) -> Entries:
        """What is there at ``at`` once ``change`` may have run."""
        tree = self._tree
        function = tree.function_of(at)
        if tree.function_of(change.node) is function:
            is_local = bool(bindings) and all(
                tree.function_of(item.node) is function for item in bindings if not isinstance(item.node, cst.Param)
            )
            if is_local and tree.index(change.node) < min(item.order for item in bindings):
                return found  # of what the name was bound to before
            if tree.dominates(change.node, at):
                return found.updated(change.entries)
            if tree.exclusive(change.node, at):
                return found
            if is_local and tree.index(change.node) > tree.index(at) and not self._share_loop(change.node, at):
                return found
        return found.updated(replace(change.entries, certain=False))

    def _share_loop(self, one: cst.CSTNode, other: cst.CSTNode) -> bool:
        return any(
            isinstance(above, (cst.For, cst.While)) and self._tree.within(one, above)
            for above in self._tree.ancestors(other)
        )

    def _changes(
        self, node: cst.Name | cst.Attribute, bindings: list[Binding], key: str | int, depth: int
    ) -> Iterator[_Change]:
        """What may change the entry of a dictionary that is known by a name, in order."""
        for use in self._uses(node, bindings):
            entries = self._change(use, key, depth) if use is not node else None
            if entries is not None:
                yield _Change(use, entries)

    def _uses(self, node: cst.Name | cst.Attribute, bindings: list[Binding]) -> list[cst.BaseExpression]:
        """Where else the same variable is used."""
        name = node.value if isinstance(node, cst.Name) else node.attr.value
        places = {binding.node for binding in bindings}
        found: list[cst.BaseExpression] = []
        if isinstance(node, cst.Name) or bindings:
            found += [
                use
                for use in self._tree.names.get(name, ())
                if any(binding.node in places for binding in self._names.bindings(use))
            ]
            found += [
                use
                for use in self._tree.attributes_named(name)
                if any(binding.node in places for binding in self._names.members(use) or ())
            ]
        else:
            found += self._tree.attributes_named(name)
        return sorted(found, key=self._tree.index)

    def _change(self, use: cst.BaseExpression, key: str | int, depth: int) -> Entries | None:
        """What is known of the entry after ``use`` of the dictionary; None if it stays as it is."""
        name, above = use, self._tree.parent(use)
        while isinstance(above, cst.BooleanOperation) or (isinstance(above, cst.IfExp) and above.test is not use):
            use, above = above, self._tree.parent(above)
        if isinstance(above, cst.IfExp):
            return None
        if isinstance(above, (cst.Element, cst.StarredElement, cst.DictElement)):
            while isinstance(above, (cst.Element, cst.StarredElement, cst.DictElement, cst.Tuple, cst.List, cst.Dict)):
                above = self._tree.parent(above)
            return None if isinstance(above, cst.AssignTarget) or key not in self._reads.stored_keys else _UNKNOWN
        if above is not None and self._reads.binds(above, use, name):
            return None
        if isinstance(above, cst.Return) and isinstance(use, cst.Name):
            home = self._names.home_of(use)  # who calls the function may change what others see, too
            return None if home is not None and home.node is self._tree.function_of(use) else _UNKNOWN
        if isinstance(above, READING_NODES):
            return None
        if isinstance(above, cst.Attribute):
            return self._method(above, key, depth)
        if isinstance(above, cst.Subscript) and above.value is use:
            return self._item(above, key)
        if isinstance(above, cst.Arg):
            if above.star or self._reads.only_reads(above, depth):
                return None
        is_kept = isinstance(above, (cst.Assign, cst.Arg))  # by another name, which may not change it either
        return _KEPT if is_kept and key not in self._reads.stored_keys else _UNKNOWN

    def _method(self, method: cst.Attribute, key: str | int, depth: int) -> Entries | None:
        call = self._tree.parent(method)
        if not isinstance(call, cst.Call) or call.func is not method:
            return None
        name = method.attr.value
        if name in READING_METHODS:
            return None
        if name == "update":
            given = self._arguments(call, key, depth)
            return None if given == _NOTHING else given
        if name in ("pop", "setdefault") and call.args:
            constant = self._values.of(call.args[0].value).constant
            if constant not in (None, key):
                return None
            is_default = name == "setdefault" and constant == key and len(call.args) == 2
            return Entries((call.args[1].value,)) if is_default else _UNKNOWN
        return _UNKNOWN

    def _item(self, node: cst.Subscript, key: str | int) -> Entries | None:
        stored = self._reads.stored.get(node)
        if stored is None:
            return None
        constant = self._key(node)
        if constant is not None and constant != key:
            return None
        value = stored[0]
        return Entries((value,), True) if constant == key and value is not None else _UNKNOWN


def _pairs(node: cst.BaseExpression) -> list[tuple[cst.BaseExpression | None, cst.BaseExpression]]:
    """The keys and values of ``{"workers": 4}`` and ``[("workers", 4)]``; the key None for ``**others``."""
    if isinstance(node, cst.Dict):
        return [(item.key if isinstance(item, cst.DictElement) else None, item.value) for item in node.elements]
    pairs = [item.value for item in node.elements] if isinstance(node, (cst.List, cst.Tuple)) else []
    parts = [[part.value for part in pair.elements] for pair in pairs if isinstance(pair, (cst.List, cst.Tuple))]
    alike = len(parts) == len(pairs) and all(len(part) == 2 for part in parts)
    return [(key, value) for key, value in parts] if alike else []


def _differ(given: list[Entries]) -> bool:
    """Whether some callers pass the entry and others do not: which of them a place belongs to is not known."""
    return len({bool(item.values) for item in given}) > 1


def _joined(alternatives: Iterable[Entries]) -> Entries:
    """What one of several dictionaries may contain."""
    found = list(alternatives)
    values = tuple(dict.fromkeys(value for item in found for value in item.values))
    return Entries(
        values,
        all(item.certain for item in found),
        all(item.known for item in found),
        all(item.usual for item in found),
    )
