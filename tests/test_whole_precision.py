"""The number format of a program: set in a file that neither imports the training loop nor is imported by it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from torchlint import check_text

ENGINE = """\
import torch
from torch import nn


def train(model, loader, optimizer):
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
MAIN = """\
import torch
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.models import resnet50
{imports}
from engine import train


def main():
    model = {model}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    {setup}
    train(model, DataLoader(ImageFolder("photos"), batch_size=64), optimizer)


if __name__ == "__main__":
    main()
"""
NET = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 64, 3{option})
        {more}

    {decorator}
    def forward(self, x):
        with {context}:
            return self.first({x}).mean((2, 3))
"""
ENCODER = """\
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.TransformerEncoderLayer(512, 8)
        self.up = nn.Linear(512, 4096)
        self.down = nn.Linear(4096, 512)

    def forward(self, x):
        return self.down(self.up(self.attention(x)))


@torch.no_grad()
def predict(loader):
    model = Encoder().to("cuda")
    model.eval()
    return [model(batch.to("cuda")).cpu() for batch in loader]
"""
PREDICT = """\
import torch
{imports}
from engine import predict


def main():
    {setup}
    predict(torch.load("batches.pt"))


if __name__ == "__main__":
    main()
"""


def main_of(imports: str = "", setup: str = "pass", model: str = "resnet50().cuda()") -> str:
    """A script that runs the training loop."""
    return MAIN.format(imports=imports, setup=setup, model=model)


def net_of(
    option: str = "", more: str = "pass", decorator: str = "", context: str = "torch.no_grad()", x: str = "x"
) -> str:
    """A file with a network."""
    return NET.format(option=option, more=more, decorator=decorator, context=context, x=x)


def codes_of(folder: Path, files: Mapping[str, str], checked: str = "engine") -> list[str]:
    """The findings of a file of a repository with these modules."""
    (folder / ".git").mkdir()
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    path = folder / f"{checked}.py"
    return [item.code for item in check_text(path.read_text(encoding="utf-8"), str(path))]


SETTINGS = {
    "tf32": "torch.backends.cuda.matmul.allow_tf32 = True",
    "matmul precision": 'torch.set_float32_matmul_precision("high")',
    "default dtype": "torch.set_default_dtype(torch.bfloat16)",
    "default in double precision": "torch.set_default_dtype(torch.float64)",
    "entered": 'torch.autocast("cuda", dtype=torch.bfloat16).__enter__()',
    "apex": 'amp.initialize(model, optimizer, opt_level="O1")',
}
OTHERS = {
    "default float32": "torch.set_default_dtype(torch.float32)",
    "default on CUDA": 'torch.set_default_tensor_type("torch.cuda.FloatTensor")',
    "seed": "torch.manual_seed(0)",
    "disabled": 'torch.autocast("cuda", enabled=False).__enter__()',
    "unread": "print('use_amp')",
    "on the host": "numpy.zeros(3).astype(numpy.float16)",
}


@pytest.mark.parametrize("name", [*SETTINGS, *OTHERS])
def test_function_of_another_file_sets_it(name: str, tmp_path: Path) -> None:
    """The script calls a function of one file for the setting, and one of another file for the loop."""
    setting = {**SETTINGS, **OTHERS}[name]
    setup = f"import numpy\nimport torch\nfrom apex import amp\n\n\ndef setup(model, optimizer):\n    {setting}\n"
    files = {"engine": ENGINE, "main": main_of("from settings import setup", "setup(model, optimizer)")}
    assert ("TL301" in codes_of(tmp_path, {**files, "settings": setup})) == (name in OTHERS)


@pytest.mark.parametrize("name", SETTINGS)
def test_function_that_nothing_calls_sets_nothing(name: str, tmp_path: Path) -> None:
    """The setting counts if it runs."""
    text = f"import torch\nfrom apex import amp\n\n\ndef setup(model, optimizer):\n    {SETTINGS[name]}\n\n\nSEED = 1\n"
    files = {"engine": ENGINE, "main": main_of("from settings import SEED", "torch.manual_seed(SEED)")}
    assert "TL301" in codes_of(tmp_path, {**files, "settings": text})


@pytest.mark.parametrize("place", ["top level", "guard"])
def test_script_sets_it_outside_of_functions(place: str, tmp_path: Path) -> None:
    """The statement is loaded, although it uses no name of the file with the loop."""
    text, setting = main_of(), "torch.set_default_dtype(torch.bfloat16)"
    if place == "guard":
        text = text.replace("\n    main()", f"\n    {setting}\n    main()")
    else:
        text = text.replace("\n\n\ndef main", f"\n\n{setting}\n\n\ndef main")
    assert "TL301" not in codes_of(tmp_path, {"engine": ENGINE, "main": text})


FLAGS = {
    "read": ("config.fp16 = config.fp16 or 'FP16_OPT_LEVEL' in config", True),
    "passed": ("build(config.fp16)", False),
    "by keyword": ("build(config, fp16=True)", False),
    "called": ("config.fp16()", False),
    "with a format": ("config.fp16 = config.kind is torch.float16", False),
    "with a conversion": ("return config.network.half() if config.fp16 else config.network", False),
    "with a library": ("from apex import amp\n    return amp.wrap(config) if config.fp16 else config", False),
}


@pytest.mark.parametrize("name", FLAGS)
def test_flag_of_another_file_does_nothing_by_itself(name: str, tmp_path: Path) -> None:
    """It sets the number format if the program has a 16-bit format besides, or if a call is given the flag."""
    statement, is_float32 = FLAGS[name]
    options = f"import torch\nfrom builder import build\n\n\ndef prepare(config):\n    {statement}\n"
    engine = f"from options import prepare\n{ENGINE}"
    files = {"engine": engine, "main": main_of(setup="prepare(Config())"), "options": options}
    assert ("TL301" in codes_of(tmp_path, files)) == is_float32


def test_format_of_another_program_says_nothing_of_a_flag(tmp_path: Path) -> None:
    """Only the pretraining script has an autocast; the network of both reads the flag."""
    net = "import torch\n\n\ndef prepare(config):\n    config.fp16 = 'level' in config\n"
    pretrain = (
        "import torch\nfrom net import prepare\nfrom apex import amp\n\nmodel, optimizer = amp.initialize(*make())\n"
    )
    files = {"engine": f"from net import prepare\n{ENGINE}", "main": main_of(), "net": net, "pretrain": pretrain}
    assert "TL301" in codes_of(tmp_path, files)


@pytest.mark.parametrize("conversion", [".bfloat16()", ".half()", '.to("cuda", torch.bfloat16)', ".double()"])
@pytest.mark.parametrize("is_own", [True, False])
def test_script_converts_the_network(conversion: str, is_own: bool, tmp_path: Path) -> None:
    """It is the network of the loop that is converted, not a teacher beside it."""
    network = "resnet50().cuda()"
    model = main_of(model=network + conversion) if is_own else main_of(setup=f"teacher = {network}{conversion}")
    assert ("TL301" in codes_of(tmp_path, {"engine": ENGINE, "main": model})) != is_own


@pytest.mark.parametrize(
    "arguments",
    [
        {"context": 'torch.autocast("cuda", dtype=torch.bfloat16)'},
        {"decorator": '@torch.autocast("cuda", dtype=torch.bfloat16)', "context": "torch.enable_grad()"},
        {"option": ", dtype=torch.bfloat16", "context": "torch.enable_grad()"},
        {"x": "x.half()", "context": "torch.enable_grad()"},
        {
            "more": "self.scale = nn.Parameter(torch.zeros(64, dtype=torch.float64))",
            "context": "torch.enable_grad()",
        },
    ],
    ids=["with", "decorator", "layer", "input", "parameter"],
)
@pytest.mark.parametrize("is_own", [True, False])
def test_network_of_another_file_decides(arguments: dict[str, str], is_own: bool, tmp_path: Path) -> None:
    """Of the networks of a program, that of the loop counts."""
    model = "Net().cuda()" if is_own else "resnet50().cuda()"
    main = main_of("from net import Net", "pass" if is_own else "print(Net())", model)
    files = {"engine": ENGINE, "main": main, "net": net_of(**arguments)}
    assert ("TL301" in codes_of(tmp_path, files)) != is_own


@pytest.mark.parametrize(
    "arguments",
    [
        {"context": 'torch.autocast("cuda", enabled=False)'},
        {"context": 'torch.autocast("cpu", dtype=torch.bfloat16)'},
        {"context": "torch.enable_grad()", "more": "self.limit = torch.finfo(torch.float16).max"},
        {"context": "torch.enable_grad()", "x": "x.float()"},
    ],
    ids=["disabled", "CPU", "limits", "float"],
)
def test_network_of_another_file_is_in_float32(arguments: dict[str, str], tmp_path: Path) -> None:
    """Not every word of a network is about its format."""
    main = main_of("from net import Net", model="Net().cuda()")
    assert "TL301" in codes_of(tmp_path, {"engine": ENGINE, "main": main, "net": net_of(**arguments)})


def test_script_for_inference_is_another_program(tmp_path: Path) -> None:
    """What `predict.py` sets does not matter for the training."""
    settings = f"import torch\n\n\ndef setup():\n    {SETTINGS['default dtype']}\n"
    predict = "import torch\nfrom engine import train\nfrom settings import setup\n\nsetup()\nprint(train)\n"
    files = {"engine": ENGINE, "main": main_of(), "predict": predict, "settings": settings}
    assert "TL301" in codes_of(tmp_path, files)


@pytest.mark.parametrize(
    ("name", "calls", "expected"),
    [("tf32", True, False), ("matmul precision", True, False), ("tf32", False, True), ("seed", True, True)],
)
def test_products_use_what_another_file_sets(name: str, calls: bool, expected: bool, tmp_path: Path) -> None:
    """TL302 asks for the same settings."""
    settings = f"import torch\n\nSIZE = 3\n\n\ndef setup():\n    {({**SETTINGS, **OTHERS})[name]}\n"
    predict = PREDICT.format(imports="from settings import SIZE, setup", setup="setup()" if calls else "print(SIZE)")
    found = codes_of(tmp_path, {"engine": ENCODER, "main": predict, "settings": settings})
    assert ("TL302" in found) == expected


VISION = """\
import torch
from torch import nn


