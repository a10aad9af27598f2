"""Worker processes: their number, and what prevents them: code that runs on import, unpicklable objects."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum

import libcst as cst

from torchlint.model.data.loading import Loading
from torchlint.model.data.memory import Memory
from torchlint.model.module import Module
from torchlint.model.program.config_files import ConfigFiles
from torchlint.model.program.configuration import Configuration, is_read
from torchlint.model.program.environment_variables import READS
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.syntax.binding_kinds import BindingKind
from torchlint.model.syntax.calls import Call
from torchlint.model.syntax.dotted import called_name, last_name
from torchlint.model.syntax.literals import is_none
from torchlint.model.syntax.main_guard import is_main_guard
from torchlint.model.syntax.nodes import HANDLERS
from torchlint.model.training.gradients import Gradients
from torchlint.model.training.inference_scripts import InferenceScripts
from torchlint.model.training.loops import Loops

#: The maximum number of callers and of values that are followed.
_DEPTH = 8
#: Calls whose results cannot be pickled, or must not be shared by processes.
_HANDLES = frozenset({"builtins.open", "h5py.File", "lmdb.open", "sqlite3.connect", "zipfile.ZipFile", "tarfile.open"})
#: Calls that count the resources of a machine: at least one.
_COUNTS = frozenset(
    f"{module}.cpu_count" for module in ("os", "multiprocessing", "torch.multiprocessing", "psutil", "joblib")
)
#: Names of the number of GPUs or processes.
_DEVICES = re.compile("gpus|ngpu|n(um)?_gpu|gpu_(num|count)|world_size|device_count|n(um)?_devices")
#: How many GPUs one machine usually has at most.
_GPUS_OF_A_MACHINE = 8
#: Libraries and classes whose datasets are map-style.
_INDEXED = ("torchvision.", "torchaudio.", "torch.utils.data.")


class Workers(Enum):
    """What is known about a number of workers."""

    SOME = "some"  #: one or more
    BY_DEFAULT = "by default"  #: one or more, unless a caller or the user of the script wants none
    UNKNOWN = "unknown"  #: includes 0


def can_have_workers(module: Module, loader: Call) -> bool:
    """Whether nothing in the forest is known to break when ``loader`` starts processes."""
    consumers = module.fact(Loading).consumers(loader)
    if any(runs_on_import(module, consumer.node) for consumer in consumers):
        return False
    if runs_on_import(module, loader.node) and not module.has_main_guard:
        return False
    return can_be_sent(module, loader)


def passed(module: Module, loader: Call) -> Workers:
    """Whether the number of workers that ``loader`` is given, directly or in a dictionary, is at least 1."""
    found = loader.entries("num_workers")
    if found.values and found.usual:
        return _one_of(module, found.values, found.certain and found.known) or Workers.UNKNOWN
    files = module.fact(ConfigFiles)
    return Workers.BY_DEFAULT if files.are_counts(files.passed(loader.node, "num_workers")) else Workers.UNKNOWN


def may_be_iterable(module: Module, loader: Call) -> bool:
    """Whether the dataset of ``loader`` may be an iterable-style dataset of an unknown class."""
    value = module.value(module.fact(Loading).dataset(loader))
    if isinstance(value.definition, cst.ClassDef) or value.name.startswith(_INDEXED):
        return False
    if any(not loader.argument(name).absent for name in ("sampler", "batch_sampler")):
        return False
    shuffle = loader.argument("shuffle")
    return shuffle.absent or shuffle.literal() == "False"


def count(module: Module, node: cst.BaseExpression | None, depth: int = _DEPTH) -> Workers:
    """Whether the expression ``node``, passed as ``num_workers``, is at least 1."""
    if node is None or depth <= 0:
        return Workers.UNKNOWN
    if isinstance(node, cst.Call) and not is_read(node) and _from_environment(module, node) is None:
        return _counted(module, node, depth)
    if isinstance(node, cst.BooleanOperation) and isinstance(node.operator, cst.Or):
        # `args.workers or 4`; `os.cpu_count() or 1`
        return count(module, node.right, depth - 1)
    if isinstance(node, cst.IfExp):
        sides = {count(module, side, depth - 1) for side in (node.body, node.orelse)}
        return sides.pop() if len(sides) == 1 else Workers.BY_DEFAULT  # `4 if use_cuda else 0`
    constant = module.value(node).constant
    if isinstance(node, cst.Integer):
        return Workers.SOME if isinstance(constant, int) and constant > 0 else Workers.UNKNOWN
    divided = _divided_up(module, node)
    if divided is not None:
        return count(module, divided, depth - 1)
    number = _from_environment(module, node)
    if number is not None:
        return Workers.BY_DEFAULT if number > 0 else Workers.UNKNOWN
    if isinstance(node, cst.BinaryOperation):  # `os.cpu_count() // 2`; `args.workers * torch.cuda.device_count()`
        is_product = isinstance(node.operator, cst.Multiply)
        shared = [node.right] if _is_shared_out(module, node) else []
        scaled = [node.left, node.right] if is_product else shared
        factors = [item for item in (node.left, node.right) if not (item in scaled and _counts_devices(module, item))]
        sides = {count(module, item, depth - 1) for item in factors}
        return Workers.BY_DEFAULT if sides and Workers.UNKNOWN not in sides else Workers.UNKNOWN
    return _held(module, node, depth) if is_read(node) else Workers.UNKNOWN


def _from_environment(module: Module, node: cst.BaseExpression) -> int | None:
    """A number that an environment variable may replace: ``int(os.environ.get("SLURM_CPUS_PER_TASK", 6)) - 2``."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Subtract):
        number, less = _from_environment(module, node.left), _number(node.right)
        return number - less if number is not None and less is not None else None
    if not isinstance(node, cst.Call) or module.name_of(node.func) != "builtins.int" or len(node.args) != 1:
        return None
    read = node.args[0].value
    if not isinstance(read, cst.Call) or module.name_of(read.func) not in READS:
        return None
    return _number(read.args[1].value) if len(read.args) == 2 else None


