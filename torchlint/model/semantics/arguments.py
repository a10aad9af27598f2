"""What calls pass: by position, by keyword, and by keyword in a dictionary that is written where it is unpacked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TypeAlias

import libcst as cst

from torchlint.model.semantics.launches import Launches
from torchlint.model.semantics.memo import CyclicMemo
from torchlint.model.semantics.names import Names
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import Entries, Unpacking
from torchlint.model.syntax.parameters import is_static, positional_parameters
from torchlint.model.syntax.tree import Tree

#: What prepares a function with some of its arguments: ``run = partial(train, lr=0.1)``.
PARTIAL = "functools.partial"

#: The positional arguments of a call, and those by keyword.
Passed: TypeAlias = tuple[list[cst.BaseExpression], dict[str, cst.BaseExpression]]


class Arguments:
    """Answers for one forest."""

    def __init__(self, tree: Tree, names: Names) -> None:
        self._tree = tree
        self._names = names
        self.launches = Launches(tree, names)
        self.unpacking: Unpacking | None = None  #: what looks into any dictionary; set once it exists
        self._places: dict[cst.CSTNode, dict[cst.CSTNode, int]] = {}
        self._passed: CyclicMemo[cst.Call, Passed] = CyclicMemo(([], {}))

    def of(self, call: cst.Call, function: cst.FunctionDef, param: cst.Param) -> cst.BaseExpression | None:
        """What ``call``, a call of ``function``, passes for ``param``; None if nothing, or if it is unpacked.

        The call may also start processes that run ``function``.
        """
        position = self.places(function).get(param)
        if position is not None and self.launches.passes_rank(call):
            position -= 1
        positional, by_keyword = self.passed(call)
        if position is not None and 0 <= position < len(positional):
            return positional[position]
        return by_keyword.get(param.name.value)

    def of_all(
        self, calls: Iterable[cst.Call], function: cst.FunctionDef, param: cst.Param
    ) -> list[cst.BaseExpression]:
        """What ``calls``, all of ``function``, pass for ``param``; unpacked arguments are left out."""
        found = (self.of(call, function, param) for call in calls)
        return [given for given in found if given is not None]

    def in_starred(
        self, call: cst.Call, function: cst.FunctionDef, param: cst.Param
    ) -> tuple[cst.BaseExpression, int] | None:
        """``items`` of the first ``*items`` of ``call``, and the place in it of what it passes for ``param``."""
        position = self.places(function).get(param)
        first = next((place for place, item in enumerate(call.args) if item.star == "*"), None)
        if position is None or first is None or self.of(call, function, param) is not None:
            return None
        before = sum(item.keyword is None for item in call.args[:first])
        return (call.args[first].value, position - before) if position >= before else None

    def unpacked(self, call: cst.Call, param: cst.Param) -> Entries | None:
        """What ``**options`` of ``call`` may pass for ``param``; None if the call unpacks no dictionary."""
        if self.unpacking is None or not any(item.star == "**" for item in call.args):
            return None
        return self.unpacking.passed(call, param.name.value)

    def places(self, function: cst.FunctionDef) -> dict[cst.CSTNode, int]:
        """The place among the positional arguments of a call that each parameter takes; -1: that of ``self``."""
        if function not in self._places:
            is_method = self._tree.class_of(function) is not None and not is_static(function)
            params = positional_parameters(function)
            self._places[function] = {param: place for place, param in enumerate(params, -1 if is_method else 0)}
        return self._places[function]

    def passed(self, call: cst.Call) -> Passed:
        """The positional arguments of a call up to the first ``*items``, and its keywords.

        Of a call that starts processes, or of ``partial``, those that it passes on. Of a call of what ``partial``
        returns, all that its function gets.
        """
        return self._passed.get(call, self._find_passed)  # `run` may be bound to `partial(run, 1)`

    def _find_passed(self, call: cst.Call) -> Passed:
        given = self.launches.given(call)
        if given is not None:
            return given
        preparation = self.preparation(call)
        first, by_default = self.passed(preparation) if preparation is not None else ([], {})
        positional = [*first]
        by_keyword: dict[str, cst.BaseExpression] = {}
        is_counted = preparation is None or not any(item.star == "*" for item in preparation.args)
        for argument in call.args[1:] if call in self._partials else call.args:
            if argument.star == "*":
                is_counted = False
            elif argument.star == "**":
                by_keyword.update(self._unpacked(argument.value))
            elif argument.keyword is not None:
                by_keyword.setdefault(argument.keyword.value, argument.value)
            elif is_counted:
                positional.append(argument.value)
        return positional, by_default | by_keyword

    @cached_property
    def _partials(self) -> dict[cst.Call, None]:
        return dict.fromkeys(self._names.calls_of(PARTIAL))

    def preparation(self, call: cst.Call) -> cst.Call | None:
        """The call of ``partial`` that returns what ``call`` calls, which has one name at most.

        Of a call of ``partial``, the one that returns what it prepares.
        """
        if not self._partials:
            return None
        made = call.args[0].value if call in self._partials and call.args else call.func
        if isinstance(made, cst.Name):
            bindings = self._names.bindings(made)
            is_only = len(bindings) == 1 and bindings[0].kind is BindingKind.ASSIGN and not bindings[0].path
            made = bindings[0].value if is_only and bindings[0].value is not None else made
        return made if isinstance(made, cst.Call) and made in self._partials else None

    def prepared(self, argument: cst.Arg) -> Iterator[cst.Call]:
        """The calls of the function that ``argument`` is, if it is the one that ``partial`` prepares."""
        call = self._tree.parent(argument)
        if not isinstance(call, cst.Call) or call not in self._partials or argument is not call.args[0]:
            return
        above = self._tree.parent(call)
        uses: list[cst.CSTNode] = [call]
        for target in above.targets if isinstance(above, cst.Assign) else ():
            variable = self._names.variable(target.target) if isinstance(target.target, cst.Name) else None
            uses += self._names.uses_anywhere(variable) if variable is not None else ()
        for use in uses:
            above = self._tree.parent(use)
            if isinstance(above, cst.Call) and above.func is use and self.preparation(above) is call:
                yield above

    def is_prepared_by_keywords(self, argument: cst.Arg) -> bool:
        """Whether ``partial`` prepares the function that ``argument`` is, and leaves its first parameters to calls."""
        call = self._tree.parent(argument)
        return (
            isinstance(call, cst.Call)
            and call in self._partials
            and argument is call.args[0]
            and all(item.keyword is not None for item in call.args[1:])
        )

    def extra(self, call: cst.Call, function: cst.FunctionDef) -> list[cst.BaseExpression]:
        """What ``call``, a call of ``function``, passes for ``*args``; unpacked arguments are left out."""
        first = max(self.places(function).values(), default=-1) + 1
        return self.passed(call)[0][max(first, 0) :]

    def _unpacked(self, node: cst.BaseExpression) -> Iterator[tuple[str, cst.BaseExpression]]:
        """The entries of ``**options``, if that is a dictionary that is written once and only unpacked."""
        if isinstance(node, cst.Name):
            scope = self._names.home_of(node)
            bindings = scope.bindings[node.value] if scope is not None else []
            value = bindings[0].value if len(bindings) == 1 and not bindings[0].path else None
            uses = [self._tree.parent(use) for use in self._names.uses_in(scope, node.value)] if scope else []
            is_only_read = all(
                isinstance(above, cst.AssignTarget) or (isinstance(above, cst.Arg) and above.star) for above in uses
            )
            if not is_only_read or not isinstance(value, (cst.Call, cst.Dict)):
                return
            node = value
        if isinstance(node, cst.Dict):
            for element in node.elements:
                key = element.key if isinstance(element, cst.DictElement) else None
                if isinstance(key, cst.SimpleString) and isinstance(key.evaluated_value, str):
                    yield key.evaluated_value, element.value
        elif isinstance(node, cst.Call) and self._names.resolve(node.func) == "builtins.dict":
            for argument in node.args:
                if argument.keyword is not None:
                    yield argument.keyword.value, argument.value
