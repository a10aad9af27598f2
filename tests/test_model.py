"""What the model of a file answers: names, arguments, values, loops, grad modes, callers, and where nodes stand."""

from __future__ import annotations

import sys
import textwrap
from itertools import pairwise

import libcst as cst
import pytest

from torchlint.model.forest import Forest, ForestFile
from torchlint.model.module import Module
from torchlint.model.semantics.knowledge import Kind
from torchlint.model.semantics.network_names import names_network
from torchlint.model.semantics.value import Device, Role
from torchlint.model.syntax.calls import Presence
from torchlint.model.syntax.conditions import conditions
from torchlint.model.syntax.pieces import parse_pieces
from torchlint.model.training.grad_mode import GradMode, GradModes
from torchlint.model.training.iterations import Iterations
from torchlint.model.training.loops import LoopKind, Loops
from torchlint.source.parsing import ParseError


def model_of(text: str) -> Module:
    """The model of a dedented text."""
    return Module.parse(textwrap.dedent(text))


def last_expression(module: Module) -> cst.BaseExpression:
    """The expression that is the last statement of the file."""
    line = module.root.body[-1]
    assert isinstance(line, cst.SimpleStatementLine)
    statement = line.body[0]
    assert isinstance(statement, cst.Expr)
    return statement.value


def call_named(module: Module, text: str) -> cst.Call:
    """The first call whose function is written as ``text``."""
    return next(call for call in module.tree.calls if module.code(call.func) == text)


@pytest.mark.parametrize(
    ("imports", "used"),
    [
        ("import torch", "torch.utils.data.DataLoader"),
        ("import torch as th", "th.utils.data.DataLoader"),
        ("import torch.utils.data as data", "data.DataLoader"),
        ("from torch.utils import data", "data.DataLoader"),
        ("from torch.utils.data import DataLoader as Loader", "Loader"),
        ("from torch.utils.data.dataloader import DataLoader", "DataLoader"),
        ("from torch.utils.data import *", "DataLoader"),
        ("from torch_geometric import loader", "loader.DataLoader"),
        ("import monai", "monai.data.DataLoader"),
        ("import torch\nmake = torch.utils.data.DataLoader", "make"),
        ("try:\n    from torch.utils.data import DataLoader\nexcept ImportError:\n    DataLoader = None", "DataLoader"),
    ],
)
def test_a_name_is_found_through_every_form_of_import(imports: str, used: str) -> None:
    module = model_of(f"{imports}\n{used}\n")
    assert module.name_of(last_expression(module)) == "torch.utils.data.DataLoader"


@pytest.mark.parametrize(
    "text",
    [
        "from mxnet.gluon.data import DataLoader\nDataLoader\n",
        "from .data import DataLoader\nDataLoader\n",
        "class DataLoader: ...\nDataLoader\n",
        "from torch.utils.data import DataLoader\nDataLoader = wrap(DataLoader)\nDataLoader\n",
        "if c:\n    from fast import DataLoader\nelse:\n    from torch.utils.data import DataLoader\nDataLoader\n",
    ],
)
def test_look_alikes_and_rebound_names_are_not_torch(text: str) -> None:
    module = model_of(text)
    assert module.name_of(last_expression(module)) != "torch.utils.data.DataLoader"


@pytest.mark.parametrize(
    ("arguments", "presence", "literal"),
    [
        ("ds", Presence.ABSENT, None),
        ("ds, num_workers=0", Presence.PRESENT, "0"),
        ("ds, 64, True, None, None, 4", Presence.PRESENT, "4"),
        ("ds, num_workers=args.workers", Presence.PRESENT, None),
        ("ds, **options", Presence.UNKNOWN, None),
        ("*everything", Presence.UNKNOWN, None),
        ("ds, num_workers=2, **options", Presence.PRESENT, "2"),
    ],
)
def test_an_argument_is_present_absent_or_unknown(arguments: str, presence: Presence, literal: str | None) -> None:
    module = model_of(f"from torch.utils.data import DataLoader\nDataLoader({arguments})\n")
    argument = next(module.calls("torch.utils.data.DataLoader")).argument("num_workers")
    assert (argument.presence, argument.literal()) == (presence, literal)


