"""A folder for the import path of a user's script, from which Python runs hooks when it starts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from torchlint.injection import hooks


def fill(folder: Path, script: Path, helpers: Sequence[Path] = ()) -> None:
    """Copy a script to a folder as ``sitecustomize``, and files that it imports as ``torchlint_<name>``."""
    folder.mkdir(exist_ok=True)
    shutil.copyfile(script, folder / "sitecustomize.py")
    for helper in (Path(hooks.__file__), *helpers):
        shutil.copyfile(helper, folder / f"torchlint_{helper.name}")


def import_path(folder: Path, others: str) -> str:
    """The value of ``PYTHONPATH`` with a folder before the others."""
    return os.pathsep.join(filter(None, (str(folder), others)))
