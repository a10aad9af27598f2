"""Findings that need more than one file, and that are the same however a file is checked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import RunTorchlint
from whole_program import DATA, ENGINE, MAIN, codes, found, write

import torchlint
from torchlint import check_paths, check_text
from torchlint.engine.checker import context_digest
from torchlint.project import store
from torchlint.project.context import forget, project_file
from torchlint.source.source import Source


def test_a_loader_is_followed_to_the_loop_and_the_device_of_other_files(tmp_path: Path) -> None:
    folder = write(tmp_path, data=DATA, engine=ENGINE, main=MAIN.format(data="data", engine="engine"))
    unpinned, respawned = (next(d for d in found(folder / "data.py") if d.code == code) for code in ("TL102", "TL103"))
    (copied,) = unpinned.notes
    assert copied.place is not None and copied.place.path == str(folder / "engine.py")
    assert ENGINE[copied.place.start : copied.place.end] == "images.to(device)"
    (repeated,) = respawned.notes
    assert repeated.place is not None and repeated.place.path == str(folder / "main.py")
    assert MAIN.format(data="data", engine="engine")[repeated.place.start :].startswith("for epoch in range(10):")
    assert "TL301" in codes(folder / "engine.py")


@pytest.mark.parametrize(
    ("layout", "data", "engine"),
    [
        ({"data": DATA, "engine": ENGINE}, "data", "engine"),
        ({"lib/data": DATA, "lib/engine": ENGINE}, "lib.data", "lib.engine"),
        (
            {"pkg/__init__": "from .data import build_loader", "pkg/data": DATA, "pkg/engine": ENGINE},
            "pkg",
            "pkg.engine",
        ),
        (
            {"pkg/__init__": "from .data import *\n__all__ = ['build_loader']", "pkg/data": DATA, "engine": ENGINE},
            "pkg",
            "engine",
        ),
        (
            {
                "pkg/__init__": "from .data import *\nfrom .engine import *",
                "pkg/data": DATA,
                "pkg/engine": f"from pkg import build_loader\n{ENGINE}",
            },
            "pkg",
            "pkg.engine",
        ),
        ({"src/pkg/__init__": "", "src/pkg/data": DATA, "src/pkg/engine": ENGINE}, "pkg.data", "pkg.engine"),
    ],
    ids=["flat", "namespace package", "re-export", "star export", "star export of an import", "src layout"],
)
def test_the_project_s_imports_are_followed(layout: dict[str, str], data: str, engine: str, tmp_path: Path) -> None:
    folder = write(tmp_path, layout, main=MAIN.format(data=data, engine=engine))
    (place,) = folder.rglob("data.py")
    assert codes(place) == ["TL102", "TL103"]


def test_a_module_and_an_alias_are_followed(tmp_path: Path) -> None:
    main = MAIN.format(data="data", engine="engine")
    main = main.replace("from data import build_loader", "import data as d").replace("build_loader(", "d.build_loader(")
    main = main.replace("import train_one_epoch", "import train_one_epoch as run").replace("train_one_epoch(m", "run(m")
    folder = write(tmp_path, data=DATA, engine=ENGINE, main=main)
    assert codes(folder / "data.py") == ["TL102", "TL103"]


@pytest.mark.parametrize(("other", "expected"), [("import parts.data", ["TL102", "TL103"]), ("parts = stub()", [])])
def test_the_modules_of_a_package_are_followed_together(other: str, expected: list[str], tmp_path: Path) -> None:
    main = MAIN.format(data="parts.data", engine="parts.engine").replace("build_loader(P", "parts.data.build_loader(P")
    main = main.replace("from parts.data import build_loader", f"import parts.engine\n{other}")
    main = main.replace("from parts.engine import train_one_epoch\n", "")
    main = main.replace("train_one_epoch(m", "parts.engine.train_one_epoch(m")
    folder = write(tmp_path, {"parts/data": DATA, "parts/engine": ENGINE}, main=main)
    assert codes(folder / "parts/data.py") == expected


@pytest.mark.parametrize(
    ("package", "inner", "expected"),
    [
        ("import parts.inner\nimport parts.engine", "import parts.inner.data", ["TL102", "TL103"]),
        ("import parts.inner\nimport parts.engine", "import os.path", []),
        ("import parts.inner", "import parts.inner.data", ["TL103"]),
        ("import parts.inner\nimport parts.engine", "import parts", []),
    ],
    ids=["imported", "data is not imported", "engine is not imported", "files import each other"],
)
def test_the_modules_that_a_package_imports_are_followed(
    package: str, inner: str, expected: list[str], tmp_path: Path
) -> None:
    main = MAIN.format(data="parts.data", engine="parts.engine").replace(
        "build_loader(P", "parts.inner.data.build_loader(P"
    )
    main = main.replace("from parts.data import build_loader", "import parts")
    main = main.replace("from parts.engine import train_one_epoch\n", "")
    main = main.replace("train_one_epoch(m", "parts.engine.train_one_epoch(m")
    modules = {"parts/inner/data": DATA, "parts/engine": ENGINE}
    folder = write(tmp_path, {"parts/__init__": package, "parts/inner/__init__": inner, **modules}, main=main)
    assert codes(folder / "parts/inner/data.py") == expected


def test_every_name_of_a_star_import_is_followed(tmp_path: Path) -> None:
    engine = ENGINE.replace(
        "import torch.nn.functional as F\n", "import torch.nn.functional as F\n\nfrom tools import count\n"
    )
    engine = engine.replace("        optimizer.step()\n", "        optimizer.step()\n        count(images)\n")
    main = MAIN.format(data="data", engine="engine").replace(
        "import torch\n", "import torch\nfrom tools import pick_device\n"
    )
    main = main.replace('torch.device("cuda")', "pick_device()")
    folder = write(tmp_path, data=DATA, engine=engine, main=main)
    (folder / "tools").mkdir()
    (folder / "tools" / "__init__.py").write_text("from .util import *\n")
    (folder / "tools" / "util.py").write_text(
        "import torch\n\n\ndef count(images):\n    return len(images)\n\n\n"
        'def pick_device():\n    return torch.device("cuda")\n'
    )
    assert "TL301" in codes(folder / "engine.py")
    assert "TL102" in codes(folder / "data.py")


NEAR_MISSES = {
    "the device is the CPU": MAIN.replace('"cuda"', '"cpu"'),
    "another loader is trained on": MAIN.replace("build_loader(Photos())", "Photos()"),
    "nobody trains": MAIN.replace("        train_one_epoch(model, loader, optimizer, device)", "        print(epoch)"),
    "the caller is not imported from here": MAIN.replace("from {data} import", "from elsewhere import"),
}


@pytest.mark.parametrize("main", NEAR_MISSES.values(), ids=list(NEAR_MISSES))
def test_without_the_other_file_s_evidence_there_is_no_finding(main: str, tmp_path: Path) -> None:
    folder = write(tmp_path, data=DATA, engine=ENGINE, main=main.format(data="data", engine="engine"))
    assert "TL102" not in codes(folder / "data.py")


def test_a_library_without_a_script_is_analysed_file_by_file(tmp_path: Path) -> None:
    main = MAIN.format(data="data", engine="engine").partition("if __name__")[0]
    folder = write(tmp_path, data=DATA, engine=ENGINE, main=main)
    assert codes(folder / "data.py") == []
    file = project_file(str(folder / "data.py"), DATA)
    assert file is not None and not file.is_in_program


def test_precision_that_another_file_chooses_counts(tmp_path: Path) -> None:
    main = MAIN.format(data="data", engine="engine")
    chosen = main.replace("    model =", '    torch.set_float32_matmul_precision("high")\n    model =')
    folder = write(tmp_path, data=DATA, engine=ENGINE, main=chosen)
    assert "TL301" not in codes(folder / "engine.py")


@pytest.mark.parametrize(("use", "expected"), [("", True), ("    amp.init(settings)\n", False)])
def test_an_option_for_mixed_precision_in_another_file_counts_if_something_uses_it(
    tmp_path: Path, use: str, expected: bool
) -> None:
    main = MAIN.format(data="data", engine="engine")
    option = main.replace("    model =", f"    settings.amp_opt_level = 'O1'\n{use}    model =")
    folder = write(tmp_path, data=DATA, engine=ENGINE, main=option)
    assert ("TL301" in codes(folder / "engine.py")) is expected


UPDATED = """\
import torch


