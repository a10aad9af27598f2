"""Functions that a training library runs for every batch."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.program.objects import ObjectFlow

#: Methods that Lightning and transformers call at every step.
_METHODS = frozenset(
    {
        *("training_step", "compute_loss", "on_train_batch_start", "on_train_batch_end"),
        *("on_before_zero_grad", "on_after_backward", "on_before_optimizer_step", "optimizer_step"),
    }
)
#: Those of them that return a loss.
_RETURNING_LOSSES = frozenset({"training_step", "compute_loss"})
#: Methods that Lightning calls for every batch of another pass.
_EVALUATIONS = frozenset({"validation_step", "test_step", "predict_step"})
_TRAINERS = ("LightningModule", "Trainer")
#: Classes whose objects are given a network, and run its `forward` for every batch.
_RUNNING_FORWARDS = ("transformers.Trainer", "transformers.Seq2SeqTrainer")


def _loss_in(returned: cst.BaseExpression) -> cst.BaseExpression:
    """The item ``loss`` of a dict display; any other value as it is."""
    if isinstance(returned, cst.Dict):
        for item in returned.elements:
            if isinstance(item, cst.DictElement) and _is_loss(item.key):
                return item.value
    return returned


def _is_loss(key: cst.BaseExpression) -> bool:
    return isinstance(key, cst.SimpleString) and key.evaluated_value == "loss"


class LibrarySteps(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest

    @cached_property
    def methods(self) -> list[cst.FunctionDef]:
        """The training steps of classes that a trainer runs, in order."""
        return [item for item in self._forest.tree.functions if item.name.value in _METHODS and self._is_run(item)]

    @cached_property
    def evaluations(self) -> frozenset[cst.FunctionDef]:
        """What a trainer runs for every batch of a validation, a test or a prediction."""
        functions = self._forest.tree.functions
        return frozenset(item for item in functions if item.name.value in _EVALUATIONS and self._is_run(item))

    @cached_property
    def losses(self) -> list[cst.BaseExpression]:
        """What the training steps return: the library runs the backward pass. Of a dict it is the item ``loss``."""
        methods = (method for method in self.methods if method.name.value in _RETURNING_LOSSES)
        returned = (value for method in methods for value in self._forest.definitions.returns(method))
        return [_loss_in(value) for value in returned if value is not None]

    @cached_property
    def forwards(self) -> frozenset[cst.FunctionDef]:
        """The `forward` of each network that a trainer of transformers trains: ``Trainer(model=Net()).train()``."""
        flow = self._forest.fact(ObjectFlow)
        found: set[cst.FunctionDef | None] = set()
        trained = {item for call in self._forest.methods("train") for item in flow.of(call.receiver)}
        for call in self._forest.constructor_calls(*_RUNNING_FORWARDS):
            first = next((item.value for item in call.node.args if item.keyword is None and not item.star), None)
            given = flow.of(call.argument("model").value or first) if call.node in trained else ()
            for network in filter(None, map(flow.class_of, given)):
                found.add(self._forest.definitions.method(network, "forward"))
        return frozenset(filter(None, found))

    def _is_run(self, function: cst.FunctionDef) -> bool:
        owner = self._forest.tree.class_of(function)
        return owner is not None and any(
            name.endswith(_TRAINERS) for name in self._forest.definitions.base_names(owner)
        )

    @cached_property
    def updates(self) -> frozenset[cst.FunctionDef]:
        """The functions that an engine is given to run them for every batch: ``Engine(update)``."""
        return frozenset(
            function
            for update in self._forest.values.engines.made.values()
            for function in self._forest.fact(Dispatch).held(update)
        )
