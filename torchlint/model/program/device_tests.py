"""Conditions that only ask for the device: true at every step of a program, or at none."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.model.forest import Forest

_BACKENDS = "cuda|gpu|mps|xpu|npu|hip|rocm|cudnn"
_ASKS = re.compile(rf"({_BACKENDS})|device|is_(\w+_)?available|accelerator", re.IGNORECASE)
#: The attribute of a tensor that is on such a device.
_OF_TENSOR = re.compile(r"\b(?:\w+\.)+is_cuda\b")
#: The names in such a condition: ``torch.cuda.is_available() and args.use_gpu``, ``"cuda" in str(self.device)``.
_WORDS = re.compile(
    rf"torch|th|backends|is_(\w+_)?available|device(_type|_count|_name)?|type|str|and|or|in|not|is|None|startswith|hasattr|"
    rf"(use_|has_|with_|no_|is_|on_|n_|num_)?({_BACKENDS})s?|self|args|opts?|opt|cfg|config|hparams|hps|params|flags|"
    rf"accelerator|flair",
    re.IGNORECASE,
)


def asks_for_device(forest: Forest, test: cst.BaseExpression) -> bool:
    """Whether ``test`` only asks which device the program runs on: ``torch.cuda.is_available()``, ``x.is_cuda``.

    So does a name for the answer: ``fast`` after ``fast = torch.cuda.is_available()``.
    """
    answer = forest.values.reaching.assigned(test) if isinstance(test, cst.Name) else None
    return any(_asks(forest, item) for item in (test, answer) if item is not None)


def _asks(forest: Forest, test: cst.BaseExpression) -> bool:
    asks_tensor = any(part.attr.value == "is_cuda" for part in forest.tree.inside(test, cst.Attribute))
    if not asks_tensor and not all(map(_WORDS.fullmatch, forest.tree.names_in(test))):
        return False  # without its text, whose place costs more to find out
    text = _OF_TENSOR.sub("is_cuda", forest.code(test))
    words = re.findall(r"[A-Za-z_]\w*", text)
    return _ASKS.search(text) is not None and all(_WORDS.fullmatch(word) for word in words)
