"""Settings for debugging ``torch.compile``, and whether they were set on purpose."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.switches import Switch, Switches
from torchlint.model.semantics.value import Device
from torchlint.model.syntax.nodes import HANDLERS

from ._sites import EAGER_BACKENDS, Compile, CompileSites

#: The effect of each variable or flag when it is on, and the value that enables it (None: any).
_VARIABLES = {
    "TORCHDYNAMO_DISABLE": ("1", "disables `torch.compile`"),
    "TORCH_COMPILE_DISABLE": ("1", "disables `torch.compile`"),
    "TORCH_COMPILE_DEBUG": ("1", "writes debug files at every compilation"),
    "TORCHDYNAMO_SUPPRESS_ERRORS": (None, "hides compile errors and falls back to eager"),
}
_FLAGS = {
    "torch._dynamo.config.disable": ("True", "disables `torch.compile`"),
    "torch._dynamo.config.suppress_errors": ("True", "hides compile errors and falls back to eager"),
}
#: Conditions that select a debugging backend on purpose.
_KNOWING = re.compile(r"debug|eager|backend|test|mps|win32|windows|darwin|platform|cpu|triton|version|capab", re.I)


def switches(module: Module) -> Iterator[tuple[Switch, str]]:
    for switch in (*module.fact(Switches).variables(*_VARIABLES), *module.fact(Switches).flags(*_FLAGS)):
        wanted, effect = {**_VARIABLES, **_FLAGS}[switch.name]
        if switch.value and wanted in (None, switch.value) and not switch.conditional:
            if not in_test(module, switch.node):
                yield switch, effect


def names_eager(call: cst.Call) -> bool:
    first = call.args[0].value if call.args else None
    text = first.evaluated_value if isinstance(first, cst.SimpleString) else None
    return isinstance(text, str) and EAGER_BACKENDS.fullmatch(text) is not None


def is_intended(module: Module, site: Compile) -> bool:
    """Whether the debugging backend was chosen on purpose: under a condition, for comparison, or with a comment."""
    if in_test(module, site.node):
        return True
    if site.option("disable") is site.debugging and module.comment_on(site.node):
        return True  # `disable=True  # LSTMs do not compile`
    if not isinstance(site.target, cst.FunctionDef) and module.value(site.target).device is Device.MPS:
        return True
    for above in module.tree.ancestors(site.node):
        if isinstance(above, (cst.If, cst.IfExp)) and _KNOWING.search(module.code(above.test)):
            return True
        if isinstance(above, HANDLERS):
            return True
    for other in module.fact(CompileSites).for_speed:
        if module.tree.exclusive(site.node, other.node) or _target(module, site) == _target(module, other):
            return True
    return False


def _target(module: Module, site: Compile) -> str:
    return site.target.name.value if isinstance(site.target, cst.FunctionDef) else module.code(site.target)


def in_test(module: Module, node: cst.CSTNode) -> bool:
    function = module.function_of(node)
    return function is not None and function.name.value.startswith("test")
