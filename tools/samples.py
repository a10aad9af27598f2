"""The sample outputs in the handwritten pages: each is what its command prints today.

A sample is a ``console`` block whose commands begin with ``$ torchlint`` or ``$ flake8``, or a ``diff`` block below a
comment such as ``<!-- torchlint --diff examples -->``, which the rendered page does not show. With ``changed lines
of:`` before the command, the block contains only the lines that the diff removes and adds.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .terminal import ROOT, is_known, output_of

_CONSOLE = re.compile(r"(?<=^```console\n)\$ .*?(?=^```$)", re.DOTALL | re.MULTILINE)
_DIFF = re.compile(r"(?<=^<!-- )(changed lines of: )?(torchlint .*?)( -->\n\n?```diff\n).*?(?=^```$)", re.S | re.M)
#: The folder that a page shows in place of the temporary one.
_SHOWN_FOLDER = "/home/you/project"


@dataclass(frozen=True)
class Scene:
    """Where the commands of a page run: in the repository, or in a folder that ``fill`` fills from the page."""

    width: int = 100
    fill: Callable[[Path, str], None] | None = None
    before: Mapping[str, Callable[[Path], None]] = field(default_factory=dict)  #: what happens before a command


def _train_file(folder: Path, page: str) -> None:
    """The page's own example, ``train.py``."""
    code = re.search(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert code is not None
    (folder / "train.py").write_text(code[1], encoding="utf-8")


def _programs(folder: Path, page: str) -> None:
    """Two programs before their fixes: code that was never checked."""
    for name in ("dcgan", "detection_evaluation"):
        program = ROOT / "validation" / "programs" / name / "before.py"
        (folder / f"{name}.py").write_bytes(program.read_bytes())


def _name_baseline(folder: Path) -> None:
    """Settings that name a baseline."""
    (folder / "torchlint.toml").write_text('baseline = "torchlint-baseline.json"\n', encoding="utf-8")


def _notebook(folder: Path, page: str) -> None:
    """The files of ``examples/`` as the cells of a notebook."""
    empty: dict[str, object] = {"metadata": {}, "execution_count": None, "outputs": []}
    cells: list[dict[str, object]] = [{"cell_type": "markdown", "metadata": {}, "source": ["# A classifier of photos"]}]
    for name in ("data", "engine", "train"):
        text = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
        text = re.sub(r'\A""".*?"""\n\n|^from (data|engine) import .*\n', "", text, flags=re.MULTILINE)
        cells.append({"cell_type": "code", "source": text.splitlines(keepends=True), **empty})
    content = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    (folder / "train.ipynb").write_text(json.dumps(content, indent=1), encoding="utf-8")


#: The pages with samples.
SCENES = {
    "README.md": Scene(),
    "docs/adopting.md": Scene(fill=_programs, before={"torchlint --update-baseline": _name_baseline}),
    "docs/ci.md": Scene(width=80, fill=_train_file),
    "docs/flake8.md": Scene(),
    "docs/index.md": Scene(width=96),
    "docs/notebooks.md": Scene(fill=_notebook),
}


def refreshed(page: str) -> str:
    """The text of a page with today's output in its samples. ``page`` is relative to the repository."""
    text = (ROOT / page).read_text(encoding="utf-8")
    scene = SCENES[page]
    if scene.fill is None:
        return _with_outputs(text, ROOT, scene)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        scene.fill(folder, text)
        return _with_outputs(text, folder, scene)


def _with_outputs(text: str, folder: Path, scene: Scene) -> str:
    """The text with the samples' outputs; the commands run in the order of the page."""

    def printed(command: str, *, messages: bool = False) -> str:
        if command in scene.before:
            scene.before[command](folder)
        output = output_of(command, folder, scene.width, messages=messages)
        return output.replace(str(folder), _SHOWN_FOLDER) if folder != ROOT else output

    def console(match: re.Match[str]) -> str:
        commands = re.findall(r"^\$ (.*)$", match[0], re.MULTILINE)
        if not all(map(is_known, commands)):
            return match[0]
        return "".join(f"$ {command}\n{printed(command, messages=True)}".rstrip() + "\n" for command in commands)

    def diff(match: re.Match[str]) -> str:
        lines = printed(match[2]).splitlines()
        if match[1]:
            lines = [line for line in lines if re.match(r"[-+](?![-+]{2} )", line)]
        return "".join([match[1] or "", match[2], match[3], *(f"{line}\n" for line in lines)])

    return _DIFF.sub(diff, _CONSOLE.sub(console, text))
