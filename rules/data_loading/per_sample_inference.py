from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Default, Diagnostic, Note, Rule

if TYPE_CHECKING:
    from torchlint.model.module import Module


_LOOP = re.compile(r"^[ \t]*(async )?for\b", re.MULTILINE)
#: A batch of one, inference, and what makes samples equally large.
_SINGLES = ("unsqueeze(0", "unsqueeze(dim=0", "torch.unsqueeze(", "[None", "expand_dims(")
_INFERENCE = ("no_grad", "inference_mode", ".eval(")
_SIZES = ("esize(", "Crop(", "crop(", "etterbox(", "Image.new(", "DataLoader")
#: What reads an image that may be handed over to a function of another file.
_READING = ("Image.open(", "imread(")


def _of_images(text: str) -> bool:
    return (
        any(word in text for word in _SINGLES)
        and any(word in text for word in _INFERENCE)
        and (any(word in text for word in _SIZES) or ("torch.stack(" in text and ".eval(" in text))
    )


def _of_texts(text: str) -> bool:
    if ".generate(" in text and "okenizer" in text:
        return True
    return "pipeline(" in text and ("transformers import" in text or "import transformers" in text)


class PerSampleInference(Rule):
    """A network is run on one sample at a time in a Python loop.

    ## What it does
    Flags a `for` loop that runs a network without gradients on a batch of one (`x.unsqueeze(0)`, `x[None]`), where the
    samples are seen to be of one size and no round needs the result of an earlier one. The network may be run by a
    function that the loop calls, in this file or in another one. Also loops that call a `transformers` pipeline, or a
    tokenizer and `model.generate()`, once per text.

    ## Why it is slow
    A batch of one leaves most of a GPU idle: every layer is launched for a single sample, and its weights are read
    from memory for that sample alone. A batch of 64 launches each layer once and reads the weights once.

    ## Example
    ```python
    for path in paths:
        image = transform(Image.open(path)).unsqueeze(0).to("cuda")
        scores.append(model(image))
    ```

    ## Use instead
    ```python
    for images in DataLoader(Photos(paths, transform), batch_size=64, num_workers=8):
        scores.append(model(images.to("cuda")))
    ```
    Of texts, give the tokenizer a list with `padding=True` (on the left side before `generate()`), or the pipeline a
    list with `batch_size=`.

    ## Fix safety
    Advice only: what is done with each result in the loop has to be written anew.

    ## When to ignore
    When every answer is wanted at once (a service, a camera), when samples differ in size, when there are only a few,
    or when a batch does not fit into memory. Texts of very different length cost padding, and on a CPU a batch may gain
    nothing.

    ## References
    - [Batch inference with pipelines](https://huggingface.co/docs/transformers/main_classes/pipelines#pipeline-batching)
    - [Performance tuning guide](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
    """

    code = "TL111"
    name = "per-sample-inference"
    default = Default.INFO
    words = (" in ",)
    demo = ("GPU",)

    @classmethod
    def may_concern(cls, text: str) -> bool:
        """Whether a loop of the file may run a network on one sample, or hand it over to a function that does."""
        if not super().may_concern(text) or not _LOOP.search(text):
            return False
        return _of_texts(text) or _of_images(text) or any(word in text for word in _READING)

    @classmethod
    def may_apply(cls, text: str) -> bool:
        """Whether the file and its context have all that a finding needs."""
        return _of_texts(text) or _of_images(text)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._samples import Samples

        for found in module.fact(Samples).loops:
            if not module.is_own(found.call):
                continue
            notes = [Note.at(module, found.evidence, found.reason)]
            if found.single is not None:
                notes.append(Note.at(module, found.single, "the batch of one is created"))
            notes.append(Note.at(module, found.loop, "runs at every iteration of the loop"))
            yield self.diagnostic(
                module,
                found.call,
                "network runs on one sample at a time",
                label="a batch of one",
                notes=tuple(notes),
            )
