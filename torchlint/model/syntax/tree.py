"""Questions about places in libcst trees: what is around a node, what is inside, what runs before what."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TypeVar, cast

import libcst as cst

from torchlint.model.syntax.dotted import called_name, stored_name
from torchlint.model.syntax.exits import ends_with
from torchlint.model.syntax.nodes import HANDLERS
from torchlint.model.syntax.scopes import Scope
from torchlint.model.syntax.traversal import Traversal
from torchlint.source import deadline

_Node = TypeVar("_Node", bound=cst.CSTNode)

#: Asked for so often that `isinstance`, which is ten times as slow for libcst's abstract classes, would be felt.
_DEFINITIONS = frozenset({cst.FunctionDef, cst.Lambda, cst.ClassDef})
_Block = (cst.IndentedBlock, cst.Module, cst.SimpleStatementSuite, cst.SimpleStatementLine)
_BLOCKS = frozenset(_Block)
#: What runs its block perhaps, or more than once.
_BRANCHES = (cst.For, cst.While, cst.If, cst.Else, *HANDLERS, cst.MatchCase, cst.IfExp)
_STATEMENTS = frozenset(
    kind
    for kind in vars(cst).values()
    if isinstance(kind, type) and issubclass(kind, (cst.BaseSmallStatement, cst.BaseCompoundStatement, cst.Module))
)
#: Nodes that are looked through in less time than it takes to find those of a class among all of the tree.
_FEW = 200


class Tree(Traversal):
    """The trees of some files; everything else about them is asked of these tables."""

    def __init__(self, roots: Sequence[cst.Module]) -> None:
        """`roots` are files, or parts of files."""
        super().__init__()
        self._positions: dict[cst.CSTNode, dict[cst.CSTNode, int]] = {}
        #: The node that `dominates` was last asked about, and the positions of the blocks around it.
        self._last_path: tuple[cst.CSTNode | None, dict[cst.CSTNode, int]] = (None, {})
        self.change_to(roots)

    def change_to(self, roots: Sequence[cst.Module]) -> None:
        """Describe these files, as a new tree of them would. Links between them must have been removed."""
        super().change_to(roots)
        self._positions.clear()
        self._last_path = None, {}
        for derived in ("names", "calls_by_name", "attributes_by_name", "keywords", "stored"):
            vars(self).pop(derived, None)

    def of_kind(self, kind: type[_Node]) -> Sequence[_Node]:
        """All nodes of just this class, in order."""
        return cast("Sequence[_Node]", self._by_kind.get(kind, ()))

    @cached_property
    def names(self) -> dict[str, list[cst.Name]]:
        """The names in expressions, by what they are, in order."""
        return self._joined(Tree._names_of)

    @cached_property
    def calls_by_name(self) -> dict[str, list[cst.Call]]:
        """The calls by the last name of what they call, in order; by "" where that has no name."""
        return self._joined(Tree._calls_of)

    @cached_property
    def attributes_by_name(self) -> dict[str, list[cst.Attribute]]:
        """The attributes that are taken of anything, by name, in order."""
        return self._joined(Tree._attributes_of)

    def _names_of(self, root: cst.Module) -> dict[str, list[cst.Name]]:
        return _grouped(self.among(self._by_kind[cst.Name], root), lambda node: node.value)

    def _calls_of(self, root: cst.Module) -> dict[str, list[cst.Call]]:
        return _grouped(self.calls_in(root), called_name)

    def _attributes_of(self, root: cst.Module) -> dict[str, list[cst.Attribute]]:
        return _grouped(self.attributes_in(root), lambda node: node.attr.value)

    @cached_property
    def keywords(self) -> dict[str, list[cst.Arg]]:
        """The arguments that calls pass by keyword, by that, in order."""
        return self._joined(Tree._keywords_of)

    def _keywords_of(self, root: cst.Module) -> dict[str, list[cst.Arg]]:
        found: dict[str, list[cst.Arg]] = {}
        for call in self.calls_in(root):
            for argument in call.args:
                if argument.keyword is not None:
                    found.setdefault(argument.keyword.value, []).append(argument)
        return found

    def calls_where(self, is_meant: Callable[[str], object]) -> list[cst.Call]:
        """The calls of what has a last name that ``is_meant``, in order."""
        return self.calls_named(*filter(is_meant, self.calls_by_name))

    def calls_named(self, *names: str, inside: cst.CSTNode | None = None) -> list[cst.Call]:
        """The calls of what has one of these last names, in order; with ``inside``, only those in it."""
        return self.merged(self.calls_by_name, names, inside)

    def attributes_named(self, *names: str) -> list[cst.Attribute]:
        """The attributes with one of these names, in order."""
        return self.merged(self.attributes_by_name, names)

    def words_of(self, root: cst.Module) -> frozenset[str]:
        """The names and attributes in one file, given by its root."""
        return self.share(Tree._words_of, root)

    def _words_of(self, root: cst.Module) -> frozenset[str]:
        return frozenset((*self.share(Tree._names_of, root), *self.share(Tree._attributes_of, root)))

    def _joined(self, of_file: Callable[[Tree, cst.Module], Mapping[str, list[_Node]]]) -> dict[str, list[_Node]]:
        found: dict[str, list[_Node]] = {}
        for root in self.roots:
            for name, nodes in self.share(of_file, root).items():
                found.setdefault(name, []).extend(nodes)
        return found

    def merged(
        self, by_name: Mapping[str, list[_Node]], names: Iterable[str], inside: cst.CSTNode | None = None
    ) -> list[_Node]:
        """What ``by_name`` gives for some names, in order; with ``inside``, only what is in it."""
        found = [items for name in dict.fromkeys(names) if (items := by_name.get(name))]
        if inside is not None:
            found = [self.among(items, inside) for items in found]
        return found[0] if len(found) == 1 else sorted(chain.from_iterable(found), key=self._index.__getitem__)

    @cached_property
    def stored(self) -> dict[str, list[cst.BaseExpression | None]]:
        """By dotted name (``args.device``) what is assigned to it, None where it is unpacked."""
        found: dict[str, list[cst.BaseExpression | None]] = {}
        for target, value, _ in self.stores:
            name = stored_name(target)
            if name is not None:
                found.setdefault(name, []).append(value)
        return found

    # -- questions about places

    def index(self, node: cst.CSTNode) -> int:
        """Position of ``node`` in evaluation order."""
        return self._index[node]

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The node that contains ``node``, None for the module."""
        above = self._parents[self._index[node]]
        return None if above < 0 else self.nodes[above]

    def is_called(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` is what a call calls."""
        parent = self.parent(node)
        return type(parent) is cst.Call and parent.func is node

    def is_target(self, node: cst.CSTNode) -> bool:
        """Whether an assignment binds ``node``, also as an element of a tuple."""
        above = self.parent(node)
        while isinstance(above, (cst.Element, cst.Tuple)):
            above = self.parent(above)
        return isinstance(above, cst.AssignTarget)

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes around ``node``, innermost first."""
        above = self._parents[self._index[node]]
        while above >= 0:
            yield self.nodes[above]
            above = self._parents[above]

    def last(self, node: cst.CSTNode) -> int:
        """Index of the last node inside ``node``."""
        return self._last[self._index[node]]

    def within(self, node: cst.CSTNode, outer: cst.CSTNode) -> bool:
        """Whether ``node`` is ``outer`` or lies inside it."""
        return self._index[outer] <= self._index[node] <= self.last(outer)

    def calls_in(self, node: cst.CSTNode) -> list[cst.Call]:
        """The calls inside ``node``, in order."""
        return self.among(self.calls, node)

    def attributes_in(self, node: cst.CSTNode) -> list[cst.Attribute]:
        """The attributes inside ``node``, in order."""
        return self.among(self.attributes, node)

    def among(self, nodes: Sequence[_Node], outer: cst.CSTNode) -> list[_Node]:
        """Those of ``nodes``, which are in order, that lie in ``outer``."""
        deadline.keep()
        low = bisect.bisect_left(nodes, self._index[outer], key=self._index.__getitem__)
        high = bisect.bisect_right(nodes, self.last(outer), key=self._index.__getitem__)
        return list(nodes[low:high])

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
        deadline.keep()
        return self.nodes[self._index[node] : self.last(node) + 1]

    def inside(self, node: cst.CSTNode, *kinds: type[_Node]) -> list[_Node]:
        """Those of `nodes_in` that are of just these classes."""
        deadline.keep()
        begin, end = self._index[node], self.last(node)
        if end - begin < _FEW:
            return cast("list[_Node]", [part for part in self.nodes[begin : end + 1] if type(part) in kinds])
        found = [part for kind in kinds for part in self.among(self.of_kind(kind), node)]
        return sorted(found, key=self._index.__getitem__) if len(kinds) > 1 else found

    def names_in(self, *nodes: cst.CSTNode) -> set[str]:
        """The names inside ``nodes``, those of attributes and keywords included."""
        return {name.value for node in nodes for name in self.inside(node, cst.Name)}

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
        """The function whose body contains ``node``, None at module or class level."""
        nodes, parents = self.nodes, self._parents
        child, index = node, parents[self._index[node]]
        while index >= 0:  # asked so often that the generator of `ancestors` would be felt
            above = nodes[index]
            if type(above) is cst.FunctionDef or type(above) is cst.Lambda:
                if child is above.body:
                    return above
            elif type(above) is cst.ClassDef and child is above.body:
                return None
            child, index = above, parents[index]
        return None

    def class_of(self, function: cst.CSTNode) -> cst.ClassDef | None:
        """The class of which ``function`` is a method."""
        for above in self.ancestors(function):
            if type(above) in _DEFINITIONS:
                return above if isinstance(above, cst.ClassDef) else None
        return None

    def own_method(self, definition: cst.ClassDef, name: str) -> cst.FunctionDef | None:
        """The method called ``name`` that a class itself defines; None if it binds the name more than once."""
        found = [binding.node for binding in self.scopes[definition].bindings.get(name, ())]
        return found[0] if len(found) == 1 and isinstance(found[0], cst.FunctionDef) else None

    def statement_of(self, node: cst.CSTNode) -> cst.CSTNode:
        """The innermost statement that contains ``node`` (a small statement or a compound one)."""
        current = node
        while type(current) not in _STATEMENTS:
            current = self.nodes[self._parents[self._index[current]]]
        return current

    def top_level(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The statement of the module that contains ``node``; None where the traversal did not come to the node."""
        index = self._index.get(node)
        if index is None or self._parents[index] < 0:  # unknown, or a module itself
            return None
        while self._parents[self._parents[index]] >= 0:
            index = self._parents[index]
        return self.nodes[index]

    def class_member(self, node: cst.CSTNode) -> cst.FunctionDef | cst.ClassDef | None:
        """The function or class directly in a class of the module that contains ``node``."""
        index = self._index.get(node, -1)
        above: list[int] = []
        while index >= 0:
            above.append(index)
            index = self._parents[index]
        if len(above) < 4 or not isinstance(self.nodes[above[-2]], cst.ClassDef):
            return None
        member = self.nodes[above[-4]]  # in the block of the class
        return member if isinstance(member, (cst.FunctionDef, cst.ClassDef)) else None

    def root_of(self, node: cst.CSTNode) -> cst.CSTNode:
        """The file that contains ``node``."""
        return self.roots[bisect.bisect_right(self._root_indices, self._index[node]) - 1]

    def block_path(self, node: cst.CSTNode) -> list[tuple[cst.CSTNode, int, cst.CSTNode]]:
        """The blocks around ``node`` within its function, innermost first.

        Each is (block, index of the statement in it, that statement's node in the block).
        """
        path: list[tuple[cst.CSTNode, int, cst.CSTNode]] = []
        child = node
        for above in self.ancestors(node):
            if type(above) in _BLOCKS:
                assert isinstance(above, _Block)
                position = self._position_in(above, child)
                if position is not None:
                    path.append((above, position, child))
            elif type(above) in _DEFINITIONS:
                break
            child = above
        return path

    def line_of(self, statement: cst.CSTNode) -> tuple[cst.IndentedBlock, int] | None:
        """The indented block and the position in it of the line that is a small statement alone; None elsewhere."""
        line = self.parent(statement)
        block = self.parent(line) if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
        if line is None or not isinstance(block, cst.IndentedBlock):
            return None
        position = self._position_in(block, line)
        return None if position is None else (block, position)

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

        A ``with`` or ``try`` body counts as running through; loops and branches do not, unless the other branch of an
        ``if`` leaves the block.
        """
        if self._index[first] >= self._index[second]:
            return False
        last, around = self._last_path
        if last is not second:  # the same is often asked about one node and many others
            around = {block: position for block, position, _ in self.block_path(second)}
            self._last_path = second, around
        child = first
        for above in self.ancestors(first):
            if isinstance(above, (cst.IndentedBlock, cst.Module, cst.SimpleStatementSuite, cst.SimpleStatementLine)):
                position = around.get(above)
                if position is not None:
                    own = self._position_in(above, child)
                    return own is not None and own <= position
            elif isinstance(above, _BRANCHES):
                if child is getattr(above, "body", None) or child is getattr(above, "orelse", None):
                    if not (self.within(second, child) or self._is_only_branch(above, child)):
                        return False
            elif isinstance(above, (cst.FunctionDef, cst.Lambda, cst.ClassDef)):
                return False
            child = above
        return False

    def _is_only_branch(self, above: cst.CSTNode, child: cst.CSTNode) -> bool:
        """Whether what follows an ``if`` only runs after its branch ``child``: the other one leaves the block."""
        statement = self.parent(above) if isinstance(above, cst.Else) else above
        if not isinstance(statement, cst.If) or not isinstance(statement.orelse, cst.Else):
            return False
        other = statement.orelse.body if child is statement.body else statement.body
        return ends_with(other, cst.Raise, cst.Return, cst.Continue, cst.Break)

    def exclusive(self, first: cst.CSTNode, second: cst.CSTNode) -> bool:
        """Whether the two are in different branches of one ``if``."""
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


def _grouped(nodes: Iterable[_Node], name_of: Callable[[_Node], str]) -> dict[str, list[_Node]]:
    found: dict[str, list[_Node]] = {}
    for node in nodes:
        found.setdefault(name_of(node), []).append(node)
    return found
