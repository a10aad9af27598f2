from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Note, Rule

from ._kinds import BreakKind
from ._words import COMPILES

if TYPE_CHECKING:
    from torchlint.model.module import Module

    from ._breaks import Break

#: What is wrong, and what to do about it.
_MESSAGES = {
    BreakKind.READ: ("`{code}` reads a value off a tensor in compiled code", "keep it a tensor"),
    BreakKind.BRANCH: (
        "compiled code branches on the values of a tensor",
        "`torch.where` or `torch.cond` stay in the graph",
    ),
    BreakKind.SHAPE: ("the shape of `{code}` depends on the values, in compiled code", "a mask keeps the shape"),
    BreakKind.OUTPUT: ("compiled code prints or logs", "move it out of the compiled code"),
    BreakKind.PYTHON: ("compiled code calls `{name}`, which no graph can hold", "call it outside, pass the result in"),
    BreakKind.LAYER: ("compiled code makes a layer with parameters", "make it in the constructor"),
    BreakKind.RECURRENT: (
        "compiled code runs a recurrent layer, which no graph takes in",
        "what follows may stay eager too",
    ),
}


class GraphBreakInCompiled(Rule):
    """Compiled code does something that cannot be part of a graph, so it falls into pieces.

    ## What it does
    Flags, in functions that run compiled and in what these call, what makes torch 2.13 end the graph: a value read
    off a tensor (`.item()`, `float(t)`), `if` and `while` on the values of a tensor, operators whose result has a shape
    that depends on the values (`nonzero`, `unique`, `x[x > 0]`, `one_hot` without the number of classes), `print`,
    logging and warnings, clocks, `random.random()`, `numpy.random`, files, `torch.manual_seed`, a layer with
    parameters made on the spot, and calls of `nn.LSTM`, `nn.GRU` and `nn.RNN`.

    What does not break the graph is left alone: NumPy on tensors, `no_grad`, autocast, `assert`, `if` on a shape,
    `x[mask] = 0`. So is what stands under a condition of its own or behind `torch.compiler.is_compiling()`, and all of
    it with `fullgraph=True`, which raises instead. `loss.backward()` and `optimizer.step()` in a compiled step are left
    alone too: graphs end there in any case.

    ## Why it is slow
    At a break the graph so far runs, Python does the one step itself, and the rest is compiled as another graph.
    Operators before and after are no longer fused, tensors between them go through memory, CUDA graphs are cut, and
    each piece checks anew whether it still fits. Reading a value makes the host wait for the GPU as well. Around a call
    of a recurrent layer, more of the function than that call may stay eager.

    ## Example
    ```python
    @torch.compile
    def step(x):
        y = x.sin()
        print(y.shape)
        return y.cos()
    ```

    ## Use instead
    ```python
    @torch.compile
    def step(x):
        return x.sin().cos()
    ```
    `TORCH_LOGS="graph_breaks"` shows where a program breaks. `fullgraph=True` makes a break an error, and takes in
    `.item()` and operators with shapes that depend on values.

    ## Fix safety
    Unsafe: a `print`, a message to the log or a warning is deleted. No fix is offered where its arguments bind a name
    or call something that may change the program (`stack.pop()`, a function of the project), where it prints to a
    `file=`, and where nothing else is left in its block. For the rest, advice.

    ## When to ignore
    When the break is in code that runs once, or at the very end of the compiled function.

    ## References
    - [Working with graph breaks](https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/compile/programming_model.graph_breaks_index.html)
    """

    code = "TL504"
    name = "graph-break-in-compiled"
    words = ("torch", "compile", COMPILES)
    since = (2, 0)
    demo = ("GPU",)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from ._breaks import Breaks

        for found in module.fact(Breaks).all():
            message, label = _MESSAGES[found.kind]
            text = " ".join(module.code(found.node).split())
            shown = text if len(text) <= 40 else f"{text[:37]}..."
            name = module.name_of(module.callee(found.node)) or ""
            yield self.diagnostic(
                module,
                found.node,
                message.format(code=shown, name=name.removeprefix("builtins.")),
                label=label,
                notes=tuple(_notes(module, found)),
                fix=_fix(module, found),
            )


def _notes(module: Module, found: Break) -> Iterator[Note]:
    traced = found.traced
    name = traced.function.name.value
    if traced.call is None:
        yield Note.at(module, traced.site.node, f"`{name}` is compiled")
    else:
        yield Note.at(module, traced.call, f"`{name}` is called by compiled code")
        yield Note.at(module, traced.site.node, "that code is compiled")


def _fix(module: Module, found: Break) -> Fix | None:
    """Delete a statement that only shows something."""
    import libcst as cst

    from torchlint.model.semantics.effects import only_computes

    statement = edits.statement_of_call(module, found.node)
    if found.kind is not BreakKind.OUTPUT or statement is None or not isinstance(found.node, cst.Call):
        return None
    if not all(only_computes(module, part) for part in (found.node.func, *found.node.args)):
        return None
    if any(item.keyword is not None and item.keyword.value == "file" for item in found.node.args):
        return None  # what it prints may be read again
    edited = edits.delete_statement(module, statement)
    return None if edited is None else Fix("delete it", edited, Applicability.UNSAFE, "it is no longer shown")
