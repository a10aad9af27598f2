"""Trainers and engines of libraries that iterate over a loader in each of several epochs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property, partial

import libcst as cst

from torchlint.model.data.configured_trainers import ConfiguredTrainers
from torchlint.model.data.lightning import Lightning
from torchlint.model.data.loading import Loading
from torchlint.model.module import Module
from torchlint.model.program.config_files import ConfigFiles
from torchlint.model.program.configuration import Configuration
from torchlint.model.semantics.compounds import integer
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import Value
from torchlint.model.syntax.calls import Call, keywords_of
from torchlint.model.syntax.context import ConfigValue
from torchlint.model.syntax.dotted import called_name

#: An event of each epoch; ``EPOCH_COMPLETED(once=3)`` is one of a single epoch.
_EACH_EPOCH = re.compile(r"EPOCH_(?:STARTED|COMPLETED)(?!\(once)")
#: Arguments of a Lightning trainer without which it trains for many epochs, and those that restart the workers anyway.
_LIMITS = ("max_steps", "max_time", "fast_dev_run")
_RELOADING = ("reload_dataloaders_every_n_epochs", "reload_dataloaders_every_epoch")
#: Makes a dictionary of options.
_AS_DICT = "builtins.vars"
#: What a configuration file sets an argument to that has no effect.
_UNSET = ("", "null", "~", "None", "-1", "false", "False")


class TrainerEpochs:
    """Answers about the loaders of one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def of(self, loader: Call) -> cst.CSTNode | None:
        """The trainer, the call of its ``fit``, the engine or the hook by which a library repeats ``loader``."""
        for consumer in self._module.fact(Loading).consumers(loader):
            if consumer.forward is consumer.node and self._runs_epochs(consumer.node, loader):
                return consumer.node
        if loader.node in self._engine_runs:
            return self._engine_runs[loader.node][0]
        return self._hook(loader)

    # -- Lightning

    def _runs_epochs(self, node: cst.CSTNode, loader: Call) -> bool:
        """Whether a trainer, created by or called in ``node``, trains for several epochs, as far as can be seen."""
        func = node.func if isinstance(node, cst.Call) else None
        if isinstance(node, cst.Call) and node in self._module.fact(ConfiguredTrainers).calls:
            return not self._module.fact(Lightning).is_for_one_pass(loader.node) and self._is_configured_to_several(
                node
            )
        if not (isinstance(node, cst.Call) and self._module.fact(Lightning).makes_trainer(node)):
            if not (isinstance(func, cst.Attribute) and func.attr.value == "fit"):
                return False
            node = next(iter(self._module.value(func.value).origins), node)
        elif self._module.fact(Lightning).is_for_one_pass(loader.node):
            return False
        given = keywords_of(node) if isinstance(node, cst.Call) else {}
        if any(name in given for name in _RELOADING):
            return False
        if "max_epochs" in given:
            return self._is_several(given["max_epochs"])
        if any(name in given for name in _LIMITS):
            return False
        if isinstance(node, cst.Call) and any(item.star for item in node.args):
            if not (self._is_set_to_several(node) or self._gets_options(node)):
                return False
        return self._module.fact(Lightning).trains(node)

    def _gets_options(self, trainer: cst.Call) -> bool:
        """Whether a trainer gets options, ``Trainer(**vars(args))``, one of which is a number of epochs: not 0 or 1.

        No other option may limit the training by default, or load the data again.
        """
        unpacked = [item.value for item in trainer.args if item.star]
        if not all(isinstance(item, cst.Call) and self._module.name_of(item.func) == _AS_DICT for item in unpacked):
            return False
        parsers = self._module.values.parsers
        others = [item for name in (*_LIMITS, *_RELOADING) for item in parsers.defaults(name, trainer)]
        epochs = parsers.defaults("max_epochs", trainer)
        are_several = all(item is not None and integer(item) not in (None, 0, 1) for item in epochs)
        return bool(epochs) and are_several and all(item is None or self._is_unset(item) for item in others)

    def _is_unset(self, node: cst.BaseExpression) -> bool:
        return self._module.code(node) in _UNSET

    def _is_set_to_several(self, trainer: cst.CSTNode) -> bool:
        """Whether configuration files set the epochs of a trainer: ``Trainer(**config["trainer"])``."""
        files = self._module.fact(ConfigFiles)
        if not isinstance(trainer, cst.Call):
            return False
        return bool(files.passed(trainer, "max_epochs")) and _may_repeat(partial(files.passed, trainer))

    def _is_configured_to_several(self, trainer: cst.Call) -> bool:
        """Whether a trainer that Hydra makes of configuration files trains for several epochs."""
        if keywords_of(trainer).keys() & {"max_epochs", *_LIMITS, *_RELOADING}:
            return False
        return _may_repeat(partial(self._module.fact(ConfiguredTrainers).settings, trainer))

    def _hook(self, loader: Call) -> cst.CSTNode | None:
        """The hook of Lightning that returns ``loader``, where no trainer can be seen; by default, there are epochs."""
        lightning = self._module.fact(Lightning)
        if lightning.trainers or self._module.fact(Lightning).is_for_one_pass(loader.node):
            return None
        return next(filter(lightning.is_of_lightning, lightning.hooks.get(loader.node, ())), None)

    def _is_several(self, node: cst.BaseExpression) -> bool:
        """Whether a number of epochs is more than 1, or not known, as the number of the iterations of a loop."""
        found = self._module.fact(Configuration).sources(node)
        counts = [self._module.value(item).constant for item in found.values] if found is not None else []
        numbers = [count for count in counts if isinstance(count, int)]
        if numbers:
            return all(count > 1 for count in numbers)
        return _are_several(self._module.fact(ConfigFiles).values(node))

    # -- ignite

    @cached_property
    def _engine_runs(self) -> dict[cst.CSTNode, list[cst.Call]]:
        """By loader the calls ``engine.run(loader, max_epochs=20)`` of ignite."""
        found: dict[cst.CSTNode, list[cst.Call]] = {}
        for call in self._module.tree.calls_named("run"):
            if not isinstance(call.func, cst.Attribute):
                continue
            if not any(name.startswith("ignite.") for name in self._module.imported_by(self._tree.root_of(call))):
                continue
            given = keywords_of(call)
            data, epochs, *_ = (*(item.value for item in call.args if item.keyword is None), None, None)
            data, epochs = given.get("data", data), given.get("max_epochs", epochs)
            is_several = epochs is not None and self._module.value(epochs).constant not in (0, 1)
            if is_several or self._is_run_by_event(call):
                for loader in loaders_in(self._module.value(data)):
                    found.setdefault(loader, []).append(call)
        return found

    def _is_run_by_event(self, call: cst.Call) -> bool:
        """Whether an engine runs the function around a call once per epoch: ``@trainer.on(Events.EPOCH_COMPLETED)``."""
        function = self._module.function_of(call)
        decorators = [item.decorator for item in function.decorators] if function is not None else []
        handlers = [item for item in decorators if isinstance(item, cst.Call) and called_name(item) == "on"]
        return any(_EACH_EPOCH.search(self._module.code(item.value)) for call in handlers for item in call.args)


def _may_repeat(settings: Callable[[str], Sequence[ConfigValue]]) -> bool:
    """Whether configuration files set no single epoch, no other limit, and no loader that is made again.

    ``settings`` gives what they set an argument of the trainer to.
    """
    others = (value for name in (*_LIMITS, *_RELOADING) for value in settings(name))
    return _are_several(settings("max_epochs")) and all(value.text in _UNSET for value in others)


def _are_several(epochs: Sequence[ConfigValue]) -> bool:
    """Whether no configuration file sets a number of epochs to 0 or 1."""
    return not any(value.text in ("0", "1") for value in epochs)


def loaders_in(value: Value) -> frozenset[cst.CSTNode]:
    """The loaders that ``value`` is or contains."""
    own = value.origins if value.kind is Kind.LOADER else frozenset()
    parts = (*value.elements, *(part for shape in value.shapes for part in shape), *filter(None, (value.each,)))
    return own.union(*map(loaders_in, parts))
