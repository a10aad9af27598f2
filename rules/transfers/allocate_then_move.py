from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import edits
from torchlint.model.semantics.knowledge import Kind
from torchlint.rule import Applicability, Cause, Diagnostic, Fix, Note, Rule, Severity

from ._move_sketch import may_move_created
from ._move_words import moves_created_tensors

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.edits import Edits
    from torchlint.model.module import Module
    from torchlint.model.tensors.host_factories import NewTensor
    from torchlint.model.tensors.placement import Move
    from torchlint.rule.sketch import Sketch


class AllocateThenMove(Rule):
    """A tensor is created on the CPU and then copied to the device.

    ## What it does
    Flags `torch.zeros(...)`, `ones`, `empty`, `full`, `eye`, `arange`, `linspace`, `logspace`, `rand`, `randn`,
    `randint`, `randperm`, `normal` of a given size, `tril_indices`, `triu_indices` and windows such as `hann_window`
    without a device, if the result is moved by `.to(device)` or `.cuda()`

    - in the same expression, also after a cast, `nn.Parameter(...)`, a change of shape, a slice, `torch.triu`,
      `torch.tril`, `F.pad`, arithmetic with numbers, comparisons or `.scatter_(...)`, joined with others, or with
      tensors of written numbers, by `torch.cat`, `torch.stack` or `torch.meshgrid`, or indexed
      (`torch.eye(classes)[labels]`);
    - in a later statement of the same block, or of one branch of an `if` in it (`if not x.is_cuda: ... else:`), also
      under several conditions, if nothing else uses the tensor before. Its size may be asked for, and statements may be
      between that give its name another form of it (`x = x.expand(8, 3)`, also by einops) or its items new tensors
      (`x[..., 1] = torch.arange(8)`). It may be copied several times by `.type_as(y)`. A branch before may create it,
      in place of a parameter or of what the other branch gives: `if noise is None: noise = torch.randn(size)`, then
      `noise = noise.to(x.device)`.

    Also flags

    - `torch.FloatTensor(rows, columns)`, `torch.FloatTensor(x.size())` and `torch.FloatTensor(x.shape + (classes,))`,
      also filled by `.zero_()`, `.fill_(...)`, `.normal_()` or similar methods before they are moved; of one number,
      or of `*sizes`, only if the same expression fills it;
    - tensors of NumPy arrays of sizes and numbers alone, such as `torch.from_numpy(np.eye(3).flatten())`,
      `torch.from_numpy(np.stack(np.meshgrid(np.arange(width), np.arange(height))))` or
      `torch.LongTensor(np.concatenate([np.arange(n) + i for i in range(rows)]))`, and of ranges:
      `torch.LongTensor(range(len(x)))`, `torch.LongTensor([range(n)])`, `torch.tensor([2 * i for i in range(n)])`;
    - tensors of one number that is repeated: `torch.tensor([step] * len(x))`, `torch.tensor([1] * rows * columns)`,
      `torch.tensor([1] * n + [0] * n)`, also behind written ones: `torch.tensor([0.0] + [-1e9] * (n - 1))`;
    - tensors that `torch.cat` or `torch.stack` joins for each number of a range:
      `torch.cat([torch.full((size,), i) for i in range(n)])`;
    - what a distribution of numbers draws: `Normal(0, 1).sample((n,)).to(x.device)`;
    - tensors that a function of the program makes of sizes, numbers and settings, also by NumPy or with a distribution
      of constants, and that its caller moves: `self.causal_mask(size).to(x.device)`. The function may also return the
      array. A parameter `device` that the caller leaves at `None` or `"cpu"` is the CPU;
    - tensors that a method copies to a buffer of its network, at other times than in the constructor:
      `self.noise.copy_(torch.randn(size))`.

    A cast to a CUDA type counts as a move: `.type(torch.cuda.FloatTensor)`, or `.type_as(x)` and `.type(x.type())` if
    `x` is a tensor on a CUDA device, or any in a network. The type may be a variable, or a parameter that the callers
    give the types of tensors. So do `.to(x)` if `x` is a tensor that is not known to be on the CPU, and a call of a
    function of the program that returns its first argument moved.

    Not flagged are

    - tensors created once: in `__init__`, unless each forward pass creates the object; in functions that initialize
      weights; in functions that are called only by constructors, and by others only before their loops; and at module
      level outside of loops. A tensor in a function or method that the program calls once, that exports a network, or
      that makes inputs for an export (`input_example`), is reported at information level, and not at all if it has a
      name first. So are tensors in functions that merge the layers of a trained network, and the input of a network
      whose output is not used (`model(torch.zeros(shape).to(device))`);
    - tensors that are created when they are first needed, and kept: under `if "mask" not in self.cache:`, with
      `functools.cached_property`, or in a function that sets a global variable and is called under `if grid is None:`;
    - tensors of data (`torch.tensor([...])`), which come from the CPU in any case;
    - tensors that nothing uses, which only start CUDA: a statement `torch.zeros(1).cuda()`;
    - code under `if __name__ == "__main__":` that tests a network of its file;
    - programs that set a default device, and not only while a function builds a network;
    - code that only makes items of a dataset, `.to(x.device)` of an `x` that is on the CPU there.

    A tensor that has a name before it is moved is reported where it is created, and a note shows the move. The tensors
    of one function whose fixes are equally safe are one finding, at the first of them; notes show the others.

    ## Why it is slow
    The CPU fills the memory and then copies it to the device. The copy is from pageable memory, and the CPU waits for
    it. With `device=`, the factory function launches one kernel on the device and the CPU continues.

    ## Example
    ```python
    state = torch.zeros(layers, len(batch), width).to(device)
    ```

    ## Use instead
    ```python
    state = torch.zeros(layers, len(batch), width, device=device)
    ```

    ## Fix safety
    Safe or unsafe: safe for constants, and for `arange` with integer steps. It is unsafe

    - for random numbers: the generator of the device gives different numbers for the same seed;
    - for `linspace`, `logspace`, windows and fractional `arange`: the last digits may differ;
    - if only the name of a variable suggests that it is a device: `.to(x)` also accepts a dtype or a tensor;
    - after `expand`: the copy gives every element its own memory. Without it, the elements share memory.

    No fix is offered

    - for `.cuda(index)` if the index may be None;
    - for `torch.FloatTensor` and similar constructors, for arrays, for `torch.eye(classes)[labels]`, for what a
      function of the program returns, and for `copy_`;
    - with `.scatter_(...)`, whose indices must be moved first, and casts such as `.type(torch.ByteTensor)`;
    - if several new tensors are joined, or an attribute of `self` may be one;
    - if the move is a separate statement, a call of a function of the program, or a cast to a CUDA type.

    For `.to(x)` and `.type_as(x)`, the fix passes `device=x.device` and keeps the cast. It is not offered for
    `linspace`, `logspace` and fractional `arange`, which a cast to integers may round to other numbers.

    ## When to ignore
    Ignore it if the random numbers must be the same on every device.

    ## References
    - [Performance tuning guide](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
    - [Tensor creation](https://docs.pytorch.org/docs/stable/torch.html#creation-ops)
    """

    code = "TL206"
    name = "allocate-then-move"
    words = (("torch", "import *"),)
    project_words = ("torch", (".cuda", ".to(", "device"))
    since = (0, 4)
    demo = ("GPU",)

    @classmethod
    def may_concern(cls, text: str) -> bool:
        """Whether a move also follows a factory closely: many files use both, few in one expression."""
        return super().may_concern(text) and moves_created_tensors(text)

    @classmethod
    def may_find(cls, sketch: Sketch) -> bool:
        """Whether the result of a factory is moved, directly or under a name."""
        return may_move_created(sketch)

    def check(self, module: Module) -> Iterator[Diagnostic]:
        from torchlint.model.semantics.value import Device
        from torchlint.model.tensors.placement import Placement
        from torchlint.model.training.purpose import Purposes

        from ._repetition import is_kept, is_once

        purposes = module.fact(Purposes)
        if module.fact(Placement).is_gpu_default_at(module.root):
            return
        for move, created in self._found(module):
            if move.device is Device.CPU or is_kept(module, move.call) or purposes.is_self_test(move.call):
                continue
            if self._is_for_items(module, move):
                continue
            function, once = module.function_of(move.call), is_once(module, move.call)
            if (once and created.named) or (created.legacy and self._only_describes(function)):
                continue
            factory = created.by_torch or module.code(created.factory.node.func)
            fix = None if created.named or created.legacy or created.hosted else self._fix(module, move, created)
            at, notes = self._places(module, move, created)
            yield self.diagnostic(
                module,
                at,
                "tensor is created on the CPU and then copied; pass `device=`",
                label=f"`{factory}` can create it on the device",
                notes=notes,
                fix=fix,
                severity=Severity.INFO if once else None,
                cause=self._cause(module, function, fix, once),
            )

    def _is_for_items(self, module: Module, move: Move) -> bool:
        """Whether a tensor goes to where another one is, in code that only makes items of a dataset, on the host."""
        target = move.target.value if move.target is not None and not move.is_cuda else None
        function = module.function_of(move.call)
        if function is None or target is None or not module.code(target).endswith(".device"):
            return False
        homes = [function]
        if module.tree.class_of(function) is None:
            homes = [home for call in module.callers(function).calls if (home := module.function_of(call)) is not None]
        owners = [module.tree.class_of(home) for home in homes]
        return bool(owners) and all(
            owner is not None and module.values.instance(owner).kind is Kind.DATASET for owner in owners
        )

    def _only_describes(self, function: cst.FunctionDef | None) -> bool:
        """Whether a function runs a network once to describe or measure it, by its name: on an empty tensor."""
        from torchlint.model.training.function_words import inspects_network

        return function is not None and inspects_network(function.name.value)

    def _places(self, module: Module, move: Move, created: NewTensor) -> tuple[cst.Call, tuple[Note, ...]]:
        """What is reported: the move; the creation if the tensor has a name before it is moved. And a note."""
        factory = created.factory.node
        if created.returned:
            return move.call, (Note.at(module, factory, "created on the CPU"),)
        if created.named and module.function_of(factory) is module.function_of(move.call):
            return factory, (Note.at(module, move.call, "copied to the device"),)
        return move.call, ()

    def _found(self, module: Module) -> Iterator[tuple[Move, NewTensor]]:
        """The moves of tensors that may be new."""
        from torchlint.model.tensors.new_tensors import NewTensors
        from torchlint.model.tensors.placement import Placement

        from ._copies import Copies
        from ._indirect import IndirectMoves

        found: set[cst.CSTNode] = set()
        for move in (*module.fact(Placement).moves, *module.fact(IndirectMoves).all):
            created = module.fact(NewTensors).of(move.source)
            if created is None:
                continue
            is_one = not created.named or (move.method == "type_as" and not created.returned)
            if is_one and created.factory.node in found:
                continue  # `torch.ones(n).type(x.type()).to(device)` moves it twice
            found.add(created.factory.node)
            yield move, created
        yield from module.fact(Copies).all

    def _cause(self, module: Module, function: cst.FunctionDef | None, fix: Fix | None, once: bool) -> Cause:
        """One cause for all in a function that run equally often and whose fixes are equally safe."""
        key = None if function is None else module.tree.index(function)
        trust = None if fix is None else fix.applicability
        return Cause((key, trust, once), "also created on the CPU", "create all of them on the device")

    def _fix(self, module: Module, move: Move, created: NewTensor) -> Fix | None:
        device = self._device(module, move)
        if device is None or (_casts(move) and not created.exact and not created.drawn):
            return None  # a cast to integers may round another way
        added = edits.add_keyword(module, created.factory.node, "device", device)
        removed = self._without_move(module, move)
        if added is None or removed is None:
            return None
        message = f"pass `device={device}` to `{module.code(created.factory.node.func)}`"
        cautions = list(self._cautions(module, move, created))
        if not cautions:
            return Fix(message, (*added, *removed), Applicability.SAFE)
        return Fix(message, (*added, *removed), Applicability.UNSAFE, "; ".join(cautions))

    def _cautions(self, module: Module, move: Move, created: NewTensor) -> Iterator[str]:
        """What the fix may change."""
        from ._known_devices import goes_to_device

        if not created.exact:
            yield "draws different random numbers" if created.drawn else "may round the last digits differently"
        if created.expanded:
            yield "the elements of the tensor share memory, so that in-place writes or `view` may raise an error"
        if move.method == "to" and move.target is not None and not goes_to_device(module, move):
            yield f"raises an error if `{module.code(move.target.value)}` is a dtype or a tensor"

    def _without_move(self, module: Module, move: Move) -> Edits | None:
        """The edits that remove the move and keep a cast that the same call does."""
        if _casts(move):
            return ()
        others = [
            item
            for item in move.call.args
            if item is not move.target and not (item.keyword is not None and item.keyword.value == "non_blocking")
        ]
        if not others:
            return edits.remove_method_call(module, move.call)
        if move.target is not None and not move.is_cuda and all(self._may_stay(module, item) for item in others):
            return edits.remove_argument(module, move.call, move.target)
        return None

    def _may_stay(self, module: Module, argument: cst.Arg) -> bool:
        """Whether ``to`` takes ``argument`` without a device before it."""
        value = argument.value
        return (
            argument.keyword is not None
            or module.value(value).kind is Kind.DTYPE
            or module.code(value)[-6:] == ".dtype"
        )

    def _device(self, module: Module, move: Move) -> str | None:
        """What to pass as ``device``."""
        from torchlint.model.syntax.dotted import dotted_name

        method = move.method
        if _casts(move):
            tensor = dotted_name(move.call.args[0].value)
            return None if tensor is None else f"{tensor}.device"
        if method not in ("to", "cuda"):
            return None
        if move.target is None:
            return '"cuda"'
        text = module.code(move.target.value)
        if "\n" in text or "#" in text:
            return None
        if not move.is_cuda:
            return text
        if text.isdigit():
            return f'"cuda:{text}"'
        return text if module.value(move.target.value).kind is Kind.DEVICE else None


def _casts(move: Move) -> bool:
    """Whether ``move`` also casts to the dtype of a tensor: ``x.type_as(y)``, ``x.to(y)``."""
    return move.method == "type_as" or (move.method == "to" and move.target is None)