class Model:
    def __init__(self, net):
        self.net = net.cuda()
        self.optimizer = torch.optim.AdamW(self.net.parameters())

    def infer(self, images):
        return self.net(images)

    def update(self, images, labels):
        loss = torch.nn.functional.cross_entropy(self.net(images), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
"""
UPDATES = (
    "from step import Model\n\nmodel = Model(net)\nfor images, labels in loader:\n    model.update(images, labels)\n"
)
INFERS = (
    "import torch\nfrom step import Model\n\nmodel = Model(net)\nfor images in pictures:\n"
    "    with torch.autocast('cuda'):\n        show(model.infer(images))\n"
)


@pytest.mark.parametrize(
    ("name", "script", "expected"),
    [
        ("infer_video", INFERS, True),
        ("finetune", INFERS, False),  # by its name, it may train in a way that is not seen
        ("infer_video", INFERS + UPDATES.partition("\n\n")[2], False),
    ],
)
def test_precision_that_a_script_for_inference_sets_is_not_that_of_the_training(
    tmp_path: Path, name: str, script: str, expected: bool
) -> None:
    folder = write(tmp_path, step=UPDATED, training=UPDATES)
    (folder / f"{name}.py").write_text(script)
    assert ("TL301" in codes(folder / "step.py")) is expected


def test_a_format_of_sent_gradients_in_another_file_is_no_precision(tmp_path: Path) -> None:
    main = MAIN.format(data="data", engine="engine")
    sent = main.replace("import torch\n", "import horovod.torch as hvd\nimport torch\n").replace(
        "    loader =",
        "    optimizer = hvd.DistributedOptimizer(optimizer, compression=hvd.Compression.fp16)\n    loader =",
    )
    folder = write(tmp_path, data=DATA, engine=ENGINE, main=sent)
    assert "TL301" in codes(folder / "engine.py")


def test_a_file_has_the_same_findings_however_it_is_checked(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    folder = write(tmp_path, data=DATA, engine=ENGINE, main=MAIN.format(data="data", engine="engine"))

    def of_data(
        *arguments: str, cwd: Path = folder, given: str | None = None, env: dict[str, str] | None = None
    ) -> list[tuple[str, object, object]]:
        run = torchlint_in(cwd, *arguments, "--output-format", "json", stdin=given, env=env)
        items = json.loads(run.stdout)
        return [
            (item["code"], item["location"], [(note["filename"], note["location"]) for note in item["notes"]])
            for item in items
            if item["filename"] == str(folder / "data.py")
        ]

    alone = of_data("data.py", env={"PYTHONHASHSEED": "1"})  # the others have another one
    assert [code for code, *_ in alone] == ["TL102", "TL103"]
    assert of_data(".") == alone
    assert of_data(str(folder), cwd=tmp_path.parent) == alone
    assert of_data("-", "--stdin-filename", "data.py", given=DATA) == alone
    assert of_data("--isolated-files", ".") == []


def test_only_named_files_are_reported_and_edited(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    main = MAIN.format(data="data", engine="engine")
    folder = write(tmp_path, data=DATA, engine=ENGINE, main=main)
    run = torchlint_in(folder, "data.py", "--fix", "--unsafe-fixes")
    assert "pin_memory=torch.cuda.is_available()" in (folder / "data.py").read_text()
    assert (folder / "engine.py").read_text() == ENGINE
    assert (folder / "main.py").read_text() == main
    assert "engine.py:" not in run.stdout.replace("at engine.py:", "")


def test_broken_files_of_the_project_do_no_harm(tmp_path: Path) -> None:
    folder = write(tmp_path, data=DATA, engine=ENGINE, main=MAIN.format(data="data", engine="engine"))
    (folder / "broken.py").write_text("from data import build_loader\ndef (:\n")
    (folder / "binary.py").write_bytes(b"\xff\xfe\x00from data import build_loader")
    (folder / "loop.py").write_text("from loop import *\nfrom data import build_loader\nfrom loop import x as x\n")
    assert codes(folder / "data.py") == ["TL102", "TL103"]


TOOL = """\
import torch


def helper(size):
    for _ in range(3):
        print(torch.zeros(size).cuda())


def main():
    print(torch.__version__)


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("caller", "expected"),
    [
        ("from tool import helper\n\nhelper(3)\n", ["TL206"]),
        ("from tool import helper as made\n\nmade(3)\n", ["TL206"]),
        ("import tool\n\ntool.helper(3)\n", ["TL206"]),
        ("from tool import helper\n\nprint(list(map(helper, [1, 2])))\n", ["TL206"]),
        ("import tool\n\nprint(list(map(tool.helper, [1, 2])))\n", ["TL206"]),
        ("from tool import main\n\ndef helper():\n    main()\n\nhelper()\n", []),
        ("x = 1\n", []),
    ],
)
def test_a_function_of_a_script_that_another_file_uses_is_not_dead(
    caller: str, expected: list[str], tmp_path: Path
) -> None:
    folder = write(tmp_path, tool=TOOL, run=caller)
    assert codes(folder / "tool.py") == expected


