"""Methods of a compiled network that run its layers uncompiled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.dotted import called_name, dotted_name, last_part
from torchlint.model.training.networks import Networks
from torchlint.model.training.purpose import Purposes

from ._sites import Compile, CompileSites

#: Methods that a compiled wrapper runs compiled.
_COMPILED = frozenset({"forward", "__call__"})
#: Methods of library classes that run layers, by the package of the class.
_OF_LIBRARIES = {
    "transformers": ("generate", "get_image_features", "get_text_features", "get_audio_features"),
    "diffusers": ("encode", "decode"),
    "peft": ("generate",),
}
#: Packages whose networks run one of another package inside, which compiling in place does not reach.
_WRAPPING = frozenset({"peft"})
#: How many methods deep a method is followed to a forward.
_DEPTH = 2


@dataclass(frozen=True, eq=False)
class Bypass:
    """A call of a method of a compiled network."""

    call: cst.Call
    method: cst.FunctionDef | None  #: None for a method of a library
    site: Compile  #: where the network is compiled
    forward: cst.Call | None  #: what the method runs
    packages: frozenset[str] = frozenset()  #: those of the network's library classes

    @property
    def calls_itself(self) -> bool:
        """Whether the method runs the network by ``self(...)``, which ``Module.compile()`` compiles."""
        if self.method is None:
            return called_name(self.call) == "generate" and self.packages.isdisjoint(_WRAPPING)
        return self.forward is not None and dotted_name(self.forward.func) == "self"


class Bypasses:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def all(self) -> Iterator[Bypass]:
        """The calls of a file that run a compiled network by another method than its forward, in order."""
        speeding = self._module.fact(CompileSites).for_speed
        sites: dict[cst.CSTNode, Compile] = {site.node: site for site in speeding if not site.in_place}
        if not sites:
            return
        for call in self._tree.calls_in(self._module.root):
            func = call.func
            if not isinstance(func, cst.Attribute) or func.attr.value in _COMPILED:
                continue
            receiver = self._module.value(func.value)
            site = next((sites[node] for node in receiver.compiles if node in sites), None)
            if site is None or receiver.kind is not Kind.MODULE or self._module.fact(Purposes).is_self_test(call):
                continue
            if dotted_name(func.value) == "self":
                continue
            found = self._bypass(call, func, site)
            if found is not None:
                yield found

    def _bypass(self, call: cst.Call, func: cst.Attribute, site: Compile) -> Bypass | None:
        methods = [
            item
            for item in self._module.definitions.called(call, self._module.values)
            if isinstance(item, cst.FunctionDef)
        ]
        for method in methods:
            forward = self._forward_in(method, _DEPTH)
            if forward is not None and not self._is_compiled(method):
                return Bypass(call, method, site, forward)
        packages = self._packages(func.value) if not methods else frozenset()
        return Bypass(call, None, site, None, packages) if self._is_of_library(func, packages) else None

    def _is_of_library(self, func: cst.Attribute, packages: frozenset[str]) -> bool:
        """Whether a method of libraries runs layers; with a static cache, ``generate`` is compiled by itself."""
        method = func.attr.value
        is_listed = bool(packages) and all(method in _OF_LIBRARIES.get(package, ()) for package in packages)
        return is_listed and (method != "generate" or "static" not in self._module.own_text)

    def _packages(self, network: cst.BaseExpression) -> frozenset[str]:
        """The packages of the class of a network, or of all classes that conditions choose from."""
        value = self._module.value(network)
        made = [self._module.value(origin).name for origin in value.origins] if not value.name else [value.name]
        return frozenset(name.partition(".")[0] for name in made)

    def _forward_in(self, method: cst.FunctionDef, depth: int) -> cst.Call | None:
        """The call by which a method runs its network, or layers of it: ``self(x)`` before any other."""
        own = [item for item in self._tree.calls_in(method.body) if self._module.function_of(item) is method]
        for call in own:
            if dotted_name(call.func) == "self" and call.args:
                return call
        networks = self._module.fact(Networks)
        for call in own:
            name = dotted_name(call.func) or ""
            if name == "self.forward" or (name.startswith("self.") and networks.runs_network(call)):
                return call
        for call in own if depth > 0 else ():
            if not (dotted_name(call.func) or "").startswith("self."):
                continue
            for item in self._module.definitions.called(call, self._module.values):
                if isinstance(item, cst.FunctionDef) and item is not method:
                    found = self._forward_in(item, depth - 1)
                    if found is not None:
                        return found
        return None

    def _is_compiled(self, method: cst.FunctionDef) -> bool:
        """Whether the method, or a part of its class, is compiled by itself."""
        owner = self._tree.class_of(method)
        for site in self._module.fact(CompileSites).all:
            if site.target is method or (owner is not None and self._tree.within(site.node, owner)):
                return True
            if not site.in_place and last_part(dotted_name(_target(site)) or "") == method.name.value:
                return True  # `model.generate = torch.compile(model.generate)`
        return False


def _target(site: Compile) -> cst.BaseExpression | None:
    return site.target if isinstance(site.target, cst.BaseExpression) else None