@pytest.mark.parametrize(
    ("arguments", "presence", "literal"),
    [
        ("", Presence.ABSENT, None),
        ("None, True", Presence.PRESENT, "True"),
        ("inputs=weights, retain_graph=True", Presence.PRESENT, "True"),
        ("gradient", Presence.ABSENT, None),
        ('**{"retain_graph": True}', Presence.PRESENT, "True"),
        ('**{"create_graph": True}', Presence.ABSENT, None),
        ("**options", Presence.UNKNOWN, None),
        ("*everything", Presence.UNKNOWN, None),
    ],
)
def test_an_argument_of_a_method_too(arguments: str, presence: Presence, literal: str | None) -> None:
    (call,) = model_of(f"losses[0].backward({arguments})\nbackward(None, True)\n").methods("backward")
    argument = call.argument("retain_graph")
    assert (argument.presence, argument.literal()) == (presence, literal)


def test_a_call_of_a_method_has_a_receiver() -> None:
    module = model_of(
        "model.net.requires_grad_(False)\nx.to(dtype=torch.half, device=d)\ny.to(d)\nz.to_local(d)\nto(d)\n"
    )
    calls = [*module.methods("requires_grad_", "to")]
    assert [(call.name, call.method, module.code(call.receiver)) for call in calls] == [
        ("requires_grad_", "requires_grad_", "model.net"),
        ("to", "to", "x"),
        ("to", "to", "y"),
    ]
    assert calls[0].argument("requires_grad").literal() == "False"
    devices = [call.argument("device").value for call in calls[1:]]
    assert [device and module.code(device) for device in devices] == ["d", "d"]


def test_a_method_has_no_signature_of_a_function_with_its_name() -> None:
    (call,) = model_of("import torch\nnet.compile(mode)\n").methods("compile")
    assert call.argument("model").absent


def test_own_methods_are_those_of_the_file() -> None:
    texts = {"a.py": "x.to(d)\n", "b.py": "import a\ny.to(d)\n"}
    files = [ForestFile(place, place, text, parse_pieces(text)) for place, text in texts.items()]
    module = Module(Forest(files, resolve=lambda module, importer: "a.py" if module == "a" else None), "b.py")
    assert [module.code(call.receiver) for call in module.methods("to")] == ["x", "y"]
    assert [module.code(call.receiver) for call in module.own_methods("to")] == ["y"]


@pytest.mark.parametrize(
    ("before", "expression", "kind"),
    [
        ("model = nn.Linear(1, 1)", "model", Kind.MODULE),
        ("model = nn.Linear(1, 1).cuda()\nmodel = nn.DataParallel(model)", "model", Kind.MODULE),
        ("class Net(nn.Module): ...\nmodel = Net()", "model", Kind.MODULE),
        ("class A(nn.Module): ...\nclass B(A): ...\nmodel = B()", "model", Kind.MODULE),
        ("def build():\n    return nn.Linear(1, 1)\nmodel = build()", "model", Kind.MODULE),
        ("def build():\n    return nn.Linear(1, 1), 3\nmodel, n = build()", "model", Kind.MODULE),
        ("def build():\n    return nn.Linear(1, 1), 3\nmodel, n = build()", "n", Kind.NUMBER),
        ("model = None\nmodel = nn.Linear(1, 1)", "model", Kind.MODULE),
        ("model = nn.Linear(1, 1)", "model(x)", Kind.TENSOR),
        ("optimizer = torch.optim.SGD(ps)", "optimizer", Kind.OPTIMIZER),
        ("class Own(torch.optim.Optimizer): ...\no = Own(ps)", "o", Kind.OPTIMIZER),
        ("class Own(torch.optim.Adam): ...\no = Own(ps)", "o", Kind.OPTIMIZER),
        ("class Own(torch.optim.lr_scheduler.LRScheduler): ...\no = Own(ps)", "o", Kind.OTHER),
        ("x = torch.zeros(3).cuda()", "x", Kind.TENSOR),
        ("x = torch.zeros(3).sum().item()", "x", Kind.NUMBER),
        ("x = unknown()", "x", Kind.UNKNOWN),
        ("x = torch.zeros(1) if c else 'a'", "x", Kind.UNKNOWN),
        (
            "class Box:\n    def __init__(self):\n        self.model = nn.Linear(1, 1)\nbox = Box()",
            "box.model",
            Kind.MODULE,
        ),
    ],
)
def test_a_value_has_a_kind(before: str, expression: str, kind: Kind) -> None:
    module = model_of(f"import torch\nfrom torch import nn\n{before}\n{expression}\n")
    assert module.value(last_expression(module)).kind is kind


