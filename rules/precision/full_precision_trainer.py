from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Default, Diagnostic, Fix, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module

    from ._trainers import FloatTrainer


class FullPrecisionTrainer(Rule):
    """A Lightning or Hugging Face trainer trains in float32.

    ## What it does
    Flags `Trainer` of Lightning without `precision`, or with 32, if it runs on a GPU and `fit` is called. Flags
    `TrainingArguments` and `Seq2SeqTrainingArguments` of `transformers` with neither `bf16=True` nor `fp16=True`, if
    `train` is called on a trainer.

    Not reported:

    - arguments that are unknown, such as `precision=args.precision` and `**options`;
    - calls with a comment, which may give the reason;
    - programs that choose a precision elsewhere: 16-bit or quantized weights, autocast, TF32, DeepSpeed, FSDP;
    - programs that compute what may need float32: second derivatives, spectra, matrix decompositions, graph networks;
    - large language models, which `transformers` 5 loads in the 16-bit format of their checkpoints;
    - networks whose layers are all visibly tiny.

    ## Why it is slow
    The tensor cores of a GPU multiply 16-bit numbers faster than 32-bit numbers. 16-bit activations need half the
    memory and half the memory traffic. With mixed precision, the trainer runs the forward pass under autocast: matrix
    products and convolutions run in bfloat16, and operations that need the range or the precision stay in float32, as
    do the weights.

    ## Example
    ```python
    arguments = TrainingArguments("out", per_device_train_batch_size=32)
    trainer = Trainer(model, arguments, train_dataset=dataset)
    trainer.train()
    ```

    ## Use instead
    ```python
    arguments = TrainingArguments("out", per_device_train_batch_size=32, bf16=True)
    trainer = Trainer(model, arguments, train_dataset=dataset)
    trainer.train()
    ```
    With Lightning, pass `precision="bf16-mixed"` (`"bf16"` before Lightning 2). On GPUs before Ampere, which have no
    fast bfloat16, pass `fp16=True` or `precision="16-mixed"`.

    ## Fix safety
    Unsafe: outputs and losses are rounded to fewer digits. `bf16=True` raises an error on a machine without a GPU that
    supports bfloat16. Losses on probabilities (`BCELoss`) raise an error under autocast: the rule is silent in
    programs with such a loss.

    ## When to ignore
    - The network is so small that kernel launches take all the time.
    - The precision is set from outside, for example by `accelerate launch --mixed_precision bf16`.
    - The task needs float32, or the GPU has no tensor cores.

    ## References
    - [N-bit precision, Lightning](https://lightning.ai/docs/pytorch/stable/common/precision_basic.html)
    - [Mixed precision training, transformers](https://huggingface.co/docs/transformers/perf_train_gpu_one)
    - [Automatic mixed precision](https://docs.pytorch.org/docs/stable/amp.html)
    """

    code = "TL310"
    name = "full-precision-trainer"
    default = Default.INFO
    words = (
        ("Trainer(", "TrainingArguments("),
        re.compile(r"\bTrainer\(|TrainingArguments\("),
    )
    project_words = (("lightning", "transformers"), (".fit(", ".train("))
    since = (1, 10)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.syntax.dotted import last_part

        from ._trainers import Trainers

        for trainer in module.fact(Trainers).full_precision:
            name = last_part(trainer.call.name)
            set_to = trainer.argument.node
            setting = f"without `{trainer.keyword}`" if set_to is None else f"with `{module.code(set_to)}`"
            yield self.diagnostic(
                module,
                set_to or trainer.call.node,
                f"`{name}` {setting} trains in float32",
                label="runs without mixed precision",
                notes=(
                    Note.at(module, trainer.training, "training starts"),
                    Note("nothing in this program sets autocast, TF32 or a 16-bit dtype"),
                ),
                fix=_fix(module, trainer),
            )


def _fix(module: Module, trainer: FloatTrainer) -> Fix | None:
    edited = edits.set_argument(module, trainer.call.node, trainer.keyword, trainer.argument, trainer.value)
    if edited is None:
        return None
    text = f"`{trainer.keyword}={trainer.value}`"
    return Fix(f"pass {text}", edited, Applicability.UNSAFE, "rounds activations and losses to bfloat16")
