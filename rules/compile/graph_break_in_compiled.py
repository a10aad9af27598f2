from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.rule import Applicability, Diagnostic, Fix, Note, Rule

from ._kinds import BreakKind
from ._words import COMPILES, COMPUTES

if TYPE_CHECKING:
    from torchlint.model.module import Module

    from ._breaks import Break

#: The message, and the label that says what to do.
_MESSAGES = {
    BreakKind.READ: (
        "`{code}` in compiled code reads a tensor value and breaks the graph",
        "keep the value in a tensor",
    ),
    BreakKind.BRANCH: (
        "branch on tensor values in compiled code breaks the graph",
        "`torch.where` or `torch.cond` stay in the graph",
    ),
    BreakKind.SHAPE: (
        "`{code}` in compiled code has a data-dependent shape and breaks the graph",
        "a mask keeps the shape static",
    ),
    BreakKind.OUTPUT: ("printing or logging in compiled code breaks the graph", "move it out of the compiled code"),
    BreakKind.PYTHON: ("`{name}` in compiled code breaks the graph", "call it outside and pass the result"),
    BreakKind.LAYER: ("creating a layer in compiled code breaks the graph", "create it in the constructor"),
    BreakKind.RECURRENT: (
        "recurrent layer in compiled code breaks the graph",
        "the code after it may run eagerly too",
    ),
}


class GraphBreakInCompiled(Rule):
    """Compiled code contains an operation that breaks the graph.

    ## What it does
    Flags operations that make torch 2.13 end the graph, in functions that run compiled and in functions that these
    call:

    - reading a value of a tensor (`.item()`, `float(t)`), and `if` or `while` on tensor values;
    - operators with a data-dependent output shape (`nonzero`, `unique`, `x[x > 0]`, `one_hot` without the number of
      classes);
    - `print`, logging and warnings;
    - clocks, `random.random()`, `numpy.random`, files and `torch.manual_seed`;
    - layers with parameters that are created in the compiled code;
    - calls of `nn.LSTM`, `nn.GRU` and `nn.RNN`.

    Not flagged are

    - operations that do not break the graph: `x[mask] = 0`, `no_grad`, autocast, `assert`, `if` on a shape, NumPy on
      tensors;
    - operations under their own condition or behind `torch.compiler.is_compiling()`;
    - code compiled with `fullgraph=True`, which raises an error instead;
    - `loss.backward()` and `optimizer.step()` in a compiled step, where graphs end in any case.

    ## Why it is slow
    At a graph break, the graph so far runs, Python executes the operation itself, and the rest is compiled as another
    graph. Operators before and after the break are not fused, tensors between them go through memory, CUDA graphs are
    split, and each graph checks its own guards. Reading a value also makes the CPU wait for the GPU. Around a call of a
    recurrent layer, more of the function than that call may run eagerly.

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
    `TORCH_LOGS="graph_breaks"` lists the graph breaks of a program. `fullgraph=True` makes a graph break an error, and
    captures `.item()` and operators with data-dependent shapes.

    ## Fix safety
    Unsafe: the fix deletes a `print`, a log message or a warning. All other kinds are advice only. No fix is offered

    - if the arguments bind a name or call something that may change the program (`stack.pop()`, a function of the
      project);
    - if it prints to a `file=`;
    - if nothing else remains in its block.

    ## When to ignore
    Ignore it if the graph break is in code that runs once, or at the very end of the compiled function.

    ## References
    - [Working with graph breaks](https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/compile/programming_model.graph_breaks_index.html)
    """

    code = "TL504"
    name = "graph-break-in-compiled"
    words = (COMPUTES,)
    project_words = ("torch", "compile", COMPILES)
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
        yield Note.at(module, traced.site.node, "the calling code is compiled")


def _fix(module: Module, found: Break) -> Fix | None:
    """Delete a statement that only prints or logs."""
    import libcst as cst

    from torchlint.model.program.effects import only_computes
    from torchlint.model.syntax.calls import keyword

    statement = edits.statement_of_call(module, found.node)
    if found.kind is not BreakKind.OUTPUT or statement is None or not isinstance(found.node, cst.Call):
        return None
    if not all(only_computes(module, part) for part in (found.node.func, *found.node.args)):
        return None
    if keyword(found.node, "file") is not None:
        return None  # what it prints may be read again
    edited = edits.delete_statement(module, statement)
    return None if edited is None else Fix("delete this statement", edited, Applicability.UNSAFE, "removes the output")