def test_a_context_that_imports_a_test_library_makes_no_test(tmp_path: Path) -> None:
    caller = "import pytest\nfrom tool import helper\n\nhelper(3)\n"
    folder = write(tmp_path, tool=TOOL, run=caller)
    assert codes(folder / "tool.py") == ["TL206"]


def test_a_cause_joins_places_of_one_file(tmp_path: Path) -> None:
    wrapped = "import torch\n\n\ndef wrap(model):\n    return torch.nn.DataParallel(model)\n"
    main = (
        "import torch\nfrom wrapped import wrap\n\n"
        "one = wrap(torch.nn.Linear(2, 2))\nprint(torch.nn.DataParallel(one))\n"
    )
    folder = write(tmp_path, wrapped=wrapped, main=main)
    for name in ("wrapped", "main"):
        (only,) = [item for item in found(folder / f"{name}.py") if item.code == "TL811"]
        assert only.others == () and len(only.notes) == 1


def test_a_script_that_is_not_python_is_reported_and_the_others_are_checked(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "train.py").write_text('from data import build_loader, DataLoader\nprint "x", build_loader(d).cuda()\n')
    (tmp_path / "data.py").write_text(DATA)
    for alone in (True, False):
        if alone:
            (tmp_path / "data.py").rename(tmp_path / "away.txt")
        else:
            (tmp_path / "away.txt").rename(tmp_path / "data.py")
        forget()
        (result,) = [item for item in check_paths([str(tmp_path)]) if item.path.endswith("train.py")]
        assert [item.code for item in result.diagnostics] == ["TL002"]
        assert result.errors == ()


