from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Note, Rule

from ._element_sketch import may_read_elements
from ._element_words import reads_elements

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.rule.sketch import Sketch

    from ._element_reads import ElementRead

#: A read in a comprehension, or of an item by a name.


class ItemPerElement(Rule):
    """A tensor is read element by element where one `.tolist()` reads all of it.

    ## What it does
    Flags `[x.item() for x in tensor]`, `[float(x) for x in tensor]`, `[int(row[0]) for row in tensor]`, and
    `tensor[i].item()`, `tensor[i, j].item()` or `tensor[i][0].item()` in a loop that binds `i`, also if the element
    gets a name before or is copied (`int(tensor[i].cpu().numpy())`), or if the loop takes it from `enumerate(tensor)`
    or `zip(tensor, names)`, also after `pairs = list(zip(tensor, names))`, and `tensor[i, j].cpu()` in loops that bind
    `i` and `j`. The element may be rounded or scaled before (`int(np.ceil(255 * tensor[i].cpu()))`), or counted up to
    (`range(x)`). The tensor is seen to be
    one tensor, by how it is made, passed or used (`tensor.size()`, `tensor.device`), or is a row of something that a
    training step computes on, and is the same in all iterations. It may be an attribute of `self` that the loop does
    not set: `self.losses[i].item()`. Or it is an attribute of another object, and the loop iterates over a tensor of
    indices: `results.scores[i].item()` in `for i in torch.argsort(results.scores):`, or over `range(len(results))` if
    all that the program stores as `scores` are tensors. Several reads of one tensor, or of attributes of one object, in
    one loop are one finding.

    Not reported: loops over a tensor that is seen to be on the CPU, lists of tensors, tensors that an iteration makes,
    reads under a test of the type, constructors and functions that only constructors call, tests next to the code that
    they test and functions that only these call, loops that a script runs once, and `torch.linspace(...)`, by which
    networks choose the drop rates of their layers.

    ## Why it is slow
    Each iteration makes a tensor for one element, through the dispatcher, and copies one number. On a GPU each copy
    waits until all kernels before it have finished. `.tolist()` copies all elements at once.

    ## Example
    ```python
    lengths = mask.sum(1)
    return [length.item() for length in lengths]
    ```

    ## Use instead
    ```python
    lengths = mask.sum(1)
    return lengths.tolist()
    ```
    In a loop over indices, call `.tolist()` in front of the loop and index the list.

    ## Fix safety
    Safe or unsafe: safe where the tensor is seen to have one dimension. Otherwise unsafe: of a tensor with one column,
    `.tolist()` gives a list of lists. A fix is offered for a comprehension that lists all elements by `.item()`.

    ## When to ignore
    When the tensor has a few elements and is on the CPU.

    ## References
    - [torch.Tensor.tolist](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.tolist.html)
    - [torch.Tensor.item](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.item.html)
    """

    code = "TL209"
    name = "item-per-element"
    words = ("for ", (".item()", "float(", "int(", "range(", ".cpu()"))
    project_words = (("torch", "transformers"),)
    demo = ("GPU", "CPU")

    @classmethod
    def may_concern(cls, text: str) -> bool:
        """Whether a loop may read elements of a tensor."""
        return super().may_concern(text) and reads_elements(text)

    @classmethod
    def may_find(cls, sketch: Sketch) -> bool:
        """Whether a loop of a function may read the elements of a tensor."""
        return may_read_elements(sketch)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        import libcst as cst

        from ._element_reads import ElementReads

        grouped: dict[tuple[object, str], list[ElementRead]] = {}
        for read in module.fact(ElementReads).all():
            tensor = read.tensor.value if isinstance(read.tensor, cst.Subscript) else read.tensor
            if isinstance(tensor, cst.Attribute) and isinstance(tensor.value, cst.Name):
                tensor = tensor.value  # the fields of one object
            grouped.setdefault((read.loop, module.code(tensor)), []).append(read)
        for read, *others in grouped.values():
            name = module.code(read.tensor)
            short = f"`{name}`" if len(name) <= 40 else "the tensor"
            notes = (
                () if read.loop is read.node else (Note.at(module, read.loop, "one element per iteration of the loop"),)
            )
            yield self.diagnostic(
                module,
                read.node,
                f"{short} is read element by element; `.tolist()` reads all elements at once",
                label="copies one number per iteration",
                notes=(*notes, *(Note.at(module, other.node, "also read") for other in others)),
                fix=_fix(module, read) if not others else None,
            )


def _fix(module: Module, read: ElementRead) -> Fix | None:
    import libcst as cst

    if not read.is_whole:
        return None
    text = module.code(read.tensor)
    if not isinstance(read.tensor, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)):
        text = f"({text})"
    if module.comment_on(read.node):
        return None
    edited = edits.replace(module, read.node, f"{text}.tolist()")
    if read.is_line:
        return Fix("use `.tolist()`", edited, Applicability.SAFE)
    caution = "gives a list of lists if the tensor has more than one dimension"
    return Fix("use `.tolist()`", edited, Applicability.UNSAFE, caution)
