"""Whether the sketch of a file shows a call outside of networks that may run a network; no heavy imports."""

from __future__ import annotations

import ast
import builtins
import re
from functools import partial

from torchlint.model.semantics import knowledge
from torchlint.model.semantics.network_names import names_function, names_network
from torchlint.model.training.function_words import EVALUATING, MEASURING, SAVING, SHOWING, may_run_network, words_of
from torchlint.rule.bindings import FUNCTIONS, Bound, BoundKind, Function
from torchlint.rule.sketch import Sketch
from torchlint.source.ast_names import root_of
from torchlint.source.lexemes import code_of, names

from ._words import CONVERTING, METRIC, UNPACKING

_BUILTINS = frozenset(dir(builtins))
_IMPORTS = (ast.Import, ast.ImportFrom)
_DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
#: Names without which a file trains nothing: a function that does may run a network for its callers.
_TRAINING = frozenset("backward manual_backward fused_backward autograd func functorch scaler grad_scaler".split())
#: What a method of a network that only predicts contains: it evaluates the network, detaches, reads or shows outputs.
_LEAVING = re.compile(
    r"\beval\b|volatile|\.detach|(?<!utils)\.data\b|\.item\b|tolist|\.numpy\b|argm|\)\[1\]|"
    rf"{CONVERTING}|{UNPACKING}|"
    rf"\b(?:{'|'.join(sorted(SHOWING | SAVING))})\("
)
#: The attributes by which wrappers have their network.
_WRAPPED = frozenset({"module", "_orig_mod"})
#: How the names of base classes end that are networks in other files ...
_NETWORKS = ("PreTrainedModel", "ModelMixin")
#: ... and parts of the names of those that may be something else.
_OTHERS = ("Data", "Loader")


def may_infer(sketch: Sketch) -> bool:
    """Whether a call that is not in a network, nor in a function that measures one, may run a network."""
    if METRIC in sketch.text:
        return True
    if not sketch.alone or not _TRAINING.isdisjoint(names(code_of(sketch.text))):
        return True  # values of other files, and functions that run a network for training
    included: dict[Function | None, bool] = {None: True}
    for statement in sketch.statements:
        home = sketch.function_of(statement)
        if home is not None and home not in included:
            included[home] = not _is_excluded(sketch, home)
        if included[home] or isinstance(statement, _DEFINITIONS):
            if any(_may_run(sketch, call, statement) for call in sketch.calls(statement)):
                return True
    return False


def _may_run(sketch: Sketch, call: ast.Call, statement: ast.stmt) -> bool:
    """Whether a call in a statement may run a network."""
    func = call.func
    if not call.args and not call.keywords and not any(map(_is_definition, sketch.all_bindings("forward"))):
        return False  # only networks of the file are run without arguments
    if _may_be_network(sketch, func, statement):
        return True
    if not isinstance(func, ast.Attribute):
        return False
    if _is_self(func.value):
        return func.attr == "forward" or func.attr in knowledge.ENCODING_METHODS  # others run parts of it
    runs = func.attr == "forward" or may_run_network(func.attr)
    is_of_file = any(map(_is_definition, sketch.all_bindings(func.attr)))  # maybe a method of a network
    return (runs or is_of_file) and _may_be_network(sketch, func.value, statement)


def _is_self(node: ast.expr) -> bool:
    """Whether an expression is ``self`` or ``super()``."""
    called = node.func if isinstance(node, ast.Call) else node
    return isinstance(called, ast.Name) and called.id == ("self" if called is node else "super")


def _may_be_network(sketch: Sketch, node: ast.expr, statement: ast.stmt) -> bool:
    """Whether an expression in a statement may be a network: not what is imported, defined or built in."""
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return not isinstance(node, ast.Constant)
    if knowledge.NO_NETWORK.search(node.id if isinstance(node, ast.Name) else node.attr):
        return False
    root = root_of(node)
    is_local = not root or root in sketch.inner_bindings(statement)
    bindings = sketch.all_bindings(root)
    if not is_local and all(isinstance(item.statement, _IMPORTS) for item in bindings):
        return not bindings and root not in _BUILTINS
    if isinstance(node, ast.Name):
        return is_local or not all(map(_is_definition, bindings))
    return _may_name_network(sketch, node.attr)


