"""Trainers of Lightning: the loaders that they iterate over, and whether they run on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

import libcst as cst

from torchlint.model.data.configured_trainers import ConfiguredTrainers
from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.configuration import Configuration
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import Entries, keywords_of
from torchlint.model.syntax.dotted import is_attribute_of_self

_HOOKS = frozenset(f"{phase}_dataloader" for phase in ("train", "val", "test", "predict"))
#: Methods of a trainer that iterate over loaders.
FITS = frozenset({"fit", "validate", "test", "predict"})
#: The hook that moves a batch to a device.
_MOVING = "transfer_batch_to_device"
_TRAINER = "pytorch_lightning.Trainer"
#: Makes a trainer of the options of a command line.
_OF_OPTIONS = f"{_TRAINER}.from_argparse_args"
#: Adds the options of a trainer to a command line, without their defaults.
_OPTIONS = f"{_TRAINER}.add_argparse_args"
#: What ``accelerator`` was in old versions: how to train on several GPUs.
_STRATEGIES = frozenset("dp ddp ddp2 ddp_spawn ddp_sharded ddp_sharded_spawn horovod".split())
#: What names a GPU, or whatever accelerator there is.
_ACCELERATORS = frozenset({"gpu", "cuda", "auto"})
#: Calls whose results count GPUs, or list them.
_COUNTS = frozenset({"builtins.len", "builtins.list", "torch.cuda.device_count"})

#: What an assignment to a setting is followed to.
_WRITTEN = (cst.Call, cst.IfExp, cst.Integer, cst.List, cst.SimpleString)


class Lightning(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest

    @property
    def _configured(self) -> ConfiguredTrainers:
        return self._forest.fact(ConfiguredTrainers)

    @cached_property
    def trainers(self) -> list[cst.Call]:
        """The calls that create trainers, those on a GPU first."""
        found = [*(call.node for call in self._forest.calls(_TRAINER, _OF_OPTIONS)), *self._configured.calls]
        return sorted(found, key=lambda call: (not self.is_on_gpu(call), self._forest.tree.index(call)))

    @cached_property
    def hooks(self) -> dict[cst.CSTNode, list[cst.FunctionDef]]:
        """By loader the hooks such as ``train_dataloader`` that return it."""
        found: dict[cst.CSTNode, list[cst.FunctionDef]] = {}
        for function in self._phases:
            returned = [item for item in self._forest.definitions.returns(function) if item is not None]
            values = [self._forest.values.returned(function), *map(self._forest.value, returned)]
            parts = [part for value in values for part in (value, value.each or value, *value.elements)]
            for origin in (origin for part in parts if part.kind is Kind.LOADER for origin in part.origins):
                if function not in found.setdefault(origin, []):
                    found[origin].append(function)
        return found

    def runs(self, loader: cst.CSTNode) -> bool:
        """Whether a trainer may call the hooks that return a loader.

        Not those of ``predict``, if nothing calls it, and not those of validation with ``limit_val_batches=0``.
        """
        phases = {self._phases[hook].partition("_")[0] for hook in self.hooks.get(loader, ())}
        if phases <= {"test", "predict"}:
            return bool(self._forest.tree.calls_named(*phases))
        limits = (keywords_of(trainer).get("limit_val_batches") for trainer in self.trainers)
        is_limited = all(limit is not None and self._forest.value(limit).constant == 0 for limit in limits)
        return phases != {"val"} or not self.trainers or not is_limited

    @cached_property
    def _phases(self) -> dict[cst.FunctionDef, str]:
        """The methods that are hooks, each with its name, also ``self.val_dataloader = self._val_dataloader``."""
        tree = self._forest.tree
        found = {item: item.name.value for item in tree.functions if item.name.value in _HOOKS and tree.class_of(item)}
        for owner in tree.classes:
            attributes = tree.scopes[owner].attributes
            for name in sorted(_HOOKS & attributes.keys()):
                for binding in attributes[name]:
                    method = self._method_of(owner, binding.value)
                    if method is not None:
                        found.setdefault(method, name)
        return found

    def _method_of(self, owner: cst.ClassDef, node: cst.BaseExpression | None) -> cst.FunctionDef | None:
        """The method of a class that ``self.method`` is, or ``partial(self.method, shuffle=True)``."""
        if isinstance(node, cst.Call) and self._forest.name_of(node.func) == "functools.partial" and node.args:
            node = node.args[0].value
        is_own = isinstance(node, cst.Attribute) and is_attribute_of_self(node)
        return (
            self._forest.definitions.method(owner, node.attr.value)
            if isinstance(node, cst.Attribute) and is_own
            else None
        )

    def is_for_one_pass(self, loader: cst.CSTNode) -> bool:
        """Whether the hooks that return a loader are for testing."""
        hooks = self.hooks.get(loader, ())
        return all(self._phases[hook] in ("test_dataloader", "predict_dataloader") for hook in hooks)

    def moved_in(self, method: cst.FunctionDef, param: cst.Param) -> Iterator[cst.CSTNode]:
        """The loaders whose batches Lightning passes to ``method``, by which their own class moves them to a device."""
        owner = self._forest.tree.class_of(method)
        params = method.params.params
        if method.name.value != _MOVING or owner is None or len(params) < 2 or params[1] is not param:
            return
        for loader, hooks in self.hooks.items():
            if any(self._forest.tree.class_of(hook) is owner for hook in hooks) and self.is_of_lightning(method):
                yield loader

    def is_of_lightning(self, hook: cst.FunctionDef) -> bool:
        """Whether the class of a hook is derived from one of Lightning."""
        owner = self._forest.tree.class_of(hook)
        definitions = self._forest.definitions
        return owner is not None and any(
            name.startswith("pytorch_lightning.")
            for item in definitions.lineage(owner)
            for name in definitions.base_names(item)
        )

    def taken_by(self, call: cst.Call, func: cst.Attribute) -> frozenset[cst.CSTNode]:
        """The loaders that ``call``, ``trainer.fit(model, loader)``, passes to a trainer."""
        return passed_loaders(self._forest, call) if self.trainer_of(func) is not None else frozenset()

    def trainer_of(self, func: cst.Attribute) -> cst.Call | None:
        """The call that creates the trainer on which ``fit`` is called."""
        for origin in sorted(self._forest.value(func.value).origins, key=self._forest.tree.index):
            if isinstance(origin, cst.Call) and self.makes_trainer(origin):
                return origin
        return None

    def makes_trainer(self, call: cst.Call) -> bool:
        """Whether ``call`` is ``Trainer(...)`` or ``Trainer.from_argparse_args(...)``."""
        return self._forest.name_of(call.func) in (_TRAINER, _OF_OPTIONS)

    def trains(self, trainer: cst.CSTNode) -> bool:
        """Whether ``fit`` of a trainer is called, and not only ``test``."""
        if trainer in self._configured.calls:
            root = self._forest.tree.root_of(trainer)
            return any(self._forest.tree.root_of(call.node) is root for call in self._forest.methods("fit"))
        return trainer in self._fitted

    @cached_property
    def _fitted(self) -> frozenset[cst.CSTNode]:
        """What the objects are created by whose ``fit`` is called."""
        owners = (call.receiver for call in self._forest.methods("fit"))
        return frozenset(origin for owner in owners for origin in self._forest.value(owner).origins)

    def is_on_gpu(self, trainer: cst.Call) -> bool:
        """Whether a trainer runs on a GPU, if there is one."""
        if trainer in self._configured.calls and "accelerator" not in keywords_of(trainer):
            return self._configured.is_on_gpu(trainer)
        accelerator, gpus = self._given(trainer, "accelerator"), self._given(trainer, "gpus")
        accelerator = accelerator or self._given(trainer, "distributed_backend")  # its name before 1.1
        named = self._forest.value(accelerator).constant
        if named in _STRATEGIES:
            if gpus is None:
                return not self._entries(trainer, "gpus").known
            return self._names_gpus(gpus) or self._is_setting(gpus)
        if accelerator is None and gpus is None:
            return self._chooses_gpu(trainer) or self._counts_gpus(trainer)
        if accelerator is not None and self._on_a_path(accelerator, self._is_accelerator):
            return True
        return named is None and gpus is not None and self._names_gpus(gpus)

    def _given(self, trainer: cst.Call, name: str) -> cst.BaseExpression | None:
        """The argument of a trainer, directly or in a dictionary or object of options."""
        given = keywords_of(trainer).get(name)
        found = self._entries(trainer, name) if given is None else None
        is_one = found is not None and found.certain and len(found.values) == 1
        return found.values[0] if found is not None and is_one else given

    def _entries(self, trainer: cst.Call, name: str) -> Entries:
        """What ``Trainer(**options)`` or ``Trainer.from_argparse_args(options)`` gets."""
        found = self._forest.call(trainer, _TRAINER).entries(name)
        if self._forest.name_of(trainer.func) != _OF_OPTIONS or not trainer.args or found.values:
            return found
        found = self._forest.keywords.entries(trainer.args[0].value, name)
        defaults = self._forest.values.parsers.defaults(name, trainer)
        known = tuple(value for value in defaults if value is not None)
        return found if found.values or not known else Entries(known, certain=True, known=False)

    def _chooses_gpu(self, trainer: cst.Call) -> bool:
        """Whether a trainer without arguments about it takes the GPU: one of ``lightning``, not of its predecessor."""
        imported = self._forest.imported_by(self._forest.tree.root_of(trainer))
        is_new = any(name.partition(".")[0] == "lightning" for name in imported)
        return is_new and not any(item.star for item in trainer.args)

    def _counts_gpus(self, trainer: cst.Call) -> bool:
        """Whether the user names the GPUs of a trainer, and the program reads how many: ``nodes * args.gpus``."""
        if not any(self._forest.calls(_OPTIONS)) or not trainer.args or self._forest.values.parsers.is_declared("gpus"):
            return False
        if any(self._entries(trainer, name).values for name in ("gpus", "accelerator")):
            return False
        options = self._forest.code(trainer.args[0].value)
        return self._forest.name_of(trainer.func) == _OF_OPTIONS and any(
            self._forest.code(node.value) == options and not self._forest.tree.is_target(node)
            for node in self._forest.tree.attributes_named("gpus")
        )

    def _is_setting(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is a setting of which no value is seen: ``config["gpus"]``."""
        return isinstance(node, (cst.Attribute, cst.Subscript)) and self._forest.fact(Configuration).step(node) is None

    def _is_accelerator(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is the name of a GPU, or of whatever accelerator there is."""
        return self._forest.value(node).constant in _ACCELERATORS

    def _names_gpus(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is a number of GPUs or a list of them, on one of its paths."""
        return self._on_a_path(node, self._is_gpus)

    def _is_gpus(self, node: cst.BaseExpression) -> bool:
        value = self._forest.value(node)
        if value.constant not in (0, None) or value.kind is Kind.SEQUENCE or self._forest.code(node) == "-1":
            return True
        return isinstance(node, cst.Call) and self._forest.name_of(node.func) in _COUNTS

    def _on_a_path(self, node: cst.BaseExpression, is_meant: Callable[[cst.BaseExpression], bool]) -> bool:
        """Whether ``is_meant`` is true of ``node``, or of what it is on one of its paths."""
        if is_meant(node):
            return True
        if isinstance(node, cst.IfExp):
            return self._on_a_path(node.body, is_meant) or self._on_a_path(node.orelse, is_meant)
        if isinstance(node, (cst.Attribute, cst.Subscript)):  # `args.gpus`, which is 1 by default
            given = self._forest.fact(Configuration).sources(node)
            return given is not None and all(
                item is not node and self._on_a_path(item, is_meant) for item in given.values
            )
        bound = self._forest.values.reaching.of(node) if isinstance(node, cst.Name) else ()
        return any(
            item.kind is BindingKind.ASSIGN
            and not item.path
            and isinstance(item.value, _WRITTEN)
            and self._on_a_path(item.value, is_meant)
            for item in bound
        )


def passed_loaders(forest: Forest, call: cst.Call) -> frozenset[cst.CSTNode]:
    """The loaders that a call passes to a library, one by one or in a list."""
    values = [forest.value(argument.value) for argument in call.args]
    parts = [part for value in values for part in (value, value.each or value) if part.kind is Kind.LOADER]
    return frozenset().union(*(part.origins for part in parts))
