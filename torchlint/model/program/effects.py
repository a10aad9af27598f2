"""Expressions that only compute a value: without them, the rest of the program computes the same."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.model.forest import Forest
from torchlint.model.semantics.knowledge import Kind

#: Functions that only read what they are given. They draw no random numbers, write nothing and do not wait.
_READING = re.compile(
    r"builtins\.(abs|all|any|bin|bool|callable|chr|dict|divmod|enumerate|float|format|frozenset|getattr|hasattr|hash|"
    r"hex|id|int|isinstance|issubclass|len|list|max|min|ord|pow|range|repr|reversed|round|set|sorted|str|sum|tuple|type|"
    r"vars|zip)|"
    r"torch\.(?!alpha_|bernoulli|binomial|compile|dropout|feature_|load|manual_|multinomial|normal|poisson|rand|rrelu|"
    r"save|seed|set_|use_)\w*[^\W_]|"
    r"torch\.nn\.functional\.(?!alpha_|dropout|feature_|fractional_|gumbel_|rrelu)\w*[^\W_]|"
    r"torch\.cuda\.(memory_\w+|max_memory_\w+|mem_get_info|is_\w+|device_count|get_device_\w+|current_device)|"
    r"torch\.(linalg|special|fft|version)\.\w*[^\W_]|torch\.(compiler|distributed)\.(is|get)_\w+|"
    r"torch\.backends\.[\w.]+\.(is_\w+|version)|"
    r"numpy\.(?!copyto|fill_|load|place|put|save|set)\w+|math\.\w+|packaging\.[\w.]+|platform\.\w+|"
    r"datetime\.[\w.]+|time\.(?!sleep)\w+|os\.(path\.\w+|getenv|getpid|environ\.get|sched_getaffinity)|"
    r"(os|multiprocessing)\.cpu_count|sys\.getsizeof|logging\.getLogger"
)
#: Methods of tensors, modules, strings and containers that only read. ``get`` without arguments would be a queue's.
_READING_METHODS = frozenset(
    "abs all allclose amax amin any argmax argmin buffers capitalize ceil center children chunk clamp contiguous "
    "count cumsum detach diff dim element_size eq equal exp expand flatten floor format ge get_device gt index "
    "is_contiguous is_floating_point isfinite isinf isnan isoformat item items join keys le ljust log lower lstrip "
    "lt max mean median min modules named_buffers named_children named_modules named_parameters ndimension ne "
    "nelement norm numel numpy parameters permute pow prod removeprefix removesuffix replace reshape rjust round "
    "rstrip sigmoid sign size softmax split squeeze std storage_offset strftime stride strip sum tanh title "
    "to_dense tolist topk transpose unique unsqueeze upper values var view zfill".split()
)
#: Methods that give a new tensor, but change a module.
_CONVERTING = frozenset("bfloat16 bool cpu cuda double float half int long to type".split())


def only_computes(forest: Forest, expression: cst.CSTNode) -> bool:
    """Whether evaluating ``expression`` certainly binds no name and changes nothing, as far as its calls are known."""
    for node in forest.tree.nodes_in(expression):
        if isinstance(node, (cst.NamedExpr, cst.Await, cst.Yield)):
            return False
        if isinstance(node, cst.Call) and not _only_reads(forest, node):
            return False
    return True


def _only_reads(forest: Forest, call: cst.Call) -> bool:
    name = forest.name_of(call.func)
    if name is not None:
        return _READING.fullmatch(name) is not None
    func = call.func
    if not isinstance(func, cst.Attribute) or forest.definitions.called(call, forest.values):
        return False
    method = func.attr.value
    if method in _CONVERTING:
        return forest.value(func.value).kind is not Kind.MODULE
    return method in _READING_METHODS or (method == "get" and bool(call.args))
