"""Which datasets are in memory, so that their items cost little."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from torchlint.model.data.datasets import Datasets
from torchlint.model.forest import Forest, ForestFact
from torchlint.model.semantics import knowledge
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import UNKNOWN
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.dotted import index_of, is_attribute_of_self
from torchlint.model.syntax.parameters import owner_of, parameters_of
from torchlint.model.syntax.scopes import Binding, unpacked

#: So few items are a demonstration.
_HANDFUL = 16
#: What the items of a list in memory are, if they cost nothing more. Texts may still be read as names of files.
_ITEMS = (Kind.NUMBER, Kind.TENSOR, Kind.ARRAY, Kind.SEQUENCE)
#: Methods that convert or copy an item that is already there.
_CONVERSIONS = frozenset(
    "to long float int bool half double type clone copy item tolist numpy astype size dim view squeeze unsqueeze "
    "contiguous detach items format".split()
)
#: ... and library calls that do, or that join such items and fill up what they lack.
_CONVERTERS = (
    frozenset(
        f"torch.{name}"
        for name in (
            "tensor as_tensor from_numpy Tensor LongTensor FloatTensor IntTensor BoolTensor randint is_tensor unsqueeze"
        ).split()
    )
    | frozenset(
        f"builtins.{name}"
        for name in "len int float bool str dict tuple list isinstance slice range min max super".split()
    )
    | frozenset(
        {
            "copy.copy",
            "copy.deepcopy",
            "numpy.array",
            "numpy.asarray",
            "numpy.random.randint",
            "random.randint",
        }
    )
    | frozenset(f"numpy.{name}" for name in "float16 float32 float64 int8 uint8 int16 int32 int64 bool_".split())
    | frozenset(f"{module}.{name}" for module in ("numpy", "torch") for name in "zeros_like ones_like stack".split())
    | {"numpy.concatenate", "numpy.hstack", "torch.cat"}
)
#: Functions that open a file whose items are read when an index asks for them.
_FILES = frozenset(
    {"h5py.File", "zarr.open", "zarr.open_group", "zarr.open_array", "tables.open_file", "netCDF4.Dataset"}
)
#: Functions that give the whole content of a file.
_LOADING = frozenset({"torch.load", "numpy.load", "pickle.load", "joblib.load"})
#: ... and those that give what is in memory, or a tuple of it.
_CONTENTS = _LOADING | {"transformers.squad_convert_examples_to_features"}
#: A part of a file is followed through so many names and indices: ``train, val = data["splits"]``.
_STEPS = 6
#: ... and a dataset of unknown class through so many, parameters and results of functions included.
_WAYS = 10
#: Functions that compute with a few numbers, such as a rotation of points.
_ARITHMETIC = ("math.", "random.", "torch.matmul")


class Memory(ForestFact):
    """Answers about the datasets of one forest."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._tree = forest.tree
        self._asked: list[cst.CSTNode | None] = []  #: the classes of datasets within which one is looked at

    def is_counted(self, dataset: cst.BaseExpression | None) -> bool:
        """Whether the items are only numbers: ``range(n)``, ``list(range(n))``."""
        if isinstance(dataset, cst.Name):
            reached = self._forest.values.reaching.of(dataset)
            dataset = reached[0].value if len(reached) == 1 and not reached[0].path else None
        while isinstance(dataset, cst.Call) and dataset.args and self._forest.name_of(dataset.func) == "builtins.list":
            dataset = dataset.args[0].value
        return isinstance(dataset, cst.Call) and self._forest.name_of(dataset.func) == "builtins.range"

    def holds(self, dataset: cst.BaseExpression | None) -> bool:
        """Whether the items surely cost little: tensors, lists, a class that only indexes, or that has but a few."""
        if isinstance(dataset, cst.Subscript) and any(map(self.holds, self._forest.definitions.items.of(dataset))):
            return True  # `datasets[split] = TensorDataset(...)`
        value = self._forest.value(dataset)
        if value.kind in (Kind.TENSOR, Kind.ARRAY) or value.elements:
            return True
        if value.kind is Kind.SEQUENCE and value.each is not None and value.each.kind in _ITEMS:
            return True
        if value.name in knowledge.IN_MEMORY_DATASETS or self._is_loaded_whole(dataset) or self._is_filled(dataset):
            return True
        if isinstance(value.definition, cst.ClassDef) and value.kind is not Kind.CLASS:
            method = self._forest.definitions.method(value.definition, "__getitem__")
            if method is None:
                graphs = self._forest.definitions.method(value.definition, "get")  # which those of PyG define
                is_list = graphs is not None and self._only_indexes(graphs, value.definition, [])
                return is_list or self._keeps_graphs(value.definition)
            made = self._forest.fact(Datasets).constructions(dataset)
            return self._only_indexes(method, value.definition, made) or self._is_handful(value.definition)
        choices = self._forest.fact(Datasets).constructions(dataset) if isinstance(dataset, cst.Name) else []
        if len(choices) > 1 and all(map(self.holds, choices)):  # one of several, as a name decides
            return True
        if dataset is not None and value.kind is not Kind.LOADER and self._may_be_kept(dataset):
            return True
        # most datasets of PyG are in memory: an unknown dataset of a program that uses it may be
        return self._forest.imports("torch_geometric")

    def _keeps_graphs(self, definition: cst.ClassDef) -> bool:
        """Whether a class is one of the datasets of PyG that are in memory, which most of them are."""
        return any(
            name.startswith("torch_geometric.datasets.") or name.endswith("InMemoryDataset")
            for name in self._forest.definitions.base_names(definition)
        )

    def _is_loaded_whole(self, dataset: cst.BaseExpression | None) -> bool:
        """Whether the dataset is the content of one file, or a part of it: ``torch.load("items.pt")["train"]``."""
        made = [self._forest.name_of(call.func) for call in self._forest.fact(Datasets).constructions(dataset)]
        return (bool(made) and all(name in _LOADING for name in made)) or self._is_part_of_file(dataset)

    def _is_filled(self, dataset: cst.BaseExpression | None) -> bool:
        """Whether the dataset is a list of items that were taken from another one: ``items.append(photos[index])``."""
        if not isinstance(dataset, cst.Name):
            return False
        reached = self._forest.values.reaching
        bound = reached.only(dataset)
        made = unpacked(bound.value, bound.path) if bound is not None else None
        if not isinstance(made, cst.List) or made.elements:
            return False
        items = [*self._forest.fact(Datasets).appended_to(dataset)]
        return bool(items) and all(isinstance(reached.assigned(item) or item, cst.Subscript) for item in items)

    def _is_part_of_file(self, dataset: cst.BaseExpression | None) -> bool:
        """``train`` of ``train, val = torch.load("items.pt")["splits"]``."""
        node = dataset
        for _ in range(_STEPS):
            if isinstance(node, cst.Subscript):
                node = node.value
            elif isinstance(node, cst.Name):
                given = self._forest.values.reaching.only(node)
                node = given.value if given is not None and given.kind is BindingKind.ASSIGN else None
        return isinstance(node, cst.Call) and self._forest.name_of(node.func) in _LOADING

    def _may_be_kept(self, dataset: cst.BaseExpression) -> bool:
        """Whether a dataset of unknown class is in memory on one of its paths: ``torch.load(cached)["dataset"]``."""
        made = [*self._made_by(dataset)]
        return any(self._forest.name_of(call.func) in _CONTENTS for call in made) and not any(
            isinstance(self._forest.value(call).definition, cst.ClassDef) for call in made
        )

    def _made_by(self, node: cst.BaseExpression, steps: int = _WAYS, path: tuple[int, ...] = ()) -> Iterator[cst.Call]:
        """The calls that give the part ``path`` of ``node``, also where functions return it or callers pass it."""
        if path and unpacked(node, path) is not None:
            node, path = unpacked(node, path) or node, ()
        if steps <= 0:
            return
        if isinstance(node, cst.Subscript):
            yield from self._made_by(node.value, steps - 1)
        elif isinstance(node, cst.Name):
            for bound in self._forest.values.reaching.of(node):
                for value in self._given(bound):
                    yield from self._made_by(value, steps - 1, (*bound.path, *path))
        elif isinstance(node, cst.Call):
            yield node
            for function in self._forest.definitions.called(node, self._forest.values):
                for item in self._forest.definitions.returns(function) if isinstance(function, cst.FunctionDef) else ():
                    if item is not None:
                        yield from self._made_by(item, steps - 1, path)

    def _given(self, bound: Binding) -> Sequence[cst.BaseExpression]:
        """What is assigned to a name, or what the calls of a function pass for a parameter."""
        if bound.kind is BindingKind.ASSIGN:
            return () if bound.value is None else (bound.value,)
        param = bound.node
        function = owner_of(self._tree, param) if isinstance(param, cst.Param) else None
        if function is None or not isinstance(param, cst.Param):
            return ()
        return self._forest.definitions.arguments_for(function, param, self._forest.values)

    def _is_handful(self, definition: cst.ClassDef) -> bool:
        """Whether the class says that it has only a few items: ``def __len__(self): return 4``."""
        method = self._forest.definitions.method(definition, "__len__")
        lengths = self._forest.definitions.returns(method) if method is not None else []
        constants = [self._forest.value(item).constant for item in lengths]
        return bool(constants) and all(isinstance(item, int) and item <= _HANDFUL for item in constants)

    def _only_indexes(self, method: cst.FunctionDef, definition: cst.ClassDef, made: list[cst.Call]) -> bool:
        indexed = [node.value for node in self._tree.nodes_in(method.body) if isinstance(node, cst.Subscript)]
        return (
            bool(indexed)
            and all(
                self._converts(call) or self._is_small_transform(call.func, definition, made)
                for call in self._tree.calls_in(method.body)
            )
            and not any(map(self._costs, indexed))
        )

    def _costs(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is a file, or another dataset, ``self.dataset[index]``, that is known and not in memory."""
        if self._is_file(node):
            return True
        value = self._forest.value(node) if isinstance(node, cst.Attribute) else UNKNOWN
        definition = value.definition
        if isinstance(definition, cst.ClassDef):
            is_dataset = self._forest.definitions.method(definition, "__getitem__") is not None
        else:
            is_dataset = value.kind is Kind.DATASET and value.sure and bool(value.name)
        if not is_dataset or value.kind is Kind.CLASS or definition in self._asked:
            return False
        self._asked.append(definition)
        try:
            return not self.holds(node)
        finally:
            self._asked.pop()

    def _is_file(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is set to an open file, or to an array in one: ``h5py.File(path)["images"]``."""
        sources = self._forest.written.sources(node) if isinstance(node, (cst.Name, cst.Attribute)) else None
        return any(self.opens(value) for value in (sources.values if sources is not None else ()))

    def opens(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` opens a file of arrays, and takes at most an array of it, which stays in the file."""
        while isinstance(node, cst.Subscript) and isinstance(index_of(node), (cst.SimpleString, cst.Name)):
            node = node.value
        return isinstance(node, cst.Call) and self._forest.name_of(node.func) in _FILES

    def _converts(self, call: cst.Call) -> bool:
        name = self._forest.name_of(call.func)
        if name is not None:
            return name in _CONVERTERS
        return isinstance(call.func, cst.Attribute) and call.func.attr.value in _CONVERSIONS

    def _is_small_transform(self, func: cst.BaseExpression, definition: cst.ClassDef, made: list[cst.Call]) -> bool:
        """Whether ``func`` is a ``self.transform`` that is None, or computes little, in all datasets that are made."""
        init = self._forest.definitions.method(definition, "__init__")
        if init is None or not is_attribute_of_self(func):
            return False
        kept = [binding.value for binding in self._tree.scopes[definition].attributes.get(func.attr.value, ())]
        names = [item.value if isinstance(item, cst.Name) else "" for item in kept]
        param = next((item for item in parameters_of(init) if [item.name.value] == names), None)
        if param is None:
            return False
        given = [self._forest.definitions.argument_of(call, init, param) or param.default for call in made]
        return bool(given) and all(item is not None and self._computes_little(item) for item in given)

    def _computes_little(self, function: cst.BaseExpression, depth: int = 2) -> bool:
        """Whether ``function`` is None or a function of the program that only computes with a few numbers."""
        value = self._forest.value(function)
        if value.kind is Kind.NONE:
            return True
        body = value.definition
        if isinstance(body, cst.ClassDef):
            body = self._forest.definitions.method(body, "__init__" if value.kind is Kind.CLASS else "__call__")
            if body is None:
                return value.kind is Kind.CLASS
        return (
            body is not None
            and value.sure
            and all(
                self._converts(call)
                or (self._forest.name_of(call.func) or "").startswith(_ARITHMETIC)
                or (depth > 0 and self._computes_little(call.func, depth - 1))
                for call in self._tree.calls_in(body.body)
            )
        )