class Patches(nn.Module):
    def __init__(self, kernel={kernel}, stride=(16, 16), dim=1024):
        super().__init__()
        self.proj = nn.Conv2d(3, dim, kernel_size=kernel, stride=stride)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class Vision(nn.Module):
    def __init__(self, dim=1024):
        super().__init__()
        self.patches = Patches()
        self.layers = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        return self.layers(self.patches(x))


def vision_large():
    return Vision()
"""
PAINT = """\
import models
import torch


def prepare(arch="vision_large"):
    return getattr(models, arch)()


def paint(model, image):
    return model(image.cuda()).cpu()


if __name__ == "__main__":
    model = prepare().cuda().eval()
    with torch.no_grad():
        for image in torch.load("images.pt"):
            print(paint(model, image).mean())
"""


@pytest.mark.parametrize(("kernel", "expected"), [("(16, 16)", True), ("(32, 32)", False)])
def test_linear_layers_of_another_file_follow_patches(kernel: str, expected: bool, tmp_path: Path) -> None:
    """Without patches, they may be the head of convolutions that are not seen."""
    found = codes_of(tmp_path, {"main": PAINT, "models": VISION.format(kernel=kernel)}, "main")
    assert ("TL302" in found) == expected


PARTS = """\
import models
import torch


def paint(model, image):
    return model.head(model.body(image.cuda())).cpu()


