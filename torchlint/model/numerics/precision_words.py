"""Words by which a file names another number format than float32."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cached_property, lru_cache

import libcst as cst

from torchlint.model.forest import Forest, ForestFact
from torchlint.model.module import Module
from torchlint.model.numerics.precision_settings import PrecisionSettings
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import keywords_of
from torchlint.model.syntax.climbing import climb
from torchlint.model.syntax.dotted import last_part
from torchlint.model.syntax.scopes import Binding
from torchlint.model.training.function_words import snake_case
from torchlint.model.training.grad_mode import GradModes
from torchlint.model.training.inference_scripts import InferenceScripts

#: Words for low precision, wherever they are in an identifier, a keyword, an import or a string.
_WORDS = re.compile(
    r"(?<![a-z])(?:amp|fp8|f16|float16|precision|tf32)(?![a-z])"
    r"|(?:^|\.|\W)half(?:\W|$)|autocast|grad_?scaler|native_?scaler|loss_?scal(?!es)|mixed_?prec|(?:matmul|fp32)_precision"
    r"|fp16|bf16|bfloat16|half_?tensor|deepspeed|fsdp|parallelize"
)
#: "amp" is also short for amplitude; gradients may be compressed on their way between processes only; the inverse of a
#: covariance is a precision matrix; and the scale of a loss by its name, ``style_loss_scale``, is its weight.
_OTHERS = re.compile(
    r"amp_to_|_to_amp(_|$)|to_amp_|(?:fact|rand|max|min|mean|peak|noise|signal|wave?)_amp(?:_|$)"
    r"|(?:fp16|bf16)_(?:allreduce|compress)|precision_matri(?:x|ces)"
    r"|(?:^|_)(?!(?:dynamic|static|init|initial|start|default|fp16|amp|apex|deepspeed|gradient|grad|scaled|current|cur"
    r"|last|prev|old|new|max|min|total|model|optimizer|optim|use|with|enable|no|get|set|update|log|if|for|the|by)_)"
    r"[a-z0-9]+_loss_scale$"
)
#: What sets the precision of a program; other words of other files may be about something else.
_SETTING = re.compile(
    r"autocast|grad_?scaler|native_?scaler|loss_?scal(?!es)|mixed_?prec|matmul_precision|allow_tf32|fsdp|(?:^|[^a-z0-9])fp16$"
    r"|(?:use|enable|with)_?amp(?:$|_)|^[\"']?amp[\"']?$|amp_(?:level|enabled|dtype|opt)|apex\.(?:amp|fp16)|(?:^|[^a-z0-9])bf16$"
)
#: Options for automatic mixed precision, which do nothing without one of the others.
_OPTION = re.compile(r"(?:use|enable|with)_?amp(?:$|_)|amp[_-](?:opt[_-])?(?:level|enabled|dtype|opt|run)")
#: Flags and options for 16 bits, which do nothing in a program that names no 16-bit format besides.
_FLAG = re.compile(r"^\W*(?:_?is_|use_|enable_|with_)?_?(?:fp16|bf16)(?:_opt_level)?\W*$")
#: "precision" is also what a classifier is measured by.
_METRICS = re.compile(r"recall|f1|metric|average_precision|precision_score|ndcg|precision_at")
#: Words that may as well name a number: the decimals of a figure, half of a size, an amplitude, the weight of a loss.
_AMBIGUOUS = re.compile(r"(?:^|_)precision$|^(?:half|amp)$|loss_?scal")
#: Numbers that tell a precision: bits, or whether a format is on.
_BITS = frozenset({"8", "16", "32", "64"})
_SWITCHES = frozenset({"0", "1"})
#: Words of the switch for TF32.
_TF32_WORDS = frozenset({"tf32", "matmul_precision", "fp32_precision"})


class PrecisionWords:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module

    @cached_property
    def names_one(self) -> bool:
        """Whether a word of the file itself names a precision, and not only an option that it never reads."""
        found = [word for word in self._words(certain=True) if _speaks(word, self._measures)]
        return any(not (_OPTION.search(word) and word[1:3] == "--") for word in found)

    @cached_property
    def others_set_one(self) -> bool:
        """Whether a word of a related file sets the precision of the program, and not only an option for it.

        Scripts that only infer are other programs: what they set does not matter for the training. Neither does a flag
        such as ``config.fp16``, if nothing in the program names what it may turn on.
        """
        found = [word for word in self._words_of_others if _SETTING.search(word) and not _OPTION.search(word)]
        return any(not _FLAG.search(word) for word in found) or (bool(found) and self._flags_may_act)

    @cached_property
    def _flags_may_act(self) -> bool:
        """Whether the program names a 16-bit format by more than flags, or passes a flag to a call."""
        module, words = self._module, self._module.fact(FormatWords)
        roots = module.related | module.fact(PrecisionSettings).program
        spoken = {word for root in roots for word in (*words.in_file(root), *words.in_texts(root))}
        flags = {word for word in spoken if _FLAG.search(snake_case(word))}
        if any(_speaks(snake_case(word), False) for word in spoken - flags):
            return True
        return any(module.tree.root_of(node) in roots for word in flags for node in self._passed(word))

    def _passed(self, flag: str) -> Iterator[cst.CSTNode]:
        """Where a flag is an argument or the name of one, or is called: ``Network(fp16=args.fp16)``."""
        tree = self._module.tree
        yield from tree.keywords.get(flag, ())
        for node in (*tree.names.get(flag, ()), *tree.attributes_named(flag)):
            if isinstance(tree.parent(node), cst.Arg) or tree.is_called(node):
                yield node

    @cached_property
    def allow_tf32_only(self) -> bool:
        """Whether the program allows TF32 for matrix products, and no word of it names a 16-bit format."""
        if not self._module.fact(PrecisionSettings).allows_tf32:
            return False
        words = (*self._words(certain=True), *self._words_of_others)
        spoken = {match.group() for word in words for match in _WORDS.finditer(word) if not _OTHERS.search(word)}
        return spoken <= _TF32_WORDS

    @property
    def all(self) -> Iterator[str]:
        """Identifiers, attributes, keywords, imports and short strings of the file, in lower snake case."""
        return self._words()

    @cached_property
    def _measures(self) -> bool:
        """Whether "precision" may be what a classifier is measured by."""
        return any(_METRICS.search(word) for word in self.all)

    @cached_property
    def are_for_inference(self) -> bool:
        """Whether every place that names a precision runs without gradients: an evaluation under autocast."""
        tree, measured = self._module.tree, self._measures
        if any(_speaks(snake_case(function.name.value), measured) for function in tree.functions):
            return False
        found = False
        for node in self._speaking(measured):
            found = True
            if not self._runs_without_gradients(node):
                return False
        return found

    def _speaking(self, measured: bool) -> Iterator[cst.CSTNode]:
        """The nodes of the forest that name a precision."""
        tree = self._module.tree
        yield from (node for node in tree.attributes if _speaks(snake_case(node.attr.value), measured))
        yield from (node for node in tree.strings if _is_word(node) and _speaks(snake_case(node.value), measured))
        for call in tree.calls:
            yield from (call for word in keywords_of(call) if _speaks(snake_case(word), measured))
        for name, uses in tree.names.items():
            imported = [
                binding.imported
                for use in uses[:1]
                for binding in self._module.names.bindings(use)
                if binding.kind is BindingKind.IMPORT
            ]
            if any(_speaks(snake_case(word), measured) for word in (name, *imported)):
                yield from (use for use in uses if not self._is_number(use))

    def _runs_without_gradients(self, node: cst.CSTNode) -> bool:
        for above, child in climb(self._module.tree, node):
            if isinstance(above, cst.With) and child is not above.body:
                node = above.body.body[0]  # the managers of one `with` act together
                break
            if isinstance(above, (cst.BaseSmallStatement, cst.FunctionDef)):
                break
        return self._module.fact(GradModes).of(node).is_off

    def _words(self, *, certain: bool = False) -> Iterator[str]:
        """The words of the file; ``certain``: without those that mean something else here."""
        module, root = self._module, self._module.root
        found = set(module.words_of(root)) | (module.used_imports(root) if certain else module.imported_by(root))
        found |= _keywords_in(module, root, certain=certain)
        if certain:
            found -= {word for word in found if self._means_another(word, {root})}
        yield from map(snake_case, found | _texts_in(module, root))

    @cached_property
    def _words_of_others(self) -> list[str]:
        """The words of related files that may name a precision, without those that mean something else there."""
        module = self._module
        infers, words = module.fact(InferenceScripts).only_infers, module.fact(FormatWords)
        roots = {root for root in module.related if root is not module.root and not infers(root)}
        found = {word for root in roots for word in words.in_file(root)}
        found -= {word for word in found if self._means_another(word, roots)}
        found |= {word for root in roots for word in words.in_texts(root)}
        return list(map(snake_case, found - module.own_imported_names))

    def _means_another(self, word: str, roots: Collection[cst.CSTNode]) -> bool:
        """Whether a word that speaks of a precision never does so in some files: a number, or an array on the host."""
        if not _speaks(snake_case(word), False):
            return False
        tree = self._module.tree
        names = [node for node in tree.names.get(word, ()) if tree.root_of(node) in roots]
        attributes = [node for node in tree.attributes_named(word) if tree.root_of(node) in roots]
        if not names and not attributes:
            return False
        return all(map(self._is_number, names)) and all(map(self._is_elsewhere, attributes))

    def _is_number(self, name: cst.Name) -> bool:
        """``precision = 4``, ``half = size // 2``."""
        if not _AMBIGUOUS.search(snake_case(name.value)):
            return False
        bindings = self._module.names.bindings(name)
        return bool(bindings) and all(map(_binds_number, bindings))

    def _is_elsewhere(self, node: cst.Attribute) -> bool:
        """``numpy.float16``, and the format in which `hvd.Compression.fp16` sends gradients."""
        if (self._module.name_of(node) or "").startswith("numpy."):
            return True
        owner = node.value.attr if isinstance(node.value, cst.Attribute) else node.value
        return isinstance(owner, cst.Name) and last_part(owner.value) == "Compression"