LOADER = "from torch.utils.data import DataLoader\nfrom tqdm import tqdm\nloader = DataLoader(ds)\n"


@pytest.mark.parametrize(
    "loop",
    [
        "for x, y in loader:\n    x",
        "for i, (x, y) in enumerate(loader):\n    x",
        "for i, (x, y) in enumerate(tqdm(loader)):\n    x",
        "for (x, y), z in zip(loader, other):\n    x",
        "bar = tqdm(loader)\nfor x, y in bar:\n    x",
        "def run(batches):\n    for x, y in batches:\n        x\nrun(loader)",
        "for batch in loader:\n    x = batch[0]\n    x",
    ],
)
def test_batches_are_followed_to_the_loader_they_come_from(loop: str) -> None:
    module = model_of(LOADER + loop)
    (node,) = module.tree.loops
    loop_found = module.fact(Loops).of(node)
    assert loop_found.kind is LoopKind.HOT
    used = module.tree.names["x"][-1]
    assert module.value(used).role is Role.BATCH
    assert [module.row(origin) for origin in module.value(used).origins] == [3]


def test_an_epoch_loop_is_not_hot() -> None:
    module = model_of(
        """
        for epoch in range(10):
            for x in range(5):
                loss.backward()
        """
    )
    epochs, batches = module.fact(Loops).all()
    assert (epochs.kind, batches.kind) == (LoopKind.EPOCH, LoopKind.HOT)
    assert module.fact(Loops).hot(call_named(module, "loss.backward")) is batches
    assert module.fact(Loops).hot(batches.node) is None


def test_the_last_binding_that_always_runs_hides_the_ones_before() -> None:
    module = model_of("import torch\nx = torch.zeros(1)\nx = 'text'\nx\n")
    assert module.value(last_expression(module)).kind is Kind.STRING


def test_a_conditional_binding_hides_nothing() -> None:
    module = model_of("import torch\nx = torch.zeros(1)\nif c:\n    x = 'text'\nx\n")
    assert module.value(last_expression(module)).kind is Kind.UNKNOWN


@pytest.mark.parametrize(
    ("case", "kinds"),
    [
        ("1:\n        x = 2", ["assign", "assign"]),
        ("{'x': x}:\n        pass", ["match", "assign"]),
        ("{'y': _, **x}:\n        pass", ["match", "assign"]),
        ("[_, *x] | (x, 1):\n        pass", ["match", "match", "assign"]),
        ("Point(1, at=[x, _]):\n        pass", ["match", "assign"]),
        ("int() as x if x > 1:\n        pass", ["match", "assign"]),
        ("[x.y, y, {x.z: _}, *_]:\n        pass", ["assign"]),
    ],
)
def test_a_case_binds_the_names_in_its_pattern_and_hides_nothing_behind_it(case: str, kinds: list[str]) -> None:
    module = model_of(f"x = 1\nmatch c:\n    case {case}\nx\n")
    name = last_expression(module)
    assert isinstance(name, cst.Name)
    assert [binding.kind.value for binding in module.values.reaching.of(name)] == kinds