def test_a_module_that_the_file_does_not_know_says_nothing_about_it(tmp_path: Path) -> None:
    main = MAIN.format(data="data", engine="engine")
    sibling = ENGINE.replace("train_one_epoch", "train_in_half").replace("import", "import torch\nimport", 1)
    sibling = sibling.replace("        loss = F", "        with torch.autocast('cuda'):\n            loss = F")
    both = main.replace("import torch\n", "import torch\nfrom halves import train_in_half\n")
    both = both.replace(
        "train_one_epoch(model", "train_in_half(model, loader, optimizer, device)\n        train_one_epoch(model"
    )
    folder = write(tmp_path, data=DATA, engine=ENGINE, halves=sibling, main=both)
    assert "TL301" in codes(folder / "engine.py")  # the same script, but neither imports the other
    assert "TL301" not in codes(folder / "halves.py")
    forget()
    (folder / "engine.py").write_text("import halves\n" + ENGINE)
    assert "TL301" not in codes(folder / "engine.py")


def test_many_files_of_a_program_have_the_findings_of_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main = MAIN.format(data="data", engine="engine")
    folder = write(tmp_path, data=DATA, engine=ENGINE, main=main)
    together = {name: codes(folder / name) for name in ("data.py", "engine.py", "main.py")}
    assert together["data.py"] == ["TL102", "TL103"]
    forget()
    monkeypatch.setattr("torchlint.project.context.GROUP", 10)
    assert {name: codes(folder / name) for name in together} == together


DETECTOR = """\
import numpy as np
import torch


def fit(image, size):
    return image.resize(size)


class Detector:
    def __init__(self, net, size):
        self.net = net.eval()
        self.size = size

    def detect(self, image):
        data = np.expand_dims(np.array(fit(image, {size})), 0)
        with torch.no_grad():
            return self.net(torch.from_numpy(data).cuda())
"""
PHOTOS = """\
import sys

from detector import Detector
from PIL import Image


def main(paths):
    detector = Detector(load_net(), 640)
    found = []
    for path in paths:
        found.append(detector.detect(Image.open(path)))
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("size", "expected"), [("(self.size, self.size)", ["TL111"]), ("(image.size[0] // 2, image.size[1] // 2)", [])]
)
def test_photos_that_another_file_s_network_gets_one_by_one(size: str, expected: list[str], tmp_path: Path) -> None:
    (tmp_path / "detector.py").write_text(DETECTOR.format(size=size))
    (tmp_path / "photos.py").write_text(PHOTOS)
    (result,) = [item for item in check_paths([str(tmp_path)]) if item.path.endswith("photos.py")]
    assert [item.code for item in result.diagnostics if item.code == "TL111"] == expected


AGENT = """\
import torch

from tools import *


class Agent:
    def eval_step(self, state):
        return to_numpy(self.network(state))

    def learn(self, batch):
        loss = self.network(batch.states).pow(2).mean()
        loss.backward()
        self.optimizer.step()


class Evaluator(Agent):
    def evaluate(self, states):
        return [self.eval_step(state) for state in states]