class FormatWords(ForestFact):
    """The words of each file that may name a number format. Several files of a program ask for those of the others."""

    def __init__(self, forest: Forest) -> None:
        super().__init__(forest)
        self._words: dict[cst.CSTNode, tuple[frozenset[str], frozenset[str]]] = {}

    def in_file(self, root: cst.CSTNode) -> frozenset[str]:
        """Those among the names, attributes, imports and keywords of a file, given by its root."""
        return self._of(root)[0]

    def in_texts(self, root: cst.CSTNode) -> frozenset[str]:
        """Those among the names of functions and the short strings of a file, given by its root."""
        return self._of(root)[1]

    def _of(self, root: cst.CSTNode) -> tuple[frozenset[str], frozenset[str]]:
        if root not in self._words:
            forest = self._forest
            words = forest.words_of(root) | forest.imported_by(root) | _keywords_in(forest, root, certain=True)
            texts = _texts_in(forest, root)
            self._words[root] = frozenset(filter(_may_name, words)), frozenset(filter(_may_name, texts))
        return self._words[root]


def _may_name(word: str) -> bool:
    return any(pattern.search(snake_case(word)) for pattern in (_SETTING, _WORDS))


def _keywords_in(forest: Forest, root: cst.CSTNode, *, certain: bool) -> set[str]:
    """The keywords of calls; ``certain``: without those that count digits."""
    arguments = (item for call in forest.tree.calls_in(root) for item in call.args)
    return {
        item.keyword.value
        for item in arguments
        if item.keyword is not None and not (certain and _counts_digits(item.keyword.value, item.value))
    }