def _number(node: cst.BaseExpression) -> int | None:
    """The number that a literal is, or that is in a string: ``6``, ``"6"``."""
    text = node.value.strip("\"'") if isinstance(node, (cst.Integer, cst.SimpleString)) else ""
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) is not None else None


def _counted(module: Module, node: cst.Call, depth: int) -> Workers:
    """``min(8, os.cpu_count() or 1)``, ``int(args.workers)``, ``len(os.sched_getaffinity(0))``."""
    name = module.name_of(node.func)
    given = [item.value for item in node.args if item.star == ""]
    if len(given) == 1 and isinstance(given[0], (cst.List, cst.Tuple)):  # `min([os.cpu_count(), 8])`
        given = [element.value for element in given[0].elements]
    if name in ("builtins.int", "math.ceil") and len(given) == 1:
        divided = _divided_up(module, given[0])
        if divided is not None:
            return count(module, divided, depth - 1)
    found = [count(module, item, depth - 1) for item in given]
    if name in _COUNTS:
        return Workers.SOME
    default = module.fact(ConfigFiles).default(node)
    if name is None and (default is None or count(module, default, depth - 1) is not Workers.UNKNOWN):
        return _usual(module, node)  # `config.get("workers", 4)`
    if name == "builtins.int" and len(found) == 1:
        return found[0]
    if name == "builtins.max" and Workers.SOME in found:
        return Workers.SOME
    if name == "builtins.max" and Workers.BY_DEFAULT in found:
        return Workers.BY_DEFAULT  # `max(0, args.workers)`
    if name in ("builtins.min", "builtins.max") and found and Workers.UNKNOWN not in found:
        return Workers.SOME if set(found) == {Workers.SOME} else Workers.BY_DEFAULT
    return Workers.UNKNOWN


def _is_shared_out(module: Module, node: cst.BinaryOperation) -> bool:
    """Whether ``node`` divides a number that is enough for the GPUs of one machine: ``args.workers // gpus``."""
    if not isinstance(node.operator, (cst.Divide, cst.FloorDivide)):
        return False
    written = module.fact(Configuration).sources(node.left)
    if written is None or any(value is node.left for value in written.values):
        return module.fact(ConfigFiles).at_least(node.left, _GPUS_OF_A_MACHINE)
    return all(isinstance(value, cst.Integer) and int(value.value, 0) >= _GPUS_OF_A_MACHINE for value in written.values)


def _counts_devices(module: Module, node: cst.BaseExpression) -> bool:
    """Whether ``node`` is the number of GPUs or processes, each with workers of its own: ``args.num_gpus``."""
    name = called_name(node) if isinstance(node, cst.Call) else last_name(node)
    if _DEVICES.search(name.lower()) is not None:
        return True
    written = module.fact(Configuration).sources(node) if isinstance(node, (cst.Name, cst.Attribute)) else None
    return written is not None and all(
        isinstance(value, cst.Call) and _counts_devices(module, value) for value in written.values
    )