def _may_name_network(sketch: Sketch, name: str) -> bool:
    """Whether an attribute of this name may be a network, by what it is set to, its name and its use."""
    if name in _WRAPPED or sketch.all_bindings(f".{name}"):
        return True
    if any(map(partial(_is_of_class, sketch), sketch.all_bindings(name))):
        return True
    stem = name.lower()
    if names_network(stem) and not names_function(stem):
        return True
    used = re.compile(rf"{name}\s*\.\s*(?:parameters|named_parameters|eval|train|forward)\b")
    return used.search(sketch.text) is not None


def _is_definition(item: Bound) -> bool:
    """Whether a function or class has a name; parameters belong to the statements of functions too."""
    return isinstance(item.statement, _DEFINITIONS) and item.kind is not BoundKind.PARAMETER


def _is_of_class(sketch: Sketch, item: Bound) -> bool:
    """Whether a class has an attribute or a property by a binding."""
    if isinstance(item.statement, _IMPORTS) or (_is_definition(item) and not _is_property(item.statement)):
        return False
    above = next((node for node in sketch.around(item.statement) if isinstance(node, _DEFINITIONS)), None)
    return isinstance(above, ast.ClassDef) and item.kind is not BoundKind.PARAMETER


def _is_property(statement: ast.stmt) -> bool:
    decorators = statement.decorator_list if isinstance(statement, FUNCTIONS) else []
    return any("property" in ast.unparse(decorator) for decorator in decorators)


def _is_excluded(sketch: Sketch, function: Function) -> bool:
    """Whether a function is not inference, whatever it runs: it measures, or is a method of a network."""
    if function.name.startswith("__") and function.name != "__call__":
        return True
    if words_of(function.name) & MEASURING and not sketch.answer(_may_leave_graph):
        return True
    method: Function | None = function
    for above in sketch.around(function):
        if isinstance(above, FUNCTIONS):
            method = above
        elif isinstance(above, ast.ClassDef) and method is not None:
            if _is_network(sketch, above) and not _may_predict(sketch, method):
                return True
            method = None
    return False


def _may_predict(sketch: Sketch, method: Function) -> bool:
    """Whether a method of a network may run it for prediction only."""
    return bool(words_of(method.name) & EVALUATING) or sketch.answer(_may_leave_graph)


def _may_leave_graph(sketch: Sketch) -> bool:
    """Whether a file evaluates a network, or detaches, reads or shows a tensor."""
    return _LEAVING.search(code_of(sketch.text)) is not None


def _is_network(sketch: Sketch, definition: ast.ClassDef) -> bool:
    """Whether the objects of a class are networks for certain."""
    waiting, seen = [definition], {definition}
    found = False
    while waiting:
        for base in waiting.pop().bases:
            node = base.value if isinstance(base, ast.Subscript) else base
            root, last = root_of(node), node.attr if isinstance(node, ast.Attribute) else root_of(node)
            if not root or any(word in last for word in _OTHERS):
                return False
            bindings = [item.statement for item in sketch.all_bindings(root)]
            if isinstance(node, ast.Name) and len(bindings) == 1 and isinstance(bindings[0], ast.ClassDef):
                if bindings[0] not in seen:
                    seen.add(bindings[0])
                    waiting.append(bindings[0])
            elif not bindings or not all(isinstance(item, _IMPORTS) for item in bindings):
                return False
            else:
                is_module = last == "Module" and sketch.packages(root) == {"torch"}
                found = found or is_module or last.endswith(_NETWORKS) or any(map(_is_forward, definition.body))
    return found


def _is_forward(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.FunctionDef) and statement.name == "forward"
