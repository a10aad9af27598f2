"""Hooks that scripts of `torchlint.injection.folder` import as ``torchlint_hooks``.

It imports nothing of torchlint, which the interpreter of the user's script need not have.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    Action = Callable[[ModuleType], None]


class AfterImport:
    """Finds modules like the other finders do, and calls a function with each of some once it has been imported."""

    def __init__(self, actions: dict[str, Action]) -> None:
        """`actions` are the functions by the names of the modules."""
        self._actions = actions

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec that the other finders give, with a loader that calls the function."""
        action = self._actions.pop(name, None)
        if action is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            action(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def call_after_import(actions: dict[str, Action]) -> None:
    """Call functions with modules once they have been imported."""
    sys.meta_path.insert(0, AfterImport(actions))


def run_hidden_sitecustomize() -> None:
    """Run the ``sitecustomize`` of the user, which the one next to this file hides, if there is one."""
    own = os.path.dirname(os.path.abspath(__file__))
    others = [folder for folder in sys.path if os.path.abspath(folder or ".") != own]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def end_with_parent() -> None:
    """Let the system end this process when its parent ends, killed or not; only Linux can (prctl(2))."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
