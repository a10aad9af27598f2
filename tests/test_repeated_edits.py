"""What an editor keeps from one change to the next: the diagnostics are those of a fresh analysis."""

from __future__ import annotations

import ast
import gc
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from random import Random
from unittest import mock

import libcst as cst
import pytest
from whole_program import DATA, ENGINE, MAIN, write

from torchlint.engine.checker import check
from torchlint.findings.diagnostic import Diagnostic
from torchlint.model import forests
from torchlint.model.syntax import pieces
from torchlint.model.syntax.positions import put_together
from torchlint.model.syntax.scopes import Scope
from torchlint.model.syntax.tree import Tree
from torchlint.project import context
from torchlint.project.choice import Choice
from torchlint.project.project import Project
from torchlint.settings.resolver import Resolver
from torchlint.source.reparsing import edited_tree
from torchlint.source.source import Source

#: Two scripts, and modules that they import, of which one takes names from others by a star and by a dict.
FILES = {
    "data": f"{DATA}\n\nclass Photos:\n    workers = 0\n\n    def __len__(self):\n        return 8\n",
    "engine": f"{ENGINE}        print(loss.item())\n",
    "common": "from data import *\nimport engine\n\nWORKERS = 2\nENGINES = {'plain': engine}\n",
    "limits": "EPOCHS = 3\nWORKERS = 0\n",
    "main": MAIN.format(data="data", engine="engine")
    .replace("from photos", "import limits\nfrom data")
    .replace("range(10)", "range(limits.EPOCHS)"),
    "other": """\
import torch
from common import ENGINES, WORKERS, Photos, build_loader


def evaluate(model, loader):
    correct = 0
    for images, labels in loader:
        correct += (model(images.cuda()).argmax(1) == labels.cuda()).sum().item()
    return correct


model = torch.nn.Linear(4096, 4096).cuda()
loader = build_loader(Photos(), workers=WORKERS)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    ENGINES["plain"].train_one_epoch(model, loader, optimizer, "cuda")
    evaluate(model, loader)
""",
}
WORDS = ("loader", "model", "workers", "WORKERS", "device", "build_loader", "train_one_epoch", "images", "item", "x")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The program on disk; what is known of texts that are not saved is forgotten afterwards."""
    context.forget()
    yield write(tmp_path, FILES)
    context.use_texts({})
    context.forget()


def diagnostics(path: Path, texts: Mapping[str, str]) -> list[Diagnostic]:
    """What is reported in a file while the texts of some are not saved."""
    context.use_texts(texts)
    source = Source(str(path), texts.get(str(path), path.read_text()))
    return check(source, Resolver().for_folder(str(path.parent)))


def fresh(path: Path, texts: Mapping[str, str]) -> list[Diagnostic]:
    """The same when nothing is known from before."""
    with (
        mock.patch.object(context, "_projects", {}),
        mock.patch.object(forests, "_forests", OrderedDict()),
        mock.patch.object(pieces, "_parsed", {}),
    ):
        return diagnostics(path, texts)


def statements(text: str) -> list[str]:
    """The top-level statements of a text, with the rows before them."""
    rows = [statement.lineno - 1 for statement in ast.parse(text).body][1:]
    lines = text.splitlines(keepends=True)
    return ["".join(lines[start:end]) for start, end in pairwise([0, *rows, len(lines)])]


def edited(text: str, random: Random) -> str:
    """A text after a random change: of a word, of all uses of a word, of a row, or of a top-level statement."""
    kind = random.choice(["letter", "word", "name", "row", "remove", "insert", "move"])
    words = list(re.finditer(r"[^\W\d]\w*", text))
    if kind in ("letter", "word", "name"):
        place = random.choice(words)
        if kind == "letter":
            return f"{text[: place.end()]}x{text[place.end() :]}"
        other = random.choice(WORDS)
        if kind == "word":
            return text[: place.start()] + other + text[place.end() :]
        return re.sub(rf"\b{place[0]}\b", other, text)
    parts = text.splitlines(keepends=True) if kind == "row" else statements(text)
    if kind != "insert":
        part = parts.pop(random.randrange(len(parts)))
    else:
        part = random.choice(statements(random.choice(list(FILES.values()))))
    if kind in ("insert", "move"):
        parts.insert(random.randrange(len(parts) + 1), part)
    return "".join(parts)


@pytest.mark.parametrize("seed", range(4))
def test_after_any_edits_the_diagnostics_are_those_of_a_fresh_analysis(folder: Path, seed: int) -> None:
    random = Random(seed)
    paths = [folder / f"{name}.py" for name in FILES]
    texts: dict[str, str] = {}
    shown = set()
    for _ in range(60):
        path = random.choice(paths)
        text = edited(texts.get(str(path), path.read_text()), random)
        try:
            if not ast.parse(text).body:
                continue
        except SyntaxError:
            continue
        texts[str(path)] = path.read_text() if random.random() < 0.3 else text
        for checked in (path, random.choice(paths)):
            found = diagnostics(checked, texts)
            assert found == fresh(checked, texts)
            shown.add(tuple(found))
    assert len(shown) > 5


def test_pieces_of_other_files_are_chosen_again_only_if_an_edit_may_lead_to_others(folder: Path) -> None:
    path = folder / "main.py"

    def choices(edit: str, by: str) -> int:
        return choices_after(path, edit, by)

    assert choices("epoch in", "epochs in") == 0
    assert choices("device = ", "place = ") == 0
    assert choices("def main", "# here\ndef main") == 0
    assert choices("range(limits", "Photos(limits") == 0  # the word was there before
    assert choices("limits.EPOCHS", "limits.WORKERS") == 1
    assert choices("limits.EPOCHS", "limits.EPOCHS + limits.Photos") == 1  # it was there, but not of a module
    assert choices("import build_loader", "import *") == 1
    assert choices("epoch in", "workers in") == 0  # no file binds it at its top level
    assert choices("def main():", "def run():") == 1
    assert choices("limits.EPOCHS", "limits.EPOCHS + getattr(limits, place)") == 1


def test_pieces_are_chosen_again_when_only_a_test_still_calls_a_function(tmp_path: Path) -> None:
    test = "import pytest\nfrom engine import train, train_one_epoch\n\ntrain()\ntrain_one_epoch()\n"
    engine = f"{ENGINE}\n\ndef train():\n    for epoch in range(3):\n        train_one_epoch()\n"
    path = write(tmp_path, {"engine": engine, "test_engine": test}) / "engine.py"
    assert choices_after(path, "range(3)", "range(4)") == 0
    assert choices_after(path, "        train_one_epoch()", "        pass") == 1


def choices_after(path: Path, edit: str, by: str) -> int:
    """How many times pieces are chosen for a file in which a text is replaced."""
    text = path.read_text()
    assert edit in text
    diagnostics(path, {})
    with mock.patch("torchlint.project.chosen.Choice", wraps=Choice) as choice:
        diagnostics(path, {str(path): text.replace(edit, by)})
    return choice.call_count


def test_nothing_is_kept_of_texts_that_are_gone(folder: Path) -> None:
    path = folder / "main.py"
    counts = []
    gc.disable()  # as the server does while there is work
    try:
        for edits in (20, 100):
            for index in range(edits):
                text = f"import module_{edits}_{index // 10}\n{path.read_text()}"
                diagnostics(path, {str(path): text.replace("epoch", f"epoch_{edits}_{index}")})
            found = [type(item) for item in gc.get_objects()]
            counts.append([sum(issubclass(each, kind) for each in found) for kind in (cst.CSTNode, Scope, Project)])
    finally:
        gc.enable()
    assert all(after < 1.1 * before for before, after in zip(*counts, strict=True))


def test_the_tables_of_files_that_change_are_those_of_a_new_tree() -> None:
    random = Random(1)
    texts = {name: f"{text}\n\ndef named(*, {name}=1): pass\n" for name, text in FILES.items()}
    parsed = [pieces.parse_pieces(text, f"{name} {copy}") for name, text in texts.items() for copy in range(2)]
    roots = [put_together(found) for found in parsed]
    tree = Tree([])
    for _ in range(60):
        before = list(tree.roots)
        first, stop = sorted(random.choices(range(len(before) + 1), k=2))
        others = [root for root in roots if root not in before]
        wanted = [*before[:first], *random.sample(others, min(len(others), random.randrange(3))), *before[stop:]]
        tree.change_to(wanted)
        assert contents(tree) == contents(Tree(wanted))


def test_the_tree_of_an_edited_text_is_that_of_a_fresh_parse() -> None:
    random = Random(2)
    reused = 0
    rows = [
        "x = 1; y = 2",
        "z = 3; \\",
        "@property",
        "@(",
        "prop)",
        "def f(): x",
        "# é",
        "'é' + x",
        "  # deep",
        "'''",
        "else: (",
        "",
        "if x:",
        "  y",
    ]
    for _ in range(3000):
        before = random.choice([*FILES.values(), "\n".join(random.choices(rows, k=8)) + "\n"])
        text = edited(before, random) if random.random() < 0.5 and before in FILES.values() else before
        lines = text.split("\n")
        for _ in range(random.randrange(3)):
            lines[random.randrange(len(lines))] = random.choice([*rows, *lines])
        text = "\n".join(lines)
        try:
            tree = ast.parse(before)
        except SyntaxError:
            continue
        found = edited_tree(text, before, tree)
        if found is not None:
            assert ast.dump(found, include_attributes=True) == ast.dump(ast.parse(text), include_attributes=True)
            reused += not {*found.body}.isdisjoint(tree.body)
    assert reused > 200


def contents(tree: Tree) -> object:
    """All tables of a tree, with bindings and scopes as what they contain."""
    bindings = [
        (scope.node, name, [(item.kind, item.node, item.order) for item in bound])
        for scope in tree.scopes.values()
        for table in (scope.bindings, scope.attributes)
        for name, bound in table.items()
    ]
    return (
        tree.roots,
        tree.nodes,
        [(tree.index(node), tree.last(node), tree.parent(node), tree.root_of(node)) for node in tree.nodes],
        [tree.scope_of(node).node for node in tree.nodes],
        bindings,
        {kind: items for kind, items in tree._by_kind.items() if items},
        [tree.loops, tree.imports, tree.stores, tree.stored],
        [list(found.items()) for found in (tree.names, tree.calls_by_name, tree.attributes_by_name, tree.keywords)],
        [tree.words_of(root) for root in tree.roots],
        [(scope.node, name) for scope, name in tree.imported_names],
    )