def _texts_in(forest: Forest, root: cst.CSTNode) -> set[str]:
    """The names of functions, and the short strings."""
    functions = (function.name.value for function in forest.tree.inside(root, cst.FunctionDef))
    return {*functions, *(item.value for item in forest.tree.inside(root, cst.SimpleString) if _is_word(item))}


def _binds_number(binding: Binding) -> bool:
    value = binding.value
    if binding.kind not in (BindingKind.ASSIGN, BindingKind.PARAM) or binding.path:
        return False
    if isinstance(value, cst.Integer):
        return value.value not in _BITS | _SWITCHES
    return isinstance(value, (cst.Float, cst.BinaryOperation))


def _counts_digits(name: str, value: cst.BaseExpression) -> bool:
    """``precision=4``: a number of digits, unless it can be one of bits."""
    return name.endswith("precision") and isinstance(value, cst.Integer) and value.value not in _BITS


def _is_word(string: cst.SimpleString) -> bool:
    return len(string.value) <= 40 and " " not in string.value


@lru_cache(maxsize=10_000)
def _speaks(word: str, measured: bool) -> bool:
    """Whether ``word`` names a precision; ``measured``: "precision" alone is what a classifier is measured by."""
    found = {match.group() for match in _WORDS.finditer(word)}
    if measured and "mixed" not in word:
        found.discard("precision")
    return bool(found) and not _OTHERS.search(word)