def _divided_up(module: Module, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """``workers`` of ``(workers + gpus - 1) / gpus``, which is at least 1 if ``workers`` is."""
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, (cst.Divide, cst.FloorDivide)):
        return None
    less = node.left
    if not isinstance(less, cst.BinaryOperation) or not isinstance(less.operator, cst.Subtract):
        return None
    both = less.left
    is_one = isinstance(less.right, cst.Integer) and less.right.value == "1"
    if not is_one or not isinstance(both, cst.BinaryOperation) or not isinstance(both.operator, cst.Add):
        return None
    return both.left if module.code(both.right) == module.code(node.right) else None


def _held(module: Module, node: cst.BaseExpression, depth: int) -> Workers:
    """A number that is defined elsewhere: a constant, an option, an attribute of the configuration."""
    written = module.fact(Configuration).step(node)
    if written is None:
        return _usual(module, node)
    if any(value is node for value in written.values):
        return _usual(module, node)
    values = [value for value in written.values if not _is_raised(module, value, node)]
    found = _one_of(module, values, written.complete, depth)
    return _usual(module, node) if found is None or found is Workers.UNKNOWN else found


def _is_raised(module: Module, value: cst.BaseExpression, node: cst.BaseExpression) -> bool:
    """Whether ``value`` is at least what ``node`` was before: ``args.workers = max(args.workers, gpus)``."""
    if not isinstance(value, cst.Call) or module.name_of(value.func) != "builtins.max":
        return False
    return any(last_name(item.value) == last_name(node) for item in value.args if item.star == "")


def _one_of(
    module: Module, values: Sequence[cst.BaseExpression], is_complete: bool, depth: int = _DEPTH
) -> Workers | None:
    """A number that is one of several; None if each of them is for special runs."""
    found = [(value, count(module, value, depth - 1)) for value in values]
    usual = {known for value, known in found if known is not Workers.UNKNOWN or not _is_unusual(module, value)}
    if not usual:
        return None
    if Workers.UNKNOWN in usual:
        return Workers.UNKNOWN
    is_sure = is_complete and all(known is Workers.SOME for _, known in found)
    return Workers.SOME if is_sure else Workers.BY_DEFAULT


def _usual(module: Module, node: cst.BaseExpression) -> Workers:
    """A number from the configuration files of the project."""
    return Workers.BY_DEFAULT if module.fact(ConfigFiles).count(node) else Workers.UNKNOWN


def _is_unusual(module: Module, value: cst.BaseExpression) -> bool:
    """Whether ``value`` is replaced before it is used, or set for a special run: ``if args.debug: workers = 0``."""
    if isinstance(value, cst.UnaryOperation) and isinstance(value.operator, cst.Minus):
        return True  # `default=-1`: a loader raises an error
    if _is_nothing(module, value):
        return True
    return any(is_so(module, value) for is_so in (_is_on_a_condition, _is_in_self_test, _is_for_inference))


def _is_nothing(module: Module, value: cst.BaseExpression, depth: int = _DEPTH) -> bool:
    """Whether ``value`` is None, or a parameter or option that is only given None: a number replaces it."""
    if is_none(value) or depth <= 0 or not is_read(value):
        return is_none(value)
    written = module.fact(Configuration).step(value)
    return (
        written is not None
        and bool(written.values)
        and all(item is not value and _is_nothing(module, item, depth - 1) for item in written.values)
    )


def _is_in_self_test(module: Module, value: cst.BaseExpression) -> bool:
    """Whether the main guard of a file that another file imports passes ``value``."""
    is_guarded = module.tree.function_of(value) is None and module.under_main_guard(value)
    return is_guarded and module.links.is_imported(module.tree.root_of(value))


def _is_for_inference(module: Module, value: cst.BaseExpression) -> bool:
    """Whether another script, which only infers, assigns ``value``: ``opt.workers = 0`` in ``test.py``."""
    root, scripts = module.tree.root_of(value), module.fact(InferenceScripts)
    if root is module.root or not isinstance(module.tree.parent(value), (cst.Assign, cst.AnnAssign)):
        return False
    return scripts.only_infers(root) or scripts.only_runs(root) or _is_for_own_loop(module, value, root)


