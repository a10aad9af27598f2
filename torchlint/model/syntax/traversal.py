"""The one traversal of libcst trees: parents, order, scopes, bindings, and the nodes that carry meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import libcst as cst

from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.syntax.scopes import Binding, Scope, captured
from torchlint.model.syntax.tables import Tables

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


class Traversal(Tables):
    """What the traversal of some files noted."""

    def _walk(self, root: cst.Module) -> None:
        steps, by_kind, name_scopes = _STEPS, self._by_kind, self._name_scopes
        index, nodes, parents = self._index, self.nodes, self._parents
        stack: list[tuple[cst.CSTNode, int, Scope]] = [(root, -1, self.scopes[root])]
        push, pop = stack.append, stack.pop
        while stack:
            node, above, scope = pop()
            here = len(nodes)
            index[node] = here
            nodes.append(node)
            parents.append(above)
            kind = type(node)
            by_kind[kind].append(node)
            if kind is cst.Name:
                name_scopes[node] = scope
                continue
            handler, fields = steps.get(kind, _NONE)
            inner = scope if handler is None else handler(self, node, scope)
            for name, is_inner in fields:
                value = getattr(node, name)
                inside = inner if is_inner else scope
                if type(value) in steps:
                    push((value, here, inside))
                elif type(value) is tuple or type(value) is list:  # much quicker than `isinstance`
                    for item in reversed(value):
                        push((item, here, inside))
                elif value is not None and isinstance(value, cst.CSTNode):
                    push((value, here, inside))

    def _bind(self, scope: Scope, binding: Binding) -> None:
        home = scope
        if binding.name in scope.outer_names:
            while home.parent is not None and (home is scope or home.is_class or binding.name not in home.bindings):
                home = home.parent
        while home.is_comprehension and binding.kind is BindingKind.ASSIGN and home.parent is not None:
            home = home.parent  # a walrus binds in the scope around the comprehension
        home.bindings.setdefault(binding.name, []).append(binding)
        if binding.kind is BindingKind.IMPORT:
            self.imported_names[home, binding.name] = None

    def _bind_target(
        self,
        target: cst.CSTNode,
        scope: Scope,
        kind: BindingKind,
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
        self._bind(scope, Binding(node.name.value, BindingKind.FUNCTION, node, self._index[node]))
        return self._function_scope(node, node.params, scope)

    def _on_lambda(self, node: cst.Lambda, scope: Scope) -> Scope:
        return self._function_scope(node, node.params, scope)

    def _function_scope(self, node: cst.CSTNode, parameters: cst.Parameters, scope: Scope) -> Scope:
        inner = Scope(node, scope)
        self.scopes[node] = inner
        order = self._index[node]
        for param in (*parameters.posonly_params, *parameters.params, *parameters.kwonly_params):
            self._bind(inner, Binding(param.name.value, BindingKind.PARAM, param, order, param.default))
        for extra in (parameters.star_arg, parameters.star_kwarg):
            if isinstance(extra, cst.Param):
                self._bind(inner, Binding(extra.name.value, BindingKind.STAR, extra, order))
        return inner

    def _on_class(self, node: cst.ClassDef, scope: Scope) -> Scope:
        self._bind(scope, Binding(node.name.value, BindingKind.CLASS, node, self._index[node]))
        inner = Scope(node, scope)
        self.scopes[node] = inner
        return inner

    def _on_comprehension(self, node: cst.CSTNode, scope: Scope) -> Scope:
        inner = Scope(node, scope)
        self.scopes[node] = inner
        return inner

    def _on_comp_for(self, node: cst.CompFor, scope: Scope) -> Scope:
        self._bind_target(node.target, scope, BindingKind.FOR, node, node.iter)
        return scope

    def _on_for(self, node: cst.For, scope: Scope) -> Scope:
        self.loops.append(node)
        self._bind_target(node.target, scope, BindingKind.FOR, node, node.iter)
        return scope

    def _on_while(self, node: cst.While, scope: Scope) -> Scope:
        self.loops.append(node)
        return scope

    def _on_with(self, node: cst.With, scope: Scope) -> Scope:
        for item in node.items:
            if item.asname is not None:
                self._bind_target(item.asname.name, scope, BindingKind.WITH, node, item.item)
        return scope

    def _on_handler(self, node: cst.CSTNode, scope: Scope) -> Scope:
        name = getattr(node, "name", None)
        if name is not None and isinstance(name.name, cst.Name):
            self._bind(scope, Binding(name.name.value, BindingKind.EXCEPT, node, self._index[node]))
        return scope

    def _on_case(self, node: cst.MatchCase, scope: Scope) -> Scope:
        order = self._index[node]
        for name in captured(node.pattern):
            self._bind(scope, Binding(name, BindingKind.MATCH, node, order))
        return scope

    def _on_assign(self, node: cst.Assign, scope: Scope) -> Scope:
        for target in node.targets:
            self._bind_target(target.target, scope, BindingKind.ASSIGN, node, node.value)
        return scope

    def _on_ann_assign(self, node: cst.AnnAssign, scope: Scope) -> Scope:
        self._bind_target(
            node.target,
            scope,
            BindingKind.ASSIGN if node.value is not None else BindingKind.ANNOTATION,
            node,
            node.value,
        )
        return scope

    def _on_aug_assign(self, node: cst.AugAssign, scope: Scope) -> Scope:
        self._bind_target(node.target, scope, BindingKind.AUGMENT, node, None)
        return scope

    def _on_named(self, node: cst.NamedExpr, scope: Scope) -> Scope:
        self._bind_target(node.target, scope, BindingKind.ASSIGN, node, node.value)
        return scope

    def _on_del(self, node: cst.Del, scope: Scope) -> Scope:
        self._bind_target(node.target, scope, BindingKind.DELETE, node, None)
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
                self._bind(scope, Binding(alias.asname.name.value, BindingKind.IMPORT, node, order, imported=dotted))
            else:
                head = dotted.partition(".")[0]
                self._bind(scope, Binding(head, BindingKind.IMPORT, node, order, imported=head))
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
            self._bind(scope, Binding(bound, BindingKind.IMPORT, node, order, imported=imported))
        return scope


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

_HANDLERS: dict[type[cst.CSTNode], Callable[[Traversal, Any, Scope], Scope]] = {
    cst.FunctionDef: Traversal._on_function,
    cst.Lambda: Traversal._on_lambda,
    cst.ClassDef: Traversal._on_class,
    cst.ListComp: Traversal._on_comprehension,
    cst.SetComp: Traversal._on_comprehension,
    cst.GeneratorExp: Traversal._on_comprehension,
    cst.DictComp: Traversal._on_comprehension,
    cst.CompFor: Traversal._on_comp_for,
    cst.For: Traversal._on_for,
    cst.While: Traversal._on_while,
    cst.With: Traversal._on_with,
    cst.ExceptHandler: Traversal._on_handler,
    cst.ExceptStarHandler: Traversal._on_handler,
    cst.MatchCase: Traversal._on_case,
    cst.Assign: Traversal._on_assign,
    cst.AnnAssign: Traversal._on_ann_assign,
    cst.AugAssign: Traversal._on_aug_assign,
    cst.NamedExpr: Traversal._on_named,
    cst.Del: Traversal._on_del,
    cst.Global: Traversal._on_outer,
    cst.Nonlocal: Traversal._on_outer,
    cst.Import: Traversal._on_import,
    cst.ImportFrom: Traversal._on_import_from,
}

_NONE: tuple[None, tuple[tuple[str, bool], ...]] = (None, ())
#: By class of a node its handler, and its fields in reverse order: each with whether it is evaluated in the own scope.
_STEPS = {
    kind: (
        _HANDLERS.get(kind),
        tuple((name, name in _INNER_FIELDS.get(kind, ())) for name in reversed(_FIELDS.get(kind, ()))),
    )
    for kind in {**_FIELDS, **_HANDLERS}
}
