"""The calls that build a network in training mode, and whether it may leave that mode."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics import knowledge
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.dotted import dotted_name, is_attribute_of_self, last_name, last_part
from torchlint.model.syntax.scopes import unpacked
from torchlint.model.training.evaluation import KEEPING_MODE
from torchlint.model.training.mode_switches import ModeSwitches, same_object
from torchlint.model.training.network_origins import NetworkOrigins

#: What the name of a function of another file says if it may switch the mode.
_MODE_WORDS = re.compile(r"eval|infer|load|prepare|setup|convert|quant|freeze|mode|test|valid", re.IGNORECASE)
#: Methods that give the parts of a network to other code, which may switch their mode.
_GIVING_PARTS = frozenset({"apply", "children", "modules", "named_children", "named_modules"})
#: Libraries whose functions and classes build networks in training mode.
_FACTORIES = ("torchvision.models.", "timm.create_model", "timm.models.", "segmentation_models_pytorch.", "torch.nn.")
#: Imported roots whose classes are not networks, or that hand out networks in evaluation mode.
_OTHER_ROOTS = frozenset(
    "torch torchvision torchaudio torchtext transformers diffusers sentence_transformers peft timm numpy scipy sklearn "
    "pandas PIL cv2 matplotlib builtins typing collections pathlib argparse os sys json accelerate datasets open_clip "
    "clip ultralytics facenet_pytorch pytorch_lightning lightning onnxruntime tensorflow keras easydict "
    "omegaconf".split()
)


class Constructors(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._tree = forest.tree
        self._names = forest.names
        self._definitions = forest.definitions
        self._values = forest.values
        self._switches = forest.fact(ModeSwitches)
        self._origins = forest.fact(NetworkOrigins)

    def of(self, model: cst.BaseExpression) -> frozenset[cst.Call] | None:
        """The calls that build ``model`` in training mode; None unless all ways it may come are seen."""
        return self._constructors(model, (), 12)

    def _constructors(self, node: cst.CSTNode | None, path: tuple[int, ...], depth: int) -> frozenset[cst.Call] | None:
        if node is None or depth < 0:
            return None
        if isinstance(node, cst.Tuple):
            part = unpacked(node, path)
            return self._constructors(part, path[1:], depth - 1) if part is not node else None
        if isinstance(node, cst.Attribute) and node.attr.value in ("module", "_orig_mod"):
            return self._constructors(node.value, path, depth - 1)
        if isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)):
            return _all([self._constructors(value, part, depth - 1) for value, part in self._origins.of(node, path)])
        if isinstance(node, cst.IfExp):
            return _all([self._constructors(item, path, depth - 1) for item in (node.body, node.orelse)])
        return self._built_by(node, path, depth) if isinstance(node, cst.Call) else None

    def _built_by(self, node: cst.Call, path: tuple[int, ...], depth: int) -> frozenset[cst.Call] | None:
        func = node.func
        name = self._names.resolve(func)
        if name is not None and name in knowledge.WRAPPERS:
            return self._constructors(node.args[0].value, path, depth - 1) if node.args else None
        if isinstance(func, cst.Attribute) and name is None and func.attr.value in KEEPING_MODE:
            return self._constructors(func.value, path, depth - 1)
        if self._prepares(node):
            return self._prepared(node, path, depth)
        if node in self._definitions.registries.factory_calls:
            return frozenset({node})
        definitions = self._definitions.called(node, self._values)
        if definitions:
            found: list[frozenset[cst.Call] | None] = []
            for definition in definitions:
                if isinstance(definition, cst.ClassDef):
                    found.append(frozenset({node}))
                elif self._definitions.registries.is_factory(definition):
                    found.append(None)  # of a class that is not seen
                else:
                    for item in self._definitions.returns(definition):
                        found.append(self._constructors(item, path, depth - 1))
            return _all(found)
        return frozenset({node}) if name is not None and not path and _builds_network(name) else None

    def _prepares(self, node: cst.Call) -> bool:
        """Whether a trainer gets its parts ready for the device by this call, which keeps their mode."""
        func = node.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in knowledge.PREPARING:
            return False
        return self._values.of(func.value).kind is Kind.TRAINER

    def _prepared(self, node: cst.Call, path: tuple[int, ...], depth: int) -> frozenset[cst.Call] | None:
        """The same for what ``accelerator.prepare(net, optimizer)`` gives back; of several, the one at ``path``."""
        given = [item.value for item in node.args if item.star == ""]
        if len(given) != len(node.args) or not given:
            return None
        if len(given) == 1:
            return self._constructors(given[0], path, depth - 1)
        return self._constructors(given[path[0]], path[1:], depth - 1) if path and 0 <= path[0] < len(given) else None

    def may_be_in_evaluation(self, model: cst.BaseExpression, constructors: frozenset[cst.Call]) -> bool:
        """Whether anything in the file may put ``model``, built by ``constructors``, into evaluation mode.

        Any ``eval()`` in the file on an object of that name, on an unnamed one, on a loop variable, on a network
        that the constructor is given, or on one that the model is a part of counts, and so does a function of another
        file that is given the model and whose name speaks of a mode. An ``eval()`` on a network of unknown origin does
        not count if the model never leaves its object.
        """
        text = dotted_name(model) or ""
        last = last_part(text)
        parts = self._with_parts(constructors)
        wholes = self._wholes(model) if text.startswith("self.") else frozenset()
        if text.startswith("self.") and self._inherits_from_elsewhere(model):
            return True
        for switch in self._switches.all:
            if switch.evaluation is False:
                continue
            other = last_part(switch.target)
            if not switch.target or same_object(switch.target, text) or other in (last, "self", "module"):
                return True
            assert isinstance(switch.call.func, cst.Attribute)
            made = self._constructors(switch.call.func.value, (), 12)
            if made is None and not self._is_kept(model):
                return True
            if made is not None and (made & parts or self._classes(made) & wholes):
                return True
        return self._sets_training or last in self._handed_over

    def _is_kept(self, model: cst.BaseExpression) -> bool:
        """Whether ``model`` is an attribute of an object that is not a network, and never leaves it.

        It is only called, also by its methods, or replaced; no attribute of its name is used otherwise.
        """
        owner = self._class_around(model)
        if not is_attribute_of_self(model) or owner is None or self._values.instance(owner).kind is Kind.MODULE:
            return False
        return all(map(self._is_only_called, self._tree.attributes_named(model.attr.value)))

    def _is_only_called(self, network: cst.CSTNode) -> bool:
        """``net(x)``, ``net.to(device)``, ``net = Net()``; not ``net.modules()``, which gives its parts away."""
        parent = self._tree.parent(network)
        if isinstance(parent, cst.Attribute):
            method = self._tree.parent(parent)
            return isinstance(method, cst.Call) and method.func is parent and parent.attr.value not in _GIVING_PARTS
        return isinstance(parent, cst.AssignTarget) or (isinstance(parent, cst.Call) and parent.func is network)

    def _with_parts(self, constructors: frozenset[cst.Call]) -> frozenset[cst.Call]:
        """``constructors`` and those of the networks that they are given: of ``unet`` in ``Sampler(unet)``."""
        given = [item.value for call in constructors for item in call.args if item.star == ""]
        found = [self._constructors(item, (), 6) for item in given]
        return constructors.union(*(item for item in found if item is not None))

    def _classes(self, constructors: Iterable[cst.Call]) -> frozenset[cst.CSTNode]:
        """The classes that are called."""
        return frozenset(item for call in constructors for item in self._definitions.called(call, self._values))

    def _wholes(self, model: cst.BaseExpression) -> frozenset[cst.CSTNode]:
        """The classes of the networks that ``model``, an attribute of ``self``, may be a part of, directly or not."""
        found: set[cst.CSTNode] = set()
        waiting = [self._class_around(model)]
        while waiting:
            owner = waiting.pop()
            if owner is not None and owner not in found:
                found.add(owner)
                waiting += self._definitions.derived(owner)
                waiting += map(self._class_around, self._definitions.calls_of_class(owner))
        return frozenset(found)

    def _class_around(self, node: cst.CSTNode) -> cst.ClassDef | None:
        method = self._tree.function_of(node)
        return self._tree.class_of(method) if method is not None else None

    def _inherits_from_elsewhere(self, model: cst.BaseExpression) -> bool:
        """Whether the class around ``model`` has a base in another file, whose methods may switch the mode."""
        owner = self._class_around(model)
        names = self._definitions.base_names(owner) if owner is not None else iter(())
        return any(not name.startswith(("torch.nn.", "builtins.", "abc.", "typing.")) for name in names)

    @cached_property
    def _sets_training(self) -> bool:
        """Whether the mode of a network is set as an attribute: ``model.training = False``."""
        targets = (target for target, _, _ in self._tree.stores)
        return any(isinstance(target, cst.Attribute) and target.attr.value == "training" for target in targets)

    @cached_property
    def _handed_over(self) -> set[str]:
        """The last names of what ``load_for_inference(model)``, a function of another file, is given."""
        found: set[str] = set()
        for call in self._tree.calls_where(_MODE_WORDS.search):
            if last_name(call.func) and not self._definitions.called(call, self._values) and not self._prepares(call):
                found.update(last_name(item.value) for item in call.args)
        return found


def _all(found: list[frozenset[cst.Call] | None]) -> frozenset[cst.Call] | None:
    result: frozenset[cst.Call] = frozenset()
    for item in found:
        if item is None:
            return None
        result |= item
    return result or None


def _builds_network(name: str) -> bool:
    """Whether calling ``name`` builds a network in training mode: a library's, or a class of the project."""
    last = last_part(name)
    if name.startswith(_FACTORIES):
        return not name.startswith(("torch.nn.functional.", "torch.nn.init.", "torch.nn.utils."))
    return last[:1].isupper() and name.lstrip(".").partition(".")[0] not in _OTHER_ROOTS
