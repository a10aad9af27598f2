"""The parsers of what torchlint reads, each with what must hold of any bytes: for hypothesis and for atheris alike."""

from __future__ import annotations

import codecs
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchlint.findings.baseline import BaselineError, load
from torchlint.findings.conflicts import edits_of, without_conflicts
from torchlint.findings.suppressions import find_suppressions, suppress
from torchlint.project.configs import Configs
from torchlint.settings.layers import SettingsError
from torchlint.settings.requirements import stated_in
from torchlint.settings.resolver import Resolver
from torchlint.settings.torch_versions import oldest_torch
from torchlint.source import reading
from torchlint.source.ipynb import code_cells, with_cells
from torchlint.source.magics import mask
from torchlint.source.parsing import compiles
from torchlint.source.source import Source, SourceError


@dataclass(frozen=True)
class Target:
    """A parser: what is asked of it, what it may raise, and the beginnings of interesting inputs."""

    name: str
    ask: Callable[[bytes], None]  #: raises AssertionError where something does not hold
    allowed: tuple[type[Exception], ...]
    seeds: Sequence[bytes]

    def holds(self, data: bytes) -> None:
        """Ask. What is raised, but for what may be, is a defect."""
        try:
            self.ask(data)
        except self.allowed as error:
            assert str(error).strip() and "\n" not in str(error), "an error is one line for the user"


def _decoding(data: bytes) -> None:
    source = Source.decoded(data, "a.py")
    assert source.text == data.removeprefix(codecs.BOM_UTF8).decode(source.encoding)
    if source.encoding in ("utf-8", "ascii", "iso8859-1", "cp1252"):  # others have two ways to write a character
        assert source.to_bytes() == data
    for offset in range(0, len(source.text) + 1, 7):
        assert source.offset(*source.location(offset)) == offset


def _suppressions(data: bytes) -> None:
    source = Source.from_text(data.decode("utf-8", "replace"), "a.py")
    found = list(find_suppressions(source))
    for one in found:
        assert source.text[one.start] == "#" and one.start < one.end
        assert [source.text[slice(*span)].upper() for span in one.spans] == list(one.codes)
    codes = {code for one in found for code in one.codes}
    unused = without_conflicts(suppress(source, [], codes, report_unused=True), len(source.text))
    after = source.edited(edits_of(unused))
    assert compiles(after.text) or not compiles(source.text)


def _notebook(data: bytes) -> None:
    source = reading.from_bytes(data, "a.ipynb")
    assert source.to_bytes() == data
    document = data.decode("utf-8-sig")
    cells = dict(code_cells(document))
    if cells:
        changed = {**cells, min(cells): cells[min(cells)] + "\n# é\u2028 end"}
        assert dict(code_cells(with_cells(document, changed))) == changed
    for cell in source.cells:
        assert source.position(cell.start).cell == cell.index


def _magics(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    masked = mask(text)
    assert len(masked.code) == len(text)
    assert [i for i, one in enumerate(masked.code) if one in "\r\n"] == [
        i for i, one in enumerate(text) if one in "\r\n"
    ]


def _in_folder(names: Sequence[str], ask: Callable[[str], None]) -> Callable[[bytes], None]:
    """Write the bytes to files of a folder that is gone afterwards, and ask about the folder."""

    def asked(data: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for name in names:
                Path(folder, name).write_bytes(data)
            ask(folder)

    return asked


def _settings(folder: str) -> None:
    Resolver().for_folder(folder)


def _baseline(folder: str) -> None:
    load(str(Path(folder, "b.json")))


def _requirements(folder: str) -> None:
    oldest_torch(stated_in(folder, {}))


def _configs(folder: str) -> None:
    configs = Configs(folder, ["a.yaml", "b.json"])
    for key in ("num_workers", "pin_memory", "a", "[", ""):
        configs.values(key)


_CELL = b'{"cells": [{"cell_type": "code", "source": ["import torch\\n", "x = 1"], "metadata": {}}], "metadata": {}}'
_TOML = (
    b'[tool.torchlint]\nselect = ["TL1"]\nignore = ["ALL"]\ntarget-torch = "2.1"\ntimeout = 1.5\nexclude = ["a/**"]\n'
)

TARGETS = (
    Target(
        "decoding", _decoding, (SourceError,), (b"# coding: latin-1\nx\n", b"\xef\xbb\xbfx", b"\n# -*- coding: utf-7\n")
    ),
    Target("suppressions", _suppressions, (), (b"x = 1  # noqa: TL101, TL204 because\n", b"# torchlint: noqa: TL1\n")),
    Target("notebook", _notebook, (SourceError,), (_CELL, b'{"cells": [], "metadata": {}}', b'{"worksheets": []}')),
    Target("magics", _magics, (), (b"%%time\nx = 1\n", b"!ls\n%time x = f(1)\nx = !ls\nf?\n", b"%%bash\nls\n")),
    Target(
        "settings",
        _in_folder(["pyproject.toml"], _settings),
        (SettingsError,),
        (
            _TOML,
            b'[project]\ndependencies = ["torch>=2.1,<3"]\n',
            b'[tool.poetry.dependencies]\ntorch = "^2.1"\n',
            b'[tool.torchlint]\nextend = "pyproject.toml"\n',
        ),
    ),
    Target(
        "torchlint.toml",
        _in_folder(["torchlint.toml"], _settings),
        (SettingsError,),
        (
            _TOML.partition(b"\n")[2],
            b'[rules.single-process-dataloader]\nnum-workers = "4"\n',
            b'baseline = "a.json"\n',
        ),
    ),
    Target(
        "requirements",
        _in_folder(["requirements.txt", "setup.cfg", "setup.py", "environment.yml"], _requirements),
        (),
        (
            b"torch>=1.13,<2.0\n",
            b"[options]\ninstall_requires =\n  torch~=2.1\n",
            b"setup(install_requires=['torch==2'])",
            b"dependencies:\n  - pytorch::pytorch=2.1=py3_0\n",
        ),
    ),
    Target("configs", _in_folder(["a.yaml", "b.json"], _configs), (), (b"num_workers: 4 # x\n", b'{"num_workers": 4}')),
    Target(
        "baseline",
        _in_folder(["b.json"], _baseline),
        (BaselineError,),
        (b'{"version": 1, "findings": {"a.py": [{"code": "TL101", "fingerprint": "1", "line": "x"}]}}',),
    ),
)