def test_a_case_hides_what_was_bound_before_from_its_own_statements() -> None:
    module = model_of("x = 1\nmatch c:\n    case [x] if g(x):\n        f(x)\n")
    for call in module.tree.calls:
        argument = call.args[0].value
        assert isinstance(argument, cst.Name)
        assert [binding.kind.value for binding in module.values.reaching.of(argument)] == ["match"]


def test_a_handler_hides_nothing_behind_it() -> None:
    module = model_of("import torch\nx = torch.zeros(1)\ntry:\n    f()\nexcept Exception as x:\n    pass\nx\n")
    assert module.value(last_expression(module)).kind is Kind.TENSOR


@pytest.mark.parametrize(
    "handler",
    ["except", pytest.param("except*", marks=pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.11"))],
)
def test_a_handler_does_not_run_at_every_step(handler: str) -> None:
    module = model_of(f"for x in y:\n    try:\n        f()\n    {handler} E:\n        g()\n    h()\n")
    f, g, h = (call_named(module, name) for name in "fgh")
    assert module.tree.dominates(f, h)
    assert not module.tree.dominates(g, h)
    assert [module.fact(Iterations).at_every_iteration(call, module.tree.loops[0]) for call in (f, g)] == [True, False]


def test_a_device_picked_by_condition_is_cuda_where_there_is_one() -> None:
    module = model_of("import torch\nd = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\nd\n")
    assert module.value(last_expression(module)).device is Device.CUDA


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("model(x)", GradMode.RECORDING),
        ("with torch.no_grad():\n    model(x)", GradMode.NO_GRAD),
        ("with torch.inference_mode():\n    model(x)", GradMode.INFERENCE),
        ("with torch.no_grad():\n    with torch.enable_grad():\n        model(x)", GradMode.RECORDING),
        ("with open(f), torch.no_grad():\n    model(x)", GradMode.NO_GRAD),
        ("with torch.set_grad_enabled(training):\n    model(x)", GradMode.UNKNOWN),
        ("torch.set_grad_enabled(False)\nmodel(x)", GradMode.NO_GRAD),
        ("torch.no_grad()\nmodel(x)", GradMode.RECORDING),
        ("@torch.no_grad()\ndef f():\n    model(x)", GradMode.NO_GRAD),
        ("def f():\n    model(x)\nwith torch.no_grad():\n    f()", GradMode.NO_GRAD),
        ("def f():\n    model(x)\nwith torch.no_grad():\n    f()\nf()", GradMode.UNKNOWN),
        ("def g():\n    model(x)\ndef f():\n    g()\nwith torch.no_grad():\n    f()", GradMode.NO_GRAD),
    ],
)
def test_the_grad_mode_of_a_place_counts_its_callers(text: str, mode: GradMode) -> None:
    module = model_of("import torch\n" + text + "\n")
    assert module.fact(GradModes).of(call_named(module, "model")) is mode


@pytest.mark.parametrize(
    ("passed", "mode"),
    [("True", GradMode.NO_GRAD), ("False", GradMode.UNKNOWN), ("flag", GradMode.NO_GRAD)],
)
def test_callers_that_skip_a_place_do_not_set_its_grad_mode(passed: str, mode: GradMode) -> None:
    module = model_of(
        f"""
        import torch

        def step(x, is_inference=False):
            if is_inference:
                model(x)

        step(x)
        with torch.no_grad():
            step(x, is_inference={passed})
        """
    )
    assert module.fact(GradModes).of(call_named(module, "model")) is mode


def test_callers_are_complete_only_if_the_function_is_not_passed_on() -> None:
    module = model_of("def f(): ...\ndef g(): ...\nf()\nf()\nrun(g)\ng()\n")
    f, g = module.tree.functions
    assert (len(module.callers(f).calls), module.callers(f).complete) == (2, True)
    assert (len(module.callers(g).calls), module.callers(g).complete) == (1, False)


