from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Cause, Diagnostic, Fix, Note, Rule

from ._words import COMPILES

if TYPE_CHECKING:
    from torchlint.model.module import Module

    from ._bypasses import Bypass


class CompiledMethodBypass(Rule):
    """A method called on a compiled network runs uncompiled.

    ## What it does
    Flags `model.generate(...)`, `model.encode(...)` and other methods of a `model = torch.compile(model)`, if the
    method runs the network or layers of it. The class may be in another file. Of networks of `diffusers`, `encode` and
    `decode` are reported, and of `transformers` `get_image_features` and the like, and `generate`, also of `peft`,
    unless the file mentions a static cache, with which `generate` compiles by itself.

    Not reported are methods that run no layer (`model.parameters()`, `model.configure_optimizers()`), methods that are
    compiled themselves, and networks that are compiled in place by `model.compile()`.

    ## Why it is slow
    `torch.compile(model)` returns a wrapper. Calling the wrapper runs compiled code. Every other method is looked up
    on the network inside, and there `self(x)` is the network itself, not the wrapper: all of it runs eagerly, and
    nothing says so.

    ## Example
    ```python
    model = torch.compile(model)
    tokens = model.generate(prompt, max_new_tokens=200)
    ```

    ## Use instead
    ```python
    model.compile()
    tokens = model.generate(prompt, max_new_tokens=200)
    ```
    `model.compile()` compiles the network in place, so that `self(x)` in a method runs compiled. A method that calls
    `self.forward(x)` or layers directly needs `model.encode = torch.compile(model.encode)`.

    ## Fix safety
    Unsafe: the code now runs compiled, which rounds differently and takes time to compile; shapes that grow, as in a
    generation, are compiled as dynamic ones. Keys of `state_dict()` lose `_orig_mod.`. No fix is offered if the method
    calls layers or `self.forward`, for networks of `peft`, which run another network inside, where the file uses
    `_orig_mod`, and where the result of `torch.compile` gets another name.

    ## When to ignore
    When the method is called seldom, and the compiled network is for something else.

    ## References
    - [torch.compile](https://docs.pytorch.org/docs/stable/generated/torch.compile.html)
    - [torch.nn.Module.compile](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.compile)
    """

    code = "TL503"
    name = "compiled-method-bypass"
    words = (
        re.compile(
            r"\.(?:generate|encode|decode|embed|sample|infer|predict|extract|forward_|get_\w{0,20}feat|reconstruct|compute|"
            r"score|act\(|training_step|loss|run|denoise|translate|transcribe|caption|detect|segment|classify)"
        ),
    )
    project_words = ("torch", COMPILES)
    since = (2, 0)
    demo = ("GPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._bypasses import Bypasses

        found = list(module.fact(Bypasses).all())
        mixed = {item.site for item in found if not item.calls_itself}
        for item in found:
            notes = [Note.at(module, item.site.node, "only calls of this wrapper run compiled")]
            if item.forward is not None:
                notes.append(Note.at(module, item.forward, "the method runs this without the wrapper"))
            yield self.diagnostic(
                module,
                item.call,
                f"`{module.code(item.call.func)}` runs uncompiled: `torch.compile` wraps the forward alone",
                label="looked up on the network inside of the wrapper",
                notes=tuple(notes),
                fix=None if item.site in mixed else _compile_in_place(module, item),
                cause=Cause(module.tree.index(item.site.node), "also runs uncompiled"),
            )


def _compile_in_place(module: Module, found: Bypass) -> Fix | None:
    """``model.compile()`` for ``model = torch.compile(model)``."""
    import libcst as cst

    call = found.site.call
    statement = module.tree.parent(found.site.node)
    if call is None or found.site.node is not call or not isinstance(statement, cst.Assign):
        return None
    target = found.site.target
    if len(statement.targets) != 1 or not isinstance(target, (cst.Name, cst.Attribute)):
        return None
    name = module.code(target)
    if module.code(statement.targets[0].target) != name or not module.is_own(call) or "_orig_mod" in module.own_text:
        return None
    if module.comment_on(statement) or (module.target_torch is not None and module.target_torch < (2, 2)):
        return None
    rest = ", ".join(module.code(item).rstrip(", ") for item in call.args if item.value is not target)
    if "\n" in rest or any(item.star for item in call.args):
        return None
    return Fix(
        f"compile `{name}` in place",
        edits.replace(module, statement, f"{name}.compile({rest})"),
        Applicability.UNSAFE,
        "compiled code rounds differently; keys of `state_dict()` lose `_orig_mod.`",
    )
