"""Which code is seldom reached in a step: what runs once, what fills a cache, branches for unusual cases."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.program.stores import Stores
from torchlint.model.syntax.climbing import climb, nearest
from torchlint.model.syntax.conditions import conjuncts
from torchlint.model.syntax.dotted import dotted_name, is_attribute_of_self, last_name, last_part
from torchlint.model.syntax.literals import asked_for_none, is_none
from torchlint.model.syntax.nodes import HANDLERS
from torchlint.model.training.purpose import Purposes

from ._repetition import is_for_deployment, keeps_result
from ._upload_words import OPTIONS

#: Words of a test that is true once, seldom, or where the speed does not matter.
_RARE = re.compile(
    r"onnx|export|tracing|scripting|cache|first|initiali[sz]ed|debug|verbose|empty|\.shape\b|\.size\(|numel",
    re.IGNORECASE,
)
#: Words of a test of an `if` that is seldom true; but ``not validation`` is true at every training step.
_SELDOM = re.compile(
    r"\bnot\b(?! None| (\w+\.)?(is_)?(val|valid(ation)?|validate|eval|evaluat(e|ion)|test(ing)?)\b)|is None|== ?0\b|"
    r"< ?\d+\b|<= ?\d+\b|\blen\(|isinstance|isnan|isinf|is_tensor|any\(|all\(|\.item\(\) ?[<>]"
)
#: Names of what counts the steps of a run.
_COUNTER = re.compile(
    r"_*((global|current|cur|train|n)_)?(step|iter|iteration|epoch)s?(_?(num|number|count|idx|index))?"
)
#: Decorators that compile a function with its constants.
_COMPILING = re.compile(r"compile|jit(?!\.(?:unused|ignore)\b)|script", re.IGNORECASE)


class SeldomTaken:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def has(self, node: cst.Call) -> bool:
        """Whether ``node`` is kept for later, or is in a branch that is seldom taken."""
        if self._module.fact(Purposes).is_self_test(node):
            return True
        for above, child in climb(self._tree, node):
            if isinstance(above, cst.FunctionDef) and child is above.body:
                compiles = any(_COMPILING.search(self._module.code(item.decorator)) for item in above.decorators)
                return compiles or keeps_result(self._module, above) or is_for_deployment(self._module, above)
            if isinstance(above, (*HANDLERS, cst.Raise, cst.Assert)):
                return True
            if isinstance(above, (cst.If, cst.IfExp)) and child is not above.test:
                is_else = child is above.orelse
                if self._is_rare(above, is_else=is_else) and not (is_else and self._is_without_arguments(above)):
                    return True
            if isinstance(above, cst.IndentedBlock) and self._is_behind_return(above, child):
                return True
            if isinstance(above, cst.Call) and self._keeps(above):
                return True
            if isinstance(above, cst.Assign) and any(
                isinstance(target.target, cst.Subscript) and "cache" in self._module.code(target.target).lower()
                for target in above.targets
            ):
                return True
        return False

    def _keeps(self, call: cst.Call) -> bool:
        """Whether a call makes a parameter or a buffer of what it is given."""
        name = self._module.name_of(call.func) or ""
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        return last_part(name) in ("Parameter", "Buffer") or method in ("register_buffer", "register_parameter")

    def _is_rare(self, branch: cst.If | cst.IfExp, is_else: bool) -> bool:
        """Whether a branch is for what is seldom: nothing there yet, no element, an export."""
        test = branch.test
        text = self._module.code(test)
        if _RARE.search(text):
            return True
        if is_else:
            if self._asks_for_settings(test) or any(dotted_name(part) == "self.training" for part in conjuncts(test)):
                return False  # a whole run takes it, or none; evaluation takes it at every batch
            if _asks_whether_empty(test):
                return False
            return re.search(r"> ?0\b|!= ?0\b|\blen\(|any\(|is not None|numel|\.sum\(|\bin\b|hasattr", text) is not None
        return _is_early(test) or (_SELDOM.search(text) is not None and not self._asks_for_items(test))

    def _asks_for_items(self, test: cst.BaseExpression) -> bool:
        """Whether a condition asks whether the constructor is given a list of something: ``len(self.names) > 0``."""
        call = test.left if isinstance(test, cst.Comparison) and len(test.comparisons) == 1 else None
        if not isinstance(test, cst.Comparison) or not isinstance(call, cst.Call) or len(call.args) != 1:
            return False
        items = call.args[0].value
        is_asked = isinstance(test.comparisons[0].operator, (cst.GreaterThan, cst.NotEqual))
        if not is_asked or self._module.name_of(call.func) != "builtins.len" or not is_attribute_of_self(items):
            return False
        stores, is_in_constructor = self._module.fact(Stores), self._module.fact(Purposes).is_in_constructor
        filled = stores.containers.get(items.attr.value, ())
        return (
            items.attr.value in stores.attributes
            and asks_for_attributes(self._module, items)
            and all(is_in_constructor(place) for _, _, place in filled)
        )

    def _asks_for_settings(self, test: cst.BaseExpression) -> bool:
        """Whether a condition depends on settings of the program or the object alone: ``args.weight > 0``.

        A constructor is seen to set the attributes of an object, not to a number by default, as one of which the test
        is true, and nothing counts in them: ``self.seen += 1``.
        """
        if asks_for_attributes(self._module, test):
            asked = {node.attr.value for node in self._tree.inside(test, cst.Attribute)}
            uses = [use for name in asked for use in self._tree.attributes_named(name)]
            counts = any(isinstance(self._tree.parent(use), cst.AugAssign) for use in uses)
            stored = self._module.fact(Stores).attributes
            return not counts and asked <= stored.keys() and not any(self._is_on(name, test) for name in asked)
        names = self._tree.inside(test, cst.Name)
        members = {node.attr for node in self._tree.nodes_in(test) if isinstance(node, cst.Attribute)}
        roots = [node.value for node in names if node not in members]
        return bool(roots) and all(map(OPTIONS.fullmatch, roots))

    def _is_on(self, name: str, test: cst.BaseExpression) -> bool:
        """Whether an attribute is a positive number by default: ``conf.get("weight", 1.0)``, ``weight=1.0``."""
        owner = nearest(self._tree, test, cst.ClassDef)
        lineage = [] if owner is None else self._module.definitions.lineage(owner)
        for _, value, place in self._module.fact(Stores).attributes[name]:
            if nearest(self._tree, place, cst.ClassDef) not in lineage:
                continue
            args = value.args if isinstance(value, cst.Call) else ()
            if len(args) > 1 and isinstance(args[0].value, cst.SimpleString):
                default: cst.BaseExpression | None = args[1].value
            else:
                param = self._module.names.parameter(value) if isinstance(value, cst.Name) else None
                default = value if param is None else param.default
            constant = None if default is None else self._module.value(default).constant
            if isinstance(constant, (int, float)) and constant > 0:
                return True
        return False

    def contradicts(self, node: cst.Call, calls: Sequence[cst.Call]) -> bool:
        """Whether ``node`` is in the `else` of a condition that calls which lead to it are under."""
        denied = {self._module.code(item.test) for item, child in self._conditions(node) if child is item.orelse}
        return bool(denied) and any(
            child is not item.orelse and self._module.code(item.test) in denied
            for call in calls
            for item, child in self._conditions(call)
        )

    def _conditions(self, node: cst.CSTNode) -> Iterator[tuple[cst.If | cst.IfExp, cst.CSTNode]]:
        for above, child in climb(self._tree, node):
            if isinstance(above, (cst.If, cst.IfExp)) and child is not above.test:
                yield above, child
            if isinstance(above, cst.FunctionDef):
                return

    def _is_without_arguments(self, branch: cst.If | cst.IfExp) -> bool:
        """Whether the `else` of ``if targets is not None:`` runs where a call passes no targets, such as inference."""
        test = branch.test
        tests = [test.left, test.right] if isinstance(test, cst.BooleanOperation) else [test]
        function = self._module.function_of(branch)
        params = {item.name.value: item for item in function.params.params} if function is not None else {}
        asked = [
            params.get(last_name(item.left))
            for item in tests
            if isinstance(item, cst.Comparison)
            and isinstance(item.left, cst.Name)
            and isinstance(item.comparisons[0].operator, cst.IsNot)
            and is_none(item.comparisons[0].comparator)
        ]
        if function is None or len(asked) < len(tests) or None in asked:
            return False
        return any(
            all(self._module.definitions.argument_of(call, function, param) is None for param in asked if param)
            for call in self._module.fact(Dispatch).callers(function)
            if not any(item.star for item in call.args)
        )

    def _is_behind_return(self, block: cst.IndentedBlock, child: cst.CSTNode) -> bool:
        """Whether an earlier statement of ``block`` returns what was kept: ``if key in self.cache: return ...``."""
        for statement in block.body:
            if statement is child:
                return False
            if (
                isinstance(statement, cst.If)
                and self._tree.inside(statement.body, cst.Return)
                and re.search(r"cache|is not None|hasattr|\bin self\.", self._module.code(statement.test))
            ):
                return True
        return False


def asks_for_attributes(module: Module, test: cst.BaseExpression) -> bool:
    """Whether a condition is the same whenever an object asks for it: on attributes that only constructors set."""
    tree = module.tree
    parts = list(tree.nodes_in(test))
    attributes = [node for node in parts if isinstance(node, cst.Attribute)]
    names = {node.value for node in parts if isinstance(node, cst.Name)}
    names -= {"None", "True", "False", *(node.attr.value for node in attributes)}
    stored = module.fact(Stores).attributes
    is_asked_for = asked_for_none(test, cst.IsNot) is not None  # `if self.net.encoder is not None:`
    return (
        names == {"self"}
        and not tree.calls_in(test)
        and all(is_asked_for or dotted_name(node) == f"self.{node.attr.value}" for node in attributes)
        and all(
            module.fact(Purposes).is_in_constructor(place)
            for node in attributes
            for held, _, place in stored.get(node.attr.value, ())
            if dotted_name(held) == "self" or not is_attribute_of_self(node)
        )
    )


def _is_early(test: cst.BaseExpression) -> bool:
    """Whether a condition is true in the first steps of a run alone: ``self.step_num < self.start_step``."""
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return False
    operator, other = test.comparisons[0].operator, test.comparisons[0].comparator
    if isinstance(operator, (cst.LessThan, cst.LessThanEqual)):
        return _COUNTER.fullmatch(last_name(test.left)) is not None
    is_reversed = isinstance(operator, (cst.GreaterThan, cst.GreaterThanEqual))
    return is_reversed and _COUNTER.fullmatch(last_name(other)) is not None


def _asks_whether_empty(test: cst.BaseExpression) -> bool:
    """Whether the `else` of a test is the usual case: ``if len(boxes) <= 1:``, ``if mask.sum() == 0:``."""
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return False
    operator, other = test.comparisons[0].operator, test.comparisons[0].comparator
    if not isinstance(operator, (cst.Equal, cst.LessThan, cst.LessThanEqual)) or not isinstance(other, cst.Integer):
        return False
    return other.value == "0" or (other.value == "1" and not isinstance(operator, cst.Equal))
