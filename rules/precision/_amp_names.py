"""Uses of ``torch.cuda.amp`` and ``torch.cpu.amp``, and the edits that replace them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint import edits
from torchlint.edits import Edits
from torchlint.model.module import Module
from torchlint.model.program.version_checks import VersionChecks
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.climbing import climb, nearest
from torchlint.model.syntax.dotted import last_part
from torchlint.model.syntax.nodes import TRIES
from torchlint.model.syntax.scopes import Binding
from torchlint.rule import Edit

from ._amp_references import is_compared, is_named_elsewhere

_WRAPPERS = ("torch.cuda.amp.custom_fwd", "torch.cuda.amp.custom_bwd")
_DEPRECATED = tuple(f"torch.{device}.amp.{name}" for device in ("cuda", "cpu") for name in ("autocast", "GradScaler"))
#: The positional parameters of ``autocast``, now after the device.
_AUTOCAST = ("enabled", "dtype", "cache_enabled")
#: What can be imported from `torch.amp` instead: the names, and the modules they are in.
_IMPORTED = ("amp", "autocast", "GradScaler", "custom_fwd", "custom_bwd", "autocast_mode", "grad_scaler")


@dataclass(frozen=True, eq=False)
class Use:
    """One call of a deprecated name, a decorator without a call, or a place that passes it on to be called."""

    node: cst.Call | cst.Decorator | cst.BaseExpression
    target: cst.BaseExpression  #: the dotted expression that is called or assigned
    name: str

    @property
    def device(self) -> str:
        """The device that the name implies."""
        return self.name.split(".")[1]

    @property
    def successor(self) -> str:
        """The name that replaces it."""
        return f"torch.amp.{last_part(self.name)}"


def uses(module: Module) -> list[Use]:
    """The uses of the deprecated names, including those in branches for older versions."""
    found = [Use(call.node, call.node.func, call.name) for call in module.own_calls(*_DEPRECATED, *_WRAPPERS)]
    found += [Use(node, node.decorator, name) for node, name in module.decorators(*_WRAPPERS)]
    return found + list(_aliases(module))


def _aliases(module: Module) -> Iterator[Use]:
    """The places that pass a deprecated name on, as in ``amp_autocast = torch.cuda.amp.autocast``; not attempts."""
    tree = module.tree
    for node in (*tree.names.get("autocast", ()), *tree.attributes_named("autocast")):
        name = module.name_of(node) if _is_passed_on(module, node) else None
        if name in _DEPRECATED and module.is_own(node) and nearest(tree, node, *TRIES) is None:
            yield Use(node, node, name)


def _is_passed_on(module: Module, node: cst.BaseExpression) -> bool:
    """Whether a value is assigned, returned or prepared by ``partial``, perhaps as one of two: ``a if flag else b``."""
    for above, child in climb(module.tree, node):
        if isinstance(above, cst.IfExp) and child is not above.test:
            continue
        if isinstance(above, cst.Arg):
            call = module.tree.parent(above)
            if not isinstance(call, cst.Call) or call.args[0] is not above:
                return False
            return module.name_of(call.func) == "functools.partial"
        return isinstance(above, (cst.Assign, cst.Return)) and above.value is child
    return False


def is_current(module: Module, use: Use) -> bool:
    """Whether the name is imported, and neither the import nor the use is for older versions."""
    imports = module.names.imports_of(use.target)
    if imports is None or module.fact(VersionChecks).for_other_versions(use.node):
        return False
    return not any(
        binding.imported != "torch" and module.fact(VersionChecks).for_other_versions(binding.node)
        for binding in imports
    )


class Imports:
    """The change of each import, with all its uses; computed once for all uses."""

    def __init__(self, module: Module, uses: list[Use]) -> None:
        self._module = module
        self.uses = uses
        self._users: dict[Binding, list[Use]] = {}
        for use in uses:
            for binding in module.names.imports_of(use.target) or ():
                self._users.setdefault(binding, []).append(use)
        self._siblings: dict[cst.CSTNode, list[Binding]] = {}
        self._movable: dict[Binding, bool] = {}
        self._moved: dict[cst.CSTNode, Edits | None] = {}
        self._dropped: dict[Binding, Edits | None] = {}
        self._compared: dict[str, bool] = {}

    def siblings(self, binding: Binding) -> list[Binding]:
        """All names that the same import statement binds."""
        if binding.node not in self._siblings:
            scope = self._module.tree.scope_of(binding.node)
            bound = [
                other for bindings in scope.bindings.values() for other in bindings if other.kind is BindingKind.IMPORT
            ]
            for other in bound:
                self._siblings.setdefault(other.node, []).append(other)
        return self._siblings.get(binding.node, [])

    def is_movable(self, binding: Binding) -> bool:
        """Whether only calls that can be rewritten, and annotations, use the imported name."""
        if binding not in self._movable:
            self._movable[binding] = _movable(self._module, binding, self._users.get(binding, []))
        return self._movable[binding]

    def moved(self, statement: cst.CSTNode, bindings: list[Binding]) -> Edits | None:
        """The edits that import the same names from elsewhere, and adapt their uses."""
        if statement not in self._moved:
            users = {use for binding in bindings for use in self._users.get(binding, ())}
            group = [use for use in self.uses if use in users]
            parts = (_arguments(self._module, use) for use in group)
            self._moved[statement] = _joined(_without_device(self._module, statement), *parts)
        return self._moved[statement]

    def dropped(self, binding: Binding) -> Edits | None:
        """The edits that remove the import and write out its uses; None if anything else needs the import."""
        if binding not in self._dropped:
            group = self._users.get(binding, [])
            covered = {part for use in group for part in self._module.tree.nodes_in(use.target)}
            if is_named_elsewhere(self._module, binding, covered):
                dropped = None
            else:
                dropped = edits.remove_imported_name(self._module, binding.node, binding.name)  # type: ignore[arg-type]
            self._dropped[binding] = _joined(dropped, *(_spelled_out(self._module, use) for use in group))
        return self._dropped[binding]

    def is_compared(self, name: str) -> bool:
        """Whether objects may be compared with the deprecated class ``name``."""
        if name not in self._compared:
            self._compared[name] = is_compared(self._module, name)
        return self._compared[name]


def change(module: Module, use: Use, imported: Imports) -> Edits | None:
    """The edits that replace ``use`` with the new name, with all uses of the same import."""
    own = _arguments(module, use)
    if own is None:
        return None
    short = _without_device(module, use.target)
    if short is not None:
        return short + own
    imports = module.names.imports_of(use.target) or []
    if len(imports) != 1 or ".amp" not in imports[0].imported:
        return None
    binding = imports[0]
    siblings = imported.siblings(binding)
    if all(map(imported.is_movable, siblings)):
        return imported.moved(binding.node, siblings)
    if imported.is_movable(binding):
        dropped = imported.dropped(binding)
        if dropped is not None:
            return dropped
    return _spelled_out(module, use)


def _arguments(module: Module, use: Use) -> Edits | None:
    """Pass the device."""
    if isinstance(use.node, cst.Decorator):
        end = module.span(use.target)[1]
        return (Edit(end, end, f'(device_type="{use.device}")'),)
    if not isinstance(use.node, cst.Call):
        return None
    arguments = use.node.args
    if module.is_parenthesized(use.target) or any(
        a.keyword is not None and a.keyword.value in ("device", "device_type") for a in arguments
    ):
        return None
    if use.name in _WRAPPERS:
        return edits.add_keyword(module, use.node, "device_type", f'"{use.device}"')
    named: Edits = ()
    if use.name.endswith("autocast"):
        positional = [argument for argument in arguments if argument.keyword is None and argument.star != "**"]
        if len(positional) > len(_AUTOCAST) or any(argument.star for argument in positional):
            return None
        for argument, name in zip(positional, _AUTOCAST, strict=False):
            named += edits.name_argument(module, argument, name)
    device = edits.prepend_argument(module, use.node, f'"{use.device}"')
    if named and device[0].start == named[0].start:  # one insertion, so that the order is defined
        return (Edit(device[0].start, device[0].end, device[0].content + named[0].content), *named[1:])
    return device + named


def _without_device(module: Module, node: cst.CSTNode) -> Edits | None:
    """Drop `.cuda` from `torch.cuda.amp`, in an expression or in an import."""
    if isinstance(node, cst.ImportFrom):
        part: cst.CSTNode | None = node.module
    elif isinstance(node, cst.Import):
        part = node.names[0].name if len(node.names) == 1 else None
    else:
        part = node
    while isinstance(part, cst.Attribute):
        root = part.value
        imported = not isinstance(node, cst.BaseExpression) and isinstance(root, cst.Name) and root.value == "torch"
        if part.attr.value in ("cuda", "cpu") and (imported or module.name_of(root) == "torch"):
            start, end = module.span(root)[1], module.span(part)[1]
            return (Edit(start, end, ""),) if module.text[start:end] == f".{part.attr.value}" else None
        part = root
    return None


def _spelled_out(module: Module, use: Use) -> Edits | None:
    """`torch.amp.autocast("cuda")` in full."""
    named = edits.name_module(module, "torch", use.target)
    if named is None:
        return None
    successor = use.successor.replace("torch", named[0], 1)
    return _joined(named[1], edits.replace(module, use.target, successor), _arguments(module, use))


def _movable(module: Module, binding: Binding, users: list[Use]) -> bool:
    """Whether only calls that can be rewritten, of ``users``, and annotations use the imported name."""
    if module.is_exported(binding) or last_part(binding.imported) not in _IMPORTED:
        return False
    if binding in module.scope.bindings.get(binding.name, ()) and module.is_taken(binding.name):
        return False  # another file calls it by the old name
    known = [use for use in users if _arguments(module, use) is not None and not _is_kept(module, use)]
    covered = {part for use in known for part in module.tree.nodes_in(use.target)}
    for name in module.names.uses(binding):
        if nearest(module.tree, name, cst.Annotation) is not None:
            continue
        if name not in covered:
            return False
    return True


def _is_kept(module: Module, use: Use) -> bool:
    """Whether a comment on the row asks to keep it."""
    first, last = module.statement_rows(use.node)
    return any("noqa" in module.line(row) for row in range(first, last + 1))


def _joined(*parts: Edits | None) -> Edits | None:
    joined: Edits = ()
    for part in parts:
        if part is None:
            return None
        joined += part
    return tuple(dict.fromkeys(joined))
