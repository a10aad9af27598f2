"""Functions that a training library runs for every batch."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.program.objects import ObjectFlow
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.calls import keyword

#: The method of a network that a runner of mmcv calls at every step: it returns a dict with the loss.
_OF_RUNNER = "train_step"
#: Methods that Lightning, transformers and mmcv call at every step.
_METHODS = frozenset(
    {
        _OF_RUNNER,
        *("training_step", "compute_loss", "on_train_batch_start", "on_train_batch_end"),
        *("on_before_zero_grad", "on_after_backward", "on_before_optimizer_step", "optimizer_step"),
    }
)
#: Those of them that return a loss.
_RETURNING_LOSSES = frozenset({"training_step", "compute_loss", _OF_RUNNER})
#: Methods that Lightning calls for every batch of another pass.
_EVALUATIONS = frozenset({"validation_step", "test_step", "predict_step"})
_TRAINERS = ("LightningModule", "Trainer")
#: Classes whose objects are given a network, and run its `forward` for every batch.
_RUNNING_FORWARDS = ("transformers.Trainer", "transformers.Seq2SeqTrainer")


def _loss_in(returned: cst.BaseExpression) -> cst.BaseExpression:
    """The item ``loss`` of a dict display or of ``dict(loss=loss)``; any other value as it is."""
    if isinstance(returned, cst.Dict):
        for item in returned.elements:
            if isinstance(item, cst.DictElement) and _is_loss(item.key):
                return item.value
    if isinstance(returned, cst.Call) and isinstance(returned.func, cst.Name) and returned.func.value == "dict":
        return keyword(returned, "loss") or returned
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
        return [_loss_in(self._named(value)) for value in returned if value is not None]

    def _named(self, returned: cst.BaseExpression) -> cst.BaseExpression:
        """The dict of ``outputs = dict(loss=loss)``, which is returned by its name; any other value as it is."""
        made = self._forest.values.reaching.assigned(returned) if isinstance(returned, cst.Name) else None
        return made if made is not None and _loss_in(made) is not made else returned

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
        if owner is not None and function.name.value == _OF_RUNNER:
            return self._is_run_by_runner(function, owner)
        return owner is not None and any(
            name.endswith(_TRAINERS) for name in self._forest.definitions.base_names(owner)
        )

    def _is_run_by_runner(self, function: cst.FunctionDef, owner: cst.ClassDef) -> bool:
        """Whether a `train_step` is that of a network of mmcv: it returns a dict with the loss to be minimized."""
        imported = self._forest.imported_by(self._forest.tree.root_of(owner))
        if not any(name.partition(".")[0] == "mmcv" for name in imported):
            return False
        returned = [self._named(item) for item in self._forest.definitions.returns(function) if item is not None]
        is_network = self._forest.values.instance(owner).kind is Kind.MODULE
        return is_network and bool(returned) and all(_loss_in(item) is not item for item in returned)

    @cached_property
    def updates(self) -> frozenset[cst.FunctionDef]:
        """The functions that an engine is given to run them for every batch: ``Engine(update)``."""
        return frozenset(
            function
            for update in self._forest.values.engines.made.values()
            for function in self._forest.fact(Dispatch).held(update)
        )