if __name__ == "__main__":
    model = models.Parts().cuda().eval()
    with torch.no_grad():
        for image in torch.load("images.pt"):
            print(paint(model, image).mean())
"""


@pytest.mark.parametrize(("kernel", "expected"), [("(16, 16)", True), ("(32, 32)", False)])
def test_a_linear_layer_of_another_file_before_a_vision_transformer(
    kernel: str, expected: bool, tmp_path: Path
) -> None:
    """The layer alone may follow convolutions; the part that the same loop runs embeds patches, or may not."""
    parts = """

class Parts(nn.Module):
    def __init__(self, dim=1024):
        super().__init__()
        self.head = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.body = Vision()
"""
    found = codes_of(tmp_path, {"main": PARTS, "models": VISION.format(kernel=kernel) + parts}, "main")
    assert ("TL302" in found) == expected


AGENT = """\
import torch
from engine import train
from torch.utils.data import DataLoader
from torchvision.models import resnet50


def main(simulation, rollouts):
    agent = resnet50().cuda()
    optimizer = torch.optim.SGD(agent.parameters(), lr=0.1)
    {play}
    train(agent, DataLoader(rollouts, batch_size=64), optimizer)


if __name__ == "__main__":
    main(*make())
"""


@pytest.mark.parametrize(
    ("play", "is_played"),
    [
        ("obs, reward, done, info = simulation.step(agent.act(simulation.obs))", True),
        ("obs, cost, done, info = simulation.step(agent.act(simulation.obs))", False),
    ],
)
def test_a_training_loop_of_an_agent_that_a_script_lets_play_is_silent(
    tmp_path: Path, play: str, is_played: bool
) -> None:
    files = {"engine": ENGINE, "main": AGENT.replace("{play}", play)}
    assert ("TL301" in codes_of(tmp_path, files)) != is_played


FLOW = """\
import torch
from torch import nn


