"""What calls of library functions and of methods of known objects give."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from torchlint.model.semantics import knowledge, named_tuples
from torchlint.model.semantics.compounds import CUDA, begins_with_cuda
from torchlint.model.semantics.evaluator import Evaluator
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.library_values import instance_by_name, is_companion
from torchlint.model.semantics.moves import device_of, moved_to
from torchlint.model.semantics.names import Names
from torchlint.model.semantics.value import (
    NUMBER,
    STRING,
    UNKNOWN,
    Device,
    Role,
    Value,
    iterated,
    join_items,
    named_device,
)
from torchlint.model.syntax.calls import keyword
from torchlint.model.syntax.dotted import dotted_name

#: Methods by which a network is moved or cast.
_MOVES = ("cuda", "to", "cpu", "half", "float", "double", "bfloat16")


class LibraryCalls:
    """Evaluates calls whose callee is not defined in the project; None where nothing is known."""

    def __init__(self, names: Names, values: Evaluator) -> None:
        self._names = names
        self._values = values

    def function(self, node: cst.Call, name: str) -> Value | None:
        """What a call of the library class or function ``name`` gives."""
        first = _first_argument(node)
        if name == knowledge.DATA_LOADER:
            return Value(Kind.LOADER, frozenset({node}), name=name)
        if name.startswith("builtins."):
            return self._builtin(node, name[9:], first)
        if name in knowledge.ITERATION_WRAPPERS:
            return self._values.of(first) if first is not None else self._values.of(keyword(node, "iterable"))
        if name in ("itertools.chain.from_iterable", "random.choice"):
            return iterated(self._values.of(first))
        if name in knowledge.WRAPPERS:
            inner = self._values.of(first if first is not None else keyword(node, "model", "module"))
            if name == "torch.compile":
                return replace(inner, compiles=inner.compiles | {node})
            if name.endswith("DataParallel") and inner.kind not in (Kind.MODULE, Kind.LOSS):
                return Value(Kind.MODULE, device=inner.device, sure=False)
            return inner
        if name in knowledge.COPIES:
            original = self._values.of(first)
            if original.kind is Kind.MODULE:
                return replace(original, origins=frozenset({node}), compiles=frozenset(), sure=False)
            if original.kind is Kind.TENSOR:  # neither pinned nor part of a graph
                return Value(Kind.TENSOR, device=original.device, sure=original.sure)
        if name == "typing.cast" and len(node.args) == 2:
            promised = self._values.of(first).definition
            made = self._values.instance(promised) if isinstance(promised, cst.ClassDef) else UNKNOWN
            return self._values.of(node.args[1].value) or replace(made, sure=False)
        if name == "torch.device":
            given = self._values.of(first)
            return Value(Kind.DEVICE, device=named_device(given), sure=given.sure)
        if name in ("torch.cuda.current_device", "torch.cuda.device", "torch.accelerator.current_accelerator"):
            return Value(Kind.DEVICE, device=Device.CUDA)
        if name in knowledge.DEEPSPEED_ACCELERATORS:
            return Value(Kind.OTHER, frozenset({node}), name=name)
        if name in knowledge.NUMBERS:
            return NUMBER
        if name in knowledge.ENGINES:
            return Value(Kind.OTHER, frozenset({node}), name=name)
        if name in knowledge.TRAINERS:
            return Value(Kind.TRAINER, frozenset({node}), name=name)
        if name in ("torch.utils.data.random_split", "torch.utils.data.Subset", "torch.utils.data.ConcatDataset"):
            inner = self._values.of(first if first is not None else keyword(node, "dataset"))
            if name.endswith("random_split"):
                return Value(Kind.SEQUENCE, each=inner if inner else Value(Kind.DATASET))
            if inner.kind is Kind.SEQUENCE and inner.each is not None:
                inner = inner.each
            return inner if inner.kind is Kind.DATASET else Value(Kind.DATASET, frozenset({node}), name=name)
        if name == "collections.defaultdict":
            return self._with_default(first)
        if name == knowledge.IMPORT_MODULE:
            return Value(Kind.OTHER, frozenset({node}), name=name)
        if name == named_tuples.NAMED_TUPLE:
            return Value(Kind.CLASS, frozenset({node}), name=name)
        if name in knowledge.AUTOCASTS or name in knowledge.GRAD_MODES or name.startswith("contextlib."):
            return Value(Kind.CONTEXT, frozenset({node}), name=name)
        made = instance_by_name(name)
        if made:
            return replace(made, origins=frozenset({node}), device=self._device_argument(node, made.device))
        return None

    def _with_default(self, factory: cst.BaseExpression | None) -> Value | None:
        """``defaultdict(Meter)`` or ``defaultdict(lambda: Meter())``: a dictionary of objects of the program."""
        if isinstance(factory, cst.Lambda):
            made = self._values.of(factory.body)
        else:
            owner = self._values.of(factory).definition
            made = self._values.instance(owner) if isinstance(owner, cst.ClassDef) else UNKNOWN
        has_class = made.kind is Kind.OTHER and made.definition is not None
        return Value(Kind.SEQUENCE, each=replace(made, sure=False)) if has_class else None

    def _device_argument(self, node: cst.Call, default: Device | None) -> Device | None:
        """The device that a call passes; ``default`` if it passes none."""
        given = keyword(node, "device")
        if given is None or self._values.of(given).kind is Kind.NONE:
            return default
        return device_of(given, self._values)

    def _builtin(self, node: cst.Call, name: str, first: cst.BaseExpression | None) -> Value | None:
        if name in ("iter", "list", "tuple", "reversed", "sorted", "set"):
            return self._values.of(first)
        if name == "enumerate":
            return Value(Kind.SEQUENCE, each=Value(Kind.SEQUENCE, elements=(NUMBER, iterated(self._values.of(first)))))
        if name == "zip":
            if len(node.args) == 1 and node.args[0].star == "*":
                return Value(Kind.SEQUENCE, each=_across(self._values.of(node.args[0].value)))
            items = tuple(iterated(self._values.of(argument.value)) for argument in node.args if argument.star == "")
            return Value(Kind.SEQUENCE, each=Value(Kind.SEQUENCE, elements=items))
        if name == "dict":
            each = join_items(self._values.of(item.value) for item in node.args if item.keyword is not None)
            if each.kind is Kind.LOADER:
                return Value(Kind.SEQUENCE, each=each)
        if name == "next":
            return iterated(self._values.of(first))
        if name == "map":
            return Value(Kind.SEQUENCE, each=self._values.of(first.body) if isinstance(first, cst.Lambda) else None)
        if name in ("len", "int", "float", "round", "id", "hash"):
            return NUMBER
        if name == "abs":
            given = self._values.of(first)
            return given if given.kind is Kind.TENSOR else NUMBER
        if name in ("range",):
            return Value(Kind.SEQUENCE, each=NUMBER)
        if name in ("str", "repr", "input", "format"):
            return STRING
        if name in ("sum", "max", "min"):
            item = iterated(self._values.of(first))
            if item.kind is Kind.NUMBER:
                return replace(item, constant=None) if name == "sum" else item
            return item if item.kind is Kind.TENSOR else UNKNOWN
        if name == "getattr" and len(node.args) > 1 and self._values.of(first).name == knowledge.IMPORT_MODULE:
            taken = self._values.of(node.args[1].value).constant
            return self.member(taken) if isinstance(taken, str) else UNKNOWN
        if name in ("getattr", "super"):
            return UNKNOWN
        if name == "dict" and not node.args:
            return Value(Kind.SEQUENCE)
        return Value(Kind.OTHER) if name in ("print", "isinstance", "bool", "dict", "open", "hasattr") else None

    def member(self, name: str) -> Value:
        """What a module has under a name that is imported by a name known at run time only."""
        return Value(Kind.CLASS, sure=False) if name[:1].isupper() and not name.isupper() else UNKNOWN

    def moves_module(self, node: cst.Call) -> bool:
        """Whether ``node`` moves or casts a network, and gives that network even if its class overrides the method."""
        func = node.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in _MOVES:
            return False
        return self._values.of(func.value).kind is Kind.MODULE

    def attribute(self, base: Value, attr: str) -> Value | None:
        """What the attribute ``attr`` of a tensor, a device, a network of a library or a named tuple is."""
        if base.kind in (Kind.TENSOR, Kind.BATCH):
            if attr in ("data", "T", "mT", "grad", "real", "imag"):
                return base
            if attr == "device":
                return Value(Kind.DEVICE, device=base.device)
            if attr in ("shape", "dtype", "ndim"):
                return Value(Kind.OTHER)
            is_batch = base.role is Role.BATCH
            return Value(Kind.TENSOR, base.origins, role=Role.BATCH, sure=False) if is_batch else UNKNOWN
        if base.kind is Kind.MODULE and attr in ("module", "_orig_mod") and base.definition is None:
            return base
        if base.kind is Kind.MODULE and attr == "device":
            return Value(Kind.DEVICE, device=base.device)
        if base.kind is Kind.DEVICE and attr == "type":
            return Value(Kind.DEVICE, device=base.device, sure=base.sure)
        if base.name == knowledge.IMPORT_MODULE:
            return self.member(attr)
        return named_tuples.member(base, attr, self._values)

    def method(self, node: cst.Call, func: cst.Attribute) -> Value | None:
        """What the method call ``node`` gives."""
        attr = func.attr.value
        base = self._values.of(func.value)
        if base.kind in (Kind.TENSOR, Kind.BATCH):
            return self._tensor_method(node, attr, base)
        if base.kind in (Kind.MODULE, Kind.LOSS):
            return self._module_method(node, attr, base)
        if base.kind is Kind.TRAINER:
            if attr in knowledge.PREPARING:
                values = tuple(self._values.of(argument.value) for argument in node.args if argument.star == "")
                return values[0] if len(values) == 1 else Value(Kind.SEQUENCE, elements=values)
            if attr == "autocast":
                return Value(Kind.CONTEXT, frozenset({node}), name="accelerate.autocast")
            return UNKNOWN
        if base.kind is Kind.LOADER:
            if attr in ("__iter__", "iter"):
                return base
            if attr in ("next", "__next__"):
                return iterated(base)
            return None
        if base.kind is Kind.OPTIMIZER and attr == "step":
            closure = self._values.of(_first_argument(node)).definition
            return self._values.returned(closure) if isinstance(closure, cst.FunctionDef) else None
        if base.kind is Kind.SCALER and attr == "scale":
            return self._values.of(_first_argument(node))
        if base.kind is Kind.SEQUENCE and attr in ("values", "copy", "items", "keys", "get", "pop"):
            if attr == "items":
                return Value(Kind.SEQUENCE, each=Value(Kind.SEQUENCE, elements=(STRING, base.each or UNKNOWN)))
            if attr in ("get", "pop"):
                return base.each or UNKNOWN
            return Value(Kind.SEQUENCE, each=STRING) if attr == "keys" else base
        if base.kind is Kind.SEQUENCE and attr in ("__next__", "next", "__iter__"):
            return base if attr == "__iter__" else iterated(base)
        if base.name in knowledge.DEEPSPEED_ACCELERATORS and attr in ("device_name", "current_device_name", "device"):
            return Value(Kind.DEVICE, device=Device.CUDA)
        if base.kind is Kind.STRING:
            return CUDA if attr == "format" and begins_with_cuda(base) else STRING
        if base.kind is Kind.ARRAY:
            return Value(Kind.ARRAY)
        if attr in ("from_pretrained", "create_model", "from_config", "load_from_checkpoint"):
            owner = self._names.resolve(func.value) or ""
            if is_companion(owner or dotted_name(func.value) or ""):
                return Value(Kind.OTHER, name=owner)
            return Value(Kind.MODULE, frozenset({node}), name=f"{owner}.{attr}", sure=bool(owner))
        return None

    def _tensor_method(self, node: cst.Call, attr: str, base: Value) -> Value:
        if attr in knowledge.TENSOR_EXITS:
            return Value(knowledge.TENSOR_EXITS[attr])
        if attr == "type" and not node.args:
            return STRING
        if attr in ("items", "values", "keys") and base.role is Role.BATCH:
            part = Value(Kind.TENSOR, base.origins, role=Role.BATCH, sure=base.sure)
            each = Value(Kind.SEQUENCE, elements=(STRING, part)) if attr == "items" else part
            return Value(Kind.SEQUENCE, each=each if attr != "keys" else STRING)
        if attr in ("cuda", "to", "cpu", "pin_memory", "type", "xpu"):
            return replace(base, device=self._device_after(node, attr, base))
        return replace(base, kind=Kind.TENSOR)

    def _device_after(self, node: cst.Call, attr: str, base: Value) -> Device | None:
        """Where a tensor is after a move or a cast: unknown if ``to`` is given what may be any device."""
        device = moved_to(node, self._values)
        if device is not None or attr != "to" or base.device is not Device.CPU:
            return device or base.device
        first = node.args[0] if node.args else None
        target = keyword(node, "device") or (first.value if first is not None and first.keyword is None else None)
        return base.device if target is None or self._is_dtype(target) else None

    def _is_dtype(self, node: cst.BaseExpression) -> bool:
        named = isinstance(node, cst.Attribute) and node.attr.value == "dtype"
        return named or self._values.of(node).kind is Kind.DTYPE

    def _module_method(self, node: cst.Call, attr: str, base: Value) -> Value | None:
        if attr in (*_MOVES, "eval", "train", "requires_grad_"):
            return replace(base, device=moved_to(node, self._values) or base.device)
        if attr in ("apply", "share_memory", "xpu", "to_empty", "compile"):
            return base
        if attr in ("forward", "__call__"):
            role = Role.LOSS if base.kind is Kind.LOSS else Role.OUTPUT
            return Value(Kind.TENSOR, device=base.device, role=role, sure=base.sure)
        if attr in ("parameters", "buffers"):
            return Value(Kind.SEQUENCE, each=Value(Kind.TENSOR, device=base.device))
        if attr in ("named_parameters", "modules", "children", "state_dict", "named_modules"):
            return Value(Kind.SEQUENCE)
        return None


def _across(rows: Value) -> Value:
    """What ``zip(*rows)`` gives at each iteration: an item of each row."""
    if rows.elements:
        return Value(Kind.SEQUENCE, elements=tuple(map(iterated, rows.elements)))
    return Value(Kind.SEQUENCE, each=iterated(iterated(rows)) or None)


def _first_argument(node: cst.Call) -> cst.BaseExpression | None:
    return node.args[0].value if node.args and node.args[0].star == "" else None
