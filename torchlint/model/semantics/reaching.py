"""Reaching definitions: which of the bindings of a name may be seen at a place."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from itertools import islice

import libcst as cst

from torchlint.model.semantics.names import Names
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.nodes import HANDLERS, TRIES
from torchlint.model.syntax.scopes import Binding, Scope
from torchlint.model.syntax.tree import Tree

#: How many lines further a name is looked for that is bound again.
_LINES = 8
#: A use that sees more bindings than this counts as seeing all of the name, which are the same for each such use.
MANY = 100
#: What binds names for its own statements alone, if it runs.
_BRANCHES = (*HANDLERS, cst.MatchCase)


class Reaching:
    """Answers for one forest."""

    def __init__(self, tree: Tree, names: Names) -> None:
        self._tree = tree
        self._names = names
        self._known: dict[cst.Name, list[Binding]] = {}
        self._sorted: dict[tuple[Scope, str], tuple[list[Binding], list[int]]] = {}
        self._uses: dict[tuple[Scope, str], dict[Binding, list[cst.Name]]] = {}

    def of(self, name: cst.Name) -> list[Binding]:
        """The bindings of ``name`` whose value may be seen where it is used; empty if nothing binds it.

        Where more than `MANY` may be seen: the list of its scope, with all bindings of the name.
        """
        if name not in self._known:
            found = list(islice(self._found(name), MANY + 1))
            scope = self._names.home_of(name) if len(found) > MANY else None
            self._known[name] = found if scope is None else scope.bindings[name.value]
        return self._known[name]

    def only(self, name: cst.Name) -> Binding | None:
        """The binding of ``name`` whose value may be seen where it is used, if it is the only one."""
        found = list(islice(self._known.get(name) or self._found(name), 2))  # of many, the others are not looked for
        return found[0] if len(found) == 1 else None

    def assigned(self, node: cst.CSTNode | None) -> cst.BaseExpression | None:
        """What a single assignment gives ``node``, a name, as its only value: ``f()`` of ``x = f()``."""
        found = self.only(node) if isinstance(node, cst.Name) else None
        return found.value if found is not None and found.kind is BindingKind.ASSIGN and not found.path else None

    def parameter(self, node: cst.CSTNode | None) -> cst.Param | None:
        """The parameter that gives ``node``, a name, its only value: not ``*args``."""
        found = self.only(node) if isinstance(node, cst.Name) else None
        is_parameter = found is not None and found.kind is BindingKind.PARAM
        return found.node if found is not None and is_parameter and isinstance(found.node, cst.Param) else None

    def _found(self, name: cst.Name) -> Iterator[Binding]:
        scope = self._names.home_of(name)
        if scope is not None:
            yield from self._seen(scope.bindings[name.value], name, scope)

    def uses_of(self, binding: Binding, scope: Scope) -> Sequence[cst.Name]:
        """The places, in order, that may see the value of ``binding``, which is one of ``scope``."""
        key = (scope, binding.name)
        if key not in self._uses:
            found = self._uses[key] = {}
            for use in self._names.uses_in(scope, binding.name):
                for seen in self.of(use):
                    found.setdefault(seen, []).append(use)
        return self._uses[key].get(binding, ())

    def _seen(self, bindings: list[Binding], at: cst.Name, scope: Scope) -> Iterator[Binding]:
        """Those of ``bindings`` (of ``scope``) whose value may be seen at ``at``."""
        tree = self._tree
        seen_from = tree.scope_of(at)
        while seen_from is not scope and seen_from.is_comprehension and seen_from.parent is not None:
            seen_from = seen_from.parent  # a comprehension runs where it is written
        is_local = seen_from.parent is scope and type(scope.node) is cst.FunctionDef
        is_later = is_local and type(seen_from.node) is cst.Lambda
        if is_later:  # it sees what is there where it is written, and what is bound later
            seen_from = scope
        if len(bindings) == 1 or seen_from is not scope:
            yield from bindings
            return
        here = tree.index(at)
        statement = tree.statement_of(at)
        found: list[Binding] = []
        rebound: dict[cst.IndentedBlock, int] = {}  # the first line in a block of those found
        binding_ifs: set[cst.CSTNode] = set()  # each `if` that binds it in all its branches
        stop: Binding | None = None
        ordered, orders = self._in_order(bindings, scope)
        behind = bisect_right(orders, here)
        while behind and stop is None:
            first = bisect_left(orders, orders[behind - 1])
            for binding in ordered[first:behind]:
                if (
                    binding.node is statement
                    and binding.kind in (BindingKind.ASSIGN, BindingKind.AUGMENT)
                    and not isinstance(binding.node, cst.NamedExpr)
                ):
                    continue  # its own right side sees what was there before
                if tree.exclusive(binding.node, at):
                    continue
                line = self._line_of(binding)
                if line is not None and self._is_rebound(line, rebound):
                    continue
                found.append(binding)
                yield binding
                if line is not None:
                    rebound[line[0]] = line[1]
                if self._settles(binding, at) or (line and self._is_bound_by_if(line[0], rebound, binding_ifs, at)):
                    stop = binding
                    break
            behind = first
        if is_later:
            yield from ordered[bisect_left(orders, here) :]
            return
        loop = self._outer_loop(at)
        if loop is not None and (stop is None or not tree.within(stop.node, loop)):
            known = set(found)
            later = ordered[bisect_left(orders, here) : bisect_right(orders, tree.last(loop))]
            yield from (binding for binding in later if tree.within(binding.node, loop) and binding not in known)

    def _line_of(self, binding: Binding) -> tuple[cst.IndentedBlock, int] | None:
        """The block and the line of a statement that binds a name for certain, unless it is the block of a ``try``."""
        if binding.kind not in (BindingKind.ASSIGN, BindingKind.AUGMENT) or isinstance(binding.node, cst.NamedExpr):
            return None
        line = self._tree.line_of(binding.node)
        return None if line is None or isinstance(self._tree.parent(line[0]), TRIES) else line

    def _is_rebound(self, line: tuple[cst.IndentedBlock, int], rebound: dict[cst.IndentedBlock, int]) -> bool:
        """Whether the name of a binding is bound again a few lines further, with nothing in between that jumps."""
        block, position = line
        following = rebound.get(block)
        if following is None or not position < following <= position + _LINES:
            return False
        return all(isinstance(item, cst.SimpleStatementLine) for item in block.body[position:following])

    def _is_bound_by_if(
        self,
        block: cst.IndentedBlock,
        rebound: Collection[cst.CSTNode],
        binding_ifs: set[cst.CSTNode],
        at: cst.CSTNode,
    ) -> bool:
        """Whether ``block``, which binds a name, is the first branch of an `if` before ``at`` that binds it in all."""
        above = self._tree.parent(block)
        if not isinstance(above, cst.If):
            return False
        other = above.orelse
        if other in binding_ifs or (isinstance(other, cst.Else) and other.body in rebound):
            binding_ifs.add(above)
            return self._tree.dominates(above, at)
        return False

    def between(self, scope: Scope, name: str, low: int, high: int) -> list[Binding]:
        """The bindings of ``name`` in ``scope`` behind index ``low`` and before index ``high``, in order."""
        ordered, orders = self._in_order(scope.bindings[name], scope)
        return ordered[bisect_right(orders, low) : bisect_left(orders, high)]

    def _in_order(self, bindings: list[Binding], scope: Scope) -> tuple[list[Binding], list[int]]:
        """``bindings``, which are all of one name in ``scope``, in the order of the text, and their places in it."""
        key = (scope, bindings[0].name)
        if key not in self._sorted:
            ordered = sorted(bindings, key=lambda item: item.order)
            self._sorted[key] = ordered, [binding.order for binding in ordered]
        return self._sorted[key]

    def _settles(self, binding: Binding, at: cst.CSTNode) -> bool:
        """Whether nothing bound before ``binding`` can still be seen at ``at``."""
        node = binding.node
        if binding.kind in (BindingKind.PARAM, BindingKind.STAR):
            return True
        if binding.kind in (BindingKind.FOR, BindingKind.WITH) and isinstance(node, (cst.For, cst.With)):
            if self._tree.within(at, node.body):
                return True
            return binding.kind is BindingKind.WITH and self._tree.dominates(node, at)
        if isinstance(node, cst.CompFor):
            return True
        if isinstance(node, _BRANCHES):
            return self._tree.within(at, node)
        return self._tree.dominates(node, at)

    def _outer_loop(self, at: cst.CSTNode) -> cst.CSTNode | None:
        found: cst.CSTNode | None = None
        for above in self._tree.ancestors(at):
            kind = type(above)
            if kind is cst.FunctionDef or kind is cst.Lambda or kind is cst.ClassDef:
                break
            if kind is cst.For or kind is cst.While:
                found = above
        return found
