"""Whether a loop may move a module that it uses, or replace parts of it, in a way that is not seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.program.stores import Stores
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.dotted import dotted_name, prefixes
from torchlint.model.syntax.parameters import parameters_of
from torchlint.model.tensors.aliases import Origin
from torchlint.model.tensors.placement import Move
from torchlint.model.tensors.writes import Moves

#: Methods of modules that move nothing and replace no part.
_READING = frozenset(
    "buffers children eval extra_repr modules named_buffers named_children named_modules named_parameters parameters "
    "requires_grad_ state_dict train zero_grad".split()
)
#: How the names of functions begin that only read what they are given.
_READERS = ("builtins.isinstance", "builtins.len", "builtins.print", "torch.save", "torch.nn.utils.clip_grad_")
#: Kinds of objects that move no module.
_WITHOUT_MODULES = (Kind.OPTIMIZER, Kind.TENSOR, Kind.NUMBER, Kind.STRING)
#: A module is followed through this many calls.
_DEPTH = 2


class ModuleUses:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree
        self._aliases = module.fact(Moves).aliases

    def are_plain(self, move: Move, loop: cst.CSTNode) -> bool:
        """Whether a loop only calls the module, reads from it, and runs methods and functions that do no more.

        The device has to be the same as well: no method of its object is called in the loop.
        """
        own, origins = self._tree.statement_of(move.call), self._aliases.of(move.source)
        if not self._only_reads(loop, origins, own, _DEPTH):
            return False
        keepers = list(self._keepers(self._module.function_of(loop) or self._module.root, origins))
        if any(self._aliases.shared(name, keepers) for name in self._tree.inside(loop, cst.Name)):
            return False
        owners = {dotted_name(part) for part in prefixes(move.target.value)} if move.target is not None else set()
        owners -= {"self", None}
        calls = [call for call in self._tree.calls_in(loop) if not self._tree.within(call, own)]
        passed = (item for call in calls for item in (*prefixes(call.func), *(given.value for given in call.args)))
        return owners.isdisjoint(map(dotted_name, passed))

    def _keepers(self, home: cst.CSTNode, origins: Sequence[Origin]) -> Iterator[Origin]:
        """Other objects that a function or file puts the module into: ``saver`` of ``saver = Saver(model)``."""
        yield from self._module.fact(Moves).keepers(home, origins)
        for call in self._tree.calls_in(home):
            statement = self._tree.parent(call)
            if not isinstance(statement, cst.Assign) or (self._module.name_of(call.func) or "").startswith("torch."):
                continue
            if not any(self._aliases.shared(item.value, origins) for item in call.args):
                continue
            for item in statement.targets if self._module.value(call).kind not in _WITHOUT_MODULES else ():
                if isinstance(item.target, cst.Name):
                    bound = self._module.names.bindings(item.target)
                    yield from (Origin(one, (), item.target) for one in bound if one.node is statement)

    def _only_reads(self, place: cst.CSTNode, origins: Sequence[Origin], own: cst.CSTNode | None, depth: int) -> bool:
        """Whether all uses in a place of what ``origins`` are, apart from the statement ``own``, change nothing."""
        home = place if isinstance(place, cst.FunctionDef) else self._module.function_of(place)
        for name in self._tree.inside(place, cst.Name):
            if own is not None and self._tree.within(name, own):
                continue
            if self._aliases.shared(name, origins):
                if self._module.function_of(name) is not home or not self._is_plain(name, origins, depth):
                    return False
        return True

    def _is_plain(self, name: cst.Name, origins: Sequence[Origin], depth: int) -> bool:
        whole: cst.BaseExpression = name
        above = self._tree.parent(whole)
        while isinstance(above, cst.Attribute) and above.value is whole and self._aliases.shared(above, origins):
            whole, above = above, self._tree.parent(above)
        if isinstance(above, cst.Param):
            return True
        if isinstance(above, cst.Attribute) and above.value is whole:  # something else of the object that contains it
            call = self._tree.parent(above)
            return not isinstance(call, cst.Call) or call.func is not above or self._keeps(call, above, origins, depth)
        is_part = not any(self._rests(whole, origins))
        if isinstance(above, cst.Call):
            if not is_part or not isinstance(whole, cst.Attribute):
                return True  # `model(x)`
            return whole.attr.value in _READING or self._keeps(above, whole, origins, depth)
        if isinstance(above, cst.Arg):
            return self._is_passed_to_reader(above, whole, origins, depth)
        if isinstance(above, (cst.Comparison, cst.ComparisonTarget)):
            return True
        if is_part:
            return not isinstance(above, (cst.AssignTarget, cst.AugAssign, cst.Del, cst.Subscript))
        is_bound = isinstance(above, cst.Assign) and all(isinstance(item.target, cst.Name) for item in above.targets)
        return is_bound or isinstance(above, cst.AssignTarget)

    def _keeps(self, call: cst.Call, func: cst.Attribute, origins: Sequence[Origin], depth: int) -> bool:
        """Whether a method of the module, or of an object that contains it, changes nothing; so does what is stored."""
        functions = self._module.fact(Dispatch).functions(call)
        if not functions:
            return func.attr.value in self._module.fact(Stores).attributes
        owned = list(self._rests(func.value, origins))
        return depth > 0 and all(
            self._parameter_reads(function, param, path, depth)
            for function in functions
            for param in parameters_of(function)
            if self._module.definitions.place_of(function, param) == -1
            for path in owned
        )

    def _is_passed_to_reader(
        self, argument: cst.Arg, whole: cst.BaseExpression, origins: Sequence[Origin], depth: int
    ) -> bool:
        """Whether a call only reads what it is given."""
        call = self._tree.parent(argument)
        if not isinstance(call, cst.Call) or argument.star:
            return False
        if (self._module.name_of(call.func) or "").startswith(_READERS):
            return True
        functions = self._module.fact(Dispatch).run(call)
        given = [
            (function, param)
            for function in functions
            for param in parameters_of(function)
            if self._module.definitions.argument_of(call, function, param) is whole
        ]
        return (
            depth > 0
            and bool(functions)
            and len(given) == len(functions)
            and all(
                self._parameter_reads(function, param, path, depth)
                for function, param in given
                for path in (*self._rests(whole, origins), ())
            )
        )

    def _parameter_reads(
        self, function: cst.FunctionDef, param: cst.Param, path: tuple[str | int | None, ...], depth: int
    ) -> bool:
        bound = self._tree.scopes[function].bindings.get(param.name.value, ())
        origins = [Origin(item, path, param.name) for item in bound if item.node is param]
        return self._only_reads(function, origins, None, depth - 1)

    def _rests(self, node: cst.BaseExpression, origins: Sequence[Origin]) -> Iterator[tuple[str | int | None, ...]]:
        """The paths from ``node`` to what ``origins`` are: none if ``node`` is only a part of it."""
        for found in self._aliases.of(node):
            for origin in origins:
                if found.overlaps(origin) and len(found.path) <= len(origin.path):
                    yield origin.path[len(found.path) :]
