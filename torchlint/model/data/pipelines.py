"""Pipelines: streams of items to which steps are added, such as ``Lines(path).map(decode).batch(8)``."""

from __future__ import annotations

import libcst as cst

from torchlint.model.data.datasets import Datasets
from torchlint.model.forest import Forest, ForestFact
from torchlint.model.syntax.binding_kinds import BindingKind

#: Libraries whose streams give each worker process its own part.
_SHARDED = ("webdataset.",)
#: Libraries and the base class of streams that do so where a step is named like that: ``data.sharding_filter()``.
_STREAMS = ("torchdata.datapipes.iter.", "torch.utils.data.datapipes.iter.")
_BASE = "IterDataPipe"


class Pipelines(ForestFact):
    """Answers for one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest

    def read_files(self, dataset: cst.BaseExpression | None) -> bool:
        """Whether ``dataset`` is a stream that worker processes share, and one of its steps reads files."""
        calls = self._calls_of(dataset)
        return any(map(self._is_shared, calls)) and any(map(self._reads_files, calls))

    def _calls_of(self, dataset: cst.BaseExpression | None) -> list[cst.Call]:
        """The calls that make a dataset, one step after another, here and in functions of the program."""
        found: dict[cst.BaseExpression, None] = {}
        waiting = [dataset]
        while waiting:
            node = waiting.pop()
            if node is None or node in found:
                continue
            found[node] = None
            if isinstance(node, cst.Name):
                bound = self._forest.values.reaching.of(node)
                waiting += [item.value for item in bound if item.kind is BindingKind.ASSIGN and not item.path]
            elif isinstance(node, cst.Call) and self._is_step(node) and isinstance(node.func, cst.Attribute):
                waiting.append(node.func.value)
            elif isinstance(node, cst.Call):
                for made in self._forest.definitions.called(node, self._forest.values):
                    waiting += self._forest.definitions.returns(made) if isinstance(made, cst.FunctionDef) else ()
        return [node for node in found if isinstance(node, cst.Call)]

    def _is_step(self, call: cst.Call) -> bool:
        """Whether ``call`` is of a method of an object, not of a function of a module."""
        return isinstance(call.func, cst.Attribute) and self._forest.name_of(call.func) is None

    def _is_shared(self, call: cst.Call) -> bool:
        """Whether ``call`` creates a stream of which each worker process takes a part."""
        name = self._forest.name_of(call.func) or ""
        if name.startswith(_SHARDED):
            return True
        definitions = self._forest.definitions
        classes = definitions.called(call, self._forest.values)
        bases = [base for item in classes if isinstance(item, cst.ClassDef) for base in definitions.base_names(item)]
        is_stream = name.startswith(_STREAMS) or any(base.endswith(_BASE) for base in bases)
        return is_stream and bool(self._forest.tree.calls_where(lambda method: "shard" in method))

    def _reads_files(self, call: cst.Call) -> bool:
        """Whether a step is given a function that reads files."""
        datasets = self._forest.fact(Datasets)
        return self._is_step(call) and any(
            datasets.reads_files(function) for item in call.args for function in datasets.collates(item.value)
        )
