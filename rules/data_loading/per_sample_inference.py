from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Default, Diagnostic, Note, Rule

from ._sample_words import LOOP, reads_images, runs_on_images, runs_on_texts

if TYPE_CHECKING:
    from torchlint.model.module import Module


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
    words = (LOOP,)
    demo = ("GPU",)

    @classmethod
    def may_concern(cls, text: str) -> bool:
        """Whether a file may hold a loop over samples, or a function that is given one."""
        has_samples = runs_on_images(text) or runs_on_texts(text) or reads_images(text)
        return has_samples and super().may_concern(text)

    @classmethod
    def may_apply(cls, text: str) -> bool:
        """Whether the file and its context have all that a finding needs."""
        return runs_on_texts(text) or runs_on_images(text)

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
