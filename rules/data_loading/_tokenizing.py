"""Tokenization: which calls of a tokenizer pad every text to the maximum length, and where they are in the program."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.data.datasets import Datasets
from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.dotted import last_name
from torchlint.model.syntax.scopes import COMPREHENSIONS
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.loops import Loops

from ._kinds import TokenizedIn

#: Methods that only tokenizers have.
_ENCODERS = frozenset({"encode_plus", "batch_encode_plus"})
#: Methods of ``datasets`` that take a function to run on every item.
_MAPS = frozenset({"map", "with_transform", "set_transform"})
#: Uses that need a fixed shape: compilers, exporters, TPUs, CUDA graphs.
_STATIC = frozenset(
    {"torch.compile", "torch.jit.trace", "torch.onnx.export", "torch.export.export", "torch.cuda.CUDAGraph"}
)
_STATIC_WORDS = re.compile(r"(^|_)(xla|tpu)(_|$)|^torch_compile$", re.IGNORECASE)
#: Networks with a fixed context length: text encoders of diffusion models, CLIP and similar networks.
_FIXED_CONTEXT = re.compile(
    r"diffus|text_encoder|unet|[Dd]ream_?[Bb]ooth|control_?net|prompt_embeds|clip_?(tok|text|model|proc)|CLIP|[Ss]ig[Ll]ip|coreml"
)


@dataclass(frozen=True, eq=False)
class Padding:
    """A call that pads texts to the maximum length."""

    call: cst.Call
    argument: cst.Arg  #: ``padding="max_length"`` or ``pad_to_max_length=True``
    place: TokenizedIn
    batch: bool  #: whether the call takes all the texts of a batch, and nothing else
    length: int | None  #: the maximum length, if it is known


class Tokenizing:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    @cached_property
    def padded(self) -> list[Padding]:
        """The calls that pad training data to the maximum length, unless the program needs static shapes."""
        if self._wants_one_shape:
            return []
        return list(self._find())

    def _find(self) -> Iterator[Padding]:
        for call in self._tree.calls:
            argument = self._padding(call)
            if argument is None or not self.is_tokenizer(call):
                continue
            given = next(
                (i.value for i in call.args if i.keyword is not None and i.keyword.value == "max_length"), None
            )
            place = self.place(call)
            if place is None or self._is_measured(given):
                continue
            length = self._module.value(given).constant
            batch = place in (TokenizedIn.STEP, TokenizedIn.COLLATE) and not self._is_repeated(call)
            yield Padding(call, argument, place, batch, length if isinstance(length, int) else None)

    @cached_property
    def _wants_one_shape(self) -> bool:
        module = self._module
        if any(True for _ in module.calls(*_STATIC)) or module.imports("torch_xla") or module.imports("diffusers"):
            return True
        words = [*self._tree.names, *self._tree.attributes_by_name, *self._tree.keywords, *module.imported_names]
        words += [item.name.value for item in self._tree.classes]
        return any(_STATIC_WORDS.search(word) or _FIXED_CONTEXT.search(word) for word in words)

    # -- the call

    def _padding(self, call: cst.Call) -> cst.Arg | None:
        for argument in call.args:
            name = argument.keyword.value if argument.keyword is not None else ""
            if name == "padding" and self._is_maximum(argument.value):
                return argument
            if name == "pad_to_max_length" and self._module.value(argument.value).constant is True:
                return argument
        return None

    def _is_maximum(self, node: cst.CSTNode) -> bool:
        """``"max_length"``, or a name with only that value; not ``"max_length" if static else False``."""
        if isinstance(node, cst.Name):
            values = [item.value for item in self._module.names.bindings(node)]
            return (
                bool(values)
                and all(isinstance(value, cst.SimpleString) for value in values)
                and (self._module.value(node).constant == "max_length")
            )
        return isinstance(node, cst.SimpleString) and self._module.value(node).constant == "max_length"

    def is_tokenizer(self, call: cst.Call) -> bool:
        func = call.func
        if isinstance(func, cst.Attribute) and func.attr.value in _ENCODERS:
            return True
        owner = func.value if isinstance(func, cst.Attribute) and func.attr.value in ("encode", "pad") else func
        if "tokeni" in last_name(owner).lower():
            return True
        return "Tokenizer" in self._module.value(owner).name

    def _is_measured(self, length: cst.BaseExpression | None) -> bool:
        """``max_length=max(len(item) for item in batch)``: the longest text of the batch."""
        if length is None:
            return False
        names = self._tree.inside(length, cst.Name)
        values = [item.value for name in names for item in self._module.names.bindings(name)]
        return any(self._takes_maximum(value) for value in (length, *values) if value is not None)

    def _takes_maximum(self, node: cst.CSTNode) -> bool:
        return any(self._module.name_of(call.func) == "builtins.max" for call in self._tree.calls_in(node))

    # -- its place

    def place(self, call: cst.Call, depth: int = 2) -> TokenizedIn | None:
        home = self._tree.function_of(call)
        if home is not None and self._is_collate(home):
            return TokenizedIn.COLLATE
        if home is not None and self._is_mapped(home):
            return TokenizedIn.MAP
        if self._is_step(call):
            return TokenizedIn.STEP
        if isinstance(home, cst.FunctionDef):
            owner = self._tree.class_of(home)
            if owner is not None:
                return self._place_in_class(home, owner)
            callers = self._module.callers(home).calls if depth > 0 else ()
            return next((place for caller in callers if (place := self.place(caller, depth - 1)) is not None), None)
        return TokenizedIn.DATASET if self._feeds_dataset(call) else None

    def _is_step(self, call: cst.Call) -> bool:
        loop = self._module.fact(Loops).hot(call)
        return loop is not None and self._module.fact(Gradients).trains(loop.node)

    def _place_in_class(self, method: cst.FunctionDef, owner: cst.ClassDef) -> TokenizedIn | None:
        named = owner.name.value.endswith("Dataset") and "__getitem__" in self._tree.scopes[owner].bindings
        if not named and self._module.values.instance(owner).kind is not Kind.DATASET:
            return None
        if method.name.value in ("__init__", "__getitem__"):
            return TokenizedIn.DATASET if method.name.value == "__init__" else TokenizedIn.ITEM
        callers = [self._module.function_of(call) for call in self._module.callers(method).calls]
        names = {caller.name.value for caller in callers if caller is not None}
        return TokenizedIn.ITEM if "__getitem__" in names else TokenizedIn.DATASET if "__init__" in names else None

    def _is_collate(self, function: cst.CSTNode) -> bool:
        if function in self._collates:
            return True
        return isinstance(function, cst.FunctionDef) and "collate" in function.name.value

    @cached_property
    def _collates(self) -> set[cst.CSTNode]:
        loaders = self._module.calls("torch.utils.data.DataLoader")
        return {
            item
            for loader in loaders
            for item in self._module.fact(Datasets).collates(loader.argument("collate_fn").value)
        }

    def _is_mapped(self, function: cst.CSTNode) -> bool:
        """Whether ``function`` is passed to ``dataset.map``."""
        for call in self._module.methods(*_MAPS):
            given = [item.value for item in call.node.args if item.keyword is None or item.keyword.value == "function"]
            for part in given:
                if part is function or function in self._module.definitions.referenced(part, self._module.values):
                    return True
        return False

    def _feeds_dataset(self, node: cst.CSTNode, depth: int = 2) -> bool:
        """Whether the tokens are passed to a dataset: ``Texts(tokenizer(...))``, through at most two names."""
        for above in self._tree.ancestors(node):
            if isinstance(above, cst.Call) and self._module.value(above).kind is Kind.DATASET:
                return True
            if isinstance(above, cst.BaseSmallStatement):
                break
        statement = self._tree.statement_of(node)
        if not isinstance(statement, cst.Assign) or depth <= 0:
            return False
        uses = [
            use
            for target in statement.targets
            if isinstance(target.target, cst.Name)
            for binding in self._module.names.bindings(target.target)
            if binding.node is statement
            for use in self._module.names.uses(binding)
        ]
        return any(self._feeds_dataset(use, depth - 1) for use in uses if not self._tree.within(use, statement))

    def _is_repeated(self, call: cst.Call) -> bool:
        """Whether the call runs once per text, or is in a helper for which that is unknown."""
        loop = self._module.fact(Loops).hot(call)
        home = self._tree.function_of(call)
        for above in self._tree.ancestors(call):
            if above is home or (loop is not None and above is loop.node):
                break
            if isinstance(above, (cst.For, cst.While, *COMPREHENSIONS)):
                return True
        return loop is None and (home is None or not self._is_collate(home))