"""


@pytest.mark.parametrize(
    ("taken", "expected"), [("tensor.detach().cpu().numpy()", ["TL402"]), ("tensor.flatten(1)", [])]
)
def test_a_star_import_gives_what_the_star_imports_of_its_module_give(
    taken: str, expected: list[str], tmp_path: Path
) -> None:
    folder = write(
        tmp_path,
        {
            "main": "from agent import Evaluator\n\nEvaluator().evaluate([])\n",
            "agent": AGENT,
            "tools/__init__": "from .base import *\n",
            "tools/base": "import torch\n\nfrom .arrays import *\nfrom . import *\n",
            "tools/arrays": f"import torch\n\n\ndef to_numpy(tensor):\n    return {taken}\n",
        },
    )
    assert [code for code in codes(folder / "agent.py") if code == "TL402"] == expected


LOSSES = """\
import torch.nn.functional as F


def compute_loss(model, batch):
    images, labels = batch
    return F.cross_entropy(model(images), labels)
"""
FIT = """\
import torch
from losses import compute_loss
from net import Net


def fit(model, optimizer, batches, held_out):
    model.train()
    for batch in batches:
        loss = compute_loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    for batch in held_out:{guard}
        print(compute_loss(model, batch).item())


if __name__ == "__main__":
    net = Net()
    fit(net, torch.optim.Adam(net.parameters()), torch.load("train.pt"), torch.load("val.pt"))
"""


@pytest.mark.parametrize(("guard", "expected"), [("", True), ("\n        torch.set_grad_enabled(False)", False)])
def test_a_loss_of_another_file_is_validated_with_gradients(guard: str, expected: bool, tmp_path: Path) -> None:
    folder = write(tmp_path, losses=LOSSES, main=FIT.format(guard=guard))
    assert ("TL402" in codes(folder / "main.py")) is expected
    assert "TL402" not in codes(folder / "losses.py")


STEP = """\
import helpers
import torch


def train(model, loader, criterion, optimizer):
    model.cuda()
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = criterion(model(x.cuda()), y.cuda())
            loss.backward()


if __name__ == "__main__":
    train(*helpers.parts())
"""
HELPERS = """\
def parts():
    if True:
        return make_parts(
            1,
            2,
        )
"""


def test_a_fix_moves_its_own_rows_where_another_file_comes_first(tmp_path: Path, torchlint_in: RunTorchlint) -> None:
    folder = write(tmp_path, step=STEP, helpers=HELPERS)
    torchlint_in(folder, "--select", "TL305", "--fix", "--unsafe-fixes", "step.py")
    fixed = STEP.replace("            loss.backward()", "        loss.backward()")
    assert (folder / "step.py").read_text() == fixed


NOTEBOOK = """\
{"cells": [{"cell_type": "code", "metadata": {}, "outputs": [], "source": ["import engine\\n",
 "import torch\\n", "engine.train_one_epoch(net, torch.utils.data.DataLoader(photos), optimizer, 'cuda')"]}],
 "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
"""


def test_a_notebook_that_was_checked_before_changes_nothing(tmp_path: Path) -> None:
    folder = write(tmp_path, engine=ENGINE)
    (folder / "study.ipynb").write_text(NOTEBOOK)
    forget()
    alone = codes(folder / "engine.py")
    forget()
    (notebook,) = check_paths([str(folder / "study.ipynb")])
    assert not notebook.errors
    assert codes(folder / "engine.py") == alone


@pytest.mark.parametrize("order", [["data", "engine", "main"], ["main", "engine", "data"]])
def test_what_a_file_is_analysed_with_does_not_depend_on_the_selection(order: list[str], tmp_path: Path) -> None:
    folder = write(tmp_path, data=DATA, engine=ENGINE, main=MAIN.format(data="data", engine="engine"))

    def contexts(select: list[str]) -> dict[str, str]:
        settings = torchlint.load_settings(str(folder), {"select": select} if select else {})
        forget()
        return {
            name: context_digest(Source.from_text(path.read_text(), str(path)), settings)
            for name, path in ((name, folder / f"{name}.py") for name in order)
        }

    assert contexts([]) == contexts(["TL102"]) == contexts(["TL804"]) == contexts(["ALL"])


def test_a_file_that_is_too_large_to_be_followed_is_analysed_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f"import torch\n\ntorch.backends.cudnn.deterministic = True\n{ENGINE}"
    folder = write(tmp_path, engine=script, main="import engine\n\nengine.train_one_epoch()\n")
    alone = [d.code for d in check_text(script)]
    monkeypatch.setattr(store, "MAX_BYTES", len(script) - 1)
    assert alone and codes(folder / "engine.py") == alone
