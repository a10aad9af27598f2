"""What a name, and what is done with it, tells of a value that nothing else is known of."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import libcst as cst

from torchlint.model.semantics import knowledge
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.network_names import NETWORK_NAMES, names_function, names_network
from torchlint.model.semantics.value import UNKNOWN, Value
from torchlint.model.syntax.dotted import dotted_name, last_name, last_part
from torchlint.model.syntax.scopes import Binding
from torchlint.model.syntax.tree import Tree

#: How the name of a class ends that a program picks.
_CLASSES = ("_class", "_cls")
#: What the settings of a program are called, whose attributes tell nothing of them: ``opt.eval`` is a switch.
SETTINGS = frozenset("arg args opt opts option options cfg config conf configs hparams hps settings flags".split())
#: How the names of settings end, whatever they are for: ``net_params["device"]``, ``model_cfg``.
_SETTINGS_OF = tuple(f"_{name}" for name in (*sorted(SETTINGS), "params", "kwargs", "dict", "name", "path"))
#: Methods that only networks have.
_OF_NETWORKS = frozenset({"parameters", "named_parameters", "eval", "state_dict", "load_state_dict"})
#: ... and those that networks have and classes do not call.
_OF_OBJECTS = _OF_NETWORKS | {"train", "forward", "zero_grad", "cuda", "to", "modules", "requires_grad_", "apply"}
#: Methods of `Fabric`, which programs pass on under this name.
_OF_FABRIC = frozenset({"setup", "setup_module", "setup_dataloaders", "backward", "launch", "no_backward_sync"})
#: Methods and attributes of `Accelerator` of Accelerate, for the same reason.
_OF_ACCELERATE = frozenset("prepare backward unwrap_model accumulate sync_gradients gather_for_metrics".split())


class Guesses:
    """Answers for one forest; they are never sure."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._known: dict[str, Value] = {}

    def of(self, text: str) -> Value:
        """A guess from a name and from what is done with it elsewhere in the file; never sure."""
        if text not in self._known:
            self._known[text] = self._find(text)
        return self._known[text]

    def of_bound(self, text: str, bindings: Iterable[Binding]) -> Value:
        """A guess from a name that these bindings bind; none for a method: ``encoder = vocabulary.get_index``."""
        given = [item.value for item in bindings if item.value is not None and not item.path]
        is_method = all(isinstance(value, cst.Attribute) and names_function(value.attr.value) for value in given)
        return UNKNOWN if given and is_method else self.of(text)

    def _find(self, text: str) -> Value:
        used = self._used_as(text)
        last = last_part(text).lower()
        if last in SETTINGS or (last.endswith(_SETTINGS_OF) and not used & _OF_NETWORKS):
            return UNKNOWN
        if any(word in last for word in knowledge.LOADER_NAMES):
            return Value(Kind.LOADER, sure=False)
        if "optim" in last and not used & {"zero", "parameters"}:
            return Value(Kind.OPTIMIZER, sure=False)
        if last in knowledge.LOSS_NAMES:
            return Value(Kind.LOSS, sure=False)
        if last == "fabric" and used & _OF_FABRIC:
            return Value(Kind.TRAINER, name="lightning.fabric.Fabric", sure=False)
        if text == "accelerator" and used & _OF_ACCELERATE:  # a parameter: an attribute is one of a trainer
            return Value(Kind.TRAINER, name="accelerate.Accelerator", sure=False)
        if last == "scaler" or last.endswith("grad_scaler"):
            return Value(Kind.SCALER, sure=False)
        if used & {"parameters", "named_parameters", "eval", "forward"} or (
            "train" in used and used & {"state_dict", "load_state_dict"}
        ):
            return Value(Kind.MODULE, sure=False)
        if names_function(last):
            return UNKNOWN
        if self.instance(last) or (self._names_class(text) and not used & _OF_OBJECTS):
            return Value(Kind.CLASS, sure=False)
        return Value(Kind.MODULE, sure=False) if names_network(last) else UNKNOWN

    def corrected(self, text: str, value: Value) -> Value:
        """``value``, or what a dotted name says of it if that is only a guess: ``model_class = config.model``.

        What ``model_func(config)`` gives is a network and not an output, if parameters are taken of it.
        """
        if value.sure:
            return value
        name = last_part(text)
        if value.kind is Kind.MODULE and not value.definition and self.instance(name):
            return self.of(text)
        if value.kind is Kind.TENSOR and names_network(name.lower()) and self._used_as(text) & _OF_NETWORKS:
            return Value(Kind.MODULE, device=value.device, sure=False)
        return value

    def instance(self, text: str) -> Value:
        """A guess at what ``generator_class(...)`` makes, from that name; never sure."""
        last = last_part(text)
        if self._names_class(last):
            return Value(Kind.MODULE, sure=False)
        return next((self.of(last[: -len(end)]) for end in _CLASSES if last.lower().endswith(end)), UNKNOWN)

    def _names_class(self, text: str) -> bool:
        """Whether a name is one of a class of networks: ``Model = load_class(config.model)``."""
        last = last_part(text)
        return last[:1].isupper() and not last.isupper() and "_" not in last and names_network(last.lower())

    def of_item(self, container: cst.BaseExpression) -> Value:
        """A guess at an item of a list or dict, from the name of that: ``models["generator"]``; never sure."""
        name = last_name(container).lower().rstrip("_")
        if name in NETWORK_NAMES or name.removesuffix("s") in NETWORK_NAMES:
            return Value(Kind.MODULE, sure=False)
        return UNKNOWN

    def _used_as(self, text: str) -> set[str]:
        return self._uses.get(text, set())

    @cached_property
    def _uses(self) -> dict[str, set[str]]:
        """The attributes that the forest takes of each dotted name."""
        found: dict[str, set[str]] = {}
        for root in self._tree.roots:
            for base, taken in self._tree.share(_uses_in, root).items():
                found.setdefault(base, set()).update(taken)
        return found


def _uses_in(tree: Tree, root: cst.Module) -> dict[str, set[str]]:
    """The attributes that one file takes of each dotted name."""
    found: dict[str, set[str]] = {}
    for attribute in tree.attributes_in(root):
        base = dotted_name(attribute.value)
        if base is not None:
            found.setdefault(base, set()).add(attribute.attr.value)
    return found