def _is_for_own_loop(module: Module, value: cst.BaseExpression, root: cst.CSTNode) -> bool:
    """Whether a function assigns ``value`` for a loop of its own over a loader, in a file that trains nothing."""
    function = module.tree.function_of(value)
    loops = module.tree.inside(function, cst.For) if isinstance(function, cst.FunctionDef) else ()
    return any(module.fact(Loops).of(loop).loaders for loop in loops) and not module.fact(Gradients).trains(root)


def _is_on_a_condition(module: Module, value: cst.BaseExpression) -> bool:
    """Whether a statement that runs only on some paths assigns ``value``, perhaps in a function defined there.

    Or a dictionary that contains it: ``options = dict(num_workers=0)``.
    """
    entry = module.tree.parent(value)
    is_entry = isinstance(entry, cst.DictElement) or (isinstance(entry, cst.Arg) and entry.keyword is not None)
    made = module.tree.parent(entry) if entry is not None and is_entry else None
    is_dict = isinstance(made, cst.Dict) or (
        isinstance(made, cst.Call) and module.name_of(made.func) == "builtins.dict"
    )
    stored = made if made is not None and is_dict else value
    if not isinstance(module.tree.parent(stored), (cst.Assign, cst.AnnAssign)):
        return False
    for above in module.tree.ancestors(value):
        if isinstance(above, cst.ClassDef):
            return False
        if isinstance(above, (cst.If, *HANDLERS)):
            return isinstance(above, HANDLERS) or not is_main_guard(above.test)
    return False


def runs_on_import(module: Module, node: cst.CSTNode) -> bool:
    """Whether importing the file runs ``node``: at module level without a main guard, or called from there."""
    places: list[cst.CSTNode] = [node]
    seen: set[cst.FunctionDef] = set()
    for _ in range(_DEPTH + 1):
        found = [(place, module.function_of(place)) for place in places]
        if any(function is None and _is_unguarded(module, place) for place, function in found):
            return True
        new = {function: None for _, function in found if function is not None and function not in seen}
        places = [call for function in new for call in module.callers(function).calls]
        seen.update(new)
    return False


def _is_unguarded(module: Module, node: cst.CSTNode) -> bool:
    """Whether ``node``, at module level, runs without a main guard."""
    return module.tree.function_of(node) is not None or not module.under_main_guard(node)


def can_be_sent(module: Module, loader: Call) -> bool:
    """Whether nothing that ``loader`` sends to a spawned worker is known to be unpicklable."""
    return all(
        _can_be_pickled(module, argument.value, _DEPTH)
        for argument in loader.node.args
        if argument.keyword is None or argument.keyword.value in ("dataset", "collate_fn", "worker_init_fn")
    )


def _can_be_pickled(module: Module, node: cst.BaseExpression, depth: int) -> bool:
    if isinstance(node, (cst.Lambda, cst.GeneratorExp)):
        return False
    value = module.value(node)
    definition = value.definition
    if definition is not None and module.tree.function_of(definition) is not None:
        return False  # a local class or function
    if isinstance(definition, cst.ClassDef) and value.kind is not Kind.CLASS and not _pickles(module, definition):
        return False
    if depth <= 0:
        return True
    if isinstance(node, cst.Name):
        values = [
            item.value for item in module.names.bindings(node) if item.kind is BindingKind.ASSIGN and not item.path
        ]
        return all(_can_be_pickled(module, item, depth - 1) for item in values if item is not None and item is not node)
    if isinstance(node, cst.Call):
        return all(_can_be_pickled(module, argument.value, depth - 1) for argument in node.args)
    if isinstance(node, (cst.List, cst.Tuple)):
        return all(_can_be_pickled(module, element.value, depth - 1) for element in node.elements)
    return True


def _pickles(module: Module, definition: cst.ClassDef) -> bool:
    """Whether instances of a class of the file contain no lambda, generator or open file."""
    for current in module.definitions.lineage(definition):
        for bindings in module.tree.scopes[current].attributes.values():
            for binding in bindings:
                value = binding.value
                if isinstance(value, (cst.Lambda, cst.GeneratorExp)):
                    return False
                if isinstance(value, cst.Call) and module.name_of(value.func) in _HANDLES:
                    return False
                if value is not None and module.fact(Memory).opens(value):
                    return False
    return True
