from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.rule import Diagnostic, Note, Rule
from torchlint.rule.step_words import PER_BATCH

from ._upload_sketch import may_upload_per_batch
from ._upload_words import uploads_data

if TYPE_CHECKING:
    from torchlint.model.module import Module
    from torchlint.rule.sketch import Sketch


class ConstantUploadPerStep(Rule):
    """`torch.tensor` of constants copies the same values from the host to the device at every step.

    ## What it does
    Flags `torch.tensor(...)`, `torch.as_tensor(...)`, `torch.from_numpy(np.array(...))`, `torch.Tensor([...])` and its
    typed variants of numbers that never change, where the result is made with `device=` or moved by `.to(device)`,
    `.to(x)`, `.cuda()` or `.type_as(x)`, also under a name, `x.new_tensor(...)` of an `x` that is not known to be on
    the host, and `torch.cuda.FloatTensor([...])`, also as the type `torch.cuda.FloatTensor if x.is_cuda else
    torch.FloatTensor`: in the `forward` of a network or criterion, the `step` of an optimizer, a `__call__` that
    returns what a network gives, a loop that trains or runs a network, also in a function, as a solver of a diffusion
    model does, or in a function that these call. Numbers that never change are literals, variables
    that the top level of a file sets and no function changes, also of another module (`constants.MEANS`), attributes
    that only constructors, or methods that only these name, set or fill, also of a part (`self.net.mean`), the
    `ignore_index` of a loss, what methods without arguments return of these, parameters to which every call passes such
    numbers, also in another file, or that are declared as numbers and have a default which no call is seen to replace,
    lists that a function fills with such (`kinds += [0] * self.length`), also in loops over such, the root of the last
    size of a tensor (`x.shape[-1] ** 0.5`), and what Python or NumPy alone compute from such numbers, also in
    comprehensions and by an index (`self.stats["mean"]`). What a constructor is given counts as data, not as a
    size, if the tensor is not filled later. The `else` of `if self.training and ...:` counts, too: evaluation takes it
    at every batch. So does that of a setting, such as `if self.style_weight > 0:` of an attribute that only
    constructors set and that is not a positive number by default: a whole run takes it.

    Not reported are values that differ between calls, tensors that are kept after the first call (`if self.grid is
    None:`) or only made if the caller gives none (`if grid is None: grid = self.make_grid(x)`), functions with a cache,
    code that runs at every n-th step (`if step % 100 == 0:`), branches for what is rare (no objects in a batch, an
    export), networks that the file gives to `torch.compile`, which folds the constant into its graph, code for an
    export by the names of its function, class or file, and classes that are not networks and that no step is seen to
    call, such as transforms of single images. TL206 reports arrays of sizes and numbers alone (`np.linspace(0, 1, n)`).

    ## Why it is slow
    The values are in pageable memory of the host. The copy is queued behind the kernels that are already there, and the
    host waits until it is done: no further kernel is launched meanwhile. A scalar costs the same wait as a list.

    ## Example
    ```python
    def forward(self, x):
        mean = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1).to(x.device)
        return self.backbone(x - mean)
    ```

    ## Use instead
    ```python
    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone
        mean = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)
        self.register_buffer("mean", mean, persistent=False)

    def forward(self, x):
        return self.backbone(x - self.mean)
    ```
    A scalar can be filled on the device: `torch.full((), 0.0, device=x.device)`, or `x.new_full((), 0.0)`, launches a
    kernel and copies nothing.
    In a loop, create the tensor before the loop.

    ## Fix safety
    Safe or unsafe: safe for a single number, for which `torch.full` makes the same tensor on the device; unsafe there
    if only the name of a variable says that it is a device. Unsafe for a list in a method of a network, which becomes
    a buffer: `model.half()` converts a buffer, and it is where the network is, not where the input is. With
    `persistent=False` the keys of `state_dict()` stay the same. No fix is offered where the tensor is written to (also
    by a view or a function of the program), returned or kept, where the data uses other names or may be missing (`if
    self.classes is not None:`), in loops, and if the tensor has a name before it is moved.

    ## When to ignore
    When the code runs on the CPU only, or a step takes so long that one wait does not matter.

    ## References
    - [Performance tuning guide: avoid unnecessary synchronization](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
    - [torch.nn.Module.register_buffer](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_buffer)
    """

    code = "TL207"
    name = "constant-upload-per-step"
    words = (
        ("torch", "import *"),
        ("tensor(", "Tensor(", "asarray(", "from_numpy("),
        ("device", ".cuda(", ".to(", ".type_as(", "cuda.", ".new_tensor("),
    )
    project_words = ((*PER_BATCH, "def __call__("),)
    demo = ("GPU",)

    @classmethod
    def may_concern(cls, text: str) -> bool:
        """Whether a tensor of given data may be copied to a device."""
        return super().may_concern(text) and uploads_data(text)

    @classmethod
    def may_find(cls, sketch: Sketch) -> bool:
        """Whether a tensor may be made in a step, in a loop, or in an object that runs a network when it is called."""
        return may_upload_per_batch(sketch)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._constant_fixes import fix_of
        from ._constants import ConstantUploads

        for upload in module.fact(ConstantUploads).all:
            repeated = upload.repeated
            notes = [Note.at(module, repeated.step, "the loop begins" if repeated.is_loop else "runs for every batch")]
            if repeated.calls:
                notes.append(Note.at(module, repeated.calls[0], "called from there"))
            yield self.diagnostic(
                module,
                upload.node,
                f"`{module.code(upload.factory.func)}` copies a constant from the host to the device at every step",
                label="the same values every time",
                notes=tuple(notes),
                fix=fix_of(module, upload),
            )