def test_dominance_knows_branches_loops_and_with() -> None:
    module = model_of(
        """
        with ctx:
            a()
        if c:
            b()
        for x in y:
            d()
        match c:
            case 1:
                f()
        e()
        """
    )
    calls = {module.code(call.func): call for call in module.tree.calls}
    target = calls["e"]
    assert [name for name in "abdf" if module.tree.dominates(calls[name], target)] == ["a"]


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ("run()", []),
        ("if run(): pass", []),
        ("if a: pass\nelif run(): pass", ["branch"]),
        ("if a: pass\nelse: run()", ["branch"]),
        ("x = run() if a else b", ["branch"]),
        ("x = run() or a", []),
        ("x = a or run()", ["short circuit"]),
        ("for x in run(): pass", []),
        ("for x in y: run()", ["loop"]),
        ("for x in y: pass\nelse: run()", ["else"]),
        ("try: a()\nexcept E: run()", ["handler"]),
        ("try: run()\nfinally: a()", ["try"]),
        ("try: a()\nfinally: run()", []),
        ("match run():\n    case 1: pass", []),
        ("match a:\n    case 1: run()", ["case"]),
        ("with a: run()", []),
        ("f = lambda: run()", ["definition"]),
        ("if a: return\nrun()", ["exit"]),
        ("if a: b()\nrun()", []),
        ("if a:\n    if b: raise E\n    run()\nif c: return", ["exit", "branch"]),
    ],
)
def test_conditions_are_what_may_keep_a_function_from_running_a_call(body: str, kinds: list[str]) -> None:
    module = model_of("def function():\n" + textwrap.indent(body, "    "))
    function = module.tree.functions[0]
    assert [item.kind.value for item in conditions(module.tree, call_named(module, "run"), function)] == kinds


def test_offsets_count_characters_whatever_their_width() -> None:
    module = model_of("s = 'größer 🚀'\nf(s)\n")
    assert module.code(call_named(module, "f")) == "f(s)"


@pytest.mark.parametrize("text", ["print 'x'\n", "x = (\n", "(" * 5000, "x = " + "+".join(["1"] * 20000)])
def test_what_is_not_python_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(ParseError) as refusal:
        Module.parse(text)
    assert refusal.value.reason
    assert "\n" not in refusal.value.reason


def test_values_that_depend_on_each_other_end() -> None:
    names = [f"x{i}" for i in range(60)]
    body = "\n".join(f"    {a}, {b} = f({b}, {a}), g({a}, {b})" for a, b in pairwise(names))
    module = model_of(f"while c:\n{body}\n")
    for call in module.tree.calls:
        module.value(call)
    assert module.value(module.tree.calls[-1]).kind is Kind.UNKNOWN


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        # a function that passes its parameter on to itself, in a dictionary: one step back is the parameter again
        (
            """
            def apply(x, verbose=True, split=True):
                options = {"verbose": verbose}
                options["split"] = split
                apply(x, **options)
                if verbose:
                    print(x)
            """,
            (["verbose"], True),
        ),
        # a variable of a loop over itself
        (
            """
            def run(x):
                while x:
                    for x in x:
                        if x:
                            print(x)
            """,
            None,
        ),
    ],
)
def test_the_sources_of_what_depends_on_itself_end(text: str, sources: tuple[list[str], bool] | None) -> None:
    module = model_of(text)
    (condition,) = (node for node in module.tree.nodes if isinstance(node, cst.If))
    found = module.written.sources(condition.test)
    assert (found and ([module.code(value) for value in found.values], found.complete)) == sources


@pytest.mark.parametrize("name", ["policy_logp", "policy_log_prob", "actor_grads", "actor_actions", "critic_score"])
def test_what_a_network_gives_is_not_named_like_one(name: str) -> None:
    assert not names_network(name)


@pytest.mark.parametrize("name", ["policy_target", "actor_critic", "policy_net", "encoder_q", "critic_1"])
def test_longer_names_of_networks(name: str) -> None:
    assert names_network(name)
