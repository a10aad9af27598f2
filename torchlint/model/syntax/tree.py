"""The one traversal of a file's libcst tree: parents, order, scopes, bindings, and the nodes that carry meaning."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import libcst as cst

_Node = TypeVar("_Node", bound=cst.CSTNode)

#: Fields that carry meaning, in the order in which Python evaluates them; white space and operators are left out.
_FIELDS: dict[type[cst.CSTNode], tuple[str, ...]] = {
    cst.Module: ("body",),
    cst.IndentedBlock: ("body",),
    cst.SimpleStatementLine: ("body",),
    cst.SimpleStatementSuite: ("body",),
    cst.If: ("test", "body", "orelse"),
    cst.Else: ("body",),
    cst.For: ("iter", "target", "body", "orelse"),
    cst.While: ("test", "body", "orelse"),
    cst.With: ("items", "body"),
    cst.WithItem: ("item", "asname"),
    cst.AsName: ("name",),
    cst.Try: ("body", "handlers", "orelse", "finalbody"),
    cst.TryStar: ("body", "handlers", "orelse", "finalbody"),
    cst.ExceptHandler: ("type", "name", "body"),
    cst.ExceptStarHandler: ("type", "name", "body"),
    cst.Finally: ("body",),
    cst.FunctionDef: ("decorators", "params", "returns", "body"),
    cst.Decorator: ("decorator",),
    cst.Parameters: ("posonly_params", "params", "star_arg", "kwonly_params", "star_kwarg"),
    cst.Param: ("annotation", "default"),
    cst.Annotation: ("annotation",),
    cst.ClassDef: ("decorators", "bases", "keywords", "body"),
    cst.Match: ("subject", "cases"),
    cst.MatchCase: ("guard", "body"),
    cst.Expr: ("value",),
    cst.Return: ("value",),
    cst.Assign: ("value", "targets"),
    cst.AssignTarget: ("target",),
    cst.AugAssign: ("value", "target"),
    cst.AnnAssign: ("annotation", "value", "target"),
    cst.Raise: ("exc", "cause"),
    cst.From: ("item",),
    cst.Assert: ("test", "msg"),
    cst.Del: ("target",),
    cst.Import: (),
    cst.ImportFrom: (),
    cst.Global: (),
    cst.Nonlocal: (),
    cst.Pass: (),
    cst.Break: (),
    cst.Continue: (),
    cst.Attribute: ("value",),
    cst.Call: ("func", "args"),
    cst.Arg: ("value",),
    cst.Subscript: ("value", "slice"),
    cst.SubscriptElement: ("slice",),
    cst.Index: ("value",),
    cst.Slice: ("lower", "upper", "step"),
    cst.BinaryOperation: ("left", "right"),
    cst.BooleanOperation: ("left", "right"),
    cst.UnaryOperation: ("expression",),
    cst.Comparison: ("left", "comparisons"),
    cst.ComparisonTarget: ("comparator",),
    cst.IfExp: ("test", "body", "orelse"),
    cst.Lambda: ("params", "body"),
    cst.Tuple: ("elements",),
    cst.List: ("elements",),
    cst.Set: ("elements",),
    cst.Element: ("value",),
    cst.StarredElement: ("value",),
    cst.Dict: ("elements",),
    cst.DictElement: ("key", "value"),
    cst.StarredDictElement: ("value",),
    cst.ListComp: ("for_in", "elt"),
    cst.SetComp: ("for_in", "elt"),
    cst.GeneratorExp: ("for_in", "elt"),
    cst.DictComp: ("for_in", "key", "value"),
    cst.CompFor: ("iter", "target", "ifs", "inner_for_in"),
    cst.CompIf: ("test",),
    cst.NamedExpr: ("value", "target"),
    cst.Await: ("expression",),
    cst.Yield: ("value",),
    cst.FormattedString: ("parts",),
    cst.FormattedStringText: (),
    cst.FormattedStringExpression: ("expression",),
    cst.ConcatenatedString: ("left", "right"),
    cst.SimpleString: (),
    cst.Integer: (),
    cst.Float: (),
    cst.Imaginary: (),
    cst.Ellipsis: (),
    cst.Name: (),
}

_DEFINITIONS = frozenset({cst.FunctionDef, cst.Lambda, cst.ClassDef})
COMPREHENSIONS = (cst.ListComp, cst.SetComp, cst.GeneratorExp, cst.DictComp)


@dataclass(eq=False)
class Binding:
    """One place that gives a name (or an attribute of ``self``) its value."""

    name: str
    kind: str  #: import, assign, augment, annotation, for, with, param, function, class, except, delete
    node: cst.CSTNode  #: the statement or parameter that binds
    order: int
    value: cst.BaseExpression | None = None  #: the bound expression; for ``for`` the iterable, for ``with`` the manager
    path: tuple[int, ...] = ()  #: position in the unpacked value, -1 for a starred or unknown position
    imported: str = ""  #: what an import binds, as a dotted name


@dataclass(eq=False)
class Scope:
    """A module, class, function, lambda or comprehension, and what it binds."""

    node: cst.CSTNode
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    #: for a class: what its methods assign to attributes of ``self``
    attributes: dict[str, list[Binding]] = field(default_factory=dict)
    outer_names: set[str] = field(default_factory=set)  #: declared ``global`` or ``nonlocal``
    star_imports: list[str] = field(default_factory=list)

    @property
    def is_class(self) -> bool:
        """Whether nested functions do not see this scope's names."""
        return isinstance(self.node, cst.ClassDef)


