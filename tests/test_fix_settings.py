"""Which fixes are offered, and which of them count as safe, as the settings say."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import torchlint
from torchlint.findings.diagnostic import Diagnostic
from torchlint.settings.layers import layer_of
from torchlint.settings.resolver import Resolver

RunTorchlint = Callable[..., "subprocess.CompletedProcess[str]"]

TEXT = "x = LOUD, RISKY\n"  # a safe fix of ZZ101, an unsafe one of ZZ102


def fixes(*layers: dict[str, Any]) -> dict[str, str]:
    """The applicability of the fixes that are offered, by the code of their rules."""
    plugins = {"plugins": ["demo_pack"], "select": ["ZZ1"]}
    made = [layer_of({**plugins, **layers[0]}, "a.toml", "/"), *(layer_of(more, "b.toml", "/") for more in layers[1:])]
    found: list[Diagnostic] = torchlint.check_text(TEXT, settings=Resolver(made, isolated=True).for_folder("/"))
    assert [one.code for one in found] == ["ZZ101", "ZZ102"]
    return {one.code: one.fix.applicability.value for one in found if one.fix is not None}


ALL = {"ZZ101": "safe", "ZZ102": "unsafe"}
LOUD = {"ZZ101": "safe"}


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ([{}], ALL),
        ([{"unfixable": ["ZZ102"]}], LOUD),
        ([{"unfixable": ["ZZ"]}], {}),
        ([{"fixable": []}], {}),
        ([{"fixable": ["loud-word"]}], LOUD),
        ([{"fixable": ["ZZ101"], "unfixable": ["ZZ1"]}], LOUD),
        ([{"fixable": ["ZZ1"], "unfixable": ["ZZ102"]}], LOUD),
        ([{"fixable": ["TL1"], "extend-fixable": ["ZZ101"]}], LOUD),
        ([{"fixable": ["TL1"]}, {"fixable": ["ZZ101"]}], LOUD),
        ([{"unfixable": ["ZZ102"]}, {"fixable": ["ALL"]}], LOUD),
        ([{"unfixable": ["ZZ102"]}, {"extend-fixable": ["ZZ102"]}], ALL),
        ([{"extend-safe-fixes": ["ZZ102"]}], {"ZZ101": "safe", "ZZ102": "safe"}),
        ([{"extend-unsafe-fixes": ["ZZ"]}], {"ZZ101": "unsafe", "ZZ102": "unsafe"}),
        ([{"extend-safe-fixes": ["ZZ102"], "extend-unsafe-fixes": ["ZZ1"]}], {"ZZ101": "unsafe", "ZZ102": "safe"}),
        ([{"extend-safe-fixes": ["ZZ1"], "extend-unsafe-fixes": ["ZZ1"]}], {"ZZ101": "unsafe", "ZZ102": "unsafe"}),
    ],
)
def test_the_more_specific_setting_takes_precedence(layers: list[dict[str, Any]], expected: dict[str, str]) -> None:
    assert fixes(*layers) == expected


def test_options_and_the_summary(project: Path, torchlint_in: RunTorchlint) -> None:
    path = project / "a.py"
    path.write_text(TEXT)
    done = torchlint_in(project, "--unfixable", "ZZ101", "--output-format", "concise")
    assert done.stdout.splitlines()[0] == "a.py:1:5: ZZ101 loud-word: LOUD is found"
    assert done.stdout.splitlines()[-1].endswith("; 1 fixable with --fix --unsafe-fixes.")
    torchlint_in(project, "--fix", "--unsafe-fixes", "--fixable", "ZZ102")
    assert path.read_text() == "x = LOUD, risky\n"
    torchlint_in(project, "--fix", "--fixable", "TL1", "--extend-fixable", "loud-word")
    assert path.read_text() == "x = loud, risky\n"
    assert "unknown rule 'ZZ9'" in torchlint_in(project, "--unfixable", "ZZ9").stderr
