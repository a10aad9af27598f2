"""Trainers of Lightning and transformers: which ones train a network on a GPU in float32."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from torchlint.model.data.lightning import Lightning
from torchlint.model.module import Module
from torchlint.model.numerics.sizes import Sizes
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.value import Value
from torchlint.model.syntax.calls import Argument, Call
from torchlint.model.syntax.dotted import dotted_name
from torchlint.source.lexemes import code_of, comments_in, without_suppressions

_LIGHTNING = (
    "pytorch_lightning.Trainer",
    "pytorch_lightning.trainer.Trainer",
    "pytorch_lightning.trainer.trainer.Trainer",
    "lightning.pytorch.trainer.Trainer",
)
_ARGUMENTS = tuple(
    f"transformers.{module}{name}"
    for name in ("TrainingArguments", "Seq2SeqTrainingArguments")
    for module in ("", "training_args.", "training_args_seq2seq.", "trainer.", "trainer_seq2seq.")
)
#: Values of `precision` that compute in float32.
_FLOAT32 = frozenset({"32", "32-true", "None"})
#: Arguments of trainers that choose the precision in another way, or another device.
_LIGHTNING_OTHERS = ("plugins", "amp_backend", "amp_level", "fast_dev_run", "tpu_cores", "ipus", "hpus")
_HUGGING_FACE_OTHERS = (
    *("deepspeed", "fsdp", "fsdp_config", "accelerator_config", "parallelism_config", "fp16_full_eval"),
    *("bf16_full_eval", "half_precision_backend", "fp16_opt_level", "fp16_backend"),
    *("use_cpu", "no_cuda", "use_mps_device", "use_ipex", "tpu_num_cores"),
)
#: Comments on a call that speak of its precision.
_COMMENT = re.compile(r"fp16|bf16|float|precision|half|\bamp\b|\bnan\b|32|16|overflow|stable", re.IGNORECASE)
#: What is said of a precision where `fp16=False` is said as well.
_TURNED_OFF = re.compile(r"\b(?:fp16|bf16|tf32)\s*=\s*False")
#: Words of programs that choose a precision in another place, load 16-bit or quantized weights, or need float32.
_REASONS = re.compile(
    r"(?<![A-Za-z])(?:fp16|b?f(?:loat)?16)(?![0-9])|(?<![A-Za-z])half\b|HalfTensor|tf32|TF32|mixed_precision|MixedPrecision|matmul_precision"
    r"|autocast|GradScaler|(?:16|bf16)-(?:mixed|true)|dtype\s*=\s*['\"]auto|torch_dtype|quanti[sz]|BitsAndBytes|load_in_"
    r"|GPTQ|AWQ|[Qq][Ll]o[Rr][Aa]\b|unsloth|deepspeed|DeepSpeed|fsdp|FSDP|float64|\.double\(|torch\.double"
    r"|BCELoss\(|binary_cross_entropy\(|create_graph|autograd\.grad\b|torch\.(?:fft|linalg|func)\.|\b(?:log|slog)det\b"
    r"|torch_geometric|\bdgl\b|torchdiffeq|torchsde|gpytorch|pytorch_forecasting|neuralforecast|stable_baselines3"
    r"|\bimport gym|MNIST|requires_grad_\(\)|\b(?:x|pos\w*|coords?|inp\w*|images?|imgs?)\.requires_grad"
    r"|use_cpu|no_cuda|torch_xla|\bmps\b|\btpu\b|\bhpu\b"
)
#: Models whose checkpoints are stored in 16 bits, and loaded so by default since transformers 5.
_CAUSAL = re.compile(r"ForCausalLM|ImageTextToText|Vision2Seq|[Ll]lama|[Qq]wen|[Mm]istral|[Gg]emma")
_FLOAT32_CAUSAL = re.compile(r"['\"](?:[\w.-]+/)?(?:distil)?gpt2(?:-medium|-large|-xl)?['\"]|GPT2")


@dataclass(frozen=True, eq=False)
class FloatTrainer:
    """A trainer, or its arguments, without a precision."""

    call: Call
    keyword: str  #: the parameter that sets the precision
    value: str  #: what it can be set to
    argument: Argument
    training: cst.Call  #: the call that trains


class Trainers:
    """Answers for one file."""

    def __init__(self, module: Module) -> None:
        self._module = module

    @property
    def full_precision(self) -> Iterator[FloatTrainer]:
        """The trainers of the file that train in float32."""
        for call in self._module.own_calls(*_LIGHTNING, *_ARGUMENTS):
            found = self._lightning(call) if call.name in _LIGHTNING else self._hugging_face(call)
            if found is not None and not self._has_reason(call):
                yield found

    def _lightning(self, call: Call) -> FloatTrainer | None:
        precision = call.argument("precision")
        if not precision.absent and (precision.literal() or "").strip("'\"") not in _FLOAT32:
            return None
        if any(not call.argument(name).absent for name in _LIGHTNING_OTHERS) or not self._is_on_gpu(call):
            return None
        training = self._call_of("fit", call.node)
        if training is None or self._is_tiny(training):
            return None
        value = '"bf16"' if not call.argument("gpus").absent else '"bf16-mixed"'
        return FloatTrainer(call, "precision", value, precision, training.node)

    def _is_on_gpu(self, call: Call) -> bool:
        """Whether a trainer of Lightning runs on a GPU, if there is one."""
        accelerator, gpus = call.argument("accelerator"), call.argument("gpus")
        if gpus.value is not None:
            return gpus.literal() not in ("0", "None") and (accelerator.literal() or "").strip("'\"") != "cpu"
        return self._module.fact(Lightning).is_on_gpu(call.node)

    def _hugging_face(self, call: Call) -> FloatTrainer | None:
        formats = [call.argument(name) for name in ("bf16", "fp16", "tf32")]
        if not all(item.absent or (item.node is not None and item.literal() == "False") for item in formats):
            return None
        if any(not call.argument(name).absent for name in _HUGGING_FACE_OTHERS):
            return None
        if call.argument("do_train").literal() == "False":
            return None
        if any(map(_CAUSAL.search, self._texts)) and not any(map(_FLOAT32_CAUSAL.search, self._texts)):
            return None
        training = self._call_of("train", None)
        return None if training is None else FloatTrainer(call, "bf16", "True", formats[0], training.node)

    def _call_of(self, method: str, trainer: cst.Call | None) -> Call | None:
        """The first call of a method of ``trainer``; if it is None, of any trainer."""
        for call in self._module.methods(method):
            owner = self._module.value(call.receiver)
            if trainer in owner.origins:
                return call
            named = "trainer" in (dotted_name(call.receiver) or "").lower()
            if trainer is None and (named or owner.kind is Kind.TRAINER or self._is_of_library(owner)):
                return call
        return None

    def _is_of_library(self, owner: Value) -> bool:
        """Whether an object is of a class of transformers, or of one derived from such a class."""
        names = [owner.name]
        if isinstance(owner.definition, cst.ClassDef):
            names += self._module.definitions.base_names(owner.definition)
        return any(name.startswith("transformers.") for name in names)

    def _is_tiny(self, fit: Call) -> bool:
        """Whether the network that ``fit`` trains has small layers only."""
        network = fit.argument("model").value
        return network is not None and self._module.fact(Sizes).is_tiny(network)

    def _has_reason(self, call: Call) -> bool:
        """Whether a comment, or the words of the program, may be a reason for float32."""
        module = self._module
        start, end = module.span(call.node)
        rows = "".join(map(module.line, range(module.row_at(start), module.row_at(end) + 1)))
        if any(map(_COMMENT.search, comments_in(without_suppressions(rows)))):
            return True
        return any(_REASONS.search(_TURNED_OFF.sub("", text)) for text in self._texts)

    @cached_property
    def _texts(self) -> list[str]:
        """The code of the file, of the files that it imports, and of the files that import it."""
        return [code_of(self._module.file_of_root[root].text) for root in self._module.related]
