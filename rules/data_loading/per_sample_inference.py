from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Default, Diagnostic, Note, Rule

from ._sample_sketch import may_run_samples
from ._sample_words import LOOP, passes_samples, runs_on_images, runs_on_texts, runs_on_windows, runs_repeatedly

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.rule.sketch import Sketch


class PerSampleInference(Rule):
    """A network runs on one sample per call in a Python loop, instead of on batches.

    ## What it does
    Flags a `for` loop or a comprehension that runs a network without gradients on a batch of size 1 (`x.unsqueeze(0)`,
    `x[None]`, `xs[i : i + 1]`, `np.stack([x])`, `x.view(1, ...)`). No iteration may need the result of an earlier one,
    and all samples must have the same size, because they are

    - resized, also by `F.interpolate` to a size that is set before the loop;
    - rows of one tensor or array, also of one that `np.load` reads;
    - windows of one size (`image[top : top + 512]`), or padded to one;
    - items of a dataset of which a `DataLoader` stacks several.

    The network may run in a function that the loop calls, in this file or in another one. Also flags loops that call
    a `transformers` pipeline, or a tokenizer and `model.generate()`, once per text.

    Not flagged are loops that measure the time of each sample, unless only a branch measures it.

    ## Why it is slow
    A batch of size 1 leaves most of a GPU idle. Every layer is launched for a single sample, and reads its weights from
    memory for that sample alone. A batch of 64 launches each layer once and reads the weights once.

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
    For texts, pass a list to the tokenizer with `padding=True` (left padding before `generate()`), or a list with
    `batch_size=` to the pipeline.

    ## Fix safety
    Advice only: the code that uses each result in the loop must be rewritten.

    ## When to ignore
    - Each result is needed immediately, as in a service or for a camera.
    - The samples differ in size, or there are only a few.
    - A batch does not fit into memory.
    - The texts differ much in length: padding costs time.
    - The network runs on a CPU, where a batch may gain nothing.

    ## References
    - [Batch inference with pipelines](https://huggingface.co/docs/transformers/main_classes/pipelines#pipeline-batching)
    - [Performance tuning guide](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
    """

    code = "TL111"
    name = "per-sample-inference"
    default = Default.INFO
    words = ("for",)
    demo = ("GPU",)

    @classmethod
    def may_concern(cls, text: str) -> bool:
        """Whether a file may contain a loop over samples, or a function that takes one."""
        if not super().may_concern(text) or LOOP.search(text) is None:
            return False
        return runs_on_images(text) or runs_on_texts(text) or passes_samples(text) or runs_on_windows(text)

    @classmethod
    def may_apply(cls, text: str) -> bool:
        """Whether the file and its context contain the words that a finding needs."""
        return runs_repeatedly(text)

    @classmethod
    def may_find(cls, sketch: Sketch) -> bool:
        """Whether a loop of the file may run a network on one sample after the other."""
        return may_run_samples(sketch)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._samples import Samples

        for found in module.fact(Samples).loops:
            notes = [Note.at(module, found.evidence, found.reason)]
            if found.single is not None:
                notes.append(Note.at(module, found.single, "the batch of size 1 is created"))
            notes.append(Note.at(module, found.loop, "runs at every iteration of the loop"))
            yield self.diagnostic(
                module,
                found.call,
                "network runs on one sample per call instead of on batches",
                label="batch size 1",
                notes=tuple(notes),
            )
