"""Files that a dataset opens or parses again for every item: the path does not depend on the item."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import libcst as cst

from torchlint.model.module import Module
from torchlint.model.program.dispatch import Dispatch
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.conditions import ConditionKind, conditions
from torchlint.model.syntax.dotted import dotted_name
from torchlint.model.syntax.parameters import first_parameter
from torchlint.model.training.purpose import Purposes

#: Functions that read the whole file at the path that is their first argument.
_PARSERS = frozenset(
    f"pandas.read_{kind}" for kind in "csv table json parquet pickle excel feather hdf xml fwf".split()
) | frozenset(
    "numpy.load numpy.loadtxt numpy.genfromtxt numpy.fromfile torch.load joblib.load scipy.io.loadmat "
    "pickle.load json.load yaml.load yaml.safe_load yaml.full_load dill.load csv.reader csv.DictReader "
    "pycocotools.coco.COCO polars.read_csv polars.read_parquet soundfile.read torchaudio.load".split()
)
#: Classes and functions that open a file or a database, which takes longer than to read an item of it.
_OPENERS = frozenset(
    {"h5py.File", "lmdb.open", "zipfile.ZipFile", "tarfile.open", "sqlite3.connect", "lmdb.Environment"}
)
#: Parsers that are given an open file.
_OF_FILES = frozenset(
    "pickle.load json.load yaml.load yaml.safe_load yaml.full_load dill.load csv.reader csv.DictReader".split()
)
#: Arguments with which only a part of a file is read.
_PARTIAL = frozenset(
    "mmap_mode mmap nrows skiprows chunksize iterator filters columns usecols count offset where start stop key "
    "frame_offset num_frames frames max_rows variable_names".split()
)
#: What does not count as a condition: a file may be read for each of several names.
_PASSED = frozenset({ConditionKind.LOOP, ConditionKind.ELSE, ConditionKind.TRY})
_WHOLE = frozenset({"read", "readlines"})  #: methods of a file that read all of it
#: Functions and methods whose result depends on their arguments alone.
_PATHS = ("os.path.", "pathlib.", "posixpath.")
_TEXTS = frozenset("format join joinpath replace with_suffix strip rstrip lstrip lower as_posix resolve".split())
_CACHES = ("cache", "memo")
_DEPTH = 6
#: How many calls lie between ``__getitem__`` and a file, and how many callers each function may have.
_CALLS = 2
_MAX_CALLERS = 24

_Calls: TypeAlias = "tuple[cst.Call, ...]"


@dataclass(frozen=True, eq=False)
class Reparsed:
    """A call that opens or reads the same file for every item."""

    call: cst.Call
    helper: cst.Call | None  #: the call in ``__getitem__`` that leads to ``call``; None if it contains that itself
    opens: bool  #: whether it only opens the file


class ReparsedFiles:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def all(self) -> Iterator[Reparsed]:
        """The calls, in order."""
        for call in self._tree.calls_in(self._module.root):
            path = self._path_read_by(call)
            function = self._module.function_of(call) if path is not None else None
            if path is None or function is None or not self._runs_always(call, function) or self._seeks(function):
                continue
            for calls in self._ways(function, _CALLS):
                if self._is_same(path, function, calls):
                    yield Reparsed(call, calls[-1] if calls else None, self._module.name_of(call.func) in _OPENERS)
                    break

    def _ways(self, function: cst.FunctionDef, depth: int) -> Iterator[tuple[cst.Call, ...]]:
        """The calls by which each ``__getitem__`` of a dataset always runs a function, the innermost first."""
        definition = self._tree.class_of(function)
        if definition is not None and self._tree.own_method(definition, "__getitem__") is function:
            made = self._module.values.instance(definition)
            if made.kind is Kind.DATASET and made.sure and self._uses_index(function):
                yield ()
            return
        decorators = " ".join(self._module.code(item.decorator) for item in function.decorators)
        if depth <= 0 or any(word in decorators for word in _CACHES):
            return
        for call in self._module.fact(Dispatch).callers(function)[:_MAX_CALLERS]:
            outer = self._module.function_of(call)
            if outer is not None and self._runs_always(call, outer):
                yield from ((call, *calls) for calls in self._ways(outer, depth - 1))

    def _uses_index(self, method: cst.FunctionDef) -> bool:
        names = [item.name.value for item in method.params.params[1:2]]
        return any(isinstance(node, cst.Name) and node.value in names for node in self._tree.nodes_in(method.body))

    def _seeks(self, function: cst.FunctionDef) -> bool:
        """Whether a function reads a part of a file by its place in it."""
        calls = self._tree.calls_in(function.body)
        return any(
            isinstance(call.func, cst.Attribute) and call.func.attr.value in ("seek", "get_data") for call in calls
        )

    # -- the path

    def _path_read_by(self, call: cst.Call) -> cst.BaseExpression | None:
        """The path of the file that ``call`` reads whole, or opens; None for other calls."""
        name = self._module.name_of(call.func)
        if name in _PARSERS | _OPENERS:
            if any(item.star or (item.keyword is not None and item.keyword.value in _PARTIAL) for item in call.args):
                return None
            given = call.args[0].value if call.args and call.args[0].keyword is None else None
            if given is None or (name == "h5py.File" and self._writes(call)):
                return None
            return self._opened(given) if name in _OF_FILES else given
        func = call.func
        if isinstance(func, cst.Attribute) and func.attr.value in _WHOLE and not call.args:
            return self._opened(func.value)
        return None

    def _writes(self, call: cst.Call) -> bool:
        """Whether the mode, of ``h5py.File``, is not known to be ``"r"``, which is the default."""
        modes = [item.value for item in call.args[1:] if item.keyword is not None and item.keyword.value == "mode"]
        modes += [item.value for item in call.args[1:2] if item.keyword is None]
        return any(not isinstance(mode, cst.SimpleString) or mode.raw_value != "r" for mode in modes)

    def _opened(self, file: cst.BaseExpression) -> cst.BaseExpression | None:
        """The path of ``open(path)``, there or in a ``with`` or an assignment before."""
        if isinstance(file, cst.Name):
            reached = self._module.values.reaching.of(file)
            if len(reached) != 1 or reached[0].path or reached[0].kind not in (BindingKind.WITH, BindingKind.ASSIGN):
                return None
            file = reached[0].value or file
        if isinstance(file, cst.Call) and file.args and self._module.name_of(file.func) in ("builtins.open", "io.open"):
            modes = [item.value for item in file.args[1:]]
            if any(isinstance(mode, cst.SimpleString) and set(mode.raw_value) & set("wax+") for mode in modes):
                return None
            return file.args[0].value
        return None

    def _is_same(self, node: cst.CSTNode, function: cst.FunctionDef, calls: _Calls, depth: int = _DEPTH) -> bool:
        """Whether a path is the same for all items: it contains constants and attributes of ``self`` alone.

        ``calls`` lead from ``__getitem__`` to ``function``.
        """
        if depth <= 0:
            return False
        if isinstance(node, cst.SimpleString):
            return True
        if isinstance(node, cst.FormattedString):
            return all(
                self._is_same(part.expression, function, calls, depth - 1)
                for part in node.parts
                if isinstance(part, cst.FormattedStringExpression)
            )
        if isinstance(node, cst.BinaryOperation):
            return self._is_same(node.left, function, calls, depth - 1) and self._is_same(
                node.right, function, calls, depth - 1
            )
        if isinstance(node, cst.ConcatenatedString):
            return self._is_same(node.left, function, calls, depth - 1) and self._is_same(
                node.right, function, calls, depth - 1
            )
        if isinstance(node, cst.Attribute):
            return self._is_attribute_same(node, function, calls)
        if isinstance(node, cst.Name):
            return self._is_name_same(node, function, calls, depth)
        return isinstance(node, cst.Call) and self._is_call_same(node, function, calls, depth)

    def _is_attribute_same(self, node: cst.Attribute, function: cst.FunctionDef, calls: _Calls) -> bool:
        """``self.path``, ``self.args.path``: not set by ``__getitem__``, and no property.

        Of another object, which the dataset keeps, only the constructor sets it.
        """
        text = dotted_name(node)
        owner = self._tree.class_of(function)
        first = first_parameter(function)
        if text is None or owner is None or first is None or not text.startswith(first.name.value + "."):
            return False
        name = text.split(".")[1]
        owned = self._receiver(function, calls)
        if owned is not None and not self._is_same(owned, self._function_of(calls[0]), calls[1:]):
            return False
        for item in self._module.definitions.lineage(owner):
            scope = self._tree.scopes[item]
            if any(binding.kind is BindingKind.FUNCTION for binding in scope.bindings.get(name, ())):
                return False
            for binding in scope.attributes.get(name, ()):
                place = self._tree.function_of(binding.node)
                if not isinstance(place, cst.FunctionDef) or place.name.value.startswith("__getitem"):
                    return False
                if owned is not None and not self._module.fact(Purposes).is_for_constructors(place):
                    return False
        return any(
            name in self._tree.scopes[item].attributes or name in self._tree.scopes[item].bindings
            for item in self._module.definitions.lineage(owner)
        )

    def _receiver(self, function: cst.FunctionDef, calls: _Calls) -> cst.BaseExpression | None:
        """The object whose method ``function`` is, if it is not the one that calls it: ``self.loader``."""
        func = calls[0].func if calls else None
        if self._tree.class_of(function) is None or not isinstance(func, cst.Attribute):
            return None
        return None if dotted_name(func.value) == "self" else func.value

    def _function_of(self, call: cst.Call) -> cst.FunctionDef:
        function = self._module.function_of(call)
        assert function is not None
        return function

    def _is_name_same(self, node: cst.Name, function: cst.FunctionDef, calls: _Calls, depth: int) -> bool:
        reached = self._module.values.reaching.of(node)
        param = reached[0].node if len(reached) == 1 else None
        if isinstance(param, cst.Param):
            given = self._module.definitions.argument_of(calls[0], function, param) if calls else None
            return given is not None and self._is_same(given, self._function_of(calls[0]), calls[1:], depth - 1)
        if not reached or any(
            item.kind is not BindingKind.ASSIGN or item.path or item.value is None for item in reached
        ):
            return False
        if all(self._tree.function_of(item.node) is None for item in reached):
            return len(reached) == 1  # a constant of the file
        return all(
            self._tree.function_of(item.node) is function
            and item.value is not None
            and self._is_same(item.value, function, calls, depth - 1)
            for item in reached
        )

    def _is_call_same(self, node: cst.Call, function: cst.FunctionDef, calls: _Calls, depth: int) -> bool:
        """``os.path.join(self.root, "a.csv")``, ``"{}/a".format(self.root)``."""
        if any(item.star for item in node.args):
            return False
        name = self._module.name_of(node.func) or ""
        of_text = isinstance(node.func, cst.Attribute) and node.func.attr.value in _TEXTS
        if not (name.startswith(_PATHS) or name == "builtins.str"):
            if name or not of_text or not isinstance(node.func, cst.Attribute):
                return False
            if not self._is_same(node.func.value, function, calls, depth - 1):
                return False
        return all(self._is_same(item.value, function, calls, depth - 1) for item in node.args)

    # -- how often

    def _runs_always(self, node: cst.CSTNode, function: cst.FunctionDef) -> bool:
        """Whether each call of ``function`` runs ``node``: no ``if self.file is None`` or cache is in between."""
        for item in conditions(self._tree, node, function):
            if item.kind is ConditionKind.BRANCH:
                if item.test is None or not self._is_flag(item.test, is_off=item.is_else):
                    return False
            elif item.kind is ConditionKind.EXIT:
                if item.leaves_by(cst.Return):
                    return False
            elif item.kind not in _PASSED:
                return False
        return True

    def _is_flag(self, test: cst.BaseExpression, *, is_off: bool = False) -> bool:
        """``if self.train:``, ``if self.mode == "train":``, ``if self.path.endswith(".h5"):``.

        With ``is_off``, one that is False also makes ``self.train and key in self.cache`` False.
        """
        if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
            flags = [self._is_flag(side, is_off=is_off) for side in (test.left, test.right)]
            return any(flags) if is_off else all(flags)
        if isinstance(test, cst.Call):
            func = test.func
            asks = isinstance(func, cst.Attribute) and func.attr.value in ("endswith", "startswith")
            return asks and isinstance(func, cst.Attribute) and self._is_flag(func.value)
        if isinstance(test, cst.Attribute):
            return dotted_name(test) is not None
        if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
            return False
        item = test.comparisons[0]
        return (
            isinstance(test.left, cst.Attribute)
            and isinstance(item.operator, (cst.Equal, cst.NotEqual))
            and isinstance(item.comparator, cst.SimpleString)
        )