class Coupling(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 512, 3)
        self.second = nn.Conv2d(512, 512, 3)

    def forward(self, x):
        {name} = self.second(self.first(x))
        return {name}.mean((2, 3))
"""


@pytest.mark.parametrize(("name", "is_flow"), [("log_det", True), ("log_odds", False)])
def test_a_loop_that_trains_a_flow_of_another_file_is_silent(tmp_path: Path, name: str, is_flow: bool) -> None:
    main = MAIN.replace("{model}", "Coupling().cuda()").replace("{imports}", "from flow import Coupling")
    main = main.replace("    {setup}\n", "")
    files = {"engine": ENGINE, "main": main, "flow": FLOW.replace("{name}", name)}
    assert ("TL301" in codes_of(tmp_path, files)) != is_flow


DECOMPOSING = """\
import torch
from torch import nn


class Solver(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 16))
        nn.init.constant_(self.layers[0].bias, torch.svd(torch.eye(4))[1].sum().item())

    def forward(self, x):
        return vectors_of(self.layers(x).view(-1, 4, 4))


def vectors_of(matrices):
    return {decomposed}
"""


@pytest.mark.parametrize(
    ("decomposed", "expected"),
    [
        ("torch.linalg.eigh(matrices).eigenvectors", []),
        ("matrices.cholesky()", []),
        ("matrices.bmm(matrices)", ["TL301"]),
        ("torch.stft(matrices.flatten(1), 16)", ["TL301"]),
    ],
)
def test_forward_pass_that_decomposes_matrices_needs_float32(
    decomposed: str, expected: list[str], tmp_path: Path
) -> None:
    main = main_of("from solver import Solver", model="Solver().cuda()")
    files = {"engine": ENGINE, "main": main, "solver": DECOMPOSING.format(decomposed=decomposed)}
    assert [code for code in codes_of(tmp_path, files) if code == "TL301"] == expected


OF_PARTS = """\
from torch import nn


def build(width):
    parts = {{}}
    for name in ("first", "second"):
        parts[name] = nn.Linear(width, width)

    class Net(nn.Module):
        def __init__(self, parts):
            super().__init__()
            self.first = {first}

        def forward(self, x):
            return self.first(x)

    return Net(parts)
"""


@pytest.mark.parametrize(("first", "expected"), [('parts["first"]', ["TL301"]), ("nn.Linear(8, 8)", [])])
def test_network_of_parts_in_a_dictionary_is_of_unknown_size(first: str, expected: list[str], tmp_path: Path) -> None:
    main = main_of("from net import build", model="build(4096).cuda()")
    files = {"engine": ENGINE, "main": main, "net": OF_PARTS.format(first=first)}
    assert [code for code in codes_of(tmp_path, files) if code == "TL301"] == expected
