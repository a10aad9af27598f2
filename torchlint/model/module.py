"""The model of one file: what a rule may ask. Built from one traversal; every answer is worked out when asked for."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.lexemes import NEWLINE
from torchlint.model import knowledge
from torchlint.model.autocasts import Autocasts
from torchlint.model.calls import Call
from torchlint.model.compiled import Compiled
from torchlint.model.context import NO_CONTEXT, Context
from torchlint.model.convolutions import Convolutions
from torchlint.model.datasets import Datasets
from torchlint.model.definitions import Callers, Definitions
from torchlint.model.epochs import Epochs
from torchlint.model.gates import Gates
from torchlint.model.gradients import Gradients
from torchlint.model.host_reads import HostReads
from torchlint.model.inference import Inference
from torchlint.model.knowledge import Kind
from torchlint.model.layers import NetworkLayers
from torchlint.model.links import Links
from torchlint.model.loading import Loading
from torchlint.model.loops import Loop, LoopKind, Loops
from torchlint.model.names import Names
from torchlint.model.no_grad import NoGrad
from torchlint.model.objects import ObjectFlow
from torchlint.model.options import Options
from torchlint.model.outputs import Outputs
from torchlint.model.pinning import Pinning
from torchlint.model.placement import Placement
from torchlint.model.positions import Positions
from torchlint.model.precision import Precision
from torchlint.model.purpose import Purpose, Purposes
from torchlint.model.reasons import Reasons, without_suppressions
from torchlint.model.recasts import Recasts
from torchlint.model.regions import GradMode, Regions
from torchlint.model.rounds import Rounds
from torchlint.model.samples import Samples
from torchlint.model.sizes import Sizes
from torchlint.model.steps import Steps
from torchlint.model.switches import Switches
from torchlint.model.timing import Timing
from torchlint.model.tokenizing import Tokenizing
from torchlint.model.traced import TracedCode
from torchlint.model.training import Training
from torchlint.model.tree import Binding, Tree, dotted_name
from torchlint.model.values import Value, Values
from torchlint.model.zeroing import Zeroing
from torchlint.parsing import ParseError, Piece, parse_pieces

if TYPE_CHECKING:
    from torchlint.rule import Option


class Module:
    """One parsed file and the questions that rules put to it."""

    def __init__(
        self,
        text: str,
        pieces: Sequence[Piece],
        path: str = "",
        options: Mapping[str, Mapping[str, Option]] | None = None,
        target_torch: tuple[int, int] | None = None,
        context: Context = NO_CONTEXT,
        project_path: str | None = None,
        in_package: bool = False,
    ) -> None:
        files = [other for other in context.files if other.pieces]
        self.own_text = text
        #: the text of the file, and behind it those of its context: offsets beyond `own_text` are in other files
        self.text = "\n".join((text, *(other.text for other in files)))
        self.path = path
        self.project_path = path if project_path is None else project_path
        self.in_package = in_package
        self.target_torch = target_torch
        self._options = options or {}
        self._positions = Positions(pieces)
        self.root = self._positions.root
        base, others = len(text) + 1, []
        self._bases: list[int] = [0]  #: where the text of each file begins
        for other in files:
            self._bases.append(base)
            others.append(self._positions.add([replace(piece, start=base + piece.start) for piece in other.pieces]))
            base += len(other.text) + 1
        self.tree = Tree(self.root, others)
        self._paths = [path, *(os.path.normpath(os.path.join(context.root, other.path)) for other in files)]
        paths: dict[cst.CSTNode, str] = dict(
            zip(self.tree.roots, (context.path, *(other.path for other in files)), strict=True)
        )
        self.links = Links(self.tree, paths, context.resolve)
        self.names = Names(self.tree, self.links)
        self.definitions = Definitions(self.tree, self.names, self.links)
        self.values = Values(self.tree, self.names, self.definitions)
        self.loops = Loops(self.tree, self.values)
        self.gates = Gates(self.tree, self.names)
        self.switches = Switches(self.tree, self.names)
        self.objects = ObjectFlow(self.tree, self.names, self.definitions, self.values)
        self.compiled = Compiled(self.tree, self.names, self.definitions, self.values, self.objects, self.gates)
        self.traced = TracedCode(self)
        self.regions = Regions(self.tree, self.names, self.definitions, self.values)
        self.training = Training(self.tree, self.names, self.definitions, self.values)
        self.gradients = Gradients(self.tree, self.names, self.definitions, self.values)
        self.purposes = Purposes(self)
        self.precision = Precision(self)
        self.autocasts = Autocasts(self)
        self.sizes = Sizes(self)
        self.layers = NetworkLayers(self)
        self.convolutions = Convolutions(self)
        self.reasons = Reasons(self)
        self.recasts = Recasts(self)
        self.steps = Steps(self)
        self.outputs = Outputs(self)
        self.inference = Inference(self)
        self.no_grad = NoGrad(self)
        self.zeroing = Zeroing(self)
        self.timing = Timing(self)
        self.datasets = Datasets(self)
        self.loading = Loading(self, self.datasets)
        self.placement = Placement(self)
        self.pinning = Pinning(self)
        self.rounds = Rounds(self)
        self.host_reads = HostReads(self)
        self.options = Options(self)
        self.epochs = Epochs(self)
        self.samples = Samples(self)
        self.tokenizing = Tokenizing(self)

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        path: str = "",
        options: Mapping[str, Mapping[str, Option]] | None = None,
        target_torch: tuple[int, int] | None = None,
        context: Context = NO_CONTEXT,
        project_path: str | None = None,
        in_package: bool = False,
    ) -> Module:
        """Parse ``text`` and build its model. Raises ParseError.

        ``project_path`` is the path within the project; a file ``in_package`` may be imported by code out of sight.
        """
        try:
            return cls(text, parse_pieces(text), path, options, target_torch, context, project_path, in_package)
        except RecursionError:
            raise ParseError("nested too deeply to be analysed") from None

    def release(self) -> None:
        """Give up all that is known: its parts refer to each other, and would wait for the garbage collector."""
        vars(self).clear()

    # -- text

    def span(self, node: object) -> tuple[int, int]:
        """Offsets ``[start, end)`` of ``node`` in the text, without the parentheses and white space around it."""
        assert isinstance(node, cst.CSTNode)
        return self._positions.span(node, self.tree.top_level(node))

    def extent(self, node: object) -> tuple[int, int]:
        """Offsets ``[start, end)`` of ``node``; of a compound statement, those of its first row."""
        start, end = self.span(node)
        if isinstance(node, cst.BaseCompoundStatement):
            row = self.row_at(start)
            end = min(end, self.row_start(row) + len(self.line(row).rstrip()))
        return start, end

    def place(self, node: object) -> tuple[int, int, str]:
        """The `extent` of ``node`` in its own file, and the path of that file, empty for the file that is checked."""
        start, end = self.extent(node)
        index = bisect_right(self._bases, start) - 1
        base = self._bases[index]
        return start - base, end - base, self._paths[index] if index else ""

    def code(self, node: cst.CSTNode) -> str:
        """The source text of ``node``."""
        start, end = self.span(node)
        return self.text[start:end]

    def row(self, node: cst.CSTNode) -> int:
        """The row, from 1, on which ``node`` begins in its file."""
        start = self.span(node)[0]
        return self.row_at(start) - self.row_at(self._bases[bisect_right(self._bases, start) - 1]) + 1

    def is_own(self, start: int) -> bool:
        """Whether an offset is in the file that is checked."""
        return start <= len(self.own_text)

    def row_at(self, offset: int) -> int:
        """The row, from 1, of the character at ``offset``."""
        return bisect_right(self._line_starts, offset)

    def row_start(self, row: int) -> int:
        """The offset of the first character of ``row`` (from 1)."""
        return self._line_starts[row - 1]

    def line(self, row: int) -> str:
        """The text of ``row`` (from 1), with its newline."""
        stop = self._line_starts[row] if row < len(self._line_starts) else len(self.text)
        return self.text[self._line_starts[row - 1] : stop]

    def line_start(self, offset: int) -> int:
        """The offset of the first character of the row that holds ``offset``."""
        return self._line_starts[self.row_at(offset) - 1]

    def statement_rows(self, node: object) -> tuple[int, int]:
        """First and last row of the statement that holds ``node``; of a compound one, its header only."""
        assert isinstance(node, cst.CSTNode)
        if isinstance(node, cst.Decorator):
            start, end = self.span(node)
            return self.row_at(start), self.row_at(end)
        statement = self.tree.statement_of(node)
        start, end = self.span(statement)
        body = getattr(statement, "body", None)
        if isinstance(body, cst.CSTNode) and isinstance(statement, cst.BaseCompoundStatement):
            end = self.span(body)[0]
            last = self.row_at(max(start, end - 1))
            if isinstance(body, cst.IndentedBlock) and last > self.row_at(start):
                while last > self.row_at(start) and not self._header_ends(last):
                    last -= 1
            first = self.row_at(start)
            return first, max(first, last, self.row_at(self.span(node)[1]))
        return self.row_at(start), self.row_at(max(start, end - 1))

    def _header_ends(self, row: int) -> bool:
        start = self._line_starts[row - 1]
        end = self._line_starts[row] if row < len(self._line_starts) else len(self.text)
        line = self.text[start:end].split("#")[0].rstrip()
        return line.endswith(":")

    def comment_on(self, node: cst.CSTNode) -> bool:
        """Whether a comment that is no suppression stands on one of the rows of ``node``."""
        start, end = self.span(node)
        first, last = self.row_at(start), self.row_at(max(start, end - 1))
        stop = self._line_starts[last] if last < len(self._line_starts) else len(self.text)
        return "#" in without_suppressions(self.text[self._line_starts[first - 1] : stop])

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer(NEWLINE, self.text))]

    # -- settings

    def option(self, rule: str, name: str) -> Option | None:
        """The setting ``name`` of ``[tool.torchlint.rules.<rule>]``."""
        return self._options.get(rule, {}).get(name)

    # -- calls and values

    def calls(self, *names: str) -> Iterator[Call]:
        """The calls of anything with one of these canonical dotted names in the file and its context, in order."""
        found = [call for name in dict.fromkeys(names) for call in self._calls.get(name, ())]
        yield from found if len(names) == 1 else sorted(found, key=lambda call: self.tree.index(call.node))

    @cached_property
    def _calls(self) -> Mapping[str, list[Call]]:
        """The calls of each canonical name, in order."""
        found: dict[str, list[Call]] = {}
        for node in self.tree.calls:
            name = self.names.resolve(node.func)
            if name is not None:
                found.setdefault(name, []).append(Call(node, name))
        return found

    def own_calls(self, *names: str) -> Iterator[Call]:
        """The calls of these names in the file that is checked: the places where a rule may report something."""
        return (call for call in self.calls(*names) if self.tree.is_own(call.node))

    def makers(self, *names: str) -> Iterator[Call]:
        """The calls of a class with one of these canonical names, or of a class of the file derived from one."""
        derived = [item for item in self.tree.classes if not set(names).isdisjoint(self.definitions.base_names(item))]
        for node in self.tree.calls:
            name = self.names.resolve(node.func)
            if name is not None and name in names:
                yield Call(node, name)
            elif derived:
                made = [item for item in self.definitions.called(node, self.values) if item in derived]
                if made:
                    yield Call(node, made[0].name.value)

    def methods(self, *names: str) -> Iterator[cst.Call]:
        """The calls ``<anything>.name(...)`` with one of these method names, in order."""
        found = [call for name in dict.fromkeys(names) for call in self._methods.get(name, ())]
        yield from found if len(names) == 1 else sorted(found, key=self.tree.index)

    @cached_property
    def _methods(self) -> Mapping[str, list[cst.Call]]:
        """The calls of each method name, in order."""
        found: dict[str, list[cst.Call]] = {}
        for node in self.tree.calls:
            if isinstance(node.func, cst.Attribute):
                found.setdefault(node.func.attr.value, []).append(node)
        return found

    def decorators(self, *names: str) -> Iterator[tuple[cst.Decorator, str]]:
        """The decorators ``@name`` (not called) with one of these canonical dotted names, in order."""
        definitions: list[cst.FunctionDef | cst.ClassDef] = [*self.tree.functions, *self.tree.classes]
        for definition in definitions:
            for decorator in definition.decorators:
                name = self.names.resolve(decorator.decorator)
                if name is not None and name in names:
                    yield decorator, name

    def name_of(self, node: cst.CSTNode | None) -> str | None:
        """The canonical dotted name that ``node`` refers to, if it comes from an import or is a builtin."""
        return self.names.resolve(node)

    def value(self, node: cst.CSTNode | None) -> Value:
        """What the expression ``node`` is worth."""
        return self.values.of(node)

    def callee(self, node: cst.CSTNode) -> cst.CSTNode:
        """What ``node`` calls; ``node`` itself if it is no call."""
        return node.func if isinstance(node, cst.Call) else node

    def callers(self, function: cst.FunctionDef) -> Callers:
        """Where ``function`` is called in the file."""
        return self.definitions.callers(function, self.values)

    # -- evidence of what the file is

    @cached_property
    def uses_cuda(self) -> bool:
        """Whether the file puts something on a CUDA device, or may: `.cuda(`, "cuda", `torch.cuda...Tensor`.

        The accelerator that `torch.accelerator` finds counts as one.
        """
        if self.uses_accelerator or self._moves_to_rank:
            return True
        for string in self.tree.strings:
            if "cuda" in string.value:
                text = string.evaluated_value
                if isinstance(text, str) and (text == "cuda" or re.fullmatch(r"cuda(:.*)?", text)):
                    return True
        for node in self.tree.attributes:
            if node.attr.value == "cuda" and isinstance(self.tree.parent(node), cst.Call):
                return True
            if node.attr.value.endswith("Tensor") and (self.name_of(node) or "").startswith("torch.cuda."):
                return True
            if node.attr.value in ("set_device", "current_device"):
                if self.name_of(node) in ("torch.cuda.set_device", "torch.cuda.current_device"):
                    return True
        for part in self.tree.nodes:
            if isinstance(part, cst.FormattedStringText) and part.value.startswith("cuda"):
                return True
            if isinstance(part, cst.IfExp) and self._falls_back_to_cpu(part):
                return True
        return False

    @cached_property
    def uses_accelerator(self) -> bool:
        """Whether the file gets its device from `torch.accelerator`, whatever make that is."""
        return any(self.calls(*knowledge.ACCELERATORS))

    @cached_property
    def _moves_to_rank(self) -> bool:
        """Whether a process that `mp.spawn` starts moves something to its rank: `model.to(rank)`."""
        return any(self.calls(knowledge.SPAWN)) and any(
            self.value(argument.value).kind is Kind.NUMBER
            for call in self.methods("to")
            for argument in call.args[:1]
            if isinstance(argument.value, cst.Name)
        )

    def _falls_back_to_cpu(self, node: cst.IfExp) -> bool:
        """``args.device if torch.cuda.is_available() else "cpu"``."""
        asks = any(self.name_of(call.func) == "torch.cuda.is_available" for call in self.tree.calls_in(node.test))
        return asks and any(self.value(part).constant == "cpu" for part in (node.body, node.orelse))

    @cached_property
    def uses_trainer(self) -> bool:
        """Whether a library that places and casts by itself is used: Lightning, Accelerate, Fabric, ..."""
        roots = ("pytorch_lightning", "lightning", "accelerate", "deepspeed", "composer", "colossalai", "ignite")
        for scope_name in self._imported_roots:
            if scope_name in roots:
                return True
        return any(name in knowledge.TRAINERS for name in self.imported_names)

    def is_exported(self, binding: Binding) -> bool:
        """Whether other files are meant to use the name: listed in ``__all__``, or bound in an ``__init__.py``."""
        if self.path.replace("\\", "/").endswith("/__init__.py") or self.path == "__init__.py":
            return True
        return binding.name in self._listed_names

    @cached_property
    def _listed_names(self) -> frozenset[object]:
        """What is listed in ``__all__``."""
        return frozenset(
            node.evaluated_value
            for entry in self.tree.module_scope.bindings.get("__all__", [])
            if entry.value is not None
            for node in self.tree.nodes_in(entry.value)
            if isinstance(node, cst.SimpleString)
        )

    @cached_property
    def imported_names(self) -> frozenset[str]:
        """Dotted names of everything the file and its context import, at any place."""
        return frozenset(name for root in self.tree.roots for name in self._imported_by(root))

    @cached_property
    def own_imported_names(self) -> frozenset[str]:
        """Dotted names of everything that the file itself imports, at any place."""
        return self._imported_by(self.root)

    def _imported_by(self, root: cst.CSTNode) -> frozenset[str]:
        """Dotted names of everything that one file imports."""
        found: set[str] = set()
        for node, scope in self.tree.scopes.items():
            if self.tree.within(node, root):
                for bindings in scope.bindings.values():
                    found.update(binding.imported for binding in bindings if binding.kind == "import")
        return frozenset(found)

    @cached_property
    def _imported_roots(self) -> frozenset[str]:
        return frozenset(name.partition(".")[0] for name in self.imported_names)

    def imports(self, root: str) -> bool:
        """Whether the file imports ``root`` or something of it."""
        return any(name == root or name.startswith(root + ".") for name in self.imported_names)

    def itself_imports(self, root: str) -> bool:
        """Whether the file itself, not its context, imports ``root`` or something of it."""
        return any(name == root or name.startswith(root + ".") for name in self.own_imported_names)

    # -- forward calls

    def is_forward(self, node: cst.Call) -> bool:
        """Whether ``node`` runs a network: `model(x)`, `self.model.forward(x)`; not a criterion or a container."""
        func = node.func
        if isinstance(func, cst.Attribute) and func.attr.value == "forward":
            return self.value(func.value).kind is Kind.MODULE
        if self.name_of(func) is not None:
            return False
        if isinstance(func, cst.Attribute) and dotted_name(func.value) == "self":
            owner = self.value(func.value).definition
            if owner is not None and self.definitions.method(owner, func.attr.value) is not None:
                return False
        value = self.value(func)
        return value.kind is Kind.MODULE

    def runs_network(self, node: cst.Call) -> bool:
        """Whether ``node`` runs a network, in the caller's grad mode: a forward, or ``model.encode(x)``.

        A layer without parameters, a loss, a metric or a preprocessor that happens to be a module is no network.
        """
        func = self.network_of(node)
        value = self.value(func)
        if value.kind is not Kind.MODULE or not node.args:
            return False
        last = value.name.rpartition(".")[2]
        if last.startswith(knowledge.PARAMETERLESS) and value.name.startswith("torch.nn."):
            return False
        text = (dotted_name(func) or "").rpartition(".")[2]
        if knowledge.NO_NETWORK.search(text) or knowledge.NO_NETWORK.search(last):
            return False
        if func is node.func or (isinstance(node.func, cst.Attribute) and node.func.attr.value == "forward"):
            return self.is_forward(node)
        if self.imports("sentence_transformers"):
            return False  # its ``encode`` records nothing
        return not any(self.regions.disables(item) for item in self.definitions.called(node, self.values))

    def network_of(self, call: cst.Call) -> cst.BaseExpression:
        """The network that a forward call runs: ``model`` of ``model(x)`` or of ``model.encode(x)``."""
        func = call.func
        if isinstance(func, cst.Attribute) and (
            func.attr.value in (*knowledge.ENCODING_METHODS, "forward") or self._is_run_by_method(func)
        ):
            return func.value
        return func

    def _is_run_by_method(self, func: cst.Attribute) -> bool:
        """Whether ``func`` is a method by which its class, a network of the file, is run: ``model.infer``."""
        if func.attr.value not in knowledge.RUNNING_METHODS:
            return False
        owner = self.value(func.value)
        if owner.kind is not Kind.MODULE or owner.definition is None or dotted_name(func.value) == "self":
            return False
        method = self.definitions.method(owner.definition, func.attr.value)
        return method is not None and any(
            self.is_forward(call) or dotted_name(call.func) == "self" for call in self.tree.calls_in(method.body)
        )

    @cached_property
    def is_test(self) -> bool:
        """Whether the file tests code: it imports a test library, or is in a folder `tests`."""
        return self.purposes.of_file is Purpose.TEST

    # -- places

    def function_of(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """The ``def`` around ``node``, None at module level."""
        found = self.tree.function_of(node)
        while isinstance(found, cst.Lambda):
            found = self.tree.function_of(found)
        return found

    def hot_loop(self, node: cst.CSTNode) -> Loop | None:
        """The innermost loop around ``node`` that runs once per batch or step."""
        return next((loop for loop in self.loops.around(node) if loop.kind is LoopKind.HOT), None)

    def runs_once(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` runs once when the program runs, to set something up."""
        return self.purposes.runs_once(node)

    def grad_mode(self, node: cst.CSTNode) -> GradMode:
        """The grad mode at ``node``."""
        return self.regions.grad_mode(node)

    def all_loops(self) -> Iterator[Loop]:
        """Every loop of the file, in order."""
        for node in self.tree.loops:
            yield self.loops.of(node)

    @cached_property
    def has_main_guard(self) -> bool:
        """Whether the file has an ``if __name__ == "__main__":``."""
        return any(
            isinstance(node, cst.If)
            and isinstance(node.test, cst.Comparison)
            and isinstance(node.test.left, cst.Name)
            and node.test.left.value == "__name__"
            for node in self.root.body
        )

    def under_main_guard(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` runs only when the file is run as a script (or inside a function)."""
        if self.tree.function_of(node) is not None:
            return True
        for above in self.tree.ancestors(node):
            if isinstance(above, cst.If) and isinstance(above.test, cst.Comparison):
                if isinstance(above.test.left, cst.Name) and above.test.left.value == "__name__":
                    return True
        return False
