"""Trainers of Lightning that Hydra makes of a configuration: ``hydra.utils.instantiate(cfg.trainer)``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

import libcst as cst

from torchlint.model.forest import ForestFact
from torchlint.model.syntax.context import ConfigValue
from torchlint.model.syntax.dotted import last_part, name_or_key

_INSTANTIATE = "hydra.utils.instantiate"
#: The key of the class, and the classes of Lightning.
_CLASS = "_target_"
_TRAINER = re.compile(r"""(["']?)(?:pytorch_lightning|lightning(?:\.pytorch)?)(?:\.trainer){0,2}\.Trainer\1""")
#: What ``accelerator`` may be for a trainer on a GPU, also in old versions.
_ON_GPU = re.compile(r"""(["']?)(?:gpu|cuda|auto|d?dp\w*)\1""")
#: What ``gpus`` is for a trainer on the CPU, and values that have no effect.
_NO_GPUS = frozenset({"0", "[]"})
_UNSET = frozenset({"null", "None", "~", ""})


class ConfiguredTrainers(ForestFact):
    """Answers for one forest."""

    @cached_property
    def calls(self) -> frozenset[cst.Call]:
        """The calls that make a trainer, as the name of the setting and the configuration files say."""
        made = (call.node for call in self._forest.calls(_INSTANTIATE))
        return frozenset(call for call in made if self._takes_trainer(call) and self._targets(call))

    def settings(self, trainer: cst.Call, name: str) -> Sequence[ConfigValue]:
        """What configuration files set an argument of a trainer to, next to its class; not ``null``."""
        groups = {(target.file, target.group) for target in self._targets(trainer)}
        found = self._forest.configured(name, self._place(trainer))
        return [value for value in found if (value.file, value.group) in groups and value.text not in _UNSET]

    def is_on_gpu(self, trainer: cst.Call) -> bool:
        """Whether most configuration files that say where a trainer runs say on a GPU; without any, as the library."""
        accelerators, gpus = self.settings(trainer, "accelerator"), self.settings(trainer, "gpus")
        if accelerators or gpus:
            answers = [_ON_GPU.fullmatch(value.text) is not None for value in accelerators]
            answers += [value.text not in _NO_GPUS for value in gpus]
            return 2 * sum(answers) > len(answers)
        return all(not target.text.strip("\"'").startswith("pytorch_") for target in self._targets(trainer))

    def _takes_trainer(self, call: cst.Call) -> bool:
        """Whether a call gets the setting ``trainer``: ``cfg.trainer``, ``config["trainer"]``."""
        given = call.args[0].value if call.args and not call.args[0].star else None
        return "trainer" in last_part(name_or_key(given))

    def _targets(self, call: cst.Call) -> list[ConfigValue]:
        """The entries of configuration files by which a class of Lightning is made."""
        found = self._forest.configured(_CLASS, self._place(call))
        return [value for value in found if _TRAINER.fullmatch(value.text)]

    def _place(self, node: cst.CSTNode) -> str:
        return self._forest.file_of_root[self._forest.tree.root_of(node)].place
