"""What calls pass: by position, by keyword, and by keyword in a dictionary that is written where it is unpacked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from torchlint.model.semantics.launches import Launches
from torchlint.model.semantics.names import Names
from torchlint.model.semantics.partials import arguments_of_partial
from torchlint.model.syntax.calls import Entries, Unpacking
from torchlint.model.syntax.parameters import is_static
from torchlint.model.syntax.tree import Tree


class Arguments:
    """Answers for one forest."""

    def __init__(self, tree: Tree, names: Names) -> None:
        self._tree = tree
        self._names = names
        self.launches = Launches(tree, names)
        self.unpacking: Unpacking | None = None  #: what looks into any dictionary; set once it exists
        self._places: dict[cst.CSTNode, dict[cst.CSTNode, int]] = {}
        self._passed: dict[cst.CSTNode, tuple[list[cst.BaseExpression], dict[str, cst.BaseExpression]]] = {}

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

    def unpacked(self, call: cst.Call, param: cst.Param) -> Entries | None:
        """What ``**options`` of ``call`` may pass for ``param``; None if the call unpacks no dictionary."""
        if self.unpacking is None or not any(item.star == "**" for item in call.args):
            return None
        return self.unpacking.passed(call, param.name.value)

    def places(self, function: cst.FunctionDef) -> dict[cst.CSTNode, int]:
        """The place among the positional arguments of a call that each parameter takes; -1: that of ``self``."""
        if function not in self._places:
            is_method = self._tree.class_of(function) is not None and not is_static(function)
            params = (*function.params.posonly_params, *function.params.params)
            self._places[function] = {param: place for place, param in enumerate(params, -1 if is_method else 0)}
        return self._places[function]

    def passed(self, call: cst.Call) -> tuple[list[cst.BaseExpression], dict[str, cst.BaseExpression]]:
        """The positional arguments and the keywords of a call, up to the first ``*items``.

        Of a call that starts processes, or of ``partial``, those that it passes on.
        """
        if call not in self._passed and (given := self.launches.given(call)) is not None:
            self._passed[call] = given
        if call not in self._passed:
            prepared = arguments_of_partial(self._names, call)
            positional: list[cst.BaseExpression] = []
            by_keyword: dict[str, cst.BaseExpression] = {}
            for argument in call.args if prepared is None else prepared:
                if argument.star == "*":
                    break
                if argument.star == "**":
                    by_keyword.update(self._unpacked(argument.value))
                elif argument.keyword is None:
                    positional.append(argument.value)
                else:
                    by_keyword.setdefault(argument.keyword.value, argument.value)
            self._passed[call] = positional, by_keyword
        return self._passed[call]

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