class Tree:
    """The facts of one traversal; everything else about a file is asked of these."""

    def __init__(self, root: cst.Module, others: Sequence[cst.Module] = ()) -> None:
        """`root` is a file, `others` are more files, or parts of them."""
        self.roots = (root, *others)
        self.nodes: list[cst.CSTNode] = []
        self._index: dict[cst.CSTNode, int] = {}
        self._parents: list[int] = []
        self._last: list[int] | None = None
        self.calls: list[cst.Call] = []
        self.functions: list[cst.FunctionDef] = []
        self.classes: list[cst.ClassDef] = []
        self.loops: list[cst.For | cst.While] = []
        self.withs: list[cst.With] = []
        self.strings: list[cst.SimpleString] = []
        self.attributes: list[cst.Attribute] = []
        self.imports: list[cst.Import | cst.ImportFrom] = []
        self.names: dict[str, list[cst.Name]] = {}
        self.stores: list[tuple[cst.BaseExpression, cst.BaseExpression | None, cst.CSTNode]] = []
        self.scopes: dict[cst.CSTNode, Scope] = {each: Scope(each, None) for each in self.roots}
        self._name_scopes: dict[cst.CSTNode, Scope] = {}
        self._positions: dict[cst.CSTNode, dict[cst.CSTNode, int]] = {}
        self._root_indices: list[int] = []
        for each in self.roots:
            self._root_indices.append(len(self.nodes))
            self._walk(each)

    # -- questions about places

    def index(self, node: cst.CSTNode) -> int:
        """Position of ``node`` in evaluation order."""
        return self._index[node]

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The node that holds ``node``, None for the module."""
        above = self._parents[self._index[node]]
        return None if above < 0 else self.nodes[above]

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes around ``node``, innermost first."""
        above = self._parents[self._index[node]]
        while above >= 0:
            yield self.nodes[above]
            above = self._parents[above]

    def last(self, node: cst.CSTNode) -> int:
        """Index of the last node inside ``node``."""
        if self._last is None:
            self._last = list(range(len(self.nodes)))
            for i in range(len(self.nodes) - 1, 0, -1):
                above = self._parents[i]
                if above >= 0 and self._last[i] > self._last[above]:
                    self._last[above] = self._last[i]
        return self._last[self._index[node]]

    def within(self, node: cst.CSTNode, outer: cst.CSTNode) -> bool:
        """Whether ``node`` is ``outer`` or lies inside it."""
        return self._index[outer] <= self._index[node] <= self.last(outer)

    def calls_in(self, node: cst.CSTNode) -> list[cst.Call]:
        """The calls inside ``node``, in order."""
        low = bisect.bisect_left(self.calls, self._index[node], key=self._index.__getitem__)
        high = bisect.bisect_right(self.calls, self.last(node), key=self._index.__getitem__)
        return self.calls[low:high]

    def calls_between(self, low: int, high: int) -> list[cst.Call]:
        """The calls behind index ``low`` and before index ``high``, in order."""
        first = bisect.bisect_right(self.calls, low, key=self._index.__getitem__)
        return self.calls[first : bisect.bisect_left(self.calls, high, key=self._index.__getitem__)]

    def first_within(self, nodes: Sequence[_Node], outer: cst.CSTNode) -> _Node | None:
        """The first of ``nodes``, which are in order, that lies in ``outer``."""
        first = bisect.bisect_left(nodes, self._index[outer], key=self._index.__getitem__)
        return nodes[first] if first < len(nodes) and self._index[nodes[first]] <= self.last(outer) else None

    def nodes_in(self, node: cst.CSTNode) -> list[cst.CSTNode]:
        """``node`` and everything inside it, in order."""
        return self.nodes[self._index[node] : self.last(node) + 1]

    def scope_of(self, node: cst.CSTNode) -> Scope:
        """The scope in which ``node`` is evaluated."""
        known = self._name_scopes.get(node)
        if known is not None:
            return known
        child = node
        for above in self.ancestors(node):
            scope = self.scopes.get(above)
            if scope is not None and not (
                isinstance(above, (cst.FunctionDef, cst.ClassDef)) and child is not above.body
            ):
                return scope
            child = above
        return self.scopes[self.root_of(node)]

    def function_of(self, node: cst.CSTNode) -> cst.FunctionDef | cst.Lambda | None:
        """The function whose body holds ``node``, None at module or class level."""
        child = node
        for above in self.ancestors(node):
            if type(above) in _DEFINITIONS:  # asked so often that `isinstance`, ten times as slow, would be felt
                assert isinstance(above, (cst.FunctionDef, cst.Lambda, cst.ClassDef))
                if child is above.body:
                    return None if isinstance(above, cst.ClassDef) else above
            child = above
        return None

    def class_of(self, function: cst.CSTNode) -> cst.ClassDef | None:
        """The class of which ``function`` is a method."""
        for above in self.ancestors(function):
            if type(above) in _DEFINITIONS:
                return above if isinstance(above, cst.ClassDef) else None
        return None

    def statement_of(self, node: cst.CSTNode) -> cst.CSTNode:
        """The innermost statement that holds ``node`` (a small statement or a compound one)."""
        current = node
        while not isinstance(current, (cst.BaseSmallStatement, cst.BaseCompoundStatement, cst.Module)):
            current = self.nodes[self._parents[self._index[current]]]
        return current

    def top_level(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The statement of the module that holds ``node``; None where the traversal did not come to the node."""
        index = self._index.get(node)
        if index is None or self._parents[index] < 0:  # unknown, or a module itself
            return None
        while self._parents[self._parents[index]] >= 0:
            index = self._parents[index]
        return self.nodes[index]

    def root_of(self, node: cst.CSTNode) -> cst.CSTNode:
        """The file that holds ``node``."""
        return self.roots[bisect.bisect_right(self._root_indices, self._index[node]) - 1]

    def block_path(self, node: cst.CSTNode) -> list[tuple[cst.CSTNode, int, cst.CSTNode]]:
        """The blocks around ``node`` within its function, innermost first.

        Each is (block, index of the statement in it, that statement's node in the block).
        """
        path: list[tuple[cst.CSTNode, int, cst.CSTNode]] = []
        child = node
        for above in self.ancestors(node):
            if isinstance(above, (cst.IndentedBlock, cst.Module, cst.SimpleStatementSuite, cst.SimpleStatementLine)):
                position = self._position_in(above, child)
                if position is not None:
                    path.append((above, position, child))
            if isinstance(above, (cst.FunctionDef, cst.Lambda, cst.ClassDef)):
                break
            child = above
        return path

    def _position_in(
        self,
        block: cst.IndentedBlock | cst.Module | cst.SimpleStatementSuite | cst.SimpleStatementLine,
        statement: cst.CSTNode,
    ) -> int | None:
        """The index of ``statement`` in the body of ``block``, None if it is not in it."""
        positions = self._positions.get(block)
        if positions is None:
            positions = self._positions[block] = {item: index for index, item in enumerate(block.body)}
        return positions.get(statement)

    def dominates(self, first: cst.CSTNode, second: cst.CSTNode) -> bool:
        """Whether ``first`` has run whenever ``second`` (of the same function) is reached.

        A ``with`` or ``try`` body counts as running through; loops and branches do not.
        """
        if self._index[first] >= self._index[second]:
            return False
        around = {block: position for block, position, _ in self.block_path(second)}
        child = first
        for above in self.ancestors(first):
            if isinstance(above, (cst.IndentedBlock, cst.Module, cst.SimpleStatementSuite, cst.SimpleStatementLine)):
                position = around.get(above)
                if position is not None:
                    own = self._position_in(above, child)
                    return own is not None and own <= position
            elif isinstance(above, (cst.For, cst.While, cst.If, cst.Else, cst.ExceptHandler, cst.Match, cst.IfExp)):
                if child is getattr(above, "body", None) or child is getattr(above, "orelse", None):
                    if not self.within(second, child):
                        return False
            elif isinstance(above, (cst.FunctionDef, cst.Lambda, cst.ClassDef)):
                return False
            child = above
        return False

    def exclusive(self, first: cst.CSTNode, second: cst.CSTNode) -> bool:
        """Whether the two stand in different branches of one ``if``."""
        if self._index[first] > self._index[second]:
            first, second = second, first
        if self.within(second, first):
            return False
        child = first
        for above in self.ancestors(first):
            if self.within(second, above):  # the innermost node around both
                if not isinstance(above, (cst.If, cst.IfExp)):
                    return False
                return child is not above.test and not self.within(second, above.test)
            child = above
        return False

    # -- the traversal

    def _walk(self, root: cst.Module) -> None:
        fields = _FIELDS
        index, nodes, parents = self._index, self.nodes, self._parents
        stack: list[tuple[cst.CSTNode, int, Scope]] = [(root, -1, self.scopes[root])]
        while stack:
            node, above, scope = stack.pop()
            here = len(nodes)
            index[node] = here
            nodes.append(node)
            parents.append(above)
            kind = type(node)
            handler = _HANDLERS.get(kind)
            inner = scope if handler is None else handler(self, node, scope)
            names = fields.get(kind)
            if names is None:
                continue
            children: list[tuple[cst.CSTNode, int, Scope]] = []
            for name in names:
                value = getattr(node, name)
                if value is None:
                    continue
                inside = inner if inner is scope or name in _INNER_FIELDS.get(kind, ()) else scope
                if isinstance(value, (tuple, list)):
                    for item in value:
                        children.append((item, here, inside))
                elif isinstance(value, cst.CSTNode):
                    children.append((value, here, inside))
            children.reverse()
            stack.extend(children)

    def _bind(self, scope: Scope, binding: Binding) -> None:
        home = scope
        if binding.name in scope.outer_names:
            while home.parent is not None and (home is scope or home.is_class or binding.name not in home.bindings):
                home = home.parent
        while isinstance(home.node, COMPREHENSIONS) and binding.kind == "assign" and home.parent is not None:
            home = home.parent  # a walrus binds in the scope around the comprehension
        home.bindings.setdefault(binding.name, []).append(binding)

    def _bind_target(
        self,
        target: cst.CSTNode,
        scope: Scope,
        kind: str,
        statement: cst.CSTNode,
        value: cst.BaseExpression | None,
        path: tuple[int, ...] = (),
    ) -> None:
        order = self._index[statement]
        if isinstance(target, cst.Name):
            self._bind(scope, Binding(target.value, kind, statement, order, value, path))
        elif isinstance(target, (cst.Tuple, cst.List)):
            starred = False
            for position, element in enumerate(target.elements):
                starred = starred or isinstance(element, cst.StarredElement)
                self._bind_target(element.value, scope, kind, statement, value, (*path, -1 if starred else position))
        elif isinstance(target, cst.Attribute):
            owner = self._class_of_self(target.value, scope)
            if owner is not None:
                name = target.attr.value
                owner.attributes.setdefault(name, []).append(Binding(name, kind, statement, order, value, path))
            self.stores.append((target, value if not path else None, statement))
        elif isinstance(target, cst.Subscript):
            self.stores.append((target, value if not path else None, statement))

    def _class_of_self(self, expression: cst.BaseExpression, scope: Scope) -> Scope | None:
        """The class scope if ``expression`` is the first parameter of the method around."""
        if not isinstance(expression, cst.Name):
            return None
        current: Scope | None = scope
        while current is not None:
            node = current.node
            if isinstance(node, cst.FunctionDef) and current.parent is not None and current.parent.is_class:
                first = node.params.posonly_params or node.params.params
                if first and first[0].name.value == expression.value:
                    return current.parent
                return None
            current = current.parent
        return None

    def _on_function(self, node: cst.FunctionDef, scope: Scope) -> Scope:
        self.functions.append(node)
        self._bind(scope, Binding(node.name.value, "function", node, self._index[node]))
        return self._function_scope(node, node.params, scope)

    def _on_lambda(self, node: cst.Lambda, scope: Scope) -> Scope:
        return self._function_scope(node, node.params, scope)

    def _function_scope(self, node: cst.CSTNode, parameters: cst.Parameters, scope: Scope) -> Scope:
        inner = Scope(node, scope)
        self.scopes[node] = inner
        order = self._index[node]
        for param in (*parameters.posonly_params, *parameters.params, *parameters.kwonly_params):
            self._bind(inner, Binding(param.name.value, "param", param, order, param.default))
        for extra in (parameters.star_arg, parameters.star_kwarg):
            if isinstance(extra, cst.Param):
                self._bind(inner, Binding(extra.name.value, "star", extra, order))
        return inner

    def _on_class(self, node: cst.ClassDef, scope: Scope) -> Scope:
        self.classes.append(node)
        self._bind(scope, Binding(node.name.value, "class", node, self._index[node]))
        inner = Scope(node, scope)
        self.scopes[node] = inner
        return inner

    def _on_comprehension(self, node: cst.CSTNode, scope: Scope) -> Scope:
        inner = Scope(node, scope)
        self.scopes[node] = inner
        return inner

    def _on_comp_for(self, node: cst.CompFor, scope: Scope) -> Scope:
        self._bind_target(node.target, scope, "for", node, node.iter)
        return scope

    def _on_name(self, node: cst.Name, scope: Scope) -> Scope:
        self._name_scopes[node] = scope
        self.names.setdefault(node.value, []).append(node)
        return scope

    def _on_call(self, node: cst.Call, scope: Scope) -> Scope:
        self.calls.append(node)
        return scope

    def _on_attribute(self, node: cst.Attribute, scope: Scope) -> Scope:
        self.attributes.append(node)
        return scope

    def _on_string(self, node: cst.SimpleString, scope: Scope) -> Scope:
        self.strings.append(node)
        return scope

    def _on_for(self, node: cst.For, scope: Scope) -> Scope:
        self.loops.append(node)
        self._bind_target(node.target, scope, "for", node, node.iter)
        return scope

    def _on_while(self, node: cst.While, scope: Scope) -> Scope:
        self.loops.append(node)
        return scope

    def _on_with(self, node: cst.With, scope: Scope) -> Scope:
        self.withs.append(node)
        for item in node.items:
            if item.asname is not None:
                self._bind_target(item.asname.name, scope, "with", node, item.item)
        return scope

    def _on_handler(self, node: cst.CSTNode, scope: Scope) -> Scope:
        name = getattr(node, "name", None)
        if name is not None and isinstance(name.name, cst.Name):
            self._bind(scope, Binding(name.name.value, "except", node, self._index[node]))
        return scope

    def _on_assign(self, node: cst.Assign, scope: Scope) -> Scope:
        for target in node.targets:
            self._bind_target(target.target, scope, "assign", node, node.value)
        return scope

    def _on_ann_assign(self, node: cst.AnnAssign, scope: Scope) -> Scope:
        self._bind_target(node.target, scope, "assign" if node.value is not None else "annotation", node, node.value)
        return scope

    def _on_aug_assign(self, node: cst.AugAssign, scope: Scope) -> Scope:
        self._bind_target(node.target, scope, "augment", node, None)
        return scope

    def _on_named(self, node: cst.NamedExpr, scope: Scope) -> Scope:
        self._bind_target(node.target, scope, "assign", node, node.value)
        return scope

    def _on_del(self, node: cst.Del, scope: Scope) -> Scope:
        self._bind_target(node.target, scope, "delete", node, None)
        return scope

    def _on_outer(self, node: cst.CSTNode, scope: Scope) -> Scope:
        scope.outer_names.update(item.name.value for item in node.names)  # type: ignore[attr-defined]
        return scope

    def _on_import(self, node: cst.Import, scope: Scope) -> Scope:
        self.imports.append(node)
        order = self._index[node]
        for alias in node.names:
            dotted = dotted_name(alias.name)
            if dotted is None:
                continue
            if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
                self._bind(scope, Binding(alias.asname.name.value, "import", node, order, imported=dotted))
            else:
                head = dotted.partition(".")[0]
                self._bind(scope, Binding(head, "import", node, order, imported=head))
        return scope

    def _on_import_from(self, node: cst.ImportFrom, scope: Scope) -> Scope:
        self.imports.append(node)
        module = "." * len(node.relative) + (dotted_name(node.module) or "" if node.module is not None else "")
        if isinstance(node.names, cst.ImportStar):
            scope.star_imports.append(module)
            return scope
        order = self._index[node]
        for alias in node.names:
            name = dotted_name(alias.name) or ""
            bound = name
            if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
                bound = alias.asname.name.value
            imported = module + name if module.endswith(".") else f"{module}.{name}"
            self._bind(scope, Binding(bound, "import", node, order, imported=imported))
        return scope


def dotted_name(node: cst.CSTNode | None) -> str | None:
    """``a.b.c`` for a Name or a chain of Attributes, else None."""
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(node.attr.value)
        node = node.value
    if not isinstance(node, cst.Name):
        return None
    parts.append(node.value)
    return ".".join(reversed(parts))


#: Which fields of a scope-making node are evaluated in its own scope.
_INNER_FIELDS: dict[type[cst.CSTNode], tuple[str, ...]] = {
    cst.FunctionDef: ("body",),
    cst.Lambda: ("body",),
    cst.ClassDef: ("body",),
    cst.ListComp: ("for_in", "elt"),
    cst.SetComp: ("for_in", "elt"),
    cst.GeneratorExp: ("for_in", "elt"),
    cst.DictComp: ("for_in", "key", "value"),
}

_HANDLERS: dict[type[cst.CSTNode], Callable[[Tree, Any, Scope], Scope]] = {
    cst.FunctionDef: Tree._on_function,
    cst.Lambda: Tree._on_lambda,
    cst.ClassDef: Tree._on_class,
    cst.ListComp: Tree._on_comprehension,
    cst.SetComp: Tree._on_comprehension,
    cst.GeneratorExp: Tree._on_comprehension,
    cst.DictComp: Tree._on_comprehension,
    cst.CompFor: Tree._on_comp_for,
    cst.Name: Tree._on_name,
    cst.Call: Tree._on_call,
    cst.Attribute: Tree._on_attribute,
    cst.SimpleString: Tree._on_string,
    cst.For: Tree._on_for,
    cst.While: Tree._on_while,
    cst.With: Tree._on_with,
    cst.ExceptHandler: Tree._on_handler,
    cst.ExceptStarHandler: Tree._on_handler,
    cst.Assign: Tree._on_assign,
    cst.AnnAssign: Tree._on_ann_assign,
    cst.AugAssign: Tree._on_aug_assign,
    cst.NamedExpr: Tree._on_named,
    cst.Del: Tree._on_del,
    cst.Global: Tree._on_outer,
    cst.Nonlocal: Tree._on_outer,
    cst.Import: Tree._on_import,
    cst.ImportFrom: Tree._on_import_from,
}
